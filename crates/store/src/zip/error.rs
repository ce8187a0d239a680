//! What can be wrong with a zip archive.

use thiserror::Error;

/// What is wrong with an archive, or with one of its members. Reads behind the name of either.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ZipError {
    /// There is no end of a directory.
    #[error("is no zip archive, or is truncated: its last {searched} bytes hold no end of a directory")]
    NoEnd {
        /// Bytes that were searched.
        searched: u64,
    },
    /// The directory, or its end, contradicts itself or the archive.
    #[error("has a damaged zip directory: at byte {offset}, {why}")]
    Directory {
        /// Where in the archive.
        offset: u64,
        /// What is wrong there.
        why: &'static str,
    },
    /// The directory is too long.
    #[error("has a zip directory of {size} bytes; at most {limit} are read")]
    LongDirectory {
        /// Its bytes.
        size: u64,
        /// The most that is accepted.
        limit: u64,
    },
    /// The archive is one of several files.
    #[error("is a part of a zip archive of several disks; join the parts first")]
    Disks,
    /// The directory leads to something else than this member.
    #[error("is damaged: at byte {offset} of the zip archive, {why}")]
    Member {
        /// Where in the archive.
        offset: u64,
        /// What is wrong there.
        why: &'static str,
    },
    /// A member is encrypted.
    #[error("is encrypted, which is not supported")]
    Encrypted,
    /// A member is compressed by something else than deflate.
    #[error("is compressed by method {method} ({}) of zip; only stored and deflated members are read", method_name(*method))]
    Method {
        /// The number of the method.
        method: u16,
    },
    /// The bytes of a member are not those that were written.
    #[error("is damaged: its CRC-32 is {found:08x}, the zip directory says {expected:08x}")]
    Crc {
        /// What the directory says.
        expected: u32,
        /// That of the bytes.
        found: u32,
    },
    /// The archive is not the one that was opened.
    #[error("has changed since it was opened; open it again")]
    Changed,
    /// Somebody else writes.
    #[error("is being written by another process, or by another store of this one; close that first")]
    Locked,
    /// What was staged belongs to changes that are complete or given up.
    #[error("was finished, or written by another process, while a part of it was prepared; start again")]
    Finished,
    /// A name does not fit.
    #[error("has a name of {0} bytes; zip has room for 65535")]
    LongName(usize),
}

/// Section 4.4.5 of the specification.
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
