//! Files on local disk: finding the one that a location means, and those that it refers to.
//!
//! An HDF5 file that refers to others (external links, external raw data, sources of virtual datasets) names them by paths, which come from outside. They
//! are found in these steps:
//!
//! 1. A relative path is looked for in the directory of the file that has it. An absolute one that leads to nothing is looked for there by its last
//!    part: the files were moved together. (So does the HDF5 library.)
//! 2. Links are resolved, and what is found must be where [`settings::external_files`] allows: usually in the directory of the file that was
//!    opened, or below. A file cannot lead out of there, nor to what is no regular file.

use crate::settings::{self, ExternalFiles};
use crate::{DataFile, Error, FileStore, local_path};
use hyperslab_hdf5::{File, FileOptions, FoundFile, Hdf5Error, OtherFiles};
use hyperslab_netcdf as netcdf;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file that a path leads to or into, and the path in it. `None`: something else is there.
pub(crate) fn find(path: &Path) -> Result<Option<(DataFile, String)>, Error> {
    for above in path.ancestors() {
        match fs::metadata(above) {
            Ok(found) if found.is_file() => {
                let inside = path.strip_prefix(above).unwrap_or(Path::new("")).to_string_lossy();
                return Ok(open_file(above)?.map(|file| (file, inside.into_owned())));
            }
            Ok(_) => return Ok(None),
            // Not there, or below something that is no directory: what is above may be a file.
            Err(_) => {}
        }
    }
    Ok(None)
}

/// Opens a regular file. `None`: there is none, or it is neither HDF5 nor NetCDF.
fn open_file(path: &Path) -> Result<Option<DataFile>, Error> {
    let Some(store) = FileStore::open(path)? else { return Ok(None) };
    let key = store.key().to_owned();
    if netcdf::File::is_netcdf3(&store, &key)? {
        return Ok(Some(netcdf::File::open(Arc::new(store), &key)?.into()));
    }
    if !File::is_hdf5(&store, &key)? {
        return Ok(None);
    }
    let options = FileOptions { verify: settings::verify_checksums(), others: LocalFiles::around(path) };
    Ok(Some(File::open(Arc::new(store), &key, options)?.into()))
}

/// The same file as it is now: opened anew, with nothing kept of what was read.
pub fn reopened(file: &DataFile) -> Result<DataFile, Error> {
    if let Ok(directory) = local_path(&file.store().url())
        && let Some(file) = open_file(&directory.join(file.key()))?
    {
        return Ok(file);
    }
    let (store, key) = (file.store().clone(), file.key());
    Ok(match file {
        DataFile::Hdf5(file) => File::open(store, key, file.options().clone())?.into(),
        DataFile::NetCdf3(_) => netcdf::File::open(store, key)?.into(),
    })
}

/// The files around one.
#[derive(Clone, Debug)]
struct LocalFiles {
    policy: ExternalFiles,
    /// Where files may be: the directory of the one that was opened first, without links.
    root: PathBuf,
    /// The directory of the one that refers to others.
    here: PathBuf,
}

impl LocalFiles {
    /// Around the file at this path. `None`: its directory cannot be found.
    fn around(path: &Path) -> Option<Arc<dyn OtherFiles>> {
        let here = std::path::absolute(path).ok()?.parent()?.to_owned();
        let root = here.canonicalize().ok()?;
        Some(Arc::new(LocalFiles { policy: settings::external_files(), root, here }))
    }

    fn allowed(&self, path: &Path) -> bool {
        self.policy == ExternalFiles::Anywhere || path.starts_with(&self.root)
    }
}

impl OtherFiles for LocalFiles {
    fn find(&self, name: &str) -> Result<Option<FoundFile>, Hdf5Error> {
        let refused = |why: &str| Hdf5Error::Refused {
            file: self.here.display().to_string(),
            object: None,
            target: name.to_owned(),
            why: format!("{why} (setting external_files = \"{}\")", self.policy.name()),
        };
        if self.policy == ExternalFiles::Refuse {
            return Err(refused("other files are not opened"));
        }
        let mut found = self.here.join(name).canonicalize();
        if found.is_err()
            && Path::new(name).is_absolute()
            && let Some(last) = Path::new(name).file_name()
        {
            found = self.here.join(last).canonicalize();
        }
        let Ok(path) = found else { return Ok(None) };
        if !self.allowed(&path) {
            return Err(refused("it is not in the directory of the file that was opened, nor below"));
        }
        let store = FileStore::open(&path)?;
        Ok(store.map(|store| {
            let key = store.key().to_owned();
            (Arc::new(store) as _, key)
        }))
    }

    fn around(&self, found: &FoundFile) -> Option<Arc<dyn OtherFiles>> {
        let here = local_path(&found.0.url()).ok()?;
        Some(Arc::new(LocalFiles { here, ..self.clone() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let files = |policy| LocalFiles { policy, root: here.clone(), here: here.clone() };
        let found = |policy, name: &str| files(policy).find(name).map(|found| found.map(|(_, key)| key));
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
}
