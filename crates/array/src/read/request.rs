//! A request to read: what all its tasks have in common.

use crate::copy::gather;
use crate::error::ArrayError;
use crate::execute::tasks;
use crate::layout::ArrayLayout;
use crate::layout::locate::Location;
use crate::plan::Plan;
use crate::plan::mapped::Mapped;
use crate::plan::task::Task;
use crate::read::cache::{ChunkCache, ChunkId};
use crate::read::mask::Masking;
use crate::runtime::memory::Memory;
use crate::runtime::settings;
use hyperslab_store::Stamp;
use std::collections::HashSet;
use std::sync::Arc;

/// What is known of objects that do not exist.
#[derive(Clone, Copy, Default)]
pub(crate) struct Absent<'a> {
    /// The target already holds the fill value: absent chunks need nothing.
    pub(crate) filled: bool,
    /// The objects that exist; others are not asked for.
    pub(crate) present: Option<&'a HashSet<String>>,
}

/// A request to read the chunks of a plan.
pub(crate) struct Request<'a> {
    pub(crate) layout: &'a ArrayLayout,
    pub(crate) plan: &'a Plan,
    pub(crate) target: &'a Mapped<*mut u8>,
    pub(crate) absent: Absent<'a>,
    pub(crate) verify: bool,
    /// Where decoded chunks are looked for.
    pub(crate) cache: Option<&'a ChunkCache>,
    /// Where decoded chunks are kept.
    pub(crate) keep: Option<&'a ChunkCache>,
    /// What is told which elements are missing.
    pub(crate) masking: Option<&'a Masking<'a>>,
    /// Only looks: the cache counts nothing.
    pub(crate) dry: bool,
}

impl<'a> Request<'a> {
    pub(crate) fn new(
        layout: &'a ArrayLayout,
        plan: &'a Plan,
        target: &'a Mapped<*mut u8>,
        absent: Absent<'a>,
        verify: Option<bool>,
        cache: Option<&'a ChunkCache>,
    ) -> Self {
        let verify = verify.unwrap_or_else(settings::verify_checksums);
        let cache = cache.filter(|_| !layout.encoding().chain().stores_decoded());
        let keep = cache.filter(|cache| cache.has_room_for(plan.len(), layout.encoding().decoded_size()));
        Request { layout, plan, target, absent, verify, cache, keep, masking: None, dry: false }
    }

    /// Whether a chunk may exist that is at this place of an object.
    pub(crate) fn is_present(&self, location: Location, key: &str) -> bool {
        location != Location::Absent && self.absent.present.is_none_or(|present| present.contains(key))
    }

    /// What a cache holds of a chunk. `stamp`: which contents its object has; `None`: the store is
    /// asked.
    pub(crate) fn held(
        &self,
        layout: &ArrayLayout,
        task: &Task,
        key: &str,
        location: Location,
        stamp: Option<Stamp>,
    ) -> Result<Option<Arc<Memory>>, ArrayError> {
        let Some(cache) = self.cache.filter(|_| !layout.encoding().chain().stores_decoded()) else {
            return Ok(None);
        };
        let wanted = ChunkId::new(layout, tasks::key(layout, task, key)?, location, self.verify);
        Ok(cache.get(&wanted, stamp, !self.dry))
    }

    /// Fills the part of the target of a task of `plan`: that of chunks, or that of shards.
    pub(crate) fn fill(&self, plan: &Plan, task: &Task) {
        if !self.absent.filled {
            let (strides, dst) = (self.target.strides(), self.target.at(&task.out));
            let (places, value) = (plan.places(task, strides), self.layout.fill().bytes());
            // SAFETY: the target covers the selection, of which the task is a part.
            unsafe { gather::fill(&places, &task.count, strides, value, dst) };
            self.mark(task);
        }
    }

    /// Marks which elements of a task are missing, all of which have been read.
    #[inline]
    pub(crate) fn mark(&self, task: &Task) {
        if let Some(masking) = self.masking {
            // SAFETY: the target covers the selection, of which the task is a part; it has no
            // points where there is a masking.
            unsafe { masking.mark(&task.count, self.target.strides(), self.target.at(&task.out)) };
        }
    }
}
