//! The native part of `hyperslab.repair`.

use crate::errors;
use crate::jobs::copy::watched;
use crate::stores::store::prepare_files;
use hyperslab::repair::{RepairOptions, plan, repair, undo};
use pyo3::prelude::*;
use std::path::PathBuf;

/// Plans a repair, or with the hash of a plan, carries it out. Returns the plan as JSON.
#[pyfunction]
#[pyo3(signature = (location, hash, to, fill, killed, threads=None, progress=None))]
pub(crate) fn repair_location(
    py: Python<'_>,
    location: String,
    hash: Option<String>,
    to: Option<PathBuf>,
    fill: bool,
    killed: bool,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    prepare_files();
    let done = watched(py, progress, move |progress| {
        let options = RepairOptions { to, fill, killed, threads, progress: Some(progress) };
        match hash {
            Some(hash) => repair(&location, &hash, &options),
            None => plan(&location, &options),
        }
    })?;
    Ok(done.to_json().to_text(None))
}

/// Takes back the last repair. Returns `False` if there is none.
#[pyfunction]
pub(crate) fn undo_repair(py: Python<'_>, location: String) -> PyResult<bool> {
    py.detach(|| undo(&location)).map_err(|error| errors::to_exception(py, &error))
}
