//! Lots: tasks that are located together, and whose chunks are read together.
//!
//! | chunks | a lot is |
//! |---|---|
//! | objects of their own, or large ranges of one | one task |
//! | objects of their own, in a store that opens several at once | as many tasks |
//! | small ranges of an object (a file of HDF5) | some hundreds of tasks, in the order of the plan |
//! | large ranges of an object far away | as many tasks as the store is asked for at once |
//! | one large chunk without codecs, cut | all its tasks |
//! | in shards | the tasks of one shard, or of several where the store opens several at once |
//!
//! What is known of a lot of several tasks once its chunks are located is a
//! [`crate::plan::lot::Lot`].

use crate::costs;
use crate::error::ArrayError;
use crate::layout::ArrayLayout;
use crate::plan::Plan;
use crate::read::flight::Window;
use crate::shard::plan::ShardPlan;

/// How the tasks of a plan are taken together. There is one for each request, on the stack.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Lots<'a> {
    /// Each by itself.
    Single(usize),
    /// So many that follow each other: of how many in all, and how many together.
    Neighbours(usize, usize),
    /// Each by itself, of chunks that are objects of their own, of a store far away: how many in
    /// all, and how many are on their way at a time.
    Objects(usize, Window),
    /// They are parts of one chunk.
    Cut(usize),
    /// Those of so many shards.
    Shards(ShardPlan<'a>, usize),
}

impl<'a> Lots<'a> {
    /// The lots of a request on up to `threads` threads. Errors with [`ArrayError::Memory`] where
    /// there is none for the plan of shards.
    pub(crate) fn new(layout: &'a ArrayLayout, plan: &'a Plan, threads: usize) -> Result<Self, ArrayError> {
        let decoded = layout.encoding().decoded_size();
        if let Some(sharding) = layout.sharding() {
            let at_once = layout.store().cost().at_once.clamp(1, costs::SHARDS_AT_ONCE);
            return Ok(Lots::Shards(ShardPlan::new(layout, sharding, plan)?, at_once));
        }
        if plan.is_cut() {
            return Ok(Lots::Cut(plan.len()));
        }
        if plan.len() <= 1 {
            return Ok(Lots::Single(plan.len()));
        }
        let (cost, shares) = (layout.store().cost(), layout.locator().shares_objects());
        if shares && decoded as u64 <= cost.range {
            let fit = costs::LOT / decoded.max(1);
            let (least, most) = costs::CHUNKS_OF_A_LOT;
            let least = least.max(cost.at_once.min(most));
            let together = fit.min(plan.len().div_ceil(2 * threads)).clamp(least, most);
            return Ok(Lots::Neighbours(plan.len(), together));
        }
        if cost.is_far() {
            // What has come waits in memory for its turn.
            let fit = costs::WAITING_BYTES / layout.encoding().chain().max_encoded().max(1);
            if !shares {
                // Half of them wait for a permit: when an answer is complete, the next request goes at
                // once.
                let most = cost.at_once.saturating_mul(2);
                let of = |part: usize| (fit.saturating_mul(threads) / part).clamp(1, most);
                return Ok(Lots::Objects(plan.len(), Window { first: of(costs::FIRST_PART), most: of(1) }));
            }
            // A thread decodes what it has asked for. Little work is left to one: lots that follow one
            // another would be rounds.
            let work = (decoded as u64).saturating_mul(plan.len() as u64);
            let share = if work < costs::SPREAD_FROM { plan.len() } else { plan.len().div_ceil(threads) };
            let together = fit.min(share).clamp(1, cost.at_once);
            return Ok(Lots::Neighbours(plan.len(), together));
        }
        Ok(Lots::Single(plan.len()))
    }

    /// Number of lots.
    pub(crate) fn len(&self) -> usize {
        match self {
            Lots::Single(tasks) | Lots::Objects(tasks, _) => *tasks,
            Lots::Neighbours(tasks, each) => tasks.div_ceil(*each),
            Lots::Cut(tasks) => usize::from(*tasks > 0),
            Lots::Shards(shards, each) => shards.len().div_ceil(*each),
        }
    }

    /// How many lots are located before their steps are done.
    pub(crate) fn of_a_round(&self) -> usize {
        match self {
            Lots::Shards(_, each) => (costs::OPEN_SHARDS / each).max(1),
            _ => costs::OPEN_SHARDS,
        }
    }

    /// Whether the steps of a lot are done by several threads. Otherwise the thread that locates a
    /// lot does all of them.
    pub(crate) fn are_spread(&self) -> bool {
        matches!(self, Lots::Cut(_) | Lots::Shards(..))
    }
}
