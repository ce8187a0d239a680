//! Objects under construction in memory, for stores that can only write whole objects.

use crate::{Ask, Expected, Key, Opened, Operation, RangeRead, Replacement, Result, Store, StoreError};
use std::fmt;
use std::io;

/// Most bytes to allocate before a read proves that they exist.
const PIECE: u64 = 1 << 20;

/// The error of committing after a failed step.
pub(crate) fn given_up() -> io::Error {
    io::Error::other("an earlier step of writing it has failed")
}

/// A new object in memory, written by one call when it is complete.
pub(crate) struct Gathered<'s, S: ?Sized> {
    store: &'s S,
    key: String,
    bytes: Vec<u8>,
    /// True if a step failed.
    failed: bool,
}

impl<'s, S: Store + ?Sized> Gathered<'s, S> {
    pub(crate) fn new(store: &'s S, key: Key<'_>) -> Self {
        Gathered { store, key: key.as_str().to_owned(), bytes: Vec::new(), failed: false }
    }

    fn error(&self, source: impl Into<io::Error>) -> StoreError {
        StoreError::io(self.store, Operation::Write, &self.key, source)
    }

    /// Reserves room for `more` bytes at the end.
    fn reserve(&mut self, more: usize) -> Result<()> {
        self.bytes.try_reserve(more).map_err(|_| self.error(io::ErrorKind::OutOfMemory))
    }

    fn step(&mut self, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let answer = work(self);
        self.failed |= answer.is_err();
        answer
    }
}

impl<S: ?Sized> fmt::Debug for Gathered<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Gathered");
        debug.field("key", &self.key).field("len", &self.bytes.len()).field("failed", &self.failed).finish()
    }
}

impl<S: Store + ?Sized> Replacement for Gathered<'_, S> {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn append(&mut self, parts: &[&[u8]]) -> Result<()> {
        self.step(|new| {
            new.reserve(parts.iter().map(|part| part.len()).sum())?;
            parts.iter().for_each(|part| new.bytes.extend_from_slice(part));
            Ok(())
        })
    }

    fn overwrite(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.step(|new| {
            let (size, len) = (new.len(), bytes.len());
            let start = usize::try_from(offset).unwrap_or(usize::MAX);
            match new.bytes.get_mut(start..start.saturating_add(len)) {
                Some(there) => there.copy_from_slice(bytes),
                None => return Err(StoreError::out_of_range(new.store, &new.key, offset, len as u64, size)),
            }
            Ok(())
        })
    }

    fn copy(&mut self, from: &dyn Opened, offset: u64, len: u64) -> Result<()> {
        self.step(|new| {
            if offset.checked_add(len).is_none_or(|end| end > from.size()) {
                return Err(StoreError::out_of_range(new.store, &new.key, offset, len, from.size()));
            }
            let mut done = 0;
            while done < len {
                let piece = (len - done).min(PIECE);
                let start = new.bytes.len();
                let more = usize::try_from(piece).map_err(|_| new.error(io::ErrorKind::OutOfMemory))?;
                new.reserve(more)?;
                new.bytes.resize(start + more, 0);
                let buf = new.bytes.get_mut(start..).unwrap_or_default();
                from.read_ranges(&mut [RangeRead { offset: offset + done, buf }])?;
                done += piece;
            }
            Ok(())
        })
    }

    /// Copies the bytes: within memory nothing is cheaper, and the result is the same.
    fn share(&mut self, from: &dyn Opened) -> Result<bool> {
        if !self.bytes.is_empty() {
            return Ok(false);
        }
        self.copy(from, 0, from.size())?;
        Ok(true)
    }

    fn commit(self: Box<Self>) -> Result<()> {
        self.commit_over(Expected::Any, None).map(|_| ())
    }

    fn commit_over(mut self: Box<Self>, expected: Expected<'_>, ask: Option<Ask<'_>>) -> Result<bool> {
        if self.failed {
            return Err(self.error(given_up()));
        }
        self.store.swap_owned(Key::new(&self.key)?, expected, &mut self.bytes, ask)
    }
}
