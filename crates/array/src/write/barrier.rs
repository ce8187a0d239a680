//! A barrier for writers: before the shape of an array changes, all that was queued is stored.
//!
//! Jobs of a [`Writer`](crate::write::write_behind::Writer) are stored some time after they were
//! given. A job that is stored after the array has shrunk would bring back chunks that are gone. So
//! a resize goes like this:
//!
//! 1. [`settle`] takes the array's turn, which writers take for a moment to queue a job, and waits
//!    until all queues are empty.
//! 2. The shape changes.
//! 3. [`Settled::resized`] tells the writers. A later write by a layout of the former shape is
//!    refused if it does not lie in the new one: the caller chose it before the array shrank.
//!
//! The same holds where an array is replaced or deleted ([`settle_below`]): the steps are 1 and 2.
//!
//! Writes that are not queued, made by other threads at the same time, are not waited for.

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

/// What a background writer has queued.
pub(crate) trait Queue: Debug + Send + Sync {
    /// The layout that it was opened with.
    fn layout(&self) -> &ArrayLayout;

    /// Stores all that is queued. What goes wrong with a job is told to its writer; `layout` names
    /// the array in other errors.
    fn finish(self: Arc<Self>, ask: Option<Interrupt<'_>>, layout: &ArrayLayout) -> Result<(), ArrayError>;

    /// Stores what was left by a writer that is gone. Returns the error that nobody else is told.
    fn finish_abandoned(self: Arc<Self>, ask: Option<Interrupt<'_>>) -> Result<(), ArrayError>;

    /// Says that the array had the shape `before`, and has `shape` now.
    fn resized(&self, before: &[u64], shape: &[u64]);
}

/// Those of this process.
static WRITERS: PerProcess<Writers> = PerProcess::new();

/// Adds a writer of an array.
pub(crate) fn add(array: u64, writer: Weak<dyn Queue>) {
    WRITERS.get().add(array, writer);
}

/// The writers of a process that are alive, by the number of their array.
// Per process: a child has none, its writers write at once.
#[derive(Default)]
pub(crate) struct Writers(Mutex<Vec<(u64, Weak<dyn Queue>)>>);

impl Writers {
    fn add(&self, array: u64, writer: Weak<dyn Queue>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(_, writer)| writer.strong_count() > 0);
        all.push((array, writer));
    }

    /// Those of an array; `None`: all.
    fn of(&self, array: Option<u64>) -> Vec<Arc<dyn Queue>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let chosen = all.iter().filter(|(number, _)| array.is_none_or(|array| *number == array));
        chosen.filter_map(|(_, writer)| writer.upgrade()).collect()
    }
}

/// A number that all handles on one array agree on, and no object has: made of that of the object
/// of its first chunk.
pub(crate) fn number(layout: &ArrayLayout) -> u64 {
    let (first, mut key) = (vec![0; layout.shape().len()], String::new());
    let object = match layout.locate(&first, &mut key) {
        Ok(_) => Key::new(&key).map_or(0, |key| layout.store().lock_id(key)),
        // Arrays that are made of others, and the like: they are not written.
        Err(_) => 0,
    };
    object.rotate_left(32) ^ 0x5E77_1ED0_BA44_1E40
}

/// The array's turn.
pub(crate) fn turn(
    layout: &ArrayLayout,
    array: u64,
    ask: Option<Ask<'_>>,
) -> Result<turns::Turn, ArrayError> {
    turns::take(array, ask).map_err(|refused| {
        store_error(layout, &Task::default(), StoreError::refused(refused, &**layout.store(), layout.name()))
    })
}

/// The writers of an array have nothing queued, and queue nothing until this is dropped.
#[derive(Debug)]
#[must_use = "writers go on at once"]
pub struct Settled {
    writers: Vec<Arc<dyn Queue>>,
    before: Dims,
    _turn: turns::Turn,
}

/// Waits until all [`Writer`](crate::write::write_behind::Writer)s of this process on this array,
/// through whichever handle, have stored what they were given, and keeps them from taking more
/// until the guard is dropped. This thread works on it, too. What goes wrong with a job is told to
/// its writer.
///
/// Errors with [`ArrayError::Interrupted`] if `ask` says so, and with [`StoreError::Busy`] where
/// this thread is in the middle of something that the writers wait for (it runs a signal handler).
pub fn settle(layout: &ArrayLayout, ask: Option<Interrupt<'_>>) -> Result<Settled, ArrayError> {
    let array = number(layout);
    let _turn = turn(layout, array, ask)?;
    let writers = WRITERS.get().of(Some(array));
    writers.iter().try_for_each(|writer| writer.clone().finish(ask, layout))?;
    Ok(Settled { writers, before: layout.shape().into(), _turn })
}

/// [`settle`] for each array at a path of a store (`""`: the root) and below it: before all of that
/// is replaced or deleted. Jobs that are stored later would be chunks of the next array.
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
    // Two that settle the same arrays take turns in one order.
    writers.sort_by_key(|writer| number(writer.layout()));
    writers.dedup_by_key(|writer| number(writer.layout()));
    writers.iter().map(|writer| settle(writer.layout(), ask)).collect()
}

/// Waits until all writers of this process have stored what they were given: before a program ends.
/// Those whose owner has dropped them while they could not write (see
/// [`Writer`](crate::write::write_behind::Writer)) may have been left to workers. Returns the first
/// error that nobody else will be told.
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
    /// Says that the array has this shape from here on. What a writer is given later by a layout of
    /// the shape before, and does not lie in the new one, is refused with [`ArrayError::Index`].
    pub fn resized(&self, shape: &[u64]) {
        self.writers.iter().for_each(|writer| writer.resized(&self.before, shape));
    }
}
