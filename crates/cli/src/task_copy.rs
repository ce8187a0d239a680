//! `hyperslab copy --resume`: a copy in tasks, whose journal lets it go on after a kill.

use crate::failure::{self, Failure};
use crate::many;
use crate::meter::Meter;
use crate::signals::Watch;
use crate::{storage, text};
use hyperslab::copy::tasks::{
    HereOptions, PlaceOptions, Planned, RunOptions, RunReport, TaskPlan, TaskSource, bytes_text, count_text,
    grouped, plan_tasks, run_here,
};
use hyperslab::copy::{CopyOptions, Crew, Prices, Region, Site};
use hyperslab::stores::{self, StoreOptions};
use hyperslab::{Array, Store};
use std::io::Write;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Minimum bytes of a task. Small tasks have more overhead, large ones mean more work after a kill.
const TASK: u64 = 128 << 20;

/// How many times a failed task is run again.
const RETRIES: u32 = 2;

/// The request.
pub(crate) struct TaskCopy<'a> {
    pub(crate) sources: &'a [String],
    pub(crate) concat: Option<&'a str>,
    pub(crate) sort: bool,
    pub(crate) destination: &'a str,
    pub(crate) target_region: Option<&'a Region>,
    pub(crate) verify: bool,
    pub(crate) check_contents: bool,
    pub(crate) explain: bool,
    pub(crate) quiet: bool,
}

impl TaskCopy<'_> {
    pub(crate) fn run(
        &self,
        options: &CopyOptions<'_>,
        out: &mut dyn Write,
        watch: &Watch,
    ) -> Result<(), Failure> {
        let meter = Meter::new(watch, self.quiet);
        let plan = self.plan(&CopyOptions { progress: Some(&meter), ..options.clone() }, watch)?;
        if options.memory_is_limit && plan.memory() > options.max_memory {
            return Err(Failure::Usage(format!(
                "--max-memory: {} bytes are less than the {} that a task needs",
                options.max_memory,
                plan.memory()
            )));
        }
        if self.explain {
            for line in plan.to_string().lines() {
                writeln!(out, "{}", text::sanitize(line))?;
            }
            return Ok(());
        }
        for array in plan.arrays.iter().filter(|array| !array.advice.is_empty()).take(3) {
            crate::warn(&format!("/{}: {}", array.path, array.advice));
        }
        let (groups, arrays, bytes) = (plan.groups, plan.arrays.len() as u64, plan.bytes());
        let (notes, skipped) = (plan.notes.clone(), plan.skipped.clone());
        let source = TaskSource::of(&plan, &options.storage);
        let storage = options.storage.clone();
        let place = PlaceOptions { fsync: options.fsync, storage, ..PlaceOptions::default() };
        let run = RunOptions {
            resume: true,
            contents: self.check_contents,
            verify: self.verify,
            place,
            ..RunOptions::default()
        };
        let here = HereOptions { run, threads: options.threads, retries: RETRIES };
        let mut note = None;
        let copied = run_here(plan, source, here, &meter, &mut |task, times| {
            note = Some(match times {
                1 => format!("Task {task} failed."),
                times => format!("Task {task} failed {times} times."),
            });
        });
        meter.finish();
        let report = copied.map_err(|error| match (error, note) {
            (error, _) if error.is_interruption() => {
                Failure::Stopped("what is copied stays: go on with --resume")
            }
            (error, Some(note)) => Failure::InTask(Box::new(error.into()), note),
            (error, None) => error.into(),
        })?;
        if self.quiet {
            return Ok(());
        }
        for note in &notes {
            writeln!(out, "note: {}", text::sanitize(note))?;
        }
        for (path, why) in &skipped {
            writeln!(out, "left out {}: {}", text::sanitize(path), text::sanitize(why))?;
        }
        writeln!(out, "{}", summary((groups, arrays, bytes), &report))?;
        Ok(())
    }

    fn plan(&self, options: &CopyOptions<'_>, watch: &Watch) -> Result<TaskPlan, Failure> {
        // The same line may go on elsewhere: the journal holds absolute paths.
        let sources: Vec<String> = self.sources.iter().map(|source| absolute(source)).collect();
        let variables = options.variables.as_deref();
        let node = many::source(&sources, self.concat, self.sort, variables, options.threads, watch)?;
        let source = match &sources[..] {
            [first, .., last] => format!("{first} … {last}"),
            _ => sources.concat(),
        };
        let target: Option<Array> = match self.target_region {
            Some(_) => Some(failure::open(self.destination)?.into_array()?),
            None => None,
        };
        let prices = Prices::default();
        // Tasks run one after the other here, each on several threads.
        let crew = Crew { workers: 1, size: TASK, prices };
        let place = Destination::of(self.destination)?;
        let options = CopyOptions { memory_is_limit: false, fsync: false, ..options.clone() };
        let planned = Planned {
            source,
            destination: place.location(),
            site: place.site(),
            crew,
            concat: self.concat.map(str::to_owned),
            target: target.as_ref().zip(self.target_region),
            options: &options,
        };
        Ok(plan_tasks(&node, &planned)?)
    }
}

/// The place of the copy.
enum Destination {
    Directory(PathBuf),
    Server(String, Arc<dyn Store>),
}

impl Destination {
    fn of(location: &str) -> Result<Destination, Failure> {
        if stores::takes_options(location) {
            let storage = storage::of(location);
            let wanted = StoreOptions { storage: &storage, ..StoreOptions::default() };
            let reached = stores::reach(location, wanted)?;
            return Ok(Destination::Server(location.to_owned(), reached.store));
        }
        let path = stores::local_path(location)?
            .filter(|path| !path.ancestors().any(|above| !above.is_dir() && stores::is_archive(above)));
        match path {
            Some(path) => Ok(Destination::Directory(normal(&path))),
            None => Err(Failure::Usage(format!(
                "DST: a copy in tasks goes to a directory or a server, found {location}; leave out --resume"
            ))),
        }
    }

    fn location(&self) -> String {
        match self {
            Destination::Directory(path) => path.display().to_string(),
            Destination::Server(url, _) => url.clone(),
        }
    }

    fn site(&self) -> Site<'_> {
        match self {
            Destination::Directory(path) => Site::Directory(path),
            Destination::Server(_, store) => Site::Server(store),
        }
    }
}

/// A path or URL that does not depend on the working directory.
fn absolute(location: &str) -> String {
    match location.contains("://") || location.starts_with("zip:") {
        true => location.to_owned(),
        false => normal(Path::new(location)).display().to_string(),
    }
}

/// An absolute path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normal.pop()),
            part => normal.push(part),
        }
    }
    normal
}

/// `copied 2 arrays in 1 group: 95.4 MiB in 3 tasks, 1 done before, 0.42 s; verified in 0.21 s`
fn summary((groups, arrays, bytes): (u64, u64, u64), report: &RunReport) -> String {
    let groups = if groups > 0 { format!(" in {}", count_text(groups, "group")) } else { String::new() };
    let done = match report.skipped {
        0 => String::new(),
        skipped => format!(", {} done before", grouped(skipped)),
    };
    let verified = report.seconds_verified.map(|seconds| format!("; verified in {seconds:.2} s"));
    format!(
        "copied {}{groups}: {} in {}{done}, {:.2} s{}",
        count_text(arrays, "array"),
        bytes_text(bytes),
        count_text(report.tasks, "task"),
        report.seconds,
        verified.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line() {
        let mut report = RunReport { tasks: 3, seconds: 0.5, ..RunReport::default() };
        assert_eq!(summary((0, 1, 1 << 20), &report), "copied 1 array: 1.0 MiB in 3 tasks, 0.50 s");
        (report.skipped, report.seconds_verified) = (1200, Some(0.25));
        assert_eq!(
            summary((2, 2, 5), &report),
            "copied 2 arrays in 2 groups: 5 bytes in 3 tasks, 1,200 done before, 0.50 s; verified in 0.25 s"
        );
    }

    #[test]
    fn locations_for_other_directories() {
        assert_eq!(absolute("s3://bucket/a"), "s3://bucket/a");
        assert_eq!(normal(Path::new("/a/./b/../c")), Path::new("/a/c"));
        let here = std::env::current_dir().unwrap().join("x.zarr").display().to_string();
        assert_eq!([absolute("x.zarr"), absolute("./y/../x.zarr")], [here.clone(), here]);
    }
}
