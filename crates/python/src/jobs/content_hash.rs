//! The native part of `hyperslab.content_hash`.

use crate::errors;
use crate::jobs::copy::{Source, watched};
use hyperslab::Json;
use hyperslab::content_hash::{ContentHash, HashOptions, content_hash as hash};
use pyo3::prelude::*;

/// Hashes an array, or a group and everything below it. Takes and returns hashes as JSON.
#[pyfunction]
#[pyo3(signature = (source, appended_to=None, max_memory=None, threads=None, progress=None))]
pub(crate) fn content_hash(
    py: Python<'_>,
    source: Source<'_>,
    appended_to: Option<&str>,
    max_memory: Option<u64>,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let node = source.node(py)?;
    let parse = |text: &str| {
        let json = Json::parse(text.as_bytes()).map_err(|error| error.to_string())?;
        ContentHash::from_json(&json)
    };
    let earlier = appended_to.map(parse).transpose();
    let earlier = earlier.map_err(|why| errors::invalid(py, format!("appended_to: {why}")))?;
    let found = watched(py, progress, move |progress| {
        let (appended_to, memory, progress) = (earlier.as_ref(), max_memory, Some(progress));
        hash(&node, &HashOptions { appended_to, memory, threads, progress })
    })?;
    Ok(found.to_json().to_text(None))
}
