//! The caller's memory, seen along the axes of the array.

#![expect(clippy::indexing_slicing, reason = "axes are numbered below the rank, which all vectors have")]
#![expect(clippy::cast_possible_truncation, reason = "sizes in memory: 64 bits, checked as they came in")]

use crate::dims::Strides;
use crate::error::ArrayError;
use crate::layout::ArrayLayout;
use crate::select::view::{Source, Target};
use crate::select::{Factor, Selection};

/// A view bound to a selection: base and strides per axis of the array, walked upwards.
///
/// If it is [uneven](Mapped::is_uneven), elements go through dense memory.
pub(crate) struct AxisMemory<P> {
    base: P,
    strides: Strides,
    uneven: bool,
}

/// Binds memory to a selection.
///
/// Fails if the selection was made for another shape: it would name chunks outside the array. Fails
/// if the memory has another shape or another element size: the copy would leave the memory.
fn bind(
    layout: &ArrayLayout,
    shape: &[u64],
    strides: &[isize],
    element: Option<usize>,
    selection: &Selection,
) -> Result<SelectionStrides, ArrayError> {
    selection.check(layout.name(), layout.shape())?;
    let array = || layout.name().to_owned();
    let wanted = selection.shape();
    if wanted.as_slice() != shape || shape.len() != strides.len() {
        return Err(ArrayError::Shape { array: array(), expected: wanted.to_vec(), found: shape.to_vec() });
    }
    let size = layout.dtype().size();
    if let Some(element) = element.filter(|element| *element != size) {
        let why = format!(
            "its elements ({}) have {size} bytes, those of the memory given {element}",
            layout.dtype()
        );
        return Err(ArrayError::Layout { array: array(), why });
    }
    Ok(follow_selection(selection, shape, strides))
}

/// Bytes from one element of a part of the result to the next in C order; `None` if they vary.
fn uniform_stride(shape: &[u64], strides: &[isize]) -> Option<isize> {
    let mut found: Option<(isize, isize)> = None;
    for (len, stride) in shape.iter().zip(strides).rev().filter(|(len, _)| **len != 1) {
        let (step, next) = found.unwrap_or((*stride, *stride));
        if *stride != next {
            return None;
        }
        found = Some((step, next.wrapping_mul(*len as isize)));
    }
    Some(found.map_or(0, |(step, _)| step))
}

/// How memory is walked along a selection.
///
/// Per axis of the array, the stride along the ascending selection; and the bytes from the given
/// base to the first element. All axes with points have the stride from one point to the next.
#[derive(Default)]
pub(crate) struct SelectionStrides {
    pub(crate) strides: Strides,
    offset: isize,
    /// Points have several axes in the result and no single stride. This cannot be bound.
    uneven: bool,
}

/// Follows memory along a selection. The memory must have the selection's shape.
pub(crate) fn follow_selection(selection: &Selection, shape: &[u64], strides: &[isize]) -> SelectionStrides {
    if !selection.points().is_empty() {
        return along_points(selection, shape, strides);
    }
    let mut given = strides.iter();
    let mut offset = 0isize;
    let mut bound = Strides::with_capacity(selection.axes().len());
    for axis in selection.axes() {
        let stride = if axis.dropped { 0 } else { given.next().copied().unwrap_or(0) };
        if axis.step < 0 {
            offset = offset.wrapping_add(stride.wrapping_mul(axis.len.saturating_sub(1) as isize));
            bound.push(stride.wrapping_neg());
        } else {
            bound.push(stride);
        }
    }
    SelectionStrides { strides: bound, offset, uneven: false }
}

/// [`follow_selection`] for a selection with points, whose axes lie among the others.
#[cold]
fn along_points(selection: &Selection, shape: &[u64], strides: &[isize]) -> SelectionStrides {
    let (mut at, mut offset, mut uneven) = (0, 0isize, false);
    let mut bound = Strides::from_elem(0, selection.axes().len());
    selection.for_each_part(|part| match part {
        Factor::Axis(k) => {
            let (axis, stride) = (selection.axes()[k], strides[at]);
            if axis.step < 0 {
                offset = offset.wrapping_add(stride.wrapping_mul(axis.len.saturating_sub(1) as isize));
            }
            bound[k] = if axis.step < 0 { stride.wrapping_neg() } else { stride };
            at += 1;
        }
        Factor::Points(n) => {
            let points = &selection.points()[n];
            let end = at + points.shape.len();
            let step = uniform_stride(&shape[at..end], &strides[at..end]);
            uneven |= step.is_none();
            points.axes.iter().for_each(|axis| bound[*axis] = step.unwrap_or(0));
            at = end;
        }
    });
    SelectionStrides { strides: bound, offset, uneven }
}

impl AxisMemory<*mut u8> {
    pub(crate) fn target(
        layout: &ArrayLayout,
        view: &Target<'_>,
        selection: &Selection,
    ) -> Result<Self, ArrayError> {
        let SelectionStrides { strides, offset, uneven } =
            bind(layout, &view.shape, &view.strides, view.element, selection)?;
        Ok(AxisMemory { base: view.base.wrapping_offset(offset), strides, uneven })
    }

    /// Memory with these strides that is never touched.
    pub(crate) fn without_memory(strides: &[isize]) -> Self {
        AxisMemory { base: std::ptr::null_mut(), strides: strides.into(), uneven: false }
    }

    /// Address of the element at index `out` of the ascending selection.
    pub(crate) fn at(&self, out: &[u64]) -> *mut u8 {
        self.base.wrapping_offset(self.offset(out))
    }
}

impl AxisMemory<*const u8> {
    pub(crate) fn source(
        layout: &ArrayLayout,
        view: &Source<'_>,
        selection: &Selection,
    ) -> Result<Self, ArrayError> {
        let SelectionStrides { strides, offset, uneven } =
            bind(layout, &view.shape, &view.strides, view.element, selection)?;
        Ok(AxisMemory { base: view.base.wrapping_offset(offset), strides, uneven })
    }

    /// Address of the element at index `out` of the ascending selection.
    pub(crate) fn at(&self, out: &[u64]) -> *const u8 {
        self.base.wrapping_offset(self.offset(out))
    }
}

impl<P> AxisMemory<P> {
    fn offset(&self, out: &[u64]) -> isize {
        self.strides
            .iter()
            .zip(out)
            .fold(0isize, |sum, (stride, n)| sum.wrapping_add(stride.wrapping_mul(*n as isize)))
    }

    /// Returns whether the distance between points varies in this memory.
    ///
    /// If it does, the memory cannot be used directly. This happens only if points have several
    /// axes in the result.
    pub(crate) fn is_uneven(&self) -> bool {
        self.uneven
    }

    /// Bytes from one selected element to the next, per axis of the array.
    pub(crate) fn strides(&self) -> &[isize] {
        &self.strides
    }
}

// SAFETY: a Mapped is used only while the Target or Source that it came from is borrowed; see
// there.
unsafe impl<P> Send for AxisMemory<P> {}
// SAFETY: as above.
unsafe impl<P> Sync for AxisMemory<P> {}
