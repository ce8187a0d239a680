//! Values that are written into references.

use super::{MOST_INLINED, Refs, base64};
use crate::copy::{copy_values, fill_in, specified};
use crate::meaning::Variable;
use crate::{Array, Dims, Error, Format, Json, Key, MemoryStore, Result, Source, Store, WriteOptions, zarr};
use hyperslab_array::element_count;
use hyperslab_codec::VlenKind;
use hyperslab_store::Ask;
use std::collections::HashSet;
use std::sync::Arc;

/// The most chunks without a place in the file that are written into references.
const MOST_ABSENT: u64 = 1 << 16;

/// The references of an array whose elements are all written into them. `why`: why ranges of the file
/// cannot say it, for the error of an array that is too large.
pub(super) fn references(
    path: &str,
    array: &Array,
    variable: &Variable,
    why: &str,
    ask: Option<Ask<'_>>,
) -> Result<Refs> {
    let name = format!("/{path}");
    let too_large = |bytes: u64| Error::Copy {
        array: name.clone(),
        why: format!("{why}; with {bytes} bytes it is too large to be written into the references"),
    };
    if matches!(array.vlen(), Some(VlenKind::Array(_))) {
        let why =
            "its elements are lists of numbers of any length, which xarray's engines do not read".into();
        return Err(Error::Copy { array: name, why });
    }
    let count = element_count(&variable.shape).unwrap_or(u64::MAX);
    let bytes = count.saturating_mul(array.dtype().size().max(1) as u64);
    if bytes > MOST_INLINED {
        return Err(too_large(bytes));
    }
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let described =
        specified(&name, array, variable, Format::ZarrV2, &variable.shape).map_err(|error| match error {
            // The first reason says more.
            Error::Copy { .. } => Error::Copy { array: name.clone(), why: why.to_owned() },
            error => error,
        })?;
    copy_values(array, described, &store, ask)?;
    let (mut refs, mut total) = (Refs::new(), 0);
    for key in store.list(None)? {
        let mut object = Vec::new();
        store.read_all(Key::new(&key)?, &mut object, usize::MAX)?;
        total += object.len() as u64;
        let is_document = key.starts_with('.');
        let value = match std::str::from_utf8(&object) {
            Ok(text) if is_document => text.into(),
            _ => base64(&object),
        };
        refs.push((zarr::join(path, &key), value));
    }
    if total > MOST_INLINED { Err(too_large(total)) } else { Ok(refs) }
}

/// The reference for chunks that are not stored, and the places of these chunks, if they hold
/// another value than `document` says: `null` reads as zero. `made`: the array of that document.
pub(super) fn absent(
    array: &Array,
    made: &zarr::Array,
    document: &Json,
    stored: &HashSet<Dims>,
) -> Result<Option<(Json, Vec<Dims>)>> {
    let Some(fill) = fill_in(array, &made.clone().into()) else { return Ok(None) };
    let layout = made.layout();
    let counts = layout.grid().counts(layout.shape());
    let count = element_count(&counts).unwrap_or(u64::MAX).saturating_sub(stored.len() as u64);
    if count == 0 {
        return Ok(None);
    }
    let refuse = |why: String| Error::Copy { array: array.name(), why };
    if count > MOST_ABSENT {
        return Err(refuse(format!(
            "{count} of its chunks are not stored, and hold a value that Zarr v2 has no place for: no \
             element is marked as missing"
        )));
    }
    let spans = counts.iter().map(|count| (0, count.saturating_sub(1))).collect();
    let places: Vec<Dims> = crate::copy::all(spans).filter(|place| !stored.contains(place)).collect();

    // One chunk of that value, encoded.
    let chunk = layout.grid().chunk_shape();
    let mut document = document.clone();
    document.set("shape", chunk.into());
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let text = document.to_text(None);
    let one: Array = zarr::Array::of_document(store.clone(), "", zarr::Format::V2, text.as_bytes())?.into();
    one.write(&one.select(&[])?, &Source::repeated(&fill, chunk), WriteOptions::default())?;
    let mut object = Vec::new();
    for key in store.list(None)? {
        store.read_all(Key::new(&key)?, &mut object, usize::MAX)?;
    }
    Ok(Some((base64(&object), places)))
}
