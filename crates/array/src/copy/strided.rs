//! Copies between strided arrays: the engine's innermost loops.
//!
//! One pass moves elements from a chunk to their places in the output (or back). It handles any
//! order of axes, any steps of the selection and any byte order on either side. First the axes are
//! brought into a normal form ([`Region`]). Axes of length 1 are dropped, axes that continue one
//! another are merged, and the axis with the smallest destination stride comes last. Then one of
//! three loops runs, compiled once per element size:
//!
//! * rows contiguous on both sides: `memcpy` (or a byte-swapping loop) per row;
//! * the source's fastest axis is not the destination's: [`crate::copy::transpose`];
//! * anything else: a strided loop.

#![expect(clippy::indexing_slicing, reason = "places of axes come from the list itself")]
#![expect(clippy::cast_possible_truncation, reason = "sizes in memory: 64 bits, checked as they came in")]

use crate::copy::row::{Axis, copy_row};
use crate::copy::transpose;
use crate::copy::unit::{Unit, by_unit};
use crate::costs;
use smallvec::SmallVec;

/// A copy in normal form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    /// Slowest first along the destination. Empty: one element.
    pub(crate) axes: SmallVec<[Axis; 8]>,
    /// Bytes that are moved at once: 1, 2, 4, 8 or 16.
    pub(crate) unit: usize,
    /// `true` if the bytes of each unit are reversed.
    pub(crate) swap: bool,
    /// `true` if there is nothing to move.
    pub(crate) empty: bool,
}

impl Region {
    /// A copy of `counts` elements of `element` bytes.
    ///
    /// `swap` bytes are reversed as a unit (1: none). It divides `element`.
    pub(crate) fn new(counts: &[u64], dst: &[isize], src: &[isize], element: usize, swap: usize) -> Self {
        let mut axes: SmallVec<[Axis; 8]> = SmallVec::new();
        let mut empty = element == 0;
        for ((len, dst), src) in counts.iter().zip(dst).zip(src) {
            empty |= *len == 0;
            if *len != 1 {
                axes.push(Axis { len: *len as usize, dst: *dst, src: *src });
            }
        }
        axes.sort_by_key(|axis| std::cmp::Reverse(axis.dst.unsigned_abs()));
        // An element that no loop moves in one piece becomes a row of smaller units.
        let unit = match (swap, element) {
            (2.., _) => swap,
            (_, 1 | 2 | 4 | 8 | 16) => element,
            _ => 1,
        };
        if unit != element && element != 0 {
            axes.push(Axis { len: element / unit, dst: unit as isize, src: unit as isize });
        }
        merge(&mut axes);
        Region { axes, unit, swap: swap > 1, empty }
    }

    /// Returns the length if both sides are one run of bytes in the same order.
    pub(crate) fn contiguous_len(&self) -> Option<usize> {
        let unit = self.unit as isize;
        match self.axes.as_slice() {
            _ if self.empty => Some(0),
            [] => Some(self.unit),
            [axis] if axis.dst == unit && axis.src == unit => Some(axis.len * self.unit),
            _ => None,
        }
    }

    /// Bytes of the rows that are contiguous on both sides. `None` if rows are not.
    pub(crate) fn row(&self) -> Option<usize> {
        let unit = self.unit as isize;
        match self.axes.last() {
            None => Some(self.unit),
            Some(axis) if axis.dst == unit && axis.src == unit => Some(axis.len * self.unit),
            Some(_) => None,
        }
    }

    /// Length of the rows if they are worth a byte range of their own.
    ///
    /// They must be contiguous on both sides, unchanged, and long.
    pub(crate) fn direct_row(&self) -> Option<usize> {
        self.row().filter(|row| *row >= costs::DIRECT_ROW && !self.swap)
    }

    /// Calls `row` with the byte offsets of each row on both sides, slowest axis first.
    pub(crate) fn for_each_row(&self, row: &mut impl FnMut(isize, isize)) {
        if !self.empty {
            for_each_offset(&self.axes[..self.axes.len().saturating_sub(1)], 0, 0, row);
        }
    }
}

/// Merges axes if the outer one continues the inner one on both sides.
fn merge(axes: &mut SmallVec<[Axis; 8]>) {
    let mut kept = 0;
    for at in 1..axes.len() {
        let (outer, inner) = (axes[kept], axes[at]);
        let continues =
            |outer: isize, inner_stride: isize| Some(outer) == inner_stride.checked_mul(inner.len as isize);
        if continues(outer.dst, inner.dst) && continues(outer.src, inner.src) {
            axes[kept] = Axis { len: outer.len * inner.len, ..inner };
        } else {
            kept += 1;
            axes[kept] = inner;
        }
    }
    axes.truncate(if axes.is_empty() { 0 } else { kept + 1 });
}

/// Calls `row` for each combination of indices of `axes`, with both pointers moved there.
///
/// Pointers move with `wrapping_offset`: after the last step of an axis, a pointer may be outside
/// the memory, but is not used there.
pub(crate) fn for_each(
    axes: &[Axis],
    dst: *mut u8,
    src: *const u8,
    row: &mut impl FnMut(*mut u8, *const u8),
) {
    match axes {
        [] => row(dst, src),
        [axis] => {
            let (mut dst, mut src) = (dst, src);
            for _ in 0..axis.len {
                row(dst, src);
                dst = dst.wrapping_offset(axis.dst);
                src = src.wrapping_offset(axis.src);
            }
        }
        [axis, inner @ ..] => {
            let (mut dst, mut src) = (dst, src);
            for _ in 0..axis.len {
                for_each(inner, dst, src, row);
                dst = dst.wrapping_offset(axis.dst);
                src = src.wrapping_offset(axis.src);
            }
        }
    }
}

fn for_each_offset(axes: &[Axis], dst: isize, src: isize, row: &mut impl FnMut(isize, isize)) {
    match axes {
        [] => row(dst, src),
        [axis, inner @ ..] => {
            for i in 0..axis.len as isize {
                for_each_offset(inner, dst + i * axis.dst, src + i * axis.src, row);
            }
        }
    }
}

/// Copies `region`.
///
/// # Safety
/// For every index of the region, `dst + Σ index · dst stride` must be valid for writes of one unit
/// and `src + …` for reads; the two sides must not overlap.
pub(crate) unsafe fn copy(region: &Region, dst: *mut u8, src: *const u8) {
    if region.empty {
        return;
    }
    // SAFETY: as promised by the caller; the unit size picks the type of that size.
    unsafe {
        if region.swap {
            by_unit!(region.unit, copy_units::<_, true>(&region.axes, dst, src));
        } else {
            by_unit!(region.unit, copy_units::<_, false>(&region.axes, dst, src));
        }
    }
}

/// # Safety
/// As [`copy`], with `T` of the region's unit size.
unsafe fn copy_units<T: Unit, const SWAP: bool>(axes: &[Axis], dst: *mut u8, src: *const u8) {
    let size = size_of::<T>();
    let contiguous = |axis: &Axis| axis.dst == size as isize && axis.src == size as isize;
    match axes {
        [outer @ .., row] if !SWAP && contiguous(row) => {
            let bytes = row.len * size;
            if !outer.is_empty() && bytes > size && matches!(bytes, 2 | 4 | 8 | 16) {
                // A field of a structure moves in one piece, without a call for each.
                // SAFETY: a row of units is one unit of as many bytes.
                return unsafe { by_unit!(bytes, copy_units::<_, false>(outer, dst, src)) };
            }
            for_each(outer, dst, src, &mut |dst, src| {
                // SAFETY: the row is contiguous on both sides; the caller vouches for its elements.
                unsafe { std::ptr::copy_nonoverlapping(src, dst, bytes) }
            });
        }
        [outer @ .., last] => {
            let fastest = (0..outer.len()).min_by_key(|k| outer[*k].src.unsigned_abs());
            match fastest {
                Some(k) if outer[k].src.unsigned_abs() < last.src.unsigned_abs() && last.len > 1 => {
                    let mut others: SmallVec<[Axis; 8]> = outer.into();
                    let across = others.remove(k);
                    let reach: usize = axes.iter().map(|axis| (axis.len - 1) * axis.dst.unsigned_abs()).sum();
                    let large = reach >= costs::LARGE_COPY;
                    for_each(&others, dst, src, &mut |dst, src| {
                        // SAFETY: `across` and `last` are the two axes taken out of the region.
                        unsafe { transpose::copy::<T, SWAP>(across, *last, large, dst, src) }
                    });
                }
                _ => for_each(outer, dst, src, &mut |dst, src| {
                    // SAFETY: one row of the region.
                    unsafe { copy_row::<T, SWAP>(*last, dst, src) }
                }),
            }
        }
        [] => {
            let one = Axis { len: 1, dst: 0, src: 0 };
            // SAFETY: one element.
            unsafe { copy_row::<T, SWAP>(one, dst, src) }
        }
    }
}

/// Writes `value` to all elements of a strided array.
///
/// # Safety
/// For every index within `counts`, `dst + Σ index · stride` must be valid for writes of
/// `value.len()` bytes.
pub(crate) unsafe fn fill(counts: &[u64], strides: &[isize], value: &[u8], dst: *mut u8) {
    let uniform = value.first().is_some_and(|first| value.iter().all(|b| b == first));
    let still = SmallVec::<[isize; 8]>::from_elem(0, strides.len());
    let region = Region::new(counts, strides, &still, value.len(), 1);
    if region.empty {
        return;
    }
    if uniform {
        // All bytes are equal, so runs of elements are runs of this byte. (With a source that does
        // not move, axes of an element's own bytes would not merge. Here only the destination
        // matters.)
        let bytes = SmallVec::<[isize; 8]>::from_slice(strides);
        let region = Region::new(counts, &bytes, &bytes, value.len(), 1);
        let (byte, unit) = (value[0], region.unit);
        let (outer, run) = match region.axes.as_slice() {
            [outer @ .., row] if row.dst == unit as isize => (outer, row.len * unit),
            all => (all, unit),
        };
        for_each(outer, dst, dst, &mut |dst, _| {
            // SAFETY: a contiguous run of elements of the destination.
            unsafe { std::ptr::write_bytes(dst, byte, run) }
        });
        return;
    }
    // SAFETY: the source is one element, which no axis of the array moves.
    unsafe { copy(&region, dst, value.as_ptr()) }
}

/// Returns `true` if all elements of a strided array are `value`, bit for bit.
///
/// Stops at the first different element.
///
/// # Safety
/// For every index within `counts`, `src + Σ index · stride` must be valid for reads of
/// `value.len()` bytes.
pub(crate) unsafe fn all_equal(counts: &[u64], strides: &[isize], value: &[u8], src: *const u8) -> bool {
    let region = Region::new(counts, strides, strides, value.len(), 1);
    if region.empty {
        return true;
    }
    let element = value.len();
    // An element that was split into bytes has an axis of its own, which must not be walked:
    // compare whole elements.
    let walk = if region.unit == element { region } else { whole_elements(counts, strides) };
    if walk.unit == element {
        // SAFETY: as promised by the caller; the element's size picks the type of that size.
        unsafe { by_unit!(element, equal_units::<_>(&walk.axes, src, value)) }
    } else {
        for_each_while(&walk.axes, src, &mut |at| {
            // SAFETY: one element of the array.
            unsafe { std::slice::from_raw_parts(at, element) == value }
        })
    }
}

/// The axes of an array without its elements. The unit is 0, which is never an element's size.
fn whole_elements(counts: &[u64], strides: &[isize]) -> Region {
    let mut region = Region::new(counts, strides, strides, 1, 1);
    region.unit = 0;
    region
}

/// Walks an array's elements until `element` returns `false`.
fn for_each_while(axes: &[Axis], src: *const u8, element: &mut impl FnMut(*const u8) -> bool) -> bool {
    match axes {
        [] => element(src),
        [axis, inner @ ..] => {
            let mut src = src;
            for _ in 0..axis.len {
                if !for_each_while(inner, src, element) {
                    return false;
                }
                src = src.wrapping_offset(axis.src);
            }
            true
        }
    }
}

/// # Safety
/// As [`all_equal`], with `T` of the element's size.
unsafe fn equal_units<T: Unit>(axes: &[Axis], src: *const u8, value: &[u8]) -> bool {
    let size = size_of::<T>();
    // SAFETY: the value is one element, of T's size.
    let wanted = unsafe { value.as_ptr().cast::<T>().read_unaligned() };
    let (outer, last) = match axes {
        [outer @ .., last] => (outer, *last),
        [] => (axes, Axis { len: 1, dst: 0, src: 0 }),
    };
    // Rows are compared in blocks without branches, which vectorises. The result is checked after
    // each block.
    const BLOCK: usize = 64;
    for_each_while(outer, src, &mut |row| {
        let block = |from: usize, len: usize, step: isize| {
            let mut equal = true;
            for i in from..from + len {
                // SAFETY: element i of the row.
                equal &= unsafe { row.offset(i as isize * step).cast::<T>().read_unaligned() } == wanted;
            }
            equal
        };
        let step = if last.src == size as isize { size as isize } else { last.src };
        let mut at = 0;
        while at + BLOCK <= last.len {
            let equal =
                if step == size as isize { block(at, BLOCK, size as isize) } else { block(at, BLOCK, step) };
            if !equal {
                return false;
            }
            at += BLOCK;
        }
        block(at, last.len - at, step)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dims::c_strides;
    use proptest::prelude::*;

    /// A random layout of an array in memory: a permutation of its axes, gaps between elements,
    /// mirrored axes.
    #[derive(Clone, Debug)]
    struct Placed {
        strides: Vec<isize>,
        base: usize,
        size: usize,
    }

    fn place(counts: &[u64], element: usize, order: &[usize], gap: usize, mirror: u8) -> Placed {
        let shape: Vec<u64> = order.iter().map(|k| counts[*k] + gap as u64).collect();
        let dense = c_strides(&shape, element);
        let mut strides = vec![0; counts.len()];
        for (k, stride) in order.iter().zip(dense) {
            strides[*k] = stride;
        }
        let mut base = 0;
        for (k, stride) in strides.iter_mut().enumerate() {
            if mirror >> k & 1 == 1 {
                base += *stride as usize * counts[k].saturating_sub(1) as usize;
                *stride = -*stride;
            }
        }
        Placed { strides, base, size: shape.iter().product::<u64>() as usize * element }
    }

    fn indices(counts: &[u64]) -> Vec<Vec<u64>> {
        let mut all = vec![vec![]];
        for n in counts {
            all = all
                .into_iter()
                .flat_map(|head| (0..*n).map(move |i| [head.clone(), vec![i]].concat()))
                .collect();
        }
        all
    }

    fn offset(placed: &Placed, index: &[u64]) -> usize {
        let moved: isize = placed.strides.iter().zip(index).map(|(s, i)| s * *i as isize).sum();
        (placed.base as isize + moved) as usize
    }

    fn permutation(rank: usize) -> impl Strategy<Value = Vec<usize>> {
        Just((0..rank).collect::<Vec<_>>()).prop_shuffle()
    }

    prop_compose! {
        fn case()(rank in 0usize..5)(
            counts in prop::collection::vec(prop_oneof![4 => 0u64..6, 1 => 0u64..40], rank),
            dst in permutation(rank),
            src in permutation(rank),
            gaps in (0usize..2, 0usize..3),
            mirror in any::<(u8, u8)>(),
            (element, swap) in prop_oneof![
                Just((1, 1)), Just((2, 1)), Just((2, 2)), Just((4, 4)), Just((4, 1)), Just((8, 1)), Just((8, 4)), Just((8, 8)),
                Just((16, 1)), Just((16, 8)), Just((3, 1)), Just((12, 4)), Just((32, 1)), Just((0, 1)),
            ],
        ) -> (Vec<u64>, Placed, Placed, usize, usize) {
            let to = place(&counts, element, &dst, gaps.0, mirror.0);
            let from = place(&counts, element, &src, gaps.1, mirror.1);
            (counts, to, from, element, swap)
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1500))]

        #[test]
        fn copy_moves_every_element_and_nothing_else((counts, to, from, element, swap) in case()) {
            let source: Vec<u8> = (0..from.size).map(|i| (i * 7 + i / 251) as u8).collect();
            let mut found = vec![0xEEu8; to.size];
            let mut wanted = found.clone();
            for index in indices(&counts) {
                let (d, s) = (offset(&to, &index), offset(&from, &index));
                let mut value = source[s..s + element].to_vec();
                if swap > 1 { value.chunks_mut(swap).for_each(<[u8]>::reverse); }
                wanted[d..d + element].copy_from_slice(&value);
            }
            let region = Region::new(&counts, &to.strides, &from.strides, element, swap);
            // SAFETY: both buffers hold the whole of their layouts.
            unsafe { copy(&region, found.as_mut_ptr().wrapping_add(to.base), source.as_ptr().wrapping_add(from.base)) };
            prop_assert_eq!(found, wanted);
        }

        #[test]
        fn fill_and_all_equal_agree((counts, to, _from, element, _swap) in case(), uniform in any::<bool>(), spoil in any::<prop::sample::Index>()) {
            let value: Vec<u8> = (0..element).map(|i| if uniform { 9 } else { i as u8 + 1 }).collect();
            let mut found = vec![0u8; to.size];
            let mut wanted = found.clone();
            let all = indices(&counts);
            for index in &all {
                let d = offset(&to, index);
                wanted[d..d + element].copy_from_slice(&value);
            }
            let base = to.base;
            // SAFETY: the buffer holds the whole of its layout.
            unsafe { fill(&counts, &to.strides, &value, found.as_mut_ptr().wrapping_add(base)) };
            prop_assert_eq!(&found, &wanted);
            // SAFETY: as above.
            let equal = unsafe { all_equal(&counts, &to.strides, &value, found.as_ptr().wrapping_add(base)) };
            prop_assert!(equal);
            if !all.is_empty() && element > 0 {
                let d = offset(&to, &all[spoil.index(all.len())]) + spoil.index(element);
                found[d] ^= 0x80;
                // SAFETY: as above.
                let equal = unsafe { all_equal(&counts, &to.strides, &value, found.as_ptr().wrapping_add(base)) };
                prop_assert!(!equal);
            }
        }
    }

    #[test]
    fn contiguous_regions_become_one_run() {
        let strides = c_strides(&[4, 5, 6], 4);
        let region = Region::new(&[4, 5, 6], &strides, &strides, 4, 1);
        assert_eq!(region.contiguous_len(), Some(480));
        let region = Region::new(&[4, 5, 3], &strides, &strides, 4, 1);
        assert_eq!((region.contiguous_len(), region.row(), region.axes.len()), (None, Some(12), 2));
        let region = Region::new(&[1, 1, 1], &strides, &strides, 4, 1);
        assert_eq!(region.contiguous_len(), Some(4));
        let region = Region::new(&[2], &[12], &[12], 12, 1);
        assert_eq!(region.contiguous_len(), Some(24));
    }
}
