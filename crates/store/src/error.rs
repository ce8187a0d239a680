//! What can go wrong between a key and its bytes.

use crate::turns::Refused;
use crate::{Key, Store, ZipError};
use std::fmt;
use std::io;
use thiserror::Error;

/// What the store was doing when the operating system refused.
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
    /// Asking for the size of an object.
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

/// What calls of a store return.
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
        /// What is wrong with it.
        why: &'static str,
    },
    /// The operating system refused: no permission, disk full, a file where a directory should be,
    /// …
    #[error("cannot {operation} '{key}' in {url}: {source}")]
    Io {
        /// What was tried.
        operation: Operation,
        /// On which key (empty: the root).
        key: String,
        /// The store.
        url: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The object is not as long as its metadata says.
    #[error(
        "'{key}' in {url} has {found} bytes where {expected} are expected: it is truncated, or was written with other metadata"
    )]
    WrongSize {
        /// The object.
        key: String,
        /// The store.
        url: String,
        /// Bytes that it should have.
        expected: u64,
        /// Bytes that it has (a lower bound: "more than `expected`" where it was not measured
        /// exactly).
        found: u64,
    },
    /// A range lies beyond the end of the object.
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
    /// This very thread is changing the object: it would wait for itself for ever.
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
    /// A wait, for another writer of the object or for a network, was given up.
    #[error("interrupted while waiting for '{key}' in {url}")]
    Interrupted {
        /// The object.
        key: String,
        /// The store.
        url: String,
    },
    /// A wait for another thread was given up, because the program is ending.
    #[error(
        "'{key}' in {url} is left as it is: another thread was stopped in the middle of a change of it, because the program is ending. Join all threads before it ends"
    )]
    Abandoned {
        /// The object.
        key: String,
        /// The store.
        url: String,
    },
    /// A zip archive, or a member of one, is not as it should be.
    #[error("'{key}' in {url} {source}")]
    Zip {
        /// The archive or the member.
        key: String,
        /// The store that it is in.
        url: String,
        /// What is wrong with it.
        source: ZipError,
    },
    /// A server refused, failed, or could not be reached.
    #[error(transparent)]
    Server(Box<Refusal>),
    /// Others replaced the object while it was read.
    #[error("'{key}' in {url} was replaced while it was read: read it again")]
    Changed {
        /// The object.
        key: String,
        /// The store.
        url: String,
    },
    /// A file that was closed for want of descriptors is not there any more, or not the same.
    #[error("'{key}' in {url} was changed, replaced or removed since it was opened: open it again")]
    Stale {
        /// The object.
        key: String,
        /// The store.
        url: String,
    },
    /// Somebody else does the work of this writer now, or has done it: this one came too late.
    #[error(
        "cannot {operation} '{key}' in {url}: this task was superseded. Another client has redone it, has finished the work, or has given it up. The object stays as it is. End this client"
    )]
    Superseded {
        /// The change that was tried.
        operation: Operation,
        /// The object.
        key: String,
        /// The store.
        url: String,
    },
    /// What an object refers to cannot be read.
    #[error(transparent)]
    Reference(Box<BrokenReference>),
    /// The object is larger than anything valid could be.
    #[error("'{key}' in {url} has more than {limit} bytes, the most that its metadata allows")]
    TooLarge {
        /// The object.
        key: String,
        /// The store.
        url: String,
        /// The most that was acceptable.
        limit: u64,
    },
}

/// What a server answered instead of what was asked for. Nothing in it is secret: no credentials, no
/// signatures.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "cannot {operation} '{key}' in {url}: {why}{}{}{}",
    .status.map_or_else(String::new, |status| format!(" (HTTP status {status})")),
    .request.as_ref().map_or_else(String::new, |request| format!(" [request {request}]")),
    .advice.as_ref().map_or_else(String::new, |advice| format!(". {advice}"))
)]
#[non_exhaustive]
pub struct Refusal {
    /// What was tried.
    pub operation: Operation,
    /// On which key (empty: the root).
    pub key: String,
    /// The store.
    pub url: String,
    /// What kind of error of the system it resembles.
    pub kind: io::ErrorKind,
    /// The status of the answer, if there was an answer.
    pub status: Option<u16>,
    /// What the server calls the request, for its operators.
    pub request: Option<String>,
    /// What happened.
    pub why: String,
    /// What to do about it: whole sentences.
    pub advice: Option<String>,
}

impl Refusal {
    /// A failure without an answer of the server.
    pub fn new(operation: Operation, key: &str, url: String, kind: io::ErrorKind, why: String) -> Self {
        Refusal { operation, key: key.to_owned(), url, kind, status: None, request: None, why, advice: None }
    }
}

/// An object is a range of another object, or all of it, which cannot be read.
#[derive(Debug, Error)]
#[error("'{key}' in {url} is {}: {why}", self.told())]
#[non_exhaustive]
pub struct BrokenReference {
    /// The object.
    pub key: String,
    /// The store.
    pub url: String,
    /// The other object.
    pub target: String,
    /// Offset and length. `None`: all of it.
    pub range: Option<(u64, u64)>,
    /// Why it cannot be read.
    pub why: Unread,
}

impl BrokenReference {
    /// With these fields.
    pub fn new(key: String, url: String, target: String, range: Option<(u64, u64)>, why: Unread) -> Self {
        BrokenReference { key, url, target, range, why }
    }

    /// A reference that names no object. `text` is what it says.
    pub fn malformed(key: String, url: String, text: String, why: String) -> Self {
        BrokenReference { key, url, target: text, range: None, why: Unread::Malformed(why) }
    }

    /// What the reference says.
    fn told(&self) -> String {
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

/// Why a referenced object is not read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Unread {
    /// It may not be.
    #[error("{0}")]
    Refused(String),
    /// It does not exist.
    #[error("there is no such object")]
    Missing,
    /// It has so many bytes, and should have more.
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
    /// A change of a store that only reads.
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

    /// Why there was no turn.
    pub fn refused<S: Store + ?Sized>(refused: Refused, store: &S, key: &str) -> Self {
        let (key, url) = (key.to_owned(), store.url());
        match refused {
            Refused::Own => StoreError::Busy { key, url },
            Refused::Stopped => StoreError::Interrupted { key, url },
            Refused::Abandoned => StoreError::Abandoned { key, url },
        }
    }

    /// The operating system's error kind, where there is one, or what a server's answer resembles.
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        match self {
            StoreError::Io { source, .. } => Some(source.kind()),
            StoreError::Server(refusal) => Some(refusal.kind),
            _ => None,
        }
    }
}
