//! The schemes of object stores and web servers: `s3`, `gs`, `az`, `https`, … and their aliases.
//!
//! The location is the root of its store. If a name in the location has a file ending
//! (`s3://bucket/dir/x.h5/group`) and the object exists, the location leads to or into the object.
//! Then the store has only that object, held open. For an archive, the store has the archive's
//! members.

use super::{FoundObject, Intent, Reached, Scheme, StoreOptions, local, zip};
use crate::{Error, Result};
use hyperslab_remote::{RemoteStore, SCHEMES, shown};
use hyperslab_store::{Destination, Holds, Key, Store, ZipStore};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// `SCHEME://BUCKET/PATH`.
#[derive(Debug)]
pub(super) struct Remote(pub(super) &'static str);

impl Scheme for Remote {
    fn name(&self) -> &'static str {
        self.0
    }

    fn reach(&self, location: &str, options: StoreOptions<'_>) -> Result<Reached> {
        let refuse = |why: String| Error::Location { location: shown(location), why };
        let open = |location: &str| {
            RemoteStore::open(location, options.storage).map_err(|error| refuse(error.to_string()))
        };
        // pathlib turns a URL into `s3:/bucket`.
        let rest = location.split_once(':').map_or("", |(_, rest)| rest).trim_start_matches('/');
        let location = &format!("{}://{rest}", self.0);
        let Some((above, key, inside)) = file_in(location) else {
            return Ok(Reached::new(Arc::new(open(location)?), ""));
        };
        match options.intent {
            Intent::Create => {
                return Err(refuse(format!(
                    "no Zarr store is created under a name that ends as '{key}' does; choose another name"
                )));
            }
            // `Intent::Open` finds out whether there is a file.
            Intent::Unseen => return Err(refuse("it may be a file".into())),
            Intent::Open => {}
        }
        let store = open(&above)?;
        if zip::has_ending(Path::new(&key)) {
            return match ZipStore::open(Arc::new(store), Key::new(&key)?) {
                Ok(archive) => zip::reach_member(archive, inside, options),
                Err(error) if zip::is_missing(&error) => Ok(Reached::new(Arc::new(open(location)?), "")),
                Err(error) => Err(error.into()),
            };
        }
        let Some((store, key)) = store.hold(Key::new(&key)?)? else {
            return Ok(Reached::new(Arc::new(open(location)?), ""));
        };
        let path = if inside.is_empty() { key.clone() } else { format!("{key}/{inside}") };
        let name = PathBuf::from(format!("{}/{key}", store.url()));
        Ok(Reached { store, path, object: Some(FoundObject { key, name }) })
    }

    fn takes_options(&self) -> bool {
        true
    }
}

/// Prepares a new object: the last name of the location.
pub(super) fn new_object(
    location: &str,
    storage: &[(String, String)],
    only_new: bool,
) -> Result<(Arc<dyn Store>, Arc<dyn Destination>)> {
    let refuse = |why: String| Error::Location { location: shown(location), why };
    let (scheme, rest) = location.split_once(':').unwrap_or((location, ""));
    let location = &format!("{scheme}://{}", rest.trim_start_matches('/'));
    let last = location.split('?').next().and_then(|path| path.trim_end_matches('/').rsplit('/').next());
    let found = last.and_then(|last| name_in_last(location, last));
    let (above, key) = found.ok_or_else(|| refuse("it names no object".into()))?;
    let store = RemoteStore::open(&above, storage).map_err(|error| refuse(error.to_string()))?;
    let to = store.upload(Key::new(&key)?, only_new)?;
    Ok((Arc::new(store), to))
}

/// Splits a location at its last name.
fn name_in_last(location: &str, last: &str) -> Option<(String, String)> {
    let (path, query) = match location.find('?').filter(|_| location.starts_with("http")) {
        Some(at) => location.split_at(at),
        None => (location, ""),
    };
    let above = path.trim_end_matches('/').strip_suffix(last)?.strip_suffix('/')?;
    if last.is_empty() || above.ends_with('/') {
        return None;
    }
    let key = if location.starts_with("http") { local::percent_decoded(last)? } else { last.to_owned() };
    Some((format!("{above}{query}"), key))
}

/// The archive on a server at a location or above it, and the path in the archive.
/// `None`: the location has another scheme.
pub(super) fn archive(location: &str, options: StoreOptions<'_>) -> Result<Option<(ZipStore, String)>> {
    let Some((scheme, rest)) = location.split_once("://") else { return Ok(None) };
    let scheme = scheme.to_ascii_lowercase();
    if !SCHEMES.iter().any(|(name, _)| *name == scheme) {
        return Ok(None);
    }
    let refuse = |why: String| Error::Location { location: shown(location), why };
    // In a URL chain, fsspec prefixes options with their scheme.
    let of_scheme = format!("{scheme}.");
    let own = |name: &String| name.strip_prefix(&of_scheme).unwrap_or(name).to_owned();
    let storage: Vec<_> = options.storage.iter().map(|(name, value)| (own(name), value.clone())).collect();
    let location = &format!("{scheme}://{rest}");
    let found = name_in(location, |name| zip::has_ending(Path::new(name)));
    // Without the ending, only the last name can be the archive.
    let found = found.or_else(|| {
        let last = rest.split('?').next()?.trim_end_matches('/').rsplit('/').next()?;
        name_in(location, |name| name == last)
    });
    let (above, key, inside) = found.ok_or_else(|| refuse("it names no archive".into()))?;
    let store = RemoteStore::open(&above, &storage).map_err(|error| refuse(error.to_string()))?;
    Ok(Some((ZipStore::open(Arc::new(store), Key::new(&key)?)?, inside)))
}

/// Splits a location at the first name with a file ending.
fn file_in(location: &str) -> Option<(String, String, String)> {
    name_in(location, local::is_file_name)
}

/// Splits a location at the first name for which `is` returns `true`.
/// Returns the location above, with the query; the name; the path inside.
fn name_in(location: &str, is: impl Fn(&str) -> bool) -> Option<(String, String, String)> {
    let is_web = location.starts_with("http");
    let (path, query) = match location.find('?').filter(|_| is_web) {
        Some(at) => location.split_at(at),
        None => (location, ""),
    };
    let (scheme, rest) = path.split_once("://")?;
    let parts: Vec<&str> = rest.trim_end_matches('/').split('/').collect();
    let at = parts.iter().skip(1).position(|part| is(part))? + 1;
    let (above, key) = (parts.get(..at)?.join("/"), *parts.get(at)?);
    let key = if is_web { local::percent_decoded(key)? } else { key.to_owned() };
    let inside = parts.get(at + 1..)?.join("/");
    Some((format!("{scheme}://{above}{query}"), key, inside))
}

#[cfg(test)]
mod tests {
    use super::{file_in, name_in_last};
    use crate::stores::{Intent, StoreOptions, reach};

    #[test]
    fn files_in_locations() {
        let found = |location: &str| {
            file_in(location)
                .map_or_else(|| "-".into(), |(above, key, inside)| format!("{above} {key} {inside}"))
        };
        assert_eq!(found("s3://b/d/x.h5/g/a"), "s3://b/d x.h5 g/a");
        assert_eq!(found("s3://b/x.NC"), "s3://b x.NC ");
        assert_eq!(found("http://h.nc/a%20b.nc?sig=1"), "http://h.nc?sig=1 a b.nc ");
        assert_eq!(found("s3://b.nc/a?b.nc"), "s3://b.nc a?b.nc ");
        for none in ["s3://b/d/x.zarr", "s3://b.nc", "http://h/a?x.nc"] {
            assert_eq!(found(none), "-");
        }
    }

    #[test]
    fn last_names() {
        let found = |location: &str| {
            let last = location.split('?').next().unwrap().rsplit('/').next().unwrap();
            name_in_last(location, last).map_or_else(|| "-".into(), |(above, key)| format!("{above} {key}"))
        };
        assert_eq!(found("s3://b/d.h5/x.h5"), "s3://b/d.h5 x.h5");
        assert_eq!(found("http://h/a%20b.h5?sig=1"), "http://h?sig=1 a b.h5");
        assert_eq!((found("s3://b"), found("s3://b/d/")), ("-".into(), "-".into()));
    }

    #[test]
    fn locations_that_lead_nowhere() {
        let options = [("ky".to_owned(), "canary".to_owned())];
        for (location, storage, intent, why) in [
            ("s3://", &[][..], Intent::Open, "names no bucket"),
            ("s3://b/x", &options[..], Intent::Open, "unknown storage option 'ky'"),
            ("s3://u:canary@b/x", &[], Intent::Open, "pass credentials in storage_options"),
            ("s3://b/x.h5", &[], Intent::Create, "no Zarr store is created"),
            ("memory://x", &options[..], Intent::Open, "takes no storage options"),
            ("/tmp/x", &options[..], Intent::Open, "takes no storage options"),
        ] {
            let error = reach(location, StoreOptions { storage, intent, ..StoreOptions::default() });
            let error = error.unwrap_err().to_string();
            assert!(error.contains(why) && !error.contains("canary"), "{location}: {error}");
        }
        let anonymous = [("anon".to_owned(), "True".to_owned())];
        let options = StoreOptions { storage: &anonymous, ..StoreOptions::default() };
        for location in ["s3://b/x.zarr/", "s3:/b/x.zarr", "S3A://b/x.zarr"] {
            let found = reach(location, options).unwrap();
            assert!(found.store.url().ends_with("://b/x.zarr") && found.path.is_empty());
        }
    }
}
