//! The native part of `hyperslab.validate`.

use crate::jobs::copy::{Source, watched};
use crate::stores::store::prepare_files;
use hyperslab::Json;
use hyperslab::validate::{Estimate, Subject, ValidateOptions, explain, validate};
use pyo3::prelude::*;

/// A thing to validate: a name, and the node if one is open.
type Named<'py> = (String, Option<Source<'py>>);

fn subjects(py: Python<'_>, named: Vec<Named<'_>>) -> PyResult<Vec<Subject>> {
    prepare_files();
    let subject = |(name, source): Named<'_>| {
        Ok(match source {
            Some(source) => Subject::Node(name, source.node(py)?),
            None => Subject::Location(name),
        })
    };
    named.into_iter().map(subject).collect()
}

/// Validates locations and nodes. Returns the report as JSON.
#[pyfunction]
#[pyo3(signature = (sources, decode, missing, expect_complete, conventions, threads=None, progress=None))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn validate_all(
    py: Python<'_>,
    sources: Vec<Named<'_>>,
    decode: bool,
    missing: bool,
    expect_complete: bool,
    conventions: bool,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let subjects = subjects(py, sources)?;
    let report = watched(py, progress, move |progress| {
        let no_conventions = !conventions;
        let progress = Some(progress);
        let options = ValidateOptions { decode, missing, expect_complete, no_conventions, threads, progress };
        validate(&subjects, &options)
    })?;
    Ok(report.to_json().to_text(None))
}

/// Estimates what a validation would read. Returns a list as JSON.
#[pyfunction]
pub(crate) fn validate_cost(py: Python<'_>, sources: Vec<Named<'_>>, decode: bool) -> PyResult<String> {
    let subjects = subjects(py, sources)?;
    let found = watched(py, None, move |progress| {
        let options = ValidateOptions { decode, progress: Some(progress), ..ValidateOptions::default() };
        explain(&subjects, &options)
    })?;
    Ok(Json::Array(found.iter().map(Estimate::to_json).collect()).to_text(None))
}
