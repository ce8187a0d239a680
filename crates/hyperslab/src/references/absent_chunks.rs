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
use crate::copy::{OneChunk, fill_in};
use crate::error::check;
use crate::meaning::{Side, Variable};
use crate::nodes::element::swap_bytes;
use crate::{Array, Dims, Error, Json, Result, zarr};
use hyperslab_array::element_count;
use hyperslab_store::Ask;
use std::collections::{HashMap, HashSet};

/// The most chunks without a place in the file to write into references.
const MOST_ABSENT: u64 = 1 << 16;

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
    let one = OneChunk::new(array, (zarr::Format::V2, document), chunk, COPIES);
    let encode_chunk =
        |value: &[u8], place: Option<&[u64]>| one.encode(place, Some(value)).map(|object| base64(&object));
    // Encode each of these chunks once, when it is needed.
    let (mut of_inside, mut of_behind) = (None, None);
    let encode_once = |known: &mut Option<Json>, value: Option<&Vec<u8>>| -> Result<Option<Json>> {
        if let (None, Some(value)) = (&known, value) {
            *known = Some(encode_chunk(value, None)?);
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
                let value = encode_chunk(&rest, Some(&place))?;
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
