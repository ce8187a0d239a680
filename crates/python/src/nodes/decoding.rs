//! Values of arrays as the CF conventions mean them, for Python.

use crate::errors::OrRaise;
use crate::nodes::array::ArrayBase;
use hyperslab::meaning::{self, Float, Limits, Number, TimeKind, TimeNumbers, ValueType};
use hyperslab::{Array, FileMeaning};
use numpy::{PyReadonlyArray1, PyReadwriteArray1};
use pyo3::prelude::*;
use std::borrow::Cow;
use std::sync::Arc;

/// How stored elements become values.
#[pyclass(frozen, module = "hyperslab._native")]
pub(crate) struct Decoding {
    array: Arc<Array>,
    inner: meaning::Decoding,
}

/// A number of Python. Integers stay exact.
#[derive(FromPyObject)]
pub(crate) enum PyNumber {
    Int(i128),
    Float(f64),
}

/// The place of a value that cannot be stored, and the reason.
type Problem = Option<(usize, String)>;

/// Returns a number for each value, unless it is missing.
fn numbers<'a, T: Copy>(
    values: &'a [T],
    missing: Option<&'a [bool]>,
    number: impl Fn(T) -> Number + 'a,
) -> impl Fn(usize) -> Number + 'a {
    move |at| match (missing.and_then(|missing| missing.get(at)), values.get(at)) {
        (Some(true), _) | (_, None) => Number::Missing,
        (_, Some(value)) => number(*value),
    }
}

impl Decoding {
    fn pack(&self, count: usize, number: &dyn Fn(usize) -> Number, dst: &mut [u8]) -> Problem {
        self.inner.pack(count, number, dst).err()
    }
}

#[pymethods]
impl Decoding {
    #[new]
    fn new(py: Python<'_>, array: &ArrayBase) -> PyResult<Self> {
        let array = array.array(py)?;
        let inner = py.detach(|| meaning::Decoding::of(&array)).or_raise(py)?;
        Ok(Decoding { array, inner })
    }

    /// ``"stored"``, ``"other"``, ``"bool"``, ``"float"``, ``"dates"`` or ``"differences"``.
    #[getter]
    fn kind(&self) -> &'static str {
        match (self.inner.values, self.inner.times.as_ref().map(|times| times.kind)) {
            (ValueType::Stored, _) => "stored",
            (ValueType::Other, _) => "other",
            (ValueType::Bool, _) => "bool",
            (ValueType::Float(_), _) => "float",
            (ValueType::Times, Some(TimeKind::Differences(_))) => "differences",
            (ValueType::Times, _) => "dates",
        }
    }

    /// The type to read stored elements as, in the machine's byte order.
    #[getter]
    fn number(&self) -> String {
        self.inner.number_type().numpy()
    }

    /// The type of values; ``None``: as stored. ``"O"``: dates that NumPy does not have.
    #[getter]
    fn dtype(&self) -> Option<String> {
        Some(match (self.inner.values, &self.inner.times) {
            (ValueType::Other, _) => return None,
            (ValueType::Stored, _) => self.number(),
            (ValueType::Bool, _) => "?".into(),
            (ValueType::Float(Float::Half), _) => "f2".into(),
            (ValueType::Float(Float::Single), _) => "f4".into(),
            (ValueType::Float(Float::Double), _) => "f8".into(),
            (ValueType::Times, None) => return None,
            (ValueType::Times, Some(times)) => match times.calendar() {
                Some(calendar) if !calendar.has_numpy_dates() => "O".into(),
                Some(_) => format!("M8[{}]", times.resolution().name()),
                None => format!("m8[{}]", times.resolution().name()),
            },
        })
    }

    /// True if values are computed from stored numbers with a factor or an offset.
    #[getter]
    fn scales(&self) -> bool {
        self.inner.packing.scales()
    }

    /// The value of the first kind of missing elements, as stored; ``None``: no element is missing.
    #[getter]
    fn missing(&self) -> Option<Cow<'static, [u8]>> {
        self.inner.packing.missing.first().cloned().map(Cow::Owned)
    }

    /// The units of times.
    #[getter]
    fn units(&self) -> Option<&str> {
        self.inner.times.as_ref().map(|times| times.units.as_str())
    }

    /// Nanoseconds of one unit of times.
    #[getter]
    fn unit(&self) -> Option<i64> {
        self.inner.times.as_ref().map(meaning::Times::unit)
    }

    /// The calendar of dates.
    #[getter]
    fn calendar(&self) -> Option<&'static str> {
        Some(self.inner.times.as_ref()?.calendar()?.name())
    }

    /// The names of attributes that describe the values, of ``names``.
    fn shown(&self, py: Python<'_>, names: Vec<String>) -> PyResult<Vec<String>> {
        let used = self.inner.attributes();
        let file = self.array.file();
        let meaning = py.detach(|| file.map(|file| FileMeaning::of(&file)).transpose()).or_raise(py)?;
        let zarr = self.array.as_zarr().map(hyperslab::user_attributes);
        let is_shown = |name: &String| {
            let of_user = match (&meaning, &zarr) {
                (Some(meaning), _) => meaning.is_of_user(name),
                (None, Some(attributes)) => attributes.get(name).is_some(),
                (None, None) => true,
            };
            of_user && !used.contains(&name.as_str())
        };
        Ok(names.into_iter().filter(is_shown).collect())
    }

    /// Computes floats from stored elements.
    fn unpack(
        &self,
        py: Python<'_>,
        src: PyReadonlyArray1<'_, u8>,
        mut dst: PyReadwriteArray1<'_, u8>,
    ) -> PyResult<()> {
        let (src, dst) = (src.as_slice()?, dst.as_slice_mut()?);
        py.detach(|| self.inner.unpack(src, dst)).or_raise(py)
    }

    /// Computes times from stored elements; returns their unit. ``None``: NumPy does not have them.
    fn times(
        &self,
        py: Python<'_>,
        src: PyReadonlyArray1<'_, u8>,
        mut dst: PyReadwriteArray1<'_, i64>,
    ) -> PyResult<Option<&'static str>> {
        let (src, dst) = (src.as_slice()?, dst.as_slice_mut()?);
        let Some(found) = py.detach(|| self.inner.times(src)).or_raise(py)? else { return Ok(None) };
        for (place, value) in dst.iter_mut().zip(&found.values) {
            *place = *value;
        }
        Ok(Some(found.resolution.name()))
    }

    /// Converts numbers in the units of times; returns the unit and NumPy's integers.
    fn times_of(&self, py: Python<'_>, numbers: Vec<PyNumber>) -> PyResult<Option<(&'static str, Vec<i64>)>> {
        let Some(times) = &self.inner.times else { return Ok(None) };
        let number = |at: usize| match numbers.get(at) {
            Some(PyNumber::Int(int)) => Number::Int(*int),
            Some(PyNumber::Float(float)) => Number::Float(*float),
            None => Number::Missing,
        };
        let found = times.decode(numbers.len(), &number).map_err(|why| self.inner.error(why)).or_raise(py)?;
        Ok(found.map(|found| (found.resolution.name(), found.values)))
    }

    /// The numbers that stored elements represent. Missing ones are NaN.
    fn numbers(
        &self,
        py: Python<'_>,
        src: PyReadonlyArray1<'_, u8>,
        mut dst: PyReadwriteArray1<'_, f64>,
    ) -> PyResult<()> {
        let (src, dst) = (src.as_slice()?, dst.as_slice_mut()?);
        py.detach(|| {
            let found = self.inner.numbers(src);
            for (at, place) in dst.iter_mut().enumerate() {
                *place = match found.get(at) {
                    Number::Missing => f64::NAN,
                    Number::Int(int) => int as f64,
                    Number::Float(float) => float,
                };
            }
        });
        Ok(())
    }

    /// Marks missing elements. ``limits``: also the ones that netCDF4-python masks in addition.
    fn mask(
        &self,
        py: Python<'_>,
        src: PyReadonlyArray1<'_, u8>,
        mut dst: PyReadwriteArray1<'_, u8>,
        limits: bool,
    ) -> PyResult<()> {
        let (src, dst) = (src.as_slice()?, dst.as_slice_mut()?);
        py.detach(|| {
            self.inner.mark_missing(src, dst);
            if limits {
                Limits::of(&self.array, &self.inner)?.mark(src, &self.inner, dst);
            }
            Ok::<_, hyperslab::Error>(())
        })
        .or_raise(py)
    }

    /// Packs floats.
    #[pyo3(signature = (values, dst, missing=None))]
    fn pack_floats(
        &self,
        values: PyReadonlyArray1<'_, f64>,
        mut dst: PyReadwriteArray1<'_, u8>,
        missing: Option<PyReadonlyArray1<'_, bool>>,
    ) -> PyResult<Problem> {
        let missing = missing.as_ref().map(|missing| missing.as_slice()).transpose()?;
        let values = values.as_slice()?;
        Ok(self.pack(values.len(), &numbers(values, missing, Number::Float), dst.as_slice_mut()?))
    }

    /// Packs signed integers.
    #[pyo3(signature = (values, dst, missing=None))]
    fn pack_ints(
        &self,
        values: PyReadonlyArray1<'_, i64>,
        mut dst: PyReadwriteArray1<'_, u8>,
        missing: Option<PyReadonlyArray1<'_, bool>>,
    ) -> PyResult<Problem> {
        let missing = missing.as_ref().map(|missing| missing.as_slice()).transpose()?;
        let (values, number) = (values.as_slice()?, |value: i64| Number::Int(value.into()));
        Ok(self.pack(values.len(), &numbers(values, missing, number), dst.as_slice_mut()?))
    }

    /// Packs unsigned integers.
    #[pyo3(signature = (values, dst, missing=None))]
    fn pack_uints(
        &self,
        values: PyReadonlyArray1<'_, u64>,
        mut dst: PyReadwriteArray1<'_, u8>,
        missing: Option<PyReadonlyArray1<'_, bool>>,
    ) -> PyResult<Problem> {
        let missing = missing.as_ref().map(|missing| missing.as_slice()).transpose()?;
        let (values, number) = (values.as_slice()?, |value: u64| Number::Int(value.into()));
        Ok(self.pack(values.len(), &numbers(values, missing, number), dst.as_slice_mut()?))
    }

    /// Packs NumPy's times, whose unit has ``step`` nanoseconds.
    #[pyo3(signature = (values, step, dst, missing=None))]
    fn pack_times(
        &self,
        values: PyReadonlyArray1<'_, i64>,
        step: i64,
        mut dst: PyReadwriteArray1<'_, u8>,
        missing: Option<PyReadonlyArray1<'_, bool>>,
    ) -> PyResult<Problem> {
        let missing = missing.as_ref().map(|missing| missing.as_slice()).transpose()?;
        let (values, dst) = (values.as_slice()?, dst.as_slice_mut()?);
        let Some(times) = &self.inner.times else { return Ok(Some((0, "its values are not times".into()))) };
        let is_missing = |at: usize| missing.and_then(|missing| missing.get(at)) == Some(&true);
        let time = |at: usize| {
            let value = values.get(at).filter(|value| **value != i64::MIN && !is_missing(at))?;
            Some(i128::from(*value) * i128::from(step))
        };
        let is_whole = !self.scales() && self.inner.number_type().kind() != hyperslab::Kind::Float;
        Ok(match times.encode(values.len(), &time, is_whole) {
            Err(problem) => Some(problem),
            Ok(TimeNumbers::Floats(floats)) => {
                self.pack(floats.len(), &numbers(&floats, None, Number::Float), dst)
            }
            Ok(TimeNumbers::Ints(ints)) => {
                let number = |value: i64| match value {
                    i64::MIN => Number::Missing,
                    value => Number::Int(value.into()),
                };
                self.pack(ints.len(), &numbers(&ints, None, number), dst)
            }
        })
    }
}
