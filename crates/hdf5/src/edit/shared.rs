//! A file that several processes change.
//!
//! Each writer takes parts of the file from its end, and writes chunks and structures there without
//! asking anybody. All writers exclude each other ([`EditedFile::lock_changes`]) only while one of
//! them takes a part or switches objects. Then they agree on the [slot](redo): how much of the file
//! is taken, and how many flushes there were. A writer that finds another number of flushes than it
//! knows reads the file again and [merges](super::merge) its own changes.
//!
//! * Everything before the slot's `used` belongs to some writer. Everything behind it was never
//!   written, except the slot.
//! * The slot lies behind `used`. A part that would reach it moves the end of the file first.
//! * A writer that was killed leaves parts that nobody uses.

use super::redo::{self, SLOT, Slot};
use super::space::Space;
use super::{Editing, superblock};
use crate::{Result, Source};
use hyperslab_store::{ChangeLock, EditedFile, turns};
use std::sync::atomic::Ordering;

/// Bytes of a part, at least.
const PART: u64 = 1 << 20;

/// The end of the file runs ahead by a share of its length, and at least by this.
const SHARE: u64 = 16;
const AHEAD: u64 = 1 << 20;

/// The bytes by which the end of a file runs ahead.
fn ahead_of(used: u64) -> u64 {
    (used / SHARE).max(AHEAD)
}

/// The end of the file in its superblock, and the slot, as they are now.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    pub end: u64,
    pub slot: Option<Slot>,
}

impl State {
    /// The end of the taken part of the file.
    pub fn used(&self) -> u64 {
        self.slot.map_or(self.end, |slot| slot.used)
    }

    pub fn generation(&self) -> u32 {
        self.slot.map_or(0, |slot| slot.generation)
    }

    /// Reads the state. `end`: the end of the file, an address.
    pub fn read(bytes: &EditedFile, base: u64, end: u64) -> Result<State> {
        let mut line = [0; 64];
        let at = end.checked_sub(SLOT).filter(|at| at % SLOT == 0);
        if let Some(at) = at {
            bytes.read_at(base.saturating_add(at), &mut line)?;
        }
        let slot = redo::parse_slot(&line);
        // The taken part of a closed file includes its slot.
        Ok(State { end, slot: slot.filter(|slot| slot.used <= end) })
    }

    /// The state for a writer that takes space of a file of `len` bytes behind its base.
    ///
    /// A whole file has no bytes behind the end that its superblock names. If the file is longer, a
    /// program was killed, or the superblock is wrong. Structures may refer to the bytes behind the end:
    /// these bytes are taken.
    pub fn with_all_bytes(mut self, len: u64) -> State {
        match &mut self.slot {
            None => self.end = self.end.max(len),
            Some(slot) if slot.used == self.end => slot.used = slot.used.max(len),
            Some(_) => {}
        }
        self
    }
}

/// Completes the changes of a writer that was killed. `end`: the end of the file, an address.
pub(super) fn complete(bytes: &std::sync::Arc<EditedFile>, base: u64, end: u64, verify: bool) -> Result<()> {
    let source = Source::new(bytes.clone(), bytes.key(), base)?;
    let source = source.with_format(crate::output::NEW_SIZES, verify);
    let switches = redo::pending(&source, end)?;
    if switches.is_empty() {
        return Ok(());
    }
    for switch in switches {
        bytes.write_at(base.saturating_add(switch.address), &switch.new)?;
    }
    bytes.sync()?;
    let Some(slot) = State::read(bytes, base, end)?.slot else { return Ok(()) };
    let at = base.saturating_add(end).saturating_sub(SLOT);
    Ok(bytes.write_at(at, &redo::build_slot(Slot { pending: None, ..slot }))?)
}

impl Editing {
    /// Excludes other writers of the file, until the lock is dropped. Threads of this process share the
    /// lock.
    pub fn lock_changes(&self) -> Result<ChangeLock<'_>> {
        Ok(self.edits.bytes.lock_changes()?)
    }

    /// Reads the state of the file. The caller excludes other writers.
    pub(super) fn state(&self) -> Result<State> {
        let base = self.base();
        let end = {
            let place = self.edits.superblock.lock().clone();
            superblock::read_end(&self.edits.bytes, base, &place)?
        };
        let len = self.edits.bytes.len()?.saturating_sub(base);
        Ok(State::read(&self.edits.bytes, base, end)?.with_all_bytes(len))
    }

    pub(super) fn base(&self) -> u64 {
        self.file.source().base()
    }

    /// Takes space of the file. `len`: the most bytes that `take` wants.
    pub(super) fn take(&self, len: u64, mut take: impl FnMut(&mut Space) -> Option<u64>) -> Result<u64> {
        let mut taken = || {
            let mut space = self.edits.space.lock();
            let at = take(&mut space);
            let used = space.used();
            drop(space);
            self.file.source().grow(used);
            at
        };
        if let Some(at) = taken() {
            return Ok(at);
        }
        // One thread gets a part for all.
        let _turn = turns::take(self.edits.extending, None).ok();
        loop {
            if let Some(at) = taken() {
                return Ok(at);
            }
            self.extend(len)?;
        }
    }

    /// Takes a part of the file with room for `len` bytes.
    fn extend(&self, len: u64) -> Result<()> {
        let too_long =
            || self.file.source().invalid("it has no more addresses: expected less than 2⁶³ bytes");
        if self.edits.is_blank.load(Ordering::Acquire) {
            return Err(too_long());
        }
        let _lock = self.lock_changes()?;
        let state = self.state()?;
        let start = state.used();
        // Headers begin at multiples of 64.
        let most = len.checked_add(SLOT).map(|len| len.max(PART)).and_then(|len| start.checked_add(len));
        let end = most.and_then(|end| end.checked_next_multiple_of(SLOT));
        let mut end = end.filter(|end| *end < i64::MAX.cast_unsigned() / 2).ok_or_else(too_long)?;
        if state.slot.is_some() && state.end > start && end.saturating_add(AHEAD) > state.end {
            // The end of the file moves before it is reached: a program that opened the file a moment
            // ago must find new structures before the end that it knows.
            end = end.max(state.end);
        }
        let mut free = Vec::new();
        let mut slot = state.slot.unwrap_or_default();
        if let Some(list) = self.edits.list.lock().take().filter(|list| Some(*list) == slot.free) {
            free = super::free_space::read(self.file.source(), list, start)?;
            slot.free = None;
            if start == state.end {
                // The file was closed. The slot lies before its end, and the list before the slot.
                let list_end = list.address.saturating_add(list.len.into());
                let first = if start.saturating_sub(list_end) < 2 * SLOT { list_end } else { start - SLOT };
                free.push((first, start - first));
            }
        }
        slot.used = end;
        self.write_state(state, slot)?;
        self.edits.has_part.store(true, Ordering::Release);
        let mut space = self.edits.space.lock();
        space.add_part(start, end);
        space.add_free(free);
        drop(space);
        self.file.source().grow(end);
        Ok(())
    }

    /// Changes the slot. The caller excludes other writers.
    pub(super) fn update_slot(&self, change: impl FnOnce(&mut Slot)) -> Result<Slot> {
        let _turn = turns::take(self.edits.extending, None).ok();
        let state = self.state()?;
        let mut slot = state.slot.unwrap_or(Slot { used: state.used(), ..Slot::default() });
        change(&mut slot);
        self.write_state(state, slot)?;
        Ok(slot)
    }

    /// Writes the slot. The end of the file moves ahead of it if needed.
    pub(super) fn write_state(&self, old: State, new: Slot) -> Result<()> {
        let bytes = &self.edits.bytes;
        let base = self.base();
        let line = redo::build_slot(new);
        let place = |end: u64| base.saturating_add(end).saturating_sub(SLOT);
        if old.slot.is_some() && new.used.saturating_add(SLOT) <= old.end {
            return Ok(bytes.write_at(place(old.end), &line)?);
        }
        // A reader that opens the file reads its length first and the superblock next. It must not
        // find an end behind the length: the new end is the length as it was, if possible.
        let len = bytes.len()?.saturating_sub(base);
        let ahead = ahead_of(new.used);
        let last = |len: u64| len.saturating_sub(1) / SLOT * SLOT;
        let longer = new.used.saturating_add(ahead.saturating_mul(2));
        if len < longer {
            bytes.set_len(base.saturating_add(longer))?;
        }
        let mut end = last(len);
        if end < new.used.saturating_add(SLOT) {
            end = last(new.used.saturating_add(ahead));
        }
        bytes.write_at(place(end), &line)?;
        bytes.sync()?;
        self.file.source().grow(end);
        self.write_superblock(end)?;
        if old.slot.is_some_and(|slot| slot.used <= old.end.saturating_sub(SLOT)) {
            // It lies in the part that was taken just now, whose bytes are zero.
            bytes.write_at(place(old.end), &[0; 64])?;
        }
        Ok(())
    }
}
