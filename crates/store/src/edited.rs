//! A file that is changed in place, for formats that keep a hierarchy in one file.
//!
//! It is a store of one object, which readers use like any other. Its bytes are on disk, in memory,
//! or on disk without a name until they go to another place as a whole.

use crate::fork::{Mutex, RwLock};
use crate::local::EditedDisk;
use crate::spooled::{Destination, Spooled};
use crate::{Cost, Facts, Holds, Key, OnDisk, Opened, Operation, RangeRead, Result, Store, StoreError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Options of a file that is changed.
#[derive(Clone, Copy, Debug)]
pub struct EditedOptions {
    /// Lock the file against other writers.
    pub locks: bool,
    /// Wait for the disk where the format orders its writes.
    pub fsync: bool,
}

impl Default for EditedOptions {
    fn default() -> Self {
        EditedOptions { locks: true, fsync: false }
    }
}

/// A file that is read and changed.
#[derive(Debug)]
pub struct EditedFile {
    key: String,
    place: EditedBytes,
    open: AtomicBool,
}

#[derive(Debug)]
enum EditedBytes {
    Disk(EditedDisk),
    /// Gated. The second is the list of changes, if they are recorded.
    Memory(RwLock<Vec<u8>>, Option<Recorded>),
    Spooled(Spooled),
}

/// The changes of a file, for tests.
#[derive(Debug, Default)]
struct Recorded {
    /// Gated.
    changes: Mutex<Vec<Change>>,
    /// Changes from this number on fail. 0: none fails.
    fails_from: AtomicUsize,
}

/// Excludes other writers from a file, until it is dropped.
#[derive(Debug)]
#[must_use = "the lock is released at once"]
pub struct ChangeLock<'f> {
    _lock: Option<crate::local::ChangeLock<'f>>,
}

/// A change of the bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Bytes were written at an offset.
    Write(u64, Vec<u8>),
    /// The file got another length.
    Length(u64),
    /// Everything before was to be on the disk.
    Sync,
}

impl EditedFile {
    /// Creates a file. It gets its name when it is [published](EditedFile::publish).
    ///
    /// `replaces`: it may take the place of another file then. Otherwise this fails if there is one,
    /// and so does publishing.
    pub fn create(path: &Path, replaces: bool, options: EditedOptions) -> Result<EditedFile> {
        EditedDisk::create(path, replaces, options.locks, options.fsync).map(EditedFile::of_disk)
    }

    /// Opens a file to change it. `None`: there is none.
    ///
    /// Fails with an error of the kind [`io::ErrorKind::WouldBlock`] if another program changes it.
    pub fn open(path: &Path, options: EditedOptions) -> Result<Option<EditedFile>> {
        Ok(EditedDisk::open(path, options.locks, options.fsync)?.map(EditedFile::of_disk))
    }

    fn of_disk(disk: EditedDisk) -> EditedFile {
        let name = disk.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let key =
            if Key::new(&name).is_ok() { name } else { format!("_{}", name.replace(['\\', '\0', '/'], "_")) };
        EditedFile { key, place: EditedBytes::Disk(disk), open: AtomicBool::new(true) }
    }

    /// Makes a file in memory.
    pub fn memory(bytes: Vec<u8>) -> EditedFile {
        let place = EditedBytes::Memory(RwLock::new(bytes), None);
        EditedFile { key: "file".into(), place, open: AtomicBool::new(true) }
    }

    /// Makes a file in memory that records its changes, for tests of their order.
    pub fn recorded(bytes: Vec<u8>) -> EditedFile {
        let place = EditedBytes::Memory(RwLock::new(bytes), Some(Recorded::default()));
        EditedFile { key: "file".into(), place, open: AtomicBool::new(true) }
    }

    /// Makes a file of the bytes in `spool`, which nobody else has open. [`EditedFile::deliver`] makes
    /// the object at the destination of them.
    ///
    /// `is_draft`: the destination is only kept. Another file, made of this one, goes there.
    pub fn spooled(
        spool: std::fs::File,
        destination: Option<Arc<dyn Destination>>,
        is_draft: bool,
    ) -> EditedFile {
        let key = destination.as_ref().map_or_else(|| "file".to_owned(), |to| to.key().to_owned());
        let place = EditedBytes::Spooled(Spooled::new(spool, destination, is_draft));
        EditedFile { key, place, open: AtomicBool::new(true) }
    }

    /// The place that gets the bytes of a spooled file when they are complete.
    pub fn destination(&self) -> Option<&Arc<dyn Destination>> {
        match &self.place {
            EditedBytes::Spooled(spooled) => spooled.destination(),
            _ => None,
        }
    }

    /// Makes the object at the destination of a spooled file, in one step. Does nothing for other
    /// files.
    ///
    /// After an error there is no new object, and this may be called again.
    pub fn deliver(&self) -> Result<()> {
        match &self.place {
            EditedBytes::Spooled(spooled) => spooled.deliver(),
            _ => Ok(()),
        }
    }

    /// The changes since the file was made, if they are recorded.
    pub fn changes(&self) -> Vec<Change> {
        match &self.place {
            EditedBytes::Memory(_, Some(recorded)) => recorded.changes.lock().clone(),
            _ => Vec::new(),
        }
    }

    /// Makes changes of a recorded file fail like a full disk, after as many more. 0: none fails.
    pub fn fail_after(&self, more: usize) {
        if let EditedBytes::Memory(_, Some(recorded)) = &self.place {
            let from = if more == 0 { 0 } else { recorded.changes.lock().len() + more };
            recorded.fails_from.store(from, Ordering::Relaxed);
        }
    }

    fn record(&self, change: impl FnOnce() -> Change) -> Result<()> {
        let EditedBytes::Memory(_, Some(recorded)) = &self.place else { return Ok(()) };
        let mut changes = recorded.changes.lock();
        let from = recorded.fails_from.load(Ordering::Relaxed);
        if from > 0 && changes.len() >= from {
            drop(changes);
            return Err(self.error(Operation::Write, io::ErrorKind::StorageFull.into()));
        }
        changes.push(change());
        Ok(())
    }

    /// The only key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The path of a file on disk.
    pub fn path(&self) -> Option<&Path> {
        match &self.place {
            EditedBytes::Disk(disk) => Some(disk.path()),
            _ => None,
        }
    }

    /// Number of bytes.
    pub fn len(&self) -> Result<u64> {
        self.check_open()?;
        match &self.place {
            EditedBytes::Disk(disk) => disk.len().map_err(|error| self.error(Operation::Size, error)),
            EditedBytes::Spooled(file) => file.len().map_err(|error| self.error(Operation::Size, error)),
            EditedBytes::Memory(bytes, _) => Ok(bytes.read().len() as u64),
        }
    }

    /// Returns `true` if there are no bytes.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Reads bytes at an offset. Bytes behind the end of the file are zero: they were reserved, and
    /// never written.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.check_open()?;
        let end = self.len()?;
        let stored = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX).min(buf.len());
        let (buf, rest) = buf.split_at_mut(stored);
        rest.fill(0);
        match &self.place {
            EditedBytes::Disk(disk) => {
                disk.read_at(offset, buf).map_err(|error| self.error(Operation::Read, error))
            }
            EditedBytes::Spooled(file) => {
                file.read_at(offset, buf).map_err(|error| self.error(Operation::Read, error))
            }
            EditedBytes::Memory(bytes, _) => {
                let bytes = bytes.read();
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                let found = bytes.get(start..).and_then(|bytes| bytes.get(..buf.len()));
                match found {
                    Some(found) => buf.copy_from_slice(found),
                    None => buf.fill(0),
                }
                Ok(())
            }
        }
    }

    /// Writes bytes at an offset. The file grows as needed.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.check_open()?;
        self.record(|| Change::Write(offset, bytes.to_vec()))?;
        let failed = |error| self.error(Operation::Write, error);
        match &self.place {
            EditedBytes::Disk(disk) => disk.write_at(offset, bytes).map_err(failed),
            EditedBytes::Spooled(file) => file.write_at(offset, bytes).map_err(failed),
            EditedBytes::Memory(memory, _) => {
                let no_memory = || failed(io::ErrorKind::OutOfMemory.into());
                let start = usize::try_from(offset).map_err(|_| no_memory())?;
                let end = start.checked_add(bytes.len()).ok_or_else(no_memory)?;
                let mut memory = memory.write();
                if end > memory.len() {
                    let more = end - memory.len();
                    memory.try_reserve(more).map_err(|_| no_memory())?;
                    memory.resize(end, 0);
                }
                if let Some(place) = memory.get_mut(start..end) {
                    place.copy_from_slice(bytes);
                }
                Ok(())
            }
        }
    }

    /// Sets the number of bytes. New bytes are zero.
    pub fn set_len(&self, len: u64) -> Result<()> {
        self.check_open()?;
        self.record(|| Change::Length(len))?;
        let failed = |error| self.error(Operation::Write, error);
        match &self.place {
            EditedBytes::Disk(disk) => disk.set_len(len).map_err(failed),
            EditedBytes::Spooled(file) => file.set_len(len).map_err(failed),
            EditedBytes::Memory(memory, _) => {
                let no_memory = || failed(io::ErrorKind::OutOfMemory.into());
                let len = usize::try_from(len).map_err(|_| no_memory())?;
                let mut memory = memory.write();
                let more = len.saturating_sub(memory.len());
                memory.try_reserve(more).map_err(|_| no_memory())?;
                memory.resize(len, 0);
                Ok(())
            }
        }
    }

    /// Waits until everything written so far is on the disk, if the file was opened with `fsync`.
    pub fn sync(&self) -> Result<()> {
        self.record(|| Change::Sync)?;
        match &self.place {
            EditedBytes::Disk(disk) => disk.sync().map_err(|error| self.error(Operation::Write, error)),
            _ => Ok(()),
        }
    }

    /// Gives a new file its name. Does nothing if it has it.
    pub fn publish(&self) -> Result<()> {
        match &self.place {
            EditedBytes::Disk(disk) => disk.publish().map_err(|error| self.error(Operation::Write, error)),
            _ => Ok(()),
        }
    }

    /// Returns `true` if no other program had the file open when it was opened, as far as locks tell.
    pub fn was_alone(&self) -> bool {
        match &self.place {
            EditedBytes::Disk(disk) => disk.was_alone,
            _ => true,
        }
    }

    /// Returns `true` if no other program has the file open now, as far as locks tell.
    ///
    /// Only for a writer that leaves: programs that open the file in this moment may be refused. After
    /// an error another program has the file open for writing, and this one must not write any more.
    pub fn is_alone(&self) -> Result<bool> {
        match &self.place {
            EditedBytes::Disk(disk) => disk.is_alone().map_err(|error| self.error(Operation::Lock, error)),
            EditedBytes::Memory(..) | EditedBytes::Spooled(_) => Ok(true),
        }
    }

    /// Waits until no other writer changes the state of the file, and excludes them.
    ///
    /// The threads of this process share the lock. A file in memory, or without a name, has no other
    /// writers.
    pub fn lock_changes(&self) -> Result<ChangeLock<'_>> {
        self.check_open()?;
        let lock = match &self.place {
            EditedBytes::Disk(disk) => {
                let stopped = |error: io::Error| match error.kind() {
                    io::ErrorKind::Interrupted => {
                        StoreError::refused(crate::turns::Refused::Stopped, self, &self.key)
                    }
                    _ => self.error(Operation::Lock, error),
                };
                Some(disk.lock_changes().map_err(stopped)?)
            }
            _ => None,
        };
        Ok(ChangeLock { _lock: lock })
    }

    /// Lets other writers change the file, which was locked for that when it was opened.
    pub fn end_opening(&self) {
        if let EditedBytes::Disk(disk) = &self.place {
            disk.end_opening();
        }
    }

    /// Tells other writers that this one does not change the file any more.
    pub fn leave(&self) {
        if let EditedBytes::Disk(disk) = &self.place {
            disk.leave();
        }
    }

    /// Tells other writers whether this one has appended something that the file does not have yet.
    pub fn mark_appended(&self, has_appended: bool) -> Result<()> {
        match &self.place {
            EditedBytes::Disk(disk) => {
                disk.mark_appended(has_appended).map_err(|error| self.error(Operation::Lock, error))
            }
            _ => Ok(()),
        }
    }

    /// Returns `true` if another writer has appended something that the file does not have yet.
    pub fn others_appended(&self) -> bool {
        match &self.place {
            EditedBytes::Disk(disk) => disk.others_appended(),
            _ => false,
        }
    }

    /// Returns `true` if other writers can change the file, too.
    pub fn is_shared(&self) -> bool {
        match &self.place {
            EditedBytes::Disk(disk) => disk.is_locked(),
            _ => false,
        }
    }

    /// Returns `true` if another writer of this kind has the file open.
    pub fn has_others(&self) -> bool {
        match &self.place {
            EditedBytes::Disk(disk) => disk.has_others(),
            _ => false,
        }
    }

    /// Fails if another writer of this kind has the file open.
    pub fn refuse_others(&self) -> Result<()> {
        if !self.has_others() {
            return Ok(());
        }
        let why = "another program is changing it; try again when it has closed the file";
        Err(self.error(Operation::Lock, io::Error::new(io::ErrorKind::WouldBlock, why)))
    }

    /// Returns `true` if other programs may have the file open.
    pub fn is_published(&self) -> bool {
        match &self.place {
            EditedBytes::Disk(disk) => disk.is_published(),
            _ => false,
        }
    }

    fn error(&self, operation: Operation, source: io::Error) -> StoreError {
        StoreError::Io { operation, key: self.key.clone(), url: self.url(), source }
    }

    fn check_open(&self) -> Result<()> {
        match self.open.load(Ordering::Acquire) {
            true => Ok(()),
            false => Err(StoreError::Closed { key: self.key.clone(), url: self.url() }),
        }
    }

    fn has(&self, key: Key<'_>) -> bool {
        key.as_str() == self.key
    }
}

impl Store for EditedFile {
    fn url(&self) -> String {
        match &self.place {
            EditedBytes::Disk(disk) => disk.url(),
            EditedBytes::Spooled(file) => match file.destination() {
                Some(destination) => destination.url(),
                None => format!("memory://{self:p}"),
            },
            EditedBytes::Memory(..) => format!("memory://{self:p}"),
        }
    }

    fn lock_id(&self, key: Key<'_>) -> u64 {
        crate::hash::fnv1a(crate::hash::EMPTY, format!("{self:p}/{}", key.as_str()).as_bytes())
    }

    fn only(&self) -> Option<&str> {
        Some(&self.key)
    }

    fn size(&self, key: Key<'_>) -> Result<Option<u64>> {
        if self.has(key) { self.len().map(Some) } else { Ok(None) }
    }

    fn open<'s>(&'s self, key: Key<'_>, _: Option<u64>) -> Result<Option<Box<dyn Opened + 's>>> {
        if !self.has(key) {
            return Ok(None);
        }
        Ok(Some(Box::new(OpenedEdited { size: self.len()?, file: self })))
    }

    fn read_ranges(&self, key: Key<'_>, _: Option<u64>, ranges: &mut [RangeRead<'_>]) -> Result<bool> {
        if !self.has(key) {
            return Ok(false);
        }
        for range in ranges {
            self.read_at(range.offset, range.buf)?;
        }
        Ok(true)
    }

    fn read_all(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> Result<bool> {
        buf.clear();
        if !self.has(key) {
            return Ok(false);
        }
        let len = usize::try_from(self.len()?).unwrap_or(usize::MAX);
        if len > limit {
            return Err(StoreError::TooLarge { key: self.key.clone(), url: self.url(), limit: limit as u64 });
        }
        buf.resize(len, 0);
        self.read_at(0, buf)?;
        Ok(true)
    }

    fn facts(&self) -> Facts {
        Facts { is_writable: false, ..Facts::default() }
    }

    fn cost(&self) -> Cost {
        Cost::NEAR
    }

    fn holds(&self) -> Option<&dyn Holds> {
        Some(self)
    }

    fn on_disk(&self) -> Option<&dyn OnDisk> {
        self.path().map(|_| self as &dyn OnDisk)
    }
}

impl OnDisk for EditedFile {
    fn local_path(&self, key: Option<Key<'_>>) -> Option<PathBuf> {
        match key {
            Some(key) => self.path().filter(|_| self.has(key)).map(Path::to_owned),
            None => self.path()?.parent().map(Path::to_owned),
        }
    }
}

impl Holds for EditedFile {
    fn close(&self) {
        self.open.store(false, Ordering::Release);
        if let EditedBytes::Disk(disk) = &self.place {
            disk.close();
        }
    }

    fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }
}

/// The file as it is at each read: it is changed in place.
#[derive(Debug)]
struct OpenedEdited<'s> {
    file: &'s EditedFile,
    size: u64,
}

impl Opened for OpenedEdited<'_> {
    fn read_ranges(&self, ranges: &mut [RangeRead<'_>]) -> Result<()> {
        for range in ranges {
            self.file.read_at(range.offset, range.buf)?;
        }
        Ok(())
    }

    fn size(&self) -> u64 {
        self.size
    }
}

#[cfg(test)]
mod tests;
