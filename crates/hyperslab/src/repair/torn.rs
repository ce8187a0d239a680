//! HDF5 and NetCDF-4 files: flags and lengths in place, everything else as a copy.

use super::plan::{Action, ActionKind, Lost, Plan};
use super::quarantine::{Change, Quarantine};
use super::{RepairOptions, Work};
use crate::copy::{Phase, Progress};
use crate::{Error, Result, settings, workers};
use hyperslab_hdf5::salvage::{Loss, Mend, Salvage, Torn};
use hyperslab_hdf5::{FileOptions, Hdf5Error};
use hyperslab_store::{EditedFile, EditedOptions, FileStore, Store, StoreError};
use std::path::Path;
use std::sync::Arc;

/// A repair of one file.
#[derive(Debug)]
pub(super) enum Cure {
    InPlace(Mend),
    Copy(Box<Salvage>),
}

/// Looks at a file. Returns the plan, and what carries it out.
pub(super) fn plan(location: &str, path: &Path, options: &RepairOptions<'_>) -> Result<(Plan, Work)> {
    let _alone = without_writers(path)?;
    let store = FileStore::open(path)?.ok_or_else(|| Error::Io {
        what: "repair",
        path: path.to_owned(),
        source: std::io::Error::other("it is not a regular file"),
    })?;
    let key = store.key().to_owned();
    let store: Arc<dyn Store> = Arc::new(store);
    let others = FileOptions { verify: true, others: None };
    let mut torn = Torn::open(store, &key, others, options.killed).map_err(interrupted)?;
    test(&mut torn, options)?;
    let mut plan = Plan { location: location.to_owned(), ..Plan::default() };
    if !torn.has_losses() {
        torn.rehearse().map_err(interrupted)?;
    }
    if !torn.has_losses() {
        plan.doubtful = doubtful(&torn)?;
        let mend = torn.mend().map_err(interrupted)?;
        describe(&mend, &mut plan);
        return Ok((plan, Work::File(Cure::InPlace(mend))));
    }
    torn.adopt().map_err(interrupted)?;
    test(&mut torn, options)?;
    plan.doubtful = doubtful(&torn)?;
    let salvage = torn.salvage().map_err(interrupted)?;
    let expected = salvage.expected();
    let objects = salvage.paths().count();
    if objects <= 1 && salvage.lost.is_empty() {
        return Err(Error::Options(format!(
            "cannot repair '{location}': no objects of HDF5 were found in it"
        )));
    }
    plan.adopted = salvage.adopted;
    plan.needs_target = true;
    plan.lost = salvage.lost.iter().map(lost).collect();
    plan.more_lost = salvage.more;
    plan.state = format!("{} {objects} {}", expected.before, expected.after);
    plan.actions.push(Action {
        kind: ActionKind::Salvage,
        path: "/".into(),
        key: None,
        why: "structures or elements are damaged or lost".into(),
        does: format!("copies {objects} objects to a new file of {} bytes", expected.after),
    });
    Ok((plan, Work::File(Cure::Copy(Box::new(salvage)))))
}

/// Datasets of which some chunks may be wrong.
fn doubtful(torn: &Torn) -> Result<Vec<Lost>> {
    let why = "compressed chunks were being written when the program was killed: a chunk may have the values \
               of another one that has as many stored bytes";
    let paths = torn.doubts().map_err(interrupted)?;
    let doubt = |path: String| Lost {
        path: format!("/{}", path.trim_matches('/')),
        chunk: None,
        region: None,
        offset: None,
        why: why.into(),
    };
    Ok(paths.into_iter().map(doubt).collect())
}

fn lost(loss: &Loss) -> Lost {
    Lost {
        path: format!("/{}", loss.path),
        chunk: loss.chunk.clone(),
        region: None,
        offset: loss.address,
        why: loss.why.clone(),
    }
}

/// Decodes all chunks that were not decoded yet.
fn test(torn: &mut Torn, options: &RepairOptions<'_>) -> Result<()> {
    let ask = || options.progress.is_some_and(Progress::cancelled);
    let threads = options.threads.filter(|n| *n > 0).unwrap_or_else(settings::threads);
    let pieces = torn.pieces();
    if let Some(progress) = options.progress {
        progress.begin(Phase::Verify, pieces);
    }
    let work = |piece: u64, _: &dyn Fn() -> bool| torn.test(piece).map_err(interrupted);
    workers::share(pieces, threads, &ask, &|| {}, &work)?;
    torn.settle();
    Ok(())
}

fn describe(mend: &Mend, plan: &mut Plan) {
    let action = |kind, why: &str, does: String| Action {
        kind,
        path: "/".into(),
        key: None,
        why: why.to_owned(),
        does,
    };
    for patch in &mend.patches {
        let does = format!("replaces {} bytes at byte {}", patch.new.len(), patch.offset);
        plan.actions.push(action(ActionKind::Superblock, &patch.why, does));
        plan.state.push_str(&format!("{:?}{:?}", patch.old, patch.new));
    }
    if let Some((old, new, why)) = &mend.length {
        let does = format!("appends {} zero bytes", new.saturating_sub(*old));
        plan.actions.push(action(ActionKind::Length, why, does));
    }
}

impl Cure {
    /// Carries the plan out.
    pub fn run(&self, path: &Path, hash: &str, options: &RepairOptions<'_>) -> Result<()> {
        match self {
            Cure::InPlace(mend) => in_place(mend, path, hash),
            Cure::Copy(salvage) => copy(salvage, path, options),
        }
    }
}

fn edit(path: &Path) -> Result<EditedFile> {
    let options = EditedOptions { locks: settings::file_locks(), fsync: true };
    EditedFile::open(path, options)?.ok_or_else(|| Error::Io {
        what: "repair",
        path: path.to_owned(),
        source: std::io::ErrorKind::NotFound.into(),
    })
}

/// Keeps writers out while the file is read. Fails if a program has it open for writing. `None`: it can
/// only be read here.
fn without_writers(path: &Path) -> Result<Option<EditedFile>> {
    match edit(path) {
        Err(Error::Store(StoreError::Io { source, .. }))
            if source.kind() != std::io::ErrorKind::WouldBlock =>
        {
            Ok(None)
        }
        file => file.map(Some),
    }
}

fn in_place(mend: &Mend, path: &Path, hash: &str) -> Result<()> {
    // The lock keeps other writers out, from before the journal is written.
    let file = edit(path)?;
    let bytes = mend.patches.iter().map(|patch| Change::Bytes {
        offset: patch.offset,
        old: patch.old.clone(),
        new: patch.new.clone(),
    });
    let length = mend.length.iter().map(|(old, new, _)| Change::Length { old: *old, new: *new });
    let changes: Vec<Change> = length.chain(bytes).collect();
    for change in &changes {
        check(&file, path, change, false)?;
    }
    Quarantine::create(path)?.write(hash, &changes)?;
    for change in &changes {
        match change {
            Change::Length { new, .. } => file.set_len(*new)?,
            Change::Bytes { offset, new, .. } => file.write_at(*offset, new)?,
            Change::Object { .. } | Change::Folder { .. } => {}
        }
    }
    Ok(file.sync()?)
}

/// Fails if a file is neither as it was before a change nor, with `done`, as it was after.
fn check(file: &EditedFile, path: &Path, change: &Change, done: bool) -> Result<()> {
    let is_known = match change {
        Change::Length { old, new } => {
            let len = file.len()?;
            len == *old || done && len == *new && are_zero(file, *old, *new)?
        }
        Change::Bytes { offset, old, new } => {
            let mut found = vec![0; old.len()];
            file.read_at(*offset, &mut found)?;
            // A kill may cut a write between two bytes.
            let mut each = found.iter().zip(old).zip(new);
            each.all(|((found, old), new)| found == old || done && found == new)
        }
        Change::Object { .. } | Change::Folder { .. } => true,
    };
    if is_known {
        return Ok(());
    }
    let why = if done { "after it was repaired: undo would lose that" } else { "meanwhile: plan again" };
    Err(Error::Options(format!("'{}' was changed {why}", path.display())))
}

/// Returns `true` if bytes of a file are zero.
fn are_zero(file: &EditedFile, start: u64, end: u64) -> Result<bool> {
    let mut at = start;
    while at < end {
        let len = (end - at).min(1 << 20);
        let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
        file.read_at(at, &mut bytes)?;
        if bytes.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        at += len;
    }
    Ok(true)
}

/// Takes back the changes of a file.
pub(super) fn undo(path: &Path, changes: &[Change]) -> Result<()> {
    let file = edit(path)?;
    for change in changes {
        check(&file, path, change, true)?;
    }
    for change in changes.iter().rev() {
        match change {
            Change::Length { old, .. } => file.set_len(*old)?,
            Change::Bytes { offset, old, .. } => file.write_at(*offset, old)?,
            Change::Object { .. } | Change::Folder { .. } => {}
        }
    }
    Ok(file.sync()?)
}

fn copy(salvage: &Salvage, path: &Path, options: &RepairOptions<'_>) -> Result<()> {
    let Some(to) = &options.to else {
        return Err(Error::Options(format!(
            "'{}' cannot be put right in place: something is lost. Pass the path of a new file (--to NEW)",
            path.display()
        )));
    };
    let _alone = without_writers(path)?;
    let into = EditedOptions { locks: settings::file_locks(), fsync: true };
    let into = Arc::new(EditedFile::create(to, false, into)?);
    if let Some(progress) = options.progress {
        progress.begin(Phase::Copy, salvage.expected().after);
    }
    let done = salvage.write(&into, &mut |bytes| {
        if let Some(progress) = options.progress {
            progress.advance(bytes);
        }
        !options.progress.is_some_and(Progress::cancelled)
    });
    done.map_err(interrupted)?;
    Ok(into.publish()?)
}

fn interrupted(error: Hdf5Error) -> Error {
    match error {
        Hdf5Error::Interrupted { .. } => Error::Interrupted,
        error => error.into(),
    }
}
