//! `hyperslab.compact`.

use crate::jobs::copy::watched;
use crate::stores::store::prepare_files;
use hyperslab::compact::{Compacted, compact};
use pyo3::prelude::*;
use std::path::PathBuf;

/// Replaces an HDF5 file by a copy without unused space. Returns the bytes before and after, and the
/// number of references to deleted objects.
#[pyfunction]
#[pyo3(signature = (path, dry_run, progress=None))]
pub(crate) fn compact_file(
    py: Python<'_>,
    path: PathBuf,
    dry_run: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<(u64, u64, u64)> {
    prepare_files();
    let Compacted { before, after, lost_references } =
        watched(py, progress, |progress| compact(&path, dry_run, Some(progress)))?;
    Ok((before, after, lost_references))
}
