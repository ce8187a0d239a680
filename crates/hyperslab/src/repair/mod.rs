//! Repairs stores and files: by a plan that is shown first, with a quarantine, and undone on request.
//!
//! 1. [`plan()`] looks, and changes nothing. The plan has actions, losses, and a hash.
//! 2. [`repair`] makes the plan again. It goes on only if the hash is the same: the user
//!    knows what will happen.
//! 3. Replaced bytes go to a quarantine beside the store (`quarantine`). Its journal is on the disk
//!    before the first change.
//! 4. [`undo`] gives back the old bytes, also if the repair was killed.
//!
//! HDF5 and NetCDF-4 files (`torn`): flags and lengths are put right in place. If anything is lost,
//! everything else is copied to a new file, and the old one stays as it is.
//!
//! Zarr stores (`stored`): what validation finds.

mod plan;
mod quarantine;
mod rewrite;
mod stored;
#[cfg(test)]
mod tests;
mod torn;
mod undo;

pub use plan::{Action, ActionKind, Lost, Plan};
#[cfg(fuzzing)]
pub(crate) use quarantine::parse as parse_journal;

use crate::copy::Progress;
use crate::{Error, Result, stores};
use quarantine::Quarantine;
use std::path::{Path, PathBuf};

/// Options of [`plan()`] and [`repair`].
#[derive(Clone, Default)]
pub struct RepairOptions<'a> {
    /// The new file, if the repair makes one.
    pub to: Option<PathBuf>,
    /// Write damaged chunks again, with the fill value. Otherwise they become absent.
    pub fill: bool,
    /// A program was killed while it wrote the HDF5 file. Names chunks that may have the values of others
    /// also if nothing in the file tells that it was not closed.
    pub killed: bool,
    /// Number of threads; `None`: from the settings.
    pub threads: Option<usize>,
    /// Receives the progress, on the calling thread, and can stop the work.
    pub progress: Option<&'a dyn Progress>,
}

/// What carries a plan out.
#[derive(Debug)]
enum Work {
    File(torn::Cure),
    Store(stored::Steps),
}

/// Plans a repair. Nothing is changed.
///
/// Fails if the location is not a local file or directory.
///
/// ```
/// use hyperslab::prelude::*;
/// use hyperslab::repair::{RepairOptions, plan};
///
/// # fn main() -> Result<(), hyperslab::Error> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let location = directory.path().join("run.h5").display().to_string();
/// Group::create(&location, Format::Hdf5)?.finish()?;
/// let plan = plan(&location, &RepairOptions::default())?;
/// assert!(plan.actions.is_empty() && plan.lost.is_empty());
/// # Ok(())
/// # }
/// ```
pub fn plan(location: &str, options: &RepairOptions<'_>) -> Result<Plan> {
    planned(location, &local(location)?, options).map(|(plan, _)| plan)
}

/// Carries out the plan with this hash.
///
/// Fails with [`Error::Options`] if the plan is another one now. Nothing is changed then.
pub fn repair(location: &str, hash: &str, options: &RepairOptions<'_>) -> Result<Plan> {
    let path = local(location)?;
    let (plan, work) = planned(location, &path, options)?;
    if plan.hash() != hash {
        return Err(Error::Options(format!(
            "the plan for '{location}' is not the one with the hash '{hash}': it is '{}' now. Look at it with \
             --dry-run first",
            plan.hash()
        )));
    }
    if plan.actions.is_empty() {
        return Ok(plan);
    }
    match &work {
        Work::File(cure) => cure.run(&path, hash, options)?,
        Work::Store(steps) => steps.run(&path, hash, options)?,
    }
    Ok(plan)
}

/// Takes back the last repair of a location. Returns `false` if there is none.
///
/// New files that repairs made stay. Fails with [`Error::Options`] if somebody has changed the repaired
/// bytes since.
pub fn undo(location: &str) -> Result<bool> {
    let path = local(location)?;
    let Some(quarantine) = Quarantine::last(&path)? else { return Ok(false) };
    let changes = quarantine.read()?;
    match path.is_dir() {
        true => undo::undo(&*stored::reach(&path)?.store, &path, &quarantine, &changes)?,
        false => torn::undo(&path, &changes)?,
    }
    quarantine.remove()?;
    Ok(true)
}

/// The local path of a location.
fn local(location: &str) -> Result<PathBuf> {
    let path = stores::local_path(location)?;
    let path = path.ok_or_else(|| {
        Error::Options(format!(
            "cannot repair '{location}': only local files and directories are repaired. `hyperslab validate \
             --decode` names what is damaged there. To repair it, copy it to a disk, repair the copy, and copy it \
             back"
        ))
    })?;
    // The file behind a link is repaired.
    path.canonicalize().map_err(|source| Error::Io { what: "repair", path, source })
}

fn planned(location: &str, path: &Path, options: &RepairOptions<'_>) -> Result<(Plan, Work)> {
    if path.is_file() {
        return torn::plan(location, path, options);
    }
    stored::plan(location, path, options)
}
