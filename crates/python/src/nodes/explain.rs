//! Explanations of requests as Python dictionaries and lists.

use crate::errors::OrRaise;
use crate::gil::once::dict;
use hyperslab::array::{
    ArrayLayout, ChunkCache, Explain, ExplainTask, Selection, explain_read_cached, explain_write,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

/// Explains reading or writing a selection. Lists the first `tasks` tasks.
pub(crate) fn explanation<'py>(
    py: Python<'py>,
    layout: &ArrayLayout,
    selection: &Selection,
    write: bool,
    tasks: usize,
    cache: Option<&ChunkCache>,
) -> PyResult<Bound<'py, PyDict>> {
    let explained = py.detach(|| match write {
        true => explain_write(layout, selection, tasks),
        false => explain_read_cached(layout, selection, tasks, cache),
    });
    to_dict(py, &explained.or_raise(py)?)
}

/// Converts all facts, and the text.
fn to_dict<'py>(py: Python<'py>, explain: &Explain) -> PyResult<Bound<'py, PyDict>> {
    let strategies = PyDict::new(py);
    for (strategy, count) in &explain.strategies {
        strategies.set_item(strategy.to_string(), count)?;
    }
    let tasks: Vec<_> = explain.tasks.iter().map(|explained| task(py, explained)).collect::<PyResult<_>>()?;
    dict!(
        py, explain {
            array, write, bytes, chunks, examined, objects, threads, ranges, bytes_read, gap_bytes,
            index_bytes, bytes_copied, bytes_decoded,
        },
        "shape": PyTuple::new(py, &explain.shape)?, "strategies": strategies,
        "foreign_codecs": PyTuple::new(py, &explain.foreign_codecs)?,
        "tasks": PyList::new(py, tasks)?, "text": explain.to_string(),
    )
}

fn task<'py>(py: Python<'py>, task: &ExplainTask) -> PyResult<Bound<'py, PyDict>> {
    dict!(
        py, task { key, elements, bytes_read, bytes_decoded },
        "chunk": PyTuple::new(py, &task.chunk)?, "strategy": task.strategy.to_string(),
        "ranges": PyTuple::new(py, &task.ranges)?,
    )
}
