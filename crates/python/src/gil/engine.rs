//! Runs work without the GIL. Ctrl-C or another thread can stop it.

use crate::errors::Raise;
use crate::gil::stop;
use hyperslab::store::waiting;
use pyo3::prelude::*;
use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

/// Interval between checks for signals: short enough for a person, long enough to cost nothing.
const EVERY: Duration = Duration::from_millis(50);

/// Checks if another thread stops this one, or if a signal handler raised an exception.
///
/// Asks Python for signals only at intervals. `asked` is the time of the last check, or of the
/// first call.
fn look(asked: &Cell<Option<Instant>>) -> Option<PyErr> {
    if let Some(stopped) = stop::stop_request() {
        return Some(stopped);
    }
    match asked.get() {
        Some(then) if then.elapsed() >= EVERY => {}
        Some(_) => return None,
        None => {
            asked.set(Some(Instant::now()));
            return None;
        }
    }
    // While the interpreter ends, drops finish their work. Nobody can stop it then.
    let raised = Python::try_attach(|py| py.check_signals().err()).flatten();
    asked.set(Some(Instant::now()));
    raised
}

/// Checks for signals (Ctrl-C) now and then. Lives on the calling thread.
#[derive(Default)]
pub(crate) struct Signals {
    /// The clock is first read after the second task, so a request of one chunk does not read it.
    last_check: Cell<Option<Instant>>,
    begun: Cell<bool>,
    raised: RefCell<Option<PyErr>>,
}

impl Signals {
    /// Returns `true` if the work must stop.
    pub(crate) fn ask(&self) -> bool {
        if !self.begun.replace(true) {
            return false;
        }
        match look(&self.last_check) {
            None => false,
            raised => {
                *self.raised.borrow_mut() = raised;
                true
            }
        }
    }

    /// The exception of a signal handler.
    pub(crate) fn into_exception(self) -> Option<PyErr> {
        self.raised.into_inner()
    }
}

thread_local! {
    /// Time of the last check for signals by file readers on this thread; exception of a handler.
    static FILES: (Cell<Option<Instant>>, RefCell<Option<PyErr>>) = const { (Cell::new(None), RefCell::new(None)) };
}

/// Returns `true` if work on a file's metadata must stop: a signal handler raised an exception.
///
/// [`raised_in_file`] returns the exception.
pub(crate) fn ask_in_file() -> bool {
    FILES.with(|(asked, raised)| {
        if raised.borrow().is_some() {
            return true;
        }
        *raised.borrow_mut() = look(asked);
        raised.borrow().is_some()
    })
}

/// Takes the exception that a signal handler raised on this thread while metadata was read.
pub(crate) fn raised_in_file() -> Option<PyErr> {
    FILES.with(|(_, raised)| raised.borrow_mut().take())
}

/// Runs `work` without the GIL. Its argument is a check that returns `true` if the work must stop.
///
/// If a signal handler raised an exception, it replaces the error of the stopped work.
pub(crate) fn run<T: Send, E: Raise + Send>(
    py: Python<'_>,
    work: impl FnOnce(&dyn Fn() -> bool) -> Result<T, E> + Send,
) -> PyResult<T> {
    let (result, raised) = py.detach(|| {
        let signals = Signals::default();
        let ask = || signals.ask();
        let result = waiting::with_ask(&ask, || work(&ask));
        (result, signals.into_exception())
    });
    match (result, raised) {
        (Ok(value), None) => Ok(value),
        (_, Some(raised)) => Err(raised),
        (Err(error), None) => Err(error.raise(py)),
    }
}
