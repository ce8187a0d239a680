//! Arrays whose elements are all written into references.

use super::{MOST_INLINED, Refs, base64};
use crate::copy::{copy_values, zarr_spec};
use crate::meaning::Variable;
use crate::{Array, Error, Format, Key, MemoryStore, Result, Store, zarr};
use hyperslab_array::element_count;
use hyperslab_codec::VlenKind;
use hyperslab_store::Ask;
use std::sync::Arc;

/// Makes the references of an array whose elements are all written into them.
/// `why`: the reason why byte ranges cannot represent the array, for the error if it is too large.
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
        zarr_spec(&name, array, variable, Format::ZarrV2, &variable.shape).map_err(|error| match error {
            // The first reason is more helpful.
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
