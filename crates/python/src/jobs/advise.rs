//! The native part of `hyperslab.advise`.

use crate::errors;
use crate::gil::once::dict;
use crate::nodes::handles::ArrayHandle;
use hyperslab::advise::{Access, Advice, Advised, Counts, DISK, OBJECTS, Subject, advise, advise_new};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

fn parse(
    py: Python<'_>,
    access: &[String],
    shape: &[u64],
    names: Option<&[Option<String>]>,
) -> PyResult<Vec<Access>> {
    let parse = |text: &String| Access::parse(text, shape, names).map_err(|why| errors::invalid(py, why));
    access.iter().map(parse).collect()
}

/// Returns advice for a stored array.
#[pyfunction]
pub(crate) fn advise_array<'py>(
    py: Python<'py>,
    array: &ArrayHandle,
    access: Vec<String>,
    far: Option<bool>,
) -> PyResult<Bound<'py, PyDict>> {
    let array = (*array.slot.get(py)?).clone();
    let names = array.dimension_names().map_err(|error| errors::to_exception(py, &error))?;
    let access = parse(py, &access, array.shape(), names.as_deref())?;
    let advice =
        py.detach(|| advise(&array, access, far)).map_err(|error| errors::to_exception(py, &error))?;
    advice_dict(py, &advice)
}

/// Returns advice for a new array of this shape, with elements of `element` bytes.
#[pyfunction]
pub(crate) fn advise_shape<'py>(
    py: Python<'py>,
    shape: Vec<u64>,
    element: u64,
    names: Option<Vec<Option<String>>>,
    access: Vec<String>,
    far: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let access = parse(py, &access, &shape, names.as_deref())?;
    let subject = Subject { shape, element: element.max(1), ratio: 1.0 };
    advice_dict(py, &py.detach(|| advise_new(subject, access, far)))
}

fn advice_dict<'py>(py: Python<'py>, advice: &Advice) -> PyResult<Bound<'py, PyDict>> {
    let cost = |advised: &Advised, access: &Access, counts: &Counts| -> PyResult<Bound<'py, PyDict>> {
        let far = advice.subject.counts(&advised.layout, access, &OBJECTS);
        dict!(
            py, counts { chunks, objects, requests, bytes_read, bytes_decoded },
            "access": access.name.as_str(), "bytes_wanted": access.elements() * advice.subject.element as f64,
            "seconds_disk": DISK.seconds(counts), "seconds_object_store": OBJECTS.seconds(&far),
        )
    };
    let layouts: Vec<Bound<'py, PyDict>> = advice
        .layouts
        .iter()
        .map(|advised| {
            let costs = advice.access.iter().zip(&advised.counts);
            let costs: Vec<_> =
                costs.map(|(access, counts)| cost(advised, access, counts)).collect::<PyResult<_>>()?;
            let shape =
                |shape: &Option<Vec<u64>>| shape.as_ref().map(|shape| PyTuple::new(py, shape)).transpose();
            dict!(
                py, advised { name, objects }, "chunks": shape(&advised.layout.chunks)?,
                "shards": shape(&advised.layout.shards)?, "costs": PyList::new(py, costs)?,
            )
        })
        .collect::<PyResult<_>>()?;
    let dict = PyDict::new(py);
    dict.set_item("layouts", layouts)?;
    dict.set_item("text", advice.to_string())?;
    Ok(dict)
}
