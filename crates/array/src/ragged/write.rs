//! Writes elements of variable length.
//!
//! First a cell is made for each value, whose bytes stay where they are. Then the ordinary engine
//! writes the cells: encoding a chunk takes the bytes that its cells refer to. If a chunk is
//! written in part, its old elements go to the same heap until the chunk is encoded.

#![expect(clippy::indexing_slicing, reason = "axes are numbered below the rank, which all vectors have")]

use super::packed::{PIECE, Packed};
use super::read::{codec, one_size};
use super::{Ragged, heap};
use crate::dims::{Strides, c_strides, element_count};
use crate::error::ArrayError;
use crate::execute::tasks::{self, memory_error};
use crate::layout::ArrayLayout;
use crate::runtime::memory::Memory;
use crate::select::Selection;
use crate::select::view::Source;
use crate::write::{WriteOptions, write};
use hyperslab_codec::{Cell, Heap, Vlen, VlenKind};
use std::sync::{Arc, Mutex, PoisonError};

/// The bytes of values, as a buffer of a heap.
struct Values(Arc<Ragged>);

impl AsRef<[u8]> for Values {
    fn as_ref(&self) -> &[u8] {
        self.0.values.as_slice()
    }
}

/// Writes elements of variable length whose codec is [`hyperslab_codec::Vlen`].
///
/// The shape of `values` is broadcast to the selection's shape by NumPy's rules. Nulls are written
/// as empty elements.
///
/// Fails as [`crate::write()`] does. Fails with [`ArrayError::Layout`] if elements have a fixed
/// size. Fails with [`ArrayError::Values`] if the parts of `values` disagree, or if the array
/// cannot hold the values (text that is not UTF-8, more than 4 GiB in one value). All values are
/// checked before anything is written.
pub fn write_ragged(
    layout: &ArrayLayout,
    selection: &Selection,
    values: &Arc<Ragged>,
    options: WriteOptions<'_>,
) -> Result<(), ArrayError> {
    write_ragged_with(layout, selection, values, options, &mut |bound, source| {
        write(bound, selection, source, options)
    })
}

/// Writes the cells of some elements. The layout holds the heap that they refer to.
pub(crate) type WriteCells<'w> = &'w mut dyn FnMut(&ArrayLayout, &Source<'_>) -> Result<(), ArrayError>;

/// As [`write_ragged`], but the cells are written by `write`.
pub(crate) fn write_ragged_with(
    layout: &ArrayLayout,
    selection: &Selection,
    values: &Arc<Ragged>,
    options: WriteOptions<'_>,
    write: WriteCells<'_>,
) -> Result<(), ArrayError> {
    let vlen = codec(layout)?;
    layout.check_writable()?;
    // Check the shape before making cells.
    broadcast(layout, &values.shape, &selection.shape())?;
    let heap = heap(vlen);
    let buffer = heap.push(Arc::new(Values(values.clone()))).unwrap_or_default();
    let cells = cells(layout, vlen, values, buffer, options)?;
    write_cells(layout, selection, (&values.shape, &cells), heap, write)
}

/// As [`write_ragged`], for values that were packed for this array.
pub fn write_packed(
    layout: &ArrayLayout,
    selection: &Selection,
    values: &Packed,
    options: WriteOptions<'_>,
) -> Result<(), ArrayError> {
    let heap = heap(codec(layout)?);
    layout.check_writable()?;
    for piece in &values.pieces {
        heap.push(piece.clone());
    }
    write_cells(layout, selection, (&values.shape, &values.cells), heap, &mut |bound, source| {
        write(bound, selection, source, options)
    })
}

/// Writes the cells of values of `shape`, whose bytes are in the heap.
fn write_cells(
    layout: &ArrayLayout,
    selection: &Selection,
    (shape, cells): (&[u64], &Memory),
    heap: Heap,
    write: WriteCells<'_>,
) -> Result<(), ArrayError> {
    let target = selection.shape();
    let strides = broadcast(layout, shape, &target)?;
    let bound = layout.bound(&Arc::new(heap)).ok_or_else(|| one_size(layout))?;
    // SAFETY: there is a cell for each element of the values' shape, one after the other. The
    // `strides` are the strides of this shape, or 0. Nobody writes to the cells before the source
    // is dropped.
    let source = unsafe { Source::from_raw(cells.as_slice().as_ptr(), &target, &strides) };
    write(&bound, &source)
}

/// The strides that repeat cells of `shape` over `target`.
fn broadcast(layout: &ArrayLayout, shape: &[u64], target: &[u64]) -> Result<Strides, ArrayError> {
    strides(shape, target).ok_or_else(|| ArrayError::Shape {
        array: layout.name().into(),
        expected: target.to_vec(),
        found: shape.to_vec(),
    })
}

/// The strides that repeat cells of `shape` over `target`. `None` if that is impossible.
fn strides(shape: &[u64], target: &[u64]) -> Option<Strides> {
    let surplus = shape.len().saturating_sub(target.len());
    let (ones, shape) = shape.split_at(surplus);
    if ones.iter().any(|len| *len != 1) {
        return None;
    }
    let mut strides = Strides::from_elem(0, target.len());
    let missing = target.len() - shape.len();
    for (axis, (len, stride)) in shape.iter().zip(c_strides(shape, Cell::SIZE)).enumerate() {
        match (*len, target[missing + axis]) {
            (len, wanted) if len == wanted => strides[missing + axis] = stride,
            (1, _) => {}
            _ => return None,
        }
    }
    Some(strides)
}

/// Makes the cells of values whose bytes are in buffer `buffer`.
fn cells(
    layout: &ArrayLayout,
    vlen: &Vlen,
    values: &Ragged,
    buffer: u32,
    options: WriteOptions<'_>,
) -> Result<Memory, ArrayError> {
    let refuse = |why: String| ArrayError::Values { array: layout.name().into(), why };
    let Ragged { shape, offsets, values, validity } = values;
    let count = offsets.len().checked_sub(1).filter(|count| element_count(shape) == Some(*count as u64));
    let count = count
        .ok_or_else(|| refuse(format!("{} offsets do not make values of shape {shape:?}", offsets.len())))?;
    if validity.as_ref().is_some_and(|validity| validity.len() != count) {
        return Err(refuse(format!(
            "there are {count} values, but it is not said of as many whether they are there"
        )));
    }
    let bytes = values.as_slice();
    let text = vlen.kind() == VlenKind::Text;
    let ascii = text && bytes.is_ascii();
    let maker = CellMaker {
        buffer,
        offsets,
        validity: validity.as_deref(),
        bytes,
        item: vlen.kind().item_size(),
        text,
        ascii,
        all_text: ascii || text && std::str::from_utf8(bytes).is_ok(),
        fill: vlen.fill(),
        fill_cell: vlen.fill_cell(),
    };
    let none = || memory_error(layout, "the elements to be written", count as u64 * Cell::SIZE as u64);
    let mut memory = Memory::dirty(count.checked_mul(Cell::SIZE).ok_or_else(none)?).ok_or_else(none)?;
    let (cells, _) = memory.as_mut_slice().as_chunks_mut::<{ Cell::SIZE }>();
    // One lock for each piece: only its thread takes it.
    let pieces: Vec<_> = cells.chunks_mut(PIECE).map(Mutex::new).collect();
    let limit = tasks::limit(options.threads);
    let work = (count * Cell::SIZE + bytes.len()) as u64;
    tasks::run_tasks(layout, pieces.len(), work, (limit, limit), options.interrupt, &|number, _, _| {
        let Some(piece) = pieces.get(number) else { return Ok(()) };
        let mut cells = piece.lock().unwrap_or_else(PoisonError::into_inner);
        maker.make(number * PIECE, &mut cells).map_err(refuse)
    })?;
    drop(pieces);
    Ok(memory)
}

/// Makes cells of values.
struct CellMaker<'a> {
    buffer: u32,
    offsets: &'a [i64],
    validity: Option<&'a [bool]>,
    bytes: &'a [u8],
    /// Bytes per item.
    item: usize,
    text: bool,
    /// `true` if every byte is a whole character.
    ascii: bool,
    /// `true` if all bytes together are text: then a value that begins and ends between characters
    /// is text. Otherwise each value is checked, because a null may hold any bytes.
    all_text: bool,
    fill: &'a [u8],
    fill_cell: Cell,
}

impl CellMaker<'_> {
    /// Makes the cells of the values from `first` on. The error says why it failed.
    fn make(&self, first: usize, cells: &mut [[u8; Cell::SIZE]]) -> Result<(), String> {
        let mut start = self.place(first)?;
        let ends = self.offsets.get(first + 1..).unwrap_or_default();
        for (n, (cell, end)) in cells.iter_mut().zip(ends).enumerate() {
            let at = first + n;
            let end = match usize::try_from(*end).ok().and_then(|end| end.checked_mul(self.item)) {
                Some(end) if end <= self.bytes.len() => end,
                _ => self.place(at + 1)?,
            };
            let value = self.bytes.get(start..end);
            let value = value.ok_or_else(|| format!("value {at} ends before it begins"))?;
            let is_null = self.validity.is_some_and(|validity| validity.get(at) == Some(&false));
            *cell = if is_null || value.is_empty() {
                Cell::default()
            } else if value == self.fill {
                self.fill_cell
            } else {
                let within = self.ascii || self.all_text && self.is_boundary(start) && self.is_boundary(end);
                if self.text && !within && std::str::from_utf8(value).is_err() {
                    return Err(format!("value {at} is not text in UTF-8"));
                }
                let len = u32::try_from(value.len())
                    .map_err(|_| format!("value {at} has {} bytes; the limit is 2³² - 1", value.len()))?;
                Cell { buffer: self.buffer, len, offset: start as u64 }
            }
            .write();
            start = end;
        }
        Ok(())
    }

    /// The byte at which value `at` begins and the value before it ends.
    #[cold]
    fn place(&self, at: usize) -> Result<usize, String> {
        let offset = self.offsets.get(at);
        let found = offset.and_then(|offset| usize::try_from(*offset).ok()?.checked_mul(self.item));
        found.filter(|place| *place <= self.bytes.len()).ok_or_else(|| {
            let offset = offset.map_or("missing".to_owned(), ToString::to_string);
            format!("offset {at} ({offset}) is outside the {} bytes of the values", self.bytes.len())
        })
    }

    /// Returns whether a character of text may begin at byte `at`.
    #[inline]
    fn is_boundary(&self, at: usize) -> bool {
        self.bytes.get(at).is_none_or(|byte| byte & 0xC0 != 0x80)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn broadcasting_is_numpys() {
        let strides =
            |shape: &[u64], target: &[u64]| super::strides(shape, target).map(|strides| strides.to_vec());
        assert_eq!(strides(&[], &[]), Some(vec![]));
        assert_eq!(strides(&[], &[2, 3]), Some(vec![0, 0]));
        assert_eq!(strides(&[2, 3], &[2, 3]), Some(vec![48, 16]));
        assert_eq!(strides(&[3], &[2, 3]), Some(vec![0, 16]));
        assert_eq!(strides(&[2, 1], &[2, 3]), Some(vec![16, 0]));
        assert_eq!(strides(&[1, 1, 3], &[3]), Some(vec![16]));
        assert_eq!(strides(&[1], &[0]), Some(vec![0]));
        assert_eq!(strides(&[2], &[2, 3]), None);
        assert_eq!(strides(&[2, 3], &[3]), None);
        assert_eq!(strides(&[3], &[1]), None);
        assert_eq!(strides(&[0], &[3]), None);
    }
}
