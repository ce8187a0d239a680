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
    /// The engine refused the description of a variable.
    #[error(transparent)]
    Array(#[from] ArrayError),
}
