//! `for index, row in array.stream()`.

use crate::errors::{self, OrRaise};
use crate::gil::engine;
use crate::nodes::handles::ArrayHandle;
use crate::values::elements::numpy_type;
use crate::values::output::{array_over, scalar_of};
use hyperslab::array::{ArrayLayout, Dims, Stream as Rows, StreamOptions};
use hyperslab::store::fork;
use numpy::{PyArrayDescr, PyArrayDescrMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, TryLockError};

/// The rows of an array along one axis, read ahead. Made by `Array.stream`.
#[pyclass(frozen, module = "hyperslab")]
pub(crate) struct Stream {
    /// No thread ever waits for this lock.
    rows: Mutex<Rows>,
    /// The process in which the stream was made.
    generation: u64,
    layout: Arc<ArrayLayout>,
    dtype: Py<PyArrayDescr>,
    /// The shape of a row.
    shape: Dims,
}

#[pymethods]
impl Stream {
    #[new]
    #[pyo3(signature = (handle, axis=0, start=None, stop=None, ahead=None, threads=None, verify=None, dtype=None))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        handle: &ArrayHandle,
        axis: i64,
        start: Option<i64>,
        stop: Option<i64>,
        ahead: Option<u64>,
        threads: Option<usize>,
        verify: Option<bool>,
        dtype: Option<Py<PyArrayDescr>>,
    ) -> PyResult<Self> {
        let layout = handle.slot.get(py)?.layout().clone();
        let rank = layout.shape().len();
        if rank == 0 {
            return Err(PyTypeError::new_err("stream of an array without axes"));
        }
        let counted = if axis < 0 { axis + rank as i64 } else { axis };
        let Some(len) = usize::try_from(counted).ok().and_then(|axis| layout.shape().get(axis)) else {
            let message = format!("axis {axis} is out of bounds for an array of {rank} axes");
            return Err(errors::invalid(py, message));
        };
        let start = bound(start, 0, *len);
        let stop = bound(stop, *len, *len).max(start);
        let options = StreamOptions { ahead, threads, verify };
        let rows = Rows::new(layout.clone(), counted as usize, start..stop, options).or_raise(py)?;
        let dtype = match dtype {
            Some(dtype) if dtype.bind(py).itemsize() == layout.dtype().size() => dtype,
            _ => numpy_type(py, layout.dtype())?.unbind(),
        };
        let shape = rows.row_shape();
        let generation = fork::generation();
        Ok(Stream { rows: Mutex::new(rows), generation, layout, dtype, shape })
    }

    fn __iter__(stream: Bound<'_, Self>) -> Bound<'_, Self> {
        stream
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<(u64, Bound<'py, PyAny>)>> {
        let next = self.with_rows(|rows| {
            if rows.is_ready() {
                // This takes less time than releasing the GIL.
                return rows.next_row(None).transpose().or_raise(py);
            }
            engine::run(py, |stop| rows.next_row(Some(stop)).transpose())
        })?;
        let Some(row) = next else { return Ok(None) };
        let array = array_over(row.memory, self.dtype.bind(py), &self.shape, false)?;
        Ok(Some((row.index, scalar_of(&self.layout, array)?)))
    }

    /// Number of rows to come.
    fn __length_hint__(&self) -> PyResult<u64> {
        self.with_rows(|rows| Ok(rows.remaining()))
    }

    /// Stop reading ahead. There are no further rows. (A stream that is no longer used stops
    /// automatically.)
    fn close(&self) -> PyResult<()> {
        self.with_rows(|rows| {
            rows.close();
            Ok(())
        })
    }
}

impl Stream {
    /// Calls `work` with the rows. Fails at once if another thread uses the stream, instead of
    /// waiting with the GIL.
    fn with_rows<T>(&self, work: impl FnOnce(&mut Rows) -> PyResult<T>) -> PyResult<T> {
        match self.rows.try_lock() {
            Ok(mut rows) => work(&mut rows),
            Err(TryLockError::Poisoned(rows)) => work(&mut rows.into_inner()),
            Err(TryLockError::WouldBlock) if self.generation != fork::generation() => {
                Err(PyValueError::new_err(
                    "the stream was being read by another thread when this process was forked: make a new one",
                ))
            }
            Err(TryLockError::WouldBlock) => {
                Err(PyValueError::new_err("the stream is being read by another thread"))
            }
        }
    }
}

/// Converts a bound like a slice: a negative bound counts from the end, others are clamped.
fn bound(given: Option<i64>, absent: u64, len: u64) -> u64 {
    match given {
        None => absent,
        Some(at) if at < 0 => len.saturating_sub(at.unsigned_abs()),
        Some(at) => len.min(at as u64),
    }
}
