//! Variable-length elements cause allocations per heap collection and per chunk, not per element.

#[path = "../src/checksum.rs"]
mod checksum;
#[path = "../../store/tests/common/counting.rs"]
mod counting;
#[allow(unused)]
#[path = "../src/file_builder.rs"]
mod file_builder;

use counting::allocations;
use file_builder::{Builder, collection_of, contiguous_message, dataset, hard, link_info, structure};
use hyperslab_array::{Index, ReadOptions, Selection};
use hyperslab_codec::{Codec, Scratch, Zlib};
use hyperslab_hdf5::vlen::{self, Ragged};
use hyperslab_hdf5::{Dataset, File, FileOptions, Node};
use hyperslab_store::{LocalOptions, LocalStore};
use std::sync::Arc;

/// Text of variable length; sequences of `i4`; sequences of structures of `i4`, `f4`, `i4`.
const TEXT: &[u8] = &[0x19, 1, 1, 0, 16, 0, 0, 0, 0x10, 0, 0, 0, 1, 0, 0, 0, 0, 0, 8, 0];
const ROWS: &[u8] = &[0x19, 0, 0, 0, 16, 0, 0, 0, 0x10, 8, 0, 0, 4, 0, 0, 0, 0, 0, 32, 0];
const STRUCTURES: &[u8] = &[
    0x19, 0, 0, 0, 16, 0, 0, 0, 0x36, 3, 0, 0, 12, 0, 0, 0, // three members
    b'a', 0, 0, 0x30, 8, 0, 0, 4, 0, 0, 0, 0, 0, 32, 0, //
    b'b', 0, 4, 0x31, 0x20, 31, 0, 4, 0, 0, 0, 0, 0, 32, 0, 23, 8, 0, 23, 127, 0, 0, 0, //
    b'c', 0, 8, 0x30, 8, 0, 0, 4, 0, 0, 0, 0, 0, 32, 0,
];

/// Bytes of a heap collection as the HDF5 library makes them for small objects.
const COLLECTION: usize = 4096;

/// A file with one dataset, `d`.
struct Made {
    folder: tempfile::TempDir,
    /// Number of collections in the file's heap.
    collections: u64,
}

impl Made {
    /// Writes `elements` of items of `size` bytes, in this `order` in the heap. `chunk`: with
    /// deflate.
    fn new(
        datatype: &[u8],
        size: usize,
        elements: &[Vec<u8>],
        order: &[usize],
        chunk: Option<usize>,
    ) -> Made {
        // For each collection, bytes used and its elements.
        let mut groups: Vec<(usize, Vec<usize>)> = Vec::new();
        for number in order {
            let needed = 16 + elements[*number].len().next_multiple_of(8);
            match groups.last_mut() {
                Some((used, group)) if 16 + *used + needed <= COLLECTION => {
                    *used += needed;
                    group.push(*number);
                }
                _ => groups.push((needed, vec![*number])),
            }
        }
        let (mut builder, mut ids) = (Builder::new(), vec![Vec::new(); elements.len()]);
        for (used, group) in &groups {
            let objects = (1..).zip(group).map(|(index, number)| (index, &elements[*number][..]));
            // A large object has its own collection.
            let free = COLLECTION.saturating_sub(16 + used);
            let address = builder.put(&collection_of(8, &objects.collect::<Vec<_>>(), free));
            for (index, number) in (1_u32..).zip(group) {
                ids[*number] = structure!((elements[*number].len() / size) as u32, address, index);
            }
        }
        let layout = match chunk {
            None => contiguous_message(builder.put(&ids.concat()), 16 * ids.len() as u64),
            Some(chunk) => {
                let mut leaf = Vec::new();
                for (n, ids) in ids.chunks(chunk).enumerate() {
                    let mut bytes = ids.concat();
                    bytes.resize(16 * chunk, 0);
                    let mut encoded = Vec::new();
                    Zlib { level: 1 }.encode(&bytes, &mut encoded, &mut Scratch::default()).unwrap();
                    let address = builder.put(&encoded);
                    leaf.extend(structure!(encoded.len() as u32, [0; 4], (n * chunk) as u64, 0_u64, address));
                }
                let chunks = ids.len().div_ceil(chunk);
                let head = structure!(b"TREE\x01\0", chunks as u16, [0xff; 16]);
                let tree = structure!(head, leaf, [0; 8], (chunks * chunk) as u64, 0_u64);
                structure!([3, 2, 2], builder.put(&tree), chunk as u32, 16_u32)
            }
        };
        let mut messages = dataset(&[elements.len() as u64], layout);
        messages[1].1 = datatype.to_vec();
        // Deflate.
        messages.extend(chunk.map(|_| (11, vec![2, 1, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0])));
        let data = builder.header(&messages);
        let root = builder.header(&[link_info(false), hard("d", data)]);
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("f"), builder.finish(root, 2, 0)).unwrap();
        Made { folder, collections: groups.len() as u64 }
    }

    fn open(&self) -> Dataset {
        let store = Arc::new(LocalStore::open(self.folder.path(), LocalOptions::default()).unwrap());
        let file = File::open(store, "f", FileOptions { verify: false, others: None }).unwrap();
        let Node::Dataset(dataset) = file.node("d").unwrap() else { panic!("no dataset") };
        dataset
    }
}

fn read(dataset: &Dataset, indices: &[Index<'_>]) -> Ragged {
    let layout = dataset.layout().unwrap();
    let selection = Selection::new("d", layout.shape(), indices).unwrap();
    let options = ReadOptions { threads: Some(1), ..ReadOptions::default() };
    vlen::read(dataset, &layout, &selection, options).unwrap()
}

/// `0..count` shuffled, always in the same way.
fn shuffled(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for i in (1..count).rev() {
        order.swap(i, (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % (i + 1));
    }
    order
}

fn texts(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|n| format!("text{n}").into_bytes()).collect()
}

/// Allocations of reading all `elements` of a file that was just opened, and of reading them again.
fn cold_and_warm(made: &Made, elements: &[Vec<u8>]) -> [u64; 2] {
    // A first read makes everything that is made once per thread.
    drop(read(&made.open(), &[]));
    let dataset = made.open();
    dataset.layout().unwrap();
    let cold = allocations(|| drop(read(&dataset, &[])));
    let warm = allocations(|| drop(read(&dataset, &[])));
    assert_eq!(read(&dataset, &[]).values.as_slice(), elements.concat());
    [cold, warm]
}

/// Allocations per request: the result, and data about all elements.
const REQUEST: u64 = 50;

/// Allocations for the pieces in which one thread resolves many elements. Each piece lists its
/// collections.
const PIECES: u64 = 8 * 20;

/// Allocations for a collection that is fetched and parsed.
const FETCHED: u64 = 4;

#[test]
fn cells_of_structures() {
    let cell = |n: usize| (0..200 * 12).map(|i| (n * 7 + i) as u8).collect();
    let cells: Vec<Vec<u8>> = (0..600).map(cell).collect();
    let order: Vec<usize> = (0..600).collect();
    let made = Made::new(STRUCTURES, 12, &cells, &order, None);
    assert_eq!(made.collections, 600);
    let [cold, warm] = cold_and_warm(&made, &cells);
    assert!(cold <= REQUEST + FETCHED * 600, "{cold} allocations for 600 cells in as many collections");
    assert!(warm <= REQUEST + 600 / 8, "{warm} allocations for 600 cells in memory");
    let open = allocations(|| drop(read(&made.open(), &[])));
    assert!(open - cold <= 80, "{open} allocations for opening and reading, {cold} for reading");

    let dataset = made.open();
    read(&dataset, &[]);
    for start in (0..600).step_by(60) {
        let window = allocations(|| drop(read(&dataset, &[Index::range(start, start + 60)])));
        assert!(window <= 4, "{window} allocations for a window of 60 cells");
    }
    for (n, cell) in (0..).zip(&cells) {
        // Offsets and values. Now and then, the cached ids too.
        let most = if n % 256 == 0 { 6 } else { 2 };
        let found = allocations(|| drop(read(&dataset, &[Index::At(n)])));
        assert!(found <= most, "{found} allocations for cell {n}");
        assert_eq!(read(&dataset, &[Index::At(n)]).values.as_slice(), cell);
    }
}

#[test]
fn texts_allocate_nothing() {
    for count in [40_000, 80_000] {
        let texts = texts(count);
        for (name, order) in [("file", (0..count).collect()), ("random", shuffled(count))] {
            let made = Made::new(TEXT, 1, &texts, &order, None);
            assert!(made.collections < count as u64 / 120, "{} collections", made.collections);
            let [cold, warm] = cold_and_warm(&made, &texts);
            let what =
                format!("allocations for {count} texts in {name} order, {} collections", made.collections);
            assert!(cold <= REQUEST + PIECES + FETCHED * made.collections, "{cold} {what}");
            assert!(warm <= REQUEST + PIECES, "{warm} {what} in memory");
        }
    }
}

/// The same number of collections, but ten times as many elements.
#[test]
fn allocations_are_those_of_collections() {
    let [few, many] = [5_000, 50_000].map(|count| {
        let texts = vec![vec![b'x'; 1_200_000 / count - 16]; count];
        let order: Vec<usize> = (0..count).collect();
        let made = Made::new(TEXT, 1, &texts, &order, None);
        (made.collections, cold_and_warm(&made, &texts)[1])
    });
    assert!(few.0.abs_diff(many.0) <= few.0 / 5, "{few:?} and {many:?}");
    assert!(many.1 <= few.1 + PIECES, "{few:?} and {many:?} collections and allocations");
}

#[test]
fn compressed_rows() {
    for (rows, chunk) in [(20_000, 1000), (20_000, 100), (80_000, 1000)] {
        let cells: Vec<Vec<u8>> = (0..rows).map(|n| vec![n as u8; 4 * (n * 7 % 13)]).collect();
        let order: Vec<usize> = (0..rows).collect();
        let chunked = Made::new(ROWS, 4, &cells, &order, Some(chunk));
        let contiguous = Made::new(ROWS, 4, &cells, &order, None);
        let chunks = (rows / chunk) as u64;
        let what = format!("for {rows} rows in {chunks} chunks and {} collections", chunked.collections);
        let [cold, warm] = cold_and_warm(&chunked, &cells);
        assert!(
            cold <= REQUEST + PIECES + FETCHED * chunked.collections + chunks / 4,
            "{cold} allocations {what}"
        );
        assert!(warm <= REQUEST + PIECES + chunks / 4, "{warm} allocations {what}, warm");
        // Additional allocations of chunks.
        let without = cold_and_warm(&contiguous, &cells);
        assert!(
            cold <= without[0] + 20 + chunks / 4,
            "{cold} allocations {what}, {without:?} without chunks"
        );
        assert!(
            warm <= without[1] + 20 + chunks / 4,
            "{warm} allocations {what}, {without:?} without chunks"
        );
    }
}
