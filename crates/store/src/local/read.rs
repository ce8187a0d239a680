//! Reading objects: one open, one read, one close.

use super::stamp::Seen;
use super::{LocalStore, MAX_BATCH, MAX_TRANSFER, PathBytes, held};
use crate::{Key, Opened, Operation, RangeRead, Result, Stamp, Store, StoreError, check_size};
use rustix::fs::{FileType, Mode, OFlags, SeekFrom, Stat};
use rustix::io::{Errno, pread, preadv, retry_on_intr};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::ffi::CStr;
use std::fmt::Debug;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

impl LocalStore {
    /// Opens an object. `None` if there is none.
    ///
    /// A directory opens too. The read recognises it.
    pub(super) fn open_object(&self, key: Key<'_>) -> Result<Option<OwnedFd>> {
        let mut bytes = PathBytes::new();
        self.path(key.as_str(), &mut bytes)
            .map_err(io::Error::from)
            .and_then(open_path)
            .map_err(|error| self.error(Operation::Read, key.as_str(), error))
    }

    /// The `stat` of an object's path. `None` if there is nothing.
    pub(super) fn stat(&self, key: Key<'_>) -> Result<Option<Stat>> {
        let mut bytes = PathBytes::new();
        match self.path(key.as_str(), &mut bytes).and_then(|path| retry_on_intr(|| rustix::fs::stat(path))) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(self.error(Operation::Size, key.as_str(), error)),
        }
    }

    /// The size of an open file. `None` if it is a directory.
    ///
    /// Not needed in the steady state: for unusual results only.
    pub(super) fn size_of_file(&self, key: Key<'_>, file: BorrowedFd<'_>) -> Result<Option<u64>> {
        let found = rustix::fs::fstat(file).map_err(io::Error::from);
        found
            .and_then(|found| object_size(&found))
            .map_err(|error| self.error(Operation::Read, key.as_str(), error))
    }

    /// Interprets a failed read. A directory means that there is no object.
    ///
    /// For a regular file, the error is returned.
    fn missing_or(&self, key: Key<'_>, file: BorrowedFd<'_>, error: io::Error) -> Result<bool> {
        match self.size_of_file(key, file)? {
            None => Ok(false),
            Some(_) => Err(self.error(Operation::Read, key.as_str(), error)),
        }
    }

    pub(super) fn read_exact_of(&self, key: Key<'_>, buf: &mut [u8]) -> Result<bool> {
        let Some(file) = self.open_object(key)? else { return Ok(false) };
        let wanted = buf.len();
        let mut beyond = [0];
        match fill(file.as_fd(), &mut [IoSliceMut::new(buf), IoSliceMut::new(&mut beyond)], 0, wanted) {
            Ok(read) if read == wanted && wanted > 0 => Ok(true),
            Ok(read) => match self.size_of_file(key, file.as_fd())? {
                None => Ok(false),
                Some(_) if read == wanted => Ok(true),
                Some(size) => {
                    let found = if read < wanted { read as u64 } else { size.max(read as u64) };
                    check_size(self, key, Some(wanted as u64), found).map(|()| true)
                }
            },
            Err(error) => self.missing_or(key, file.as_fd(), error),
        }
    }

    /// Reads an open file into `buf`, which is empty.
    pub(super) fn read_all_of_file(
        &self,
        key: Key<'_>,
        file: BorrowedFd<'_>,
        buf: &mut Vec<u8>,
        limit: usize,
    ) -> Result<bool> {
        let too_large = || StoreError::too_large(self, key.as_str(), limit);
        loop {
            if buf.len() > limit {
                return Err(too_large());
            }
            if buf.len() == buf.capacity() {
                // The size is only a hint that saves repeated growing. The end of the file decides.
                let Some(size) = self.size_of_file(key, file)? else { return Ok(false) };
                if size > limit as u64 {
                    return Err(too_large());
                }
                let size = usize::try_from(size).unwrap_or(usize::MAX);
                let capacity = size.max(buf.len().saturating_mul(2)).max(511).min(limit).saturating_add(1);
                if buf.try_reserve_exact(capacity - buf.len()).is_err() {
                    return Err(self.error(Operation::Read, key.as_str(), io::ErrorKind::OutOfMemory));
                }
            }
            let asked = (buf.capacity() - buf.len()).min(MAX_TRANSFER);
            match append(file, buf, asked) {
                Ok(read) if read < asked => break,
                Ok(_) => {}
                Err(error) => {
                    buf.clear();
                    return self.missing_or(key, file, error.into());
                }
            }
        }
        if buf.len() > limit {
            return Err(too_large());
        }
        // A directory may read as empty, and so does `/dev/null`.
        Ok(!buf.is_empty() || self.size_of_file(key, file)?.is_some())
    }

    pub(super) fn read_ranges_of_file(
        &self,
        key: Key<'_>,
        file: BorrowedFd<'_>,
        size: Option<u64>,
        ranges: &mut [RangeRead<'_>],
    ) -> Result<bool> {
        let only_existence = ranges.iter().all(|range| range.buf.is_empty());
        // Seeking to the end takes a third of the time of `fstat`. Directories, pipes and devices
        // either give a different size or fail when they are read.
        if only_existence || size.is_some_and(|size| rustix::fs::seek(file, SeekFrom::End(0)) != Ok(size)) {
            let Some(found) = self.size_of_file(key, file)? else { return Ok(false) };
            check_size(self, key, size, found)?;
        }
        // File offsets are signed. Nothing lies beyond this limit, and the system would report an
        // invalid argument.
        let end = size.unwrap_or(i64::MAX.unsigned_abs());
        let complete = if ranges.iter().any(|range| !lies_within(range, end)) {
            false
        } else {
            match fill_ranges(file, ranges) {
                Ok(complete) => complete,
                Err(error) => return self.missing_or(key, file, error),
            }
        };
        if complete {
            return Ok(true);
        }
        let Some(size) = self.size_of_file(key, file)? else { return Ok(false) };
        let outside = ranges.iter().find(|range| !lies_within(range, size));
        let (offset, len) = outside.map_or((0, 0), |range| (range.offset, range.buf.len() as u64));
        Err(StoreError::out_of_range(self, key.as_str(), offset, len, size))
    }
}

/// An open file: opened for one object, or held open by a [`FileStore`](super::FileStore).
#[derive(Debug)]
pub(super) struct OpenFile<'s, F = OwnedFd> {
    pub(super) store: &'s LocalStore,
    pub(super) key: Cow<'s, str>,
    pub(super) file: F,
    /// Set once reads are no longer allowed.
    pub(super) closed: Option<&'s AtomicBool>,
    pub(super) seen: Seen,
}

impl LocalStore {
    /// Opens an object that borrows its key. Allocates nothing.
    pub(super) fn open_file<'s>(&'s self, key: Key<'s>, size: Option<u64>) -> Result<Option<OpenFile<'s>>> {
        let Some(file) = self.open_object(key)? else { return Ok(None) };
        self.look_at(key, file, size, None)
    }

    /// Checks an open file. `None` if it is a directory.
    pub(super) fn look_at<'s, F: AsFd>(
        &'s self,
        key: Key<'s>,
        file: F,
        size: Option<u64>,
        closed: Option<&'s AtomicBool>,
    ) -> Result<Option<OpenFile<'s, F>>> {
        let seen = Seen::of(file.as_fd());
        let Some(seen) = seen.map_err(|error| self.error(Operation::Read, key.as_str(), error))? else {
            // A directory; anything else is an error.
            self.size_of_file(key, file.as_fd())?;
            return Ok(None);
        };
        check_size(self, key, size, seen.size)?;
        Ok(Some(OpenFile { store: self, key: Cow::Borrowed(key.as_str()), file, closed, seen }))
    }
}

impl OpenFile<'_> {
    /// Copies the key, so that the open file can be kept.
    pub(super) fn keep(self, store: &LocalStore) -> OpenFile<'_> {
        let key = Cow::Owned(self.key.into_owned());
        OpenFile { store, key, file: self.file, closed: None, seen: self.seen }
    }
}

impl<F: AsFd + Send + Sync + Debug> Opened for OpenFile<'_, F> {
    fn read_ranges(&self, ranges: &mut [RangeRead<'_>]) -> Result<()> {
        if self.closed.is_some_and(|closed| closed.load(Ordering::Relaxed)) {
            return Err(StoreError::Closed { key: self.key.clone().into_owned(), url: self.store.url() });
        }
        let key = Key::unchecked(&self.key);
        if !self.store.read_ranges_of_file(key, self.file.as_fd(), None, ranges)? {
            return Err(self.store.error(Operation::Read, &self.key, io::ErrorKind::NotFound));
        }
        Ok(())
    }

    fn size(&self) -> u64 {
        self.seen.size
    }

    fn stamp(&self) -> Option<Stamp> {
        Some(self.seen.stamp)
    }

    fn vouched(&self) -> Option<Stamp> {
        self.seen.vouched(self.file.as_fd())
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}

/// Opens a file for reading. `None` if there is none.
pub(super) fn open_path(path: &CStr) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
    let open = |flags| retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty()));
    loop {
        let opened = match open(flags | OFlags::NONBLOCK) {
            // A file server holds a lease on this regular file: a blocking open makes it release
            // the lease. A busy device may return this too, and a blocking open of it would wait
            // forever.
            Err(Errno::AGAIN) if is_regular(path) => open(flags),
            answer => answer,
        };
        return match opened {
            Ok(file) => Ok(Some(file)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            // Close a file that is only held open for later reads.
            Err(error) if held::is_out_of_descriptors(error) && held::free_one() => continue,
            // A socket, or a device without a driver.
            Err(Errno::NXIO | Errno::NODEV) => Err(special("a socket, or a device without a driver")),
            Err(error) => Err(error.into()),
        };
    }
}

fn is_regular(path: &CStr) -> bool {
    rustix::fs::stat(path).is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::RegularFile)
}

/// The size of an object. `None` for a directory.
///
/// Fails for anything else: reading it could block forever, and it must not pass for a missing
/// object.
pub(super) fn object_size(found: &Stat) -> io::Result<Option<u64>> {
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => Ok(Some(u64::try_from(found.st_size).unwrap_or(0))),
        FileType::Directory => Ok(None),
        FileType::Fifo => Err(special("a named pipe")),
        FileType::Socket => Err(special("a socket")),
        _ => Err(special("a device")),
    }
}

fn special(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}, and only regular files are read"))
}

/// Returns whether a range ends at `end` or before.
///
/// True for empty ranges, which only ask for existence.
fn lies_within(range: &RangeRead<'_>, end: u64) -> bool {
    let len = range.buf.len() as u64;
    len == 0 || range.offset.checked_add(len).is_some_and(|last| last <= end)
}

/// Reads ranges, adjacent ones with one call. Returns `false` if the file ends too early.
fn fill_ranges(file: BorrowedFd<'_>, ranges: &mut [RangeRead<'_>]) -> io::Result<bool> {
    let mut pending = ranges.iter_mut().filter(|range| !range.buf.is_empty()).peekable();
    while let Some(RangeRead { offset, buf }) = pending.next() {
        let mut len = buf.len();
        let mut batch: SmallVec<[IoSliceMut<'_>; MAX_BATCH]> = SmallVec::new();
        batch.push(IoSliceMut::new(buf));
        while batch.len() < MAX_BATCH
            && let Some(next) = pending.next_if(|next| Some(next.offset) == offset.checked_add(len as u64))
        {
            len += next.buf.len();
            batch.push(IoSliceMut::new(next.buf));
        }
        if fill(file, &mut batch, *offset, len)? < len {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Reads from `offset` until `bufs` are full or the file ends, and returns the number of bytes.
///
/// Reads at least once, and with one call if the system allows. Once `enough` bytes have arrived, a
/// short read is taken for the end of the file.
fn fill(
    file: BorrowedFd<'_>,
    mut bufs: &mut [IoSliceMut<'_>],
    offset: u64,
    enough: usize,
) -> io::Result<usize> {
    let mut total = 0usize;
    loop {
        // Also drops leading empty buffers: a call without room would return 0, which means the end
        // of the file.
        IoSliceMut::advance_slices(&mut bufs, 0);
        let alone = bufs.len() == 1;
        let Some(first) = bufs.first_mut() else { return Ok(total) };
        let at = offset.saturating_add(total as u64);
        let len = first.len();
        let (asked, answer) = if alone || len > MAX_TRANSFER {
            // Cheaper than a list of one buffer, which the system copies and checks.
            let (part, _) = first.split_at_mut(len.min(MAX_TRANSFER));
            (part.len(), retry_on_intr(|| pread(file, &mut *part, at)))
        } else {
            let mut asked = 0usize;
            let fitting = bufs.iter().take_while(|buf| {
                let fits = buf.len() <= MAX_TRANSFER - asked;
                asked += if fits { buf.len() } else { 0 };
                fits
            });
            let fitting = fitting.count();
            let (part, _) = bufs.split_at_mut(fitting);
            (asked, retry_on_intr(|| preadv(file, part, at)))
        };
        let read = answer?;
        total += read;
        if read == 0 || (read < asked && total >= enough) {
            return Ok(total);
        }
        IoSliceMut::advance_slices(&mut bufs, read);
    }
}

/// Reads up to `most` bytes at position `buf.len()` of the file into the spare capacity of `buf`.
///
/// The read is positional, because pipes and terminals, which are not objects, refuse that.
fn append(file: BorrowedFd<'_>, buf: &mut Vec<u8>, most: usize) -> rustix::io::Result<usize> {
    let start = buf.len();
    let spare = buf.spare_capacity_mut();
    let room = spare.len().min(most);
    let (room, _) = spare.split_at_mut(room);
    let read = retry_on_intr(|| pread(file, &mut *room, start as u64).map(|(filled, _)| filled.len()))?;
    // SAFETY: the call initialised `read` bytes from `start`, inside the spare capacity.
    unsafe { buf.set_len(start + read) };
    Ok(read)
}
