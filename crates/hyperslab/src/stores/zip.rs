//! Zip archives: paths into archives, and the scheme `zip`.
//!
//! A member that is an HDF5 or NetCDF file opens as usual, unless it is compressed in the archive.

use super::{FoundObject, Intent, Reached, Scheme, StoreOptions, local, local_path, reach};
use crate::{Error, Key, LocalOptions, Result, ZipMode, ZipStore, settings};
use hyperslab_store::{FileStore, RangeRead, Store, StoreError};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// `zip://PATH::LOCATION`: a path in the archive at another location, as in fsspec.
/// The path may also follow the location: `zip://::file:///x.zip/PATH`.
#[derive(Debug)]
pub(super) struct Zip;

impl Scheme for Zip {
    fn name(&self) -> &'static str {
        "zip"
    }

    fn reach(&self, location: &str, options: StoreOptions<'_>) -> Result<Reached> {
        let rest = location.split_once("://").map_or("", |(_, rest)| rest);
        let Some((inside, outer)) = rest.split_once("::") else {
            let why = "a zip:// URL is zip://PATH::LOCATION, a path in the archive at a location; for an archive \
                       on the local disk its path will do";
            return Err(Error::Location { location: location.to_owned(), why: why.into() });
        };
        let (store, behind) = match local_path(outer)? {
            Some(_) if !options.storage.is_empty() => {
                let why = "the archive is on the local disk, for which there are no storage options";
                return Err(Error::Location { location: location.to_owned(), why: why.into() });
            }
            Some(path) => {
                let (archive, behind) = archive_of(&path).unwrap_or_else(|| (path.clone(), String::new()));
                (open(&archive, options)?, behind)
            }
            None => reach_object(outer, options)?,
        };
        let path = [inside.trim_matches('/'), &behind].into_iter().filter(|part| !part.is_empty());
        reach_member(store, path.collect::<Vec<_>>().join("/"), options)
    }

    /// The options of the server that has the archive.
    fn takes_options(&self) -> bool {
        true
    }
}

fn open(archive: &Path, options: StoreOptions<'_>) -> Result<ZipStore> {
    let local = LocalOptions { fsync: options.fsync, file_locks: settings::file_locks() };
    Ok(ZipStore::local(archive, ZipMode::Append, local)?)
}

pub(super) fn open_local(archive: &Path, inside: String, options: StoreOptions<'_>) -> Result<Reached> {
    reach_member(open(archive, options)?, inside, options)
}

/// Makes the result for a path in an archive.
/// If the path leads to or into a member with a file name, the result names that object.
pub(super) fn reach_member(store: ZipStore, path: String, options: StoreOptions<'_>) -> Result<Reached> {
    let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
    let names = ends.filter_map(|end| path.get(..end));
    let file =
        names.filter(|name| local::is_file_name(name) && !has_ending(Path::new(name))).find_map(|name| {
            let key = Key::new(name).ok()?;
            store.size(key).ok().flatten().map(|_| key)
        });
    let mut object = None;
    if let Some(key) = file.filter(|_| options.intent == Intent::Open) {
        if store.is_compressed(key)? {
            return Err(Error::Location {
                location: format!("{}/{key}", store.url()),
                why: "the file is compressed in its archive, so that no part of it can be read: extract it, or put \
                      it into the archive without compression (zip -0)"
                    .into(),
            });
        }
        let name = PathBuf::from(format!("{}/{key}", store.url()));
        object = Some(FoundObject { key: key.as_str().to_owned(), name });
    }
    Ok(Reached { store: Arc::new(store), path, object })
}

/// The archive in another store, at a location or above it, and the path in the archive.
fn reach_object(location: &str, options: StoreOptions<'_>) -> Result<(ZipStore, String)> {
    #[cfg(feature = "remote")]
    if let Some(found) = super::remote::archive(location, options)? {
        return Ok(found);
    }
    let outer = reach(location, StoreOptions { intent: Intent::Open, ..options })?;
    let mut key = outer.path.as_str();
    loop {
        match ZipStore::open(outer.store.clone(), Key::new(key)?) {
            Ok(store) => {
                let inside = outer.path.get(key.len()..).unwrap_or_default().trim_start_matches('/');
                return Ok((store, inside.to_owned()));
            }
            Err(error) => match key.rsplit_once('/') {
                Some((above, _)) if is_missing(&error) => key = above,
                _ => return Err(error.into()),
            },
        }
    }
}

pub(super) fn is_missing(error: &StoreError) -> bool {
    error.io_kind() == Some(ErrorKind::NotFound)
}

/// The kinds of files at a path or above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Above {
    File,
    Directory,
    /// A pipe, a device, …
    Other,
}

/// The result of a search along a path, from its end upwards.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoundAbove<'p> {
    /// The longest part of the path that exists.
    pub(super) existing: Option<(&'p Path, Above)>,
    /// The shortest part that does not exist and is named like an archive.
    new_archive: Option<&'p Path>,
}

/// Looks for the longest part of a path that exists.
pub(super) fn look_above(path: &Path) -> FoundAbove<'_> {
    let mut new_archive = None;
    for above in path.ancestors().take_while(|above| !above.as_os_str().is_empty()) {
        match fs::metadata(above) {
            Ok(found) => {
                let kind = if found.is_file() {
                    Above::File
                } else if found.is_dir() {
                    Above::Directory
                } else {
                    Above::Other
                };
                return FoundAbove { existing: Some((above, kind)), new_archive };
            }
            // It does not exist, or is below something that is not a directory: a part of the path
            // may be a file.
            Err(_) if has_ending(above) => new_archive = Some(above),
            Err(_) => {}
        }
    }
    FoundAbove { existing: None, new_archive }
}

/// The archive that a path leads to or into, and the path in it.
/// A new archive is recognised by its name. `None`: the path leads elsewhere.
pub(super) fn archive_among(path: &Path, found: FoundAbove<'_>) -> Option<(PathBuf, String)> {
    let archive = match found.existing {
        Some((file, Above::File)) => is_archive(file).then_some(file),
        _ => found.new_archive,
    }?;
    let inside = path.strip_prefix(archive).unwrap_or(Path::new("")).to_string_lossy().into_owned();
    Some((archive.to_owned(), inside))
}

fn archive_of(path: &Path) -> Option<(PathBuf, String)> {
    archive_among(path, look_above(path))
}

/// Returns `true` if a path leads to or into an archive, existing or new.
pub(crate) fn is_in_archive(path: &Path) -> bool {
    archive_of(path).is_some()
}

/// The zip archive on the local disk that a location names by path or by its store's URL.
/// `None`: it is not on the local disk.
pub fn archive_path(location: &str) -> Result<Option<PathBuf>> {
    local_path(location.strip_prefix("zip://::").unwrap_or(location))
}

pub(super) fn has_ending(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("zip"))
}

/// Returns `true` if a file is a zip archive.
/// An archive begins with a member, or with the end record if it is empty. A file with the ending
/// `.zip` may begin with other data.
pub fn is_archive(path: &Path) -> bool {
    let start = start_of(path);
    matches!(start.as_ref(), Some(b"PK\x03\x04" | b"PK\x05\x06")) || has_ending(path)
}

/// The first bytes of a file.
/// Opens the file without waiting: reading some regular files of the system blocks.
fn start_of(path: &Path) -> Option<[u8; 4]> {
    let (store, mut start) = (FileStore::open(path).ok()??, [0; 4]);
    let range = RangeRead { offset: 0, buf: &mut start };
    let found = store.read_ranges(Key::new(store.key()).ok()?, None, &mut [range]);
    found.is_ok_and(|found| found).then_some(start)
}

#[cfg(test)]
mod tests {
    use crate::prelude::*;
    use crate::store::{Key, MemoryStore, Store};
    use crate::stores::{Intent, StoreOptions, reach};
    use std::fs;
    use std::path::Path;
    use std::sync::Arc;

    fn fill(location: &str) {
        let spec = ArraySpec::new(Format::ZarrV3.zarr().unwrap(), &[3], "|u1".parse().unwrap());
        Array::create(location, &spec).unwrap().write_slice(&[], &[1u8, 2, 3]).unwrap();
    }

    fn read(location: &str) -> Vec<u8> {
        Array::open(location).unwrap().read_vec::<u8>(&[]).unwrap()
    }

    #[test]
    fn paths_lead_into_archives() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        fill(&at("new.zip/g/a"));
        fill(&at("new.zip/b"));
        assert!(fs::read(at("new.zip")).unwrap().starts_with(b"PK\x03\x04"));
        fs::rename(at("new.zip"), at("any name")).unwrap();
        for path in ["any name/g/a", "any name/b"] {
            assert_eq!(read(&at(path)), [1, 2, 3]);
        }
        let url = reach(&at("any name"), StoreOptions::default()).unwrap().store.url();
        assert!(url.starts_with("zip://::file:///") && url.ends_with("/any%20name"), "{url}");
        assert_eq!(read(&format!("{url}/g/a")), [1, 2, 3], "the URL of a node");
        let outer = url.strip_prefix("zip://::").unwrap();
        for location in
            [format!("zip://g/a::{outer}"), format!("zip:///g/a/::{outer}"), format!("ZIP://g::{outer}/a")]
        {
            assert_eq!(read(&location), [1, 2, 3], "{location}");
        }
        // A directory may have any name.
        fs::create_dir(at("dir.zip")).unwrap();
        fill(&at("dir.zip/a"));
        assert!(Path::new(&at("dir.zip/a/zarr.json")).exists());
        let missing = Array::open(&at("none.zip/a")).unwrap_err().to_string();
        assert!(missing.contains("none.zip") && !Path::new(&at("none.zip")).exists(), "{missing}");
        fs::write(at("bad.zip"), "no archive").unwrap();
        let bad = Array::open(&at("bad.zip")).unwrap_err().to_string();
        assert!(bad.contains("is no zip archive"), "{bad}");
    }

    #[test]
    fn archives_lie_in_other_stores() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("x.zip");
        fill(file.join("g/a").to_str().unwrap());
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let inner = [store.url(), "d/x.zip".into()].join("/");
        let missing = reach(&format!("zip://::{inner}"), StoreOptions::default()).unwrap_err();
        assert!(missing.to_string().contains("x.zip") || missing.to_string().contains("'d'"), "{missing}");
        store.write(Key::new("d/x.zip").unwrap(), &[&fs::read(&file).unwrap()]).unwrap();
        for location in [format!("zip://g/a::{inner}"), format!("zip://::{inner}/g/a")] {
            assert_eq!(read(&location), [1, 2, 3], "{location}");
        }
        let create = StoreOptions { intent: Intent::Create, ..StoreOptions::default() };
        let reached = reach(&format!("zip://::{inner}"), create).unwrap();
        let refused = reached.store.write(Key::new("b").unwrap(), &[b""]).unwrap_err().to_string();
        assert!(refused.contains("reading only"), "{refused}");
        let none = reach("zip:///a/b.zip", StoreOptions::default()).unwrap_err().to_string();
        assert!(none.contains("zip://PATH::LOCATION"), "{none}");
    }

    #[test]
    fn copies_to_archives_are_complete() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        Group::create(&at("a.zarr"), Format::ZarrV3).unwrap();
        fill(&at("a.zarr/a"));
        let source = crate::open(&at("a.zarr")).unwrap();
        crate::copy::copy(&source, &at("copy.zip"), &crate::copy::CopyOptions::default()).unwrap();
        assert_eq!(read(&at("copy.zip/a")), [1, 2, 3]);
        let back = crate::open(&at("copy.zip")).unwrap();
        crate::copy::copy(&back, &at("back.zarr"), &crate::copy::CopyOptions::default()).unwrap();
        assert_eq!(read(&at("back.zarr/a")), [1, 2, 3]);
    }
}
