//! Lots: tasks that are located together, and whose chunks are read together.
//!
//! | chunks | a lot is |
//! |---|---|
//! | objects of their own, or large ranges of one | one task |
//! | objects of their own, in a store far away | one task |
//! | small ranges of an object (a file of HDF5) | some hundreds of tasks, in the order of the plan |
//! | large ranges of an object far away | as many tasks as the store takes requests at once |
//! | one large chunk without codecs, cut | all its tasks |
//! | in shards | the tasks of one shard, or of several if the store opens several at once |
//!
//! A [`crate::plan::lot::Lot`] holds the located chunks of a lot with several tasks.

use crate::costs;
use crate::error::ArrayError;
use crate::layout::ArrayLayout;
use crate::plan::Plan;
use crate::read::flight::Window;
use crate::shard::plan::ShardPlan;

/// How the tasks of a plan are grouped. Each request has one, on the stack.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Lots<'a> {
    /// Each task is a lot.
    Single(usize),
    /// Consecutive tasks: number of tasks, and tasks per lot.
    Neighbours(usize, usize),
    /// For chunks that are objects of their own in a store far away. Each task is a lot.
    Objects(usize),
    /// All tasks are parts of one chunk: number of tasks.
    Cut(usize),
    /// The tasks of shards, and the number of shards per lot.
    Shards(ShardPlan<'a>, usize),
}

impl<'a> Lots<'a> {
    /// Groups the tasks of a request on up to `threads` threads.
    ///
    /// Fails with [`ArrayError::Memory`] if there is no memory for the plan of shards.
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
        if cost.prefers_rounds() {
            if !shares {
                return Ok(Lots::Objects(plan.len()));
            }
            // The window bounds the bytes of a lot.
            let together = plan.len().clamp(1, cost.at_once);
            return Ok(Lots::Neighbours(plan.len(), together));
        }
        Ok(Lots::Single(plan.len()))
    }

    /// How much of a read is on its way at a time (see [`crate::read::flight`]).
    ///
    /// `None`: the store answers at once, or there is only one chunk.
    pub(crate) fn window(&self, layout: &ArrayLayout, threads: usize) -> Option<Window> {
        let cost = layout.store().cost();
        if !cost.prefers_rounds() {
            return None;
        }
        let bytes = costs::COMING_BYTES.saturating_mul(threads as u64);
        match self {
            Lots::Single(_) => None,
            Lots::Objects(_) => {
                // Half of the requests wait for a permit: as soon as a response is complete, the
                // next request goes out.
                let most = cost.at_once.saturating_mul(2);
                let fit = costs::WAITING_BYTES / layout.encoding().chain().max_encoded().max(1);
                let of = |part: usize| (fit.saturating_mul(threads) / part).clamp(1, most);
                Some(Window { first: of(costs::FIRST_PART), most: of(1), bytes })
            }
            // A lot is begun as a whole, so up to twice as many are on their way.
            Lots::Neighbours(..) | Lots::Cut(_) | Lots::Shards(..) => {
                Some(Window { first: cost.at_once, most: cost.at_once, bytes })
            }
        }
    }

    /// Number of lots.
    pub(crate) fn len(&self) -> usize {
        match self {
            Lots::Single(tasks) | Lots::Objects(tasks) => *tasks,
            Lots::Neighbours(tasks, each) => tasks.div_ceil(*each),
            Lots::Cut(tasks) => usize::from(*tasks > 0),
            Lots::Shards(shards, each) => shards.len().div_ceil(*each),
        }
    }

    /// Number of lots to locate before their steps are executed.
    pub(crate) fn of_a_round(&self) -> usize {
        match self {
            Lots::Shards(_, each) => (costs::OPEN_SHARDS / each).max(1),
            _ => costs::OPEN_SHARDS,
        }
    }

    /// Returns `true` if several threads execute the steps of a lot.
    ///
    /// Otherwise the thread that locates a lot executes all its steps.
    pub(crate) fn are_spread(&self) -> bool {
        matches!(self, Lots::Cut(_) | Lots::Shards(..))
    }
}
