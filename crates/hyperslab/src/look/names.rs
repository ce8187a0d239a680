//! Lengths by the names of axes.

use crate::{Array, Result};

/// Lengths with the names of axes, as the command line takes them: `time=73,lat=-1`. Plain numbers if
/// axes have no names. -1 stands for all of an axis.
pub fn chunk_names(array: &Array, lens: &[u64]) -> Result<String> {
    let names = array.dimension_names()?.unwrap_or_default();
    let is_named = names.len() == lens.len()
        && names.iter().all(|name| {
            name.as_deref().is_some_and(|name| !name.is_empty() && !name.contains([',', '=', ' ', '\'', '"']))
        });
    let one = |(axis, len): (usize, &u64)| {
        let len = if *len >= array.shape()[axis] { "-1".to_owned() } else { len.to_string() };
        match names.get(axis).cloned().flatten() {
            Some(name) if is_named => format!("{name}={len}"),
            _ => len,
        }
    };
    Ok(lens.iter().enumerate().map(one).collect::<Vec<_>>().join(","))
}
