//! Stops the engine's work on another thread. A cancelled `await` uses this.
//!
//! Ctrl-C reaches only Python's main thread. A call on another thread checks its own flag at the
//! places where the main thread checks for signals, so it stops just as fast.

use pyo3::exceptions::PyInterruptedError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

type Flag = Arc<AtomicBool>;

thread_local! {
    /// The flag of the current call on this thread.
    static FLAG: RefCell<Option<Flag>> = const { RefCell::new(None) };
}

/// Sets the thread's flag and returns the old one.
fn replace(flag: Option<Flag>) -> Option<Flag> {
    // A thread that ends no longer has a flag.
    FLAG.try_with(|now| now.replace(flag)).unwrap_or_default()
}

/// Returns the error that ends the current call, if another thread has called [`Stopper::stop`].
pub(crate) fn stop_request() -> Option<PyErr> {
    let is_set = |flag: &RefCell<Option<Flag>>| {
        flag.borrow().as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
    };
    FLAG.try_with(is_set).unwrap_or(false).then(|| PyInterruptedError::new_err("the call was cancelled"))
}

/// Restores the old flag, even if the call panics.
struct Former(Option<Flag>);

impl Drop for Former {
    fn drop(&mut self) {
        replace(self.0.take());
    }
}

/// Stops one call from another thread.
#[pyclass(frozen, module = "hyperslab._native")]
#[derive(Default)]
pub(crate) struct Stopper(Flag);

#[pymethods]
impl Stopper {
    #[new]
    fn new() -> Self {
        Stopper::default()
    }

    /// From now on, the engine's work in `run` ends with `InterruptedError`.
    fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// True if `stop` was called.
    #[getter]
    fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Runs ``call(*args)``. `stop` stops it.
    #[pyo3(signature = (call, *args))]
    fn run<'py>(&self, call: &Bound<'py, PyAny>, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let _former = Former(replace(Some(self.0.clone())));
        call.call1(args)
    }
}
