//! Elements of variable length: many heap ids to offsets + values + validity in one pass.
//!
//! 1. The ids are taken from memory: length, address of a global heap collection, index in it. Lengths give the offsets.
//! 2. The heap's objects are copied to where the values of each go, collection by collection ([`HeapIds`]).
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
