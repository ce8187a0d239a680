//! New states of objects, made in memory: chunks of fill value, and shards without damaged chunks.

use crate::open::{Mode, Opening, Place, open_in};
use crate::validate::{Blame, Kind};
use crate::{Array, Dims, Error, Index, MemoryStore, Node, ReadOptions, Result, Selection, WriteOptions};
use hyperslab_array::{Source, element_count};
use hyperslab_store::{Key, Store};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// Names of documents that an array has.
const DOCUMENTS: [&str; 3] = ["zarr.json", ".zarray", ".zattrs"];

/// An array in memory, with the documents of a stored one, and with one of its objects.
pub(super) fn in_memory(
    store: &dyn Store,
    path: &str,
    object: Option<&str>,
) -> Result<(Arc<MemoryStore>, Array)> {
    let memory = Arc::new(MemoryStore::new());
    let documents =
        DOCUMENTS.map(|name| if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") });
    for key in documents.iter().map(String::as_str).chain(object) {
        let mut bytes = Vec::new();
        if store.read_all(Key::new(key)?, &mut bytes, usize::MAX)? {
            memory.write(Key::new(key)?, &[&bytes])?;
        }
    }
    let place = Place::in_store(memory.clone(), path, false);
    let opening = Opening { mode: Some(Mode::Change), ..Opening::default() };
    let node = open_in(place, &opening)?.node.map(crate::Object::into_node);
    let Some(Ok(Node::Array(array))) = node else {
        return Err(Error::Options(format!("there is no array at '/{path}': plan again")));
    };
    Ok((memory, array))
}

/// The bytes of a chunk of fill value, as the array stores it.
pub(super) fn filled(store: &dyn Store, path: &str, key: &str, chunk: &Dims) -> Result<Vec<u8>> {
    let (memory, array) = in_memory(store, path, None)?;
    let grid = array.layout().grid().clone();
    let shape = array.shape().to_vec();
    let ranges: Vec<Index<'_>> = chunk
        .iter()
        .enumerate()
        .map(|(axis, at)| {
            let start = grid.start(axis, *at);
            let end = start + grid.len_inside(axis, *at, shape.get(axis).copied().unwrap_or(0));
            let whole = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
            Index::Slice { start: Some(whole(start)), stop: Some(whole(end)), step: 1 }
        })
        .collect();
    let selection = array.select(&ranges)?;
    let values = array.read(&selection, crate::ReadOptions::default())?;
    let source = Source::dense(values.as_slice(), &selection.shape(), array.dtype().size());
    let source = source.ok_or_else(|| Error::Options("a chunk of fill value has another size".into()))?;
    let options = WriteOptions { write_empty_chunks: Some(true), ..WriteOptions::default() };
    array.write(&selection, &source, options)?;
    let mut bytes = Vec::new();
    memory.read_all(Key::new(key)?, &mut bytes, usize::MAX)?;
    Ok(bytes)
}

/// A chunk of a shard, in the innermost grid, and its elements.
type Inner = (Vec<u64>, Vec<Range<u64>>);

/// The numbers of the innermost chunks of a shard along each axis. `None`: it is outside the array.
fn numbers_of(array: &Array, shard: &[u64]) -> Option<Vec<Range<u64>>> {
    let (layout, shape) = (array.layout(), array.shape());
    let (grid, objects) = (layout.grid(), layout.object_grid());
    let range = |axis: usize, at: u64| {
        let len = shape.get(axis).copied().unwrap_or(0);
        let start = objects.start(axis, at);
        start..start + objects.len_inside(axis, at, len)
    };
    let all: Vec<Range<u64>> = shard.iter().enumerate().map(|(axis, at)| range(axis, *at)).collect();
    if all.iter().any(Range::is_empty) {
        return None;
    }
    let number = |(axis, range): (usize, &Range<u64>)| {
        grid.index_of(axis, range.start)..grid.index_of(axis, range.end - 1) + 1
    };
    Some(all.iter().enumerate().map(number).collect())
}

/// The innermost chunks of a shard, as far as they are inside the array.
fn chunks_of(array: &Array, shard: &[u64]) -> Vec<Inner> {
    let Some(numbers) = numbers_of(array, shard) else { return Vec::new() };
    let (grid, shape) = (array.layout().grid(), array.shape());
    let mut found = vec![(Vec::new(), Vec::new())];
    for (axis, numbers) in numbers.into_iter().enumerate() {
        let len = shape.get(axis).copied().unwrap_or(0);
        let one = |(chunk, ranges): &Inner, at: u64| {
            let start = grid.start(axis, at);
            let range = start..start + grid.len_inside(axis, at, len);
            ([&chunk[..], &[at]].concat(), [&ranges[..], &[range]].concat())
        };
        found = found.iter().flat_map(|each| numbers.clone().map(move |at| one(each, at))).collect();
    }
    found
}

/// The number of innermost chunks of a shard.
pub(super) fn count(array: &Array, shard: &[u64]) -> u64 {
    numbers_of(array, shard)
        .map_or(0, |axes| axes.iter().fold(1, |all, axis| all.saturating_mul(axis.end - axis.start)))
}

fn select(array: &Array, ranges: &[Range<u64>]) -> Result<Selection> {
    let index = |range: &Range<u64>| Index::range(range.start.cast_signed(), range.end.cast_signed());
    array.select(&ranges.iter().map(index).collect::<Vec<_>>())
}

fn read(array: &Array, ranges: &[Range<u64>]) -> Result<hyperslab_array::Memory> {
    let options = ReadOptions { verify: Some(true), ..ReadOptions::default() };
    array.read(&select(array, ranges)?, options)
}

/// The innermost chunks of a shard that cannot be decoded, with the reason.
pub(super) fn undecodable(array: &Array, shard: &[u64]) -> Result<Vec<(Vec<u64>, String)>> {
    let mut found = Vec::new();
    for (chunk, ranges) in chunks_of(array, shard) {
        match read(array, &ranges) {
            Ok(_) => {}
            // Too little memory is no damage.
            Err(error) if Blame::of(&error)?.kind == Kind::Unreadable => return Err(error),
            Err(error) => found.push((chunk, crate::with_causes(&error))),
        }
    }
    Ok(found)
}

/// Writes a shard again, without some of its innermost chunks. For shards within shards, whose chunks
/// cannot be cut out. `None`: nothing is left.
pub(super) fn without(
    store: &dyn Store,
    path: &str,
    key: &str,
    shard: &[u64],
    lost: &BTreeSet<Vec<u64>>,
) -> Result<Option<Vec<u8>>> {
    let (_, old) = in_memory(store, path, Some(key))?;
    let (memory, new) = in_memory(store, path, None)?;
    let chunks = chunks_of(&old, shard);
    let Some(all) = bounds(&chunks) else { return Ok(None) };
    let size = old.dtype().size();
    // Lost chunks have the fill value, as the new array has everywhere.
    let mut elements = new.read(&select(&new, &all)?, ReadOptions::default())?;
    let shape: Vec<u64> = all.iter().map(|range| range.end - range.start).collect();
    for (chunk, ranges) in chunks.iter().filter(|(chunk, _)| !lost.contains(chunk)) {
        let one = read(&old, ranges).map_err(|error| {
            Error::Options(format!("chunk {chunk:?} of '{key}' was read before: {error}"))
        })?;
        put(elements.as_mut_slice(), &shape, &all, one.as_slice(), ranges, size);
    }
    let source = Source::dense(elements.as_slice(), &shape, size);
    let source = source.ok_or_else(|| Error::Options("a shard has another size than its elements".into()))?;
    // Chunks of fill value become absent.
    let options = WriteOptions { write_empty_chunks: Some(false), ..WriteOptions::default() };
    new.write(&select(&new, &all)?, &source, options)?;
    let mut bytes = Vec::new();
    Ok(memory.read_all(Key::new(key)?, &mut bytes, usize::MAX)?.then_some(bytes))
}

/// The box of all chunks.
fn bounds(chunks: &[Inner]) -> Option<Vec<Range<u64>>> {
    let ((_, first), (_, last)) = (chunks.first()?, chunks.last()?);
    Some(first.iter().zip(last).map(|(first, last)| first.start..last.end).collect())
}

/// Copies the elements of `ranges` into the elements of the box `all`.
fn put(into: &mut [u8], shape: &[u64], all: &[Range<u64>], from: &[u8], ranges: &[Range<u64>], size: usize) {
    let lens: Vec<u64> = ranges.iter().map(|range| range.end - range.start).collect();
    let Some((row, outer)) = lens.split_last() else {
        into.get_mut(..size)
            .zip(from.get(..size))
            .into_iter()
            .for_each(|(into, from)| into.copy_from_slice(from));
        return;
    };
    let bytes = (*row as usize).saturating_mul(size);
    if bytes == 0 {
        return;
    }
    for (number, from) in
        from.chunks_exact(bytes).enumerate().take(element_count(outer).unwrap_or(0) as usize)
    {
        let (mut left, mut at, mut stride) = (number as u64, 0_u64, 1_u64);
        for axis in (0..lens.len()).rev() {
            let place = match axis + 1 == lens.len() {
                true => 0,
                false => {
                    let len = lens.get(axis).copied().unwrap_or(1).max(1);
                    let place = left % len;
                    left /= len;
                    place
                }
            };
            let start = ranges.get(axis).map_or(0, |range| range.start)
                - all.get(axis).map_or(0, |range| range.start);
            at += (start + place) * stride;
            stride *= shape.get(axis).copied().unwrap_or(1);
        }
        let at = (at as usize).saturating_mul(size);
        if let Some(place) = into.get_mut(at..at.saturating_add(bytes)) {
            place.copy_from_slice(from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_are_put_into_boxes() {
        let mut into = vec![0; 3 * 4 * 2];
        let from: Vec<u8> = (1..=8).collect();
        put(&mut into, &[3, 4], &[10..13, 20..24], &from, &[11..13, 21..23], 2);
        let row = |bytes: [u8; 4]| [&[0, 0][..], &bytes, &[0, 0]].concat();
        assert_eq!(into, [vec![0; 8], row([1, 2, 3, 4]), row([5, 6, 7, 8])].concat());
        let mut one = vec![0; 2];
        put(&mut one, &[], &[], &[7, 8], &[], 2);
        assert_eq!(one, [7, 8]);
    }
}
