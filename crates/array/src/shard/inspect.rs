//! The entries of a shard's index, for callers who look for damage.

use crate::dims::Dims;
use crate::error::ArrayError;
use crate::execute::tasks;
use crate::layout::ArrayLayout;
use crate::layout::locate::Location;
use crate::layout::sharding::ShardLevel;
use crate::plan::Plan;
use crate::plan::lot::FoundObject;
use crate::plan::task::Task;
use crate::select::Selection;
use crate::shard::open_shard::Shard;

/// An inner chunk in a shard's index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InnerChunk {
    /// Index of the inner chunk in the array, per axis. With nested shards, inner chunks of the outermost
    /// level are counted.
    pub chunk: Dims,
    /// First byte in the shard.
    pub offset: u64,
    /// Stored bytes.
    pub len: u64,
    /// The reason why the entry cannot be right.
    pub fault: Option<String>,
}

/// The index of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardContents {
    /// Bytes of the shard.
    pub size: u64,
    /// First byte and length of the index.
    pub index: (u64, u64),
    /// The inner chunks that exist, in the order of the index.
    pub chunks: Vec<InnerChunk>,
    /// Bytes that nothing refers to. 0 if an entry of the index is wrong.
    pub dead: u64,
}

/// Reads the index of the shard at `shard` of [`ArrayLayout::object_grid`]. Decodes no chunk.
///
/// The checksum of the index is verified. Only the outermost of nested shards is inspected.
/// `None`: there is no such shard, the array has no shards, or shards go through codecs as a whole.
///
/// Fails with [`ArrayError::Shard`] if the index as a whole is wrong, and with [`ArrayError::Store`].
pub fn inspect_shard(layout: &ArrayLayout, shard: &[u64]) -> Result<Option<ShardContents>, ArrayError> {
    let Some(sharding) = layout.sharding() else { return Ok(None) };
    if sharding.levels().first().is_some_and(|level| !level.codecs().is_empty()) {
        return Ok(None);
    }
    let (task, mut key) = (Task { chunk: Dims::from(shard), ..Task::default() }, String::new());
    if layout.locate(&task.chunk, &mut key)? != Location::Object {
        return Ok(None);
    }
    let checked = tasks::key(layout, &task, &key)?;
    let Some(plan) = Plan::new(layout, &Selection::all(layout.shape())) else { return Ok(None) };
    let shard = Shard::new(layout, sharding, &plan, checked, task.chunk.clone(), true)?;
    let Some(level) = shard.level(0) else { return Ok(None) };
    let Some(FoundObject { opened: Some(opened), stamp, .. }) = shard.open()? else { return Ok(None) };
    let size = opened.size();
    let index = shard.index(level, &*opened, stamp, (0, size))?;
    let Some(place) = level.index_range(size) else { return Ok(None) };
    let (mut chunks, mut used, mut faulty) = (Vec::new(), 0_u64, false);
    for (number, offset, len) in index.present_chunks() {
        let fault = index.get(number).err();
        faulty |= fault.is_some();
        used = used.saturating_add(len);
        let chunk = inner_chunk(layout, level, &task.chunk, number);
        chunks.push(InnerChunk { chunk, offset, len, fault });
    }
    let dead = if faulty { 0 } else { size.saturating_sub(place.1).saturating_sub(used) };
    Ok(Some(ShardContents { size, index: place, chunks, dead }))
}

/// The inner chunk of an entry of a shard's index: its index in the array.
pub(crate) fn inner_chunk(layout: &ArrayLayout, level: &ShardLevel, shard: &[u64], number: usize) -> Dims {
    let grid = layout.object_grid();
    let first = shard.iter().zip(level.inner()).enumerate();
    // The first inner chunk of the shard, in the array.
    let first = first.map(|(axis, (at, inner))| grid.start(axis, *at) / (*inner).max(1));
    place_of(level, number).iter().zip(first).map(|(at, first)| at + first).collect()
}

/// The place of an entry of the index: the reverse of [`ShardLevel::number`].
fn place_of(level: &ShardLevel, number: usize) -> Dims {
    let (mut at, mut rest) = (Dims::from_elem(0, level.counts().len()), number as u64);
    for axis in level.order().iter().rev() {
        let axis = usize::from(*axis);
        let count = level.counts().get(axis).copied().unwrap_or(1).max(1);
        if let Some(at) = at.get_mut(axis) {
            *at = rest % count;
        }
        rest /= count;
    }
    at
}
