//! The schemes of object stores and web servers: `s3`, `gs`, `az`, `https`, … and their other names.
//!
//! A store has its root where the location leads. A location in which a name ends as those of files
//! do (`s3://bucket/dir/x.h5/group`) leads to or into that object, if there is one: the store is
//! that of the object alone, held open.

use super::{FoundObject, Intent, Reached, Scheme, StoreOptions, local};
use crate::{Error, Result};
use hyperslab_remote::{RemoteStore, shown};
use hyperslab_store::{Key, Store};
use std::path::PathBuf;
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
        // `s3:/bucket` is what pathlib makes of a URL.
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
            // The other way looks whether there is a file.
            Intent::Unseen => return Err(refuse("it may be a file".into())),
            Intent::Open => {}
        }
        let store = open(&above)?;
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

/// The first name of a location that ends as those of files do: what is above it, with the query of
/// the location; the name; what is behind it.
fn file_in(location: &str) -> Option<(String, String, String)> {
    let is_web = location.starts_with("http");
    let (path, query) = match location.find('?').filter(|_| is_web) {
        Some(at) => location.split_at(at),
        None => (location, ""),
    };
    let (scheme, rest) = path.split_once("://")?;
    let parts: Vec<&str> = rest.trim_end_matches('/').split('/').collect();
    let at = parts.iter().skip(1).position(|part| local::is_file_name(part))? + 1;
    let (above, key) = (parts.get(..at)?.join("/"), *parts.get(at)?);
    let key = if is_web { local::percent_decoded(key)? } else { key.to_owned() };
    let inside = parts.get(at + 1..)?.join("/");
    Some((format!("{scheme}://{above}{query}"), key, inside))
}

#[cfg(test)]
mod tests {
    use super::file_in;
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
