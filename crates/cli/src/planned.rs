//! Copies in tasks, on clusters: the Python package makes them, this says what the user wants.

use crate::command::{Command, matches_of};
use crate::copy::CopyArgs;
use clap::FromArgMatches;
use hyperslab::Format;
use hyperslab::copy::{Order, Region, Shards};
use std::ffi::OsString;

/// `hyperslab copy` with `--resume` or `--scheduler`.
#[derive(Clone, Debug)]
pub struct PlannedCopy {
    /// What to copy.
    pub source: String,
    /// Where to.
    pub destination: String,
    /// Chunk shape; `None` for one axis: all of it.
    pub chunks: Option<Vec<Option<u64>>>,
    /// Whether chunks lie in shards.
    pub shards: Shards,
    /// Compressors, as they were written.
    pub compressors: Option<String>,
    /// Order of elements in chunks.
    pub order: Option<Order>,
    /// The format.
    pub format: Format,
    /// Threads of a task.
    pub threads: Option<usize>,
    /// About how much memory a task uses, in bytes.
    pub max_memory: u64,
    /// `true`: a plan that needs more memory is refused.
    pub memory_is_limit: bool,
    /// Whether what cannot be copied is left out.
    pub skip_unsupported: bool,
    /// `true`: the copy of a group gets consolidated metadata.
    pub consolidated: bool,
    /// Whether everything is flushed to the disk.
    pub fsync: bool,
    /// What of the source is copied.
    pub region: Option<Region>,
    /// Where in an array that exists it goes.
    pub target_region: Option<Region>,
    /// Whether what is at the destination is replaced.
    pub overwrite: bool,
    /// Whether the copy is compared with the source.
    pub verify: bool,
    /// Whether checksums of finished tasks are verified.
    pub check_contents: bool,
    /// Whether to go on with a copy that was killed.
    pub resume: bool,
    /// The address of a scheduler of dask.
    pub scheduler: Option<String>,
    /// Whether only the plan is shown.
    pub explain: bool,
    /// Whether there is no progress bar and no summary.
    pub quiet: bool,
}

/// What these arguments (the first is the program's name) ask for, if that is a copy in tasks; `None`:
/// something else, or wrong.
pub fn planned_copy(args: impl IntoIterator<Item = OsString>) -> Option<PlannedCopy> {
    let (name, found) = matches_of(args)?;
    let found = (name == CopyArgs::NAME).then_some(found)?;
    CopyArgs::from_arg_matches(&found).ok()?.planned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_copies_in_tasks() {
        let given = |text: &str| planned_copy(text.split(' ').map(OsString::from));
        assert!(given("hyperslab copy a b").is_none());
        assert!(given("hyperslab info a").is_none());
        assert!(given("hyperslab copy a --resume").is_none());
        assert!(given("hyperslab copy a b --check-contents").is_none());
        let planned = given("hyperslab copy a b --resume --overwrite --verify --region time=0:3").unwrap();
        assert!(planned.overwrite && planned.verify && planned.region.is_some());
        let planned =
            given("hyperslab copy a b --resume --chunks -1,4 --codec zstd:3 --shards none").unwrap();
        assert!(planned.resume && planned.scheduler.is_none());
        assert_eq!(planned.chunks, Some(vec![None, Some(4)]));
        assert_eq!((planned.compressors.as_deref(), planned.shards), (Some("zstd:3"), Shards::None));
        let planned = given("hyperslab copy a b --scheduler tcp://1.2.3.4:8786").unwrap();
        assert_eq!((planned.resume, planned.scheduler.as_deref()), (false, Some("tcp://1.2.3.4:8786")));
    }
}
