//! Runs a plan in this process.

use super::plan::TaskPlan;
use super::run::{Ended, Run, RunOptions, RunReport, Step, Work};
use super::source::TaskSource;
use super::worker::{RECORDED, TaskJob, Worker};
use crate::copy::{Phase, Progress};
use crate::workers::share;
use crate::{Error, Result};
use hyperslab_store::fork::Mutex;
use std::sync::Arc;

/// Concurrent checks of stored objects.
const CHECKS: usize = 16;

/// How to run a plan in this process.
#[derive(Clone, Debug)]
pub struct HereOptions {
    /// Options of the run.
    pub run: RunOptions,
    /// Maximum number of threads of a task; `None`: as planned.
    pub threads: Option<usize>,
    /// How many times to rerun a failed task.
    pub retries: u32,
}

/// Runs the tasks of a plan one after the other, each on several threads.
///
/// `failed` is told the number of a range and how often it failed, before the error is returned.
pub fn run_here(
    plan: TaskPlan,
    source: TaskSource,
    options: HereOptions,
    progress: &dyn Progress,
    failed: &mut dyn FnMut(u64, u32),
) -> Result<RunReport> {
    let ask: &dyn Fn() -> bool = &|| progress.cancelled();
    let mut run = Run::new(Arc::new(plan), RunOptions { is_here: true, ..options.run })?;
    let worker = Worker::new(source);
    let mut shown = (None, 0);
    while let Some(step) = run.next(ask)? {
        tell(&mut run, progress, &mut shown);
        let job = TaskJob {
            threads: options.threads,
            requests: options.threads,
            is_fresh: step.is_fresh,
            ends: step.ends,
            recorded: RECORDED,
        };
        let place = match step.work {
            Work::CompareMade => Arc::new(run.place().at_destination()?),
            _ => run.place().clone(),
        };
        let one = |index: u64, progress: &dyn Progress| {
            worker.work(step.work, &place, &job, &step.range(index)?, progress)
        };
        if let Work::Check { .. } = step.work {
            check_all(&mut run, &step, ask, &one)?;
            continue;
        }
        for index in 0..step.len() {
            if ask() {
                return Err(Error::Interrupted);
            }
            let mut times = 0;
            let ended = loop {
                times += 1;
                match one(index, &Asking(ask)) {
                    Ok(ended) => break ended,
                    Err(error) if times <= options.retries && !is_final(&error) => {}
                    Err(error) => {
                        run.failed(&error);
                        if !error.is_interruption() {
                            failed(index, times);
                        }
                        return Err(error);
                    }
                }
            };
            let goes_on = run.ended(index, ended);
            tell(&mut run, progress, &mut shown);
            if !goes_on {
                break;
            }
        }
    }
    tell(&mut run, progress, &mut shown);
    Ok(run.report())
}

/// Returns whether another attempt is of no use.
fn is_final(error: &Error) -> bool {
    error.is_superseded() || error.is_interruption()
}

/// Checks several ranges at a time: a check waits for the store.
fn check_all(
    run: &mut Run,
    step: &Step,
    ask: &dyn Fn() -> bool,
    one: &(dyn Fn(u64, &dyn Progress) -> Result<Ended> + Sync),
) -> Result<()> {
    let results = Mutex::new(Vec::new());
    share(step.len(), CHECKS, ask, &|| {}, &|index, stop| {
        let ended = one(index, &Asking(stop))?;
        results.lock().push((index, ended));
        Ok(())
    })?;
    let results = std::mem::take(&mut *results.lock());
    for (index, ended) in results {
        run.ended(index, ended);
    }
    Ok(())
}

/// The progress of parts is told by tasks. Parts only ask whether to stop.
struct Asking<'a>(&'a dyn Fn() -> bool);

impl Progress for Asking<'_> {
    fn cancelled(&self) -> bool {
        (self.0)()
    }
}

/// Tells the progress of a run.
fn tell(run: &mut Run, progress: &dyn Progress, shown: &mut (Option<Phase>, u64)) {
    for (phase, done, all) in run.take_told() {
        if shown.0 != Some(phase) {
            *shown = (Some(phase), 0);
            progress.begin(phase, all);
        }
        progress.advance(done.saturating_sub(shown.1));
        shown.1 = shown.1.max(done);
    }
}
