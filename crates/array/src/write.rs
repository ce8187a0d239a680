//! Writing: each task by its strategy.

use crate::execute::{self, Interrupt, codec_error, memory_error, store_error};
use crate::locks::ChunkLocks;
use crate::read::{decoded, fetch, within_chunk};
use crate::scratch::{Scratch, sized};
use crate::strategy::choose_write;
use crate::strided::{self, Region};
use crate::view::Bound;
use crate::{ArrayError, ArrayLayout, Dims, Location, Plan, Selection, Source, Strategy, Task};
use crate::{element_count, process, settings, swap};
use smallvec::SmallVec;

/// Options of one write.
#[derive(Clone, Copy, Default)]
pub struct WriteOptions<'a> {
    /// How many threads may work on it, the caller's included; `None`: [`settings::threads`].
    pub threads: Option<usize>,
    /// Whether chunks of nothing but fill value are stored; `None`: [`settings::write_empty_chunks`].
    pub write_empty_chunks: Option<bool>,
    /// Asked by the calling thread between chunks; `true` stops the write. Chunks already written stay.
    pub interrupt: Option<Interrupt<'a>>,
}

/// Writes a selection from the caller's memory, which must have the selection's shape (strides of 0 broadcast).
///
/// Each chunk is replaced atomically; the request as a whole is not atomic: after an error some chunks are new, the others as they were.
/// Chunks that become nothing but fill value are deleted unless `write_empty_chunks`. Concurrent writes by threads of this process
/// to different elements of one chunk lose nothing.
///
/// Errors: [`ArrayError::Shape`], [`ArrayError::Store`], [`ArrayError::Codec`], [`ArrayError::ReadOnly`], naming the chunk.
pub fn write(
    layout: &ArrayLayout,
    selection: &Selection,
    source: &Source<'_>,
    options: WriteOptions<'_>,
) -> Result<(), ArrayError> {
    let bound = Bound::source(layout, source, selection)?;
    let plan = Plan::new(layout, selection).ok_or_else(|| memory_error(layout, "the plan", u64::MAX))?;
    let bytes =
        element_count(&selection.shape()).unwrap_or(u64::MAX).saturating_mul(layout.dtype().size() as u64);
    let keep_empty = options.write_empty_chunks.unwrap_or_else(settings::write_empty_chunks);
    let fill = stored_fill(layout);
    let locks = &process::current().locks;
    let limit = execute::write_limit(layout, options.threads);
    execute::run(layout, &plan, bytes, limit, limit, options.interrupt, &|scratch| {
        let src = bound.at(&scratch.task.out);
        Writer { layout, locks, src, strides: bound.strides(), fill: &fill, keep_empty }.write(scratch)
    })
}

/// The fill value as it stands in a decoded chunk: in the stored byte order.
fn stored_fill(layout: &ArrayLayout) -> SmallVec<[u8; 16]> {
    let mut bytes = SmallVec::from_slice(layout.fill().bytes());
    swap::in_place(&mut bytes, layout.encoding().swap());
    bytes
}

/// The copy from the caller's memory into a decoded chunk, and where in the chunk it starts.
pub(crate) fn write_region(layout: &ArrayLayout, task: &Task, source: &[isize]) -> (Region, usize) {
    let (strides, offset) = within_chunk(layout, task);
    let encoding = layout.encoding();
    (Region::new(&task.count, &strides, source, encoding.element_size(), encoding.swap()), offset)
}

/// Writes one chunk's share of a request.
struct Writer<'a> {
    layout: &'a ArrayLayout,
    locks: &'a ChunkLocks,
    /// Where the first element comes from.
    src: *const u8,
    strides: &'a [isize],
    /// See [`stored_fill`].
    fill: &'a [u8],
    keep_empty: bool,
}

impl Writer<'_> {
    fn write(&self, scratch: &mut Scratch) -> Result<(), ArrayError> {
        let layout = self.layout;
        scratch.key.clear();
        let location = layout
            .locator()
            .locate(&scratch.task.chunk, &mut scratch.key)
            .map_err(|source| store_error(layout, &scratch.task, source))?;
        if let Location::Range { .. } = location {
            return Err(ArrayError::ReadOnly {
                array: layout.name().into(),
                chunk: scratch.task.chunk.to_vec(),
                key: scratch.key.clone(),
                why: "chunks that are a part of an object cannot be replaced",
            });
        }
        let (region, offset) = write_region(layout, &scratch.task, self.strides);
        let key = execute::key(layout, &scratch.task, &scratch.key)?;
        let _guard = self.locks.lock(layout.store().lock_id(key));
        match choose_write(layout.encoding(), &scratch.task, &region) {
            Strategy::Modify => self.modify(scratch, &region, offset),
            // SAFETY: the source covers the task's elements.
            _ if !self.keep_empty
                && unsafe {
                    strided::all_equal(&scratch.task.count, self.strides, layout.fill().bytes(), self.src)
                } =>
            {
                self.elide(scratch)
            }
            Strategy::WriteFrom => {
                // SAFETY: write-from is chosen only where the source is one run of a whole chunk.
                let chunk = unsafe { self.run() };
                self.put(scratch, chunk)
            }
            Strategy::EncodeFrom => {
                // SAFETY: as above.
                let chunk = unsafe { self.run() };
                self.encode(scratch, chunk)?;
                self.put(scratch, &scratch.encoded)
            }
            _ => self.gather(scratch, &region, offset),
        }
    }

    /// The source as one run of bytes.
    ///
    /// # Safety
    /// Only where the region is one run of a whole chunk.
    unsafe fn run(&self) -> &[u8] {
        // SAFETY: the source covers the task's elements, which are one run of this length.
        unsafe { std::slice::from_raw_parts(self.src, self.layout.encoding().decoded_size()) }
    }

    fn put(&self, scratch: &Scratch, bytes: &[u8]) -> Result<(), ArrayError> {
        let key = execute::key(self.layout, &scratch.task, &scratch.key)?;
        self.layout
            .store()
            .write(key, &[bytes])
            .map_err(|source| store_error(self.layout, &scratch.task, source))
    }

    fn elide(&self, scratch: &Scratch) -> Result<(), ArrayError> {
        let key = execute::key(self.layout, &scratch.task, &scratch.key)?;
        self.layout
            .store()
            .delete(key)
            .map(|_| ())
            .map_err(|source| store_error(self.layout, &scratch.task, source))
    }

    fn encode(&self, scratch: &mut Scratch, chunk: &[u8]) -> Result<(), ArrayError> {
        let Scratch { encoded, codec, task, key, .. } = scratch;
        self.layout
            .encoding()
            .chain()
            .encode(chunk, encoded, codec)
            .map_err(|source| codec_error(self.layout, task, key, source))
    }

    fn gather(&self, scratch: &mut Scratch, region: &Region, offset: usize) -> Result<(), ArrayError> {
        let encoding = self.layout.encoding();
        let inside: u64 = scratch.task.count.iter().product();
        let padded = inside as u128 * encoding.element_size() as u128 != encoding.decoded_size() as u128;
        let chunk = self.chunk(scratch)?;
        if padded {
            self.blank(chunk);
        }
        // SAFETY: the source covers the task's elements; the region lies within the chunk.
        unsafe { strided::copy(region, chunk.as_mut_ptr().wrapping_add(offset), self.src) };
        self.finish(scratch)
    }

    fn modify(&self, scratch: &mut Scratch, region: &Region, offset: usize) -> Result<(), ArrayError> {
        let layout = self.layout;
        self.load(scratch)?;
        let chunk = self.chunk(scratch)?;
        // SAFETY: the source covers the task's elements; the region lies within the chunk.
        unsafe { strided::copy(region, chunk.as_mut_ptr().wrapping_add(offset), self.src) };
        if !self.keep_empty {
            let start = chunk.as_ptr();
            // What lies beyond the array's end does not count: it is never read.
            let grid = layout.grid();
            let inside: Dims =
                (0..grid.rank()).map(|k| grid.inside(k, scratch.task.chunk[k], layout.shape()[k])).collect();
            // SAFETY: `chunk` is a whole decoded chunk, `inside` at most its shape.
            if unsafe { strided::all_equal(&inside, layout.encoding().strides(), self.fill, start) } {
                return self.elide(scratch);
            }
        }
        self.finish(scratch)
    }

    /// Brings the chunk as stored, or fill value, into `scratch.decoded`.
    fn load(&self, scratch: &mut Scratch) -> Result<(), ArrayError> {
        let layout = self.layout;
        let chain = layout.encoding().chain();
        let found = if chain.is_identity() {
            let key = execute::key(layout, &scratch.task, &scratch.key)?;
            let len = chain.decoded_size();
            let chunk = sized(&mut scratch.decoded, len).ok_or_else(|| self.no_memory())?;
            layout
                .store()
                .read_exact(key, chunk)
                .map_err(|source| store_error(layout, &scratch.task, source))?
        } else if fetch(layout, scratch, Location::Object)? {
            if chain.only_frames() {
                // The payload lies in the encoded bytes; overlaying needs it in a buffer of its own.
                let encoded = std::mem::take(&mut scratch.encoded);
                let payload = chain.payload(&encoded, true).unwrap_or(Ok(&[]));
                let copied = payload
                    .map_err(|source| codec_error(layout, &scratch.task, &scratch.key, source))
                    .and_then(|payload| {
                        self.chunk(scratch)?.copy_from_slice(payload);
                        Ok(())
                    });
                scratch.encoded = encoded;
                copied?;
            } else {
                // A chunk that fails its checksum must not be written back with a good one: always verified.
                decoded(layout, scratch, true)?;
            }
            true
        } else {
            false
        };
        if !found {
            self.blank(self.chunk(scratch)?);
        }
        Ok(())
    }

    /// The chunk buffer, with stale contents unless [`Writer::load`] ran.
    fn chunk<'s>(&self, scratch: &'s mut Scratch) -> Result<&'s mut [u8], ArrayError> {
        sized(&mut scratch.decoded, self.layout.encoding().decoded_size()).ok_or_else(|| self.no_memory())
    }

    fn no_memory(&self) -> ArrayError {
        memory_error(self.layout, "a chunk", self.layout.encoding().decoded_size() as u64)
    }

    /// Fills a chunk with fill value.
    fn blank(&self, chunk: &mut [u8]) {
        let Some(elements) = chunk.len().checked_div(self.fill.len()) else { return };
        // SAFETY: the chunk is that many elements, one behind the other.
        unsafe {
            strided::fill(&[elements as u64], &[self.fill.len() as isize], self.fill, chunk.as_mut_ptr())
        };
    }

    /// Encodes and writes the chunk in `scratch.decoded`.
    fn finish(&self, scratch: &mut Scratch) -> Result<(), ArrayError> {
        let Some(chunk) = scratch.decoded.take() else { return Err(self.no_memory()) };
        let bytes = &chunk.as_slice()[..self.layout.encoding().decoded_size()];
        let outcome = if self.layout.encoding().chain().is_identity() {
            self.put(scratch, bytes)
        } else {
            self.encode(scratch, bytes).and_then(|()| self.put(scratch, &scratch.encoded))
        };
        scratch.decoded = Some(chunk);
        outcome
    }
}
