//! A dataset as the objects of a Zarr array: its document, and its chunks.

use super::chunk_ranges::{ChunkRanges, FileRange, stored_chunks};
use super::file::PresentOptions;
use super::filters::{all_to_v3, is_standard, quick_codec};
use super::strips;
use super::{MOST_FROM_SHAPE, MOST_LISTED, too_many};
use crate::copy::{OneChunk, all_indices, zarr_spec};
use crate::meaning::{FileMeaning, Side};
use crate::{Array, ArraySpec, Choice, Dims, Error, Format, Group, Json, MemoryStore, Result, zarr};
use hyperslab_array::element_count;
use hyperslab_hdf5::element::{Element, ElementKind};
use std::sync::{Arc, OnceLock};

/// Copies of a chunk in memory while it is encoded: elements, a chunk of them, the object.
const COPIES: usize = 3;

/// Bytes of an element of text, for the shape of strips: its length is not known.
const TEXT: u64 = 8;

/// A dataset as a Zarr array.
#[derive(Debug)]
pub struct PresentedArray {
    array: Array,
    document: String,
    /// Elements of a chunk per axis.
    chunk: Dims,
    /// Elements per axis in the document. The array may be shorter than its unlimited dimensions.
    shape: Dims,
    /// Chunks per axis: of the array, and of the document.
    own_counts: Dims,
    counts: Dims,
    /// `true`: stored bytes are chunks in Zarr's encoding.
    keeps_bytes: bool,
    /// `true`: elements that were never written differ from the fill value of the document.
    fills_differ: bool,
    /// Bytes of an encoded chunk. `None`: they differ from chunk to chunk.
    encoded_len: Option<u64>,
    one: OneChunk,
    ranges: OnceLock<Option<ChunkRanges>>,
}

/// The bytes of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkBytes {
    /// They are in the file.
    Stored(FileRange),
    /// They must be encoded: see [`PresentedArray::encode`].
    Encoded,
}

/// The number of a chunk in C order, and its range of the file. `None`: it must be encoded.
pub type NumberedChunk = (u64, Option<FileRange>);

impl PresentedArray {
    /// Describes an array. `None`: it only stands for a dimension.
    /// Fails with [`Error::Copy`] if Zarr v3 does not have its elements.
    pub(super) fn new(array: Array, meaning: &FileMeaning, options: PresentOptions) -> Result<Option<Self>> {
        let Some(variable) = meaning.variable(&array)? else { return Ok(None) };
        let name = array.name();
        if array.as_hdf5().is_some_and(|dataset| has_addresses(dataset.element())) {
            let why = "its elements are addresses in the file, which Zarr v3 does not have".into();
            return Err(Error::Copy { array: name, why });
        }
        let size = element_size(&array);
        let chunk: Dims = match (array.has_chunks(), options.cut) {
            (true, _) => array.chunk_shape().into(),
            (false, true) => strips::cut(array.shape(), size),
            (false, false) => array.shape().iter().map(|n| (*n).max(1)).collect(),
        };
        let is_standard = |codecs: &Vec<Json>| !options.standard || codecs.iter().all(is_standard);
        let codecs = all_to_v3(&array).filter(is_standard);
        let keeps_bytes = codecs.is_some();
        let codecs = match codecs {
            Some(codecs) => codecs,
            None if options.standard => vec![quick_codec()],
            None => Vec::new(),
        };
        let has_codecs = !codecs.is_empty();
        let spec = zarr_spec(&name, &array, &variable, Format::ZarrV3, &chunk)?;
        let spec = ArraySpec { compressors: Choice::Set(codecs), ..spec };
        let made = zarr::Array::create(Arc::new(MemoryStore::new()), "", spec, false)?;
        let layout = made.layout();
        let grid = layout.grid();
        let (own_counts, counts) = (grid.counts(array.shape()), grid.counts(&variable.shape));
        let chunk_len = element_count(&chunk).and_then(|n| n.checked_mul(layout.dtype().size() as u64));
        let one = OneChunk::new(&array, (zarr::Format::V3, made.to_json()), &chunk, COPIES);
        Ok(Some(PresentedArray {
            fills_differ: one.fills_differ()?,
            encoded_len: chunk_len.filter(|_| !has_codecs && array.vlen().is_none()),
            document: made.to_json().to_text(None),
            ranges: OnceLock::new(),
            shape: variable.shape,
            array,
            chunk,
            own_counts,
            counts,
            keeps_bytes,
            one,
        }))
    }

    /// The text of `zarr.json`.
    pub fn document(&self) -> &str {
        &self.document
    }

    /// The dataset.
    pub fn array(&self) -> &Array {
        &self.array
    }

    /// Bytes of all elements of the dataset; of text, an estimate.
    pub fn nbytes(&self) -> u64 {
        let count = element_count(self.array.shape()).unwrap_or(u64::MAX);
        count.saturating_mul(element_size(&self.array))
    }

    /// Finds the bytes of a chunk. `None`: nothing is stored, and all elements are fill value.
    pub fn find(&self, place: &[u64]) -> Result<Option<ChunkBytes>> {
        let is_inside = place.iter().zip(&self.own_counts).all(|(at, count)| at < count);
        if place.len() != self.own_counts.len() || !is_inside {
            return Ok(None);
        }
        let absent = self.fills_differ.then_some(ChunkBytes::Encoded);
        let found = match self.ranges()? {
            None => return Ok(Some(ChunkBytes::Encoded)),
            Some(ChunkRanges::Whole(None)) => return Ok(absent),
            Some(ChunkRanges::Whole(Some(whole))) => {
                let size = self.array.dtype().size() as u64;
                let strip = strips::range(place, &self.chunk, self.array.shape(), size);
                strip.map(|(at, len)| FileRange { offset: whole.offset.saturating_add(at), len, skipped: 0 })
            }
            Some(ranges) => match ranges.get(number(place, &self.own_counts))? {
                None => return Ok(absent),
                found => found,
            },
        };
        let keeps_bytes =
            |found: &FileRange| self.keeps_bytes && found.skipped == 0 && !self.is_padded(place);
        Ok(Some(found.filter(keeps_bytes).map_or(ChunkBytes::Encoded, ChunkBytes::Stored)))
    }

    /// Reads the elements of a chunk, and encodes them as the document says.
    pub fn encode(&self, place: &[u64]) -> Result<Vec<u8>> {
        self.one.encode(Some(place), None)
    }

    /// Bytes of an encoded chunk, if all have equally many.
    pub(super) fn encoded_len(&self) -> Option<u64> {
        self.encoded_len
    }

    /// Returns `true` if stored elements past the array's end are not the document's fill value.
    fn is_padded(&self, place: &[u64]) -> bool {
        let side = || Side::of(place, &self.chunk, self.array.shape(), &self.shape);
        self.fills_differ && side() == Side::AtEnd
    }

    fn ranges(&self) -> Result<Option<&ChunkRanges>> {
        if self.ranges.get().is_none() {
            let _ = self.ranges.set(ChunkRanges::of(&self.array)?);
        }
        Ok(self.ranges.get().and_then(Option::as_ref))
    }

    /// The chunks of the document's grid that have bytes. `None`: all of them must be encoded.
    pub fn chunks(&self) -> Result<Option<Vec<NumberedChunk>>> {
        if !self.keeps_bytes {
            return Ok(None);
        }
        let mut all = Vec::new();
        let mut add = |place: &Dims| -> Result<()> {
            let found = match self.find(place)? {
                None => return Ok(()),
                Some(ChunkBytes::Encoded) => None,
                Some(ChunkBytes::Stored(found)) => Some(found),
            };
            all.push((number(place, &self.counts), found));
            Ok(())
        };
        match self.ranges()? {
            None => return Ok(None),
            Some(ChunkRanges::Indexed { .. } | ChunkRanges::Records(_)) if !self.fills_differ => {
                let stored = stored_chunks(&self.array)?.unwrap_or_default();
                stored.iter().try_for_each(|(place, _)| add(place))?;
            }
            Some(_) => {
                let count = element_count(&self.own_counts).unwrap_or(u64::MAX);
                if count > MOST_LISTED {
                    return Err(too_many(&self.array.name(), MOST_LISTED));
                }
                let spans = self.own_counts.iter().map(|count| (0, count.saturating_sub(1))).collect();
                all_indices(spans).filter(|_| count > 0).try_for_each(|place| add(&place))?;
            }
        }
        Ok(Some(all))
    }

    /// The names directly below a folder of chunks, as numbers. `above`: the folder's own path.
    pub(super) fn below(&self, above: &[u64]) -> Result<Vec<u64>> {
        let counts = &self.own_counts;
        let Some(count) = counts.get(above.len()).copied() else { return Ok(Vec::new()) };
        if counts.contains(&0) || above.iter().zip(counts).any(|(at, count)| at >= count) {
            return Ok(Vec::new());
        }
        match self.ranges()? {
            Some(ChunkRanges::Whole(None)) if !self.fills_differ => return Ok(Vec::new()),
            Some(ChunkRanges::Indexed { index, .. }) if !self.fills_differ => {
                // Chunks with the same first indices are neighbours in C order.
                let inner = counts.iter().skip(above.len() + 1);
                let step = inner.fold(1u64, |n, count| n.saturating_mul(*count));
                let first = number(above, counts).saturating_mul(count).saturating_mul(step);
                let records = &index.records;
                let (mut found, mut next) = (Vec::new(), first);
                loop {
                    let at = records.partition_point(|record| record.number < next);
                    let Some(record) = records.get(at) else { break };
                    let name = (record.number - first) / step.max(1);
                    if name >= count {
                        break;
                    }
                    found.push(name);
                    next = first.saturating_add((name + 1).saturating_mul(step));
                }
                return Ok(found);
            }
            // Fails if there are fewer records than the header says.
            Some(ranges @ ChunkRanges::Records(_)) => {
                ranges.get(count - 1)?;
            }
            _ => {}
        }
        if count > MOST_FROM_SHAPE {
            return Err(too_many(&self.array.name(), MOST_FROM_SHAPE));
        }
        Ok((0..count).collect())
    }

    /// Returns `true` if all bytes are in the file of a group.
    pub(super) fn is_within(&self, group: &Group) -> Result<bool> {
        let is_same = match (self.array.as_hdf5(), group.as_hdf5()) {
            (Some(dataset), Some(group)) => dataset.file().is(group.file()),
            _ => true,
        };
        Ok(is_same && self.ranges()?.is_some())
    }

    /// Number of axes.
    pub(super) fn rank(&self) -> usize {
        self.chunk.len()
    }
}

fn element_size(array: &Array) -> u64 {
    if array.vlen().is_some() { TEXT } else { array.dtype().size() as u64 }
}

/// The number of a chunk in C order, or of a folder of chunks: `place` may have fewer axes.
fn number(place: &[u64], counts: &[u64]) -> u64 {
    let axes = place.iter().zip(counts);
    axes.fold(0, |number: u64, (at, count)| number.saturating_mul(*count).saturating_add(*at))
}

/// Returns `true` if elements, or parts of them, are addresses in the file; text does not count.
fn has_addresses(element: &Element) -> bool {
    fn holds(element: &Element) -> bool {
        match &element.kind {
            ElementKind::Struct(fields) => fields.iter().any(|field| holds(&field.element)),
            ElementKind::Array { element, .. } => holds(element),
            ElementKind::ObjectReference => true,
            _ => element.has_heap_ids(),
        }
    }
    !matches!(element.kind, ElementKind::VlenString { .. }) && holds(element)
}
