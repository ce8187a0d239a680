//! Metadata of files that somebody writes while they are read.
//!
//! A structure may lie in pages that were read at different times. Checksums show that for SWMR
//! writers of the HDF5 library, whose structures are read again after a pause.
//!
//! Our writers count their flushes in a [slot](crate::edit): the count grows after the new structures
//! are in the file, and before anything leads to them. Each read of metadata therefore looks at the
//! count before and after. If it has changed, all pages are dropped, and the metadata are read again.
//! Parsed objects stay: they lead to structures that no flush overwrites, so an object and its
//! attributes, links and chunks are of one flush.

use crate::edit::redo;
use crate::{File, Hdf5Error, Result, rehearsal};
use hyperslab_store::fork::Mutex;
use hyperslab_store::{RangeRead, StoreError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Attempts to read a structure that is not whole, and the pause between attempts.
const ATTEMPTS: u32 = 8;
const PAUSE: Duration = Duration::from_millis(2);

/// Attempts without a pause if flushes come in between.
const WITHOUT_PAUSE: u32 = 100;

/// The known state of a file that has writers.
#[derive(Debug, Default)]
pub(crate) struct Live {
    /// One of our writers has, or had, the file open.
    is_on: AtomicBool,
    /// Gated. The state of the file when the cached pages were read.
    state: Mutex<Option<Flushes>>,
}

/// The end of a file, and the number of flushes in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flushes {
    end: u64,
    count: Option<u32>,
}

impl File {
    /// Looks whether one of our writers has the file open.
    pub(crate) fn find_writers(&self) -> Result<()> {
        let source = self.source();
        if source.prefers_rounds() {
            return Ok(());
        }
        let flushes = self.flushes()?;
        // A closed file ends where its superblock says.
        if self.inner.edits.is_some() || flushes.count.is_some() && source.end() > flushes.end {
            *self.inner.live.state.lock() = Some(flushes);
            self.inner.live.is_on.store(true, Ordering::Release);
        }
        Ok(())
    }

    fn is_live(&self) -> bool {
        match &self.inner.edits {
            Some(edits) => edits.bytes().is_shared(),
            None => self.inner.live.is_on.load(Ordering::Acquire),
        }
    }

    /// Reads the number of flushes from the file.
    fn flushes(&self) -> Result<Flushes> {
        let source = self.source();
        let mut start = [0; 64];
        source.fetch_ranges(&mut [RangeRead { offset: source.base(), buf: &mut start }])?;
        let at = match start[8] {
            0 => 40,
            1 => 44,
            _ => 28,
        };
        let number = |at: usize| {
            let bytes = start.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u64::from_le_bytes)
        };
        let end = number(at).saturating_sub(number(at - 16));
        let mut line = [0; 64];
        let slot = end.checked_sub(redo::SLOT).filter(|_| end % redo::SLOT == 0);
        if let Some(slot) = slot {
            let offset = source.base().saturating_add(slot);
            match source.fetch_ranges(&mut [RangeRead { offset, buf: &mut line }]) {
                // The last writer has cut the file off since its superblock was read: it has no slot.
                Err(Hdf5Error::Store(StoreError::OutOfRange { .. })) => line = [0; 64],
                read => read?,
            }
        }
        Ok(Flushes { end, count: redo::parse_slot(&line).map(|slot| slot.generation) })
    }

    /// Notes a flush of this process: it drops the pages that it changes.
    pub(crate) fn note_own_flush(&self, before: u32, after: u32) {
        if let Some(flushes) = &mut *self.inner.live.state.lock()
            && flushes.count == Some(before)
        {
            flushes.count = Some(after);
        }
    }

    /// Runs `read`, which reads metadata. If the file is being written, runs it again until it has
    /// seen one state of the file.
    pub(crate) fn retry_if_written<T>(&self, mut read: impl FnMut() -> Result<T>) -> Result<T> {
        if rehearsal::is_on() {
            return read();
        }
        if self.is_live() {
            return self.read_live(&mut read);
        }
        let mut attempt = 1;
        loop {
            match read() {
                Err(Hdf5Error::Parse { .. } | Hdf5Error::Incomplete { .. })
                    if self.inner.superblock.swmr && attempt < ATTEMPTS =>
                {
                    std::thread::sleep(PAUSE * attempt);
                    self.source().forget()?;
                    attempt += 1;
                }
                Err(error @ (Hdf5Error::Parse { .. } | Hdf5Error::Incomplete { .. }))
                    if self.inner.edits.is_none() =>
                {
                    // A writer may have opened the file since.
                    let old = self.source().size();
                    if self.source().prefers_rounds() || !self.source().has_grown()? {
                        return Err(error);
                    }
                    self.source().forget()?;
                    self.find_writers()?;
                    return match self.is_live() && self.source().size() > old {
                        true => self.read_live(&mut read),
                        false => Err(error),
                    };
                }
                result => return result,
            }
        }
    }

    fn read_live<T>(&self, read: &mut impl FnMut() -> Result<T>) -> Result<T> {
        let (mut attempt, mut errors) = (0, 0);
        loop {
            let before = self.flushes()?;
            if self.inner.live.state.lock().replace(before) != Some(before) || errors > 0 {
                // The length, too: the last writer cuts the file off.
                self.source().forget()?;
                self.source().grow(before.end);
            }
            let result = read();
            if self.flushes()? == before {
                // Pages may be older than the count, and the file may just have been cut off.
                match result {
                    Err(Hdf5Error::Parse { .. } | Hdf5Error::Incomplete { .. } | Hdf5Error::Store(_))
                        if errors == 0 => {}
                    result => return result,
                }
                errors += 1;
            }
            attempt += 1;
            if attempt > WITHOUT_PAUSE {
                std::thread::sleep(PAUSE);
            }
        }
    }
}
