//! The attributes of an array or a group. They are read as Python objects, and written as JSON
//! texts.

use crate::errors::OrRaise;
use crate::nodes::create;
use crate::nodes::slot::{Slot, SlotNode};
use crate::values::json;
use hyperslab::zarr::Json;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Arc;

/// A change of attributes. [`Attributes::change`] returns its result.
type Change<'c> = Box<dyn FnMut(&mut Json) -> bool + Send + 'c>;

/// Access to a node's attributes, for any kind of node.
trait Attributes: Send + Sync {
    fn text(&self, py: Python<'_>) -> PyResult<String>;

    /// Returns the version of the attributes, and a new dictionary of them. `None`: the version is
    /// `known`.
    fn newer<'py>(&self, py: Python<'py>, known: u64) -> PyResult<Option<(u64, Bound<'py, PyDict>)>>;

    /// Fails if changes are refused.
    fn change(&self, py: Python<'_>, read_only: bool, change: Change<'_>) -> PyResult<bool>;
}

impl<T: SlotNode> Attributes for Slot<T> {
    fn text(&self, py: Python<'_>) -> PyResult<String> {
        let node = self.get(py)?;
        Ok(node.attributes().or_raise(py)?.to_text(None))
    }

    fn newer<'py>(&self, py: Python<'py>, known: u64) -> PyResult<Option<(u64, Bound<'py, PyDict>)>> {
        let (node, version) = self.get_versioned(py)?;
        if version == known {
            return Ok(None);
        }
        let attributes = node.attributes().or_raise(py)?;
        Ok(Some((version, json::dict(py, &attributes)?)))
    }

    fn change(&self, py: Python<'_>, read_only: bool, change: Change<'_>) -> PyResult<bool> {
        self.writable(py, read_only)?;
        self.change(py, |node, ask| Ok(node.change_attributes(Some(ask), change)?))
    }
}

/// The attributes of a Zarr array or group.
#[pyclass(frozen, module = "hyperslab._native")]
pub(crate) struct StoredAttributes {
    node: Arc<dyn Attributes>,
    read_only: bool,
}

impl StoredAttributes {
    pub(crate) fn of<T: SlotNode + 'static>(node: &Arc<Slot<T>>, read_only: bool) -> Self {
        StoredAttributes { node: node.clone(), read_only }
    }
}

/// Parses attributes. Each call of the result returns them.
///
/// They may be large, so no copy is kept. They are parsed again if another writer was faster, and
/// the change starts again.
fn values<'t>(py: Python<'_>, text: &'t str) -> PyResult<impl FnMut() -> Json + Send + use<'t>> {
    let mut parsed = Some(create::json(py, "attributes", text)?);
    Ok(move || parsed.take().or_else(|| Json::parse(text.as_bytes()).ok()).unwrap_or_else(Json::object))
}

#[pymethods]
impl StoredAttributes {
    /// All attributes as JSON text.
    fn text(&self, py: Python<'_>) -> PyResult<String> {
        self.node.text(py)
    }

    /// The version of the attributes, and a new dictionary of all attributes. ``None``: the version
    /// is ``known``. Versions are numbers from 1.
    fn newer<'py>(&self, py: Python<'py>, known: u64) -> PyResult<Option<(u64, Bound<'py, PyDict>)>> {
        self.node.newer(py, known)
    }

    /// A new dictionary of all attributes.
    fn asdict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        Ok(self.node.newer(py, 0)?.map_or_else(|| PyDict::new(py), |(_, attributes)| attributes))
    }

    /// Replaces all attributes by the attributes in a JSON text.
    fn set(&self, py: Python<'_>, text: &str) -> PyResult<()> {
        let mut next = values(py, text)?;
        let set = move |all: &mut Json| {
            *all = next();
            true
        };
        self.node.change(py, self.read_only, Box::new(set)).map(|_| ())
    }

    /// Adds or replaces the attributes in a JSON text. `keep`: does not replace. Other attributes
    /// keep their stored form.
    #[pyo3(signature = (text, keep=false))]
    fn update(&self, py: Python<'_>, text: &str, keep: bool) -> PyResult<()> {
        let mut next = values(py, text)?;
        let update = move |all: &mut Json| {
            let Json::Object(members) = next() else { return true };
            for (name, value) in members {
                if !keep || all.get(&name).is_none() {
                    all.set(&name, value);
                }
            }
            true
        };
        self.node.change(py, self.read_only, Box::new(update)).map(|_| ())
    }

    /// Removes an attribute. Returns true if it existed.
    fn delete(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        self.node.change(py, self.read_only, Box::new(|all: &mut Json| all.remove(name).is_some()))
    }
}
