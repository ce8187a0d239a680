//! The nodes around an array: the coordinates of its axes, and the groups above it.

use crate::{Array, Node, Result, open_node};
use hyperslab_netcdf::netcdf4::Scale;

/// The array with the coordinates of an axis: it has the axis's name and one axis, and is in the array's
/// group or in one above. `len`: elements of the axis. `None`: the axis has no coordinates.
///
/// In an HDF5 file a variable may be shorter than its unlimited dimension, whose coordinates are all
/// there: element `n` of the variable has coordinate `n`.
pub fn coordinate(array: &Array, name: &str, len: u64) -> Result<Option<Array>> {
    if name.is_empty() || name.contains('/') {
        return Ok(None);
    }
    for group in above(array.path()) {
        let place = if group.is_empty() { name.to_owned() } else { format!("{group}/{name}") };
        if place == array.path().trim_matches('/') {
            if array.shape().len() == 1 {
                return Ok(Some(array.clone()));
            }
            continue;
        }
        // `len` 0: any length. Only variables of HDF5 may be shorter than their dimension.
        let may_be_longer = |found: &Array| len == 0 || found.as_hdf5().is_some();
        if let Some(Node::Array(found)) = around(array, &place)
            && matches!(found.shape(), [own] if *own == len || *own > len && may_be_longer(&found))
            && is_called(&found, name)?
        {
            // A dataset that only stands for the dimension hides the ones above.
            return Ok(has_values(&found)?.then_some(found));
        }
    }
    Ok(None)
}

/// The paths of the groups above a node, the nearest first; the last is `""`. No group is above the root.
pub(super) fn above(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path.trim_matches('/')), |path| match path.rsplit_once('/') {
        Some((above, _)) => Some(above),
        None => (!path.is_empty()).then_some(""),
    })
    .skip(1)
}

/// The node at a path of the store or file that has the array. `None`: nothing can be opened there.
pub(super) fn around(array: &Array, path: &str) -> Option<Node> {
    match array.file() {
        Some(file) => file.open(path).ok(),
        // The other formats are not looked for: each look may be a request.
        None => open_node(array.store(), path, array.as_zarr().map(|_| array.format())).ok(),
    }
}

/// Returns `false` for a dataset that only stands for a dimension.
fn has_values(array: &Array) -> Result<bool> {
    let Some(dataset) = array.as_hdf5() else { return Ok(true) };
    Ok(Scale::of(&dataset.attributes()?)?.is_none_or(|scale| !scale.without_variable))
}

/// Returns `false` if the axis has another name.
fn is_called(array: &Array, name: &str) -> Result<bool> {
    let names = array.dimension_names()?.unwrap_or_default();
    Ok(names.first().is_none_or(|own| own.as_deref().is_none_or(|own| own == name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArraySpec, MemoryStore, Store, zarr};
    use std::sync::Arc;

    #[test]
    fn groups_above_a_node() {
        let of = |path| above(path).collect::<Vec<_>>().join("|");
        assert_eq!((of("/a/b/c"), of("a"), of("")), ("a/b|a|".into(), String::new(), String::new()));
        assert_eq!((above("a").count(), above("").count()), (1, 0));
    }

    #[test]
    fn coordinates_are_the_nearest_of_a_name() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        zarr::Group::create(store.clone(), "", zarr::Format::V3, crate::Json::object(), false).unwrap();
        let make = |path: &str, shape: &[u64], names: &[&str]| -> Array {
            let mut spec = ArraySpec::new(zarr::Format::V3, shape, "<f4".parse().unwrap());
            spec.dimension_names = Some(names.iter().map(|name| Some((*name).to_owned())).collect());
            zarr::Array::create(store.clone(), path, spec, false).unwrap().into()
        };
        make("x", &[4], &["x"]);
        make("deep/x", &[9], &["other"]);
        make("y", &[2, 2], &["y", "x"]);
        make("t", &[9], &["t"]);
        let sst = make("deep/sst", &[4, 4, 4], &["t", "y", "x"]);
        let of = |array: &Array, name: &str| {
            coordinate(array, name, 4).unwrap().map(|found| found.path().to_owned())
        };
        assert_eq!(of(&sst, "x").as_deref(), Some("x"));
        // Coordinates of another array that lost its axis, or of a finer level.
        assert_eq!(of(&sst, "t"), None);
        assert_eq!((of(&sst, "y"), of(&sst, "sst"), of(&sst, "")), (None, None, None));
        let own = open_node(&store, "x", None).unwrap().into_array().unwrap();
        assert_eq!(of(&own, "x").as_deref(), Some("x"));
    }
}
