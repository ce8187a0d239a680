//! Copies between files that do not pass through this process.
//!
//! Both functions return how much they have done, not why they stopped: the reasons are many
//! (another file system, no such call, a container's filter, bugs of network file systems). The
//! caller copies the rest with reads and writes. If a disk is full or a file is broken, it meets
//! the same error again.

use std::os::fd::BorrowedFd;

/// Copies up to `len` bytes at `offset` of one file to the current position of another.
///
/// Advances that position, and returns the number of bytes copied.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn copy(from: BorrowedFd<'_>, offset: u64, to: BorrowedFd<'_>, len: u64) -> u64 {
    let (mut at, mut left) = (offset, len);
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(super::MAX_TRANSFER);
        let copied =
            rustix::io::retry_on_intr(|| rustix::fs::copy_file_range(from, Some(&mut at), to, None, most));
        match copied {
            // The end of the file. Some file systems that report no sizes return this too.
            Ok(0) | Err(_) => break,
            Ok(copied) => left -= copied as u64,
        }
    }
    len - left
}

/// Not available elsewhere.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn copy(_: BorrowedFd<'_>, _: u64, _: BorrowedFd<'_>, _: u64) -> u64 {
    0
}

/// Makes an empty file share the disk blocks of another until one of them is changed (reflink).
///
/// Works on btrfs, XFS, bcachefs and some network file systems. Returns whether it worked.
#[cfg(all(
    any(target_os = "linux", target_os = "android"),
    not(any(target_arch = "sparc", target_arch = "sparc64"))
))]
pub(super) fn share(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> bool {
    rustix::io::retry_on_intr(|| rustix::fs::ioctl_ficlone(to, from)).is_ok()
}

/// Not available elsewhere.
#[cfg(not(all(
    any(target_os = "linux", target_os = "android"),
    not(any(target_arch = "sparc", target_arch = "sparc64"))
)))]
pub(super) fn share(_: BorrowedFd<'_>, _: BorrowedFd<'_>) -> bool {
    false
}
