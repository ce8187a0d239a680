//! Where users say that data is: a path or a `file://` URL.

use crate::Error;
use hyperslab_store::{LocalOptions, LocalStore, Store};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Endings of names that people give to files of HDF5 and NetCDF, never to Zarr stores.
const FILE_ENDINGS: [&str; 6] = ["h5", "hdf5", "nc", "nc4", "cdf", "he5"];

/// The store at a path or `file://` URL. The directory need not exist yet: the first write makes
/// it.
///
/// Errors with [`Error::Location`] for other schemes, and with [`Error::Store`] where something
/// else than a directory is there.
pub fn store_at(location: &str) -> Result<Arc<dyn Store>, Error> {
    Ok(Arc::new(LocalStore::open(local_path(location)?, LocalOptions::default())?))
}

/// As [`store_at`], for a new node: refuses names that [`refuse_file_name`] refuses.
pub(crate) fn new_store_at(location: &str) -> Result<Arc<dyn Store>, Error> {
    refuse_file_name(&local_path(location)?)?;
    store_at(location)
}

/// Refuses to make a directory whose name ends as those of files do: `typo.h5` is hardly meant to
/// be a Zarr store. A directory that exists may have any name.
///
/// Errors with [`Error::Location`].
pub fn refuse_file_name(path: &Path) -> Result<(), Error> {
    for part in path.ancestors().take_while(|part| !part.as_os_str().is_empty()) {
        let ending = part.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
        if let Some(ending) = ending.filter(|ending| FILE_ENDINGS.contains(&ending.as_str()))
            && !part.exists()
        {
            return Err(Error::Location {
                location: path.display().to_string(),
                why: format!(
                    "no such file, and no Zarr store is created under a name that ends in '.{ending}'; \
                     choose another name, or make the directory first"
                ),
            });
        }
    }
    Ok(())
}

/// The path that a location means: itself, or that of a `file://` URL with its percent-escapes
/// decoded.
///
/// Text that looks like another URL, or like fsspec's chains of them (`zip::file://a.zip`), is
/// refused: nobody means a directory `zip::file:`. With `./` in front every text is a path.
///
/// Errors with [`Error::Location`] for other schemes, other hosts and broken escapes.
pub fn local_path(location: &str) -> Result<PathBuf, Error> {
    let refuse = |why: String| Err(Error::Location { location: location.to_owned(), why });
    if location.is_empty() {
        return refuse("it is empty".into());
    }
    let (first, rest) = location.find('/').map_or((location, ""), |slash| location.split_at(slash));
    // `s3:/bucket` is what pathlib makes of a URL.
    let scheme = first.strip_suffix(':').filter(|scheme| is_scheme(scheme) && rest.starts_with('/'));
    if first.contains("::") || (rest.starts_with("//") && first.ends_with(':') && scheme.is_none()) {
        return refuse(format!(
            "it looks like a URL, of which only file:// is understood; a local path that is named so starts \
             with './': './{location}'"
        ));
    }
    let Some(scheme) = scheme else {
        return Ok(PathBuf::from(location));
    };
    if !scheme.eq_ignore_ascii_case("file") {
        return refuse(format!("'{scheme}://' is not supported; give a path or a file:// URL"));
    }
    let (host, path) = match rest.strip_prefix("//") {
        Some(rest) => rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash)),
        None => ("", rest),
    };
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
            ("file:/a%20b", "/a b"),
            ("odd:name", "odd:name"),
            ("odd:name/b::c", "odd:name/b::c"),
            ("./s3://a", "./s3://a"),
            ("./zip::a", "./zip::a"),
            ("/data/s3://a", "/data/s3://a"),
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
            ("foo://", "'foo://' is not supported"),
            ("s3:/bucket/a.zarr", "'s3://' is not supported"),
            ("simplecache::memory://q", "looks like a URL"),
            ("zip::file:///a.zip", "looks like a URL"),
            ("zip::/a.zip", "'./zip::/a.zip'"),
            ("zip://a::file:///b.zip", "'zip://' is not supported"),
            ("my_scheme://a", "looks like a URL"),
            ("a b://c", "looks like a URL"),
            ("://c", "looks like a URL"),
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
    fn names_of_files_are_no_new_stores() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for name in ["a.h5", "a.HDF5", "a.nc", "a.nc4", "a.cdf", "a.he5", "a.h5/b", "b/a.nc/c/d.zarr"] {
            let message = refuse_file_name(&at(name)).unwrap_err().to_string();
            assert!(message.contains("no Zarr store is created"), "{message}");
        }
        for name in ["a", "h5", "a.h5.zarr", ".h5", "a.zarr", "a.ncx"] {
            refuse_file_name(&at(name)).unwrap();
        }
        std::fs::create_dir(at("a.h5")).unwrap();
        refuse_file_name(&at("a.h5/b")).unwrap();
        refuse_file_name(Path::new("b.zarr")).unwrap();
        assert!(refuse_file_name(Path::new("no such b.h5")).is_err());
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
