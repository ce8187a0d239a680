//! New contents of a prefix. A server cannot rename, so the contents are written directly to their
//! final keys. Zarr's documents, which make them readable, are written last.
//!
//! If the prefix is not empty, up to [`GATHERED`] parts are kept in memory, so that the old
//! contents stay until the new ones are complete. If there is more, the old contents are deleted
//! first.

use crate::store::RemoteStore;
use bytes::Bytes;
use hyperslab_store::fork::Mutex;
use hyperslab_store::{
    Ask, Begun, Cost, Entry, Facts, Key, Many, MemoryStore, Opened, Opening, RangeRead, Result, Staged,
    Store, StoreError, turn, waiting,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Bytes kept in memory while the old contents stay, in multiples of a part: 64 MiB.
const GATHERED: u64 = 4;

/// Objects without which a hierarchy cannot be opened.
const DOCUMENTS: [&str; 5] = ["zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"];

/// Name of a turn, never of an object.
const BEGINNING: &str = ".begin.zarr.json";

/// New contents under construction.
#[derive(Debug)]
pub(crate) struct Staging {
    new: Arc<New>,
    /// True if a listing showed nothing at the prefix.
    free: bool,
    committed: bool,
}

/// The new contents as their writer sees them.
#[derive(Debug)]
struct New {
    target: RemoteStore,
    prefix: Option<String>,
    /// Documents and other objects that have not been sent yet.
    unsent: MemoryStore,
    bytes: AtomicU64,
    /// True if objects other than documents go straight to the server.
    direct: AtomicBool,
    /// Hashes of the keys of sent objects, and their bytes. The server need not be asked for others.
    sent: Mutex<HashMap<u64, u64>>,
    /// True if prefixes were deleted: some of the objects above no longer exist.
    is_thinned: AtomicBool,
}

impl Staging {
    pub(crate) fn new(target: &RemoteStore, prefix: Option<Key<'_>>) -> Result<Self> {
        let free = target.list_dir(prefix)?.is_empty();
        let new = New {
            target: target.clone(),
            prefix: prefix.map(|prefix| prefix.as_str().to_owned()),
            unsent: MemoryStore::new(),
            bytes: AtomicU64::new(0),
            direct: AtomicBool::new(free),
            sent: Mutex::default(),
            is_thinned: AtomicBool::new(false),
        };
        Ok(Staging { new: Arc::new(new), free, committed: false })
    }

    /// Sends everything held. With `only_new`, returns `false` if the prefix is not empty.
    fn finish(&mut self, only_new: bool) -> Result<bool> {
        let new = &self.new;
        if !new.direct.load(Acquire) {
            if only_new {
                // The prefix was not empty at the start.
                return Ok(false);
            }
            new.remove_old()?;
        }
        let keys = new.unsent.list(None)?;
        let (inner, outer): (Vec<_>, Vec<_>) = keys.into_iter().partition(|key| key.contains('/'));
        new.send(&inner)?;
        if only_new && let Some((last, others)) = outer.split_last() {
            new.send(others)?;
            let (key, bytes) = (new.key(last)?, new.taken(last)?);
            if !new.target.write_new(Key::new(&key)?, &[&bytes])? {
                // The contents there belong to somebody else now.
                self.committed = true;
                return Ok(false);
            }
        } else {
            new.send(&outer)?;
        }
        self.committed = true;
        Ok(true)
    }
}

impl Staged for Staging {
    fn store(&self) -> Arc<dyn Store> {
        self.new.clone()
    }

    fn began_empty(&self) -> Option<bool> {
        Some(self.free)
    }

    fn bytes_written(&self) -> Option<u64> {
        let new = &self.new;
        if new.is_thinned.load(Relaxed) {
            return None;
        }
        let held = new.unsent.list_sizes(None, None).ok()?;
        let held = held.iter().filter(|(key, _)| !is_document(key)).map(|(_, size)| *size);
        Some(held.sum::<u64>() + new.sent.lock().values().sum::<u64>())
    }

    fn commit(mut self: Box<Self>, ask: Option<Ask<'_>>) -> Result<()> {
        match ask {
            Some(ask) => waiting::with_ask(ask, || self.finish(false)),
            None => self.finish(false),
        }
        .map(drop)
    }

    fn commit_new(mut self: Box<Self>) -> Result<bool> {
        self.finish(true)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let new = &self.new;
        if self.committed || !new.direct.load(Acquire) || new.bytes.load(Relaxed) == 0 {
            return;
        }
        // Nobody reads contents without documents, but they take up space. If there are documents,
        // somebody else has written them.
        let prefix = new.prefix.as_deref().map(Key::new).transpose();
        let entries = prefix.and_then(|prefix| Ok((prefix, new.target.list_dir(prefix)?)));
        if let Ok((prefix, entries)) = entries
            && !entries.iter().any(|entry| is_document(&entry.name))
        {
            let _ = new.target.delete_prefix(prefix);
            for entry in entries.iter().filter(|entry| !entry.is_prefix) {
                let _ = new.key(&entry.name).and_then(|key| new.target.delete(Key::new(&key)?));
            }
        }
    }
}

fn is_document(key: &str) -> bool {
    key.rsplit('/').next().is_some_and(|name| DOCUMENTS.contains(&name))
}

fn hash(key: Key<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.as_str().hash(&mut hasher);
    hasher.finish()
}

impl New {
    /// The key of an object on the server.
    fn key(&self, key: &str) -> Result<String> {
        let key = match &self.prefix {
            Some(prefix) => format!("{prefix}/{key}"),
            None => key.to_owned(),
        };
        Key::new(&key)?;
        Ok(key)
    }

    /// The key of a prefix on the server.
    fn prefix(&self, prefix: Option<Key<'_>>) -> Result<Option<String>> {
        prefix.map_or_else(|| Ok(self.prefix.clone()), |prefix| self.key(prefix.as_str()).map(Some))
    }

    /// The key here of an object on the server.
    fn own_key(&self, key: &str) -> Option<String> {
        let start = self.prefix.as_ref().map_or(0, |prefix| prefix.len() + 1);
        key.get(start..).map(str::to_owned)
    }

    /// Counts objects as empty. They stay in the list: the answer to a deletion may have been lost.
    fn note_deleted(&self, keys: &[Key<'_>]) {
        let mut sent = self.sent.lock();
        for key in keys {
            sent.entry(hash(*key)).and_modify(|bytes| *bytes = 0);
        }
    }

    fn is_direct(&self) -> bool {
        self.direct.load(Acquire)
    }

    /// Returns whether an object may be on the server.
    fn is_sent(&self, key: Key<'_>) -> bool {
        self.is_direct() && self.sent.lock().contains_key(&hash(key))
    }

    /// Returns whether an object of `len` bytes goes straight to the server.
    ///
    /// Once too much is held, sends the held objects first.
    fn goes_on(&self, key: Key<'_>, len: u64) -> Result<bool> {
        if is_document(key.as_str()) {
            return Ok(false);
        }
        let all = self.bytes.fetch_add(len, Relaxed).saturating_add(len);
        if self.is_direct() {
            return Ok(true);
        }
        if all <= self.target.settings().part.saturating_mul(GATHERED) {
            return Ok(false);
        }
        let name = self.key(BEGINNING)?;
        let _turn = turn(&self.target, Key::new(&name)?, None)?;
        if !self.is_direct() {
            self.remove_old()?;
            let mut keys = self.unsent.list(None)?;
            keys.retain(|key| !is_document(key));
            self.send(&keys)?;
            self.direct.store(true, Release);
        }
        Ok(true)
    }

    /// Removes the old contents. Documents go first, so that the rest is not read as an array.
    fn remove_old(&self) -> Result<()> {
        let prefix = self.prefix.as_deref().map(Key::new).transpose()?;
        let entries = self.target.list_dir(prefix)?;
        let objects = entries.iter().filter(|entry| !entry.is_prefix);
        let names = objects.map(|entry| self.key(&entry.name)).collect::<Result<Vec<_>>>()?;
        let keys = names.iter().map(|name| Key::new(name)).collect::<Result<Vec<_>, StoreError>>()?;
        self.target.delete_all(&keys, None)?;
        self.target.delete_prefix(prefix)
    }

    fn taken(&self, key: &str) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let key = Key::new(key)?;
        self.unsent.read_all(key, &mut bytes, usize::MAX)?;
        self.unsent.delete(key)?;
        Ok(bytes)
    }

    /// Sends held objects, many at once.
    fn send(&self, keys: &[String]) -> Result<()> {
        let objects = keys.iter().map(|key| {
            let name = self.key(key)?;
            let bytes = self.taken(key)?;
            self.sent.lock().insert(hash(Key::new(key)?), bytes.len() as u64);
            Ok((self.target.path(Key::new(&name)?)?, Bytes::from(bytes)))
        });
        self.target.put_many(objects.collect::<Result<_>>()?)
    }
}

impl Store for New {
    fn read_ranges(&self, key: Key<'_>, size: Option<u64>, ranges: &mut [RangeRead<'_>]) -> Result<bool> {
        if self.unsent.read_ranges(key, size, ranges)? {
            return Ok(true);
        }
        Ok(self.is_sent(key) && self.target.read_ranges(Key::new(&self.key(key.as_str())?)?, size, ranges)?)
    }

    fn open<'s>(&'s self, key: Key<'_>, size: Option<u64>) -> Result<Option<Box<dyn Opened + 's>>> {
        match self.unsent.open(key, size)? {
            None if self.is_sent(key) => self.target.open(Key::new(&self.key(key.as_str())?)?, size),
            opened => Ok(opened),
        }
    }

    fn read_all(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> Result<bool> {
        if self.unsent.read_all(key, buf, limit)? {
            return Ok(true);
        }
        Ok(self.is_sent(key) && self.target.read_all(Key::new(&self.key(key.as_str())?)?, buf, limit)?)
    }

    fn size(&self, key: Key<'_>) -> Result<Option<u64>> {
        match self.unsent.size(key)? {
            None if self.is_sent(key) => self.target.size(Key::new(&self.key(key.as_str())?)?),
            size => Ok(size),
        }
    }

    fn write(&self, key: Key<'_>, parts: &[&[u8]]) -> Result<()> {
        let len = parts.iter().map(|part| part.len() as u64).sum();
        if self.goes_on(key, len)? {
            self.unsent.delete(key)?;
            self.sent.lock().insert(hash(key), len);
            return self.target.write(Key::new(&self.key(key.as_str())?)?, parts);
        }
        self.unsent.write(key, parts)
    }

    fn delete(&self, key: Key<'_>) -> Result<bool> {
        let held = self.unsent.delete(key)?;
        let sent = self.is_sent(key) && self.target.delete(Key::new(&self.key(key.as_str())?)?)?;
        self.note_deleted(&[key]);
        Ok(held || sent)
    }

    fn delete_all(&self, keys: &[Key<'_>], ask: Option<Ask<'_>>) -> Result<()> {
        self.unsent.delete_all(keys, ask)?;
        let sent = keys.iter().filter(|key| self.is_sent(**key)).map(|key| self.key(key.as_str()));
        let sent = sent.collect::<Result<Vec<_>>>()?;
        let sent = sent.iter().map(|key| Key::new(key)).collect::<Result<Vec<_>, StoreError>>()?;
        self.target.delete_all(&sent, ask)?;
        self.note_deleted(keys);
        Ok(())
    }

    fn delete_prefix(&self, prefix: Option<Key<'_>>) -> Result<()> {
        self.unsent.delete_prefix(prefix)?;
        if self.is_direct() {
            self.is_thinned.store(true, Relaxed);
            let prefix = self.prefix(prefix)?;
            self.target.delete_prefix(prefix.as_deref().map(Key::new).transpose()?)?;
        }
        Ok(())
    }

    fn list_dir(&self, prefix: Option<Key<'_>>) -> Result<Vec<Entry>> {
        let mut entries: BTreeSet<Entry> = self.unsent.list_dir(prefix)?.into_iter().collect();
        if self.is_direct() {
            let prefix = self.prefix(prefix)?;
            entries.extend(self.target.list_dir(prefix.as_deref().map(Key::new).transpose()?)?);
        }
        Ok(entries.into_iter().collect())
    }

    fn list(&self, prefix: Option<Key<'_>>) -> Result<Vec<String>> {
        let mut keys: BTreeSet<String> = self.unsent.list(prefix)?.into_iter().collect();
        if self.is_direct() {
            let below = self.prefix(prefix)?;
            let sent = self.target.list(below.as_deref().map(Key::new).transpose()?)?;
            keys.extend(sent.iter().filter_map(|key| self.own_key(key)));
        }
        Ok(keys.into_iter().collect())
    }

    fn lock_id(&self, key: Key<'_>) -> u64 {
        self.unsent.lock_id(key)
    }

    fn cost(&self) -> Cost {
        self.target.cost()
    }

    fn facts(&self) -> Facts {
        Facts { waits: self.target.facts().waits, ..Facts::default() }
    }

    fn many(&self) -> Option<&dyn Many> {
        Some(self)
    }

    fn url(&self) -> String {
        match &self.prefix {
            Some(prefix) => format!("{}/{prefix}", self.target.url()),
            None => self.target.url(),
        }
    }
}

impl Many for New {
    fn begin<'s>(&'s self, wanted: &[Opening<'_>]) -> Vec<Box<dyn Begun<'s> + 's>> {
        let begin = |Opening { key, next }: &Opening<'_>| -> Box<dyn Begun<'s> + 's> {
            match self.unsent.open(*key, None) {
                Ok(None) if self.is_sent(*key) => self.target.begin_one(self.key(key.as_str()), *next),
                opened => Box::new(move || opened),
            }
        };
        wanted.iter().map(begin).collect()
    }

    fn list_sizes(&self, prefix: Option<Key<'_>>, ask: Option<Ask<'_>>) -> Result<Vec<(String, u64)>> {
        let mut found: BTreeMap<String, u64> = self.unsent.list_sizes(prefix, ask)?.into_iter().collect();
        if self.is_direct() {
            let below = self.prefix(prefix)?;
            let sent = self.target.list_sizes(below.as_deref().map(Key::new).transpose()?, ask)?;
            found.extend(sent.iter().filter_map(|(key, size)| Some((self.own_key(key)?, *size))));
        }
        Ok(found.into_iter().collect())
    }
}
