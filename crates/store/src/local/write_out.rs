//! Starts to send a new file to the disk while it is being written.
//!
//! Some files must be on disk before they take their place: with `fsync`, and on ext4 if they
//! replace another file (see `auto_da_alloc` in ext4(5)). They would be sent at the end, while
//! their writer waits. To avoid that, the system is asked to start once one [`PART`] has been
//! written. Replacing 8 MiB files on ext4, one after the other, then takes 0.8 of the time.
//!
//! In all other cases nothing is requested: the system writes files when it has time.

use super::{MAX_BATCH, MAX_TRANSFER};
use rustix::io::{retry_on_intr, writev};
use smallvec::SmallVec;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

/// Bytes sent to the disk at a time. Smaller files are not sent early. Measured with 512 KiB to 4
/// MiB.
const PART: usize = if cfg!(test) { 3000 } else { 1 << 20 };

/// How much of a new file has been sent to the disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteOut {
    when: When,
    /// End of the part that was sent.
    sent: u64,
    /// End of the part that was written.
    end: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Early,
    /// Early, if the file turns out to be on a file system that sends replacing files to the disk.
    IfReplacing,
    Never,
}

impl WriteOut {
    pub(super) fn new(fsync: bool, replaces: bool) -> Self {
        let when = match (fsync, replaces) {
            (true, _) => When::Early,
            (false, true) => When::IfReplacing,
            (false, false) => When::Never,
        };
        WriteOut { when, sent: 0, end: 0 }
    }

    /// Sets the file's length, which others may have written.
    pub(super) fn continue_at(&mut self, len: u64) {
        self.end = len;
        self.sent = self.sent.min(len);
    }

    /// The most bytes per system call when `bytes` bytes are written.
    fn most(&mut self, file: BorrowedFd<'_>, bytes: u64) -> usize {
        if self.end - self.sent + bytes < PART as u64 {
            return MAX_TRANSFER;
        }
        if self.when == When::IfReplacing {
            self.when = if sends_what_replaces(file) { When::Early } else { When::Never };
        }
        match self.when {
            When::Early => MAX_TRANSFER.min(PART),
            _ => MAX_TRANSFER,
        }
    }

    /// Notes that `bytes` more bytes were written.
    fn wrote(&mut self, file: BorrowedFd<'_>, bytes: usize) {
        self.end += bytes as u64;
        if self.when == When::Early && self.end - self.sent >= PART as u64 {
            send(file, self.sent, self.end - self.sent);
            self.sent = self.end;
        }
    }
}

/// Returns whether renaming a file over another sends it to the disk.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn sends_what_replaces(file: BorrowedFd<'_>) -> bool {
    /// `EXT4_SUPER_MAGIC` of statfs(2). ext2 and ext3 have the same number.
    const EXT4: u64 = 0xEF53;
    rustix::fs::fstatfs(file).is_ok_and(|found| found.f_type as u64 == EXT4)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn sends_what_replaces(_: BorrowedFd<'_>) -> bool {
    false
}

/// Asks the system to start writing a range to the disk.
///
/// A failure is ignored: the range is then written later, and flushing the file reports any error.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn send(file: BorrowedFd<'_>, offset: u64, len: u64) {
    use std::os::fd::AsRawFd;
    if let (Ok(offset), Ok(len)) = (offset.try_into(), len.try_into()) {
        // SAFETY: passes numbers and an open descriptor; touches no memory of ours.
        unsafe { libc::sync_file_range(file.as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE) };
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn send(_: BorrowedFd<'_>, _: u64, _: u64) {}

/// Appends all bytes of all parts to a file, in as few calls as possible.
pub(super) fn write_parts(file: BorrowedFd<'_>, parts: &[&[u8]], out: &mut WriteOut) -> io::Result<()> {
    let most = out.most(file, parts.iter().map(|part| part.len() as u64).sum());
    let mut pending = parts.iter().flat_map(|part| part.chunks(most)).peekable();
    while pending.peek().is_some() {
        let mut batch: SmallVec<[IoSlice<'_>; MAX_BATCH]> = SmallVec::new();
        let mut room = most;
        while batch.len() < MAX_BATCH
            && let Some(part) = pending.next_if(|part| part.len() <= room)
        {
            room -= part.len();
            batch.push(IoSlice::new(part));
        }
        let mut left = batch.as_mut_slice();
        while !left.is_empty() {
            match retry_on_intr(|| writev(file, left))? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => {
                    out.wrote(file, written);
                    IoSlice::advance_slices(&mut left, written);
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{PART, When, WriteOut, write_parts};
    use std::fs::File;
    use std::os::fd::AsFd;

    #[test]
    fn all_bytes_are_written_and_whole_parts_are_sent() {
        let directory = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..10_000u32).map(|n| (n % 251) as u8).collect();
        for (fsync, replaces) in [(false, false), (false, true), (true, false), (true, true)] {
            let path = directory.path().join("x");
            let file = File::create(&path).unwrap();
            let mut out = WriteOut::new(fsync, replaces);
            for parts in [&[&bytes[..10], &bytes[10..9_000]][..], &[&[], &bytes[9_000..]], &[]] {
                write_parts(file.as_fd(), parts, &mut out).unwrap();
            }
            assert!(std::fs::read(&path).unwrap() == bytes);
            assert_eq!(out.end, 10_000);
            assert_ne!(out.when, When::IfReplacing, "it is known after the first part");
            match out.when {
                When::Early => assert!(out.sent > 10_000 - PART as u64, "{}", out.sent),
                _ => assert_eq!(out.sent, 0),
            }
            assert!(fsync == (out.when == When::Early) || replaces);
        }
    }
}
