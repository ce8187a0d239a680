//! The entries of a shard's index, for callers who look for damage.

use crate::dims::Dims;
use crate::error::ArrayError;
use crate::execute::tasks;
use crate::layout::ArrayLayout;
use crate::layout::locate::Location;
use crate::layout::shard_index::ShardIndex;
use crate::layout::sharding::{ShardLevel, Sharding};
use crate::plan::Plan;
use crate::plan::lot::FoundObject;
use crate::plan::task::Task;
use crate::select::Selection;
use crate::shard::open_shard::Shard;
use hyperslab_store::{Opened, Stamp};

/// An inner chunk in a shard's index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InnerChunk {
    /// Index of the inner chunk in the array, per axis, in chunks of [`ShardContents::inner`].
    pub chunk: Dims,
    /// First byte in the object.
    pub offset: u64,
    /// Stored bytes.
    pub len: u64,
    /// The reason why the entry cannot be right.
    pub fault: Option<String>,
}

/// A shard within a shard whose index as a whole is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenShard {
    /// First byte in the object.
    pub offset: u64,
    /// The first element of the inner shard in the array, per axis.
    pub first: Dims,
    /// The fault.
    pub why: String,
}

/// The index of a shard, and the indexes of shards within it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardContents {
    /// Bytes of the shard.
    pub size: u64,
    /// First byte and length of the outermost index.
    pub index: (u64, u64),
    /// Elements of an inner chunk per axis.
    pub inner: Dims,
    /// The inner chunks that exist, in the order of the indexes.
    pub chunks: Vec<InnerChunk>,
    /// Shards within the shard that cannot be read.
    pub broken: Vec<BrokenShard>,
    /// Bytes that nothing refers to. 0 if an entry of an index is wrong.
    pub dead: u64,
}

/// Number of levels of shards whose indexes can be read without decoding a shard.
pub fn inspected_levels(sharding: &Sharding) -> usize {
    sharding.levels().iter().take_while(|level| level.codecs().is_empty()).count()
}

/// Reads the index of the shard at `shard` of [`ArrayLayout::object_grid`], and the indexes of shards
/// within it. Decodes no chunk.
///
/// The checksums of the indexes are verified. Shards within a shard that goes through codecs as a whole
/// are not inspected. `None`: there is no such shard, the array has no shards, or shards go through
/// codecs as a whole.
///
/// Fails with [`ArrayError::Shard`] if the outermost index as a whole is wrong, and with
/// [`ArrayError::Store`].
pub fn inspect_shard(layout: &ArrayLayout, shard: &[u64]) -> Result<Option<ShardContents>, ArrayError> {
    let Some(sharding) = layout.sharding() else { return Ok(None) };
    if inspected_levels(sharding) == 0 {
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
    let grid = layout.object_grid();
    let first: Dims = task.chunk.iter().enumerate().map(|(axis, at)| grid.start(axis, *at)).collect();
    let mut inspection = Inspection {
        shard: &shard,
        opened: &*opened,
        stamp,
        levels: inspected_levels(sharding),
        chunks: Vec::new(),
        broken: Vec::new(),
        faulty: false,
        dead: 0,
    };
    inspection.entries(0, &index, (0, size), &first)?;
    let Inspection { levels, chunks, broken, faulty, dead, .. } = inspection;
    let inner = match levels {
        1 => level.inner().into(),
        _ => sharding.levels().get(levels - 1).map_or_else(Dims::new, |level| level.inner().into()),
    };
    let dead = if faulty { 0 } else { dead };
    Ok(Some(ShardContents { size, index: place, inner, chunks, broken, dead }))
}

/// The inspection of one shard, and its results so far.
struct Inspection<'i, 'a, 's> {
    shard: &'i Shard<'a, 's>,
    opened: &'i dyn Opened,
    stamp: Option<Stamp>,
    /// Levels whose indexes are read.
    levels: usize,
    chunks: Vec<InnerChunk>,
    broken: Vec<BrokenShard>,
    faulty: bool,
    dead: u64,
}

impl Inspection<'_, '_, '_> {
    /// Notes the entries of the index of a shard at `range` of the object, whose first element is
    /// `first`. Goes on with the shards in it.
    fn entries(
        &mut self,
        depth: usize,
        index: &ShardIndex,
        range: (u64, u64),
        first: &[u64],
    ) -> Result<(), ArrayError> {
        let Some(level) = self.shard.level(depth) else { return Ok(()) };
        let layout = self.shard.layout;
        let innermost = depth + 1 == self.shard.sharding.levels().len();
        let mut used = 0_u64;
        for (number, offset, len) in index.present_chunks() {
            let mut fault = index.get(number).err();
            let chain = layout.encoding().chain();
            let (size, most) = (chain.decoded_size() as u64, chain.max_encoded() as u64);
            if innermost && fault.is_none() {
                fault = match () {
                    () if chain.stores_decoded() && len != size => {
                        Some(format!("it has {len} bytes; a chunk without codecs has {size}"))
                    }
                    () if len > most => {
                        Some(format!("it has {len} bytes; {most} are the most that can be right"))
                    }
                    () => None,
                };
            }
            self.faulty |= fault.is_some();
            used = used.saturating_add(len);
            let place = place_of(level, number);
            let at = range.0.saturating_add(offset);
            let axes = place.iter().zip(level.inner()).zip(first);
            let start: Dims = axes.map(|((place, inner), first)| first + place * inner).collect();
            if depth + 1 == self.levels || fault.is_some() {
                // An entry that is wrong stands for all chunks of a shard within: the first is named.
                let inner = self.shard.sharding.levels().get(self.levels - 1).unwrap_or(level).inner();
                let chunk = start.iter().zip(inner).map(|(start, inner)| start / (*inner).max(1)).collect();
                self.chunks.push(InnerChunk { chunk, offset: at, len, fault });
                continue;
            }
            let Some(below) = self.shard.level(depth + 1) else { continue };
            match self.shard.index(below, self.opened, self.stamp, (at, len)) {
                Ok(index) => self.entries(depth + 1, &index, (at, len), &start)?,
                Err(ArrayError::Shard { why, .. }) => {
                    self.faulty = true;
                    self.broken.push(BrokenShard { offset: at, first: start, why });
                }
                Err(error) => return Err(error),
            }
        }
        let index = level.index_range(range.1).map_or(0, |place| place.1);
        self.dead = self.dead.saturating_add(range.1.saturating_sub(index).saturating_sub(used));
        Ok(())
    }
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
