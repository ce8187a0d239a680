//! The digest of an array's elements: regions are read, and their bricks hashed, by all threads.

use super::bricks::{Brick, Regions, Wanted, brick_shape, runs};
use super::digest::{Digest, SIZE, Tree};
use super::elements::{Cells, Elements};
use crate::copy::{Paths, Progress, StoredObjects, is_listed_far, list_few};
use crate::{Array, Error, ReadOptions, Result, workers};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a region of small chunks. The bricks are hashed while the region is in the caches.
const NEAR: u64 = 2 << 20;
/// Bytes of a region from a distant store: enough chunks for many requests at once.
const FAR: u64 = 32 << 20;

/// The elements of an array, hashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hashed {
    /// The digest of all elements.
    pub root: Digest,
    /// The rows of a slab, along the first axis.
    pub slab: u64,
    /// The tree over all slabs with all their rows. Rows that are appended continue it.
    pub whole: Tree,
}

/// How to hash the elements of an array.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) array: &'a Array,
    pub(super) elements: &'a Elements<'a>,
    /// Elements per axis of the variable.
    pub(super) shape: &'a [u64],
    /// The slabs at the start that are known.
    pub(super) known: Option<&'a Tree>,
    /// The most bytes of regions in memory, as far as whole bricks allow.
    pub(super) memory: u64,
    pub(super) threads: usize,
    pub(super) progress: Option<&'a dyn Progress>,
}

impl Job<'_> {
    /// The rows of a slab.
    pub(super) fn slab(&self) -> u64 {
        brick_shape(self.shape, self.elements.size()).first().copied().unwrap_or(1)
    }

    pub(super) fn run(&self) -> Result<Hashed> {
        let progress = self.progress;
        let cancelled = || progress.is_some_and(Progress::cancelled);
        let slab = self.slab();
        let known = self.known.cloned().unwrap_or_default();
        let (regions, threads) = self.regions(known.count().saturating_mul(slab), &cancelled)?;
        let waits = self.array.layout().store().cost().waiting_dominates();
        let complete = self.shape.first().map_or(1, |n| n / slab);
        let run = Run {
            stored: if is_listed_far(self.array) { list_few(self.array, Some(&cancelled))? } else { None },
            element: self.array.dtype().size().max(1) as u64,
            // A distant store needs many requests at once.
            threads: if threads == 1 || waits { None } else { Some(1) },
            hashers: if threads == 1 { self.threads } else { 1 },
            next: AtomicU64::new(0),
            done: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            slabs: Mutex::new(Slabs::new(known, complete)),
            elements: self.elements,
            regions,
        };
        let tell = || {
            if let Some(progress) = progress {
                progress.advance(run.done.swap(0, Relaxed));
            }
        };
        let outcomes = workers::on_all(threads as u64, &run.stopped, &cancelled, &tell, |stop, tell| {
            run.work(stop, tell)
        })?;
        if let Some(error) = workers::failure(outcomes.into_iter().filter_map(Result::err)) {
            return Err(error);
        }
        let slabs = run.slabs.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(slabs.hashed(slab))
    }

    /// The regions, and the number of threads that read regions of their own.
    fn regions(&self, first: u64, ask: &dyn Fn() -> bool) -> Result<(Regions, usize)> {
        let layout = self.array.layout();
        let ones = vec![1; self.shape.len()];
        let chunk = if self.array.has_chunks() { layout.grid().chunk_shape() } else { ones.as_slice() };
        let good = if layout.store().cost().waiting_dominates() { FAR } else { NEAR };
        let brick = brick_shape(self.shape, self.elements.size());
        let element = self.elements.in_memory(ask)?;
        let threads = self.threads.max(1);
        let of = |most: u64| Regions::new(self.shape, &brick, first, Wanted { chunk, element, good, most });
        let (small, large) = (of(self.memory / threads as u64), of(self.memory));
        // All threads read one large region if chunks would be decoded more often otherwise.
        if large.decodes(chunk) < 0.95 * small.decodes(chunk) {
            return Ok((large, 1));
        }
        let workers = usize::try_from(small.count()).unwrap_or(usize::MAX).min(threads).max(1);
        Ok((small, workers))
    }
}

/// The state that threads share.
struct Run<'a> {
    elements: &'a Elements<'a>,
    regions: Regions,
    /// The stored objects on a server; `None`: any may be stored.
    stored: StoredObjects,
    /// Bytes of an element.
    element: u64,
    /// Number of threads that read a region, and that hash it.
    threads: Option<usize>,
    hashers: usize,
    /// The next unclaimed region.
    next: AtomicU64,
    /// Finished bytes that have not been reported yet.
    done: AtomicU64,
    stopped: AtomicBool,
    slabs: Mutex<Slabs>,
}

impl Run<'_> {
    /// Hashes regions until none are left. An error stops all threads.
    fn work(&self, stop: &dyn Fn() -> bool, tell: &dyn Fn()) -> Result<()> {
        let mut paths = Paths::new();
        loop {
            if stop() {
                return Err(Error::Interrupted);
            }
            let number = self.next.fetch_add(1, Relaxed);
            if number >= self.regions.count() {
                return Ok(());
            }
            let outcome = self.region(number, stop, &mut paths);
            tell();
            if let Err(error) = outcome {
                self.stopped.store(true, Relaxed);
                return Err(error);
            }
        }
    }

    fn region(&self, number: u64, stop: &dyn Fn() -> bool, paths: &mut Paths) -> Result<()> {
        let region = self.regions.at(number);
        let present = self.stored.as_ref().and_then(|stored| stored.keys.as_ref());
        let options =
            ReadOptions { threads: self.threads, interrupt: Some(stop), present, ..ReadOptions::default() };
        let cells = self.elements.read(&region, options, paths)?;
        let count = self.regions.bricks(&region);
        let share = count.div_ceil(self.hashers as u64).max(1);
        let parts = (0..count.div_ceil(share)).map(|n| n * share..((n + 1) * share).min(count));
        let (cells, place) = (&cells, region.as_slice());
        let found: Vec<(Brick, [u8; SIZE])> = if self.hashers == 1 {
            self.hash(cells, place, 0..count)
        } else {
            std::thread::scope(|scope| {
                let threads: Vec<_> =
                    parts.map(|part| scope.spawn(move || self.hash(cells, place, part))).collect();
                let found = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
                found.flat_map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
            })
        };
        let rows = region.first().cloned().unwrap_or(0..1);
        let edge = self.regions.brick.first().copied().unwrap_or(1);
        let place = Place {
            number: number / self.regions.beside().max(1),
            slabs: (rows.end - rows.start).div_ceil(edge),
            regions: self.regions.beside(),
            bricks: self.regions.bricks_of_slab(),
        };
        self.lock().add(place, &found);
        let elements: u64 = region.iter().map(|range| range.end - range.start).product();
        self.done.fetch_add(elements.saturating_mul(self.element), Relaxed);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Slabs> {
        self.slabs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hashes some bricks of a region.
    fn hash(&self, cells: &Cells, region: &[Range<u64>], bricks: Range<u64>) -> Vec<(Brick, [u8; SIZE])> {
        let mut bytes = Vec::new();
        let hash = |number: u64| {
            let brick = self.regions.brick(region, number);
            let mut whole = None;
            let mut count = 0;
            runs(region, &brick, |first, len| {
                whole = cells.run(first, len);
                count += 1;
            });
            let digest = match whole {
                Some(run) if count == 1 => blake3::hash(run),
                _ => {
                    bytes.clear();
                    runs(region, &brick, |first, len| cells.append(first, len, &mut bytes));
                    blake3::hash(&bytes)
                }
            };
            (brick, *digest.as_bytes())
        };
        bricks.map(hash).collect()
    }
}

/// The digests of slabs as far as they are known.
#[derive(Debug)]
struct Slabs {
    /// All slabs before `next`, which is a number of regions along the first axis.
    tree: Tree,
    next: u64,
    /// The number of slabs that have all their rows, and the tree over these.
    complete: u64,
    whole: Option<Tree>,
    /// The bricks of regions with the same rows, until all of them are known.
    open: HashMap<u64, Rows>,
    /// Slabs that are not the next ones.
    later: BTreeMap<u64, Vec<Digest>>,
}

/// The places of the bricks of a region.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The number of the region along the first axis.
    number: u64,
    /// Slabs in these rows.
    slabs: u64,
    /// Regions with these rows.
    regions: u64,
    /// Bricks of a slab.
    bricks: u64,
}

/// The digests of the bricks of some slabs.
#[derive(Debug)]
struct Rows {
    bricks: Vec<[u8; SIZE]>,
    /// Regions that are not there yet.
    left: u64,
}

impl Slabs {
    fn new(known: Tree, complete: u64) -> Slabs {
        let (open, later) = (HashMap::new(), BTreeMap::new());
        Slabs { tree: known, next: 0, complete, whole: None, open, later }
    }

    fn add(&mut self, place: Place, bricks: &[(Brick, [u8; SIZE])]) {
        let all = usize::try_from(place.slabs.saturating_mul(place.bricks)).unwrap_or(usize::MAX);
        let rows = self
            .open
            .entry(place.number)
            .or_insert_with(|| Rows { bricks: vec![[0; SIZE]; all], left: place.regions });
        for (brick, digest) in bricks {
            let at = brick.slab * place.bricks + brick.number;
            if let Some(slot) = usize::try_from(at).ok().and_then(|at| rows.bricks.get_mut(at)) {
                *slot = *digest;
            }
        }
        rows.left = rows.left.saturating_sub(1);
        if rows.left > 0 {
            return;
        }
        let Some(rows) = self.open.remove(&place.number) else { return };
        let per_slab = usize::try_from(place.bricks).unwrap_or(usize::MAX).max(1);
        let slabs = rows.bricks.chunks(per_slab).map(|slab| Digest::of(slab.as_flattened()));
        self.later.insert(place.number, slabs.collect());
        while let Some(slabs) = self.later.remove(&self.next) {
            self.next += 1;
            slabs.into_iter().for_each(|slab| self.push(slab));
        }
    }

    fn push(&mut self, slab: Digest) {
        if self.tree.count() == self.complete {
            self.whole = Some(self.tree.clone());
        }
        self.tree.push(slab);
    }

    fn hashed(self, slab: u64) -> Hashed {
        Hashed { root: self.tree.root(), slab, whole: self.whole.unwrap_or(self.tree) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slabs_may_come_in_any_order() {
        let digest = |n: u8| [n; SIZE];
        let brick = |slab, number| {
            let none = crate::Dims::new();
            Brick { slab, number, start: none.clone(), len: none }
        };
        // Two regions along the first axis, and two beside each other; slabs of two bricks. The last
        // slab is not complete.
        let place = |number| Place { number, slabs: 2 - number, regions: 2, bricks: 2 };
        let mut slabs = Slabs::new(Tree::default(), 2);
        slabs.add(place(1), &[(brick(0, 1), digest(6))]);
        slabs.add(place(0), &[(brick(0, 0), digest(1)), (brick(1, 0), digest(3))]);
        slabs.add(place(1), &[(brick(0, 0), digest(5))]);
        assert_eq!((slabs.tree.count(), slabs.later.len()), (0, 1));
        slabs.add(place(0), &[(brick(0, 1), digest(2)), (brick(1, 1), digest(4))]);
        let mut expected = Tree::default();
        let slab = |a, b| Digest::of([digest(a), digest(b)].as_flattened());
        expected.push(slab(1, 2));
        expected.push(slab(3, 4));
        let whole = expected.clone();
        expected.push(slab(5, 6));
        assert_eq!(slabs.hashed(7), Hashed { root: expected.root(), slab: 7, whole });
    }
}
