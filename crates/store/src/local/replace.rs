//! Objects that come in pieces: a new file that grows, and is then put in place like any other
//! write.
//!
//! The file's position is always its end, so appending and copying inside the kernel are single
//! plain calls. Overwriting passes its own position.
//!
//! Small pieces are collected in memory up to [`GATHERED`] bytes. A file system takes one long
//! write faster than many short ones that each start in the middle of a page.

use super::write::Unnamed;
use super::write_out::{WriteOut, write_parts};
use super::{LocalStore, MAX_TRANSFER, PathBytes, file_url, kernel};
use crate::gathered::given_up;
use crate::{Ask, Expected, Key, Opened, Operation, RangeRead, Replacement, Result, StoreError};
use rustix::fs::SeekFrom;
use rustix::io::{pwrite, retry_on_intr};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

/// Most bytes per step when the system cannot copy and the bytes go through memory.
const PIECE: u64 = if cfg!(test) { 1000 } else { 1 << 20 };

/// Pieces are written when they reach this size together. With it, writing four shards of 16 MiB in
/// chunks of 16 KiB on ext4 takes 0.8 of the time of one write per chunk. Other sizes were not
/// measured.
const GATHERED: usize = if cfg!(test) { 20_000 } else { 256 << 10 };

impl LocalStore {
    pub(crate) fn replace_object(&self, key: Key<'_>) -> io::Result<NewFile<'_>> {
        let mut target = PathBytes::new();
        let target = self.path(key.as_str(), &mut target)?;
        let (new, made_parents) = self.with_parents(key, target, || self.create_beside(target))?;
        let (key, target) = (key.as_str().to_owned(), target.to_owned());
        let store = Cow::Borrowed(self);
        let (gathered, out) = (Vec::new(), self.write_out());
        let new = Some(new);
        Ok(NewFile { store, key, target, new, len: 0, gathered, out, failed: false, made_parents })
    }
}

/// A file under construction.
#[derive(Debug)]
pub(crate) struct NewFile<'s> {
    store: Cow<'s, LocalStore>,
    key: String,
    target: CString,
    /// `None` once the object is in place or has been given up.
    new: Option<Unnamed>,
    /// Length of everything appended, including `gathered`.
    len: u64,
    /// The last bytes, which are not in the file yet.
    gathered: Vec<u8>,
    out: WriteOut,
    /// True if a step failed. The file may then contain bytes that do not count.
    failed: bool,
    /// True if parent directories were created for the file.
    made_parents: bool,
}

impl NewFile<'_> {
    /// Clones the store, so that the file can be kept.
    pub(crate) fn keep(mut self) -> NewFile<'static> {
        // Moved field by field: dropping a `NewFile` undoes it.
        NewFile {
            store: Cow::Owned(self.store.clone().into_owned()),
            key: std::mem::take(&mut self.key),
            target: std::mem::take(&mut self.target),
            new: self.new.take(),
            len: self.len,
            gathered: std::mem::take(&mut self.gathered),
            out: self.out,
            failed: self.failed,
            made_parents: self.made_parents,
        }
    }

    /// A second descriptor, to read what has been written. Gathered bytes are not included.
    pub(crate) fn reader(&self) -> Result<File> {
        let file = self.new.as_ref().ok_or_else(|| self.error(given_up()))?.file();
        file.and_then(File::try_clone).map_err(|error| self.error(error))
    }

    /// Truncates the file to `len` bytes.
    pub(crate) fn cut(&mut self, len: u64) -> Result<()> {
        let mut cut = 0;
        self.step(|new, file| {
            let end = new.len.min(len);
            rustix::fs::ftruncate(file, end).map_err(|error| new.error(error))?;
            retry_on_intr(|| rustix::fs::seek(file, SeekFrom::Start(end)))
                .map_err(|error| new.error(error))?;
            cut = new.len - end;
            Ok(0)
        })?;
        self.len -= cut;
        Ok(())
    }

    fn error(&self, source: impl Into<io::Error>) -> StoreError {
        self.store.error(Operation::Write, &self.key, source)
    }

    /// Flushes, then runs a step on the file, which returns how many bytes it appended.
    fn step(&mut self, work: impl FnOnce(&Self, &File) -> Result<u64>) -> Result<()> {
        self.flush(&[])?;
        let answer = self.open_file().and_then(|file| work(self, file));
        self.len += answer.inspect_err(|_| self.failed = true)?;
        Ok(())
    }

    /// The file, unless a step failed.
    fn open_file(&self) -> Result<&File> {
        let file = self.new.as_ref().filter(|_| !self.failed).and_then(|new| new.file().ok());
        file.ok_or_else(|| self.error(given_up()))
    }

    /// Appends `parts`, and writes them at once.
    pub(crate) fn write(&mut self, parts: &[&[u8]]) -> Result<()> {
        self.flush(parts)?;
        self.len += parts.iter().map(|part| part.len() as u64).sum::<u64>();
        Ok(())
    }

    /// Writes the gathered bytes, followed by `parts`.
    fn flush(&mut self, parts: &[&[u8]]) -> Result<()> {
        let (file, mut out) = (self.open_file()?.as_fd(), self.out);
        out.continue_at(self.len - self.gathered.len() as u64);
        let all: SmallVec<[&[u8]; 4]> =
            std::iter::once(self.gathered.as_slice()).chain(parts.iter().copied()).collect();
        let written = write_parts(file, &all, &mut out).map_err(|error| self.error(error));
        drop(all);
        self.out = out;
        self.gathered.clear();
        written.inspect_err(|_| self.failed = true)
    }
}

impl Replacement for NewFile<'_> {
    fn len(&self) -> u64 {
        self.len
    }

    fn append(&mut self, parts: &[&[u8]]) -> Result<()> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        if self.gathered.len() + len >= GATHERED {
            return self.write(parts);
        }
        self.open_file()?;
        parts.iter().for_each(|part| self.gathered.extend_from_slice(part));
        self.len += len as u64;
        Ok(())
    }

    fn overwrite(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.step(|new, file| {
            let len = bytes.len() as u64;
            if offset.checked_add(len).is_none_or(|end| end > new.len) {
                return Err(StoreError::out_of_range(&*new.store, &new.key, offset, len, new.len));
            }
            let (mut at, mut left) = (offset, bytes);
            while !left.is_empty() {
                let (part, _) = left.split_at(left.len().min(MAX_TRANSFER));
                let written = match retry_on_intr(|| pwrite(file, part, at)) {
                    Ok(0) => return Err(new.error(io::ErrorKind::WriteZero)),
                    Ok(written) => written,
                    Err(error) => return Err(new.error(error)),
                };
                at += written as u64;
                left = left.split_at(written).1;
            }
            Ok(0)
        })
    }

    fn open(&mut self) -> Result<Option<Box<dyn Opened>>> {
        self.flush(&[])?;
        let (file, size) = (self.reader()?, self.len);
        Ok(Some(Box::new(SoFar { file, size, key: self.key.clone(), url: file_url(&self.store.root) })))
    }

    fn copy(&mut self, from: &dyn Opened, offset: u64, len: u64) -> Result<()> {
        self.step(|new, file| {
            if offset.checked_add(len).is_none_or(|end| end > from.size()) {
                return Err(StoreError::out_of_range(&*new.store, &new.key, offset, len, from.size()));
            }
            let mut done = from.file().map_or(0, |source| kernel::copy(source, offset, file.as_fd(), len));
            // Copy the rest through memory, piece by piece.
            let mut piece = vec![0; usize::try_from((len - done).min(PIECE)).unwrap_or(0)];
            let mut out = new.out;
            out.continue_at(new.len + done);
            while done < len {
                piece.truncate(usize::try_from(len - done).unwrap_or(usize::MAX));
                from.read_ranges(&mut [RangeRead { offset: offset + done, buf: &mut piece }])?;
                write_parts(file.as_fd(), &[&piece], &mut out).map_err(|error| new.error(error))?;
                done += piece.len() as u64;
            }
            Ok(len)
        })
    }

    fn share(&mut self, from: &dyn Opened) -> Result<bool> {
        let mut shared = false;
        self.step(|new, file| {
            let Some(source) = from.file().filter(|_| new.len == 0) else { return Ok(0) };
            shared = kernel::share(source, file.as_fd());
            if !shared {
                return Ok(0);
            }
            let size = retry_on_intr(|| rustix::fs::seek(file, SeekFrom::End(0)))
                .map_err(|error| new.error(error))?;
            // Somebody wrote into the source file in place meanwhile.
            if size != from.size() {
                let (key, url) = (new.key.clone(), file_url(&new.store.root));
                return Err(StoreError::WrongSize { key, url, expected: from.size(), found: size });
            }
            Ok(size)
        })?;
        Ok(shared)
    }

    fn commit(self: Box<Self>) -> Result<()> {
        self.commit_over(Expected::Any, None).map(|_| ())
    }

    fn commit_over(mut self: Box<Self>, expected: Expected<'_>, ask: Option<Ask<'_>>) -> Result<bool> {
        if self.failed {
            return Err(self.error(given_up()));
        }
        if self.new.is_none() {
            return Ok(true);
        }
        self.flush(&[])?;
        let Some(mut new) = self.new.take() else { return Ok(true) };
        let key = Key::new(&self.key)?;
        // The directory may have been removed because it was empty.
        let put = self
            .store
            .with_parents(key, &self.target, || self.store.put(&mut new, &self.target, expected, ask));
        if !matches!(put, Ok((true, _))) {
            drop(new);
            self.prune();
        }
        match put {
            Ok((put, _)) => Ok(put),
            Err(error) => Err(self.store.stopped(Operation::Write, &self.key, error)),
        }
    }
}

/// The bytes of a file under construction, up to now.
#[derive(Debug)]
struct SoFar {
    file: File,
    size: u64,
    key: String,
    url: String,
}

impl Opened for SoFar {
    fn read_ranges(&self, ranges: &mut [RangeRead<'_>]) -> Result<()> {
        for RangeRead { offset, buf } in ranges {
            let (key, url) = (self.key.clone(), self.url.clone());
            if offset.checked_add(buf.len() as u64).is_none_or(|end| end > self.size) {
                let (offset, len, size) = (*offset, buf.len() as u64, self.size);
                return Err(StoreError::OutOfRange { key, url, offset, len, size });
            }
            let read = self.file.read_exact_at(buf, *offset);
            read.map_err(|source| StoreError::Io { operation: Operation::Read, key, url, source })?;
        }
        Ok(())
    }

    fn size(&self) -> u64 {
        self.size
    }
}

impl NewFile<'_> {
    /// Removes the directories that were created for an object that was not written.
    fn prune(&self) {
        if self.made_parents
            && let Ok(key) = Key::new(&self.key)
        {
            self.store.prune(key);
        }
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        if self.new.take().is_some() {
            self.prune();
        }
    }
}
