//! The flush: changed objects go to the file.
//!
//! 1. Elements that the layer above still holds, and values, are written ([`Attached::settle`]).
//! 2. All changed objects are taken as they are at one moment.
//! 3. Their structures are built and written where nobody reads. A full disk shows here, while the
//!    file on disk is as it was.
//! 4. The end of the file moves behind them.
//! 5. Each object is switched by one write of a few bytes inside a line of 64: a stub, which leads
//!    to a new block of messages. The order keeps every state valid: counts of links go up first;
//!    then datasets and types, then groups that gain links, then groups that lose links; counts go
//!    down last.
//!
//! While the file is open, its end runs ahead of its contents, and its size ahead of its end. A
//! reader reads the size first and the superblock next. It always finds a whole file.

use super::Editing;
use super::object::{Object, Stored};
use super::redo::{self, RecordPlace, SLOT, Slot, Switch};
use crate::Result;
use crate::index::ChunkRecord;
use hyperslab_store::turns;
use std::sync::atomic::Ordering;

/// The end of the file runs ahead by a share of its length, and at least by this.
const SHARE: u64 = 16;
const AHEAD: u64 = 1 << 20;

/// Structures up to this many bytes are written with one call.
const GATHERED: usize = 1 << 20;

/// One object of a flush.
struct Switched {
    object: Object,
    records: Option<Vec<ChunkRecord>>,
    chunk_changes: u64,
    /// The write that switches it.
    stub: Vec<u8>,
    /// Its new structures, and chunks that it does not have any more.
    blocks: Vec<(u64, u64)>,
    dropped: Vec<(u64, u64)>,
}

impl Editing {
    /// Writes all changes to the file. A new file gets its name.
    ///
    /// After an error, the file on disk has some objects as before the call, and the others as
    /// after it; the next flush writes all of them.
    pub fn flush(&self) -> Result<()> {
        self.flush_up_to(false)
    }

    /// Flushes, and gives back the room at the end of the file.
    pub fn close(&self) -> Result<()> {
        self.flush_up_to(true)
    }

    fn flush_up_to(&self, is_last: bool) -> Result<()> {
        self.settle()?;
        let _turn = turns::take(self.edits.flushing, None).ok();
        self.end_collection()?;
        if is_last {
            self.release_deleted()?;
        }
        self.edits.space.lock().is_flushing = true;
        let done = self.write_changes(is_last);
        self.edits.space.lock().is_flushing = false;
        done
    }

    fn write_changes(&self, is_last: bool) -> Result<()> {
        let is_new = self.edits.is_blank.load(Ordering::Acquire);
        let mut switched = self.snapshot();
        let is_whole_at_once = is_last && is_new;
        if !switched.is_empty() && !is_whole_at_once {
            self.lengthen()?;
        }
        self.write_structures(&mut switched)?;
        if is_new {
            // Nobody else has the file open, so any order is right.
            self.write_stubs(&switched)?;
            if is_last {
                let used = self.edits.space.lock().used();
                self.write_superblock(used)?;
            } else {
                self.raise_end()?;
            }
            self.edits.bytes.publish()?;
            self.edits.is_blank.store(false, Ordering::Release);
        } else if !switched.is_empty() {
            let bytes = &self.edits.bytes;
            bytes.sync()?;
            self.raise_end()?;
            switched.sort_by_key(|one| order_of(&one.object));
            let (new, old): (Vec<_>, Vec<_>) =
                switched.into_iter().partition(|one| one.object.stored == Stored::New);
            self.write_stubs(&new)?;
            let record = self.write_record(&old)?;
            bytes.sync()?;
            self.write_stubs(&old)?;
            bytes.sync()?;
            self.end_record(record)?;
            switched = [new, old].into_iter().flatten().collect();
        }
        self.note_flushed(&switched);
        if is_last { self.cut_off() } else { Ok(()) }
    }

    /// Gives back the room at the end of the file. Writes nothing if there is none.
    fn cut_off(&self) -> Result<()> {
        let end = self.write_free_space()?;
        let len = self.file.source().base().saturating_add(end);
        if self.edits.superblock.lock().1 == end && self.edits.bytes.len()? == len {
            return Ok(());
        }
        self.edits.bytes.sync()?;
        self.write_superblock(end)?;
        // The file must not be shorter than its superblock says, also after a power failure.
        self.edits.bytes.sync()?;
        self.edits.bytes.set_len(len)?;
        Ok(self.edits.bytes.sync()?)
    }

    /// Takes the changed objects as they are at this moment.
    fn snapshot(&self) -> Vec<Switched> {
        let mut objects = self.edits.objects.lock();
        // A new object without a name is not in the file.
        let is_written =
            |object: &Object| object.is_changed() && (object.links_to > 0 || object.stored != Stored::New);
        let take = |object: &mut Object| {
            let chunks = object.chunks.clone();
            // Changes while the records are taken count as later ones.
            let chunk_changes = chunks.as_ref().map_or(0, |chunks| chunks.changes());
            let counts = chunks.as_ref().and_then(|_| object.chunk_counts());
            let records = chunks.as_ref().zip(counts).map(|(chunks, counts)| {
                let records = chunks.records(&counts);
                // The file refers to them from now on.
                chunks.mark_flushed();
                records
            });
            let dropped = chunks.map_or_else(Vec::new, |chunks| chunks.take_dropped());
            let (stub, blocks) = (Vec::new(), Vec::new());
            Switched { object: object.clone(), records, chunk_changes, stub, blocks, dropped }
        };
        objects.values_mut().filter(|object| is_written(object)).map(take).collect()
    }

    /// Builds and writes the structures of objects, and builds their stubs.
    fn write_structures(&self, all: &mut [Switched]) -> Result<()> {
        let mut gathered: (u64, Vec<u8>) = (0, Vec::new());
        let mut put = |address: u64, bytes: Vec<u8>| -> Result<()> {
            let (start, together) = &mut gathered;
            let end = start.saturating_add(together.len() as u64);
            let gap = usize::try_from(address.wrapping_sub(end)).unwrap_or(usize::MAX);
            if together.is_empty() || gap >= 8 || together.len() > GATHERED {
                if !together.is_empty() {
                    self.write(*start, &[&*together])?;
                }
                gathered = (address, bytes);
            } else {
                together.resize(together.len() + gap, 0);
                together.extend(bytes);
            }
            Ok(())
        };
        for Switched { object, records, stub, blocks, .. } in all {
            let refuse = |why| self.unstorable(object.address, why);
            let records = records.as_deref();
            let (mut messages, mut bytes) = object.build(records, 0).map_err(refuse)?;
            if !bytes.is_empty() {
                // The lengths of structures do not depend on their places.
                let at = self.allocate(bytes.len() as u64)?;
                blocks.push((at, bytes.len() as u64));
                (messages, bytes) = object.build(records, at).map_err(refuse)?;
                put(at, bytes)?;
            }
            let block = object.build_block(&messages).map_err(refuse)?;
            let at = self.allocate(block.len() as u64)?;
            blocks.push((at, block.len() as u64));
            let count = messages.len();
            *stub = object.build_stub(count, (at, block.len() as u64)).map_err(refuse)?;
            put(at, block)?;
        }
        let (start, together) = gathered;
        if together.is_empty() { Ok(()) } else { self.write(start, &[&together]) }
    }

    fn write_stubs(&self, all: &[Switched]) -> Result<()> {
        all.iter().try_for_each(|one| self.write(one.object.address, &[&one.stub]))
    }

    /// Writes the switches to a record and says that it counts, if one write would not switch all.
    /// Returns its place.
    fn write_record(&self, all: &[Switched]) -> Result<Option<RecordPlace>> {
        let base = self.file.source().base();
        let switch = |one: &Switched| -> Result<Switch> {
            let (address, mut old) = (one.object.address, vec![0; one.stub.len()]);
            self.edits.bytes.read_at(base.saturating_add(address), &mut old)?;
            Ok(Switch { address, old, new: one.stub.clone() })
        };
        let switches = all.iter().map(switch).collect::<Result<Vec<Switch>>>()?;
        if switches.len() < 2 && !switches.iter().any(|switch| switch.crosses_page(base)) {
            return Ok(None);
        }
        let record = redo::build_record(&switches);
        let (len, checksum) = (record.len() as u64, redo::checksum(&record));
        let address = self.allocate(len)?;
        self.write(address, &[&record])?;
        self.raise_end()?;
        self.edits.bytes.sync()?;
        let place = RecordPlace { address, len, checksum };
        self.write_slot(Slot::Pending(place))?;
        Ok(Some(place))
    }

    /// Says that nothing has to be completed.
    fn end_record(&self, record: Option<RecordPlace>) -> Result<()> {
        if record.is_some() { self.write_slot(Slot::Clean) } else { Ok(()) }
    }

    fn write_slot(&self, slot: Slot) -> Result<()> {
        let end = self.edits.superblock.lock().1;
        self.write(end.saturating_sub(SLOT), &[&redo::build_slot(slot)])
    }

    /// Writes the whole superblock, with this end of the file.
    fn write_superblock(&self, end: u64) -> Result<()> {
        let base = self.file.source().base();
        let (at, bytes) = {
            let mut superblock = self.edits.superblock.lock();
            let (place, written) = &mut *superblock;
            let (at, bytes) = place.set_end(end);
            *written = end;
            match self.edits.is_blank.load(Ordering::Acquire) {
                true => (0, place.bytes().to_vec()),
                false => (at, bytes),
            }
        };
        let needed = base.saturating_add(end);
        if self.edits.bytes.len()? < needed {
            self.edits.bytes.set_len(needed)?;
        }
        self.edits.bytes.write_at(base.saturating_add(at), &bytes)?;
        self.file.source().drop_pages(base, base.saturating_add(96));
        Ok(())
    }

    /// Makes the file longer than its used part, before its end in the superblock moves there.
    ///
    /// A reader that opens the file reads its length first and the superblock next. It must not find
    /// an end behind the length.
    fn lengthen(&self) -> Result<()> {
        let used = self.edits.space.lock().used();
        let base = self.file.source().base();
        let ahead = ahead_of(used);
        if self.edits.bytes.len()? < base.saturating_add(used).saturating_add(ahead) {
            let len = base.saturating_add(used).saturating_add(ahead.saturating_mul(2));
            self.edits.bytes.set_len(len)?;
        }
        Ok(())
    }

    /// Moves the end of the file behind everything that is used, and behind the slot.
    fn raise_end(&self) -> Result<()> {
        let written = self.edits.superblock.lock().1;
        let base = self.file.source().base();
        loop {
            let len = self.edits.bytes.len()?.saturating_sub(base);
            let end = {
                let mut space = self.edits.space.lock();
                if space.has_slot(written) {
                    return Ok(());
                }
                space.raise_end(len)
            };
            let Some(end) = end else {
                // More structures than the file has room for.
                self.lengthen()?;
                continue;
            };
            self.file.source().grow(end);
            self.edits.bytes.sync()?;
            return self.write_superblock(end);
        }
    }

    /// Notes that the file has these states.
    fn note_flushed(&self, all: &[Switched]) {
        let mut freed = Vec::new();
        let mut objects = self.edits.objects.lock();
        for Switched { object: written, chunk_changes, blocks, dropped, .. } in all {
            let Some(object) = objects.get_mut(&written.address) else { continue };
            freed.append(&mut std::mem::replace(&mut object.blocks, blocks.clone()));
            freed.extend(dropped);
            object.stored = Stored::Stub;
            object.flushed = written.changes;
            object.flushed_chunks = *chunk_changes;
            object.flushed_links_to = written.links_to;
            if object.changes == written.changes {
                object.lost_links = false;
            }
        }
        drop(objects);
        self.edits.freed.lock().append(&mut freed);
    }
}

/// The bytes by which the end of a file runs ahead.
fn ahead_of(used: u64) -> u64 {
    (used / SHARE).max(AHEAD)
}

/// The place of an object in the order of switches.
fn order_of(object: &Object) -> u8 {
    match object.links_to.cmp(&object.flushed_links_to) {
        std::cmp::Ordering::Greater => 0,
        std::cmp::Ordering::Less => 4,
        std::cmp::Ordering::Equal if !object.is_group() => 1,
        std::cmp::Ordering::Equal if !object.lost_links => 2,
        std::cmp::Ordering::Equal => 3,
    }
}
