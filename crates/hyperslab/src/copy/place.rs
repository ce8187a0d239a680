//! A destination on disk that is either unchanged or complete.
//!
//! 1. Check that the destination may be created: it does not exist or may be replaced, and it is
//!    not the source, inside it or around it.
//! 2. Make a stage ([`Store::stage`]): a directory that no listing shows, locked while this process
//!    lives. If a copy was killed, the next copy to the same destination removes its stage, and so
//!    does `hyperslab compact`.
//! 3. Write everything to the stage. If anything fails, remove it.
//! 4. When everything is written and verified, exchange the names of stage and destination in one
//!    step. Then delete the old contents. The destination is never missing and never half-written.
//!    (Some network file systems cannot exchange names. There the old directory is moved away
//!    first, and for an instant nothing is there.) With `fsync`, everything is flushed to disk
//!    first.
//!
//! A reader that opened the old array finds chunks by name: after the exchange it reads the chunks
//! of the new array.

use crate::{Error, Key, Result};
use hyperslab_store::{Ask, LocalOptions, LocalStore, Staged, Store, StoreError};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The documents that identify a directory as an array or group.
const METADATA: [&str; 3] = ["zarr.json", ".zarray", ".zgroup"];

/// The space for paths in a destination.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Path length in bytes of the stage directory or the destination, whichever is longer.
    base: usize,
}

impl Room {
    /// Longest path in bytes that the system accepts, without the terminating NUL.
    const PATH: usize = if cfg!(any(target_os = "linux", target_os = "android")) { 4095 } else { 1023 };

    /// Longest name in bytes within a path.
    const NAME: usize = 255;

    /// Bytes that a stage adds to the path of its parent directory.
    const STAGE: usize = "/.stage.0123456789abcdef.0.hyperslab-tmp/new".len();

    /// Measures a destination.
    pub(super) fn of(destination: &Path) -> Room {
        let absolute = std::path::absolute(destination).unwrap_or_else(|_| destination.to_owned());
        let len = |path: &Path| path.as_os_str().len();
        let stage = absolute.parent().map_or(0, len) + Self::STAGE;
        Room { base: stage.max(len(&absolute)) }
    }

    /// Refuses a node path that the system would refuse. The error says why and what to do.
    pub(super) fn check(self, path: &str) -> Result<(), String> {
        const ADVICE: &str = "copy a group inside it, or into a store that is not a directory";
        let longest = path.split('/').map(str::len).max().unwrap_or(0);
        if longest > Self::NAME {
            let most = Self::NAME;
            return Err(format!("its name has {longest} bytes, a directory may have {most}: {ADVICE}"));
        }
        // `.zgroup` is the shortest document name in the directory of a node.
        let needed = self.base + 1 + path.len() + "/.zgroup".len();
        if needed > Self::PATH {
            let (levels, most) = (path.split('/').count(), Self::PATH);
            return Err(format!(
                "it is {levels} levels deep, and its files would have paths of {needed} bytes where the system takes {most}: {ADVICE}"
            ));
        }
        Ok(())
    }
}

/// A destination that may be created.
#[derive(Debug)]
pub(super) struct Destination {
    destination: PathBuf,
    store: LocalStore,
    /// The key of the destination in the store; `None`: the root.
    prefix: Option<String>,
    replace: bool,
}

impl Destination {
    /// Step 1. `source`: the path of the source, if it is on this machine.
    pub(super) fn prepare(
        destination: &Path,
        source: Option<&Path>,
        overwrite: bool,
        fsync: bool,
    ) -> Result<Destination> {
        let refuse = |why: &str| Error::Destination { path: destination.to_owned(), why: why.to_owned() };
        let fail = |source| Error::Io { what: "make", path: destination.to_owned(), source };
        let destination: PathBuf = std::path::absolute(destination).map_err(fail)?.components().collect();
        let (Some(parent), Some(name)) = (destination.parent(), destination.file_name()) else {
            return Err(refuse("it is not the name of a new directory"));
        };
        if let Some(source) = source {
            let (source, target) = (resolve_links(source), resolve_links(&destination));
            if source == target {
                return Err(refuse("it is the source"));
            } else if target.starts_with(&source) {
                return Err(refuse("it lies inside the source"));
            } else if source.starts_with(&target) {
                return Err(refuse("the source lies inside it"));
            }
        }
        let (replace, link) = match fs::symlink_metadata(&destination) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => (false, false),
            Err(error) => return Err(fail(error)),
            Ok(_) if !overwrite => return Err(refuse("it exists already; set overwrite to replace it")),
            // Otherwise a typo could delete a home directory.
            Ok(_) if !is_node(&destination) => {
                return Err(refuse("it exists and is no array or group; it is not replaced"));
            }
            Ok(found) => (true, found.is_symlink()),
        };
        // Replace a link itself, not the directory that it points to.
        let (root, prefix) = match name.to_str().filter(|_| link) {
            Some(name) => (parent, Some(name.to_owned())),
            None if link => return Err(refuse("its name is not UTF-8")),
            None => (destination.as_path(), None),
        };
        let store = LocalStore::unseen(root, LocalOptions { fsync, ..LocalOptions::default() })?;
        Ok(Destination { destination, store, prefix, replace })
    }

    /// Step 2.
    pub(super) fn stage(&self) -> Result<Box<dyn Staged + '_>> {
        let prefix = self.prefix.as_deref().map(Key::new).transpose()?;
        self.store.stage(prefix).map_err(|error| self.fail("make", error))
    }

    /// Step 4. `ask` can only stop the deletion of the old contents; the rest is removed later.
    pub(super) fn commit(&self, staged: Box<dyn Staged + '_>, ask: Option<Ask<'_>>) -> Result<()> {
        let fail = |error| self.fail("move the finished copy to", error);
        if self.replace {
            return staged.commit(ask).map_err(fail);
        }
        match staged.commit_new().map_err(fail)? {
            true => Ok(()),
            false => Err(Error::Destination {
                path: self.destination.clone(),
                why: "somebody else has put something there meanwhile".into(),
            }),
        }
    }

    fn fail(&self, what: &'static str, error: StoreError) -> Error {
        match error {
            StoreError::Io { source, .. } => Error::Io { what, path: self.destination.clone(), source },
            error => error.into(),
        }
    }
}

/// Returns `true` if a copy may replace this: an array, a group, or an empty directory.
pub fn is_node(path: &Path) -> bool {
    let empty = || fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    path.is_dir() && (METADATA.iter().any(|name| path.join(name).exists()) || empty())
}

/// The path with links resolved, as far as it exists.
pub(crate) fn resolve_links(path: &Path) -> PathBuf {
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
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<String> = fs::read_dir(directory).unwrap().map(name).collect();
        names.sort();
        names
    }

    /// Copies one document to a destination.
    fn copy_to(destination: &Path, text: &str, overwrite: bool) -> Result<()> {
        let place = Destination::prepare(destination, None, overwrite, false)?;
        let staged = place.stage()?;
        staged.store().write(Key::new("zarr.json")?, &[text.as_bytes()])?;
        place.commit(staged, None)
    }

    #[test]
    fn dropped_leaves_nothing_and_committed_all() {
        let root = tempfile::tempdir().unwrap();
        let destination = root.path().join("x/y/new.zarr");
        let place = Destination::prepare(&destination, None, false, true).unwrap();
        let staged = place.stage().unwrap();
        staged.store().write(Key::new("a").unwrap(), &[b"1"]).unwrap();
        drop(staged);
        assert!(names(root.path()).is_empty());

        copy_to(&destination, "1", false).unwrap();
        assert_eq!(names(root.path()), ["x"]);
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
        let error = Destination::prepare(&destination, None, false, false).unwrap_err().to_string();
        assert!(error.contains("exists already"), "{error}");

        drop(Destination::prepare(&destination, None, true, false).unwrap().stage().unwrap());
        assert_eq!(names(&destination), ["chunk", "zarr.json"]);

        copy_to(&destination, "new", true).unwrap();
        assert_eq!(names(root.path()), ["a.zarr"]);
        assert_eq!(names(&destination), ["zarr.json"]);
        assert_eq!(fs::read_to_string(destination.join("zarr.json")).unwrap(), "new");

        // Somebody else creates the destination during the copy.
        let late = root.path().join("late.zarr");
        let place = Destination::prepare(&late, None, false, false).unwrap();
        let staged = place.stage().unwrap();
        staged.store().write(Key::new("zarr.json").unwrap(), &[b"mine"]).unwrap();
        fs::create_dir(&late).unwrap();
        fs::write(late.join("zarr.json"), "theirs").unwrap();
        let error = place.commit(staged, None).unwrap_err().to_string();
        assert!(error.contains("somebody else"), "{error}");
        assert_eq!(fs::read_to_string(late.join("zarr.json")).unwrap(), "theirs");
        assert_eq!(names(root.path()), ["a.zarr", "late.zarr"]);
    }

    #[test]
    fn other_peoples_files_are_not_replaced() {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().join("home");
        fs::create_dir(&home).unwrap();
        fs::write(home.join("thesis.tex"), "years of work").unwrap();
        for destination in [home.clone(), home.join("thesis.tex")] {
            let error = Destination::prepare(&destination, None, true, false).unwrap_err().to_string();
            assert!(error.contains("no array or group"), "{error}");
        }
        assert!(Destination::prepare(Path::new("/"), None, true, false).is_err());
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
            let refused = Destination::prepare(&root.path().join(destination), Some(&source), true, false);
            let error = refused.unwrap_err().to_string();
            assert!(error.contains(why), "{destination}: {error}");
        }
        assert!(Destination::prepare(&root.path().join("a.zarr2"), Some(&source), false, false).is_ok());
        assert_eq!(names(root.path()), ["a.zarr", "link"]);
    }

    #[test]
    fn a_link_is_replaced_not_what_it_leads_to() {
        let root = tempfile::tempdir().unwrap();
        let real = root.path().join("real.zarr");
        fs::create_dir(&real).unwrap();
        fs::write(real.join("zarr.json"), "kept").unwrap();
        std::os::unix::fs::symlink(&real, root.path().join("link")).unwrap();
        copy_to(&root.path().join("link"), "new", true).unwrap();
        assert_eq!(names(root.path()), ["link", "real.zarr"]);
        assert_eq!(names(&real), ["zarr.json"]);
        assert_eq!(fs::read_to_string(real.join("zarr.json")).unwrap(), "kept");
        assert_eq!(fs::read_to_string(root.path().join("link/zarr.json")).unwrap(), "new");
    }

    #[test]
    fn parents_that_cannot_be_made() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("file"), "").unwrap();
        let error = copy_to(&root.path().join("file/b.zarr"), "", false).unwrap_err().to_string();
        assert!(error.contains("cannot"), "{error}");
        assert_eq!(names(root.path()), ["file"]);
    }
}
