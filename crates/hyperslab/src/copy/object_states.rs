//! Asks a store for the states of the objects that a part of a copy owns.
//!
//! A server lists 1000 objects with one request. Each part lists its own folders: nobody lists a
//! whole copy, which may have 10⁸ objects. Keys of one row of chunks lie in one folder, and folders
//! of one part often lie in one folder above, so there is a choice of folders ([`folders`]).

use super::listings::is_listed_far;
use crate::{Array, Error, Key, Result, Store};
use hyperslab_store::{Ask, SharedStamp, common_folder};
use std::collections::HashMap;
use std::sync::Arc;

/// Number of objects that are looked up at once in a distant store.
const AT_ONCE: usize = 32;

/// Objects that a server lists with one request.
const PAGE: usize = 1000;

/// A listing costs as much as this many lookups, by the prices of S3.
const LOOKUPS: u64 = 12;

/// Asks for the states of objects. `None`: an object is not stored.
pub(super) fn ask(
    store: &Arc<dyn Store>,
    array: &Array,
    keys: &[String],
    ask: Option<Ask<'_>>,
) -> Result<Vec<Option<SharedStamp>>> {
    if is_listed_far(array)
        && let Some(listed) = list(store, array, keys, ask)?
    {
        return Ok(keys.iter().map(|key| listed.get(key).copied()).collect());
    }
    let mut all = Vec::with_capacity(keys.len());
    if store.cost().prefers_rounds() {
        for some in keys.chunks(AT_ONCE) {
            let answers = std::thread::scope(|scope| {
                let asked: Vec<_> =
                    some.iter().map(|key| scope.spawn(|| change_numbers(store, key))).collect();
                asked.into_iter().map(|one| one.join()).collect::<Vec<_>>()
            });
            for answer in answers {
                all.push(answer.map_err(|_| Error::Options("a thread panicked".into()))??);
            }
        }
    } else {
        for key in keys {
            all.push(change_numbers(store, key)?);
        }
    }
    Ok(all)
}

/// The states of all objects in the folders of these keys; `None`: lookups are cheaper.
fn list(
    store: &Arc<dyn Store>,
    array: &Array,
    keys: &[String],
    ask: Option<Ask<'_>>,
) -> Result<Option<HashMap<String, SharedStamp>>> {
    let counts = array.layout().object_grid().counts(array.shape());
    let mut listed = HashMap::new();
    let mut add = |folder: &str, most: usize| -> Result<bool> {
        let prefix = Some(folder).filter(|folder| !folder.is_empty()).map(Key::new).transpose()?;
        let found = store.list_stamps(prefix, most, ask)?;
        let is_all = found.is_some();
        listed.extend(found.unwrap_or_default());
        Ok(is_all)
    };
    if let Some(folders) = folders(keys, array.path(), &counts) {
        for folder in folders {
            // Others may have put more objects there than the array has.
            if !add(folder, usize::MAX)? {
                return Ok(None);
            }
        }
        return Ok(Some(listed));
    }
    // Few of the objects may be stored.
    let folder = common_folder(keys.iter().map(String::as_str));
    let is_all = keys.len() > AT_ONCE && add(folder, keys.len().max(PAGE))?;
    Ok(is_all.then_some(listed))
}

/// The folders whose listings show all keys, at the depth with the fewest requests; `None`: lookups
/// are cheaper. `path`: of the array. `counts`: its objects per axis. Keys are in C order.
fn folders<'k>(keys: &'k [String], path: &str, counts: &[u64]) -> Option<Vec<&'k str>> {
    let first = keys.first()?;
    let ends: Vec<usize> = first.match_indices('/').map(|(at, _)| at).collect();
    // Each axis has a part of the key behind the path, or all axes share one.
    let inside = if path.is_empty() { 0 } else { path.matches('/').count() + 1 };
    let axes = ends.len().saturating_sub(inside).min(counts.len().saturating_sub(1));
    let objects = |axis: usize| counts.iter().skip(axis).fold(1, |n: u64, count| n.saturating_mul(*count));
    let depth = |axis: usize| ends.len() - 1 - (axes - axis);
    let at = |axis: usize| {
        let mut found: Vec<&str> = Vec::new();
        for key in keys {
            let end = key.match_indices('/').nth(depth(axis)).map_or(0, |(at, _)| at);
            let folder = key.get(..end).unwrap_or_default();
            if found.last() != Some(&folder) {
                found.push(folder);
            }
        }
        found
    };
    let options = (0..=axes).filter(|axis| ends.len() > axes - axis).map(|axis| {
        let folders = at(axis);
        let requests = (folders.len() as u64).saturating_mul(objects(axis).div_ceil(PAGE as u64));
        (requests, folders)
    });
    let (requests, folders) = options.min_by_key(|(requests, _)| *requests)?;
    (requests.saturating_mul(LOOKUPS) <= keys.len() as u64).then_some(folders)
}

/// The numbers that show whether an object has changed; `None`: it is not stored.
fn change_numbers(store: &Arc<dyn Store>, key: &str) -> Result<Option<SharedStamp>> {
    let key = Key::new(key)?;
    Ok(match store.stamp(key)? {
        Some(stamp) => Some(stamp.everywhere()),
        None => store.size(key)?.map(|size| [size, 0, 0, 0]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(rows: std::ops::Range<u64>, row: u64) -> Vec<String> {
        rows.flat_map(|y| (0..row).map(move |x| format!("a/c/{y}/{x}"))).collect()
    }

    #[test]
    fn a_part_lists_the_folders_that_need_the_fewest_requests() {
        // Two rows of 5000 objects, of an array of 1000 rows: 10 requests.
        assert_eq!(folders(&keys(3..5, 5000), "a", &[1000, 5000]).unwrap(), ["a/c/3", "a/c/4"]);
        // Rows of four objects: one listing of the array is a page.
        assert_eq!(folders(&keys(0..200, 4), "a", &[250, 4]).unwrap(), ["a/c"]);
        // A few of very many objects are looked up.
        assert_eq!(folders(&keys(7..8, 10), "a", &[1000, 100_000]), None);
        assert_eq!(folders(&[], "a", &[1000]), None);
        // Keys of Zarr v2: all are in one folder.
        let flat: Vec<String> = (0..400).map(|x| format!("a/0.{x}")).collect();
        assert_eq!(folders(&flat, "a", &[1, 400]).unwrap(), ["a"]);
        assert_eq!(folders(&flat, "a", &[1_000_000, 400]), None);
        // A scalar at the root.
        assert_eq!(folders(&["c".to_owned()], "", &[]), None);
    }
}
