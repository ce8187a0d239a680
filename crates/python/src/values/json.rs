//! JSON as Python objects: the same that `json.loads` makes of its text.

use hyperslab::Json;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyInt, PyList, PyString};
use std::collections::HashMap;

/// Converts an object to a dictionary.
pub(crate) fn dict<'py>(py: Python<'py>, json: &Json) -> PyResult<Bound<'py, PyDict>> {
    Names { known: HashMap::new() }.dict(py, json.as_object().unwrap_or_default())
}

/// The names of members. Objects in lists often have the same names: these are one string.
struct Names<'json, 'py> {
    known: HashMap<&'json str, Bound<'py, PyString>>,
}

impl<'json, 'py> Names<'json, 'py> {
    /// Converts a value. [`Json::parse`] bounds the depth.
    fn value(&mut self, py: Python<'py>, json: &'json Json) -> PyResult<Bound<'py, PyAny>> {
        match json {
            Json::Null => Ok(py.None().into_bound(py)),
            Json::Bool(value) => value.into_bound_py_any(py),
            Json::Number(text) => number(py, text),
            Json::String(text) => text.into_bound_py_any(py),
            Json::Array(items) => {
                let items = items.iter().map(|item| self.value(py, item)).collect::<PyResult<Vec<_>>>()?;
                Ok(PyList::new(py, items)?.into_any())
            }
            Json::Object(members) => Ok(self.dict(py, members)?.into_any()),
        }
    }

    fn dict(&mut self, py: Python<'py>, members: &'json [(String, Json)]) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, value) in members {
            let name = self.known.entry(name).or_insert_with(|| PyString::new(py, name)).clone();
            dict.set_item(name, self.value(py, value)?)?;
        }
        Ok(dict)
    }
}

/// Converts a number: an `int` of any size, unless it has a fraction or an exponent.
fn number<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    if let Ok(small) = text.parse::<i64>() {
        return small.into_bound_py_any(py);
    }
    let float = match text {
        "NaN" => f64::NAN,
        "Infinity" => f64::INFINITY,
        "-Infinity" => f64::NEG_INFINITY,
        // Rust rounds as Python does, and numbers beyond the range become infinite.
        _ if text.contains(['.', 'e', 'E']) => match text.parse() {
            Ok(float) => float,
            Err(_) => return py.get_type::<PyFloat>().call1((text,)),
        },
        // Python bounds the number of digits.
        _ => return py.get_type::<PyInt>().call1((text,)),
    };
    float.into_bound_py_any(py)
}
