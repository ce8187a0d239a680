//! `with array.writer() as w: w[selection] = values`.

use crate::errors;
use crate::gil::engine;
use crate::index::slices::selection;
use crate::nodes::handles::ArrayHandle;
use crate::nodes::slot::Slot;
use crate::values::elements::memory_type;
use crate::values::input::{Writing, with_source};
use crate::values::masked;
use crate::values::vlen;
use hyperslab::Array;
use hyperslab::array::{ArrayError, Writer as Behind, WriterOptions, settle_all};
use hyperslab::store::StoreError;
use numpy::PyArrayDescr;
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Writes to an array in the background. Made by `Array.writer`.
#[pyclass(frozen, module = "hyperslab")]
pub(crate) struct Writer {
    behind: Behind,
    slot: Arc<Slot<Array>>,
    dtype: Py<PyArrayDescr>,
    closed: AtomicBool,
    write_empty_chunks: Option<bool>,
}

#[pymethods]
impl Writer {
    #[new]
    #[pyo3(signature = (handle, buffer=None, threads=None, write_empty_chunks=None))]
    fn new(
        py: Python<'_>,
        handle: &ArrayHandle,
        buffer: Option<u64>,
        threads: Option<usize>,
        write_empty_chunks: Option<bool>,
    ) -> PyResult<Self> {
        let slot = handle.slot.clone();
        let array = slot.get(py)?;
        let (layout, dtype) = (array.layout().clone(), memory_type(py, &array)?.unbind());
        let behind = Behind::new(layout, WriterOptions { buffer, threads, write_empty_chunks });
        Ok(Writer { behind, slot, dtype, closed: AtomicBool::new(false), write_empty_chunks })
    }

    fn __setitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        if self.closed.load(Ordering::Relaxed) {
            let message = format!("array '/{}': the writer is closed", self.slot.path());
            return Err(errors::invalid(py, message));
        }
        // Use the current array. It may have grown.
        let array = self.slot.get(py)?;
        let selection = selection(key, array.layout())?;
        // Write now. Other writes to an array of variable-length elements are not queued either, so
        // this overtakes none.
        if let Some(kind) = array.vlen() {
            let (dtype, form) = vlen::types(py, &array, kind)?;
            let value = &masked::fill_masked(&array, dtype.bind(py), value)?;
            let writing = Writing { threads: None, write_empty_chunks: self.write_empty_chunks };
            return vlen::write(&array, &form, &selection, value, writing);
        }
        let dtype = self.dtype.bind(py);
        let value = masked::fill_masked(&array, dtype, value)?;
        with_source(dtype, &selection, &value, |source| {
            engine::run(py, |stop| self.behind.write_resized(array.layout(), &selection, source, Some(stop)))
        })
    }

    /// Wait until everything written so far is stored.
    ///
    /// Raises
    /// ------
    /// StoreError, ChunkError
    ///     The first error since the last call. It names the chunk. All other writes are stored.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        engine::run(py, |stop| self.behind.flush(Some(stop)))
    }

    /// `flush`, and accept no more writes.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.closed.store(true, Ordering::Relaxed);
        self.flush(py)
    }

    fn __enter__(writer: Bound<'_, Self>) -> Bound<'_, Self> {
        writer
    }

    /// Finishes all queued writes. If the block raised an exception, an error of a write is added
    /// to it as a note.
    fn __exit__(
        &self,
        py: Python<'_>,
        _class: &Bound<'_, PyAny>,
        exception: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        match self.close(py) {
            Err(error)
                if !exception.is_none() && error.is_instance_of::<pyo3::exceptions::PyException>(py) =>
            {
                exception.call_method1("add_note", (format!("also, in the writer: {error}"),)).map(|_| ())
            }
            outcome => outcome,
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Nobody can catch the error, so Python prints it. Without an interpreter, the background
        // writer finishes on its own.
        Python::try_attach(|py| {
            let flush = |stop: &dyn Fn() -> bool| match self.behind.flush(Some(stop)) {
                // Another write to the same chunk is in progress. Nothing is lost: threads of the
                // pool store it.
                Err(ArrayError::Store { source, .. }) if matches!(*source, StoreError::Busy { .. }) => Ok(()),
                outcome => outcome,
            };
            if let Err(error) = engine::run(py, flush) {
                error.write_unraisable(py, None);
            }
        });
    }
}

/// Waits until all writes of writers are stored. Called before the process ends.
///
/// Writers that were dropped in the middle of another write left their writes to the pool's
/// threads.
#[pyfunction]
pub(crate) fn finish_writers(py: Python<'_>) -> PyResult<()> {
    engine::run(py, |stop| settle_all(Some(stop)))
}
