//! Stages of a plan: passes over arrays, and the tasks into which they are cut.

use super::plan::PlanFacts;
use serde::{Deserialize, Serialize};

/// Maximum number of arrays that share a task: opening one takes about a millisecond.
const MOST_ARRAYS: usize = 256;

/// The number of a pass over an array; `None`: the comparison.
pub(super) type PassNumber = Option<usize>;

/// The units of one array in a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskPart {
    /// Number of the array.
    pub array: usize,
    /// Number of the pass; `None`: the comparison.
    pub pass: Option<usize>,
    /// The first unit.
    pub first: u64,
    /// The unit after the last one.
    pub end: u64,
}

/// Several tasks of one array, or one task for several arrays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TaskGroup {
    /// Number of the first task.
    first: u64,
    /// Per array: its number, the pass, and the number of units.
    parts: Vec<(usize, PassNumber, u64)>,
    /// Units of a task; 0: all units of all arrays are one task.
    each: u64,
}

impl TaskGroup {
    fn end(&self) -> u64 {
        match (self.each, self.parts.first()) {
            (1.., Some((_, _, units))) => self.first.saturating_add(units.div_ceil(self.each)),
            _ => self.first.saturating_add(1),
        }
    }
}

/// The parts of some tasks, computed from the numbers of the tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TaskParts(Vec<TaskGroup>);

impl TaskParts {
    fn find(&self, number: u64) -> usize {
        self.0.partition_point(|group| group.first <= number).saturating_sub(1)
    }

    /// The parts of a task.
    pub(super) fn task(&self, number: u64) -> Vec<TaskPart> {
        let Some(group) = self.0.get(self.find(number)) else { return Vec::new() };
        let first = number.saturating_sub(group.first).saturating_mul(group.each);
        let part = |&(array, pass, units): &(usize, PassNumber, u64)| match group.each {
            0 => TaskPart { array, pass, first: 0, end: units },
            each => TaskPart { array, pass, first, end: first.saturating_add(each).min(units) },
        };
        group.parts.iter().map(part).collect()
    }

    fn groups(&self, first: u64, end: u64) -> &[TaskGroup] {
        match first < end {
            true => self.0.get(self.find(first)..=self.find(end - 1)).unwrap_or_default(),
            false => &[],
        }
    }

    /// The parts of a range of tasks only.
    pub(super) fn of(&self, first: u64, end: u64) -> TaskParts {
        TaskParts(self.groups(first, end).to_vec())
    }

    /// The numbers of all arrays and their passes.
    pub(super) fn arrays(&self) -> impl Iterator<Item = (usize, PassNumber)> + '_ {
        self.0.iter().flat_map(|group| &group.parts).map(|(array, pass, _)| (*array, *pass))
    }
}

/// Tasks that may run concurrently and in any order.
#[derive(Clone, Debug)]
pub struct Stage {
    number: usize,
    len: u64,
    pub(super) parts: TaskParts,
}

impl Stage {
    /// Cuts the passes of a stage into tasks. The stage after the last one compares.
    pub(super) fn new(plan: &PlanFacts, depth: usize, number: usize) -> Stage {
        let mut cut = Cut::default();
        for (index, array) in plan.arrays.iter().enumerate() {
            let pass = match number < depth {
                // The last passes of all arrays are in the last stage.
                true => match (number + array.passes.len()).checked_sub(depth) {
                    Some(pass) => Some(pass),
                    None => continue,
                },
                false => None,
            };
            let one = array.pass(pass);
            if one.units == 0 {
                continue;
            }
            let wanted = u128::from(plan.task_bytes) * u128::from(one.units);
            let each = wanted.div_ceil(u128::from(array.bytes.max(1)));
            let each = u64::try_from(each).unwrap_or(u64::MAX);
            let each = if one.independent { each.max(1) } else { one.units };
            if each < one.units {
                cut.groups.push(TaskGroup { first: cut.count, parts: vec![(index, pass, one.units)], each });
                cut.count = cut.count.saturating_add(one.units.div_ceil(each));
                continue;
            }
            if array.bytes > cut.room || cut.shared.len() == MOST_ARRAYS {
                cut.close();
                cut.room = plan.task_bytes;
            }
            cut.shared.push((index, pass, one.units));
            cut.room = cut.room.saturating_sub(array.bytes);
        }
        cut.close();
        Stage { number, len: cut.groups.last().map_or(0, TaskGroup::end), parts: TaskParts(cut.groups) }
    }

    /// Number of the stage.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Number of tasks.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether there is no task.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The parts of a task. `None`: there is no task with this number.
    pub fn task(&self, number: u64) -> Option<Vec<TaskPart>> {
        (number < self.len).then(|| self.parts.task(number))
    }

    /// The numbers of all arrays and their passes; `None`: the comparison.
    pub fn arrays(&self) -> impl Iterator<Item = (usize, Option<usize>)> + '_ {
        self.parts.arrays()
    }

    /// Bytes of elements that a range of tasks copies, as a share of all passes.
    pub fn elements(&self, plan: &PlanFacts, first: u64, end: u64) -> f64 {
        let mut bytes = 0.0;
        for group in self.parts.groups(first, end) {
            // Without a step for each task.
            let units = |all: u64| match group.each {
                0 => all,
                each => {
                    let start = first.max(group.first) - group.first;
                    let stop = end.min(group.end()).saturating_sub(group.first);
                    stop.saturating_mul(each).min(all).saturating_sub(start.saturating_mul(each))
                }
            };
            for (index, pass, all) in &group.parts {
                let Some(array) = plan.arrays.get(*index) else { continue };
                let passes = if pass.is_some() { array.passes.len().max(1) } else { 1 };
                let share = units(*all) as f64 / array.pass(*pass).units.max(1) as f64;
                bytes += array.bytes as f64 / passes as f64 * share;
            }
        }
        bytes
    }
}

/// The tasks found so far.
#[derive(Default)]
struct Cut {
    groups: Vec<TaskGroup>,
    count: u64,
    /// Arrays that share the next task, and the bytes for which it has room.
    shared: Vec<(usize, PassNumber, u64)>,
    room: u64,
}

impl Cut {
    fn close(&mut self) {
        if !self.shared.is_empty() {
            let parts = std::mem::take(&mut self.shared);
            self.groups.push(TaskGroup { first: self.count, parts, each: 0 });
            self.count += 1;
        }
    }
}
