//! Reading: each task by its strategy.

pub(crate) mod cache;
pub(crate) mod fetch;
pub(crate) mod missing;
pub(crate) mod pieces;
pub(crate) mod runs;
pub(crate) mod small;
pub(crate) mod stream;

use crate::copy::gather::Direction;
use crate::copy::strided;
use crate::copy::strided::Region;
use crate::copy::{gather, swap};
use crate::error::ArrayError;
use crate::layout::dims::Strides;
use crate::layout::dims::element_count;
use crate::layout::origin;
use crate::layout::{ArrayLayout, Location};
use crate::plan::point_plan::Places;
use crate::plan::strategy::Strategy;
use crate::plan::strategy::{Rows, choose_read};
use crate::plan::{Plan, Task};
use crate::read::cache::ChunkCache;
use crate::read::cache::Wanted;
use crate::read::fetch::{Parts, decoded, fetch_stamped, open_parts, ranges_of};
use crate::read::runs::RangeRequest;
use crate::runtime::memory::Memory;
use crate::runtime::scratch::{Scratch, sized, with_ranges};
use crate::runtime::settings;
use crate::runtime::tasks;
use crate::runtime::tasks::{Interrupt, codec_error, memory_error};
use crate::select::Selection;
use crate::select::view::Bound;
use crate::select::view::Target;
use crate::{mosaic, shard};
use hyperslab_store::{Key, RangeRead, Stamp};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

/// Options of one read.
#[derive(Clone, Copy, Default)]
pub struct ReadOptions<'a> {
    /// How many threads may work on it, the caller's included; `None`: [`settings::threads`].
    pub threads: Option<usize>,
    /// Whether checksums are verified; `None`: [`settings::verify_checksums`].
    pub verify: Option<bool>,
    /// Whether [`read()`] makes the first axis of its result the fastest (Fortran's order) instead
    /// of the last.
    pub fortran: bool,
    /// Asked by the calling thread between chunks; `true` stops the read.
    pub interrupt: Option<Interrupt<'a>>,
    /// Where decoded chunks are kept, and looked for first; `None`: nowhere.
    pub cache: Option<&'a ChunkCache>,
}

/// Outputs of this size and more are looked at for absent chunks first, see [`mostly_absent`].
const SPARSE_FROM: u64 = 4 << 20;

/// Reads a selection into new memory: dense, of the selection's shape, in C order unless `options`
/// say otherwise.
///
/// Errors: [`ArrayError::Memory`] for results that memory cannot hold, [`ArrayError::Store`] and
/// [`ArrayError::Codec`] naming the chunk at fault. Nothing is returned then.
pub fn read(
    layout: &ArrayLayout,
    selection: &Selection,
    options: ReadOptions<'_>,
) -> Result<Memory, ArrayError> {
    selection.check(layout.name(), layout.shape())?;
    let shape = selection.shape();
    let element = layout.dtype().size();
    let bytes = element_count(&shape).and_then(|n| n.checked_mul(element as u64));
    let none = || memory_error(layout, "the result", bytes.unwrap_or(u64::MAX));
    let len = bytes.and_then(|n| usize::try_from(n).ok()).ok_or_else(none)?;
    let plan = Plan::new(layout, selection).ok_or_else(none)?;
    let (sparse, present) =
        if len as u64 >= SPARSE_FROM { sparse(layout, &plan, selection) } else { (false, None) };
    let zeroed = sparse && layout.fill().is_zero();
    let mut memory = if zeroed { Memory::zeroed(len) } else { Memory::dirty(len) }.ok_or_else(none)?;
    let mut target = Target::dense(memory.as_mut_slice(), &shape, element).ok_or_else(none)?;
    if options.fortran {
        target.reverse_axes();
    }
    let bound = Bound::target(layout, &target, selection)?;
    if bound.is_uneven() {
        read_into(layout, selection, &mut target, options)?;
        return Ok(memory);
    }
    let absent = Absent { filled: zeroed, present: present.as_ref() };
    execute_all(layout, plan, selection, &bound, absent, len as u64, options, None)?;
    Ok(memory)
}

/// Reads a selection into the caller's memory, which must have the selection's shape. After an
/// error its contents are unspecified: some chunks may have been written.
pub fn read_into(
    layout: &ArrayLayout,
    selection: &Selection,
    target: &mut Target<'_>,
    options: ReadOptions<'_>,
) -> Result<(), ArrayError> {
    read_target(layout, selection, target, options, None)
}

/// As [`read_into`]; `nesting`: what the array is a part of, if it is.
pub(crate) fn read_target(
    layout: &ArrayLayout,
    selection: &Selection,
    target: &mut Target<'_>,
    options: ReadOptions<'_>,
    nesting: Option<&mosaic::nesting::Nesting<'_>>,
) -> Result<(), ArrayError> {
    let bound = Bound::target(layout, target, selection)?;
    if bound.is_uneven() {
        let memory = read(layout, selection, ReadOptions { fortran: false, ..options })?;
        target.copy_dense(memory.as_slice(), layout.dtype().size());
        return Ok(());
    }
    let plan = Plan::new(layout, selection).ok_or_else(|| memory_error(layout, "the plan", u64::MAX))?;
    let bytes =
        element_count(&selection.shape()).unwrap_or(u64::MAX).saturating_mul(layout.dtype().size() as u64);
    execute_all(layout, plan, selection, &bound, Absent::default(), bytes, options, nesting)
}

/// What is known of objects that do not exist.
#[derive(Clone, Copy, Default)]
pub(crate) struct Absent<'a> {
    /// The target already holds the fill value: absent chunks need nothing.
    pub(crate) filled: bool,
    /// The objects that exist; others are not asked for.
    pub(crate) present: Option<&'a HashSet<String>>,
}

/// Whether most of a sample of the objects do not exist, so that memory which the system zeroes on
/// demand is cheaper than pages that are already there but dirty; then, too, the keys of all
/// objects that exist, if that can be told for less than asking for each. A guess that decides
/// about speed only.
fn sparse(layout: &ArrayLayout, plan: &Plan, selection: &Selection) -> (bool, Option<HashSet<String>>) {
    const SAMPLE: usize = 8;
    if let Some(mosaic) = layout.mosaic() {
        return (selection.points().is_empty() && !mosaic::read::covers(layout, mosaic, selection), None);
    }
    let grid = layout.object_grid();
    let shards = layout.sharding().map(|_| plan.by_object(layout).0);
    let plan = shards.as_ref().unwrap_or(plan);
    if plan.len() < SAMPLE {
        return (false, None);
    }
    let absent = Scratch::with(|scratch| {
        let absent = (0..SAMPLE).filter(|n| {
            plan.task_of(layout, grid, (plan.len() - 1) / (SAMPLE - 1) * n, &mut scratch.task);
            match layout.locate(&scratch.task.chunk, &mut scratch.key) {
                Ok(Location::Absent) => true,
                Ok(Location::Object) => tasks::key(layout, &scratch.task, &scratch.key)
                    .is_ok_and(|key| layout.store().exists(key).is_ok_and(|exists| !exists)),
                _ => false,
            }
        });
        absent.count()
    });
    let sparse = absent > SAMPLE / 2;
    (sparse, if sparse { present(layout, plan.len()) } else { None })
}

/// The keys of all objects that exist, if that can be told for less than asking for each of `most`.
pub(crate) fn present(layout: &ArrayLayout, most: usize) -> Option<HashSet<String>> {
    let prefix = match layout.locator().folder()? {
        "" => None,
        folder => Some(Key::new(folder).ok()?),
    };
    Some(layout.store().present(prefix, most)?.into_iter().collect())
}

/// Reads every chunk that a selection touches.
#[allow(clippy::too_many_arguments)]
fn execute_all(
    layout: &ArrayLayout,
    plan: Plan,
    selection: &Selection,
    target: &Bound<*mut u8>,
    absent: Absent<'_>,
    bytes: u64,
    options: ReadOptions<'_>,
    nesting: Option<&mosaic::nesting::Nesting<'_>>,
) -> Result<(), ArrayError> {
    let count = plan.len();
    let mut plan = Some(plan);
    origin::of_one_array(
        layout,
        || count,
        |again| {
            let absent = if again { Absent::default() } else { absent };
            let plan = plan.take().or_else(|| Plan::new(layout, selection));
            let plan = plan.ok_or_else(|| memory_error(layout, "the plan", u64::MAX))?;
            execute_once(layout, plan, selection, target, absent, bytes, options, nesting)
        },
    )
}

/// As [`execute_all`], of whatever arrays the objects are.
#[allow(clippy::too_many_arguments)]
fn execute_once(
    layout: &ArrayLayout,
    plan: Plan,
    selection: &Selection,
    target: &Bound<*mut u8>,
    absent: Absent<'_>,
    bytes: u64,
    options: ReadOptions<'_>,
    nesting: Option<&mosaic::nesting::Nesting<'_>>,
) -> Result<(), ArrayError> {
    if let Some(mosaic) = layout.mosaic() {
        if !selection.points().is_empty() {
            return mosaic::points::read_points(layout, &plan, target, options);
        }
        let ReadOptions { verify, cache, .. } = options;
        let filled = absent.filled;
        let request =
            mosaic::read::Request { layout, mosaic, selection, target, filled, verify, cache, nesting };
        return request.read(bytes, options.threads, options.interrupt);
    }
    let verify = options.verify.unwrap_or_else(settings::verify_checksums);
    let cache = options.cache.filter(|_| !layout.encoding().chain().is_identity());
    let keep = cache.filter(|cache| cache.has_room_for(plan.len(), layout.encoding().decoded_size()));
    let limit = tasks::limit(options.threads);
    let waiting = tasks::waiting_limit(layout, options.threads);
    let ranges = |plan| RangeRequest { layout, plan, target, absent, verify, cache, keep };
    if let Some(sharding) = layout.sharding() {
        let request = shard::read::Request { inner: ranges(&plan), sharding };
        return request.read(bytes, (limit, waiting), options.interrupt);
    }
    if small::applies(layout, &plan)? {
        return small::read(&ranges(&plan), bytes, (limit, waiting), options.interrupt);
    }
    let plan = plan.cut(layout, selection, limit);
    let parts = open_parts(layout, &plan)?;
    tasks::run(layout, &plan, bytes, limit, waiting, options.interrupt, &|scratch, _| {
        let dst = target.at(&scratch.task.out);
        let places = plan.places(&scratch.task, target.strides());
        let reader = Reader {
            layout,
            dst,
            strides: target.strides(),
            places: &places,
            present: absent.present,
            parts: parts.as_ref(),
            verify,
            cache,
            keep,
        };
        if !reader.read(scratch)? && !absent.filled {
            // SAFETY: the target covers the selection, of which the task is a part.
            unsafe { reader.fill(&scratch.task) };
        }
        Ok(())
    })
}

/// The copy from a decoded chunk to the output, and where in the chunk it starts.
pub(crate) fn read_region(layout: &ArrayLayout, task: &Task, target: &[isize]) -> (Region, usize) {
    let (strides, offset) = within_chunk(layout, task);
    let encoding = layout.encoding();
    (Region::new(&task.count, target, &strides, encoding.element_size(), encoding.swap()), offset)
}

/// The bytes of a decoded chunk between the first that a task wants and the last.
pub(crate) fn reach(layout: &ArrayLayout, task: &Task) -> Range<usize> {
    let (strides, start) = within_chunk(layout, task);
    let last: usize =
        strides.iter().zip(&task.count).map(|(step, count)| *step as usize * (*count as usize - 1)).sum();
    let end = start + last + layout.encoding().element_size();
    let picks = task.picks.iter().map(|pick| pick.reach.start as usize..pick.reach.end as usize);
    picks.fold(start..end, |reach, pick| reach.start + pick.start..reach.end + pick.end)
}

/// Bytes between selected elements in a decoded chunk, per axis, and those before the first.
pub(crate) fn within_chunk(layout: &ArrayLayout, task: &Task) -> (Strides, usize) {
    let given = layout.encoding().strides();
    // A step is at most the chunk's length where more than one element is selected, so products
    // stay inside the chunk.
    let strides = given
        .iter()
        .zip(task.step.iter().zip(&task.count))
        .map(|(stride, (step, count))| if *count > 1 { stride * *step as isize } else { 0 })
        .collect();
    let offset =
        given.iter().zip(&task.first).map(|(stride, first)| *stride as usize * *first as usize).sum();
    (strides, offset)
}

/// Reads one chunk's share of a request.
pub(crate) struct Reader<'a> {
    pub(crate) layout: &'a ArrayLayout,
    /// Where the first element goes.
    pub(crate) dst: *mut u8,
    pub(crate) strides: &'a [isize],
    /// The points of the task, if there are any: the region is copied at each of them.
    pub(crate) places: &'a [Places<'a>],
    pub(crate) present: Option<&'a HashSet<String>>,
    /// The object, if it is open.
    pub(crate) parts: Option<&'a Parts<'a>>,
    pub(crate) verify: bool,
    /// Where decoded chunks are looked for.
    pub(crate) cache: Option<&'a ChunkCache>,
    /// Where decoded chunks are kept.
    pub(crate) keep: Option<&'a ChunkCache>,
}

impl Reader<'_> {
    /// Returns whether the chunk exists.
    pub(crate) fn read(&self, scratch: &mut Scratch) -> Result<bool, ArrayError> {
        let location = self.layout.locate(&scratch.task.chunk, &mut scratch.key)?;
        if location == Location::Absent
            || self.present.is_some_and(|present| !present.contains(scratch.key.as_str()))
        {
            return Ok(false);
        }
        match self.layout.without(location) {
            None => self.read_at(scratch, location),
            Some(layout) => {
                // Decoded chunks of some of the codecs are kept as others are; what has none is
                // never kept.
                let kept = |_: &&ChunkCache| !layout.encoding().chain().is_identity();
                let (cache, keep) = (self.cache.filter(kept), self.keep.filter(kept));
                Reader { layout: &layout, cache, keep, ..*self }.read_at(scratch, location)
            }
        }
    }

    /// Reads a chunk that went through all of the layout's codecs. Returns whether it exists.
    fn read_at(&self, scratch: &mut Scratch, location: Location) -> Result<bool, ArrayError> {
        let layout = self.layout;
        let (region, offset) = read_region(layout, &scratch.task, self.strides);
        if let Some(cache) = self.cache
            && let Some(chunk) = cache.get(&self.wanted(scratch, location)?)
        {
            self.scatter(chunk.as_slice(), &region, offset);
            return Ok(true);
        }
        match choose_read(layout.encoding(), &scratch.task, &region, reach(layout, &scratch.task)) {
            Strategy::ReadInto => self.read_into(scratch, location, &region, offset),
            Strategy::ReadRows => self.read_rows(scratch, location, &region, offset),
            _ => {
                let (found, stamp) = fetch_stamped(layout, scratch, location, self.keep.is_some())?;
                if !found {
                    return Ok(false);
                }
                let encoded = std::mem::take(&mut scratch.encoded);
                let outcome = self.place(scratch, &encoded, location, stamp, &region, offset);
                scratch.encoded = encoded;
                outcome.map(|()| true)
            }
        }
    }

    /// Decodes a chunk's stored bytes and puts the task's elements where they belong. `stamp`:
    /// under which the decoded chunk may be kept.
    pub(crate) fn place(
        &self,
        scratch: &mut Scratch,
        encoded: &[u8],
        location: Location,
        stamp: Option<Stamp>,
        region: &Region,
        offset: usize,
    ) -> Result<(), ArrayError> {
        let encoding = self.layout.encoding();
        // Where there is no memory to keep the chunk in, it is read as without a cache.
        let stamp = stamp.filter(|_| self.keep.is_some());
        if let Some((stamp, memory)) = stamp.zip(stamp.and_then(|_| Memory::dirty(encoding.decoded_size()))) {
            return self.decode_keep(scratch, encoded, location, stamp, memory, region, offset);
        }
        match choose_read(encoding, &scratch.task, region, reach(self.layout, &scratch.task)) {
            Strategy::DecodeInto => self.decode_into(scratch, encoded),
            Strategy::DecodePart => self.decode_part(scratch, encoded, region, offset),
            _ => {
                self.scatter(decoded(self.layout, scratch, encoded, self.verify)?, region, offset);
                Ok(())
            }
        }
    }

    /// What to look for in the cache.
    fn wanted<'s>(&'s self, scratch: &'s Scratch, location: Location) -> Result<Wanted<'s>, ArrayError> {
        let key = tasks::key(self.layout, &scratch.task, &scratch.key)?;
        Ok(Wanted::new(self.layout, key, location, self.verify))
    }

    /// The output as one run of `len` bytes: to be dereferenced only for a region of which
    /// [`Region::contiguous`] is `len`.
    fn run(&self, len: usize) -> *mut [u8] {
        std::ptr::slice_from_raw_parts_mut(self.dst, len)
    }

    pub(crate) fn read_into(
        &self,
        scratch: &mut Scratch,
        location: Location,
        region: &Region,
        offset: usize,
    ) -> Result<bool, ArrayError> {
        let layout = self.layout;
        let len = region.contiguous().unwrap_or(0);
        // SAFETY: the target covers the task's elements, which are one run of `len` initialised
        // bytes; other tasks have other elements.
        let out = unsafe { &mut *self.run(len) };
        let found =
            self.read_ranges(scratch, location, &mut [RangeRead { offset: offset as u64, buf: out }])?;
        if found && layout.encoding().swap() > 1 {
            // SAFETY: as above; the borrow for reading has ended.
            swap::in_place(unsafe { &mut *self.run(len) }, layout.encoding().swap());
        }
        Ok(found)
    }

    /// Reads ranges of a chunk without codecs; offsets count from the start of the chunk.
    fn read_ranges(
        &self,
        scratch: &Scratch,
        location: Location,
        ranges: &mut [RangeRead<'_>],
    ) -> Result<bool, ArrayError> {
        ranges_of(self.layout, self.parts, &scratch.task, &scratch.key, location, ranges)
    }

    pub(crate) fn read_rows(
        &self,
        scratch: &mut Scratch,
        location: Location,
        region: &Region,
        offset: usize,
    ) -> Result<bool, ArrayError> {
        let layout = self.layout;
        if !self.places.is_empty() {
            return self.read_pieces(scratch, location, region, offset);
        }
        let (list, decoded, key, task) = scratch.split_ranges();
        if let Some(row) = region.direct_row() {
            return with_ranges(list, |list| {
                region.for_each_row(&mut |dst, src| {
                    // SAFETY: a row that is contiguous in the output; rows are disjoint.
                    let buf = unsafe { std::slice::from_raw_parts_mut(self.dst.wrapping_offset(dst), row) };
                    list.push(RangeRead { offset: (offset as isize + src) as u64, buf });
                });
                ranges_of(layout, self.parts, task, key, location, list)
            });
        }
        let rows = Rows::new(layout.encoding(), task);
        let bytes = rows.count.saturating_mul(rows.span);
        let none = || memory_error(layout, "a part of a chunk", bytes);
        let len = usize::try_from(bytes).map_err(|_| none())?;
        let buffer = sized(decoded, len).ok_or_else(none)?;
        let found = with_ranges(list, |list| {
            let parts = buffer.chunks_exact_mut((rows.span as usize).max(1));
            list.extend(rows.offsets().zip(parts).map(|(offset, buf)| RangeRead { offset, buf }));
            ranges_of(layout, self.parts, task, key, location, list)
        })?;
        if found {
            let (strides, _) = within_chunk(layout, task);
            let packed = rows.packed(layout.encoding(), task, &strides);
            let encoding = layout.encoding();
            let region =
                Region::new(&task.count, self.strides, &packed, encoding.element_size(), encoding.swap());
            // SAFETY: the target covers the task's elements; the buffer holds all ranges, in the
            // places that `packed` says.
            unsafe { strided::copy(&region, self.dst, buffer.as_ptr()) };
        }
        Ok(found)
    }

    fn decode_into(&self, scratch: &mut Scratch, encoded: &[u8]) -> Result<(), ArrayError> {
        let encoding = self.layout.encoding();
        // SAFETY: decode-into is chosen only where the region is one run of a whole chunk; see
        // above.
        let out = unsafe { &mut *self.run(encoding.decoded_size()) };
        encoding
            .chain()
            .decode(encoded, out, &mut scratch.codec, self.verify)
            .map_err(|source| codec_error(self.layout, &scratch.task, &scratch.key, source))?;
        swap::in_place(out, encoding.swap());
        Ok(())
    }

    /// Decodes only as much of the chunk as the task needs, each byte to its place in a buffer of a
    /// whole chunk.
    fn decode_part(
        &self,
        scratch: &mut Scratch,
        encoded: &[u8],
        region: &Region,
        offset: usize,
    ) -> Result<(), ArrayError> {
        let layout = self.layout;
        let wanted = reach(layout, &scratch.task);
        let Scratch { decoded, codec, task, key, .. } = scratch;
        let len = layout.encoding().decoded_size();
        let out = sized(decoded, len).ok_or_else(|| memory_error(layout, "a decoded chunk", len as u64))?;
        layout
            .encoding()
            .chain()
            .decode_part(encoded, wanted, out, codec, self.verify)
            .map_err(|source| codec_error(layout, task, key, source))?;
        self.scatter(out, region, offset);
        Ok(())
    }

    /// Decodes into memory of the chunk's own, for the cache, and copies from there.
    #[allow(clippy::too_many_arguments)]
    fn decode_keep(
        &self,
        scratch: &mut Scratch,
        encoded: &[u8],
        location: Location,
        stamp: Stamp,
        mut memory: Memory,
        region: &Region,
        offset: usize,
    ) -> Result<(), ArrayError> {
        self.layout
            .encoding()
            .chain()
            .decode(encoded, memory.as_mut_slice(), &mut scratch.codec, self.verify)
            .map_err(|source| codec_error(self.layout, &scratch.task, &scratch.key, source))?;
        self.scatter(memory.as_slice(), region, offset);
        if let Some(cache) = self.keep {
            cache.keep(&self.wanted(scratch, location)?, stamp, Arc::new(memory));
        }
        Ok(())
    }

    /// Copies the task's part of a whole decoded chunk to the output.
    pub(crate) fn scatter(&self, chunk: &[u8], region: &Region, offset: usize) {
        debug_assert_eq!(chunk.len(), self.layout.encoding().decoded_size());
        // SAFETY: the target covers the task's elements; `chunk` is a whole decoded chunk, and the
        // region lies within it.
        unsafe {
            gather::copy(self.places, Direction::Read, region, self.dst, chunk.as_ptr().wrapping_add(offset))
        };
    }

    /// Writes the fill value to the task's part of the output.
    ///
    /// # Safety
    /// The target must cover `task`, of which this reader was made.
    pub(crate) unsafe fn fill(&self, task: &Task) {
        // SAFETY: as promised by the caller.
        unsafe { gather::fill(self.places, &task.count, self.strides, self.layout.fill().bytes(), self.dst) };
    }
}
