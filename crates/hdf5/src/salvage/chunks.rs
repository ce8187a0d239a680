//! Which bytes belong to which elements: chunks that decode, and ranges that nobody else has.

use super::losses::Losses;
use crate::data_layout::ChunkedLayout;
use crate::filter::Filter;
use crate::index::{ChunkIndex, ChunkRecord, place};
use crate::{Dataset, Result, Source};
use hyperslab_codec::{Codec, Scratch, decode_bounded, hdf5, room};
use std::collections::HashMap;
use std::sync::Arc;

/// Filters whose streams say where they end: gzip and zstd.
const ENDING: [u16; 2] = [1, 32015];

/// Chunks that are tested together.
const PIECE: usize = 64;

/// The stored chunks of a dataset.
#[derive(Debug)]
pub(super) struct Stored {
    /// Address of the dataset's header, and its path.
    pub header: u64,
    pub path: String,
    pub index: ChunkIndex,
    layout: ChunkedLayout,
    shape: Vec<u64>,
    filters: Vec<Filter>,
    /// Bytes of a chunk without filters.
    bytes: u64,
}

impl Stored {
    pub fn new(dataset: &Dataset, layout: &ChunkedLayout, index: ChunkIndex) -> Stored {
        Stored {
            header: dataset.address(),
            path: dataset.path().to_owned(),
            index,
            layout: layout.clone(),
            shape: dataset.dataspace().shape().to_vec(),
            filters: dataset.filters().to_vec(),
            bytes: layout.chunk.iter().fold(layout.element_size, |all, n| all.saturating_mul(*n)),
        }
    }

    /// The numbers of the filters.
    pub fn filter_ids(&self) -> Vec<u16> {
        self.filters.iter().map(|filter| filter.id).collect()
    }

    pub fn pieces(&self) -> u64 {
        if self.filters.is_empty() { 0 } else { self.index.records.len().div_ceil(PIECE) as u64 }
    }

    /// Decodes the chunks of a piece. Returns the chunks that do not fit the dataset.
    pub fn test(&self, source: &Source, piece: u64) -> Result<Vec<(ChunkRecord, String)>> {
        let (mut wrong, mut scratch) = (Vec::new(), Scratch::default());
        let size = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
        let codecs: Option<Vec<Arc<dyn Codec>>> = self
            .filters
            .iter()
            .map(|filter| {
                hdf5::filter(filter.id, &filter.client_data, size(self.layout.element_size), size(self.bytes))
                    .ok()
            })
            .collect();
        // The bytes of an unknown filter cannot be tested.
        let Some(codecs) = codecs else { return Ok(wrong) };
        let first = size(piece).saturating_mul(PIECE);
        for record in self.index.records.iter().skip(first).take(PIECE) {
            source.go_on()?;
            let Some(mut stored) = room::zeros::<u8>(size(record.size)) else {
                return Err(source.invalid(format!("no memory for a chunk of {} bytes", record.size)));
            };
            source.read_into("chunk", [(record.address, &mut stored[..])])?;
            let is_skipped = |number: usize| {
                u32::try_from(number).is_ok_and(|n| record.skipped.checked_shr(n).unwrap_or(0) & 1 == 1)
            };
            let is_plain = self.layout.edges_unfiltered && self.is_cut(record.number);
            let mut ran = Vec::new();
            for (number, codec) in codecs.iter().enumerate() {
                if !is_plain && !is_skipped(number) {
                    ran.push((number, codec.clone()));
                }
            }
            let all: Vec<_> = ran.iter().map(|(_, codec)| codec.clone()).collect();
            let last = ran.last().filter(|(number, _)| {
                self.filters.get(*number).is_some_and(|filter| ENDING.contains(&filter.id))
            });
            if let Err(why) = self.decode(&all, last.map(|(_, codec)| codec), &stored, &mut scratch) {
                wrong.push((*record, why));
            }
        }
        Ok(wrong)
    }

    fn decode(
        &self,
        codecs: &[Arc<dyn Codec>],
        last: Option<&Arc<dyn Codec>>,
        stored: &[u8],
        scratch: &mut Scratch,
    ) -> Result<(), String> {
        let expected = usize::try_from(self.bytes).unwrap_or(usize::MAX);
        let mut decoded = Vec::new();
        decode_bounded(codecs, stored, expected, &mut decoded, scratch, true)
            .map_err(|error| error.to_string())?;
        if decoded.len() != expected {
            return Err(format!("it decodes to {} bytes, expected {expected}", decoded.len()));
        }
        // A stream that ends before the chunk does is one of another chunk, which took this place.
        let shorter = stored.len().checked_sub(1).and_then(|len| stored.get(..len));
        if let Some((codec, shorter)) = last.zip(shorter) {
            let codecs = std::slice::from_ref(codec);
            let room = expected.saturating_mul(2).saturating_add(64);
            if decode_bounded(codecs, shorter, room, &mut decoded, scratch, true).is_ok() {
                return Err("its stream ends before the chunk: its place may be another chunk's".into());
            }
        }
        Ok(())
    }

    fn is_cut(&self, number: u64) -> bool {
        let place = place(number, &self.index.counts);
        let axes = place.iter().zip(&self.layout.chunk).zip(&self.shape);
        axes.into_iter().any(|((at, len), n)| at.saturating_add(1).saturating_mul(*len) > *n)
    }

    /// Drops chunks, and notes why.
    pub fn lose(&mut self, losses: &Losses, wrong: &HashMap<u64, String>) {
        losses.enter(&self.path);
        let counts = &self.index.counts;
        self.index.records.retain(|record| match wrong.get(&record.number) {
            Some(why) => {
                losses.chunk(record.number, counts, record.address, why.as_str());
                false
            }
            None => true,
        });
    }
}

/// The owner of a range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A header, or another structure.
    Structure,
    /// A run of elements: the number of the run.
    Run(usize),
    /// A chunk: numbers of the dataset and of the chunk.
    Chunk(usize, u64),
}

/// A range of bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub start: u64,
    pub end: u64,
    pub owner: Owner,
}

/// Returns the owners that share bytes with others.
pub(super) fn overlapping(mut extents: Vec<Extent>) -> Vec<Owner> {
    extents.retain(|extent| extent.start < extent.end);
    extents.sort_by_key(|extent| (extent.start, extent.end));
    let mut found = Vec::new();
    let mut furthest = 0;
    let nexts = extents.iter().skip(1).map(Some).chain([None]);
    for (extent, next) in extents.iter().zip(nexts) {
        let shares = extent.start < furthest || next.is_some_and(|next| next.start < extent.end);
        if shares && extent.owner != Owner::Structure {
            found.push(extent.owner);
        }
        furthest = furthest.max(extent.end);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_share_bytes() {
        let extent = |start, end, owner| Extent { start, end, owner };
        let (a, b) = (Owner::Run(0), Owner::Chunk(0, 1));
        assert!(overlapping(vec![extent(0, 8, a), extent(8, 9, b)]).is_empty());
        assert_eq!(overlapping(vec![extent(7, 9, b), extent(0, 8, a)]), [a, b]);
        assert_eq!(overlapping(vec![extent(0, 8, a), extent(3, 4, Owner::Structure)]), [a]);
        assert!(overlapping(vec![extent(0, 0, a), extent(0, 4, b)]).is_empty());
        // The first range reaches beyond the second one.
        let all = vec![extent(0, 90, a), extent(10, 20, Owner::Structure), extent(50, 60, b)];
        assert_eq!(overlapping(all), [a, b]);
    }
}
