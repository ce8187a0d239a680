//! Copies in tasks, for `hyperslab.plan_copy`.

use crate::errors::OrRaise;
use crate::gil::once::items;
use crate::jobs::copy::{Source, Wanted, WantedRegion};
use crate::jobs::copy_parts::stoppable;
use crate::nodes::handles::ArrayHandle;
use crate::stores::store::StoreHandle;
use hyperslab::Store;
use hyperslab::copy::tasks::{
    self, Ended, Names, PlaceOptions, Planned, RunOptions, Step, TaskJob, TaskPlace, TaskSource, Work, Worker,
};
use hyperslab::copy::{CopyOptions, Crew, Phase, Prices, Region, Site};
use hyperslab::store::fork::Mutex;
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyType};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

items! {
    /// The workers that copy the parts: their number, the bytes per task, and prices in dollars.
    pub(crate) struct WantedCrew {
        workers: u64,
        size: u64,
        put: f64,
        get: f64,
        storage: f64,
        egress: f64,
        worker: f64,
    }
}

impl From<WantedCrew> for Crew {
    fn from(wanted: WantedCrew) -> Crew {
        let WantedCrew { workers, size, put, get, storage, egress, worker } = wanted;
        Crew { workers, size, prices: Prices { put, get, storage, egress, worker } }
    }
}

/// The place of a planned copy: a directory, a server, or `None` for another store.
#[derive(FromPyObject)]
pub(crate) enum WantedSite<'py> {
    Server(PyRef<'py, StoreHandle>),
    Directory(PathBuf),
}

/// The same, usable without the GIL.
enum OwnSite {
    Server(Arc<dyn Store>),
    Directory(PathBuf),
    Store,
}

impl From<Option<WantedSite<'_>>> for OwnSite {
    fn from(wanted: Option<WantedSite<'_>>) -> OwnSite {
        match wanted {
            Some(WantedSite::Server(handle)) => OwnSite::Server(handle.store.clone()),
            Some(WantedSite::Directory(path)) => OwnSite::Directory(path),
            None => OwnSite::Store,
        }
    }
}

impl OwnSite {
    fn site(&self) -> Site<'_> {
        match self {
            OwnSite::Server(store) => Site::Server(store),
            OwnSite::Directory(path) => Site::Directory(path),
            OwnSite::Store => Site::Store,
        }
    }
}

/// The existing array of a copy into a region, and the region.
type Target<'py> = (PyRef<'py, ArrayHandle>, WantedRegion);

/// Plans a copy in tasks. `places`: paths or URLs of source and destination, and the dimension along
/// which sources are joined.
#[pyfunction]
pub(crate) fn plan_tasks(
    py: Python<'_>,
    source: Source<'_>,
    places: (String, String, Option<String>),
    target: Option<Target<'_>>,
    site: Option<WantedSite<'_>>,
    crew: WantedCrew,
    wanted: Wanted,
) -> PyResult<TaskPlan> {
    let node = source.node(py)?;
    let (options, site, crew) = (wanted.options(py)?, OwnSite::from(site), Crew::from(crew));
    let target = match target {
        Some((array, region)) => Some(((*array.slot.get(py)?).clone(), Region::from(region))),
        None => None,
    };
    let (source, destination, concat) = places;
    let plan = stoppable(py, move |asking| {
        let options = CopyOptions { progress: Some(asking), ..options };
        let target = target.as_ref().map(|(array, region)| (array, region));
        let site = site.site();
        let planned = Planned { source, destination, site, crew, concat, target, options: &options };
        tasks::plan_tasks(&node, &planned)
    })?;
    Ok(TaskPlan(Arc::new(plan)))
}

/// A plan for a copy by many processes.
#[pyclass(frozen, module = "hyperslab._native")]
pub(crate) struct TaskPlan(Arc<tasks::TaskPlan>);

#[pymethods]
impl TaskPlan {
    /// Reads a plan from its text.
    #[new]
    fn new(py: Python<'_>, text: &str) -> PyResult<Self> {
        py.detach(|| tasks::TaskPlan::from_json(text)).map(|plan| TaskPlan(Arc::new(plan))).or_raise(py)
    }

    /// The plan as text.
    fn to_json(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| self.0.to_json()).or_raise(py)
    }

    /// The plan as text for people.
    fn __str__(&self) -> String {
        self.0.to_string()
    }

    /// An identifier of the copy.
    #[getter]
    fn id(&self) -> &str {
        self.0.id()
    }

    /// Metadata documents of the copy: keys and texts.
    #[getter]
    fn documents(&self) -> Vec<(String, String)> {
        self.0.documents.clone()
    }

    /// Sums over all arrays and tasks, by name.
    fn sums<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let sums = PyDict::new(py);
        let plan = &self.0;
        for (name, sum) in [
            ("depth", plan.depth() as u64),
            ("tasks", plan.tasks()),
            ("bytes", plan.bytes()),
            ("bytes_read", plan.bytes_read()),
            ("bytes_written", plan.bytes_written()),
            ("chunks", plan.chunks()),
            ("chunks_decoded", plan.chunks_decoded()),
            ("memory", plan.memory()),
            ("gets", plan.gets()),
            ("puts", plan.puts()),
            ("temporary_bytes", plan.temporary_bytes()),
        ] {
            sums.set_item(name, sum)?;
        }
        sums.set_item("dollars", plan.dollars())?;
        sums.set_item("hours", plan.hours())?;
        Ok(sums)
    }

    /// Number of tasks of a stage.
    fn stage_len(&self, stage: usize) -> u64 {
        self.0.stage(stage).map_or(0, tasks::Stage::len)
    }

    /// The parts of a task: numbers of array and pass (-1: the comparison), and the range of units.
    fn task(&self, stage: usize, number: u64) -> PyResult<Vec<(usize, i64, u64, u64)>> {
        let parts = self.0.stage(stage).and_then(|stage| stage.task(number));
        let parts = parts.ok_or_else(|| PyIndexError::new_err(format!("task {number} of stage {stage}")))?;
        let pass = |pass: Option<usize>| pass.and_then(|pass| i64::try_from(pass).ok()).unwrap_or(-1);
        Ok(parts.into_iter().map(|part| (part.array, pass(part.pass), part.first, part.end)).collect())
    }

    /// Bytes of elements that a range of tasks copies, as a share of all passes.
    fn elements(&self, stage: usize, first: u64, end: u64) -> f64 {
        self.0.stage(stage).map_or(0.0, |stage| stage.elements(&self.0, first, end))
    }

    /// All tasks of a stage, of a copy at this path of a store without a journal.
    fn step(&self, stage: usize, base: String) -> PyResult<TaskStep> {
        let names = Names { base, work: String::new() };
        let step = Step::without_journal(self.0.clone(), names, stage);
        step.map(|step| TaskStep(Arc::new(step)))
            .ok_or_else(|| PyIndexError::new_err(format!("stage {stage}")))
    }
}

/// The destination of a plan while it is made, as workers reach it.
#[pyclass(frozen, module = "hyperslab._native")]
pub(crate) struct CopyPlace(Arc<TaskPlace>);

/// `wait`: seconds to wait for another run that has the lock; `None`: the usual time.
fn place_options(storage: Vec<(String, String)>, fsync: bool, wait: Option<f64>) -> PlaceOptions {
    let usual = PlaceOptions::default().wait;
    let wait = wait.map_or(usual, |wait| Duration::try_from_secs_f64(wait).unwrap_or(Duration::ZERO));
    PlaceOptions { storage, fsync, wait }
}

#[pymethods]
impl CopyPlace {
    /// `storage`: settings of a server. `wait`: seconds to wait for another run that has the lock; `None`:
    /// the usual time.
    #[new]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        id: &str,
        destination: &str,
        is_into: bool,
        run: Option<String>,
        storage: Vec<(String, String)>,
        fsync: bool,
        wait: Option<f64>,
    ) -> PyResult<Self> {
        let options = place_options(storage, fsync, wait);
        let place = py.detach(|| TaskPlace::new(id, destination, is_into, run, &options));
        Ok(CopyPlace(Arc::new(place.or_raise(py)?)))
    }

    /// The place as it is once the copy is finished.
    fn at_destination(&self, py: Python<'_>) -> PyResult<Self> {
        Ok(CopyPlace(Arc::new(py.detach(|| self.0.at_destination()).or_raise(py)?)))
    }

    /// The key of an object of the journal.
    fn journal(&self, name: &str) -> String {
        self.0.names().journal(name)
    }

    /// The store to which tasks write.
    #[getter]
    fn writing(&self) -> StoreHandle {
        StoreHandle::of(self.0.writing().clone())
    }

    /// Gives up an unfinished copy.
    fn discard(&self, py: Python<'_>, plan: PyRef<'_, TaskPlan>) -> PyResult<bool> {
        let (place, plan) = (self.0.clone(), plan.0.clone());
        stoppable(py, move |_| place.discard(&plan))
    }
}

/// A range of tasks of one stage, as sent to a worker.
#[pyclass(frozen, module = "hyperslab._native")]
pub(crate) struct TaskRange(tasks::TaskRange);

#[pymethods]
impl TaskRange {
    /// Reads the bytes of a range that was pickled.
    #[new]
    fn new(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        tasks::TaskRange::from_bytes(bytes).map(TaskRange).or_raise(py)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyType>, (Bound<'py, PyBytes>,))> {
        let bytes = self.0.to_bytes().or_raise(py)?;
        Ok((py.get_type::<TaskRange>(), (PyBytes::new(py, &bytes),)))
    }

    /// Number of the stage.
    #[getter]
    fn stage(&self) -> usize {
        self.0.stage
    }

    /// Number of the first task.
    #[getter]
    fn first(&self) -> u64 {
        self.0.first
    }

    /// The task after the last one.
    #[getter]
    fn end(&self) -> u64 {
        self.0.end
    }

    /// Records in the journal, if the worker checks whether the range is done.
    #[getter]
    fn records(&self) -> Vec<String> {
        self.0.records.clone()
    }

    /// Number of arrays that the range describes, one for each pass.
    #[getter]
    fn arrays(&self) -> usize {
        self.0.arrays()
    }
}

/// A step of a run: ranges of tasks that may run concurrently.
#[pyclass(frozen, module = "hyperslab._native")]
pub(crate) struct TaskStep(Arc<Step>);

#[pymethods]
impl TaskStep {
    /// The work of the tasks: "copy", "check", "drop", "compare", "compare made".
    #[getter]
    fn work(&self) -> &'static str {
        match self.0.work {
            Work::Copy => "copy",
            Work::Check { .. } => "check",
            Work::Drop => "drop",
            Work::Compare => "compare",
            Work::CompareMade => "compare made",
        }
    }

    /// Number of the stage.
    #[getter]
    fn stage(&self) -> usize {
        self.0.stage
    }

    /// The number of the run, or of the comparison of a finished copy.
    #[getter]
    fn run(&self) -> &str {
        &self.0.run
    }

    /// True if nothing existed at the destination when the run began.
    #[getter]
    fn is_fresh(&self) -> bool {
        self.0.is_fresh
    }

    /// The last stage and its number of tasks, if nothing but the end of the copy follows it here.
    #[getter]
    fn ends(&self) -> Option<(usize, u64)> {
        self.0.ends
    }

    /// A name for a dashboard.
    #[getter]
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.0.len()).unwrap_or(usize::MAX)
    }

    /// The first task of a range, and the task after its last one.
    fn bounds(&self, index: u64) -> PyResult<(u64, u64)> {
        self.0.bounds(index).ok_or_else(|| PyIndexError::new_err(format!("range {index} of tasks")))
    }

    /// A range, described for workers.
    fn range(&self, py: Python<'_>, index: u64) -> PyResult<TaskRange> {
        self.0.range(index).map(TaskRange).or_raise(py)
    }
}

/// The progress of a run: phase, bytes done, and bytes in all.
type Told = (&'static str, u64, u64);

/// A run of a plan, step by step.
#[pyclass(frozen, module = "hyperslab._native")]
pub(crate) struct TaskRun(Mutex<Option<tasks::Run>>);

impl TaskRun {
    /// Takes the run out of its cell, so that no lock is held while it works.
    fn take(&self) -> PyResult<tasks::Run> {
        self.0.lock().take().ok_or_else(|| PyValueError::new_err("the run is at work, or has failed"))
    }
}

#[pymethods]
impl TaskRun {
    /// `how`: whether to resume, to check contents, to verify, and whether all tasks run in this process.
    #[new]
    fn new(
        py: Python<'_>,
        plan: PyRef<'_, TaskPlan>,
        how: (bool, bool, bool, bool),
        most_ranges: Option<u64>,
        storage: Vec<(String, String)>,
        fsync: bool,
        wait: Option<f64>,
    ) -> PyResult<Self> {
        let (resume, contents, verify, is_here) = how;
        let place = place_options(storage, fsync, wait);
        let most_ranges = most_ranges.unwrap_or(tasks::MOST_RANGES);
        let options = RunOptions { resume, contents, verify, is_here, most_ranges, place };
        let plan = plan.0.clone();
        let run = py.detach(|| tasks::Run::new(plan, options)).or_raise(py)?;
        Ok(TaskRun(Mutex::new(Some(run))))
    }

    /// Does everything until the next step. `None`: the copy is complete.
    fn next(&self, py: Python<'_>) -> PyResult<Option<TaskStep>> {
        let mut run = self.take()?;
        let (run, step) = stoppable(py, move |asking| {
            let step = run.next(&|| asking.cancelled())?;
            Ok((run, step))
        })?;
        *self.0.lock() = Some(run);
        Ok(step.map(TaskStep))
    }

    /// Deletes objects that this run has created too late. Call it after a failure of a task.
    fn take_back(&self, py: Python<'_>) -> PyResult<()> {
        let place = self.0.lock().as_ref().map(|run| run.place().clone());
        stoppable(py, move |_| {
            if let Some(place) = place {
                place.take_back();
            }
            Ok(())
        })
    }

    /// Tells the result of a range of the step: keys of records, or whether it holds, or nothing. Returns
    /// false if the rest of the step is not needed.
    #[pyo3(signature = (index, records=None, holds=None))]
    fn ended(&self, index: u64, records: Option<Vec<String>>, holds: Option<bool>) -> PyResult<bool> {
        let ended = match (records, holds) {
            (_, Some(holds)) => Ended::Holds(holds),
            (Some(records), None) => Ended::Recorded(records),
            (None, None) => Ended::Done,
        };
        let mut run = self.take()?;
        let goes_on = run.ended(index, ended);
        *self.0.lock() = Some(run);
        Ok(goes_on)
    }

    /// The progress since the last call.
    fn told(&self) -> PyResult<Vec<Told>> {
        let mut run = self.take()?;
        let told = run.take_told();
        *self.0.lock() = Some(run);
        let name = |phase: Phase| if phase == Phase::Copy { "copy" } else { "verify" };
        Ok(told.into_iter().map(|(phase, done, all)| (name(phase), done, all)).collect())
    }

    /// The place of the copy.
    #[getter]
    fn place(&self) -> PyResult<CopyPlace> {
        let run = self.take()?;
        let place = CopyPlace(run.place().clone());
        *self.0.lock() = Some(run);
        Ok(place)
    }

    /// Tasks run, tasks done by an earlier run, seconds, and seconds of verification.
    fn report(&self) -> PyResult<(u64, u64, f64, Option<f64>)> {
        let run = self.take()?;
        let report = run.report();
        *self.0.lock() = Some(run);
        Ok((report.tasks, report.skipped, report.seconds, report.seconds_verified))
    }
}

/// The source of a plan: a node, or facts by which it is opened.
#[derive(FromPyObject)]
pub(crate) enum WantedSource<'py> {
    Node(Source<'py>),
    Location((String, Option<u8>)),
    Joined((Vec<String>, String, Vec<u64>, Option<Vec<String>>)),
}

items! {
    /// Facts that all tasks of a step have in common. `recorded`: seconds until a part of a range is
    /// recorded; `None`: the usual time.
    pub(crate) struct WantedJob {
        threads: Option<usize>,
        requests: Option<usize>,
        is_fresh: bool,
        ends: Option<(usize, u64)>,
        recorded: Option<f64>,
        contents: bool,
    }
}

impl From<WantedJob> for TaskJob {
    fn from(wanted: WantedJob) -> TaskJob {
        let WantedJob { threads, requests, is_fresh, ends, recorded, .. } = wanted;
        let seconds = |recorded| Duration::try_from_secs_f64(recorded).unwrap_or(Duration::ZERO);
        TaskJob { threads, requests, is_fresh, ends, recorded: recorded.map_or(tasks::RECORDED, seconds) }
    }
}

/// Keys of records, or whether a range holds.
#[derive(IntoPyObject)]
pub(crate) enum WorkResult {
    Keys(Vec<String>),
    Holds(bool),
}

/// A source with the arrays that are open, in a worker.
#[pyclass(frozen, module = "hyperslab._native")]
pub(crate) struct CopyWorker(Arc<Worker>);

#[pymethods]
impl CopyWorker {
    /// `source`: a node; or a location and the Zarr format; or joined sources, their dimension, their
    /// lengths, and the variables. `storage`: settings of a server.
    #[new]
    fn new(py: Python<'_>, source: WantedSource<'_>, storage: Vec<(String, String)>) -> PyResult<Self> {
        let source = match source {
            WantedSource::Node(source) => TaskSource::Node(source.node(py)?),
            WantedSource::Location((location, zarr_format)) => {
                TaskSource::Location { location, zarr_format, storage }
            }
            WantedSource::Joined((sources, concat, lengths, variables)) => {
                TaskSource::Joined { sources, concat, lengths, variables, storage }
            }
        };
        Ok(CopyWorker(Arc::new(Worker::new(source))))
    }

    /// Does the work of a step for a range of tasks. Returns the keys of records, or whether it holds.
    fn work(
        &self,
        py: Python<'_>,
        work: &str,
        place: PyRef<'_, CopyPlace>,
        tasks: PyRef<'_, TaskRange>,
        job: WantedJob,
    ) -> PyResult<WorkResult> {
        let contents = job.contents;
        let work = match work {
            "copy" => Work::Copy,
            "check" => Work::Check { contents },
            "drop" => Work::Drop,
            "compare" => Work::Compare,
            "compare made" => Work::CompareMade,
            other => return Err(PyValueError::new_err(format!("there is no work {other:?}"))),
        };
        let (worker, place, tasks) = (self.0.clone(), place.0.clone(), tasks.0.clone());
        let job = TaskJob::from(job);
        let ended = stoppable(py, move |asking| worker.work(work, &place, &job, &tasks, asking))?;
        Ok(match ended {
            Ended::Holds(holds) => WorkResult::Holds(holds),
            Ended::Recorded(keys) => WorkResult::Keys(keys),
            Ended::Done => WorkResult::Keys(Vec::new()),
        })
    }

    /// Copies a range of tasks to a store that has no journal, or compares it there.
    fn work_in(
        &self,
        py: Python<'_>,
        store: PyRef<'_, StoreHandle>,
        tasks: PyRef<'_, TaskRange>,
        threads: Option<usize>,
        copies: bool,
    ) -> PyResult<()> {
        let (worker, store, tasks) = (self.0.clone(), store.store.clone(), tasks.0.clone());
        stoppable(py, move |asking| match copies {
            true => worker.copy_to(&store, threads, &tasks, asking),
            false => worker.compare(&store, &tasks, threads, asking),
        })
    }
}
