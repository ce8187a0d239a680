//! One chunk's share of a read: what is decided about it, and doing that.

#![expect(
    clippy::cast_possible_truncation,
    reason = "sizes in memory, and numbers of what is in memory: 64 bits, and checked where they came in"
)]

use crate::copy::gather::Direction;
use crate::copy::row::Axis;
use crate::copy::strided::Region;
use crate::copy::{gather, strided, swap};
use crate::error::ArrayError;
use crate::execute::scratch::{Scratch, sized, with_ranges};
use crate::execute::tasks::{self, codec_error, memory_error};
use crate::layout::ArrayLayout;
use crate::layout::locate::Location;
use crate::plan::point_plan::AllPlaces;
use crate::plan::strategy::{ChunkState, Rows, Strategy, choose_read};
use crate::plan::task::{Task, reach, within_chunk};
use crate::read::cache::Wanted;
use crate::read::fetch::{Stored, decoded, fetch_stamped, open, ranges_of};
use crate::read::request::Request;
use crate::read::windows::{self, Bite, Windows};
use crate::runtime::memory::Memory;
use hyperslab_codec::Reach;
use hyperslab_store::{Opened, RangeRead, Stamp};
use std::sync::Arc;

/// The copy from a decoded chunk to the output, and where in the chunk it starts.
pub(crate) fn read_region(layout: &ArrayLayout, task: &Task, target: &[isize]) -> (Region, usize) {
    let (strides, offset) = within_chunk(layout, task);
    let encoding = layout.encoding();
    (Region::new(&task.count, target, &strides, encoding.element_size(), encoding.swap()), offset)
}

/// Reads one chunk's share of a request, by a strategy that was chosen when this was made.
pub(crate) struct ChunkReader<'a> {
    pub(crate) strategy: Strategy,
    request: &'a Request<'a>,
    /// That of the chunk, some of whose codecs may have been left out.
    pub(crate) layout: &'a ArrayLayout,
    /// Where the first element goes.
    pub(crate) dst: *mut u8,
    /// The points of the task, if there are any: the region is copied at each of them.
    pub(crate) places: AllPlaces<'a>,
    pub(crate) region: Region,
    /// Where the region begins in the decoded chunk.
    pub(crate) offset: usize,
    /// The decoded chunk, where a cache holds it.
    held: Option<Arc<Memory>>,
    keep: bool,
}

impl<'a> ChunkReader<'a> {
    /// Decides how a stored chunk is read. `held`: what a cache holds of it; `joined`: whether its
    /// bytes come with those of neighbours.
    pub(crate) fn new(
        request: &'a Request<'a>,
        layout: &'a ArrayLayout,
        task: &Task,
        held: Option<Arc<Memory>>,
        joined: bool,
    ) -> Self {
        let strides = request.target.strides();
        let (region, offset) = read_region(layout, task, strides);
        // What has no codecs is never kept.
        let keep = request.keep.is_some() && !layout.encoding().chain().is_identity();
        let state = ChunkState { cached: held.is_some(), keep, joined };
        let strategy = choose_read(layout.encoding(), task, &region, state, || reach(layout, task));
        let (dst, places) = (request.target.at(&task.out), request.plan.places(task, strides));
        ChunkReader { strategy, request, layout, dst, places, region, offset, held, keep }
    }

    /// Does it, for the task at hand. Returns whether the chunk exists.
    pub(crate) fn read(&self, scratch: &mut Scratch, stored: Stored<'_>) -> Result<bool, ArrayError> {
        match self.strategy {
            Strategy::Cached => {
                if let Some(chunk) = &self.held {
                    self.scatter(chunk.as_slice());
                }
                Ok(true)
            }
            Strategy::ReadInto => self.read_into(scratch, stored),
            Strategy::ReadRows => self.read_rows(scratch, stored),
            _ => {
                let (found, stamp) = fetch_stamped(self.layout, scratch, stored, self.keep)?;
                if !found {
                    return Ok(false);
                }
                let encoded = std::mem::take(&mut scratch.encoded);
                let outcome = self.place(scratch, &encoded, stored.location, stamp);
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
    ) -> Result<(), ArrayError> {
        match self.strategy {
            Strategy::DecodeInto => self.decode_into(scratch, encoded),
            Strategy::DecodePart => self.decode_part(scratch, encoded),
            _ => {
                // Where there is no memory to keep the chunk in, it is read as without a cache.
                let memory = stamp.filter(|_| self.keep).map(|_| self.layout.encoding().decoded_size());
                if let (Some(stamp), Some(memory)) = (stamp, memory.and_then(Memory::dirty)) {
                    return self.decode_keep(scratch, encoded, location, stamp, memory);
                }
                self.scatter(decoded(self.layout, scratch, encoded, self.request.verify)?);
                Ok(())
            }
        }
    }

    /// The output as one row of `len` bytes: to be dereferenced only for a region of which
    /// [`Region::contiguous`] is `len`.
    fn row(&self, len: usize) -> *mut [u8] {
        std::ptr::slice_from_raw_parts_mut(self.dst, len)
    }

    fn read_into(&self, scratch: &mut Scratch, stored: Stored<'_>) -> Result<bool, ArrayError> {
        let len = self.region.contiguous().unwrap_or(0);
        // SAFETY: the target covers the task's elements, which are one row of `len` initialised
        // bytes; other tasks have other elements.
        let out = unsafe { &mut *self.row(len) };
        let range = &mut [RangeRead { offset: self.offset as u64, buf: out }];
        let found = ranges_of(self.layout, stored, &scratch.task, &scratch.key, range)?;
        if found && self.layout.encoding().swap() > 1 {
            // SAFETY: as above; the borrow for reading has ended.
            swap::in_place(unsafe { &mut *self.row(len) }, self.layout.encoding().swap());
        }
        Ok(found)
    }

    fn read_rows(&self, scratch: &mut Scratch, stored: Stored<'_>) -> Result<bool, ArrayError> {
        let layout = self.layout;
        if !self.places.is_empty() {
            return self.read_points(scratch, stored);
        }
        let (list, decoded, key, task) = scratch.split_ranges();
        if self.region.direct_row().is_some() {
            return with_ranges(list, |list| {
                self.push_rows(0, list);
                ranges_of(layout, stored, task, key, list)
            });
        }
        let encoding = layout.encoding();
        let rows = Rows::new(encoding, task, layout.store().cost().range);
        let bytes = rows.count.saturating_mul(rows.span);
        let none = || memory_error(layout, "a part of a chunk", bytes);
        let len = usize::try_from(bytes).map_err(|_| none())?;
        let buffer = sized(decoded, len).ok_or_else(none)?;
        let found = with_ranges(list, |list| {
            let slots = buffer.chunks_exact_mut((rows.span as usize).max(1));
            list.extend(rows.offsets().zip(slots).map(|(offset, buf)| RangeRead { offset, buf }));
            ranges_of(layout, stored, task, key, list)
        })?;
        if found {
            let (strides, _) = within_chunk(layout, task);
            let packed = rows.packed(encoding, task, &strides);
            let target = self.request.target.strides();
            let region = Region::new(&task.count, target, &packed, encoding.element_size(), encoding.swap());
            // SAFETY: the target covers the task's elements; the buffer holds all ranges, in the
            // places that `packed` says.
            unsafe { strided::copy(&region, self.dst, buffer.as_ptr()) };
        }
        Ok(found)
    }

    /// Reads a task with points of a chunk without codecs. Returns whether the chunk exists.
    pub(crate) fn read_points(&self, scratch: &mut Scratch, stored: Stored<'_>) -> Result<bool, ArrayError> {
        let windows = Windows::new(self.region.clone(), &self.places, self.layout.store().cost().range);
        let mut opened: Option<Option<Box<dyn Opened + '_>>> = None;
        let mut found = true;
        windows.each(self.offset, &mut |window, more| {
            if more && opened.is_none() && stored.opened.is_none() {
                opened = Some(open(self.layout, &scratch.task, &scratch.key, stored.location)?);
                found = matches!(opened, Some(Some(_)));
            }
            if found {
                let again = opened.as_ref().and_then(|opened| opened.as_deref());
                let stored = Stored { opened: stored.opened.or(again), ..stored };
                found = self.read_window(scratch, stored, &windows, window)?;
            }
            Ok(())
        })?;
        Ok(found)
    }

    fn read_window(
        &self,
        scratch: &mut Scratch,
        stored: Stored<'_>,
        windows: &Windows<'_>,
        window: &mut [Bite],
    ) -> Result<bool, ArrayError> {
        let layout = self.layout;
        let (list, decoded, key, task) = scratch.split_ranges();
        if windows.direct {
            return with_ranges(list, |list| {
                list.extend(window.iter().map(|bite| {
                    let dst = self.dst.wrapping_offset(bite.memory);
                    // SAFETY: a row of the output, of initialised bytes; the target covers the
                    // task's elements, and no two points share bytes there.
                    let buf = unsafe { std::slice::from_raw_parts_mut(dst, windows.reach) };
                    RangeRead { offset: bite.chunk as u64, buf }
                }));
                ranges_of(layout, stored, task, key, list)
            });
        }
        let ranges = windows.ranges(window);
        let len = ranges.iter().map(|(start, end)| end - start).sum();
        let none = || memory_error(layout, "a part of a chunk", len as u64);
        let buffer = sized(decoded, len).ok_or_else(none)?;
        let found = with_ranges(list, |list| {
            let mut rest = &mut *buffer;
            for (start, end) in &ranges {
                let (buf, behind) = std::mem::take(&mut rest).split_at_mut(end - start);
                list.push(RangeRead { offset: *start as u64, buf });
                rest = behind;
            }
            ranges_of(layout, stored, task, key, list)
        })?;
        if !found {
            return Ok(false);
        }
        // Both are in the order of the chunk's bytes.
        let (mut range, mut before) = (0, 0);
        for bite in window {
            while let Some((start, end)) = ranges.get(range)
                && *end <= bite.chunk as usize
            {
                before += end - start;
                range += 1;
            }
            let start = ranges.get(range).map_or(0, |(start, _)| *start);
            let src = buffer.as_ptr().wrapping_add(before + bite.chunk as usize - start);
            let dst = self.dst.wrapping_offset(bite.memory);
            let step = Axis { len: bite.count, ..windows.step };
            // SAFETY: the target covers the task's elements; the range that holds the bite was
            // read to the buffer, all of it.
            unsafe { gather::copy_run(&windows.region, step, dst, src) };
        }
        Ok(true)
    }

    /// Whether the chunk's bytes go as they are to rows of the output.
    pub(crate) fn is_direct(&self) -> bool {
        self.places.is_empty()
            && self.layout.encoding().swap() == 1
            && self.region.contiguous().or_else(|| self.region.direct_row()).is_some()
    }

    /// Adds the ranges of a chunk whose bytes [go straight](ChunkReader::is_direct) to the output; it
    /// begins at `start`.
    pub(crate) fn push_rows<'b>(&self, start: u64, list: &mut Vec<RangeRead<'b>>) {
        let mut push = |len: usize, dst: isize, src: isize| {
            // SAFETY: a row that is contiguous in the output, of initialised bytes; rows are
            // disjoint.
            let buf = unsafe { std::slice::from_raw_parts_mut(self.dst.wrapping_offset(dst), len) };
            list.push(RangeRead {
                offset: (start + self.offset as u64).wrapping_add_signed(src as i64),
                buf,
            });
        };
        match (self.region.contiguous(), self.region.direct_row()) {
            (Some(len), _) => push(len, 0, 0),
            (None, Some(len)) => self.region.for_each_row(&mut |dst, src| push(len, dst, src)),
            (None, None) => {}
        }
    }

    fn decode_into(&self, scratch: &mut Scratch, encoded: &[u8]) -> Result<(), ArrayError> {
        let encoding = self.layout.encoding();
        // SAFETY: decode-into is chosen only where the region is one row of a whole chunk; see
        // above.
        let out = unsafe { &mut *self.row(encoding.decoded_size()) };
        encoding
            .chain()
            .decode(encoded, out, &mut scratch.codec, self.request.verify)
            .map_err(|source| codec_error(self.layout, &scratch.task, &scratch.key, source))?;
        swap::in_place(out, encoding.swap());
        Ok(())
    }

    /// Decodes only as much of the chunk as the task needs, each byte to its place in a buffer of a
    /// whole chunk.
    fn decode_part(&self, scratch: &mut Scratch, encoded: &[u8]) -> Result<(), ArrayError> {
        let layout = self.layout;
        let wanted = reach(layout, &scratch.task);
        let Scratch { decoded, codec, task, key, .. } = scratch;
        let len = layout.encoding().decoded_size();
        let out = sized(decoded, len).ok_or_else(|| memory_error(layout, "a decoded chunk", len as u64))?;
        layout
            .encoding()
            .chain()
            .decode_part(encoded, wanted, out, codec, self.request.verify)
            .map_err(|source| codec_error(layout, task, key, source))?;
        self.scatter(out);
        Ok(())
    }

    /// Decodes into memory of the chunk's own, for the cache, and copies from there.
    fn decode_keep(
        &self,
        scratch: &mut Scratch,
        encoded: &[u8],
        location: Location,
        stamp: Stamp,
        mut memory: Memory,
    ) -> Result<(), ArrayError> {
        let Request { verify, keep, .. } = *self.request;
        self.layout
            .encoding()
            .chain()
            .decode(encoded, memory.as_mut_slice(), &mut scratch.codec, verify)
            .map_err(|source| codec_error(self.layout, &scratch.task, &scratch.key, source))?;
        self.scatter(memory.as_slice());
        if let Some(cache) = keep {
            let key = tasks::key(self.layout, &scratch.task, &scratch.key)?;
            cache.keep(&Wanted::new(self.layout, key, location, verify), stamp, Arc::new(memory));
        }
        Ok(())
    }

    /// Copies the task's elements from a whole decoded chunk to the output.
    fn scatter(&self, chunk: &[u8]) {
        debug_assert_eq!(chunk.len(), self.layout.encoding().decoded_size());
        let src = chunk.as_ptr().wrapping_add(self.offset);
        // SAFETY: the target covers the task's elements; `chunk` is a whole decoded chunk, and the
        // region lies within it.
        unsafe { gather::copy(&self.places, Direction::Read, &self.region, self.dst, src) };
    }

    /// The ranges that [`ChunkReader::read`] asks for of a chunk of `len` stored bytes from `start` on,
    /// ascending. Those that touch are one, as a store reads them.
    pub(crate) fn ranges(&self, task: &Task, (start, len): (u64, u64)) -> Vec<(u64, u64)> {
        let at = |offset: u64, len: u64| (start + offset, len);
        let mut ranges: Vec<(u64, u64)> = match self.strategy {
            Strategy::Cached => Vec::new(),
            Strategy::ReadInto => {
                vec![at(self.offset as u64, self.region.contiguous().unwrap_or(0) as u64)]
            }
            Strategy::ReadRows if !self.places.is_empty() => {
                let ranges = windows::ranges(
                    self.region.clone(),
                    &self.places,
                    self.offset,
                    self.layout.store().cost().range,
                );
                ranges.into_iter().map(|(offset, len)| at(offset, len)).collect()
            }
            Strategy::ReadRows => match self.region.direct_row() {
                Some(row) => {
                    let mut ranges = Vec::new();
                    let offset = self.offset as u64;
                    let mut push = |_, src: isize| {
                        ranges.push(at(offset.wrapping_add_signed(src as i64), row as u64));
                    };
                    self.region.for_each_row(&mut push);
                    ranges
                }
                None => {
                    let rows = Rows::new(self.layout.encoding(), task, self.layout.store().cost().range);
                    rows.offsets().map(|offset| at(offset, rows.span)).collect()
                }
            },
            _ => vec![(start, len)],
        };
        join_touching(&mut ranges);
        ranges
    }

    /// How many bytes come out of decoders.
    pub(crate) fn decodes(&self, task: &Task) -> u64 {
        let encoding = self.layout.encoding();
        let bytes = match self.strategy {
            Strategy::DecodePart if encoding.chain().reach() == Reach::Blocks => {
                reach(self.layout, task).len()
            }
            Strategy::DecodePart => reach(self.layout, task).end,
            Strategy::DecodeInto | Strategy::DecodeScatter => encoding.decoded_size(),
            _ => 0,
        };
        bytes as u64
    }
}

/// Sorts ranges, and makes one of those that touch, as a store reads them.
pub(crate) fn join_touching(ranges: &mut Vec<(u64, u64)>) {
    ranges.sort_unstable();
    ranges.dedup_by(|next, last| {
        let touches = last.0 + last.1 == next.0;
        if touches {
            last.1 += next.1;
        }
        touches
    });
}
