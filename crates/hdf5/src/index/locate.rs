//! Finds chunks for the engine.

use super::{ChunkIndex, IndexRequest};
use crate::data_layout::ChunkedLayout;
use crate::{File, Hdf5Error};
use hyperslab_array::{ChunkLocator, LocateError, Location};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The chunks of a dataset. Their index is read when the first is looked for.
#[derive(Debug)]
pub struct Chunks {
    file: File,
    layout: ChunkedLayout,
    shape: Vec<u64>,
    max_shape: Vec<Option<u64>>,
    /// How many filters there are, and codecs in front of them.
    filters: u32,
    shift: u32,
    index: OnceLock<Arc<ChunkIndex>>,
    /// Held while the index is read: by one thread, the others wait for it.
    reading: Mutex<()>,
}

impl Chunks {
    /// The chunks of a dataset with `filters` filters, before which chunks go through `shift` other codecs.
    pub fn new(
        file: File,
        layout: ChunkedLayout,
        shape: Vec<u64>,
        max_shape: Vec<Option<u64>>,
        filters: u32,
        shift: u32,
    ) -> Self {
        let (index, reading) = (OnceLock::new(), Mutex::new(()));
        Chunks { file, layout, shape, max_shape, filters, shift, index, reading }
    }

    /// Where all chunks are. Read once; where that fails, the next call tries again.
    pub fn index(&self) -> Result<Arc<ChunkIndex>, Hdf5Error> {
        self.ready().cloned()
    }

    fn ready(&self) -> Result<&Arc<ChunkIndex>, Hdf5Error> {
        if let Some(index) = self.index.get() {
            return Ok(index);
        }
        let _alone = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = self.index.get() {
            return Ok(index);
        }
        let request = IndexRequest {
            layout: &self.layout,
            shape: &self.shape,
            max_shape: &self.max_shape,
            filtered: self.filters > 0,
            sizes: self.file.sizes(),
            verify: self.file.verify(),
        };
        let index = Arc::new(ChunkIndex::read(self.file.source(), &request)?);
        Ok(self.index.get_or_init(|| index))
    }

    /// Whether a chunk reaches past the extent.
    fn is_cut(&self, chunk: &[u64]) -> bool {
        let axes = chunk.iter().zip(&self.layout.chunk).zip(&self.shape);
        axes.into_iter().any(|((place, len), n)| place.saturating_add(1).saturating_mul(*len) > *n)
    }

    /// The filters that were left out of a chunk, as bits of the codec chain.
    fn skipped(&self, chunk: &[u64], mask: u32) -> u32 {
        let filters = u32::MAX.checked_shr(32u32.saturating_sub(self.filters)).unwrap_or(0);
        let mask = if self.layout.edges_unfiltered && self.is_cut(chunk) { filters } else { mask };
        // Bits beyond the filters say nothing, and some writers set all.
        (mask & filters).checked_shl(self.shift).unwrap_or(0)
    }
}

impl ChunkLocator for Chunks {
    fn locate(&self, chunk: &[u64], key: &mut String) -> Result<Location, LocateError> {
        let index = self.ready().map_err(|error| match error {
            // The engine knows these.
            Hdf5Error::Store(error) => LocateError::from(error),
            error => error.into(),
        })?;
        let source = self.file.source();
        let axes = chunk.iter().zip(&index.counts);
        let inside = chunk.len() == index.counts.len() && axes.clone().all(|(place, count)| place < count);
        if !inside {
            let counts = &index.counts;
            return Err(source.invalid(format!("there is no chunk {chunk:?} among {counts:?}")).into());
        }
        key.push_str(source.key());
        let number = axes.fold(0, |number, (place, count)| number * count + place);
        Ok(index.get(number).map_or(Location::Absent, |record| Location::Range {
            offset: source.base().saturating_add(record.address),
            len: record.size,
            skipped: self.skipped(chunk, record.skipped),
        }))
    }
}
