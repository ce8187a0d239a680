//! Copies in tasks: a plan, its journal, and the run that goes on after a kill.
//!
//! **Places.** For a destination on disk, everything is made in a directory beside it,
//! `.NAME.hyperslab-copy`: the copy in `new-…`, temporary arrays in `temporary`, the journal in
//! `journal`. At the end, `new-…` is renamed in one step. On a server nothing can be renamed. Chunks
//! go to their final places, the journal to `.hyperslab-copy` among them, and metadata comes last.
//! Either way, nothing half-written can be opened.
//!
//! **Steps** ([`Run`]).
//!
//! 1. Write the plan to the journal, then its number.
//! 2. Hand out the tasks of a stage, in ranges that carry the descriptions of their arrays.
//! 3. A worker ([`Worker`]) copies the objects that its tasks own. Then it writes a record: an object
//!    whose name holds the range of tasks and two hashes. The first covers names, sizes and times (or
//!    tags) of the tasks' objects, the second the checksums of the bytes that the tasks wrote. If the
//!    worker is killed before that, the tasks are repeated and write the same again. (On a server, the
//!    last seconds of a copy in one process have no record: it would be deleted at once.)
//! 4. When all tasks of a stage are done, the next stage begins. Temporary arrays that no task needs
//!    any more are deleted: on disk by a rename, on a server by tasks.
//! 5. For verification, compare source and copy by tasks.
//! 6. Write metadata, move the copy to its place, delete the journal.
//!
//! **Existing arrays.** Chunks go to their final places in the array, and the journal is beside it.
//! There is no metadata to write, and nothing to move.
//!
//! **Resuming.** A run that resumes takes over the journal ([`TaskPlace`]), and an earlier run that is
//! still alive stops. The journal's plan is used. A range of tasks is done if one of its records has
//! the hash of the objects stored now. If contents are checked, the record must also have the hash of
//! the checksums that the tasks made of the values they read. Workers do these checks. The last stage
//! is checked first: if all of it is done, the earlier stages are not needed.
//!
//! **Finished copies** have no journal. A run that resumes one compares the metadata, then all
//! elements with the source.
//!
//! The caller runs the tasks: [`Run::next`] returns the ranges to run, [`Run::ended`] takes the
//! results. [`run_here`] runs them in this process, the Python package on clusters.

mod destination;
mod directories;
mod ending;
mod here;
mod place;
mod plan;
mod planning;
mod ranges;
mod run;
mod source;
mod stages;
mod steps;
#[cfg(test)]
mod tests;
mod text;
mod wire;
mod worker;

pub(crate) use directories::{DirectoryLock, lock as lock_directory};
pub use here::{HereOptions, run_here};
pub use place::{PlaceOptions, TaskPlace};
pub use plan::{PlanFacts, TaskArray, TaskPass, TaskPlan};
pub use planning::{Planned, options_text, plan_tasks};
pub use ranges::{MOST_RANGES, Names, Spans, TaskRange, TaskRanges, describe};
pub use run::{Ended, Run, RunOptions, RunReport, Step, Work};
pub use source::TaskSource;
pub use stages::{Stage, TaskPart};
pub use steps::{StepHook, set_step_hook};
pub use text::{bytes_text, count_text, grouped};
pub use worker::{RECORDED, TaskJob, Worker};
