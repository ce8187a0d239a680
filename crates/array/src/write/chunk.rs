//! One chunk's share of a write: what all strategies need, and how the result is stored.

#![expect(
    clippy::indexing_slicing,
    reason = "a decoded chunk is as long as the encoding says; axes are below the rank"
)]

use crate::copy::gather;
use crate::copy::gather::Direction;
use crate::copy::places::Places;
use crate::copy::strided;
use crate::copy::strided::Region;
use crate::costs;
use crate::error::ArrayError;
use crate::execute::gate::Gate;
use crate::execute::scratch::{Scratch, resize_slot};
use crate::execute::tasks;
use crate::execute::tasks::{codec_error, memory_error, store_error};
use crate::layout::ArrayLayout;
use crate::layout::locate::Location;
use crate::plan::task::Task;
use crate::plan::task::within_chunk;
use crate::runtime::memory::Memory;
use crate::write::blanks::{Blanks, Presence};
use crate::write::strategies;
use crate::write::strategies::modify::MODIFY;
use hyperslab_codec::{self as codec, CodecChain, CodecError};
use hyperslab_store::{Ask, Expected, Opened};

/// The copy from the caller's memory into a decoded chunk, and where it starts in the chunk.
pub(crate) fn write_region(layout: &ArrayLayout, task: &Task, source: &[isize]) -> (Region, usize) {
    let (strides, offset) = within_chunk(layout, task);
    let encoding = layout.encoding();
    (Region::new(&task.count, &strides, source, encoding.element_size(), encoding.swap()), offset)
}

/// The stored bytes of a chunk before it is written.
#[derive(Clone, Copy)]
pub(crate) enum Old<'a> {
    /// The object at the task's key, if there is one.
    Stored,
    /// These bytes; `None`: the chunk did not exist.
    Bytes(Option<&'a [u8]>),
    /// The contents of this object; `None`: the chunk did not exist.
    Opened(Option<&'a dyn Opened>),
}

/// The outcome of a strategy: which bytes to store for a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Produced {
    /// Nothing: it holds only fill value.
    Nothing,
    /// The caller's memory, as it is.
    Source,
    /// [`Scratch::encoded`].
    Encoded,
    /// The chunk in [`Scratch::decoded`], as it is.
    Decoded,
}

/// How a chunk is encoded.
type Encode = fn(&CodecChain, &[u8], &mut Vec<u8>, &mut codec::Scratch) -> Result<(), CodecError>;

/// Writes one chunk's share of a request.
pub(crate) struct ChunkWriter<'a> {
    pub(crate) layout: &'a ArrayLayout,
    /// The task's first element in the caller's memory.
    pub(crate) src: *const u8,
    pub(crate) strides: &'a [isize],
    /// The points of the task, if there are any. The region is copied at each of them.
    pub(crate) places: &'a [Places<'a>],
    /// See [`stored_fill`].
    pub(crate) fill: &'a [u8],
    pub(crate) presence: Presence<'a>,
    /// Takes this task, by its number, if its object may have to be deleted.
    pub(crate) blanks: Option<(&'a Blanks, usize)>,
    pub(crate) keep_empty: bool,
    /// Limits how many threads encode at once.
    pub(crate) gate: Option<&'a Gate>,
    /// See [`WriteOptions::still`](crate::write::WriteOptions::still).
    pub(crate) still: Option<&'a (dyn Fn() -> bool + Sync)>,
}

impl ChunkWriter<'_> {
    pub(crate) fn write(&self, scratch: &mut Scratch, ask: Ask<'_>) -> Result<(), ArrayError> {
        let layout = self.layout;
        let location = layout.locate(&scratch.task.chunk, &mut scratch.key)?;
        if let Location::Range { .. } = location {
            return Err(ArrayError::ReadOnly {
                array: layout.name().into(),
                chunk: scratch.task.chunk.to_vec(),
                key: scratch.key.clone(),
                why: "chunks that are a part of an object cannot be replaced",
            });
        }
        let key = tasks::key(layout, &scratch.task, &scratch.key)?;
        let _turn = tasks::take(layout, &scratch.task, key, Some(ask))?;
        let (region, offset) = write_region(layout, &scratch.task, self.strides);
        let strategy = strategies::choose(self, &scratch.task, &region);
        let covers = strategy.reads_old && scratch.task.covers(layout.grid(), layout.shape());
        let done = if strategy.reads_old && layout.store().facts().is_shared {
            self.modify_shared(covers, scratch, &region, offset, ask)
        } else {
            let produced = (strategy.produce)(self, scratch, &region, offset, Old::Stored);
            produced.and_then(|produced| self.put(scratch, produced, Expected::Any, None).map(|_| ()))
        };
        match done {
            // The write covers all that this handle knows of the chunk. Damaged bytes cannot be
            // kept.
            Err(error) if covers && error.is_damage() => {
                let produced = (strategy.produce)(self, scratch, &region, offset, Old::Bytes(None))?;
                self.put(scratch, produced, Expected::Any, None).map(|_| ())
            }
            done => done,
        }
    }

    /// Stores the strategy's result, if the stored object is as expected.
    ///
    /// Otherwise returns `false`, and nothing has changed. The store may keep the memory of encoded
    /// bytes.
    fn put(
        &self,
        scratch: &mut Scratch,
        produced: Produced,
        expected: Expected<'_>,
        ask: Option<Ask<'_>>,
    ) -> Result<bool, ArrayError> {
        let (layout, store) = (self.layout, self.layout.store());
        let key = tasks::key(layout, &scratch.task, &scratch.key)?;
        let done = match (produced, expected) {
            (Produced::Encoded, _) => store.swap_owned(key, expected, &mut scratch.encoded, ask),
            (Produced::Source | Produced::Decoded, _) => {
                store.swap(key, expected, self.bytes(scratch, produced).as_slice(), ask)
            }
            (Produced::Nothing, Expected::Absent) => Ok(true),
            (Produced::Nothing, Expected::Any) if self.presence.is_absent(key.as_str()) => Ok(true),
            (Produced::Nothing, Expected::Any) if let Some((blanks, number)) = self.blanks => {
                blanks.add_whole(number);
                Ok(true)
            }
            // It does not matter whether there was an object, so do not ask a server.
            (Produced::Nothing, Expected::Any) => store.delete_all(&[key], None).map(|()| true),
            (Produced::Nothing, _) => store.swap_out(key, expected, ask),
        };
        done.map_err(|source| store_error(layout, &scratch.task, source))
    }

    /// Changes a part of a chunk that other processes may change at the same time.
    ///
    /// The new chunk replaces exactly the one that was read. If another writer was faster, starts
    /// again with the new contents. After some attempts, excludes other writers first. `covers`
    /// means that all of the chunk inside the array is written.
    fn modify_shared(
        &self,
        covers: bool,
        scratch: &mut Scratch,
        region: &Region,
        offset: usize,
        ask: Ask<'_>,
    ) -> Result<(), ArrayError> {
        if covers
            && !self.layout.store().cost().looks_are_cheap()
            && self.put_first(scratch, region, offset, ask)?
        {
            return Ok(());
        }
        let mut key = std::mem::take(&mut scratch.open_key);
        key.clone_from(&scratch.key);
        let (mut tries, mut changes) = (0, 0);
        let done = loop {
            let done = self.modify_once(&key, tries >= costs::PATIENCE, scratch, region, offset, ask);
            match tasks::or_again(done, &mut changes) {
                Ok(false) if ask() => break Err(tasks::interrupted_error(self.layout)),
                Ok(false) => tries += 1,
                Ok(true) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        scratch.open_key = key;
        done
    }

    /// Stores a chunk whose elements inside the array are all written, if none is stored yet.
    ///
    /// Mostly there is none, and a server tells that in its answer to the write. Returns `false` if
    /// there may be one.
    fn put_first(
        &self,
        scratch: &mut Scratch,
        region: &Region,
        offset: usize,
        ask: Ask<'_>,
    ) -> Result<bool, ArrayError> {
        let produced = (MODIFY.produce)(self, scratch, region, offset, Old::Opened(None))?;
        match produced {
            Produced::Nothing if let Some((blanks, number)) = self.blanks => {
                blanks.add_edge(number);
                Ok(true)
            }
            Produced::Nothing => Ok(self.presence.is_absent(&scratch.key)),
            _ if self.presence.is_present(&scratch.key) => Ok(false),
            _ => self.put(scratch, produced, Expected::Absent, Some(ask)),
        }
    }

    /// Changes a part of the chunk `key`. With `exclude`, other writers wait meanwhile.
    ///
    /// Returns `false` if another writer was faster, and nothing has changed.
    fn modify_once(
        &self,
        key: &str,
        exclude: bool,
        scratch: &mut Scratch,
        region: &Region,
        offset: usize,
        ask: Ask<'_>,
    ) -> Result<bool, ArrayError> {
        let (layout, store) = (self.layout, &**self.layout.store());
        let key = tasks::key(layout, &scratch.task, key)?;
        let lock = match exclude.then(|| store.lock(key, Some(ask))).transpose() {
            Ok(lock) => lock,
            Err(source) => return Err(store_error(layout, &scratch.task, source)),
        };
        let locked = lock.as_ref().is_some_and(|lock| lock.is_held());
        let mut change = |opened: Option<&dyn Opened>| {
            let produced = (MODIFY.produce)(self, scratch, region, offset, Old::Opened(opened))?;
            let expected = match opened {
                None => Expected::Absent,
                Some(opened) if locked => Expected::Locked(opened),
                Some(opened) => Expected::Same(opened),
            };
            if self.still.is_some_and(|still| !still()) {
                return Err(tasks::interrupted_error(layout));
            }
            self.put(scratch, produced, expected, Some(ask))
        };
        let chain = layout.encoding().chain();
        let size = chain.is_identity().then_some(chain.decoded_size() as u64);
        let mut done = Ok(false);
        let opened = store.with_open(key, size, &mut |opened| done = change(opened));
        opened.map_err(|source| store_error(layout, &scratch.task, source))?;
        done
    }

    /// Produces the bytes to store for the chunk of `scratch.task`.
    pub(crate) fn produce(&self, scratch: &mut Scratch, old: Old<'_>) -> Result<Produced, ArrayError> {
        let layout = self.layout;
        let (region, offset) = write_region(layout, &scratch.task, self.strides);
        let strategy = strategies::choose(self, &scratch.task, &region);
        match (strategy.produce)(self, scratch, &region, offset, old) {
            // See `write`.
            Err(error) if error.is_damage() && scratch.task.covers(layout.grid(), layout.shape()) => {
                (strategy.produce)(self, scratch, &region, offset, Old::Bytes(None))
            }
            produced => produced,
        }
    }

    /// The bytes that were produced; `None` if there is nothing to store.
    pub(crate) fn bytes<'s>(&'s self, scratch: &'s Scratch, produced: Produced) -> Option<&'s [u8]> {
        let size = self.layout.encoding().decoded_size();
        match produced {
            Produced::Nothing => None,
            // SAFETY: write-from is chosen only if the source is one row of a whole chunk.
            Produced::Source => Some(unsafe { self.source_row() }),
            Produced::Encoded => Some(&scratch.encoded),
            Produced::Decoded => {
                Some(scratch.decoded.as_ref().map_or(&[], |chunk| &chunk.as_slice()[..size]))
            }
        }
    }

    /// Returns whether the task is a whole chunk that is the same row of bytes in the caller's
    /// memory.
    ///
    /// Never true for a chunk that reaches past the array's end: it needs padding.
    pub(crate) fn is_one_row(&self, task: &Task, region: &Region) -> bool {
        let encoding = self.layout.encoding();
        task.picks.is_empty()
            && region.contiguous_len() == Some(encoding.decoded_size())
            && encoding.swap() == 1
    }

    /// The source as one row of bytes.
    ///
    /// # Safety
    /// Only if [`ChunkWriter::is_one_row`].
    pub(crate) unsafe fn source_row(&self) -> &[u8] {
        // SAFETY: the source covers the task's elements, which are one row of this length.
        unsafe { std::slice::from_raw_parts(self.src, self.layout.encoding().decoded_size()) }
    }

    /// Encodes a chunk into `scratch.encoded`.
    ///
    /// `encode` is [`CodecChain::encode_lent`] for the caller's memory, which other threads may
    /// change, and [`CodecChain::encode`] for ours.
    pub(crate) fn encode(
        &self,
        scratch: &mut Scratch,
        chunk: &[u8],
        encode: Encode,
    ) -> Result<(), ArrayError> {
        let Scratch { encoded, codec, task, key, .. } = scratch;
        let _inside = self.gate.map(Gate::enter);
        encode(self.layout.encoding().chain(), chunk, encoded, codec)
            .map_err(|source| codec_error(self.layout, task, key, source))
    }

    /// Copies the task's elements into a chunk.
    ///
    /// # Safety
    /// The source must cover the task's elements. `region` at `offset` must lie within the chunk,
    /// at each of the places.
    pub(crate) unsafe fn overlay(&self, region: &Region, chunk: &mut [u8], offset: usize) {
        // SAFETY: as promised by the caller.
        unsafe {
            gather::copy(
                self.places,
                Direction::Write,
                region,
                chunk.as_mut_ptr().wrapping_add(offset),
                self.src,
            )
        };
    }

    /// Returns whether a chunk holds only fill value, also past the array's end: others may have
    /// made the array longer.
    pub(crate) fn is_blank(&self, chunk: Option<&Memory>) -> bool {
        let Some(chunk) = chunk else { return false };
        let Some(elements) = self.layout.encoding().decoded_size().checked_div(self.fill.len()) else {
            return false;
        };
        let (counts, strides) = ([elements as u64], [self.fill.len() as isize]);
        // SAFETY: `chunk` is a whole decoded chunk: that many elements, one after the other.
        unsafe { strided::all_equal(&counts, &strides, self.fill, chunk.as_slice().as_ptr()) }
    }

    /// Decodes stored bytes into `scratch.decoded`. Always verifies checksums: a damaged chunk must
    /// not be written back with a good checksum.
    pub(crate) fn decode(&self, scratch: &mut Scratch, encoded: &[u8]) -> Result<(), ArrayError> {
        let layout = self.layout;
        let Scratch { decoded, codec, task, key, .. } = scratch;
        let chunk = resize_slot(decoded, layout.encoding().decoded_size()).ok_or_else(|| self.no_memory())?;
        let outcome = layout.encoding().chain().decode(encoded, chunk, codec, true);
        outcome.map_err(|source| codec_error(layout, task, key, source))
    }

    /// The chunk buffer. Its contents are stale unless [`ChunkWriter::load`] ran.
    pub(crate) fn buffer<'s>(&self, scratch: &'s mut Scratch) -> Result<&'s mut [u8], ArrayError> {
        resize_slot(&mut scratch.decoded, self.layout.encoding().decoded_size())
            .ok_or_else(|| self.no_memory())
    }

    pub(crate) fn no_memory(&self) -> ArrayError {
        memory_error(self.layout, "a chunk", self.layout.encoding().decoded_size() as u64)
    }

    /// Fills a chunk with fill value.
    pub(crate) fn write_fill_value(&self, chunk: &mut [u8]) {
        let Some(elements) = chunk.len().checked_div(self.fill.len()) else { return };
        // SAFETY: the chunk is that many elements, one after the other.
        unsafe {
            strided::fill(&[elements as u64], &[self.fill.len() as isize], self.fill, chunk.as_mut_ptr())
        };
    }

    /// Encodes the chunk in `scratch.decoded`, if there are codecs.
    pub(crate) fn finish(&self, scratch: &mut Scratch) -> Result<Produced, ArrayError> {
        if self.layout.encoding().chain().is_identity() {
            return Ok(Produced::Decoded);
        }
        let Some(chunk) = scratch.decoded.take() else { return Err(self.no_memory()) };
        let whole = &chunk.as_slice()[..self.layout.encoding().decoded_size()];
        let outcome = self.encode(scratch, whole, CodecChain::encode);
        scratch.decoded = Some(chunk);
        outcome.map(|()| Produced::Encoded)
    }
}
