//! A destination on disk that is either as before or complete.
//!
//! 1. Check that the destination may be made: it does not exist, or may be replaced; it is not the source, nor in it, nor around it.
//! 2. Make the directories above it, and beside it a directory with a name that no listing of a store shows.
//! 3. Everything is written there. Whatever goes wrong, it is removed, and so are the directories of step 2.
//! 4. When all is written and verified: move away what is to be replaced, move the new one to its place, remove the old. If the second move
//!    fails, the first is undone.

use crate::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The documents that tell that a directory is an array or group.
const METADATA: [&str; 3] = ["zarr.json", ".zarray", ".zgroup"];

/// A destination in the making. Dropping it removes what was made.
#[derive(Debug)]
pub(super) struct Place {
    destination: PathBuf,
    temporary: PathBuf,
    /// The outermost directory that step 2 made.
    made: Option<PathBuf>,
    replace: bool,
    done: bool,
}

impl Place {
    /// Steps 1 and 2. `source`: where the source is, if it is on this machine.
    pub(super) fn prepare(
        destination: &Path,
        source: Option<&Path>,
        overwrite: bool,
    ) -> Result<Place, Error> {
        let refuse = |why: &str| Error::Destination { path: destination.to_owned(), why: why.to_owned() };
        let fail = |source| Error::Io { what: "make", path: destination.to_owned(), source };
        let destination: PathBuf = std::path::absolute(destination).map_err(fail)?.components().collect();
        let (Some(parent), Some(name)) = (destination.parent(), destination.file_name()) else {
            return Err(refuse("it is not the name of a new directory"));
        };
        if let Some(source) = source {
            let (source, target) = (resolved(source), resolved(&destination));
            if source == target {
                return Err(refuse("it is the source"));
            } else if target.starts_with(&source) {
                return Err(refuse("it lies inside the source"));
            } else if source.starts_with(&target) {
                return Err(refuse("the source lies inside it"));
            }
        }
        let replace = match fs::symlink_metadata(&destination) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                false
            }
            Err(error) => return Err(fail(error)),
            Ok(_) if !overwrite => return Err(refuse("it exists already; set overwrite to replace it")),
            // Else a slip of the finger could delete a home directory.
            Ok(_) if !is_node(&destination) => {
                return Err(refuse("it exists and is no array or group; it is not replaced"));
            }
            Ok(_) => true,
        };
        let made = parent.ancestors().take_while(|above| !above.exists()).last().map(Path::to_owned);
        // From here on, dropping cleans up.
        let mut place =
            Place { destination: destination.clone(), temporary: PathBuf::new(), made, replace, done: false };
        fs::create_dir_all(parent).map_err(fail)?;
        let name = name.to_string_lossy();
        // Names have at most 255 bytes.
        let short: String = name.chars().take(48).collect();
        place.temporary = loop {
            static COUNTER: AtomicU32 = AtomicU32::new(0);
            let number = COUNTER.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!(".{short}.{}-{number}.hyperslab-tmp", std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => break path,
                // A process of the same number that was killed left it.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(fail(error)),
            }
        };
        Ok(place)
    }

    /// Where to write.
    pub(super) fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Step 4.
    pub(super) fn commit(mut self) -> Result<(), Error> {
        let fail =
            |source| Error::Io { what: "move the finished copy to", path: self.destination.clone(), source };
        let mut old = self.temporary.clone().into_os_string();
        // Still of the form that stores do not list.
        old.push(".old.hyperslab-tmp");
        let old = PathBuf::from(old);
        if self.replace {
            fs::rename(&self.destination, &old).map_err(fail)?;
        }
        if let Err(error) = fs::rename(&self.temporary, &self.destination) {
            if self.replace {
                // If this fails too, the old one is still there under the other name; there is nothing better to do.
                let _ = fs::rename(&old, &self.destination);
            }
            return Err(fail(error));
        }
        self.done = true;
        if self.replace {
            remove(&old).map_err(|source| Error::Io {
                what: "remove the replaced",
                path: old.clone(),
                source,
            })?;
        }
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        // A failure here cannot be told to anybody who could do something about it.
        if !self.temporary.as_os_str().is_empty() {
            let _ = remove(&self.temporary);
        }
        if let Some(outermost) = &self.made {
            let mut directory = self.destination.parent();
            // Only empty ones: others may have put something there meanwhile.
            while let Some(path) = directory.filter(|path| path.starts_with(outermost)) {
                if fs::remove_dir(path).is_err() {
                    break;
                }
                directory = path.parent();
            }
        }
    }
}

/// Removes a directory and what is in it; of a link, the link.
fn remove(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

fn is_node(path: &Path) -> bool {
    let empty = || fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    path.is_dir() && (METADATA.iter().any(|name| path.join(name).exists()) || empty())
}

/// The path without links, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for above in absolute.ancestors() {
        if let (Ok(real), Ok(below)) = (above.canonicalize(), absolute.strip_prefix(above)) {
            return real.join(below).components().collect();
        }
    }
    absolute
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn dropped_leaves_nothing_and_committed_all() {
        let root = tempfile::tempdir().unwrap();
        let destination = root.path().join("x/y/new.zarr");
        let place = Place::prepare(&destination, None, false).unwrap();
        fs::write(place.temporary().join("a"), "1").unwrap();
        assert_eq!(place.temporary().parent(), destination.parent());
        drop(place);
        assert!(names(root.path()).is_empty());

        let place = Place::prepare(&destination, None, false).unwrap();
        fs::write(place.temporary().join("zarr.json"), "1").unwrap();
        place.commit().unwrap();
        assert_eq!(names(destination.parent().unwrap()), ["new.zarr"]);
        assert_eq!(names(&destination), ["zarr.json"]);
    }

    #[test]
    fn existing_destinations() {
        let root = tempfile::tempdir().unwrap();
        let destination = root.path().join("a.zarr");
        fs::create_dir(&destination).unwrap();
        fs::write(destination.join("zarr.json"), "old").unwrap();
        fs::write(destination.join("chunk"), "old").unwrap();
        let error = Place::prepare(&destination, None, false).unwrap_err().to_string();
        assert!(error.contains("exists already"), "{error}");

        drop(Place::prepare(&destination, None, true).unwrap());
        assert_eq!(names(&destination), ["chunk", "zarr.json"]);

        let place = Place::prepare(&destination, None, true).unwrap();
        fs::write(place.temporary().join("zarr.json"), "new").unwrap();
        place.commit().unwrap();
        assert_eq!(names(root.path()), ["a.zarr"]);
        assert_eq!(names(&destination), ["zarr.json"]);
        assert_eq!(fs::read_to_string(destination.join("zarr.json")).unwrap(), "new");
    }

    #[test]
    fn other_peoples_files_are_not_replaced() {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().join("home");
        fs::create_dir(&home).unwrap();
        fs::write(home.join("thesis.tex"), "years of work").unwrap();
        for destination in [home.clone(), home.join("thesis.tex")] {
            let error = Place::prepare(&destination, None, true).unwrap_err().to_string();
            assert!(error.contains("no array or group"), "{error}");
        }
        assert!(Place::prepare(Path::new("/"), None, true).is_err());
        assert_eq!(names(&home), ["thesis.tex"]);
    }

    #[test]
    fn source_and_destination_are_apart() {
        let root = tempfile::tempdir().unwrap();
        let source = root.path().join("a.zarr");
        fs::create_dir(&source).unwrap();
        std::os::unix::fs::symlink(&source, root.path().join("link")).unwrap();
        for (destination, why) in [
            ("a.zarr", "it is the source"),
            ("./a.zarr/", "it is the source"),
            ("link", "it is the source"),
            ("a.zarr/sub/b.zarr", "inside the source"),
            ("link/b.zarr", "inside the source"),
            ("", "the source lies inside it"),
        ] {
            let error =
                Place::prepare(&root.path().join(destination), Some(&source), true).unwrap_err().to_string();
            assert!(error.contains(why), "{destination}: {error}");
        }
        assert!(Place::prepare(&root.path().join("a.zarr2"), Some(&source), false).is_ok());
        assert_eq!(names(root.path()), ["a.zarr", "link"]);
    }

    #[test]
    fn a_link_is_replaced_not_what_it_leads_to() {
        let root = tempfile::tempdir().unwrap();
        let real = root.path().join("real.zarr");
        fs::create_dir(&real).unwrap();
        fs::write(real.join("zarr.json"), "kept").unwrap();
        std::os::unix::fs::symlink(&real, root.path().join("link")).unwrap();
        Place::prepare(&root.path().join("link"), None, true).unwrap().commit().unwrap();
        assert_eq!(names(root.path()), ["link", "real.zarr"]);
        assert_eq!(names(&real), ["zarr.json"]);
        assert!(names(&root.path().join("link")).is_empty());
    }

    #[test]
    fn parents_that_cannot_be_made() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("file"), "").unwrap();
        let error = Place::prepare(&root.path().join("file/b.zarr"), None, false).unwrap_err().to_string();
        assert!(error.contains("cannot make"), "{error}");
        assert_eq!(names(root.path()), ["file"]);
    }
}
