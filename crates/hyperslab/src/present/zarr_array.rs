//! An array of Zarr v2 as the objects of a Zarr v3 array.

use super::filters::{is_standard, quick_codec};
use crate::copy::{OneChunk, as_zarr_v3, zarr_spec};
use crate::meaning::Meaning;
use crate::{Array, ArraySpec, Choice, Dims, Format, Node, Result, zarr};
use hyperslab_store::{Key, MemoryStore};
use std::sync::Arc;

/// Copies of a chunk in memory while it is encoded: elements, a chunk of them, the object.
const COPIES: usize = 3;

/// An array of Zarr v2, described as Zarr v3.
///
/// The document is the one that a copy with the same chunks and codecs has. If equal bytes
/// mean equal elements in the array and in the document, chunks are the stored objects. If not, chunks
/// are encoded when they are read.
#[derive(Debug)]
pub struct TranslatedArray {
    array: Array,
    document: String,
    keys: zarr::KeyEncoding,
    /// Chunks per axis.
    counts: Dims,
    /// `true`: stored objects are chunks in the document's encoding.
    keeps_bytes: bool,
    /// `true`: elements that were never written differ from the fill value of the document.
    fills_differ: bool,
    one: OneChunk,
}

/// The bytes of a chunk of a [`TranslatedArray`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TranslatedChunk {
    /// They are the object with this key in the array's store.
    Stored(String),
    /// They must be encoded: see [`TranslatedArray::encode`].
    Encoded,
}

impl TranslatedArray {
    /// Describes an array. Fails with [`crate::Error::Copy`] if Zarr v3 does not have its elements.
    pub fn new(array: Array) -> Result<Self> {
        let meaning = Meaning::of(&Node::Array(array.clone()), std::iter::once(&array))?;
        let variable = meaning.variable(&array)?;
        let spec = as_zarr_v3(&array, variable.as_ref())?;
        let create = |spec| zarr::Array::create(Arc::new(MemoryStore::new()), "", spec, false);
        let mut made = create(spec)?;
        if let (false, Some(variable)) = (made.chunk_codecs().iter().all(is_standard), &variable) {
            // Few readers of Zarr v3 have numcodecs' codecs.
            let chunks = array.chunk_shape();
            let spec = zarr_spec(&array.name(), &array, variable, Format::ZarrV3, chunks)?;
            made = create(ArraySpec { compressors: Choice::Set(vec![quick_codec()]), ..spec })?;
        }
        let (own, its) = (array.layout(), made.layout());
        let one = OneChunk::new(&array, (zarr::Format::V3, made.to_json()), array.chunk_shape(), COPIES);
        Ok(TranslatedArray {
            counts: its.grid().counts(its.shape()),
            keeps_bytes: array.vlen().is_none() && array.structure().is_none() && own.decodes_like(its),
            fills_differ: one.fills_differ()?,
            keys: made.key_encoding().clone(),
            document: made.to_json().to_text(None),
            array,
            one,
        })
    }

    /// The text of `zarr.json`.
    pub fn document(&self) -> &str {
        &self.document
    }

    /// The array as it is stored.
    pub fn array(&self) -> &Array {
        &self.array
    }

    /// The keys of chunks, below the array.
    pub fn keys(&self) -> &zarr::KeyEncoding {
        &self.keys
    }

    /// Finds the bytes of a chunk. `None`: nothing is stored, and all elements are fill value.
    pub fn find(&self, place: &[u64]) -> Result<Option<TranslatedChunk>> {
        let is_inside = place.iter().zip(&self.counts).all(|(at, count)| at < count);
        let Some(stored) = self.stored_key(place)?.filter(|_| is_inside) else { return Ok(None) };
        let exists = self.array.store().exists(Key::new(&stored)?)?;
        Ok(match (exists, self.keeps_bytes) {
            (true, true) => Some(TranslatedChunk::Stored(stored)),
            (true, false) => Some(TranslatedChunk::Encoded),
            (false, _) => self.fills_differ.then_some(TranslatedChunk::Encoded),
        })
    }

    /// The key of a chunk in the store of the array.
    fn stored_key(&self, place: &[u64]) -> Result<Option<String>> {
        let Some(array) = self.array.as_zarr().filter(|_| place.len() == self.counts.len()) else {
            return Ok(None);
        };
        let key = array.key_encoding().key(place).map_err(crate::Error::Options)?;
        Ok(Some(zarr::join(array.path(), &key)))
    }

    /// Reads the elements of a chunk, and encodes them as the document says.
    pub fn encode(&self, place: &[u64]) -> Result<Vec<u8>> {
        self.one.encode(Some(place), None)
    }
}
