//! The error for a node that does not exist. It names the node and says how to go on.

use super::{Mode, Opening, Place};
use crate::{Error, stores};
use hyperslab_hdf5::Hdf5Error;
use hyperslab_zarr::{Consolidation, NodeKind, ZarrError};

/// Returns `true` if an error says that there is no such node.
pub(super) fn is_missing(error: &Error) -> bool {
    matches!(
        error,
        Error::Missing { .. }
            | Error::NoVariable { .. }
            | Error::Zarr(ZarrError::NotFound { .. })
            | Error::Hdf5(Hdf5Error::NotFound { .. })
    )
}

/// The error for a user, made from an error of [`is_missing`].
///
/// Near stores are searched for nodes that the user may have meant.
pub(super) fn missing(error: Error, place: &Place, opening: &Opening<'_>) -> Error {
    let (kind, mode) = (opening.kind, opening.mode);
    if place.file.is_some() || opening.consolidation == Consolidation::Require {
        return match kind {
            None => error,
            Some(_) => Error::Missing { kind, why: error.to_string(), below: Vec::new() },
        };
    }
    let what = kind.map_or("array or group", NodeKind::name);
    let url = place.url();
    let at = if place.path.is_empty() { url } else { format!("'{}' in {url}", place.path) };
    let mut why = format!("there is no {what} at {at}");
    let below = match mode {
        Some(Mode::Append) => Vec::new(),
        _ => stores::nodes_below(&place.store, &place.path),
    };
    if !below.is_empty() {
        let names: Vec<String> = below.iter().map(|name| format!("'{name}'")).collect();
        why.push_str(&format!("; try {}", names.join(" or ")));
    } else if !place.read_only {
        let create = match kind {
            None => "create_array or create_group",
            Some(NodeKind::Array) => "create_array",
            Some(NodeKind::Group) => "create_group",
        };
        why.push_str(&format!("; to create one, pass mode='a' (or 'w-', 'w'), or use {create}"));
    }
    Error::Missing { kind, why, below }
}
