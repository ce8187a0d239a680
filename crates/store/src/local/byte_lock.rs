//! Locks of single bytes far behind the end of a file, which only this project takes.
//!
//! They belong to an open file (`F_OFD_SETLK`), not to a process, and end with it.

use rustix::io::Errno;
use std::io;
use std::os::fd::AsFd;

/// Held exclusively while a writer changes the state of the file. No file is as long.
pub(super) const CHANGES: i64 = 1 << 62;

/// Shared by the writers that have the file open.
pub(super) const PRESENT: i64 = CHANGES + 1;

/// Shared by writers with appended steps that the file does not have yet.
pub(super) const APPENDED: i64 = CHANGES + 2;

/// Shared by the readers that have the file open.
pub(super) const READERS: i64 = CHANGES + 3;

/// A lock of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Shared,
    Exclusive,
    None,
}

/// The lock of a byte, as the kernel wants it.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn range_of(byte: i64, kind: Kind) -> libc::flock {
    // SAFETY: all bytes of the structure may be zero.
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    let kind = match kind {
        Kind::Shared => libc::F_RDLCK,
        Kind::Exclusive => libc::F_WRLCK,
        Kind::None => libc::F_UNLCK,
    };
    #[allow(clippy::cast_possible_truncation, reason = "the constants are small")]
    let (kind, whence) = (kind as libc::c_short, libc::SEEK_SET as libc::c_short);
    (range.l_type, range.l_whence, range.l_start, range.l_len) = (kind, whence, byte, 1);
    range
}

/// Locks or unlocks a byte for this open file, without waiting.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn lock_byte(file: impl AsFd, byte: i64, kind: Kind) -> rustix::io::Result<()> {
    use std::os::fd::AsRawFd;
    let mut range = range_of(byte, kind);
    // SAFETY: the descriptor is open, and the structure outlives the call.
    let answer = unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_OFD_SETLK, &raw mut range) };
    if answer == 0 {
        Ok(())
    } else {
        Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
    }
}

/// Returns `true` if another open file holds a lock of a byte.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn is_byte_locked(file: impl AsFd, byte: i64) -> bool {
    use std::os::fd::AsRawFd;
    let mut range = range_of(byte, Kind::Exclusive);
    // SAFETY: the descriptor is open, and the structure outlives the call.
    let answer = unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_OFD_GETLK, &raw mut range) };
    // An unknown answer counts as one: then nothing is done that needs to be alone.
    answer != 0 || i32::from(range.l_type) != libc::F_UNLCK
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn lock_byte(_: impl AsFd, _: i64, _: Kind) -> rustix::io::Result<()> {
    Err(Errno::NOSYS)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn is_byte_locked(_: impl AsFd, _: i64) -> bool {
    false
}
