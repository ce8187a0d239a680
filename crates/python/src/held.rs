//! Objects of Python in structures that are dropped without the GIL.

use crate::attach::try_attach;
use pyo3::prelude::*;
use std::error::Error;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;

/// Something of Python's that is given back with the GIL. Without it, PyO3 would note that in a
/// list behind a lock, and a process that is forked meanwhile would wait for this lock forever.
#[derive(Debug)]
pub(crate) struct Held<T: Send>(ManuallyDrop<T>);

impl<T: Send> Held<T> {
    pub(crate) fn new(held: T) -> Self {
        Held(ManuallyDrop::new(held))
    }
}

impl<T: Send> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Send> Drop for Held<T> {
    fn drop(&mut self) {
        let held = &mut self.0;
        // Where the interpreter is ending, it stays.
        // SAFETY: dropped once, here, and not used after.
        try_attach(|_| unsafe { ManuallyDrop::drop(held) });
    }
}

impl fmt::Display for Held<PyErr> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", **self)
    }
}

impl Error for Held<PyErr> {}
