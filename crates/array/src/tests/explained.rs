//! `explain` says exactly what the store and the codecs are asked for, byte for byte.

use super::counting::Counting;
use super::model::{Packed, PerChunk, Spec, elements, filled, put_repeated, select};
use super::mosaics::given;
use super::properties::case;
use super::shards::{Level, level, sharding};
use crate::*;
use hyperslab_codec::{Blosc, Codec, CodecError, Racing, Reach, Scratch};
use hyperslab_store::{Key, MemoryStore, Store};
use proptest::prelude::*;
use proptest::strategy::Strategy as Gen;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts the bytes that come out of a codec, on a test's thread and on its helper threads.
#[derive(Debug)]
struct CountedCodec(Arc<dyn Codec>, Arc<AtomicU64>);

impl Codec for CountedCodec {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch) -> Result<usize, CodecError> {
        let len = self.0.decode(src, dst, scratch)?;
        self.1.fetch_add(len as u64, Relaxed);
        Ok(len)
    }

    fn decode_part(
        &self,
        src: &[u8],
        wanted: Range<usize>,
        dst: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), CodecError> {
        let bytes = match self.0.reach() {
            _ if wanted == (0..dst.len()) => dst.len(),
            Reach::Prefix => wanted.end,
            Reach::Blocks => wanted.len(),
            Reach::Whole | Reach::Bytes => dst.len(),
        };
        self.1.fetch_add(bytes as u64, Relaxed);
        self.0.decode_part(src, wanted, dst, scratch)
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, scratch: &mut Scratch) -> Result<(), CodecError> {
        self.0.encode(src, dst, scratch)
    }

    fn racing(&self) -> Racing {
        self.0.racing()
    }

    fn max_encoded(&self, decoded: usize) -> usize {
        self.0.max_encoded(decoded)
    }

    fn unframe<'a>(&self, src: &'a [u8], verify: bool) -> Option<Result<&'a [u8], CodecError>> {
        let payload = self.0.unframe(src, verify)?;
        self.1.fetch_add(payload.as_ref().map_or(0, |payload| payload.len() as u64), Relaxed);
        Some(payload)
    }

    fn reach(&self) -> Reach {
        self.0.reach()
    }
}

/// The storage of an array's chunks.
#[derive(Clone, Debug)]
enum Storage {
    Objects,
    /// All in one object, with this many bytes between them.
    Packed(usize),
    Shards(Vec<Level>),
}

fn stored() -> impl Gen<Value = Storage> {
    prop_oneof![
        Just(Storage::Objects),
        prop_oneof![Just(0usize), Just(9), Just(50)].prop_map(Storage::Packed),
        prop::collection::vec(level(), 1..3).prop_map(Storage::Shards),
    ]
}

/// Makes the layout of a case, with all its chunks stored.
fn made(
    spec: &Spec,
    stored: &Storage,
    blosc: bool,
    decoded: &Arc<AtomicU64>,
) -> (Arc<Counting>, ArrayLayout) {
    let store = Arc::new(Counting::stamped());
    let mut codecs = spec.codec_list();
    if blosc {
        codecs.insert(0, Arc::new(Blosc::from_v3(None, 4).unwrap()));
    }
    if !codecs.is_empty() {
        codecs[0] = Arc::new(CountedCodec(codecs[0].clone(), decoded.clone()));
    }
    let objects = spec.layout_of(codecs.clone(), store.clone(), Arc::new(PerChunk("a")));
    let layout = match stored {
        Storage::Shards(levels) => objects.clone().with_sharding(sharding(spec, levels)).unwrap(),
        _ => objects.clone(),
    };
    filled(&layout);
    let Storage::Packed(gap) = stored else { return (store, layout) };
    // The chunks of all objects, one after the other in a single object.
    let counts: Dims = spec.shape.iter().zip(&spec.chunk).map(|(n, chunk)| n.div_ceil(*chunk)).collect();
    let (mut object, mut ranges, mut key) = (vec![0xEE; 3], Vec::new(), String::new());
    for number in 0..counts.iter().product::<u64>() {
        let mut rest = number;
        let mut chunk: Dims = counts.iter().rev().map(|n| (rest % n, rest /= n).0).collect();
        chunk.reverse();
        objects.locate(&chunk, &mut key).unwrap();
        let mut bytes = Vec::new();
        ranges.push(store.read_all(Key::new(&key).unwrap(), &mut bytes, 1 << 20).unwrap().then(|| {
            object.resize(object.len() + gap * (number as usize % 3), 0xEE);
            (object.len() as u64, bytes.len() as u64, 0)
        }));
        object.extend(bytes);
    }
    store.write(Key::new("packed").unwrap(), &[&object]).unwrap();
    let packed = spec.layout_of(codecs, store.clone(), Arc::new(Packed { counts, ranges }));
    (store, packed)
}

/// A bounded number of chunks is examined, and no others are described.
#[test]
fn no_more_is_told_than_was_examined() {
    let spec = Spec::plain(&[400_000], &[1], "|u1");
    let store = Arc::new(MemoryStore::new());
    let layout = super::shards::layout(&spec, &[Level::simple(&[40_000])], store);
    let some = select(&spec.shape, &[Index::range(60_000, 60_003)]);
    put_repeated(&layout, &some, &[1]);
    for write in [false, true] {
        let all = spec.all();
        let explained =
            if write { explain_write(&layout, &all, 1) } else { explain_read(&layout, &all, 1) }.unwrap();
        let counted: usize = explained.strategies.iter().map(|(_, n)| n).sum();
        assert_eq!(
            (explained.chunks, explained.examined, counted),
            (400_000, Explain::MOST_CHUNKS, Explain::MOST_CHUNKS)
        );
    }
}

/// Compares the explanation of a read with the read itself.
fn same(
    layout: &ArrayLayout,
    selection: &Selection,
    cache: Option<&ChunkCache>,
    stores: &[Arc<Counting>],
    decoded: &AtomicU64,
) -> Result<(), TestCaseError> {
    let read_bytes = || stores.iter().map(|store| store.bytes.swap(0, Relaxed)).sum::<u64>();
    let reset = || (read_bytes(), decoded.swap(0, Relaxed));
    reset();
    let explained = explain_read_cached(layout, selection, usize::MAX, cache).unwrap();
    prop_assert_eq!(reset(), (explained.index_bytes, 0), "explaining reads indexes, no more");
    // Indexes that the explanation has read may be kept now.
    let index = explain_read_cached(layout, selection, 0, cache).unwrap().index_bytes;
    reset();
    read(layout, selection, ReadOptions { cache, ..ReadOptions::default() }).unwrap();
    let done = reset();
    prop_assert_eq!(done, (explained.bytes_read + index, explained.bytes_decoded), "{}", &explained);
    prop_assert_eq!(
        explained.tasks.iter().map(|task| task.bytes_read).sum::<u64>(),
        explained.bytes_read - explained.gap_bytes
    );
    // Pieces of a mosaic may overlap. For points, the whole boxes around them are read.
    if layout.mosaic().is_none() {
        prop_assert_eq!(elements(&explained), selection.shape().iter().product::<u64>());
    }
    Ok(())
}

/// Compares the explanation of a write with the bytes that the write reads and decodes.
fn same_write(
    layout: &ArrayLayout,
    selection: &Selection,
    store: &[Arc<Counting>],
    decoded: &AtomicU64,
) -> Result<(), TestCaseError> {
    let explained = explain_write(layout, selection, usize::MAX).unwrap();
    store[0].bytes.store(0, Relaxed);
    decoded.store(0, Relaxed);
    let values: Vec<u8> = (0..layout.dtype().size()).map(|n| 7 + n as u8).collect();
    put_repeated(layout, selection, &values);
    let done = (store[0].bytes.load(Relaxed), decoded.load(Relaxed));
    // The explanation left the index of the shard in the cache.
    prop_assert_eq!(
        done,
        (explained.bytes_read + explained.bytes_copied, explained.bytes_decoded),
        "{}",
        &explained
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn what_is_told_is_done(
        (spec, _, selections) in case(),
        stored in stored(),
        blosc in any::<bool>(),
        room in prop_oneof![Just(0usize), Just(1 << 20)],
    ) {
        let decoded = Arc::new(AtomicU64::new(0));
        let (store, layout) = made(&spec, &stored, blosc, &decoded);
        let store = [store];
        let cache = ChunkCache::new(room);
        for selection in &selections {
            same(&layout, selection, None, &store, &decoded)?;
            // Twice: the second read finds the chunks that the first one kept. The cache has room
            // for all chunks. Otherwise the read itself could evict chunks that the explanation has
            // seen.
            same(&layout, selection, Some(&cache), &store, &decoded)?;
            same(&layout, selection, Some(&cache), &store, &decoded)?;
            let len = layout.shape().first().copied().unwrap_or(0) as i64;
            if len > 0 {
                let list: Vec<i64> = (0..7).map(|k| k * k % len).collect();
                let points = select(layout.shape(), &[Index::List(&list)]);
                same(&layout, &points, None, &store, &decoded)?;
            }
            let writable = match &stored {
                Storage::Objects => true,
                Storage::Packed(_) => false,
                Storage::Shards(levels) => matches!(&levels[..], [level] if !level.is_coded()),
            };
            if writable {
                same_write(&layout, selection, &store, &decoded)?;
            }
        }
    }

    /// Arrays one behind the other along the first axis of another. `apart` is the gap between
    /// them, or (if negative) the length by which each lies under the next.
    #[test]
    fn what_is_told_of_mosaics_is_done(
        (spec, _, _) in case().prop_filter("stacked along an axis", |(spec, ..)| !spec.shape.is_empty() && !spec.shape.contains(&0)),
        stored in prop::collection::vec(stored(), 1..4),
        apart in -2..3i64,
        (first, step, count) in (0..9i64, 1..4i64, 0..9i64),
    ) {
        let decoded = Arc::new(AtomicU64::new(0));
        let (mut stores, mut pieces, mut end) = (Vec::new(), Vec::new(), 0);
        let len = spec.shape[0] as i64;
        for stored in &stored {
            let (store, layout) = made(&spec, stored, false, &decoded);
            let start = if end == 0 { 0 } else { (end + apart).max(0) };
            end = end.max(start + len);
            let axes = spec.shape.iter().enumerate().map(|(k, len)| {
                Blocks::run(if k == 0 { start as u64 } else { 0 }, *len)
            });
            let here = Pattern::regular(&axes.collect::<Vec<_>>()).unwrap();
            pieces.push(Piece::new(here, Pattern::all(), given(&Arc::new(layout))).unwrap());
            stores.push(store);
        }
        let shape: Vec<u64> = std::iter::once(end as u64).chain(spec.shape[1..].iter().copied()).collect();
        let chunk: Vec<u64> = shape.iter().map(|n| (*n).max(1)).collect();
        let plain = Spec::plain(&shape, &chunk, spec.dtype);
        let whole = Spec { stored: spec.dtype.parse::<hyperslab_codec::DataType>().unwrap().order(), fill: spec.fill, ..plain };
        let layout = whole.layout(&MemoryStore::new()).with_mosaic(Mosaic::new(pieces)).unwrap();
        let (from, to) = (first.min(end), (first + step * count).min(end));
        let slice = Index::Slice { start: Some(from), stop: Some(to.max(from)), step };
        same(&layout, &Selection::all(&shape), None, &stores, &decoded)?;
        same(&layout, &select(&shape, &[slice]), None, &stores, &decoded)?;
        {
            let list: Vec<i64> = (0..7).map(|k| k * k % end).collect();
            let points = select(&shape, &[Index::List(&list)]);
            same(&layout, &points, None, &stores, &decoded)?;
        }
    }
}
