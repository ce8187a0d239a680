//! Directories of collections of the global heap: where their objects are.

use super::global::{Head, SMALLEST, STRUCTURE, WHOLE};
use crate::cursor::number;
use crate::{Hdf5Error, ParseError, Sizes, Source};
use std::borrow::Cow;

/// Objects begin at multiples of so many bytes.
pub(super) const UNIT: usize = 8;

/// Indices have 16 bits.
const MOST_OBJECTS: usize = 1 << 16;

/// Where objects are in their collection.
#[derive(Debug)]
pub(super) enum Directory {
    /// Those of the indices 1, 2, 3 and so on, which all are nearly always: where each begins, in units of [`UNIT`] bytes, and its bytes. A sixth of what others take, of
    /// the cache as well.
    Usual(Box<[(u16, u16)]>),
    /// By index.
    Any(Box<[Entry]>),
}

impl Directory {
    /// `entries` ascend by index.
    fn new(entries: &[Entry]) -> Directory {
        let mut usual = Vec::with_capacity(entries.len());
        usual.extend((1..).zip(entries).map_while(|(index, entry)| {
            let place = (u16::try_from(entry.start / UNIT as u64).ok()?, u16::try_from(entry.len).ok()?);
            (entry.index == index && entry.start.is_multiple_of(UNIT as u64)).then_some(place)
        }));
        match usual.len() == entries.len() {
            true => Directory::Usual(usual.into()),
            false => Directory::Any(entries.into()),
        }
    }

    /// That of any collection, of which these bytes are in memory. `objects` is for what is found meanwhile.
    pub(super) fn read(
        source: &Source,
        head: &Head,
        there: &[u8],
        sizes: Sizes,
        objects: &mut Vec<Entry>,
    ) -> Result<Directory, Hdf5Error> {
        let size = object_header(sizes);
        let mut window = Window { start: 0, bytes: Cow::Borrowed(there) };
        directory(source, head, sizes, objects, |at| {
            if head.len > WHOLE && window.get(at, size).is_none() {
                let wanted = usize::try_from(SMALLEST.min(head.len.saturating_sub(at))).unwrap_or(size);
                let mut bytes = vec![0; wanted];
                source.read_into(STRUCTURE, [(head.address.saturating_add(at), bytes.as_mut_slice())])?;
                window = Window { start: at, bytes: Cow::Owned(bytes) };
            }
            let header = window.get(at, size).unwrap_or_default();
            let index = header.first_chunk().map_or(0, |index| u16::from_le_bytes(*index));
            Ok((index, header.get(8..8 + usize::from(sizes.length)).and_then(number)))
        })?;
        Ok(Directory::new(objects))
    }

    /// Where the object of an index begins, and its bytes.
    #[inline]
    pub(super) fn find(&self, index: u32) -> Option<(u64, u64)> {
        match self {
            Directory::Usual(objects) => {
                let (start, len) = *objects.get(usize::try_from(index).ok()?.checked_sub(1)?)?;
                Some((u64::from(start) * UNIT as u64, len.into()))
            }
            Directory::Any(objects) => {
                let place = objects.binary_search_by_key(&index, |entry| entry.index.into()).ok()?;
                objects.get(place).map(|entry| (entry.start, entry.len))
            }
        }
    }

    /// Bytes that it takes.
    pub(super) fn weight(&self) -> usize {
        match self {
            Directory::Usual(objects) => size_of_val(&**objects),
            Directory::Any(objects) => size_of_val(&**objects),
        }
    }
}

/// Where an object is in its collection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    index: u16,
    start: u64,
    len: u64,
}

/// Some bytes of a collection.
struct Window<'a> {
    /// Of the collection, the first.
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

/// As [`directory`] for nearly all collections, in a third of the time: sizes have 8 bytes, all of it is in memory, and indices are 1, 2, 3 and so on. `None`: it is not such, or not right.
pub(super) fn usual(head: &Head, bytes: &[u8], sizes: Sizes, places: &mut Vec<(u16, u16)>) -> Option<()> {
    places.clear();
    let bytes = bytes.get(..usize::try_from(head.len).ok()?).filter(|_| sizes.length == 8)?;
    let mut at = usize::try_from(head.first).ok()?;
    while let Some([a, b, _, _, _, _, _, _, len @ ..]) = bytes.get(at..).and_then(<[u8]>::first_chunk::<16>) {
        let (start, len) = (at + 16, usize::try_from(u64::from_le_bytes(*len)).ok()?);
        let index = usize::from(u16::from_le_bytes([*a, *b]));
        if index == 0 {
            return [bytes.len() - at, bytes.len() - start, 0].contains(&len).then_some(());
        }
        let end = start.checked_add(len).filter(|end| *end <= bytes.len())?;
        if index != places.len() + 1 || !start.is_multiple_of(UNIT) {
            return None;
        }
        places.push((u16::try_from(start / UNIT).ok()?, u16::try_from(len).ok()?));
        at = end.next_multiple_of(8);
    }
    Some(())
}

/// Where the objects of a collection are, sorted by index. There may be thousands in one, of a few bytes each. `header` gives index and size of the object whose
/// header is there.
fn directory(
    source: &Source,
    head: &Head,
    sizes: Sizes,
    objects: &mut Vec<Entry>,
    mut header: impl FnMut(u64) -> Result<(u16, Option<u64>), Hdf5Error>,
) -> Result<(), Hdf5Error> {
    let corrupt = |at: u64, why: String| {
        let at = head.address.saturating_add(at);
        source.wrong(STRUCTURE, head.address, ParseError::Corrupt { at, why })
    };
    let size = object_header(sizes) as u64;
    objects.clear();
    let mut at = head.first;
    // At the end there may be fewer bytes than an object's header has: they are free.
    while let Some(start) = at.checked_add(size).filter(|start| *start <= head.len) {
        let (index, len) = header(at)?;
        let shown = || len.map_or("more than 2⁶⁴".into(), |len| len.to_string());
        // What is free is behind all objects, and bears the index 0. Its size is with its header, for some writers without, or not given.
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
        objects.push(Entry { index, start, len: end - start });
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
