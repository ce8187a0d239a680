//! Outlines a copy in parts: its documents, and how each array is cut into units.
//!
//! Writes nothing: the documents are part of the outline.

use super::beyond_source;
use super::blocks::Blocks;
use super::geometry::geometry;
use super::place::Room;
use super::plan::{Geometry, Pass, Prices};
use super::region::{Region, Window, aligned};
use super::structures::Repack;
use super::temporary::Beside;
use super::transfer::{Job, Means, Server};
use super::{CopyOptions, CopyPlan, Inventory, Member, count_stored_objects, path_text};
use crate::meaning::Meaning;
use crate::{Array, Error, Key, MemoryStore, Node, Result, Store};
use hyperslab_codec::ByteOrder;
use hyperslab_zarr::{self as zarr, Consolidation, Creation};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// The stored bytes of an array with more objects are not counted before it is copied.
const MOST_COUNTED: u64 = 10_000;

/// Requests that a task has on their way to a server, if memory allows. A store with other settings
/// makes fewer.
const REQUESTS: usize = 64;

/// The outline of a copy.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outline {
    /// Number of groups.
    pub groups: u64,
    /// The documents of the copy by key, in the order in which to write them.
    /// The documents of a group come after everything in the group.
    pub documents: Vec<(String, String)>,
    /// The arrays.
    pub arrays: Vec<OutlinedArray>,
    /// Differences from the source that the user did not ask for.
    pub notes: Vec<String>,
    /// Arrays and groups that are left out because they cannot be copied: path and reason.
    pub skipped: Vec<(String, String)>,
    /// Differences in meaning from the source's metadata. Verification fails if there are any.
    pub differs: Vec<String>,
}

/// How an array is copied.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OutlinedArray {
    /// The path relative to the source.
    pub path: String,
    /// The passes.
    pub plan: CopyPlan,
    /// How each pass is cut into units, which own whole objects of the array that is written.
    pub units: Vec<Units>,
    /// The pass that compares source and copy, and its units.
    pub compare: (Pass, Units),
    /// The first element that is copied.
    pub from_start: Vec<u64>,
    /// The first element that is written.
    pub to_start: Vec<u64>,
    /// Elements per axis that are copied.
    pub shape: Vec<u64>,
    /// A change that would make the copy ten times cheaper.
    pub advice: Option<String>,
}

/// The units of a pass.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Units {
    /// Elements per axis of a block.
    pub block: Vec<u64>,
    /// Blocks per axis that form one object, and therefore one unit.
    pub parts: Vec<u64>,
    /// Number of units, numbered in C order.
    pub count: u64,
    /// `true`: no two units share an object, so they are independent.
    pub independent: bool,
}

/// The workers that copy the parts.
#[derive(Clone, Copy, Debug)]
pub struct Crew {
    /// Number of parts that are copied at once.
    pub workers: u64,
    /// Minimum bytes of elements in a part.
    pub size: u64,
    /// The prices of requests and workers.
    pub prices: Prices,
}

/// The place that a planned copy goes to.
#[derive(Clone, Copy, Debug)]
pub enum Site<'a> {
    /// A directory on a local disk. Temporary arrays go beside it.
    Directory(&'a Path),
    /// A server. Temporary arrays go into the destination.
    Server(&'a Arc<dyn Store>),
    /// Another store, which has no place for temporary arrays.
    Store,
}

impl Site<'_> {
    fn directory(&self) -> Option<&Path> {
        if let Site::Directory(path) = self { Some(path) } else { None }
    }

    /// The means of a copy to this place.
    fn means<'o>(&self, crew: Crew, options: &'o CopyOptions<'o>) -> Result<Means<'o>> {
        let beside = self.directory().map(Beside::new).transpose()?;
        let server = match self {
            Site::Directory(_) => None,
            Site::Server(store) => Some(Server { requests: REQUESTS, cost: Some(store.cost()) }),
            Site::Store => Some(Server { requests: REQUESTS, cost: None }),
        };
        Ok(Means { server, prices: crew.prices, workers: crew.workers, ..options.means(beside) })
    }
}

/// Outlines a copy. Reads metadata only.
pub fn outline(source: &Node, site: Site<'_>, crew: Crew, options: &CopyOptions<'_>) -> Result<Outline> {
    let inventory = Inventory::new(source, site.directory().map(Room::of), options)?;
    let means = site.means(crew, options)?;
    let ask: &dyn Fn() -> bool = &|| options.stops();
    // For documents and layouts only.
    let nowhere: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let format = inventory.format()?;
    for (path, attributes) in &inventory.groups {
        zarr::Group::create_with(
            nowhere.clone(),
            path,
            format,
            attributes.clone(),
            Creation::Unseen,
            Some(ask),
        )?;
    }
    let (mut arrays, mut differs) = (Vec::new(), Vec::new());
    let meaning = Meaning::of_copy(inventory.arrays.iter().map(|member| &member.variable));
    // The temporary arrays of all arrays may be on the disk at the same time.
    let mut taken = 0u64;
    for Member { path, array, variable, spec, window } in &inventory.arrays {
        options.check()?;
        let target =
            zarr::Array::create_with(nowhere.clone(), path, spec.clone(), Creation::Unseen, Some(ask))?;
        let target = target.into();
        let found = meaning.variable(&target)?;
        if let Some(differing) = found.and_then(|found| variable.difference(array, &found, &target)) {
            differs.push(format!("array '{}': {differing}", path_text(path)));
        }
        let stored =
            if objects(array) <= MOST_COUNTED { count_stored_objects(array, Some(ask))?.1 } else { 0 };
        let repack = target.structure().map(|structure| Repack::new(array, structure)).transpose();
        let repack = repack.map_err(|why| Error::Copy { array: path_text(path), why })?.flatten();
        let job = Job { repack, ..Job::planned(path, array, target, stored, window) };
        let mut geometry = geometry(&job, &means, Some(ask))?;
        geometry.temporary = geometry.temporary.map(|(reach, room)| (reach, room.saturating_sub(taken)));
        let outlined = crew.outline_array(path, &job, geometry)?;
        taken = taken.saturating_add(outlined.plan.temporary_bytes());
        arrays.push(outlined);
    }
    if inventory.consolidated {
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
    let report = inventory.report;
    let (groups, notes, skipped) = (report.groups, report.notes, report.skipped);
    Ok(Outline { groups, documents, arrays, notes, skipped, differs })
}

/// Outlines a copy of `options.region` of an array into a region of an existing array.
/// Both regions have the same shape; the target's chunks and codecs stay. `site`: the place of the
/// target.
///
/// Fails with [`Error::Options`] if the region does not begin and end at object boundaries of the
/// target (or at its end): others may be writing the rest of these objects.
pub fn outline_into(
    source: &Array,
    target: &Array,
    target_region: &Region,
    site: Site<'_>,
    crew: Crew,
    options: &CopyOptions<'_>,
) -> Result<Outline> {
    let ask: &dyn Fn() -> bool = &|| options.stops();
    let stored = if objects(source) <= MOST_COUNTED { count_stored_objects(source, Some(ask))?.1 } else { 0 };
    let job = job_into(source, target, target_region, options)?;
    let job = Job { stored, ..job };
    let means = site.means(crew, options)?;
    let outlined = crew.outline_array("", &job, geometry(&job, &means, Some(ask))?)?;
    let zarr = target.as_zarr().ok_or_else(|| Error::Options("the target is no array of Zarr".into()))?;
    let name = if zarr.format() == zarr::Format::V2 { ".zarray" } else { "zarr.json" };
    let documents = vec![(name.to_owned(), zarr.to_json().to_text(None))];
    let (notes, skipped, differs) = (Vec::new(), Vec::new(), Vec::new());
    Ok(Outline { groups: 0, documents, arrays: vec![outlined], notes, skipped, differs })
}

/// The job that copies a region of an array into a region of another.
pub(super) fn job_into(
    source: &Array,
    target: &Array,
    target_region: &Region,
    options: &CopyOptions<'_>,
) -> Result<Job> {
    let name = target.layout().name().to_owned();
    let refuse = |why: String| Error::Options(format!("region of '{name}': {why}"));
    let window = Window::of(source, options.region.as_ref())?;
    for (region, array) in [(options.region.as_ref(), source), (Some(target_region), target)] {
        let names = std::iter::once(array.dimension_names()?);
        if let Some(unknown) = region.map(|region| region.unknown_names(names)).transpose()?
            && let [name, ..] = unknown[..]
        {
            return Err(Error::Options(format!("region: the array has no dimension named {name:?}")));
        }
    }
    let place = target_region.of(target)?;
    let shape: Vec<u64> = place.iter().map(|range| range.end - range.start).collect();
    if shape != window.shape.as_slice() {
        return Err(refuse(format!(
            "{} has the shape {shape:?}, but what is copied has {:?}",
            ranges_text(&place),
            window.shape.as_slice()
        )));
    }
    let window = Window { to: place.iter().map(|range| range.start).collect(), ..window };
    let grown = aligned(&window.place(), target.layout().object_grid(), target.shape());
    if grown != place {
        return Err(refuse(format!(
            "{} does not begin and end where its chunks (or shards) do: others may be writing the rest of \
             them. With whole ones it is {}",
            ranges_text(&place),
            ranges_text(&grown)
        )));
    }
    let plain = |array: &Array| (array.dtype().with_order(ByteOrder::Little), array.vlen());
    if plain(source) != plain(target) && target.as_zarr().is_none_or(|array| array.structure().is_none()) {
        return Err(refuse(format!(
            "its elements are {}, those of the source {}",
            target.type_words(),
            source.type_words()
        )));
    }
    let repack = match target.as_zarr().and_then(|array| array.structure()) {
        None => None,
        Some(structure) => Repack::new(source, structure).map_err(refuse)?,
    };
    let (name, source, target) = (path_text(target.path()), source.clone(), target.clone());
    Ok(Job { name, source, target, stored: 0, repack, window, is_new: false, is_fresh: false })
}

/// Formats ranges as `[0:10, 5:20]`.
fn ranges_text(ranges: &[Range<u64>]) -> String {
    let axes: Vec<String> = ranges.iter().map(|range| format!("{}:{}", range.start, range.end)).collect();
    format!("[{}]", axes.join(", "))
}

impl Crew {
    /// Plans an array and cuts the plan into units.
    fn outline_array(self, path: &str, job: &Job, mut geometry: Geometry) -> Result<OutlinedArray> {
        geometry.enough_whole = geometry.enough.min(self.size);
        let window = &job.window;
        let plan = self.plan(&geometry, &window.shape);
        let regular = job.target.layout().object_grid().is_regular();
        let units = |pass: &Pass, independent| {
            let blocks = Blocks::of(pass, &window.shape, false);
            Units {
                block: pass.block.clone(),
                parts: blocks.parts().to_vec(),
                count: if window.shape.contains(&0) { 0 } else { blocks.object_count() },
                independent,
            }
        };
        let last = plan.passes.len().saturating_sub(1);
        let mut all: Vec<Units> =
            plan.passes.iter().enumerate().map(|(n, pass)| units(pass, n < last || regular)).collect();
        // A source without elements has no units, but its copy needs one unit if elements beyond
        // the end of the source must be written.
        if let Some(units) = all.last_mut().filter(|units| units.count == 0) {
            units.count = u64::from(beyond_source::value_beyond_source(job)?.is_some());
        }
        let advice = geometry.advice(&plan);
        let compare = geometry.comparing().pass(&geometry.source, &geometry.target);
        let compare_units = units(&compare, true);
        Ok(OutlinedArray {
            path: path.to_owned(),
            plan,
            units: all,
            compare: (compare, compare_units),
            from_start: window.from.to_vec(),
            to_start: window.to.to_vec(),
            shape: window.shape.to_vec(),
            advice,
        })
    }

    /// Finds the plan with which the whole crew finishes first.
    ///
    /// Larger blocks decode fewer chunks repeatedly, but there are fewer blocks to share: a single
    /// block is done by one worker. Therefore this also tries plans for less memory.
    fn plan(self, geometry: &Geometry, shape: &[u64]) -> CopyPlan {
        let mut best = geometry.plan();
        let least = self.size.max(best.bytes / self.workers.saturating_mul(4).max(1));
        let mut memory = geometry.memory.min(best.bytes) / 2;
        while memory >= least {
            let plan = Geometry { memory, ..geometry.clone() }.plan();
            if self.expense(&plan, shape) < self.expense(&best, shape) {
                best = plan;
            }
            memory /= 2;
        }
        best
    }

    /// The cost of the copy in dollars. On disks this is proportional to the time that the crew takes.
    fn expense(self, plan: &CopyPlan, shape: &[u64]) -> f64 {
        plan.dollars() + self.prices.work(self.seconds(plan, shape) * self.workers as f64)
    }

    /// The time that the crew takes: the sum over all passes, each until its last worker is done.
    fn seconds(self, plan: &CopyPlan, shape: &[u64]) -> f64 {
        let of_pass = |pass: &Pass| {
            let units = Blocks::of(pass, shape, false).object_count();
            let parts = units.min(plan.bytes.div_ceil(self.size.max(1))).max(1);
            pass.seconds * parts.div_ceil(self.workers.max(1)) as f64 / parts as f64
        };
        plan.passes.iter().map(of_pass).sum()
    }
}

/// Number of objects that the array can have.
fn objects(array: &Array) -> u64 {
    let counts = array.layout().object_grid().counts(array.shape());
    counts.iter().fold(1, |n: u64, count| n.saturating_mul(*count))
}
