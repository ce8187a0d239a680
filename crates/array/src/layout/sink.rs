//! A format's answer to the question where the chunks of a write go.
//!
//! A write of a Zarr chunk replaces an object of a store. A chunk of HDF5 is a part of a file, and
//! the file has an index of chunks. There, a [`ChunkSink`] takes encoded chunks. It keeps decoded
//! chunks in memory to change parts of them.

use crate::error::LocateError;
use crate::layout::ArrayLayout;
use crate::layout::fill::FillValue;
use hyperslab_codec::{CodecError, Scratch};
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Takes the chunks of writes to an array.
pub trait ChunkSink: Debug + Send + Sync {
    /// Begins a write. If elements cannot be written, this fails, and nothing has changed.
    ///
    /// `covers`: all elements of the array are going to be written.
    fn begin(&self, covers: bool) -> Result<Box<dyn SinkWrite + '_>, LocateError>;

    /// Notes that a read is under way, until the result is dropped. `None`: this makes no
    /// difference.
    fn reading(&self) -> Option<Reading> {
        None
    }
}

/// Counts a read while it is under way.
#[derive(Debug)]
pub struct Reading(Arc<AtomicUsize>);

impl Reading {
    /// Counts a read.
    pub fn new(count: Arc<AtomicUsize>) -> Reading {
        count.fetch_add(1, Ordering::SeqCst);
        Reading(count)
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The bytes of a whole chunk.
#[derive(Debug)]
pub enum WholeChunk<'a> {
    /// Memory of the caller, which may change later.
    Lent(&'a [u8]),
    /// The sink may keep this memory. Then it leaves other memory here.
    Given(&'a mut Vec<u8>),
}

impl WholeChunk<'_> {
    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            WholeChunk::Lent(bytes) => bytes,
            WholeChunk::Given(bytes) => bytes,
        }
    }
}

/// One write. The engine calls it from several threads, once for each chunk of the request.
///
/// Chunks are named by their place in the grid of [`SinkWrite::layout`], and numbered in the order
/// of the request. A write that is dropped without [`SinkWrite::finish`] has failed.
pub trait SinkWrite: Sync {
    /// The array as chunks are written. It has the array's shape and elements, and may have another
    /// grid.
    fn layout(&self) -> &ArrayLayout;

    /// Returns `true` if the elements of a chunk beyond the end of the array do not matter. Then a
    /// chunk is whole if all of its elements inside the array are written.
    fn ends_at_shape(&self) -> bool;

    /// Number of the turn that excludes other writers of this chunk.
    fn turn(&self, chunk: &[u64]) -> u64;

    /// Asks whether elements can be written that are one run of `len` bytes, in C order, from byte
    /// `first` of the array on. Returns the bytes of a piece for [`SinkWrite::put_run`], about `most`.
    ///
    /// `None`, the default: write them chunk by chunk.
    fn run_piece(&self, _first: u64, _len: usize, _most: usize) -> Option<usize> {
        None
    }

    /// Writes the next piece of a run. See [`SinkWrite::run_piece`].
    fn put_run(&self, _first: u64, _bytes: &[u8]) -> Result<(), LocateError> {
        Err("a run of elements that was not asked for".into())
    }

    /// Prepares for the chunks from number `start` on, which come next: are they whole?
    ///
    /// Called if chunks have no codecs.
    fn expect(&self, _start: usize, _whole: &[bool]) -> Result<(), LocateError> {
        Ok(())
    }

    /// Encodes a whole chunk. Returns the codecs that were skipped, as in
    /// [`Location::Range`](crate::Location::Range).
    ///
    /// `lent`: other threads may change `chunk` meanwhile.
    fn encode(
        &self,
        chunk: &[u8],
        lent: bool,
        encoded: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<u32, CodecError>;

    /// Takes a whole chunk, encoded.
    fn put(
        &self,
        number: usize,
        chunk: &[u64],
        bytes: WholeChunk<'_>,
        skipped: u32,
    ) -> Result<(), LocateError>;

    /// Lends a decoded chunk to `change`, which writes some of its elements.
    fn change(
        &self,
        number: usize,
        chunk: &[u64],
        scratch: &mut Scratch,
        change: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), LocateError>;

    /// Called on the caller's thread between blocks of [`SinkWrite::block`] chunks.
    fn pause(&self) -> Result<(), LocateError> {
        Ok(())
    }

    /// Number of chunks in a block: memory is bounded by their size.
    fn block(&self) -> usize;

    /// Ends the write: all chunks are there. Readers see whole chunks from now on.
    fn finish(self: Box<Self>) -> Result<(), LocateError>;
}

/// The sink of an array of element parts, which has one more axis.
#[derive(Debug)]
pub(crate) struct PartSink {
    pub(crate) sink: Arc<dyn ChunkSink>,
    pub(crate) part: Range<usize>,
    pub(crate) fill: FillValue,
}

struct PartWrite<'s> {
    write: Box<dyn SinkWrite + 's>,
    layout: ArrayLayout,
}

impl ChunkSink for PartSink {
    fn begin(&self, _: bool) -> Result<Box<dyn SinkWrite + '_>, LocateError> {
        let write = self.sink.begin(false)?;
        let part = write.layout().part(self.part.clone(), true);
        let layout = part.ok_or("a part of each element cannot be written here")?.layout().clone();
        let layout = ArrayLayout { whole_fill: Some(self.fill.clone()), ..layout };
        Ok(Box::new(PartWrite { write, layout }))
    }

    fn reading(&self) -> Option<Reading> {
        self.sink.reading()
    }
}

impl PartWrite<'_> {
    /// The place of a chunk in the array of whole elements.
    fn of_whole<'c>(&self, chunk: &'c [u64]) -> &'c [u64] {
        chunk.split_last().map_or(chunk, |(_, whole)| whole)
    }
}

impl SinkWrite for PartWrite<'_> {
    fn layout(&self) -> &ArrayLayout {
        &self.layout
    }

    fn ends_at_shape(&self) -> bool {
        self.write.ends_at_shape()
    }

    fn turn(&self, chunk: &[u64]) -> u64 {
        self.write.turn(self.of_whole(chunk))
    }

    fn expect(&self, start: usize, whole: &[bool]) -> Result<(), LocateError> {
        self.write.expect(start, whole)
    }

    fn encode(
        &self,
        chunk: &[u8],
        lent: bool,
        encoded: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<u32, CodecError> {
        self.write.encode(chunk, lent, encoded, scratch)
    }

    fn put(
        &self,
        number: usize,
        chunk: &[u64],
        bytes: WholeChunk<'_>,
        skipped: u32,
    ) -> Result<(), LocateError> {
        self.write.put(number, self.of_whole(chunk), bytes, skipped)
    }

    fn change(
        &self,
        number: usize,
        chunk: &[u64],
        scratch: &mut Scratch,
        change: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), LocateError> {
        self.write.change(number, self.of_whole(chunk), scratch, change)
    }

    fn pause(&self) -> Result<(), LocateError> {
        self.write.pause()
    }

    fn block(&self) -> usize {
        self.write.block()
    }

    fn finish(self: Box<Self>) -> Result<(), LocateError> {
        self.write.finish()
    }
}
