//! Values of variable length that a caller's own structures hold, NumPy's strings say. All threads
//! take them, in one pass: bytes go to a buffer for each piece, and the engine's cells refer to
//! them. [`Ragged`](super::Ragged) would take a pass for the sizes, one for the bytes, and one for
//! the cells.

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

/// Values of which one thread takes the bytes at once.
pub(super) const PIECE: usize = 1 << 15;

/// Bytes of a value, as long as no more is known.
const GUESS: usize = SHORT;

/// Bytes that are copied at once of a value that is short.
const SHORT: usize = 16;

/// Gives the values of a range to [`Piece::push`].
pub type Take<'t, E> = &'t (dyn Fn(Range<usize>, &mut Piece<'_>) -> Result<(), E> + Sync);

/// Values of variable length for one array, as the engine writes them.
#[derive(Debug)]
pub struct Packed {
    pub(super) shape: Dims,
    /// Cells that refer to the pieces: to the first as buffer 1 of a heap, as 0 is the fill value.
    pub(super) cells: Memory,
    pub(super) pieces: Vec<Arc<Memory>>,
}

impl Packed {
    /// Takes values of `shape`, in C order, for the array of `layout`. `take` is called for ranges
    /// of them, by several threads at once; it gives each value of its range to [`Piece::push`].
    ///
    /// Errors with what `take` returns; with [`ArrayError::Layout`] where elements have one size,
    /// and with [`ArrayError::Values`] where there are fewer values or more, text is no UTF-8, or
    /// one has more than 4 GiB.
    pub fn take<E: From<ArrayError> + Send>(
        layout: &ArrayLayout,
        shape: &[u64],
        take: Take<'_, E>,
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
            let mut piece = Piece {
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
            let Piece { mut bytes, end, cells: left, surplus, wrong, .. } = piece;
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
pub struct Piece<'a> {
    buffer: u32,
    bytes: Memory,
    end: usize,
    fill: &'a [u8],
    fill_cell: [u8; Cell::SIZE],
    /// Of the values that come.
    cells: std::slice::IterMut<'a, [u8; Cell::SIZE]>,
    /// Values that came after the last.
    surplus: usize,
    wrong: Option<Wrong>,
}

/// Why a value was not taken.
#[derive(Debug)]
enum Wrong {
    /// It has so many bytes.
    Long(usize),
    /// There is none for so many bytes in all.
    NoMemory(usize),
}

impl Piece<'_> {
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
            // Where there is no memory, nothing is stored in the end.
            let Some(to) = self.bytes.as_mut_slice().get_mut(offset..end) else { return };
            to.copy_from_slice(value);
            self.end = end;
            Cell { buffer: self.buffer, len, offset: offset as u64 }.write()
        };
    }

    /// As [`Piece::push`], of the value that is the first `len` bytes of these: most are short, and a
    /// copy of fixed length is faster.
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

    /// Makes room for `least` bytes, and for more that will come.
    #[cold]
    fn grow(&mut self, least: usize) {
        if !(self.bytes.resize(least.saturating_mul(2)) || self.bytes.resize(least)) {
            self.wrong = Some(Wrong::NoMemory(least));
        }
    }
}

/// Whether the bytes of all these cells, which lie one behind the other, are UTF-8.
fn is_text(bytes: &[u8], cells: &[[u8; Cell::SIZE]]) -> bool {
    if bytes.is_ascii() {
        return true;
    }
    // Values that begin between characters of text are texts.
    let begins = |cell: &Cell| {
        let first = usize::try_from(cell.offset).ok().and_then(|at| bytes.get(at));
        cell.len == 0 || cell.buffer == 0 || first.is_some_and(|byte| byte & 0xC0 != 0x80)
    };
    std::str::from_utf8(bytes).is_ok() && cells.iter().all(|cell| begins(&Cell::read(cell)))
}
