//! Selections as text: the part between the brackets in NumPy.

use crate::failure::{self, Failure};
use hyperslab::Node;

pub(crate) use hyperslab::parse_indices as parse;

/// The node, and the text of the selection: `PATH SELECTION` or `PATH[SELECTION]`.
pub(crate) fn open(path: &str, selection: Option<&str>) -> Result<(Node, String), Failure> {
    if let Some(selection) = selection {
        return Ok((failure::open(path)?, selection.to_owned()));
    }
    match (failure::open(path), split(path)) {
        (Err(error), Some((path, selection))) => match failure::open(path) {
            Ok(node) => Ok((node, selection.to_owned())),
            Err(_) => Err(error),
        },
        (opened, _) => Ok((opened?, String::new())),
    }
}

/// Returns `true` if the text can be a selection.
pub(crate) fn is_one(text: &str) -> bool {
    let is_index = |part: &str| match part.split_once('=') {
        Some((name, index)) => !name.contains(['/', '.']) && parse(index).is_ok(),
        None => false,
    };
    parse(text).is_ok() || text.split(',').all(is_index)
}

/// Splits `path[selection]`.
pub(crate) fn split(word: &str) -> Option<(&str, &str)> {
    let open = word.strip_suffix(']')?.rfind('[')?;
    Some(word.split_at(open))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_selections() {
        for text in ["0", "0:12, 90", "[..., 1]", "time=0:3", "time=0, x=-1"] {
            assert!(is_one(text), "{text}");
        }
        for text in ["a.nc", "a.nc/x", "s3://a?b=1", "a=b", "x=1,b.nc"] {
            assert!(!is_one(text), "{text}");
        }
    }

    #[test]
    fn paths_with_brackets() {
        assert_eq!(split("a.zarr/x[0, :]"), Some(("a.zarr/x", "[0, :]")));
        assert_eq!(split("a[1]/x[0]"), Some(("a[1]/x", "[0]")));
        assert_eq!(split("a.zarr"), None);
        assert_eq!(split("a]"), None);
    }
}
