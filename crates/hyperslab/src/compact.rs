//! Gives back the unused space of HDF5 files.

use crate::copy::{Phase, Progress};
use crate::formats::data_file::DataFile;
use crate::{Error, Format, Result, settings};
pub use hyperslab_hdf5::compact::Compacted;
use hyperslab_hdf5::compact::Compaction;
use hyperslab_hdf5::{File, Hdf5Error};
use hyperslab_store::{EditedFile, EditedOptions, FileStore, Store};
use std::fs::Metadata;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;
use std::sync::Arc;

/// Replaces an HDF5 file by a copy without unused space.
///
/// The copy has everything that the file has. It takes the file's place in one step, once it is
/// complete: programs that have the file open keep the old one. A file that would not become smaller
/// stays as it is. `dry`: nothing is written.
///
/// Fails with an error of the kind [`WouldBlock`](std::io::ErrorKind::WouldBlock) if the file is open
/// for writing, and with [`Hdf5Error::Unsupported`] if something would be lost. The file is then as
/// it was.
pub fn compact(path: &Path, dry: bool, progress: Option<&dyn Progress>) -> Result<Compacted> {
    let failed = |what| move |source| Error::Io { what, path: path.to_owned(), source };
    // The file behind a link is replaced, not the link.
    let place = path.canonicalize().map_err(failed("compact"))?;
    let old = place.metadata().map_err(failed("compact"))?;
    let is_stopped = || progress.is_some_and(Progress::cancelled);
    if dry {
        return Ok(plan(path, &is_stopped)?.expected());
    }
    check_names(path, &old)?;
    // The new file locks the old one until it has taken its place.
    let options = EditedOptions { locks: settings::file_locks(), fsync: true };
    let into = Arc::new(EditedFile::create(&place, true, options)?);
    let plan = plan(&place, &is_stopped)?;
    let expected = plan.expected();
    if expected.after >= expected.before {
        return Ok(Compacted { after: expected.before, lost_references: 0, ..expected });
    }
    if let Some(progress) = progress {
        progress.begin(Phase::Copy, expected.after);
        progress.array(&path.display().to_string());
    }
    let done = plan.write(&into, &mut |bytes| {
        if let Some(progress) = progress {
            progress.advance(bytes);
        }
        !is_stopped()
    });
    let done = done.map_err(interrupted)?;
    into.publish()?;
    keep_owner(&place, &old).map_err(failed("keep the owner of"))?;
    Ok(done)
}

fn plan(path: &Path, is_stopped: &dyn Fn() -> bool) -> Result<Compaction> {
    let store = FileStore::open(path)?;
    let store = store.ok_or_else(|| Error::Io {
        what: "compact",
        path: path.to_owned(),
        source: std::io::Error::other("it is not a regular file"),
    })?;
    let key = store.key().to_owned();
    let store: Arc<dyn Store> = Arc::new(store);
    let file = match DataFile::open_object(&store, &key)? {
        Some(file) => file,
        None => return Err(DataFile::not_data(&store, &key, path)?),
    };
    let Some(file) = file.as_hdf5() else {
        let format: Format = file.format();
        return Err(Error::Options(format!(
            "cannot compact '{}': {format} files have no unused space",
            path.display()
        )));
    };
    if is_stopped() {
        return Err(Error::Interrupted);
    }
    of(file)
}

fn of(file: &File) -> Result<Compaction> {
    Compaction::of(file).map_err(interrupted)
}

/// Refuses a file that has several names: the others would keep the old contents.
fn check_names(path: &Path, old: &Metadata) -> Result<()> {
    match old.nlink() {
        0 | 1 => Ok(()),
        names => Err(Error::Options(format!(
            "cannot compact '{}': the file has {names} names (hard links), and the others would keep the old \
             contents. Copy it to a name of its own first",
            path.display()
        ))),
    }
}

/// Gives the new file the owner and the group of the old one.
fn keep_owner(path: &Path, old: &Metadata) -> std::io::Result<()> {
    let new = path.metadata()?;
    let changed = |new: u32, old: u32| (new != old).then_some(old);
    match (changed(new.uid(), old.uid()), changed(new.gid(), old.gid())) {
        (None, None) => Ok(()),
        (user, group) => chown(path, user, group),
    }
}

fn interrupted(error: Hdf5Error) -> Error {
    match error {
        Hdf5Error::Interrupted { .. } => Error::Interrupted,
        error => error.into(),
    }
}
