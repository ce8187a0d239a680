//! Encodes single chunks of an array as a Zarr array stores them.

use super::Paths;
use super::blocks::Block;
use super::mover::Mover;
use super::region::Window;
use super::stored_blocks;
use super::structures::Repack;
use super::transfer::{Job, wrong_size};
use crate::{
    Array, Dims, Error, Json, Key, MemoryStore, Result, Source, Store, WriteOptions, settings, zarr,
};
use hyperslab_array::{ArrayError, element_count};
use hyperslab_codec::room;
use hyperslab_store::Ask;
use std::sync::Arc;

/// The chunks of an array in the encoding of a Zarr document.
#[derive(Clone, Debug)]
pub(crate) struct OneChunk {
    source: Array,
    format: zarr::Format,
    /// The text of the document, with the shape of one chunk.
    document: String,
    chunk: Dims,
    /// Copies of a chunk in memory, for those that make one.
    copies: usize,
}

impl OneChunk {
    /// `document`: the metadata of an array with chunks of shape `chunk`; `copies`: how often the
    /// caller has a chunk in memory.
    pub(crate) fn new(
        source: &Array,
        (format, document): (zarr::Format, &Json),
        chunk: &[u64],
        copies: usize,
    ) -> Self {
        let mut document = document.clone();
        document.set("shape", chunk.into());
        OneChunk {
            source: source.clone(),
            format,
            document: document.to_text(None),
            chunk: chunk.into(),
            copies,
        }
    }

    /// Encodes a chunk: the elements at its place in the grid, and `rest` elsewhere.
    /// Without `place` all elements are `rest`, an element as the Zarr array has it in memory.
    /// Without `rest` the others are the fill value of the document.
    pub(crate) fn encode(
        &self,
        place: Option<&[u64]>,
        rest: Option<&[u8]>,
        ask: Option<Ask<'_>>,
    ) -> Result<Vec<u8>> {
        let size = self.source.dtype().size() as u64;
        let bytes = element_count(&self.chunk).and_then(|n| n.checked_mul(size)).unwrap_or(u64::MAX);
        if !room::for_copies(usize::try_from(bytes).unwrap_or(usize::MAX), self.copies) {
            let (array, what) = (self.source.name(), "a chunk that is encoded for Zarr");
            return Err(ArrayError::Memory { array, what, bytes }.into());
        }
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let target = self.target(store.clone())?;
        if let Some(rest) = rest {
            let options =
                WriteOptions { write_empty_chunks: Some(true), interrupt: ask, ..WriteOptions::default() };
            target.write(&target.select(&[])?, &Source::repeated(rest, &self.chunk), options)?;
        }
        if let Some(place) = place {
            self.copy(target, place, ask)?;
        }
        let mut object = Vec::new();
        for key in store.list(None)? {
            store.read_all(Key::new(&key)?, &mut object, usize::MAX)?;
        }
        Ok(object)
    }

    /// Returns `true` if elements that were never written differ from absent elements of the Zarr
    /// array.
    pub(crate) fn fills_differ(&self) -> Result<bool> {
        let target = self.target(Arc::new(MemoryStore::new()))?;
        stored_blocks::fills_differ(&self.job(target, Window::whole(&self.chunk))?)
    }

    /// A Zarr array of one chunk.
    fn target(&self, store: Arc<dyn Store>) -> Result<Array> {
        Ok(zarr::Array::of_document(store, "", self.format, self.document.as_bytes())?.into())
    }

    fn job(&self, target: Array, window: Window) -> Result<Job> {
        let (name, source) = (self.source.name(), self.source.clone());
        let repack = target.structure().map(|structure| Repack::new(&source, structure)).transpose();
        let repack = repack.map_err(|why| Error::Copy { array: name.clone(), why })?.flatten();
        Ok(Job { name, source, target, stored: 0, repack, window, is_new: true })
    }

    /// Copies the elements at a place of the grid.
    fn copy(&self, target: Array, place: &[u64], ask: Option<Ask<'_>>) -> Result<()> {
        let from: Dims = place.iter().zip(&self.chunk).map(|(at, chunk)| at.saturating_mul(*chunk)).collect();
        let axes = from.iter().zip(&self.chunk).zip(self.source.shape());
        let shape: Dims = axes.map(|((from, chunk), n)| n.saturating_sub(*from).min(*chunk)).collect();
        let job = self.job(target, Window { from, shape: shape.clone(), ..Window::whole(&self.chunk) })?;
        let stop = || ask.is_some_and(|ask| ask());
        let mover = Mover::new(&job, (&job.source, &job.target), settings::threads(), &stop);
        let mover = Mover { keeps_fill: true, verify: None, ..mover };
        let block = Block { first: Dims::from_elem(0, shape.len()), len: shape };
        match job.target.vlen() {
            Some(kind) => mover.copy_ragged(&block, &mut Paths::new(), kind, None).map(|_| ()),
            None => {
                let len = block.bytes(job.source.dtype().size()).ok_or_else(wrong_size)?;
                let mut bytes = room::zeros(len).ok_or_else(wrong_size)?;
                mover.copy(&block, [None, None], &mut bytes, len, None)
            }
        }
    }
}
