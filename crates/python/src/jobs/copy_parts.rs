//! Copies in parts, for `hyperslab.plan_copy`.

use crate::errors::{self, OrRaise};
use crate::gil::engine::Signals;
use crate::gil::once::{dict, items};
use crate::jobs::copy::{Source, Wanted, WantedRegion};
use crate::nodes::handles::ArrayHandle;
use crate::stores::store::StoreHandle;
use hyperslab::copy::{
    CopyOptions, Crew, Listings, Order, Outline, Part, PartStamp, Pass, Prices, Progress, Region, Shards,
    Site, Units, compare_part as compare, copy_part as copy, groups_above, is_replaceable, outline,
    outline_into, part_keys as keys, stamp_part as stamp,
};
use hyperslab::{Error, Format, Result, Store};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::collections::HashMap;
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
pub(crate) fn stoppable<T: Send>(
    py: Python<'_>,
    run: impl FnOnce(&dyn Progress) -> Result<T> + Send,
) -> PyResult<T> {
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

items! {
    /// The workers that copy the parts: their number, the bytes per task, and prices in dollars.
    pub(crate) struct WantedCrew {
        workers: u64,
        size: u64,
        put: f64,
        get: f64,
        storage: f64,
        egress: f64,
        worker: f64,
    }
}

impl From<WantedCrew> for Crew {
    fn from(wanted: WantedCrew) -> Crew {
        let WantedCrew { workers, size, put, get, storage, egress, worker } = wanted;
        Crew { workers, size, prices: Prices { put, get, storage, egress, worker } }
    }
}

/// The place of a planned copy: a directory, a server, or `None` for another store.
#[derive(FromPyObject)]
pub(crate) enum WantedSite<'py> {
    Server(PyRef<'py, StoreHandle>),
    Directory(PathBuf),
}

/// The same, usable without the GIL.
enum OwnSite {
    Server(Arc<dyn Store>),
    Directory(PathBuf),
    Store,
}

impl From<Option<WantedSite<'_>>> for OwnSite {
    fn from(wanted: Option<WantedSite<'_>>) -> OwnSite {
        match wanted {
            Some(WantedSite::Server(handle)) => OwnSite::Server(handle.store.clone()),
            Some(WantedSite::Directory(path)) => OwnSite::Directory(path),
            None => OwnSite::Store,
        }
    }
}

impl OwnSite {
    fn site(&self) -> Site<'_> {
        match self {
            OwnSite::Server(store) => Site::Server(store),
            OwnSite::Directory(path) => Site::Directory(path),
            OwnSite::Store => Site::Store,
        }
    }
}

/// Returns the outline of a copy.
#[pyfunction]
pub(crate) fn outline_copy<'py>(
    py: Python<'py>,
    source: Source<'py>,
    site: Option<WantedSite<'py>>,
    crew: WantedCrew,
    wanted: Wanted,
) -> PyResult<Bound<'py, PyDict>> {
    let node = source.node(py)?;
    let (options, site, crew) = (wanted.options(py)?, OwnSite::from(site), Crew::from(crew));
    let found = stoppable(py, move |asking| {
        let options = CopyOptions { progress: Some(asking), ..options };
        outline(&node, site.site(), crew, &options)
    })?;
    outline_facts(py, &found)
}

/// Returns the outline of a copy into a region of an array. `site`: the place of the array.
#[pyfunction]
pub(crate) fn outline_copy_into<'py>(
    py: Python<'py>,
    source: PyRef<'py, ArrayHandle>,
    target: PyRef<'py, ArrayHandle>,
    region: WantedRegion,
    site: Option<WantedSite<'py>>,
    crew: WantedCrew,
    wanted: Wanted,
) -> PyResult<Bound<'py, PyDict>> {
    let (source, target) = ((*source.slot.get(py)?).clone(), (*target.slot.get(py)?).clone());
    let (region, options) = (Region::from(region), wanted.options(py)?);
    let (site, crew) = (OwnSite::from(site), Crew::from(crew));
    let found = stoppable(py, move |asking| {
        let options = CopyOptions { progress: Some(asking), ..options };
        outline_into(&source, &target, &region, site.site(), crew, &options)
    })?;
    outline_facts(py, &found)
}

/// Equal passes and reasons are returned once: arrays refer to them by number.
fn outline_facts<'py>(py: Python<'py>, found: &Outline) -> PyResult<Bound<'py, PyDict>> {
    let (mut passes, mut reasons) = (Numbered::default(), Numbered::default());
    let arrays = PyList::empty(py);
    for array in &found.arrays {
        let plan = &array.plan;
        let mut number = |pass: &Pass, units: &Units| {
            passes.number(format!("{pass:?} {units:?}"), || pass_facts(py, pass, units))
        };
        let of_passes = plan
            .passes
            .iter()
            .zip(&array.units)
            .map(|(pass, units)| number(pass, units))
            .collect::<PyResult<Vec<_>>>()?;
        let compare = number(&array.compare.0, &array.compare.1)?;
        let mut reason = |text: &str| reasons.number(text.to_owned(), || Ok(text.to_owned()));
        let (why, advice) = (reason(&plan.why)?, reason(array.advice.as_deref().unwrap_or_default())?);
        let facts: PyResult<Bound<'_, PyDict>> = dict!(
            py, array { path, from_start, to_start, shape }, "bytes": plan.bytes, "why": why, "advice": advice,
            "passes": of_passes, "compare": compare,
        );
        arrays.append(facts?)?;
    }
    dict!(
        py, found { groups, documents, notes, skipped, differs }, "arrays": arrays, "passes": passes.values,
        "reasons": reasons.values,
    )
}

/// Values with numbers. Values with the same key have one number.
struct Numbered<T> {
    numbers: HashMap<String, usize>,
    values: Vec<T>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Numbered { numbers: HashMap::new(), values: Vec::new() }
    }
}

impl<T> Numbered<T> {
    fn number(&mut self, key: String, make: impl FnOnce() -> PyResult<T>) -> PyResult<usize> {
        if let Some(number) = self.numbers.get(&key) {
            return Ok(*number);
        }
        self.values.push(make()?);
        self.numbers.insert(key, self.values.len() - 1);
        Ok(self.values.len() - 1)
    }
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
            gets,
            puts,
            dollars,
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

/// Returns the keys of all objects that a part owns, stored or not.
#[pyfunction]
pub(crate) fn part_keys(
    py: Python<'_>,
    source: PyRef<'_, ArrayHandle>,
    store: PyRef<'_, StoreHandle>,
    part: WantedPart,
) -> PyResult<Vec<String>> {
    let (array, store) = ((*source.slot.get(py)?).clone(), store.store.clone());
    stoppable(py, move |_| keys(&array, &store, &part.into()))
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
            sources, concat, sort, variables, destination, compressors, threads, max_memory, memory_is_limit, skip_unsupported,
            consolidated, fsync, resume, scheduler, explain, quiet, overwrite, verify, check_contents,
        },
        "order": order, "zarr_format": zarr_format,
    );
    let facts = facts?;
    match (wanted.chunks, wanted.named_chunks) {
        (_, Some(named)) => facts.set_item("chunks", named)?,
        (chunks, None) => facts.set_item("chunks", chunks)?,
    }
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
