//! Finds the local files that an HDF5 file refers to.
//!
//! An HDF5 file may refer to others: by external links, external raw data, and sources of virtual
//! datasets. It names them by paths, which are untrusted. They are found in these steps. The HDF5
//! library takes the first two as well:
//!
//! 1. If an absolute path leads to nothing, look for its last part: the files were moved together.
//! 2. A relative path of a link or of a virtual dataset's source is tried in three places: in the
//!    directories that the environment names, in the directory of the referring file, and in the
//!    working directory. For raw data, look in the directory that the environment names, by default
//!    the working directory. Then, unlike the library, look in the directory of the referring file.
//! 3. Resolve links. The result must be where [`settings::external_files`] allows: usually in the
//!    directory of the opened file, or below. A file cannot refer to anything outside, nor to
//!    anything but regular files.

use crate::settings::{self, ExternalFiles, Prefixes};
use hyperslab_hdf5::{FoundFile, Hdf5Error, OtherFiles, Purpose};
use hyperslab_store::{FileStore, Key, Store};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Makes the finder for files that an object of a store refers to.
/// `None`: the object is not a local file, and must not refer to others.
pub(crate) fn around(store: &dyn Store, key: &str) -> Option<Arc<dyn OtherFiles>> {
    around_path(&store.local_path(Some(Key::new(key).ok()?))?)
}

/// Makes the finder for files that the file at a path refers to.
pub(crate) fn around_path(path: &Path) -> Option<Arc<dyn OtherFiles>> {
    LocalFiles::around(path)
}

/// The files around a file.
#[derive(Clone, Debug)]
struct LocalFiles {
    policy: ExternalFiles,
    /// The allowed directory, in which the file opened first is, with links resolved.
    root: PathBuf,
    /// The directory of the referring file.
    directory: PathBuf,
    prefixes: &'static Prefixes,
}

impl LocalFiles {
    /// Makes the finder for the file at this path. `None`: its directory cannot be found.
    fn around(path: &Path) -> Option<Arc<dyn OtherFiles>> {
        let here = std::path::absolute(path).ok()?.parent()?.to_owned();
        let root = here.canonicalize().ok()?;
        let (policy, prefixes) = (settings::external_files(), settings::external_prefixes());
        Some(Arc::new(LocalFiles { policy, root, directory: here, prefixes }))
    }

    fn refused(&self, name: &str, why: &str) -> Hdf5Error {
        Hdf5Error::Refused {
            file: self.directory.display().to_string(),
            object: None,
            target: name.to_owned(),
            why: format!("{why} (setting external_files = \"{}\")", self.policy.name()),
        }
    }

    fn allowed(&self, path: &Path) -> bool {
        self.policy == ExternalFiles::Anywhere || path.starts_with(&self.root)
    }

    /// The paths to try for a file, in order. Relative paths start at the working directory.
    fn places(&self, name: &Path, purpose: Purpose) -> Vec<PathBuf> {
        let mut places = Vec::new();
        let mut relative = name;
        if name.is_absolute() {
            places.push(name.to_owned());
            let Some(last) = name.file_name() else { return places };
            relative = Path::new(last);
        }
        let beside = |directories: &[PathBuf]| -> Vec<PathBuf> {
            let within = |directory: &PathBuf| match directory.strip_prefix("${ORIGIN}") {
                Ok(rest) => self.directory.join(rest).join(relative),
                Err(_) => directory.join(relative),
            };
            directories.iter().map(within).collect()
        };
        let (here, working) = (self.directory.join(relative), relative.to_owned());
        match purpose {
            Purpose::Link => places.extend(beside(&self.prefixes.link).into_iter().chain([here, working])),
            Purpose::Virtual => {
                places.extend(beside(&self.prefixes.virtual_source).into_iter().chain([here, working]));
            }
            Purpose::RawData => {
                if !name.is_absolute() {
                    match &self.prefixes.raw_data {
                        Some(directory) => places.extend(beside(std::slice::from_ref(directory))),
                        None => places.push(working),
                    }
                }
                places.push(here);
            }
            Purpose::Member => places.push(here),
        }
        places
    }
}

impl OtherFiles for LocalFiles {
    fn find(&self, name: &str, purpose: Purpose) -> Result<Option<FoundFile>, Hdf5Error> {
        let refused = |why: &str| self.refused(name, why);
        if self.policy == ExternalFiles::Refuse {
            return Err(refused("other files are not opened"));
        }
        if name.is_empty() {
            return Ok(None);
        }
        let mut outside = false;
        for place in self.places(Path::new(name), purpose) {
            let Ok(path) = place.canonicalize() else { continue };
            if !self.allowed(&path) {
                outside = true;
                continue;
            }
            if let Some(store) = FileStore::open(&path)? {
                let key = store.key().to_owned();
                return Ok(Some((Arc::new(store), key)));
            }
        }
        match outside {
            true => Err(refused("it is not in the directory of the file that was opened, nor below")),
            false => Ok(None),
        }
    }

    fn place(&self, name: &str, purpose: Purpose) -> Result<Option<PathBuf>, Hdf5Error> {
        if self.policy == ExternalFiles::Refuse || name.is_empty() {
            return Err(self.refused(name, "other files are not opened"));
        }
        let places = self.places(Path::new(name), purpose);
        let existing = places.iter().filter_map(|place| place.canonicalize().ok());
        if let Some(found) = existing.into_iter().find(|path| self.allowed(path)) {
            return Ok(Some(found));
        }
        // The file is going to be in a directory that exists.
        let new = |place: &PathBuf| {
            let directory = std::path::absolute(place).ok()?.parent()?.canonicalize().ok()?;
            Some(directory.join(place.file_name()?))
        };
        // The last part of an absolute path is looked for only if it exists.
        let most = if Path::new(name).is_absolute() { 1 } else { places.len() };
        match places.iter().take(most).filter_map(new).find(|path| self.allowed(path) && !path.exists()) {
            Some(place) => Ok(Some(place)),
            None => {
                Err(self.refused(name, "it is not in the directory of the file that was opened, nor below"))
            }
        }
    }

    fn around(&self, found: &FoundFile) -> Option<Arc<dyn OtherFiles>> {
        let here = found.0.local_path(None)?;
        Some(Arc::new(LocalFiles { directory: here, ..self.clone() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_a_file_may_lead_to() {
        let root = tempfile::tempdir().unwrap();
        let inside = root.path().join("data");
        fs::create_dir_all(inside.join("raw")).unwrap();
        for name in ["secret", "data/a.h5", "data/b.h5", "data/raw/c.bin"] {
            fs::write(root.path().join(name), name).unwrap();
        }
        symlink(root.path().join("secret"), inside.join("link")).unwrap();
        symlink("b.h5", inside.join("fine")).unwrap();
        let here = inside.canonicalize().unwrap();
        static NONE: Prefixes = Prefixes { link: Vec::new(), virtual_source: Vec::new(), raw_data: None };
        let files =
            |policy| LocalFiles { policy, root: here.clone(), directory: here.clone(), prefixes: &NONE };
        let found = |policy, name: &str| {
            files(policy).find(name, Purpose::Link).map(|found| found.map(|(_, key)| key))
        };
        let same = |name: &str| found(ExternalFiles::SameDirectory, name);

        for (name, key) in [
            ("b.h5", Some("b.h5")),
            ("./raw/c.bin", Some("c.bin")),
            ("raw/../b.h5", Some("b.h5")),
            ("fine", Some("b.h5")),
            ("/moved/from/here/b.h5", Some("b.h5")),
            (inside.join("b.h5").to_str().unwrap(), Some("b.h5")),
            ("raw", None),
            ("nothing.h5", None),
            ("../nothing", None),
            ("", None),
        ] {
            assert_eq!(same(name).unwrap().as_deref(), key, "{name}");
        }
        let secret = root.path().join("secret");
        for name in ["../secret", "link", secret.to_str().unwrap(), "raw/../../secret"] {
            assert!(matches!(same(name), Err(Hdf5Error::Refused { .. })), "{name}");
            assert_eq!(found(ExternalFiles::Anywhere, name).unwrap().as_deref(), Some("secret"));
        }
        assert!(matches!(found(ExternalFiles::Refuse, "b.h5"), Err(Hdf5Error::Refused { .. })));
    }

    #[test]
    fn places_in_the_order_of_the_library() {
        static SOME: Prefixes = Prefixes { link: Vec::new(), virtual_source: Vec::new(), raw_data: None };
        let paths = |names: &[&str]| -> Vec<PathBuf> { names.iter().map(PathBuf::from).collect() };
        let prefixes: &'static Prefixes = Box::leak(Box::new(Prefixes {
            link: paths(&["/l", "m"]),
            virtual_source: paths(&["${ORIGIN}/v"]),
            raw_data: Some("${ORIGIN}".into()),
        }));
        let places = |prefixes: &'static Prefixes, name: &str, purpose| {
            let (policy, root, here) = (ExternalFiles::Anywhere, "/here".into(), "/here".into());
            LocalFiles { policy, root, directory: here, prefixes }.places(Path::new(name), purpose)
        };
        assert_eq!(places(prefixes, "a/b", Purpose::Link), paths(&["/l/a/b", "m/a/b", "/here/a/b", "a/b"]));
        assert_eq!(places(prefixes, "/a/b", Purpose::Link), paths(&["/a/b", "/l/b", "m/b", "/here/b", "b"]));
        assert_eq!(places(prefixes, "a", Purpose::Virtual), paths(&["/here/v/a", "/here/a", "a"]));
        assert_eq!(places(prefixes, "a", Purpose::RawData), paths(&["/here/a", "/here/a"]));
        assert_eq!(places(&SOME, "a", Purpose::RawData), paths(&["a", "/here/a"]));
        assert_eq!(places(&SOME, "/a/b", Purpose::RawData), paths(&["/a/b", "/here/b"]));
        assert_eq!(places(&SOME, "a", Purpose::Member), paths(&["/here/a"]));
    }
}
