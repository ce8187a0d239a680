//! Numbers per axis.

#![expect(clippy::cast_possible_truncation, reason = "sizes in memory: 64 bits, checked as they came in")]

use smallvec::SmallVec;

/// One number per axis; on the heap only above rank 8.
pub type Dims = SmallVec<[u64; 8]>;

/// One signed byte stride per axis.
pub type Strides = SmallVec<[isize; 8]>;

/// The most axes an array may have: NumPy's own limit.
pub const MAX_RANK: usize = 64;

/// The number of elements of `shape`; `None` on overflow. A length of zero gives zero, whatever the
/// other lengths are.
pub fn element_count(shape: &[u64]) -> Option<u64> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1u64, |n, d| n.checked_mul(*d))
}

/// Byte strides of a dense array of `shape` in C order. The caller has checked that its size in
/// bytes fits `isize`.
pub fn c_strides(shape: &[u64], element: usize) -> Strides {
    let mut strides: Strides = SmallVec::from_elem(0, shape.len());
    let mut step = element as isize;
    for (stride, len) in strides.iter_mut().zip(shape).rev() {
        *stride = step;
        step = step.wrapping_mul(*len as isize);
    }
    strides
}
