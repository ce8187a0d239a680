//! Heap ids in memory (specification IV.B): number of items, address of a global heap collection, index of the object in it.

use super::strided;
use crate::Sizes;
use crate::cursor::{address, number};
use std::ops::Range;

/// A heap id: how many items, address of the collection, index of the object in it. `None`: null.
pub(super) type Id = Option<(u32, u64, u32)>;

/// Heap ids one behind the other, or a stride apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ids<'m> {
    /// From the first on.
    memory: &'m [u8],
    stride: usize,
    /// Bytes of an id.
    size: usize,
    count: usize,
    sizes: Sizes,
}

impl<'m> Ids<'m> {
    /// `count` ids of `size` bytes, the first at `offset`, the next `stride` bytes further. `None`: they are not all there.
    pub(super) fn new(
        memory: &'m [u8],
        (offset, stride, size): (usize, usize, usize),
        count: usize,
        sizes: Sizes,
    ) -> Option<Ids<'m>> {
        let _all_there = strided(memory, offset, stride, size, count)?;
        let memory = memory.get(offset..).unwrap_or_default();
        Some(Ids { memory, stride: stride.max(1), size, count, sizes })
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// All of them.
    pub(super) fn iter(self) -> impl Iterator<Item = Id> + Clone + 'm {
        self.bytes(0..self.count).map(move |bytes| id(bytes, self.sizes))
    }

    fn bytes(&self, range: Range<usize>) -> impl Iterator<Item = &'m [u8]> + Clone + use<'m> {
        let (start, size) = (range.start.saturating_mul(self.stride), self.size);
        let rest = self.memory.get(start..).unwrap_or_default();
        rest.chunks(self.stride).take(range.len()).map(move |chunk| chunk.get(..size).unwrap_or(chunk))
    }

    /// That of a number; null, if there are fewer.
    #[inline]
    pub(super) fn get(&self, number: usize) -> Id {
        let start = number.checked_mul(self.stride).filter(|_| number < self.count)?;
        id(self.memory.get(start..start.checked_add(self.size)?)?, self.sizes)
    }

    /// Calls `each` for the ids of a range, until it fails.
    #[inline]
    pub(super) fn walk<E>(
        &self,
        range: Range<usize>,
        mut each: impl FnMut(Id) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = range.start.saturating_mul(self.stride);
        if (self.stride, self.size) == (WIDE, WIDE) {
            let (ids, _) = self.memory.get(start..).unwrap_or_default().as_chunks::<WIDE>();
            ids.iter().take(range.len()).try_for_each(|bytes| each(wide(bytes)))
        } else {
            self.bytes(range).try_for_each(|bytes| each(id(bytes, self.sizes)))
        }
    }
}

/// Bytes of an id of a file with addresses of 8 bytes.
const WIDE: usize = 16;

/// Takes a heap id apart. One without an address is null.
#[inline]
fn id(bytes: &[u8], sizes: Sizes) -> Id {
    if let Ok(bytes) = <&[u8; WIDE]>::try_from(bytes) {
        return wide(bytes);
    }
    let end = 4 + usize::from(sizes.offset);
    let field = |range: Range<usize>| bytes.get(range).unwrap_or_default();
    let narrow = |bytes: &[u8]| number(bytes).and_then(|n| u32::try_from(n).ok()).unwrap_or_default();
    // No file reaches as far as an address that does not fit: it will not be found.
    let at = address(field(4..end)).unwrap_or(Some(u64::MAX)).filter(|at| *at != 0)?;
    Some((narrow(field(0..4)), at, narrow(field(end..end + 4))))
}

#[inline]
fn wide(bytes: &[u8; WIDE]) -> Id {
    let [a, b, c, d, at @ .., w, x, y, z] = *bytes;
    let at = u64::from_le_bytes(at);
    let is_null = at == 0 || at == u64::MAX;
    (!is_null).then_some((u32::from_le_bytes([a, b, c, d]), at, u32::from_le_bytes([w, x, y, z])))
}
