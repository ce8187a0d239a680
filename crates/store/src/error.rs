//! Errors of stores.

use crate::turns::Refused;
use crate::{Key, Store, ZipError};
use std::fmt;
use std::io;
use thiserror::Error;

/// The operation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Opening or reading an object.
    Read,
    /// Writing or renaming an object.
    Write,
    /// Deleting an object or a prefix.
    Delete,
    /// Listing a prefix.
    List,
    /// Querying the size of an object.
    Size,
    /// Excluding other processes.
    Lock,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Delete => "delete",
            Operation::List => "list",
            Operation::Size => "look up",
            Operation::Lock => "lock",
        })
    }
}

/// Result of store calls.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// An error of a store. Each variant names the key; `url` is the store's.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The key could name something outside the store, or is not well formed.
    #[error("invalid key {key:?}: {why}")]
    InvalidKey {
        /// The key as given.
        key: String,
        /// Why it is invalid.
        why: &'static str,
    },
    /// The operating system refused: no permission, disk full, a file in place of a directory, …
    #[error("cannot {operation} '{key}' in {url}: {source}")]
    Io {
        /// The failed operation.
        operation: Operation,
        /// The key (empty: the root).
        key: String,
        /// The store.
        url: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The object's length differs from what its metadata says.
    #[error(
        "'{key}' in {url} has {found} bytes where {expected} are expected: it is truncated, or was written with other metadata"
    )]
    WrongSize {
        /// The object.
        key: String,
        /// The store.
        url: String,
        /// Expected size in bytes.
        expected: u64,
        /// Actual size in bytes. A lower bound, "more than `expected`", if the size was not
        /// measured exactly.
        found: u64,
    },
    /// A range goes past the end of the object.
    #[error("bytes {offset}..{} of '{key}' in {url} are wanted, but it has only {size}", offset.saturating_add(*len))]
    OutOfRange {
        /// The object.
        key: String,
        /// The store.
        url: String,
        /// Start of the range.
        offset: u64,
        /// Length of the range.
        len: u64,
        /// Size of the object.
        size: u64,
    },
    /// This thread is already changing the object, and would wait for itself forever.
    #[error(
        "'{key}' in {url} is being changed by this thread, further up its stack. A signal handler or a finalizer cannot change it now: let it set a flag, and change the object when the operation is over"
    )]
    Busy {
        /// The object.
        key: String,
        /// The store.
        url: String,
    },
    /// The store was closed.
    #[error("'{key}' in {url} is closed: open it again to read it")]
    Closed {
        /// The object.
        key: String,
        /// The store.
        url: String,
    },
    /// A wait for another writer of the object, or for a network, was interrupted.
    #[error("interrupted while waiting for '{key}' in {url}")]
    Interrupted {
        /// The object.
        key: String,
        /// The store.
        url: String,
    },
    /// A wait for another thread was given up because the program is ending.
    #[error(
        "'{key}' in {url} is left as it is: another thread was stopped in the middle of a change of it, because the program is ending. Join all threads before it ends"
    )]
    Abandoned {
        /// The object.
        key: String,
        /// The store.
        url: String,
    },
    /// A zip archive, or a member of one, is damaged or unsupported.
    #[error("'{key}' in {url} {source}")]
    Zip {
        /// The archive or the member.
        key: String,
        /// The archive's store.
        url: String,
        /// The problem.
        source: ZipError,
    },
    /// A server refused, failed, or could not be reached.
    #[error(transparent)]
    Server(Box<Refusal>),
    /// The object was replaced during a read.
    #[error("'{key}' in {url} was replaced while it was read: read it again")]
    Changed {
        /// The object.
        key: String,
        /// The store.
        url: String,
    },
    /// A file that was closed to save descriptors has since been removed or changed.
    #[error("'{key}' in {url} was changed, replaced or removed since it was opened: open it again")]
    Stale {
        /// The object.
        key: String,
        /// The store.
        url: String,
    },
    /// This writer came too late: another one does its work now, or has done it.
    #[error(
        "cannot {operation} '{key}' in {url}: this task was superseded. Another client has redone it, has finished the work, or has given it up. The object stays as it is. End this client"
    )]
    Superseded {
        /// The attempted change.
        operation: Operation,
        /// The object.
        key: String,
        /// The store.
        url: String,
    },
    /// The target of an object's reference cannot be read.
    #[error(transparent)]
    Reference(Box<BrokenReference>),
    /// The object is larger than any valid object could be.
    #[error("'{key}' in {url} has more than {limit} bytes, the most that its metadata allows")]
    TooLarge {
        /// The object.
        key: String,
        /// The store.
        url: String,
        /// The largest acceptable size.
        limit: u64,
    },
}

/// A server's refusal or failure. Contains no secrets: no credentials and no signatures.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "cannot {operation} '{key}' in {url}: {why}{}{}{}",
    .status.map_or_else(String::new, |status| format!(" (HTTP status {status})")),
    .request.as_ref().map_or_else(String::new, |request| format!(" [request {request}]")),
    .advice.as_ref().map_or_else(String::new, |advice| format!(". {advice}"))
)]
#[non_exhaustive]
pub struct Refusal {
    /// The failed operation.
    pub operation: Operation,
    /// The key (empty: the root).
    pub key: String,
    /// The store.
    pub url: String,
    /// The system error kind that it resembles.
    pub kind: io::ErrorKind,
    /// The HTTP status, if there was an answer.
    pub status: Option<u16>,
    /// The server's name for the request, for its operators.
    pub request: Option<String>,
    /// What happened.
    pub why: String,
    /// Advice to the user, in whole sentences.
    pub advice: Option<String>,
}

impl Refusal {
    /// A failure without an answer from the server.
    pub fn new(operation: Operation, key: &str, url: String, kind: io::ErrorKind, why: String) -> Self {
        Refusal { operation, key: key.to_owned(), url, kind, status: None, request: None, why, advice: None }
    }
}

/// A reference from an object to all or a range of another object, which cannot be read.
#[derive(Debug, Error)]
#[error("'{key}' in {url} is {}: {why}", self.reference_words())]
#[non_exhaustive]
pub struct BrokenReference {
    /// The object.
    pub key: String,
    /// The store.
    pub url: String,
    /// The referenced object.
    pub target: String,
    /// Offset and length. `None`: the whole object.
    pub range: Option<(u64, u64)>,
    /// Why it cannot be read.
    pub why: Unread,
}

impl BrokenReference {
    /// Creates an error from its fields.
    pub fn new(key: String, url: String, target: String, range: Option<(u64, u64)>, why: Unread) -> Self {
        BrokenReference { key, url, target, range, why }
    }

    /// A reference that names no object. `text` is the reference as written.
    pub fn malformed(key: String, url: String, text: String, why: String) -> Self {
        BrokenReference { key, url, target: text, range: None, why: Unread::Malformed(why) }
    }

    /// Describes the reference.
    fn reference_words(&self) -> String {
        let target = &self.target;
        match (&self.why, self.range) {
            (Unread::Malformed(_), _) => format!("no reference, but {target}"),
            (_, None) => format!("all of '{target}'"),
            (_, Some((offset, len))) => {
                format!("bytes {offset}..{} of '{target}'", offset.saturating_add(len))
            }
        }
    }
}

/// Why a referenced object cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Unread {
    /// Reading it is not allowed.
    #[error("{0}")]
    Refused(String),
    /// It does not exist.
    #[error("there is no such object")]
    Missing,
    /// It has only this many bytes, fewer than referenced.
    #[error("it has only {0} bytes: it was changed, or the references were made of another one")]
    Short(u64),
    /// It cannot be reached.
    #[error("{0}")]
    Unreachable(String),
    /// The reference names no object.
    #[error("{0}")]
    Malformed(String),
}

impl StoreError {
    /// An attempt to change a read-only store.
    pub fn read_only(store: &(impl Store + ?Sized), operation: Operation, key: Option<Key<'_>>) -> Self {
        let source = io::Error::new(io::ErrorKind::PermissionDenied, "the store is open for reading only");
        StoreError::io(store, operation, key.map_or("", |key| key.as_str()), source)
    }

    /// The operating system refused.
    pub fn io<S: Store + ?Sized>(
        store: &S,
        operation: Operation,
        key: &str,
        source: impl Into<io::Error>,
    ) -> Self {
        StoreError::Io { operation, key: key.to_owned(), url: store.url(), source: source.into() }
    }

    /// A range beyond the end of an object of `size` bytes.
    pub fn out_of_range<S: Store + ?Sized>(store: &S, key: &str, offset: u64, len: u64, size: u64) -> Self {
        StoreError::OutOfRange { key: key.to_owned(), url: store.url(), offset, len, size }
    }

    /// An object of more than `limit` bytes.
    pub fn too_large<S: Store + ?Sized>(store: &S, key: &str, limit: usize) -> Self {
        StoreError::TooLarge { key: key.to_owned(), url: store.url(), limit: limit as u64 }
    }

    pub(crate) fn zip<S: Store + ?Sized>(store: &S, key: &str, source: ZipError) -> Self {
        StoreError::Zip { key: key.to_owned(), url: store.url(), source }
    }

    /// A change by a writer that came too late.
    pub fn superseded<S: Store + ?Sized>(store: &S, operation: Operation, key: &str) -> Self {
        StoreError::Superseded { operation, key: key.to_owned(), url: store.url() }
    }

    /// The error for a refused turn.
    pub fn refused<S: Store + ?Sized>(refused: Refused, store: &S, key: &str) -> Self {
        let (key, url) = (key.to_owned(), store.url());
        match refused {
            Refused::Own => StoreError::Busy { key, url },
            Refused::Stopped => StoreError::Interrupted { key, url },
            Refused::Abandoned => StoreError::Abandoned { key, url },
        }
    }

    /// The kind of the operating system's error, or the kind that a server's answer resembles.
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        match self {
            StoreError::Io { source, .. } => Some(source.kind()),
            StoreError::Server(refusal) => Some(refusal.kind),
            _ => None,
        }
    }
}
