//! Reads a mosaic.
//!
//! 1. Find the pieces that the selection touches, and the elements that it touches (`part.rs`). No
//!    source is opened for this.
//! 2. If the pieces do not cover the selection, or may overlap, fill the output with fill value
//!    first.
//! 3. Read part by part. If there are many, and they are known not to overlap, several threads read
//!    them, one part each. Otherwise they are read one after the other, each by all threads.
//! 4. Elements beyond a source that became smaller are the source's fill value. The HDF5 library
//!    reads the same, where it reads them at all.
//! 5. If both patterns of a part have the same form (except for axes of one element),
//!    sub-selections of the source are read straight to the output. Otherwise the needed elements
//!    are gathered in memory, in the order of the pattern, and scattered from there. Elements of
//!    another type are gathered, too, and converted in between.

#![expect(clippy::indexing_slicing, reason = "memory was made for all elements that the pieces have")]
#![expect(clippy::cast_possible_truncation, reason = "sizes in memory: 64 bits, checked as they came in")]

use super::convert;
use super::nesting::Nesting;
use super::nesting::ReadSource;
use super::part::{How, Overlap, SubRead, touched_overlaps};
use crate::copy::strided;
use crate::copy::strided::Region;
use crate::costs;
use crate::dims::{Dims, Strides, element_count};
use crate::error::ArrayError;
use crate::execute::tasks;
use crate::execute::tasks::{Interrupt, memory_error};
use crate::layout::ArrayLayout;
use crate::layout::mosaic::{Mosaic, SourceArray};
use crate::layout::pattern::{IndexRow, IndexRows, Kind, Pattern};
use crate::plan::axis_memory::AxisMemory;
use crate::read::cache::ChunkCache;
use crate::read::options::ReadOptions;
use crate::runtime::memory::Memory;
use crate::runtime::pool::POOL;
use crate::select::Selection;
use crate::select::axis::AxisSelection;
use crate::select::view::Target;
use std::borrow::Cow;
use std::ops::Range;

/// A request to read a selection of a mosaic.
pub(crate) struct MosaicRequest<'a> {
    pub(crate) layout: &'a ArrayLayout,
    pub(crate) mosaic: &'a Mosaic,
    pub(crate) selection: &'a Selection,
    pub(crate) target: &'a AxisMemory<*mut u8>,
    /// The target already holds fill value.
    pub(crate) filled: bool,
    pub(crate) verify: Option<bool>,
    pub(crate) cache: Option<&'a ChunkCache>,
    /// Reads a source.
    pub(crate) read: ReadSource,
    /// The mosaics that this one is a part of, if any.
    pub(crate) nesting: Option<&'a Nesting<'a>>,
}

/// Returns `true` if the pieces contain all of a selection, each element once.
pub(crate) fn covers(layout: &ArrayLayout, mosaic: &Mosaic, selection: &Selection) -> bool {
    is_covered(mosaic, selection, &touched_overlaps(layout, mosaic, selection))
}

/// Number of selected elements along each axis of the mosaic.
fn counts(selection: &Selection) -> Dims {
    selection.axes().iter().map(|axis| axis.len).collect()
}

fn is_covered(mosaic: &Mosaic, selection: &Selection, parts: &[Overlap<'_>]) -> bool {
    mosaic.disjoint && element_count(&counts(selection)) == Some(parts.iter().map(Overlap::count).sum())
}

/// The number of parts that are read at once, each by one thread. 1: one after the other, each by all
/// threads.
fn parts_at_once(mosaic: &Mosaic, parts: usize, bytes: u64, threads: Option<usize>) -> usize {
    let limit = tasks::limit(threads);
    let work = bytes.saturating_add(costs::PIECE_WORK.saturating_mul(parts as u64));
    match mosaic.disjoint && parts >= limit {
        true => tasks::worthwhile_threads(work, costs::INLINE_WORK, parts, limit),
        false => 1,
    }
}

impl MosaicRequest<'_> {
    /// Reads everything, `bytes` in all, on up to `threads` threads.
    pub(crate) fn read(
        &self,
        bytes: u64,
        threads: Option<usize>,
        interrupt: Option<Interrupt<'_>>,
    ) -> Result<(), ArrayError> {
        if self.selection.is_empty() {
            return Ok(());
        }
        let parts = touched_overlaps(self.layout, self.mosaic, self.selection);
        let left = Nesting::parts_budget();
        let nesting = match self.nesting {
            Some(nesting) => nesting.descend(self.layout, self.mosaic.pieces.len(), parts.len())?,
            None => Nesting::new(&left),
        };
        let covered = is_covered(self.mosaic, self.selection, &parts);
        if !covered && !self.filled {
            let counts = counts(self.selection);
            // SAFETY: the target covers the selection.
            unsafe { strided::fill(&counts, self.target.strides(), self.layout.fill().bytes(), self.base()) };
        }
        let several = parts_at_once(self.mosaic, parts.len(), bytes, threads);
        let interrupted =
            || interrupt.is_some_and(|ask| ask()).then(|| tasks::interrupted_error(self.layout));
        if several > 1 {
            let read = |number: usize, ask: Interrupt<'_>| {
                self.read_part(&parts[number], covered, &nesting, Some(1), Some(ask))
            };
            return POOL.get().run(parts.len(), several, &|| 0, &read, &interrupted);
        }
        parts.iter().try_for_each(|part| {
            self.read_part(part, covered, &nesting, threads, interrupt)?;
            interrupted().map_or(Ok(()), Err)
        })
    }

    fn base(&self) -> *mut u8 {
        let first: Dims = self.selection.axes().iter().map(|_| 0).collect();
        self.target.at(&first)
    }

    fn read_part(
        &self,
        part: &Overlap<'_>,
        covered: bool,
        nesting: &Nesting<'_>,
        threads: Option<usize>,
        interrupt: Option<Interrupt<'_>>,
    ) -> Result<(), ArrayError> {
        let (layout, strides, base) = (self.layout, self.target.strides(), self.base());
        let element = layout.dtype().size();
        let Some(opened) = open(layout, part)? else {
            if covered {
                part.for_each_hit(strides, &mut |hit| {
                    let dst = base.wrapping_offset(hit.offset);
                    // SAFETY: the target covers the selection, and these elements belong to it.
                    unsafe { strided::fill(&hit.counts, &hit.strides, layout.fill().bytes(), dst) };
                    Ok(())
                })?;
            }
            return Ok(());
        };
        let source = &opened.layout;
        let pattern = pattern_of(layout, part, source)?;
        let how = part.how(&pattern, is_same(&opened, layout));
        let (verify, cache) = (self.verify, self.cache);
        let options = ReadOptions { threads, verify, interrupt, cache, ..ReadOptions::default() };
        let read = |sub: SubRead, base: *mut u8| {
            let base = base.wrapping_offset(sub.offset);
            let inside = sub.clip_to_shape(source.shape());
            if inside.as_ref().is_none_or(|inside| inside.count() < sub.count()) {
                // SAFETY: the caller's memory has room for all sub-reads. It is the output, which
                // they cover in part, or a buffer made for them.
                unsafe { strided::fill(&sub.shape, &sub.strides, source.fill().bytes(), base) };
            }
            let Some(sub) = inside else { return Ok(()) };
            // SAFETY: as above.
            let mut target = unsafe { Target::from_raw(base, &sub.shape, &sub.strides) };
            (self.read)(source, &sub.selection, &mut target, options, Some(nesting))
        };
        if let How::Direct = how {
            return part.for_each_read(&how, &pattern, (strides, element), &mut |sub| read(sub, base));
        }
        let size = source.dtype().size();
        let room = |count: u64| {
            let none = || memory_error(layout, "the elements of a part", count.saturating_mul(size as u64));
            let len =
                usize::try_from(count).ok().and_then(|count| count.checked_mul(size)).ok_or_else(none)?;
            Memory::dirty(len).ok_or_else(none)
        };
        let (mut gathered, range) = match (&how, &pattern.0) {
            (How::Gather(range), _) => (room(range.end - range.start)?, range.clone()),
            (How::IndexRows(rows) | How::Box(rows, _), Kind::IndexRows(all)) => {
                let range = elements_of(all, rows.clone());
                (room(range.end - range.start)?, range)
            }
            _ => return Ok(()),
        };
        match (&how, &pattern.0) {
            (How::Box(rows, bounds), Kind::IndexRows(all)) => {
                let lens: Dims = bounds.iter().map(|(start, end)| end - start).collect();
                let mut whole = room(element_count(&lens).unwrap_or(u64::MAX))?;
                let at = whole.as_mut_slice().as_mut_ptr();
                part.for_each_read(&how, &pattern, (strides, size), &mut |sub| read(sub, at))?;
                take_rows(all.iter(rows.clone()), bounds, whole.as_slice(), gathered.as_mut_slice(), size);
            }
            _ => {
                let at = gathered.as_mut_slice().as_mut_ptr();
                part.for_each_read(&how, &pattern, (strides, size), &mut |sub| read(sub, at))?;
            }
        }
        if !is_same(&opened, layout) {
            gathered = read_converted(layout, &opened, gathered.as_slice(), interrupt)?;
        }
        part.for_each_hit(strides, &mut |hit| {
            let steps: Strides =
                hit.steps.iter().map(|step| (*step as isize).wrapping_mul(element as isize)).collect();
            let region = Region::new(&hit.counts, &hit.strides, &steps, element, 1);
            let src = gathered.as_slice()[(hit.first - range.start) as usize * element..].as_ptr();
            // SAFETY: the target covers the selection; all elements of the part are in the buffer,
            // in the order of their numbers.
            unsafe { strided::copy(&region, base.wrapping_offset(hit.offset), src) };
            Ok(())
        })
    }
}

/// The numbers of the elements in some rows.
fn elements_of(rows: &IndexRows, range: Range<usize>) -> Range<u64> {
    let first = rows.iter(range.clone()).next().map_or(0, |row| row.before);
    first..rows.iter(range).last().map_or(first, |row| row.before + row.len)
}

/// Copies rows out of the box around them, one after the other.
fn take_rows<'r>(
    rows: impl Iterator<Item = IndexRow<'r>>,
    bounds: &[(u64, u64)],
    whole: &[u8],
    gathered: &mut [u8],
    size: usize,
) {
    let mut rest = gathered;
    for row in rows {
        let at = row
            .start
            .iter()
            .zip(bounds)
            .fold(0, |at, (index, (start, end))| at * (end - start) + index - start);
        let len = row.len as usize * size;
        let (dst, behind) = std::mem::take(&mut rest).split_at_mut(len);
        dst.copy_from_slice(&whole[at as usize * size..][..len]);
        rest = behind;
    }
}

fn fail(layout: &ArrayLayout, part: &Overlap<'_>, source: crate::error::LocateError) -> ArrayError {
    ArrayError::Part { array: layout.name().into(), part: part.number, source }
}

/// Returns `true` if the source's elements are the mosaic's elements, byte by byte.
fn is_same(source: &SourceArray, layout: &ArrayLayout) -> bool {
    source.convert.is_none() && source.layout.dtype() == layout.dtype()
}

/// Converts elements of a source to elements of the mosaic.
fn read_converted(
    layout: &ArrayLayout,
    source: &SourceArray,
    elements: &[u8],
    interrupt: Option<Interrupt<'_>>,
) -> Result<Memory, ArrayError> {
    /// Bytes to convert before asking again whether to stop: some 10 ms.
    const BLOCK: usize = 4 << 20;
    let (from, to) = (source.layout.dtype(), layout.dtype());
    let (size, element) = (from.size().max(1), to.size().max(1));
    let len = elements.len() / size * element;
    let none = || memory_error(layout, "the elements of a part", len as u64);
    let mut converted = Memory::dirty(len).ok_or_else(none)?;
    let block = (BLOCK / size.max(element)).max(1);
    let blocks = elements.chunks(block * size).zip(converted.as_mut_slice().chunks_mut(block * element));
    for (src, dst) in blocks {
        match &source.convert {
            Some(conversion) => conversion.convert(src, dst),
            None => convert::elements(from, src, to, dst),
        }
        if interrupt.is_some_and(|ask| ask()) {
            return Err(tasks::interrupted_error(layout));
        }
    }
    Ok(converted)
}

/// Opens the source of a part. `None`: there is none. Fails if its elements cannot be converted.
fn open(layout: &ArrayLayout, part: &Overlap<'_>) -> Result<Option<SourceArray>, ArrayError> {
    let opened = part.piece.array.open().map_err(|source| fail(layout, part, source))?;
    if let Some(SourceArray { layout: source, convert: None }) = &opened
        && !convert::can_convert(source.dtype(), layout.dtype())
    {
        let (name, from, to) = (source.name(), source.dtype(), layout.dtype());
        let why = format!("the elements of '{name}' ({from}) cannot be converted to {to}");
        return Err(fail(layout, part, why.into()));
    }
    Ok(opened)
}

/// The source's pattern, with as many elements as the part.
///
/// If the source became smaller, some elements lie beyond it.
fn pattern_of<'p>(
    layout: &ArrayLayout,
    part: &Overlap<'p>,
    source: &ArrayLayout,
) -> Result<Cow<'p, Pattern>, ArrayError> {
    let refuse = |why: String| fail(layout, part, format!("'{}': {why}", source.name()).into());
    let pattern = part.piece.source.in_rank(source.shape()).map_err(refuse)?;
    let wanted = wanted_count(layout, part);
    if pattern.count() == Some(wanted) {
        return Ok(pattern);
    }
    let all = matches!(part.piece.source.0, Kind::All);
    if let Some(longer) = part.piece.target.longer(layout.shape(), source.shape()).filter(|_| all) {
        return Ok(Cow::Owned(longer));
    }
    let found = pattern.count().map_or("too many".to_owned(), |found| found.to_string());
    Err(refuse(format!("{wanted} elements are wanted, {found} are selected of shape {:?}", source.shape())))
}

/// Number of all elements of a part.
fn wanted_count(layout: &ArrayLayout, part: &Overlap<'_>) -> u64 {
    part.piece.target.count().or_else(|| element_count(layout.shape())).unwrap_or(u64::MAX)
}

/// A step that [`explain`] reports.
pub(crate) enum SourceStep<'a> {
    /// A read of another array's selection. The strides of its memory are per axis of that array. Last
    /// the number of threads that it is limited to.
    Read(&'a ArrayLayout, &'a Selection, &'a [isize], Option<usize>),
    /// A fill of this many elements.
    Fill(u64),
}

/// Reports the reads of a selection. `strides` are the output's, per axis of the array. `threads`: the
/// number of threads that the read is limited to.
pub(crate) fn explain(
    layout: &ArrayLayout,
    mosaic: &Mosaic,
    selection: &Selection,
    strides: &[isize],
    threads: Option<usize>,
    tell: &mut dyn FnMut(SourceStep<'_>) -> Result<(), ArrayError>,
) -> Result<(), ArrayError> {
    if selection.is_empty() {
        return Ok(());
    }
    let parts = touched_overlaps(layout, mosaic, selection);
    let all = element_count(&counts(selection)).unwrap_or(u64::MAX);
    let bytes = all.saturating_mul(layout.dtype().size() as u64);
    // How a part is cut into requests depends on the number of its threads.
    let threads = if parts_at_once(mosaic, parts.len(), bytes, threads) > 1 { Some(1) } else { threads };
    let mut filled = all.saturating_sub(parts.iter().map(Overlap::count).fold(0, u64::saturating_add));
    for part in &parts {
        let Some(opened) = open(layout, part)? else {
            filled = filled.saturating_add(part.count());
            continue;
        };
        let source = &opened.layout;
        let pattern = pattern_of(layout, part, source)?;
        let how = part.how(&pattern, is_same(&opened, layout));
        let element = if let How::Direct = how { layout.dtype().size() } else { source.dtype().size() };
        part.for_each_read(&how, &pattern, (strides, element), &mut |sub| {
            let inside = sub.clip_to_shape(source.shape());
            filled = filled.saturating_add(sub.count() - inside.as_ref().map_or(0, SubRead::count));
            let Some(sub) = inside else { return Ok(()) };
            let mut given = sub.strides.iter();
            let stride =
                |axis: &AxisSelection| if axis.dropped { 0 } else { given.next().copied().unwrap_or(0) };
            let along: Strides = sub.selection.axes().iter().map(stride).collect();
            tell(SourceStep::Read(source, &sub.selection, &along, threads))
        })?;
    }
    if filled > 0 { tell(SourceStep::Fill(filled)) } else { Ok(()) }
}
