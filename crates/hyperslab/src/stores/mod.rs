//! Stores by URL scheme: the one table in which Rust, Python and the command line look up where a
//! location leads.
//!
//! A location is a URL, or a path, which is a location of the scheme `file`. Its [`Scheme`] makes
//! the store, and says which path in the store is meant. Everything else asks the store.
//!
//! Another scheme is a file beside this one that implements [`Scheme`], and a line in `BUILT_IN`.
//! A program adds schemes of its own with [`register`].

mod local;
mod memory;
mod nearby;
mod reference;
#[cfg(feature = "remote")]
mod remote;
mod zip;

use local::percent_decoded;
pub use local::refuse_file_name;
pub use nearby::{nodes_below, nodes_below_path};
pub(crate) use zip::is_in_archive;
pub use zip::{archive_path, is_archive};

use crate::{DataFile, Error, Node, Result, open_node};
use hyperslab_store::Store;
use hyperslab_store::fork::RwLock;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The schemes that are always there.
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

/// Those that programs have added, and their names: a program's code does not run under the lock.
/// Gated.
static ADDED: RwLock<Vec<(&'static str, &'static dyn Scheme)>> = RwLock::new(Vec::new());

/// How the locations of one URL scheme become stores.
pub trait Scheme: Debug + Send + Sync {
    /// What stands before `://`, in lower case.
    fn name(&self) -> &'static str;

    /// The store that a location leads into. Errors with [`Error::Location`] where the location
    /// says nothing that this scheme understands.
    fn reach(&self, location: &str, options: StoreOptions<'_>) -> Result<Reached>;

    /// Whether [`StoreOptions::storage`] has a meaning for it. Elsewhere such options are an error.
    fn takes_options(&self) -> bool {
        false
    }

    /// The file or directory that a location means, as the user named it. `None`, the default:
    /// locations of this scheme are not on a local disk.
    fn local_path(&self, location: &str) -> Result<Option<PathBuf>> {
        let _ = location;
        Ok(None)
    }
}

/// How a store is opened. A scheme leaves out what has no meaning for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreOptions<'o> {
    /// Whether every write is flushed to the disk before it returns.
    pub fsync: bool,
    /// What for.
    pub intent: Intent,
    /// Credentials and settings of a server, by the names of fsspec, obstore or `object_store`. No
    /// value appears in an error.
    pub storage: &'o [(String, String)],
}

/// What a store is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Intent {
    /// To open what is there. The scheme may look at it, to tell early what is wrong.
    #[default]
    Open,
    /// To open what is there, with no look in advance: the first read tells what is wrong. For a
    /// quick attempt, before the other way.
    Unseen,
    /// To create a node at the very location. Names that [`refuse_file_name`] refuses are errors.
    Create,
}

/// Where a location leads.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reached {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The path in the store; `""` for the root.
    pub path: String,
    /// The object that the path leads to or into, if the scheme knows that it does. Such an object
    /// may hold a whole hierarchy, as HDF5 files do; it is no part of one of Zarr.
    pub object: Option<FoundObject>,
}

/// An object that a location leads to or into.
#[derive(Clone, Debug)]
pub struct FoundObject {
    /// Its key.
    pub key: String,
    /// Its name in messages: what the user called it.
    pub name: PathBuf,
}

impl Reached {
    /// A path in a store.
    pub fn new(store: Arc<dyn Store>, path: impl Into<String>) -> Self {
        Reached { store, path: path.into(), object: None }
    }

    /// Opens what is stored there. Errors with [`Error::NotData`] where the path leads to a file of
    /// an unknown format.
    pub fn open(&self) -> Result<Node> {
        match self.file()? {
            Some((file, inside)) => file.open(&inside),
            None => open_node(&self.store, &self.path, None),
        }
    }

    /// The file that the path is known to lead to or into, and the path in that file. `None`: no
    /// file is known to be there.
    pub fn file(&self) -> Result<Option<(DataFile, String)>> {
        let Some(FoundObject { key, name }) = &self.object else { return Ok(None) };
        let inside = self.path.get(key.len()..).unwrap_or_default().trim_start_matches('/');
        match DataFile::open_object(&self.store, key)? {
            Some(file) => Ok(Some((file, inside.to_owned()))),
            None => Err(DataFile::not_data(&self.store, key, name)?),
        }
    }
}

/// Adds a scheme, for the whole process. One that is there keeps its name.
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

/// The store that a path or URL leads into, and the path there.
///
/// Errors with [`Error::Location`] where nobody knows the scheme, or the scheme does not understand
/// the location, and with [`Error::Store`] where something is in the way of the store.
pub fn reach(location: &str, options: StoreOptions<'_>) -> Result<Reached> {
    match reference::in_folder(location, options)? {
        Some(found) => Ok(found),
        None => reference::behind(reach_store(location, options)?, options),
    }
}

/// As [`reach`], for a local path.
pub fn reach_path(path: &Path, options: StoreOptions<'_>) -> Result<Reached> {
    match reference::in_local_folder(path, options)? {
        Some(found) => Ok(found),
        None => reference::behind(local::reach_path(path, options)?, options),
    }
}

/// As [`reach`]. A document of references is a file like others.
fn reach_store(location: &str, options: StoreOptions<'_>) -> Result<Reached> {
    let scheme = scheme_of(location)?;
    if !options.storage.is_empty() && !scheme.takes_options() {
        let why = format!("the scheme '{}' takes no storage options", scheme.name());
        return Err(Error::Location { location: location.to_owned(), why });
    }
    scheme.reach(location, options)
}

/// Whether a location is of a scheme that takes storage options.
pub fn takes_options(location: &str) -> bool {
    scheme_of(location).is_ok_and(|scheme| scheme.takes_options())
}

/// As [`reach`], for a new node.
pub(crate) fn reach_new(location: &str) -> Result<Reached> {
    reach(location, StoreOptions { intent: Intent::Create, ..StoreOptions::default() })
}

/// The file or directory that a location means, as it is written there. `None`: the location is not
/// on a local disk.
///
/// Errors with [`Error::Location`], as [`reach`] does.
pub fn local_path(location: &str) -> Result<Option<PathBuf>> {
    scheme_of(location)?.local_path(location)
}

/// The scheme of a location. Text without a scheme is a path.
///
/// Text that looks like a URL of no scheme, or like fsspec's chains of them (`zip::file://a.zip`),
/// is refused: nobody means a directory `zip::file:`. With `./` in front every text is a path.
fn scheme_of(location: &str) -> Result<&'static dyn Scheme> {
    let refuse = |why: String| Err(Error::Location { location: location.to_owned(), why });
    if location.is_empty() {
        return refuse("it is empty".into());
    }
    let (first, rest) = location.find('/').map_or((location, ""), |slash| location.split_at(slash));
    // `s3:/bucket` is what pathlib makes of a URL.
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

/// RFC 3986, section 3.1. One letter is no scheme but a drive.
fn is_scheme(text: &str) -> bool {
    text.len() > 1
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
}
