//! Pages that were in use before, kept for new owners.
//!
//! Faulting in fresh pages costs several times more than reading a file into pages already there.
//! The pages of dropped results and scratch are therefore kept, up to a bound
//! ([`crate::runtime::settings::recycler_bound`]), and given out again. A block is either here or
//! owned by exactly one [`crate::runtime::memory::Memory`]: nothing that a user holds is ever
//! reused.

use crate::runtime::process::PerProcess;
use crate::runtime::settings;
use memmap2::MmapMut;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The recycler of this process.
pub(crate) static RECYCLER: PerProcess<Recycler> = PerProcess::new();

/// Sets [`settings::recycler_bound`]; 0 turns recycling off. Frees blocks beyond the new bound at
/// once.
pub fn set_recycler_bound(bytes: usize) {
    settings::keep_recycler_bound(bytes);
    RECYCLER.get().trim(bytes);
}

/// Blocks that wait for a new owner.
#[derive(Default)]
// Per process.
pub(crate) struct Recycler(Mutex<Recycled>);

#[derive(Default)]
struct Recycled {
    /// By block size. One class serves slightly different lengths.
    classes: BTreeMap<usize, Class>,
    bytes: usize,
    clock: u64,
}

#[derive(Default)]
struct Class {
    blocks: Vec<MmapMut>,
    last_used: u64,
}

/// Bytes waiting to be used again in this process.
pub fn recycled_bytes() -> usize {
    RECYCLER.get().lock().bytes
}

/// The block size that serves `len` bytes: at most an eighth more. The surplus is only address
/// space, never touched.
pub(crate) fn class_of(len: usize) -> Option<usize> {
    let granule = (len.checked_next_power_of_two()? / 16).max(4096);
    len.checked_next_multiple_of(granule)
}

impl Recycler {
    fn lock(&self) -> std::sync::MutexGuard<'_, Recycled> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block of exactly this class, with stale contents.
    pub(crate) fn take(&self, class: usize) -> Option<MmapMut> {
        let mut spare = self.lock();
        spare.clock += 1;
        let now = spare.clock;
        let found = spare.classes.get_mut(&class)?;
        found.last_used = now;
        let block = found.blocks.pop()?;
        spare.bytes -= class;
        Some(block)
    }

    /// A block of this class, or of one at most a quarter larger, with stale contents.
    pub(crate) fn take_about(&self, class: usize) -> Option<MmapMut> {
        let fitting = class..=class.saturating_add(class / 4);
        let found =
            self.lock().classes.range(fitting).find(|(_, spare)| !spare.blocks.is_empty()).map(|(c, _)| *c);
        self.take(found?)
    }

    /// Keeps a block. If this exceeds the bound, frees blocks of the class that was unused for
    /// longest.
    pub(crate) fn give(&self, block: MmapMut) {
        let (bound, class) = (settings::recycler_bound(), block.len());
        if class > bound {
            return;
        }
        let mut spare = self.lock();
        spare.clock += 1;
        let now = spare.clock;
        let entry = spare.classes.entry(class).or_default();
        entry.last_used = now;
        entry.blocks.push(block);
        spare.bytes += class;
        let freed = spare.shrink(bound);
        drop(spare);
        // Unmapping many pages takes long, so not under the lock.
        drop(freed);
    }

    /// Frees blocks until at most `bound` bytes are kept.
    pub(crate) fn trim(&self, bound: usize) {
        let freed = self.lock().shrink(bound);
        drop(freed);
    }
}

impl Recycled {
    fn shrink(&mut self, bound: usize) -> Vec<MmapMut> {
        let mut freed = Vec::new();
        while self.bytes > bound {
            let oldest = self
                .classes
                .iter()
                .filter(|(_, class)| !class.blocks.is_empty())
                .min_by_key(|(_, class)| class.last_used);
            let Some((&size, _)) = oldest else { break };
            if let Some(block) = self.classes.get_mut(&size).and_then(|class| class.blocks.pop()) {
                self.bytes -= size;
                freed.push(block);
            }
        }
        self.classes.retain(|_, class| !class.blocks.is_empty());
        freed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_waste_at_most_an_eighth() {
        for len in [1, 4095, 4096, 4097, 65_536, 65_537, 1_000_000, 1 << 20, (1 << 20) + 1, 123_456_789] {
            let class = class_of(len).unwrap();
            assert!(class >= len && class.is_multiple_of(4096));
            assert!(class - len <= (len / 8).max(4096), "{len} {class}");
        }
        assert_eq!(class_of(usize::MAX), None);
    }

    #[test]
    fn keeps_no_more_than_the_bound() {
        let recycler = Recycler::default();
        let block = |n: usize| MmapMut::map_anon(n).unwrap();
        for _ in 0..40 {
            recycler.give(block(16 << 20));
        }
        assert!(recycler.lock().bytes <= settings::recycler_bound());
        assert!(recycler.lock().bytes >= settings::recycler_bound() / 2);
        recycler.give(block(4096));
        assert!(recycler.take(4096).is_some());
        assert!(recycler.take(4096).is_none());
        assert!(recycler.take(16 << 20).is_some());
        recycler.give(block(20 << 20));
        assert!(recycler.take_about((20 << 20) + 4096).is_none() && recycler.take_about(9 << 20).is_none());
        assert_eq!(recycler.take_about(17 << 20).map(|block| block.len()), Some(20 << 20));
        recycler.trim(0);
        assert_eq!(recycler.lock().bytes, 0);
        assert!(recycler.take(16 << 20).is_none());
    }
}
