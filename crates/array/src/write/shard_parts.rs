//! Writes one shard part by part, for callers that hold only a part of it in memory at a time.
//!
//! The inner chunks of each part are appended to one new object. The index comes behind the last
//! part (or into the place kept for it at the start). Then the object takes the shard's place, so a
//! shard of any size is written once. Until then readers see the old contents, which also stay
//! after an error.
//!
//! Inner chunks are stored in the order in which their parts were written. A shard that goes
//! through codecs as a whole is collected in memory. The same holds for any shard if the store
//! collects new objects in memory ([`hyperslab_store::Store::replace`]).

use crate::dims::element_count;
use crate::error::ArrayError;
use crate::execute::tasks::{self, Interrupt, codec_error, memory_error, store_error};
use crate::layout::ArrayLayout;
use crate::layout::locate::Location;
use crate::layout::shard_index::ShardIndex;
use crate::plan::Plan;
use crate::plan::axis_memory::AxisMemory;
use crate::plan::task::Task;
use crate::ragged::Ragged;
use crate::ragged::write::write_ragged_with;
use crate::runtime::settings;
use crate::select::Selection;
use crate::select::view::Source;
use crate::shard::open_shard::Shard;
use crate::shard::plan::ShardPlan;
use crate::write::blanks::Presence;
use crate::write::shard::{Workers, WriteRequest, apply_shard_codecs};
use crate::write::shard_output::{ShardOutput, Sink, begin, finish};
use crate::write::{WriteOptions, stored_fill};
use hyperslab_store::{Expected, Key};
use std::sync::Arc;

/// A shard that is being written ([`write_shard_in_parts`]).
pub struct ShardParts<'s> {
    layout: &'s ArrayLayout,
    /// The task of a chunk as large as the shard, for errors.
    task: Task,
    key: Key<'s>,
    /// See [`WriteOptions::is_new`].
    is_new: bool,
    /// `None` after an error: the shard cannot be completed.
    so_far: Option<(Sink<'s>, ShardIndex)>,
}

/// Writes a shard in parts. `shard` is its index in [`ArrayLayout::object_grid`].
///
/// `write` is called once, and writes the parts. Inner chunks that no part holds are absent. The
/// whole shard is replaced, including elements past the array's end: this is for new arrays, which
/// nobody else writes to.
///
/// The shard takes its place when `write` returns `Ok`, otherwise nothing changes.
///
/// Fails with the error of `write`; with [`ArrayError::ReadOnly`] if the shard is not an object of
/// its own; with [`ArrayError::Store`].
pub fn write_shard_in_parts<E: From<ArrayError>>(
    layout: &ArrayLayout,
    shard: &[u64],
    interrupt: Option<Interrupt<'_>>,
    write: impl FnOnce(&mut ShardParts<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut key = String::new();
    let mut parts = ShardParts::begin(layout, shard, &mut key)?;
    write(&mut parts)?;
    Ok(parts.commit(interrupt)?)
}

impl<'s> ShardParts<'s> {
    fn begin(layout: &'s ArrayLayout, shard: &[u64], key: &'s mut String) -> Result<Self, ArrayError> {
        layout.check_writable()?;
        let task = Task { chunk: shard.into(), ..Task::default() };
        if layout.locate(shard, key)? != Location::Object {
            return Err(ArrayError::ReadOnly {
                array: layout.name().into(),
                chunk: shard.to_vec(),
                key: key.clone(),
                why: "it is not a shard that is an object of its own",
            });
        }
        let key = tasks::key(layout, &task, key)?;
        let mut parts = ShardParts { layout, task, key, is_new: false, so_far: None };
        let so_far = parts.with_level(layout, |level| {
            let coded = |source| codec_error(layout, &parts.task, key.as_str(), source);
            let mut sink = match level.codecs() {
                [] => Sink::object(&**layout.store(), key),
                _ => Sink::Memory(Vec::new()),
            };
            let absent = level.index().absent().map_err(coded)?;
            let index = begin(level, &mut sink, None, false, &|_| false, absent, &|| false);
            Ok((sink, index.map_err(|source| store_error(layout, &parts.task, source))?))
        })?;
        parts.so_far = Some(so_far);
        Ok(parts)
    }

    /// Calls `each` with the shard's outermost level.
    fn with_level<R>(
        &self,
        layout: &ArrayLayout,
        each: impl FnOnce(&crate::layout::sharding::ShardLevel) -> Result<R, ArrayError>,
    ) -> Result<R, ArrayError> {
        let refuse = |why: String| ArrayError::Layout { array: layout.name().into(), why };
        let sharding = layout.sharding().ok_or_else(|| refuse("it has no shards".into()))?;
        let own = sharding.outermost_level(&self.task.chunk).map_err(refuse)?;
        let level = own.as_deref().or(sharding.levels().first());
        each(level.ok_or_else(|| refuse("it has no shards".into()))?)
    }

    /// Writes a part: a selection inside this shard.
    ///
    /// The part must hold whole inner chunks, as far as they lie inside the array. (For shards
    /// within shards: whole inner shards.)
    ///
    /// Fails as [`crate::write()`] does, and with [`ArrayError::Shard`] if the part is not inside
    /// the shard or holds an inner chunk of an earlier part.
    pub fn write(
        &mut self,
        selection: &Selection,
        source: &Source<'_>,
        options: WriteOptions<'_>,
    ) -> Result<(), ArrayError> {
        self.write_to(self.layout, selection, source, options)
    }

    /// As [`ShardParts::write`], for elements of variable length ([`crate::write_ragged`]).
    pub fn write_ragged(
        &mut self,
        selection: &Selection,
        values: &Arc<Ragged>,
        options: WriteOptions<'_>,
    ) -> Result<(), ArrayError> {
        write_ragged_with(self.layout, selection, values, options, &mut |bound, source| {
            self.write_to(bound, selection, source, options)
        })
    }

    /// `layout` is the array's, or the same bound to a heap for elements of variable length.
    fn write_to(
        &mut self,
        layout: &ArrayLayout,
        selection: &Selection,
        source: &Source<'_>,
        options: WriteOptions<'_>,
    ) -> Result<(), ArrayError> {
        let Some(sharding) = layout.sharding() else { return Err(self.error(None, "it has no shards")) };
        self.is_new = options.is_new;
        let bound = AxisMemory::source(layout, source, selection)?;
        let plan = Plan::new(layout, selection).ok_or_else(|| memory_error(layout, "the plan", u64::MAX))?;
        if plan.is_empty() {
            return Ok(());
        }
        let elements = element_count(&selection.shape()).unwrap_or(u64::MAX);
        let bytes = elements.saturating_mul(layout.dtype().size() as u64);
        let keep_empty = options.write_empty_chunks.unwrap_or_else(settings::write_empty_chunks);
        let fill = stored_fill(layout);
        let gate = tasks::gate(layout, tasks::write_limits(layout, options).1, options.threads);
        let request = WriteRequest {
            layout,
            sharding,
            plan: &plan,
            source: &bound,
            fill: &fill,
            keep_empty,
            only_fill: false,
            presence: Presence::Unknown,
            gate: gate.as_ref(),
            still: options.still,
        };
        let shards = ShardPlan::new(layout, sharding, &plan)?;
        let mut task = Task::default();
        shards.shard(0, &mut task);
        if shards.len() > 1 || task.chunk != self.task.chunk {
            return Err(self.error(None, "a part of it reaches into another shard"));
        }
        let shard =
            Shard::new(layout, sharding, &plan, self.key, task.chunk.clone(), true)?.read_entirely(true);
        let Some(level) = shard.level(0) else { return Ok(()) };
        let units = request.units(level, 0, shards.touched_chunks(0, &task));
        let Some((sink, index)) = self.so_far.take() else {
            return Err(self.error(None, "an earlier part of it failed"));
        };
        if let Some(unit) = units.iter().find(|unit| !matches!(index.get(unit.n), Ok(None))) {
            return Err(self.error(Some(unit.n), "two parts of it hold the same inner chunk"));
        }
        let limit = tasks::write_limits(layout, options).0.min(settings::decodes_in_flight());
        let work = tasks::work(layout, plan.len(), bytes);
        let workers = Workers::Pool { work, limit: limit.min(settings::threads()) };
        let output = ShardOutput::new(sink, index, workers.window());
        let ask = options.interrupt.unwrap_or(&|| false);
        request.encode_all(&shard, None, &units, self.key.as_str(), &output, workers, ask)?;
        self.so_far = Some(output.end());
        Ok(())
    }

    fn commit(mut self, interrupt: Option<Interrupt<'_>>) -> Result<(), ArrayError> {
        let Some((mut sink, index)) = self.so_far.take() else {
            return Err(self.error(None, "an earlier part of it failed"));
        };
        let (layout, key) = (self.layout, self.key);
        let store = &**layout.store();
        let fail = |source| store_error(layout, &self.task, source);
        let _turn = tasks::take(layout, &self.task, key, interrupt)?;
        if index.present_chunks().next().is_none() {
            return match self.is_new {
                true => Ok(()),
                false => store.delete_all(&[key], None).map_err(fail),
            };
        }
        self.with_level(layout, |level| {
            finish(layout, &self.task, key.as_str(), level, &mut sink, &index)?;
            let put = match sink {
                Sink::Memory(bytes) => {
                    let coded = |source| codec_error(layout, &self.task, key.as_str(), source);
                    let mut bytes = apply_shard_codecs(layout, level, bytes).map_err(coded)?;
                    store.swap_owned(key, Expected::Any, &mut bytes, interrupt)
                }
                object => object.commit(Expected::Any, interrupt),
            };
            put.map(|_| ()).map_err(fail)
        })
    }

    fn error(&self, inner: Option<usize>, why: &str) -> ArrayError {
        let why = match inner {
            Some(n) => format!("{why}, number {n} of its index"),
            None => why.to_owned(),
        };
        let (array, key) = (self.layout.name().into(), self.key.as_str().into());
        ArrayError::Shard { array, key, chunk: None, why }
    }
}
