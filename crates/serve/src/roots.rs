//! The paths and URLs that are served, by name.

use crate::confined::{Alone, Confined};
use crate::hierarchy::Hierarchy;
use hyperslab::store::{Entry, Operation, StoreError};
use hyperslab::stores::{self, StoreOptions};
use hyperslab::{DataFile, Error, LocalOptions, LocalStore, Node, Result, Store};
use std::collections::HashMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// The most files of a directory that stay open. Each takes a descriptor, and its index in memory.
const MOST_OPEN: usize = 64;

/// Endings of files that a listing of a directory shows. Others are found if somebody asks.
const ENDINGS: [&str; 9] = ["h5", "hdf5", "he5", "nc", "nc4", "cdf", "zip", "json", "parquet"];

/// The documents of Zarr nodes.
const OF_ZARR: [&str; 3] = ["zarr.json", ".zgroup", ".zarray"];

/// Everything that is served.
#[derive(Debug)]
pub(crate) struct Roots {
    all: Vec<Root>,
    /// Held by the one check that decodes all chunks of an array.
    turn: Mutex<()>,
}

#[derive(Debug)]
struct Root {
    name: String,
    location: String,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Directory(Directory),
    One(Files, String),
}

/// The result of looking up a path.
#[derive(Debug)]
pub(crate) enum Found {
    /// A hierarchy, and a path in it.
    Inside(Arc<Hierarchy>, String),
    /// A directory that is no hierarchy, with its entries.
    Folder(Vec<Entry>),
    /// Nothing.
    Nothing,
}

impl Roots {
    /// Opens all locations. Fails with the first that cannot be opened. `storage`: options of servers.
    pub(crate) fn new(locations: &[String], storage: &[(String, String)]) -> Result<Roots> {
        if locations.is_empty() {
            return Err(Error::Options("serve: nothing to serve: pass one path or more".into()));
        }
        let mut roots: Vec<Root> = Vec::new();
        for location in locations {
            let (kind, path) = Kind::of(location, storage)?;
            let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
            let last = if last.is_empty() { "data" } else { last };
            let taken = |name: &str| roots.iter().any(|root| root.name == name);
            let numbered = (2..).map(|number| format!("{last}-{number}"));
            let name = std::iter::once(last.to_owned()).chain(numbered).find(|name| !taken(name));
            roots.push(Root { name: name.unwrap_or_default(), location: location.clone(), kind });
        }
        Ok(Roots { all: roots, turn: Mutex::default() })
    }

    /// The names, and the locations as they were given.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.all.iter().map(|root| (root.name.as_str(), root.location.as_str()))
    }

    /// The turn of one long check. `None`: another one has it.
    pub(crate) fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        match self.turn.try_lock() {
            Ok(turn) => Some(turn),
            // A check that panicked has left nothing behind.
            Err(TryLockError::Poisoned(turn)) => Some(turn.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Looks up a path, whose first part is a name.
    pub(crate) fn find(&self, parts: &[String]) -> Result<Found> {
        let Some((name, path)) = parts.split_first() else {
            let entry = |root: &Root| Entry { name: root.name.clone(), is_prefix: true };
            return Ok(Found::Folder(self.all.iter().map(entry).collect()));
        };
        let Some(root) = self.all.iter().find(|root| root.name == *name) else { return Ok(Found::Nothing) };
        match &root.kind {
            Kind::Directory(directory) => directory.find(path),
            Kind::One(files, location) => match files.open(location, location)? {
                Some(hierarchy) => Ok(Found::Inside(hierarchy, path.join("/"))),
                None => Ok(Found::Nothing),
            },
        }
    }

    /// Replaces the locations in a message by the names: clients need not know where data are.
    pub(crate) fn hidden(&self, message: &str) -> String {
        let mut message = message.to_owned();
        for Root { name, location, kind } in &self.all {
            if let Kind::Directory(directory) = kind {
                message = message.replace(&format!("file://{}", directory.root.display()), name);
                message = message.replace(&directory.root.display().to_string(), name);
            }
            let above =
                fs::canonicalize(location).ok().and_then(|path| Some(path.parent()?.display().to_string()));
            if let Some(above) = above.filter(|above| above.len() > 1) {
                message = message.replace(&format!("file://{above}/"), "").replace(&format!("{above}/"), "");
                message = message.replace(&above, name);
            }
            if location.len() > name.len() {
                message = message.replace(location.as_str(), name);
            }
        }
        message
    }
}

impl Kind {
    /// Opens a location. Returns its path, too.
    fn of(location: &str, storage: &[(String, String)]) -> Result<(Kind, String)> {
        let local = stores::local_path(location)?;
        let directory = match &local {
            Some(path) if path.is_dir() => {
                Some(path.canonicalize().map_err(|source| cannot_open(location, &source))?)
            }
            _ => None,
        };
        if let Some(root) = directory.filter(|root| !is_references(root)) {
            let path = root.display().to_string();
            return Ok((Kind::Directory(Directory::new(root)?), path));
        }
        let storage = if stores::takes_options(location) { storage.to_vec() } else { Vec::new() };
        let files = Files { alone: true, storage, ..Files::default() };
        // Errors are reported now, not to the first client.
        let opened = files.open(location, location)?;
        if opened.map(|opened| opened.node("")).transpose()?.flatten().is_none() {
            return Err(cannot_open(location, &ErrorKind::NotFound.into()));
        }
        Ok((Kind::One(files, location.to_owned()), location.to_owned()))
    }
}

fn cannot_open(location: &str, source: &std::io::Error) -> Error {
    Error::Location { location: location.to_owned(), why: source.to_string() }
}

/// A local directory. It may be a Zarr hierarchy, or have hierarchies and files below it.
#[derive(Debug)]
struct Directory {
    root: PathBuf,
    zarr: Arc<Hierarchy>,
    files: Files,
}

impl Directory {
    fn new(root: PathBuf) -> Result<Directory> {
        let store: Arc<dyn Store> = Arc::new(LocalStore::open(&root, LocalOptions::default())?);
        let store = Arc::new(Confined::new(store, root.clone()));
        Ok(Directory { root, zarr: Arc::new(Hierarchy::of_zarr(store, "", None)), files: Files::default() })
    }

    fn find(&self, parts: &[String]) -> Result<Found> {
        let whole = parts.join("/");
        if is_zarr(&self.root) {
            return Ok(Found::Inside(self.zarr.clone(), whole));
        }
        let mut at = self.root.clone();
        for (number, part) in parts.iter().enumerate() {
            at.push(part);
            let real = match at.canonicalize() {
                Ok(real) => real,
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                    return Ok(Found::Nothing);
                }
                Err(error) => return Err(self.refused(&whole, error.kind())),
            };
            if !real.starts_with(&self.root) {
                return Err(self.refused(&whole, ErrorKind::PermissionDenied));
            }
            let is_directory = real.is_dir();
            if is_directory && is_zarr(&at) {
                return Ok(Found::Inside(self.zarr.clone(), whole));
            }
            if !is_directory || is_references(&real) {
                let inside = parts.get(number + 1..).unwrap_or_default().join("/");
                let location = real.display().to_string();
                let opened = self.files.open(&real.display().to_string(), &location)?;
                return Ok(opened.map_or(Found::Nothing, |opened| Found::Inside(opened, inside)));
            }
        }
        Ok(Found::Folder(self.entries(&at)?))
    }

    fn refused(&self, path: &str, kind: ErrorKind) -> Error {
        let url = self.root.display().to_string();
        let why = match kind {
            ErrorKind::PermissionDenied => {
                "it is not allowed: a link leads out of what is served, or the file is \
                                            not readable"
                    .to_owned()
            }
            kind => kind.to_string(),
        };
        let source = std::io::Error::new(kind, why);
        StoreError::Io { operation: Operation::Read, key: path.to_owned(), url, source }.into()
    }

    fn entries(&self, at: &Path) -> Result<Vec<Entry>> {
        let failed = |error: std::io::Error| self.refused(&at.display().to_string(), error.kind());
        let mut entries = Vec::new();
        for entry in fs::read_dir(at).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let (Ok(name), Ok(real)) = (entry.file_name().into_string(), entry.path().canonicalize()) else {
                continue;
            };
            let ending = Path::new(&name).extension().and_then(|ending| ending.to_str()).unwrap_or_default();
            let is_shown = real.is_dir() || ENDINGS.contains(&ending.to_ascii_lowercase().as_str());
            if is_shown && !name.starts_with('.') && real.starts_with(&self.root) {
                entries.push(Entry { name, is_prefix: true });
            }
        }
        entries.sort_unstable();
        Ok(entries)
    }
}

fn is_zarr(directory: &Path) -> bool {
    OF_ZARR.iter().any(|name| directory.join(name).is_file())
}

/// Returns `true` for a directory of references in Parquet.
fn is_references(directory: &Path) -> bool {
    directory.is_dir() && !is_zarr(directory) && directory.join(".zmetadata").is_file()
}

/// Open files: HDF5, NetCDF, archives, references, and places on servers.
#[derive(Debug, Default)]
struct Files {
    open: Mutex<HashMap<String, Open>>,
    /// The files may refer to no others.
    alone: bool,
    /// Options of the server that has the files.
    storage: Vec<(String, String)>,
}

#[derive(Debug)]
struct Open {
    version: Option<u64>,
    hierarchy: Arc<Hierarchy>,
    /// The number of the last use.
    used: u64,
}

impl Files {
    /// Opens a location. A file that is open and has not changed is not opened again. `None`: there are no data.
    fn open(&self, name: &str, location: &str) -> Result<Option<Arc<Hierarchy>>> {
        let version = version(location);
        {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            let now = open.values().map(|one| one.used).max().unwrap_or(0) + 1;
            if let Some(known) = open.get_mut(name).filter(|known| known.version == version) {
                known.used = now;
                return Ok(Some(known.hierarchy.clone()));
            }
        }
        let Some(hierarchy) = self.opened(location, version)? else { return Ok(None) };
        let hierarchy = Arc::new(hierarchy);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let used = open.values().map(|one| one.used).max().unwrap_or(0) + 1;
        open.insert(name.to_owned(), Open { version, hierarchy: hierarchy.clone(), used });
        while open.len() > MOST_OPEN {
            let oldest = open.iter().min_by_key(|(_, one)| one.used).map(|(name, _)| name.clone());
            open.remove(&oldest.unwrap_or_default());
        }
        Ok(Some(hierarchy))
    }

    fn opened(&self, location: &str, version: Option<u64>) -> Result<Option<Hierarchy>> {
        let reached =
            stores::reach(location, StoreOptions { storage: &self.storage, ..StoreOptions::default() })?;
        let found = match &reached.object {
            Some(object) if self.alone => {
                let store: Arc<dyn Store> = Arc::new(Alone(reached.store.clone()));
                let inside = reached.path.get(object.key.len()..).unwrap_or_default().trim_start_matches('/');
                DataFile::open_object(&store, &object.key)?.map(|file| (file, inside.to_owned()))
            }
            // The first bytes of other files are nobody's business.
            _ => match reached.file() {
                Err(Error::NotData { .. }) => return Ok(None),
                found => found?,
            },
        };
        let Some((file, inside)) = found else {
            if reached.object.is_some() {
                return Ok(None);
            }
            return Ok(Some(Hierarchy::of_zarr(reached.store, &reached.path, version)));
        };
        match file.open(&inside)? {
            Node::Group(root) => Ok(Some(Hierarchy::of_file(&root, version)?)),
            Node::Array(array) => Err(Error::Location {
                location: location.to_owned(),
                why: format!("'{}' is an array in a file: serve the file, or a group in it", array.name()),
            }),
        }
    }
}

/// A number that changes when a local file changes. `None`: the location is no local file.
fn version(location: &str) -> Option<u64> {
    let path = stores::local_path(location).ok()??;
    let found = path.ancestors().find_map(|path| fs::metadata(path).ok().filter(fs::Metadata::is_file))?;
    let mut hasher = DefaultHasher::new();
    (found.dev(), found.ino(), found.len(), found.mtime(), found.mtime_nsec(), found.ctime_nsec())
        .hash(&mut hasher);
    Some(hasher.finish())
}
