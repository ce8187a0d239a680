//! Stopping the engine's work on another thread: what cancels an `await`.
//!
//! Ctrl-C reaches only Python's main thread. A call on another thread looks at a flag of its own
//! where the main thread would look at signals, so it stops just as soon.

use pyo3::exceptions::PyInterruptedError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

type Flag = Arc<AtomicBool>;

thread_local! {
    /// The flag of the call that this thread is in the middle of.
    static FLAG: RefCell<Option<Flag>> = const { RefCell::new(None) };
}

/// Puts `flag` in the place of the thread's flag, which it returns.
fn replace(flag: Option<Flag>) -> Option<Flag> {
    // While the thread ends there is no flag any more.
    FLAG.try_with(|now| now.replace(flag)).unwrap_or_default()
}

/// The error that ends the call of this thread, once another thread has called [`Stopper::stop`].
pub(crate) fn asked() -> Option<PyErr> {
    let is_set = |flag: &RefCell<Option<Flag>>| {
        flag.borrow().as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
    };
    FLAG.try_with(is_set).unwrap_or(false).then(|| PyInterruptedError::new_err("the call was cancelled"))
}

/// Puts the former flag back, also when the call panics.
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

    /// From now on, `InterruptedError` ends the engine's work in `run`.
    fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether `stop` was called.
    #[getter]
    fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// ``call(*args)``, which `stop` stops.
    #[pyo3(signature = (call, *args))]
    fn run<'py>(&self, call: &Bound<'py, PyAny>, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let _former = Former(replace(Some(self.0.clone())));
        call.call1(args)
    }
}
