//! A barrier for writers: before the shape of an array changes, all queued jobs are stored.
//!
//! Jobs of a [`Writer`](crate::write::write_behind::Writer) are stored some time after they are
//! queued. A job that is stored after the array has shrunk would bring back deleted chunks. A
//! resize therefore has these steps:
//!
//! 1. [`settle`] takes the array's turn, which writers take for a moment to queue a job. Then it
//!    waits until all queues are empty.
//! 2. The shape changes.
//! 3. [`Settled::note_resize`] tells the writers. A later write with a layout of the former shape
//!    is refused if it does not lie in the new shape: the caller chose it before the array shrank.
//!
//! When an array is replaced or deleted ([`settle_below`]), only steps 1 and 2 are needed.
//!
//! Writes that other threads make without a queue are not waited for.

use crate::dims::Dims;
use crate::error::ArrayError;
use crate::execute::tasks;
use crate::execute::tasks::{Interrupt, store_error};
use crate::layout::ArrayLayout;
use crate::plan::task::Task;
use crate::runtime::process::PerProcess;
use hyperslab_store::{Ask, Key, Store, StoreError, turns};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The queue of a background writer.
pub(crate) trait Queue: Debug + Send + Sync {
    /// The layout that the writer was opened with.
    fn layout(&self) -> &ArrayLayout;

    /// Stores all queued jobs. An error of a job goes to its writer; `layout` names the array in
    /// other errors.
    fn finish(self: Arc<Self>, ask: Option<Interrupt<'_>>, layout: &ArrayLayout) -> Result<(), ArrayError>;

    /// Stores the jobs that a dropped writer left. Returns an error that goes to nobody else.
    fn finish_abandoned(self: Arc<Self>, ask: Option<Interrupt<'_>>) -> Result<(), ArrayError>;

    /// Tells the queue that the shape of the array changed from `before` to `shape`.
    fn note_resize(&self, before: &[u64], shape: &[u64]);
}

/// The writers of this process.
static WRITERS: PerProcess<Writers> = PerProcess::new();

/// Adds a writer of an array.
pub(crate) fn add(array: u64, writer: Weak<dyn Queue>) {
    WRITERS.get().add(array, writer);
}

/// The live writers of a process, by the number of their array.
// Per process: a child starts with an empty list, because its writers write at once.
#[derive(Default)]
pub(crate) struct Writers(Mutex<Vec<(u64, Weak<dyn Queue>)>>);

impl Writers {
    fn add(&self, array: u64, writer: Weak<dyn Queue>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(_, writer)| writer.strong_count() > 0);
        all.push((array, writer));
    }

    /// The writers of an array; `None`: of all arrays.
    fn of(&self, array: Option<u64>) -> Vec<Arc<dyn Queue>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let chosen = all.iter().filter(|(number, _)| array.is_none_or(|array| *number == array));
        chosen.filter_map(|(_, writer)| writer.upgrade()).collect()
    }
}

/// A number that all handles on one array share, and no object has.
///
/// Derived from the lock number of the object that holds the array's first chunk.
pub(crate) fn number(layout: &ArrayLayout) -> u64 {
    let (first, mut key) = (vec![0; layout.shape().len()], String::new());
    let object = match layout.locate(&first, &mut key) {
        Ok(_) => Key::new(&key).map_or(0, |key| layout.store().lock_id(key)),
        // Arrays without chunks of their own, such as mosaics, are not written.
        Err(_) => 0,
    };
    object.rotate_left(32) ^ 0x5E77_1ED0_BA44_1E40
}

/// Takes the array's turn.
pub(crate) fn turn(
    layout: &ArrayLayout,
    array: u64,
    ask: Option<Ask<'_>>,
) -> Result<turns::Turn, ArrayError> {
    turns::take(array, ask).map_err(|refused| {
        store_error(layout, &Task::default(), StoreError::refused(refused, &**layout.store(), layout.name()))
    })
}

/// While this exists, the writers of an array have nothing queued, and queue nothing.
#[derive(Debug)]
#[must_use = "writers go on at once"]
pub struct Settled {
    writers: Vec<Arc<dyn Queue>>,
    before: Dims,
    _turn: turns::Turn,
}

/// Waits until all [`Writer`](crate::write::write_behind::Writer)s of this array have stored their
/// jobs.
///
/// This covers all writers of this process, on any handle of the array. They take no more jobs
/// until the guard is dropped. This thread works on the jobs too. An error of a job goes to its
/// writer.
///
/// Fails with [`ArrayError::Interrupted`] if `ask` says so. Fails with [`StoreError::Busy`] if the
/// writers wait for something that this thread is in the middle of (it runs a signal handler).
pub fn settle(layout: &ArrayLayout, ask: Option<Interrupt<'_>>) -> Result<Settled, ArrayError> {
    let array = number(layout);
    let _turn = turn(layout, array, ask)?;
    let writers = WRITERS.get().of(Some(array));
    writers.iter().try_for_each(|writer| writer.clone().finish(ask, layout))?;
    Ok(Settled { writers, before: layout.shape().into(), _turn })
}

/// [`settle`] for each array at a path of a store (`""`: the root) and below it.
///
/// For use before all of that is replaced or deleted: jobs stored later would become chunks of the
/// next array.
///
/// Finds writers by the address of their store. Writers that were opened through a symbolic link
/// have another address, and are not found.
pub fn settle_below(
    store: &dyn Store,
    path: &str,
    ask: Option<Interrupt<'_>>,
) -> Result<Vec<Settled>, ArrayError> {
    let mut writers = WRITERS.get().of(None);
    if writers.is_empty() {
        return Ok(Vec::new());
    }
    let place = |url: String, key: &str| format!("{url}/{key}/").replace("//", "/");
    let top = place(store.url(), path);
    writers.retain(|writer| {
        let (layout, mut key) = (writer.layout(), String::new());
        let first = vec![0; layout.shape().len()];
        layout.locate(&first, &mut key).is_ok() && place(layout.store().url(), &key).starts_with(&top)
    });
    // All callers that settle the same arrays take their turns in one order.
    writers.sort_by_key(|writer| number(writer.layout()));
    writers.dedup_by_key(|writer| number(writer.layout()));
    writers.iter().map(|writer| settle(writer.layout(), ask)).collect()
}

/// Waits until all writers of this process have stored their jobs: before a program ends.
///
/// A writer that was dropped while it could not write (see
/// [`Writer`](crate::write::write_behind::Writer)) may have left its jobs to workers. Returns the
/// first error that goes to nobody else.
pub fn settle_all(ask: Option<Interrupt<'_>>) -> Result<(), ArrayError> {
    if tasks::is_inside() {
        return Ok(());
    }
    let mut first = Ok(());
    for writer in WRITERS.get().of(None) {
        first = first.and(writer.finish_abandoned(ask));
    }
    first
}

impl Settled {
    /// Tells the writers that the array has this shape from here on.
    ///
    /// A later write with a layout of the shape before is refused with [`ArrayError::Index`] if it
    /// does not lie in the new shape.
    pub fn note_resize(&self, shape: &[u64]) {
        self.writers.iter().for_each(|writer| writer.note_resize(&self.before, shape));
    }
}
