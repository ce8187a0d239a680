//! A store that counts its requests.

use hyperslab_store::{
    Begun, Cost, Entry, Facts, Key, Many, MemoryStore, Next, Opened, Opening, RangeRead, Replacement, Stamp,
    Store, StoreError,
};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// A store in memory.
#[derive(Debug)]
pub(super) struct Counting {
    inner: MemoryStore,
    /// `true` if it reads ranges.
    ranges: bool,
    /// `true` if objects have stamps, so that indexes may be kept, and if requests have a cost.
    stamped: bool,
    /// How many objects it opens with one call.
    at_once: usize,
    /// How often its caller had to wait, if the store is far away. Objects that are opened together
    /// count once, and so do ranges that are announced together.
    pub(super) rounds: AtomicU64,
    /// `true` if ranges were announced since the last wait.
    announced: AtomicBool,
    pub(super) opens: AtomicU64,
    pub(super) reads: AtomicU64,
    /// Bytes that were read.
    pub(super) bytes: AtomicU64,
    /// `true` if open objects can no longer be read.
    pub(super) broken: AtomicBool,
}

impl Counting {
    pub(super) fn new(inner: &MemoryStore, ranges: bool) -> Self {
        let zero = AtomicU64::default;
        Counting {
            inner: inner.clone(),
            ranges,
            stamped: false,
            at_once: 1,
            rounds: zero(),
            announced: AtomicBool::new(false),
            opens: zero(),
            reads: zero(),
            bytes: zero(),
            broken: AtomicBool::new(false),
        }
    }

    pub(super) fn stamped() -> Self {
        Counting { stamped: true, ..Counting::new(&MemoryStore::new(), true) }
    }

    /// A store that is far away and opens `at_once` objects together.
    pub(super) fn far(inner: &MemoryStore, at_once: usize) -> Self {
        Counting { at_once, ..Counting::new(inner, true) }
    }

    /// Objects opened, ranges read, bytes read.
    pub(super) fn counts(&self) -> [u64; 3] {
        [&self.opens, &self.reads, &self.bytes].map(|count| count.load(Relaxed))
    }

    fn count(&self, ranges: &[RangeRead<'_>]) {
        self.bytes.fetch_add(ranges.iter().map(|range| range.buf.len() as u64).sum(), Relaxed);
    }
}

/// An open object, and the ranges of it that came with its opening or were announced.
#[derive(Debug)]
struct CountingOpened<'s>(&'s Counting, Box<dyn Opened + 's>, Mutex<Vec<(u64, u64)>>);

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
        let known = self.2.lock().unwrap();
        let came = |range: &RangeRead<'_>| {
            let inside = |(offset, len): &(u64, u64)| {
                range.offset >= *offset && range.offset + range.buf.len() as u64 <= offset + len
            };
            known.iter().any(inside)
        };
        if !ranges.iter().all(came) || self.0.announced.swap(false, Relaxed) {
            self.0.rounds.fetch_add(1, Relaxed);
        }
        self.0.count(ranges);
        // As in a file, ranges that follow each other are one read.
        let mut end = None;
        for range in ranges.iter() {
            if end != Some(range.offset) {
                self.0.reads.fetch_add(1, Relaxed);
            }
            end = Some(range.offset + range.buf.len() as u64);
        }
        self.1.read_ranges(ranges)
    }

    fn announce(&self, ranges: &[(u64, u64)], _: usize) {
        let mut known = self.2.lock().unwrap();
        if ranges.iter().any(|range| !known.contains(range)) {
            known.extend_from_slice(ranges);
            self.0.announced.store(true, Relaxed);
        }
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

/// A new object that shares no bytes with others: bytes that it copies are read.
#[derive(Debug)]
struct Copying<'s>(&'s Counting, String, Vec<u8>);

impl Replacement for Copying<'_> {
    fn len(&self) -> u64 {
        self.2.len() as u64
    }

    fn append(&mut self, parts: &[&[u8]]) -> Stored<()> {
        parts.iter().for_each(|part| self.2.extend_from_slice(part));
        Ok(())
    }

    fn overwrite(&mut self, offset: u64, bytes: &[u8]) -> Stored<()> {
        self.2[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn copy(&mut self, from: &dyn Opened, offset: u64, len: u64) -> Stored<()> {
        let start = self.2.len();
        self.2.resize(start + len as usize, 0);
        from.read_ranges(&mut [RangeRead { offset, buf: &mut self.2[start..] }])
    }

    fn share(&mut self, _from: &dyn Opened) -> Stored<bool> {
        Ok(false)
    }

    fn commit(self: Box<Self>) -> Stored<()> {
        self.0.inner.write(Key::new(&self.1)?, &[&self.2])
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
        self.rounds.fetch_add(1, Relaxed);
        Ok(opened
            .map(|opened| Box::new(CountingOpened(self, opened, Mutex::default())) as Box<dyn Opened + 's>))
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

    fn replace<'s>(&'s self, key: Key<'_>) -> Stored<Box<dyn Replacement + 's>> {
        Ok(Box::new(Copying(self, key.as_str().into(), Vec::new())))
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
        Cost { request: if self.stamped { 20 } else { 0 }, range: 4096, at_once: self.at_once, frugal: false }
    }

    fn lock_id(&self, key: Key<'_>) -> u64 {
        self.inner.lock_id(key)
    }

    fn facts(&self) -> Facts {
        Facts { reads_ranges: self.ranges, ..Facts::default() }
    }

    fn many(&self) -> Option<&dyn Many> {
        Some(self)
    }

    fn url(&self) -> String {
        self.inner.url()
    }
}

impl Many for Counting {
    fn begin<'s>(&'s self, wanted: &[Opening<'_>]) -> Vec<Box<dyn Begun<'s> + 's>> {
        self.rounds.fetch_add(wanted.len().div_ceil(self.at_once) as u64, Relaxed);
        self.opens.fetch_add(wanted.len() as u64, Relaxed);
        let begin = |Opening { key, next }: &Opening<'_>| {
            let next = *next;
            let came = move |opened: Box<dyn Opened + 's>| {
                let size = opened.size();
                let came = match next {
                    Next::Start(len) => (0, len),
                    Next::End(len) => (size.saturating_sub(len), len),
                    Next::Part(start, len) => (start, len),
                    Next::All => (0, size),
                };
                Box::new(CountingOpened(self, opened, vec![came].into())) as Box<dyn Opened + 's>
            };
            let key = key.as_str().to_owned();
            let open = move || Ok(self.inner.open(Key::new(&key)?, None)?.map(came));
            Box::new(open) as Box<dyn Begun<'s> + 's>
        };
        wanted.iter().map(begin).collect()
    }
}
