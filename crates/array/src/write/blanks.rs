//! Chunks and shards that come to hold only fill value.
//!
//! In a near store, each object is deleted at once, unless a listing shows that it does not exist
//! ([`LateListing`]).
//!
//! In a store far away, mostly no object exists, and each look or deletion would be a request. A
//! write therefore only collects them, and deletes them together at its end. A listing tells which
//! ones exist, and a server deletes many objects with one request.
//!
//! The write has not returned meanwhile, so other writers of these chunks write at the same time.
//! Their order is free: an object that the listing does not show was absent during the write, and
//! one that comes later belongs to a later writer.

use crate::costs;
use crate::error::ArrayError;
use crate::execute::scratch::Scratch;
use crate::execute::tasks::{self, Interrupt, store_error};
use crate::layout::ArrayLayout;
use crate::plan::task::Task;
use crate::read::list_present_objects;
use hyperslab_store::Key;
use std::collections::HashSet;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Objects that are deleted together.
const DELETED_AT_ONCE: usize = 1000;

/// A write's knowledge of the stored objects.
#[derive(Clone, Copy)]
pub(crate) enum Presence<'a> {
    /// Any may be stored.
    Unknown,
    /// None of the written objects is stored.
    New,
    /// No others are stored than the listed ones.
    Listed(&'a HashSet<String>),
    /// As `Listed`, from the first blank on.
    Late(&'a LateListing<'a>),
}

impl Presence<'_> {
    /// Returns whether an object is known to be absent.
    pub(crate) fn is_absent(self, key: &str) -> bool {
        match self {
            Presence::Unknown => false,
            Presence::New => true,
            Presence::Listed(keys) => !keys.contains(key),
            Presence::Late(listing) => listing.is_absent(key),
        }
    }

    /// Returns whether a listing showed an object.
    pub(crate) fn is_present(self, key: &str) -> bool {
        matches!(self, Presence::Listed(keys) if keys.contains(key))
    }
}

/// The stored objects of an array in a near store, listed when a write meets its first blank.
///
/// Deleting an object that does not exist is a system call. A listing of few objects replaces
/// millions of them. An object that comes after the listing belongs to a writer at the same time.
pub(crate) struct LateListing<'a> {
    layout: &'a ArrayLayout,
    /// The most objects that may be listed.
    most: usize,
    /// Local: only threads of this write use it. `None`: unknown, or too many.
    listed: OnceLock<Option<HashSet<String>>>,
}

impl<'a> LateListing<'a> {
    /// A listing for a write with `count` tasks, if it may save anything.
    pub(crate) fn of_write(layout: &'a ArrayLayout, count: usize, known: Presence<'_>) -> Option<Self> {
        let saves = matches!(known, Presence::Unknown) && count >= costs::LISTED_FROM;
        let near = !layout.store().cost().prefers_rounds();
        let most = count / costs::LISTED_SHARE;
        (saves && near).then(|| LateListing { layout, most, listed: OnceLock::new() })
    }

    /// Returns whether a blank is known to be absent.
    fn is_absent(&self, key: &str) -> bool {
        let listed = self.listed.get_or_init(|| list_present_objects(self.layout, self.most));
        listed.as_ref().is_some_and(|listed| !listed.contains(key))
    }
}

/// The numbers of the tasks (chunks or shards) that are left for the end of a write.
#[derive(Debug, Default)]
pub(crate) struct Blanks(Mutex<Numbers>);

#[derive(Debug, Default)]
struct Numbers {
    /// All of the object is fill value.
    whole: Vec<usize>,
    /// All inside the array is fill value. An object may also hold elements past the array's end.
    edges: Vec<usize>,
}

/// Makes the task with a number, and the key of its object.
pub(crate) type Locate<'l> = &'l dyn Fn(usize, &mut Task, &mut String) -> Result<(), ArrayError>;

/// Executes the tasks with these numbers.
pub(crate) type Again<'a> = &'a dyn Fn(&[usize], Presence<'_>) -> Result<(), ArrayError>;

impl Blanks {
    /// Collects blanks of a write with `count` tasks, if that saves requests and takes no longer.
    ///
    /// A write that fits one round deletes its objects sooner than a listing tells which exist.
    pub(crate) fn of_write(layout: &ArrayLayout, count: usize, known: Presence<'_>) -> Option<Self> {
        let cost = layout.store().cost();
        let saves = matches!(known, Presence::Unknown) && !cost.fits_one_round(count);
        (saves && cost.prefers_one_listing() && cost.worth_guessing()).then(Blanks::default)
    }

    /// Leaves a task for the end, whose object is deleted then.
    pub(crate) fn add_whole(&self, number: usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).whole.push(number);
    }

    /// Leaves a task for the end, which is executed again if there is an object then.
    pub(crate) fn add_edge(&self, number: usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).edges.push(number);
    }

    /// Deletes the objects that exist. `again` executes tasks that are left.
    ///
    /// `listed` are the stored objects, if the caller has listed them.
    pub(crate) fn finish(
        self,
        layout: &ArrayLayout,
        listed: Option<&HashSet<String>>,
        locate: Locate<'_>,
        interrupt: Option<Interrupt<'_>>,
        again: Again<'_>,
    ) -> Result<(), ArrayError> {
        let Numbers { whole, edges } = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        if whole.is_empty() && edges.is_empty() {
            return Ok(());
        }
        let listing = match listed {
            Some(_) => None,
            None => list_present_objects(layout, whole.len() + edges.len()),
        };
        let presence = listed.or(listing.as_ref()).map_or(Presence::Unknown, Presence::Listed);
        let mut numbers = whole.into_iter().peekable();
        while numbers.peek().is_some() {
            let mut objects = Vec::new();
            while objects.len() < DELETED_AT_ONCE {
                let Some(number) = numbers.next() else { break };
                let (mut task, mut key) = (Task::default(), String::new());
                locate(number, &mut task, &mut key)?;
                if !presence.is_absent(&key) {
                    objects.push((key, task));
                }
            }
            delete(layout, &objects, interrupt)?;
        }
        if edges.is_empty() { Ok(()) } else { again(&edges, presence) }
    }

    /// Executes tasks on the threads of a write.
    pub(crate) fn run_again(
        layout: &ArrayLayout,
        numbers: &[usize],
        limits: (usize, usize),
        interrupt: Option<Interrupt<'_>>,
        execute: &(dyn Fn(usize, &mut Scratch, hyperslab_store::Ask<'_>) -> Result<(), ArrayError> + Sync),
    ) -> Result<(), ArrayError> {
        let work = tasks::write_work(layout, numbers.len(), 0);
        tasks::run_tasks(layout, numbers.len(), work, limits, interrupt, &|n, scratch, ask| {
            numbers.get(n).map_or(Ok(()), |number| execute(*number, scratch, ask))
        })
    }
}

/// Deletes the objects of chunks or shards together, while it holds the turns of all of them.
/// Otherwise a thread could read one for a partial change before the deletion, and write it after.
fn delete(
    layout: &ArrayLayout,
    objects: &[(String, Task)],
    interrupt: Option<Interrupt<'_>>,
) -> Result<(), ArrayError> {
    let Some((_, first)) = objects.first() else { return Ok(()) };
    let fail = |source| store_error(layout, first, source);
    let keys = objects.iter().map(|(key, _)| Key::new(key)).collect::<Result<Vec<_>, _>>().map_err(fail)?;
    // All writers that hold several turns take them in this order, so none waits for another's.
    let mut numbered: Vec<_> = (keys.iter().zip(objects))
        .map(|(key, (_, task))| (layout.store().lock_id(*key), *key, task))
        .collect();
    numbered.sort_unstable_by_key(|(number, ..)| *number);
    numbered.dedup_by_key(|(number, ..)| *number);
    let _turns = (numbered.into_iter())
        .map(|(_, key, task)| tasks::take(layout, task, key, interrupt))
        .collect::<Result<Vec<_>, _>>()?;
    layout.store().delete_all(&keys, interrupt).map_err(fail)
}
