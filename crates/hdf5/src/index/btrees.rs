//! Chunk indexes in B-trees.
//!
//! Version 1: specification III.A.1, node type 1. Version 2: III.A.2, record types 10 and 11.

use super::records::Records;
use super::{ChunkRecord, IndexRequest};
use crate::cursor::address as address_of;
use crate::cursor::number;
use crate::error::Built;
use crate::output::{Output, fit};
use crate::salvage::losses::Losses;
use crate::trees::btree1::{NewTree, Tree};
use crate::trees::btree2;
use crate::{Cursor, ParseError, Parsed, Result};
use std::collections::HashSet;

/// Adds the wanted chunks of a version 1 B-tree.
///
/// A key has the size, filter mask and first element of a chunk, with a pseudo-axis for the bytes
/// of an element. The numbers of the first element have 8 bytes in every file.
pub(super) fn version1(request: &IndexRequest<'_>, address: u64, records: &mut Records) -> Result<()> {
    let tree = Tree { kind: 1, key: 8 + 8 * (request.layout.chunk.len() + 1) };
    match records.only {
        None => {
            // The leaves, and the node behind each.
            let mut leaves = Vec::new();
            let mut leaf = |entries: &mut Cursor<'_>| add_leaf(request, tree, entries, records);
            tree.walk_nodes(request.source, address, &mut leaf, &mut |at, node| {
                if node.level == 0 {
                    leaves.push((at, node.siblings[1]));
                }
            })?;
            match request.source.losses() {
                Some(losses) if losses.is_torn() => neighbours(request, tree, &leaves, losses, records),
                _ => Ok(()),
            }
        }
        Some(number) => descend(request, tree, address, number, records),
    }
}

/// Adds the chunks of leaves that only their neighbours know: a killed writer had split a node, and had
/// not written the node above.
///
/// A leaf counts only if the tree has no chunk between its first and its last one: the tree may have a
/// newer leaf there.
fn neighbours(
    request: &IndexRequest<'_>,
    tree: Tree,
    leaves: &[(u64, Option<u64>)],
    losses: &Losses,
    records: &mut Records,
) -> Result<()> {
    let known: HashSet<u64> = leaves.iter().map(|(at, _)| *at).collect();
    // Made when the first leaf is missing: mostly none is.
    let mut taken = None;
    for (at, next) in leaves {
        let (mut before, mut next) = (*at, *next);
        // Each step adds chunks: a circle ends.
        while let Some(here) = next.filter(|next| !known.contains(next)) {
            let mut found = Records::new(request, None)?;
            let mut leaf = |entries: &mut Cursor<'_>| add_leaf(request, tree, entries, &mut found);
            let Ok(after) = tree.neighbour(request.source, here, before, &mut leaf) else { break };
            if !records.take_between(found, taken.get_or_insert_with(|| records.numbers())) {
                break;
            }
            losses.note(Some(here), "a node of its index is known to its neighbour only");
            (before, next) = (here, after);
        }
    }
    Ok(())
}

/// The places of the nodes of a version 1 B-tree of chunks with `rank` axes.
pub(crate) fn version1_places(source: &crate::Source, rank: usize, root: u64) -> Result<Vec<(u64, u64)>> {
    Tree { kind: 1, key: 8 + 8 * (rank + 1) }.places(source, root)
}

/// Adds the chunks of a leaf of a version 1 B-tree.
fn add_leaf(
    request: &IndexRequest<'_>,
    tree: Tree,
    entries: &mut Cursor<'_>,
    records: &mut Records,
) -> Parsed<()> {
    let chunk = &request.layout.chunk;
    let width = tree.entry(request.source.sizes());
    let mut at = entries.address();
    for entry in entries.take_rest().chunks_exact(width) {
        let corrupt = |why: String| ParseError::Corrupt { at, why };
        let parts = entry.split_at_checked(8).and_then(|(head, _)| {
            let (size, mask) = head.split_at_checked(4)?;
            let (places, child) = places(tree, entry)?;
            let mask = u32::try_from(number(mask)?).ok()?;
            Some((number(size)?, mask, places, address_of(child)??))
        });
        let Some((size, skipped, places, child)) = parts else {
            return Err(corrupt("the address of a chunk is undefined, or does not fit into 64 bits".into()));
        };
        let axes = chunk.iter().zip(&records.grid.counts).zip(&records.grid.strides);
        let mut found = Some(0);
        for (place, ((chunk, count), stride)) in places.iter().zip(axes) {
            let place = u64::from_le_bytes(*place);
            if place % chunk != 0 {
                return Err(corrupt(format!(
                    "expected a chunk offset that is a multiple of {chunk}, found {place}"
                )));
            }
            found = found.filter(|_| place / chunk < *count).map(|found| found + place / chunk * stride);
        }
        if places.last() != Some(&[0; 8]) {
            return Err(corrupt(
                "expected offset 0 within the first element of a chunk, found another offset".into(),
            ));
        }
        if let Some(found) = found {
            records.add(at, found, child, size, skipped)?;
        }
        at = at.saturating_add(width as u64);
    }
    Ok(())
}

/// Splits an entry of a version 1 B-tree: the first element of a chunk, and the child's address.
fn places(tree: Tree, entry: &[u8]) -> Option<(&[[u8; 8]], &[u8])> {
    let (key, child) = entry.split_at_checked(tree.key)?;
    Some((key.get(8..)?.as_chunks().0, child))
}

/// Adds the chunk with this number, and reads only the nodes that lead to it.
///
/// These trees have no checksums. If the keys on the way are not in order, the chunk may be
/// anywhere.
fn descend(
    request: &IndexRequest<'_>,
    tree: Tree,
    address: u64,
    wanted: u64,
    records: &mut Records,
) -> Result<()> {
    let width = tree.entry(request.source.sizes());
    // Keys count elements. This cannot overflow: the grid has the chunk.
    let axes = records.grid.place(wanted).into_iter().zip(&request.layout.chunk);
    let wanted: Vec<u64> = axes.map(|(place, chunk)| place.saturating_mul(*chunk)).collect();
    // The keys before and after the child, in the nodes above.
    let (mut after, mut before): (Option<Vec<u64>>, Option<Vec<u64>>) = (None, None);
    tree.descend(request.source, address, &mut |node| {
        let mut entries = node.entries.clone();
        let keys = entries.take_rest().chunks_exact(width).map(|entry| {
            let places = places(tree, entry).unwrap_or_default().0;
            places.iter().take(wanted.len()).map(|place| u64::from_le_bytes(*place)).collect::<Vec<u64>>()
        });
        let keys: Vec<Vec<u64>> = keys.collect();
        let inside = keys.first() >= after.as_ref()
            && before.as_ref().is_none_or(|before| keys.last().is_none_or(|last| last < before));
        if !keys.is_empty() && (!inside || !keys.is_sorted_by(|a, b| a < b)) {
            records.unsorted = true;
            return Ok(None);
        }
        if node.level == 0 {
            add_leaf(request, tree, &mut node.entries.clone(), records)?;
            return Ok(None);
        }
        let next = keys.partition_point(|key| *key <= wanted);
        let Some(chosen) = next.checked_sub(1) else { return Ok(None) };
        after = keys.get(chosen).cloned();
        before = keys.get(next).cloned().or(before.take());
        Ok(Some(chosen))
    })?;
    Ok(())
}

/// Children of a B-tree node of chunks: the HDF5 library's number for files that name none.
pub(super) const MOST_CHUNKS: usize = 64;

/// Builds a version 1 B-tree at `address`. `counts` are the chunks per axis, and `records` are sorted
/// by the number of the chunk. `page`: bytes of a page, in a file with pages.
pub(crate) fn build_version1(
    address: u64,
    chunk: &[u64],
    counts: &[u64],
    records: &[ChunkRecord],
    page: Option<u64>,
) -> Built<NewTree> {
    let mut keys = Output::new();
    let mut put = |record: &ChunkRecord, further: u64| -> Built<()> {
        keys.u32(fit(record.size, "bytes of a stored chunk")?).u32(record.skipped);
        let place = super::place(record.number, counts);
        for (at, len) in place.iter().zip(chunk) {
            keys.u64((at + further).saturating_mul(*len));
        }
        keys.u64(0);
        Ok(())
    };
    records.iter().try_for_each(|record| put(record, 0))?;
    // The last key is behind the last chunk along each axis.
    match records.last() {
        Some(last) => put(&ChunkRecord { size: 0, skipped: 0, ..*last }, 1)?,
        None => drop(keys.zeros(8 * (chunk.len() + 2))),
    }
    let children: Vec<u64> = records.iter().map(|record| record.address).collect();
    let tree = Tree { kind: 1, key: 8 * (chunk.len() + 2) };
    tree.build(address, &keys.take(), &children, MOST_CHUNKS, page)
}

/// Bytes of a node of a version 2 B-tree of chunks: the HDF5 library's number.
pub(crate) const NODE: u32 = 2048;

/// Builds a version 2 B-tree at `address`. `filtered`: the bytes of a chunk's size, if chunks have
/// filters.
pub(crate) fn build_version2(
    address: u64,
    filtered: Option<usize>,
    counts: &[u64],
    records: &[ChunkRecord],
) -> Built<Vec<u8>> {
    let len = 8 + filtered.map_or(0, |width| width + 4) + 8 * counts.len();
    let mut out = Output::new();
    for record in records {
        out.u64(record.address);
        if let Some(width) = filtered {
            out.uint(record.size, width).u32(record.skipped);
        }
        for at in super::place(record.number, counts) {
            out.u64(at);
        }
    }
    let kind = if filtered.is_some() { 11 } else { 10 };
    btree2::build(address, kind, NODE, fit(len as u64, "bytes of a record")?, &out.take())
}

/// Adds the wanted chunks of a version 2 B-tree.
///
/// A record has the address, with filters also the stored size and filter mask, and the place in
/// the grid.
pub(super) fn version2(request: &IndexRequest<'_>, address: u64, records: &mut Records) -> Result<()> {
    let kind = if request.filtered { 11 } else { 10 };
    let source = request.source;
    let Some(wanted) = records.only else {
        return btree2::records(source, address, kind, &mut |record| add_record(request, record, records));
    };
    let wanted = records.grid.place(wanted);
    let compare = &mut |record: &mut Cursor<'_>| {
        let bytes = record.take_rest();
        let places = bytes.len().checked_sub(8 * wanted.len()).and_then(|at| bytes.get(at..));
        let places = places.unwrap_or_default().as_chunks().0.iter();
        Ok(places.map(|place| u64::from_le_bytes(*place)).cmp(wanted.iter().copied()))
    };
    btree2::find(source, address, kind, compare, &mut |record| add_record(request, record, records))
}

/// Adds the chunk of a record of a version 2 B-tree.
fn add_record(request: &IndexRequest<'_>, record: &mut Cursor<'_>, records: &mut Records) -> Parsed<()> {
    let places_len = 8 * request.layout.chunk.len();
    let offset_len = usize::from(request.source.sizes().offset);
    let at = record.address();
    let corrupt = |why: &str| ParseError::Corrupt { at, why: why.into() };
    let bytes = record.take_rest();
    let parts = bytes.split_at_checked(offset_len).and_then(|(child, rest)| {
        let (filtered, places) = rest.split_at_checked(rest.len().checked_sub(places_len)?)?;
        Some((child, filtered, places.as_chunks().0))
    });
    let (child, filtered, places) = parts
        .ok_or_else(|| corrupt("a record is too short for the chunk offsets of all axes of the dataset"))?;
    let (size, skipped) = match request.filtered {
        true => split_size_and_mask(filtered).ok_or_else(|| {
            corrupt("expected a chunk size of 1 to 8 bytes that fits into 64 bits, found none")
        })?,
        false if filtered.is_empty() => (records.chunk_bytes, 0),
        false => {
            return Err(corrupt("a record is too long for the chunk offsets of all axes of the dataset"));
        }
    };
    // A removed chunk may leave a record without an address.
    let child =
        address_of(child).ok_or_else(|| corrupt("the address of a chunk does not fit into 64 bits"))?;
    let Some(child) = child else { return Ok(()) };
    let axes = records.grid.counts.iter().zip(&records.grid.strides);
    let mut found = 0;
    for (place, (count, stride)) in places.iter().zip(axes) {
        let place = u64::from_le_bytes(*place);
        if place >= *count {
            return Ok(());
        }
        found += place * stride;
    }
    records.add(at, found, child, size, skipped)
}

/// Splits a stored size and filter mask. `None`: there are too few or too many bytes.
///
/// The size takes all bytes before the mask. Its width depends on chunk and version.
pub(super) fn split_size_and_mask(bytes: &[u8]) -> Option<(u64, u32)> {
    let (size, mask) = bytes.split_last_chunk()?;
    (1..=8).contains(&size.len()).then_some((number(size)?, u32::from_le_bytes(*mask)))
}

#[cfg(test)]
mod tests {
    use super::build_version1;
    use super::{NODE, build_version2};
    use crate::data_layout::ChunkIndexKind;
    use crate::index::testing::{Dataset, StoredChunk};
    use crate::index::{ChunkRecord, Lookup};
    use crate::testing::{fails, mutations, says, source, structure};
    use crate::trees::{btree1, btree2};
    use proptest::prelude::*;

    fn numbers(numbers: &[u64]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    /// A key of a version 1 tree: the chunk's place. The key after the last chunk is larger than
    /// all others.
    fn key(place: &[u64], size: u64, skipped: u32) -> Vec<u8> {
        let place: Vec<u64> = place.iter().map(|place| 2 * place).collect();
        structure!(size as u32, skipped, numbers(&place), [0; 8])
    }

    /// A version 1 tree with two levels and all chunks of a grid.
    fn one(dataset: &Dataset, counts: &[u64]) -> Vec<u8> {
        let chunks = dataset.all_stored(counts);
        let groups: Vec<_> = chunks.chunks(7).collect();
        let keys = |places: Vec<&StoredChunk>| {
            let mut keys: Vec<_> =
                places.iter().map(|(place, (_, size, mask))| key(place, *size, *mask)).collect();
            keys.push(key(&vec![1 << 30; counts.len()], 0, 0));
            keys
        };
        let at = |number: usize| 1024 * (number as u64 + 1);
        let children: Vec<u64> = (0..groups.len()).map(at).collect();
        let mut bytes =
            btree1::tests::node(1, 1, &keys(groups.iter().map(|group| &group[0]).collect()), &children);
        for (number, group) in groups.iter().enumerate() {
            assert!(bytes.len() as u64 <= at(number));
            bytes.resize(at(number) as usize, 0);
            let addresses: Vec<u64> = group.iter().map(|(_, stored)| stored.0).collect();
            bytes.extend(btree1::tests::node(1, 0, &keys(group.iter().collect()), &addresses));
        }
        bytes
    }

    /// A version 2 tree with all chunks of a grid.
    fn two(dataset: &Dataset, counts: &[u64]) -> Vec<u8> {
        let records = dataset.all_stored(counts).into_iter().map(|(place, (address, size, skipped))| {
            match dataset.filtered {
                true => structure!(address, &size.to_le_bytes()[..3], skipped, numbers(&place)),
                false => structure!(address, numbers(&place)),
            }
        });
        let kind = if dataset.filtered { 11 } else { 10 };
        btree2::tests::tree(kind, 256, &records.collect::<Vec<_>>(), 0)
    }

    fn datasets(shape: &[u64]) -> Vec<(Dataset, Vec<u8>)> {
        let max_shape = vec![None; shape.len()];
        let (v1, v2) =
            (ChunkIndexKind::BTree1, ChunkIndexKind::BTree2 { node_size: 256, split: 100, merge: 40 });
        // One more chunk per axis than the shape needs, as if the dataset had been shrunk.
        let counts: Vec<u64> = shape.iter().map(|n| n.div_ceil(2) + 1).collect();
        let mut made = Vec::new();
        for filtered in [false, true] {
            let dataset = Dataset::new(v1.clone(), shape, &max_shape, filtered);
            let bytes = one(&dataset, &counts);
            made.push((dataset, bytes));
            let dataset = Dataset::new(v2.clone(), shape, &max_shape, filtered);
            let bytes = two(&dataset, &counts);
            made.push((dataset, bytes));
        }
        made
    }

    #[test]
    fn every_chunk() {
        for shape in [&[19][..], &[9, 14], &[4, 3, 6], &[0, 5]] {
            for (dataset, bytes) in datasets(shape) {
                let source = source(&bytes);
                let index = dataset.read(&source).unwrap();
                assert_eq!(index.records, dataset.expected(), "{shape:?} {:?}", dataset.layout.index);
                assert_eq!(dataset.find_each(&source), dataset.expected(), "{shape:?}");
            }
        }
    }

    #[test]
    fn damage_is_named() {
        let (dataset, bytes) = datasets(&[9, 14]).swap_remove(0);
        let wrong = |at: usize, with: &[u8]| {
            let mut bytes = bytes.clone();
            bytes[at..at + with.len()].copy_from_slice(with);
            dataset.read(&source(&bytes)).unwrap_err().to_string()
        };
        // First key of the first leaf.
        let key = 1024 + 24;
        says(wrong(key + 8, &[1]), "byte 1048: expected a chunk offset that is a multiple of 2, found 1");
        says(wrong(key + 24, &[1]), "offset 0 within the first element");
        let second = &bytes[key + 40 + 8..key + 40 + 24];
        says(wrong(key + 8, second), "is stored twice, at addresses");
        says(wrong(key, &[0; 4]), "found 0 bytes");
        says(wrong(key, &[0xff; 4]), "to end in the file of");
        says(wrong(key + 32, &[0xff; 8]), "the address of a chunk is undefined");
    }

    /// Records that are unsorted in the file are sorted, and every chunk is found.
    #[test]
    fn any_order() {
        let (dataset, mut bytes) = datasets(&[9, 14]).swap_remove(0);
        let child = |number: usize| 24 + 40 * number + 32;
        for at in 0..8 {
            bytes.swap(child(0) + at, child(2) + at);
        }
        assert_eq!(dataset.read(&source(&bytes)).unwrap().records, dataset.expected());
        // A lookup does not take a chunk in the wrong place for an absent one.
        for (first, unsorted) in [(0, true), (1, false), (2, true)] {
            let place = dataset.all_stored(&[6, 8])[7 * first].0.clone();
            let found = dataset.find(&source(&bytes), &place).unwrap();
            assert_eq!(found == Lookup::Unsorted, unsorted, "{place:?}: {found:?}");
        }
        // Keys within a node.
        let (dataset, mut bytes) = datasets(&[9, 14]).swap_remove(0);
        let (one, two) = (1024 + 24, 1024 + 24 + 40);
        for at in 8..24 {
            bytes.swap(one + at, two + at);
        }
        assert_eq!(dataset.find(&source(&bytes), &[0, 1]).unwrap(), Lookup::Unsorted);
    }

    #[test]
    fn other_ranks_and_kinds() {
        for (mut dataset, bytes) in datasets(&[9, 14]) {
            dataset.shape = vec![9, 14, 2];
            dataset.max_shape = vec![None; 3];
            dataset.layout.chunk = vec![2; 3];
            assert!(dataset.read(&source(&bytes)).is_err());
        }
        let (mut dataset, bytes) = datasets(&[9, 14]).swap_remove(1);
        dataset.filtered = true;
        fails(dataset.read(&source(&bytes)), "expected records of type 11, found type 10");
    }

    #[test]
    fn any_bytes() {
        for (dataset, bytes) in datasets(&[9, 5]) {
            mutations(&bytes, |source| {
                drop(dataset.read(source));
                drop(dataset.find(source, &[2, 1]));
            });
        }
    }

    proptest! {
        #[test]
        fn what_is_built_is_read(
            shape in proptest::collection::vec(1_u64..30, 1..4),
            stored in proptest::collection::vec(proptest::option::of((0_u64..999, 1_u64..9, any::<u32>())), 512),
            start in 0_u64..20,
        ) {
            let max_shape = vec![None; shape.len()];
            let mut dataset = Dataset::new(ChunkIndexKind::BTree1, &shape, &max_shape, true);
            let counts: Vec<u64> = shape.iter().map(|n| n.div_ceil(2)).collect();
            let numbers = 0..counts.iter().product::<u64>();
            let records = numbers.zip(stored.iter().cycle()).filter_map(|(number, stored)| {
                let (address, size, _) = (*stored)?;
                Some(ChunkRecord { number, address, size, skipped: (address % 2) as u32 })
            });
            let records: Vec<ChunkRecord> = records.collect();
            let tree = build_version1(start, &dataset.layout.chunk, &counts, &records, None).unwrap();
            dataset.layout.address = Some(tree.root);
            let bytes = [vec![0; start as usize], tree.bytes, vec![0; 2000]].concat();
            let found = dataset.read(&source(&bytes)).unwrap();
            prop_assert_eq!((found.counts, found.records), (counts, records));
        }
    }

    proptest! {
        #[test]
        fn what_is_built_in_version_2_is_read(
            shape in proptest::collection::vec(1_u64..30, 1..4),
            stored in proptest::collection::vec(proptest::option::of((0_u64..999, 1_u64..9)), 512),
            filtered in any::<bool>(),
        ) {
            let index = ChunkIndexKind::BTree2 { node_size: NODE, split: 100, merge: 40 };
            let max_shape = vec![None; shape.len()];
            let dataset = Dataset::new(index, &shape, &max_shape, filtered);
            let counts: Vec<u64> = shape.iter().map(|n| n.div_ceil(2)).collect();
            let chunk_bytes = 4 << shape.len();
            let numbers = 0..counts.iter().product::<u64>();
            let records = numbers.zip(stored.iter().cycle()).filter_map(|(number, stored)| {
                let (address, size) = (*stored)?;
                let (size, skipped) = if filtered { (size, 1) } else { (chunk_bytes, 0) };
                Some(ChunkRecord { number, address, size, skipped })
            });
            let records: Vec<ChunkRecord> = records.collect();
            let bytes = build_version2(0, filtered.then_some(3), &counts, &records).unwrap();
            let found = dataset.read(&source(&[bytes, vec![0; 2000]].concat())).unwrap();
            prop_assert_eq!((found.counts, found.records), (counts, records));
        }
    }
}
