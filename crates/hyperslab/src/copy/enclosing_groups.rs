//! The groups above a destination that have consolidated metadata, even outside its store.

use crate::stores::local_path;
use crate::{LocalOptions, LocalStore, Result, Store, zarr};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use zarr::EnclosingGroups;

/// Finds the groups above a directory.
pub(super) fn of_directory(target: &Path, fsync: bool) -> Result<EnclosingGroups> {
    let mut above = EnclosingGroups::default();
    let Ok(target) = std::path::absolute(target) else { return Ok(above) };
    let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else { return Ok(above) };
    // A group may be reached through links and be elsewhere.
    let paths = BTreeSet::from([target.clone(), super::place::resolve_links(parent).join(name)]);
    for path in &paths {
        for group in path.ancestors().skip(1) {
            let is_group = ["zarr.json", ".zmetadata"].iter().any(|name| group.join(name).is_file());
            let place = path.strip_prefix(group).ok().and_then(Path::to_str);
            let (true, Some(place)) = (is_group, place) else { continue };
            let options = LocalOptions { fsync, ..LocalOptions::default() };
            let store: Arc<dyn Store> = Arc::new(LocalStore::unseen(group, options)?);
            above.look(&store, &[("", place.to_owned())])?;
        }
    }
    Ok(above)
}

/// Finds the groups above a path or URL, for a node at `path` in it.
/// `storage`: settings of a server.
///
/// On a server, groups that cannot be read are left out: the credentials may not cover them.
pub fn groups_above(
    location: &str,
    path: &str,
    fsync: bool,
    storage: &[(String, String)],
) -> Result<EnclosingGroups> {
    if let Some(target) = local_path(location)? {
        return of_directory(&target.join(path), fsync);
    }
    #[cfg(feature = "remote")]
    if let Some(above) = on_server(location, path, storage) {
        return Ok(above);
    }
    let _ = storage;
    Ok(EnclosingGroups::default())
}

/// Returns `None` if the location is not in a bucket.
#[cfg(feature = "remote")]
fn on_server(location: &str, path: &str, storage: &[(String, String)]) -> Option<EnclosingGroups> {
    let (scheme, rest) = location.split_once("://")?;
    let is_bucket =
        !scheme.starts_with("http") && crate::remote::SCHEMES.iter().any(|(name, _)| *name == scheme);
    let (bucket, key) = rest.trim_matches('/').split_once('/').filter(|_| is_bucket)?;
    let store = crate::remote::RemoteStore::open(&format!("{scheme}://{bucket}"), storage).ok()?;
    let store: Arc<dyn Store> = Arc::new(store);
    let groups: Vec<_> = key
        .match_indices('/')
        .map(|(at, _)| at)
        .chain([0])
        .map(|at| {
            let (group, place) = key.split_at(at);
            (group, zarr::join(place.trim_start_matches('/'), path))
        })
        .collect();
    let mut above = EnclosingGroups::default();
    let _ = above.look(&store, &groups);
    Some(above)
}
