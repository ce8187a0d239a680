//! Objects in memory, for tests and for data that need not outlive the process.

mod exchange;

use crate::fork::{Mutex, RwLock};
use crate::{
    Ask, Entry, Expected, Key, Many, Opened, Operation, RangeRead, Result, Staged, Stamp, Stamped, Store,
    StoreError, check_size, hash,
};
use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Objects in memory. Like a directory: no key can be below an object.
///
/// A clone shares the objects.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    /// Objects are replaced, never modified.
    ///
    /// A reader that has cloned an object's `Arc` copies from it without the lock. Gated: held to
    /// look up or change an entry, or to walk [`PAGE`] of them. Every change is one insertion or
    /// removal, so a panicking thread leaves consistent data.
    objects: Arc<RwLock<Objects>>,
    /// True if the objects have no stamps.
    passing: bool,
}

/// Keys visited per lock acquisition: about 100 µs.
const PAGE: usize = if cfg!(test) { 3 } else { 1024 };

type Objects = BTreeMap<String, Arc<Object>>;

#[derive(Debug)]
struct Object {
    bytes: Vec<u8>,
    /// Unique among all objects ever written to any store of the process. `None` if the object has
    /// no stamp.
    version: Option<u64>,
}

impl Object {
    fn new(bytes: Vec<u8>, passing: bool) -> Object {
        static VERSIONS: AtomicU64 = AtomicU64::new(0);
        let version = (!passing).then(|| VERSIONS.fetch_add(1, Ordering::Relaxed));
        Object { bytes, version }
    }

    fn stamp(&self) -> Option<Stamp> {
        Some(Stamp::new([Stamp::NO_DEVICE, self.version?, 0, 0, 0, 0, 0]))
    }
}

/// The stores whose URL has been requested, by the address in it. Gated.
static ASKED: Mutex<BTreeMap<usize, Weak<RwLock<Objects>>>> = Mutex::new(BTreeMap::new());

/// The named stores. Gated.
static NAMED: Mutex<BTreeMap<String, Weak<RwLock<Objects>>>> = Mutex::new(BTreeMap::new());

impl MemoryStore {
    /// Creates an empty store.
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    /// Creates an empty, short-lived store.
    ///
    /// Its objects have no stamps, so caches do not keep their bytes, which would displace more
    /// useful ones.
    pub fn passing() -> MemoryStore {
        MemoryStore { passing: true, ..MemoryStore::default() }
    }

    /// The live store with this [`Store::url`]. The part after `memory://` is enough.
    pub fn find(url: &str) -> Option<MemoryStore> {
        let address = url.strip_prefix(MemoryStore::SCHEME).unwrap_or(url);
        let address = usize::from_str_radix(address, 16).ok()?;
        let objects = ASKED.lock().get(&address)?.upgrade()?;
        Some(MemoryStore { objects, passing: false })
    }

    /// The store with this name. The first caller creates it, and it disappears with its last
    /// handle.
    pub fn named(name: &str) -> MemoryStore {
        let mut named = NAMED.lock();
        if let Some(objects) = named.get(name).and_then(Weak::upgrade) {
            return MemoryStore { objects, passing: false };
        }
        // Remove dead stores.
        named.retain(|_, objects| objects.strong_count() > 0);
        let store = MemoryStore::new();
        named.insert(name.to_owned(), Arc::downgrade(&store.objects));
        store
    }

    const SCHEME: &str = "memory://";

    /// Calls `each` with the keys below a prefix (`None`: all), page by page, until it returns
    /// `false`.
    ///
    /// Others get the lock between pages. As with directories, keys that are added or deleted
    /// meanwhile may or may not be listed.
    fn walk(&self, prefix: Option<Key<'_>>, each: &mut dyn FnMut(&str) -> bool) {
        let start = prefix.map_or_else(String::new, |prefix| format!("{prefix}/"));
        let mut last: Option<String> = None;
        let mut page: Vec<String> = Vec::new();
        loop {
            {
                let objects = self.objects.read();
                let from = match &last {
                    Some(last) => Bound::Excluded(last.as_str()),
                    None => Bound::Included(start.as_str()),
                };
                let range = objects.range::<str, _>((from, Bound::Unbounded)).map(|(key, _)| key);
                page.extend(range.take_while(|key| key.starts_with(&start)).take(PAGE).cloned());
            }
            let more = page.len() == PAGE;
            if !page.iter().all(|key| each(key)) || !more {
                return;
            }
            last = page.pop();
            page.clear();
        }
    }

    /// Puts an object. If one exists, replaces it, or keeps it and returns `false`.
    ///
    /// Also returns the replaced object.
    fn put(&self, key: Key<'_>, bytes: Vec<u8>, replace: bool) -> Result<(bool, Option<Arc<Object>>)> {
        let object = Arc::new(Object::new(bytes, self.passing));
        let mut objects = self.objects.write();
        self.check_above(&objects, key, key.as_str())?;
        if below(&objects, Some(key)).next().is_some() {
            return Err(self.error(Operation::Write, key, io::ErrorKind::IsADirectory));
        }
        match objects.get_mut(key.as_str()) {
            Some(_) if !replace => Ok((false, None)),
            // The caller frees the old object without the lock.
            Some(old) => Ok((true, Some(std::mem::replace(old, object)))),
            None => {
                objects.insert(key.as_str().to_owned(), object);
                Ok((true, None))
            }
        }
    }

    /// Fails if an object is named like a directory above `name`.
    fn check_above(&self, objects: &Objects, key: Key<'_>, mut name: &str) -> Result<()> {
        while let Some((parent, _)) = name.rsplit_once('/') {
            if objects.contains_key(parent) {
                return Err(self.error(Operation::Write, key, io::ErrorKind::NotADirectory));
            }
            name = parent;
        }
        Ok(())
    }

    fn get(&self, key: Key<'_>) -> Option<Arc<Object>> {
        self.objects.read().get(key.as_str()).cloned()
    }

    fn address(&self) -> usize {
        Arc::as_ptr(&self.objects).addr()
    }

    fn error(&self, operation: Operation, key: Key<'_>, kind: io::ErrorKind) -> StoreError {
        StoreError::io(self, operation, key.as_str(), kind)
    }
}

/// The keys below a prefix (`None`: all).
///
/// Starts at `prefix/`, which does not directly follow `prefix` in the order of keys: `a!` is
/// between `a` and `a/`.
fn below<'o>(objects: &'o Objects, prefix: Option<Key<'_>>) -> impl Iterator<Item = &'o String> + use<'o> {
    let start = prefix.map_or_else(String::new, |prefix| format!("{prefix}/"));
    let range = objects.range::<str, _>((Bound::Included(start.as_str()), Bound::Unbounded));
    range.map(|(key, _)| key).take_while(move |key| key.starts_with(&start))
}

/// An object as it was when it was opened.
#[derive(Debug)]
struct OpenBytes<'s> {
    store: &'s MemoryStore,
    key: String,
    object: Arc<Object>,
}

impl Opened for OpenBytes<'_> {
    fn read_ranges(&self, ranges: &mut [RangeRead<'_>]) -> Result<()> {
        self.store.copy_ranges(&self.key, &self.object, ranges)
    }

    fn size(&self) -> u64 {
        self.object.bytes.len() as u64
    }

    fn stamp(&self) -> Option<Stamp> {
        self.object.stamp()
    }

    fn vouched(&self) -> Option<Stamp> {
        self.stamp()
    }
}

impl MemoryStore {
    /// An object, if it has the expected size.
    fn get_sized(&self, key: Key<'_>, size: Option<u64>) -> Result<Option<Arc<Object>>> {
        let Some(object) = self.get(key) else { return Ok(None) };
        check_size(self, key, size, object.bytes.len() as u64)?;
        Ok(Some(object))
    }

    fn copy_ranges(&self, key: &str, object: &Object, ranges: &mut [RangeRead<'_>]) -> Result<()> {
        for RangeRead { offset, buf } in ranges.iter_mut().filter(|range| !range.buf.is_empty()) {
            let (start, len) = (usize::try_from(*offset).unwrap_or(usize::MAX), buf.len());
            let bytes = object.bytes.get(start..start.saturating_add(len)).ok_or_else(|| {
                StoreError::out_of_range(self, key, *offset, len as u64, object.bytes.len() as u64)
            })?;
            buf.copy_from_slice(bytes);
        }
        Ok(())
    }
}

impl Store for MemoryStore {
    fn read_ranges(&self, key: Key<'_>, size: Option<u64>, ranges: &mut [RangeRead<'_>]) -> Result<bool> {
        Ok(self.read_ranges_stamped(key, size, ranges)?.0)
    }

    fn read_ranges_stamped(
        &self,
        key: Key<'_>,
        size: Option<u64>,
        ranges: &mut [RangeRead<'_>],
    ) -> Result<Stamped> {
        let Some(object) = self.get_sized(key, size)? else { return Ok((false, None)) };
        self.copy_ranges(key.as_str(), &object, ranges)?;
        Ok((true, object.stamp()))
    }

    fn open<'s>(&'s self, key: Key<'_>, size: Option<u64>) -> Result<Option<Box<dyn Opened + 's>>> {
        let opened = |object| OpenBytes { store: self, key: key.as_str().to_owned(), object };
        Ok(self.get_sized(key, size)?.map(|object| Box::new(opened(object)) as Box<dyn Opened + 's>))
    }

    fn read_all(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> Result<bool> {
        Ok(self.read_all_stamped(key, buf, limit)?.0)
    }

    fn read_all_stamped(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> Result<Stamped> {
        buf.clear();
        let Some(object) = self.get(key) else { return Ok((false, None)) };
        if object.bytes.len() > limit {
            return Err(StoreError::too_large(self, key.as_str(), limit));
        }
        if buf.try_reserve_exact(object.bytes.len()).is_err() {
            return Err(self.error(Operation::Read, key, io::ErrorKind::OutOfMemory));
        }
        buf.extend_from_slice(&object.bytes);
        Ok((true, object.stamp()))
    }

    fn stamp(&self, key: Key<'_>) -> Result<Option<Stamp>> {
        Ok(self.objects.read().get(key.as_str()).and_then(|object| object.stamp()))
    }

    fn size(&self, key: Key<'_>) -> Result<Option<u64>> {
        Ok(self.objects.read().get(key.as_str()).map(|object| object.bytes.len() as u64))
    }

    fn write(&self, key: Key<'_>, parts: &[&[u8]]) -> Result<()> {
        self.put(key, parts.concat(), true).map(|_| ())
    }

    fn write_new(&self, key: Key<'_>, parts: &[&[u8]]) -> Result<bool> {
        Ok(self.put(key, parts.concat(), false)?.0)
    }

    /// Keeps the memory and returns the old object's memory in exchange.
    ///
    /// Copies the bytes instead if much of the memory would be idle.
    ///
    /// Overwriting an array again and again needs no new memory.
    fn swap_owned(
        &self,
        key: Key<'_>,
        _expected: Expected<'_>,
        bytes: &mut Vec<u8>,
        _ask: Option<Ask<'_>>,
    ) -> Result<bool> {
        if bytes.len() < bytes.capacity() / 4 * 3 {
            return self.write(key, &[bytes]).map(|()| true);
        }
        let (_, old) = self.put(key, std::mem::take(bytes), true)?;
        *bytes = old.and_then(Arc::into_inner).map(|old| old.bytes).unwrap_or_default();
        Ok(true)
    }

    fn delete(&self, key: Key<'_>) -> Result<bool> {
        let removed = self.objects.write().remove(key.as_str());
        // Freed without the lock.
        Ok(removed.is_some())
    }

    fn delete_prefix(&self, prefix: Option<Key<'_>>) -> Result<()> {
        self.walk(prefix, &mut |key| {
            let removed = self.objects.write().remove(key);
            drop(removed);
            true
        });
        Ok(())
    }

    fn stage<'s>(&'s self, prefix: Option<Key<'_>>) -> Result<Box<dyn Staged + 's>> {
        Ok(Box::new(self.stage_below(prefix)))
    }

    fn list_dir(&self, prefix: Option<Key<'_>>) -> Result<Vec<Entry>> {
        let skip = prefix.map_or(0, |prefix| prefix.as_str().len() + 1);
        let mut children: Vec<Entry> = Vec::new();
        self.walk(prefix, &mut |key| {
            if let Some(name) = key.get(skip..) {
                let (name, is_prefix) = name.split_once('/').map_or((name, false), |(name, _)| (name, true));
                if children.last().is_none_or(|last| last.name != name || last.is_prefix != is_prefix) {
                    children.push(Entry { name: name.to_owned(), is_prefix });
                }
            }
            true
        });
        children.sort_unstable();
        children.dedup();
        Ok(children)
    }

    fn list(&self, prefix: Option<Key<'_>>) -> Result<Vec<String>> {
        let mut keys = Vec::new();
        self.walk(prefix, &mut |key| {
            keys.push(key.to_owned());
            true
        });
        Ok(keys)
    }

    fn lock_id(&self, key: Key<'_>) -> u64 {
        hash::fnv1a(hash::fnv1a(hash::EMPTY, &self.address().to_ne_bytes()), key.as_str().as_bytes())
    }

    fn many(&self) -> Option<&dyn Many> {
        Some(self)
    }

    fn url(&self) -> String {
        let address = self.address();
        let mut asked = ASKED.lock();
        if !asked.contains_key(&address) {
            // Remove dead stores.
            asked.retain(|_, objects| objects.strong_count() > 0);
            asked.insert(address, Arc::downgrade(&self.objects));
        }
        format!("{}{address:x}", MemoryStore::SCHEME)
    }
}

impl Many for MemoryStore {
    fn present(&self, prefix: Option<Key<'_>>, most: usize) -> Option<Vec<String>> {
        let mut keys = Vec::new();
        self.walk(prefix, &mut |key| {
            keys.push(key.to_owned());
            keys.len() <= most
        });
        (keys.len() <= most).then_some(keys)
    }
}

#[cfg(test)]
mod tests {
    use super::MemoryStore;
    use crate::{Expected, Key, RangeRead, Store};

    #[test]
    fn clones_share_objects_and_new_stores_do_not() {
        let key = Key::new("a/b").unwrap();
        let store = MemoryStore::new();
        store.clone().write(key, &[b"x"]).unwrap();
        assert_eq!(store.size(key).unwrap(), Some(1));
        assert_eq!(store.clone().lock_id(key), store.lock_id(key));
        let other = MemoryStore::new();
        assert_eq!(other.size(key).unwrap(), None);
        assert_ne!(other.lock_id(key), store.lock_id(key));
        assert_ne!(other.url(), store.url());
    }

    #[test]
    fn memory_goes_in_and_that_of_the_old_object_comes_back() {
        let (key, store) = (Key::new("a").unwrap(), MemoryStore::new());
        let mut bytes = vec![1; 1000];
        let first = bytes.as_ptr();
        assert!(store.swap_owned(key, Expected::Any, &mut bytes, None).unwrap());
        assert_eq!(bytes.capacity(), 0);
        let mut bytes = vec![2; 1000];
        assert!(store.swap_owned(key, Expected::Any, &mut bytes, None).unwrap());
        assert_eq!((bytes.as_ptr(), &bytes), (first, &vec![1; 1000]));
        // A reader still uses the old object.
        let opened = store.open(key, None).unwrap().unwrap();
        assert!(store.swap_owned(key, Expected::Any, &mut bytes, None).unwrap());
        assert_eq!(bytes.capacity(), 0);
        let mut read = vec![0; 1000];
        opened.read_ranges(&mut [RangeRead { offset: 0, buf: &mut read }]).unwrap();
        assert_eq!(read, vec![2; 1000]);
        // Mostly idle memory is not kept.
        let mut bytes = Vec::with_capacity(1000);
        bytes.extend([3; 10]);
        let kept = bytes.as_ptr();
        assert!(store.swap_owned(key, Expected::Any, &mut bytes, None).unwrap());
        assert_eq!((bytes.as_ptr(), store.size(key).unwrap()), (kept, Some(10)));
    }

    #[test]
    fn stores_are_found_by_their_url() {
        let store = MemoryStore::new();
        let url = store.url();
        store.write(Key::new("a").unwrap(), &[b"1"]).unwrap();
        assert!(MemoryStore::find(&url).unwrap().exists(Key::new("a").unwrap()).unwrap());
        drop(store);
        for url in [url.as_str(), "memory://", "memory://x", "memory://1"] {
            assert!(MemoryStore::find(url).is_none(), "{url}");
        }
    }

    #[test]
    fn threads_that_ask_for_a_name_get_one_store() {
        let key = Key::new("a").unwrap();
        for round in 0..20 {
            let name = format!("of-threads-{round}");
            let asked = std::sync::Barrier::new(4);
            let stores: Vec<MemoryStore> = std::thread::scope(|scope| {
                let ask = || {
                    asked.wait();
                    MemoryStore::named(&name)
                };
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            stores[0].write(key, &[b"1"]).unwrap();
            assert!(stores.iter().all(|store| store.exists(key).unwrap()));
            assert!(!MemoryStore::named("another").exists(key).unwrap());
            drop(stores);
            assert!(!MemoryStore::named(&name).exists(key).unwrap(), "nobody held it");
        }
    }

    #[test]
    fn a_panicking_thread_does_not_break_the_store() {
        let store = MemoryStore::new();
        let shared = store.clone();
        let panicked = std::thread::spawn(move || {
            let _guard = shared.objects.write();
            panic!("while holding the lock");
        });
        assert!(panicked.join().is_err());
        store.write(Key::new("a").unwrap(), &[b"1"]).unwrap();
        assert!(store.exists(Key::new("a").unwrap()).unwrap());
    }
}
