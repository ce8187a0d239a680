//! Converts Rust errors to the exceptions of `hyperslab.errors`. Messages stay the same.

use crate::gil::engine;
use crate::gil::gil_dropped::GilDropped;
use crate::user_codecs::{self, Raised};
use hyperslab::Error;
use hyperslab::array::ArrayError;
use hyperslab::codec::CodecError;
use hyperslab::hdf5::{Hdf5Error, ParseError};
use hyperslab::netcdf::NetcdfError;
use hyperslab::store::{StoreError, Unread, ZipError};
use hyperslab::zarr::{NodeKind, ZarrError};
use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::io;

/// The error of work that also runs Python code: our own error, or an exception.
pub(crate) enum Failed {
    Ours(Error),
    Python(PyErr),
}

impl<E: Into<Error>> From<E> for Failed {
    fn from(error: E) -> Self {
        Failed::Ours(error.into())
    }
}

/// An error that converts to a Python exception.
pub(crate) trait Raise {
    fn raise(self, py: Python<'_>) -> PyErr;
}

macro_rules! raised_by {
    ($($error:ty: $function:path),* $(,)?) => {
        $(impl Raise for $error {
            fn raise(self, py: Python<'_>) -> PyErr {
                $function(py, &self)
            }
        })*
    };
}
raised_by!(Error: to_exception, ArrayError: array, ZarrError: zarr, StoreError: store, Hdf5Error: hdf5);

impl Raise for Failed {
    fn raise(self, py: Python<'_>) -> PyErr {
        match self {
            Failed::Ours(error) => error.raise(py),
            Failed::Python(error) => error,
        }
    }
}

/// Converts the error of a result to a Python exception.
pub(crate) trait OrRaise<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T, E: Raise> OrRaise<T> for Result<T, E> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| error.raise(py))
    }
}

/// Returns the error for an argument that makes no sense.
pub(crate) fn invalid(py: Python<'_>, message: impl Into<String>) -> PyErr {
    exception(py, "InvalidArgumentError", message)
}

/// Returns an exception of a class in `hyperslab.errors`, with this message.
pub(crate) fn exception(py: Python<'_>, class: &str, message: impl Into<String>) -> PyErr {
    let message = message.into();
    match find(py, class) {
        Ok(class) => PyErr::from_type(class, (message,)),
        Err(_) => PyRuntimeError::new_err(message),
    }
}

fn find<'py>(py: Python<'py>, class: &str) -> PyResult<Bound<'py, PyType>> {
    Ok(py.import("hyperslab.errors")?.getattr(class)?.cast_into::<PyType>()?)
}

/// Converts an error of the operating system. Uses Python's subclass for it, with its number.
fn system(py: Python<'_>, source: &io::Error, message: String) -> PyErr {
    if let Some(raised) = source.get_ref().and_then(|source| source.downcast_ref::<GilDropped<PyErr>>()) {
        return of_mapping(py, raised, message);
    }
    // An error of the file behind a presented object.
    if let Some(found) = source.get_ref().and_then(|source| source.downcast_ref::<Error>()) {
        return PyErr::from_type(to_exception(py, found).get_type(py), (message,));
    }
    let class = match source.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => "StorePermissionError",
        io::ErrorKind::AlreadyExists => "StoreExistsError",
        io::ErrorKind::NotFound => "StoreNotFoundError",
        io::ErrorKind::NotADirectory => "StoreNotADirectoryError",
        io::ErrorKind::IsADirectory => "StoreIsADirectoryError",
        io::ErrorKind::OutOfMemory => "OutOfMemoryError",
        io::ErrorKind::WouldBlock => "StoreLockedError",
        _ => "StoreError",
    };
    match (source.raw_os_error(), find(py, class)) {
        (Some(number), Ok(class)) => PyErr::from_type(class, (number, message)),
        _ => exception(py, class, message),
    }
}

/// Converts the exception of a Python mapping that is used as a store. Ctrl-C stays as it is, and a
/// closed file stays a `ClosedError`.
fn of_mapping(py: Python<'_>, raised: &PyErr, message: String) -> PyErr {
    if !raised.is_instance_of::<PyException>(py) {
        return raised.clone_ref(py);
    }
    let closed = find(py, "ClosedError").is_ok_and(|class| raised.is_instance(py, &class));
    let error = exception(py, if closed { "ClosedError" } else { "StoreError" }, message);
    error.set_cause(py, Some(raised.clone_ref(py)));
    error
}

/// Returns the error for interrupted work: the exception of a signal handler, usually Ctrl-C.
fn interrupted_error(py: Python<'_>, message: String) -> PyErr {
    engine::raised_in_file().unwrap_or_else(|| exception(py, "HyperslabError", message))
}

/// Converts an error of a store. `message` comes from the outermost error.
fn store_class(py: Python<'_>, error: &StoreError, message: String) -> PyErr {
    match error {
        StoreError::Io { source, .. } => system(py, source, message),
        StoreError::Server(refusal) => system(py, &refusal.kind.into(), message),
        StoreError::Interrupted { .. } => interrupted_error(py, message),
        StoreError::Closed { .. } => exception(py, "ClosedError", message),
        StoreError::Busy { .. } => exception(py, "BusyError", message),
        StoreError::Superseded { .. } => exception(py, "SupersededError", message),
        StoreError::InvalidKey { .. } => exception(py, "InvalidArgumentError", message),
        StoreError::Zip {
            source: ZipError::Method { .. } | ZipError::Encrypted | ZipError::Disks, ..
        } => exception(py, "UnsupportedError", message),
        StoreError::Reference(broken) => match broken.why {
            Unread::Refused(_) => exception(py, "ExternalFileError", message),
            Unread::Missing => exception(py, "StoreNotFoundError", message),
            Unread::Malformed(_) => exception(py, "MetadataValidationError", message),
            Unread::Short(_) => exception(py, "ChunkError", message),
            _ => exception(py, "StoreError", message),
        },
        StoreError::WrongSize { .. } | StoreError::OutOfRange { .. } | StoreError::TooLarge { .. } => {
            exception(py, "ChunkError", message)
        }
        _ => exception(py, "StoreError", message),
    }
}

/// Converts an error of a store.
pub(crate) fn store(py: Python<'_>, error: &StoreError) -> PyErr {
    store_class(py, error, error.to_string())
}

/// Converts an error of the engine.
pub(crate) fn array(py: Python<'_>, error: &ArrayError) -> PyErr {
    let message = error.to_string();
    match error {
        ArrayError::Index { .. } => exception(py, "BoundsCheckError", message),
        ArrayError::Shape { .. } => exception(py, "ArrayShapeError", message),
        ArrayError::Layout { .. } => exception(py, "MetadataValidationError", message),
        ArrayError::Memory { .. } => exception(py, "OutOfMemoryError", message),
        ArrayError::Store { source, .. } => store_class(py, source, message),
        ArrayError::Codec { array, chunk, key, source } => match &**source {
            CodecError::Foreign { codec, source } => {
                let note = format!("array '{array}', chunk {chunk:?}, key '{key}': codec {codec:?}");
                match source.downcast_ref::<Raised>() {
                    Some(raised) => raised.exception(py, &note),
                    None => exception(py, "ChunkError", message),
                }
            }
            CodecError::Unknown { .. } => exception(py, "UnknownCodecError", message),
            CodecError::Memory { .. } => exception(py, "OutOfMemoryError", message),
            _ => exception(py, "ChunkError", message),
        },
        ArrayError::Locate { source, .. } | ArrayError::Sink { source, .. } => {
            match source.downcast_ref::<Hdf5Error>() {
                Some(source) => hdf5_class(py, source, message),
                None => exception(py, "ChunkError", message),
            }
        }
        ArrayError::Interrupted { .. } => interrupted_error(py, message),
        ArrayError::Shard { .. } => exception(py, "ChunkError", message),
        ArrayError::ReadOnly { .. } => exception(py, "ReadOnlyError", message),
        ArrayError::Missing { .. } => exception(py, "ChunkNotFoundError", message),
        ArrayError::Replaced { .. } => exception(py, "ArrayNotFoundError", message),
        _ => exception(py, "HyperslabError", message),
    }
}

/// Converts an error of a hierarchy.
pub(crate) fn zarr(py: Python<'_>, error: &ZarrError) -> PyErr {
    zarr_class(py, error, error.to_string())
}

/// Converts an error of Zarr. `message` comes from the outermost error.
fn zarr_class(py: Python<'_>, error: &ZarrError, message: String) -> PyErr {
    let class = match error {
        ZarrError::Store(error) => return store(py, error),
        ZarrError::Array(error) => return array(py, error),
        ZarrError::Interrupted => return interrupted_error(py, message),
        ZarrError::NotFound { what: "array", .. } => "ArrayNotFoundError",
        ZarrError::NotFound { what: "group", .. } => "GroupNotFoundError",
        ZarrError::NotFound { .. } => "NodeNotFoundError",
        ZarrError::Exists { what: "group", .. } => "ContainsGroupError",
        ZarrError::Exists { .. } => "ContainsArrayError",
        // As in zarr-python: if an array is found instead of a group, the array is in the way.
        ZarrError::WrongNode { found: "an array", .. } => "ContainsArrayError",
        ZarrError::WrongNode { .. } => "NodeTypeValidationError",
        ZarrError::Metadata { .. } => "MetadataValidationError",
        ZarrError::Unsupported { what, .. } if what.contains("codec \"pickle\"") => {
            "PickleCodecDisabledError"
        }
        ZarrError::Unsupported { what, .. } if what.contains("codec") => "UnknownCodecError",
        ZarrError::Unsupported { .. } => "UnsupportedError",
        // As in zarr-python.
        ZarrError::Consolidated { .. } => "ArgumentTypeError",
        ZarrError::Path { .. } | ZarrError::Invalid { .. } => "InvalidArgumentError",
        _ => "HyperslabError",
    };
    let Some(cause) = user_codecs::cause(py, &message) else { return exception(py, class, message) };
    if !cause.is_instance_of::<PyException>(py) {
        return cause;
    }
    let error = exception(py, class, message);
    error.set_cause(py, Some(cause));
    error
}

/// Converts an error of an HDF5 file.
pub(crate) fn hdf5(py: Python<'_>, error: &Hdf5Error) -> PyErr {
    hdf5_class(py, error, error.to_string())
}

/// Converts an error of an HDF5 file. `message` comes from the outermost error.
fn hdf5_class(py: Python<'_>, error: &Hdf5Error, message: String) -> PyErr {
    let class = match error {
        Hdf5Error::Interrupted { .. } => return interrupted_error(py, message),
        Hdf5Error::Store(error) => return store_class(py, error, message),
        Hdf5Error::Array(error) => return array(py, error),
        Hdf5Error::NotFound { .. } => "NodeNotFoundError",
        Hdf5Error::NoData { .. } => "StoreNotFoundError",
        Hdf5Error::Exists { .. } => "NameExistsError",
        Hdf5Error::Unstorable { .. } => "InvalidArgumentError",
        Hdf5Error::ReadOnly { .. } => "ReadOnlyError",
        Hdf5Error::Unclosed { .. } | Hdf5Error::Incomplete { .. } => "UnclosedFileError",
        Hdf5Error::Refused { .. } => "ExternalFileError",
        Hdf5Error::Unsupported { what, .. } if what.contains("filter") => "UnknownCodecError",
        Hdf5Error::Unsupported { .. } | Hdf5Error::Parse { why: ParseError::Unsupported(_), .. } => {
            "UnsupportedError"
        }
        Hdf5Error::NotHdf5 { .. }
        | Hdf5Error::Parse { .. }
        | Hdf5Error::Invalid { .. }
        | Hdf5Error::Truncated { .. }
        | Hdf5Error::Heap(_) => "MetadataValidationError",
        _ => "HyperslabError",
    };
    exception(py, class, message)
}

/// Converts an error of any layer.
pub(crate) fn to_exception(py: Python<'_>, error: &Error) -> PyErr {
    let message = error.to_string();
    let class = match error {
        Error::Store(error) => return store(py, error),
        Error::Array(error) => return array(py, error),
        Error::Zarr(error) => return zarr(py, error),
        Error::Hdf5(error) => return hdf5(py, error),
        Error::Netcdf(NetcdfError::Store(error)) => return store(py, error),
        Error::Netcdf(NetcdfError::Array(error)) => return array(py, error),
        Error::Netcdf(_) | Error::References { .. } => "MetadataValidationError",
        Error::NotData { .. } => "UnknownFormatError",
        Error::NoVariable { .. } => "NodeNotFoundError",
        Error::Io { source, .. } => return system(py, source, message),
        Error::Interrupted => return interrupted_error(py, message),
        Error::OnlyRead { .. } => "ReadOnlyError",
        Error::NodeKind { wanted: "a group", .. } => "ContainsArrayError",
        Error::NodeKind { .. } => "NodeTypeValidationError",
        Error::Unsupported(error) => match &**error {
            Error::Hdf5(error) => return hdf5_class(py, error, message),
            Error::Zarr(error) => return zarr_class(py, error, message),
            _ => "InvalidArgumentError",
        },
        Error::Missing { kind: None, .. } => "NodeNotFoundError",
        Error::Missing { kind: Some(NodeKind::Array), .. } => "ArrayNotFoundError",
        Error::Missing { kind: Some(NodeKind::Group), .. } => "GroupNotFoundError",
        Error::Occupied { .. } => "StoreExistsError",
        Error::FileInTheWay(_) => "FileInTheWayError",
        Error::FileName { .. } => "InvalidArgumentError",
        Error::ReadOnlyStore { .. } => "ReadOnlyError",
        Error::FileMode { .. } => "UnsupportedError",
        Error::Location { .. } => "UnsupportedError",
        Error::Destination { .. } | Error::InTheWay { .. } => "DestinationError",
        Error::Superseded { .. } => "SupersededError",
        Error::Mismatch { .. } | Error::Differs(_) => "VerificationError",
        Error::Options(_) | Error::Join { .. } | Error::Copy { .. } | Error::Json(_) => {
            "InvalidArgumentError"
        }
        _ => "HyperslabError",
    };
    exception(py, class, message)
}
