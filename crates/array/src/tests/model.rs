//! A format for tests, and an array in plain memory that gives the expected results.

use crate::*;
use hyperslab_codec::{ByteOrder, Codec, Crc32c, DataType, Gzip, Zstd};
use hyperslab_store::{Key, MemoryStore, Store};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// One object per chunk: `name/1.2.3`.
#[derive(Debug)]
pub(crate) struct PerChunk(pub(crate) &'static str);

impl ChunkLocator for PerChunk {
    fn locate(&self, wanted: ChunkList<'_>, found: &mut Found) -> Result<(), LocateError> {
        for chunk in wanted.iter() {
            found.object(|key| {
                key.push_str(self.0);
                key.push('/');
                for (n, index) in chunk.iter().enumerate() {
                    let _ = write!(key, "{}{index}", if n == 0 { "" } else { "." });
                }
                if chunk.is_empty() {
                    key.push('0');
                }
            });
            found.chunk(Location::Object);
        }
        Ok(())
    }

    fn folder(&self) -> Option<&str> {
        Some(self.0)
    }

    fn chunks_of(&self, keys: &mut dyn Iterator<Item = &str>) -> Option<Vec<Dims>> {
        let chunk = |key: &str| {
            let indices = key.strip_prefix(self.0)?.strip_prefix('/')?;
            indices.split('.').map(|index| index.parse().ok()).collect()
        };
        Some(keys.filter_map(chunk).collect())
    }
}

/// One object per chunk. Calls a function when a thread begins a chunk.
pub(crate) struct Watched<F>(pub(crate) F);

impl<F> std::fmt::Debug for Watched<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watched")
    }
}

impl<F: Fn(&[u64]) + Send + Sync> ChunkLocator for Watched<F> {
    fn locate(&self, wanted: ChunkList<'_>, found: &mut Found) -> Result<(), LocateError> {
        wanted.iter().for_each(&self.0);
        PerChunk("a").locate(wanted, found)
    }

    fn folder(&self) -> Option<&str> {
        Some("a")
    }

    fn chunks_of(&self, keys: &mut dyn Iterator<Item = &str>) -> Option<Vec<Dims>> {
        PerChunk("a").chunks_of(keys)
    }
}

/// All chunks in one object, one after the other behind a header. Some are absent.
#[derive(Debug)]
pub(super) struct Packed {
    pub(super) counts: Dims,
    /// Offset, length, and the codecs that were left out.
    pub(super) ranges: Vec<Option<(u64, u64, u32)>>,
}

impl ChunkLocator for Packed {
    fn locate(&self, wanted: ChunkList<'_>, found: &mut Found) -> Result<(), LocateError> {
        found.object(|key| key.push_str("packed"));
        for chunk in wanted.iter() {
            let number = chunk.iter().zip(&self.counts).fold(0, |n, (i, count)| n * count + i);
            found.chunk(match self.ranges[number as usize] {
                Some((offset, len, skipped)) => Location::Range { offset, len, skipped },
                None => Location::Absent,
            });
        }
        Ok(())
    }

    fn shares_objects(&self) -> bool {
        true
    }
}

/// The properties in which arrays differ.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) shape: Vec<u64>,
    pub(crate) chunk: Vec<u64>,
    pub(crate) dtype: &'static str,
    pub(crate) stored: ByteOrder,
    pub(crate) order: Vec<usize>,
    pub(crate) codecs: u8,
    pub(crate) fill: Vec<u8>,
}

impl Spec {
    pub(crate) fn plain(shape: &[u64], chunk: &[u64], dtype: &'static str) -> Self {
        let size = dtype.parse::<DataType>().unwrap().size();
        Spec {
            shape: shape.into(),
            chunk: chunk.into(),
            dtype,
            stored: ByteOrder::NATIVE,
            order: vec![],
            codecs: 0,
            fill: vec![0; size],
        }
    }

    pub(crate) fn codec_list(&self) -> Vec<Arc<dyn Codec>> {
        let mut list: Vec<Arc<dyn Codec>> = Vec::new();
        if self.codecs & 1 != 0 {
            list.push(Arc::new(Zstd { level: 1, checksum: false }));
        }
        if self.codecs & 2 != 0 {
            list.push(Arc::new(Gzip { level: 1 }));
        }
        if self.codecs & 4 != 0 {
            list.push(Arc::new(Crc32c { at_start: false }));
        }
        list
    }

    pub(crate) fn layout_with(&self, store: Arc<dyn Store>, locator: Arc<dyn ChunkLocator>) -> ArrayLayout {
        self.layout_of(self.codec_list(), store, locator)
    }

    /// The layout with these codecs instead of the spec's.
    pub(crate) fn layout_of(
        &self,
        codecs: Vec<Arc<dyn Codec>>,
        store: Arc<dyn Store>,
        locator: Arc<dyn ChunkLocator>,
    ) -> ArrayLayout {
        let dtype: DataType = self.dtype.parse().unwrap();
        let encoding = ChunkEncoding::new(&self.chunk, dtype, self.stored, &self.order, codecs).unwrap();
        let grid = ChunkGrid::regular(self.chunk.as_slice().into()).unwrap();
        let fill = FillValue::new(&self.fill);
        ArrayLayout::new("test", self.shape.as_slice().into(), dtype, grid, encoding, fill, locator, store)
            .unwrap()
    }

    pub(crate) fn layout(&self, store: &MemoryStore) -> ArrayLayout {
        self.layout_with(Arc::new(store.clone()), Arc::new(PerChunk("a")))
    }

    /// The layout. `seen` is called when a thread begins a chunk.
    pub(crate) fn watched(
        &self,
        store: &MemoryStore,
        seen: impl Fn(&[u64]) + Send + Sync + 'static,
    ) -> Arc<ArrayLayout> {
        Arc::new(self.layout_with(Arc::new(store.clone()), Arc::new(Watched(seen))))
    }

    pub(crate) fn all(&self) -> Selection {
        Selection::all(&self.shape)
    }
}

/// A selection on an array of this shape.
pub(crate) fn select(shape: &[u64], indices: &[Index<'_>]) -> Selection {
    Selection::new("test", shape, indices).unwrap()
}

/// Reads a selection without options.
pub(crate) fn get(layout: &ArrayLayout, selection: &Selection) -> Memory {
    read(layout, selection, ReadOptions::default()).unwrap()
}

/// The options of a read on `threads` threads.
pub(crate) fn on(threads: usize) -> ReadOptions<'static> {
    ReadOptions { threads: Some(threads), ..ReadOptions::default() }
}

/// The number of elements in an explanation.
pub(crate) fn elements(explained: &Explain) -> u64 {
    explained.tasks.iter().map(|task| task.elements).sum()
}

/// Writes elements that are dense in the selection's order.
pub(crate) fn put(layout: &ArrayLayout, selection: &Selection, values: &[u8]) {
    let source = Source::dense(values, &selection.shape(), layout.dtype().size()).unwrap();
    write(layout, selection, &source, WriteOptions::default()).unwrap();
}

/// Fills the whole array. Neighbouring elements differ.
pub(crate) fn filled(layout: &ArrayLayout) -> Vec<u8> {
    let (count, size) = (layout.shape().iter().product::<u64>() as usize, layout.dtype().size());
    let element = |n: usize| (0..size).map(move |k| (n >> (8 * (k % 4))) as u8 ^ k as u8);
    let values: Vec<u8> = (1..=count).flat_map(element).collect();
    put(layout, &Selection::all(layout.shape()), &values);
    values
}

/// Writes one element everywhere in the selection.
pub(crate) fn put_repeated(layout: &ArrayLayout, selection: &Selection, element: &[u8]) {
    let source = Source::repeat(element, &selection.shape());
    write(layout, selection, &source, WriteOptions::default()).unwrap();
}

/// The bytes of an object, which must exist.
pub(crate) fn stored(store: &dyn Store, key: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    assert!(store.read_all(Key::new(key).unwrap(), &mut bytes, usize::MAX >> 1).unwrap(), "{key}");
    bytes
}

/// Elements of four bytes, as numbers.
pub(crate) fn numbers(memory: &Memory) -> Vec<u32> {
    memory.as_slice().as_chunks::<4>().0.iter().map(|bytes| u32::from_ne_bytes(*bytes)).collect()
}

/// Waits until something has happened, but not for ever. Returns whether it has.
pub(crate) fn happens(what: impl Fn() -> bool) -> bool {
    (0..10_000).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        what()
    })
}

/// A panic of a task, whose drop needs something that another thread has.
///
/// The drop of a Python exception is like that. The other thread uses the stream or the writer
/// meanwhile.
pub(crate) struct Foreign(pub(crate) Arc<AtomicUsize>);

impl Foreign {
    pub(crate) const DROPPING: usize = 10;
    pub(crate) const USED: usize = 11;
    pub(crate) const DROPPED: usize = 12;

    /// Waits for a drop, uses something during the drop, and returns whether both ended.
    pub(crate) fn is_dropped_beside(stage: &AtomicUsize, mut work: impl FnMut()) -> bool {
        let is = |what| happens(|| stage.load(Relaxed) == what);
        let begun = is(Foreign::DROPPING);
        work();
        stage.store(Foreign::USED, Relaxed);
        begun && is(Foreign::DROPPED)
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        self.0.store(Foreign::DROPPING, Relaxed);
        let used = happens(|| self.0.load(Relaxed) == Foreign::USED);
        self.0.store(if used { Foreign::DROPPED } else { usize::MAX }, Relaxed);
    }
}

/// An array in plain memory: dense, C order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Model {
    pub(super) shape: Vec<u64>,
    pub(super) element: usize,
    pub(super) bytes: Vec<u8>,
}

impl Model {
    pub(super) fn full(shape: &[u64], fill: &[u8]) -> Self {
        let n = shape.iter().product::<u64>() as usize;
        Model { shape: shape.into(), element: fill.len(), bytes: fill.repeat(n) }
    }

    /// The byte offset of each selected element, in the order of the result.
    fn places(&self, selection: &Selection) -> Vec<usize> {
        let mut places = vec![0u64];
        for (axis, len) in selection.axes().iter().zip(&self.shape) {
            let indices: Vec<u64> = (0..axis.len)
                .map(|k| (axis.first as i128 + i128::from(k) * i128::from(axis.step)) as u64)
                .collect();
            places = places.iter().flat_map(|head| indices.iter().map(move |i| head * len + i)).collect();
        }
        places.into_iter().map(|place| place as usize * self.element).collect()
    }

    /// The elements with these numbers in C order.
    pub(super) fn read_at(&self, places: &[u64]) -> Vec<u8> {
        places
            .iter()
            .flat_map(|at| &self.bytes[*at as usize * self.element..][..self.element])
            .copied()
            .collect()
    }

    /// Writes elements one after another.
    pub(super) fn write_at(&mut self, places: &[u64], values: &[u8]) {
        for (at, value) in places.iter().zip(values.chunks(self.element)) {
            self.bytes[*at as usize * self.element..][..self.element].copy_from_slice(value);
        }
    }

    /// All elements, the first axis fastest.
    pub(super) fn transposed(&self) -> Vec<u8> {
        let mut places = vec![0u64];
        for (k, len) in self.shape.iter().enumerate().rev() {
            let step: u64 = self.shape[k + 1..].iter().product();
            places = places.iter().flat_map(|head| (0..*len).map(move |i| head + i * step)).collect();
        }
        self.read_at(&places)
    }

    pub(super) fn read(&self, selection: &Selection) -> Vec<u8> {
        let element = self.element;
        self.places(selection).into_iter().flat_map(|at| self.bytes[at..at + element].to_vec()).collect()
    }

    /// `values` is dense in the selection's shape.
    pub(super) fn write(&mut self, selection: &Selection, values: &[u8]) {
        let element = self.element;
        for (k, at) in self.places(selection).into_iter().enumerate() {
            self.bytes[at..at + element].copy_from_slice(&values[k * element..(k + 1) * element]);
        }
    }
}
