//! Selections as text: the part between the brackets in NumPy.

pub(crate) use hyperslab::parse_indices as parse;

/// Splits `path[selection]`.
pub(crate) fn split(word: &str) -> Option<(&str, &str)> {
    let open = word.strip_suffix(']')?.rfind('[')?;
    Some(word.split_at(open))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_with_brackets() {
        assert_eq!(split("a.zarr/x[0, :]"), Some(("a.zarr/x", "[0, :]")));
        assert_eq!(split("a[1]/x[0]"), Some(("a[1]/x", "[0]")));
        assert_eq!(split("a.zarr"), None);
        assert_eq!(split("a]"), None);
    }
}
