//! Ranges of objects: chunks of a file, and chunks in shards.
//!
//! Lots are located one after the other. The ranges of a lot are announced to the store together,
//! so that it joins near ones. The next lot is located while ranges of the last are on their way.

use super::{Coming, Requests, Room};
use crate::costs;
use crate::error::ArrayError;
use crate::execute::scratch::Scratch;
use crate::layout::locate::Location;
use crate::plan::lot::{Alone, Lot, Step};
use crate::read::executor::location;
use crate::read::lots::Lots;
use crate::read::request::Request;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Locates lots, and announces the ranges of their steps.
pub(super) struct Steps<'r, 'a> {
    lots: &'r Lots<'a>,
    /// Number of threads that the steps of a lot are cut for.
    threads: usize,
    /// The first lot that was not located.
    next: usize,
    /// Steps of located lots that were not announced.
    located: VecDeque<ComingStep<'a>>,
}

/// A step, and the ranges of an object that it reads.
struct ComingStep<'a> {
    lot: Arc<Lot<'a>>,
    step: Step,
    object: usize,
    ranges: Vec<(u64, u64)>,
    bytes: u64,
}

impl<'r, 'a> Steps<'r, 'a> {
    pub(super) fn new(lots: &'r Lots<'a>, threads: usize) -> Self {
        Steps { lots, threads, next: 0, located: VecDeque::new() }
    }

    /// Locates the next lot.
    fn locate(&mut self, request: &Request<'a>, scratch: &mut Scratch) -> Result<(), ArrayError> {
        let (mut lot, mut steps) = (Lot::default(), Vec::new());
        request.find(self.lots, self.next, usize::MAX, scratch, &mut lot)?;
        self.next += 1;
        let stored = lot.chunks.iter().fold(0u64, |all, chunk| all.saturating_add(chunk.len));
        request.steps(self.lots, &mut lot, stored, self.threads, &mut |step| steps.push(step));
        let lot = Arc::new(lot);
        for step in steps {
            let (object, ranges) = request.ranges_of_step(&lot, &step, scratch)?;
            let wanted = ranges.iter().map(|(_, len)| *len);
            // Gaps that are read wait in memory, too.
            let gaps = gaps(&ranges).filter(|gap| *gap <= request.longest_gap_read());
            let bytes = wanted.chain(gaps).fold(0, u64::saturating_add);
            self.located.push_back(ComingStep { lot: lot.clone(), step, object, ranges, bytes });
        }
        Ok(())
    }
}

impl Request<'_> {
    /// The longest gap that is always read between ranges of an object.
    fn longest_gap_read(&self) -> u64 {
        match self.layout.encoding().chain().stores_decoded() {
            true => self.layout.store().cost().request / costs::GAPS_BETWEEN_PARTS,
            // Runs of encoded chunks have few gaps left.
            false => 0,
        }
    }

    /// The object of a step (its number in the lot), and the ranges to announce: offset and length.
    ///
    /// Other steps read by themselves, or nothing.
    fn ranges_of_step(
        &self,
        lot: &Lot<'_>,
        step: &Step,
        scratch: &mut Scratch,
    ) -> Result<(usize, Vec<(u64, u64)>), ArrayError> {
        let (chain, mut ranges) = (self.layout.encoding().chain(), Vec::new());
        match step {
            Step::Run(run) => Ok((run.object, vec![(run.offset, run.len)])),
            Step::Direct(chunks) => {
                let chunks = lot.chunks.get(chunks.clone()).unwrap_or_default();
                for chunk in chunks {
                    self.plan.task(self.layout, chunk.number, &mut scratch.task);
                    ranges.extend(self.decide(location(chunk), scratch, |reader, scratch| {
                        Ok((reader.strategy.ranges)(reader, &scratch.task, (chunk.offset, chunk.len)))
                    })?);
                }
                Ok((chunks.first().map_or(0, |chunk| chunk.object), ranges))
            }
            Step::Alone(n) => {
                let Some(Alone { object, location, number }) = lot.alone.get(*n).copied() else {
                    return Ok((0, ranges));
                };
                let (whole, direct) = (self.layout.encoding().decoded_size() as u64, chain.stores_decoded());
                let (offset, len) = match location {
                    Location::Range { offset, len, .. } => (offset, len),
                    Location::Object if direct => (0, whole),
                    Location::Object | Location::Absent => return Ok((0, ranges)),
                };
                // A chunk of an impossible length is refused when it is read. A chunk that a cache
                // may hold is not requested.
                if direct && len == whole {
                    self.plan.task(self.layout, number, &mut scratch.task);
                    ranges = self.decide(location, scratch, |reader, scratch| {
                        Ok((reader.strategy.ranges)(reader, &scratch.task, (offset, len)))
                    })?;
                } else if !direct && len <= chain.max_encoded() as u64 && self.cache.is_none() {
                    ranges.push((offset, len));
                }
                Ok((object, ranges))
            }
            Step::Held(_) | Step::Fill(_) => Ok((0, ranges)),
        }
    }
}

impl<'a> Requests<'a> for Steps<'_, 'a> {
    fn left(&self) -> usize {
        match self.next < self.lots.len() {
            true => usize::MAX,
            false => self.located.len(),
        }
    }

    fn begin(
        &mut self,
        request: &Request<'a>,
        room: Room,
        scratch: &mut Scratch,
    ) -> Result<Vec<Box<dyn Coming<'a> + 'a>>, ArrayError> {
        if self.located.is_empty() && self.next < self.lots.len() {
            self.locate(request, scratch)?;
        }
        let (mut begun, mut bytes) = (Vec::new(), 0u64);
        while let Some(step) = self.located.front() {
            bytes = bytes.saturating_add(step.bytes);
            if bytes > room.bytes && !begun.is_empty() {
                break;
            }
            begun.extend(self.located.pop_front());
        }
        announce(&begun, request.layout.store().cost().at_once, request.longest_gap_read());
        Ok(begun.into_iter().map(|step| Box::new(step) as Box<dyn Coming<'a> + 'a>).collect())
    }
}

impl<'a> Coming<'a> for ComingStep<'a> {
    fn is_here(&self, most: Duration) -> bool {
        let object = self.lot.objects.get(self.object);
        let Some(opened) = object.and_then(|object| object.opened.as_deref()) else { return true };
        let first = self.ranges.iter().map(|(offset, _)| *offset).min();
        let end = self.ranges.iter().map(|(offset, len)| offset.saturating_add(*len)).max();
        first.zip(end).is_none_or(|(first, end)| opened.has_arrived(first, end - first, most))
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read(self: Box<Self>, request: &Request<'a>, scratch: &mut Scratch) -> Result<(), ArrayError> {
        request.execute(&self.lot, &self.step, scratch)
    }
}

/// Announces the ranges of these steps, each object's in one call.
///
/// The store makes `at_once` requests at a time. Gaps of at most `read` bytes are read.
fn announce<'a>(steps: &[ComingStep<'a>], at_once: usize, read: u64) {
    let mut wanted: Vec<(&ComingStep<'a>, Vec<(u64, u64)>)> = Vec::new();
    for step in steps.iter().filter(|step| !step.ranges.is_empty()) {
        match wanted.last_mut() {
            Some((last, ranges)) if Arc::ptr_eq(&last.lot, &step.lot) && last.object == step.object => {
                ranges.extend_from_slice(&step.ranges);
            }
            _ => wanted.push((step, step.ranges.clone())),
        }
    }
    wanted.iter_mut().for_each(|(_, ranges)| ranges.sort_unstable());
    let longest = longest_gap(wanted.iter().map(|(_, ranges)| &**ranges), at_once).max(read);
    for (step, ranges) in &wanted {
        let object = step.lot.objects.get(step.object);
        if let Some(opened) = object.and_then(|object| object.opened.as_deref()) {
            opened.announce(ranges, 1 + gaps(ranges).filter(|gap| *gap > longest).count());
        }
    }
}

/// The longest gap to read, so that there are no more requests than the store makes at once.
///
/// The longest gaps over all objects are skipped. Each object has at least one request.
fn longest_gap<'w>(objects: impl Iterator<Item = &'w [(u64, u64)]> + Clone, at_once: usize) -> u64 {
    let mut all: Vec<u64> = objects.clone().flat_map(gaps).collect();
    match at_once.checked_sub(objects.count()) {
        Some(apart) if apart >= all.len() => 0,
        Some(apart) => *all.select_nth_unstable_by(apart, |one, other| other.cmp(one)).1,
        None => u64::MAX,
    }
}

/// Bytes between successive ranges of an object.
fn gaps(ranges: &[(u64, u64)]) -> impl Iterator<Item = u64> {
    let pairs = ranges.iter().zip(ranges.iter().skip(1));
    pairs.map(|((offset, len), (next, _))| next.saturating_sub(offset.saturating_add(*len)))
}

#[cfg(test)]
mod tests {
    use super::longest_gap;

    #[test]
    fn the_longest_gaps_are_skipped() {
        let one = [(0, 10), (20, 10), (130, 10)];
        let other = [(0, 5), (1005, 5)];
        let of = |at_once| longest_gap([&one[..], &other[..]].into_iter(), at_once);
        // Gaps of 10, 100 and 1000: each of `at_once` requests beyond two is worth one gap.
        assert_eq!([of(1), of(2), of(3), of(4), of(5)], [u64::MAX, 1000, 100, 10, 0]);
    }
}
