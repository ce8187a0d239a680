//! What the elements of an array are to NumPy, and who makes values of what the engine reads:
//! reading and writing by that.

use crate::array::ArrayBase;
use crate::engine;
use crate::fancy::{self, Meaning};
use crate::hdf5 as file;
use crate::index::selection;
use crate::masked;
use crate::once;
use crate::optional;
use crate::output::{Reading, read_item, read_new, read_out};
use crate::ragged::Form;
use crate::settings;
use crate::values::{Writing, assign};
use crate::vlen::{self, Shown};
use hyperslab::array::{Selection, check_stored};
use hyperslab::codec::{DataType, Kind, SMALL};
use hyperslab::hdf5::dataspace::Dataspace;
use hyperslab::zarr::{FieldKind, Structure};
use hyperslab::{Array, Missing, ResultOrder};
use numpy::{PyArrayDescr, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyImportError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::collections::HashMap;

/// NumPy's description of an element type. Small numbers are those of the package ml_dtypes, which
/// is imported for nothing else.
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

/// NumPy's description of what the engine reads of an array.
pub(crate) fn memory_type<'py>(py: Python<'py>, array: &Array) -> PyResult<Bound<'py, PyArrayDescr>> {
    match (array.structure(), array.optional()) {
        (Some(structure), _) => structure_type(py, structure),
        (None, Some(value)) => optional::memory_type(&numpy_type(py, value)?),
        (None, None) => numpy_type(py, array.layout().dtype()),
    }
}

/// NumPy's description of a structure.
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

/// NumPy's description of a field, or of an element of a field that is an array.
pub(crate) fn field_type<'py>(py: Python<'py>, kind: &FieldKind) -> PyResult<Bound<'py, PyArrayDescr>> {
    match kind {
        FieldKind::Plain(dtype) => numpy_type(py, *dtype),
        FieldKind::Structure(structure) => structure_type(py, structure),
    }
}

/// The element types that NumPy has from the package ml_dtypes: their names there, and in Zarr.
#[pyfunction]
pub(crate) fn small_numbers() -> HashMap<&'static str, &'static str> {
    SMALL.iter().map(|small| (small.python, small.name)).collect()
}

/// Bytes of the largest element that a new array may have.
#[pyfunction]
pub(crate) fn largest_element() -> usize {
    hyperslab::zarr::MAX_ELEMENT
}

/// What elements are, and NumPy's descriptions of them.
pub(crate) struct Types {
    /// Of the values.
    pub(crate) values: Py<PyArrayDescr>,
    /// Of what the engine reads: other than values where those are Python objects, to be made of
    /// it.
    pub(crate) memory: Py<PyArrayDescr>,
    pub(crate) elements: Elements,
}

/// Who makes values of what the engine reads.
pub(crate) enum Elements {
    /// Nobody needs to.
    Plain,
    /// Nobody; but they have fields, which an index may name.
    Structures,
    /// They may be missing: what is read is the values, and which of them are there.
    Optional,
    /// They are of variable length.
    Vlen(Form),
    /// Python: structures that hold objects, references; and what has no elements at all.
    Objects,
}

impl ArrayBase {
    /// Reads a selection into a new array, or into memory of the caller.
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
            (None, Elements::Optional) => {
                optional::shown(&read_new(array.layout(), types.memory.bind(py), &selection, reading)?)
            }
            (None, _) => Ok(read_new(array.layout(), types.memory.bind(py), &selection, reading)?.into_any()),
        }
    }

    /// How a selection is read. Unless the array has an order of its own, results of Zarr v2 have
    /// the order in which elements are stored, as with zarr-python. Errors where a chunk is
    /// missing, and that matters.
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

    /// What an index selects; `meaning`: what the index means, if not the same as in
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
            let values = file::descr(py, dataset.element(), memory.bind(py))?.unbind();
            let elements = match vlen::form(py, dataset.element())? {
                _ if matches!(dataset.dataspace(), Dataspace::Null) => Elements::Objects,
                Some(form) => Elements::Vlen(form),
                None if file::is_made_of_objects(dataset.element()) => Elements::Objects,
                None => return Ok(Types { memory: values.clone_ref(py), values, elements: Elements::Plain }),
            };
            Ok(Types { values, memory, elements })
        })
    }

    /// Reads what is made into objects one by one.
    pub(crate) fn read_vlen<'py>(
        &self,
        py: Python<'py>,
        (array, types, form): (&Array, &Types, &Form),
        selection: &Selection,
        shown: Shown<'_, 'py>,
        reading: Reading<'_>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let found = vlen::read(py, array, form, selection, reading)?;
        let found = vlen::shown(found, form, types.values.bind(py), selection.is_scalar(), shown)?;
        let has_order = found.cast::<PyUntypedArray>().is_ok_and(|array| array.ndim() > 1);
        if reading.fortran && has_order {
            return py.import("numpy")?.call_method1("asfortranarray", (found,));
        }
        Ok(found)
    }

    /// What a selection holds, as `array[selection]` gives it.
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
                if selection.is_scalar() { optional::shown_one(&found) } else { optional::shown(&found) }
            }
            _ => read_item(array.layout(), types.memory.bind(py), selection, reading),
        }
    }

    /// Reads a selection into memory of the caller.
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
        let value = &masked::filled(array, dtype.bind(py), value)?;
        match &types.elements {
            Elements::Vlen(form) => vlen::write(array, form, selection, value, writing),
            _ => assign(array.layout(), types.memory.bind(py), selection, value, writing),
        }
    }

    /// What elements of variable length are. Errors for others, and for objects, which are made one
    /// by one.
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
