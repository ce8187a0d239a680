//! Python code on the engine's own threads.

use pyo3::ffi;
use pyo3::prelude::*;
use std::cell::Cell;

thread_local! {
    static KEPT: Cell<bool> = const { Cell::new(false) };
}

/// Tells that the interpreter is ending: only the thread that ends it still gets the GIL.
pub(crate) fn is_ending() -> bool {
    // SAFETY: it may be called at any time, by any thread. CPython unsets this before it takes the
    // GIL away from other threads.
    unsafe { ffi::Py_IsInitialized() == 0 }
}

/// Runs `work` with the GIL. `None`: the interpreter is ending.
///
/// A thread that Python did not start gets a state of Python's for the time that it has the GIL. To
/// make one and to delete it takes a lock of the interpreter's, without the GIL. If another thread
/// forks in this instant, the child waits for that lock forever: up to Python 3.11.7, always before
/// it runs anything (<https://github.com/python/cpython/issues/112275>). So the engine's threads,
/// which never end, keep theirs. It also saves a microsecond each time.
pub(crate) fn try_attach<T>(work: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    // SAFETY: it only looks whether this thread has a state, which a thread of Python's own has.
    let keep = !KEPT.get()
        && hyperslab::array::is_worker()
        && unsafe { ffi::PyGILState_GetThisThreadState() }.is_null();
    Python::try_attach(|py| {
        if keep {
            // SAFETY: this thread has the GIL. The state is counted once more, and never let go of:
            // when this thread gives the GIL back, the state stays.
            unsafe { ffi::PyGILState_Ensure() };
            KEPT.set(true);
        }
        work(py)
    })
}
