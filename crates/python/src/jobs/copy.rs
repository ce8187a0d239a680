//! `hyperslab.copy`.

use crate::errors::{self, OrRaise};
use crate::gil::engine::Signals;
use crate::gil::once::{dict, items};
use crate::nodes::handles::{ArrayHandle, GroupHandle};
use crate::stores::store::StoreHandle;
use hyperslab::copy::{
    Compressors, CopyOptions, CopyReport, Order, Phase, Progress, Region, Shards, copy as to_location,
    copy_into as into, copy_to_store,
};
use hyperslab::{Error, Format, Node};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::cell::{Cell, RefCell};

/// The node to copy.
#[derive(FromPyObject)]
pub(crate) enum Source<'py> {
    Array(PyRef<'py, ArrayHandle>),
    Group(PyRef<'py, GroupHandle>),
}

impl Source<'_> {
    pub(crate) fn node(&self, py: Python<'_>) -> PyResult<Node> {
        Ok(match self {
            Source::Array(handle) => Node::Array((*handle.slot.get(py)?).clone()),
            Source::Group(handle) => Node::Group((*handle.slot.get(py)?).clone()),
        })
    }
}

/// The destination of a copy.
#[derive(FromPyObject)]
pub(crate) enum Destination<'py> {
    Store(PyRef<'py, StoreHandle>),
    Location(String),
}

items! {
    /// The options of a copy.
    pub(crate) struct Wanted {
        chunks: Option<Vec<Option<u64>>>,
        named_chunks: Option<Vec<(String, Option<u64>)>>,
        variables: Option<Vec<String>>,
        shards: WantedShards,
        compressors: Option<String>,
        fortran_order: Option<bool>,
        zarr_format: u32,
        file_format: Option<String>,
        threads: Option<usize>,
        max_memory: u64,
        verify: bool,
        skip_unsupported: bool,
        consolidated: bool,
        overwrite: bool,
        fsync: bool,
        libver: String,
        layout: String,
        storage: Vec<(String, String)>,
        region: Option<WantedRegion>,
    }
}

impl Wanted {
    /// Converts the options for the engine.
    pub(crate) fn options(self, py: Python<'_>) -> PyResult<CopyOptions<'static>> {
        let compressors: Option<Compressors> =
            self.compressors.map(|text| text.parse()).transpose().or_raise(py)?;
        Ok(CopyOptions {
            chunks: self.chunks,
            named_chunks: self.named_chunks,
            variables: self.variables,
            shards: self.shards.into(),
            compressors,
            order: self.fortran_order.map(|fortran| if fortran { Order::F } else { Order::C }),
            format: Some(if self.zarr_format == 2 { Format::ZarrV2 } else { Format::ZarrV3 }),
            file_format: self
                .file_format
                .map(|name| name.parse())
                .transpose()
                .map_err(Error::Options)
                .or_raise(py)?,
            threads: self.threads,
            max_memory: self.max_memory,
            memory_is_limit: false,
            verify: self.verify,
            skip_unsupported: self.skip_unsupported,
            unconsolidated: !self.consolidated,
            overwrite: self.overwrite,
            fsync: self.fsync,
            libver: self.libver.parse().map_err(Error::Options).or_raise(py)?,
            layout: self.layout.parse().map_err(Error::Options).or_raise(py)?,
            storage: self.storage,
            region: self.region.map(Region::from),
            progress: None,
        })
    }
}

type Bounds = (Option<i64>, Option<i64>);

/// Bounds of axes, by name or in order.
#[derive(FromPyObject)]
pub(crate) enum WantedRegion {
    Named(Vec<(String, Bounds)>),
    Axes(Vec<Bounds>),
}

impl From<WantedRegion> for Region {
    fn from(wanted: WantedRegion) -> Self {
        match wanted {
            WantedRegion::Named(bounds) => Region::Named(bounds),
            WantedRegion::Axes(bounds) => Region::Axes(bounds),
        }
    }
}

/// A shape, or "keep", "none", "auto".
#[derive(FromPyObject)]
enum WantedShards {
    Word(String),
    Shape(Vec<Option<u64>>),
}

impl From<WantedShards> for Shards {
    fn from(wanted: WantedShards) -> Self {
        match wanted {
            WantedShards::Shape(shape) => Shards::Shape(shape),
            WantedShards::Word(word) if word == "auto" => Shards::Auto,
            WantedShards::Word(word) if word == "none" => Shards::None,
            WantedShards::Word(_) => Shards::Keep,
        }
    }
}

/// Reports the progress of a copy to a Python function. Stops the copy if that raises or a signal
/// comes.
struct Teller {
    callback: Option<Py<PyAny>>,
    signals: Signals,
    raised: RefCell<Option<PyErr>>,
    phase: Cell<&'static str>,
    done: Cell<u64>,
    total: Cell<u64>,
}

impl Teller {
    fn start(&self, phase: &'static str, bytes: u64) {
        self.phase.set(phase);
        self.done.set(0);
        self.total.set(bytes);
        self.tell();
    }

    fn tell(&self) {
        let Some(callback) = &self.callback else { return };
        let answer = Python::attach(|py| {
            callback.call1(py, (self.phase.get(), self.done.get(), self.total.get())).map(drop)
        });
        if let Err(error) = answer {
            self.raised.borrow_mut().get_or_insert(error);
        }
    }
}

impl Progress for Teller {
    fn begin(&self, phase: Phase, bytes: u64) {
        self.start(if phase == Phase::Copy { "copy" } else { "verify" }, bytes);
    }

    fn reads(&self, bytes: u64) {
        self.start("read", bytes);
    }

    fn advance(&self, bytes: u64) {
        self.done.set(self.done.get().saturating_add(bytes));
        self.tell();
    }

    fn cancelled(&self) -> bool {
        self.raised.borrow().is_some() || self.signals.ask()
    }
}

/// Copies an array, or a group and everything below it, to a path or URL, or to a path in a store.
#[pyfunction]
#[pyo3(signature = (source, destination, path, wanted, progress=None))]
pub(crate) fn copy<'py>(
    py: Python<'py>,
    source: Source<'py>,
    destination: Destination<'py>,
    path: &str,
    wanted: Wanted,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let node = source.node(py)?;
    let (location, store) = match &destination {
        Destination::Location(location) => (location.as_str(), None),
        Destination::Store(handle) => ("", Some(handle.store.clone())),
    };
    let options = wanted.options(py)?;
    run(py, progress, options, |options| match &store {
        None => to_location(&node, location, options),
        Some(store) => copy_to_store(&node, store, path, options),
    })
}

/// Copies an array, or a part of it, into a region of another.
#[pyfunction]
#[pyo3(signature = (source, target, region, wanted, progress=None))]
pub(crate) fn copy_into<'py>(
    py: Python<'py>,
    source: PyRef<'py, ArrayHandle>,
    target: PyRef<'py, ArrayHandle>,
    region: WantedRegion,
    wanted: Wanted,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let (source, target) = ((*source.slot.get(py)?).clone(), (*target.slot.get(py)?).clone());
    let (region, options) = (Region::from(region), wanted.options(py)?);
    run(py, progress, options, |options| into(&source, &target, &region, options))
}

/// Runs a copy without the GIL, reports its progress, and stops for signals.
fn run<'py>(
    py: Python<'py>,
    progress: Option<Py<PyAny>>,
    options: CopyOptions<'static>,
    work: impl FnOnce(&CopyOptions<'_>) -> Result<CopyReport, Error> + Send,
) -> PyResult<Bound<'py, PyDict>> {
    let report =
        watched(py, progress, |progress| work(&CopyOptions { progress: Some(progress), ..options }))?;
    facts(py, &report)
}

/// Runs work without the GIL, reports its progress, and stops for signals.
pub(crate) fn watched<T: Send>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(&dyn Progress) -> Result<T, Error> + Send,
) -> PyResult<T> {
    let (result, raised) = py.detach(move || {
        let teller = Teller {
            callback: progress,
            signals: Signals::default(),
            raised: RefCell::new(None),
            phase: Cell::new("copy"),
            done: Cell::new(0),
            total: Cell::new(0),
        };
        let result = work(&teller);
        (result, teller.raised.into_inner().or(teller.signals.into_exception()))
    });
    match (result, raised) {
        (Ok(done), _) => Ok(done),
        (Err(Error::Interrupted), Some(raised)) => Err(raised),
        (Err(error), _) => Err(errors::to_exception(py, &error)),
    }
}

fn facts<'py>(py: Python<'py>, report: &CopyReport) -> PyResult<Bound<'py, PyDict>> {
    let seconds_verified = report.verified.map(|time| time.as_secs_f64());
    dict!(
        py, report { groups, arrays, bytes, stored_before, stored_after, notes, skipped },
        "seconds": report.elapsed.as_secs_f64(), "seconds_verified": seconds_verified,
    )
}
