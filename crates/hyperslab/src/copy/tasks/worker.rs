//! The work of a copy in tasks on workers: ranges of tasks, checks, and comparisons.
//!
//! A worker gets a job, which is the same for all tasks of a run, and ranges of tasks with the
//! descriptions of their arrays. It reads nothing of the plan.

use super::place::{DELETED_AT_ONCE, TaskPlace};
use super::ranges::{Limits, RangePart, TaskRange};
use super::run::{Ended, Work};
use super::source::TaskSource;
use super::steps;
use crate::copy::{Listings, PartStamp, Progress, compare_part, copy_part, part_keys, stamp_part};
use crate::{Array, Error, Node, Result, Store};
use hyperslab_store::fork::{Lazy, Mutex};
use std::collections::HashMap;
use std::fmt::{self, Debug, Formatter};
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A worker records a part of its range after this time. A kill then loses less work.
pub const RECORDED: Duration = Duration::from_secs(30);

/// At most this many records for a range, so that the journal stays small.
const MOST_RECORDS: u64 = 4;

/// Arrays that a worker keeps open.
const OPEN: usize = 1024;

/// Facts that all tasks of a step have in common.
#[derive(Clone, Debug)]
pub struct TaskJob {
    /// Number of threads; `None`: as planned.
    pub threads: Option<usize>,
    /// The maximum of requests at a time, if the caller set the number of threads.
    pub requests: Option<usize>,
    /// `true`: nothing existed at the destination when the run began.
    pub is_fresh: bool,
    /// The last stage and its number of tasks, if nothing but the end of the copy follows it here.
    pub ends: Option<(usize, u64)>,
    /// A part of a range is recorded after this time.
    pub recorded: Duration,
}

/// A source with the arrays that are open. One for each run and process.
pub struct Worker {
    source: TaskSource,
    opened: Lazy<Node>,
    /// By path. Kept up to a bound. Gated.
    arrays: Mutex<HashMap<String, Array>>,
    /// By the numbers of array and pass. They hold for one run. Gated.
    listings: Mutex<HashMap<(usize, usize), Arc<Listings>>>,
}

/// Keeps a value under a key, and returns the one that is kept. Threads may do this at once.
fn keep<K: Clone + Eq + Hash, V: Clone>(all: &Mutex<HashMap<K, V>>, key: K, made: V) -> V {
    let mut dropped = Vec::new();
    let mut all = all.lock();
    let found = match all.get(&key).cloned() {
        Some(found) => {
            dropped.push(made);
            found
        }
        None => {
            all.insert(key.clone(), made.clone());
            made
        }
    };
    if all.len() > OPEN {
        let old: Vec<K> = all.keys().filter(|other| **other != key).take(OPEN / 2).cloned().collect();
        dropped.extend(old.iter().filter_map(|old| all.remove(old)));
    }
    // Dropping an array may close a file: not under the lock.
    drop(all);
    drop(dropped);
    found
}

impl Debug for Worker {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("source", &self.source).finish_non_exhaustive()
    }
}

impl Worker {
    /// Opens nothing yet.
    pub fn new(source: TaskSource) -> Worker {
        Worker {
            source,
            opened: Lazy::new(),
            arrays: Mutex::new(HashMap::new()),
            listings: Mutex::new(HashMap::new()),
        }
    }

    /// Does the work of a step for one range of tasks.
    pub fn work(
        &self,
        work: Work,
        place: &TaskPlace,
        job: &TaskJob,
        tasks: &TaskRange,
        progress: &dyn Progress,
    ) -> Result<Ended> {
        match work {
            Work::Copy => self.run_range(place, job, tasks, progress).map(Ended::Recorded),
            Work::Check { contents } => self.check_range(place, tasks, contents).map(Ended::Holds),
            Work::Drop => self.drop_range(place, tasks).map(|()| Ended::Done),
            Work::Compare => {
                place.check_journal(false)?;
                self.compare(&place.store, tasks, job.threads, progress).map(|()| Ended::Done)
            }
            Work::CompareMade => match self.compare(&place.store, tasks, job.threads, progress) {
                Err(Error::Mismatch { .. }) => Ok(Ended::Holds(false)),
                compared => compared.map(|()| Ended::Holds(true)),
            },
        }
    }

    /// Runs a range of tasks and records it in the journal. Returns the keys of the records.
    fn run_range(
        &self,
        place: &TaskPlace,
        job: &TaskJob,
        tasks: &TaskRange,
        progress: &dyn Progress,
    ) -> Result<Vec<String>> {
        place.check_journal(true)?;
        let mut done = Recorder {
            place,
            stage: tasks.stage,
            recorded: Instant::now(),
            first: tasks.first,
            end: tasks.first,
            stamps: Vec::new(),
            keys: Vec::new(),
        };
        let error = match self.copy_range(&mut done, job, tasks, progress) {
            Ok(()) => return Ok(done.keys),
            Err(error) => error,
        };
        if error.is_superseded() {
            place.take_back();
            // A process that has the lock may be suspended. It deletes the files itself when it wakes up.
            let _ = place.sweep(Some(Duration::ZERO));
        } else {
            // The error of the task is the one to report.
            if done.first < done.end {
                let _ = done.record();
            }
            place.take_back();
        }
        Err(error)
    }

    fn copy_range(
        &self,
        done: &mut Recorder<'_>,
        job: &TaskJob,
        tasks: &TaskRange,
        progress: &dyn Progress,
    ) -> Result<()> {
        // A killed worker loses only the tasks that it has not recorded.
        let least = (tasks.end.saturating_sub(tasks.first) / MOST_RECORDS).max(1);
        for number in tasks.first..tasks.end {
            let stamps = self.copy_task(&done.place.writing, job, tasks, number, progress)?;
            done.stamps.extend(stamps);
            done.end = number + 1;
            if done.end - done.first >= least && done.recorded.elapsed() > job.recorded {
                done.record()?;
            }
        }
        // A record of short work, after which the copy ends in this process, would only be deleted.
        let is_end = job.ends == Some((tasks.stage, done.end)) && done.recorded.elapsed() <= job.recorded;
        if done.first < done.end && !is_end { done.record() } else { Ok(()) }
    }

    /// Copies one task to a store.
    fn copy_task(
        &self,
        store: &Arc<dyn Store>,
        job: &TaskJob,
        tasks: &TaskRange,
        number: u64,
        progress: &dyn Progress,
    ) -> Result<Vec<PartStamp>> {
        let limits = Limits { threads: job.threads, requests: job.requests, is_fresh: job.is_fresh };
        let copy = |part: &RangePart<'_>| {
            steps::reach("part")?;
            let (array, listings) = (self.array(part)?, self.listings_of(part));
            copy_part(&array, store, &part.part(limits), &listings, Some(progress))
        };
        tasks.parts(number)?.iter().map(copy).collect()
    }

    /// Copies a range of tasks to a store that has no journal.
    pub fn copy_to(
        &self,
        store: &Arc<dyn Store>,
        threads: Option<usize>,
        tasks: &TaskRange,
        progress: &dyn Progress,
    ) -> Result<()> {
        let job = TaskJob { threads, requests: None, is_fresh: false, ends: None, recorded: RECORDED };
        (tasks.first..tasks.end)
            .try_for_each(|number| self.copy_task(store, &job, tasks, number, progress).map(drop))
    }

    /// Compares the elements of a range of verification tasks with the source.
    pub fn compare(
        &self,
        store: &Arc<dyn Store>,
        tasks: &TaskRange,
        threads: Option<usize>,
        progress: &dyn Progress,
    ) -> Result<()> {
        let limits = Limits { threads, ..Limits::default() };
        for number in tasks.first..tasks.end {
            for part in tasks.parts(number)? {
                let (array, listings) = (self.array(&part)?, self.listings_of(&part));
                compare_part(&array, store, &part.part(limits), &listings, Some(progress))?;
            }
        }
        Ok(())
    }

    /// Returns whether the objects of a range match one of its records.
    fn check_range(&self, place: &TaskPlace, tasks: &TaskRange, contents: bool) -> Result<bool> {
        let mut stamps = Vec::new();
        for number in tasks.first..tasks.end {
            for part in tasks.parts(number)? {
                let (array, listings) = (self.array(&part)?, self.listings_of(&part));
                let part = part.part(Limits::default());
                match stamp_part(&array, &place.store, &part, &listings, contents) {
                    Ok(stamp) => stamps.push(stamp),
                    // Objects that cannot be checked are made again, or fail with the task's own error.
                    Err(error) if matches!(error, Error::Store(_)) && !error.is_interruption() => {
                        return Ok(false);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        let found = record_name(&stamps);
        let hash = |record: &str| record.split('-').next().unwrap_or_default().to_owned();
        Ok(tasks.records.iter().any(|record| match contents {
            true => *record == found,
            false => hash(record) == hash(&found),
        }))
    }

    /// Deletes the objects that a range of tasks wrote to temporary arrays on a server.
    fn drop_range(&self, place: &TaskPlace, tasks: &TaskRange) -> Result<()> {
        let mut keys = Vec::new();
        for number in tasks.first..tasks.end {
            for part in tasks.parts(number)?.iter().filter(|part| part.is_temporary()) {
                keys.extend(part_keys(&self.array(part)?, &place.store, &part.part(Limits::default()))?);
            }
            if keys.len() >= DELETED_AT_ONCE {
                place.delete(&keys, false)?;
                keys.clear();
            }
        }
        place.delete(&keys, false)
    }

    fn array(&self, part: &RangePart<'_>) -> Result<Array> {
        if let Some(found) = self.arrays.lock().get(part.path) {
            return Ok(found.clone());
        }
        let array = match self.opened.get_or_try_make(|| self.source.open())? {
            Node::Array(array) if part.path.is_empty() => array.clone(),
            Node::Group(group) => group.array(part.path)?,
            Node::Array(_) => return Err(Error::Options(format!("the source has no array '{}'", part.path))),
        };
        Ok(keep(&self.arrays, part.path.to_owned(), array))
    }

    fn listings_of(&self, part: &RangePart<'_>) -> Arc<Listings> {
        // The first pass and the comparison read the same source.
        let key = (part.key.0, part.key.1.unwrap_or(0));
        if let Some(found) = self.listings.lock().get(&key) {
            return found.clone();
        }
        keep(&self.listings, key, Arc::default())
    }
}

/// The tasks that a worker has done and not recorded yet.
struct Recorder<'p> {
    place: &'p TaskPlace,
    stage: usize,
    /// When the last record was written.
    recorded: Instant,
    first: u64,
    end: u64,
    stamps: Vec<PartStamp>,
    keys: Vec<String>,
}

impl Recorder<'_> {
    fn record(&mut self) -> Result<()> {
        let name = format!("{}-{}-{}", self.first, self.end, record_name(&self.stamps));
        self.keys.push(self.place.note_done(self.stage, &name)?);
        (self.recorded, self.first) = (Instant::now(), self.end);
        self.stamps.clear();
        Ok(())
    }
}

/// A name that identifies the state of some tasks' objects and their contents.
fn record_name(stamps: &[PartStamp]) -> String {
    let (mut states, mut contents) = (blake3::Hasher::new(), blake3::Hasher::new());
    for stamp in stamps {
        states.update(&stamp.objects.to_le_bytes()).update(&stamp.hash.to_le_bytes());
        contents.update(&stamp.contents.to_le_bytes());
    }
    let short = |hash: blake3::Hasher| hash.finalize().to_hex().chars().take(24).collect::<String>();
    format!("{}-{}", short(states), short(contents))
}
