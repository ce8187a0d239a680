//! Compares the elements of two arrays, block by block, on all threads.

use super::blocks::{self, Blocks, Region, index_in, units};
use super::numbers::{self, Numbers};
use super::side::{Block, Elements, Side, cell, is_close};
use super::stored::{self, Record, Windows};
use super::tally::{Distance, InBlock, Rules, Tally, element};
use crate::copy::{Progress, is_listed_far, list_few};
use crate::{Array, Error, Kind, Ragged, Result, settings, workers};
use hyperslab_array::element_count;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Shards are compared as stored if they are smaller in memory than this: a thread compares a shard
/// whose bytes differ alone.
const LARGEST_SHARD: u64 = 256 << 20;
/// They are not if there are fewer shards than this for each thread, for the same reason.
const SHARDS_PER_THREAD: u64 = 4;

/// How a comparison runs.
pub(super) struct Means<'a> {
    pub(super) rules: Rules,
    pub(super) threads: usize,
    /// Stops at the first difference.
    pub(super) brief: bool,
    pub(super) progress: Option<&'a dyn Progress>,
}

/// How elements are compared.
enum How<'a> {
    Numbers(&'a Numbers, &'a Numbers),
    Complex,
    /// Elements of variable length, of one type.
    Ragged {
        item: usize,
    },
    /// As values of the report. `bytes_decide`: equal bytes are equal elements.
    Values {
        bytes_decide: bool,
    },
}

impl<'a> How<'a> {
    /// `None`: elements of the two types are never equal.
    fn of(a: &'a Side<'_>, b: &'a Side<'_>, rules: &Rules) -> Option<How<'a>> {
        let is_small = |side: &Side<'_>| matches!(side.array.dtype().kind(), Kind::Small(_));
        Some(match (&a.elements, &b.elements) {
            (Elements::Numbers(own), Elements::Numbers(its)) => How::Numbers(own, its),
            (Elements::Complex, Elements::Complex) => How::Complex,
            (Elements::Ragged(own), Elements::Ragged(its)) if own == its => {
                How::Ragged { item: own.item_size() }
            }
            (Elements::Ragged(_), Elements::Ragged(_)) => How::Values { bytes_decide: false },
            _ if a.is_text() && b.is_text()
                || matches!((&a.elements, &b.elements), (Elements::Other, Elements::Other)) =>
            {
                let is_same = a.signature().is_some_and(|own| Some(own) == b.signature());
                How::Values { bytes_decide: is_same && (rules.equal_nan || a.is_text()) }
            }
            (Elements::Numbers(_), Elements::Other) if is_small(b) => How::Values { bytes_decide: false },
            (Elements::Other, Elements::Numbers(_)) if is_small(a) => How::Values { bytes_decide: false },
            _ => return None,
        })
    }
}

/// Compares the elements of two arrays of equally many axes in their common part.
/// `None`: elements of the two types are never equal.
pub(super) fn compare<'s>(a: &mut Side<'s>, b: &mut Side<'s>, means: &Means<'_>) -> Result<Option<Tally>> {
    let progress = means.progress;
    let cancelled = || progress.is_some_and(Progress::cancelled);
    if let (Elements::Numbers(own), Elements::Numbers(its)) = (&a.elements, &mut b.elements) {
        its.convert_to(own);
    }
    for side in [&mut *a, &mut *b] {
        if is_listed_far(side.array) {
            side.present = list_few(side.array, Some(&cancelled))?;
        }
    }
    let (a, b) = (&*a, &*b);
    let Some(how) = How::of(a, b, &means.rules) else { return Ok(None) };
    let region: Region =
        a.variable.shape.iter().zip(&b.variable.shape).map(|(own, its)| 0..*own.min(its)).collect();
    let size = a.array.dtype().size().max(b.array.dtype().size()).max(1) as u64;
    let wanted = blocks::wanted(a.array, b.array);
    let object = skipping_unit(a, b, &how, means);
    let own_units = [units(a.array), units(b.array)];
    let blocks = match &object {
        Some(Unit { shape, is_shard: true }) => Blocks::new(&region, [shape, shape], size, 1),
        _ => Blocks::new(&region, [&own_units[0], &own_units[1]], size, wanted),
    };
    let threads = (means.threads as u64).min(blocks.count()).max(1);
    let is_far = [a, b].iter().any(|side| side.array.layout().store().cost().waiting_dominates());
    let job = Job {
        sides: [a, b],
        how,
        blocks,
        units: [&own_units[0], &own_units[1]],
        size,
        wanted,
        object,
        record: Record::default(),
        rules: means.rules,
        brief: means.brief,
        // A distant store needs many requests at once.
        threads: if threads == 1 || is_far { None } else { Some(1) },
        next: AtomicU64::new(0),
        done: AtomicU64::new(0),
        stopped: AtomicBool::new(false),
    };
    let tell = || {
        if let Some(progress) = progress {
            progress.advance(job.done.swap(0, Relaxed));
        }
    };
    let outcomes =
        workers::on_all(threads, &job.stopped, &cancelled, &tell, |stop, tell| job.work(stop, tell))?;
    let mut all = Tally::default();
    let mut errors = Vec::new();
    for (tally, outcome) in outcomes {
        all.join(tally, means.rules.most);
        errors.extend(outcome.err());
    }
    match workers::failure(errors) {
        Some(error) if !(means.brief && all.different > 0 && error.is_interruption()) => Err(error),
        _ => Ok(Some(all)),
    }
}

/// The objects whose stored bytes are compared.
struct Unit {
    shape: crate::Dims,
    is_shard: bool,
}

/// The objects whose stored bytes tell that elements are equal. `None`: decode all chunks.
fn skipping_unit(a: &Side<'_>, b: &Side<'_>, how: &How<'_>, means: &Means<'_>) -> Option<Unit> {
    let (own, its) = (a.array.layout(), b.array.layout());
    // On servers, requests take the time, and the engine sends many at once.
    let is_near = |array: &Array| !array.layout().store().cost().waiting_dominates();
    let nan_differs = !means.rules.equal_nan;
    let decides = match how {
        How::Numbers(a, b) => a.are_alike(b) && !(nan_differs && a.may_be_nan()),
        How::Complex => !nan_differs,
        // Elements in HDF5 files are places in that file.
        How::Ragged { .. } => a.array.as_zarr().is_some() && b.array.as_zarr().is_some(),
        How::Values { bytes_decide } => *bytes_decide,
    };
    let is_stored = a.array.has_chunks() && b.array.has_chunks() && !own.encoding().is_plain();
    let is_whole = a.is_complete() && b.is_complete() && own.grid().is_regular();
    let fits = decides && is_stored && is_whole && is_near(a.array) && is_near(b.array);
    if !fits || own.fill().bytes() != its.fill().bytes() || !own.decodes_like(its) {
        return None;
    }
    let grid = own.object_grid();
    if own.sharding().is_none() {
        return Some(Unit { shape: grid.chunk_shape().into(), is_shard: false });
    }
    let bytes =
        grid.chunk_shape().iter().fold(own.dtype().size().max(1) as u64, |n, len| n.saturating_mul(*len));
    let count = element_count(&grid.counts(a.array.shape())).unwrap_or(u64::MAX);
    let suits =
        grid.is_regular() && bytes <= LARGEST_SHARD && count >= SHARDS_PER_THREAD * means.threads as u64;
    suits.then(|| Unit { shape: grid.chunk_shape().into(), is_shard: true })
}

/// The state that threads share.
struct Job<'a> {
    sides: [&'a Side<'a>; 2],
    how: How<'a>,
    blocks: Blocks,
    units: [&'a [u64]; 2],
    /// Bytes of the larger element.
    size: u64,
    wanted: u64,
    object: Option<Unit>,
    record: Record,
    rules: Rules,
    brief: bool,
    /// Number of threads that read a block.
    threads: Option<usize>,
    /// The next unclaimed block.
    next: AtomicU64,
    /// Compared bytes of the first array that have not been reported yet.
    done: AtomicU64,
    stopped: AtomicBool,
}

/// Memory that a thread reuses.
#[derive(Default)]
struct Room {
    elements: [Vec<u64>; 2],
    windows: Windows,
}

impl Job<'_> {
    /// Compares blocks until none are left. An error stops all threads.
    fn work(&self, stop: &dyn Fn() -> bool, tell: &dyn Fn()) -> (Tally, Result<()>) {
        let (mut tally, mut room) = (Tally::default(), Room::default());
        loop {
            if stop() {
                return (tally, Err(Error::Interrupted));
            }
            let number = self.next.fetch_add(1, Relaxed);
            if number >= self.blocks.count() {
                return (tally, Ok(()));
            }
            let region = self.blocks.get(number);
            let outcome = self.block(&region, &mut room, &mut tally, stop);
            let size = self.sides[0].array.dtype().size() as u64;
            let bytes = element_count(&blocks::shape(&region)).unwrap_or(0).saturating_mul(size);
            self.done.fetch_add(bytes, Relaxed);
            tell();
            if let Err(error) = outcome {
                self.stopped.store(true, Relaxed);
                return (tally, Err(error));
            }
            if self.brief && tally.different > 0 {
                self.stopped.store(true, Relaxed);
                return (tally, Ok(()));
            }
        }
    }

    /// Compares a block, as stored if that is worth it.
    fn block(
        &self,
        region: &Region,
        room: &mut Room,
        tally: &mut Tally,
        stop: &dyn Fn() -> bool,
    ) -> Result<()> {
        let Some(unit) = self.object.as_ref().filter(|_| self.record.is_promising()) else {
            return self.elements(region, room, tally, stop);
        };
        let objects = Blocks::new(region, [&unit.shape, &unit.shape], self.size, 1);
        let mut differing = Vec::new();
        for number in 0..objects.count() {
            if stop() {
                return Err(Error::Interrupted);
            }
            let cell = objects.get(number);
            let place: Vec<u64> = cell.iter().zip(&unit.shape).map(|(axis, len)| axis.start / len).collect();
            let arrays = self.sides.map(|side| side.array);
            let is_same = stored::is_same(arrays, &place, &mut room.windows)?;
            self.record.add(is_same);
            if is_same {
                tally.compared += element_count(&blocks::shape(&cell)).unwrap_or(0);
                tally.skipped += self.chunks(&cell);
            } else {
                differing.push(cell);
            }
        }
        if differing.len() as u64 == objects.count() {
            return self.elements(region, room, tally, stop);
        }
        differing.iter().try_for_each(|cell| self.elements(cell, room, tally, stop))
    }

    /// Number of chunks of the first array in a region.
    fn chunks(&self, region: &Region) -> u64 {
        let (array, grid) = (self.sides[0].array, self.sides[0].array.layout().grid());
        if !array.has_chunks() {
            return 0;
        }
        region.iter().enumerate().fold(1, |count: u64, (axis, range)| match range.is_empty() {
            true => 0,
            false => count * (grid.index_of(axis, range.end - 1) - grid.index_of(axis, range.start) + 1),
        })
    }

    /// Decodes and compares a region, in blocks that fit into memory.
    fn elements(
        &self,
        region: &Region,
        room: &mut Room,
        tally: &mut Tally,
        stop: &dyn Fn() -> bool,
    ) -> Result<()> {
        if !self.object.as_ref().is_some_and(|unit| unit.is_shard) {
            return self.decoded(region, room, tally, stop);
        }
        let parts = Blocks::new(region, self.units, self.size, self.wanted);
        (0..parts.count()).try_for_each(|number| self.decoded(&parts.get(number), room, tally, stop))
    }

    fn decoded(
        &self,
        region: &Region,
        room: &mut Room,
        tally: &mut Tally,
        stop: &dyn Fn() -> bool,
    ) -> Result<()> {
        let [a, b] = self.sides;
        let [own, its] = &mut room.elements;
        let own = a.read(region, own, self.threads, stop)?;
        let its = b.read(region, its, self.threads, stop)?;
        let count = element_count(&blocks::shape(region)).unwrap_or(0);
        tally.compared += count;
        tally.decoded += self.chunks(region);
        let mut found = InBlock::new(tally, self.rules.most);
        let outcome = match (&self.how, &own, &its) {
            (How::Numbers(a, b), Block::Fixed(own), Block::Fixed(its)) => {
                numbers::compare([a, b], [own, its], region, &self.rules, &mut found);
                Ok(())
            }
            (How::Complex, Block::Fixed(own), Block::Fixed(its)) => {
                let sizes = [a.array.dtype().size(), b.array.dtype().size()];
                let is_same = sizes[0] == sizes[1] && self.rules.equal_nan && own == its;
                if !is_same {
                    numbers::compare_complex(sizes, [own, its], region, &self.rules, &mut found);
                }
                Ok(())
            }
            (How::Ragged { .. }, Block::Ragged(one), Block::Ragged(other)) if is_equal(one, other) => Ok(()),
            (how, own, its) => self.values(how, [own, its], region, count, &mut found, stop),
        };
        found.finish();
        outcome
    }

    /// Compares elements as values of the report, where their bytes do not tell that they are equal.
    fn values(
        &self,
        how: &How<'_>,
        elements: [&Block<'_>; 2],
        region: &Region,
        count: u64,
        found: &mut InBlock<'_>,
        stop: &dyn Fn() -> bool,
    ) -> Result<()> {
        /// Elements between two questions whether to stop.
        const OFTEN: usize = 4096;
        let [a, b] = self.sides;
        for n in 0..usize::try_from(count).unwrap_or(usize::MAX) {
            if n % OFTEN == 0 && stop() {
                return Err(Error::Interrupted);
            }
            let is_same = match (how, elements) {
                (How::Ragged { item }, [Block::Ragged(one), Block::Ragged(other)]) => {
                    cell(one, *item, n) == cell(other, *item, n)
                }
                (How::Values { bytes_decide: true }, [Block::Fixed(one), Block::Fixed(other)]) => {
                    let size = a.array.dtype().size();
                    one.get(n * size..(n + 1) * size) == other.get(n * size..(n + 1) * size)
                }
                _ => false,
            };
            if is_same {
                continue;
            }
            let (own, its) = (a.element(elements[0], n)?, b.element(elements[1], n)?);
            if !is_close(&own, &its, &self.rules) {
                found.differ(Distance::default(), || element(index_in(region, n), own, its));
            }
        }
        Ok(())
    }
}

/// Returns `true` if all elements of variable length have equal bytes.
fn is_equal(a: &Ragged, b: &Ragged) -> bool {
    a.offsets == b.offsets && a.values.as_slice() == b.values.as_slice() && a.validity == b.validity
}

/// Number of threads: as asked, or from the settings.
pub(super) fn threads(asked: Option<usize>) -> usize {
    asked.filter(|n| *n > 0).unwrap_or_else(settings::threads).max(1)
}
