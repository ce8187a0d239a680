//! Cuts elements in one run of bytes into strips, which the engine writes like chunks.

use hyperslab_array::Dims;

/// Bytes of a strip, at most. Parts of a strip are written by reading all of it.
const STRIP: u64 = 256 << 10;

/// The strips of a run.
#[derive(Clone, Debug)]
pub(super) struct Strips {
    shape: Dims,
    /// Elements of a strip per axis.
    strip: Dims,
}

impl Strips {
    /// Cuts elements of `size` bytes: whole rows, last axes first, so that a strip is one range.
    pub(super) fn new(shape: &[u64], size: u64) -> Strips {
        let strip = crate::present::strips::cut_to(shape, size, STRIP);
        Strips { shape: shape.into(), strip }
    }

    /// Elements of a strip per axis.
    pub(super) fn strip(&self) -> &Dims {
        &self.strip
    }

    /// Returns a strip as a range of elements: the first, and how many are inside the array.
    pub(super) fn range(&self, place: &[u64]) -> (u64, u64) {
        let (mut first, mut len) = (0_u64, 1_u64);
        for ((at, step), n) in place.iter().zip(&self.strip).zip(&self.shape) {
            let start = at.saturating_mul(*step);
            first = first.saturating_mul(*n).saturating_add(start);
            len = len.saturating_mul((*step).min(n.saturating_sub(start)));
        }
        (first, len)
    }

    /// Returns the first element of the strip that has an element, and the end of the strip.
    pub(super) fn around(&self, element: u64) -> (u64, u64) {
        let mut left = element;
        let mut place = Dims::from_elem(0, self.shape.len());
        for ((at, step), n) in place.iter_mut().zip(&self.strip).zip(&self.shape).rev() {
            *at = left.checked_rem(*n).unwrap_or(0) / (*step).max(1);
            left = left.checked_div(*n).unwrap_or(0);
        }
        let (first, len) = self.range(&place);
        (first, first.saturating_add(len.max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strips_follow_each_other() {
        for (shape, size) in [(&[7, 3, 5][..], 60_000), (&[5, 70_000], 8), (&[1_000_000], 3), (&[], 8)] {
            let strips = Strips::new(shape, size);
            let all: u64 = shape.iter().product();
            let (mut at, mut count) = (0, 0);
            while at < all {
                let (first, end) = strips.around(at);
                assert_eq!((first, strips.around(end - 1)), (at, (first, end)), "{shape:?}");
                (at, count) = (end, count + 1);
            }
            assert_eq!(at, all);
            assert!(count >= all * size / (STRIP + 1), "{count}");
        }
    }
}
