//! In the steady state a chunk costs no heap allocation.
//!
//! Requests over many chunks make as many allocations as requests over few. Chunks that are kept
//! for a while are few at a time.

use hyperslab_array::*;
use hyperslab_codec::{ByteOrder, ChunkCodecs, Codec, Crc32c, DataType, Gzip, Vlen, VlenKind, Zstd};
use hyperslab_store::{LocalOptions, LocalStore};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fmt::Write;
use std::sync::Arc;

struct Counting;

thread_local! {
    /// Allocations of this thread, which executes all requests of these tests.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// Bytes that this thread has allocated and not freed; and the most at any time.
    static LIVE: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

fn grown(by: isize) {
    let (live, most) = LIVE.get();
    LIVE.set((live + by, most.max(live + by)));
}

// SAFETY: hands everything to the system's allocator; counting touches no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        grown(layout.size() as isize);
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        grown(-(layout.size() as isize));
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        grown(size as isize - layout.size() as isize);
        // SAFETY: as promised by the caller.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[derive(Debug)]
struct Keys;

impl ChunkLocator for Keys {
    fn locate(&self, wanted: ChunkList<'_>, found: &mut Found) -> Result<(), LocateError> {
        for chunk in wanted.iter() {
            found.object(|key| {
                key.push('c');
                for index in chunk {
                    let _ = write!(key, "/{index}");
                }
            });
            found.chunk(Location::Object);
        }
        Ok(())
    }
}

fn layout(root: &std::path::Path, order: &[usize], codecs: Vec<Arc<dyn Codec>>) -> ArrayLayout {
    let dtype: DataType = "<f4".parse().unwrap();
    let shape: Dims = [128, 128].into_iter().collect();
    let chunk: Dims = [16, 16].into_iter().collect();
    let encoding = ChunkEncoding::new(&chunk, dtype, ByteOrder::Little, order, codecs).unwrap();
    let grid = ChunkGrid::regular(chunk).unwrap();
    let store = LocalStore::open(root, LocalOptions::default()).unwrap();
    ArrayLayout::new("t", shape, dtype, grid, encoding, FillValue::zero(4), Arc::new(Keys), Arc::new(store))
        .unwrap()
}

/// The number of allocations that `work` makes.
fn count(work: &mut dyn FnMut()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

#[test]
fn chunks_allocate_nothing() {
    let values: Vec<u8> = (0..128 * 128 * 4).map(|i| (i / 64) as u8 | 1).collect();
    let zstd = || Arc::new(Zstd { level: 1, checksum: false }) as Arc<dyn Codec>;
    let gzip = || Arc::new(Gzip { level: 1 }) as Arc<dyn Codec>;
    let crc = || Arc::new(Crc32c { at_start: false }) as Arc<dyn Codec>;
    let cases = [
        ("plain", false, vec![]),
        ("transposed", true, vec![]),
        ("zstd", false, vec![zstd()]),
        ("gzip", false, vec![gzip()]),
        ("zstd + crc32c, transposed", true, vec![zstd(), crc()]),
        ("crc32c", false, vec![crc()]),
    ];
    for (name, transposed, codecs) in cases {
        let folder = tempfile::tempdir().unwrap();
        let order: &[usize] = if transposed { &[1, 0] } else { &[] };
        let layout = layout(folder.path(), order, codecs);
        // On this thread alone, because it is chance how many chunks each worker meets first.
        let one = Some(1);
        let select = |indices: &[Index<'_>]| Selection::new("t", layout.shape(), indices).unwrap();
        // 16 and 64 chunks: whole ones, and columns and steps of them.
        let sizes = [select(&[Index::range(0, 64), Index::range(0, 64)]), select(&[])];
        let strided = |stop| Index::Slice { start: Some(1), stop: Some(stop), step: 3 };
        let parts = [select(&[strided(64), strided(64)]), select(&[strided(128), strided(128)])];
        for selections in [&sizes, &parts] {
            let mut writes = Vec::new();
            let mut reads = Vec::new();
            for selection in selections {
                let shape = selection.shape();
                let bytes = shape.iter().product::<u64>() as usize * 4;
                let source = Source::dense(&values[..bytes], &shape, 4).unwrap();
                let options = WriteOptions { threads: one, ..WriteOptions::default() };
                write(&layout, selection, &source, options).unwrap();
                writes.push(count(&mut || write(&layout, selection, &source, options).unwrap()));
                let mut memory = vec![0; bytes];
                let mut target = Target::dense(&mut memory, &shape, 4).unwrap();
                let options = ReadOptions { threads: one, ..ReadOptions::default() };
                read_into(&layout, selection, &mut target, options).unwrap();
                reads.push(count(&mut || read_into(&layout, selection, &mut target, options).unwrap()));
                assert_eq!(memory, values[..bytes], "{name}");
            }
            assert_eq!(writes[1], writes[0], "{name}: allocations for writing 64 and 16 chunks");
            assert_eq!(reads[1], reads[0], "{name}: allocations for reading 64 and 16 chunks");
        }
    }
}

/// An array of texts on one axis.
fn texts(root: &std::path::Path, len: u64, chunk: u64) -> ArrayLayout {
    let (cell, chunk) = (DataType::CELL, Dims::from_slice(&[chunk]));
    let codecs: Vec<Arc<dyn Codec>> = vec![Arc::new(Zstd { level: 1, checksum: false })];
    let vlen = Some(Vlen::new(VlenKind::Text, [].into()));
    let codecs = ChunkCodecs { order: vec![], stored: cell.order(), vlen, codecs };
    let encoding = ChunkEncoding::of(&chunk, cell, &codecs).unwrap();
    let grid = ChunkGrid::regular(chunk).unwrap();
    let store = Arc::new(LocalStore::open(root, LocalOptions::default()).unwrap());
    let (shape, fill) = (Dims::from_slice(&[len]), FillValue::zero(16));
    ArrayLayout::new("t", shape, cell, grid, encoding, fill, Arc::new(Keys), store).unwrap()
}

/// The bytes of a chunk with elements of variable length are kept until they are copied.
///
/// This takes a fixed number of allocations for each chunk, however many elements it has.
#[test]
fn chunks_of_variable_length_allocate_what_they_hold() {
    let folder = tempfile::tempdir().unwrap();
    let layout = texts(folder.path(), 5000, 50);
    let mut values = Memory::dirty(10_000).unwrap();
    values.as_mut_slice().fill(b'x');
    let offsets = (0..=5000).map(|n| n * 2).collect();
    let texts = Arc::new(Ragged { shape: [5000].as_slice().into(), offsets, values, validity: None });
    write_ragged(&layout, &Selection::all(&[5000]), &texts, WriteOptions::default()).unwrap();
    let options = ReadOptions { threads: Some(1), ..ReadOptions::default() };
    let allocations = |elements: i64| {
        let selection = Selection::new("t", &[5000], &[Index::range(0, elements)]).unwrap();
        let read = || read_ragged(&layout, &selection, options).unwrap();
        assert_eq!(read().values.len() as i64, 2 * elements);
        count(&mut || drop(read()))
    };
    let (one, few, many) = (allocations(1), allocations(500), allocations(5000));
    assert!(many - few <= 90 * 2 + 16, "{few} and {many} allocations for 10 and 100 chunks");
    assert!(one <= 40, "{one} allocations for one element");
}

/// Points come in batches, so that only some chunks are kept at a time, even if few of their
/// elements are wanted.
#[test]
fn points_keep_few_chunks_at_a_time() {
    const CHUNK: i64 = 8192;
    const CHUNKS: i64 = 128;
    let folder = tempfile::tempdir().unwrap();
    let layout = texts(folder.path(), (CHUNK * CHUNKS) as u64, CHUNK as u64);
    // The first element of each chunk has 1 MiB and is not wanted. The others have a byte each.
    let mut values = Memory::dirty((1 << 20) + CHUNK as usize - 1).unwrap();
    values.as_mut_slice().fill(b'x');
    let offsets = std::iter::once(0).chain((0..CHUNK).map(|n| (1 << 20) + n)).collect();
    let texts = Arc::new(Ragged { shape: [CHUNK as u64].as_slice().into(), offsets, values, validity: None });
    for chunk in 0..CHUNKS {
        let part = Index::range(chunk * CHUNK, (chunk + 1) * CHUNK);
        let part = Selection::new("t", layout.shape(), &[part]).unwrap();
        write_ragged(&layout, &part, &texts, WriteOptions::default()).unwrap();
    }
    // Nearly all elements of the first chunks, then one of each.
    let dense = (0..8 * CHUNK).filter(|at| at % CHUNK % 1000 != 0);
    let points: Vec<i64> = dense.chain((8..CHUNKS).map(|n| n * CHUNK + 1 + n * n % 100)).collect();
    let selection = Selection::new("t", layout.shape(), &[Index::List(&points)]).unwrap();
    let (live, _) = LIVE.get();
    LIVE.set((live, live));
    let recycled = recycled_bytes();
    let options = ReadOptions { threads: Some(1), ..ReadOptions::default() };
    let found = read_ragged(&layout, &selection, options).unwrap();
    assert_eq!(found.values.len(), points.len());
    drop(found);
    // Count recycled pages too: they wait to be used again.
    let most = (LIVE.get().1 - live) as usize + recycled_bytes() - recycled;
    let most = most >> 20;
    assert!((8..40).contains(&most), "{most} MiB at a time, of {CHUNKS}");
}

/// The whole request for one chunk: selecting, planning, reading a part of an unencoded chunk.
#[test]
fn small_reads_allocate_their_result_only() {
    let folder = tempfile::tempdir().unwrap();
    let layout = layout(folder.path(), &[], vec![]);
    let all = Selection::all(layout.shape());
    let values: Vec<u8> = (0..128 * 128 * 4).map(|i| (i / 64) as u8 | 1).collect();
    let source = Source::dense(&values, layout.shape(), 4).unwrap();
    write(&layout, &all, &source, WriteOptions::default()).unwrap();
    for indices in [
        [Index::At(5), Index::At(7)],
        [Index::range(0, 10), Index::range(0, 10)],
        [Index::range(0, 16), Index::range(16, 32)],
    ] {
        let select = || Selection::new("t", layout.shape(), &indices).unwrap();
        let shape = select().shape();
        let mut memory = vec![0; shape.iter().product::<u64>() as usize * 4];
        let mut into = || {
            let selection = select();
            let mut target = Target::dense(&mut memory, &shape, 4).unwrap();
            read_into(&layout, &selection, &mut target, ReadOptions::default()).unwrap();
        };
        into();
        assert_eq!(count(&mut into), 0, "{indices:?}: into memory of the caller");
        let mut new = || drop(read(&layout, &select(), ReadOptions::default()).unwrap());
        assert_eq!(count(&mut new), 1, "{indices:?}: into new memory");
    }
}

#[test]
fn cached_chunks_allocate_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let layout = layout(folder.path(), &[], vec![Arc::new(Zstd { level: 1, checksum: false })]);
    let all = Selection::new("t", layout.shape(), &[]).unwrap();
    write(&layout, &all, &Source::repeat(&[1, 2, 3, 4], &all.shape()), WriteOptions::default()).unwrap();
    // The cache keeps no chunks of files that have just been changed.
    std::thread::sleep(std::time::Duration::from_millis(2200));
    let cache = ChunkCache::new(64 << 20);
    let options = ReadOptions { threads: Some(1), cache: Some(&cache), ..ReadOptions::default() };
    let part = |n| Selection::new("t", layout.shape(), &[Index::range(0, n), Index::range(0, n)]).unwrap();
    let [few, many] = [60, 120].map(|n| {
        let mut memory = vec![0; (n * n * 4) as usize];
        let shape = [n as u64, n as u64];
        let mut target = Target::dense(&mut memory, &shape, 4).unwrap();
        let selection = part(n);
        read_into(&layout, &selection, &mut target, options).unwrap();
        let count = count(&mut || read_into(&layout, &selection, &mut target, options).unwrap());
        assert!(memory.as_chunks::<4>().0.iter().all(|element| *element == [1, 2, 3, 4]));
        count
    });
    assert_eq!(many, few, "allocations for reading 64 and 16 chunks");
    assert_eq!(cache.hits_and_misses(), (16 + 16 + 64, 64));
}

/// A shard of many small chunks takes little more memory than its bytes.
#[test]
fn small_chunks_of_a_shard_take_little_memory() {
    const CHUNKS: u64 = 1 << 17;
    let folder = tempfile::tempdir().unwrap();
    let dtype: DataType = "<f4".parse().unwrap();
    let (shape, chunk) = (Dims::from_slice(&[16 * CHUNKS]), Dims::from_slice(&[16]));
    let encoding = ChunkEncoding::new(&chunk, dtype, ByteOrder::Little, &[], vec![]).unwrap();
    let grid = ChunkGrid::regular(chunk.clone()).unwrap();
    let store = Arc::new(LocalStore::open(folder.path(), LocalOptions::default()).unwrap());
    let fill = FillValue::zero(4);
    let index = IndexEncoding::new(&[CHUNKS], &[], ByteOrder::Little, vec![]).unwrap();
    let level = ShardLevel::new(&shape, &chunk, &[], index, false, vec![]).unwrap();
    let layout = ArrayLayout::new("t", shape, dtype, grid, encoding, fill, Arc::new(Keys), store).unwrap();
    let layout = layout.with_sharding(Sharding::new(vec![level]).unwrap()).unwrap();
    let all = Selection::all(layout.shape());
    let (live, _) = LIVE.get();
    LIVE.set((live, live));
    let options = WriteOptions { threads: Some(1), ..WriteOptions::default() };
    write(&layout, &all, &Source::repeat(&[1, 2, 3, 4], &all.shape()), options).unwrap();
    // The index is there in three forms of 16 bytes, beside a table of the chunks.
    let most = (LIVE.get().1 - live) as u64 / CHUNKS;
    assert!(most <= 100, "{most} bytes for each chunk of 64 bytes");
    assert!(std::fs::metadata(folder.path().join("c/0")).unwrap().len() == CHUNKS * (64 + 16));
}
