//! Runs Python code on the engine's threads.

use pyo3::ffi;
use pyo3::prelude::*;
use std::cell::Cell;

thread_local! {
    static KEPT: Cell<bool> = const { Cell::new(false) };
}

/// Returns `true` if the interpreter is ending: only the thread that ends it can still get the GIL.
pub(crate) fn is_ending() -> bool {
    // SAFETY: any thread may call it at any time. CPython clears this flag before it takes the GIL
    // away from other threads.
    unsafe { ffi::Py_IsInitialized() == 0 }
}

/// Runs `work` with the GIL. `None`: the interpreter is ending.
///
/// A thread that Python did not start needs a Python thread state while it has the GIL. Creating
/// and deleting a state takes a lock of the interpreter without the GIL. If another thread forks at
/// that moment, the child waits for the lock forever: up to Python 3.11.7, always before it runs
/// anything (<https://github.com/python/cpython/issues/112275>). The engine's threads never end, so
/// they keep their states. This also saves a microsecond per call.
pub(crate) fn try_attach<T>(work: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    // SAFETY: it only checks for a thread state. Threads that Python started have one.
    let keep = !KEPT.get()
        && hyperslab::array::is_worker()
        && unsafe { ffi::PyGILState_GetThisThreadState() }.is_null();
    Python::try_attach(|py| {
        if keep {
            // SAFETY: this thread has the GIL. The extra reference to the state is never released,
            // so the state survives when this thread releases the GIL.
            unsafe { ffi::PyGILState_Ensure() };
            KEPT.set(true);
        }
        work(py)
    })
}
