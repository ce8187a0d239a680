//! The errors of all layers.

use crate::Format;
use crate::open::Mode;
use hyperslab_array::ArrayError;
use hyperslab_codec::{DataType, VlenKind};
use hyperslab_hdf5::Hdf5Error;
use hyperslab_netcdf::NetcdfError;
use hyperslab_store::{Ask, StoreError};
use hyperslab_zarr::{JsonError, NodeKind, ZarrError};
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// A result, usually with an [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error and its causes, without causes that the error's message already names.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

/// Tells how files of a format are changed, if they can be.
fn changing(format: Format) -> &'static str {
    match format {
        Format::Hdf5 => ": use hyperslab.File in Python, or Group::create and Group::edit in Rust",
        _ => "",
    }
}

/// An error of any layer. Each message is one line.
/// It names the array, chunk and object concerned, the expected value and the found one.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The engine failed: an index out of bounds, a corrupt chunk, …
    #[error(transparent)]
    Array(#[from] ArrayError),
    /// Metadata is missing, invalid, or needs an unsupported feature.
    #[error(transparent)]
    Zarr(ZarrError),
    /// An HDF5 file is damaged, needs an unsupported feature, or has no such object.
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
        /// The bytes found in place of a signature.
        why: String,
    },
    /// JSON without usable references.
    #[error("{url} is no document of references: {why}")]
    References {
        /// Its location.
        url: String,
        /// The reason.
        why: String,
    },
    /// There is no such node.
    #[error("{why}")]
    Missing {
        /// The kind that was looked for; `None`: any.
        kind: Option<NodeKind>,
        /// The node looked for, and what to do.
        why: String,
        /// Nodes below the place that the user may have meant.
        below: Vec<String>,
    },
    /// There is something at the place of a new node.
    #[error(
        "Cannot create '{path}' in {url} with mode 'w-' because it already contains data. Use mode 'w' to overwrite \
         or 'a' to append."
    )]
    Occupied {
        /// The path.
        path: String,
        /// The store.
        url: String,
    },
    /// A file is at the place of a new node.
    #[error("cannot create a directory: {0}")]
    FileInTheWay(Box<Error>),
    /// The name of a new node is usual for files.
    #[error("cannot use {location:?} as a location: {why}")]
    FileName {
        /// As given.
        location: String,
        /// The reason.
        why: String,
    },
    /// A mode needs changes, and the store accepts none.
    #[error("Store is read-only but mode is {mode}. Create a writable store or use 'r' mode.")]
    ReadOnlyStore {
        /// The mode.
        mode: Mode,
    },
    /// A mode needs changes, and files of this format cannot be changed.
    #[error("{url}: expected mode 'r' for {format} files, found mode {mode}{}", changing(*.format))]
    FileMode {
        /// The file.
        url: String,
        /// Its format.
        format: Format,
        /// The mode.
        mode: Mode,
    },
    /// An attempt to change a read-only format.
    #[error("{format} files cannot be created or changed in this way{}", changing(*.format))]
    OnlyRead {
        /// The format.
        format: Format,
    },
    /// A location that cannot hold data.
    #[error("cannot use {location:?} as a location: {why}")]
    Location {
        /// As given.
        location: String,
        /// The reason.
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
    /// A request for elements of another type than the array has.
    #[error("array '{array}' has elements of type {found}, not {wanted}")]
    ElementType {
        /// The array.
        array: String,
        /// The Rust type asked for.
        wanted: &'static str,
        /// The array's.
        found: DataType,
    },
    /// A request that treats elements of variable length as if they had one size.
    #[error("array '{array}' has elements of variable length ({found}): use read_ragged and write_ragged")]
    VariableLength {
        /// The array.
        array: String,
        /// The kind of the elements.
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
    /// Sources cannot be joined.
    #[error("cannot join along '{dimension}': {why}")]
    Join {
        /// The dimension.
        dimension: String,
        /// The source, the variable, and the difference.
        why: String,
    },
    /// A copy cannot be made there.
    #[error("cannot copy to '{}': {why}", path.display())]
    Destination {
        /// The destination.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A copy in tasks cannot be made there: something is in the way, or another run is making it.
    #[error("{place}: {why}")]
    InTheWay {
        /// The destination.
        place: String,
        /// The reason, and what to do.
        why: String,
    },
    /// A run of a copy in tasks no longer owns the copy.
    #[error("{place}: {why}. This run stops, and changes nothing more")]
    Superseded {
        /// The unfinished copy.
        place: String,
        /// The action of the other run.
        why: String,
    },
    /// The metadata of a copy differ from the source's.
    #[error("{0}")]
    Differs(String),
    /// The operating system refused something about the destination of a copy.
    #[error("cannot {what} '{}': {source}", path.display())]
    Io {
        /// The operation, as a verb.
        what: &'static str,
        /// The path that the operation failed on.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// One array or group of many cannot be copied.
    #[error("{0}; to leave it out, pass skip_unsupported=True")]
    Unsupported(Box<Error>),
    /// An array cannot be copied as requested.
    #[error("array '{array}': {why}")]
    Copy {
        /// The array.
        array: String,
        /// The reason.
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
    /// Returns `true` if the work ended because it was asked to: by [`Ask`], or by Ctrl-C.
    pub fn is_interruption(&self) -> bool {
        if matches!(
            self,
            Error::Interrupted
                | Error::Zarr(ZarrError::Interrupted)
                | Error::Array(ArrayError::Interrupted { .. })
                | Error::Store(StoreError::Interrupted { .. })
                | Error::Hdf5(Hdf5Error::Interrupted { .. })
        ) {
            return true;
        }
        let causes = std::iter::successors(std::error::Error::source(self), |error| error.source());
        causes.into_iter().any(|error| {
            matches!(error.downcast_ref(), Some(Hdf5Error::Interrupted { .. }))
                || matches!(error.downcast_ref(), Some(StoreError::Interrupted { .. }))
                || matches!(error.downcast_ref(), Some(ArrayError::Interrupted { .. }))
        })
    }

    /// Returns `true` if another run has taken over or ended the copy that this run was making.
    pub fn is_superseded(&self) -> bool {
        let is_of_store = |error: &StoreError| matches!(error, StoreError::Superseded { .. });
        match self {
            Error::Superseded { .. } => return true,
            Error::Store(error) | Error::Zarr(ZarrError::Store(error)) => return is_of_store(error),
            _ => {}
        }
        let causes = std::iter::successors(std::error::Error::source(self), |error| error.source());
        causes.into_iter().any(|error| error.downcast_ref().is_some_and(is_of_store))
    }

    /// Returns `true` if the error concerns a single array or group.
    /// The node has no equivalent in the copy's format, or cannot be read here.
    pub(crate) fn is_of_one(&self) -> bool {
        matches!(
            self,
            Error::Copy { .. }
                | Error::Hdf5(Hdf5Error::Unsupported { .. })
                | Error::Zarr(ZarrError::Unsupported { .. } | ZarrError::Metadata { .. })
        )
    }

    /// Wraps an error about one node of many, to tell how to continue with the others.
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

/// Fails with [`Error::Interrupted`] if `ask` returns `true`.
pub(crate) fn check(ask: Option<Ask<'_>>) -> Result<()> {
    if ask.is_some_and(|ask| ask()) { Err(Error::Interrupted) } else { Ok(()) }
}

impl From<String> for Error {
    /// Makes the error for text that is not a [`DataType`].
    fn from(why: String) -> Self {
        Error::DataType(why)
    }
}
