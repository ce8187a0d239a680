//! Elements of variable length: many heap ids to offsets + values + validity in one pass.
//!
//! 1. The ids are taken from memory: length, address of a global heap collection, index in it. Lengths give the offsets.
//! 2. The heap's objects are copied to where the values of each go, collection by collection (see [`crate::heaps`]).
//! 3. Strings that end before their stored length move together; elements that are stored otherwise than in memory are converted, all at once.
//!
//! Objects are not compressed and seldom shared. Where there are more values than the file has bytes, all lengths are checked against the heap
//! before there is memory for them.

use crate::cursor::{address, number};
use crate::element::{Element, ElementKind};
use crate::heaps::HeapIds;
use crate::{File, Hdf5Error, Sizes};
use hyperslab_codec::Scratch;

/// There may be so many times as many bytes of values as the file has: objects may be shared by many elements.
const MOST_SHARED: u64 = 1 << 10;

/// Sequences or strings: the `i`-th is `values[offsets[i]..offsets[i + 1]]`, in elements.
#[derive(Clone, Debug, PartialEq)]
pub struct Ragged {
    /// One more than there are sequences; ascending from 0.
    pub offsets: Vec<u64>,
    /// All elements, one behind the other. They may hold heap ids themselves.
    pub values: Vec<u8>,
    /// Which sequences are there (null is not the same as empty).
    pub validity: Vec<bool>,
    /// The type of an element; for strings, one byte.
    pub element: Element,
}

/// Resolves the heap ids of variable-length elements (`element` is [`ElementKind::VlenString`](crate::element::ElementKind) or `Vlen`). The ids are in `memory`, the first at
/// `offset`, the next `stride` bytes further, `count` in all. Strings end at their first NUL, as in h5py.
pub fn resolve(
    file: &File,
    element: &Element,
    memory: &[u8],
    offset: usize,
    stride: usize,
    count: usize,
) -> Result<Ragged, Hdf5Error> {
    let (text, size, inner, conversion) = match &element.kind {
        ElementKind::VlenString { .. } => (true, 1, Element::byte(), None),
        ElementKind::Vlen { stored, element } => {
            let size = usize::try_from(stored.size).unwrap_or(usize::MAX);
            (false, size, (**element).clone(), element.conversion(stored))
        }
        _ => return Err(file.source().invalid("elements that are not of variable length have no heap ids")),
    };
    let parts = strided(memory, offset, stride, element.size, count).ok_or_else(|| {
        file.source().invalid(format!("{count} heap ids are not within {} bytes", memory.len()))
    })?;
    let mut cells = Cells::default();
    for part in parts {
        cells.push(part, file.sizes());
    }
    let total = cells.lens.iter().try_fold(0_u64, |total, len| total.checked_add(u64::from(*len)));
    let total = total.and_then(|total| total.checked_mul(size as u64)).unwrap_or(u64::MAX);
    let mut values = cells.memory(file, total, size)?;
    let starts = cells.starts(size);
    let mut cut = false;
    let Cells { ids, lens, validity } = &mut cells;
    ids.objects(file, |cell, object| {
        let (start, len) = (starts.get(cell).copied().unwrap_or_default(), lens.get_mut(cell));
        let Some(len) = len else { return Ok(()) };
        let object = payload(object, *len, size)?;
        if let Some(place) = values.get_mut(start..start.saturating_add(object.len())) {
            place.copy_from_slice(object);
        }
        if text
            && object.contains(&0)
            && let Some(end) = object.iter().position(|byte| *byte == 0)
        {
            *len = u32::try_from(end).unwrap_or(*len);
            cut = true;
        }
        Ok(())
    })?;
    if cut {
        close_gaps(&mut values, &starts, lens);
    }
    let mut offsets = Vec::with_capacity(count.saturating_add(1));
    let mut end = 0;
    offsets.push(end);
    offsets.extend(lens.iter().map(|len| {
        end += u64::from(*len);
        end
    }));
    let validity = std::mem::take(validity);
    if let Some(conversion) = conversion {
        let stored = values;
        values = zeros(file, (stored.len() / size.max(1)).saturating_mul(inner.size))?;
        let decoded = conversion.decode(&stored, &mut values, &mut Scratch::default());
        decoded.map_err(|error| file.source().invalid(error.to_string()))?;
    }
    Ok(Ragged { offsets, values, validity, element: inner })
}

/// The elements of `memory` of `size` bytes, the first at `offset`, the next `stride` bytes further. `None`: they are not all there.
pub(crate) fn strided(
    memory: &[u8],
    offset: usize,
    stride: usize,
    size: usize,
    count: usize,
) -> Option<impl Iterator<Item = &[u8]>> {
    let stride = stride.max(1);
    let last = count.saturating_sub(1).checked_mul(stride)?.checked_add(offset)?.checked_add(size)?;
    if count > 0 && last > memory.len() {
        return None;
    }
    let rest = memory.get(offset..).unwrap_or_default();
    Some(rest.chunks(stride).take(count).map(move |chunk| chunk.get(..size).unwrap_or(chunk)))
}

/// What the ids say.
#[derive(Debug, Default)]
struct Cells {
    ids: HeapIds,
    /// Elements of each.
    lens: Vec<u32>,
    validity: Vec<bool>,
}

impl Cells {
    /// Adds an id: length (4 bytes), address, index (4 bytes). One without an address is null; one of no elements has no object that matters.
    fn push(&mut self, id: &[u8], sizes: Sizes) {
        let end = 4 + usize::from(sizes.offset);
        let field = |range: std::ops::Range<usize>| id.get(range).unwrap_or_default();
        let narrow = |bytes: &[u8]| number(bytes).and_then(|n| u32::try_from(n).ok()).unwrap_or_default();
        // No file reaches as far as an address that does not fit: it will not be found.
        let address = address(field(4..end)).unwrap_or(Some(u64::MAX)).filter(|address| *address != 0);
        let len = if address.is_some() { narrow(field(0..4)) } else { 0 };
        self.lens.push(len);
        self.validity.push(address.is_some());
        self.ids.push(address.filter(|_| len > 0).map(|address| (address, narrow(field(end..end + 4)))));
    }

    /// Memory for values of `total` bytes.
    fn memory(&self, file: &File, total: u64, size: usize) -> Result<Vec<u8>, Hdf5Error> {
        let bytes = file.source().size();
        if total > bytes {
            let lens = &self.lens;
            self.ids.objects(file, |cell, object| {
                payload(object, lens.get(cell).copied().unwrap_or_default(), size).map(|_| ())
            })?;
        }
        if total > bytes.saturating_mul(MOST_SHARED) {
            let why = format!("elements of variable length have {total} bytes, the file has {bytes}");
            return Err(file.source().invalid(why));
        }
        zeros(file, usize::try_from(total).unwrap_or(usize::MAX))
    }

    /// Where the values of each begin, in bytes, none of which is beyond what there is memory for.
    fn starts(&self, size: usize) -> Vec<usize> {
        let mut end: usize = 0;
        let next = |len: &u32| {
            let start = end;
            end += usize::try_from(*len).unwrap_or_default() * size;
            start
        };
        self.lens.iter().map(next).collect()
    }
}

/// The bytes of an object that count.
fn payload(object: &[u8], len: u32, size: usize) -> Result<&[u8], String> {
    let bytes = usize::try_from(len).ok().and_then(|len| len.checked_mul(size));
    bytes.and_then(|bytes| object.get(..bytes)).ok_or_else(|| {
        format!("{len} elements of {size} bytes are expected, the object has {} bytes", object.len())
    })
}

/// Moves strings together that are shorter than there was room for.
fn close_gaps(values: &mut Vec<u8>, starts: &[usize], lens: &[u32]) {
    let mut end = 0;
    for (start, len) in starts.iter().zip(lens) {
        let len = usize::try_from(*len).unwrap_or_default();
        values.copy_within(*start..*start + len, end);
        end += len;
    }
    values.truncate(end);
}

fn zeros(file: &File, len: usize) -> Result<Vec<u8>, Hdf5Error> {
    let mut bytes = Vec::new();
    let reserved = bytes.try_reserve_exact(len);
    reserved.map_err(|_| file.source().invalid(format!("no memory for {len} bytes of variable length")))?;
    bytes.resize(len, 0);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{REST, collection, element, file, heap_id};

    const STRINGS: &str = "1901010010000000100000000100000000000800";

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
            .map(|ends| &found.values[ends[0] as usize..ends[1] as usize])
            .collect();
        let expected: [&[u8]; 10] =
            [b"wei\xc3\x9f", b"one", b"", b"", b"", b"wei\xc3\x9f", b"exactly8", b"", b"x", b"one"];
        assert_eq!(texts, expected);
        let null: Vec<usize> = (0..ids.len()).filter(|cell| !found.validity[*cell]).collect();
        assert_eq!(null, [2, 7]);
        assert_eq!(found.element.to_json(), r#""|u1""#);
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
        assert_eq!(found.values, [1_i32, -1, 2].map(i32::to_le_bytes).concat());
        assert_eq!(found.offsets, [0, 2, 3]);
        assert_eq!(found.element.to_json(), r#""<i4""#);
    }

    #[test]
    fn sequences_of_sequences() {
        let inner = collection(&[(1, b"ab"), (2, b"cde")]);
        let at = REST + inner.len() as u64;
        let outer = [heap_id(2, REST, 1), heap_id(3, REST, 2)].concat();
        let file = file(&[inner, collection(&[(1, &outer)])].concat());
        let (_, element) = element("19000000100000001901010010000000100000000100000000000800");
        let found = resolve(&file, &element, &heap_id(2, at, 1), 0, 16, 1).unwrap();
        assert_eq!(found.values, outer);
        let found = resolve(&file, &found.element, &found.values, 0, 16, 2).unwrap();
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
                    assert_eq!(found.offsets[2], found.values.len() as u64);
                }
            }
            memory[at] = old;
        }
    }
}
