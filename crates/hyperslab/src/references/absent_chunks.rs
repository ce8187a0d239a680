//! Finds the chunks to write into references because the file does not have their elements.
//!
//! | chunk | elements |
//! |---|---|
//! | inside, and not stored | the fill value of HDF5 |
//! | beyond the end of an array that is shorter than its variable | the variable's rest |
//! | across that end | both; a stored chunk has the fill value of HDF5 beyond the end |
//!
//! A missing reference means the fill value of Zarr v2, or zero if no element is marked as missing.
//! Only chunks with other elements are written.

use super::{COPIES, MOST_INLINED, base64};
use crate::copy::fill_in;
use crate::element::swap_bytes;
use crate::error::check;
use crate::meaning::Variable;
use crate::{Array, Dims, Error, Index, Json, Key, MemoryStore, Result, Source, Store, WriteOptions, zarr};
use hyperslab_array::{ReadOptions, Target, element_count};
use hyperslab_codec::room;
use hyperslab_store::Ask;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The most chunks without a place in the file to write into references.
const MOST_ABSENT: u64 = 1 << 16;

/// The position of a chunk relative to the array's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Inside,
    /// The chunk has elements on both sides of the array's end.
    AtEnd,
    Behind,
}

impl Side {
    /// Classifies a chunk. `own`: elements per axis of the array; `all`: of its variable.
    fn of(place: &[u64], chunk: &[u64], own: &[u64], all: &[u64]) -> Side {
        let mut side = Side::Inside;
        for (((at, chunk), own), all) in place.iter().zip(chunk).zip(own).zip(all) {
            let (first, end) = (at.saturating_mul(*chunk), (at + 1).saturating_mul(*chunk).min(*all));
            if first >= *own {
                return Side::Behind;
            }
            if end > *own {
                side = Side::AtEnd;
            }
        }
        side
    }
}

/// The chunks to write, by place.
/// `made`: the array of `document`; `stored`: the places of the chunks in the file.
pub(super) fn absent_chunks(
    array: &Array,
    variable: &Variable,
    made: &zarr::Array,
    document: &Json,
    stored: &HashSet<Dims>,
    ask: Option<Ask<'_>>,
) -> Result<HashMap<Dims, Json>> {
    let layout = made.layout();
    let (own, all) = (array.shape(), layout.shape());
    let inside = fill_in(array, &made.clone().into());
    let padding = array.layout().fill().bytes();
    let rest = variable.rest(array)?.filter(|_| own != all);
    // HDF5 pads chunks beyond the end with its own fill value.
    let is_padded = rest.as_deref().is_none_or(|rest| rest == padding);
    let mut rest = rest.unwrap_or_else(|| padding.to_vec());
    if array.dtype().order() != layout.dtype().order() {
        swap_bytes(&mut rest, array.dtype().number_size());
    }
    let behind = Some(&rest).filter(|rest| own != all && *rest != layout.fill().bytes());
    if inside.is_none() && behind.is_none() && is_padded {
        return Ok(HashMap::new());
    }

    let refuse = |why: String| Error::Copy { array: array.name(), why };
    let grid = layout.grid();
    let (chunk, counts) = (grid.chunk_shape(), grid.counts(all));
    let number = |counts: &[u64]| element_count(counts).unwrap_or(u64::MAX);
    let present = if inside.is_some() { stored.len() as u64 } else { number(&grid.counts(own)) };
    let count = number(&counts).saturating_sub(present);
    if count > MOST_ABSENT {
        return Err(refuse(format!(
            "{count} of its chunks are not stored, and hold a value that Zarr v2 has no place for: no \
             element is marked as missing"
        )));
    }
    let one = OneChunk { array, document, chunk };
    // Encode each of these chunks once, when it is needed.
    let (mut of_inside, mut of_behind) = (None, None);
    let encode_once = |known: &mut Option<Json>, value: Option<&Vec<u8>>| -> Result<Option<Json>> {
        if let (None, Some(value)) = (&known, value) {
            *known = Some(one.encode_chunk(value, None)?);
        }
        Ok(known.clone())
    };
    let (mut found, mut bytes) = (HashMap::new(), 0u64);
    let spans = counts.iter().map(|count| (0, count.saturating_sub(1))).collect();
    for place in crate::copy::all_indices(spans).filter(|_| !counts.contains(&0)) {
        check(ask)?;
        let is_stored = stored.contains(&place);
        let value = match Side::of(&place, chunk, own, all) {
            Side::Inside if !is_stored => encode_once(&mut of_inside, inside.as_ref())?,
            Side::Inside => None,
            Side::Behind => encode_once(&mut of_behind, behind)?,
            Side::AtEnd if is_stored && is_padded => None,
            Side::AtEnd if !is_stored && inside.as_ref() == behind => {
                encode_once(&mut of_inside, inside.as_ref())?
            }
            Side::AtEnd => {
                let value = one.encode_chunk(&rest, Some(&place))?;
                bytes += value.as_str().map_or(0, str::len) as u64;
                Some(value)
            }
        };
        if bytes > MOST_INLINED {
            return Err(refuse(
                "it is shorter than its unlimited dimension, and its chunks there are too large to be written \
                 into the references"
                    .into(),
            ));
        }
        found.extend(value.map(|value| (place, value)));
    }
    Ok(found)
}

/// Encodes chunks with the codecs of the references.
struct OneChunk<'a> {
    array: &'a Array,
    document: &'a Json,
    chunk: &'a [u64],
}

impl OneChunk<'_> {
    /// Encodes a chunk of one value. With `place`, includes the array's elements at that place.
    fn encode_chunk(&self, value: &[u8], place: Option<&[u64]>) -> Result<Json> {
        let bytes = element_count(self.chunk).and_then(|n| n.checked_mul(self.array.dtype().size() as u64));
        let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok()).ok_or_else(wrong_size)?;
        if !room::for_copies(bytes, COPIES) {
            return Err(super::no_memory(self.array, bytes as u64));
        }
        let mut document = self.document.clone();
        document.set("shape", self.chunk.into());
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let text = document.to_text(None);
        let one: Array =
            zarr::Array::of_document(store.clone(), "", zarr::Format::V2, text.as_bytes())?.into();
        let options = WriteOptions::default();
        one.write(&one.select(&[])?, &Source::repeated(value, self.chunk), options)?;
        if let Some(place) = place {
            let axes = place.iter().zip(self.chunk).zip(self.array.shape());
            let ranges: Vec<(u64, u64)> = axes
                .map(|((at, chunk), own)| (at * chunk, own.saturating_sub(at * chunk).min(*chunk)))
                .collect();
            let shape: Vec<u64> = ranges.iter().map(|(_, len)| *len).collect();
            let size = self.array.dtype().size();
            let count = element_count(&shape).and_then(|count| usize::try_from(count).ok());
            let mut bytes = vec![0; count.and_then(|count| count.checked_mul(size)).ok_or_else(wrong_size)?];
            let index = |(first, len): &(u64, u64)| Index::range(*first as i64, (first + len) as i64);
            let own = self.array.select(&ranges.iter().map(index).collect::<Vec<_>>())?;
            let mut target = Target::dense(&mut bytes, &shape, size).ok_or_else(wrong_size)?;
            self.array.read_into(&own, &mut target, ReadOptions::default())?;
            if self.array.dtype().order() != one.dtype().order() {
                swap_bytes(&mut bytes, self.array.dtype().number_size());
            }
            let index: Vec<Index<'_>> = shape.iter().map(|len| Index::range(0, *len as i64)).collect();
            let values = Source::dense(&bytes, &shape, size).ok_or_else(wrong_size)?;
            one.write(&one.select(&index)?, &values, options)?;
        }
        let mut object = Vec::new();
        for key in store.list(None)? {
            store.read_all(Key::new(&key)?, &mut object, usize::MAX)?;
        }
        Ok(base64(&object))
    }
}

fn wrong_size() -> Error {
    Error::Options("a chunk is larger than memory".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_of_the_end() {
        let of = |place: [u64; 2]| Side::of(&place, &[2, 3], &[3, 4], &[7, 4]);
        assert_eq!([of([0, 0]), of([0, 1])], [Side::Inside; 2]);
        assert_eq!([of([1, 0]), of([1, 1])], [Side::AtEnd; 2]);
        assert_eq!([of([2, 0]), of([3, 1])], [Side::Behind; 2]);
        // Array and variable are equally long: nothing is beyond the end.
        assert_eq!(Side::of(&[1], &[2], &[3], &[3]), Side::Inside);
    }
}
