//! A copy in parts that several processes do: what each part is, and doing one.
//!
//! 1. [`outline`] walks the source and plans the copy of each array. It writes nothing: the documents
//!    of the copy are part of the outline.
//! 2. [`Part`]s of one pass over an array own whole objects of what they write. They are done in any
//!    order, at the same time, and again after a kill ([`copy_part`]).
//! 3. What a part has written is told by the stamps of its objects ([`stamp_part`]), so that somebody
//!    who goes on with the copy knows whether they are as they were.
//! 4. When all parts are done, the caller writes the documents: nothing half-written opens.

use super::blocks::Blocks;
use super::geometry::geometry;
use super::mover::Mover;
use super::place::Room;
use super::plan::{Geometry, Pass};
use super::structures::Repack;
use super::temporary::{self, Beside};
use super::transfer::{Job, Transfer};
use super::{CopyOptions, CopyPlan, Progress, Walked, shown, stored};
use crate::{Array, Dims, Error, Format, Key, MemoryStore, Node, Result, Store};
use hyperslab_zarr::{self as zarr, ArraySpec, Consolidation, Creation};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Of an array with more objects, nobody counts the bytes that are stored before it is copied.
const MOST_COUNTED: u64 = 10_000;

/// Stamps that are asked for at a time, of a store far away.
const AT_ONCE: usize = 32;

/// What a copy will be.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outline {
    /// Number of groups.
    pub groups: u64,
    /// The documents of the copy, by their keys, in the order in which they are to be written: those
    /// of a group come after all that is in it.
    pub documents: Vec<(String, String)>,
    /// The arrays.
    pub arrays: Vec<OutlinedArray>,
    /// What differs from the source without having been asked for.
    pub notes: Vec<String>,
    /// What is left out because it cannot be copied: paths, and why.
    pub skipped: Vec<(String, String)>,
}

/// How an array is copied.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OutlinedArray {
    /// Relative to the source.
    pub path: String,
    /// The passes.
    pub plan: CopyPlan,
    /// How each pass is cut into units, which own whole objects of what it writes.
    pub units: Vec<Units>,
}

/// The units of a pass.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Units {
    /// Elements per axis of a block.
    pub block: Vec<u64>,
    /// Blocks per axis that are parts of one object, and so of one unit.
    pub parts: Vec<u64>,
    /// Number of units, numbered in C order.
    pub count: u64,
    /// Whether units are independent: two of them share no object.
    pub independent: bool,
}

/// Who does the parts of a copy.
#[derive(Clone, Copy, Debug)]
pub struct Crew {
    /// How many parts are done at a time.
    pub workers: u64,
    /// Bytes of elements of a part, at least.
    pub size: u64,
}

/// What a copy to `directory` (or into a store, where there is none) will be. Reads metadata only.
pub fn outline(
    source: &Node,
    directory: Option<&Path>,
    crew: Crew,
    options: &CopyOptions<'_>,
) -> Result<Outline> {
    let walked = Walked::new(source, directory.map(Room::of), options)?;
    let means = options.means(directory.map(Beside::new).transpose()?);
    let ask: &dyn Fn() -> bool = &|| options.stops();
    // Only for documents and layouts.
    let nowhere: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let format = walked.format()?;
    for (path, attributes) in &walked.groups {
        zarr::Group::create_with(
            nowhere.clone(),
            path,
            format,
            attributes.clone(),
            Creation::Unseen,
            Some(ask),
        )?;
    }
    let mut arrays = Vec::new();
    // Temporary arrays of all arrays may be on the disk together.
    let mut taken = 0u64;
    for (path, array, spec) in &walked.arrays {
        options.check()?;
        let target =
            zarr::Array::create_with(nowhere.clone(), path, spec.clone(), Creation::Unseen, Some(ask))?;
        let stored = if objects(array) <= MOST_COUNTED { stored(array, Some(ask))?.1 } else { 0 };
        let job =
            Job { name: shown(path), source: array.clone(), target: target.into(), stored, repack: None };
        let mut geometry = geometry(&job, &means, Some(ask))?;
        geometry.temporary = geometry.temporary.map(|(reach, room)| (reach, room.saturating_sub(taken)));
        geometry.enough = geometry.enough.min(crew.size);
        let plan = crew.plan(&geometry, array.shape());
        taken = taken.saturating_add(plan.temporary_bytes());
        let last = plan.passes.len().saturating_sub(1);
        let units = plan.passes.iter().enumerate().map(|(n, pass)| {
            let blocks = Blocks::of(pass, array.shape(), false);
            Units {
                block: pass.block.clone(),
                parts: blocks.parts().to_vec(),
                count: if array.shape().contains(&0) { 0 } else { blocks.object_count() },
                independent: n < last || job.target.layout().object_grid().is_regular(),
            }
        });
        let units = units.collect();
        arrays.push(OutlinedArray { path: path.clone(), plan, units });
    }
    if walked.consolidated {
        zarr::Group::open(&nowhere, "", Some(format), Consolidation::Ignore)?.consolidate(Some(ask))?;
    }
    let mut keys = nowhere.list(None)?;
    // `.zarray` and `.zgroup` come after `.zattrs`.
    keys.sort_by_key(|key| {
        (std::cmp::Reverse(key.matches('/').count()), !key.ends_with(".zattrs"), key.clone())
    });
    let mut documents = Vec::new();
    for key in keys {
        let mut text = Vec::new();
        nowhere.read_all(Key::new(&key)?, &mut text, usize::MAX)?;
        let text = String::from_utf8(text);
        documents.push((key, text.map_err(|_| Error::Options("a document is no text".into()))?));
    }
    let report = walked.report;
    Ok(Outline { groups: report.groups, documents, arrays, notes: report.notes, skipped: report.skipped })
}

impl Crew {
    /// The plan with which the whole crew is done first.
    ///
    /// The larger blocks are, the fewer times chunks are decoded, and the fewer blocks there are: one
    /// block of all is decoded once, by one worker. So plans for less memory are looked at, too.
    fn plan(self, geometry: &Geometry, shape: &[u64]) -> CopyPlan {
        let mut best = geometry.plan();
        let least = self.size.max(best.bytes / self.workers.saturating_mul(4).max(1));
        let mut memory = geometry.memory.min(best.bytes) / 2;
        while memory >= least {
            let plan = Geometry { memory, ..geometry.clone() }.plan();
            if self.seconds(&plan, shape) < self.seconds(&best, shape) {
                best = plan;
            }
            memory /= 2;
        }
        best
    }

    /// How long the crew takes: each pass, until the last worker is done.
    fn seconds(self, plan: &CopyPlan, shape: &[u64]) -> f64 {
        let of_pass = |pass: &Pass| {
            let units = Blocks::of(pass, shape, false).object_count();
            let parts = units.min(plan.bytes.div_ceil(self.size.max(1))).max(1);
            pass.seconds * parts.div_ceil(self.workers.max(1)) as f64 / parts as f64
        };
        plan.passes.iter().map(of_pass).sum()
    }
}

/// Number of objects that an array can have.
fn objects(array: &Array) -> u64 {
    let counts = array.layout().object_grid().counts(array.shape());
    counts.iter().fold(1, |n: u64, count| n.saturating_mul(*count))
}

/// A part of one pass over an array.
#[derive(Clone, Debug)]
pub struct Part {
    /// The path of the copy in the store.
    pub path: String,
    /// The copy's format.
    pub format: Format,
    /// The text of the copy's `zarr.json` or `.zarray`.
    pub document: String,
    /// The temporary array that is read, if there is one: its path in the store, and its chunks.
    pub from: Option<(String, Vec<u64>)>,
    /// The temporary array that is written, if it is not the copy.
    pub to: Option<(String, Vec<u64>)>,
    /// Elements per axis of a block.
    pub block: Vec<u64>,
    /// Blocks per axis of a unit.
    pub parts: Vec<u64>,
    /// The units.
    pub units: Range<u64>,
    /// How many threads work on it.
    pub threads: usize,
}

/// The objects of a part, as they are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartStamp {
    /// How many are stored. Those that would hold the fill value only are not.
    pub objects: u64,
    /// A hash of their names, sizes and times or tags.
    pub hash: u64,
}

/// Copies a part of an array. Everything it owns is written anew.
pub fn copy_part(
    source: &Array,
    store: &Arc<dyn Store>,
    part: &Part,
    progress: Option<&dyn Progress>,
) -> Result<PartStamp> {
    let open = Opened::new(source, store, part)?;
    let cancelled: &dyn Fn() -> bool = &|| progress.is_some_and(Progress::cancelled);
    let from = open.from.as_ref().unwrap_or(&open.job.source);
    let mover = Mover::new(&open.job, (from, open.written()), part.threads, cancelled);
    Transfer::of_parts(progress)?.copy_units(mover, &open.blocks, part.units.clone())?;
    open.stamp(store, part)
}

/// The stamp of a part that somebody has done.
pub fn stamp_part(source: &Array, store: &Arc<dyn Store>, part: &Part) -> Result<PartStamp> {
    Opened::new(source, store, part)?.stamp(store, part)
}

/// The arrays of a part.
struct Opened {
    job: Job,
    from: Option<Array>,
    to: Option<Array>,
    blocks: Blocks,
}

impl Opened {
    fn new(source: &Array, store: &Arc<dyn Store>, part: &Part) -> Result<Opened> {
        let name = shown(&part.path);
        let refuse = |why: &str| Error::Copy { array: name.clone(), why: why.into() };
        let (format, text) = (part.format.zarr()?, part.document.as_bytes());
        let target: Array = zarr::Array::of_document(store.clone(), &part.path, format, text)?.into();
        let rank = source.shape().len();
        if source.shape() != target.shape() {
            return Err(refuse("the source has another shape than when the copy was planned"));
        }
        if part.block.len() != rank || part.parts.len() != rank || part.parts.contains(&0) {
            return Err(refuse("its blocks have another number of axes"));
        }
        let blocks = Blocks::new(source.shape(), &part.block, &part.parts);
        if part.units.end > blocks.object_count() {
            return Err(refuse("the part lies outside the array"));
        }
        let repack = match target.as_zarr().and_then(|array| array.structure()) {
            None => None,
            Some(structure) => Repack::new(source, structure).map_err(|why| refuse(&why))?,
        };
        let temporary = |of: &Option<(String, Vec<u64>)>| {
            let open =
                |(path, chunk): &(String, Vec<u64>)| bound(store, path, temporary::spec(source, chunk)?);
            of.as_ref().map(open).transpose()
        };
        let (from, to) = (temporary(&part.from)?, temporary(&part.to)?);
        let job = Job { name, source: source.clone(), target, stored: 0, repack };
        Ok(Opened { job, from, to, blocks })
    }

    fn written(&self) -> &Array {
        self.to.as_ref().unwrap_or(&self.job.target)
    }

    fn stamp(&self, store: &Arc<dyn Store>, part: &Part) -> Result<PartStamp> {
        let keys = self.keys(part)?;
        let ask = |keys: &[String]| keys.iter().map(|key| found(store, key)).collect::<Result<Vec<_>>>();
        let mut all = Vec::with_capacity(keys.len());
        if store.cost().is_far() {
            for some in keys.chunks(AT_ONCE) {
                let answers = std::thread::scope(|scope| {
                    let asked: Vec<_> = some.iter().map(|key| scope.spawn(|| found(store, key))).collect();
                    asked.into_iter().map(|one| one.join()).collect::<Vec<_>>()
                });
                for answer in answers {
                    all.push(answer.map_err(|_| Error::Options("a thread panicked".into()))??);
                }
            }
        } else {
            all = ask(&keys)?;
        }
        let mut stamp = PartStamp { objects: 0, hash: EMPTY };
        for (key, numbers) in keys.iter().zip(&all) {
            stamp.objects += u64::from(numbers.is_some());
            stamp.hash = fnv1a(stamp.hash, key.as_bytes());
            for number in numbers.unwrap_or_default() {
                stamp.hash = fnv1a(stamp.hash, &number.to_le_bytes());
            }
        }
        Ok(stamp)
    }

    /// The keys of all objects of the units, whether they are stored or not.
    fn keys(&self, part: &Part) -> Result<Vec<String>> {
        let array = self.written();
        let zarr = array.as_zarr().ok_or_else(|| Error::Options("the copy is no array of Zarr".into()))?;
        let grid = array.layout().object_grid();
        let mut keys = Vec::new();
        let mut push = |place: &[u64]| {
            let key = zarr.key_encoding().key(place).map_err(Error::Options)?;
            keys.push(zarr::join(zarr.path(), &key));
            Ok::<(), Error>(())
        };
        for number in part.units.clone() {
            let unit = self.blocks.object(number);
            if self.blocks.are_parts() {
                push(&unit)?;
                continue;
            }
            let block = self.blocks.block(&unit);
            let spans = (0..unit.len()).map(|axis| {
                let last = block.first[axis] + block.len[axis].saturating_sub(1);
                (grid.index_of(axis, block.first[axis]), grid.index_of(axis, last))
            });
            super::blocks::all(spans.collect()).try_for_each(|place: Dims| push(&place))?;
        }
        Ok(keys)
    }
}

/// What tells whether an object has changed; `None`: it is not stored.
fn found(store: &Arc<dyn Store>, key: &str) -> Result<Option<[u64; 4]>> {
    let key = Key::new(key)?;
    Ok(match store.stamp(key)? {
        Some(stamp) => Some(stamp.everywhere()),
        None => store.size(key)?.map(|size| [size, 0, 0, 0]),
    })
}

/// The array of this description at a place where no document of it is.
fn bound(store: &Arc<dyn Store>, path: &str, spec: ArraySpec) -> Result<Array> {
    let nowhere: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let format = spec.format;
    let made = zarr::Array::create_with(nowhere, "", spec, Creation::Unseen, None)?;
    let text = made.to_json().to_text(None);
    Ok(zarr::Array::of_document(store.clone(), path, format, text.as_bytes())?.into())
}

/// The hash of no bytes.
const EMPTY: u64 = 0xcbf2_9ce4_8422_2325;

/// Continues a 64-bit FNV-1a hash.
fn fnv1a(state: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(state, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}
