//! Errors about objects of the global heap. They name the element that refers to the object.

use crate::{File, Hdf5Error, HeapError};

/// The reason why an object is unusable.
#[derive(Debug)]
pub(crate) enum ObjectError {
    Wrong(String),
    Read(Hdf5Error),
}

impl From<String> for ObjectError {
    fn from(why: String) -> Self {
        ObjectError::Wrong(why)
    }
}

impl From<Hdf5Error> for ObjectError {
    fn from(error: Hdf5Error) -> Self {
        ObjectError::Read(error)
    }
}

impl ObjectError {
    /// Turns the error into one about an element. `address` is the collection of the element's
    /// object.
    pub fn of(self, file: &File, cell: usize, address: u64) -> Hdf5Error {
        let why = match self {
            ObjectError::Wrong(why) => why,
            ObjectError::Read(Hdf5Error::Parse { why, .. }) => why.to_string(),
            ObjectError::Read(error) => return error,
        };
        heap_error(file, cell, address, why)
    }
}

pub(crate) fn heap_error(file: &File, cell: usize, address: u64, why: String) -> Hdf5Error {
    let (of, within) = (String::new(), String::new());
    let file = file.source().name();
    Hdf5Error::Heap(Box::new(HeapError { file, object: None, of, element: cell, within, address, why }))
}
