//! Shared test code of the chunk indexes: expected chunks, and array elements for them.

use super::{ChunkIndex, ChunkRecord, IndexRequest, Lookup};
use crate::data_layout::{ChunkIndexKind, ChunkedLayout};
use crate::testing::structure;
use crate::{Result, Source};

/// A stored chunk: its place in the grid; address, size and filter mask.
pub(super) type StoredChunk = (Vec<u64>, (u64, u64, u32));

/// A dataset of 4-byte elements in chunks of 2 along each axis. Its index is at address 0.
pub(super) struct Dataset {
    pub shape: Vec<u64>,
    pub max_shape: Vec<Option<u64>>,
    pub layout: ChunkedLayout,
    pub filtered: bool,
}

impl Dataset {
    pub fn new(index: ChunkIndexKind, shape: &[u64], max_shape: &[Option<u64>], filtered: bool) -> Dataset {
        let chunk = vec![2; shape.len()];
        let layout =
            ChunkedLayout { chunk, element_size: 4, index, address: Some(0), edges_unfiltered: false };
        Dataset { shape: shape.into(), max_shape: max_shape.into(), layout, filtered }
    }

    pub fn request<'a>(&'a self, source: &'a Source) -> IndexRequest<'a> {
        let Dataset { shape, max_shape, layout, filtered } = self;
        IndexRequest { source, layout, shape, max_shape, filtered: *filtered }
    }

    pub fn read(&self, source: &Source) -> Result<ChunkIndex> {
        ChunkIndex::read(&self.request(source))
    }

    pub fn find(&self, source: &Source, place: &[u64]) -> Result<Lookup> {
        ChunkIndex::find(&self.request(source), place)
    }

    /// Looks up every chunk of the grid. Returns the stored chunks.
    pub fn find_each(&self, source: &Source) -> Vec<ChunkRecord> {
        let counts = self.counts();
        let numbers = 0..counts.iter().product();
        let found =
            numbers.filter_map(|number| match self.find(source, &super::place(number, &counts)).unwrap() {
                Lookup::Stored(record) => Some(record),
                Lookup::Absent => None,
                Lookup::Unsorted => panic!("chunk {number}: the index is not sorted"),
            });
        found.collect()
    }

    fn counts(&self) -> Vec<u64> {
        self.shape.iter().map(|n| n.div_ceil(2)).collect()
    }

    fn chunk_bytes(&self) -> u64 {
        4 << self.shape.len()
    }

    /// Address, size and filter mask of the chunk at a place in the grid. About a fifth is not
    /// stored.
    fn stored(&self, place: &[u64]) -> Option<(u64, u64, u32)> {
        let mark = place.iter().fold(1, |mark, place| mark * 31 + place);
        let (size, skipped) =
            if self.filtered { (mark % 7 + 1, (mark % 3) as u32) } else { (self.chunk_bytes(), 0) };
        (mark % 5 != 0).then_some((mark % 50, size, skipped))
    }

    pub fn expected(&self) -> Vec<ChunkRecord> {
        let counts = self.counts();
        let numbers = 0..counts.iter().product();
        let records = numbers.filter_map(|number| {
            let (address, size, skipped) = self.stored(&super::place(number, &counts))?;
            Some(ChunkRecord { number, address, size, skipped })
        });
        records.collect()
    }

    /// The array element for a place: 8 or 14 bytes.
    fn element(&self, place: &[u64]) -> Vec<u8> {
        let (address, size, skipped) = self.stored(place).unwrap_or((u64::MAX, 0, 0));
        match self.filtered {
            true => structure!(address, size as u16, skipped),
            false => structure!(address),
        }
    }

    /// Array elements in slot order, with `len` chunks along the unlimited axis.
    pub fn elements(&self, len: u64) -> Vec<Vec<u8>> {
        let axes = 0..self.shape.len();
        let free = self.max_shape.iter().position(Option::is_none);
        let order: Vec<usize> = free.into_iter().chain(axes.filter(|axis| Some(*axis) != free)).collect();
        let count = |axis: &usize| self.max_shape[*axis].map_or(len, |max| max.div_ceil(2));
        let counts: Vec<u64> = order.iter().map(count).collect();
        let slots = 0..counts.iter().product();
        let element = |slot| {
            let mut place = vec![0; order.len()];
            order.iter().zip(super::place(slot, &counts)).for_each(|(axis, at)| place[*axis] = at);
            self.element(&place)
        };
        slots.map(element).collect()
    }

    /// Class and length of an element, as in an array's header.
    pub fn class(&self) -> [u8; 2] {
        if self.filtered { [1, 14] } else { [0, 8] }
    }

    /// All stored chunks of a grid.
    pub fn all_stored(&self, counts: &[u64]) -> Vec<StoredChunk> {
        let numbers = 0..counts.iter().product();
        let stored = numbers.filter_map(|number| {
            let place = super::place(number, counts);
            self.stored(&place).map(|stored| (place, stored))
        });
        stored.collect()
    }
}

/// First bytes of an array's block.
pub(super) fn head(signature: &[u8; 4], class: u8) -> Vec<u8> {
    structure!(signature, [0, class], 0u64)
}
