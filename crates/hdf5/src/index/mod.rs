//! Chunk indexes: where the chunks of a dataset are. Whatever the file has, in memory it is one flat sorted table.

use crate::data_layout::ChunkedLayout;
use crate::{Hdf5Error, Sizes, Source};

/// A chunk that is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkRecord {
    /// Its number: chunks of the current extent in C order.
    pub number: u64,
    /// Address of its first byte.
    pub address: u64,
    /// Stored bytes.
    pub size: u64,
    /// Filters left out: bit `i` stands for the `i`-th of the pipeline.
    pub skipped: u32,
}

/// All stored chunks of a dataset, sorted by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChunkIndex {
    /// Chunks per axis in the current extent.
    pub counts: Vec<u64>,
    /// Those that are stored.
    pub records: Vec<ChunkRecord>,
}

/// What an index has to be read with.
#[derive(Clone, Debug)]
pub struct IndexRequest<'a> {
    /// The layout message.
    pub layout: &'a ChunkedLayout,
    /// Elements per axis.
    pub shape: &'a [u64],
    /// The most there may be per axis.
    pub max_shape: &'a [Option<u64>],
    /// Whether chunks go through filters.
    pub filtered: bool,
    /// Of addresses and lengths.
    pub sizes: Sizes,
    /// Whether checksums are verified.
    pub verify: bool,
}

impl ChunkIndex {
    /// Reads the whole index.
    pub fn read(source: &Source, request: &IndexRequest<'_>) -> Result<ChunkIndex, Hdf5Error> {
        let _ = (source, request);
        Err(Hdf5Error::Unsupported { file: String::new(), object: None, what: "a chunk index".into() })
    }

    /// The record of a chunk; `None`: it is not stored.
    pub fn get(&self, number: u64) -> Option<&ChunkRecord> {
        // Where every chunk is stored, its number is its place.
        let at = usize::try_from(number).ok()?;
        match self.records.get(at) {
            Some(record) if record.number == number => Some(record),
            _ => {
                let at = self.records.binary_search_by_key(&number, |record| record.number).ok()?;
                self.records.get(at)
            }
        }
    }
}

/// The chunks of a dataset.
#[derive(Debug)]
pub struct Chunks;
impl Chunks {
    /// Read when they are first asked for.
    pub fn new(
        _file: crate::File,
        _layout: ChunkedLayout,
        _shape: Vec<u64>,
        _max_shape: Vec<Option<u64>>,
        _filters: u32,
        _shift: u32,
    ) -> Self {
        Chunks
    }
    /// The index.
    pub fn index(&self) -> Result<std::sync::Arc<ChunkIndex>, Hdf5Error> {
        Err(Hdf5Error::Unsupported { file: String::new(), object: None, what: "a chunk index".into() })
    }
}
impl hyperslab_array::ChunkLocator for Chunks {
    fn locate(
        &self,
        _: &[u64],
        _: &mut String,
    ) -> Result<hyperslab_array::Location, hyperslab_array::LocateError> {
        Ok(hyperslab_array::Location::Absent)
    }
}
