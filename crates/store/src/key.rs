//! Object names that cannot leave the store.

use crate::{Result, StoreError};
use std::fmt;

/// Suffix of the file names of unfinished writes. Their prefix is a dot.
pub(crate) const TEMPORARY_SUFFIX: &str = ".hyperslab-tmp";

/// A checked object name: one or more components joined by `/`, relative to the root of the store.
///
/// A component is never empty, `.` or `..`, and contains no NUL and no backslash (a path separator
/// on some systems). A key from hostile metadata therefore cannot name anything outside the root.
/// Names of the form `.….hyperslab-tmp` are reserved for files of unfinished writes: nobody can
/// read one, and a listing that omits them is still complete. A key borrows its text, so checking a
/// key for every chunk allocates nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key<'a>(&'a str);

impl<'a> Key<'a> {
    /// Checks `name`. Fails with [`StoreError::InvalidKey`], which gives the reason.
    pub fn new(name: &'a str) -> Result<Self> {
        if is_plain(name) {
            return Ok(Key(name));
        }
        let why = if name.is_empty() {
            "it is empty"
        } else if name.bytes().any(|b| b == 0 || b == b'\\') {
            "it contains a NUL or a backslash"
        } else if name.split('/').any(|part| matches!(part, "" | "." | "..")) {
            "it has an empty, '.' or '..' component"
        } else if name.split('/').any(|part| part.starts_with('.') && part.ends_with(TEMPORARY_SUFFIX)) {
            "the form '.….hyperslab-tmp' is reserved for temporary files"
        } else {
            return Ok(Key(name));
        };
        Err(StoreError::InvalidKey { key: name.to_owned(), why })
    }

    /// Wraps a name that was checked before.
    pub(crate) fn unchecked(name: &'a str) -> Self {
        debug_assert!(Key::new(name).is_ok(), "{name:?}");
        Key(name)
    }

    /// The key as text.
    pub fn as_str(self) -> &'a str {
        self.0
    }
}

/// Returns whether a name is obviously valid: no component is empty or begins with a dot.
///
/// One pass. Names of chunks pass it, and each of them is checked.
fn is_plain(name: &str) -> bool {
    let mut at_start = true;
    let ordinary = name.bytes().all(|byte| {
        let refused = matches!(byte, 0 | b'\\') || at_start && matches!(byte, b'/' | b'.');
        at_start = byte == b'/';
        !refused
    });
    ordinary && !at_start
}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// The longest prefix that contains all keys: their common beginning, up to a slash.
pub fn common_folder<'k>(keys: impl IntoIterator<Item = &'k str>) -> &'k str {
    let mut keys = keys.into_iter();
    let Some(first) = keys.next() else { return "" };
    let same = |key: &str| first.bytes().zip(key.bytes()).take_while(|(one, other)| one == other).count();
    let len = keys.map(same).min().unwrap_or(first.len());
    let end = first.as_bytes().get(..len).and_then(|shared| shared.iter().rposition(|byte| *byte == b'/'));
    end.and_then(|end| first.get(..end)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::Key;

    #[test]
    fn keys_stay_inside() {
        for good in
            ["a", "a/b", "c/0/0", ".zarray", "a b/…", "..a/b..", "0.0", "a.hyperslab-tmp", ".hyperslab-tmp.a"]
        {
            assert_eq!(Key::new(good).map(Key::as_str).ok(), Some(good));
        }
        let bad = "/ /a a/ a//b . .. a/../b ../a a/.. a\0b a\\..\\b ./a a/.1.hyperslab-tmp".split(' ');
        for bad in bad.chain([""]) {
            assert!(Key::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_folder_of_keys() {
        for (keys, folder) in [
            (&["a/c/1/0", "a/c/1/1"][..], "a/c/1"),
            (&["a/c/1/0", "a/c/10/1"], "a/c"),
            (&["a/c/1"], "a/c"),
            (&["a", "b"], ""),
            (&[], ""),
        ] {
            assert_eq!(super::common_folder(keys.iter().copied()), folder);
        }
    }
}
