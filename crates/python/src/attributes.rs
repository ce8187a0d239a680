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
        self.change(py, |node| node.set_attributes(attributes))
    }

    /// Adds or replaces those of a text. The others keep the form in which somebody wrote them.
    pub(crate) fn update_attributes(&self, py: Python<'_>, text: &str) -> PyResult<()> {
        let new = create::json(py, "attributes", text)?;
        self.change(py, |node| {
            let merged = merged(&*node.attributes()?, new);
            node.set_attributes(merged)
        })
    }

    /// Removes one; returns whether there was one.
    pub(crate) fn delete_attribute(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        self.change(py, |node| {
            let mut attributes = node.attributes()?.into_owned();
            let found = attributes.remove(name).is_some();
            if found {
                node.set_attributes(attributes)?;
            }
            Ok(found)
        })
    }
}

/// An object with the members of another added or replaced.
fn merged(old: &Json, new: Json) -> Json {
    let mut all = old.clone();
    if let Json::Object(members) = new {
        for (name, value) in members {
            all.set(&name, value);
        }
    }
    all
}
