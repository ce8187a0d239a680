//! Gives back bytes of shards that nothing refers to, and drops damaged inner chunks.
//!
//! Some writers leave the bytes of inner chunks that they replace.

use crate::dims::Dims;
use crate::error::ArrayError;
use crate::execute::tasks;
use crate::execute::tasks::{Interrupt, codec_error, store_error};
use crate::layout::ArrayLayout;
use crate::layout::locate::Location;
use crate::plan::Plan;
use crate::plan::lot::FoundObject;
use crate::plan::task::Task;
use crate::select::Selection;
use crate::shard::inspect::inner_chunk;
use crate::shard::open_shard::Shard;
use crate::write::shard::read_old_shard;
use crate::write::shard_output::{Former, Sink, begin, finish};
use hyperslab_store::Expected;

/// Says whether an inner chunk is damaged, by its index in the array.
type IsLost<'l> = &'l dyn Fn(&[u64]) -> bool;

/// Rewrites a shard without the bytes that nothing refers to, and returns their number.
///
/// `shard` is the shard's index in [`ArrayLayout::object_grid`]. With `dry`, only counts the bytes.
/// Returns 0 if there is no such object and for arrays without shards. Also returns 0 for shards
/// that go through codecs as a whole, because they hold no such bytes.
///
/// Inner chunks are copied as they are, inside the kernel if it can do that. The shard is replaced
/// atomically, under the locks that writers take. For shards within shards, only the outermost are
/// examined: the others are always written as a whole.
///
/// Fails with [`ArrayError::Shard`] if the index cannot be right (nothing is changed), and with
/// [`ArrayError::Store`].
pub fn compact(layout: &ArrayLayout, shard: &[u64], dry: bool) -> Result<u64, ArrayError> {
    compact_asking(layout, shard, dry, None)
}

/// [`compact`] that can be stopped: `ask` is called while it waits for other writers or copies.
pub fn compact_asking(
    layout: &ArrayLayout,
    shard: &[u64],
    dry: bool,
    ask: Option<Interrupt<'_>>,
) -> Result<u64, ArrayError> {
    rewrite(layout, shard, dry, None, ask)
}

/// Rewrites a shard without damaged inner chunks, which become absent. Returns `false` if nothing was
/// done: there is no such shard, or another writer was faster.
///
/// `lost` says which inner chunks are damaged, by their index in the array. Entries of the index that
/// cannot be right are lost, too. The others are copied as they are. A shard without chunks is deleted.
///
/// Fails with [`ArrayError::Shard`] if the index as a whole is wrong, and with [`ArrayError::Store`].
pub fn drop_inner_chunks(
    layout: &ArrayLayout,
    shard: &[u64],
    lost: IsLost<'_>,
    ask: Option<Interrupt<'_>>,
) -> Result<bool, ArrayError> {
    rewrite(layout, shard, false, Some(lost), ask).map(|dead| dead > 0)
}

fn rewrite(
    layout: &ArrayLayout,
    shard: &[u64],
    dry: bool,
    lost: Option<IsLost<'_>>,
    ask: Option<Interrupt<'_>>,
) -> Result<u64, ArrayError> {
    let Some(sharding) = layout.sharding() else { return Ok(0) };
    if sharding.levels().first().is_some_and(|level| !level.codecs().is_empty()) {
        return Ok(0);
    }
    let (task, mut key) = (Task { chunk: Dims::from(shard), ..Task::default() }, String::new());
    let fail = |source| store_error(layout, &task, source);
    if layout.locate(&task.chunk, &mut key)? != Location::Object {
        return Ok(0);
    }
    let checked = tasks::key(layout, &task, &key)?;
    let store = &**layout.store();
    let turn = if dry { None } else { Some(tasks::take(layout, &task, checked, ask)?) };
    let lock = if dry { None } else { Some(store.lock(checked, ask).map_err(fail)?) };
    let Some(plan) = Plan::new(layout, &Selection::all(layout.shape())) else { return Ok(0) };
    let shard = Shard::new(layout, sharding, &plan, checked, task.chunk.clone(), true)?.read_entirely(true);
    let Some(level) = shard.level(0) else { return Ok(0) };
    let Some(FoundObject { opened: Some(opened), stamp, .. }) = shard.open()? else { return Ok(0) };
    let opened = &*opened;
    let range = (0, opened.size());
    let former = match lost {
        None => read_old_shard(&shard, 0, opened, stamp, range)?,
        Some(_) => Former { opened, range, index: shard.index(level, opened, stamp, range)? },
    };
    let is_lost = |number: usize| {
        lost.is_some_and(|lost| {
            former.index.get(number).is_err() || lost(&inner_chunk(layout, level, &task.chunk, number))
        })
    };
    let stays = || former.index.present_chunks().filter(|(number, ..)| !is_lost(*number));
    let live: u64 = stays().map(|(_, _, len)| len).sum();
    // If the store cannot check and delete in one step, an empty shard is written instead.
    let empty = stays().next().is_none() && store.facts().swaps_out;
    // A shard that holds nothing needs no index either.
    let needed = if empty { 0 } else { live.saturating_add(level.index().size() as u64) };
    let dead = match lost {
        None => opened.size().saturating_sub(needed),
        Some(_) => opened.size().max(1),
    };
    if dry || dead == 0 {
        return Ok(dead);
    }
    let expected = match &lock {
        Some(lock) if lock.is_held() => Expected::Locked(opened),
        _ => Expected::Same(opened),
    };
    // If the shard was not replaced, another writer wrote all of it and left no unused bytes.
    let given = |put: bool| if put { dead } else { 0 };
    if empty {
        return store.swap_out(checked, expected, ask).map(given).map_err(fail);
    }
    let mut sink = Sink::object(store, checked);
    let absent = level.index().absent().map_err(|source| codec_error(layout, &task, &key, source))?;
    let ask = ask.unwrap_or(&|| false);
    let index = begin(level, &mut sink, Some(&former), false, &is_lost, absent, ask).map_err(fail)?;
    finish(layout, &task, &key, level, &mut sink, &index)?;
    let put = sink.commit(expected, Some(ask)).map_err(fail)?;
    drop((lock, turn));
    Ok(given(put))
}
