//! Copies in parts, for `hyperslab.plan_copy`.

use crate::errors::{self, OrRaise};
use crate::gil::engine::Signals;
use crate::gil::once::{dict, items};
use crate::jobs::copy::{Source, Wanted, WantedRegion};
use crate::nodes::handles::ArrayHandle;
use crate::stores::store::StoreHandle;
use hyperslab::copy::{
    CopyOptions, Crew, Listings, Order, Outline, OutlinedArray, Part, PartStamp, Pass, Progress, Region,
    Shards, Units, compare_part as compare, copy_part as copy, groups_above, is_replaceable, outline,
    outline_into, stamp_part as stamp,
};
use hyperslab::{Error, Format, Result};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

/// Stops work for signals.
struct Asking(Signals);

impl Progress for Asking {
    fn cancelled(&self) -> bool {
        self.0.ask()
    }
}

/// Runs `run` without the GIL. Signals stop it.
fn stoppable<T: Send>(py: Python<'_>, run: impl FnOnce(&dyn Progress) -> Result<T> + Send) -> PyResult<T> {
    let (result, raised) = py.detach(move || {
        let asking = Asking(Signals::default());
        let result = run(&asking);
        (result, asking.0.into_exception())
    });
    match (result, raised) {
        (Ok(value), _) => Ok(value),
        (Err(Error::Interrupted), Some(raised)) => Err(raised),
        (Err(error), _) => Err(errors::to_exception(py, &error)),
    }
}

/// The groups above a place that have consolidated metadata.
#[pyclass(frozen, module = "hyperslab._native")]
pub(crate) struct GroupsAbove(hyperslab::zarr::EnclosingGroups);

#[pymethods]
impl GroupsAbove {
    /// Searches above a path or URL for a node at `path` in it. `storage`: settings of a server.
    #[new]
    #[pyo3(signature = (location, path="", fsync=false, storage=Vec::new()))]
    fn new(
        py: Python<'_>,
        location: &str,
        path: &str,
        fsync: bool,
        storage: Vec<(String, String)>,
    ) -> PyResult<Self> {
        py.detach(|| groups_above(location, path, fsync, &storage)).map(GroupsAbove).or_raise(py)
    }

    /// Removes the node from the groups' consolidated metadata.
    fn forget(&self, py: Python<'_>) -> PyResult<()> {
        stoppable(py, |asking| Ok(self.0.forget(Some(&|| asking.cancelled()))?))
    }

    /// Consolidates the groups again.
    fn renew(&self, py: Python<'_>) -> PyResult<()> {
        stoppable(py, |asking| Ok(self.0.renew(Some(&|| asking.cancelled()))?))
    }
}

/// Returns the outline of a copy.
///
/// `directory`: the destination, if it is on a local disk. `crew`: number of concurrent tasks, and
/// bytes per task.
#[pyfunction]
pub(crate) fn outline_copy<'py>(
    py: Python<'py>,
    source: Source<'py>,
    directory: Option<PathBuf>,
    crew: (u64, u64),
    wanted: Wanted,
) -> PyResult<Bound<'py, PyDict>> {
    let node = source.node(py)?;
    let options = wanted.options(py)?;
    let crew = Crew { workers: crew.0, size: crew.1 };
    let found = stoppable(py, move |asking| {
        let options = CopyOptions { progress: Some(asking), ..options };
        outline(&node, directory.as_deref(), crew, &options)
    })?;
    outline_facts(py, &found)
}

/// Returns the outline of a copy into a region of an array. `directory`: the array, if on a local
/// disk.
#[pyfunction]
pub(crate) fn outline_copy_into<'py>(
    py: Python<'py>,
    source: PyRef<'py, ArrayHandle>,
    target: PyRef<'py, ArrayHandle>,
    region: WantedRegion,
    directory: Option<PathBuf>,
    crew: (u64, u64),
    wanted: Wanted,
) -> PyResult<Bound<'py, PyDict>> {
    let (source, target) = ((*source.slot.get(py)?).clone(), (*target.slot.get(py)?).clone());
    let (region, options) = (Region::from(region), wanted.options(py)?);
    let crew = Crew { workers: crew.0, size: crew.1 };
    let found = stoppable(py, move |asking| {
        let options = CopyOptions { progress: Some(asking), ..options };
        outline_into(&source, &target, &region, directory.as_deref(), crew, &options)
    })?;
    outline_facts(py, &found)
}

fn outline_facts<'py>(py: Python<'py>, found: &Outline) -> PyResult<Bound<'py, PyDict>> {
    let arrays = found.arrays.iter().map(|array| array_facts(py, array)).collect::<PyResult<Vec<_>>>()?;
    dict!(py, found { groups, documents, notes, skipped, differs }, "arrays": arrays,)
}

fn array_facts<'py>(py: Python<'py>, array: &OutlinedArray) -> PyResult<Bound<'py, PyDict>> {
    let plan = &array.plan;
    let passes = PyList::empty(py);
    for (pass, units) in plan.passes.iter().zip(&array.units) {
        passes.append(pass_facts(py, pass, units)?)?;
    }
    let compare = pass_facts(py, &array.compare.0, &array.compare.1)?;
    dict!(
        py, array { path, from_start, to_start, shape }, "bytes": plan.bytes, "why": &plan.why, "passes": passes,
        "compare": compare,
    )
}

fn pass_facts<'py>(py: Python<'py>, pass: &Pass, units: &Units) -> PyResult<Bound<'py, PyDict>> {
    let facts: PyResult<Bound<'py, PyDict>> = dict!(
        py,
        pass {
            source_chunk,
            target_chunk,
            target_object,
            chunks,
            decoded,
            objects,
            read,
            written,
            memory,
            threads,
            requests,
            seconds,
        },
    );
    let facts = facts?;
    facts.set_item("block", &units.block)?;
    facts.set_item("parts", &units.parts)?;
    facts.set_item("units", units.count)?;
    facts.set_item("independent", units.independent)?;
    Ok(facts)
}

items! {
    /// A part of one pass over an array.
    pub(crate) struct WantedPart {
        path: String,
        zarr_format: u32,
        document: String,
        from: Option<(String, Vec<u64>)>,
        to: Option<(String, Vec<u64>)>,
        block: Vec<u64>,
        parts: Vec<u64>,
        units: (u64, u64),
        threads: usize,
        requests: usize,
        from_start: Vec<u64>,
        to_start: Vec<u64>,
        shape: Vec<u64>,
        is_new: bool,
        is_fresh: bool,
    }
}

impl From<WantedPart> for Part {
    fn from(wanted: WantedPart) -> Part {
        let (first, end) = wanted.units;
        Part {
            path: wanted.path,
            format: if wanted.zarr_format == 2 { Format::ZarrV2 } else { Format::ZarrV3 },
            document: wanted.document,
            from: wanted.from,
            to: wanted.to,
            block: wanted.block,
            parts: wanted.parts,
            units: first..end,
            threads: wanted.threads,
            requests: wanted.requests,
            from_start: wanted.from_start,
            to_start: wanted.to_start,
            shape: wanted.shape,
            is_new: wanted.is_new,
            is_fresh: wanted.is_fresh,
        }
    }
}

/// Listings that the parts of one array's copy share in this process, for one run.
#[pyclass(frozen, module = "hyperslab._native")]
pub(crate) struct CopyListings(Arc<Listings>);

#[pymethods]
impl CopyListings {
    #[new]
    fn new() -> Self {
        CopyListings(Arc::default())
    }
}

/// Copies a part of an array. Returns the number of its stored objects and two hashes.
///
/// The first hash changes if the objects change. The second one is a hash of their contents.
#[pyfunction]
pub(crate) fn copy_part(
    py: Python<'_>,
    source: PyRef<'_, ArrayHandle>,
    store: PyRef<'_, StoreHandle>,
    part: WantedPart,
    listings: PyRef<'_, CopyListings>,
) -> PyResult<(u64, u64, u64)> {
    let (array, store, listings) = ((*source.slot.get(py)?).clone(), store.store.clone(), listings.0.clone());
    stoppable(py, move |asking| copy(&array, &store, &part.into(), &listings, Some(asking))).map(numbers)
}

/// Returns what [`copy_part`] would return for the objects stored now, without copying.
///
/// `contents`: reads the contents. Otherwise the last number is 0.
#[pyfunction]
pub(crate) fn stamp_part(
    py: Python<'_>,
    source: PyRef<'_, ArrayHandle>,
    store: PyRef<'_, StoreHandle>,
    part: WantedPart,
    listings: PyRef<'_, CopyListings>,
    contents: bool,
) -> PyResult<(u64, u64, u64)> {
    let (array, store, listings) = ((*source.slot.get(py)?).clone(), store.store.clone(), listings.0.clone());
    stoppable(py, move |_| stamp(&array, &store, &part.into(), &listings, contents)).map(numbers)
}

/// Compares a part of a copy with its source.
#[pyfunction]
pub(crate) fn compare_part(
    py: Python<'_>,
    source: PyRef<'_, ArrayHandle>,
    store: PyRef<'_, StoreHandle>,
    part: WantedPart,
    listings: PyRef<'_, CopyListings>,
) -> PyResult<()> {
    let (array, store, listings) = ((*source.slot.get(py)?).clone(), store.store.clone(), listings.0.clone());
    stoppable(py, move |asking| compare(&array, &store, &part.into(), &listings, Some(asking)))
}

/// Returns true if a copy may replace a directory: it is an array, a group, or empty.
#[pyfunction]
pub(crate) fn is_replaceable_directory(path: PathBuf) -> bool {
    is_replaceable(&path)
}

/// Replaces a directory by another. The old one is then at the place of the new one, or at `aside`.
#[pyfunction]
pub(crate) fn replace_directory(new: PathBuf, target: PathBuf, aside: PathBuf) -> PyResult<()> {
    Ok(hyperslab::store::replace_directory(&new, &target, &aside)?)
}

/// Rewrites a message with the option names of the command line.
#[pyfunction]
pub(crate) fn in_options(text: &str) -> String {
    hyperslab_cli::in_options(text)
}

/// Returns the arguments of `plan_copy` and more, if the command line asks for a copy in tasks.
#[pyfunction]
pub(crate) fn planned_copy(py: Python<'_>, args: Vec<OsString>) -> PyResult<Option<Bound<'_, PyDict>>> {
    let Some(wanted) = hyperslab_cli::planned_copy(args) else { return Ok(None) };
    let order = wanted.order.map(|order| if order == Order::F { "F" } else { "C" });
    let zarr_format = if wanted.format == Format::ZarrV2 { 2 } else { 3 };
    let facts: PyResult<Bound<'_, PyDict>> = dict!(
        py, wanted {
            source, destination, chunks, compressors, threads, max_memory, memory_is_limit, skip_unsupported,
            consolidated, fsync, resume, scheduler, explain, quiet, overwrite, verify, check_contents,
        },
        "order": order, "zarr_format": zarr_format,
    );
    let facts = facts?;
    for (name, region) in [("region", wanted.region), ("target_region", wanted.target_region)] {
        match region {
            None => facts.set_item(name, py.None())?,
            Some(Region::Axes(bounds)) => facts.set_item(name, bounds)?,
            Some(Region::Named(bounds)) => facts.set_item(name, bounds)?,
        }
    }
    match wanted.shards {
        Shards::Keep => facts.set_item("shards", "keep")?,
        Shards::Auto => facts.set_item("shards", "auto")?,
        Shards::None => facts.set_item("shards", py.None())?,
        Shards::Shape(shape) => facts.set_item("shards", shape)?,
    }
    Ok(Some(facts))
}

fn numbers(stamp: PartStamp) -> (u64, u64, u64) {
    (stamp.objects, stamp.hash, stamp.contents)
}
