//! What can go wrong between stored metadata and an array.

use crate::json::Json;
use hyperslab_array::ArrayError;
use hyperslab_store::StoreError;
use thiserror::Error;

/// An error of a Zarr hierarchy. It names the store, and the object or node concerned.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ZarrError {
    /// Nothing is stored there.
    #[error("no Zarr {what} at '/{path}' in {url}")]
    NotFound {
        /// What was looked for: "array", "group", "array or group".
        what: &'static str,
        /// The store.
        url: String,
        /// The node.
        path: String,
    },
    /// Something is stored where a new node should go.
    #[error("there already is a Zarr {what} at '/{path}' in {url}")]
    Exists {
        /// What is there.
        what: &'static str,
        /// The store.
        url: String,
        /// The node.
        path: String,
    },
    /// An array where a group is wanted, or the other way round.
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
        /// The field, what was expected, what was found.
        why: String,
    },
    /// Stored metadata is valid, but asks for something that is not supported.
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
        /// What is wrong with it.
        why: &'static str,
    },
    /// A new array or group, or a change, was asked for that cannot be.
    #[error("'/{path}': {why}")]
    Invalid {
        /// The node.
        path: String,
        /// Which argument, what was expected, what was given.
        why: String,
    },
    /// The store has no consolidated metadata.
    #[error("'/{path}': {why}")]
    Consolidated {
        /// The group.
        path: String,
        /// Which store, and what to do.
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

/// What is wrong with a metadata document, before it is known which one it is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// It is not valid.
    Invalid(String),
    /// It asks for an extension that is not supported.
    Unsupported(String),
}

impl Problem {
    /// Names the document.
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

/// Refuses a document that is not valid: an error with this message, as `format!` takes it.
macro_rules! invalid {
    ($($why:tt)*) => { Err($crate::error::Problem::Invalid(std::fmt::format(format_args!($($why)*)))) };
}
pub(crate) use invalid;

/// Refuses an extension that is not supported.
macro_rules! unsupported {
    ($($what:tt)*) => { Err($crate::error::Problem::Unsupported(std::fmt::format(format_args!($($what)*)))) };
}
pub(crate) use unsupported;

/// Refuses a value of a metadata field.
pub(crate) fn expected<T>(field: &str, what: &str, found: &Json) -> Result<T, Problem> {
    invalid!("{field}: expected {what}, found {}", found.brief())
}
