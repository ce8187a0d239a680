//! Python objects in structures that are dropped without the GIL.

use crate::gil::attach::try_attach;
use pyo3::prelude::*;
use std::error::Error;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;

/// A Python object that is released with the GIL.
///
/// Without the GIL, PyO3 would note the release in a list behind a lock. If another thread forked
/// at that moment, the child would wait for this lock forever.
#[derive(Debug)]
pub(crate) struct GilDropped<T: Send>(ManuallyDrop<T>);

impl<T: Send> GilDropped<T> {
    pub(crate) fn new(held: T) -> Self {
        GilDropped(ManuallyDrop::new(held))
    }
}

impl<T: Send> Deref for GilDropped<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Send> Drop for GilDropped<T> {
    fn drop(&mut self) {
        let held = &mut self.0;
        // If the interpreter is ending, the object is not released.
        // SAFETY: dropped once, here, and not used afterwards.
        try_attach(|_| unsafe { ManuallyDrop::drop(held) });
    }
}

impl fmt::Display for GilDropped<PyErr> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", **self)
    }
}

impl Error for GilDropped<PyErr> {}
