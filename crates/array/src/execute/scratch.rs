//! Buffers that one thread keeps between chunks.

#![expect(clippy::indexing_slicing, reason = "the memory was just made at least so long")]

use crate::costs;
use crate::plan::task::Task;
use crate::runtime::memory::Memory;
use hyperslab_store::RangeRead;
use std::cell::RefCell;

/// Buffers of one thread, reused for every chunk: in the steady state a chunk allocates nothing.
#[derive(Default)]
pub(crate) struct Scratch {
    /// The task at hand.
    pub(crate) task: Task,
    /// The key of the task's object.
    pub(crate) key: String,
    /// A key for which an object is open, while `key` is lent to others.
    pub(crate) open_key: String,
    /// Stored bytes.
    pub(crate) encoded: Vec<u8>,
    /// A decoded chunk.
    pub(crate) decoded: Option<Memory>,
    /// An empty list whose allocation is reused, see [`with_ranges`].
    ranges: Vec<RangeRead<'static>>,
    /// Codec contexts.
    pub(crate) codec: hyperslab_codec::Scratch,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Scratch {
    /// Runs `work` with this thread's scratch.
    pub(crate) fn with<R>(work: impl FnOnce(&mut Scratch) -> R) -> R {
        SCRATCH.with(|cell| match cell.try_borrow_mut() {
            Ok(mut scratch) => work(&mut scratch),
            // A store that reads arrays of its own while being read gets fresh buffers.
            Err(_) => work(&mut Scratch::default()),
        })
    }

    /// Frees buffers that are too large to keep. Called after each request.
    pub(crate) fn trim() {
        Scratch::with(|scratch| {
            if scratch.encoded.capacity() > costs::KEEP_SCRATCH {
                scratch.encoded = Vec::new();
            }
            if scratch.decoded.as_ref().is_some_and(|memory| memory.len() > costs::KEEP_SCRATCH) {
                scratch.decoded = None;
            }
            scratch.codec.trim(costs::KEEP_SCRATCH);
        });
    }
}

/// Makes `slot` hold at least `len` bytes, and returns the first `len`, with stale contents.
///
/// `None` if there is no memory.
pub(crate) fn resize_slot(slot: &mut Option<Memory>, len: usize) -> Option<&mut [u8]> {
    if slot.as_ref().is_none_or(|memory| memory.len() < len) {
        *slot = None;
        *slot = Some(Memory::dirty(len)?);
    }
    slot.as_mut().map(|memory| &mut memory.as_mut_slice()[..len])
}

/// Lends the list of ranges, empty, for borrows of any lifetime.
///
/// Takes the list back afterwards, so that its allocation is reused.
pub(crate) fn with_ranges<'a, R>(
    slot: &mut Vec<RangeRead<'static>>,
    work: impl FnOnce(&mut Vec<RangeRead<'a>>) -> R,
) -> R {
    // A list of longer borrows serves as a list of shorter ones.
    let mut list: Vec<RangeRead<'a>> = std::mem::take(slot);
    let result = work(&mut list);
    list.clear();
    // Collecting an empty list in place keeps its allocation. There is no element that could change
    // its lifetime.
    *slot = list.into_iter().map(|_| -> RangeRead<'static> { unreachable!("the list is empty") }).collect();
    result
}

impl Scratch {
    /// Borrows the parts for reading ranges separately.
    pub(crate) fn split_ranges(
        &mut self,
    ) -> (&mut Vec<RangeRead<'static>>, &mut Option<Memory>, &str, &Task) {
        (&mut self.ranges, &mut self.decoded, &self.key, &self.task)
    }
}
