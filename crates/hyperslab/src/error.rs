//! What can go wrong, from all layers.

use crate::Format;
use hyperslab_array::ArrayError;
use hyperslab_codec::{DataType, VlenKind};
use hyperslab_hdf5::Hdf5Error;
use hyperslab_netcdf::NetcdfError;
use hyperslab_store::{Ask, StoreError};
use hyperslab_zarr::{JsonError, ZarrError};
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// A result, usually with an [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of any layer. Messages name the array, chunk and object concerned, what was expected
/// and what was found, in one line.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The engine failed: an index out of bounds, a corrupt chunk, …
    #[error(transparent)]
    Array(#[from] ArrayError),
    /// Metadata is missing, invalid, or asks for what is not supported.
    #[error(transparent)]
    Zarr(ZarrError),
    /// An HDF5 file is damaged, asks for what is not supported, or has no such object.
    #[error(transparent)]
    Hdf5(#[from] Hdf5Error),
    /// A NetCDF-3 file is damaged.
    #[error(transparent)]
    Netcdf(#[from] NetcdfError),
    /// A NetCDF-3 file has no such variable.
    #[error("{file}: there is no variable '{name}'")]
    NoVariable {
        /// The file.
        file: String,
        /// The variable.
        name: String,
    },
    /// A regular file of another format.
    #[error(
        "'{}' is a file, but neither HDF5 nor NetCDF: {why}. (Zarr arrays and groups are directories.)", path.display()
    )]
    NotData {
        /// The file.
        path: PathBuf,
        /// What it has instead of a signature.
        why: String,
    },
    /// JSON that holds no references that can be read.
    #[error("{url} is no document of references: {why}")]
    References {
        /// Where it is.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// A change to what can only be read.
    #[error("{format} files are read only so far: they cannot be created or changed")]
    OnlyRead {
        /// The format.
        format: Format,
    },
    /// This is not where data can be.
    #[error("cannot use {location:?} as a location: {why}")]
    Location {
        /// As given.
        location: String,
        /// What is wrong with it.
        why: String,
    },
    /// An array where a group is wanted, or the other way round.
    #[error("'{name}' in {url} is {found}, not {wanted}")]
    NodeKind {
        /// The node.
        name: String,
        /// The store.
        url: String,
        /// "an array", "a group", "a committed datatype".
        found: &'static str,
        /// "an array", "a group".
        wanted: &'static str,
    },
    /// Elements of another type are asked for than the array has.
    #[error("array '{array}' has elements of type {found}, not {wanted}")]
    ElementType {
        /// The array.
        array: String,
        /// The Rust type asked for.
        wanted: &'static str,
        /// The array's.
        found: DataType,
    },
    /// Elements of variable length are asked for as if they had one size.
    #[error("array '{array}' has elements of variable length ({found}): use read_ragged and write_ragged")]
    VariableLength {
        /// The array.
        array: String,
        /// What they are.
        found: VlenKind,
    },
    /// A text is not the name of an element type.
    #[error("{0}")]
    DataType(String),
    /// A text is not JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// Options contradict each other or the data.
    #[error("{0}")]
    Options(String),
    /// A copy cannot be made there.
    #[error("cannot copy to '{}': {why}", path.display())]
    Destination {
        /// The destination.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// The operating system refused something about the destination of a copy.
    #[error("cannot {what} '{}': {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// One array or group of many cannot be copied.
    #[error("{0}; to leave it out, pass skip_unsupported=True")]
    Unsupported(Box<Error>),
    /// An array cannot be copied as asked.
    #[error("array '{array}': {why}")]
    Copy {
        /// The array.
        array: String,
        /// Why not.
        why: String,
    },
    /// Verification of a copy found another value.
    #[error(
        "array '{array}': element {index:?} is {found} in the copy, but {expected} in the source (bytes in hexadecimal)"
    )]
    Mismatch {
        /// The array.
        array: String,
        /// The first element that differs, in C order within its block.
        index: Vec<u64>,
        /// Its bytes in the source.
        expected: String,
        /// Its bytes in the copy.
        found: String,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// Returns `true` if the error is about one array or group that has no equal in the format of a copy,
    /// or cannot be read here.
    pub(crate) fn is_of_one(&self) -> bool {
        matches!(
            self,
            Error::Copy { .. }
                | Error::Hdf5(Hdf5Error::Unsupported { .. })
                | Error::Zarr(ZarrError::Unsupported { .. } | ZarrError::Metadata { .. })
        )
    }

    /// The error about one of many, which says how to go on with the others.
    pub(crate) fn of_one(self) -> Error {
        if self.is_of_one() { Error::Unsupported(Box::new(self)) } else { self }
    }
}

impl From<ZarrError> for Error {
    fn from(error: ZarrError) -> Self {
        match error {
            ZarrError::Interrupted
            | ZarrError::Array(ArrayError::Interrupted { .. })
            | ZarrError::Store(StoreError::Interrupted { .. }) => Error::Interrupted,
            error => Error::Zarr(error),
        }
    }
}

/// [`Error::Interrupted`] where the answer is `true`.
pub(crate) fn check(ask: Option<Ask<'_>>) -> Result<()> {
    if ask.is_some_and(|ask| ask()) { Err(Error::Interrupted) } else { Ok(()) }
}

impl From<String> for Error {
    /// The error of parsing a [`DataType`].
    fn from(why: String) -> Self {
        Error::DataType(why)
    }
}
