//! Directories of collections of the global heap: where their objects are.

use super::global::{Head, SMALLEST, STRUCTURE, WHOLE};
use crate::cursor::number;
use crate::{ParseError, Result, Sizes, Source};
use std::borrow::Cow;

/// Objects begin at multiples of this.
pub(super) const UNIT: usize = 8;

/// Indices have 16 bits.
const MOST_OBJECTS: usize = 1 << 16;

/// Where an object begins, in units of [`UNIT`] bytes, and its bytes.
pub(super) type ShortExtent = (u16, u16);

/// The value for an index without an object: no object begins where its collection does.
const HOLE: ShortExtent = (0, 0);

/// Where objects are in their collection.
#[derive(Debug)]
pub(super) enum Directory {
    /// By index, from 1 on, with holes. A sixth of the memory that the other kind takes.
    Usual(Box<[ShortExtent]>),
    /// All others: with few objects for their indices, or objects too large for [`ShortExtent`].
    Any(Box<[Extent]>),
}

impl Directory {
    /// `entries` ascend by index; the collection has `size` bytes.
    fn new(entries: &[Extent], size: u64) -> Directory {
        let mut places = Vec::with_capacity(entries.len());
        let note = |entry: &Extent| note(&mut places, size, entry.index, entry.start, entry.len);
        match entries.iter().try_for_each(note) {
            Some(()) => Directory::Usual(places.into()),
            None => Directory::Any(entries.into()),
        }
    }

    /// Reads any directory. `there` are the bytes in memory, `objects` is scratch.
    pub(super) fn read(
        source: &Source,
        head: &Head,
        there: &[u8],
        objects: &mut Vec<Extent>,
    ) -> Result<Directory> {
        let size = object_header(source.sizes());
        let mut window = Window { start: 0, bytes: Cow::Borrowed(there) };
        directory(source, head, objects, |at| {
            if head.len > WHOLE && window.get(at, size).is_none() {
                let wanted = usize::try_from(SMALLEST.min(head.len.saturating_sub(at))).unwrap_or(size);
                let mut bytes = vec![0; wanted];
                source.read_into(STRUCTURE, [(head.address.saturating_add(at), bytes.as_mut_slice())])?;
                window = Window { start: at, bytes: Cow::Owned(bytes) };
            }
            let header = window.get(at, size).unwrap_or_default();
            let index = header.first_chunk().map_or(0, |index| u16::from_le_bytes(*index));
            Ok((index, header.get(8..8 + usize::from(source.sizes().length)).and_then(number)))
        })?;
        Ok(Directory::new(objects, head.len))
    }

    /// Where the object of an index begins, and its bytes.
    #[inline]
    pub(super) fn find(&self, index: u32) -> Option<(u64, u64)> {
        match self {
            Directory::Usual(objects) => {
                let place = *objects.get(usize::try_from(index).ok()?.checked_sub(1)?)?;
                let (start, len) = (place != HOLE).then_some(place)?;
                Some((u64::from(start) * UNIT as u64, len.into()))
            }
            Directory::Any(objects) => {
                let place = objects.binary_search_by_key(&index, |entry| entry.index.into()).ok()?;
                objects.get(place).map(|entry| (entry.start, entry.len))
            }
        }
    }

    pub(super) fn weight(&self) -> usize {
        match self {
            Directory::Usual(objects) => size_of_val(&**objects),
            Directory::Any(objects) => size_of_val(&**objects),
        }
    }
}

/// Where an object is in its collection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    index: u16,
    start: u64,
    len: u64,
}

struct Window<'a> {
    start: u64,
    bytes: Cow<'a, [u8]>,
}

impl Window<'_> {
    fn get(&self, at: u64, len: usize) -> Option<&[u8]> {
        let from = usize::try_from(at.checked_sub(self.start)?).ok()?;
        self.bytes.get(from..from.checked_add(len)?)
    }
}

/// Bytes before those of an object: index, reference count, 4 reserved bytes, size; padded.
fn object_header(sizes: Sizes) -> usize {
    (8 + usize::from(sizes.length)).next_multiple_of(8)
}

/// As [`directory`], three times as fast, for collections in memory with sizes of 8 bytes and only
/// [`ShortExtent`]s: nearly all. `None`: another, or a damaged one.
pub(super) fn usual(head: &Head, bytes: &[u8], sizes: Sizes, places: &mut Vec<ShortExtent>) -> Option<()> {
    places.clear();
    let bytes = bytes.get(..usize::try_from(head.len).ok()?).filter(|_| sizes.length == 8)?;
    let mut at = usize::try_from(head.first).ok()?;
    while let Some([a, b, _, _, _, _, _, _, len @ ..]) = bytes.get(at..).and_then(<[u8]>::first_chunk::<16>) {
        let (start, len) = (at + 16, usize::try_from(u64::from_le_bytes(*len)).ok()?);
        let index = u16::from_le_bytes([*a, *b]);
        if index == 0 {
            return [bytes.len() - at, bytes.len() - start, 0].contains(&len).then_some(());
        }
        let end = start.checked_add(len).filter(|end| *end <= bytes.len())?;
        note(places, head.len, index, start as u64, len as u64)?;
        at = end.next_multiple_of(8);
    }
    Some(())
}

/// Notes an object of a collection of `size` bytes. `None`: it has no [`ShortExtent`], its index is
/// taken, or the table would be larger than the collection.
#[inline]
fn note(places: &mut Vec<ShortExtent>, size: u64, index: u16, start: u64, len: u64) -> Option<()> {
    let unit = UNIT as u64;
    let place =
        (u16::try_from(start / unit).ok().filter(|_| start.is_multiple_of(unit))?, u16::try_from(len).ok()?);
    let number = usize::from(index).checked_sub(1)?;
    if number == places.len() {
        places.push(place);
        return Some(());
    }
    if u64::from(index) * size_of::<ShortExtent>() as u64 > size {
        return None;
    }
    if number > places.len() {
        places.resize(number, HOLE);
        places.push(place);
        return Some(());
    }
    let there = places.get_mut(number).filter(|there| **there == HOLE)?;
    *there = place;
    Some(())
}

/// All objects, sorted by index. `header` reads index and size of the one whose header is there.
fn directory(
    source: &Source,
    head: &Head,
    objects: &mut Vec<Extent>,
    mut header: impl FnMut(u64) -> Result<(u16, Option<u64>)>,
) -> Result<()> {
    let corrupt = |at: u64, why: String| {
        let at = head.address.saturating_add(at);
        source.wrong(STRUCTURE, head.address, ParseError::Corrupt { at, why })
    };
    let size = object_header(source.sizes()) as u64;
    objects.clear();
    let mut at = head.first;
    // At the end there may be fewer bytes than an object's header has: they are free.
    while let Some(start) = at.checked_add(size).filter(|start| *start <= head.len) {
        let (index, len) = header(at)?;
        let shown = || len.map_or("more than 2⁶⁴".into(), |len| len.to_string());
        // Free space is last and has the index 0. Writers store its size in three ways.
        if index == 0 {
            let left = head.len - at;
            if [left, head.len - start, 0].map(Some).contains(&len) {
                break;
            }
            let why = format!("free space of {} bytes, {left} are left", shown());
            return Err(corrupt(at, why));
        }
        let end = len.and_then(|len| start.checked_add(len)).filter(|end| *end <= head.len);
        let Some(end) = end else {
            let why = format!("object {index} has {} bytes, {} are left", shown(), head.len - start);
            return Err(corrupt(at, why));
        };
        if objects.len() >= MOST_OBJECTS {
            return Err(corrupt(at, format!("a second object {index}")));
        }
        objects.push(Extent { index, start, len: end - start });
        at = end.next_multiple_of(8);
    }
    if !objects.is_sorted_by_key(|object| object.index) {
        objects.sort_unstable_by_key(|object| object.index);
    }
    for pair in objects.windows(2) {
        if let [a, b] = pair
            && a.index == b.index
        {
            return Err(corrupt(a.start.max(b.start), format!("a second object {}", a.index)));
        }
    }
    Ok(())
}
