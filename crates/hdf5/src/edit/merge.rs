//! Merges the changes of this writer with the changes that other writers have flushed.
//!
//! There are three states of an object: `base`, as this writer read or flushed it last; ours; and
//! theirs, in the file now. Theirs counts if ours is as the base. Otherwise ours counts:
//!
//! * attributes and links: name by name; `REFERENCE_LIST` entry by entry;
//! * the shape: axis by axis. If both have changed an axis, the longer one counts;
//! * chunks, and elements in one run: element by element, if both have changed the same chunk or run.
//!   Two writers that change different elements of a chunk lose nothing.
//!
//! A name that both have given to a new object cannot be merged: the flush fails.

use super::links::{Links, is_about_links};
use super::object::{self, Base, Object, Stored, attribute_name};
use super::scale_users::{self, REFERENCE_LIST};
use super::{ChunkPlace, Editing, committed};
use crate::data_layout::{self, DataLayout};
use crate::dataspace::{self, Dataspace};
use crate::error::{BuildError, Built};
use crate::messages::{Message, attribute, fill_value};
use crate::object_header::NewMessage;
use crate::{Bytes, File, Hdf5Error, Libver, LinkTarget, Node, Result, Source};
use hyperslab_array::Dims;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Flushed runs of elements of up to this many bytes are not overwritten: changed elements get a new
/// place.
pub const COPIED: u64 = 64 << 10;

/// Bytes of a run that are merged at once.
const PIECE: u64 = 1 << 20;

/// A chunk that two writers have changed since the base. `None`: it is not stored.
#[derive(Clone, Copy, Debug)]
pub struct ChunkConflict {
    /// As both found it.
    pub base: Option<ChunkPlace>,
    /// As the other writer has flushed it.
    pub theirs: Option<ChunkPlace>,
}

/// Puts the elements of `theirs` into `ours` where `ours` is as `base`. All have the same length.
pub fn merge_elements(base: &[u8], ours: &mut [u8], theirs: &[u8], element: usize) {
    let element = element.max(1);
    let parts = ours.chunks_mut(element).zip(base.chunks(element)).zip(theirs.chunks(element));
    for ((ours, base), theirs) in parts {
        if *ours == *base && ours.len() == theirs.len() {
            ours.copy_from_slice(theirs);
        }
    }
}

impl Editing {
    /// Runs `work` while no other writer changes the file. Its changes begin with the newest state.
    ///
    /// For changes that depend on that state, such as rows behind the last one. A flush in `work`
    /// makes them visible to others.
    pub fn exclusively<R, E: From<Hdf5Error>>(
        &self,
        work: impl FnOnce() -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        let _turn = hyperslab_store::turns::take(self.edits.flushing, None).ok();
        let _lock = self.lock_changes()?;
        self.catch_up()?;
        work()
    }

    /// Reads what other writers have flushed.
    pub fn refresh(&self) -> Result<()> {
        self.exclusively(|| Ok(()))
    }

    /// Returns `true` if another writer has the file open.
    pub fn has_others(&self) -> bool {
        self.edits.bytes.has_others()
    }

    /// Notes that steps were appended, so that no other writer appends at the same place before the next
    /// flush.
    pub fn note_appended(&self) -> Result<()> {
        if !self.edits.has_appended.swap(true, Ordering::AcqRel) {
            self.edits.bytes.mark_appended(true)?;
        }
        Ok(())
    }

    /// Notes that all appended steps are in the file.
    pub(super) fn end_appended(&self) -> Result<()> {
        if self.edits.has_appended.swap(false, Ordering::AcqRel) {
            self.edits.bytes.mark_appended(false)?;
        }
        Ok(())
    }

    pub(super) fn epoch(&self) -> u64 {
        self.edits.epoch.load(Ordering::Acquire)
    }

    /// Merges the changes of other writers, if they have flushed since the last call.
    /// The caller excludes other writers.
    pub(super) fn catch_up(&self) -> Result<()> {
        if self.edits.is_blank.load(Ordering::Acquire) || !self.edits.bytes.is_shared() {
            return Ok(());
        }
        let state = self.state()?;
        if state.generation() == self.edits.generation.load(Ordering::Acquire) {
            return Ok(());
        }
        if state.slot.is_some_and(|slot| slot.pending.is_some()) {
            // Its writer was killed.
            super::shared::complete(&self.edits.bytes, self.base(), state.end, self.file.source().verify())?;
        }
        self.file.source().grow(state.end);
        self.file.forget_metadata();
        // After this, other threads load the new state. Objects loaded before are in the list below.
        self.edits.epoch.fetch_add(1, Ordering::AcqRel);
        let addresses: Vec<u64> = self.edits.objects.lock().keys().copied().collect();
        let stored = self.stored_file()?;
        let mut counts = Counts::default();
        let merged = addresses.into_iter().try_for_each(|address| self.merge(&stored, address, &mut counts));
        // Also after an error: objects that are merged are not merged again by the next call.
        self.correct(counts)?;
        merged?;
        self.edits.generation.store(state.generation(), Ordering::Release);
        let attached: Vec<_> = self.edits.attached.lock().values().cloned().collect();
        attached.iter().for_each(|one| one.reload(self));
        Ok(())
    }

    /// Corrects numbers of links.
    fn correct(&self, counts: Counts) -> Result<()> {
        let mut sums = BTreeMap::<u64, i64>::new();
        for (object, more) in counts.more {
            *sums.entry(object).or_default() += i64::from(more);
        }
        for (object, below, has_links) in counts.below {
            let links = below + sums.remove(&object).unwrap_or_default();
            if has_links {
                // Both writers have removed the same links: it has had links all the time.
                self.update(object, |object| object.links_to = u32::try_from(links).unwrap_or_default())?;
            } else {
                self.count_links(object, i32::try_from(links).unwrap_or_default())?;
            }
        }
        for (object, more) in sums {
            self.count_links(object, i32::try_from(more).unwrap_or_default())?;
        }
        Ok(())
    }

    /// The file on disk, without the changes of this writer.
    fn stored_file(&self) -> Result<File> {
        let bytes = &self.edits.bytes;
        let source = Source::new(bytes.clone(), bytes.key(), self.base())?;
        let source = source.with_format(self.file.sizes(), self.file.source().verify());
        Ok(File::assemble(source, self.file.inner.superblock.clone(), self.file.options().clone(), None))
    }

    /// Merges the changes of one object. Adds corrections of the number of links to others.
    fn merge(&self, stored: &File, address: u64, counts: &mut Counts) -> Result<()> {
        // Another thread must not change elements in a place that is being merged.
        let attached = self.find_attached(address);
        let turn = attached.and_then(|attached| attached.turn());
        let _turn = turn.and_then(|number| hyperslab_store::turns::take(number, None).ok());
        let Some((base, has_links, has_chunks)) = self.edits.objects.lock().get(&address).map(|object| {
            let is_new = object.stored == Stored::New;
            ((!is_new).then(|| object.base.clone()), object.links.is_some(), object.chunks.clone())
        }) else {
            return Ok(());
        };
        // Others do not know a new object.
        let Some(base) = base else { return Ok(()) };
        let header = stored.header(address)?;
        if header.blocks == base.blocks {
            return Ok(());
        }
        let mut theirs = Object::of(&header);
        super::attributes::load(stored, &mut theirs)?;
        if has_links {
            let Node::Group(group) = stored.object_at(address, "")? else {
                return Err(stored.source().invalid(format!("the object at address {address} is no group")));
            };
            let is_old = theirs.message(crate::messages::link::SYMBOL_TABLE_KIND).is_some();
            theirs.links = Some(Arc::new(Links::new(group.links()?, group.tracks_links()?, is_old)));
        }
        let mut conflicts = Vec::new();
        if let Some(table) = &has_chunks {
            conflicts = table.rebase(&super::elements::table_of(stored, address)?);
        }
        theirs.base = theirs.as_base(&header.blocks);
        let mut objects = self.edits.objects.lock();
        let Some(ours) = objects.get_mut(&address) else { return Ok(()) };
        ours.settle_users(self.libver()).map_err(|why| self.unstorable(address, why))?;
        if !ours.is_changed() && has_chunks.is_none() {
            // It is loaded again when it is needed.
            objects.remove(&address);
            return Ok(());
        }
        let mut found = Counts::default();
        let (mut merged, run) =
            merged(ours, theirs, self.libver(), &mut found).map_err(|why| self.unstorable(address, why))?;
        // Chunks that another thread puts into the table from here on are changes.
        let seen_chunks = ours.chunks.as_ref().map_or(0, |chunks| chunks.changes());
        let was_changed = ours.is_changed();
        merged.changes = ours.changes;
        merged.version = ours.version + 1;
        merged.changed();
        if !was_changed {
            merged.flushed = merged.changes;
            merged.flushed_chunks = seen_chunks;
        }
        *ours = merged;
        counts.more.extend(found.more);
        counts.below.extend(found.below);
        let (grid, mut compact) = (ours.chunk_counts(), ours.clone());
        drop(objects);
        if let (Some(table), Some(grid)) = (&has_chunks, grid) {
            // The merged shape may be smaller than theirs.
            table.crop(&grid);
        }
        let mut conflicts = conflicts.into_iter();
        let done = self.merge_values(address, &mut compact, run, &mut conflicts);
        if done.is_err() {
            // The next call merges the elements again.
            if let Some(table) = &has_chunks {
                table.give_back(conflicts.map(|(place, conflict)| (place, conflict.base)).collect());
            }
            self.with(address, |object| object.base = base)?;
        }
        done
    }

    /// Merges elements, after the messages of their dataset. Takes conflicts that are solved.
    fn merge_values(
        &self,
        address: u64,
        dataset: &mut Object,
        run: Option<MovedRun>,
        conflicts: &mut std::vec::IntoIter<(Dims, ChunkConflict)>,
    ) -> Result<()> {
        self.place_compact(dataset)?;
        if let Some(message) = dataset.message(data_layout::KIND).cloned() {
            self.with(address, |object| {
                object.replace_message(message);
                object.show();
            })?;
        }
        if let Some(run) = run {
            self.merge_run(run)?;
        }
        let Some(attached) = self.find_attached(address) else { return Ok(()) };
        while let Some((place, conflict)) = conflicts.as_slice().first().cloned() {
            attached.merge(self, &place, conflict)?;
            conflicts.next();
        }
        Ok(())
    }

    /// Merges elements of a contiguous dataset. Long runs stay in the place that others know: they
    /// write there. Short ones stay in ours, which nobody else refers to.
    fn merge_run(&self, run: MovedRun) -> Result<()> {
        let MovedRun { base, ours, theirs, size, element, fill } = run;
        let is_long = size > COPIED;
        let mut at = 0;
        let step = PIECE / element as u64 * element as u64;
        while at < size {
            let len = usize::try_from((size - at).min(step.max(element as u64))).unwrap_or_default();
            let read = |address: u64| -> Result<Vec<u8>> {
                let mut bytes = vec![0; len];
                let offset = self.base().saturating_add(address).saturating_add(at);
                self.edits.bytes.read_at(offset, &mut bytes)?;
                Ok(bytes)
            };
            let old = match base {
                Some(address) => read(address)?,
                None => fill.iter().copied().cycle().take(len).collect(),
            };
            let (mut mine, other) = (read(ours)?, read(theirs)?);
            merge_elements(&old, &mut mine, &other, element);
            let place = if is_long { theirs } else { ours };
            if !is_long || mine != other {
                self.write(place.saturating_add(at), &[&mine])?;
            }
            at = at.saturating_add(len as u64).max(at + 1);
        }
        if is_long {
            // A write that began before may still change these bytes.
            self.edits.freed.lock().push((ours, size));
        }
        Ok(())
    }
}

/// A run of elements that both writers have given another place.
struct MovedRun {
    base: Option<u64>,
    ours: u64,
    theirs: u64,
    size: u64,
    element: usize,
    /// The stored value of unwritten elements.
    fill: Vec<u8>,
}

/// Corrections of the numbers of links to objects.
#[derive(Debug, Default)]
struct Counts {
    /// Links that were counted twice, or not at all.
    more: Vec<(u64, i32)>,
    /// Objects with at most 0 links before these corrections, and whether this writer had links to
    /// them.
    below: Vec<(u64, i64, bool)>,
}

/// Merges two states of an object. Also returns the run of elements that has to be merged.
fn merged(
    ours: &Object,
    theirs: Object,
    libver: Libver,
    counts: &mut Counts,
) -> Built<(Object, Option<MovedRun>)> {
    let base = &ours.base;
    let mut merged = theirs;
    let more = i64::from(ours.links_to) - i64::from(ours.flushed_links_to);
    let links_to = i64::from(merged.links_to).saturating_add(more);
    if links_to <= 0 {
        counts.below.push((ours.address, links_to, ours.links_to > 0));
    }
    merged.links_to = u32::try_from(links_to.max(0)).unwrap_or(u32::MAX);
    merged.lost_links = ours.lost_links;
    merged.chunks = ours.chunks.clone();
    let run = merge_messages(base, ours, &mut merged)?;
    counts.more.extend(merge_attributes(base, ours, &mut merged, libver)?);
    if let (Some(mine), Some(other)) = (&ours.links, &merged.links) {
        let old = base.links.as_ref().unwrap_or(mine);
        let (links, found) = merge_links(old, mine, other)?;
        merged.links = Some(Arc::new(links));
        counts.more.extend(found);
    }
    Ok((merged, run))
}

/// The messages that are not about links or attributes.
fn is_plain(message: &Message) -> bool {
    message.kind != attribute::KIND && !is_about_links(message)
}

fn merge_messages(base: &Base, ours: &Object, merged: &mut Object) -> Built<Option<MovedRun>> {
    let of = |messages: &[Message], kind: u16| -> Vec<Message> {
        messages.iter().filter(|message| message.kind == kind && is_plain(message)).cloned().collect()
    };
    let same = |one: &[Message], other: &[Message]| {
        one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.data[..] == other.data[..])
    };
    let mut kinds: Vec<u16> = ours.messages.iter().filter(|one| is_plain(one)).map(|one| one.kind).collect();
    kinds.extend(base.messages.iter().filter(|one| is_plain(one)).map(|one| one.kind));
    kinds.sort_unstable();
    kinds.dedup();
    let mut run = None;
    for kind in kinds {
        let (old, mine, other) =
            (of(&base.messages, kind), of(&ours.messages, kind), of(&merged.messages, kind));
        if same(&mine, &old) && kind != data_layout::KIND {
            continue;
        }
        match (kind, &*mine, &*other) {
            (dataspace::KIND, [mine], [other]) => {
                let old = old.first().unwrap_or(mine);
                merged.replace_message(merge_shape(old, mine, other)?);
            }
            (data_layout::KIND, [mine], [other]) => {
                let old = old.first().unwrap_or(other);
                let (message, found) = merge_layout(ours, old, mine, other)?;
                merged.replace_message(message);
                run = found;
            }
            _ => {
                merged.messages.retain(|message| message.kind != kind);
                merged.messages.extend(mine);
            }
        }
    }
    Ok(run)
}

fn merge_shape(base: &Message, ours: &Message, theirs: &Message) -> Built<Message> {
    let shapes = (
        object::parsed(base, Dataspace::parse)?,
        object::parsed(ours, Dataspace::parse)?,
        object::parsed(theirs, Dataspace::parse)?,
    );
    let (
        Dataspace::Simple { shape: old, .. },
        Dataspace::Simple { shape: mine, max_shape },
        Dataspace::Simple { shape: other, .. },
    ) = shapes
    else {
        return Ok(ours.clone());
    };
    let axes = mine.iter().zip(&old).zip(&other);
    let shape = axes.map(|((mine, old), other)| match (mine == old, other == old) {
        (true, _) => *other,
        (false, true) => *mine,
        (false, false) => *mine.max(other),
    });
    let dataspace = Dataspace::Simple { shape: shape.collect(), max_shape };
    // The version of the message stays as it is.
    let is_old = ours.data.first() == Some(&1);
    let libver = if is_old { crate::Libver::Earliest } else { crate::Libver::V110 };
    let data = dataspace.build(libver)?;
    Ok(super::links::message_of(NewMessage { kind: dataspace::KIND, constant: false, data }))
}

fn merge_layout(
    dataset: &Object,
    base: &Message,
    ours: &Message,
    theirs: &Message,
) -> Built<(Message, Option<MovedRun>)> {
    let layout = |message: &Message| object::parsed(message, DataLayout::parse);
    match (layout(base)?, layout(ours)?, layout(theirs)?) {
        (
            DataLayout::Contiguous { address: base, .. },
            DataLayout::Contiguous { address: Some(mine), size: Some(size) },
            DataLayout::Contiguous { address: Some(other), .. },
        ) => {
            if Some(mine) == base || mine == other {
                return Ok((theirs.clone(), None));
            }
            if Some(other) == base {
                return Ok((ours.clone(), None));
            }
            let (element, fill) = element_of(dataset)?;
            let place = if size > COPIED { theirs } else { ours };
            Ok((place.clone(), Some(MovedRun { base, ours: mine, theirs: other, size, element, fill })))
        }
        (DataLayout::Contiguous { .. }, DataLayout::Contiguous { address: Some(_), .. }, _) => {
            Ok((ours.clone(), None))
        }
        (DataLayout::Compact { address, size }, DataLayout::Compact { .. }, DataLayout::Compact { .. }) => {
            let (element, _) = element_of(dataset)?;
            let head = usize::try_from(address.saturating_sub(base.address)).unwrap_or(usize::MAX);
            let len = usize::try_from(size).unwrap_or(usize::MAX);
            let mut data = ours.data.to_vec();
            let end = head.saturating_add(len);
            let parts = (base.data.get(head..end), data.get_mut(head..end), theirs.data.get(head..end));
            if let (Some(old), Some(mine), Some(other)) = parts {
                merge_elements(old, mine, other, element);
            }
            // Readers of this process find the elements at this place, which is written below.
            Ok((Message { data: Bytes::from(data), ..ours.clone() }, None))
        }
        _ => Ok((theirs.clone(), None)),
    }
}

/// Bytes of an element, and the stored fill value.
fn element_of(dataset: &Object) -> Built<(usize, Vec<u8>)> {
    let missing = || BuildError("a dataset without a datatype message".into());
    let message = dataset.message(crate::datatype::KIND).ok_or_else(missing)?;
    let size = match message.is_shared() {
        false => object::parsed(message, crate::datatype::Datatype::parse)?.size as usize,
        // The type is in another header. The layout says how many bytes all elements have.
        true => {
            let count = dataset.dataspace()?.count().unwrap_or_default();
            let layout = dataset.message(data_layout::KIND);
            let bytes = match layout.map(|message| object::parsed(message, DataLayout::parse)).transpose()? {
                Some(DataLayout::Contiguous { size, .. }) => size.unwrap_or_default(),
                Some(DataLayout::Compact { size, .. }) => size,
                _ => 0,
            };
            usize::try_from(bytes.checked_div(count).unwrap_or_default()).unwrap_or_default()
        }
    };
    let fill = match dataset.message(fill_value::KIND) {
        Some(message) => {
            object::parsed(message, fill_value::FillValue::parse)?.value.map(|value| value.to_vec())
        }
        None => None,
    };
    Ok((size.max(1), fill.filter(|fill| fill.len() == size).unwrap_or_else(|| vec![0; size])))
}

/// Merges attributes. Also returns corrections of the numbers of uses of committed types: both writers
/// have counted the attribute that both have replaced.
fn merge_attributes(
    base: &Base,
    ours: &Object,
    merged: &mut Object,
    libver: Libver,
) -> Built<Vec<(u64, i32)>> {
    let of = |messages: &[Message]| -> Built<BTreeMap<String, Message>> {
        let attributes = messages.iter().filter(|message| message.kind == attribute::KIND);
        attributes.map(|message| Ok((attribute_name(message)?, message.clone()))).collect()
    };
    let (old, mine) = (of(&base.messages)?, of(&ours.messages)?);
    let theirs = of(&merged.messages)?;
    let same = |one: Option<&Message>, other: Option<&Message>| {
        one.map(|message| &message.data[..]) == other.map(|message| &message.data[..])
    };
    let mut counts = Vec::new();
    // In the order in which they were made.
    let made = ours.messages.iter().filter(|message| message.kind == attribute::KIND);
    let mut names = made.map(attribute_name).collect::<Built<Vec<String>>>()?;
    names.extend(old.keys().filter(|name| !mine.contains_key(*name)).cloned());
    for name in &names {
        let (before, new, other) = (old.get(name), mine.get(name), theirs.get(name));
        if same(before, new) {
            continue;
        }
        if name == REFERENCE_LIST
            && !same(before, other)
            && let Some(data) = scale_users::merged(before, new, other, libver)?
        {
            let at = merged.find_attribute(name);
            merged.put_attribute(at, data)?;
            continue;
        }
        match (new, merged.find_attribute(name)) {
            (Some(new), at) => merged.put_attribute(at, new.data.to_vec())?,
            (None, Some(at)) => drop(merged.messages.remove(at)),
            (None, None) => {}
        }
        if !same(before, other) && ours.links_to > 0 {
            counts.extend(before.and_then(committed::type_of).map(|address| (address, 1)));
            counts.extend(other.and_then(committed::type_of).map(|address| (address, -1)));
        }
    }
    Ok(counts)
}

/// Merges links. Also returns corrections of the number of links: an object lost one link only, if
/// both have removed it.
fn merge_links(base: &Links, ours: &Links, theirs: &Links) -> Built<(Links, Vec<(u64, i32)>)> {
    let (mut merged, mut counts) = (theirs.clone(), Vec::new());
    for link in base.all() {
        let is_ours = |links: &Links| links.get(&link.name).is_some_and(|found| found.target == link.target);
        if is_ours(ours) {
            continue;
        }
        if is_ours(theirs) {
            merged.remove(&link.name);
        } else if let LinkTarget::Hard(object) = link.target {
            counts.push((object, 1));
        }
    }
    for link in ours.all() {
        if base.get(&link.name).is_some_and(|old| old.target == link.target) {
            continue;
        }
        match merged.get(&link.name).map(|other| other.target == link.target) {
            None => {
                merged.add(&link.name, link.target);
            }
            Some(true) => {
                if let LinkTarget::Hard(object) = link.target {
                    counts.push((object, -1));
                }
            }
            Some(false) => {
                return Err(BuildError(format!(
                    "'{}' was also made by another process meanwhile: rename or delete this one, then flush again",
                    link.name
                )));
            }
        }
    }
    Ok((merged, counts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_that_one_writer_has_changed() {
        let mut ours = *b"aaXXccYd";
        merge_elements(b"aabbccdd", &mut ours, b"aaZZeedd", 2);
        assert_eq!(&ours, b"aaXXeeYd");
    }

    #[test]
    fn links_are_merged_by_name() {
        let links = |all: &[(&str, u64)]| {
            let mut links = Links::new(Vec::new(), false, true);
            for (name, address) in all {
                assert!(links.add(name, LinkTarget::Hard(*address)));
            }
            links
        };
        let base = links(&[("a", 1), ("b", 2), ("c", 3), ("d", 4)]);
        let ours = links(&[("a", 1), ("c", 30), ("d", 4), ("e", 5)]);
        let theirs = links(&[("a", 1), ("b", 2), ("c", 3), ("f", 6)]);
        let (merged, counts) = merge_links(&base, &ours, &theirs).unwrap();
        assert_eq!(merged.all(), links(&[("a", 1), ("c", 30), ("e", 5), ("f", 6)]).all());
        assert_eq!(counts, []);
        let (merged, counts) = merge_links(&base, &ours, &links(&[("a", 1), ("d", 4), ("e", 5)])).unwrap();
        assert_eq!(merged.all(), links(&[("a", 1), ("c", 30), ("d", 4), ("e", 5)]).all());
        // Both have removed 'b' and 'c', and both have made 'e'.
        assert_eq!(counts, [(2, 1), (3, 1), (5, -1)]);
        let refused = merge_links(&base, &ours, &links(&[("e", 50)])).unwrap_err();
        assert!(refused.0.contains("another process"), "{}", refused.0);
    }
}
