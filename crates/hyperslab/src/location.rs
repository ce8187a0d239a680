//! Where users say that data is: a path or a `file://` URL.

use crate::Error;
use hyperslab_store::{LocalOptions, LocalStore, Store};
use std::path::PathBuf;
use std::sync::Arc;

/// The store at a path or `file://` URL. The directory need not exist yet: the first write makes it.
///
/// Errors with [`Error::Location`] for other schemes, and with [`Error::Store`] where something else than a directory is there.
pub fn store_at(location: &str) -> Result<Arc<dyn Store>, Error> {
    Ok(Arc::new(LocalStore::open(local_path(location)?, LocalOptions::default())?))
}

/// The path that a location means: itself, or that of a `file://` URL with its percent-escapes decoded.
///
/// Errors with [`Error::Location`] for other schemes, other hosts and broken escapes.
pub fn local_path(location: &str) -> Result<PathBuf, Error> {
    let refuse = |why: String| Err(Error::Location { location: location.to_owned(), why });
    if location.is_empty() {
        return refuse("it is empty".into());
    }
    let Some((scheme, rest)) = location.split_once("://").filter(|(scheme, _)| is_scheme(scheme)) else {
        return Ok(PathBuf::from(location));
    };
    if !scheme.eq_ignore_ascii_case("file") {
        return refuse(format!("'{scheme}://' is not supported; give a path or a file:// URL"));
    }
    let (host, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
    if !(host.is_empty() || host.eq_ignore_ascii_case("localhost")) {
        return refuse(format!("a file:// URL has three slashes before the path; here '{host}' is a host"));
    }
    match percent_decoded(path) {
        Some(path) if !path.is_empty() => Ok(PathBuf::from(path)),
        Some(_) => refuse("the URL has no path".into()),
        None => refuse("a '%' is not followed by two hexadecimal digits, or the result is not UTF-8".into()),
    }
}

/// RFC 3986, section 3.1. One letter is no scheme but a drive.
fn is_scheme(text: &str) -> bool {
    text.len() > 1
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => (hex(rest.next()?)? << 4) | hex(rest.next()?)?,
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_urls() {
        for (location, path) in [
            ("a/b.zarr", "a/b.zarr"),
            ("/a/b%20c", "/a/b%20c"),
            ("file:///a/b%20c.zarr", "/a/b c.zarr"),
            ("FILE://localhost/a", "/a"),
            ("file:///%C3%A9", "/é"),
            ("odd:name", "odd:name"),
            ("a b://c", "a b://c"),
        ] {
            assert_eq!(local_path(location).unwrap(), PathBuf::from(path), "{location}");
        }
    }

    #[test]
    fn what_is_no_local_path() {
        for (location, why) in [
            ("", "empty"),
            ("s3://bucket/a.zarr", "'s3://' is not supported"),
            ("memory://x", "'memory://' is not supported"),
            ("file://", "no path"),
            ("file://host/a", "'host' is a host"),
            ("file:///a%2", "two hexadecimal digits"),
            ("file:///a%zz", "two hexadecimal digits"),
            ("file:///a%ff", "not UTF-8"),
        ] {
            let message = local_path(location).unwrap_err().to_string();
            assert!(message.contains(why), "{location}: {message}");
        }
    }

    #[test]
    fn stores_know_where_they_are() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("not yet");
        let store = store_at(path.to_str().unwrap()).unwrap();
        assert!(store.url().starts_with("file:///"), "{}", store.url());
        assert_eq!(local_path(&store.url()).unwrap(), path);
        std::fs::write(&path, "a file").unwrap();
        assert!(matches!(store_at(path.to_str().unwrap()), Err(Error::Store(_))));
    }
}
