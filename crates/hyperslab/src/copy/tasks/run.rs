//! A run of a plan, step by step: see [`super`].
//!
//! [`Run::next`] does everything between two steps, and returns the ranges of tasks of the next step.
//! The caller has workers run them, in any order, and tells the results ([`Run::ended`]).

use super::place::{PlaceOptions, TaskPlace, fresh_number, is_in_the_way};
use super::plan::TaskPlan;
use super::ranges::{MOST_RANGES, Names, Spans, TaskRange, TaskRanges, describe};
use super::stages::Stage;
use crate::copy::Phase;
use crate::{Error, Result};
use hyperslab_store::Ask;
use std::sync::Arc;
use std::time::Instant;

/// The work of the tasks of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Copy, and record that.
    Copy,
    /// Tell whether the objects of a range match one of its records.
    Check {
        /// `true`: also read the contents.
        contents: bool,
    },
    /// Delete temporary arrays on a server.
    Drop,
    /// Compare with the source.
    Compare,
    /// Compare a finished copy with the source.
    CompareMade,
}

/// The result of a range of tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The tasks are done.
    Done,
    /// The tasks are done, and these are the keys of their records.
    Recorded(Vec<String>),
    /// `true`: the objects are as recorded, or equal to the source.
    Holds(bool),
}

/// How to run a plan.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// `true`: go on with an unfinished copy.
    pub resume: bool,
    /// `true`: a finished task counts only if its results have the checksums that it recorded.
    pub contents: bool,
    /// `true`: compare the copy with the source before it takes its place.
    pub verify: bool,
    /// `true`: all tasks run in this process.
    pub is_here: bool,
    /// The maximum number of ranges of a stage.
    pub most_ranges: u64,
    /// How to reach the destination.
    pub place: PlaceOptions,
}

impl Default for RunOptions {
    fn default() -> Self {
        RunOptions {
            resume: false,
            contents: false,
            verify: false,
            is_here: true,
            most_ranges: MOST_RANGES,
            place: PlaceOptions::default(),
        }
    }
}

/// The result of running a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunReport {
    /// Number of tasks run.
    pub tasks: u64,
    /// Number of tasks done by an earlier run.
    pub skipped: u64,
    /// Time taken in seconds, without verification.
    pub seconds: f64,
    /// Time taken by verification in seconds; `None`: the copy was not verified.
    pub seconds_verified: Option<f64>,
}

/// The ranges of a step.
#[derive(Clone, Debug)]
enum Ranges {
    /// Ranges of a stage, by number.
    Stage(TaskRanges),
    /// Ranges that have records.
    Recorded(Vec<((u64, u64), Vec<String>)>),
}

/// A step of a run: ranges of tasks that may run concurrently.
#[derive(Clone, Debug)]
pub struct Step {
    /// The work of the tasks.
    pub work: Work,
    /// Number of the stage.
    pub stage: usize,
    /// Different for runs and for the comparison of a finished copy: workers keep what they know of the
    /// destination under it.
    pub run: String,
    /// `true`: nothing existed at the destination when the run began.
    pub is_fresh: bool,
    /// The last stage and its number of tasks, if nothing but the end of the copy follows it here.
    pub ends: Option<(usize, u64)>,
    plan: Arc<TaskPlan>,
    names: Names,
    ranges: Ranges,
}

impl Step {
    /// All tasks of a stage, for a copy in a store without a journal. `None`: there is no such stage.
    pub fn without_journal(plan: Arc<TaskPlan>, names: Names, stage: usize) -> Option<Step> {
        let ranges = TaskRanges::new(plan.stage(stage)?.len(), &Spans::default(), MOST_RANGES);
        let work = if stage < plan.depth() { Work::Copy } else { Work::Compare };
        let ranges = Ranges::Stage(ranges);
        Some(Step { work, stage, run: String::new(), is_fresh: false, ends: None, plan, names, ranges })
    }

    /// Number of ranges.
    pub fn len(&self) -> u64 {
        match &self.ranges {
            Ranges::Stage(ranges) => ranges.len(),
            Ranges::Recorded(ranges) => ranges.len() as u64,
        }
    }

    /// Returns whether there is no range.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first task of a range, and the task after its last one. `None`: there is no such range.
    pub fn bounds(&self, index: u64) -> Option<(u64, u64)> {
        match &self.ranges {
            Ranges::Stage(ranges) => ranges.bounds(index),
            Ranges::Recorded(ranges) => ranges.get(usize::try_from(index).ok()?).map(|(bounds, _)| *bounds),
        }
    }

    /// A range, described for workers.
    pub fn range(&self, index: u64) -> Result<TaskRange> {
        let missing = || Error::Options(format!("there is no range {index} of tasks"));
        let bounds = self.bounds(index).ok_or_else(missing)?;
        let stage = self.plan.stage(self.stage).ok_or_else(missing)?;
        let records = match &self.ranges {
            Ranges::Stage(_) => Vec::new(),
            Ranges::Recorded(ranges) => {
                let found = usize::try_from(index).ok().and_then(|index| ranges.get(index));
                found.map(|(_, records)| records.clone()).unwrap_or_default()
            }
        };
        describe(&self.plan, &self.names, stage, bounds, records)
    }

    /// A name for a dashboard.
    pub fn name(&self) -> &'static str {
        match self.work {
            Work::Copy => "hyperslab-copy",
            Work::Check { .. } => "hyperslab-check",
            Work::Drop => "hyperslab-drop",
            Work::Compare | Work::CompareMade => "hyperslab-verify",
        }
    }
}

/// The state of a run, named after its next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Start,
    /// The destination may hold the finished copy.
    Made,
    Begin,
    /// Look at the records of a stage.
    Check(usize),
    Checked(usize),
    Copy(usize),
    Copied(usize),
    Dropped(usize),
    Verify,
    Verified,
    Finish,
    Done,
}

/// A run of a plan.
#[derive(Debug)]
pub struct Run {
    plan: Arc<TaskPlan>,
    place: Arc<TaskPlace>,
    options: RunOptions,
    next: Next,
    step: Option<Arc<Step>>,
    /// `true`: the finished copy is equal to the source so far.
    all_hold: bool,
    /// The ranges that held.
    held: Vec<(u64, u64)>,
    /// A moment ago there was a journal of this copy.
    goes_on: bool,
    resumes: bool,
    /// For each stage the tasks that are done and whose objects are unchanged.
    done: Vec<Spans>,
    begun: Instant,
    copied: Instant,
    report: RunReport,
    phase: Phase,
    elements: f64,
    told: Vec<(Phase, u64, u64)>,
}

impl Run {
    /// Prepares a run.
    pub fn new(plan: Arc<TaskPlan>, options: RunOptions) -> Result<Run> {
        let place = Arc::new(TaskPlace::of(&plan, None, &options.place)?);
        let now = Instant::now();
        Ok(Run {
            plan,
            place,
            options,
            next: Next::Start,
            step: None,
            all_hold: true,
            held: Vec::new(),
            goes_on: false,
            resumes: false,
            done: Vec::new(),
            begun: now,
            copied: now,
            report: RunReport::default(),
            phase: Phase::Copy,
            elements: 0.0,
            told: Vec::new(),
        })
    }

    /// The place of the copy.
    pub fn place(&self) -> &Arc<TaskPlace> {
        &self.place
    }

    /// The plan. After the first step of a run that resumes, it is the journal's.
    pub fn plan(&self) -> &Arc<TaskPlan> {
        &self.plan
    }

    /// The result, when [`next`](Self::next) has returned `None`.
    pub fn report(&self) -> RunReport {
        self.report
    }

    /// The progress since the last call: phase, bytes done, and bytes in all.
    pub fn take_told(&mut self) -> Vec<(Phase, u64, u64)> {
        std::mem::take(&mut self.told)
    }

    fn begin_phase(&mut self, phase: Phase) {
        (self.phase, self.elements) = (phase, 0.0);
        self.told.push((phase, 0, self.plan.bytes()));
    }

    fn advance(&mut self, stage: usize, (first, end): (u64, u64)) {
        let Some(stage) = self.plan.stage(stage) else { return };
        self.elements += stage.elements(&self.plan, first, end);
        let all = self.plan.bytes();
        self.told.push((self.phase, (self.elements.round() as u64).min(all), all));
    }

    /// Tells the result of a range of the step. `false`: the rest of the step is not needed.
    pub fn ended(&mut self, index: u64, ended: Ended) -> bool {
        let Some(step) = self.step.clone() else { return false };
        let Some(bounds) = step.bounds(index) else { return true };
        match (step.work, ended) {
            (Work::Check { .. }, Ended::Holds(true)) => self.held.push(bounds),
            (Work::Check { .. }, _) => {}
            (Work::CompareMade, Ended::Holds(false)) => {
                self.all_hold = false;
                return false;
            }
            (Work::Drop, _) => {}
            (_, ended) => {
                if let Ended::Recorded(keys) = ended {
                    self.place.note(keys);
                }
                self.advance(step.stage, bounds);
            }
        }
        true
    }

    /// Does everything until the next step, and returns that step. `None`: the copy is complete.
    ///
    /// Call this again when all ranges of the step have ended.
    pub fn next(&mut self, ask: Ask<'_>) -> Result<Option<Arc<Step>>> {
        while self.next != Next::Done {
            if let Some(step) = self.go_on(ask).inspect_err(|error| self.failed(error))? {
                // Progress is told before the next step begins.
                if !step.is_empty() || !self.told.is_empty() {
                    let step = Arc::new(step);
                    self.step = Some(step.clone());
                    return Ok(Some(step));
                }
            }
        }
        Ok(None)
    }

    /// Deletes objects that this run has created too late, if that is why it failed.
    pub fn failed(&self, error: &Error) {
        if is_in_the_way(error) {
            self.place.take_back();
        }
    }

    fn step(&self, work: Work, stage: &Stage, ranges: Ranges) -> Step {
        let depth = self.plan.depth();
        // On disk a record costs nothing.
        let is_end_here = self.options.is_here && !self.options.verify && self.place.is_remote() && depth > 0;
        let last = self.plan.stages().last().filter(|_| is_end_here);
        Step {
            work,
            stage: stage.number(),
            run: self.place.run_number().to_owned(),
            is_fresh: !self.resumes && !self.plan.is_into,
            ends: last.map(|stage| (stage.number(), stage.len())),
            plan: self.plan.clone(),
            names: self.place.names().clone(),
            ranges,
        }
    }

    /// A step over all tasks of a stage that are not done.
    fn stage_step(&self, work: Work, number: usize, done: &Spans) -> Option<Step> {
        let stage = self.plan.stage(number)?;
        let ranges = TaskRanges::new(stage.len(), done, self.options.most_ranges);
        Some(self.step(work, stage, Ranges::Stage(ranges)))
    }

    fn go_on(&mut self, ask: Ask<'_>) -> Result<Option<Step>> {
        let (plan, place) = (self.plan.clone(), self.place.clone());
        let depth = plan.depth();
        match self.next {
            Next::Start => {
                let may_go_on = self.options.resume && !plan.overwrite;
                self.goes_on = may_go_on && place.plan(&plan)?.is_some();
                self.next = Next::Begin;
                if !may_go_on || self.goes_on || !place.holds_documents(&plan)? {
                    return Ok(None);
                }
                self.next = Next::Made;
                self.copied = Instant::now();
                self.begin_phase(Phase::Verify);
                let Some(step) = self.stage_step(Work::CompareMade, depth, &Spans::default()) else {
                    return Ok(None);
                };
                // Listings that workers keep hold for this comparison only.
                let (run, names) = (format!("made {}", fresh_number()), place.at_destination()?.names);
                return Ok(Some(Step { run, names, ..step }));
            }
            Next::Made if self.all_hold => {
                place.remove_leftovers()?;
                self.report.skipped = plan.tasks();
                self.report.seconds = (self.copied - self.begun).as_secs_f64();
                self.report.seconds_verified = Some(self.copied.elapsed().as_secs_f64());
                self.next = Next::Done;
            }
            Next::Made => self.next = Next::Begin,
            Next::Begin => {
                let Some((found, resumes)) = self.begin(ask)? else {
                    self.report.skipped = plan.tasks();
                    self.report.seconds = self.begun.elapsed().as_secs_f64();
                    self.next = Next::Done;
                    return Ok(None);
                };
                (self.plan, self.resumes) = (found, resumes);
                // If no run began before, nothing is done, whatever a listing shows that lags.
                let is_done = |stage: &Stage| match resumes {
                    true => Spans::new(vec![(0, stage.len())]),
                    false => Spans::default(),
                };
                self.done = self.plan.stages().iter().map(is_done).collect();
                self.next = match self.plan.depth().checked_sub(1).filter(|_| resumes) {
                    Some(last) => Next::Check(last),
                    None => self.copy_from_start(),
                };
            }
            Next::Check(number) => {
                self.next = Next::Checked(number);
                self.held.clear();
                let Some(stage) = plan.stage(number) else { return Ok(None) };
                let mut recorded: Vec<_> = place.records(number)?.into_iter().collect();
                recorded.retain(|((_, end), _)| *end <= stage.len());
                let work = Work::Check { contents: self.options.contents };
                return Ok(Some(self.step(work, stage, Ranges::Recorded(recorded))));
            }
            Next::Checked(number) => {
                let held = Spans::new(std::mem::take(&mut self.held));
                let is_whole = plan.stage(number).is_some_and(|stage| held.count() == stage.len());
                if let Some(done) = self.done.get_mut(number) {
                    *done = held;
                }
                // If all of a stage is done, the stages before it are not needed.
                self.next = match number.checked_sub(1).filter(|_| !is_whole) {
                    Some(before) => Next::Check(before),
                    None => self.copy_from_start(),
                };
            }
            Next::Copy(number) if number < depth => {
                let done = self.done.get(number).cloned().unwrap_or_default();
                self.report.skipped += done.count();
                done.spans().iter().for_each(|span| self.advance(number, *span));
                let step = self.stage_step(Work::Copy, number, &done);
                self.report.tasks += plan.stage(number).map_or(0, Stage::len).saturating_sub(done.count());
                self.next = Next::Copied(number);
                return Ok(step);
            }
            Next::Copy(_) => {
                self.copied = Instant::now();
                self.next = if self.options.verify { Next::Verify } else { Next::Finish };
            }
            Next::Copied(number) => {
                self.next = Next::Dropped(number);
                if let Some(before) = number.checked_sub(1).filter(|_| place.is_remote()) {
                    return Ok(self.stage_step(Work::Drop, before, &Spans::default()));
                }
            }
            Next::Dropped(number) => {
                if let Some(before) = number.checked_sub(1) {
                    place.drop_temporary(before)?;
                }
                self.next = Next::Copy(number + 1);
            }
            Next::Verify => {
                self.begin_phase(Phase::Verify);
                self.next = Next::Verified;
                return Ok(self.stage_step(Work::Compare, depth, &Spans::default()));
            }
            Next::Verified => {
                if let [first, ..] = &plan.differs[..] {
                    return Err(Error::Differs(format!("{}: the copy differs: {first}", plan.destination)));
                }
                self.report.seconds_verified = Some(self.copied.elapsed().as_secs_f64());
                self.next = Next::Finish;
            }
            Next::Finish => {
                let is_noted = self.options.is_here && !self.resumes && depth <= 1;
                place.finish(&plan, is_noted, ask)?;
                super::steps::reach("finished")?;
                if self.options.verify && !plan.is_into && !place.holds_documents(&plan)? {
                    return Err(Error::Differs(format!(
                        "{}: the metadata there is not what was written",
                        plan.destination
                    )));
                }
                self.report.seconds = (self.copied - self.begun).as_secs_f64();
                self.next = Next::Done;
            }
            Next::Done => {}
        }
        Ok(None)
    }

    fn copy_from_start(&mut self) -> Next {
        self.begin_phase(Phase::Copy);
        Next::Copy(0)
    }

    /// The plan to execute, and whether an earlier run began; `None`: everything is done.
    fn begin(&self, ask: Ask<'_>) -> Result<Option<(Arc<TaskPlan>, bool)>> {
        let (plan, place) = (&self.plan, &self.place);
        let (found, there) = match self.options.resume {
            true => (place.plan(plan)?, None),
            // Two looks that do not depend on each other.
            false => std::thread::scope(|scope| {
                let listing = scope.spawn(|| place.list_destination());
                let found = place.plan(plan)?;
                let there = listing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
                Ok::<_, Error>((found, there))
            })?,
        };
        if found.is_some() && !self.options.resume {
            return Err(place.in_the_way(
                "a copy to it was not finished. Go on with it: run(resume=True), or hyperslab copy --resume. \
                 Or give it up: plan.discard()",
            ));
        }
        if found.is_none() {
            let is_clean = there.as_ref().is_some_and(|there| !there.iter().any(|key| place.is_journal(key)));
            match place.check(plan, false, there) {
                Err(error) if !is_in_the_way(&error) => return Err(error),
                Err(_) if self.goes_on => return Err(self.ended_meanwhile()),
                // It has deleted the documents of the old node meanwhile.
                Err(_) if place.plan(plan)?.is_some() => {
                    return Err(place.in_the_way("another run has just begun a copy to it"));
                }
                checked => checked?,
            }
            place.begin(plan, is_clean)?;
            place.clear(plan, ask)?;
            return Ok(Some((plan.clone(), false)));
        }
        let found = {
            let _lock = place.lock_out_others(false)?;
            // The other run may have ended while this run waited.
            let found = place.plan(plan)?.ok_or_else(|| self.ended_meanwhile())?;
            if place.is_finished()? {
                place.take_over()?;
                if !plan.is_into {
                    place.enclosing_groups()?.renew(Some(ask))?;
                }
                place.remove_journal(None)?;
                return Ok(None);
            }
            place.check(plan, true, None)?;
            place.take_over()?;
            found
        };
        place.clear(&found, ask)?;
        Ok(Some((Arc::new(found), true)))
    }

    fn ended_meanwhile(&self) -> Error {
        self.place.in_the_way("another run has just finished the copy to it, or given it up")
    }
}
