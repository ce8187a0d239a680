//! The flush: changed objects go to the file.
//!
//! 1. Elements that the layer above still holds, and values, are written ([`Attached::settle`]).
//! 2. Other writers are excluded. If they have changed the file, the changes of this one are merged
//!    with theirs ([`merge`](super::merge)).
//! 3. All changed objects are taken as they are at one moment.
//! 4. Their structures are built and written where nobody reads. A full disk shows here, while the
//!    file on disk is as it was.
//! 5. Each object is switched by one write of a few bytes inside a line of 64: a stub, which leads
//!    to a new block of messages. The order keeps every state valid: counts of links go up first;
//!    then datasets and types, then groups that gain links, then groups that lose links; counts go
//!    down last.
//!
//! While the file is open, its end runs ahead of its contents, and its size ahead of its end. A
//! reader reads the size first and the superblock next. It always finds a whole file.

use super::Editing;
use super::chunk_table::{Bases, StoredIndex, Taken, TakenIndex};
use super::object::{NextIndex, Object, Stored};
use super::redo::{self, RecordPlace, Slot, Switch};
use super::shared::State;
use super::space::LINE;
use crate::Result;
use hyperslab_store::turns;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

/// Structures up to this many bytes are written with one call.
const GATHERED: usize = 1 << 20;

/// Stubs within this many bytes are read with one call: a page.
const NEAR: u64 = 4096;

/// One object of a flush.
struct Switched {
    object: Object,
    /// The chunks of the next index, and the index that the file has after the flush.
    taken: Option<TakenIndex>,
    index: StoredIndex,
    chunk_changes: u64,
    /// The write that switches it.
    stub: Vec<u8>,
    /// Its new structures.
    blocks: Vec<(u64, u64)>,
    /// Chunks that it does not have any more, and nodes that its next index does not have.
    dropped: Vec<(u64, u64)>,
    replaced: Vec<(u64, u64)>,
    /// Places in nodes of its index that stay, and the new addresses of siblings there.
    siblings: Vec<(u64, Option<u64>)>,
    /// The chunks that it changes, as the file on disk has them.
    bases: Bases,
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
        self.edits.flushes.fetch_add(1, Ordering::SeqCst);
        let done = self.write_all(is_last);
        self.edits.flushes.fetch_sub(1, Ordering::SeqCst);
        done
    }

    fn write_all(&self, is_last: bool) -> Result<()> {
        self.settle()?;
        let _turn = turns::take(self.edits.flushing, None).ok();
        self.end_collection()?;
        let _lock = self.lock_changes()?;
        self.catch_up()?;
        if is_last && !self.edits.bytes.has_others() {
            // Another writer may give a deleted object a new name.
            self.release_deleted()?;
        }
        self.edits.space.lock().is_flushing = true;
        let done = self.write_changes(is_last);
        self.edits.space.lock().is_flushing = false;
        done
    }

    fn write_changes(&self, is_last: bool) -> Result<()> {
        let mut switched = self.snapshot();
        // Chunks that other threads have written since lead to values of a new collection.
        let done = self.end_collection().and_then(|()| match self.edits.is_blank.load(Ordering::Acquire) {
            true => self.write_new(&mut switched, is_last),
            false if switched.is_empty() => Ok(()),
            false => self.lose_pages().and_then(|()| self.switch(&mut switched)),
        });
        if let Err(error) = done {
            self.keep_bases(switched);
            return Err(error);
        }
        self.note_flushed(switched);
        self.end_appended()?;
        if is_last { self.leave() } else { Ok(()) }
    }

    /// Writes a new file. Nobody else has it open, so any order is right.
    fn write_new(&self, switched: &mut [Switched], is_last: bool) -> Result<()> {
        self.write_structures(switched)?;
        self.write_lines(switched)?;
        // A thread without room waits until the file is not blank any more: then it takes a part.
        let _turn = turns::take(self.edits.extending, None).ok();
        let used = self.edits.space.lock().end_part();
        if is_last {
            self.write_superblock(used)?;
            let len = self.base().saturating_add(used);
            if self.edits.bytes.len()? != len {
                self.edits.bytes.set_len(len)?;
            }
            // Then the list of free space is written.
            self.edits.has_part.store(self.has_free_space(), Ordering::Release);
        } else {
            self.edits.has_part.store(true, Ordering::Release);
            let slot = Slot { generation: 1, used: used.next_multiple_of(64), ..Slot::default() };
            self.write_state(State { end: used, slot: None }, slot)?;
            self.edits.generation.store(slot.generation, Ordering::Release);
        }
        self.edits.bytes.publish()?;
        self.edits.is_blank.store(false, Ordering::Release);
        Ok(())
    }

    /// Writes structures where nobody reads, and then switches objects to them.
    fn switch(&self, switched: &mut [Switched]) -> Result<()> {
        let bytes = &self.edits.bytes;
        self.write_structures(switched)?;
        bytes.sync()?;
        switched.sort_by_key(|one| (one.object.stored != Stored::New, order_of(&one.object)));
        let first_old = switched.partition_point(|one| one.object.stored == Stored::New);
        let (new, old) = switched.split_at(first_old);
        self.write_lines(new)?;
        let pending = self.write_record(old)?;
        bytes.sync()?;
        // Before the first switch: others must not miss it if this writer is killed.
        let before = self.edits.generation.load(Ordering::Acquire);
        let generation = before.wrapping_add(1);
        self.update_slot(|slot| (slot.generation, slot.pending) = (generation, pending))?;
        self.edits.generation.store(generation, Ordering::Release);
        self.file.note_own_flush(before, generation);
        bytes.sync()?;
        old.iter().try_for_each(|one| self.write(one.object.address, &[&one.stub]))?;
        // Readers do not use them. Without them, the next flush writes the index anew.
        for (place, sibling) in switched.iter().flat_map(|one| &one.siblings) {
            self.write(*place, &[&sibling.unwrap_or(u64::MAX).to_le_bytes()])?;
        }
        bytes.sync()?;
        if pending.is_some() {
            self.update_slot(|slot| slot.pending = None)?;
        }
        Ok(())
    }

    /// Takes the changed objects as they are at this moment.
    fn snapshot(&self) -> Vec<Switched> {
        let mut objects = self.edits.objects.lock();
        for object in objects.values_mut() {
            // A list that cannot be built is refused when it is added to.
            let _ = object.settle_users(self.edits.libver);
        }
        // A new object without a name is not in the file.
        let is_written =
            |object: &Object| object.is_changed() && (object.links_to > 0 || object.stored != Stored::New);
        let take = |object: &mut Object| {
            object.touch(now);
            let chunks = object.chunks.as_ref().zip(object.chunk_counts());
            let taken = chunks.map(|(chunks, counts)| {
                let form = object.tree_form(chunks.len(), chunks.has_tree());
                chunks.take(&counts, form.ok().flatten().as_ref())
            });
            let (object, stub, blocks) = (object.clone(), Vec::new(), Vec::new());
            let index = StoredIndex::Whole(Vec::new());
            let Taken { changes: chunk_changes, bases, dropped, replaced, index: taken } =
                taken.unwrap_or_default();
            let siblings = Vec::new();
            Switched { object, taken, index, chunk_changes, stub, blocks, dropped, replaced, siblings, bases }
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
        for Switched { object, taken, index, stub, blocks, replaced, siblings, .. } in all {
            let refuse = |why| self.unstorable(object.address, why);
            let next = match taken.take() {
                None => None,
                Some(TakenIndex::Records(records)) => Some(NextIndex::Whole(records)),
                Some(TakenIndex::Tree(plan)) => {
                    let at = if plan.len() > 0 { self.allocate(plan.len())? } else { 0 };
                    let placed = plan.place(at).map_err(refuse)?;
                    if !placed.bytes.is_empty() {
                        put(at, placed.bytes)?;
                    }
                    replaced.extend(placed.replaced);
                    siblings.extend(placed.siblings);
                    *index = StoredIndex::Tree(placed.tree);
                    Some(NextIndex::Tree(placed.address))
                }
            };
            let (mut messages, mut bytes) = object.build(next.as_ref(), 0).map_err(refuse)?;
            if !bytes.is_empty() {
                // The lengths of structures do not depend on their places.
                let at = self.allocate(bytes.len() as u64)?;
                blocks.push((at, bytes.len() as u64));
                (messages, bytes) = object.build(next.as_ref(), at).map_err(refuse)?;
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

    /// Writes the stubs of objects that nobody refers to yet. Lines that follow each other go to
    /// the file together.
    fn write_lines(&self, all: &[Switched]) -> Result<()> {
        let follow = |one: &Switched, next: &Switched| {
            let is_line = one.object.stored == Stored::New && one.stub.len() as u64 <= LINE;
            is_line && one.object.address.checked_add(LINE) == Some(next.object.address)
        };
        let mut together = Vec::new();
        for run in all.chunk_by(follow) {
            let Some(first) = run.first() else { continue };
            together.clear();
            for one in run {
                let at = one.object.address.saturating_sub(first.object.address);
                together.resize(usize::try_from(at).unwrap_or_default(), 0);
                together.extend_from_slice(&one.stub);
            }
            self.write(first.object.address, &[&together])?;
        }
        Ok(())
    }

    /// Reads the bytes that stubs are going to replace. Stubs that are close together are read
    /// together.
    fn read_replaced(&self, all: &[Switched]) -> Result<Vec<Vec<u8>>> {
        let base = self.file.source().base();
        let end = |one: &Switched| one.object.address.saturating_add(one.stub.len() as u64);
        let mut found = Vec::with_capacity(all.len());
        let mut rest = all;
        while let Some(first) = rest.first() {
            let start = first.object.address;
            let is_near = |one: &&Switched| one.object.address >= start && end(one) <= start + NEAR;
            let (run, after) = rest.split_at(rest.iter().take_while(is_near).count().max(1));
            let len = run.iter().map(end).max().unwrap_or(start) - start;
            let mut together = vec![0; usize::try_from(len).unwrap_or_default()];
            self.edits.bytes.read_at(base.saturating_add(start), &mut together)?;
            found.extend(run.iter().map(|one| {
                let at = usize::try_from(one.object.address - start).unwrap_or_default();
                together.get(at..at + one.stub.len()).unwrap_or_default().to_vec()
            }));
            rest = after;
        }
        Ok(found)
    }

    /// Writes the switches to a record, if one write would not switch all. Returns its place.
    fn write_record(&self, all: &[Switched]) -> Result<Option<RecordPlace>> {
        let base = self.file.source().base();
        let replaced = self.read_replaced(all)?;
        let switch = |(one, old): (&Switched, Vec<u8>)| Switch {
            address: one.object.address,
            old,
            new: one.stub.clone(),
        };
        let switches: Vec<Switch> = all.iter().zip(replaced).map(switch).collect();
        if switches.len() < 2 && !switches.iter().any(|switch| switch.crosses_page(base)) {
            return Ok(None);
        }
        let record = redo::build_record(&switches);
        let checksum = redo::checksum(&record);
        let too_many =
            |_| self.file.source().invalid("too many objects change in one flush: flush more often");
        let len = u32::try_from(record.len()).map_err(too_many)?;
        let address = self.allocate(len.into())?;
        self.write(address, &[&record])?;
        // Its space is used again: once the switches are done, nobody reads it.
        self.edits.freed.lock().push((address, len.into()));
        Ok(Some(RecordPlace { address, len, checksum }))
    }

    /// Writes the whole superblock, with this end of the file.
    pub(super) fn write_superblock(&self, end: u64) -> Result<()> {
        let base = self.file.source().base();
        let (at, bytes) = {
            let mut place = self.edits.superblock.lock();
            let (at, bytes) = place.set_end(end);
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

    /// Keeps what a failed flush has taken, for the next one.
    fn keep_bases(&self, all: Vec<Switched>) {
        let objects = self.edits.objects.lock();
        for Switched { object, bases, dropped, .. } in all {
            if let Some(chunks) = objects.get(&object.address).and_then(|object| object.chunks.as_ref()) {
                chunks.give_back(bases);
                chunks.drop_later(dropped);
            }
        }
    }

    /// Notes that the file has these states.
    fn note_flushed(&self, all: Vec<Switched>) {
        let mut freed = Vec::new();
        let mut objects = self.edits.objects.lock();
        for Switched { object: written, index, chunk_changes, blocks, dropped, replaced, .. } in all {
            if let Some(chunks) = &written.chunks {
                chunks.set_index(index);
            }
            let Some(object) = objects.get_mut(&written.address) else { continue };
            freed.append(&mut std::mem::replace(&mut object.blocks, blocks.clone()));
            freed.extend(dropped);
            freed.extend(replaced);
            object.stored = Stored::Stub;
            object.base = written.as_base(blocks.last().map_or(&[], std::slice::from_ref));
            object.flushed = written.changes;
            object.flushed_chunks = chunk_changes;
            object.flushed_links_to = written.links_to;
            if object.changes == written.changes {
                object.lost_links = false;
            }
        }
        drop(objects);
        self.edits.freed.lock().append(&mut freed);
    }
}

/// Seconds since 1970.
fn now() -> u32 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u32::try_from(now.as_secs()).unwrap_or(u32::MAX)
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
