//! Arrays and groups for Python, opened now or on first use.

use crate::errors::{self, OrRaise};
use crate::hdf5::DatatypeHandle;
use crate::nodes::create;
use crate::nodes::slot::{Origin, Slot, SlotNode};
use crate::stores::store::StoreHandle;
use hyperslab::store::Ask;
use hyperslab::zarr::{self, Consolidation, Format, Json};
use hyperslab::{Array, DataFile, Error, Group, Object};
use pyo3::prelude::*;
use std::borrow::Cow;
use std::sync::Arc;

/// Defines a class of handles. `$open` opens a Zarr node.
macro_rules! handle {
    ($(#[$doc:meta])* $handle:ident, $node:ident, $kind:literal, $into:ident, $open:expr) => {
        impl SlotNode for $node {
            const KIND: &str = $kind;

            fn open(origin: &Origin, path: &str, format: Option<Format>) -> Result<Self, Error> {
                match origin {
                    Origin::Store(store) => Ok($open(store, path, format)?.into()),
                    Origin::File(file) => file.open(path)?.$into(),
                    Origin::Object(file, address) => file.open_at(*address, path)?.$into(),
                }
            }

            fn edition(&self) -> u64 {
                let found = self.as_hdf5().map(|node| (node.file().editing(), node.address()));
                found.and_then(|(editing, address)| Some(editing?.version(address))).unwrap_or(0)
            }

            fn open_again(&self) -> Result<Self, Error> {
                let Some(node) = self.as_hdf5() else { return Ok(self.clone()) };
                let found = node.file().object_at(node.address(), node.path())?;
                Object::of_hdf5(node.file(), found)?.into_node()?.$into()
            }

            fn attributes(&self) -> Result<Cow<'_, Json>, Error> {
                self.attributes()
            }

            fn change_attributes<R>(
                &mut self,
                ask: Option<Ask<'_>>,
                change: impl FnMut(&mut Json) -> R,
            ) -> Result<R, Error> {
                Ok(self.as_zarr_mut()?.change_attributes(ask, change)?)
            }
        }

        $(#[$doc])*
        #[pyclass(frozen, module = "hyperslab._native")]
        pub(crate) struct $handle {
            pub(crate) slot: Arc<Slot<$node>>,
        }

        impl $handle {
            pub(crate) fn new(node: $node) -> Self {
                let origin = match node.file() {
                    None => Origin::Store(node.store().clone()),
                    Some(file) => Origin::File(file),
                };
                let format = node.as_zarr().map(zarr::$node::format);
                $handle { slot: Slot::open(origin, node.path().to_owned(), format, node) }
            }
        }

        #[pymethods]
        impl $handle {
            /// A node that is opened on first use.
            #[staticmethod]
            fn deferred(store: &StoreHandle, path: String, zarr_format: Option<u32>) -> PyResult<Self> {
                let format = create::format(zarr_format)?;
                Ok($handle { slot: Slot::deferred(store.origin(), path, format) })
            }

            /// The file that contains the node. `None`: it is a Zarr node.
            #[getter]
            fn file(&self) -> Option<StoreHandle> {
                self.slot.file().cloned().map(StoreHandle::of_file)
            }
        }
    };
}

handle!(
    /// An array for an `ArrayBase`, possibly not yet open.
    ArrayHandle, Array, "array", into_array, zarr::Array::open
);
handle!(
    /// A group for a `GroupBase`, possibly not yet open.
    GroupHandle, Group, "group", into_group,
    |store, path, format| zarr::Group::open(store, path, format, Consolidation::Auto)
);

impl ArrayHandle {
    /// An array at an address of an HDF5 file, which is opened on first use.
    pub(crate) fn at(file: DataFile, address: u64, path: String) -> Self {
        ArrayHandle { slot: Slot::deferred(Origin::Object(file, address), path, None) }
    }
}

/// The array that a document describes, regardless of the node stored at its path.
#[pyfunction]
pub(crate) fn array_of_document(
    py: Python<'_>,
    store: &StoreHandle,
    path: &str,
    zarr_format: u32,
    document: &[u8],
) -> PyResult<ArrayHandle> {
    let format = create::format(Some(zarr_format))?.unwrap_or(Format::V3);
    let Origin::Store(store) = store.origin() else {
        return Err(errors::invalid(py, "a file of HDF5 or NetCDF has no documents".to_owned()));
    };
    let array = py.detach(|| zarr::Array::of_document(store, path, format, document));
    Ok(ArrayHandle::new(array.map_err(Error::from).or_raise(py)?.into()))
}

/// The handle of a node.
#[derive(IntoPyObject)]
pub(crate) enum NodeHandle {
    Array(ArrayHandle),
    Group(GroupHandle),
    Datatype(DatatypeHandle),
}

impl From<Object> for NodeHandle {
    fn from(object: Object) -> Self {
        match object {
            Object::Array(array) => NodeHandle::Array(ArrayHandle::new(array)),
            Object::Group(group) => NodeHandle::Group(GroupHandle::new(group)),
            Object::Datatype(file, datatype) => NodeHandle::Datatype(DatatypeHandle { file, datatype }),
        }
    }
}

impl NodeHandle {
    /// Runs a search and returns the handle of the node that it finds.
    pub(crate) fn open_found(
        py: Python<'_>,
        find: impl FnOnce() -> Result<Object, Error> + Send,
    ) -> PyResult<Self> {
        py.detach(find).map(NodeHandle::from).or_raise(py)
    }
}
