//! Finds and joins the bytes of cells when a chunk is encoded.

use crate::{Cell, Heap, HeapBuffer};

/// Bytes that are copied at once for a short element.
pub(crate) const SHORT: usize = 16;

/// Copies bytes to `at`; the caller has made sure that there is room.
#[inline(always)]
pub(crate) fn put(dst: &mut [u8], at: usize, bytes: &[u8]) {
    debug_assert!(at + bytes.len() <= dst.len());
    if let Some(to) = at.checked_add(bytes.len()).and_then(|end| dst.get_mut(at..end)) {
        to.copy_from_slice(bytes);
    }
}

/// The buffers that hold the cells of a chunk. There are few.
pub(crate) struct Buffers(Vec<(u32, HeapBuffer)>);

impl Buffers {
    pub(crate) fn of(heap: &Heap, cells: &[[u8; Cell::SIZE]]) -> Self {
        let mut known: Vec<(u32, HeapBuffer)> = Vec::new();
        let mut last = None;
        for cell in cells {
            let cell = Cell::read(cell);
            if cell.len == 0 || last == Some(cell.buffer) {
                continue;
            }
            last = Some(cell.buffer);
            if !known.iter().any(|(number, _)| *number == cell.buffer) {
                known.extend(heap.buffer(cell.buffer).map(|buffer| (cell.buffer, buffer)));
            }
        }
        Buffers(known)
    }

    /// The numbers of the buffers in the heap.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(|(number, _)| *number)
    }

    pub(crate) fn lookup(&self) -> Lookup<'_> {
        Lookup {
            buffers: self.0.iter().map(|(number, buffer)| (*number, (**buffer).as_ref())).collect(),
            last: 0,
        }
    }
}

/// Finds the bytes of cells in their buffers.
pub(crate) struct Lookup<'b> {
    buffers: Vec<(u32, &'b [u8])>,
    /// Index of the buffer that held the last cell.
    last: usize,
}

impl<'b> Lookup<'b> {
    /// The rest of the cell's buffer from the cell's first byte on, or `None` if it is not there.
    #[inline]
    pub(crate) fn from(&mut self, cell: Cell) -> Option<&'b [u8]> {
        if cell.len == 0 {
            return Some(&[]);
        }
        if self.buffers.get(self.last).is_none_or(|(number, _)| *number != cell.buffer) {
            self.last = self.buffers.iter().position(|(number, _)| *number == cell.buffer)?;
        }
        self.buffers.get(self.last)?.1.get(usize::try_from(cell.offset).ok()?..)
    }

    /// The bytes of a cell, or `None` if they are not there.
    #[inline]
    pub(crate) fn bytes(&mut self, cell: Cell) -> Option<&'b [u8]> {
        self.from(cell)?.get(..cell.len as usize)
    }
}
