//! Ranges of tasks: executors get them, the journal records them, and clients look for gaps.
//!
//! A stage may have 10⁷ tasks. Executors get ranges of them, and the journal has one record for a
//! range. This bounds the memory of the client, the number of calls, and the size of the journal. A
//! range carries the descriptions of its arrays: workers never read the plan.

use super::plan::TaskPlan;
use super::stages::{PassNumber, Stage, TaskPart, TaskParts};
use crate::copy::{CopyPart, join_path};
use crate::{Error, Format, Result};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// A stage has at most this many ranges. Handing out one takes about 0.2 ms, and its record in the
/// journal takes 100 bytes.
pub const MOST_RANGES: u64 = 50_000;

/// Paths in the store in which a copy is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The path of the copy.
    pub base: String,
    /// The path of the journal and of temporary arrays.
    pub work: String,
}

impl Names {
    /// The path of a node of the copy, or the key of an object of it.
    pub fn data(&self, path: &str) -> String {
        join_path(&self.base, path)
    }

    /// The key of an object of the journal.
    pub fn journal(&self, name: &str) -> String {
        join_path(&self.work, &join_path("journal", name))
    }

    fn temporary(&self, name: &str) -> String {
        join_path(&self.work, &join_path("temporary", name))
    }
}

/// One pass over an array, as workers need to know it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct ArrayPass {
    /// Path of the array relative to the source.
    path: String,
    /// Path of the copy in its store.
    target: String,
    zarr_format: u8,
    document: String,
    from: Option<(String, Vec<u64>)>,
    to: Option<(String, Vec<u64>)>,
    block: Vec<u64>,
    parts: Vec<u64>,
    threads: usize,
    requests: usize,
    from_start: Vec<u64>,
    to_start: Vec<u64>,
    shape: Vec<u64>,
    is_new: bool,
}

/// A range of tasks of one stage, as sent to a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskRange {
    /// Number of the stage.
    pub stage: usize,
    /// Number of the first task.
    pub first: u64,
    /// The task after the last one.
    pub end: u64,
    /// Records in the journal, if the worker checks whether the range is done.
    pub records: Vec<String>,
    parts: TaskParts,
    arrays: Vec<(usize, PassNumber, ArrayPass)>,
}

/// A part of a task, for the engine.
#[derive(Clone, Debug)]
pub(super) struct RangePart<'r> {
    /// Numbers of the array and of the pass.
    pub(super) key: (usize, PassNumber),
    /// Path of the array relative to the source.
    pub(super) path: &'r str,
    pass: &'r ArrayPass,
    units: Range<u64>,
}

/// The limits of a part in this run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limits {
    pub(super) threads: Option<usize>,
    pub(super) requests: Option<usize>,
    pub(super) is_fresh: bool,
}

impl RangePart<'_> {
    /// Returns whether the part writes a temporary array.
    pub(super) fn is_temporary(&self) -> bool {
        self.pass.to.is_some()
    }

    /// The part as the engine takes it.
    pub(super) fn part(&self, limits: Limits) -> CopyPart {
        let pass = self.pass.clone();
        let least = |planned: usize, most: Option<usize>| most.map_or(planned, |most| most.min(planned));
        CopyPart {
            path: pass.target,
            format: if pass.zarr_format == 2 { Format::ZarrV2 } else { Format::ZarrV3 },
            document: pass.document,
            from: pass.from,
            to: pass.to,
            block: pass.block,
            parts: pass.parts,
            units: self.units.clone(),
            threads: least(pass.threads, limits.threads),
            requests: least(pass.requests, limits.requests),
            from_start: pass.from_start,
            to_start: pass.to_start,
            shape: pass.shape,
            is_new: pass.is_new,
            is_fresh: limits.is_fresh,
        }
    }
}

impl TaskRange {
    /// The range as bytes for another process.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|why| Error::Options(format!("no range of tasks: {why}")))
    }

    /// Reads the bytes of [`to_bytes`](Self::to_bytes).
    pub fn from_bytes(bytes: &[u8]) -> Result<TaskRange> {
        serde_json::from_slice(bytes).map_err(|why| Error::Options(format!("no range of tasks: {why}")))
    }

    /// Number of arrays that the range describes, one for each pass.
    pub fn arrays(&self) -> usize {
        self.arrays.len()
    }

    /// The parts of a task by numbers.
    pub fn task(&self, number: u64) -> Vec<TaskPart> {
        self.parts.task(number)
    }

    /// The parts of a task.
    pub(super) fn parts(&self, number: u64) -> Result<Vec<RangePart<'_>>> {
        let part = |part: TaskPart| {
            let key = (part.array, part.pass);
            let found = self.arrays.iter().find(|(array, pass, _)| (*array, *pass) == key);
            let Some((_, _, pass)) = found else {
                return Err(Error::Options(format!(
                    "task {number} lacks the description of array {}",
                    key.0
                )));
            };
            Ok(RangePart { key, path: &pass.path, pass, units: part.first..part.end })
        };
        self.task(number).into_iter().map(part).collect()
    }
}

/// Describes a range of tasks for workers.
pub fn describe(
    plan: &TaskPlan,
    names: &Names,
    stage: &Stage,
    (first, end): (u64, u64),
    records: Vec<String>,
) -> Result<TaskRange> {
    let parts = stage.parts.of(first, end);
    let arrays = parts.arrays().map(|(index, pass)| Ok((index, pass, array_pass(plan, names, index, pass)?)));
    let arrays = arrays.collect::<Result<Vec<_>>>()?;
    Ok(TaskRange { stage: stage.number(), first, end, records, parts, arrays })
}

fn array_pass(plan: &TaskPlan, names: &Names, index: usize, number: PassNumber) -> Result<ArrayPass> {
    let missing = |what: &str| Error::Options(format!("no plan of a copy: {what}"));
    let array = plan.arrays.get(index).ok_or_else(|| missing("an array is missing"))?;
    let pass = array.pass(number);
    let v3 = plan.document(&join_path(&array.path, "zarr.json"));
    let v2 = || plan.document(&join_path(&array.path, ".zarray"));
    let document = v3.or_else(v2).ok_or_else(|| missing("a document is missing"))?;
    // The temporary array that a pass writes; the last pass writes the copy.
    let temporary = |number: Option<usize>| {
        let pass =
            array.passes.get(number?).filter(|_| number.is_some_and(|n| n + 1 < array.passes.len()))?;
        let stage = plan.depth().checked_sub(array.passes.len())? + number?;
        Some((names.temporary(&format!("{stage}/{index}")), pass.target_chunk.clone()))
    };
    Ok(ArrayPass {
        path: array.path.clone(),
        target: names.data(&array.path),
        zarr_format: if v3.is_some() { 3 } else { 2 },
        document: document.to_owned(),
        from: temporary(number.and_then(|number| number.checked_sub(1))),
        to: temporary(number),
        block: pass.block.clone(),
        parts: pass.parts.clone(),
        threads: pass.threads,
        requests: pass.requests,
        from_start: array.from_start.clone(),
        to_start: array.to_start.clone(),
        shape: array.shape.clone(),
        is_new: !plan.is_into,
    })
}

fn tasks_of_range(tasks: u64, most: u64) -> u64 {
    tasks.div_ceil(most.max(1)).max(1)
}

/// Number of ranges of a stage with this many tasks, and of their records in the journal.
pub(super) fn range_count(tasks: u64, most: u64) -> u64 {
    tasks.div_ceil(tasks_of_range(tasks, most))
}

/// The ranges of a stage that are left to do, by number.
#[derive(Clone, Debug)]
pub struct TaskRanges {
    /// Tasks of a range.
    each: u64,
    gaps: Vec<(u64, u64)>,
    /// The number of the first range in each gap.
    numbers: Vec<u64>,
    len: u64,
}

impl TaskRanges {
    /// The ranges of a stage of `tasks` tasks, without the tasks in `done`. `most`: of ranges.
    pub fn new(tasks: u64, done: &Spans, most: u64) -> TaskRanges {
        let (each, gaps) = (tasks_of_range(tasks, most), done.gaps(tasks));
        let (mut numbers, mut len) = (Vec::with_capacity(gaps.len()), 0u64);
        for (first, end) in &gaps {
            numbers.push(len);
            len += (end - first).div_ceil(each);
        }
        TaskRanges { each, gaps, numbers, len }
    }

    /// Number of ranges.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of tasks in all ranges.
    pub fn tasks(&self) -> u64 {
        self.gaps.iter().map(|(first, end)| end - first).sum()
    }

    /// The first task of a range, and the task after its last one. `None`: there is no such range.
    pub fn bounds(&self, index: u64) -> Option<(u64, u64)> {
        let gap = self.numbers.partition_point(|number| *number <= index).checked_sub(1)?;
        let (first, end) = *self.gaps.get(gap).filter(|_| index < self.len)?;
        let start = first + (index - self.numbers.get(gap)?) * self.each;
        Some((start, start.saturating_add(self.each).min(end)))
    }
}

/// A set of numbers, kept as ranges that do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans(Vec<(u64, u64)>);

impl Spans {
    /// Joins ranges, each a first number and the number after the last one.
    pub fn new(mut spans: Vec<(u64, u64)>) -> Spans {
        spans.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::with_capacity(spans.len());
        for (first, end) in spans {
            match joined.last_mut() {
                Some(last) if first <= last.1 => last.1 = last.1.max(end),
                _ => joined.push((first, end)),
            }
        }
        Spans(joined)
    }

    /// The ranges.
    pub fn spans(&self) -> &[(u64, u64)] {
        &self.0
    }

    /// How many numbers are in the set.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(first, end)| end - first).sum()
    }

    /// The ranges below `end` that are not in the set.
    pub fn gaps(&self, end: u64) -> Vec<(u64, u64)> {
        let (mut gaps, mut at) = (Vec::new(), 0);
        for (first, last) in &self.0 {
            if at < *first {
                gaps.push((at, *first));
            }
            at = *last;
        }
        if at < end {
            gaps.push((at, end));
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spans_join_and_leave_gaps() {
        let spans = Spans::new(vec![(5, 7), (0, 2), (7, 9), (1, 3), (20, 30)]);
        assert_eq!((spans.spans(), spans.count()), (&[(0, 3), (5, 9), (20, 30)][..], 17));
        assert_eq!(spans.gaps(40), [(3, 5), (9, 20), (30, 40)]);
        assert_eq!(spans.gaps(30), [(3, 5), (9, 20)]);
        assert_eq!((Spans::default().gaps(3), Spans::default().count()), (vec![(0, 3)], 0));
    }

    proptest! {
        #[test]
        fn ranges_have_each_task_that_is_left_once(
            tasks in 3u64..400,
            starts in proptest::collection::vec(0u64..400, 0..6),
            most in 1u64..20,
        ) {
            let spans = starts.iter().map(|at| (at % (tasks - 2), at % (tasks - 2) + 3));
            let done = Spans::new(spans.map(|(first, end)| (first, end.min(tasks))).collect());
            let ranges = TaskRanges::new(tasks, &done, most);
            let bounds: Vec<_> = (0..ranges.len()).map(|index| ranges.bounds(index).unwrap()).collect();
            prop_assert_eq!(ranges.bounds(ranges.len()), None);
            let mut found: Vec<u64> = bounds.iter().flat_map(|(first, end)| *first..*end).collect();
            prop_assert_eq!(ranges.tasks(), found.len() as u64);
            found.extend(done.spans().iter().flat_map(|(first, end)| *first..*end));
            found.sort_unstable();
            prop_assert_eq!(found, (0..tasks).collect::<Vec<_>>());
            prop_assert!(!done.spans().is_empty() || ranges.len() <= most);
        }
    }
}
