//! Ranges of one object of a store far away: in which order they are read, and how many wait.

use super::model::{Packed, Spec, select};
use crate::*;
use hyperslab_store::{
    Ask, Cost, Entry, Expected, Facts, Key, MemoryStore, Opened, RangeRead, Result, Store,
};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A file far away, in memory. One range comes when many others have been read, or never.
#[derive(Debug, Default)]
struct FarFile {
    inner: MemoryStore,
    cost: Option<Cost>,
    /// Offset of the range that is late, and the number of other ranges that are read before.
    late: Option<(u64, usize)>,
    /// Ranges that were announced and not read.
    coming: Mutex<Vec<(u64, u64)>>,
    /// The most of them, and of their bytes, at any time.
    most: AtomicUsize,
    most_bytes: AtomicUsize,
    announcements: AtomicUsize,
    /// Offsets in the order of reading, and the number of ranges read without announcement.
    read: Mutex<Vec<u64>>,
    unannounced: AtomicUsize,
}

impl FarFile {
    fn new(inner: &MemoryStore) -> Self {
        let cost = Cost { request: 6400, range: 0, at_once: 8, frugal: false };
        FarFile { inner: inner.clone(), cost: Some(cost), ..FarFile::default() }
    }

    fn is_here(&self, offset: u64, len: u64) -> bool {
        let Some((late, before)) = self.late else { return true };
        !(offset..offset + len).contains(&late) || self.read.lock().unwrap().len() >= before
    }
}

#[derive(Debug)]
struct OpenFar<'s>(&'s FarFile, Box<dyn Opened + 's>);

impl Opened for OpenFar<'_> {
    fn read_ranges(&self, ranges: &mut [RangeRead<'_>]) -> Result<()> {
        for range in ranges.iter() {
            let (offset, len) = (range.offset, range.buf.len() as u64);
            assert!(self.0.is_here(offset, len), "nobody waits here for what is late");
            let mut coming = self.0.coming.lock().unwrap();
            match coming.iter().position(|known| *known == (offset, len)) {
                Some(at) => drop(coming.remove(at)),
                None => drop(self.0.unannounced.fetch_add(1, Relaxed)),
            }
            self.0.read.lock().unwrap().push(offset);
        }
        self.1.read_ranges(ranges)
    }

    fn announce(&self, ranges: &[(u64, u64)], _: usize) {
        let mut coming = self.0.coming.lock().unwrap();
        coming.extend_from_slice(ranges);
        self.0.announcements.fetch_add(1, Relaxed);
        self.0.most.fetch_max(coming.len(), Relaxed);
        self.0.most_bytes.fetch_max(coming.iter().map(|(_, len)| *len as usize).sum(), Relaxed);
    }

    fn has_arrived(&self, offset: u64, len: u64, most: Duration) -> bool {
        if !most.is_zero() && !self.0.is_here(offset, len) {
            std::thread::sleep(Duration::from_micros(100));
        }
        self.0.is_here(offset, len)
    }

    fn size(&self) -> u64 {
        self.1.size()
    }
}

impl Store for FarFile {
    fn read_ranges(&self, key: Key<'_>, size: Option<u64>, ranges: &mut [RangeRead<'_>]) -> Result<bool> {
        self.inner.read_ranges(key, size, ranges)
    }

    fn open<'s>(&'s self, key: Key<'_>, size: Option<u64>) -> Result<Option<Box<dyn Opened + 's>>> {
        let opened = self.inner.open(key, size)?;
        Ok(opened.map(|opened| Box::new(OpenFar(self, opened)) as Box<dyn Opened + 's>))
    }

    fn read_all(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> Result<bool> {
        self.inner.read_all(key, buf, limit)
    }

    fn size(&self, key: Key<'_>) -> Result<Option<u64>> {
        self.inner.size(key)
    }

    fn swap(
        &self,
        key: Key<'_>,
        expected: Expected<'_>,
        parts: &[&[u8]],
        ask: Option<Ask<'_>>,
    ) -> Result<bool> {
        self.inner.swap(key, expected, parts, ask)
    }

    fn list_dir(&self, prefix: Option<Key<'_>>) -> Result<Vec<Entry>> {
        self.inner.list_dir(prefix)
    }

    fn cost(&self) -> Cost {
        self.cost.unwrap_or(Cost::NEAR)
    }

    fn lock_id(&self, key: Key<'_>) -> u64 {
        self.inner.lock_id(key)
    }

    fn facts(&self) -> Facts {
        Facts { is_shared: true, ..Facts::default() }
    }

    fn url(&self) -> String {
        self.inner.url()
    }
}

/// An array of 100 chunks in one object, with gaps that are not worth reading.
fn packed(row: u64, codecs: u8) -> (Spec, MemoryStore, Arc<Packed>, Vec<u8>) {
    let spec = Spec { codecs, ..Spec::plain(&[100, row], &[1, row], "<f4") };
    let memory = MemoryStore::new();
    let near = spec.layout(&memory);
    // Hardly compressible.
    let mixed = |n: u64| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8;
    let values: Vec<u8> = (1..=100 * row * 4).map(mixed).collect();
    let source = Source::dense(&values, &spec.shape, 4).unwrap();
    write(&near, &spec.all(), &source, WriteOptions::default()).unwrap();
    let (mut all, mut ranges) = (vec![0; 200], Vec::new());
    for n in 0..100 {
        let mut key = String::new();
        near.locate(&[n, 0], &mut key).unwrap();
        let mut bytes = Vec::new();
        assert!(memory.read_all(Key::new(&key).unwrap(), &mut bytes, 1 << 20).unwrap());
        ranges.push(Some((all.len() as u64, bytes.len() as u64, 0)));
        all.extend_from_slice(&bytes);
        all.resize(all.len() + 200, 0);
    }
    memory.write(Key::new("packed").unwrap(), &[&all]).unwrap();
    let locator = Arc::new(Packed { counts: [100, 1].into_iter().collect(), ranges });
    (spec, memory, locator, values)
}

#[test]
fn a_range_that_is_late_holds_up_nobody() {
    for (codecs, threads) in [(1, 1), (1, 2), (5, 5)] {
        let (spec, memory, locator, values) = packed(64, codecs);
        let late = locator.ranges[2].unwrap().0;
        let far = Arc::new(FarFile { late: Some((late, 99)), ..FarFile::new(&memory) });
        let layout = spec.layout_with(far.clone(), locator);
        let options = ReadOptions { threads: Some(threads), ..ReadOptions::default() };
        let found = read(&layout, &spec.all(), options).unwrap();
        assert_eq!(found.as_slice(), &values[..]);
        let read = far.read.lock().unwrap();
        assert_eq!((read.len(), read.last()), (100, Some(&late)));
        assert_eq!(far.unannounced.load(Relaxed), 0);
        // Lots of eight are begun as soon as there are fewer than eight, besides the chunk that
        // each thread has taken.
        let most = far.most.load(Relaxed);
        assert!((9..=15 + threads).contains(&most), "{most}");
    }
}

#[test]
fn a_range_that_never_comes_is_given_up() {
    let (spec, memory, locator, _) = packed(64, 1);
    let late = locator.ranges[2].unwrap().0;
    let far = Arc::new(FarFile { late: Some((late, usize::MAX)), ..FarFile::new(&memory) });
    let layout = spec.layout_with(far.clone(), locator);
    let stop = || far.read.lock().unwrap().len() == 99;
    let options = ReadOptions { threads: Some(2), interrupt: Some(&stop), ..ReadOptions::default() };
    let stopped = read(&layout, &spec.all(), options);
    assert!(matches!(stopped, Err(ArrayError::Interrupted { .. })), "{stopped:?}");
}

/// Unit tests have a bound of 64 KiB for each thread.
#[test]
fn few_bytes_wait_in_memory() {
    for threads in [1, 2] {
        let (spec, memory, locator, values) = packed(1024, 1);
        let late = locator.ranges[2].unwrap().0;
        let cost = Cost { request: 6400, range: 0, at_once: 64, frugal: false };
        let far = Arc::new(FarFile { late: Some((late, 99)), cost: Some(cost), ..FarFile::new(&memory) });
        let layout = spec.layout_with(far.clone(), locator);
        let options = ReadOptions { threads: Some(threads), ..ReadOptions::default() };
        assert_eq!(read(&layout, &spec.all(), options).unwrap().as_slice(), &values[..]);
        // Besides the bytes on their way, each thread has taken a chunk.
        let most = far.most_bytes.load(Relaxed);
        assert!((32 << 10..=threads * ((64 << 10) + 5000)).contains(&most), "{most}");
    }
}

#[test]
fn parts_of_one_chunk_are_announced_together() {
    let spec = Spec::plain(&[100, 64], &[100, 64], "<f4");
    let memory = MemoryStore::new();
    let near = spec.layout(&memory);
    let values: Vec<u8> = (0..100 * 64 * 4_u32).map(|n| (n / 7 + 1) as u8).collect();
    let source = Source::dense(&values, &spec.shape, 4).unwrap();
    write(&near, &spec.all(), &source, WriteOptions::default()).unwrap();
    let far = Arc::new(FarFile::new(&memory));
    let layout = spec.layout_with(far.clone(), near.locator().clone());
    let options = ReadOptions { threads: Some(4), ..ReadOptions::default() };
    assert_eq!(read(&layout, &spec.all(), options).unwrap().as_slice(), &values[..]);
    let rows = select(&spec.shape, &[Index::range(10, 20)]);
    assert_eq!(read(&layout, &rows, options).unwrap().as_slice(), &values[2560..5120]);
    let parts = far.read.lock().unwrap().len();
    let (unannounced, calls) = (far.unannounced.load(Relaxed), far.announcements.load(Relaxed));
    assert!(parts > 8 && unannounced == 0 && calls == 2, "{parts} {unannounced} {calls}");
}
