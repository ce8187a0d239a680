//! Tests that a copy does what its plan says.
//! It decodes source chunks as often as planned, writes each object once, stays within memory, and
//! keeps every value.

mod common;

use common::{created, memory, noise, spec};
use hyperslab::copy::{CopyOptions, CopyPlan, Shards, copy, copy_to_store, plan};
use hyperslab::prelude::*;
use hyperslab::store::{self, Entry, Opened, RangeRead, Replacement};
use hyperslab::{Key, MemoryStore, ReadOptions, Source, Store, WriteOptions, open_node};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Counts the reads and the writes of each object.
#[derive(Debug, Default)]
struct Counting {
    inner: MemoryStore,
    reads: Mutex<BTreeMap<String, u64>>,
    written: Mutex<BTreeMap<String, u64>>,
}

impl Counting {
    fn read(&self, key: Key<'_>) {
        *self.reads.lock().unwrap().entry(key.as_str().to_owned()).or_default() += 1;
    }

    fn wrote(&self, key: Key<'_>) {
        *self.written.lock().unwrap().entry(key.as_str().to_owned()).or_default() += 1;
    }

    /// The counts for chunks and shards only.
    fn counts(&self, of: &Mutex<BTreeMap<String, u64>>) -> Vec<u64> {
        let counts = of.lock().unwrap();
        counts
            .iter()
            .filter(|(key, _)| !key.contains(".z") && !key.contains("json"))
            .map(|(_, n)| *n)
            .collect()
    }
}

impl Store for Counting {
    fn read_ranges(
        &self,
        key: Key<'_>,
        size: Option<u64>,
        ranges: &mut [RangeRead<'_>],
    ) -> store::Result<bool> {
        self.read(key);
        self.inner.read_ranges(key, size, ranges)
    }

    fn open<'s>(&'s self, key: Key<'_>, size: Option<u64>) -> store::Result<Option<Box<dyn Opened + 's>>> {
        self.read(key);
        self.inner.open(key, size)
    }

    fn read_all(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> store::Result<bool> {
        self.read(key);
        self.inner.read_all(key, buf, limit)
    }

    fn size(&self, key: Key<'_>) -> store::Result<Option<u64>> {
        self.inner.size(key)
    }

    fn write(&self, key: Key<'_>, parts: &[&[u8]]) -> store::Result<()> {
        self.wrote(key);
        self.inner.write(key, parts)
    }

    fn replace<'s>(&'s self, key: Key<'_>) -> store::Result<Box<dyn Replacement + 's>> {
        self.wrote(key);
        self.inner.replace(key)
    }

    fn delete(&self, key: Key<'_>) -> store::Result<bool> {
        self.inner.delete(key)
    }

    fn delete_prefix(&self, prefix: Option<Key<'_>>) -> store::Result<()> {
        self.inner.delete_prefix(prefix)
    }

    fn list_dir(&self, prefix: Option<Key<'_>>) -> store::Result<Vec<Entry>> {
        self.inner.list_dir(prefix)
    }

    fn list(&self, prefix: Option<Key<'_>>) -> store::Result<Vec<String>> {
        self.inner.list(prefix)
    }

    fn lock_id(&self, key: Key<'_>) -> u64 {
        self.inner.lock_id(key)
    }

    fn url(&self) -> String {
        self.inner.url()
    }
}

fn values(array: &Array) -> Vec<u8> {
    array.read(&Selection::all(array.shape()), ReadOptions::default()).unwrap().as_slice().to_vec()
}

/// An array of noise in a counting store, with the counts at zero.
fn source(shape: &[u64], chunk: &[u64], shards: Option<&[u64]>) -> (Arc<Counting>, Array) {
    let counting = Arc::new(Counting::default());
    let store: Arc<dyn Store> = counting.clone();
    let mut spec = spec(Format::ZarrV3, shape, chunk, "<f4");
    spec.shards = shards.map(Into::into);
    let array = created(&store, "", spec);
    let len = shape.iter().product::<u64>() as usize * 4;
    let bytes: Vec<u8> = std::iter::repeat_with(noise()).take(len).collect();
    let all = Selection::all(shape);
    array.write(&all, &Source::dense(&bytes, shape, 4).unwrap(), WriteOptions::default()).unwrap();
    counting.reads.lock().unwrap().clear();
    counting.written.lock().unwrap().clear();
    (counting, array)
}

fn options(chunks: &[u64], shards: Shards, max_memory: u64) -> CopyOptions<'static> {
    let chunks = Some(chunks.iter().map(|n| Some(*n)).collect());
    CopyOptions { chunks, shards, max_memory, threads: Some(2), ..CopyOptions::default() }
}

fn planned(array: &Array, destination: &Path, options: &CopyOptions<'_>) -> CopyPlan {
    let plans = plan(&Node::Array(array.clone()), &destination.display().to_string(), options).unwrap();
    plans.into_iter().next().unwrap().1
}

fn names(directory: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    std::fs::read_dir(directory).unwrap().map(name).collect()
}

/// 4 MiB in maps of 16 KiB, to time series of 64 KiB.
/// A thread has a time series at hand decoded and encoded.
const SHAPE: [u64; 3] = [256, 64, 64];

#[test]
fn maps_to_time_series_in_memory_are_decoded_as_often_as_it_makes_necessary() {
    for (kib, times) in [(8192, 1), (2048 + 256, 2), (512 + 256, 8), (256 + 128, 16), (100, 64)] {
        let (counting, array) = source(&SHAPE, &[1, 64, 64], None);
        let before = values(&array);
        counting.reads.lock().unwrap().clear();
        let target = Arc::new(Counting::default());
        let store: Arc<dyn Store> = target.clone();
        let options = options(&[256, 8, 8], Shards::None, kib << 10);
        let report = copy_to_store(&Node::Array(array), &store, "", &options).unwrap();
        assert_eq!(counting.counts(&counting.reads), [times; 256], "{kib} KiB");
        assert_eq!(target.counts(&target.written), [1; 64]);
        assert!(report.block_bytes <= kib << 10 || kib == 100);
        assert_eq!(values(&open_node(&store, "", None).unwrap().into_array().unwrap()), before);
    }
}

#[test]
fn through_a_temporary_array_each_is_decoded_once() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().join("x/b.zarr");
    // For so few bytes, files cost more than decoding; for much larger arrays it is the reverse.
    let shape = [256, 256, 256];
    let (counting, array) = source(&shape, &[1, 256, 256], None);
    let before = values(&array);
    for kib in [12 << 10, 6 << 10, 3 << 10] {
        counting.reads.lock().unwrap().clear();
        let options = CopyOptions { overwrite: true, ..options(&[256, 8, 8], Shards::None, kib << 10) };
        let plan = planned(&array, &at, &options);
        assert!(plan.passes.len() > 1, "{plan}");
        assert!(plan.memory() <= kib << 10, "{plan}");
        let report = copy(&Node::Array(array.clone()), &at.display().to_string(), &options).unwrap();
        assert_eq!(counting.counts(&counting.reads), [1; 256], "{plan}");
        assert!(report.block_bytes <= kib << 10);
        assert_eq!(values(&Array::open(&at.display().to_string()).unwrap()), before);
        // Nothing is left of the temporary array.
        assert_eq!(names(&directory.path().join("x")), ["b.zarr"]);
    }
}

#[test]
fn nothing_is_left_of_a_temporary_array_where_a_copy_fails() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().join("b.zarr");
    let (counting, array) = source(&[256, 256, 256], &[1, 256, 256], None);
    counting.inner.write(Key::new("c/200/0/0").unwrap(), &[b"garbage"]).unwrap();
    let options = options(&[256, 8, 8], Shards::None, 6 << 20);
    assert!(planned(&array, &at, &options).passes.len() > 1);
    assert!(copy(&Node::Array(array), &at.display().to_string(), &options).is_err());
    assert!(names(directory.path()).is_empty());
}

#[test]
fn a_shard_larger_than_memory_is_written_once() {
    let shards = Shards::Shape(vec![None, None, None]);
    for kib in [8192, 1024, 512, 256] {
        let (counting, array) = source(&SHAPE, &[1, 64, 64], None);
        let before = values(&array);
        counting.reads.lock().unwrap().clear();
        let target = Arc::new(Counting::default());
        let store: Arc<dyn Store> = target.clone();
        let options = options(&[32, 16, 16], shards.clone(), kib << 10);
        let report = copy_to_store(&Node::Array(array), &store, "", &options).unwrap();
        assert_eq!(target.counts(&target.written), [1], "{kib} KiB");
        assert!(report.block_bytes <= kib << 10);
        let copied = open_node(&store, "", None).unwrap().into_array().unwrap();
        assert_eq!(copied.shard_shape(), Some(&SHAPE[..]));
        assert_eq!(values(&copied), before);
        assert_eq!(copied.compact(true, None).unwrap(), 0);
        // Parts of 32 maps each hold whole source chunks, if they fit. In the last case only one
        // chunk fits: others are being encoded, or wait for their turn in the shard.
        let most = match kib {
            1024.. => 1,
            512.. => 4,
            _ => 16,
        };
        assert!(counting.counts(&counting.reads).iter().all(|n| *n <= most), "{kib} KiB");
    }
}

#[test]
fn what_is_absent_stays_so_in_parts_and_temporary_arrays() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().join("b.zarr").display().to_string();
    let mut spec = spec(Format::ZarrV3, &[256, 256, 256], &[1, 256, 256], "<f4");
    spec.fill = Some(1.5f32.to_le_bytes().to_vec());
    let array = created(&memory(), "a", spec);
    for step in 100..140 {
        array.write_slice(&[Index::At(step)], &vec![step as f32; 256 * 256]).unwrap();
    }
    let before = values(&array);
    for shards in [Shards::None, Shards::Shape(vec![Some(256), Some(256), Some(256)])] {
        let options = CopyOptions { overwrite: true, ..options(&[16, 32, 32], shards, 4 << 20) };
        copy(&Node::Array(array.clone()), &at, &options).unwrap();
        let copied = Array::open(&at).unwrap();
        assert_eq!(values(&copied), before);
        // Chunks of 16 maps, from map 96 to 144.
        if copied.shard_shape().is_none() {
            assert_eq!(copied.info(None).unwrap().chunks_stored, Some(3 * 64));
        }
    }
}

/// One of 10⁹ chunks is stored, with chunks of one length and of several lengths.
#[test]
fn arrays_of_very_many_chunks_cost_what_is_stored() {
    let mut uneven = spec(Format::ZarrV3, &[4_000_000_000], &[4], "<u2");
    uneven.chunks = None;
    uneven.rectilinear =
        Some(vec![hyperslab::zarr::AxisChunks::Runs(vec![(4, 500_000_000), (2, 1_000_000_000)])]);
    for spec in [spec(Format::ZarrV3, &[4_000_000_000], &[4], "<u2"), uneven] {
        let array = created(&memory(), "a", spec);
        array.write_slice(&[Index::range(3_999_999_990, 3_999_999_991)], &[7u16]).unwrap();
        let start = std::time::Instant::now();
        for chunks in [4, 3, 1000] {
            let target = memory();
            let options = CopyOptions { verify: true, ..options(&[chunks], Shards::None, 256 << 20) };
            copy_to_store(&Node::Array(array.clone()), &target, "", &options).unwrap();
            let copied = open_node(&target, "", None).unwrap().into_array().unwrap();
            assert_eq!(copied.info(None).unwrap().chunks_stored, Some(1));
            assert_eq!(
                copied.read_vec::<u16>(&[Index::range(3_999_999_989, 3_999_999_992)]).unwrap(),
                [0, 7, 0]
            );
        }
        assert!(start.elapsed().as_secs() < 10);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn counts_are_as_planned(
        axes in prop::collection::vec((1..14u64, 1..7u64, 1..5u64, 1..4u64), 1..4),
        sharded in any::<bool>(),
        max_memory in 1..6000u64,
        near in any::<bool>(),
    ) {
        let shape: Vec<u64> = axes.iter().map(|axis| axis.0).collect();
        let from: Vec<u64> = axes.iter().map(|axis| axis.1).collect();
        let chunk: Vec<u64> = axes.iter().map(|axis| axis.2).collect();
        let shards = match sharded {
            true => Shards::Shape(axes.iter().map(|axis| Some(axis.2 * axis.3)).collect()),
            false => Shards::None,
        };
        let (counting, array) = source(&shape, &from, None);
        let before = values(&array);
        counting.reads.lock().unwrap().clear();
        let options = CopyOptions { verify: false, ..options(&chunk, shards, max_memory) };
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path().join("b.zarr");
        let report;
        if near {
            let plan = planned(&array, &at, &options);
            report = copy(&Node::Array(array), &at.display().to_string(), &options).unwrap();
            prop_assert_eq!(counting.counts(&counting.reads).iter().sum::<u64>(), plan.passes[0].decoded, "{}", plan);
            prop_assert!(report.block_bytes <= plan.memory().max(max_memory));
            prop_assert_eq!(values(&Array::open(&at.display().to_string()).unwrap()), before);
        } else {
            let target = Arc::new(Counting::default());
            let store: Arc<dyn Store> = target.clone();
            copy_to_store(&Node::Array(array), &store, "", &CopyOptions { verify: true, ..options }).unwrap();
            prop_assert!(target.counts(&target.written).iter().all(|n| *n == 1));
            prop_assert_eq!(values(&open_node(&store, "", None).unwrap().into_array().unwrap()), before);
        }
    }
}
