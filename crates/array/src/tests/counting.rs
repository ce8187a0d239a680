//! A store that counts what it is asked for.

use hyperslab_store::{Cost, Entry, Key, MemoryStore, Opened, RangeRead, Stamp, Store, StoreError};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// In memory.
#[derive(Debug)]
pub(super) struct Counting {
    inner: MemoryStore,
    /// Whether it reads ranges.
    ranges: bool,
    /// Whether it tells which contents an object has, so that indexes may be kept; and what a
    /// request costs.
    stamped: bool,
    pub(super) opens: AtomicU64,
    pub(super) reads: AtomicU64,
    /// Bytes that were read.
    pub(super) bytes: AtomicU64,
    /// Whether open objects can no longer be read.
    pub(super) broken: AtomicBool,
}

impl Counting {
    pub(super) fn new(inner: &MemoryStore, ranges: bool) -> Self {
        let zero = AtomicU64::default;
        Counting {
            inner: inner.clone(),
            ranges,
            stamped: false,
            opens: zero(),
            reads: zero(),
            bytes: zero(),
            broken: AtomicBool::new(false),
        }
    }

    pub(super) fn stamped() -> Self {
        Counting { stamped: true, ..Counting::new(&MemoryStore::new(), true) }
    }

    /// Objects opened, ranges read, bytes read.
    pub(super) fn counts(&self) -> [u64; 3] {
        [&self.opens, &self.reads, &self.bytes].map(|count| count.load(Relaxed))
    }

    fn count(&self, ranges: &[RangeRead<'_>]) {
        self.bytes.fetch_add(ranges.iter().map(|range| range.buf.len() as u64).sum(), Relaxed);
    }
}

#[derive(Debug)]
struct CountingOpened<'s>(&'s Counting, Box<dyn Opened + 's>);

type Stored<T> = Result<T, StoreError>;

impl Opened for CountingOpened<'_> {
    fn read_ranges(&self, ranges: &mut [RangeRead<'_>]) -> Stored<()> {
        if self.0.broken.load(Relaxed) {
            return Err(StoreError::Io {
                operation: hyperslab_store::Operation::Read,
                key: "a/0".into(),
                url: self.0.url(),
                source: std::io::ErrorKind::TimedOut.into(),
            });
        }
        self.0.count(ranges);
        // As a file does it: ranges that follow each other are one read.
        let mut end = None;
        for range in ranges.iter() {
            if end != Some(range.offset) {
                self.0.reads.fetch_add(1, Relaxed);
            }
            end = Some(range.offset + range.buf.len() as u64);
        }
        self.1.read_ranges(ranges)
    }

    fn size(&self) -> u64 {
        self.1.size()
    }

    fn stamp(&self) -> Option<Stamp> {
        self.1.stamp().filter(|_| self.0.stamped)
    }

    fn vouched(&self) -> Option<Stamp> {
        self.1.vouched().filter(|_| self.0.stamped)
    }
}

impl Store for Counting {
    fn read_ranges(&self, key: Key<'_>, size: Option<u64>, ranges: &mut [RangeRead<'_>]) -> Stored<bool> {
        Ok(self.read_ranges_stamped(key, size, ranges)?.0)
    }

    fn read_ranges_stamped(
        &self,
        key: Key<'_>,
        size: Option<u64>,
        ranges: &mut [RangeRead<'_>],
    ) -> Stored<(bool, Option<Stamp>)> {
        assert!(self.ranges, "this store reads no ranges");
        self.opens.fetch_add(1, Relaxed);
        let (found, stamp) = self.inner.read_ranges_stamped(key, size, ranges)?;
        if found {
            self.count(ranges);
        }
        Ok((found, stamp.filter(|_| self.stamped)))
    }

    fn open<'s>(&'s self, key: Key<'_>, size: Option<u64>) -> Stored<Option<Box<dyn Opened + 's>>> {
        assert!(self.ranges, "this store reads no ranges");
        self.opens.fetch_add(1, Relaxed);
        let opened = self.inner.open(key, size)?;
        Ok(opened.map(|opened| Box::new(CountingOpened(self, opened)) as Box<dyn Opened + 's>))
    }

    fn reads_ranges(&self) -> bool {
        self.ranges
    }

    fn read_exact(&self, key: Key<'_>, buf: &mut [u8]) -> Stored<bool> {
        let found = self.inner.read_exact(key, buf)?;
        self.bytes.fetch_add(if found { buf.len() as u64 } else { 0 }, Relaxed);
        Ok(found)
    }

    fn read_all(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> Stored<bool> {
        Ok(self.read_all_stamped(key, buf, limit)?.0)
    }

    fn read_all_stamped(
        &self,
        key: Key<'_>,
        buf: &mut Vec<u8>,
        limit: usize,
    ) -> Stored<(bool, Option<Stamp>)> {
        let (found, stamp) = self.inner.read_all_stamped(key, buf, limit)?;
        self.bytes.fetch_add(if found { buf.len() as u64 } else { 0 }, Relaxed);
        Ok((found, stamp.filter(|_| self.stamped)))
    }

    fn size(&self, key: Key<'_>) -> Stored<Option<u64>> {
        self.inner.size(key)
    }

    fn stamp(&self, key: Key<'_>) -> Stored<Option<Stamp>> {
        Ok(self.inner.stamp(key)?.filter(|_| self.stamped))
    }

    fn write(&self, key: Key<'_>, parts: &[&[u8]]) -> Stored<()> {
        self.inner.write(key, parts)
    }

    fn delete(&self, key: Key<'_>) -> Stored<bool> {
        self.inner.delete(key)
    }

    fn delete_prefix(&self, prefix: Option<Key<'_>>) -> Stored<()> {
        self.inner.delete_prefix(prefix)
    }

    fn list_dir(&self, prefix: Option<Key<'_>>) -> Stored<Vec<Entry>> {
        self.inner.list_dir(prefix)
    }

    fn list(&self, prefix: Option<Key<'_>>) -> Stored<Vec<String>> {
        self.inner.list(prefix)
    }

    fn cost(&self) -> Cost {
        Cost { request: if self.stamped { 20 } else { 0 }, range: 4096 }
    }

    fn lock_id(&self, key: Key<'_>) -> u64 {
        self.inner.lock_id(key)
    }

    fn url(&self) -> String {
        self.inner.url()
    }
}
