//! Values of variable length that a caller's own structures hold, such as NumPy's strings.
//!
//! All threads take the values in one pass. Bytes go to one buffer for each piece, and the engine's
//! cells refer to them. [`Ragged`](super::Ragged) would need three passes: for the sizes, the bytes
//! and the cells.

use super::parts::each_part;
use super::read::codec;
use crate::dims::{Dims, element_count};
use crate::error::ArrayError;
use crate::execute::tasks::memory_error;
use crate::layout::ArrayLayout;
use crate::runtime::memory::Memory;
use hyperslab_codec::{Cell, VlenKind};
use std::ops::Range;
use std::sync::Arc;

/// Number of values whose bytes one thread takes at once.
pub(super) const PIECE: usize = 1 << 15;

/// Bytes of a value that are assumed before any value is known.
const GUESS: usize = SHORT;

/// Bytes that are copied at once for a short value.
const SHORT: usize = 16;

/// Passes the values of a range to [`PackedPiece::push`].
pub type TakeValues<'t, E> = &'t (dyn Fn(Range<usize>, &mut PackedPiece<'_>) -> Result<(), E> + Sync);

/// Values of variable length for one array, as the engine writes them.
#[derive(Debug)]
pub struct Packed {
    pub(super) shape: Dims,
    /// Cells that refer to the pieces. Piece 0 is buffer 1 of a heap: buffer 0 is the fill value.
    pub(super) cells: Memory,
    pub(super) pieces: Vec<Arc<Memory>>,
}

impl Packed {
    /// Takes values of `shape`, in C order, for the array of `layout`.
    ///
    /// Several threads call `take` at once, for ranges of the values. `take` passes each value of
    /// its range to [`PackedPiece::push`].
    ///
    /// Fails with the error of `take`. Fails with [`ArrayError::Layout`] if elements have a fixed
    /// size. Fails with [`ArrayError::Values`] if there are too few or too many values, if text is
    /// not UTF-8, or if a value has more than 4 GiB.
    pub fn take<E: From<ArrayError> + Send>(
        layout: &ArrayLayout,
        shape: &[u64],
        take: TakeValues<'_, E>,
    ) -> Result<Packed, E> {
        let vlen = codec(layout)?;
        let none = |bytes| memory_error(layout, "the elements to be written", bytes);
        let count = element_count(shape).and_then(|count| usize::try_from(count).ok());
        let size = count.and_then(|count| count.checked_mul(Cell::SIZE));
        let (Some(count), Some(size)) = (count, size) else { return Err(none(u64::MAX).into()) };
        let mut memory = Memory::dirty(size).ok_or_else(|| none(size as u64))?;
        let (cells, _) = memory.as_mut_slice().as_chunks_mut::<{ Cell::SIZE }>();
        let work = size.saturating_add(count.saturating_mul(GUESS)) as u64;
        let parts: Vec<_> = cells.chunks_mut(PIECE).collect();
        let pieces = each_part(parts, work, None, &|number, cells: &mut [[u8; Cell::SIZE]]| {
            let (first, len) = (number * PIECE, cells.len());
            let mut piece = PackedPiece {
                buffer: u32::try_from(number + 1).unwrap_or(u32::MAX),
                bytes: Memory::dirty(len * GUESS).ok_or_else(|| none((len * GUESS) as u64))?,
                end: 0,
                fill: vlen.fill(),
                fill_cell: vlen.fill_cell().write(),
                cells: cells.iter_mut(),
                surplus: 0,
                wrong: None,
            };
            take(first..first + len, &mut piece)?;
            let PackedPiece { mut bytes, end, cells: left, surplus, wrong, .. } = piece;
            let missing = left.len();
            bytes.resize(end);
            let refuse = |why: String| E::from(ArrayError::Values { array: layout.name().into(), why });
            if missing > 0 || surplus > 0 {
                let found = len - missing + surplus;
                return Err(refuse(format!("{found} values where {len} are expected, from {first} on")));
            }
            match wrong {
                Some(Wrong::Long(len)) => {
                    return Err(refuse(format!("a value has {len} bytes; the limit is 2³² - 1")));
                }
                Some(Wrong::NoMemory(bytes)) => return Err(none(bytes as u64).into()),
                None => {}
            }
            if vlen.kind() == VlenKind::Text && !is_text(bytes.as_slice(), cells) {
                return Err(refuse(format!("a value from {first} on is not text in UTF-8")));
            }
            Ok(Arc::new(bytes))
        })?;
        Ok(Packed { shape: shape.into(), cells: memory, pieces })
    }
}

/// A run of values on its way to the engine.
#[derive(Debug)]
pub struct PackedPiece<'a> {
    buffer: u32,
    bytes: Memory,
    end: usize,
    fill: &'a [u8],
    fill_cell: [u8; Cell::SIZE],
    /// The cells of the values that are still to come.
    cells: std::slice::IterMut<'a, [u8; Cell::SIZE]>,
    /// Number of values beyond the last expected one.
    surplus: usize,
    wrong: Option<Wrong>,
}

/// Why a value could not be taken.
#[derive(Debug)]
enum Wrong {
    /// The value has this many bytes, which is too many.
    Long(usize),
    /// There is no memory for this many bytes in all.
    NoMemory(usize),
}

impl PackedPiece<'_> {
    /// Takes the bytes of the next value.
    #[inline]
    pub fn push(&mut self, value: &[u8]) {
        let Some(cell) = self.cells.next() else {
            self.surplus += 1;
            return;
        };
        *cell = if value.is_empty() {
            Cell::default().write()
        } else if value == self.fill {
            self.fill_cell
        } else {
            let (offset, end) = (self.end, self.end.saturating_add(value.len()));
            if end > self.bytes.len() {
                self.grow(end);
            }
            let Ok(len) = u32::try_from(value.len()) else {
                self.wrong = Some(Wrong::Long(value.len()));
                return;
            };
            // If there is no memory, `Packed::take` fails and nothing is stored.
            let Some(to) = self.bytes.as_mut_slice().get_mut(offset..end) else { return };
            to.copy_from_slice(value);
            self.end = end;
            Cell { buffer: self.buffer, len, offset: offset as u64 }.write()
        };
    }

    /// As [`PackedPiece::push`], for a value that is the first `len` of `bytes`. Most values are
    /// short, and a copy of fixed length is faster.
    #[inline]
    pub fn push_short(&mut self, bytes: &[u8; 16], len: usize) {
        let value = bytes.get(..len).unwrap_or(bytes);
        let to = self.bytes.as_mut_slice().get_mut(self.end..).and_then(<[u8]>::first_chunk_mut);
        match (to, u32::try_from(value.len())) {
            (Some(to), Ok(len)) if len > 0 && value != self.fill && self.cells.len() > 0 => {
                *to = *bytes;
                let cell = Cell { buffer: self.buffer, len, offset: self.end as u64 };
                self.end += value.len();
                if let Some(place) = self.cells.next() {
                    *place = cell.write();
                }
            }
            _ => self.push(value),
        }
    }

    /// Makes room for `least` bytes, and for more bytes to come.
    #[cold]
    fn grow(&mut self, least: usize) {
        if !(self.bytes.resize(least.saturating_mul(2)) || self.bytes.resize(least)) {
            self.wrong = Some(Wrong::NoMemory(least));
        }
    }
}

/// Returns whether the bytes of all these cells, stored one after the other, are UTF-8.
fn is_text(bytes: &[u8], cells: &[[u8; Cell::SIZE]]) -> bool {
    if bytes.is_ascii() {
        return true;
    }
    // All bytes together are text, so a value is text if it begins between two characters.
    let begins = |cell: &Cell| {
        let first = usize::try_from(cell.offset).ok().and_then(|at| bytes.get(at));
        cell.len == 0 || cell.buffer == 0 || first.is_some_and(|byte| byte & 0xC0 != 0x80)
    };
    std::str::from_utf8(bytes).is_ok() && cells.iter().all(|cell| begins(&Cell::read(cell)))
}
