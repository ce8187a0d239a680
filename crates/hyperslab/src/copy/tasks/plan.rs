//! The plan of a copy in tasks: numbers, and the metadata documents of the copy.
//!
//! Tasks are not listed: each is computed from its number ([`Stage`]).
//!
//! 1. For each array, the engine decides the passes and cuts each pass into units: blocks that own
//!    whole shards (or chunks) of the pass's target.
//! 2. A task is a range of units, long enough to be worth its overhead. Arrays smaller than a task
//!    share one.
//! 3. The last passes of all arrays form the last stage. The passes before them, which write temporary
//!    arrays, form the stage before it, and so on.

use super::ranges::range_count;
use super::stages::{PassNumber, Stage};
use super::wire;
use crate::copy::{Outline, Pass, Prices, Units};
use crate::stores::takes_options;
use crate::{Json, Result};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

/// One walk over an array: source or temporary array to temporary array or copy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaskPass {
    /// Chunk shape of the array that is read.
    pub source_chunk: Vec<u64>,
    /// Chunk shape of the array that is written.
    pub target_chunk: Vec<u64>,
    /// Shape of the elements in one written object: a shard or a chunk.
    pub target_object: Vec<u64>,
    /// Shape of a block: the elements in memory at a time.
    pub block: Vec<u64>,
    /// Blocks per axis of a unit: more than one if a block is a part of a shard.
    pub parts: Vec<u64>,
    /// Number of units. Each unit owns whole objects.
    pub units: u64,
    /// `true`: units share no object. `false`: one task does all of them.
    pub independent: bool,
    /// Number of source chunks.
    pub chunks: u64,
    /// Number of source chunks to decode, counting repetitions.
    pub decoded: u64,
    /// Number of objects to write.
    pub objects: u64,
    /// Maximum bytes to read.
    pub read: u64,
    /// Maximum bytes to write.
    pub written: u64,
    /// Maximum memory of a task in bytes.
    pub memory: u64,
    /// Maximum threads of a task.
    pub threads: usize,
    /// Estimated seconds in one process, by the costs that the planner uses.
    pub seconds: f64,
    /// Maximum requests of a task to a destination on a server at a time.
    pub requests: usize,
    /// Estimated number of requests that read from a server.
    pub gets: u64,
    /// Estimated number of requests that write to a server.
    pub puts: u64,
    /// Estimated price of these requests, and of temporary arrays while the pass runs.
    pub dollars: f64,
}

impl TaskPass {
    fn new(pass: &Pass, units: &Units) -> Self {
        let pass = pass.clone();
        TaskPass {
            source_chunk: pass.source_chunk,
            target_chunk: pass.target_chunk,
            target_object: pass.target_object,
            block: units.block.clone(),
            parts: units.parts.clone(),
            units: units.count,
            independent: units.independent,
            chunks: pass.chunks,
            decoded: pass.decoded,
            objects: pass.objects,
            read: pass.read,
            written: pass.written,
            memory: pass.memory,
            threads: pass.threads,
            seconds: pass.seconds,
            requests: pass.requests,
            gets: pass.gets,
            puts: pass.puts,
            dollars: pass.dollars,
        }
    }
}

/// How an array is copied.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TaskArray {
    /// Path relative to the source.
    pub path: String,
    /// Bytes of all elements in memory.
    pub bytes: u64,
    /// The reason for using temporary arrays, or none.
    pub why: Arc<str>,
    /// A change that would make the copy ten times cheaper, or nothing.
    pub advice: Arc<str>,
    /// The passes: one, or more with temporary arrays in between.
    pub passes: Vec<Arc<TaskPass>>,
    /// The walk that compares source and copy during verification.
    pub compare: Arc<TaskPass>,
    /// Index of the first source element to copy.
    pub from_start: Vec<u64>,
    /// Index of the first element to write in the copy.
    pub to_start: Vec<u64>,
    /// Shape of the copied elements.
    pub shape: Vec<u64>,
}

impl TaskArray {
    /// The pass with this number; `None`: the comparison. A pass that does not exist is the last one.
    pub(super) fn pass(&self, number: PassNumber) -> &TaskPass {
        number.and_then(|number| self.passes.get(number)).unwrap_or(&self.compare)
    }
}

/// Everything that a plan is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanFacts {
    /// Path or URL of the source.
    pub source: String,
    /// Path or URL of the destination.
    pub destination: String,
    /// The plan for each array.
    pub arrays: Vec<TaskArray>,
    /// Number of groups.
    pub groups: u64,
    /// Metadata documents of the copy: keys and texts.
    pub documents: Vec<(String, String)>,
    /// Minimum bytes of elements that a task copies.
    pub task_bytes: u64,
    /// The requested options, as JSON.
    pub options: String,
    /// Differences from the source that the caller did not ask for.
    pub notes: Vec<String>,
    /// Paths of nodes that cannot be copied, each with the reason.
    pub skipped: Vec<(String, String)>,
    /// Differences in meaning from the source's metadata. Verification fails if there are any.
    pub differs: Vec<String>,
    /// `true`: an existing node at the destination is replaced.
    pub overwrite: bool,
    /// `true`: the copy goes into a region of an existing array.
    pub is_into: bool,
    /// The Zarr format of the source; `None`: it is no Zarr.
    pub source_format: Option<u8>,
    /// Number of tasks that run at a time.
    pub workers: u64,
    /// Prices of requests and workers.
    pub prices: Prices,
    /// The paths or URLs of sources that are joined, in their order.
    pub sources: Vec<String>,
    /// The dimension along which they are joined.
    pub concat: Option<String>,
    /// Their lengths along it.
    pub lengths: Vec<u64>,
}

/// A plan for a copy by many processes.
#[derive(Clone, Debug)]
pub struct TaskPlan {
    facts: PlanFacts,
    id: String,
    /// One for each pass of the array with the most passes, then one that compares.
    stages: Vec<Stage>,
    /// The numbers of the documents by key.
    document_numbers: HashMap<String, usize>,
}

impl Deref for TaskPlan {
    type Target = PlanFacts;

    fn deref(&self) -> &PlanFacts {
        &self.facts
    }
}

impl PartialEq for TaskPlan {
    fn eq(&self, other: &Self) -> bool {
        self.facts == other.facts
    }
}

impl TaskPlan {
    /// Computes the stages and the identifier.
    pub fn new(facts: PlanFacts) -> TaskPlan {
        let depth = facts.arrays.iter().map(|array| array.passes.len()).max().unwrap_or(0);
        let stages = (0..=depth).map(|number| Stage::new(&facts, depth, number)).collect();
        let document_numbers =
            facts.documents.iter().enumerate().map(|(number, (key, _))| (key.clone(), number)).collect();
        TaskPlan { id: wire::id(&facts), stages, document_numbers, facts }
    }

    /// Reads the text of [`to_json`](Self::to_json). Fails with [`crate::Error::Options`].
    pub fn from_json(text: &str) -> Result<TaskPlan> {
        wire::read(text).map(TaskPlan::new)
    }

    /// The plan as text, without credentials.
    pub fn to_json(&self) -> Result<String> {
        wire::write(&self.facts)
    }

    /// An identifier of the copy, from source, destination, metadata and options.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The number of passes of the array with the most passes.
    pub fn depth(&self) -> usize {
        self.stages.len().saturating_sub(1)
    }

    /// The stages in order. Each begins when all tasks of the one before are done.
    pub fn stages(&self) -> &[Stage] {
        self.stages.get(..self.depth()).unwrap_or_default()
    }

    /// The stage with this number; the stage after the last one compares copy and source.
    pub fn stage(&self, number: usize) -> Option<&Stage> {
        self.stages.get(number)
    }

    /// The document with this key.
    pub(super) fn document(&self, key: &str) -> Option<&str> {
        let number = self.document_numbers.get(key)?;
        self.facts.documents.get(*number).map(|(_, text)| text.as_str())
    }

    /// Number of tasks in all stages.
    pub fn tasks(&self) -> u64 {
        self.stages().iter().map(Stage::len).sum()
    }

    fn sum(&self, number: impl Fn(&TaskPass) -> u64) -> u64 {
        let passes = self.arrays.iter().flat_map(|array| &array.passes);
        passes.fold(0, |sum, pass| sum.saturating_add(number(pass)))
    }

    fn first_passes(&self, number: impl Fn(&TaskPass) -> u64) -> u64 {
        let passes = self.arrays.iter().filter_map(|array| array.passes.first());
        passes.fold(0, |sum, pass| sum.saturating_add(number(pass)))
    }

    /// Bytes of all elements in memory.
    pub fn bytes(&self) -> u64 {
        self.arrays.iter().fold(0, |sum, array| sum.saturating_add(array.bytes))
    }

    /// Maximum bytes to read.
    pub fn bytes_read(&self) -> u64 {
        self.sum(|pass| pass.read)
    }

    /// Maximum bytes to write, including temporary arrays.
    pub fn bytes_written(&self) -> u64 {
        self.sum(|pass| pass.written)
    }

    /// Number of chunks of the source.
    pub fn chunks(&self) -> u64 {
        self.first_passes(|pass| pass.chunks)
    }

    /// Number of source chunks to decode. A chunk that tasks share counts once for each.
    pub fn chunks_decoded(&self) -> u64 {
        self.first_passes(|pass| pass.decoded)
    }

    /// Maximum memory of a task in bytes.
    pub fn memory(&self) -> u64 {
        self.arrays.iter().flat_map(|array| &array.passes).map(|pass| pass.memory).max().unwrap_or(0)
    }

    /// Bytes of temporary arrays, beside the destination or on its server.
    pub fn temporary_bytes(&self) -> u64 {
        let more =
            |array: &TaskArray| array.bytes.saturating_mul(array.passes.len().saturating_sub(1) as u64);
        self.arrays.iter().fold(0, |sum, array| sum.saturating_add(more(array)))
    }

    /// Number of records in a journal on a server.
    fn records(&self) -> u64 {
        match takes_options(&self.destination) {
            true => self.stages().iter().map(|stage| range_count(stage.len(), super::MOST_RANGES)).sum(),
            false => 0,
        }
    }

    /// Number of looks at a journal on a server: before and after each record.
    fn looks(&self) -> u64 {
        2 * self.records()
    }

    /// Estimated number of requests that read from a server.
    pub fn gets(&self) -> u64 {
        self.sum(|pass| pass.gets).saturating_add(self.looks())
    }

    /// Estimated number of requests that write to a server, also to the journal.
    pub fn puts(&self) -> u64 {
        self.sum(|pass| pass.puts).saturating_add(self.records())
    }

    /// Estimated price of the requests and of temporary arrays on a server.
    pub fn dollars(&self) -> f64 {
        let passes: f64 = self.arrays.iter().flat_map(|array| &array.passes).map(|pass| pass.dollars).sum();
        let (records, looks) = (self.records() as f64, self.looks() as f64);
        // An empty sum is -0.0.
        0.0 + passes + (records * self.prices.put + looks * self.prices.get) / 1000.0
    }

    /// Estimated hours until all workers have finished, by the costs that the planner uses.
    pub fn hours(&self) -> f64 {
        let stages = self.stages().iter().map(|stage| {
            let passes =
                stage.arrays().filter_map(|(index, number)| Some(self.arrays.get(index)?.pass(number)));
            let seconds: f64 = passes.map(|pass| pass.seconds).sum();
            let rounds = stage.len().div_ceil(self.workers.max(1));
            seconds * rounds as f64 / stage.len().max(1) as f64
        });
        0.0 + stages.sum::<f64>() / 3600.0
    }

    /// Describes how a plan that was found differs from this one.
    pub(super) fn difference(&self, found: &TaskPlan) -> String {
        if found.source != self.source {
            return format!("of {}, not of {}", found.source, self.source);
        }
        if found.options != self.options || found.task_bytes != self.task_bytes {
            let parse = |text: &str| Json::parse(text.as_bytes()).unwrap_or(Json::Null);
            let (ours, theirs) = (parse(&self.options), parse(&found.options));
            let names = ours.as_object().unwrap_or_default().iter().filter_map(|(name, value)| {
                let other = theirs.get(name);
                let text = other.map_or_else(|| "nothing".to_owned(), |other| other.to_text(None));
                (other != Some(value)).then(|| format!("{name}: {text}"))
            });
            let names: Vec<String> = names.collect();
            let what =
                if names.is_empty() { format!("task_size: {}", found.task_bytes) } else { names.join(", ") };
            return format!("with other options: {what}");
        }
        "its source had other metadata".into()
    }
}

/// Values that are kept once.
struct Interned<T: ?Sized>(HashMap<String, Arc<T>>);

impl<T: ?Sized> Interned<T> {
    fn one(&mut self, key: String, make: impl FnOnce() -> Arc<T>) -> Arc<T> {
        self.0.entry(key).or_insert_with(make).clone()
    }
}

/// The arrays of an outline. Most arrays of a group have equal passes: each is kept once.
pub(super) fn arrays_of(outline: &Outline) -> Vec<TaskArray> {
    let (mut passes, mut reasons) = (Interned(HashMap::new()), Interned::<str>(HashMap::new()));
    let mut one_pass = |pass: &Pass, units: &Units| {
        passes.one(format!("{pass:?} {units:?}"), || Arc::new(TaskPass::new(pass, units)))
    };
    let arrays = outline.arrays.iter().map(|array| {
        let mut reason = |text: &str| reasons.one(text.to_owned(), || text.into());
        TaskArray {
            path: array.path.clone(),
            bytes: array.plan.bytes,
            why: reason(&array.plan.why),
            advice: reason(array.advice.as_deref().unwrap_or_default()),
            passes: array
                .plan
                .passes
                .iter()
                .zip(&array.units)
                .map(|(pass, units)| one_pass(pass, units))
                .collect(),
            compare: one_pass(&array.compare.0, &array.compare.1),
            from_start: array.from_start.clone(),
            to_start: array.to_start.clone(),
            shape: array.shape.clone(),
        }
    });
    arrays.collect()
}
