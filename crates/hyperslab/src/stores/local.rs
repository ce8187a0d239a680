//! The scheme `file`: paths and `file://` URLs.

use super::zip::{self, Above};
use super::{FoundObject, Intent, Reached, Scheme, StoreOptions};
use crate::{Error, FileStore, LocalOptions, LocalStore, Result, settings};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// File name endings of HDF5, NetCDF and references, which Zarr stores never have.
const FILE_ENDINGS: [&str; 7] = ["h5", "hdf5", "nc", "nc4", "cdf", "he5", "json"];

/// A path, or `file:///PATH` with percent-escapes.
#[derive(Debug)]
pub(super) struct File;

impl Scheme for File {
    fn name(&self) -> &'static str {
        "file"
    }

    fn reach(&self, location: &str, options: StoreOptions<'_>) -> Result<Reached> {
        reach_path(&path_of(location)?, options)
    }

    fn local_path(&self, location: &str) -> Result<Option<PathBuf>> {
        path_of(location).map(Some)
    }
}

/// The store that a local path leads into.
/// If the path leads to or into a zip archive or another file, it is the store of that file.
/// Otherwise it is the store of the directory, which need not exist yet.
///
/// Fails with [`Error::Store`] if something else is there.
pub(super) fn reach_path(path: &Path, options: StoreOptions<'_>) -> Result<Reached> {
    let local = LocalOptions { fsync: options.fsync, file_locks: settings::file_locks() };
    if options.intent == Intent::Unseen {
        return Ok(Reached::new(Arc::new(LocalStore::unseen(path, local)?), ""));
    }
    let found = zip::look_above(path);
    if let Some((archive, inside)) = zip::archive_among(path, found) {
        return zip::open_local(&archive, inside, options);
    }
    if options.intent == Intent::Create {
        refuse_file_name(path)?;
    } else if let Some((above, kind)) = found.existing {
        if kind == Above::Directory && above == path {
            return Ok(Reached::new(Arc::new(LocalStore::unseen(path, local)?), ""));
        }
        if kind == Above::File
            && let Some(store) = FileStore::open(above)?
        {
            let inside = path.strip_prefix(above).unwrap_or(Path::new(""));
            let key = store.key().to_owned();
            let path = Path::new(&key).join(inside).to_string_lossy().into_owned();
            let object = Some(FoundObject { key, name: above.to_owned() });
            return Ok(Reached { store: Arc::new(store), path, object });
        }
    }
    Ok(Reached::new(Arc::new(LocalStore::open(path, local)?), ""))
}

/// Refuses to create a directory with a file name ending.
/// `typo.h5` is hardly meant to be a Zarr store. A directory that exists may have any name.
///
/// Fails with [`Error::Location`].
pub fn refuse_file_name(path: &Path) -> Result<()> {
    for part in path.ancestors().take_while(|part| !part.as_os_str().is_empty()) {
        if let Some(ending) = file_ending(part)
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

/// The ending of a name, if it is one of [`FILE_ENDINGS`].
fn file_ending(name: &Path) -> Option<String> {
    let ending = name.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    ending.filter(|ending| FILE_ENDINGS.contains(&ending.as_str()))
}

/// Returns `true` if a name has the ending of a file or an archive.
pub(super) fn is_file_name(name: &str) -> bool {
    let name = Path::new(name);
    file_ending(name).is_some() || name.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("zip"))
}

/// The path of a location: the location itself, or the decoded path of a `file://` URL.
/// Fails with [`Error::Location`] for other hosts and broken percent-escapes.
fn path_of(location: &str) -> Result<PathBuf> {
    let refuse = |why: String| Err(Error::Location { location: location.to_owned(), why });
    let scheme = location.get(..5).filter(|scheme| scheme.eq_ignore_ascii_case("file:"));
    let Some(rest) = scheme.and_then(|_| location.get(5..)).filter(|rest| rest.starts_with('/')) else {
        return Ok(PathBuf::from(location));
    };
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

pub(super) fn percent_decoded(text: &str) -> Option<String> {
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
    use crate::stores::{local_path, reach};

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
            assert_eq!(local_path(location).unwrap(), Some(PathBuf::from(path)), "{location}");
        }
    }

    #[test]
    fn what_is_no_local_path() {
        for (location, why) in [
            ("", "empty"),
            ("ftp://host/a.zarr", "'ftp://' is not supported"),
            ("foo://", "'foo://' is not supported; the schemes are file, memory, zip"),
            ("ftp:/host/a.zarr", "'ftp://' is not supported"),
            ("simplecache::memory://q", "looks like a URL"),
            ("zip::file:///a.zip", "by its own location: 'file:///a.zip'"),
            (
                "zip::0.zip",
                "a node in it by '0.zip/PATH'; an archive whose name does not end in .zip by 'zip://PATH::0.zip'",
            ),
            ("zip::", "looks like a URL"),
            ("zip::/a.zip", "'./zip::/a.zip'"),
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
        let create = StoreOptions { intent: Intent::Create, ..StoreOptions::default() };
        let store = reach(path.to_str().unwrap(), create).unwrap().store;
        assert!(store.url().starts_with("file:///"), "{}", store.url());
        assert_eq!(local_path(&store.url()).unwrap().as_deref(), Some(path.as_path()));
        assert_eq!(store.local_path(None).as_deref(), Some(path.as_path()));
        std::fs::write(&path, "a file").unwrap();
        assert!(matches!(reach(path.to_str().unwrap(), create), Err(Error::Store(_))));
        let found = reach(&format!("{}/b/c", path.display()), StoreOptions::default()).unwrap();
        assert_eq!((found.object.unwrap().name, found.path.as_str()), (path, "not yet/b/c"));
    }
}
