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
use std::sync::Arc;

/// The chunks of an array in the encoding of a Zarr document.
#[derive(Clone, Debug)]
pub(crate) struct OneChunk {
    source: Array,
    format: zarr::Format,
    /// The text of the document, with the shape of one chunk.
    document: String,
    chunk: Dims,
    /// Number of copies of a chunk in memory.
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
    pub(crate) fn encode(&self, place: Option<&[u64]>, rest: Option<&[u8]>) -> Result<Vec<u8>> {
        let size = self.source.dtype().size() as u64;
        let bytes = element_count(&self.chunk).and_then(|n| n.checked_mul(size)).unwrap_or(u64::MAX);
        if !room::for_copies(usize::try_from(bytes).unwrap_or(usize::MAX), self.copies) {
            let (array, what) = (self.source.name(), "a chunk that is encoded for Zarr");
            return Err(ArrayError::Memory { array, what, bytes }.into());
        }
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let target = self.target(store.clone())?;
        if let Some(rest) = rest {
            let options = WriteOptions { write_empty_chunks: Some(true), ..WriteOptions::default() };
            target.write(&target.select(&[])?, &Source::repeated(rest, &self.chunk), options)?;
        }
        if let Some(place) = place {
            self.copy(target, place)?;
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
        Ok(Job { name, source, target, stored: 0, repack, window, is_new: true, is_fresh: true })
    }

    /// Copies the elements at a place of the grid.
    fn copy(&self, target: Array, place: &[u64]) -> Result<()> {
        let from: Dims = place.iter().zip(&self.chunk).map(|(at, chunk)| at.saturating_mul(*chunk)).collect();
        let axes = from.iter().zip(&self.chunk).zip(self.source.shape());
        let shape: Dims = axes.map(|((from, chunk), n)| n.saturating_sub(*from).min(*chunk)).collect();
        let job = self.job(target, Window { from, shape: shape.clone(), ..Window::whole(&self.chunk) })?;
        let mover = Mover::new(&job, (&job.source, &job.target), (settings::threads(), 1), &|| false);
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

#[cfg(test)]
mod tests {
    use super::*;
    use hyperslab_codec::{ByteOrder, BytesCodec};
    use hyperslab_zarr::{ArraySpec, Choice};

    fn array(fill: i32) -> zarr::Array {
        let mut spec = ArraySpec::new(zarr::Format::V3, &[5], "<i4".parse().unwrap());
        spec.chunks = Some([2].as_slice().into());
        spec.serializer = Choice::Set(Json::from(&BytesCodec::metadata(Some(ByteOrder::Big))));
        spec.compressors = Choice::Set(Vec::new());
        spec.fill = Some(fill.to_le_bytes().to_vec());
        zarr::Array::create(Arc::new(MemoryStore::new()), "", spec, false).unwrap()
    }

    fn one_chunk(source_fill: i32, fill: i32) -> OneChunk {
        let source: Array = array(source_fill).into();
        source.write_slice(&[], &[0, 1, 7, 7, 4]).unwrap();
        OneChunk::new(&source, (zarr::Format::V3, array(fill).to_json()), &[2], 3)
    }

    fn numbers(object: &[u8]) -> Vec<i32> {
        object.chunks_exact(4).map(|bytes| i32::from_be_bytes(bytes.try_into().unwrap())).collect()
    }

    #[test]
    fn chunks_are_encoded_alone() {
        let one = one_chunk(7, 7);
        let encode = |place: Option<&[u64]>, rest: Option<i32>| {
            let rest = rest.map(i32::to_ne_bytes);
            numbers(&one.encode(place, rest.as_ref().map(|rest| &rest[..])).unwrap())
        };
        assert_eq!(encode(Some(&[0]), None), [0, 1]);
        // A chunk of fill value has its bytes, too.
        assert_eq!(encode(Some(&[1]), None), [7, 7]);
        assert_eq!(encode(None, Some(7)), [7, 7]);
        // Beyond the end of the array.
        assert_eq!(encode(Some(&[2]), None), [4, 7]);
        assert_eq!(encode(Some(&[2]), Some(9)), [4, 9]);
    }

    #[test]
    fn fill_values_are_compared() {
        assert!(!one_chunk(7, 7).fills_differ().unwrap());
        assert!(one_chunk(0, 7).fills_differ().unwrap());
    }

    #[test]
    fn chunks_larger_than_memory_are_errors() {
        let one = one_chunk(7, 7);
        let one = OneChunk { chunk: [u64::MAX / 8].as_slice().into(), ..one };
        let error = one.encode(Some(&[0]), None).unwrap_err().to_string();
        assert!(error.contains("a chunk that is encoded for Zarr"), "{error}");
    }
}
