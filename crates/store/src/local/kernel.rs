//! Copies between files that do not pass through this process.
//!
//! Both return what they have done, not why they could not do more: the reasons are many (another
//! file system, no such call, a container's filter, bugs of network file systems). The caller reads
//! and writes the rest, and if a disk is full or a file is broken, it meets that error again.

use std::os::fd::BorrowedFd;

/// Copies up to `len` bytes from `offset` of a file to the position of another, which goes on by as
/// much, and returns how many these were.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn copy(from: BorrowedFd<'_>, offset: u64, to: BorrowedFd<'_>, len: u64) -> u64 {
    let (mut at, mut left) = (offset, len);
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(super::MAX_TRANSFER);
        let copied =
            rustix::io::retry_on_intr(|| rustix::fs::copy_file_range(from, Some(&mut at), to, None, most));
        match copied {
            // The end of the file; some file systems without a size answer so too.
            Ok(0) | Err(_) => break,
            Ok(copied) => left -= copied as u64,
        }
    }
    len - left
}

/// Unknown elsewhere.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn copy(_: BorrowedFd<'_>, _: u64, _: BorrowedFd<'_>, _: u64) -> u64 {
    0
}

/// Makes a file that is empty have the bytes of another, both on the same disk blocks until one is
/// changed (reflink: btrfs, XFS, bcachefs, some on the network). Whether that was possible.
#[cfg(all(
    any(target_os = "linux", target_os = "android"),
    not(any(target_arch = "sparc", target_arch = "sparc64"))
))]
pub(super) fn share(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> bool {
    rustix::io::retry_on_intr(|| rustix::fs::ioctl_ficlone(to, from)).is_ok()
}

/// Unknown elsewhere.
#[cfg(not(all(
    any(target_os = "linux", target_os = "android"),
    not(any(target_arch = "sparc", target_arch = "sparc64"))
)))]
pub(super) fn share(_: BorrowedFd<'_>, _: BorrowedFd<'_>) -> bool {
    false
}
