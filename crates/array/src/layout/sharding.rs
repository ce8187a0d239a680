//! A format's description of shards.

#![expect(clippy::indexing_slicing, reason = "axes are numbered below the rank, which all vectors have")]
#![expect(clippy::cast_possible_truncation, reason = "sizes in memory: 64 bits, checked as they came in")]

use crate::dims::Dims;
use crate::dims::element_count;
use crate::layout::grid::ChunkGrid;
use crate::layout::shard_index::IndexEncoding;
use hyperslab_codec::Codec;
use hyperslab_store::fork::{Lazy, Mutex};
use smallvec::SmallVec;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The deepest nesting of shards. Each level costs a read before the next can be found.
const MOST_LEVELS: usize = 8;

/// Number of outermost levels kept for an array, one for each shape of shard.
///
/// Grids with more shapes make some of them again and again.
const KEPT: usize = 1024;

/// The levels of shards between objects and chunks, from the object inwards. At least one.
///
/// In a rectilinear grid of shards, objects have different shapes, and each shape has its own
/// outermost level (`Sharding::outermost`). The inner chunks still have one shape: they lie in a
/// regular grid.
#[derive(Clone, Debug)]
pub struct Sharding {
    /// Levels for an object of the greatest length along each axis.
    levels: Vec<ShardLevel>,
    grid: ChunkGrid,
    /// For a rectilinear grid: outermost levels, by the shape of the object.
    shapes: Option<Arc<Mutex<LevelsByShape>>>,
}

type LevelsByShape = HashMap<Dims, Arc<ShardLevel>>;

impl Sharding {
    /// Joins levels, the object's first.
    ///
    /// Fails (with a message) if there are no levels or too many, or if the inner chunks of one
    /// level are not the shards of the next.
    pub fn new(levels: Vec<ShardLevel>) -> Result<Self, String> {
        if levels.len() > MOST_LEVELS {
            return Err(format!("shards are nested {} deep; the limit is {MOST_LEVELS}", levels.len()));
        }
        for pair in levels.windows(2) {
            if let [outer, inner] = pair
                && outer.inner != inner.shape
            {
                return Err(format!(
                    "shards of shape {:?} lie in shards whose inner chunks have shape {:?}",
                    inner.shape, outer.inner
                ));
            }
        }
        let shape = levels.first().map(|level| level.shape.clone()).ok_or("there is no shard")?;
        let grid = ChunkGrid::regular(shape).ok_or("shards have no elements")?;
        Ok(Sharding { levels, grid, shapes: None })
    }

    /// Puts the shards into `grid`, so that objects have the shapes of its cells.
    ///
    /// The levels must be for its largest cell. Fails (with a message) if they are not, or if inner
    /// chunks do not divide a shard.
    pub fn in_grid(self, grid: ChunkGrid) -> Result<Self, String> {
        if grid.chunk_shape() != self.grid.chunk_shape() {
            let (found, largest) = (self.grid.chunk_shape(), grid.chunk_shape());
            return Err(format!("shards of shape {found:?} in a grid whose largest have {largest:?}"));
        }
        let Some(level) = self.levels.first() else { return Err("there is no shard".into()) };
        for (axis, inner) in level.inner.iter().enumerate() {
            let runs = grid.runs(axis).unwrap_or_default();
            if let Some(run) = runs.iter().find(|run| run.size % inner != 0) {
                return Err(format!(
                    "axis {axis}: inner chunks of {inner} elements do not divide a shard of {} evenly",
                    run.size
                ));
            }
        }
        let shapes = (!grid.is_regular()).then(Arc::default);
        Ok(Sharding { grid, shapes, ..self })
    }

    /// Appends an axis with a single chunk of length `len` to the array.
    ///
    /// `None` if the result is not a valid sharding.
    pub(crate) fn with_axis(&self, len: u64) -> Option<Self> {
        let levels: Vec<ShardLevel> = self.levels.iter().map(|level| level.with_axis(len)).collect();
        let sharding = Sharding::new(levels).ok()?;
        match &self.shapes {
            None => Some(sharding),
            Some(_) => sharding.in_grid(self.grid.with_axis(len)).ok(),
        }
    }

    /// The outermost level of the object at `place` of the grid, if objects differ in shape.
    ///
    /// `None`: use the first of [`Sharding::levels`]. Fails (with a message) if the index is too
    /// large for memory.
    pub(crate) fn outermost_level(&self, place: &[u64]) -> Result<Option<Arc<ShardLevel>>, String> {
        let (Some(shapes), Some(largest)) = (&self.shapes, self.levels.first()) else { return Ok(None) };
        let shape = self.grid.shape_of(place);
        if let Some(level) = shapes.lock().get(&shape) {
            return Ok(Some(level.clone()));
        }
        let level = Arc::new(largest.of_shape(&shape)?);
        let mut cached = shapes.lock();
        let mut replaced = None;
        if cached.len() < KEPT {
            replaced = cached.insert(shape, level.clone());
        }
        // Codecs may be foreign code: not under the lock.
        drop(cached);
        drop(replaced);
        Ok(Some(level))
    }

    /// The levels, the object's first. In a rectilinear grid, they are for the largest object.
    pub fn levels(&self) -> &[ShardLevel] {
        &self.levels
    }

    /// The grid of objects.
    pub fn grid(&self) -> &ChunkGrid {
        &self.grid
    }

    /// Returns `true` if equal stored bytes mean equal shards.
    pub(crate) fn decodes_like(&self, other: &Sharding) -> bool {
        let is_same = |(own, its): (&ShardLevel, &ShardLevel)| {
            (&own.shape, &own.inner, &own.order) == (&its.shape, &its.inner, &its.order)
                && own.decoding() == its.decoding()
                && format!("{:?}", own.codecs) == format!("{:?}", its.codecs)
        };
        self.grid == other.grid
            && self.levels.len() == other.levels.len()
            && self.levels.iter().zip(&other.levels).all(is_same)
    }

    /// Elements per axis of the chunks in the innermost shards.
    pub fn chunk_shape(&self) -> &[u64] {
        self.levels.last().map_or(&[], |level| &level.inner)
    }
}

/// One chunk of a shard that a request touches.
#[derive(Clone, Debug)]
pub(crate) struct Touched {
    /// The number of its task in the plan of chunks.
    pub(crate) number: usize,
    /// Index of the chunk within the shard, per axis.
    pub(crate) at: Dims,
}

/// One level of shards.
#[derive(Clone, Debug)]
pub struct ShardLevel {
    /// Elements of a shard per axis of the array.
    shape: Dims,
    /// Elements of an inner chunk per axis of the array.
    inner: Dims,
    /// Inner chunks of a shard per axis of the array.
    counts: Dims,
    /// The array axes in the order in which the index counts them, slowest first.
    order: SmallVec<[u8; 8]>,
    index: IndexEncoding,
    at_start: bool,
    /// Codecs for the shard as a whole, in encoding order.
    codecs: Vec<Arc<dyn Codec>>,
    /// Made on first use.
    decoding: Lazy<Arc<str>>,
}

impl ShardLevel {
    /// Makes a level. All shapes are per axis of the array.
    ///
    /// `order`: see [`ShardLevel::order`] (empty: C order). `index` says how the index is stored.
    /// It is made for the same number of inner chunks per axis, **in the index's order**.
    /// `at_start` puts the index before the inner chunks instead of behind them. `codecs` apply to
    /// the whole shard, in encoding order.
    ///
    /// Fails (with a message) if shards are not cut evenly, if `order` is not a permutation of the
    /// axes, or if `index` is made for another number of inner chunks.
    pub fn new(
        shape: &[u64],
        inner: &[u64],
        order: &[usize],
        index: IndexEncoding,
        at_start: bool,
        codecs: Vec<Arc<dyn Codec>>,
    ) -> Result<Self, String> {
        let uneven =
            || format!("inner chunks of shape {inner:?} do not divide shards of shape {shape:?} evenly");
        if shape.len() != inner.len()
            || shape.iter().zip(inner).any(|(shape, inner)| *inner == 0 || *shape == 0 || shape % inner != 0)
        {
            return Err(uneven());
        }
        let rank = shape.len();
        let order: SmallVec<[u8; 8]> = match order {
            [] => (0..rank as u8).collect(),
            order => order.iter().map(|axis| *axis as u8).collect(),
        };
        let mut sorted = order.clone();
        sorted.sort_unstable();
        if sorted.len() != rank || sorted.iter().enumerate().any(|(k, axis)| k != *axis as usize) {
            return Err(format!("the order of axes {order:?} is not a permutation of {rank} axes"));
        }
        let counts: Dims = shape.iter().zip(inner).map(|(shape, inner)| shape / inner).collect();
        let count = element_count(&counts).and_then(|n| usize::try_from(n).ok());
        if count != Some(index.count()) {
            return Err(format!(
                "shards hold {counts:?} inner chunks, their index is made for {} in all",
                index.count()
            ));
        }
        Ok(ShardLevel {
            shape: shape.into(),
            inner: inner.into(),
            counts,
            order,
            index,
            at_start,
            codecs,
            decoding: Lazy::new(),
        })
    }

    /// Returns the level for shards of another shape. Fails like [`ShardLevel::new`].
    fn of_shape(&self, shape: &[u64]) -> Result<Self, String> {
        let order: SmallVec<[usize; 8]> = self.order.iter().map(|axis| usize::from(*axis)).collect();
        let counts: Dims = order.iter().map(|axis| shape[*axis] / self.inner[*axis]).collect();
        let index = self.index.of_counts(&counts)?;
        Self::new(shape, &self.inner, &order, index, self.at_start, self.codecs.clone())
    }

    /// See [`Sharding::with_axis`]. The index lists the same chunks.
    fn with_axis(&self, len: u64) -> Self {
        let with = |sizes: &Dims, last: u64| sizes.iter().copied().chain([last]).collect();
        ShardLevel {
            shape: with(&self.shape, len),
            inner: with(&self.inner, len),
            counts: with(&self.counts, 1),
            order: self.order.iter().copied().chain([self.shape.len() as u8]).collect(),
            decoding: Lazy::new(),
            ..self.clone()
        }
    }

    /// Elements of a shard per axis of the array.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Elements of an inner chunk per axis of the array.
    pub fn inner(&self) -> &[u64] {
        &self.inner
    }

    /// Inner chunks of a shard per axis of the array.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// The array axes in the order in which the index counts them, slowest first.
    pub fn order(&self) -> &[u8] {
        &self.order
    }

    /// How the index is stored.
    pub fn index(&self) -> &IndexEncoding {
        &self.index
    }

    /// Returns `true` if the index lies before the inner chunks.
    pub fn at_start(&self) -> bool {
        self.at_start
    }

    /// The codecs for the shard as a whole, in encoding order.
    pub fn codecs(&self) -> &[Arc<dyn Codec>] {
        &self.codecs
    }

    /// Describes the place and the decoding of the index as text.
    ///
    /// Under equal texts, equal bytes decode to equal indexes.
    pub(crate) fn decoding(&self) -> &Arc<str> {
        self.decoding.get_or_make(|| format!("{} {}", self.at_start, self.index.decoding()).into())
    }

    /// Offset and length of the index in a shard of `len` bytes.
    ///
    /// `None` if the shard is shorter than its index.
    pub(crate) fn index_range(&self, len: u64) -> Option<(u64, u64)> {
        let size = self.index.size() as u64;
        let behind = len.checked_sub(size)?;
        Some((if self.at_start { 0 } else { behind }, size))
    }

    /// Groups the array's chunks (of shape `chunk`) by the inner chunk that they lie in.
    ///
    /// The keys are entries of the index, in its order. In the groups, [`Touched::at`] counts
    /// within the inner chunk.
    pub(crate) fn group(
        &self,
        chunk: &[u64],
        touched: impl Iterator<Item = Touched>,
    ) -> BTreeMap<usize, Vec<Touched>> {
        let per: Dims = self.inner.iter().zip(chunk).map(|(inner, chunk)| inner / chunk).collect();
        let mut groups: BTreeMap<usize, Vec<Touched>> = BTreeMap::new();
        for Touched { number, at } in touched {
            let outer: Dims = at.iter().zip(&per).map(|(at, per)| at / per).collect();
            let at = at.iter().zip(&per).map(|(at, per)| at % per).collect();
            groups.entry(self.number(&outer)).or_default().push(Touched { number, at });
        }
        groups
    }

    /// The index entry of the inner chunk at `at` (per axis of the array, within the shard).
    pub(crate) fn number(&self, at: &[u64]) -> usize {
        self.order.iter().fold(0, |number, axis| {
            let k = *axis as usize;
            number * self.counts[k] as usize + at[k] as usize
        })
    }
}
