//! Property tests: heaps of any layout give back their contents and read only the necessary bytes.

use super::fill::IdBatch;
use super::ids::ids;
use super::inspect::{Heap, Limits, look_within};
use super::*;
use crate::testing::{
    Builder, SIZES, bare, bare_start, collection_of, contiguous_message, element_within, hard, link_info,
    mutations, open, structure, the_dataset,
};
use crate::{Sizes, datatype};
use hyperslab_array::{Index, Memory};
use proptest::prelude::*;

/// A collection under construction.
#[derive(Clone, Debug)]
struct Made {
    /// Index and bytes of each object.
    objects: Vec<(u16, Vec<u8>)>,
    /// Free bytes at the end of the collection, and bytes between it and the next one.
    free: usize,
    gap: usize,
}

/// A heap and ids that refer to it.
#[derive(Clone, Debug)]
struct Model {
    sizes: Sizes,
    collections: Vec<Made>,
    /// `None`: null. Otherwise collection, object, and the fraction of its bytes that counts.
    cells: Vec<Option<(usize, usize, f64)>>,
    kind: Kind,
    /// Bytes before the first id, and between two ids.
    offset: usize,
    between: usize,
}

/// The type of elements.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Text,
    Shorts,
    /// Integers of 3 bytes, which take 4 bytes in memory.
    Odd,
}

impl Kind {
    fn hex(self, sizes: Sizes) -> String {
        let id = sizes.offset + 8;
        match self {
            Kind::Text => format!("19010100{id:02x}000000100000000100000000000800"),
            Kind::Shorts => format!("19000000{id:02x}000000100800000200000000001000"),
            Kind::Odd => format!("19000000{id:02x}000000100800000300000000001800"),
        }
    }

    fn size(self) -> usize {
        [1, 2, 3][self as usize]
    }

    /// Converts the bytes of an element to memory.
    fn in_memory(self, bytes: &[u8]) -> Vec<u8> {
        let widened = |item: &[u8]| {
            let sign = if item[2] & 0x80 == 0 { 0 } else { 0xff };
            [item[0], item[1], item[2], sign]
        };
        match self {
            Kind::Text => bytes.iter().copied().take_while(|byte| *byte != 0).collect(),
            Kind::Shorts => bytes.to_vec(),
            Kind::Odd => bytes.chunks(3).flat_map(widened).collect(),
        }
    }
}

fn encoded(made: &Made, sizes: Sizes) -> Vec<u8> {
    let objects: Vec<_> = made.objects.iter().map(|(index, data)| (*index, &data[..])).collect();
    collection_of(sizes.length, &objects, made.free.next_multiple_of(8))
}

fn heap_id(sizes: Sizes, len: usize, address: u64, index: u16) -> Vec<u8> {
    structure!(len as u32, &address.to_le_bytes()[..sizes.offset.into()], u32::from(index))
}

fn element(kind: Kind, sizes: Sizes) -> Element {
    element_within(&kind.hex(sizes), sizes).unwrap().1
}

impl Model {
    /// The file, the address of each collection, and the ids.
    fn build(&self) -> (Vec<u8>, Vec<u64>, Vec<u8>) {
        let (mut rest, mut addresses) = (Vec::new(), Vec::new());
        for made in &self.collections {
            addresses.push(bare_start(self.sizes) + rest.len() as u64);
            rest.extend(encoded(made, self.sizes));
            rest.resize(rest.len() + made.gap.next_multiple_of(8), 0x55);
        }
        let mut ids = vec![0xaa; self.offset];
        for (number, cell) in self.cells.iter().enumerate() {
            ids.extend(match (cell, number % 2) {
                // Null: the address is zero, or undefined with any length.
                (None, 0) => heap_id(self.sizes, 0, 0, 0),
                (None, _) => heap_id(self.sizes, 5, u64::MAX, 1),
                (Some((at, object, _)), odd) => {
                    let items = self.bytes(cell).len() / self.kind.size();
                    // If an element has no items, its object is never looked up.
                    let missing = items == 0 && odd == 1;
                    let index = if missing { 40_000 } else { self.collections[*at].objects[*object].0 };
                    heap_id(self.sizes, items, addresses[*at], index)
                }
            });
            ids.resize(ids.len() + self.between, 0xaa);
        }
        (bare(self.sizes, &rest), addresses, ids)
    }

    /// The elements in memory.
    fn in_memory(&self) -> Vec<Option<Vec<u8>>> {
        self.cells.iter().map(|cell| cell.map(|_| self.kind.in_memory(self.bytes(cell)))).collect()
    }

    /// The stored bytes of a cell.
    fn bytes(&self, cell: &Option<(usize, usize, f64)>) -> &[u8] {
        let Some((at, object, part)) = cell else { return &[] };
        let (_, bytes) = &self.collections[*at].objects[*object];
        let items = bytes.len() / self.kind.size();
        &bytes[..((items as f64 * part).round() as usize).min(items) * self.kind.size()]
    }
}

fn model() -> impl Strategy<Value = Model> {
    let object = prop_oneof![
        6 => prop::collection::vec(1u8.., 0..12),
        3 => prop::collection::vec(0u8.., 0..60),
        2 => (1000usize..9000, 1u8..).prop_map(|(len, byte)| vec![byte; len]),
        1 => (60_000usize..150_000, 1u8..).prop_map(|(len, byte)| vec![byte; len]),
    ];
    let objects = prop::collection::vec(object, 1..20);
    let indices = prop::sample::subsequence((1u16..60).chain([700, 0xffff]).collect::<Vec<_>>(), 20);
    let free = prop_oneof![2 => Just(0usize), 1 => Just(8), 2 => 16usize..5000, 1 => 60_000usize..70_000];
    let gap = prop_oneof![3 => Just(0usize), 1 => 1usize..9000, 1 => 60_000usize..140_000];
    let made =
        (objects, indices, any::<bool>(), free, gap).prop_map(|(objects, indices, usual, free, gap)| {
            let mut indices = if usual { (1..=20).collect() } else { indices };
            if objects.len() % 3 == 0 {
                indices.reverse();
            }
            Made { objects: indices.into_iter().zip(objects).collect(), free, gap }
        });
    let sizes = (prop_oneof![Just(4u8), Just(8)], prop_oneof![Just(4u8), Just(8)])
        .prop_map(|(offset, length)| Sizes { offset, length });
    let kind = prop_oneof![Just(Kind::Text), Just(Kind::Shorts), Just(Kind::Odd)];
    let collections = prop::collection::vec(made, 1..8);
    let part = prop_oneof![3 => Just(1.0), 1 => 0.0f64..1.0];
    let cell = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), part);
    let cells = prop::collection::vec(prop::option::weighted(0.9, cell), 0..150);
    (sizes, collections, cells, kind, 0usize..9, 0usize..9).prop_map(
        |(sizes, collections, cells, kind, offset, between)| {
            let cell = |(at, object, part): (prop::sample::Index, prop::sample::Index, f64)| {
                let at = at.index(collections.len());
                (at, object.index(collections[at].objects.len()), part)
            };
            let cells = cells.into_iter().map(|found| found.map(cell)).collect();
            Model { sizes, collections, cells, kind, offset, between }
        },
    )
}

/// The elements. `None`: null.
fn taken_apart(found: &Ragged, size: usize) -> Vec<Option<Vec<u8>>> {
    assert_eq!(found.offsets[0], 0);
    let cells = found.offsets.windows(2).enumerate().map(|(cell, ends)| {
        let there = found.validity.as_ref().is_none_or(|validity| validity[cell]);
        let bytes = &found.values.as_slice()[ends[0] as usize * size..ends[1] as usize * size];
        there.then(|| bytes.to_vec())
    });
    let cells = cells.collect();
    assert_eq!(*found.offsets.last().unwrap() as usize * size, found.values.len());
    cells
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn elements_are_what_was_put_into_the_heap(model in model()) {
        let (bytes, _, ids) = model.build();
        let file = open(&bytes).unwrap();
        let element = element(model.kind, model.sizes);
        let (count, stride) = (model.cells.len(), element.size + model.between);
        let expected = model.in_memory();
        let size = [1, 2, 4][model.kind as usize];
        // Read twice. The second time, the collections are in memory.
        for _ in 0..2 {
            let found = resolve(&file, &element, &ids, model.offset, stride, count).unwrap();
            prop_assert_eq!(&taken_apart(&found, size), &expected);
            prop_assert_eq!(found.validity.is_some(), expected.contains(&None));
        }
        // Read one element at a time, with nothing of the file in memory.
        let file = open(&bytes).unwrap();
        for (cell, expected) in expected.iter().enumerate() {
            let found = resolve(&file, &element, &ids, model.offset + cell * stride, stride, 1).unwrap();
            prop_assert_eq!(&taken_apart(&found, size)[0], expected);
        }
        // Read in batches that grow one result.
        let items = Items::of(&element);
        let mut grown = VlenBuilder::new(&file, element.size, items.as_ref(), count).unwrap();
        for first in (0..count).step_by(40) {
            let (offset, count) = (model.offset + first * stride, (count - first).min(40));
            grown.push(&ids, offset, stride, count, Some(1 + first % 3)).unwrap();
        }
        prop_assert_eq!(&taken_apart(&grown.finish(Dims::new()), size), &expected);
    }

    /// Any cut into sections, on any number of threads.
    #[test]
    fn sections_of_any_size(
        model in model(),
        in_order in any::<bool>(),
        limits in (1usize..40, 1u64..5000, 1usize..6, 0usize..30)
            .prop_map(|(cells, items, collections, more)| Limits { cells, items, collections, most: collections + more }),
        threads in 1usize..4,
        together in prop_oneof![Just(0), Just(20_000u64), Just(1 << 30)],
    ) {
        let mut model = model;
        if in_order {
            model.cells.sort_by_key(|cell| cell.map_or((0, 0), |(at, object, _)| (at, object)));
        }
        let (bytes, addresses, raw) = model.build();
        let file = open(&bytes).unwrap();
        let element = element(model.kind, model.sizes);
        let items = Items::of(&element).unwrap();
        let (count, stride) = (model.cells.len(), element.size + model.between);
        let ids = ids(&raw, (model.offset, stride, element.size), count, model.sizes).unwrap();
        let sections = look_within(limits, &ids, Some(threads));
        let expected = model.in_memory();
        prop_assert_eq!(sections.nulls(), expected.contains(&None));
        let heap = sections.heap();
        if in_order && limits.most >= addresses.len() {
            prop_assert!(matches!(heap, Heap::Own { .. }), "sorted");
        }
        let mut values = vec![0xEE; sections.items() as usize * items.size];
        let mut ends = vec![100; count + 1];
        let batch = IdBatch {
            file: &file,
            items: &items,
            ids: &ids,
            first: 0,
            keep: threads == 2,
            threads: Some(threads),
            together,
            only_look: false,
        };
        let looked = IdBatch { only_look: true, ..batch };
        looked.fill(&sections, &heap, 0, &mut vec![0; count], &mut []).unwrap();
        let left = batch.fill(&sections, &heap, 100, &mut ends[1..], &mut values).unwrap();
        let mut found = Memory::dirty(left * items.size).unwrap();
        found.as_mut_slice().copy_from_slice(&values[..left * items.size]);
        let found = Ragged {
            shape: Dims::new(),
            offsets: ends.iter().map(|end| end - 100).collect(),
            values: found,
            validity: Some(model.cells.iter().map(Option::is_some).collect()),
        };
        prop_assert_eq!(taken_apart(&found, items.size), expected);
    }

    /// A wrong id gives an error that names the element and the reason.
    #[test]
    fn wrong_ids_are_named(model in model(), cell in any::<prop::sample::Index>(), kind in 0..7) {
        prop_assume!(!model.cells.is_empty());
        let (bytes, addresses, mut ids) = model.build();
        let file = open(&bytes).unwrap();
        let element = element(model.kind, model.sizes);
        let (count, stride) = (model.cells.len(), element.size + model.between);
        let cell = cell.index(count);
        let (first, (index, object)) = (addresses[0], &model.collections[0].objects[0]);
        let (more, size, has) = (object.len() + 1, model.kind.size(), object.len());
        let undefined = u64::MAX >> (64 - 8 * u32::from(model.sizes.offset));
        let (len, address, index, why) = match kind {
            0 => (1, first, 0, "has no object 0".into()),
            1 => (1, first, 600, "has no object 600".into()),
            2 => (more, first, *index, format!("expected {more} elements of {size} bytes in object {index}, found {has} bytes")),
            3 => (u32::MAX as usize, first, *index, format!("{} elements of", u32::MAX)),
            4 => (1, first + 8, 1, "the signature 'GCOL'".into()),
            5 => (1, undefined - 1, 1, "the file has only".into()),
            _ => (1, bytes.len() as u64, 1, format!("the file has only {} bytes", bytes.len())),
        };
        let at = model.offset + cell * stride;
        ids[at..at + element.size].copy_from_slice(&heap_id(model.sizes, len, address, index));
        let name = format!("element {cell}, global heap collection at address {address}: ");
        for _ in 0..2 {
            let error = resolve(&file, &element, &ids, model.offset, stride, count).unwrap_err().to_string();
            prop_assert!(error.contains(&name) && error.contains(&why), "{}", error);
        }
        // The same error by every way of resolving.
        let items = Items::of(&element).unwrap();
        let ids = super::ids::ids(&ids, (model.offset, stride, element.size), count, model.sizes).unwrap();
        for (cells, together) in [(1000, 1 << 30), (20, 1 << 30), (20, 0)] {
            let limits = Limits { cells, items: 5000, collections: 2, most: if together == 0 { 0 } else { 1000 } };
            let sections = look_within(limits, &ids, Some(2));
            let (file, items, threads) = (&file, &items, Some(2));
            let batch = IdBatch { file, items, ids: &ids, first: 0, keep: false, threads, together, only_look: true };
            let error = batch.fill(&sections, &sections.heap(), 0, &mut vec![0; count], &mut []).unwrap_err();
            prop_assert!(error.to_string().contains(&name) && error.to_string().contains(&why), "{}", error);
        }
    }
}

/// An open file with nothing in memory, so that bytes read while opening do not help.
fn unread(rest: &[u8]) -> File {
    let file = open(&bare(SIZES, rest)).unwrap();
    file.source().forget().unwrap();
    file.source().take_ranges();
    file
}

/// A file with one collection per size, `gap` bytes apart, and the ids of their objects.
fn collections(sizes: &[usize], gap: usize) -> (File, Element, Vec<Vec<u8>>) {
    let (mut rest, mut ids) = (Vec::new(), Vec::new());
    for (number, size) in sizes.iter().enumerate() {
        let made = Made { objects: vec![(1, vec![number as u8; 40])], free: size - 72, gap: 0 };
        ids.push(heap_id(SIZES, 20, bare_start(SIZES) + rest.len() as u64, 1));
        rest.extend(encoded(&made, SIZES));
        rest.resize(rest.len() + gap, 0);
    }
    (unread(&rest), element(Kind::Shorts, SIZES), ids)
}

/// Number of ranges that are read for these ids, and their bytes.
fn read_for(file: &File, element: &Element, ids: &[Vec<u8>]) -> (usize, usize) {
    let items = Items::of(element);
    let mut found = VlenBuilder::new(file, element.size, items.as_ref(), ids.len()).unwrap();
    found.push(&ids.concat(), 0, 16, ids.len(), Some(1)).unwrap();
    let found = taken_apart(&found.finish(Dims::new()), 2);
    assert!(found.iter().all(|cell| cell.as_ref().is_some_and(|cell| cell.len() == 40)));
    let ranges = file.source().take_ranges();
    (ranges.len(), ranges.iter().map(|(_, len)| len).sum())
}

#[test]
fn neighbours_are_one_range_and_read_once() {
    const KIB: usize = 1 << 10;
    let mixed = |ids: &[Vec<u8>]| -> Vec<Vec<u8>> {
        (0..ids.len()).map(|n| ids[n * 37 % ids.len()].clone()).collect()
    };
    let (file, element, ids) = collections(&[4 * KIB; 100], 0);
    assert_eq!(read_for(&file, &element, &mixed(&ids)), (1, 400 * KIB));
    assert_eq!(read_for(&file, &element, &ids), (0, 0));
    // Some collections, with unused ones between them.
    let (file, element, ids) = collections(&[4 * KIB; 100], 0);
    let some: Vec<_> = ids.iter().step_by(10).cloned().collect();
    assert_eq!(read_for(&file, &element, &some), (10, 40 * KIB));
    // Far apart: only the collections are read.
    let (file, element, ids) = collections(&[4 * KIB; 20], 50 * KIB);
    assert_eq!(read_for(&file, &element, &mixed(&ids)), (20, 80 * KIB));
    // Lengths are unknown at first. A run takes two requests, the next one takes one.
    let (file, element, ids) = collections(&[64 * KIB; 32], 0);
    let before = file.source().reads();
    assert_eq!(read_for(&file, &element, &mixed(&ids)), (2 * 16 + 1, 2048 * KIB));
    assert_eq!(file.source().reads() - before, 3);
    // One cell reads only its collection.
    let (file, element, ids) = collections(&[64 * KIB; 32], 0);
    assert_eq!(read_for(&file, &element, &ids[7..8]), (2, 64 * KIB));
    assert_eq!(read_for(&file, &element, &ids[7..8]), (0, 0));
    let (file, element, ids) = collections(&[4 * KIB; 32], 0);
    assert_eq!(read_for(&file, &element, &ids[7..8]), (1, 4 * KIB));
}

#[test]
fn a_heap_that_is_too_large_to_keep_is_read_once() {
    let (file, element, ids) = collections(&[64 << 10; 500], 0);
    // Only this read shows that the collections are large.
    read_for(&file, &element, &ids[..1]);
    let (ranges, bytes) = read_for(&file, &element, &ids);
    assert!(ranges <= 34 && bytes <= 500 << 16, "{ranges} ranges, {bytes} bytes");
    assert!(file.cached_collection(bare_start(SIZES) + (400 << 16)).is_none());
}

#[test]
fn one_section_does_not_have_a_heap_of_any_size_to_itself() {
    let limits = Limits { cells: 4000, items: 1 << 20, collections: 256, most: 4000 };
    for (distance, is_own) in [(4 << 10, true), (64 << 10, false)] {
        let ids = (0..3000).map(|n| heap_id(SIZES, 1, ((n * 7 % 3000) + 1) * distance, 1));
        let ids = ids.collect::<Vec<_>>().concat();
        let ids = super::ids::ids(&ids, (0, 16, 16), 3000, SIZES).unwrap();
        let sections = look_within(limits, &ids, Some(1));
        assert_eq!(matches!(sections.heap(), Heap::Own { .. }), is_own);
    }
}

#[test]
fn of_large_collections_only_what_is_wanted_is_read() {
    let objects = vec![(1, vec![1; 5 << 20]), (2, vec![2; 80]), (3, vec![3; 1 << 20]), (4, vec![4; 40])];
    let file = unread(&encoded(&Made { objects, free: 1 << 20, gap: 0 }, SIZES));
    let element = element(Kind::Shorts, SIZES);
    let read = |index: u16, len: usize| {
        let id = heap_id(SIZES, len / 2, bare_start(SIZES), index);
        let found = resolve(&file, &element, &id, 0, 16, 1).unwrap();
        assert_eq!(found.values.as_slice(), vec![index as u8; len]);
        file.source().take_ranges().iter().map(|(_, len)| *len).collect::<Vec<_>>()
    };
    // The collection's head, the headers after the first and after the third object, then the
    // object.
    assert_eq!(read(3, 1 << 20), [4096, 4096, 4096, 1 << 20]);
    assert_eq!(read(1, 100_000), [100_000]);
    assert_eq!(read(2, 80).len(), 1);
    // In the same page.
    assert_eq!(read(2, 40).len(), 0);
    // A collection with one object, as the library makes it: nothing but the object is read.
    let made = Made { objects: vec![(1, vec![7; 3 << 20])], free: 0, gap: 0 };
    let file = unread(&encoded(&made, SIZES));
    let found = resolve(&file, &element, &heap_id(SIZES, 3 << 19, bare_start(SIZES), 1), 0, 16, 1).unwrap();
    assert_eq!(found.values.len(), 3 << 20);
    assert_eq!(file.source().take_ranges().len(), 2);
}

#[test]
fn damaged_collections_are_named() {
    let made = Made { objects: vec![(1, vec![1; 24]), (2, vec![2; 40]), (3, vec![3; 8])], free: 64, gap: 0 };
    let whole = encoded(&made, SIZES);
    let element = element(Kind::Shorts, SIZES);
    let start = bare_start(SIZES);
    let wrong = |rest: &[u8], address: u64| {
        let file = open(&bare(SIZES, rest)).unwrap();
        let ids = [heap_id(SIZES, 0, start, 9), heap_id(SIZES, 4, start, 1), heap_id(SIZES, 4, address, 3)];
        let error = resolve(&file, &element, &ids.concat(), 0, 16, 3).unwrap_err().to_string();
        assert!(error.contains("global heap collection at address "), "{error}");
        error
    };
    let change = |at: usize, value: &[u8]| {
        let mut bytes = whole.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        wrong(&bytes, start)
    };
    let second = 16 + 16 + 24;
    let expect = [
        // Index 0 in the middle, a duplicate, objects and collections past their end, a collection
        // that is too small.
        (change(second, &[0, 0]), "expected 144 bytes of free space, found 40"),
        (change(second, &[1, 0]), "two objects have index 1"),
        (change(second + 8, &[200]), "expected at most 128 bytes for object 2, found 200"),
        (
            change(second + 8, &[0xff; 8]),
            "expected at most 128 bytes for object 2, found 18446744073709551615",
        ),
        (change(8, &[201]), "the collection has 201 bytes, but the file has"),
        (change(8, &[0xff; 8]), "bytes, but the file has"),
        (change(8, &[15]), "needs at least 16 bytes, found 15"),
        (change(1, b"X"), "the signature 'GCOL'"),
        // A collection that begins within another.
        (
            wrong(&[whole.clone(), whole[..64].to_vec()].concat(), start + whole.len() as u64 - 8),
            "the signature",
        ),
    ];
    for (found, expected) in expect {
        assert!(found.contains("element 1, ") || found.contains("element 2, "), "{found}");
        assert!(found.contains(expected), "{found}");
    }
    // Nested collections. Each one is valid.
    let inner = encoded(&Made { objects: vec![(1, vec![9; 8])], free: 0, gap: 0 }, SIZES);
    let outer = encoded(&Made { objects: vec![(1, inner)], free: 0, gap: 0 }, SIZES);
    let error = wrong(&outer, start + 32);
    assert!(error.contains("element 1, ") && error.contains("overlaps the next one at address"), "{error}");
}

#[test]
fn any_bytes_of_a_heap() {
    let text = |text: &[u8], index| (index, text.to_vec());
    let first = Made { objects: vec![text(b"one", 1), text(b"four", 2)], free: 24, gap: 8 };
    let second = Made { objects: vec![text(b"se\0ven", 1)], free: 0, gap: 0 };
    let (first, start) = (encoded(&first, SIZES), bare_start(SIZES));
    let next = start + first.len() as u64 + 8;
    let rest = [first, vec![0; 8], encoded(&second, SIZES)].concat();
    let ids =
        [(3, start, 1), (4, start, 2), (6, next, 1)].map(|(len, at, index)| heap_id(SIZES, len, at, index));
    let element = element(Kind::Text, SIZES);
    mutations(&bare(SIZES, &rest), |source| {
        let Ok(file) = File::open(source.store().clone(), "f", Default::default()) else { return };
        for _ in 0..2 {
            if let Ok(found) = resolve(&file, &element, &ids.concat(), 0, 16, 3) {
                assert!(
                    taken_apart(&found, 1)
                        .iter()
                        .zip([3, 4, 6])
                        .all(|(cell, len)| { cell.as_ref().is_some_and(|cell| cell.len() <= len) })
                );
            }
        }
    });
}

const TEXTS: [&str; 3] = ["", "a", "long enough to be text"];

/// A dataset of `count` texts. Every thousandth is null. `swmr`: a writer has the file open.
fn dataset_of(count: usize, swmr: bool) -> Dataset {
    let mut builder = Builder::new();
    let made = |first: usize| Made {
        objects: (0..50).map(|n| (n as u16 + 1, TEXTS[(first + n) % 3].as_bytes().to_vec())).collect(),
        free: 64,
        gap: 0,
    };
    let heap: Vec<u64> = (0..300).map(|n| builder.put(&encoded(&made(n * 50), SIZES))).collect();
    let ids = (0..count).flat_map(|n| match n % 1000 {
        999 => heap_id(SIZES, 0, 0, 0),
        _ => heap_id(SIZES, TEXTS[n % 3].len(), heap[n / 50 % heap.len()], (n % 50) as u16 + 1),
    });
    let raw = builder.put(&ids.collect::<Vec<u8>>());
    let mut messages = crate::testing::dataset(&[count as u64], contiguous_message(raw, count as u64 * 16));
    messages[1] = (datatype::KIND, datatype::vectors::bytes(&Kind::Text.hex(SIZES)));
    let address = builder.header(&messages);
    let root = builder.header(&[link_info(false), hard("d", address)]);
    let (version, flags) = if swmr { (3, 5) } else { (2, 0) };
    the_dataset(&open(&builder.finish(root, version, flags)).unwrap(), "d").unwrap()
}

fn expected(number: usize) -> Option<Vec<u8>> {
    (number % 1000 != 999).then(|| TEXTS[number % 3].as_bytes().to_vec())
}

#[test]
fn datasets_in_batches() {
    const COUNT: usize = 1_200_000;
    let dataset = dataset_of(COUNT, false);
    let layout = dataset.layout().unwrap();
    let back = Index::Slice { start: None, stop: None, step: -3 };
    let all = Selection::all(layout.shape());
    for (selection, numbers) in [
        (all, (0..COUNT).collect::<Vec<_>>()),
        (Selection::new("d", layout.shape(), &[back]).unwrap(), (0..COUNT).rev().step_by(3).collect()),
    ] {
        let found = read(&dataset, &layout, &selection, ReadOptions::default()).unwrap();
        assert_eq!(*found.shape, [numbers.len() as u64]);
        for (cell, number) in taken_apart(&found, 1).into_iter().zip(numbers) {
            assert_eq!(cell, expected(number));
        }
    }
}

#[test]
fn ids_of_a_few_elements_are_kept() {
    const COUNT: usize = 2000;
    for swmr in [false, true] {
        let dataset = dataset_of(COUNT, swmr);
        let layout = dataset.layout().unwrap();
        let read = |first: usize, count: usize| {
            let window = Index::range(first as i64, (first + count) as i64);
            let selection = Selection::new("d", layout.shape(), &[window]).unwrap();
            let found = read(&dataset, &layout, &selection, ReadOptions::default()).unwrap();
            for (cell, number) in taken_apart(&found, 1).into_iter().zip(first..) {
                assert_eq!(cell, expected(number));
            }
        };
        // Now the heap is in memory. Ids are read on demand.
        read(0, COUNT);
        dataset.file().source().forget().unwrap();
        dataset.file().source().take_ranges();
        (0..COUNT).for_each(|number| read(number, 1));
        (0..COUNT - 60).step_by(60).for_each(|first| read(first, 60));
        let ranges = dataset.file().source().take_ranges();
        let blocks = COUNT.div_ceil(256);
        // A window may cross a block border. Then both blocks are read together, and the first of
        // them again later.
        let most = if swmr { 0 } else { 4 * blocks };
        let counts = ranges.len() >= most.min(blocks) && ranges.len() <= most;
        assert!(counts && ranges.iter().all(|(_, len)| *len <= 8 << 10), "{ranges:?}");
        let nothing = Selection::new("d", layout.shape(), &[Index::range(3, 3)]).unwrap();
        assert_eq!(super::read(&dataset, &layout, &nothing, ReadOptions::default()).unwrap().offsets, [0]);
    }
}
