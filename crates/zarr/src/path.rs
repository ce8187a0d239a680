//! Paths of nodes and names of children.

use crate::{Result, ZarrError};
use hyperslab_store::{Key, StoreError};

/// The plain form of a path: components joined by single slashes.
///
/// There is no slash at the start or the end, and `""` is the root. As in zarr-python, a backslash
/// is a slash. Fails for names that no node may have: `.`, `..`, and names with NUL.
pub fn normalize_path(path: &str) -> Result<String> {
    let plain = path.split(['/', '\\']).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
    if !plain.is_empty()
        && let Err(error) = Key::new(&plain)
    {
        let why = match error {
            StoreError::InvalidKey { why, .. } => why,
            _ => "it is not a valid key",
        };
        return Err(ZarrError::Path { path: path.to_owned(), why });
    }
    Ok(plain)
}

/// Checks the name of a new node: not empty, no slash, not `.` or `..`, no name of metadata.
///
/// (v3 reserves names that begin with `__`, but zarr-python allows them.)
pub fn check_node_name(name: &str) -> Result<()> {
    let why = if name.is_empty() {
        "a name has at least one character"
    } else if name.contains(['/', '\\']) {
        "a name contains neither a slash nor a backslash"
    } else if ["zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"].contains(&name) {
        "this is the name of a metadata object"
    } else {
        return normalize_path(name).map(|_| ());
    };
    Err(ZarrError::Path { path: name.to_owned(), why })
}

/// A path below another; `""` is the root.
pub fn join(parent: &str, child: &str) -> String {
    match (parent, child) {
        ("", child) => child.to_owned(),
        (parent, "") => parent.to_owned(),
        (parent, child) => format!("{parent}/{child}"),
    }
}

/// The parents of a path, outermost first, starting with the root `""`.
pub(crate) fn parents(path: &str) -> impl Iterator<Item = &str> {
    let inner = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
    (!path.is_empty()).then_some("").into_iter().chain(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        for (path, plain) in [
            ("", ""),
            ("/", ""),
            ("a", "a"),
            ("/a//b/", "a/b"),
            ("a b/ü", "a b/ü"),
            ("a\\b", "a/b"),
            ("__a", "__a"),
        ] {
            assert_eq!(normalize_path(path).unwrap(), plain);
        }
        for bad in ["..", "a/../b", ".", "a/./b", "a\\..\\b", "a\0"] {
            assert!(matches!(normalize_path(bad), Err(ZarrError::Path { .. })), "{bad:?}");
        }
        assert_eq!(parents("").count(), 0);
        assert_eq!(parents("a").collect::<Vec<_>>(), [""]);
        assert_eq!(parents("a/b/c").collect::<Vec<_>>(), ["", "a", "a/b"]);
        assert_eq!(join("", "a"), "a");
        assert_eq!(join("a", "b/c"), "a/b/c");
    }

    #[test]
    fn names() {
        for good in ["a", "a.b", "..a", "c", "0", "_x", "__a"] {
            assert!(check_node_name(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "zarr.json", ".zarray", "a\\b"] {
            assert!(check_node_name(bad).is_err(), "{bad}");
        }
    }
}
