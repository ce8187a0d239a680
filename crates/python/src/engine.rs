//! Work without the GIL that Ctrl-C, or another thread, can stop.

use crate::errors::Raise;
use crate::stop;
use hyperslab::store::waiting;
use pyo3::prelude::*;
use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

/// How often signals are looked at: often enough for a person, too rarely to be felt as work.
const EVERY: Duration = Duration::from_millis(50);

/// Whether another thread stops this one; asks Python for a signal handler's exception, if it is time
/// to. `asked`: when that was done last, or when time was first taken.
fn look(asked: &Cell<Option<Instant>>) -> Option<PyErr> {
    if let Some(stopped) = stop::asked() {
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
    // What is dropped while the interpreter ends finishes its work: nobody can stop it any more.
    let raised = Python::try_attach(|py| py.check_signals().err()).flatten();
    asked.set(Some(Instant::now()));
    raised
}

/// Asks Python now and then whether a signal came in (Ctrl-C). Lives on the calling thread.
#[derive(Default)]
pub(crate) struct Signals {
    /// Time is taken only after the second task, so that a request of one chunk takes none.
    asked: Cell<Option<Instant>>,
    begun: Cell<bool>,
    raised: RefCell<Option<PyErr>>,
}

impl Signals {
    /// Whether the work is to stop.
    pub(crate) fn ask(&self) -> bool {
        if !self.begun.replace(true) {
            return false;
        }
        match look(&self.asked) {
            None => false,
            raised => {
                *self.raised.borrow_mut() = raised;
                true
            }
        }
    }

    /// What a signal handler raised.
    pub(crate) fn raised(self) -> Option<PyErr> {
        self.raised.into_inner()
    }
}

thread_local! {
    /// When the readers of files last looked at signals on this thread, and what a handler raised
    /// then.
    static FILES: (Cell<Option<Instant>>, RefCell<Option<PyErr>>) = const { (Cell::new(None), RefCell::new(None)) };
}

/// Whether work on the metadata of a file is to stop: a signal handler raised something, which
/// [`raised_in_file`] tells.
pub(crate) fn ask_in_file() -> bool {
    FILES.with(|(asked, raised)| {
        if raised.borrow().is_some() {
            return true;
        }
        *raised.borrow_mut() = look(asked);
        raised.borrow().is_some()
    })
}

/// What a signal handler raised on this thread while metadata was read.
pub(crate) fn raised_in_file() -> Option<PyErr> {
    FILES.with(|(_, raised)| raised.borrow_mut().take())
}

/// Runs `work`, which is given the question whether to stop, without the GIL. What a signal handler
/// raised wins over the error of the work that was stopped.
pub(crate) fn run<T: Send, E: Raise + Send>(
    py: Python<'_>,
    work: impl FnOnce(&dyn Fn() -> bool) -> Result<T, E> + Send,
) -> PyResult<T> {
    let (result, raised) = py.detach(|| {
        let signals = Signals::default();
        let ask = || signals.ask();
        let result = waiting::with_ask(&ask, || work(&ask));
        (result, signals.raised())
    });
    match (result, raised) {
        (Ok(value), None) => Ok(value),
        (_, Some(raised)) => Err(raised),
        (Err(error), None) => Err(error.raise(py)),
    }
}
