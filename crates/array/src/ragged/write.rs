//! Writing elements of variable length. Cells of all values are made, whose bytes stay where they
//! are; then the ordinary engine writes the cells, and encoding a chunk takes the bytes that they
//! refer to. Of chunks that are written in part the old elements go to the same heap, until the
//! chunk is encoded.

#![expect(clippy::indexing_slicing, reason = "axes are numbered below the rank, which all vectors have")]

use super::read::{codec, one_size};
use super::{Ragged, heap};
use crate::dims::{Strides, c_strides, element_count};
use crate::error::ArrayError;
use crate::execute::tasks::memory_error;
use crate::layout::ArrayLayout;
use crate::runtime::memory::Memory;
use crate::select::Selection;
use crate::select::view::Source;
use crate::write;
use crate::write::WriteOptions;
use hyperslab_codec::{Cell, Vlen, VlenKind};
use std::sync::Arc;

/// The bytes of values, as a buffer of a heap.
struct Values(Arc<Ragged>);

impl AsRef<[u8]> for Values {
    fn as_ref(&self) -> &[u8] {
        self.0.values.as_slice()
    }
}

/// Writes elements of variable length whose codec is [`hyperslab_codec::Vlen`]. The shape of
/// `values` is broadcast to that of the selection, with NumPy's rules. What is null is written as
/// empty.
///
/// Errors as [`crate::write()`]; with [`ArrayError::Layout`] where elements have one size; with
/// [`ArrayError::Values`] where the values contradict each other, or are not what the array holds
/// (text that is no UTF-8, more than 4 GiB in one). All values are looked at before anything is
/// written.
pub fn write_ragged(
    layout: &ArrayLayout,
    selection: &Selection,
    values: &Arc<Ragged>,
    options: WriteOptions<'_>,
) -> Result<(), ArrayError> {
    let vlen = codec(layout)?;
    layout.check_writable()?;
    let shape = selection.shape();
    let strides = broadcast(&values.shape, &shape).ok_or_else(|| ArrayError::Shape {
        array: layout.name().into(),
        expected: shape.to_vec(),
        found: values.shape.to_vec(),
    })?;
    let heap = Arc::new(heap(vlen));
    let buffer = heap.push(Arc::new(Values(values.clone()))).unwrap_or_default();
    let cells = cells(layout, vlen, values, buffer)?;
    let bound = layout.bound(&heap).ok_or_else(|| one_size(layout))?;
    // SAFETY: there is a cell for each element of the values' shape, one behind the other, and
    // `strides` are those of this shape, or 0. They are not written to before the source is
    // dropped.
    let source = unsafe { Source::from_raw(cells.as_slice().as_ptr(), &shape, &strides) };
    write(&bound, selection, &source, options)
}

/// The strides with which cells of `shape` are repeated for `target`. `None`: they cannot be.
fn broadcast(shape: &[u64], target: &[u64]) -> Option<Strides> {
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

/// The cells of values that are in buffer `buffer`.
fn cells(layout: &ArrayLayout, vlen: &Vlen, values: &Ragged, buffer: u32) -> Result<Memory, ArrayError> {
    let refuse = |why: String| ArrayError::Values { array: layout.name().into(), why };
    let Ragged { shape, offsets, values, validity } = values;
    let item = vlen.kind().item_size();
    let count = offsets.len().checked_sub(1).filter(|count| element_count(shape) == Some(*count as u64));
    let count = count
        .ok_or_else(|| refuse(format!("{} offsets do not make values of shape {shape:?}", offsets.len())))?;
    if validity.as_ref().is_some_and(|validity| validity.len() != count) {
        return Err(refuse(format!(
            "there are {count} values, but it is not said of as many whether they are there"
        )));
    }
    let bytes = values.as_slice();
    let is_null = |at: usize| validity.as_ref().is_some_and(|validity| validity.get(at) == Some(&false));
    // Where a value begins.
    let place = |at: usize| {
        let found = offsets.get(at).and_then(|offset| usize::try_from(*offset).ok()?.checked_mul(item));
        found.filter(|place| *place <= bytes.len()).ok_or_else(|| {
            refuse(format!(
                "offset {at} ({:?}) is outside the {} bytes of the values",
                offsets.get(at),
                bytes.len()
            ))
        })
    };
    let none = || memory_error(layout, "the elements to be written", count as u64 * Cell::SIZE as u64);
    let mut memory = Memory::dirty(count.checked_mul(Cell::SIZE).ok_or_else(none)?).ok_or_else(none)?;
    let (places, _) = memory.as_mut_slice().as_chunks_mut::<{ Cell::SIZE }>();
    let mut start = place(0)?;
    // Values of which all together are text, each of which begins with a character, are texts;
    // otherwise each has to be looked at: what is null may be anything.
    let text = vlen.kind() == VlenKind::Text;
    let whole = text.then(|| std::str::from_utf8(bytes).ok()).flatten();
    for (at, cell) in places.iter_mut().enumerate() {
        let end = place(at + 1)?;
        let value = bytes.get(start..end);
        let value = value.ok_or_else(|| refuse(format!("value {at} ends before it begins")))?;
        let len = u32::try_from(value.len());
        let len =
            len.map_err(|_| refuse(format!("value {at} has {} bytes; the limit is 2³² - 1", value.len())))?;
        *cell = if is_null(at) || value.is_empty() {
            Cell::default()
        } else if value == vlen.fill() {
            vlen.fill_cell()
        } else {
            let within =
                || whole.is_some_and(|whole| whole.is_char_boundary(start) && whole.is_char_boundary(end));
            if text && !within() && std::str::from_utf8(value).is_err() {
                return Err(refuse(format!("value {at} is not text in UTF-8")));
            }
            Cell { buffer, len, offset: start as u64 }
        }
        .write();
        start = end;
    }
    Ok(memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broadcasting_is_numpys() {
        let strides =
            |shape: &[u64], target: &[u64]| broadcast(shape, target).map(|strides| strides.to_vec());
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
