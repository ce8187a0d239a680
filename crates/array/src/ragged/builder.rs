//! A result of variable length that grows batch by batch: a [`Ragged`] under construction.
//!
//! For each batch: note which elements are present, append to `offsets`, make room for the values,
//! and fill them in.

use super::Ragged;
use crate::dims::Dims;
use crate::runtime::memory::Memory;

impl Ragged {
    /// A result without elements, with room for `count` offsets. `None` if there is no memory.
    pub fn growing(count: usize) -> Option<Ragged> {
        let mut offsets = Vec::new();
        offsets.try_reserve_exact(count.checked_add(1)?).ok()?;
        offsets.push(0);
        Some(Ragged { shape: Dims::new(), offsets, values: Memory::dirty(0)?, validity: None })
    }

    /// Number of elements.
    pub fn count(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// The end of the last element, in items.
    pub fn end(&self) -> i64 {
        self.offsets.last().copied().unwrap_or_default()
    }

    /// Makes room for `items` more items of `size` bytes each, with arbitrary contents. Returns the
    /// byte where they begin; `None` if there is no memory.
    pub fn grow(&mut self, items: u64, size: usize) -> Option<usize> {
        let used = self.values.len();
        let len = usize::try_from(items).ok()?.checked_mul(size)?.checked_add(used)?;
        self.values.resize(len).then_some(used)
    }

    /// Records which of the next elements are present. Call it before their offsets are appended.
    ///
    /// `nulls` says whether any of these elements is missing. Nothing is stored until the first
    /// missing element. Returns `false` if there is no memory.
    #[must_use]
    pub fn note(&mut self, nulls: bool, there: impl Iterator<Item = bool>) -> bool {
        if nulls && self.validity.is_none() {
            let mut validity = Vec::new();
            if validity.try_reserve_exact(self.offsets.capacity()).is_err() {
                return false;
            }
            validity.resize(self.count(), true);
            self.validity = Some(validity);
        }
        if let Some(validity) = &mut self.validity {
            validity.extend(there);
        }
        true
    }

    /// Reserves memory for `total` elements of the average length so far, up to `most` bytes. If
    /// that memory cannot be reserved, the result grows as needed.
    pub fn expect(&mut self, total: usize, most: u64) {
        let there = self.count();
        if there < total {
            let guess = self.values.len() as u128 * total as u128 / there.max(1) as u128;
            let guess = (guess + guess / 32).min(u128::from(most));
            self.values.reserve(usize::try_from(guess).unwrap_or_default());
        }
    }

    /// The finished result. Gives back the memory that it does not need.
    pub fn finish(mut self, shape: Dims) -> Ragged {
        self.values.shrink();
        Ragged { shape, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_batch_by_batch() {
        let mut ragged = Ragged::growing(5).unwrap();
        for (text, there) in [("ab", true), ("", true), ("", false), ("cde", true)] {
            assert!(ragged.note(!there, [there].into_iter()));
            let from = ragged.grow(text.len() as u64, 1).unwrap();
            ragged.values.as_mut_slice()[from..].copy_from_slice(text.as_bytes());
            ragged.offsets.push(ragged.end() + text.len() as i64);
            ragged.expect(5, u64::MAX);
        }
        assert_eq!((ragged.count(), ragged.end()), (4, 5));
        assert_eq!(ragged.grow(u64::MAX, 2), None);
        let ragged = ragged.finish(Dims::from_slice(&[2, 2]));
        assert_eq!(ragged.offsets, [0, 2, 2, 2, 5]);
        assert_eq!(ragged.values.as_slice(), b"abcde");
        assert_eq!(ragged.validity.unwrap(), [true, true, false, true]);
        assert!(Ragged::growing(usize::MAX).is_none());
    }
}
