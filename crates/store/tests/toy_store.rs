//! A toy: everything that a new store needs, and the test that it is right.

use hyperslab_store::{Entry, Key, Opened, Operation, RangeRead, Result, Store, StoreError, contract};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::ErrorKind;
use std::sync::{Arc, Mutex};

/// Objects in a map. A real store would ask a database or a server here.
#[derive(Debug, Default)]
struct ToyStore {
    objects: Mutex<BTreeMap<String, Arc<[u8]>>>,
}

/// An object that was looked up once: later replacements do not change it.
#[derive(Debug)]
struct OpenToy<'s> {
    store: &'s ToyStore,
    key: String,
    bytes: Arc<[u8]>,
}

impl Opened for OpenToy<'_> {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_ranges(&self, ranges: &mut [RangeRead<'_>]) -> Result<()> {
        // Empty ranges only ask whether the object exists.
        for RangeRead { offset, buf } in ranges.iter_mut().filter(|range| !range.buf.is_empty()) {
            let start = usize::try_from(*offset).unwrap_or(usize::MAX);
            let Some(found) = self.bytes.get(start..start.saturating_add(buf.len())) else {
                let (key, url) = (self.key.clone(), self.store.url());
                let (offset, len, size) = (*offset, buf.len() as u64, self.size());
                return Err(StoreError::OutOfRange { key, url, offset, len, size });
            };
            buf.copy_from_slice(found);
        }
        Ok(())
    }
}

impl ToyStore {
    /// Looks an object up. Fails if it does not have the expected size.
    fn find(&self, key: Key<'_>, size: Option<u64>) -> Result<Option<OpenToy<'_>>> {
        let Some(bytes) = self.objects.lock().unwrap().get(key.as_str()).cloned() else { return Ok(None) };
        let (key, found) = (key.as_str().to_owned(), bytes.len() as u64);
        if let Some(expected) = size.filter(|size| *size != found) {
            return Err(StoreError::WrongSize { key, url: self.url(), expected, found });
        }
        Ok(Some(OpenToy { store: self, key, bytes }))
    }
}

impl Store for ToyStore {
    fn url(&self) -> String {
        format!("toy://{:p}", &raw const self.objects)
    }

    fn lock_id(&self, key: Key<'_>) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.url(), key.as_str()).hash(&mut hasher);
        hasher.finish()
    }

    fn size(&self, key: Key<'_>) -> Result<Option<u64>> {
        Ok(self.find(key, None)?.map(|opened| opened.size()))
    }

    fn open<'s>(&'s self, key: Key<'_>, size: Option<u64>) -> Result<Option<Box<dyn Opened + 's>>> {
        Ok(self.find(key, size)?.map(|opened| Box::new(opened) as Box<dyn Opened + 's>))
    }

    fn read_ranges(&self, key: Key<'_>, size: Option<u64>, ranges: &mut [RangeRead<'_>]) -> Result<bool> {
        let Some(opened) = self.find(key, size)? else { return Ok(false) };
        opened.read_ranges(ranges)?;
        Ok(true)
    }

    fn read_all(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> Result<bool> {
        buf.clear();
        let Some(OpenToy { key, bytes, .. }) = self.find(key, None)? else { return Ok(false) };
        if bytes.len() > limit {
            return Err(StoreError::TooLarge { key, url: self.url(), limit: limit as u64 });
        }
        // Exactly: the caller bounds its memory by `limit`.
        buf.reserve_exact(bytes.len());
        buf.extend_from_slice(&bytes);
        Ok(true)
    }

    fn write(&self, key: Key<'_>, parts: &[&[u8]]) -> Result<()> {
        let mut objects = self.objects.lock().unwrap();
        let error = |source: ErrorKind| StoreError::Io {
            operation: Operation::Write,
            key: key.as_str().to_owned(),
            url: self.url(),
            source: source.into(),
        };
        // As in a directory, a name is either an object or a prefix.
        let above = key.as_str().match_indices('/').map(|(end, _)| &key.as_str()[..end]);
        if above.into_iter().any(|name| objects.contains_key(name)) {
            return Err(error(ErrorKind::NotADirectory));
        }
        let below = format!("{key}/");
        if objects.keys().any(|name| name.starts_with(&below)) {
            return Err(error(ErrorKind::IsADirectory));
        }
        objects.insert(key.as_str().to_owned(), parts.concat().into());
        Ok(())
    }

    fn delete(&self, key: Key<'_>) -> Result<bool> {
        Ok(self.objects.lock().unwrap().remove(key.as_str()).is_some())
    }

    fn delete_prefix(&self, prefix: Option<Key<'_>>) -> Result<()> {
        for key in self.list(prefix)? {
            self.delete(Key::new(&key)?)?;
        }
        Ok(())
    }

    fn list(&self, prefix: Option<Key<'_>>) -> Result<Vec<String>> {
        let start = prefix.map_or_else(String::new, |prefix| format!("{prefix}/"));
        let objects = self.objects.lock().unwrap();
        Ok(objects.keys().filter(|key| key.starts_with(&start)).cloned().collect())
    }

    fn list_dir(&self, prefix: Option<Key<'_>>) -> Result<Vec<Entry>> {
        let skip = prefix.map_or(0, |prefix| prefix.as_str().len() + 1);
        let children: BTreeSet<Entry> = self
            .list(prefix)?
            .iter()
            .map(|key| match key[skip..].split_once('/') {
                None => Entry { name: key[skip..].to_owned(), is_prefix: false },
                Some((name, _)) => Entry { name: name.to_owned(), is_prefix: true },
            })
            .collect();
        Ok(children.into_iter().collect())
    }
}

#[test]
fn the_toy_keeps_the_contract() {
    contract::check(|| Box::new(ToyStore::default()));
}
