//! Errors that can occur between stored metadata and an array.

use crate::json::Json;
use hyperslab_array::ArrayError;
use hyperslab_store::StoreError;
use thiserror::Error;

/// An error of a Zarr hierarchy. It names the store, and the affected object or node.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ZarrError {
    /// There is no such node.
    #[error("no Zarr {what} at '/{path}' in {url}")]
    NotFound {
        /// The kind of node: "array", "group", "array or group".
        what: &'static str,
        /// The store.
        url: String,
        /// The node.
        path: String,
    },
    /// There is already a node where a new node should go.
    #[error("there already is a Zarr {what} at '/{path}' in {url}")]
    Exists {
        /// The existing node: "array", "group".
        what: &'static str,
        /// The store.
        url: String,
        /// The node.
        path: String,
    },
    /// An array where a group is expected, or the other way round.
    #[error("'/{path}' in {url} is {found} where {expected} is wanted")]
    WrongNode {
        /// The store.
        url: String,
        /// The node.
        path: String,
        /// "an array", "a group".
        expected: &'static str,
        /// "an array", "a group".
        found: &'static str,
    },
    /// Stored metadata is not valid.
    #[error("'{key}' in {url}: {why}")]
    Metadata {
        /// The store.
        url: String,
        /// The metadata object.
        key: String,
        /// The field, the expected and the found value.
        why: String,
    },
    /// Stored metadata is valid, but needs an extension that is not supported.
    #[error("'{key}' in {url}: {what}")]
    Unsupported {
        /// The store.
        url: String,
        /// The metadata object.
        key: String,
        /// The name of the extension.
        what: String,
    },
    /// A name or path that no node may have.
    #[error("invalid path {path:?}: {why}")]
    Path {
        /// The path or name.
        path: String,
        /// The fault of the path or name.
        why: &'static str,
    },
    /// A new array or group, or a change, is not possible.
    #[error("'/{path}': {why}")]
    Invalid {
        /// The node.
        path: String,
        /// The argument, the expected and the given value.
        why: String,
    },
    /// The store has no consolidated metadata.
    #[error("'/{path}': {why}")]
    Consolidated {
        /// The group.
        path: String,
        /// The store, and what to do.
        why: String,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The engine refused the array.
    #[error(transparent)]
    Array(#[from] ArrayError),
}

/// A result, usually with a [`ZarrError`].
pub type Result<T, E = ZarrError> = std::result::Result<T, E>;

/// A fault of a metadata document, before the document is known.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The document is not valid.
    Invalid(String),
    /// The document needs an extension that is not supported.
    Unsupported(String),
}

impl Problem {
    /// Turns the problem into an error that names the document.
    pub(crate) fn at(self, url: &str, key: &str) -> ZarrError {
        let (url, key) = (url.to_owned(), key.to_owned());
        match self {
            Problem::Invalid(why) => ZarrError::Metadata { url, key, why },
            Problem::Unsupported(what) => ZarrError::Unsupported { url, key, what },
        }
    }

    /// The message.
    pub(crate) fn text(self) -> String {
        match self {
            Problem::Invalid(text) | Problem::Unsupported(text) => text,
        }
    }
}

/// Returns the error for a document that is not valid. Takes the arguments of `format!`.
macro_rules! invalid {
    ($($why:tt)*) => { Err($crate::error::Problem::Invalid(std::fmt::format(format_args!($($why)*)))) };
}
pub(crate) use invalid;

/// Returns the error for an extension that is not supported.
macro_rules! unsupported {
    ($($what:tt)*) => { Err($crate::error::Problem::Unsupported(std::fmt::format(format_args!($($what)*)))) };
}
pub(crate) use unsupported;

/// Returns the error for an unexpected value of a metadata field.
pub(crate) fn unexpected_value<T>(field: &str, what: &str, found: &Json) -> Result<T, Problem> {
    invalid!("{field}: expected {what}, found {}", found.brief())
}
