//! The native part of `hyperslab.validate`.

use crate::errors::OrRaise;
use crate::gil::once::items;
use crate::jobs::copy::{Source, watched};
use crate::stores::store::{StoreHandle, prepare_files};
use hyperslab::validate::{
    Estimate, Part, Subject, ValidateOptions, decode_part, explain, join, picture, plan, validate,
};
use hyperslab::{Error, Json};
use pyo3::prelude::*;
use std::borrow::Cow;
use std::path::PathBuf;

/// A thing to validate: a node, a path in a store, or credentials of a server.
#[derive(FromPyObject)]
pub(crate) enum Given<'py> {
    Node(Source<'py>),
    Store(PyRef<'py, StoreHandle>, String),
    Storage(Vec<(String, String)>),
}

/// A name, and the thing if the name is not a path or URL.
type Named<'py> = (String, Option<Given<'py>>);

items! {
    /// The options of a validation.
    pub(crate) struct WantedValidation {
        decode: bool,
        missing: bool,
        expect_complete: bool,
        conventions: bool,
        png: bool,
        resume: Option<PathBuf>,
        threads: Option<usize>,
    }
}

impl WantedValidation {
    fn options<'a>(&'a self, progress: &'a dyn hyperslab::copy::Progress) -> ValidateOptions<'a> {
        ValidateOptions {
            decode: self.decode,
            missing: self.missing,
            expect_complete: self.expect_complete,
            picture: self.png,
            no_conventions: !self.conventions,
            resume: self.resume.as_deref(),
            threads: self.threads,
            progress: Some(progress),
        }
    }
}

fn subjects(py: Python<'_>, named: Vec<Named<'_>>) -> PyResult<Vec<Subject>> {
    prepare_files();
    let subject = |(name, given): Named<'_>| {
        Ok(match given {
            Some(Given::Node(source)) => Subject::Node(name, source.node(py)?),
            Some(Given::Store(store, path)) => Subject::Place(name, store.place(&path, true)),
            Some(Given::Storage(storage)) => Subject::Remote(name, storage),
            None => Subject::Location(name),
        })
    };
    named.into_iter().map(subject).collect()
}

/// The report as JSON, and a picture of absent chunks.
type Validated = (String, Option<Cow<'static, [u8]>>);

/// Validates locations and nodes.
#[pyfunction]
#[pyo3(signature = (sources, wanted, progress=None))]
pub(crate) fn validate_all(
    py: Python<'_>,
    sources: Vec<Named<'_>>,
    wanted: WantedValidation,
    progress: Option<Py<PyAny>>,
) -> PyResult<Validated> {
    let subjects = subjects(py, sources)?;
    watched(py, progress, move |progress| {
        let report = validate(&subjects, &wanted.options(progress))?;
        let png = if wanted.png { picture(&report)? } else { None };
        Ok((report.to_json().to_text(None), png.map(Cow::Owned)))
    })
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

/// Validates everything but the contents of chunks, and plans their decoding. Returns the report as
/// JSON, and each part: the number of its source, bytes, and the part as JSON.
#[pyfunction]
pub(crate) fn validate_plan(
    py: Python<'_>,
    sources: Vec<Named<'_>>,
    wanted: WantedValidation,
    part_bytes: u64,
) -> PyResult<(String, Vec<(usize, u64, String)>)> {
    let subjects = subjects(py, sources)?;
    let found = watched(py, None, move |progress| plan(&subjects, &wanted.options(progress), part_bytes))?;
    let part = |part: &Part| (part.subject, part.bytes, part.to_json().to_text(None));
    Ok((found.report.to_json().to_text(None), found.parts.iter().map(part).collect()))
}

fn no_plan() -> Error {
    Error::Options("validate: expected a part of a plan of this version, found something else".into())
}

/// Decodes a part of a plan. Returns its outcome as JSON.
#[pyfunction]
#[pyo3(signature = (source, part, threads=None))]
pub(crate) fn validate_part(
    py: Python<'_>,
    source: Named<'_>,
    part: &str,
    threads: Option<usize>,
) -> PyResult<String> {
    let part = Json::parse(part.as_bytes()).ok().as_ref().and_then(Part::from_json);
    let part = part.ok_or_else(no_plan).or_raise(py)?;
    let subjects = subjects(py, vec![source])?;
    watched(py, None, move |progress| {
        let subject = subjects.first().ok_or_else(no_plan)?;
        let decoded = decode_part(subject, &part, threads, Some(progress))?;
        Ok(decoded.to_json(subject.name()).to_text(None))
    })
}

/// Joins the outcomes of parts with the report of their plan.
#[pyfunction]
pub(crate) fn validate_join(py: Python<'_>, report: &str, outcomes: Vec<String>) -> PyResult<String> {
    py.detach(|| {
        let parsed = |text: &str| Json::parse(text.as_bytes()).map_err(Error::from);
        let outcomes = outcomes.iter().map(|text| parsed(text)).collect::<Result<Vec<_>, _>>()?;
        Ok::<_, Error>(join(&parsed(report)?, &outcomes).ok_or_else(no_plan)?.to_text(None))
    })
    .or_raise(py)
}
