//! Announcing what steps read to a store far away, before their turn comes: all of it is on its way
//! while the first is decoded. What has come waits in memory, so only so many bytes are announced.

use crate::costs;
use crate::layout::ArrayLayout;
use crate::plan::lot::{Lot, Step};
use std::sync::atomic::{AtomicUsize, Ordering};

/// An object of a lot (the numbers of both), and ranges of it: offsets and lengths.
type Wanted = ((usize, usize), Vec<(u64, u64)>);

/// What the steps of a round read, and how far that was announced.
pub(crate) struct Ahead<'a, 's> {
    lots: &'a [Lot<'s>],
    steps: &'a [(usize, Step)],
    /// Bytes of all steps before each; empty for stores that answer at once.
    before: Vec<u64>,
    /// Wanted bytes of chunks that are no longer than this are fetched with the whole chunk.
    short: u64,
    /// Requests that go together.
    at_once: usize,
    /// The first step that was not announced.
    next: AtomicUsize,
}

impl<'a, 's> Ahead<'a, 's> {
    pub(crate) fn new(layout: &ArrayLayout, lots: &'a [Lot<'s>], steps: &'a [(usize, Step)]) -> Self {
        let cost = layout.store().cost();
        let (short, at_once) = (cost.request, cost.at_once);
        let (before, next) = (Vec::new(), AtomicUsize::new(0));
        let mut ahead = Ahead { lots, steps, before, short, at_once, next };
        if cost.is_far() && steps.len() > 1 {
            let mut bytes = 0u64;
            ahead.before = Vec::with_capacity(steps.len());
            for (lot, step) in steps {
                ahead.before.push(bytes);
                ahead.ranges(*lot, step, &mut |_, _, len| bytes = bytes.saturating_add(len));
            }
        }
        ahead
    }

    /// Announces what has not been announced of this step and those behind it, as far as memory
    /// allows.
    pub(crate) fn announce_from(&self, number: usize) {
        let Some(done) = self.before.get(number) else { return };
        let most = done.saturating_add(costs::WAITING_BYTES as u64);
        let end = self.before.partition_point(|before| *before < most);
        let first = self.next.fetch_max(end, Ordering::Relaxed);
        let Some(steps) = self.steps.get(first..end) else { return };
        let mut objects: Vec<Wanted> = Vec::new();
        for (lot, step) in steps {
            self.ranges(*lot, step, &mut |object, offset, len| match objects.last_mut() {
                Some((last, ranges)) if *last == (*lot, object) => ranges.push((offset, len)),
                _ => objects.push(((*lot, object), vec![(offset, len)])),
            });
        }
        let longest = self.longest_gap(&objects);
        for ((lot, object), ranges) in &objects {
            let found = self.lots.get(*lot).and_then(|lot| lot.objects.get(*object));
            if let Some(opened) = found.and_then(|found| found.opened.as_deref()) {
                opened.announce(ranges, 1 + gaps(ranges).filter(|gap| *gap > longest).count());
            }
        }
    }

    /// The longest gap that is read, so that there are no more requests than go together: the
    /// longest gaps of all objects are left out. Each object has one request at least.
    fn longest_gap(&self, objects: &[Wanted]) -> u64 {
        let mut all: Vec<u64> = objects.iter().flat_map(|(_, ranges)| gaps(ranges)).collect();
        match self.at_once.checked_sub(objects.len()) {
            Some(apart) if apart >= all.len() => 0,
            Some(apart) => *all.select_nth_unstable_by(apart, |one, other| other.cmp(one)).1,
            None => u64::MAX,
        }
    }

    /// Calls `each` with the object, offset and length of each range that a step reads.
    fn ranges(&self, lot: usize, step: &Step, each: &mut dyn FnMut(usize, u64, u64)) {
        let Some(lot) = self.lots.get(lot) else { return };
        match step {
            Step::Run(run) => each(run.object, run.offset, run.len),
            Step::Direct(chunks) => {
                let chunks = lot.chunks.get(chunks.clone()).unwrap_or_default();
                let short = chunks.iter().filter(|chunk| chunk.len <= self.short);
                short.for_each(|chunk| each(chunk.object, chunk.offset, chunk.len));
            }
            Step::Alone(_) | Step::Held(_) | Step::Fill(_) => {}
        }
    }
}

/// Bytes between ranges of an object that follow each other.
fn gaps(ranges: &[(u64, u64)]) -> impl Iterator<Item = u64> {
    let pairs = ranges.iter().zip(ranges.iter().skip(1));
    pairs.map(|((offset, len), (next, _))| next.saturating_sub(offset.saturating_add(*len)))
}
