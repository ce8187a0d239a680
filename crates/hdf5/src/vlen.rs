//! Elements of variable length: turns many heap ids into offsets, values and validity in one pass.
//!
//! 1. Ids are read in batches, so that millions of elements need little memory. An id is a length,
//!    the address of a global heap collection, and an index in it.
//! 2. The lengths give the offsets (see `look`). All threads copy or convert objects to their
//!    places in the result (see `fill`), in the order of the file (see `any_order`).
//! 3. A string ends at its first NUL. The rest of its batch moves forward.
//!
//! If there are only a few elements and their collections are in memory, they are copied directly.
//!
//! Objects are not compressed and seldom shared. If the lengths add up to more bytes than the file
//! has, every length is checked against the heap before memory is allocated.

mod any_order;
mod builder;
mod fill;
mod id_cache;
mod ids;
mod inspect;

use crate::convert::Conversion;
use crate::cursor::to_usize;
use crate::element::{Element, ElementKind};
use crate::heaps::Object;
use crate::{Dataset, File, Hdf5Error, Result};
use builder::VlenBuilder;
pub use hyperslab_array::Ragged;
use hyperslab_array::{ArrayLayout, Dims, ReadOptions, Selection, element_count, in_batches};
pub(crate) use id_cache::IdCache;

/// Largest number of elements that count as a few.
const FEW: usize = 64;

/// Number of ids in memory at a time.
const BATCH: usize = 512 << 10;

/// Reads elements of variable length, like [`resolve`]. `layout` is [`Dataset::layout`].
pub fn read(
    dataset: &Dataset,
    layout: &ArrayLayout,
    selection: &Selection,
    options: ReadOptions<'_>,
) -> Result<Ragged> {
    let shape = selection.shape();
    let count = element_count(&shape).and_then(|count| usize::try_from(count).ok());
    let size = dataset.element().size;
    let found = VlenBuilder::new(dataset.file(), size, dataset.items(), count.unwrap_or(usize::MAX));
    let mut found = found.map_err(|error| dataset.with_object_path(error))?;
    let mut few = [0; FEW * 16];
    if let Some(count) = count.filter(|count| *count <= FEW)
        && let Some(ids) = dataset.kept_ids().read(dataset, layout.shape(), selection, &mut few)
    {
        let pushed = found.push(ids, 0, size, count, options.threads);
        pushed.map_err(|error| dataset.with_object_path(error))?;
        return Ok(found.finish(shape));
    }
    in_batches(layout, selection, options, BATCH, &mut |batch| {
        let pushed = found.push(batch.memory, 0, size, batch.count, options.threads);
        pushed.map_err(|error| dataset.with_object_path(error))?;
        found.expect(count.unwrap_or_default());
        Ok::<(), Hdf5Error>(())
    })?;
    Ok(found.finish(shape))
}

/// Resolves the heap ids of elements of variable length.
///
/// `element` is [`ElementKind::VlenString`] or [`ElementKind::Vlen`]. `memory` holds `count` ids,
/// the first at `offset`, the others `stride` bytes apart.
///
/// The items of a string are its bytes up to the first NUL, as in h5py. The items of a sequence
/// have the type in `element`. They may hold heap ids, too.
pub fn resolve(
    file: &File,
    element: &Element,
    memory: &[u8],
    offset: usize,
    stride: usize,
    count: usize,
) -> Result<Ragged> {
    let items = Items::of(element);
    let mut found = VlenBuilder::new(file, element.size, items.as_ref(), count.min(memory.len()))?;
    found.push(memory, offset, stride, count, None)?;
    Ok(found.finish(Dims::from_elem(count as u64, 1)))
}

/// Returns the addresses of the heap collections of consecutive elements in `memory`.
pub(crate) fn collections(file: &File, element: &Element, memory: &[u8]) -> Vec<u64> {
    let (size, sizes) = (element.size.max(1), file.sizes());
    let found = ids::ids(memory, (0, size, size), memory.len() / size, sizes);
    let collections = found.iter().flat_map(|ids| ids.iter()).filter_map(ids::taken_apart);
    collections.filter(|(len, ..)| *len > 0).map(|(_, address, _)| address).collect()
}

/// Returns `count` elements of `size` bytes, `stride` apart from `offset` on. `None`: out of
/// bounds.
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

#[derive(Debug)]
pub(crate) struct Items {
    /// `true` if elements are text.
    text: bool,
    /// Bytes of a stored item, and of an item in memory.
    stored: usize,
    size: usize,
    conversion: Option<Conversion>,
}

impl Items {
    /// `None`: elements do not have variable length.
    pub(crate) fn of(element: &Element) -> Option<Items> {
        match &element.kind {
            ElementKind::VlenString { .. } => {
                Some(Items { text: true, stored: 1, size: 1, conversion: None })
            }
            ElementKind::Vlen { stored, element } => {
                let conversion = Conversion::new(stored, element);
                let stored = to_usize(stored.size);
                Some(Items { text: false, stored, size: element.size, conversion })
            }
            _ => None,
        }
    }

    /// Returns the bytes of an object that belong to the element.
    #[inline]
    fn payload<'o>(&self, object: Option<Object<'o>>, index: u32, len: u32) -> Result<Object<'o>, String> {
        let object = object.ok_or_else(|| format!("the collection has no object {index}"))?;
        let bytes = u64::from(len).checked_mul(self.stored as u64);
        bytes.and_then(|bytes| object.first(bytes)).ok_or_else(|| {
            let (size, found) = (self.stored, object.len());
            format!("expected {len} elements of {size} bytes in object {index}, found {found} bytes")
        })
    }

    #[inline]
    fn put(&self, file: &File, object: Object<'_>, place: &mut [u8]) -> Result<()> {
        let Some(conversion) = &self.conversion else { return object.copy_to(file.source(), place) };
        let converted = conversion.convert(&object.read(file.source())?, place);
        converted.map_err(|error| file.source().invalid(error.to_string()))
    }
}

/// Ends strings at their first NUL and closes the gaps. Returns the number of bytes left.
///
/// Adapts `ends`, which count from `start`.
fn cut(values: &mut [u8], start: i64, ends: &mut [i64]) -> usize {
    // No branch per byte, so that many bytes are compared at once.
    let has_nul = |block: &[u8]| block.iter().fold(false, |found, byte| found | (*byte == 0));
    if !values.chunks(4096).any(has_nul) {
        return values.len();
    }
    let (mut from, mut to, mut last) = (0_usize, 0_usize, start);
    for end in ends {
        let stored = usize::try_from(end.saturating_sub(last)).unwrap_or_default();
        last = *end;
        let text = values.get(from..from.saturating_add(stored)).unwrap_or_default();
        let left = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        values.copy_within(from..from + left, to);
        from += stored;
        to += left;
        *end = start.saturating_add_unsigned(to as u64);
    }
    to
}

#[cfg(test)]
mod properties;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{REST, changes, collection, element, fails, file, heap_id};

    const STRINGS: &str = "1901010010000000100000000100000000000800";

    fn item(element: &Element) -> &Element {
        let ElementKind::Vlen { element, .. } = &element.kind else { panic!("no sequence") };
        element
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
            fails(resolve(&file, &element, &memory, offset, stride, count), "do not fit into 39 bytes");
        }
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
    fn more_values_than_the_file_has_bytes() {
        let object = vec![b'x'; 10_000];
        let file = file(&collection(&[(1, &object)]));
        let (_, element) = element(STRINGS);
        let shared =
            |count: usize| resolve(&file, &element, &heap_id(10_000, REST, 1).repeat(count), 0, 16, count);
        assert_eq!(shared(100).unwrap().values.len(), 1_000_000);
        fails(shared(2000), "have 20000000 bytes, more than 1024 times the 10168 bytes of the file");
        // If the heap does not confirm the lengths, no memory is allocated.
        let memory = heap_id(u32::MAX, REST, 1).repeat(1000);
        fails(resolve(&file, &element, &memory, 0, 16, 1000), "element 0");
    }

    #[test]
    fn any_bytes() {
        let file = file(&collection(&[(1, b"one"), (2, b"two2")]));
        let (_, element) = element(STRINGS);
        let memory = [heap_id(3, REST, 1), heap_id(4, REST, 2)].concat();
        for (_, memory) in changes(&memory, |_| 0..=255) {
            if let Ok(found) = resolve(&file, &element, &memory, 0, 16, 2) {
                assert_eq!(found.offsets[2], found.values.len() as i64);
            }
        }
    }
}
