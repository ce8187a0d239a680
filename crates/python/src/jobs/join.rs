//! Many sources to one, and one to many: `concat` and `split_parts` of copies.

use crate::errors::OrRaise;
use crate::jobs::copy::Source;
use crate::jobs::copy_parts::stoppable;
use crate::nodes::handles::{ArrayHandle, GroupHandle, NodeHandle};
use hyperslab::Node;
use hyperslab::copy::{
    JoinSource, Joining, check_split, concatenated, joined_sources as places_of, split_parts as parts_of,
};
use pyo3::prelude::*;

/// A source: a node, or a path or URL with the options of its server.
#[derive(FromPyObject)]
pub(crate) enum WantedSource<'py> {
    Node(Source<'py>),
    Location((String, Vec<(String, String)>)),
}

/// Joins sources along a dimension: see `hyperslab.copy`.
#[pyfunction]
pub(crate) fn joined(
    py: Python<'_>,
    sources: Vec<WantedSource<'_>>,
    dimension: &str,
    sort: bool,
    variables: Option<Vec<String>>,
    threads: Option<usize>,
) -> PyResult<NodeHandle> {
    let sources = sources.into_iter().map(|source| match source {
        WantedSource::Node(source) => Ok(JoinSource::Node(source.node(py)?)),
        WantedSource::Location((location, storage)) => Ok(JoinSource::Location(location, storage)),
    });
    let sources = sources.collect::<PyResult<Vec<_>>>()?;
    let node = stoppable(py, |asking| {
        let variables = variables.as_deref();
        let joining = Joining { sort, variables, threads, ..Joining::along(dimension) };
        concatenated(&sources, joining, Some(&|| asking.cancelled()))
    })?;
    Ok(match node {
        Node::Array(array) => NodeHandle::Array(ArrayHandle::new(array)),
        Node::Group(group) => NodeHandle::Group(GroupHandle::new(group)),
    })
}

/// The places of joined sources in their order, and their lengths.
#[pyfunction]
pub(crate) fn joined_sources(py: Python<'_>, node: Source<'_>) -> PyResult<Vec<(String, u64)>> {
    Ok(places_of(&node.node(py)?))
}

/// Cuts a source along a dimension: the destination of each part, and its range.
/// Fails if one exists, unless that may be overwritten.
#[pyfunction]
pub(crate) fn split_parts(
    py: Python<'_>,
    source: Source<'_>,
    dimension: &str,
    len: u64,
    pattern: &str,
    overwrite: bool,
    storage: Vec<(String, String)>,
) -> PyResult<Vec<(String, u64, u64)>> {
    let node = source.node(py)?;
    let parts = py.detach(|| {
        let parts = parts_of(&node, dimension, len, pattern)?;
        if !overwrite {
            check_split(&parts, &storage)?;
        }
        Ok::<_, hyperslab::Error>(parts)
    });
    let parts = parts.or_raise(py)?;
    Ok(parts.into_iter().map(|part| (part.destination, part.range.start, part.range.end)).collect())
}
