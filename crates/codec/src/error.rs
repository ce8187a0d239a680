//! Errors that can occur between stored bytes and elements.

use thiserror::Error;

/// The result of codec functions.
pub type Result<T, E = CodecError> = std::result::Result<T, E>;

/// An error of a codec. The engine adds the array, the chunk and the key on the way up.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The encoded bytes are truncated, corrupt, or not of this codec at all.
    #[error("{codec}: {why}")]
    Corrupt {
        /// The codec.
        codec: &'static str,
        /// The fault, with offsets and values where known.
        why: String,
    },
    /// Not enough memory for the codec's output.
    #[error("{codec}: no memory for {bytes} bytes")]
    Memory {
        /// The codec.
        codec: &'static str,
        /// How many bytes are needed.
        bytes: u64,
    },
    /// The encoded bytes decode to another size than the metadata implies.
    #[error("{codec}: decodes to {found} bytes where {expected} are expected")]
    Size {
        /// The codec.
        codec: &'static str,
        /// Bytes that the metadata implies.
        expected: u64,
        /// Bytes found; a lower bound if decoding stopped at the expected size.
        found: u64,
    },
    /// A chunk of variable-length elements decodes to more than its few stored bytes may.
    #[error(
        "{codec}: {stored} stored bytes decode to more than {limit} bytes, the limit for a chunk of this \
         size; to read the chunk, raise the setting `vlen_chunk_bound` (environment: \
         HYPERSLAB_VLEN_CHUNK_BOUND)"
    )]
    Expands {
        /// The codec.
        codec: &'static str,
        /// Bytes that are stored.
        stored: u64,
        /// The most that they may decode to.
        limit: u64,
    },
    /// A checksum does not match.
    #[error("{codec}: checksum is {found:#010x} where {expected:#010x} is stored: the chunk is corrupt")]
    Checksum {
        /// The codec.
        codec: &'static str,
        /// The stored sum.
        expected: u32,
        /// The sum of the bytes.
        found: u32,
    },
    /// The bytes cannot be encoded (too large for the format, …).
    #[error("{codec}: cannot encode: {why}")]
    Encode {
        /// The codec.
        codec: &'static str,
        /// The reason.
        why: String,
    },
    /// Elements of variable length were read or written like elements of one size.
    #[error("{codec}: elements of variable length are read with read_ragged and written with write_ragged")]
    Ragged {
        /// The codec.
        codec: &'static str,
    },
    /// The codec cannot encode this array. The message names the array.
    #[error("{why}")]
    Unfit {
        /// The mismatch.
        why: String,
    },
    /// There is no codec of this name. The message names it and lists the known ones.
    #[error("codec {name:?} is not supported (supported: {supported})")]
    Unknown {
        /// The name in the metadata.
        name: String,
        /// The known names, joined by commas.
        supported: String,
    },
    /// A codec with this name exists already, or the name is reserved.
    #[error("a codec cannot be registered as {name:?}: another codec has this name")]
    Taken {
        /// The name.
        name: String,
    },
    /// A codec in another language failed.
    #[error("{codec}: {source}")]
    Foreign {
        /// The codec.
        codec: &'static str,
        /// The error from that language.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The codec's configuration is not valid.
    #[error("codec {name:?}: invalid configuration: {why}")]
    Config {
        /// The codec.
        name: String,
        /// The fault.
        why: String,
    },
}

impl CodecError {
    /// Shorthand for [`CodecError::Corrupt`].
    pub(crate) fn corrupt(codec: &'static str, why: impl Into<String>) -> Self {
        CodecError::Corrupt { codec, why: why.into() }
    }

    /// Shorthand for [`CodecError::Memory`].
    pub(crate) fn memory(codec: &'static str, bytes: usize) -> Self {
        CodecError::Memory { codec, bytes: bytes as u64 }
    }

    /// Shorthand for [`CodecError::Encode`].
    pub(crate) fn encode(codec: &'static str, why: impl Into<String>) -> Self {
        CodecError::Encode { codec, why: why.into() }
    }

    /// Shorthand for [`CodecError::Config`].
    pub(crate) fn config(name: &str, why: impl Into<String>) -> Self {
        CodecError::Config { name: name.into(), why: why.into() }
    }

    /// Shorthand for [`CodecError::Size`].
    pub(crate) fn size(codec: &'static str, expected: usize, found: usize) -> Self {
        CodecError::Size { codec, expected: expected as u64, found: found as u64 }
    }
}
