//! Elements of variable length: many heap ids to offsets + values + validity in one pass.
//!
//! 1. Ids are read in batches, so that those of millions of elements need no memory. Of each: length, address of a global heap collection, index in it.
//! 2. Lengths give the offsets. Objects are copied, or converted, to where the values of each go, by all threads, in the order of the file (see
//!    `HeapIds`).
//! 3. Where a string has a NUL it ends there: the rest of its batch moves together.
//!
//! A few elements whose collections are in memory are copied at once.
//!
//! Objects are not compressed and seldom shared. Where there are more values than the file has bytes, all lengths are checked against the heap
//! before there is memory for them.

use crate::convert::Conversion;
use crate::cursor::{address, number};
use crate::element::{Element, ElementKind};
use crate::heaps::{Collection, Fetch, Grouped, HeapIds, Object, named};
use crate::{Dataset, File, Hdf5Error, Sizes};
pub use hyperslab_array::Ragged;
use hyperslab_array::{ArrayLayout, Dims, Memory, ReadOptions, Selection, element_count, in_batches};
use std::sync::Arc;

/// There may be so many times as many bytes of values as the file has: objects may be shared by many elements.
const MOST_SHARED: u64 = 1 << 10;

/// Elements of which the ids are in memory at a time.
const BATCH: usize = 512 << 10;

/// No more elements than these are a few.
const FEW: usize = 64;

/// Elements that are resolved together, if collections hold `DENSE` of them on average: so many that all threads have work, so few that what is known of them
/// stays in the cache.
const PIECE: usize = 64 << 10;
const DENSE: usize = 64;

/// Reads elements of variable length of a dataset. `layout` is [`Dataset::layout`]. Items are as [`resolve`] has them.
pub fn read(
    dataset: &Dataset,
    layout: &ArrayLayout,
    selection: &Selection,
    options: ReadOptions<'_>,
) -> Result<Ragged, Hdf5Error> {
    let shape = selection.shape();
    let count = element_count(&shape).and_then(|count| usize::try_from(count).ok());
    let size = dataset.element().size;
    let found = Growing::new(dataset.file(), size, dataset.items(), count.unwrap_or(usize::MAX));
    let mut found = found.map_err(|error| dataset.within(error))?;
    in_batches(layout, selection, options, BATCH, &mut |batch| {
        let pushed = found.push(batch.memory, 0, size, batch.count, options.threads);
        pushed.map_err(|error| dataset.within(error))?;
        found.expect(batch.first + batch.count, count.unwrap_or_default());
        Ok::<(), Hdf5Error>(())
    })?;
    Ok(found.finish(shape))
}

/// Resolves the heap ids of variable-length elements (`element` is [`ElementKind::VlenString`] or [`ElementKind::Vlen`]). The ids are in `memory`, the first at
/// `offset`, the next `stride` bytes further, `count` in all.
///
/// Items of a string are its bytes up to the first NUL, as in h5py. Those of a sequence are of the type that `element` says; they may hold heap ids themselves.
pub fn resolve(
    file: &File,
    element: &Element,
    memory: &[u8],
    offset: usize,
    stride: usize,
    count: usize,
) -> Result<Ragged, Hdf5Error> {
    let items = Items::of(element);
    let mut found = Growing::new(file, element.size, items.as_ref(), count.min(memory.len()))?;
    found.push(memory, offset, stride, count, None)?;
    Ok(found.finish(Dims::from_elem(count as u64, 1)))
}

/// The elements of `memory` of `size` bytes, the first at `offset`, the next `stride` bytes further. `None`: they are not all there.
pub(crate) fn strided(
    memory: &[u8],
    offset: usize,
    stride: usize,
    size: usize,
    count: usize,
) -> Option<impl Iterator<Item = &[u8]> + Clone> {
    let stride = stride.max(1);
    let last = count.saturating_sub(1).checked_mul(stride)?.checked_add(offset)?.checked_add(size)?;
    if count > 0 && last > memory.len() {
        return None;
    }
    let rest = memory.get(offset..).unwrap_or_default();
    Some(rest.chunks(stride).take(count).map(move |chunk| chunk.get(..size).unwrap_or(chunk)))
}

/// A heap id: how many items, address of the collection, index of the object in it. `None`: null.
type Id = Option<(u32, u64, u32)>;

/// Takes a heap id apart. One without an address is null.
#[inline]
fn id(bytes: &[u8], sizes: Sizes) -> Id {
    if let Ok([a, b, c, d, at @ .., w, x, y, z]) = <[u8; 16]>::try_from(bytes) {
        let at = u64::from_le_bytes(at);
        let is_null = at == 0 || at == u64::MAX;
        return (!is_null).then_some((
            u32::from_le_bytes([a, b, c, d]),
            at,
            u32::from_le_bytes([w, x, y, z]),
        ));
    }
    let end = 4 + usize::from(sizes.offset);
    let field = |range: std::ops::Range<usize>| bytes.get(range).unwrap_or_default();
    let narrow = |bytes: &[u8]| number(bytes).and_then(|n| u32::try_from(n).ok()).unwrap_or_default();
    // No file reaches as far as an address that does not fit: it will not be found.
    let at = address(field(4..end)).unwrap_or(Some(u64::MAX)).filter(|at| *at != 0)?;
    Some((narrow(field(0..4)), at, narrow(field(end..end + 4))))
}

/// What elements are made of.
#[derive(Debug)]
pub(crate) struct Items {
    /// Whether elements are text.
    text: bool,
    /// Bytes of an item as stored, and in memory.
    stored: usize,
    size: usize,
    conversion: Option<Conversion>,
}

impl Items {
    /// `None`: elements are not of variable length.
    pub(crate) fn of(element: &Element) -> Option<Items> {
        match &element.kind {
            ElementKind::VlenString { .. } => {
                Some(Items { text: true, stored: 1, size: 1, conversion: None })
            }
            ElementKind::Vlen { stored, element } => {
                let conversion = Conversion::new(stored, element);
                let stored = usize::try_from(stored.size).unwrap_or(usize::MAX);
                Some(Items { text: false, stored, size: element.size, conversion })
            }
            _ => None,
        }
    }

    /// The bytes of an object that count.
    #[inline]
    fn payload<'o>(&self, object: Option<Object<'o>>, index: u32, len: u32) -> Result<Object<'o>, String> {
        let object = object.ok_or_else(|| format!("there is no object {index}"))?;
        let bytes = u64::from(len).checked_mul(self.stored as u64);
        bytes.and_then(|bytes| object.first(bytes)).ok_or_else(|| {
            let (size, found) = (self.stored, object.len());
            format!("{len} elements of {size} bytes are expected, the object has {found} bytes")
        })
    }

    /// Copies an object to its place.
    #[inline]
    fn put(&self, file: &File, object: Object<'_>, place: &mut [u8]) -> Result<(), Hdf5Error> {
        let Some(conversion) = &self.conversion else { return object.copy_to(file.source(), place) };
        let converted = conversion.convert(&object.read(file.source())?, place);
        converted.map_err(|error| file.source().invalid(error.to_string()))
    }
}

/// A result that grows batch by batch.
struct Growing<'a> {
    file: &'a File,
    /// Bytes of an id.
    id: usize,
    items: &'a Items,
    offsets: Vec<i64>,
    values: Memory,
    validity: Option<Vec<bool>>,
    /// Elements of which the id has been seen.
    seen: usize,
    /// Bytes of all objects so far, and heap collections, some more than once.
    bytes: u64,
    collections: usize,
}

impl<'a> Growing<'a> {
    fn new(file: &'a File, id: usize, items: Option<&'a Items>, count: usize) -> Result<Self, Hdf5Error> {
        let items = items.ok_or_else(|| {
            file.source().invalid("elements that are not of variable length have no heap ids")
        })?;
        let mut offsets = Vec::new();
        let none = || file.source().invalid(format!("no memory for the offsets of {count} elements"));
        offsets.try_reserve_exact(count.saturating_add(1)).map_err(|_| none())?;
        offsets.push(0);
        let values = Memory::dirty(0).ok_or_else(none)?;
        Ok(Growing { file, id, items, offsets, values, validity: None, seen: 0, bytes: 0, collections: 0 })
    }

    fn finish(self, shape: Dims) -> Ragged {
        let Growing { offsets, mut values, validity, .. } = self;
        values.shrink();
        Ragged { shape, offsets, values, validity }
    }

    /// Adds `count` elements, of which the ids are in `memory` as for [`resolve`].
    fn push(
        &mut self,
        memory: &[u8],
        offset: usize,
        stride: usize,
        count: usize,
        threads: Option<usize>,
    ) -> Result<(), Hdf5Error> {
        let (size, sizes) = (self.id, self.file.sizes());
        let Some(parts) = strided(memory, offset, stride, size, count) else {
            let why = format!("{count} heap ids are not within {} bytes", memory.len());
            return Err(self.file.source().invalid(why));
        };
        let ids = parts.map(|part| id(part, sizes));
        if count <= FEW && self.push_few(ids.clone())? { Ok(()) } else { self.push_many(ids, threads) }
    }

    /// Adds a few elements, one by one; `false`: the collection of one is not in memory, and none was added.
    fn push_few(&mut self, ids: impl Iterator<Item = Id> + Clone) -> Result<bool, Hdf5Error> {
        let (file, first) = (self.file, self.offsets.len() - 1);
        let wrong = |cell, address| move |why| named(file, first + cell, address, why);
        // What the heap does not have asks for no memory.
        let (mut last, mut total): (Option<Arc<Collection>>, u64) = (None, 0);
        for (cell, id) in ids.clone().enumerate() {
            let Some((len @ 1.., address, index)) = id else { continue };
            if last.as_ref().is_none_or(|last| last.address() != address) {
                last = file.kept_collection(address);
            }
            let Some(collection) = &last else { return Ok(false) };
            self.items.payload(collection.object(index), index, len).map_err(wrong(cell, address))?;
            total += u64::from(len);
        }
        let mut end = self.grow(total)?;
        for (cell, id) in ids.enumerate() {
            self.see(id.is_some());
            let Some((len, address, index)) = id.filter(|(len, ..)| *len > 0) else {
                self.add(&[0]);
                continue;
            };
            if last.as_ref().is_none_or(|last| last.address() != address) {
                last = Some(file.collection(address)?);
            }
            let object = last.as_ref().and_then(|collection| collection.object(index));
            let object = self.items.payload(object, index, len).map_err(wrong(cell, address))?;
            let bytes = usize::try_from(len).unwrap_or(usize::MAX).saturating_mul(self.items.size);
            let rest = self.values.as_mut_slice().get_mut(end..).unwrap_or_default();
            let place = rest.get_mut(..bytes).unwrap_or_default();
            self.items.put(file, object, place)?;
            let mut lens = [len];
            end += if self.items.text { cut(place, &mut lens) } else { place.len() };
            self.add(&lens);
        }
        self.values.resize(end);
        Ok(true)
    }

    /// Adds any number of elements.
    fn push_many(
        &mut self,
        ids: impl Iterator<Item = Id> + Clone,
        threads: Option<usize>,
    ) -> Result<(), Hdf5Error> {
        let (mut count, mut total, mut nulls) = (0_usize, 0_u64, false);
        for id in ids.clone() {
            count += 1;
            total += u64::from(id.map_or(0, |(len, ..)| len));
            nulls |= id.is_none();
        }
        let (file, there) = (self.file, self.file.source().size());
        let stored = u64::saturating_mul(total, self.items.stored as u64);
        if stored > there {
            let (mut rest, mut first) = (ids.clone(), self.offsets.len() - 1);
            while let Some(Piece { heap, lens, .. }) = Piece::next(&mut rest) {
                let fetch = Fetch { file, keep: false, first };
                heap.fill(fetch, &mut [], &lens, 0, threads, |cell, object, index, _| {
                    let len = lens.get(cell).copied().unwrap_or_default();
                    Ok(self.items.payload(object, index, len).map(|_| ())?)
                })?;
                first += lens.len();
            }
        }
        self.bytes = self.bytes.saturating_add(stored);
        if self.bytes > there.saturating_mul(MOST_SHARED) {
            let why = format!("elements of variable length have {} bytes, the file has {there}", self.bytes);
            return Err(file.source().invalid(why));
        }
        if nulls || self.validity.is_some() {
            ids.clone().for_each(|id| self.see(id.is_some()));
        } else {
            self.seen += count;
        }
        let (mut end, mut rest) = (self.grow(total)?, ids);
        while let Some(Piece { heap, mut lens, total }) = Piece::next(&mut rest) {
            let bytes = total.saturating_mul(self.items.size);
            let values = self.values.as_mut_slice().get_mut(end..).unwrap_or_default();
            let values = values.get_mut(..bytes).unwrap_or_default();
            self.collections += heap.collections();
            let fetch = Fetch { file, keep: file.can_keep(self.collections), first: self.offsets.len() - 1 };
            let items = &self.items;
            heap.fill(fetch, values, &lens, items.size, threads, |cell, object, index, place| {
                let object = items.payload(object, index, lens.get(cell).copied().unwrap_or_default())?;
                Ok(items.put(file, object, place)?)
            })?;
            end += if items.text { cut(values, &mut lens) } else { bytes };
            self.add(&lens);
        }
        self.values.resize(end);
        Ok(())
    }

    /// Notes whether the next element is there.
    #[inline]
    fn see(&mut self, is_there: bool) {
        match &mut self.validity {
            Some(validity) => validity.push(is_there),
            None if is_there => {}
            None => {
                let mut validity = Vec::with_capacity(self.offsets.capacity());
                validity.resize(self.seen, true);
                validity.push(false);
                self.validity = Some(validity);
            }
        }
        self.seen += 1;
    }

    /// Makes room for so many items more; says where they begin.
    fn grow(&mut self, items: u64) -> Result<usize, Hdf5Error> {
        let used = self.values.len();
        let len = usize::try_from(items).ok().and_then(|items| items.checked_mul(self.items.size));
        let len = len.and_then(|len| len.checked_add(used));
        let grown = len.is_some_and(|len| match used {
            0 => Memory::dirty(len).map(|memory| self.values = memory).is_some(),
            _ => self.values.resize(len),
        });
        match grown {
            true => Ok(used),
            false => {
                let size = self.items.size;
                Err(self
                    .file
                    .source()
                    .invalid(format!("no memory for {items} more elements of {size} bytes")))
            }
        }
    }

    /// Makes room for `total` elements, if they are as long as those that are `there`: room of addresses only, no more than the file has bytes.
    fn expect(&mut self, there: usize, total: usize) {
        if there < total {
            let guess = self.values.len() as u128 * total as u128 / there.max(1) as u128;
            let most = u128::from(self.file.source().size());
            // Where there is no such room, it grows as it is needed.
            self.values.reserve(usize::try_from((guess + guess / 32).min(most)).unwrap_or_default());
        }
    }

    /// The next elements have so many items.
    fn add(&mut self, lens: &[u32]) {
        let mut end = self.offsets.last().copied().unwrap_or_default();
        self.offsets.extend(lens.iter().map(|len| {
            end = end.saturating_add(i64::from(*len));
            end
        }));
    }
}

/// Some elements that are resolved together.
struct Piece {
    heap: Grouped,
    /// Items of each.
    lens: Vec<u32>,
    /// Items of all.
    total: usize,
}

impl Piece {
    /// The next ones. There are more of them where they are spread over many collections: each piece fetches those that it needs.
    fn next(ids: &mut impl Iterator<Item = Id>) -> Option<Piece> {
        let count = ids.size_hint().0.min(PIECE);
        let (mut heap, mut lens, mut total) = (HeapIds::with_capacity(count), Vec::with_capacity(count), 0);
        for id in ids {
            let len = id.map_or(0, |(len, ..)| len);
            total += usize::try_from(len).unwrap_or(usize::MAX);
            lens.push(len);
            heap.push(id.filter(|_| len > 0).map(|(_, address, index)| (address, index)));
            if lens.len() >= PIECE && lens.len() / DENSE >= heap.collections() {
                break;
            }
        }
        (!lens.is_empty()).then(|| Piece { heap: heap.grouped(), lens, total })
    }
}

fn has_nul(text: &[u8]) -> bool {
    // Without a branch for each byte, so that many are compared at once.
    text.chunks(4096).any(|block| block.iter().fold(false, |found, byte| found | (*byte == 0)))
}

/// Ends each string at its first NUL, and moves them together; gives the number of bytes left. Mostly there is none.
fn cut(values: &mut [u8], lens: &mut [u32]) -> usize {
    if !has_nul(values) {
        return values.len();
    }
    let (mut start, mut end) = (0_usize, 0_usize);
    for len in lens {
        let stored = usize::try_from(*len).unwrap_or(usize::MAX);
        let text = values.get(start..start.saturating_add(stored)).unwrap_or_default();
        let left = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        values.copy_within(start..start + left, end);
        *len = u32::try_from(left).unwrap_or(*len);
        start += stored;
        end += left;
    }
    end
}

#[cfg(test)]
mod generated;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{REST, collection, element, file, heap_id};

    const STRINGS: &str = "1901010010000000100000000100000000000800";

    /// What sequences are of.
    fn item(element: &Element) -> &Element {
        let ElementKind::Vlen { element, .. } = &element.kind else { panic!("no sequence") };
        element
    }

    #[test]
    fn strings() {
        // Two collections, the second used first; one object for two cells; index 3 is of no bytes.
        let first = collection(&[(1, b"one"), (2, b"exactly8"), (3, b"")]);
        let second = REST + first.len() as u64;
        let file = file(&[first, collection(&[(7, b"wei\xc3\x9f\0\0"), (1, b"x\0y")])].concat());
        let undefined = u64::MAX;
        let ids = [
            heap_id(5, second, 7),
            heap_id(3, REST, 1),
            heap_id(0, 0, 0),
            heap_id(0, REST, 3),
            heap_id(0, REST, 99),
            heap_id(7, second, 7),
            heap_id(8, REST, 2),
            heap_id(5, undefined, 1),
            heap_id(3, second, 1),
            heap_id(3, REST, 1),
        ];
        let (_, element) = element(STRINGS);
        let found = resolve(&file, &element, &ids.concat(), 0, 16, ids.len()).unwrap();
        let texts: Vec<&[u8]> = (found.offsets.windows(2))
            .map(|ends| &found.values.as_slice()[ends[0] as usize..ends[1] as usize])
            .collect();
        let expected: [&[u8]; 10] =
            [b"wei\xc3\x9f", b"one", b"", b"", b"", b"wei\xc3\x9f", b"exactly8", b"", b"x", b"one"];
        assert_eq!(texts, expected);
        let null: Vec<usize> =
            (0..ids.len()).filter(|cell| !found.validity.as_ref().unwrap()[*cell]).collect();
        assert_eq!(null, [2, 7]);
        assert_eq!(resolve(&file, &element, &[], 0, 16, 0).unwrap().offsets, [0]);
    }

    #[test]
    fn within_structures() {
        let file = file(&collection(&[(1, b"ab"), (2, b"c")]));
        let memory = [b"__".to_vec(), heap_id(2, REST, 1), b"_____".to_vec(), heap_id(1, REST, 2)].concat();
        let (_, element) = element(STRINGS);
        let found = resolve(&file, &element, &memory, 2, 21, 2).unwrap();
        assert_eq!((found.values.as_slice(), found.offsets.as_slice()), (&b"abc"[..], &[0, 2, 3][..]));
        for (offset, stride, count) in
            [(3, 21, 2), (2, 21, 3), (2, 22, 2), (usize::MAX, 1, 1), (2, usize::MAX, 2)]
        {
            let error = resolve(&file, &element, &memory, offset, stride, count).unwrap_err();
            assert!(error.to_string().contains("are not within 39 bytes"), "{error}");
        }
    }

    #[test]
    fn sequences_are_converted() {
        // Integers of 3 bytes.
        let file = file(&collection(&[(1, &[1, 0, 0, 0xff, 0xff, 0xff]), (2, &[2, 0, 0, 9])]));
        let (_, element) = element("1900000010000000100800000300000000001800");
        let memory = [heap_id(2, REST, 1), heap_id(1, REST, 2)].concat();
        let found = resolve(&file, &element, &memory, 0, 16, 2).unwrap();
        assert_eq!(found.values.as_slice(), [1_i32, -1, 2].map(i32::to_le_bytes).concat());
        assert_eq!(found.offsets, [0, 2, 3]);
    }

    #[test]
    fn sequences_of_sequences() {
        let inner = collection(&[(1, b"ab"), (2, b"cde")]);
        let at = REST + inner.len() as u64;
        let outer = [heap_id(2, REST, 1), heap_id(3, REST, 2)].concat();
        let file = file(&[inner, collection(&[(1, &outer)])].concat());
        let (_, element) = element("19000000100000001901010010000000100000000100000000000800");
        let found = resolve(&file, &element, &heap_id(2, at, 1), 0, 16, 1).unwrap();
        assert_eq!(found.values.as_slice(), outer);
        let found = resolve(&file, item(&element), found.values.as_slice(), 0, 16, 2).unwrap();
        assert_eq!((found.values.as_slice(), found.offsets.as_slice()), (&b"abcde"[..], &[0, 2, 5][..]));
    }

    #[test]
    fn damage_names_element_and_collection() {
        let file = file(&collection(&[(1, b"one")]));
        let (_, element) = element(STRINGS);
        let wrong = |id: Vec<u8>| {
            let memory = [heap_id(3, REST, 1), id].concat();
            resolve(&file, &element, &memory, 0, 16, 2).unwrap_err().to_string()
        };
        let cases = [
            (
                heap_id(4, REST, 1),
                "element 1, global heap collection at address 120: 4 elements of 1 bytes are expected, the object has 3",
            ),
            (
                heap_id(u32::MAX, REST, 1),
                "element 1, global heap collection at address 120: 4294967295 elements",
            ),
            (heap_id(3, REST, 2), "element 1, global heap collection at address 120: there is no object 2"),
            (heap_id(3, REST, 0), "there is no object 0"),
            (
                heap_id(3, REST + 8, 1),
                "element 1, global heap collection at address 128: byte 128: the signature 'GCOL'",
            ),
            (heap_id(3, 1 << 40, 1), "element 1, global heap collection at address 1099511627776"),
            (
                heap_id(3, u64::MAX - 1, 1),
                "element 1, global heap collection at address 18446744073709551614",
            ),
        ];
        for (id, expected) in cases {
            let found = wrong(id);
            assert!(found.contains(expected), "{found}");
        }
    }

    #[test]
    fn more_values_than_the_file_has_bytes() {
        let object = vec![b'x'; 10_000];
        let file = file(&collection(&[(1, &object)]));
        let (_, element) = element(STRINGS);
        let shared =
            |count: usize| resolve(&file, &element, &heap_id(10_000, REST, 1).repeat(count), 0, 16, count);
        assert_eq!(shared(100).unwrap().values.len(), 1_000_000);
        let error = shared(2000).unwrap_err().to_string();
        assert!(error.contains("have 20000000 bytes, the file has 10168"), "{error}");
        // Lengths that the heap does not bear out ask for no memory.
        let memory = heap_id(u32::MAX, REST, 1).repeat(1000);
        let error = resolve(&file, &element, &memory, 0, 16, 1000).unwrap_err().to_string();
        assert!(error.contains("element 0"), "{error}");
    }

    #[test]
    fn any_bytes() {
        let file = file(&collection(&[(1, b"one"), (2, b"two2")]));
        let (_, element) = element(STRINGS);
        let mut memory = [heap_id(3, REST, 1), heap_id(4, REST, 2)].concat();
        for at in 0..memory.len() {
            let old = memory[at];
            for value in 0..=255 {
                memory[at] = value;
                if let Ok(found) = resolve(&file, &element, &memory, 0, 16, 2) {
                    assert_eq!(found.offsets[2], found.values.len() as i64);
                }
            }
            memory[at] = old;
        }
    }
}
