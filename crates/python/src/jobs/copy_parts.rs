//! Helpers of copies: signals, groups above a destination, and requests from the command line.

use crate::errors::{self, OrRaise};
use crate::gil::engine::Signals;
use crate::gil::once::dict;
use hyperslab::copy::tasks::{StepHook, set_step_hook};
use hyperslab::copy::{Order, Progress, Region, Shards, groups_above};
use hyperslab::store::fork::Mutex;
use hyperslab::{Error, Format, Result};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ffi::OsString;
use std::sync::Arc;

/// The exception of the function that is called before steps of planned copies.
static RAISED: Mutex<Option<PyErr>> = Mutex::new(None);

/// Calls a function before each step of a planned copy in this process, with the step's name; `None`:
/// no longer. For tests: an exception ends the run there.
#[pyfunction]
#[pyo3(signature = (hook))]
pub(crate) fn on_copy_step(hook: Option<Py<PyAny>>) {
    set_step_hook(hook.map(|hook| -> StepHook {
        Arc::new(move |step| {
            Python::attach(|py| hook.call1(py, (step,)).map(drop)).map_err(|raised| {
                *RAISED.lock() = Some(raised);
                Error::Interrupted
            })
        })
    }));
}

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
    result.map_err(|error| {
        let raised = if error.is_interruption() { raised.or_else(|| RAISED.lock().take()) } else { None };
        raised.unwrap_or_else(|| errors::to_exception(py, &error))
    })
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

/// Rewrites a message with the option names of the command line.
#[pyfunction]
pub(crate) fn in_options(text: &str) -> String {
    hyperslab_cli::in_options(text)
}

/// Returns the arguments of `plan_copy` and more, if the command line asks for a copy on a cluster.
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
        "order": order, "zarr_format": zarr_format, "storage_options": &wanted.storage,
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

/// Returns the request, if the command line asks for a pyramid.
#[pyfunction]
pub(crate) fn planned_pyramid(py: Python<'_>, args: Vec<OsString>) -> PyResult<Option<Bound<'_, PyDict>>> {
    let Some(wanted) = hyperslab_cli::planned_pyramid(args) else { return Ok(None) };
    let facts: PyResult<Bound<'_, PyDict>> = dict!(
        py,
        wanted {
            source,
            target,
            factors,
            named_factors,
            levels,
            method,
            metadata,
            max_memory,
            storage,
            dry_run,
            quiet,
        },
    );
    Ok(Some(facts?))
}
