//! What can go wrong when an array is read or written.

use hyperslab_codec::CodecError;
use hyperslab_store::StoreError;
use thiserror::Error;

/// Why a chunk cannot be found: an error of the format, whose index of chunks could not be read or
/// cannot be right.
pub type LocateError = Box<dyn std::error::Error + Send + Sync>;

/// An error of the engine. It names the array; where a chunk is concerned, the chunk and its key.
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
    /// The parts of a layout contradict each other.
    #[error("array '{array}': {why}")]
    Layout {
        /// The array.
        array: String,
        /// The contradiction.
        why: String,
    },
    /// Values that are to be written contradict each other, or are not what the array holds.
    #[error("array '{array}': {why}")]
    Values {
        /// The array.
        array: String,
        /// Which value, and what is wrong.
        why: String,
    },
    /// There is not enough memory for a result or a chunk.
    #[error("array '{array}': cannot get {bytes} bytes of memory for {what}")]
    Memory {
        /// The array.
        array: String,
        /// What it was for.
        what: &'static str,
        /// How much.
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
    /// An object that is to be there is not: see [`crate::read::missing::check_stored`].
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
    /// A shard's index, or what it says of a chunk, cannot be right.
    #[error("array '{array}', shard '{key}'{}: {why}", chunk.as_ref().map(|chunk| format!(", inner chunk {chunk:?}")).unwrap_or_default())]
    Shard {
        /// The array.
        array: String,
        /// The shard's object.
        key: String,
        /// The inner chunk's index in the array per axis; `None`: the index as a whole.
        chunk: Option<Vec<u64>>,
        /// What is wrong.
        why: String,
    },
    /// A part of an array that is made of others cannot be read from there.
    #[error("array '{array}', part {part}: {source}")]
    Part {
        /// The array.
        array: String,
        /// Which of its parts, counted from 0.
        part: usize,
        /// The format's reason.
        source: LocateError,
    },
    /// The chunk cannot be written where it is; or the array cannot be written, which has no chunk
    /// of its own.
    #[error("array '{array}'{}: {why}", if key.is_empty() { String::new() } else { format!(", chunk {chunk:?}, key '{key}'") })]
    ReadOnly {
        /// The array.
        array: String,
        /// The chunk's index per axis.
        chunk: Vec<u64>,
        /// The object.
        key: String,
        /// Why not.
        why: &'static str,
    },
    /// Another array has taken its place, or none: what is stored there cannot be read as this one.
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
    /// Whether stored bytes are wrong, and stay so: nobody can read them.
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
