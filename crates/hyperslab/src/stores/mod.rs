//! Stores by URL scheme: the table in which Rust, Python and the command line look up locations.
//!
//! A location is a URL or a path; a path is a location of the scheme `file`. Its [`Scheme`] makes
//! the store and finds the path in the store. Everything else is up to the store.
//!
//! To add a scheme, write a file beside this one that implements [`Scheme`], and add a line to
//! `BUILT_IN`. Programs add their own schemes with [`register`].

mod local;
mod memory;
mod nodes_below;
mod reference;
#[cfg(feature = "remote")]
mod remote;
mod zip;

use local::percent_decoded;
pub use local::refuse_file_name;
pub use nodes_below::nodes_below;
pub(crate) use zip::is_in_archive;
pub use zip::{archive_path, is_archive};

use crate::{DataFile, Error, Result};
use hyperslab_store::fork::RwLock;
use hyperslab_store::{Destination, Store};
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The built-in schemes.
const BUILT_IN: &[&dyn Scheme] = &[
    &local::File,
    &memory::Memory,
    &zip::Zip,
    &reference::Reference,
    #[cfg(feature = "remote")]
    &remote::Remote("s3"),
    #[cfg(feature = "remote")]
    &remote::Remote("s3a"),
    #[cfg(feature = "remote")]
    &remote::Remote("gs"),
    #[cfg(feature = "remote")]
    &remote::Remote("gcs"),
    #[cfg(feature = "remote")]
    &remote::Remote("az"),
    #[cfg(feature = "remote")]
    &remote::Remote("abfs"),
    #[cfg(feature = "remote")]
    &remote::Remote("abfss"),
    #[cfg(feature = "remote")]
    &remote::Remote("http"),
    #[cfg(feature = "remote")]
    &remote::Remote("https"),
];

/// The schemes that programs have added, with their names. Gated.
/// The names are kept because a program's code must not run under the lock.
static ADDED: RwLock<Vec<(&'static str, &'static dyn Scheme)>> = RwLock::new(Vec::new());

/// Makes stores from the locations of one URL scheme.
pub trait Scheme: Debug + Send + Sync {
    /// The text before `://`, in lower case.
    fn name(&self) -> &'static str;

    /// The store that a location leads into.
    /// Fails with [`Error::Location`] if the scheme does not understand the location.
    fn reach(&self, location: &str, options: StoreOptions<'_>) -> Result<Reached>;

    /// Returns `true` if the scheme uses [`StoreOptions::storage`]. Otherwise such options are an
    /// error.
    fn takes_options(&self) -> bool {
        false
    }

    /// The file or directory of a location, as the user named it.
    /// `None`, the default: locations of this scheme are not on a local disk.
    fn local_path(&self, location: &str) -> Result<Option<PathBuf>> {
        let _ = location;
        Ok(None)
    }
}

/// How to open a store. A scheme ignores options that do not apply to it.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreOptions<'o> {
    /// `true`: flush every write to disk before it returns.
    pub fsync: bool,
    /// The purpose.
    pub intent: Intent,
    /// Credentials and settings of a server, by the names of fsspec, obstore or `object_store`.
    /// Errors never show the values.
    pub storage: &'o [(String, String)],
}

/// The purpose of opening a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Intent {
    /// Open what exists. The scheme may look at it, to report errors early.
    #[default]
    Open,
    /// Open what exists without looking first: the first read reports errors.
    /// For a quick attempt before `Open`.
    Unseen,
    /// Create a node at exactly this location. Fails for names that [`refuse_file_name`] refuses.
    Create,
}

/// The target of a location.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reached {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The path in the store; `""` for the root.
    pub path: String,
    /// The object that the path leads to or into, if the scheme knows of one.
    /// It may hold a whole hierarchy, as HDF5 files do, but is not part of a Zarr hierarchy.
    pub object: Option<FoundObject>,
}

/// An object that a location leads to or into.
#[derive(Clone, Debug)]
pub struct FoundObject {
    /// The key.
    pub key: String,
    /// The name in messages, as the user gave it.
    pub name: PathBuf,
}

impl Reached {
    /// A path in a store.
    pub fn new(store: Arc<dyn Store>, path: impl Into<String>) -> Self {
        Reached { store, path: path.into(), object: None }
    }

    /// The file that the path leads to or into, and the path inside it. `None`: no file is known to
    /// be there.
    pub fn file(&self) -> Result<Option<(DataFile, String)>> {
        let Some(FoundObject { key, name }) = &self.object else { return Ok(None) };
        let inside = self.path.get(key.len()..).unwrap_or_default().trim_start_matches('/');
        match DataFile::open_object(&self.store, key)? {
            Some(file) => Ok(Some((file, inside.to_owned()))),
            None => Err(DataFile::not_data(&self.store, key, name)?),
        }
    }
}

/// Adds a scheme for the whole process. An existing scheme keeps its name.
pub fn register(scheme: &'static dyn Scheme) {
    let name = scheme.name();
    let mut added = ADDED.write();
    if !added.iter().any(|(other, _)| *other == name) {
        added.push((name, scheme));
    }
}

/// The names of all schemes.
pub fn schemes() -> Vec<&'static str> {
    let mut names: Vec<&'static str> = BUILT_IN.iter().map(|scheme| scheme.name()).collect();
    names.extend(ADDED.read().iter().map(|(name, _)| *name));
    names
}

/// Finds the store that a path or URL leads into, and the path in the store.
///
/// Fails with [`Error::Location`] if the scheme is unknown or does not understand the location.
/// Fails with [`Error::Store`] if something is in the way of the store.
pub fn reach(location: &str, options: StoreOptions<'_>) -> Result<Reached> {
    match reference::in_folder(location, options)? {
        Some(found) => Ok(found),
        None => reference::open_references(reach_store(location, options)?, options),
    }
}

/// Like [`reach`], for a local path.
pub fn reach_path(path: &Path, options: StoreOptions<'_>) -> Result<Reached> {
    match reference::in_local_folder(path, options)? {
        Some(found) => Ok(found),
        None => reference::open_references(local::reach_path(path, options)?, options),
    }
}

/// Like [`reach`], but treats a document of references like any other file.
fn reach_store(location: &str, options: StoreOptions<'_>) -> Result<Reached> {
    let scheme = scheme_of(location)?;
    if !options.storage.is_empty() && !scheme.takes_options() {
        let why = format!("the scheme '{}' takes no storage options", scheme.name());
        return Err(Error::Location { location: location.to_owned(), why });
    }
    scheme.reach(location, options)
}

/// Prepares a new object at the URL of a server, which is made of a local file when that is complete.
/// Returns its store, too. `only_new`: fails if there is an object.
///
/// Fails with [`Error::Location`] for other locations.
pub fn new_object(
    location: &str,
    storage: &[(String, String)],
    only_new: bool,
) -> Result<(Arc<dyn Store>, Arc<dyn Destination>)> {
    #[cfg(feature = "remote")]
    if takes_options(location) {
        return remote::new_object(location, storage, only_new);
    }
    let _ = (storage, only_new);
    let why = "new files are made on local disks and on servers (s3://, gs://, az://, https://)";
    Err(Error::Location { location: location.to_owned(), why: why.into() })
}

/// Makes a local file without a name, for an object that is made later.
pub fn spool() -> Result<std::fs::File> {
    let folder = std::env::temp_dir();
    let failed = |source| Error::Io { what: "make a temporary file in", path: folder.clone(), source };
    tempfile::tempfile_in(&folder).map_err(failed)
}

/// Returns `true` if a name in a local path has the ending of an archive or of references.
pub(crate) fn names_container(path: &Path) -> bool {
    path.iter().any(|name| {
        zip::has_ending(Path::new(name)) || name.to_str().is_some_and(reference::is_reference_name)
    })
}

/// Returns `true` if the location's scheme takes storage options.
pub fn takes_options(location: &str) -> bool {
    scheme_of(location).is_ok_and(|scheme| scheme.takes_options())
}

/// Like [`reach`], for a new node.
pub(crate) fn reach_new(location: &str) -> Result<Reached> {
    reach(location, StoreOptions { intent: Intent::Create, ..StoreOptions::default() })
}

/// The file or directory of a location, as written. `None`: it is not on a local disk.
///
/// Fails with [`Error::Location`], as [`reach`] does.
pub fn local_path(location: &str) -> Result<Option<PathBuf>> {
    scheme_of(location)?.local_path(location)
}

/// The scheme of a location. Text without a scheme is a path.
///
/// Refuses text that looks like a URL without a known scheme, or like a URL chain of fsspec
/// (`zip::file://a.zip`): nobody means a directory `zip::file:`. Text that starts with `./` is
/// always a path.
fn scheme_of(location: &str) -> Result<&'static dyn Scheme> {
    let refuse = |why: String| Err(Error::Location { location: location.to_owned(), why });
    if location.is_empty() {
        return refuse("it is empty".into());
    }
    let (first, rest) = location.find('/').map_or((location, ""), |slash| location.split_at(slash));
    // pathlib turns a URL into `s3:/bucket`.
    let name = first.strip_suffix(':').filter(|name| is_scheme(name) && rest.starts_with('/'));
    if let Some(archive) = location.strip_prefix("zip::").filter(|archive| !archive.is_empty()) {
        return refuse(format!(
            "a zip archive is opened by its own location: '{archive}', and a node in it by '{archive}/PATH'; an \
             archive whose name does not end in .zip by 'zip://PATH::{archive}'; a local path that is named so \
             starts with './': './{location}'"
        ));
    }
    if first.contains("::") || (rest.starts_with("//") && first.ends_with(':') && name.is_none()) {
        return refuse(format!(
            "it looks like a URL, but has none of the schemes {}; give a path or a file:// URL; a local path that \
             is named so starts with './': './{location}'",
            schemes().join(", ")
        ));
    }
    let Some(name) = name else { return Ok(&local::File) };
    if let Some(scheme) = BUILT_IN.iter().copied().find(|scheme| scheme.name().eq_ignore_ascii_case(name)) {
        return Ok(scheme);
    }
    if let Some((_, scheme)) = ADDED.read().iter().find(|(other, _)| other.eq_ignore_ascii_case(name)) {
        return Ok(*scheme);
    }
    refuse(format!(
        "'{name}://' is not supported; the schemes are {}: give a path or a file:// URL",
        schemes().join(", ")
    ))
}

/// RFC 3986, section 3.1. A single letter is a drive, not a scheme.
fn is_scheme(text: &str) -> bool {
    text.len() > 1
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
}
