//! The coordinates of an axis: the array of one axis that has its name.

use crate::{Array, Node, Result, open_node};

/// The array with the coordinates of an axis, in the array's group or one above it. `None`: there is
/// none.
pub fn coordinate(array: &Array, name: &str, len: u64) -> Result<Option<Array>> {
    if name.is_empty() || name.contains('/') {
        return Ok(None);
    }
    let mut group = array.path().trim_matches('/').to_owned();
    loop {
        let Some((above, _)) = group.rsplit_once('/').or((!group.is_empty()).then_some(("", ""))) else {
            return Ok(None);
        };
        group = above.to_owned();
        let place = if group.is_empty() { name.to_owned() } else { format!("{group}/{name}") };
        let found = match array.file() {
            Some(file) => file.open(&place).ok(),
            None => open_node(array.store(), &place, None).ok(),
        };
        if let Some(Node::Array(found)) = found
            && found.shape() == [len]
            && is_called(&found, name)?
        {
            return Ok(Some(found));
        }
    }
}

/// Returns `false` if the axis has another name.
fn is_called(array: &Array, name: &str) -> Result<bool> {
    let names = array.dimension_names()?.unwrap_or_default();
    Ok(names.first().is_none_or(|own| own.as_deref().is_none_or(|own| own == name)))
}
