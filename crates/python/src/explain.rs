//! What a request would do, as Python's dictionaries and lists.

use crate::errors;
use hyperslab::array::{
    ArrayLayout, ChunkCache, Explain, ExplainTask, Selection, explain_read_cached, explain_write,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

/// Tells what reading or writing a selection would do; of at most so many tasks one by one.
pub(crate) fn told<'py>(
    py: Python<'py>,
    layout: &ArrayLayout,
    selection: &Selection,
    write: bool,
    tasks: usize,
    cache: Option<&ChunkCache>,
) -> PyResult<Bound<'py, PyDict>> {
    let told = py.detach(|| match write {
        true => explain_write(layout, selection, tasks),
        false => explain_read_cached(layout, selection, tasks, cache),
    });
    to_dict(py, &told.map_err(|error| errors::array(py, &error))?)
}

/// All facts, and the text.
fn to_dict<'py>(py: Python<'py>, explain: &Explain) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("array", &explain.array)?;
    dict.set_item("write", explain.write)?;
    dict.set_item("shape", PyTuple::new(py, &explain.shape)?)?;
    dict.set_item("bytes", explain.bytes)?;
    dict.set_item("chunks", explain.chunks)?;
    dict.set_item("examined", explain.examined)?;
    dict.set_item("objects", explain.objects)?;
    dict.set_item("threads", explain.threads)?;
    let strategies = PyDict::new(py);
    for (strategy, count) in &explain.strategies {
        strategies.set_item(strategy.to_string(), count)?;
    }
    dict.set_item("strategies", strategies)?;
    dict.set_item("ranges", explain.ranges)?;
    dict.set_item("bytes_read", explain.bytes_read)?;
    dict.set_item("gap_bytes", explain.gap_bytes)?;
    dict.set_item("index_bytes", explain.index_bytes)?;
    dict.set_item("bytes_decoded", explain.bytes_decoded)?;
    let tasks: Vec<_> = explain.tasks.iter().map(|told| task(py, told)).collect::<PyResult<_>>()?;
    dict.set_item("tasks", PyList::new(py, tasks)?)?;
    dict.set_item("text", explain.to_string())?;
    Ok(dict)
}

fn task<'py>(py: Python<'py>, task: &ExplainTask) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("chunk", PyTuple::new(py, &task.chunk)?)?;
    dict.set_item("key", &task.key)?;
    dict.set_item("strategy", task.strategy.to_string())?;
    dict.set_item("ranges", PyTuple::new(py, &task.ranges)?)?;
    dict.set_item("elements", task.elements)?;
    dict.set_item("bytes_read", task.bytes_read)?;
    dict.set_item("bytes_decoded", task.bytes_decoded)?;
    Ok(dict)
}
