//! Directories of global heap collections: the places of their objects.

use super::global::{Head, SMALLEST, STRUCTURE, WHOLE};
use crate::cursor::number;
use crate::{ParseError, Result, Sizes, Source};
use std::borrow::Cow;

/// Objects begin at multiples of this number of bytes.
pub(super) const UNIT: usize = 8;

/// Indices have 16 bits.
const MOST_OBJECTS: usize = 1 << 16;

/// Start of an object in units of [`UNIT`] bytes, and its length in bytes.
pub(super) type ShortExtent = (u16, u16);

/// Marks an index without an object. No object begins at the start of its collection.
const HOLE: ShortExtent = (0, 0);

/// The places of a collection's objects.
#[derive(Debug)]
pub(super) enum Directory {
    /// One entry per index from 1 on, with holes. Takes a sixth of the memory of
    /// [`Directory::Any`].
    Usual(Box<[ShortExtent]>),
    /// All other directories: sparse indices, or objects too large for [`ShortExtent`].
    Any(Box<[Extent]>),
}

impl Directory {
    /// Builds a directory. `entries` ascend by index. The collection has `size` bytes.
    fn new(entries: &[Extent], size: u64) -> Directory {
        let mut places = Vec::with_capacity(entries.len());
        let note = |entry: &Extent| note(&mut places, size, entry.index, entry.start, entry.len);
        match entries.iter().try_for_each(note) {
            Some(()) => Directory::Usual(places.into()),
            None => Directory::Any(entries.into()),
        }
    }

    /// Reads any directory. `there` holds the bytes in memory, `objects` is scratch.
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

    /// Returns start and length in bytes of the object with this index.
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

/// Place of an object in its collection.
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

/// Bytes of an object's header: index, reference count, 4 reserved bytes, size; padded to 8 bytes.
fn object_header(sizes: Sizes) -> usize {
    (8 + usize::from(sizes.length)).next_multiple_of(8)
}

/// A version of [`directory`] that is three times as fast, for the most common collections.
///
/// The collection must be in memory, with sizes of 8 bytes and only [`ShortExtent`]s. `None`: it is
/// not, or it is damaged.
pub(super) fn usual_directory(
    head: &Head,
    bytes: &[u8],
    sizes: Sizes,
    places: &mut Vec<ShortExtent>,
) -> Option<()> {
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

/// Adds an object of a collection of `size` bytes.
///
/// `None`: it does not fit a [`ShortExtent`], its index is taken, or the table would be larger than
/// the collection.
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

/// Returns all objects, sorted by index. `header` reads index and size from the object header at a
/// place.
fn directory(
    source: &Source,
    head: &Head,
    objects: &mut Vec<Extent>,
    mut header: impl FnMut(u64) -> Result<(u16, Option<u64>)>,
) -> Result<()> {
    let corrupt = |at: u64, why: String| {
        let at = head.address.saturating_add(at);
        source.structure_error(STRUCTURE, head.address, ParseError::Corrupt { at, why })
    };
    let size = object_header(source.sizes()) as u64;
    objects.clear();
    let mut at = head.first;
    // The end may have fewer bytes than an object header. They are free space.
    while let Some(start) = at.checked_add(size).filter(|start| *start <= head.len) {
        let (index, len) = header(at)?;
        let shown = || len.map_or("more than 2⁶⁴".into(), |len| len.to_string());
        // Free space comes last and has index 0. Writers store its size in three ways.
        if index == 0 {
            let left = head.len - at;
            if [left, head.len - start, 0].map(Some).contains(&len) {
                break;
            }
            let why = format!("expected {left} bytes of free space, found {}", shown());
            return Err(corrupt(at, why));
        }
        let end = len.and_then(|len| start.checked_add(len)).filter(|end| *end <= head.len);
        let Some(end) = end else {
            let why =
                format!("expected at most {} bytes for object {index}, found {}", head.len - start, shown());
            return Err(corrupt(at, why));
        };
        if objects.len() >= MOST_OBJECTS {
            return Err(corrupt(at, format!("expected at most {MOST_OBJECTS} objects, found more")));
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
            return Err(corrupt(a.start.max(b.start), format!("two objects have index {}", a.index)));
        }
    }
    Ok(())
}
