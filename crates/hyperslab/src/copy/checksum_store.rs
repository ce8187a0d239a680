//! A store that knows the checksums of the objects written through it.
//!
//! Checksums are computed from the written bytes, on the thread that writes: nothing is read again.
//! CRC-64 (NVMe) runs at about 20 GB/s.

use super::delegated::{inner, reads, writers};
use crate::{Key, Result, Store};
use crc_fast::{CrcAlgorithm, Digest, checksum};
use hyperslab_store as store;
use hyperslab_store::fork::Mutex;
use hyperslab_store::{
    Ask, Cost, Entry, Expected, Facts, Holds, Many, Mark, ObjectLock, OnDisk, Opened, RangeRead, Replacement,
    Staged, Stamp, Stamped, Writers,
};
use std::collections::HashMap;
use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

const ALGORITHM: CrcAlgorithm = CrcAlgorithm::Crc64Nvme;

/// Bytes of an object to read at a time.
const PIECE: u64 = 1 << 20;

/// Checksums by key. `None`: the checksum is unknown.
type Sums = HashMap<String, Option<u64>>;

/// A store with checksums; see the module documentation.
pub(super) struct ChecksumStore {
    inner: Arc<dyn Store>,
    sums: Mutex<Sums>,
}

impl ChecksumStore {
    pub(super) fn new(inner: Arc<dyn Store>) -> ChecksumStore {
        ChecksumStore { inner, sums: Mutex::new(Sums::new()) }
    }

    /// The checksum of a stored object: remembered from the write, or computed by reading.
    pub(super) fn sum(&self, key: Key<'_>) -> Result<u64> {
        let known = self.sums.lock().get(key.as_str()).copied().flatten();
        known.map_or_else(|| read_sum(&*self.inner, key), Ok)
    }

    /// The keys of all objects that were written and not deleted.
    pub(super) fn written(&self) -> Vec<String> {
        self.sums.lock().keys().cloned().collect()
    }

    fn note(&self, key: Key<'_>, sum: Option<u64>) {
        self.sums.lock().insert(key.as_str().to_owned(), sum);
    }

    fn forget(&self, key: Key<'_>) {
        self.sums.lock().remove(key.as_str());
    }
}

impl Debug for ChecksumStore {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// Reads an object in pieces and returns its checksum. A missing object counts as empty.
pub(super) fn read_sum(store: &dyn Store, key: Key<'_>) -> Result<u64> {
    let mut digest = Digest::new(ALGORITHM);
    let mut result = Ok(());
    store.with_open(key, None, &mut |opened| {
        let Some(opened) = opened else { return };
        let size = opened.size();
        let mut buf = vec![0; size.min(PIECE) as usize];
        let mut offset = 0;
        while offset < size && result.is_ok() {
            buf.truncate((size - offset).min(PIECE) as usize);
            result = opened.read_ranges(&mut [RangeRead { offset, buf: &mut buf }]);
            digest.update(&buf);
            offset += buf.len() as u64;
        }
    })?;
    result?;
    Ok(digest.finalize())
}

fn sum_of(parts: &[&[u8]]) -> u64 {
    if let [one] = parts {
        return checksum(ALGORITHM, one);
    }
    let mut digest = Digest::new(ALGORITHM);
    parts.iter().for_each(|part| digest.update(part));
    digest.finalize()
}

/// A new object, summed as it grows; `None`: bytes were changed after they were summed.
struct ChecksumWriter<'s> {
    inner: Box<dyn Replacement + 's>,
    store: &'s ChecksumStore,
    key: String,
    digest: Option<Digest>,
}

impl Debug for ChecksumWriter<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl Replacement for ChecksumWriter<'_> {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn append(&mut self, parts: &[&[u8]]) -> store::Result<()> {
        self.inner.append(parts)?;
        if let Some(digest) = &mut self.digest {
            parts.iter().for_each(|part| digest.update(part));
        }
        Ok(())
    }

    fn overwrite(&mut self, offset: u64, bytes: &[u8]) -> store::Result<()> {
        self.digest = None;
        self.inner.overwrite(offset, bytes)
    }

    fn copy(&mut self, from: &dyn Opened, offset: u64, len: u64) -> store::Result<()> {
        self.digest = None;
        self.inner.copy(from, offset, len)
    }

    fn share(&mut self, from: &dyn Opened) -> store::Result<bool> {
        self.digest = None;
        self.inner.share(from)
    }

    fn commit(self: Box<Self>) -> store::Result<()> {
        let ChecksumWriter { inner, store, key, digest } = *self;
        inner.commit()?;
        store.note(Key::new(&key)?, digest.map(|digest| digest.finalize()));
        Ok(())
    }

    fn commit_over(self: Box<Self>, expected: Expected<'_>, ask: Option<Ask<'_>>) -> store::Result<bool> {
        let ChecksumWriter { inner, store, key, digest } = *self;
        let done = inner.commit_over(expected, ask)?;
        if done {
            store.note(Key::new(&key)?, digest.map(|digest| digest.finalize()));
        }
        Ok(done)
    }
}

impl Store for ChecksumStore {
    reads!();

    inner! {
        fn read_all(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> store::Result<bool>;
        fn delete_prefix(&self, prefix: Option<Key<'_>>) -> store::Result<()>;
        fn stage<'s>(&'s self, prefix: Option<Key<'_>>) -> store::Result<Box<dyn Staged + 's>>;
    }

    fn write(&self, key: Key<'_>, parts: &[&[u8]]) -> store::Result<()> {
        let sum = sum_of(parts);
        self.inner.write(key, parts)?;
        self.note(key, Some(sum));
        Ok(())
    }

    fn replace<'s>(&'s self, key: Key<'_>) -> store::Result<Box<dyn Replacement + 's>> {
        let (inner, name) = (self.inner.replace(key)?, key.as_str().to_owned());
        Ok(Box::new(ChecksumWriter { inner, store: self, key: name, digest: Some(Digest::new(ALGORITHM)) }))
    }

    fn write_new(&self, key: Key<'_>, parts: &[&[u8]]) -> store::Result<bool> {
        let sum = sum_of(parts);
        let done = self.inner.write_new(key, parts)?;
        if done {
            self.note(key, Some(sum));
        }
        Ok(done)
    }

    fn swap(
        &self,
        key: Key<'_>,
        expected: Expected<'_>,
        parts: &[&[u8]],
        ask: Option<Ask<'_>>,
    ) -> store::Result<bool> {
        self.swap_marked(key, expected, Mark::fresh(), parts, ask)
    }

    fn swap_owned(
        &self,
        key: Key<'_>,
        expected: Expected<'_>,
        bytes: &mut Vec<u8>,
        ask: Option<Ask<'_>>,
    ) -> store::Result<bool> {
        let sum = sum_of(&[bytes]);
        let done = self.inner.swap_owned(key, expected, bytes, ask)?;
        if done {
            self.note(key, Some(sum));
        }
        Ok(done)
    }

    fn swap_out(&self, key: Key<'_>, expected: Expected<'_>, ask: Option<Ask<'_>>) -> store::Result<bool> {
        self.forget(key);
        self.inner.swap_out(key, expected, ask)
    }

    fn delete(&self, key: Key<'_>) -> store::Result<bool> {
        self.forget(key);
        self.inner.delete(key)
    }

    fn writers(&self) -> Option<&dyn Writers> {
        Some(self)
    }

    fn delete_all(&self, keys: &[Key<'_>], ask: Option<Ask<'_>>) -> store::Result<()> {
        keys.iter().for_each(|key| self.forget(*key));
        self.inner.delete_all(keys, ask)
    }
}

/// Without [`Writers::through`]: the checksums of its objects would be unknown.
impl Writers for ChecksumStore {
    writers!();

    fn swap_marked(
        &self,
        key: Key<'_>,
        expected: Expected<'_>,
        mark: Mark,
        parts: &[&[u8]],
        ask: Option<Ask<'_>>,
    ) -> store::Result<bool> {
        let sum = sum_of(parts);
        let done = self.inner.swap_marked(key, expected, mark, parts, ask)?;
        if done {
            self.note(key, Some(sum));
        }
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyperslab_store::MemoryStore;

    #[test]
    fn sums_are_those_of_what_is_stored() {
        let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let checksums = ChecksumStore::new(inner.clone());
        let key = |name| Key::new(name).unwrap();
        checksums.write(key("parts"), &[b"123", b"456789"]).unwrap();
        checksums.swap_owned(key("owned"), Expected::Any, &mut b"123456789".to_vec(), None).unwrap();
        checksums.swap(key("swapped"), Expected::Absent, &[b"123456789"], None).unwrap();
        let mut grown = checksums.replace(key("grown")).unwrap();
        grown.append(&[b"1234", b"5"]).unwrap();
        grown.append(&[b"6789"]).unwrap();
        grown.commit().unwrap();
        // The checksum of this object is unknown, so it is read.
        let mut changed = checksums.replace(key("changed")).unwrap();
        changed.append(&[b"xxx456789"]).unwrap();
        changed.overwrite(0, b"123").unwrap();
        changed.commit_over(Expected::Any, None).unwrap();
        for name in ["parts", "owned", "swapped", "grown", "changed"] {
            // The check value of CRC-64/NVME.
            assert_eq!(checksums.sum(key(name)).unwrap(), 0xae8b_1486_0a79_9888, "{name}");
            assert_eq!(read_sum(&*inner, key(name)).unwrap(), 0xae8b_1486_0a79_9888, "{name}");
            assert_eq!(checksums.sums.lock().get(name).unwrap().is_some(), name != "changed");
        }
        // Later writes by others do not change the known checksum; a deletion removes it.
        inner.write(key("parts"), &[b"other"]).unwrap();
        assert_eq!(checksums.sum(key("parts")).unwrap(), 0xae8b_1486_0a79_9888);
        checksums.delete(key("parts")).unwrap();
        assert_eq!(checksums.sum(key("parts")).unwrap(), sum_of(&[]));
        let long = vec![7; PIECE as usize * 2 + 5];
        inner.write(key("long"), &[&long]).unwrap();
        assert_eq!(read_sum(&*inner, key("long")).unwrap(), sum_of(&[&long]));
    }
}
