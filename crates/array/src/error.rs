//! Errors of reading and writing arrays.

use hyperslab_codec::CodecError;
use hyperslab_store::StoreError;
use thiserror::Error;

/// The reason why a chunk cannot be found: the format's index of chunks cannot be read, or cannot
/// be right.
pub type LocateError = Box<dyn std::error::Error + Send + Sync>;

/// An error of the engine. It names the array and, if a chunk is concerned, the chunk and its key.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ArrayError {
    /// An index is outside the array, or there are too many.
    #[error("array '{array}': {why}")]
    Index {
        /// The array.
        array: String,
        /// Which index, and the bounds.
        why: String,
    },
    /// The caller's memory does not fit the selection.
    #[error("array '{array}': the selection has shape {expected:?}, the array given has {found:?}")]
    Shape {
        /// The array.
        array: String,
        /// Shape of the selection.
        expected: Vec<u64>,
        /// Shape of the memory.
        found: Vec<u64>,
    },
    /// The parts of a layout disagree.
    #[error("array '{array}': {why}")]
    Layout {
        /// The array.
        array: String,
        /// The contradiction.
        why: String,
    },
    /// The values to be written disagree, or the array cannot hold them.
    #[error("array '{array}': {why}")]
    Values {
        /// The array.
        array: String,
        /// Which value, and the problem.
        why: String,
    },
    /// There is not enough memory for a result or a chunk.
    #[error("array '{array}': cannot get {bytes} bytes of memory for {what}")]
    Memory {
        /// The array.
        array: String,
        /// The purpose of the memory.
        what: &'static str,
        /// The number of bytes.
        bytes: u64,
    },
    /// The store failed on a chunk.
    #[error("array '{array}', chunk {chunk:?}: {source}")]
    Store {
        /// The array.
        array: String,
        /// The chunk's index per axis.
        chunk: Vec<u64>,
        /// The cause; it names the key.
        source: Box<StoreError>,
    },
    /// A chunk cannot be found: the format's index of chunks cannot be read, or cannot be right.
    #[error("array '{array}', chunk {chunk:?}: {source}")]
    Locate {
        /// The array.
        array: String,
        /// The chunk's index per axis.
        chunk: Vec<u64>,
        /// The format's reason.
        source: LocateError,
    },
    /// The bytes of a chunk are not what the metadata says.
    #[error("array '{array}', chunk {chunk:?}, key '{key}': {source}")]
    Codec {
        /// The array.
        array: String,
        /// The chunk's index per axis.
        chunk: Vec<u64>,
        /// The object.
        key: String,
        /// The cause.
        source: Box<CodecError>,
    },
    /// An object that must exist does not: see [`crate::read::missing_objects::check_stored`].
    #[error(
        "array '{array}', chunk {chunk:?}, key '{key}': it is not stored, and missing chunks are not read as fill values here"
    )]
    Missing {
        /// The array.
        array: String,
        /// The chunk's index per axis, or the shard's.
        chunk: Vec<u64>,
        /// The object.
        key: String,
    },
    /// A shard's index, or its entry for a chunk, cannot be right.
    #[error("array '{array}', shard '{key}'{}: {why}", chunk.as_ref().map(|chunk| format!(", inner chunk {chunk:?}")).unwrap_or_default())]
    Shard {
        /// The array.
        array: String,
        /// The shard's object.
        key: String,
        /// The inner chunk's index in the array per axis; `None` if the shard's index as a whole is
        /// wrong.
        chunk: Option<Vec<u64>>,
        /// The problem.
        why: String,
    },
    /// A part of an array that is made of other arrays cannot be read.
    #[error("array '{array}', part {part}: {source}")]
    Part {
        /// The array.
        array: String,
        /// The number of the part, counted from 0.
        part: usize,
        /// The format's reason.
        source: LocateError,
    },
    /// The chunk cannot be written where it is, or the array has no chunks of its own to write.
    #[error("array '{array}'{}: {why}", if key.is_empty() { String::new() } else { format!(", chunk {chunk:?}, key '{key}'") })]
    ReadOnly {
        /// The array.
        array: String,
        /// The chunk's index per axis.
        chunk: Vec<u64>,
        /// The object.
        key: String,
        /// The reason.
        why: &'static str,
    },
    /// The elements of the array cannot be written.
    #[error("array '{array}': {source}")]
    Sink {
        /// The array.
        array: String,
        /// The format's reason.
        source: LocateError,
    },
    /// The array was replaced or deleted: the stored bytes cannot be read as this array.
    #[error("array '{array}' was replaced or deleted since it was opened: open it again")]
    Replaced {
        /// The array.
        array: String,
    },
    /// The caller asked to stop (a signal, Ctrl-C).
    #[error("array '{array}': interrupted")]
    Interrupted {
        /// The array.
        array: String,
    },
}

impl ArrayError {
    /// Returns whether stored bytes are wrong, and stay so: nobody can read them.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            ArrayError::Shard { .. } => true,
            ArrayError::Codec { source, .. } => matches!(
                **source,
                CodecError::Corrupt { .. } | CodecError::Size { .. } | CodecError::Checksum { .. }
            ),
            ArrayError::Store { source, .. } => {
                matches!(**source, StoreError::WrongSize { .. } | StoreError::TooLarge { .. })
            }
            _ => false,
        }
    }
}
