//! An array for Python, open or to be opened.

use crate::create;
use crate::slot::{Origin, Slot, Stored};
use crate::store::StoreHandle;
use hyperslab::store::Ask;
use hyperslab::zarr::{self, Format, Json};
use hyperslab::{Array, Error};
use pyo3::prelude::*;
use std::borrow::Cow;
use std::sync::Arc;

impl Stored for Array {
    const KIND: &str = "array";

    fn open(origin: &Origin, path: &str, format: Option<Format>) -> Result<Self, Error> {
        match origin {
            Origin::Store(store) => Ok(zarr::Array::open(store, path, format)?.into()),
            Origin::File(file) => file.open(path)?.into_array(),
        }
    }

    fn attributes(&self) -> Result<Cow<'_, Json>, Error> {
        self.attributes()
    }

    fn change_attributes<R>(
        &mut self,
        ask: Option<Ask<'_>>,
        change: impl FnOnce(&mut Json) -> R,
    ) -> Result<R, Error> {
        Ok(self.as_zarr_mut()?.change_attributes(ask, change)?)
    }
}

/// An array to make an `ArrayBase` of; perhaps not open yet.
#[pyclass(frozen, module = "hyperslab._native")]
pub(crate) struct ArrayHandle {
    pub(crate) slot: Arc<Slot<Array>>,
}

impl ArrayHandle {
    pub(crate) fn new(array: Array) -> Self {
        let origin = match array.file() {
            None => Origin::Store(array.store().clone()),
            Some(file) => Origin::File(file),
        };
        let format = array.as_zarr().map(zarr::Array::format);
        ArrayHandle { slot: Slot::open(origin, array.path().to_owned(), format, array) }
    }
}

#[pymethods]
impl ArrayHandle {
    /// An array to be opened when it is first used.
    #[staticmethod]
    fn deferred(store: &StoreHandle, path: String, zarr_format: Option<u32>) -> PyResult<Self> {
        let format = create::format(zarr_format)?;
        Ok(ArrayHandle { slot: Slot::deferred(store.origin(), path, format) })
    }

    /// The file that it is in; `None`: it is of Zarr.
    #[getter]
    fn file(&self) -> Option<StoreHandle> {
        self.slot.file().cloned().map(StoreHandle::of_file)
    }
}
