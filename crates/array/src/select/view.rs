//! The caller's memory, seen as a strided array of the selection's shape.

use crate::copy::strided;
use crate::copy::strided::Region;
use crate::error::ArrayError;
use crate::layout::ArrayLayout;
use crate::layout::dims::{Dims, Strides, c_strides, element_count};
use crate::runtime::memory::Memory;
use crate::select::Part;
use crate::select::Selection;
use std::marker::PhantomData;

/// Memory that a read fills.
#[derive(Debug)]
pub struct Target<'a> {
    base: *mut u8,
    shape: Dims,
    strides: Strides,
    /// Bytes of one element; `None` where the maker of the view vouches for them.
    element: Option<usize>,
    memory: PhantomData<&'a mut [u8]>,
}

/// Memory that a write takes elements from. Strides of 0 repeat an element (broadcasting).
#[derive(Debug)]
pub struct Source<'a> {
    base: *const u8,
    shape: Dims,
    strides: Strides,
    /// As in [`Target`].
    element: Option<usize>,
    memory: PhantomData<&'a [u8]>,
}

// SAFETY: a Target stands for an exclusive borrow of bytes, which may be sent to other threads; the
// plan gives each of them other elements.
unsafe impl Send for Target<'_> {}
// SAFETY: as above; the pointer is only written through by tasks over disjoint elements.
unsafe impl Sync for Target<'_> {}
// SAFETY: a Source stands for a shared borrow of bytes.
unsafe impl Send for Source<'_> {}
// SAFETY: as above.
unsafe impl Sync for Source<'_> {}

fn dense(len: usize, shape: &[u64], element: usize) -> Option<Strides> {
    let bytes = element_count(shape)?.checked_mul(element as u64)?;
    (bytes == len as u64 && isize::try_from(bytes).is_ok()).then(|| c_strides(shape, element))
}

impl<'a> Target<'a> {
    /// Dense memory in C order. `None` where `memory` is not exactly as long as `shape` elements of
    /// `element` bytes.
    pub fn dense(memory: &'a mut [u8], shape: &[u64], element: usize) -> Option<Self> {
        let strides = dense(memory.len(), shape, element)?;
        let element = Some(element);
        Some(Target { base: memory.as_mut_ptr(), shape: shape.into(), strides, element, memory: PhantomData })
    }

    /// Makes dense memory in C order dense memory in Fortran's order, of the same shape.
    pub(crate) fn reverse_axes(&mut self) {
        let Some(element) = self.element else { return };
        let reversed: Dims = self.shape.iter().rev().copied().collect();
        self.strides = c_strides(&reversed, element).into_iter().rev().collect();
    }

    /// Copies all elements from dense memory in C order. The view was checked, and `memory` has as
    /// many elements.
    pub(crate) fn copy_dense(&mut self, memory: &[u8], element: usize) {
        let region = Region::new(&self.shape, &self.strides, &c_strides(&self.shape, element), element, 1);
        // SAFETY: the view covers its shape; `memory` holds as many elements.
        unsafe { strided::copy(&region, self.base, memory.as_ptr()) };
    }

    /// Any strided memory.
    ///
    /// # Safety
    /// For all indices within `shape`, `base + Σ index · stride` must be valid for writes of one
    /// element of the array that is read, for `'a`; no two indices may share bytes; nobody else may
    /// read or write these bytes during `'a`. Where that cannot be known (memory of NumPy's), a
    /// change has one consequence: the elements read are unspecified, or the read fails where a
    /// compressor sums what it decoded. Decoders copy from what they decoded before, to places that
    /// the stored bytes name, and look at no value of it.
    pub unsafe fn from_raw(base: *mut u8, shape: &[u64], strides: &[isize]) -> Self {
        Target { base, shape: shape.into(), strides: strides.into(), element: None, memory: PhantomData }
    }
}

impl<'a> Source<'a> {
    /// Dense memory in C order. `None` where `memory` is not exactly as long as `shape` elements of
    /// `element` bytes.
    pub fn dense(memory: &'a [u8], shape: &[u64], element: usize) -> Option<Self> {
        let strides = dense(memory.len(), shape, element)?;
        let element = Some(element);
        Some(Source { base: memory.as_ptr(), shape: shape.into(), strides, element, memory: PhantomData })
    }

    /// Any strided memory.
    ///
    /// # Safety
    /// For all indices within `shape`, `base + Σ index · stride` must be valid for reads of one
    /// element of the array that is written, for `'a`, and not change during it. Where that cannot
    /// be known (memory of NumPy's), a change has one consequence: the chunks that are written then
    /// hold unspecified values. They are lent to encoders as memory that changes
    /// ([`hyperslab_codec::Racing`]), and nothing else here relies on reading a byte twice.
    pub unsafe fn from_raw(base: *const u8, shape: &[u64], strides: &[isize]) -> Self {
        Source { base, shape: shape.into(), strides: strides.into(), element: None, memory: PhantomData }
    }

    /// All elements, dense in C order. `None` where memory cannot hold them. The view was checked.
    pub(crate) fn dense_copy(&self, element: usize) -> Option<Memory> {
        let bytes = element_count(&self.shape)?.checked_mul(element as u64)?;
        let mut memory = Memory::dirty(usize::try_from(bytes).ok()?)?;
        let region = Region::new(&self.shape, &c_strides(&self.shape, element), &self.strides, element, 1);
        // SAFETY: the view covers its shape; `memory` has room for as many elements.
        unsafe { strided::copy(&region, memory.as_mut_slice().as_mut_ptr(), self.base) };
        Some(memory)
    }

    /// One element for all of `shape`.
    pub fn repeat(element: &'a [u8], shape: &[u64]) -> Self {
        Source {
            base: element.as_ptr(),
            shape: shape.into(),
            strides: Strides::from_elem(0, shape.len()),
            element: Some(element.len()),
            memory: PhantomData,
        }
    }
}

/// A view bound to a selection: base and strides per axis of the array, walked upwards. Where it is
/// [uneven](Bound::is_uneven), elements go by way of dense memory.
pub(crate) struct Bound<P> {
    base: P,
    strides: Strides,
    uneven: bool,
}

/// Refuses a selection that was made for another shape (it would name chunks outside the array),
/// memory of another shape, and memory of smaller or larger elements (the copy would leave it).
fn bind(
    layout: &ArrayLayout,
    shape: &[u64],
    strides: &[isize],
    element: Option<usize>,
    selection: &Selection,
) -> Result<Along, ArrayError> {
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
    Ok(along(selection, shape, strides))
}

/// The bytes from each element of a part of the result to the next in C order, where they are
/// always the same.
fn even(shape: &[u64], strides: &[isize]) -> Option<isize> {
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

/// Per axis of the array: the stride along the ascending selection, and the bytes from the given
/// base to its first element. Axes that points are on all have the stride from one point to the
/// next.
#[derive(Default)]
pub(crate) struct Along {
    pub(crate) strides: Strides,
    offset: isize,
    /// Points have several axes in the result, and there is no such stride: nothing can be bound to
    /// this.
    uneven: bool,
}

/// The memory has the selection's shape.
pub(crate) fn along(selection: &Selection, shape: &[u64], strides: &[isize]) -> Along {
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
    Along { strides: bound, offset, uneven: false }
}

/// [`along`] for a selection with points, whose axes lie between the others.
#[cold]
fn along_points(selection: &Selection, shape: &[u64], strides: &[isize]) -> Along {
    let (mut at, mut offset, mut uneven) = (0, 0isize, false);
    let mut bound = Strides::from_elem(0, selection.axes().len());
    selection.for_each_part(|part| match part {
        Part::Axis(k) => {
            let (axis, stride) = (selection.axes()[k], strides[at]);
            if axis.step < 0 {
                offset = offset.wrapping_add(stride.wrapping_mul(axis.len.saturating_sub(1) as isize));
            }
            bound[k] = if axis.step < 0 { stride.wrapping_neg() } else { stride };
            at += 1;
        }
        Part::Points(n) => {
            let points = &selection.points()[n];
            let end = at + points.shape.len();
            let step = even(&shape[at..end], &strides[at..end]);
            uneven |= step.is_none();
            points.axes.iter().for_each(|axis| bound[*axis] = step.unwrap_or(0));
            at = end;
        }
    });
    Along { strides: bound, offset, uneven }
}

impl Bound<*mut u8> {
    pub(crate) fn target(
        layout: &ArrayLayout,
        view: &Target<'_>,
        selection: &Selection,
    ) -> Result<Self, ArrayError> {
        let Along { strides, offset, uneven } =
            bind(layout, &view.shape, &view.strides, view.element, selection)?;
        Ok(Bound { base: view.base.wrapping_offset(offset), strides, uneven })
    }

    /// Memory of these strides that is never touched.
    pub(crate) fn unread(strides: &[isize]) -> Self {
        Bound { base: std::ptr::null_mut(), strides: strides.into(), uneven: false }
    }

    /// Where the element at `out` (along the ascending selection) lies.
    pub(crate) fn at(&self, out: &[u64]) -> *mut u8 {
        self.base.wrapping_offset(self.offset(out))
    }
}

impl Bound<*const u8> {
    pub(crate) fn source(
        layout: &ArrayLayout,
        view: &Source<'_>,
        selection: &Selection,
    ) -> Result<Self, ArrayError> {
        let Along { strides, offset, uneven } =
            bind(layout, &view.shape, &view.strides, view.element, selection)?;
        Ok(Bound { base: view.base.wrapping_offset(offset), strides, uneven })
    }

    /// Where the element at `out` (along the ascending selection) lies.
    pub(crate) fn at(&self, out: &[u64]) -> *const u8 {
        self.base.wrapping_offset(self.offset(out))
    }
}

impl<P> Bound<P> {
    fn offset(&self, out: &[u64]) -> isize {
        self.strides
            .iter()
            .zip(out)
            .fold(0isize, |sum, (stride, n)| sum.wrapping_add(stride.wrapping_mul(*n as isize)))
    }

    /// Whether points have several axes in the result, and in this memory not always the same
    /// number of bytes from one to the next. It can then not be used as it is.
    pub(crate) fn is_uneven(&self) -> bool {
        self.uneven
    }

    /// Bytes from one selected element to the next, per axis of the array.
    pub(crate) fn strides(&self) -> &[isize] {
        &self.strides
    }
}

// SAFETY: a Bound is used only while the Target or Source that it came from is borrowed; see there.
unsafe impl<P> Send for Bound<P> {}
// SAFETY: as above.
unsafe impl<P> Sync for Bound<P> {}
