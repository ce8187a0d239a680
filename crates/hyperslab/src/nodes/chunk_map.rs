//! Which chunks of an array are stored, and their bytes.

use crate::present::chunk_ranges::stored_chunks;
use crate::{Array, Dims, Error, Key, Result};
use hyperslab_store::Ask;
use hyperslab_zarr::join;

/// The stored objects of an array. From a listing or an index: nothing is decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChunkMap {
    /// "shard" if objects hold several chunks, or "chunk".
    pub unit: &'static str,
    /// Elements of a unit along each axis.
    pub shape: Dims,
    /// Units along each axis.
    pub grid: Dims,
    /// The place in the grid and the bytes of each unit that is stored, in C order. `None`: unknown,
    /// because the store does not list its objects, or the elements are elsewhere.
    pub stored: Option<Vec<(Dims, u64)>>,
}

impl ChunkMap {
    pub(crate) fn new(array: &Array, ask: Option<Ask<'_>>) -> Result<ChunkMap> {
        let grid = array.layout().object_grid();
        let map = ChunkMap {
            unit: if array.shard_shape().is_some() { "shard" } else { "chunk" },
            shape: grid.chunk_shape().into(),
            grid: grid.counts(array.shape()),
            stored: None,
        };
        let mut stored = match array.as_zarr() {
            Some(zarr) if zarr.store().facts().lists => listed(zarr, ask)?,
            Some(_) => return Ok(map),
            None if array.file().is_some() => match stored_chunks(array)? {
                Some(chunks) => chunks.into_iter().map(|(place, range)| (place, range.len)).collect(),
                None => return Ok(map),
            },
            None => return Ok(map),
        };
        // Chunks beyond the end may be left over from a larger array.
        stored.retain(|(place, _)| place.iter().zip(&map.grid).all(|(at, count)| at < count));
        stored.sort_unstable();
        Ok(ChunkMap { stored: Some(stored), ..map })
    }
}

fn listed(array: &crate::zarr::Array, ask: Option<Ask<'_>>) -> Result<Vec<(Dims, u64)>> {
    let path = array.path();
    let prefix = if path.is_empty() { None } else { Some(Key::new(path)?) };
    let rank = array.layout().shape().len();
    let mut found = Vec::new();
    for (key, bytes) in array.store().list_sizes(prefix, ask)? {
        let below = key.get(path.len()..).unwrap_or_default().trim_start_matches('/');
        if let Some(place) = array.key_encoding().chunk(below, rank).map_err(Error::Options)? {
            debug_assert_eq!(join(path, below), key);
            found.push((place, bytes));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArraySpec, Index, MemoryStore, zarr};
    use std::sync::Arc;

    #[test]
    fn stored_chunks_have_places_and_bytes() {
        for format in [zarr::Format::V2, zarr::Format::V3] {
            let mut spec = ArraySpec::new(format, &[5, 4], "<i2".parse().unwrap());
            spec.chunks = Some([2, 4].as_slice().into());
            spec.compressors = crate::Choice::Set(Vec::new());
            let array: Array =
                zarr::Array::create(Arc::new(MemoryStore::new()), "a", spec, false).unwrap().into();
            array.write_slice(&[Index::At(4)], &[1_i16; 4]).unwrap();
            array.write_slice(&[Index::At(0)], &[1_i16; 4]).unwrap();
            let map = array.chunk_map(None).unwrap();
            assert_eq!((map.unit, &map.shape[..], &map.grid[..]), ("chunk", &[2, 4][..], &[3, 1][..]));
            let stored: Vec<_> =
                map.stored.unwrap().iter().map(|(place, bytes)| (place.to_vec(), *bytes)).collect();
            assert_eq!(stored, [(vec![0, 0], 16), (vec![2, 0], 16)]);
        }
    }

    #[test]
    fn shards_are_the_units() {
        let mut spec = ArraySpec::new(zarr::Format::V3, &[8], "|u1".parse().unwrap());
        spec.chunks = Some([2].as_slice().into());
        spec.shards = Some([4].as_slice().into());
        let array: Array = zarr::Array::create(Arc::new(MemoryStore::new()), "", spec, false).unwrap().into();
        array.write_slice(&[], &[0_u8, 0, 0, 0, 1, 1, 1, 1]).unwrap();
        let map = array.chunk_map(None).unwrap();
        let places: Vec<_> = map.stored.unwrap().iter().map(|(place, _)| place.to_vec()).collect();
        assert_eq!((map.unit, &map.grid[..], places), ("shard", &[2][..], vec![vec![1]]));
    }
}
