//! Copies elements of variable length.
//!
//! Values are moved as [`Ragged`], block by block. The possible copies:
//!
//! | source | copy |
//! |---|---|
//! | text, bytes, arrays, objects of Zarr | the same (arrays and objects: to v2 only, v3 has none) |
//! | strings of HDF5 | text, which must be UTF-8 |
//! | sequences of plain numbers of HDF5 | arrays, in v2 |
//! | references to objects of HDF5 | text: paths; empty where they lead nowhere |
//! | text of fixed length of Zarr | text, in HDF5 |

use super::blocks::Block;
use super::hdf5::Paths;
use crate::{Array, Error, Format, Result};
use hyperslab_array::{Ragged, ReadOptions, Selection, element_count};
use hyperslab_codec::{ByteOrder, Cell, Kind, VlenKind};
use hyperslab_store::Ask;

/// Number of elements to look at to estimate their length.
const SAMPLE: u64 = 4096;

/// The kind of elements of a copy in `format`; `None`: they have one size.
/// Fails with [`Error::Copy`] if the format has no such elements.
pub(super) fn kind(kind: Option<VlenKind>, name: &str, format: Format) -> Result<Option<VlenKind>> {
    match kind {
        Some(VlenKind::Array(dtype)) if format != Format::ZarrV2 => Err(Error::Copy {
            array: name.to_owned(),
            why: format!(
                "its elements are arrays of {dtype} of any length, which {format} has not; copy to format Zarr v2"
            ),
        }),
        Some(kind) if kind.is_objects() && format != Format::ZarrV2 => Err(Error::Copy {
            array: name.to_owned(),
            why: format!("its elements are objects, which {format} has not; copy to format Zarr v2"),
        }),
        kind => Ok(kind),
    }
}

/// Estimates the bytes of an element: the cell and its value.
/// The value is the larger of two averages: over a sample of stored elements, and of the stored
/// bytes of the whole array.
pub(crate) fn element_bytes(array: &Array, ask: Option<Ask<'_>>) -> Result<u64> {
    let grid = array.layout().object_grid();
    let object = grid.chunk_shape();
    let stored = array.node().stored_objects(ask)?;
    let (objects, bytes) = super::count_stored_objects(array, ask)?;
    let per_object = element_count(object).unwrap_or(u64::MAX).max(1);
    let as_stored = bytes.checked_div(objects).unwrap_or(0) / per_object;
    let at = match &stored {
        None => Some(vec![0; object.len()]),
        Some(objects) => objects.get(objects.len() / 2).map(|at| at.to_vec()),
    };
    let Some(at) = at else { return Ok(Cell::SIZE as u64) };
    let mut left = SAMPLE;
    let mut block = Block {
        first: at.iter().enumerate().map(|(axis, at)| grid.start(axis, *at)).collect(),
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
    let selection = array.select(&block.index())?;
    let sample = read(array, &selection, ReadOptions::default(), &mut Paths::new())?;
    let average = (sample.values.len() as u64).div_ceil(count);
    Ok(Cell::SIZE as u64 + average.max(as_stored))
}

/// Reads elements of variable length in the form that a copy stores, also from text of fixed length.
pub(crate) fn read(
    source: &Array,
    selection: &Selection,
    options: ReadOptions<'_>,
    paths: &mut Paths,
) -> Result<Ragged> {
    if source.vlen().is_some() || source.dtype().kind() != Kind::Text {
        return source.node().read_copied(selection, options, paths);
    }
    let (memory, dtype) = (source.read(selection, options)?, source.dtype());
    let mut texts = Vec::new();
    for element in memory.as_slice().chunks_exact(dtype.size().max(1)) {
        let unit = |bytes: &[u8]| {
            let bytes = bytes.try_into().unwrap_or_default();
            match dtype.order() {
                ByteOrder::Little => u32::from_le_bytes(bytes),
                ByteOrder::Big => u32::from_be_bytes(bytes),
            }
        };
        let units: Vec<u32> = element.chunks_exact(4).map(unit).collect();
        let len = units.iter().rposition(|unit| *unit != 0).map_or(0, |last| last + 1);
        let text: Option<String> = units.iter().take(len).map(|unit| char::from_u32(*unit)).collect();
        let why =
            || Error::Copy { array: source.name(), why: "a text has characters that Unicode has not".into() };
        texts.push(text.ok_or_else(why)?);
    }
    let shape = selection.shape();
    Ragged::of(&shape, texts.iter().map(String::as_bytes)).ok_or_else(|| {
        let (array, what) = (source.name(), "text");
        hyperslab_array::ArrayError::Memory { array, what, bytes: u64::MAX }.into()
    })
}

/// Refuses values that are not text in UTF-8.
pub(super) fn check_text(ragged: &Ragged, block: &Block, name: &str) -> Result<()> {
    let bytes = ragged.values.as_slice();
    // All values are text if their concatenation is, and no value begins within a character.
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

/// The first element that differs, with both values.
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
        // The same bytes, split differently.
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
        // One character split over two elements.
        assert!(check(&[b"a", b"\xc3", b"\xa9", b"d"]).unwrap_err().contains("'/a': element [10, 1]"));
    }
}
