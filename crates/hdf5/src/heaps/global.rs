//! Collections of the global heap: elements of variable length, and regions (specification III.E).
//!
//! Several collections that are close together are fetched in these steps:
//!
//! 1. Fetch the first bytes of each collection, as many as an earlier collection of this file had.
//!    Neighbours become one range, and all ranges one request.
//! 2. The header gives the length of the collection. The rest of longer collections is a second
//!    request.
//! 3. Each directory is parsed once into a flat table.
//!
//! Collections over 64 KiB are not fetched whole. (The HDF5 library makes one only for a large
//! object.) Their directory is read from object to object. Each object is read when it is needed,
//! straight to its destination.

use super::directory::{Directory, ShortExtent, UNIT, usual_directory};
use crate::cursor::to_usize;
use crate::{ParseError, Result, Source};
use hyperslab_array::Memory;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

pub(super) const STRUCTURE: &str = "global heap collection";

/// Smallest collection in bytes that the HDF5 library makes.
pub(crate) const SMALLEST: u64 = 4 << 10;

/// Collections up to this many bytes are fetched whole. The HDF5 library does not grow a collection
/// beyond it.
pub(crate) const WHOLE: u64 = 64 << 10;

/// Collections with at most this many bytes between them become one range.
const GAP: u64 = 4 << 10;

/// Bytes of a CPU cache line.
pub(crate) const LINE: usize = 64;

/// A collection of the global heap (specification III.E). Its directory is parsed once.
#[derive(Debug)]
pub struct Collection {
    address: u64,
    /// Bytes of the collection, including its header.
    len: u64,
    objects: Directory,
    /// All bytes of the collection. `None`: it is too large to keep in memory.
    bytes: Option<SharedBytes>,
}

/// A collection prepared for fast access to many of its objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open<'c> {
    /// Entries of [`Directory::Usual`]. Empty for other directories, and if the bytes are not in
    /// memory.
    objects: &'c [ShortExtent],
    bytes: &'c [u8],
    pub(crate) collection: &'c Collection,
}

impl<'c> Open<'c> {
    /// Returns the first `len` bytes of an object. `None`: try [`Collection::object`], which
    /// handles all objects.
    #[inline(always)]
    pub(crate) fn find(&self, index: u32, len: usize) -> Option<&'c [u8]> {
        let (start, has) = *self.objects.get(usize::try_from(index).ok()?.wrapping_sub(1))?;
        let start = usize::from(start) * UNIT;
        // A hole starts at 0 and has no bytes. The check of `start` also refuses 0 bytes of a hole.
        if len > usize::from(has) || start == 0 {
            return None;
        }
        self.bytes.get(start..start + len)
    }
}

/// A part of memory that several collections share.
#[derive(Clone, Debug)]
struct SharedBytes {
    memory: Arc<Memory>,
    range: Range<usize>,
}

#[derive(Clone, Copy, Debug)]
pub enum Object<'a> {
    Here(&'a [u8]),
    /// The bytes are in the file at this address.
    There {
        address: u64,
        len: u64,
    },
}

impl Collection {
    /// Reads the collections at these ascending addresses. The first request fetches `guess` bytes
    /// of each.
    pub(crate) fn read(source: &Source, addresses: &[u64], guess: u64) -> Result<Vec<Collection>> {
        let mut found = Vec::with_capacity(addresses.len());
        for (address, head) in addresses.iter().zip(heads(source, addresses, guess)?) {
            found.push((Head::parse(source, *address, head.bytes())?, head));
            source.note_structure(*address);
        }
        // Refuse overlapping collections. With them a small file could claim much memory.
        for pair in found.windows(2) {
            if let [(a, _), (b, _)] = pair
                && a.address.saturating_add(a.len) > b.address
            {
                let why = format!(
                    "the collection of {} bytes overlaps the next one at address {}",
                    a.len, b.address
                );
                return Err(source.corrupt(STRUCTURE, a.address, why));
            }
        }
        complete_collections(source, &mut found)?;
        let (mut places, mut objects) = (Vec::new(), Vec::new());
        let taken_apart = |(head, part): (Head, SharedBytes)| {
            let (address, len) = (head.address, head.len);
            let objects = match usual_directory(&head, part.bytes(), source.sizes(), &mut places) {
                Some(()) => Directory::Usual(places.as_slice().into()),
                None => Directory::read(source, &head, part.bytes(), &mut objects)?,
            };
            Ok(Collection { address, len, objects, bytes: (len <= WHOLE).then_some(part) })
        };
        found.into_iter().map(taken_apart).collect()
    }

    pub fn address(&self) -> u64 {
        self.address
    }

    /// Approximate memory of the collection in bytes.
    pub(crate) fn weight(&self) -> u64 {
        let bytes = if self.bytes.is_some() { self.len } else { 0 };
        bytes.saturating_add((self.objects.weight() + size_of::<Collection>()) as u64)
    }

    /// Bytes to fetch of another collection, assuming that it is about as long as this one.
    pub(crate) fn guess(&self) -> u64 {
        if self.len <= WHOLE { self.len.max(SMALLEST) } else { SMALLEST }
    }

    /// Returns all bytes of the collection if they are in memory, else none.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.as_ref().map_or(&[], SharedBytes::bytes)
    }

    /// Prepares access to many objects of the collection.
    pub(crate) fn open(&self) -> Open<'_> {
        let bytes = self.bytes();
        match &self.objects {
            Directory::Usual(objects) if !bytes.is_empty() => Open { objects, bytes, collection: self },
            _ => Open { objects: &[], bytes, collection: self },
        }
    }

    /// Reads the whole collection into the CPU cache. Use before reading objects in random order.
    pub(crate) fn touch(&self) {
        if let Directory::Usual(objects) = &self.objects {
            let lines = objects.iter().step_by(LINE / size_of::<ShortExtent>());
            std::hint::black_box(lines.fold(0, |all, (start, _)| all ^ start));
        }
        std::hint::black_box(self.bytes().iter().step_by(LINE).fold(0, |all, byte| all ^ byte));
    }

    /// Returns the object with this index. `None`: there is no such object.
    pub fn object(&self, index: u32) -> Option<Object<'_>> {
        let (start, len) = self.objects.find(index)?;
        if self.bytes.is_none() {
            return Some(Object::There { address: self.address.saturating_add(start), len });
        }
        let start = usize::try_from(start).ok()?;
        self.bytes().get(start..start.checked_add(usize::try_from(len).ok()?)?).map(Object::Here)
    }
}

impl<'a> Object<'a> {
    pub fn len(&self) -> u64 {
        match self {
            Object::Here(bytes) => bytes.len() as u64,
            Object::There { len, .. } => *len,
        }
    }

    /// Returns the first `len` bytes of the object. `None`: it is shorter.
    #[inline]
    pub(crate) fn first(self, len: u64) -> Option<Object<'a>> {
        match self {
            Object::Here(bytes) => bytes.get(..usize::try_from(len).ok()?).map(Object::Here),
            Object::There { address, len: all } => (len <= all).then_some(Object::There { address, len }),
        }
    }

    pub fn read(&self, source: &Source) -> Result<Cow<'a, [u8]>> {
        let (address, len) = match *self {
            Object::Here(bytes) => return Ok(Cow::Borrowed(bytes)),
            Object::There { address, len } => (address, len),
        };
        let mut bytes = Vec::new();
        let reserved = usize::try_from(len).ok().filter(|len| bytes.try_reserve_exact(*len).is_ok());
        let len =
            reserved.ok_or_else(|| source.invalid(format!("no memory for an object of {len} bytes")))?;
        bytes.resize(len, 0);
        source.read_into(STRUCTURE, [(address, bytes.as_mut_slice())])?;
        Ok(Cow::Owned(bytes))
    }

    /// Fills `place` with the first bytes of the object, which must be at least as long.
    #[inline]
    pub(crate) fn copy_to(&self, source: &Source, place: &mut [u8]) -> Result<()> {
        match self {
            Object::Here(bytes) => {
                if let Some(bytes) = bytes.get(..place.len()) {
                    place.copy_from_slice(bytes);
                }
                Ok(())
            }
            // Small objects probably have neighbours that are needed too. These come in the same
            // page.
            Object::There { address, .. } if (place.len() as u64) < WHOLE => {
                place.copy_from_slice(&source.bytes(STRUCTURE, *address, place.len() as u64)?);
                Ok(())
            }
            Object::There { address, .. } => source.read_into(STRUCTURE, [(*address, place)]),
        }
    }
}

impl SharedBytes {
    #[inline]
    fn bytes(&self) -> &[u8] {
        self.memory.as_slice().get(self.range.clone()).unwrap_or_default()
    }
}

pub(super) struct Head {
    pub(super) address: u64,
    pub(super) len: u64,
    /// Offset of the first object.
    pub(super) first: u64,
}

impl Head {
    fn parse(source: &Source, address: u64, bytes: &[u8]) -> Result<Head> {
        let mut cursor = source.cursor(bytes, address);
        let mut parse = || {
            cursor.signature(b"GCOL")?;
            cursor.version(STRUCTURE, &[1])?;
            cursor.skip(3)?;
            let len = cursor.length()?;
            // Objects start at a multiple of 8 bytes, even if lengths have 4 bytes.
            cursor.align(8)?;
            let first = cursor.position() as u64;
            let end = address.saturating_add(len);
            let why = match () {
                () if len < first => {
                    format!("a global heap collection needs at least {first} bytes, found {len}")
                }
                () if end > source.end() => {
                    format!("the collection has {len} bytes, but the file has only {}", source.end())
                }
                () => return Ok(Head { address, len, first }),
            };
            Err(ParseError::Corrupt { at: address, why })
        };
        parse().map_err(|why| source.structure_error(STRUCTURE, address, why))
    }
}

/// Reads the first bytes of each collection.
fn heads(source: &Source, addresses: &[u64], guess: u64) -> Result<Vec<SharedBytes>> {
    let size = |from: u64, to: u64| to_usize(to.saturating_sub(from));
    // Ranges of the file, and the place in memory of the last range.
    let (mut ranges, mut begin): (Vec<(u64, u64)>, usize) = (Vec::new(), 0);
    let mut places = Vec::with_capacity(addresses.len());
    for address in addresses.iter().copied() {
        let end = address.saturating_add(guess).min(source.end());
        if end <= address {
            let why = format!(
                "it is outside the file: the file has only {} bytes after the base address",
                source.end()
            );
            return Err(source.corrupt(STRUCTURE, address, why));
        }
        let start = match ranges.last_mut() {
            Some((start, last)) if address <= last.saturating_add(GAP) => {
                *last = end.max(*last);
                *start
            }
            last => {
                begin += last.map_or(0, |(start, end)| size(*start, *end));
                ranges.push((address, end));
                address
            }
        };
        let place = begin.saturating_add(size(start, address));
        places.push(place..place.saturating_add(size(address, end)));
    }
    let total = begin.saturating_add(ranges.last().map_or(0, |(start, end)| size(*start, *end)));
    let mut memory = memory(source, total)?;
    let mut rest = memory.as_mut_slice();
    let mut wanted = Vec::with_capacity(ranges.len());
    for (start, end) in ranges {
        let (here, later) = rest.split_at_mut(size(start, end));
        wanted.push((start, here));
        rest = later;
    }
    source.read_into(STRUCTURE, wanted)?;
    let memory = Arc::new(memory);
    Ok(places.into_iter().map(|range| SharedBytes { memory: memory.clone(), range }).collect())
}

/// Fetches the rest of collections that are only partly in memory.
fn complete_collections(source: &Source, found: &mut [(Head, SharedBytes)]) -> Result<()> {
    let mut grown = Vec::new();
    for (head, part) in found {
        let len = to_usize(head.len.min(WHOLE));
        let there = part.range.len();
        if head.len > WHOLE {
            continue;
        }
        if len <= there {
            part.range.end = part.range.start + len;
            continue;
        }
        let mut memory = memory(source, len)?;
        if let Some(start) = memory.as_mut_slice().get_mut(..there) {
            start.copy_from_slice(part.bytes());
        }
        grown.push((head.address.saturating_add(there as u64), there, memory, part));
    }
    if grown.is_empty() {
        return Ok(());
    }
    let rests = grown.iter_mut().map(|(address, there, memory, _)| {
        (*address, memory.as_mut_slice().get_mut(*there..).unwrap_or_default())
    });
    source.read_into(STRUCTURE, rests)?;
    for (_, _, memory, part) in grown {
        *part = SharedBytes { range: 0..memory.len(), memory: Arc::new(memory) };
    }
    Ok(())
}

fn memory(source: &Source, len: usize) -> Result<Memory> {
    Memory::dirty(len).ok_or_else(|| source.invalid(format!("no memory for {len} bytes of the global heap")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SIZES, collection, collection_of, mutations};

    fn read(source: &Source) -> Result<Collection> {
        Collection::read(source, &[0], SMALLEST).map(|found| found.into_iter().next().unwrap())
    }

    fn object(source: &Source, found: &Collection, index: u32) -> Option<Vec<u8>> {
        Some(found.object(index)?.read(source).unwrap().into_owned())
    }

    /// Both parsers agree, or only the general one can read the directory.
    #[test]
    fn usual_directories_are_as_any() {
        let usual_ones = std::cell::Cell::new(0);
        let gaps = [(4, &b"d"[..]), (1, b"a"), (9, b"")];
        for objects in [&[(1, &b"one"[..]), (2, b"exactly8"), (3, b"")][..], &gaps, &[(700, b"far")], &[]] {
            mutations(&collection_of(8, objects, 20), |source| {
                let Ok(bytes) = source.read(STRUCTURE, 0, source.size()) else { return };
                let Ok(head) = Head::parse(source, 0, &bytes) else { return };
                let mut places = Vec::new();
                if usual_directory(&head, &bytes, SIZES, &mut places).is_some() {
                    let found = Directory::read(source, &head, &bytes, &mut Vec::new()).unwrap();
                    let Directory::Usual(found) = found else { panic!("not usual") };
                    assert_eq!(*found, *places);
                    usual_ones.set(usual_ones.get() + 1);
                }
            });
        }
        assert!(usual_ones.get() > 100);
    }

    #[test]
    fn any_bytes() {
        mutations(&collection(&[(1, b"one"), (2, b"exactly8"), (9, b"!")]), |source| {
            if let Ok(found) = read(source) {
                (0..12).for_each(|index| drop(object(source, &found, index)));
            }
        });
    }
}
