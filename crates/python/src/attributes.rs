//! The attributes of an array or a group, as JSON texts.

use crate::create;
use crate::errors;
use crate::slot::{Slot, Stored};
use hyperslab::zarr::Json;
use pyo3::prelude::*;
use std::sync::Arc;

/// What is asked of a node's attributes, whatever kind of node it is.
trait Attributes: Send + Sync {
    fn writable(&self, py: Python<'_>, read_only: bool) -> PyResult<()>;

    fn text(&self, py: Python<'_>) -> PyResult<String>;

    fn set(&self, py: Python<'_>, all: Json) -> PyResult<()>;

    /// `keep`: what is there stays.
    fn update(&self, py: Python<'_>, new: Vec<(String, Json)>, keep: bool) -> PyResult<()>;

    fn delete(&self, py: Python<'_>, name: &str) -> PyResult<bool>;
}

impl<T: Stored> Attributes for Slot<T> {
    fn writable(&self, py: Python<'_>, read_only: bool) -> PyResult<()> {
        self.writable(py, read_only)
    }

    fn text(&self, py: Python<'_>) -> PyResult<String> {
        let node = self.get(py)?;
        let attributes = node.attributes().map_err(|error| errors::any(py, &error))?;
        Ok(attributes.to_text(None))
    }

    fn set(&self, py: Python<'_>, new: Json) -> PyResult<()> {
        self.change(py, |node, ask| node.change_attributes(Some(ask), |all| *all = new))
    }

    fn update(&self, py: Python<'_>, new: Vec<(String, Json)>, keep: bool) -> PyResult<()> {
        self.change(py, |node, ask| {
            node.change_attributes(Some(ask), |all| {
                for (name, value) in new {
                    if !keep || all.get(&name).is_none() {
                        all.set(&name, value);
                    }
                }
            })
        })
    }

    fn delete(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        self.change(py, |node, ask| node.change_attributes(Some(ask), |all| all.remove(name).is_some()))
    }
}

/// The attributes of an array or a group of Zarr.
#[pyclass(frozen, module = "hyperslab._native")]
pub(crate) struct StoredAttributes {
    node: Arc<dyn Attributes>,
    read_only: bool,
}

impl StoredAttributes {
    pub(crate) fn of<T: Stored + 'static>(node: &Arc<Slot<T>>, read_only: bool) -> Self {
        StoredAttributes { node: node.clone(), read_only }
    }
}

#[pymethods]
impl StoredAttributes {
    /// All of them, as JSON text.
    fn text(&self, py: Python<'_>) -> PyResult<String> {
        self.node.text(py)
    }

    /// Replaces all by those of a JSON text.
    fn set(&self, py: Python<'_>, text: &str) -> PyResult<()> {
        self.node.writable(py, self.read_only)?;
        self.node.set(py, create::json(py, "attributes", text)?)
    }

    /// Adds or replaces those of a JSON text; `keep`: adds only. The others keep the form in which
    /// somebody wrote them.
    #[pyo3(signature = (text, keep=false))]
    fn update(&self, py: Python<'_>, text: &str, keep: bool) -> PyResult<()> {
        self.node.writable(py, self.read_only)?;
        match create::json(py, "attributes", text)? {
            Json::Object(new) => self.node.update(py, new, keep),
            _ => Ok(()),
        }
    }

    /// Removes one; returns whether there was one.
    fn delete(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        self.node.writable(py, self.read_only)?;
        self.node.delete(py, name)
    }
}
