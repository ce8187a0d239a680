//! Gives back the unused space of HDF5 files.

use crate::copy::{Phase, Progress};
use crate::formats::data_file::DataFile;
use crate::stores;
use crate::{Error, Format, Result, settings};
use hyperslab_hdf5::compact::Compaction;
pub use hyperslab_hdf5::compact::{Compacted, Pages};
use hyperslab_hdf5::{File, FileOptions, Hdf5Error};
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

/// Replaces an HDF5 file by a copy with all metadata in front, in pages. Like [`compact`].
pub fn paginate(path: &Path, pages: Pages) -> Result<()> {
    let failed = |what| move |source| Error::Io { what, path: path.to_owned(), source };
    let place = path.canonicalize().map_err(failed("give pages to"))?;
    let old = place.metadata().map_err(failed("give pages to"))?;
    check_names(path, &old)?;
    let options = EditedOptions { locks: settings::file_locks(), fsync: true };
    let into = Arc::new(EditedFile::create(&place, true, options)?);
    let file = open(&place)?;
    let file = file.as_hdf5().ok_or_else(|| Error::Options("only HDF5 files have pages".into()))?;
    write_pages(file, pages, &into)?;
    into.publish()?;
    keep_owner(&place, &old).map_err(failed("keep the owner of"))
}

/// Returns the image of a file with all metadata in front, in pages.
pub fn paginated(image: Vec<u8>, pages: Pages) -> Result<Vec<u8>> {
    let into = Arc::new(EditedFile::memory(Vec::new()));
    write_pages(&whole(Arc::new(EditedFile::memory(image)))?, pages, &into)?;
    let mut image = vec![0; usize::try_from(into.len()?).unwrap_or_default()];
    into.read_at(0, &mut image)?;
    Ok(image)
}

/// Makes the object at the destination of a new file that is complete. Does nothing for files that are
/// where they belong. `pages`: the object has all metadata in front, in pages.
pub fn deliver(file: &Arc<EditedFile>, pages: Option<Pages>) -> Result<()> {
    let (Some(pages), Some(to)) = (pages, file.destination()) else { return Ok(file.deliver()?) };
    let into = Arc::new(EditedFile::spooled(stores::spool()?, Some(to.clone()), false));
    write_pages(&whole(file.clone())?, pages, &into)?;
    Ok(into.deliver()?)
}

/// Opens the flushed state of a file that is being written.
fn whole(file: Arc<EditedFile>) -> Result<File> {
    let key = file.key().to_owned();
    let options = FileOptions { verify: settings::verify_checksums(), others: None };
    Ok(File::open(file, &key, options)?)
}

fn write_pages(file: &File, pages: Pages, into: &Arc<EditedFile>) -> Result<()> {
    let plan = Compaction::paged(file, pages).map_err(interrupted)?;
    plan.write(into, &mut |_| true).map(drop).map_err(interrupted)
}

fn open(path: &Path) -> Result<DataFile> {
    let store = FileStore::open(path)?;
    let store = store.ok_or_else(|| Error::Io {
        what: "compact",
        path: path.to_owned(),
        source: std::io::Error::other("it is not a regular file"),
    })?;
    let key = store.key().to_owned();
    let store: Arc<dyn Store> = Arc::new(store);
    match DataFile::open_object(&store, &key)? {
        Some(file) => Ok(file),
        None => Err(DataFile::not_data(&store, &key, path)?),
    }
}

fn plan(path: &Path, is_stopped: &dyn Fn() -> bool) -> Result<Compaction> {
    let file = open(path)?;
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
