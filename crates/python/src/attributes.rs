//! The attributes of an array or a group, as JSON texts.

use crate::create;
use crate::errors;
use crate::slot::{Slot, Stored};
use hyperslab::zarr::Json;
use pyo3::prelude::*;

impl<T: Stored> Slot<T> {
    /// All of them.
    pub(crate) fn attributes(&self, py: Python<'_>) -> PyResult<String> {
        let node = self.get(py)?;
        let attributes = node.attributes().map_err(|error| errors::any(py, &error))?;
        Ok(attributes.to_text(None))
    }

    /// Replaces all by those of a text.
    pub(crate) fn set_attributes(&self, py: Python<'_>, text: &str) -> PyResult<()> {
        let attributes = create::json(py, "attributes", text)?;
        self.change(py, |node, ask| node.change_attributes(Some(ask), |all| *all = attributes))
    }

    /// Adds or replaces those of a text; `keep`: adds only. The others keep the form in which
    /// somebody wrote them.
    pub(crate) fn update_attributes(&self, py: Python<'_>, text: &str, keep: bool) -> PyResult<()> {
        let Json::Object(new) = create::json(py, "attributes", text)? else { return Ok(()) };
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

    /// Removes one; returns whether there was one.
    pub(crate) fn delete_attribute(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        self.change(py, |node, ask| node.change_attributes(Some(ask), |all| all.remove(name).is_some()))
    }
}
