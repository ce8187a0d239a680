//! Finds nodes below a place that is not a node itself.
//! The place may be a folder of datasets, or an archive that was made of a folder.

use super::{archive_path, local};
use hyperslab_store::{Key, Store};
use std::env;
use std::sync::Arc;

/// The most nodes to name.
const MOST: usize = 3;
/// The most children of a folder to look at. Each costs reading metadata.
const LOOKED_AT: usize = 50;
/// The most folders to descend into, if each holds only the next.
const DEPTH: usize = 8;

/// Finds up to three arrays, groups and HDF5 or NetCDF files below a path that is not a node itself.
/// Returns locations as a user would write them. Returns none for servers, where looking takes long.
pub fn nodes_below(store: &Arc<dyn Store>, path: &str) -> Vec<String> {
    if !store.cost().looks_are_cheap() || !store.facts().lists {
        return Vec::new();
    }
    let mut path = path.trim_matches('/').to_owned();
    for _ in 0..DEPTH {
        let prefix = Some(path.as_str()).filter(|path| !path.is_empty()).map(Key::new).transpose();
        let children = prefix.ok().and_then(|prefix| store.list_dir(prefix).ok()).unwrap_or_default();
        let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
        let is_node = |child: &&hyperslab_store::Entry| match child.is_prefix {
            true => hyperslab_zarr::open(store, &below(&child.name), None).is_ok(),
            // Users do not open documents of Zarr or of references as datasets.
            false => local::is_file_name(&child.name) && !child.name.ends_with(".json"),
        };
        let nodes = children.iter().take(LOOKED_AT).filter(is_node).take(MOST);
        let nodes: Vec<String> = nodes.map(|child| location(&**store, &below(&child.name))).collect();
        match children.as_slice() {
            [only] if nodes.is_empty() && only.is_prefix => path = below(&only.name),
            _ => return nodes,
        }
    }
    Vec::new()
}

/// A path in a store as a user would write it.
/// On the local disk it is a path, relative if it is below the working directory; otherwise a URL.
fn location(store: &dyn Store, path: &str) -> String {
    let url = store.url();
    let Ok(Some(root)) = archive_path(&url) else { return format!("{}/{path}", url.trim_end_matches('/')) };
    let whole = root.join(path);
    let here = env::current_dir().ok();
    let shown = here.and_then(|here| whole.strip_prefix(here).ok()).unwrap_or(&whole);
    shown.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;
    use crate::stores::{Intent, StoreOptions, reach};
    use std::fs;

    #[test]
    fn what_lies_in_folders_and_archives() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        for folder in ["c/x.zarr", "c/y.zarr"] {
            Group::create(&at(folder), Format::ZarrV3).unwrap();
        }
        // As `zip -r` makes archives: without the parent groups that creating a node makes.
        let document = fs::read(at("c/x.zarr/zarr.json")).unwrap();
        for (archive, key) in [("a.zip", "x.zarr/zarr.json"), ("b.zip", "deep/er/x.zarr/zarr.json")] {
            let create = StoreOptions { intent: Intent::Create, ..StoreOptions::default() };
            let store = reach(&at(archive), create).unwrap().store;
            store.write(Key::new(key).unwrap(), &[&document]).unwrap();
            store.flush().unwrap();
        }
        fs::write(at("c/z.nc"), "").unwrap();
        fs::create_dir(at("c/other")).unwrap();
        let nodes_below = |location: &str| {
            let reached = reach(location, StoreOptions::default()).unwrap();
            nodes_below(&reached.store, &reached.path)
        };
        assert_eq!(nodes_below(&at("a.zip")), [at("a.zip/x.zarr")]);
        assert_eq!(nodes_below(&at("b.zip")), [at("b.zip/deep/er/x.zarr")]);
        assert_eq!(nodes_below(&at("c")), [at("c/x.zarr"), at("c/y.zarr"), at("c/z.nc")]);
        for none in ["c/other", "none"] {
            assert_eq!(nodes_below(&at(none)), Vec::<String>::new(), "{none}");
        }
    }
}
