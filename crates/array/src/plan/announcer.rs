//! Announces the ranges that later steps will read to a store far away.
//!
//! All ranges are on their way while the first one is decoded. Bytes that arrive early wait in
//! memory, so the number of announced bytes is bounded.

use crate::costs;
use crate::layout::ArrayLayout;
use crate::plan::lot::{Lot, Step};
use std::sync::atomic::{AtomicUsize, Ordering};

/// An object (the numbers of its lot and of the object in it), and ranges of it: offset and length.
type Wanted = ((usize, usize), Vec<(u64, u64)>);

/// The ranges that the steps of a round read, and how many steps were announced.
pub(crate) struct Announcer<'a, 's> {
    lots: &'a [Lot<'s>],
    steps: &'a [(usize, Step)],
    /// Bytes that earlier steps read, for each step; empty for stores that answer at once.
    bytes_before: Vec<u64>,
    /// Chunks of at most this many bytes are fetched whole, even if only a part is wanted.
    short: u64,
    /// How many requests the store makes at once.
    at_once: usize,
    /// The first step that was not yet announced.
    next: AtomicUsize,
}

impl<'a, 's> Announcer<'a, 's> {
    pub(crate) fn new(layout: &ArrayLayout, lots: &'a [Lot<'s>], steps: &'a [(usize, Step)]) -> Self {
        let cost = layout.store().cost();
        let (short, at_once) = (cost.request, cost.at_once);
        let (before, next) = (Vec::new(), AtomicUsize::new(0));
        let mut ahead = Announcer { lots, steps, bytes_before: before, short, at_once, next };
        if cost.prefers_rounds() && steps.len() > 1 {
            let mut bytes = 0u64;
            ahead.bytes_before = Vec::with_capacity(steps.len());
            for (lot, step) in steps {
                ahead.bytes_before.push(bytes);
                ahead.ranges(*lot, step, &mut |_, _, len| bytes = bytes.saturating_add(len));
            }
        }
        ahead
    }

    /// Announces this step and those after it, as far as memory allows. Skips steps that were
    /// announced before.
    pub(crate) fn announce_from(&self, number: usize) {
        let Some(done) = self.bytes_before.get(number) else { return };
        let most = done.saturating_add(costs::WAITING_BYTES as u64);
        let end = self.bytes_before.partition_point(|before| *before < most);
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

    /// The longest gap to read, so that there are no more requests than the store makes at once.
    ///
    /// The longest gaps over all objects are skipped. Each object has at least one request.
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

/// Bytes between successive ranges of an object.
fn gaps(ranges: &[(u64, u64)]) -> impl Iterator<Item = u64> {
    let pairs = ranges.iter().zip(ranges.iter().skip(1));
    pairs.map(|((offset, len), (next, _))| next.saturating_sub(offset.saturating_add(*len)))
}
