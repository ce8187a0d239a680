//! Heap ids in memory (specification IV.B).
//!
//! An id is a number of items, the address of a global heap collection, and the index of an object
//! in it.

use super::strided;
use crate::Sizes;
use crate::cursor::{address, number};
use std::borrow::Cow;
use std::ops::Range;

/// A heap id of a file with 8-byte addresses. Ids of other files are widened to this form.
pub(super) type Id = [u8; WIDE];

const WIDE: usize = 16;

/// Returns `count` ids of `size` bytes, `stride` apart from `offset` on. `None`: out of bounds.
pub(super) fn ids(
    memory: &[u8],
    (offset, stride, size): (usize, usize, usize),
    count: usize,
    sizes: Sizes,
) -> Option<Cow<'_, [Id]>> {
    let parts = strided(memory, offset, stride, size, count)?;
    if (stride, size) != (WIDE, WIDE) {
        return Some(Cow::Owned(parts.map(|bytes| widened(bytes, sizes)).collect()));
    }
    let (ids, _) = memory.get(offset..).unwrap_or_default().as_chunks();
    ids.get(..count).map(Cow::Borrowed)
}

/// Returns number of items, address of the collection, index of the object. `None`: a null id.
#[inline]
pub(super) fn taken_apart(id: &Id) -> Option<(u32, u64, u32)> {
    let [a, b, c, d, at @ .., w, x, y, z] = *id;
    let at = u64::from_le_bytes(at);
    let is_null = at == 0 || at == u64::MAX;
    (!is_null).then_some((u32::from_le_bytes([a, b, c, d]), at, u32::from_le_bytes([w, x, y, z])))
}

/// Widens an id to an address of 8 bytes.
fn widened(bytes: &[u8], sizes: Sizes) -> Id {
    let end = 4 + usize::from(sizes.offset);
    let field = |range: Range<usize>| bytes.get(range).unwrap_or_default();
    let narrow = |bytes: &[u8]| number(bytes).and_then(|n| u32::try_from(n).ok()).unwrap_or_default();
    // An address that does not fit is beyond the end of every file. It will not be found.
    let at = address(field(4..end)).unwrap_or(Some(u64::MAX - 1)).unwrap_or_default();
    let [a, b, c, d] = narrow(field(0..4)).to_le_bytes();
    let [e, f, g, h, i, j, k, l] = at.to_le_bytes();
    let [m, n, o, p] = narrow(field(end..end + 4)).to_le_bytes();
    [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]
}
