//! Finds the blocks that must be visited, and reads blocks that are mostly absent.
//!
//! The cost of a copy depends on the stored chunks, not on the metadata: if one of 2⁶² chunks is
//! stored, one block is copied. If most chunks are stored, blocks are large, and the engine looks
//! up each of their chunks. If few are stored, these lookups would cost more than everything else.
//! Then blocks are small, and only listed chunks are looked up. On a server, blocks stay large, and
//! reads get the list of keys.

use super::blocks::{Block, Blocks};
use super::mover::front;
use super::transfer::{Job, wrong_size};
use crate::nodes::element::swap_bytes;
use crate::{Array, Dims, Result};
use hyperslab_array::{ArrayError, ReadOptions, Target};
use hyperslab_codec::room;
use std::collections::BTreeMap;

/// Maximum chunks in large blocks per stored chunk.
/// In a directory, finding that a chunk is absent takes about 2 µs, and copying a stored chunk
/// about 100 µs. Fewer threads work on small blocks.
const LOOKED_UP: u64 = 64;
/// Chunks that large blocks may always have, because so few lookups do not matter.
const FEW: u64 = 1 << 14;

/// The blocks of an array for one pass over it.
#[derive(Debug)]
pub(super) struct Sizes {
    /// For arrays that are mostly stored.
    pub(super) large: Blocks,
    /// For the others.
    pub(super) small: Blocks,
}

/// Blocks with stored objects. Each has its objects in the source and in the copy, as numbers in the
/// lists of all stored objects.
pub(super) type Held = BTreeMap<Dims, [Vec<usize>; 2]>;

/// An array, its stored objects, and the first element of the blocks in it.
pub(super) type ArrayObjects<'a> = (&'a Array, &'a [Dims], &'a [u64]);

/// The blocks that must be visited.
pub(super) struct Wanted<'a> {
    pub(super) blocks: &'a Blocks,
    /// The blocks to visit; `None`: all blocks.
    pub(super) places: Option<Held>,
    /// `true`: only look up listed objects.
    pub(super) sparse: bool,
}

/// Elements per axis of one object: a shard, or a chunk without shards.
/// If objects have different shapes, the largest.
pub(super) fn objects(array: &Array) -> &[u64] {
    array.layout().object_grid().chunk_shape()
}

/// Finds the blocks with stored objects. `None`: most blocks have some.
/// `arrays`: the source, and the copy if its contents matter.
pub(super) fn holding(blocks: &Blocks, arrays: &[ArrayObjects<'_>]) -> Option<Held> {
    let mut held = Held::new();
    for (which, (array, stored, start)) in arrays.iter().enumerate() {
        for (place, numbers) in blocks.holding(array.layout().object_grid(), stored, start)? {
            if let Some(list) = held.entry(place).or_default().get_mut(which) {
                *list = numbers;
            }
        }
    }
    Some(held)
}

/// Chooses the blocks to visit. `arrays`: the source, and the copy if its contents matter.
pub(super) fn wanted<'a>(sizes: &'a Sizes, arrays: &[ArrayObjects<'_>]) -> Wanted<'a> {
    // Chunks in shards count separately: each is a task, stored or not.
    let chunks = |blocks: &Blocks| {
        arrays.iter().fold(0, |n: u64, (array, ..)| n.saturating_add(blocks.chunks(array.chunk_shape())))
    };
    let stored = arrays.iter().fold(0, |n: u64, (array, stored, _)| {
        let axes = objects(array).iter().zip(array.chunk_shape());
        let each = axes.fold(1, |n: u64, (object, chunk)| n.saturating_mul(object / (*chunk).max(1)));
        n.saturating_add(each.saturating_mul(stored.len() as u64))
    });
    let most = stored.saturating_mul(LOOKED_UP).saturating_add(FEW);
    let places = holding(&sizes.large, arrays);
    if !arrays.iter().any(|(array, ..)| is_read_in_rounds(array))
        && let Some(few) = &places
        && chunks(&sizes.large).saturating_mul(few.len() as u64) > most
        && let small @ Some(_) = holding(&sizes.small, arrays)
    {
        return Wanted { blocks: &sizes.small, places: small, sparse: true };
    }
    Wanted { blocks: &sizes.large, places, sparse: false }
}

/// Returns `true` if so little is stored that decoding each chunk several times is still fast.
pub(super) fn little_is_stored(array: &Array, stored: &[Dims]) -> bool {
    let objects = array.layout().object_grid().counts(array.shape());
    let all = objects.iter().fold(1, |n: u64, count| n.saturating_mul(*count));
    (stored.len() as u64).saturating_mul(LOOKED_UP) < all
}

/// Returns `true` for servers: a round of requests takes as long as one, and listed keys are not
/// looked up.
fn is_read_in_rounds(array: &Array) -> bool {
    array.store().cost().prefers_rounds()
}

/// Returns `true` if so little of a block is stored that its chunks are read one by one.
pub(super) fn is_sparse(array: &Array, blocks: &Blocks, stored: usize) -> bool {
    if is_read_in_rounds(array) {
        return false;
    }
    blocks.chunks(objects(array)) > (stored as u64).saturating_mul(LOOKED_UP).saturating_add(LOOKED_UP)
}

/// Reads a block in which only these objects are stored. `bytes` is as long as the block.
pub(super) fn read<'s>(
    array: &Array,
    block: &Block,
    stored: impl Iterator<Item = &'s Dims>,
    bytes: &mut [u8],
    options: ReadOptions<'_>,
) -> Result<()> {
    let (size, fill) = (array.dtype().size().max(1), array.layout().fill().bytes());
    for element in bytes.chunks_exact_mut(size) {
        element.copy_from_slice(fill.get(..size).ok_or_else(wrong_size)?);
    }
    let object = array.layout().object_grid();
    let mut part: Vec<u8> = Vec::new();
    for place in stored {
        let common = block.common(place, object);
        let len = common.bytes(array.dtype().size()).filter(|len| *len <= bytes.len());
        let len = len.ok_or_else(wrong_size)?;
        if part.len() < len {
            let name = array.layout().name();
            let what = "an object of the source";
            part = room::zeros(len).ok_or_else(|| ArrayError::Memory {
                array: name.into(),
                what,
                bytes: len as u64,
            })?;
        }
        let part = front(&mut part, len)?;
        let selection = array.select(&common.index())?;
        let mut target = Target::dense(part, &common.len, array.dtype().size()).ok_or_else(wrong_size)?;
        array.read_into(&selection, &mut target, options)?;
        put(part, &common, bytes, block, array.dtype().size())?;
    }
    Ok(())
}

/// Copies the elements of a box into an enclosing box, row by row.
fn put(part: &[u8], inner: &Block, whole: &mut [u8], outer: &Block, size: usize) -> Result<()> {
    let row = inner.len.last().map_or(1, |n| *n as usize).saturating_mul(size);
    if row == 0 {
        return Ok(());
    }
    for (number, bytes) in part.chunks_exact(row).enumerate() {
        // The number of the row's first element in the box, and its place in the outer box.
        let first = number as u64 * inner.len.last().copied().unwrap_or(1);
        let at = outer.number(&inner.position(first)) as usize * size;
        let place = whole.get_mut(at..).and_then(|rest| rest.get_mut(..row)).ok_or_else(wrong_size)?;
        place.copy_from_slice(bytes);
    }
    Ok(())
}

/// Returns `true` if unwritten elements have different values in source and target.
/// They must then be written: Zarr v2 has `null` if no element is missing, and `null` reads as
/// zero.
pub(super) fn fills_differ(job: &Job) -> Result<bool> {
    let (source, target) = (&job.source, &job.target);
    if target.vlen().is_some() {
        // An empty fill value is empty text, as `null` is.
        let own = source.node().absent_text()?;
        return Ok(own.unwrap_or_default() != target.fill().unwrap_or_default());
    }
    let fill = in_target(job, source.layout().fill().bytes().to_vec());
    Ok(fill != target.layout().fill().bytes())
}

/// Converts an element of the source to its form in the memory of the copy.
pub(super) fn in_target(job: &Job, mut element: Vec<u8>) -> Vec<u8> {
    if let Some(repack) = &job.repack {
        let len = repack.apply(&mut element);
        element.truncate(len);
    } else if job.source.dtype().order() != job.target.dtype().order() {
        swap_bytes(&mut element, job.source.dtype().number_size());
    }
    element
}

/// The fill value of a source as an element of a numeric target; `None`: the target's is the same.
pub(crate) fn fill_in(source: &Array, target: &Array) -> Option<Vec<u8>> {
    let mut fill = source.layout().fill().bytes().to_vec();
    if source.dtype().order() != target.dtype().order() {
        swap_bytes(&mut fill, source.dtype().number_size());
    }
    (fill != target.layout().fill().bytes()).then_some(fill)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyperslab_array::ChunkGrid;

    #[test]
    fn boxes_in_boxes() {
        let outer = Block { first: [10, 20].as_slice().into(), len: [3, 4].as_slice().into() };
        // Chunks of 2 × 3: this one begins at (10, 21) and extends below the block.
        let grid = ChunkGrid::regular([2, 3].as_slice().into()).unwrap();
        let inner = outer.common(&[5, 7].as_slice().into(), &grid);
        assert_eq!((inner.first.as_slice(), inner.len.as_slice()), ([10, 21].as_slice(), [2, 3].as_slice()));
        let mut whole = [0u8; 12];
        put(&[1, 2, 3, 4, 5, 6], &inner, &mut whole, &outer, 1).unwrap();
        assert_eq!(whole, [0, 1, 2, 3, 0, 4, 5, 6, 0, 0, 0, 0]);
        let inner = outer.common(&[6, 7].as_slice().into(), &grid);
        assert_eq!((inner.first.as_slice(), inner.len.as_slice()), ([12, 21].as_slice(), [1, 3].as_slice()));
        put(&[7, 8, 9], &inner, &mut whole, &outer, 1).unwrap();
        assert_eq!(whole[8..], [0, 7, 8, 9]);
        // Outside the block.
        assert_eq!(outer.common(&[0, 0].as_slice().into(), &grid).elements(), 0);
        let scalar = Block { first: Dims::new(), len: Dims::new() };
        let mut whole = [0u8; 2];
        put(
            &[1, 2],
            &scalar.common(&Dims::new(), &ChunkGrid::regular(Dims::new()).unwrap()),
            &mut whole,
            &scalar,
            2,
        )
        .unwrap();
        assert_eq!(whole, [1, 2]);
    }
}
