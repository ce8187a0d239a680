//! A request to read: everything that its tasks have in common.

use crate::copy::gather;
use crate::error::ArrayError;
use crate::execute::tasks;
use crate::layout::ArrayLayout;
use crate::layout::locate::Location;
use crate::plan::Plan;
use crate::plan::axis_memory::AxisMemory;
use crate::plan::task::Task;
use crate::read::cache::{ChunkCache, ChunkId};
use crate::read::mask::Masking;
use crate::runtime::memory::Memory;
use crate::runtime::settings;
use hyperslab_store::Stamp;
use std::collections::HashSet;
use std::sync::Arc;

/// Knowledge about objects that do not exist.
#[derive(Clone, Copy, Default)]
pub(crate) struct Absent<'a> {
    /// The target already holds the fill value, so absent chunks need no work.
    pub(crate) filled: bool,
    /// The objects that exist. No others are requested.
    pub(crate) present: Option<&'a HashSet<String>>,
}

/// A request to read the chunks of a plan.
pub(crate) struct Request<'a> {
    pub(crate) layout: &'a ArrayLayout,
    pub(crate) plan: &'a Plan,
    pub(crate) target: &'a AxisMemory<*mut u8>,
    pub(crate) absent: Absent<'a>,
    pub(crate) verify: bool,
    /// Cache to look up decoded chunks in.
    pub(crate) cache: Option<&'a ChunkCache>,
    /// Cache to keep decoded chunks in.
    pub(crate) keep: Option<&'a ChunkCache>,
    /// Marks missing elements, if the request wants a mask.
    pub(crate) masking: Option<&'a Masking<'a>>,
    /// Only looks: the cache counts no hits and misses.
    pub(crate) dry: bool,
}

impl<'a> Request<'a> {
    pub(crate) fn new(
        layout: &'a ArrayLayout,
        plan: &'a Plan,
        target: &'a AxisMemory<*mut u8>,
        absent: Absent<'a>,
        verify: Option<bool>,
        cache: Option<&'a ChunkCache>,
    ) -> Self {
        let verify = verify.unwrap_or_else(settings::verify_checksums);
        let cache = cache.filter(|_| !layout.encoding().chain().stores_decoded());
        let keep = cache.filter(|cache| cache.has_room_for(plan.len(), layout.encoding().decoded_size()));
        Request { layout, plan, target, absent, verify, cache, keep, masking: None, dry: false }
    }

    /// Returns `true` if a chunk at this place of an object may exist.
    pub(crate) fn is_present(&self, location: Location, key: &str) -> bool {
        location != Location::Absent && self.absent.present.is_none_or(|present| present.contains(key))
    }

    /// Returns the decoded chunk if a cache holds it.
    ///
    /// `stamp` is the current stamp of its object; `None`: ask the store.
    pub(crate) fn cached_chunk(
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

    /// Fills the target's part for a task of `plan`, which is a plan of chunks or of shards.
    pub(crate) fn fill(&self, plan: &Plan, task: &Task) {
        if !self.absent.filled {
            let (strides, dst) = (self.target.strides(), self.target.at(&task.out));
            let (places, value) = (plan.places(task, strides), self.layout.fill().bytes());
            // SAFETY: the target covers the selection, and the task is a part of it.
            unsafe { gather::fill(&places, &task.count, strides, value, dst) };
            self.mark(task);
        }
    }

    /// Marks the missing elements of a task. All its elements have been read.
    #[inline]
    pub(crate) fn mark(&self, task: &Task) {
        if let Some(masking) = self.masking {
            // SAFETY: the target covers the selection, and the task is a part of it. With a
            // masking, it has no points.
            unsafe { masking.mark(&task.count, self.target.strides(), self.target.at(&task.out)) };
        }
    }
}
