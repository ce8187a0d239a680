//! Errors of the header's parser, and of classic files.

use hyperslab_array::ArrayError;
use hyperslab_store::StoreError;
use thiserror::Error;

/// An error of the parser. [`File::open`](crate::File::open) adds the file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HeaderError {
    /// The parser needs this many bytes from the start of the file. The file may have them.
    #[error("the header ends early: expected at least {0} bytes")]
    Need(u64),
    /// The bytes cannot be right.
    #[error("byte {at} of the header: {why}")]
    Corrupt {
        /// The position in the file.
        at: u64,
        /// The reason.
        why: String,
    },
}

/// The reason why a classic file cannot hold something.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{what}: {why}")]
pub struct NewFileError {
    /// The part: the file, a dimension, a variable.
    pub what: String,
    /// The variable, if the part is one.
    pub variable: Option<String>,
    /// The reason, and what to do.
    pub why: String,
}

impl NewFileError {
    pub(crate) fn file(why: String) -> Self {
        NewFileError { what: "the file".into(), variable: None, why }
    }

    pub(crate) fn dimension(name: &str, why: String) -> Self {
        NewFileError { what: format!("dimension '{name}'"), variable: None, why }
    }

    pub(crate) fn variable(name: &str, why: String) -> Self {
        NewFileError { what: format!("variable '{name}'"), variable: Some(name.to_owned()), why }
    }
}

/// An error about a classic file. Messages name the file and, if one is concerned, the variable.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NetcdfError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no classic NetCDF file.
    #[error("{file} is not a classic NetCDF file: {why}")]
    NotNetcdf {
        /// The file.
        file: String,
        /// The reason.
        why: String,
    },
    /// The header cannot be right.
    #[error("{file}: {why}")]
    Header {
        /// The file.
        file: String,
        /// The parser's error.
        why: HeaderError,
    },
    /// A variable contradicts the rest of the header, or the file.
    #[error("{file}, variable '{variable}': {why}")]
    Variable {
        /// The file.
        file: String,
        /// The variable.
        variable: String,
        /// The contradiction.
        why: String,
    },
    /// A new file cannot hold something.
    #[error("NetCDF classic: {0}")]
    New(#[from] NewFileError),
    /// The engine refused the description of a variable.
    #[error(transparent)]
    Array(#[from] ArrayError),
}
