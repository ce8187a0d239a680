//! The blocks in which two arrays are compared: whole chunks of both, as far as memory allows.

use crate::{Array, Dims, Index, Result, Selection};
use std::ops::Range;

/// Bytes of a block of small chunks, per array.
/// As in statistics: larger blocks leave the caches before they are compared.
const NEAR: u64 = 2 << 20;
/// Bytes of a block from a distant store: enough chunks for many requests at once.
const FAR: u64 = 32 << 20;
/// The most bytes of a block that has whole chunks of both arrays, unless one chunk is larger.
/// Above this, chunks that cross the border of a block are decoded once for each block.
const MOST: u64 = 64 << 20;

/// A box of elements: a range per axis.
pub(super) type Region = Vec<Range<u64>>;

/// The blocks of a region, numbered in C order.
#[derive(Clone, Debug)]
pub(super) struct Blocks {
    region: Region,
    /// Elements of a block per axis. Blocks begin at multiples of these.
    step: Vec<u64>,
}

/// The shape of the chunks that a block should not cut: 1 along the axes of data without chunks.
pub(super) fn units(array: &Array) -> Dims {
    match array.has_chunks() {
        true => array.layout().grid().chunk_shape().iter().map(|len| (*len).max(1)).collect(),
        false => array.shape().iter().map(|_| 1).collect(),
    }
}

/// Bytes of a block, by the distance of the stores.
pub(super) fn wanted(a: &Array, b: &Array) -> u64 {
    let is_far = |array: &Array| array.layout().store().cost().waiting_dominates();
    if is_far(a) || is_far(b) { FAR } else { NEAR }
}

impl Blocks {
    /// Cuts `region` into blocks of whole chunks, where `units` are the chunk shapes of both arrays
    /// and elements have `size` bytes.
    pub(super) fn new(region: &[Range<u64>], units: [&[u64]; 2], size: u64, wanted: u64) -> Blocks {
        let len = |axis: usize| region[axis].end.saturating_sub(region[axis].start).max(1);
        let bytes = |step: &[u64]| {
            let inside = step.iter().enumerate().map(|(axis, step)| (*step).min(len(axis)));
            inside.fold(size.max(1), u64::saturating_mul)
        };
        let [a, b] = units;
        let most = bytes(a).max(bytes(b)).max(MOST);
        let common = |(axis, (a, b)): (usize, (&u64, &u64))| least_common_multiple(*a, *b, region[axis].end);
        let mut step: Vec<u64> = a.iter().zip(b).enumerate().map(common).collect();
        if bytes(&step) > most {
            step = a.iter().zip(b).map(|(a, b)| *a.max(b)).collect();
        }
        while bytes(&step) > most {
            // Cut the axis that is longest within the region.
            let Some(axis) = (0..step.len()).max_by_key(|axis| step[*axis].min(len(*axis))) else { break };
            step[axis] = (step[axis].min(len(axis)) / 2).max(1);
        }
        // Lengthen the last axis first: neighbours in memory are read together.
        for axis in (0..step.len()).rev() {
            let times = (wanted / bytes(&step).max(1)).min(len(axis).div_ceil(step[axis]));
            if times > 1 {
                step[axis] = step[axis].saturating_mul(times);
            }
        }
        Blocks { region: region.to_vec(), step }
    }

    /// Number of blocks.
    pub(super) fn count(&self) -> u64 {
        (0..self.step.len()).fold(1, |count: u64, axis| count.saturating_mul(self.along(axis)))
    }

    /// Number of blocks along an axis.
    fn along(&self, axis: usize) -> u64 {
        let (Range { start, end }, step) = (&self.region[axis], self.step[axis]);
        if start >= end { 0 } else { (end - 1) / step - start / step + 1 }
    }

    /// The elements of a block.
    pub(super) fn get(&self, mut number: u64) -> Region {
        let mut found = self.region.clone();
        for axis in (0..self.step.len()).rev() {
            let (along, step) = (self.along(axis).max(1), self.step[axis]);
            let Range { start, end } = self.region[axis].clone();
            let first = (start / step + number % along).saturating_mul(step);
            number /= along;
            found[axis] = first.max(start)..first.saturating_add(step).min(end);
        }
        found
    }
}

/// The least common multiple, or all of an axis of length `all` if that is shorter.
fn least_common_multiple(a: u64, b: u64, all: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    let multiple = (a / x.max(1)).saturating_mul(b);
    if multiple >= all { all.max(a).max(b) } else { multiple }
}

/// Elements per axis.
pub(super) fn shape(region: &[Range<u64>]) -> Dims {
    region.iter().map(|axis| axis.end.saturating_sub(axis.start)).collect()
}

/// Selects a region of an array.
pub(super) fn select(array: &Array, region: &[Range<u64>]) -> Result<Selection> {
    let index = |axis: &Range<u64>| Index::range(axis.start.cast_signed(), axis.end.cast_signed());
    array.select(&region.iter().map(index).collect::<Vec<_>>())
}

/// The index of the `n`-th element of a region, in C order.
pub(super) fn index_in(region: &[Range<u64>], n: usize) -> Dims {
    let mut left = n as u64;
    let mut index: Dims = region.iter().map(|axis| axis.start).collect();
    for (axis, place) in region.iter().zip(&mut index).rev() {
        let len = axis.end.saturating_sub(axis.start).max(1);
        *place += left % len;
        left /= len;
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn blocks_have_whole_chunks_of_both() {
        let blocks = Blocks::new(&[0..24, 0..30], [&[4, 5], &[6, 3]], 1, 1);
        assert_eq!((blocks.step.as_slice(), blocks.count()), (&[12, 15][..], 4));
        assert_eq!(blocks.get(3), [12..24, 15..30]);
        // Small blocks are joined, along the last axis first.
        assert_eq!(Blocks::new(&[0..24, 0..30], [&[4, 5], &[6, 3]], 1, 360).step, [12, 30]);
        assert_eq!(Blocks::new(&[0..24, 0..30], [&[4, 5], &[6, 3]], 1, 1 << 20).count(), 1);
        assert_eq!(Blocks::new(&[], [&[], &[]], 8, 1).count(), 1);
        let empty = std::slice::from_ref(&(0..0));
        assert_eq!(Blocks::new(empty, [&[3], &[3]], 8, 1).count(), 0);
    }

    #[test]
    fn blocks_have_a_limit() {
        // Rows and columns: whole chunks of both are all of the array.
        let n = 1 << 16;
        let blocks = Blocks::new(&[0..n, 0..n], [&[1, n], &[n, 1]], 1, NEAR);
        let bytes = |region: Region| shape(&region).iter().product::<u64>();
        assert!(bytes(blocks.get(0)) <= MOST && blocks.count() >= 64, "{blocks:?}");
    }

    #[test]
    fn elements_are_numbered_in_c_order() {
        assert_eq!(index_in(&[2..4, 5..8], 4).as_slice(), [3, 6]);
        assert_eq!(index_in(&[], 0).as_slice(), [0; 0]);
    }

    proptest! {
        #[test]
        fn blocks_cover_each_element_once(
            shape in prop::collection::vec(0_u64..20, 0..4),
            a in prop::collection::vec(1_u64..9, 4),
            b in prop::collection::vec(1_u64..9, 4),
            wanted in 1_u64..200,
        ) {
            let rank = shape.len();
            let region: Region = shape.iter().map(|len| 0..*len).collect();
            let blocks = Blocks::new(&region, [&a[..rank], &b[..rank]], 1, wanted);
            let mut seen = std::collections::BTreeSet::new();
            for number in 0..blocks.count() {
                let block = blocks.get(number);
                let count = super::shape(&block).iter().product::<u64>();
                for n in 0..count {
                    prop_assert!(seen.insert(index_in(&block, n as usize)));
                }
            }
            prop_assert_eq!(seen.len() as u64, shape.iter().product::<u64>());
        }
    }
}
