//! Element types in NumPy, and the conversion from the engine's elements to Python values. Reads
//! and writes depend on it.

use crate::gil::engine;
use crate::gil::once::{self, interned};
use crate::hdf5::dtypes;
use crate::index::fancy::{self, Meaning};
use crate::index::slices::selection;
use crate::nodes::array::ArrayBase;
use crate::settings;
use crate::values::input::{Writing, assign};
use crate::values::masked;
use crate::values::optional;
use crate::values::output::{Reading, read_item, read_new, read_out};
use crate::values::ragged::Form;
use crate::values::vlen::{self, Shown};
use hyperslab::array::{Selection, check_stored};
use hyperslab::codec::{DataType, Kind, SMALL};
use hyperslab::hdf5::dataspace::Dataspace;
use hyperslab::zarr::{FieldKind, Structure};
use hyperslab::{Array, Missing, ResultOrder};
use numpy::{PyArrayDescr, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyImportError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyTuple, PyType};
use std::collections::HashMap;

/// Returns NumPy's type of an element type.
///
/// Small numbers are types of the package ml_dtypes, which is only imported for them.
pub(crate) fn numpy_type(py: Python<'_>, dtype: DataType) -> PyResult<Bound<'_, PyArrayDescr>> {
    let Kind::Small(small) = dtype.kind() else { return PyArrayDescr::new(py, dtype.numpy()) };
    let package = py.import("ml_dtypes").map_err(|error| {
        let name = small.name;
        let message = format!("elements are {name}, which NumPy has from the package ml_dtypes: install it");
        let missing = PyImportError::new_err(message);
        missing.set_cause(py, Some(error));
        missing
    })?;
    PyArrayDescr::new(py, package.getattr(small.python)?)
}

/// Returns a type with a note in its metadata: a fact that NumPy has no type for.
///
/// `base` is a type, or something that NumPy makes a type of. To NumPy, types are equal whatever
/// their notes are.
pub(crate) fn with_note<'py>(
    base: &Bound<'py, PyAny>,
    name: &str,
    note: impl IntoPyObject<'py>,
) -> PyResult<Bound<'py, PyArrayDescr>> {
    let py = base.py();
    let (metadata, options) = (PyDict::new(py), PyDict::new(py));
    metadata.set_item(name, note)?;
    options.set_item(interned!(py, "metadata"), metadata)?;
    Ok(py.get_type::<PyArrayDescr>().call((base,), Some(&options))?.cast_into::<PyArrayDescr>()?)
}

/// Returns NumPy's type of the elements that the engine reads from an array.
pub(crate) fn memory_type<'py>(py: Python<'py>, array: &Array) -> PyResult<Bound<'py, PyArrayDescr>> {
    match (array.structure(), array.optional()) {
        (Some(structure), _) => structure_type(py, structure),
        (None, Some(value)) => optional::memory_type(&numpy_type(py, value)?),
        (None, None) => numpy_type(py, array.layout().dtype()),
    }
}

/// Returns NumPy's type of a structure.
fn structure_type<'py>(py: Python<'py>, structure: &Structure) -> PyResult<Bound<'py, PyArrayDescr>> {
    let fields = structure.fields().iter().map(|field| {
        let kind = field_type(py, &field.kind)?;
        if field.shape.is_empty() {
            return (field.name.as_str(), kind).into_bound_py_any(py);
        }
        (field.name.as_str(), kind, PyTuple::new(py, &field.shape)?).into_bound_py_any(py)
    });
    let fields = PyList::new(py, fields.collect::<PyResult<Vec<_>>>()?)?;
    PyArrayDescr::new(py, fields)
}

/// Returns NumPy's type of a field, or of an element of a field that is an array.
pub(crate) fn field_type<'py>(py: Python<'py>, kind: &FieldKind) -> PyResult<Bound<'py, PyArrayDescr>> {
    match kind {
        FieldKind::Plain(dtype) => numpy_type(py, *dtype),
        FieldKind::Structure(structure) => structure_type(py, structure),
    }
}

/// Returns `true` for a scalar of NumPy.
pub(crate) fn is_scalar(given: &Bound<'_, PyAny>) -> PyResult<bool> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let py = given.py();
    let class = once::get_or_try_make(&CLASS, py, || {
        Ok(py.import("numpy")?.getattr("generic")?.cast_into::<PyType>()?.unbind())
    })?;
    given.is_instance(class.bind(py))
}

/// The element types from the package ml_dtypes: their names there, and in Zarr.
#[pyfunction]
pub(crate) fn small_numbers() -> HashMap<&'static str, &'static str> {
    SMALL.iter().map(|small| (small.python, small.name)).collect()
}

/// Largest number of bytes of an element in a new array.
#[pyfunction]
pub(crate) fn largest_element() -> usize {
    hyperslab::zarr::MAX_ELEMENT
}

/// The kind of an array's elements, and their NumPy types.
pub(crate) struct Types {
    /// NumPy type of the values.
    pub(crate) values: Py<PyArrayDescr>,
    /// NumPy type of the elements that the engine reads. It differs from `values` if Python objects
    /// are made of the elements.
    pub(crate) memory: Py<PyArrayDescr>,
    pub(crate) elements: Elements,
}

/// The conversion from the engine's elements to values.
pub(crate) enum Elements {
    /// No conversion.
    Plain,
    /// No conversion, but elements have fields, which an index may name.
    Structures,
    /// Elements may be missing. The engine reads values and their validity.
    Optional,
    /// Elements of variable length.
    Vlen(Form),
    /// Converted in Python: references, structures with objects, and null dataspaces.
    Objects,
}

impl ArrayBase {
    /// Reads a selection into a new array, or into the caller's memory.
    pub(crate) fn values<'py>(
        &self,
        py: Python<'py>,
        selection: Option<&Bound<'py, PyAny>>,
        out: Option<Bound<'py, PyAny>>,
        threads: Option<usize>,
        verify: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = self.array(py)?;
        let types = self.types(py, &array)?;
        let selection = self.select(&array, selection)?;
        let reading = Reading { threads, verify, ..self.reading(py, &array, &selection)? };
        match (out, &types.elements) {
            (Some(out), _) => self.item_into(py, &array, types, &selection, out, reading),
            (None, Elements::Vlen(form)) => {
                self.read_vlen(py, (&array, types, form), &selection, Shown::Array, reading)
            }
            (None, Elements::Optional) => optional::to_masked_array(&read_new(
                array.layout(),
                types.memory.bind(py),
                &selection,
                reading,
            )?),
            (None, _) => Ok(read_new(array.layout(), types.memory.bind(py), &selection, reading)?.into_any()),
        }
    }

    /// Returns the options for reading a selection. Fails if a chunk is missing and may not be.
    ///
    /// Unless the array sets an order, results of Zarr v2 have the stored order of elements, as in
    /// zarr-python.
    pub(crate) fn reading(
        &self,
        py: Python<'_>,
        array: &Array,
        selection: &Selection,
    ) -> PyResult<Reading<'_>> {
        self.check_stored(py, array, selection)?;
        let fortran = self.fortran.unwrap_or_else(|| match array.result_order() {
            ResultOrder::AsStored => !array.layout().encoding().is_c_order(),
            ResultOrder::AsSet => self.fortran_v3,
            ResultOrder::C => false,
        });
        Ok(Reading { fortran, cache: self.cache.as_deref(), ..Reading::default() })
    }

    pub(crate) fn check_stored(&self, py: Python<'_>, array: &Array, selection: &Selection) -> PyResult<()> {
        if self.read_missing.unwrap_or_else(settings::read_missing_chunks)
            || array.missing() == Missing::Defined
        {
            return Ok(());
        }
        engine::run(py, |stop| check_stored(array.layout(), selection, Some(stop)))
    }

    pub(crate) fn select(&self, array: &Array, key: Option<&Bound<'_, PyAny>>) -> PyResult<Selection> {
        match key {
            Some(key) => selection(key, array.layout()),
            None => Ok(Selection::all(array.layout().shape())),
        }
    }

    /// Returns the selection of an index. `meaning`: its meaning, if other than
    /// ``array[selection]``.
    pub(crate) fn select_as(
        &self,
        array: &Array,
        key: Option<&Bound<'_, PyAny>>,
        meaning: Option<&str>,
    ) -> PyResult<Selection> {
        match (key, meaning) {
            (Some(key), Some(meaning)) => {
                fancy::selection(key, array.layout(), Meaning::named(key.py(), meaning)?)
            }
            (key, _) => self.select(array, key),
        }
    }

    pub(crate) fn types(&self, py: Python<'_>, array: &Array) -> PyResult<&Types> {
        once::get_or_try_make(&self.types, py, || {
            let memory = memory_type(py, array)?.unbind();
            if let Some(value) = array.optional() {
                let values = optional::type_of(&numpy_type(py, value)?)?.unbind();
                return Ok(Types { values, memory, elements: Elements::Optional });
            }
            let Some(dataset) = array.as_hdf5() else {
                return Ok(match array.vlen() {
                    None => {
                        let elements =
                            if array.structure().is_some() { Elements::Structures } else { Elements::Plain };
                        Types { values: memory.clone_ref(py), memory, elements }
                    }
                    Some(kind) => {
                        let (values, form) = vlen::types(py, array, kind)?;
                        Types { values, memory, elements: Elements::Vlen(form) }
                    }
                });
            };
            let values = dtypes::descr(py, dataset.element(), memory.bind(py))?.unbind();
            let elements = match vlen::form(py, dataset.element())? {
                _ if matches!(dataset.dataspace(), Dataspace::Null) => Elements::Objects,
                Some(form) => Elements::Vlen(form),
                None if crate::hdf5::is_made_of_objects(dataset.element()) => Elements::Objects,
                None => return Ok(Types { memory: values.clone_ref(py), values, elements: Elements::Plain }),
            };
            Ok(Types { values, memory, elements })
        })
    }

    /// Reads elements that are converted to objects one by one.
    pub(crate) fn read_vlen<'py>(
        &self,
        py: Python<'py>,
        (array, types, form): (&Array, &Types, &Form),
        selection: &Selection,
        shown: Shown<'_, 'py>,
        reading: Reading<'_>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let found = vlen::read(py, array, form, selection, reading)?;
        let found = vlen::to_numpy(found, form, types.values.bind(py), selection.is_scalar(), shown)?;
        let has_order = found.cast::<PyUntypedArray>().is_ok_and(|array| array.ndim() > 1);
        if reading.fortran && has_order {
            return py.import("numpy")?.call_method1("asfortranarray", (found,));
        }
        Ok(found)
    }

    /// Returns the elements of a selection in the form of `array[selection]`.
    pub(crate) fn item<'py>(
        &self,
        py: Python<'py>,
        array: &Array,
        types: &Types,
        selection: &Selection,
    ) -> PyResult<Bound<'py, PyAny>> {
        let reading = self.reading(py, array, selection)?;
        match &types.elements {
            Elements::Vlen(form) => self.read_vlen(py, (array, types, form), selection, Shown::Item, reading),
            Elements::Optional => {
                let found = read_new(array.layout(), types.memory.bind(py), selection, reading)?;
                if selection.is_scalar() {
                    optional::to_masked_element(&found)
                } else {
                    optional::to_masked_array(&found)
                }
            }
            _ => read_item(array.layout(), types.memory.bind(py), selection, reading),
        }
    }

    /// Reads a selection into the caller's memory.
    pub(crate) fn item_into<'py>(
        &self,
        py: Python<'py>,
        array: &Array,
        types: &Types,
        selection: &Selection,
        out: Bound<'py, PyAny>,
        reading: Reading<'_>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match &types.elements {
            Elements::Vlen(form) => {
                let found = self.read_vlen(py, (array, types, form), selection, Shown::Array, reading)?;
                vlen::assign_out(&out, found)?;
            }
            Elements::Optional => {
                let (layout, dtype) = (array.layout(), types.memory.bind(py));
                optional::read_out(&out, dtype, selection, || read_new(layout, dtype, selection, reading))?;
            }
            _ => read_out(array.layout(), types.memory.bind(py), selection, &out, reading)?,
        }
        Ok(out)
    }

    /// Writes a selection.
    pub(crate) fn assign(
        &self,
        py: Python<'_>,
        array: &Array,
        selection: &Selection,
        value: &Bound<'_, PyAny>,
        writing: Writing,
    ) -> PyResult<()> {
        let types = self.types(py, array)?;
        let dtype = match &types.elements {
            Elements::Vlen(_) => &types.values,
            _ => &types.memory,
        };
        let value = &masked::fill_masked(array, dtype.bind(py), value)?;
        match &types.elements {
            Elements::Vlen(form) => vlen::write(array, form, selection, value, writing),
            _ => assign(array.layout(), types.memory.bind(py), selection, value, writing),
        }
    }

    /// Returns the form of variable-length elements. Fails for other elements, and for objects,
    /// which are made one by one.
    pub(crate) fn form<'a>(&self, array: &Array, types: &'a Types) -> PyResult<&'a Form> {
        match &types.elements {
            Elements::Vlen(Form::Objects(_)) => {
                let message = format!("array '{}': elements are objects: read them with read", array.name());
                Err(PyTypeError::new_err(message))
            }
            Elements::Vlen(form) => Ok(form),
            _ => {
                let name = array.name();
                let message = format!(
                    "array '{name}': elements have one size: read_ragged reads those of variable length"
                );
                Err(PyTypeError::new_err(message))
            }
        }
    }
}
