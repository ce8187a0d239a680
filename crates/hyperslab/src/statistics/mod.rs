//! Count, smallest, largest, mean, standard deviation and histogram of an array.
//! Reads the array once and needs little memory.
//!
//! Threads claim blocks of whole chunks (`blocks`), decode each into their own memory, and process
//! it while it is in the caches (`kernel`). At the end, their results are joined (`part`).
//!
//! For packed numbers, the results are about the numbers that they represent ([`Packing`]).

pub(crate) mod blocks;
mod histogram;
mod kernel;
mod partial;

use crate::copy::{Progress, StoredObjects, is_listed_far, list_few};
use crate::meaning::Packing;
use crate::nodes::element::swap_bytes;
use crate::{Array, ByteOrder, DataType, Error, Kind, ReadOptions, Result, Selection, settings, workers};
use blocks::Blocks;
use half::f16;
use hyperslab_array::{ArrayError, Target, element_count};
use kernel::{Number, NumberRules, Time};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

pub use histogram::Bins;
pub use partial::{Double, PartialStatistics};

/// In a near store, objects are listed if the array has at least this many, and unless more than this
/// part of them exists (1 in 4). A listing takes a small part of the time of opening them.
const LISTED_FROM: u64 = 1000;
const LISTED_SHARE: u64 = 4;

/// Options of [`statistics`].
#[derive(Clone, Default)]
pub struct StatisticsOptions<'a> {
    /// The part of the array to read, per axis; `None`: everything.
    pub region: Option<Vec<Range<u64>>>,
    /// Values that count as missing, as NaN and NaT do.
    /// They are stored elements, in the machine's byte order.
    pub missing: Vec<Vec<u8>>,
    /// `true`: use the stored numbers and ignore attributes.
    /// `false`: use [`Packing`] for the numbers that they represent, and for missing ones.
    pub raw: bool,
    /// The bins of a histogram.
    pub bins: Option<Bins>,
    /// Number of threads; `None`: from the settings.
    pub threads: Option<usize>,
    /// The blocks to read, of [`block_count`]; `None`: all.
    pub blocks: Option<Range<u64>>,
    /// Receives the bytes of finished elements, on the calling thread, and can stop it.
    pub progress: Option<&'a dyn Progress>,
}

/// The types of an array's numbers in statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberTypes {
    /// The type of the stored numbers, with the sign that they are read with.
    pub stored: DataType,
    /// `true`: values are computed from the stored numbers, as 64-bit floats.
    pub scaled: bool,
}

impl NumberTypes {
    /// Finds the types of an array; `None`: its elements are not numbers. `raw`: ignore the
    /// packing.
    pub fn of(array: &Array, raw: bool) -> Result<Option<NumberTypes>> {
        let Some(dtype) = number_type(array) else { return Ok(None) };
        let packing = packing(array, raw)?;
        Ok(Some(NumberTypes { stored: packing.number_type(dtype), scaled: packing.scales() }))
    }

    /// Returns `true` if the results are floats.
    pub fn is_float(&self) -> bool {
        self.scaled || self.stored.kind() == Kind::Float
    }
}

fn packing(array: &Array, raw: bool) -> Result<Packing> {
    match Packing::of(array) {
        _ if raw => Ok(Packing::default()),
        Err(Error::Options(why)) => Err(Error::Options(format!("{why}; ask for stored numbers: raw"))),
        packing => packing,
    }
}

/// The type of the stored numbers; `None`: elements are not numbers, or not ordered.
pub fn number_type(array: &Array) -> Option<DataType> {
    let dtype = array.optional().unwrap_or(array.dtype());
    let (times, numbers) = (
        matches!(dtype.kind(), Kind::DateTime(_) | Kind::TimeDelta(_)),
        matches!(dtype.kind(), Kind::Bool | Kind::Int | Kind::UInt | Kind::Float),
    );
    ((times || numbers) && array.vlen().is_none() && array.structure().is_none()).then_some(dtype)
}

/// The number of blocks in which an array (or a `region` of it) is read.
pub fn block_count(array: &Array, region: Option<&[Range<u64>]>) -> Result<u64> {
    Ok(Blocks::new(array, &check_region(array, region)?).count())
}

/// Computes the statistics of an array.
///
/// Fails with [`Error::Options`] if the elements are not numbers or the region is outside the
/// array, and with [`Error::Interrupted`] if [`Progress::cancelled`] returns `true`.
///
/// ```
/// use hyperslab::prelude::*;
/// use hyperslab::statistics::statistics;
///
/// # fn main() -> Result<(), hyperslab::Error> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let location = directory.path().join("a").display().to_string();
/// let array = Array::create(&location, &ArraySpec::new(Format::ZarrV3.zarr()?, &[4], "<f4".parse()?))?;
/// array.write_slice(&[], &[1.0_f32, 2.0, 3.0, f32::NAN])?;
/// let found = statistics(&array, &Default::default())?;
/// assert_eq!((found.count, found.missing, found.max, found.mean()), (3, 1, 3.0, Some(2.0)));
/// # Ok(())
/// # }
/// ```
pub fn statistics(array: &Array, options: &StatisticsOptions<'_>) -> Result<PartialStatistics> {
    let Some(dtype) = number_type(array) else {
        return Err(Error::Options(format!(
            "array '{}' has elements of type {}: statistics are of bools, integers, floats, dates and times",
            array.layout().name(),
            array.type_words()
        )));
    };
    if let Some(value) = options.missing.iter().find(|value| value.len() != dtype.size()) {
        return Err(Error::Options(format!(
            "missing: a value of {} bytes, of {}",
            value.len(),
            dtype.size()
        )));
    }
    let packing = packing(array, options.raw)?;
    let options = &StatisticsOptions {
        missing: [options.missing.as_slice(), &packing.missing].concat(),
        ..options.clone()
    };
    let scale = packing.scales().then_some(&packing);
    let dtype = packing.number_type(dtype);
    match (dtype.kind(), dtype.size()) {
        (Kind::Int, 1) => run::<i8>(array, options, scale),
        (Kind::Int, 2) => run::<i16>(array, options, scale),
        (Kind::Int, 4) => run::<i32>(array, options, scale),
        (Kind::Int, _) => run::<i64>(array, options, scale),
        (Kind::UInt, 2) => run::<u16>(array, options, scale),
        (Kind::UInt, 4) => run::<u32>(array, options, scale),
        (Kind::UInt, 8) => run::<u64>(array, options, scale),
        (Kind::Float, 2) => run::<f16>(array, options, scale),
        (Kind::Float, 4) => run::<f32>(array, options, scale),
        (Kind::Float, _) => run::<f64>(array, options, scale),
        (Kind::DateTime(_) | Kind::TimeDelta(_), _) => run::<Time>(array, options, scale),
        // Bools are 0 and 1.
        _ => run::<u8>(array, options, scale),
    }
}

fn check_region(array: &Array, region: Option<&[Range<u64>]>) -> Result<Vec<Range<u64>>> {
    let shape = array.shape();
    let Some(region) = region else { return Ok(shape.iter().map(|n| 0..*n).collect()) };
    let fits = region.iter().zip(shape).all(|(range, n)| range.start <= range.end && range.end <= *n);
    if region.len() != shape.len() || !fits {
        return Err(Error::Options(format!("region {region:?} is not inside an array of shape {shape:?}")));
    }
    Ok(region.to_vec())
}

fn run<T: Number + Sync>(
    array: &Array,
    options: &StatisticsOptions<'_>,
    scale: Option<&Packing>,
) -> Result<PartialStatistics> {
    let blocks = Blocks::new(array, &check_region(array, options.region.as_deref())?);
    let count = blocks.count();
    let numbers = options.blocks.clone().unwrap_or(0..count);
    let numbers = numbers.start..numbers.end.min(count);
    let missing: Vec<T> = options.missing.iter().map(|value| bytemuck::pod_read_unaligned(value)).collect();
    let threads = options.threads.filter(|n| *n > 0).unwrap_or_else(settings::threads) as u64;
    let threads = threads.min(numbers.end.saturating_sub(numbers.start)).max(1);
    let progress = options.progress;
    let cancelled = || progress.is_some_and(Progress::cancelled);
    let job = Job {
        array,
        stored: list_far(array, &blocks, &numbers, &cancelled)?,
        near: list_near(array, &blocks, &cancelled)?,
        blocks,
        rules: NumberRules { missing, scale, bins: options.bins.as_ref() },
        // A distant store needs many requests at once.
        threads: if threads == 1 || array.layout().store().cost().waiting_dominates() {
            None
        } else {
            Some(1)
        },
        next: AtomicU64::new(numbers.start),
        end: numbers.end,
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
    let mut all = PartialStatistics::default();
    let mut errors = Vec::new();
    for outcome in outcomes {
        match outcome {
            Ok(part) => all.join(&part),
            Err(error) => errors.push(error),
        }
    }
    if let Some(bins) = &options.bins {
        all.bins.resize(bins.len(), 0);
    }
    workers::failure(errors).map_or(Ok(all), Err)
}

/// The stored objects of an array in a near store.
struct NearObjects {
    keys: HashSet<String>,
    /// The blocks that have some of their elements.
    blocks: HashSet<u64>,
}

/// Lists the stored objects of an array in a near store. `None`: any may be stored.
///
/// A listing is given up if it has more than a few of the objects.
fn list_near(array: &Array, blocks: &Blocks, ask: &dyn Fn() -> bool) -> Result<Option<NearObjects>> {
    let counts = array.layout().object_grid().counts(array.shape());
    let all = counts.iter().fold(1, |n: u64, count| n.saturating_mul(*count));
    if is_listed_far(array) || all < LISTED_FROM {
        return Ok(None);
    }
    let most = usize::try_from(all / LISTED_SHARE).unwrap_or(usize::MAX);
    let places = array.as_zarr().map(|array| array.stored_places_at_most(most, Some(ask))).transpose()?;
    let Some(places) = places.flatten() else { return Ok(None) };
    let mut keys = HashSet::with_capacity(places.len());
    for place in &places {
        let mut key = String::new();
        array.layout().locate(place, &mut key)?;
        keys.insert(key);
    }
    Ok(Some(NearObjects { keys, blocks: blocks.of_objects(array, &places) }))
}

/// Lists the stored objects of an array on a server, if its blocks have more chunks than a round has
/// requests. `None`: any may be stored.
fn list_far(
    array: &Array,
    blocks: &Blocks,
    numbers: &Range<u64>,
    ask: &dyn Fn() -> bool,
) -> Result<StoredObjects> {
    if !is_listed_far(array) {
        return Ok(None);
    }
    let counts = array.layout().object_grid().counts(array.shape());
    let all = counts.iter().fold(1, |n: u64, count| n.saturating_mul(*count));
    let share = numbers.end.saturating_sub(numbers.start).saturating_mul(all) / blocks.count().max(1);
    let few = usize::try_from(share).is_ok_and(|n| array.layout().store().cost().fits_one_round(n));
    if few { Ok(None) } else { list_few(array, Some(ask)) }
}

/// The state that threads share.
struct Job<'a, T> {
    array: &'a Array,
    /// The stored objects; `None`: any may be stored.
    stored: StoredObjects,
    /// The same in a near store.
    near: Option<NearObjects>,
    blocks: Blocks,
    rules: NumberRules<'a, T>,
    /// Number of threads that read a block.
    threads: Option<usize>,
    /// The next unclaimed block.
    next: AtomicU64,
    end: u64,
    /// Finished bytes that have not been reported yet.
    done: AtomicU64,
    stopped: AtomicBool,
}

impl<T: Number> Job<'_, T> {
    /// Processes blocks until none are left. An error stops all threads.
    fn work(&self, stop: &dyn Fn() -> bool, tell: &dyn Fn()) -> Result<PartialStatistics> {
        let mut all = PartialStatistics::default();
        let mut memory = Vec::new();
        let mut blank = None;
        loop {
            if stop() {
                return Err(Error::Interrupted);
            }
            let number = self.next.fetch_add(1, Relaxed);
            if number >= self.end {
                return Ok(all);
            }
            let outcome = self.block(number, &mut memory, &mut blank, &mut all, stop);
            tell();
            if let Err(error) = outcome {
                self.stopped.store(true, Relaxed);
                return Err(error);
            }
        }
    }

    /// Reads a block and adds its statistics.
    ///
    /// `blank` keeps the bytes and the statistics of the last block without stored objects. Other
    /// such blocks of the same size have equal statistics.
    fn block(
        &self,
        number: u64,
        memory: &mut Vec<u64>,
        blank: &mut Option<(u64, PartialStatistics)>,
        all: &mut PartialStatistics,
        stop: &dyn Fn() -> bool,
    ) -> Result<()> {
        let (selection, shape) = self.blocks.block(self.array, number)?;
        let size = self.array.dtype().size();
        let bytes = element_count(&shape).and_then(|n| n.checked_mul(size as u64)).unwrap_or(u64::MAX);
        let near = self.near.as_ref().map(|near| &near.keys);
        let present = self.stored.as_ref().and_then(|stored| stored.keys.as_ref()).or(near);
        if self.near.as_ref().is_none_or(|near| near.blocks.contains(&number)) {
            self.read(&selection, &shape, bytes, present, memory, all, stop)?;
        } else {
            if blank.as_ref().is_none_or(|(kept, _)| *kept != bytes) {
                let mut found = PartialStatistics::default();
                self.read(&selection, &shape, bytes, Some(&HashSet::new()), memory, &mut found, stop)?;
                *blank = Some((bytes, found));
            }
            if let Some((_, found)) = blank {
                all.join(found);
            }
        }
        self.done.fetch_add(bytes, Relaxed);
        Ok(())
    }

    /// Reads elements and adds their statistics. `memory` holds 64-bit words, so that all numbers in
    /// it are aligned.
    #[allow(clippy::too_many_arguments)]
    fn read(
        &self,
        selection: &Selection,
        shape: &[u64],
        bytes: u64,
        present: Option<&HashSet<String>>,
        memory: &mut Vec<u64>,
        all: &mut PartialStatistics,
        stop: &dyn Fn() -> bool,
    ) -> Result<()> {
        let size = self.array.dtype().size();
        let none =
            || ArrayError::Memory { array: self.array.layout().name().to_owned(), what: "a block", bytes };
        let len = usize::try_from(bytes).map_err(|_| none())?;
        let words = len.div_ceil(8);
        if memory.len() < words {
            memory.clear();
            memory.try_reserve_exact(words).map_err(|_| none())?;
            memory.resize(words, 0);
        }
        let Some(elements) = bytemuck::cast_slice_mut::<u64, u8>(memory).get_mut(..len) else {
            return Err(none().into());
        };
        let mut target = Target::dense(elements, shape, size).ok_or_else(none)?;
        let (threads, interrupt) = (self.threads, Some(stop));
        let options = ReadOptions { threads, interrupt, present, ..ReadOptions::default() };
        self.array.read_into(selection, &mut target, options)?;
        if self.array.optional().is_some() {
            self.add_optional(elements, size, all);
        } else {
            if self.array.dtype().order() != ByteOrder::NATIVE {
                swap_bytes(elements, size);
            }
            kernel::add(bytemuck::cast_slice(elements), &self.rules, all);
        }
        Ok(())
    }

    /// Adds elements that may be missing.
    /// Each is a value and a byte that says whether the value is present.
    fn add_optional(&self, elements: &[u8], size: usize, all: &mut PartialStatistics) {
        let swaps = self.array.optional().is_some_and(|dtype| dtype.order() != ByteOrder::NATIVE);
        let present = elements.chunks_exact(size).filter_map(|element| match element.split_last() {
            Some((1, value)) => Some(value),
            _ => None,
        });
        let values: Vec<T> = present
            .map(|value| {
                let mut value = value.to_vec();
                if swaps {
                    value.reverse();
                }
                bytemuck::pod_read_unaligned(&value)
            })
            .collect();
        all.missing += (elements.len() / size - values.len()) as u64;
        kernel::add(&values, &self.rules, all);
    }
}
