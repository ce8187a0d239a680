//! Errors of zip archives.

use thiserror::Error;

/// Describes a faulty archive or member. The message follows the name of either.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ZipError {
    /// There is no end-of-directory record.
    #[error("is no zip archive, or is truncated: its last {searched} bytes hold no end of a directory")]
    NoEnd {
        /// Number of bytes searched.
        searched: u64,
    },
    /// The directory, or its end, contradicts itself or the archive.
    #[error("has a damaged zip directory: at byte {offset}, {why}")]
    Directory {
        /// Offset in the archive.
        offset: u64,
        /// The problem at that offset.
        why: &'static str,
    },
    /// The directory is too long.
    #[error("has a zip directory of {size} bytes; at most {limit} are read")]
    LongDirectory {
        /// Its size in bytes.
        size: u64,
        /// The largest accepted size.
        limit: u64,
    },
    /// The archive spans several files.
    #[error("is a part of a zip archive of several disks; join the parts first")]
    Disks,
    /// The directory entry does not lead to this member.
    #[error("is damaged: at byte {offset} of the zip archive, {why}")]
    Member {
        /// Offset in the archive.
        offset: u64,
        /// The problem at that offset.
        why: &'static str,
    },
    /// A member is encrypted.
    #[error("is encrypted, which is not supported")]
    Encrypted,
    /// A member is compressed with an unsupported method.
    #[error("is compressed by method {method} ({}) of zip; only stored and deflated members are read", method_name(*method))]
    Method {
        /// The method's number.
        method: u16,
    },
    /// A member's bytes differ from the bytes that were written.
    #[error("is damaged: its CRC-32 is {found:08x}, the zip directory says {expected:08x}")]
    Crc {
        /// The CRC-32 in the directory.
        expected: u32,
        /// The CRC-32 of the bytes.
        found: u32,
    },
    /// The archive is no longer the one that was opened.
    #[error("has changed since it was opened; open it again")]
    Changed,
    /// Another writer is active.
    #[error("is being written by another process, or by another store of this one; close that first")]
    Locked,
    /// The staged members belong to changes that are completed or were given up.
    #[error("was finished, or written by another process, while a part of it was prepared; start again")]
    Finished,
    /// A name is too long.
    #[error("has a name of {0} bytes; zip has room for 65535")]
    LongName(usize),
}

/// Names of compression methods (section 4.4.5 of the specification).
fn method_name(method: u16) -> &'static str {
    match method {
        1 => "shrunk",
        2..=5 => "reduced",
        6 => "imploded",
        9 => "Deflate64",
        12 => "bzip2",
        14 => "LZMA",
        20 | 93 => "Zstandard",
        95 => "XZ",
        98 => "PPMd",
        99 => "AES-encrypted",
        _ => "unknown",
    }
}
