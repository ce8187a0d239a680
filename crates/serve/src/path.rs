//! Paths and queries of requests.

use percent_encoding::percent_decode_str;

/// The parts of a path, decoded. `None`: no path of this server.
///
/// A slash at the end asks for a listing. An encoded slash would change what a part means, so it is
/// refused like parts that lead upwards.
pub(crate) fn parts(path: &str) -> Option<(Vec<String>, bool)> {
    let path = path.strip_prefix('/')?;
    let (path, lists) = match path.strip_suffix('/') {
        Some("") => return None,
        Some(path) => (path, true),
        None => (path, path.is_empty()),
    };
    if path.is_empty() {
        return Some((Vec::new(), lists));
    }
    let decoded = path.split('/').map(|part| {
        let part = percent_decode_str(part).decode_utf8().ok()?;
        is_name(&part).then(|| part.into_owned())
    });
    Some((decoded.collect::<Option<Vec<_>>>()?, lists))
}

/// The parts of a path that is decoded already. `None`: no path of this server.
pub(crate) fn names(path: &str) -> Option<Vec<String>> {
    path.split('/').map(|part| is_name(part).then(|| part.to_owned())).collect()
}

/// Returns `false` for parts that lead elsewhere.
fn is_name(part: &str) -> bool {
    !matches!(part, "" | "." | "..") && !part.chars().any(|c| matches!(c, '/' | '\\') || c.is_control())
}

/// The value of a name in a query, decoded. A `+` is a space.
pub(crate) fn query(query: &str, name: &str) -> Option<String> {
    values(query, name).next()
}

/// All values of a name in a query.
pub(crate) fn queries(query: &str, name: &str) -> Vec<String> {
    values(query, name).collect()
}

fn values(query: &str, name: &str) -> impl Iterator<Item = String> {
    query.split('&').filter_map(move |pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let decoded = |text: &str| {
            let spaced = text.replace('+', " ");
            Some(percent_decode_str(&spaced).decode_utf8().ok()?.into_owned())
        };
        (decoded(key)? == name).then(|| decoded(value))?
    })
}

/// A whole query, decoded. `None`: it is no UTF-8.
pub(crate) fn decoded(query: &str) -> Option<String> {
    Some(percent_decode_str(query).decode_utf8().ok()?.into_owned())
}

/// A part of a path, as it stands in a link.
pub(crate) fn encoded(part: &str) -> String {
    use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
    const KEPT: &AsciiSet =
        &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');
    utf8_percent_encode(part, KEPT).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stay_inside() {
        let of = |path: &str| parts(path).map(|(parts, lists)| (parts.join("|"), lists));
        assert_eq!(of("/"), Some((String::new(), true)));
        assert_eq!(of("/zarr/a/c/0/1"), Some(("zarr|a|c|0|1".into(), false)));
        assert_eq!(of("/zarr/a%20b/"), Some(("zarr|a b".into(), true)));
        for bad in [
            "",
            "a",
            "/a//b",
            "/a/../b",
            "/..",
            "/%2e%2e/etc",
            "/a/%2E%2e",
            "/a/.",
            "/a%2fb",
            "/a%5cb",
            "/a%00",
            "/a/%ff",
            "//",
            "/a/%2e%2e%2f%2e%2e%2fetc/passwd",
            "/a\\..\\b",
            "/a%0d%0ab",
        ] {
            assert_eq!(parts(bad), None, "{bad}");
        }
    }

    #[test]
    fn queries() {
        let of = |name: &str| query("select=0,%20:,+::2&x&format=npy&select=9", name);
        assert_eq!(of("select").as_deref(), Some("0, :, ::2"));
        assert_eq!(of("format").as_deref(), Some("npy"));
        assert_eq!((of("x").as_deref(), of("y")), (Some(""), None));
        assert_eq!(super::queries("a=1&b=2&a=%C3%BC", "a"), ["1", "ü"]);
        assert_eq!(names("a/ü.h5"), Some(vec!["a".into(), "ü.h5".into()]));
        assert!(["", "/a", "a/", "a/../b", "a\\b", "a/./b"].iter().all(|path| names(path).is_none()));
        assert_eq!(encoded("a b/ü.zarr"), "a%20b/%C3%BC.zarr");
    }
}
