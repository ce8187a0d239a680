//! Copying elements of variable length.
//!
//! Values are moved as [`Ragged`], block by block. What a copy can be:
//!
//! | source | copy |
//! |---|---|
//! | text, bytes, arrays of Zarr | the same (arrays: to v2 only, v3 has none) |
//! | strings of HDF5 | text, which must be UTF-8 |
//! | sequences of plain numbers of HDF5 | arrays, in v2 |
//! | references to objects of HDF5 | text: paths; empty where they lead nowhere |

use super::blocks::Block;
use crate::{Array, Error, Format};
use hyperslab_array::{ArrayError, Ragged, ReadOptions, Selection, element_count};
use hyperslab_codec::{Cell, VlenKind};
use hyperslab_hdf5::element::ElementKind;
use hyperslab_hdf5::{Dataset, reference, value::Value};
use hyperslab_store::Ask;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// So many elements are looked at to tell how long they are.
const SAMPLE: u64 = 4096;

/// What the elements of a copy are; `None`: they have one size. Errors with [`Error::Copy`] where
/// `format` has no such elements.
pub(super) fn kind(array: &Array, name: &str, format: Format) -> Result<Option<VlenKind>, Error> {
    let kind = match array.as_hdf5().map(|dataset| &dataset.element().kind) {
        Some(ElementKind::VlenString { .. } | ElementKind::ObjectReference) => Some(VlenKind::Text),
        _ => array.vlen(),
    };
    match kind {
        Some(VlenKind::Array(dtype)) if format != Format::ZarrV2 => Err(Error::Copy {
            array: name.to_owned(),
            why: format!(
                "its elements are arrays of {dtype} of any length, which {format} has not; copy to format Zarr v2"
            ),
        }),
        kind => Ok(kind),
    }
}

/// The bytes of what absent elements of a dataset of strings are.
pub(super) fn absent_text(dataset: &Dataset, name: &str) -> Result<Vec<u8>, Error> {
    let Some(absent) = dataset.absent_value() else { return Ok(Vec::new()) };
    match Value::of(dataset.file(), dataset.element(), absent)? {
        Value::Text(text) => Ok(text.into_bytes()),
        Value::Null => Ok(Vec::new()),
        _ => Err(Error::Copy { array: name.to_owned(), why: "its fill value is not text in UTF-8".into() }),
    }
}

/// Whether absent chunks of the source hold something that the fill value of the copy does not say:
/// they are copied, too.
pub(super) fn copies_absent(source: &Array) -> bool {
    let Some(dataset) = source.as_hdf5() else { return false };
    let is_text = matches!(dataset.element().kind, ElementKind::VlenString { .. });
    !is_text && dataset.absent_value().is_some_and(|bytes| bytes.iter().any(|byte| *byte != 0))
}

/// About how many bytes an element takes: the cell, and what some elements that are stored are on
/// average, or all of them are as stored.
pub(super) fn element_bytes(array: &Array, name: &str, ask: Option<Ask<'_>>) -> Result<u64, Error> {
    let object = array.layout().object_grid().chunk_shape();
    let stored = array.stored_objects(ask)?;
    let (objects, bytes) = array.chunks_stored_asking(ask)?;
    let per_object = element_count(object).unwrap_or(u64::MAX).max(1);
    let as_stored = bytes.checked_div(objects).unwrap_or(0) / per_object;
    let at = match &stored {
        None => Some(vec![0; object.len()]),
        Some(objects) => objects.get(objects.len() / 2).map(|at| at.to_vec()),
    };
    let Some(at) = at else { return Ok(Cell::SIZE as u64) };
    let mut left = SAMPLE;
    let mut block = Block {
        first: at.iter().zip(object).map(|(at, n)| at.saturating_mul(*n)).collect(),
        len: object.into(),
    };
    for axis in (0..object.len()).rev() {
        let inside = array.shape()[axis].saturating_sub(block.first[axis]);
        block.len[axis] = block.len[axis].min(inside).min(left);
        left = (left / block.len[axis].max(1)).max(1);
    }
    let count = block.elements();
    if count == 0 {
        return Ok(Cell::SIZE as u64);
    }
    let sample = Reader::new(array, name).read(&array.select(&block.index())?, ReadOptions::default())?;
    let average = (sample.values.len() as u64).div_ceil(count);
    Ok(Cell::SIZE as u64 + average.max(as_stored))
}

/// Reads an array as its copy holds it.
pub(super) struct Reader<'a> {
    array: &'a Array,
    name: &'a str,
    /// Paths by the addresses that references hold.
    paths: HashMap<u64, String>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(array: &'a Array, name: &'a str) -> Self {
        Reader { array, name, paths: HashMap::new() }
    }

    /// The elements of a selection.
    pub(super) fn read(&mut self, selection: &Selection, options: ReadOptions<'_>) -> Result<Ragged, Error> {
        let dataset = self.array.as_hdf5().cloned();
        match dataset {
            Some(dataset) if dataset.element().kind == ElementKind::ObjectReference => {
                self.read_paths(&dataset, selection, options)
            }
            _ => self.array.read_ragged(selection, options),
        }
    }

    fn read_paths(
        &mut self,
        dataset: &Dataset,
        selection: &Selection,
        options: ReadOptions<'_>,
    ) -> Result<Ragged, Error> {
        let memory = self.array.read(selection, options)?;
        let (shape, element, file) = (selection.shape(), dataset.element(), dataset.file());
        let count = element_count(&shape).and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
        let found = reference::resolve(file, element, memory.as_slice(), 0, element.size, count)
            .map_err(|error| error.within(dataset.path()))?;
        let mut paths: Vec<&str> = Vec::with_capacity(found.len());
        for reference in found.iter().flatten() {
            if let Entry::Vacant(place) = self.paths.entry(reference.address) {
                place.insert(reference.path(file)?.unwrap_or_default());
            }
        }
        for reference in &found {
            let path = reference.as_ref().and_then(|reference| self.paths.get(&reference.address));
            paths.push(path.map_or("", String::as_str));
        }
        let (array, what) = (self.name.to_owned(), "the paths of references");
        Ragged::of(&shape, paths.iter().map(|path| path.as_bytes()))
            .ok_or_else(|| ArrayError::Memory { array, what, bytes: u64::MAX }.into())
    }
}

/// Refuses what is not text in UTF-8.
pub(super) fn check_text(ragged: &Ragged, block: &Block, name: &str) -> Result<(), Error> {
    let bytes = ragged.values.as_slice();
    // All is text, if all together is, and none begins within a character.
    if let Ok(text) = std::str::from_utf8(bytes)
        && ragged.offsets.iter().all(|at| text.is_char_boundary(*at as usize))
    {
        return Ok(());
    }
    let wrong = cells(ragged, 1).position(|cell| std::str::from_utf8(cell).is_err());
    Err(Error::Copy {
        array: name.to_owned(),
        why: format!(
            "element {:?} is not text in UTF-8, which text of Zarr is",
            block.position(wrong.unwrap_or(0) as u64)
        ),
    })
}

/// The first element that differs, and both.
pub(super) fn difference<'a>(
    expected: &'a Ragged,
    found: &'a Ragged,
    item: usize,
) -> Option<(u64, &'a [u8], &'a [u8])> {
    if expected.offsets == found.offsets && expected.values.as_slice() == found.values.as_slice() {
        return None;
    }
    let pairs = cells(expected, item).zip(cells(found, item)).enumerate();
    let (number, (expected, found)) = pairs.into_iter().find(|(_, (expected, found))| expected != found)?;
    Some((number as u64, expected, found))
}

/// The bytes of each element; `item`: bytes of an item.
fn cells(ragged: &Ragged, item: usize) -> impl Iterator<Item = &[u8]> {
    let values = ragged.values.as_slice();
    ragged
        .offsets
        .windows(2)
        .map(move |range| values.get(range[0] as usize * item..range[1] as usize * item).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ragged(rows: &[&[u8]]) -> Ragged {
        Ragged::of(&[rows.len() as u64], rows.iter().copied()).unwrap()
    }

    #[test]
    fn the_first_difference_is_found() {
        let one = ragged(&[b"ab", b"", b"cd"]);
        assert!(difference(&one, &ragged(&[b"ab", b"", b"cd"]), 1).is_none());
        assert_eq!(difference(&one, &ragged(&[b"ab", b"", b"cx"]), 1), Some((2, &b"cd"[..], &b"cx"[..])));
        // The same bytes, cut elsewhere.
        assert_eq!(difference(&one, &ragged(&[b"a", b"b", b"cd"]), 1), Some((0, &b"ab"[..], &b"a"[..])));
        let mut pairs = [ragged(&[b"aabb", b"", b"cc"]), ragged(&[b"aabb", b"cc", b""])];
        pairs.iter_mut().for_each(|ragged| ragged.offsets.iter_mut().for_each(|at| *at /= 2));
        assert_eq!(difference(&pairs[0], &pairs[1], 2), Some((1, &b""[..], &b"cc"[..])));
    }

    #[test]
    fn what_is_no_text_is_named() {
        let block = Block { first: [10, 0].as_slice().into(), len: [2, 2].as_slice().into() };
        let check =
            |rows: &[&[u8]]| check_text(&ragged(rows), &block, "/a").map_err(|error| error.to_string());
        assert_eq!(check(&["é".as_bytes(), b"", b"b", b"c"]), Ok(()));
        assert!(
            check(&[b"a", b"b", b"c\xe9", b"d"])
                .unwrap_err()
                .contains("element [11, 0] is not text in UTF-8")
        );
        // One character in two elements.
        assert!(check(&[b"a", b"\xc3", b"\xa9", b"d"]).unwrap_err().contains("'/a': element [10, 1]"));
    }
}
