//! Copies on clusters. The Python package makes them; this describes the user's request.

use crate::command::{Command, matches_of};
use crate::copy::CopyArgs;
use crate::storage;
use clap::FromArgMatches;
use hyperslab::Format;
use hyperslab::copy::{Order, Region, Shards};
use std::ffi::OsString;

/// `hyperslab copy` with `--scheduler`.
#[derive(Clone, Debug)]
pub struct PlannedCopy {
    /// Locations to copy.
    pub sources: Vec<String>,
    /// Dimension along which to join them.
    pub concat: Option<String>,
    /// True to join them in the order of the coordinate.
    pub sort: bool,
    /// Variables to copy.
    pub variables: Option<Vec<String>>,
    /// Location of the copy.
    pub destination: String,
    /// Options of servers.
    pub storage: Vec<(String, String)>,
    /// Chunk shape. `None` for an axis means all of it.
    pub chunks: Option<Vec<Option<u64>>>,
    /// Chunk lengths by dimension. `None` for a dimension means all of it.
    pub named_chunks: Option<Vec<(String, Option<u64>)>>,
    /// Shards of the copy.
    pub shards: Shards,
    /// Compressors, as written by the user.
    pub compressors: Option<String>,
    /// Order of elements in chunks.
    pub order: Option<Order>,
    /// Format of the copy.
    pub format: Format,
    /// Threads per task.
    pub threads: Option<usize>,
    /// Approximate memory per task, in bytes.
    pub max_memory: u64,
    /// True if a plan that needs more memory is refused.
    pub memory_is_limit: bool,
    /// True if arrays that cannot be copied are left out.
    pub skip_unsupported: bool,
    /// True if the copy of a group gets consolidated metadata.
    pub consolidated: bool,
    /// True if everything is flushed to disk.
    pub fsync: bool,
    /// Region of the source to copy.
    pub region: Option<Region>,
    /// Region of an existing array to copy into.
    pub target_region: Option<Region>,
    /// True if the destination is replaced.
    pub overwrite: bool,
    /// True if the copy is compared with the source.
    pub verify: bool,
    /// True if checksums of finished tasks are verified.
    pub check_contents: bool,
    /// True to continue a copy that was killed.
    pub resume: bool,
    /// Address of a dask scheduler.
    pub scheduler: Option<String>,
    /// True to show only the plan.
    pub explain: bool,
    /// True to show no progress bar and no summary.
    pub quiet: bool,
}

/// The copy on a cluster that these arguments request.
///
/// The first argument is the program's name. `None` if the arguments request something else or are
/// wrong.
pub fn planned_copy(args: impl IntoIterator<Item = OsString>) -> Option<PlannedCopy> {
    let (shared, name, found) = matches_of(args)?;
    let found = (name == CopyArgs::NAME).then_some(found)?;
    storage::set(&shared);
    CopyArgs::from_arg_matches(&found).ok()?.planned_copy()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_copies_on_clusters() {
        let given = |text: &str| planned_copy(text.split(' ').map(OsString::from));
        let on_cluster = |text: &str| given(&format!("{text} --scheduler tcp://1.2.3.4:8786"));
        assert!(given("hyperslab copy a b").is_none());
        assert!(given("hyperslab copy a b --resume").is_none());
        assert!(given("hyperslab info a").is_none());
        assert!(on_cluster("hyperslab copy a").is_none());
        assert!(on_cluster("hyperslab copy a b --check-contents").is_none());
        let planned =
            on_cluster("hyperslab copy a b --resume --overwrite --verify --region time=0:3").unwrap();
        assert!(planned.resume && planned.overwrite && planned.verify && planned.region.is_some());
        let planned = on_cluster("hyperslab copy a b --chunks -1,4 --codec zstd:3 --shards none").unwrap();
        assert!(!planned.resume);
        assert_eq!(planned.chunks, Some(vec![None, Some(4)]));
        assert_eq!((planned.compressors.as_deref(), planned.shards), (Some("zstd:3"), Shards::None));
        let planned = on_cluster("hyperslab copy a b c --concat time --sort --chunks time=5,lat=-1").unwrap();
        assert_eq!(
            (planned.sources, planned.concat.as_deref()),
            (vec!["a".into(), "b".into()], Some("time"))
        );
        assert_eq!(planned.named_chunks, Some(vec![("time".into(), Some(5)), ("lat".into(), None)]));
        assert!(on_cluster("hyperslab copy a b --split time=5").is_none());
        let planned = on_cluster("hyperslab copy a b").unwrap();
        assert_eq!(planned.scheduler.as_deref(), Some("tcp://1.2.3.4:8786"));
    }
}
