//! Chunks of a store far away.
//!
//! Tests in which order they are taken and how many are under way. Their memory is not copied.

use super::model::{Spec, select};
use crate::*;
use hyperslab_store::{
    Ask, Begun, Cost, Entry, Expected, Facts, Key, Lent, Many, MemoryStore, Opened, Opening, RangeRead,
    Result, Store,
};
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A store far away, in memory. One object comes when all others have been taken, or never.
#[derive(Debug, Default)]
struct Far {
    inner: MemoryStore,
    late: String,
    /// The number of other objects that come before the late one.
    before: usize,
    /// Objects that were begun and not finished; and the most at any time.
    under_way: AtomicUsize,
    most: AtomicUsize,
    finished: Mutex<Vec<String>>,
    /// Objects that were read by copying their bytes; objects that were put from the caller's
    /// memory; and objects whose memory the store took over.
    copied: AtomicUsize,
    swapped: AtomicUsize,
    taken_over: AtomicUsize,
}

/// An object that is on its way.
struct Coming<'s>(&'s Far, String);

impl<'s> Begun<'s> for Coming<'s> {
    fn is_here(&self) -> bool {
        self.1 != self.0.late || self.0.finished.lock().unwrap().len() >= self.0.before
    }

    fn wait(&self, _: Duration) -> bool {
        std::thread::sleep(Duration::from_micros(100));
        self.is_here()
    }

    fn finish(self: Box<Self>) -> Result<Option<Box<dyn Opened + 's>>> {
        let Coming(far, key) = *self;
        assert!(key != far.late || far.finished.lock().unwrap().len() >= far.before);
        far.under_way.fetch_sub(1, Relaxed);
        let mut bytes = Vec::new();
        let found = far.inner.read_all(Key::new(&key)?, &mut bytes, 1 << 20)?;
        far.finished.lock().unwrap().push(key);
        Ok(found.then(|| Box::new(Came(far, Arc::new(bytes))) as Box<dyn Opened + 's>))
    }
}

/// An object that has come.
#[derive(Debug)]
struct Came<'s>(&'s Far, Arc<Vec<u8>>);

impl Opened for Came<'_> {
    fn read_ranges(&self, ranges: &mut [RangeRead<'_>]) -> Result<()> {
        self.0.copied.fetch_add(1, Relaxed);
        for RangeRead { offset, buf } in ranges {
            buf.copy_from_slice(&self.1[*offset as usize..][..buf.len()]);
        }
        Ok(())
    }

    fn lend(&self, offset: u64, len: u64) -> Result<Option<Lent>> {
        assert_eq!((offset, len), (0, self.size()));
        Ok(Some(self.1.clone()))
    }

    fn size(&self) -> u64 {
        self.1.len() as u64
    }
}

impl Store for Far {
    fn read_ranges(&self, key: Key<'_>, size: Option<u64>, ranges: &mut [RangeRead<'_>]) -> Result<bool> {
        self.inner.read_ranges(key, size, ranges)
    }

    fn open<'s>(&'s self, key: Key<'_>, size: Option<u64>) -> Result<Option<Box<dyn Opened + 's>>> {
        self.inner.open(key, size)
    }

    fn read_all(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> Result<bool> {
        self.inner.read_all(key, buf, limit)
    }

    fn size(&self, key: Key<'_>) -> Result<Option<u64>> {
        self.inner.size(key)
    }

    fn swap(&self, key: Key<'_>, _: Expected<'_>, parts: &[&[u8]], _: Option<Ask<'_>>) -> Result<bool> {
        self.swapped.fetch_add(1, Relaxed);
        self.inner.write(key, parts).map(|()| true)
    }

    fn swap_owned(
        &self,
        key: Key<'_>,
        expected: Expected<'_>,
        bytes: &mut Vec<u8>,
        _: Option<Ask<'_>>,
    ) -> Result<bool> {
        self.taken_over.fetch_add(1, Relaxed);
        self.inner.swap_owned(key, expected, bytes, None)
    }

    fn list_dir(&self, prefix: Option<Key<'_>>) -> Result<Vec<Entry>> {
        self.inner.list_dir(prefix)
    }

    fn cost(&self) -> Cost {
        Cost { request: 1 << 20, range: 4096, at_once: 8, frugal: false }
    }

    fn lock_id(&self, key: Key<'_>) -> u64 {
        self.inner.lock_id(key)
    }

    fn facts(&self) -> Facts {
        Facts { is_shared: true, ..Facts::default() }
    }

    fn many(&self) -> Option<&dyn Many> {
        Some(self)
    }

    fn url(&self) -> String {
        self.inner.url()
    }
}

impl Many for Far {
    fn begin<'s>(&'s self, wanted: &[Opening<'_>]) -> Vec<Box<dyn Begun<'s> + 's>> {
        let now = self.under_way.fetch_add(wanted.len(), Relaxed) + wanted.len();
        self.most.fetch_max(now, Relaxed);
        let begin = |opening: &Opening<'_>| {
            Box::new(Coming(self, opening.key.as_str().into())) as Box<dyn Begun<'s> + 's>
        };
        wanted.iter().map(begin).collect()
    }
}

const SHAPE: [u64; 2] = [100, 64];

/// An array of 100 chunks, its elements, and the key of one of the chunks.
fn stored(codecs: u8) -> (Spec, ArrayLayout, MemoryStore, Vec<u8>, String) {
    let spec = Spec { codecs, ..Spec::plain(&SHAPE, &[1, 64], "<f4") };
    let memory = MemoryStore::new();
    let near = spec.layout(&memory);
    let values: Vec<u8> = (0..100 * 64 * 4_u32).map(|n| (n / 7 + 1) as u8).collect();
    let source = Source::dense(&values, &SHAPE, 4).unwrap();
    write(&near, &select(&spec.shape, &[]), &source, WriteOptions::default()).unwrap();
    let mut late = String::new();
    near.locate(&[2, 0], &mut late).unwrap();
    (spec, near, memory, values, late)
}

#[test]
fn one_that_is_late_holds_up_nobody() {
    for (codecs, threads) in [(0, 1), (1, 1), (1, 2), (1, 5)] {
        let (spec, near, inner, values, late) = stored(codecs);
        // The last of all chunks, as far as one thread or several see that.
        let far = Arc::new(Far { inner, late: late.clone(), before: 99, ..Far::default() });
        let layout = spec.layout_with(far.clone(), near.locator().clone());
        let options = ReadOptions { threads: Some(threads), ..ReadOptions::default() };
        let found = read(&layout, &select(&spec.shape, &[]), options).unwrap();
        assert_eq!(found.as_slice(), &values[..]);
        let finished = far.finished.lock().unwrap();
        assert_eq!((finished.len(), finished.last()), (100, Some(&late)));
        assert_eq!(finished.iter().collect::<HashSet<_>>().len(), 100);
        // Twice as many as there are requests at once, and one for each thread that has taken one.
        let most = far.most.load(Relaxed);
        assert!((16..=16 + threads).contains(&most), "{most}");
        if codecs > 0 {
            assert_eq!(far.copied.load(Relaxed), 0, "chunks are decoded where they came");
        }
    }
}

#[test]
fn one_that_never_comes_is_given_up() {
    let (spec, near, inner, _, late) = stored(1);
    let far = Arc::new(Far { inner, late, before: usize::MAX, ..Far::default() });
    let layout = spec.layout_with(far.clone(), near.locator().clone());
    let stop = || far.finished.lock().unwrap().len() == 99;
    let options = ReadOptions { threads: Some(2), interrupt: Some(&stop), ..ReadOptions::default() };
    let stopped = read(&layout, &select(&spec.shape, &[]), options);
    assert!(matches!(stopped, Err(ArrayError::Interrupted { .. })), "{stopped:?}");
}

#[test]
fn encoded_chunks_are_handed_over() {
    let spec = Spec { codecs: 1, ..Spec::plain(&[10], &[4], "<f4") };
    let far = Arc::new(Far::default());
    let near = spec.layout(&far.inner);
    let layout = spec.layout_with(far.clone(), near.locator().clone());
    let put = |from: i64, to: i64, values: &[u8]| {
        let selection = select(&spec.shape, &[Index::range(from, to)]);
        let source = Source::dense(values, &[(to - from) as u64], 4).unwrap();
        write(&layout, &selection, &source, WriteOptions::default()).unwrap();
    };
    let mut values: Vec<u8> = (1..=40).collect();
    // Two whole chunks and one at the edge of the array; then a part of a chunk; then the edge
    // again.
    put(0, 10, &values);
    assert_eq!(far.taken_over.load(Relaxed), 3);
    values[4..12].fill(77);
    put(1, 3, &[77; 8]);
    assert_eq!(far.taken_over.load(Relaxed), 4);
    values[32..40].fill(78);
    put(8, 10, &[78; 8]);
    assert_eq!((far.taken_over.load(Relaxed), far.swapped.load(Relaxed)), (5, 0));
    let found = read(&near, &select(&spec.shape, &[]), ReadOptions::default()).unwrap();
    assert_eq!(found.as_slice(), &values[..]);
}
