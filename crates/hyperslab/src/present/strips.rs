//! Cuts data without chunks into strips, which become chunks of Zarr.
//!
//! New HDF5 files are written in strips, too, where they have no chunks.

use crate::Dims;

/// Bytes of a strip, at most.
const STRIP: u64 = 8 << 20;

/// The shape of the strips: whole rows, last axes first, so that the bytes of a strip are one range.
pub(crate) fn cut(shape: &[u64], element: u64) -> Dims {
    cut_to(shape, element, STRIP)
}

/// Like [`cut`], with strips of at most `most` bytes.
pub(crate) fn cut_to(shape: &[u64], element: u64, most: u64) -> Dims {
    let mut left = (most / element.max(1)).max(1);
    let mut strip: Dims = shape.into();
    for len in strip.iter_mut().rev() {
        *len = (*len).min(left).max(1);
        left = (left / *len).max(1);
    }
    strip
}

/// The place of a strip in the bytes of all elements: offset and length. `None`: the strip reaches
/// past the end of an axis, so a chunk of Zarr has more elements.
pub(super) fn range(place: &[u64], strip: &[u64], shape: &[u64], element: u64) -> Option<(u64, u64)> {
    let (mut first, mut len) = (0u64, element);
    for ((at, step), n) in place.iter().zip(strip).zip(shape) {
        let start = at.checked_mul(*step)?;
        if start.checked_add(*step)? > *n {
            return None;
        }
        first = first.checked_mul(*n)?.checked_add(start)?;
        len = len.checked_mul(*step)?;
    }
    Some((first.checked_mul(element)?, len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_rows_of_eight_megabytes() {
        let of = |shape: &[u64], element| cut(shape, element).to_vec();
        assert_eq!(of(&[], 8), [0; 0]);
        assert_eq!(of(&[10, 20], 4), [10, 20]);
        assert_eq!(of(&[3_000_000], 8), [1 << 20]);
        assert_eq!(of(&[5, 1000, 1 << 10], 8), [1, 1000, 1 << 10]);
        assert_eq!(of(&[5, 2000, 1 << 10], 8), [1, 1 << 10, 1 << 10]);
        // An axis without elements, and elements larger than a strip.
        assert_eq!(of(&[0, 7], 8), [1, 7]);
        assert_eq!(of(&[4, 4], 1 << 30), [1, 1]);
    }

    #[test]
    fn strips_are_ranges() {
        for shape in [&[7, 3, 5][..], &[2, 1, 9], &[11], &[]] {
            let strip = [cut(shape, STRIP / 4), cut(shape, STRIP / 15), shape.into()];
            for strip in strip {
                let count: u64 = strip.iter().product();
                let rank = shape.len();
                let zeros = vec![0; rank];
                assert_eq!(range(&zeros, &strip, shape, 2), Some((0, 2 * count)), "{shape:?} {strip:?}");
            }
        }
        assert_eq!(range(&[1, 1, 0], &[1, 2, 5], &[7, 4, 5], 8), Some((8 * (20 + 10), 80)));
        assert_eq!(range(&[0, 1, 0], &[1, 2, 5], &[7, 3, 5], 8), None);
        assert_eq!(range(&[u64::MAX], &[2], &[u64::MAX], 8), None);
    }
}
