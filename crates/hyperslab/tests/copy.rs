//! Tests that copies keep every value, for all combinations of format, chunks, order and codec.
//! A failed copy must leave nothing behind.

mod common;

use common::{created, memory, noise, opened, spec};
use hyperslab::array::ArrayError;
use hyperslab::copy::{CopyOptions, Order, Phase, Progress, copy, copy_to_store};
use hyperslab::prelude::*;
use hyperslab::store::{self, Entry, Opened, RangeRead};
use hyperslab::zarr::{self, KeyEncoding, ZarrError};
use hyperslab::{
    ByteOrder, Choice, Error, Json, Key, MemoryStore, ReadOptions, Source, Store, WriteOptions, open_node,
};
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// All elements, with numbers in little-endian order.
fn values(array: &Array) -> Vec<u8> {
    let memory = array.read(&Selection::all(array.shape()), ReadOptions::default()).unwrap();
    let mut bytes = memory.as_slice().to_vec();
    let size = array.dtype().number_size();
    if array.dtype().order() == ByteOrder::Big {
        bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
    bytes
}

/// An array of pseudo-random bits, written up to `part` eighths of the first axis.
fn filled(store: &Arc<dyn Store>, path: &str, spec: ArraySpec, part: u64) -> Array {
    let array = created(store, path, spec);
    let mut indices = vec![Index::ALL; array.shape().len()];
    if let (Some(first), Some(len)) = (indices.first_mut(), array.shape().first()) {
        *first = Index::range(0, (len * part / 8) as i64);
    }
    let selection = array.select(&indices).unwrap();
    let shape = selection.shape();
    let len = shape.iter().product::<u64>() as usize * array.dtype().size();
    let bytes: Vec<u8> = std::iter::repeat_with(noise()).take(len).collect();
    let source = Source::dense(&bytes, &shape, array.dtype().size()).unwrap();
    array.write(&selection, &source, WriteOptions::default()).unwrap();
    array
}

fn small(format: Format) -> ArraySpec {
    spec(format, &[10, 12], &[3, 5], "<f4")
}

#[derive(Clone, Debug)]
struct Case {
    from: Format,
    to: Format,
    dtype: &'static str,
    axes: Vec<(u64, u64, Option<u64>)>,
    part: u64,
    fortran: bool,
    order: Option<Order>,
    codec: Option<&'static str>,
    given: &'static str,
    fill: bool,
    max_memory: u64,
}

fn cases() -> impl Strategy<Value = Case> {
    let format = || prop_oneof![Just(Format::ZarrV2), Just(Format::ZarrV3)];
    let codecs = ["none", "zstd:1", "gzip:1", "blosc:lz4:5:shuffle", "lz4", r#"{"id": "crc32c"}"#];
    let codec = prop::sample::select(codecs.to_vec());
    let dtypes = ["<f4", ">f8", "|u1", ">i2", "<c16", "|S3", ">U2", "|V5", "<M8[ns]"];
    let dtype = prop::sample::select(dtypes.to_vec());
    let axis = (0..14u64, 1..6u64, prop::option::of(1..16u64));
    let order = prop::option::of(prop_oneof![Just(Order::C), Just(Order::F)]);
    (
        (format(), format(), dtype, prop::collection::vec(axis, 0..4), 0..=8u64),
        (any::<bool>(), order, prop::option::of(codec.clone()), codec, any::<bool>(), 1..4000u64),
    )
        .prop_map(|((from, to, dtype, axes, part), (fortran, order, codec, given, fill, max_memory))| {
            Case { from, to, dtype, axes, part, fortran, order, codec, given, fill, max_memory }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_value_arrives(case in cases()) {
        let dtype: DataType = case.dtype.parse().unwrap();
        let shape: Vec<u64> = case.axes.iter().map(|(n, _, _)| *n).collect();
        let mut spec = ArraySpec::new(case.from.zarr().unwrap(), &shape, dtype);
        spec.chunks = Some(case.axes.iter().map(|(_, chunk, _)| *chunk).collect());
        spec.fortran_order = case.fortran;
        spec.fill = case.fill.then(|| (1..=dtype.size() as u8).collect());
        if matches!(dtype.kind(), hyperslab::Kind::Text) {
            // Only characters are valid here.
            spec.fill = None;
        }
        let store = memory();
        // Make the source by copying, too, so that its codecs are in its own format.
        let plain = filled(&store, "plain", spec, case.part);
        let as_given = CopyOptions { format: Some(case.from), compressors: Some(case.given.parse().unwrap()), ..CopyOptions::default() };
        copy_to_store(&Node::Array(plain), &store, "source", &as_given).unwrap();
        let source = open_node(&store, "source", Some(case.from)).unwrap();
        let before = values(&source.clone().into_array().unwrap());

        let target = memory();
        let options = CopyOptions {
            chunks: (!shape.is_empty()).then(|| case.axes.iter().map(|(_, _, chunk)| *chunk).collect()),
            compressors: case.codec.map(|codec| codec.parse().unwrap()),
            order: case.order,
            format: Some(case.to),
            max_memory: case.max_memory,
            verify: true,
            ..CopyOptions::default()
        };
        let report = copy_to_store(&source, &target, "", &options).unwrap();
        let copied = open_node(&target, "", Some(case.to)).unwrap().into_array().unwrap();
        prop_assert_eq!(values(&copied), before);
        prop_assert_eq!(report.arrays, 1);
        prop_assert!(report.verified.is_some());
        prop_assert_eq!(copied.shape(), &shape[..]);
        for (axis, (n, _, chunk)) in case.axes.iter().enumerate() {
            prop_assert_eq!(copied.chunk_shape()[axis], chunk.unwrap_or((*n).max(1)));
        }
        // Absent chunks are not stored.
        if case.part == 0 && !shape.is_empty() {
            prop_assert_eq!(copied.info(None).unwrap().chunks_stored, Some(0));
        }
    }
}

#[test]
fn hierarchies_with_all_that_is_in_them() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    let mut root = Group::create(&at("a.zarr"), Format::ZarrV2).unwrap();
    root.set_attributes(Json::parse(br#"{"title": "test", "nothing": NaN}"#).unwrap()).unwrap();
    let inner = root.create_group("x/y", Json::parse(br#"{"depth": 2}"#).unwrap()).unwrap();
    let mut spec = small(Format::ZarrV2);
    spec.dimension_names = Some(vec![Some("lat".into()), Some("lon".into())]);
    spec.fill = Some(f32::NAN.to_le_bytes().to_vec());
    let field = filled(root.store(), "x/y/field", spec, 4);
    let mut spec = ArraySpec::new(zarr::Format::V2, &[12], "<i8".parse().unwrap());
    spec.key_encoding = Some(KeyEncoding::V2 { separator: '/' });
    let lon = filled(root.store(), "lon", spec, 8);
    root.as_zarr_mut().unwrap().consolidate(None).unwrap();
    assert_eq!(inner.format(), Format::ZarrV2);

    let options = CopyOptions {
        chunks: Some(vec![Some(4), None]),
        verify: true,
        threads: Some(2),
        ..CopyOptions::default()
    };
    let report = copy(&Node::Group(root), &at("deep/er/b.zarr"), &options).unwrap();
    assert_eq!((report.groups, report.arrays, report.bytes), (3, 2, 10 * 12 * 4 + 12 * 8));
    assert!(report.stored_before > 0 && report.stored_after > 0);

    let copied = Group::open(&at("deep/er/b.zarr")).unwrap();
    assert_eq!(copied.format(), Format::ZarrV3);
    assert!(copied.as_zarr().unwrap().is_consolidated());
    assert_eq!(copied.attributes().unwrap().to_text(None), r#"{"title": "test", "nothing": NaN}"#);
    assert_eq!(copied.group("x/y").unwrap().attributes().unwrap().to_text(None), r#"{"depth": 2}"#);
    let new_field = copied.array("x/y/field").unwrap();
    assert_eq!(values(&new_field), values(&field));
    assert_eq!(new_field.dimension_names().unwrap(), field.dimension_names().unwrap());
    assert_eq!(new_field.attributes().unwrap().get("_ARRAY_DIMENSIONS"), None);
    assert_eq!(new_field.chunk_shape(), [4, 12]);
    // Five of ten rows are written, in chunks of four rows: the third chunk has no written row.
    assert_eq!(new_field.info(None).unwrap().chunks_stored, Some(2));
    let new_lon = copied.array("lon").unwrap();
    assert_eq!(values(&new_lon), values(&lon));
    assert_eq!(new_lon.chunk_shape(), lon.chunk_shape());

    // Copy it back.
    let back = CopyOptions { format: Some(Format::ZarrV2), verify: true, ..CopyOptions::default() };
    copy(&Node::Group(copied), &at("c.zarr"), &back).unwrap();
    let copied = Group::open(&at("c.zarr")).unwrap();
    let field = copied.array("x/y/field").unwrap();
    assert_eq!(
        field.attributes().unwrap().get("_ARRAY_DIMENSIONS").unwrap().to_text(None),
        r#"["lat", "lon"]"#
    );
    assert_eq!(values(&field), values(&new_field));
}

/// Runs a function when verification begins; asks to stop after `stop_at` bytes.
#[derive(Default)]
struct Meddler<'a> {
    on_verify: Option<&'a dyn Fn()>,
    stop_at: Option<u64>,
    done: Cell<u64>,
    begun: Cell<u64>,
}

impl Progress for Meddler<'_> {
    fn begin(&self, phase: Phase, bytes: u64) {
        self.begun.set(self.begun.get() + bytes);
        if let (Phase::Verify, Some(meddle)) = (phase, self.on_verify) {
            meddle();
        }
    }

    fn advance(&self, bytes: u64) {
        self.done.set(self.done.get() + bytes);
    }

    fn cancelled(&self) -> bool {
        self.stop_at.is_some_and(|stop| self.done.get() >= stop)
    }
}

#[test]
fn progress_comes_to_its_end() {
    let source = Node::Array(filled(&memory(), "a", small(Format::ZarrV3), 8));
    let meter = Meddler::default();
    let options =
        CopyOptions { verify: true, max_memory: 100, progress: Some(&meter), ..CopyOptions::default() };
    copy_to_store(&source, &memory(), "", &options).unwrap();
    assert_eq!((meter.begun.get(), meter.done.get()), (2 * 480, 2 * 480));
}

#[test]
fn verification_finds_a_flipped_bit() {
    let source = Node::Array(filled(&memory(), "a", small(Format::ZarrV3), 8));
    let store = memory();
    let flip = || {
        let key = Key::new("copy/c/2/1").unwrap();
        let mut chunk = Vec::new();
        assert!(store.read_all(key, &mut chunk, 1 << 20).unwrap());
        // Row 1, column 2 of the chunk.
        chunk[(5 + 2) * 4] ^= 0x10;
        store.write(key, &[&chunk]).unwrap();
    };
    let meddler = Meddler { on_verify: Some(&flip), ..Meddler::default() };
    let options = CopyOptions {
        verify: true,
        compressors: Some("none".parse().unwrap()),
        progress: Some(&meddler),
        ..CopyOptions::default()
    };
    match copy_to_store(&source, &store, "copy", &options) {
        Err(Error::Mismatch { array, index, expected, found }) => {
            assert_eq!((array.as_str(), index.as_slice()), ("/", [7, 7].as_slice()));
            let number = |text: &str| u32::from_str_radix(text, 16).unwrap();
            assert_eq!(number(&expected) ^ number(&found), 0x1000_0000);
        }
        other => panic!("{other:?}"),
    }
    // The group above it stays.
    assert_eq!(store.list(None).unwrap(), ["zarr.json"]);
}

/// Names in a directory.
fn names(directory: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<String> = std::fs::read_dir(directory).unwrap().map(name).collect();
    names.sort();
    names
}

#[test]
fn corrupt_chunks_are_named_and_nothing_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let location = directory.path().join("a.zarr").display().to_string();
    let root = Group::create(&location, Format::ZarrV3).unwrap();
    filled(root.store(), "field", small(Format::ZarrV3), 8);
    root.store().write(Key::new("field/c/1/2").unwrap(), &[b"garbage"]).unwrap();
    let target = directory.path().join("new/b.zarr").display().to_string();
    for options in
        [CopyOptions::default(), CopyOptions { threads: Some(1), max_memory: 1, ..CopyOptions::default() }]
    {
        let error = copy(&Node::Group(root.clone()), &target, &options).unwrap_err();
        assert!(matches!(error, Error::Array(ArrayError::Codec { .. })), "{error:?}");
        let message = error.to_string();
        assert!(message.contains("'/field', chunk [1, 2], key 'field/c/1/2'"), "{message}");
        assert_eq!(names(directory.path()), ["a.zarr"]);
    }
}

#[test]
fn an_interrupted_copy_leaves_the_destination_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    let old = Group::create(&at("b.zarr"), Format::ZarrV2).unwrap();
    let keys = old.store().list(None).unwrap();
    let source = Node::Array(filled(&memory(), "a", small(Format::ZarrV3), 8));
    let meddler = Meddler { stop_at: Some(100), ..Meddler::default() };
    for name in ["b.zarr", "c.zarr"] {
        let options = CopyOptions {
            overwrite: true,
            max_memory: 1,
            progress: Some(&meddler),
            ..CopyOptions::default()
        };
        assert!(matches!(copy(&source, &at(name), &options), Err(Error::Interrupted)));
        assert_eq!(names(directory.path()), ["b.zarr"]);
        assert_eq!(old.store().list(None).unwrap(), keys);
    }
    // A copy that is not stopped replaces it as a whole.
    copy(&source, &at("b.zarr"), &CopyOptions { overwrite: true, ..CopyOptions::default() }).unwrap();
    let new = Array::open(&at("b.zarr")).unwrap();
    assert_eq!(values(&new), values(&source.into_array().unwrap()));
    assert_eq!(names(directory.path()), ["b.zarr"]);
    assert!(!names(&directory.path().join("b.zarr")).contains(&".zgroup".to_owned()));
}

#[test]
fn what_cannot_be_copied_is_refused_before_anything_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    let root = Group::create(&at("a.zarr"), Format::ZarrV3).unwrap();
    filled(root.store(), "field", small(Format::ZarrV3), 8);
    let node = Node::Group(root.clone());

    let options = CopyOptions { chunks: Some(vec![Some(4)]), ..CopyOptions::default() };
    let error = copy(&node, &at("b.zarr"), &options).unwrap_err().to_string();
    assert_eq!(error, "chunks: 1 sizes are given, but the source has arrays of 2 axes");
    let error = copy(&node, &at("a.zarr/b"), &CopyOptions::default()).unwrap_err();
    assert!(matches!(error, Error::Destination { .. }), "{error:?}");
    let error = copy(&node, "ftp://host/b", &CopyOptions::default()).unwrap_err();
    assert!(matches!(error, Error::Location { .. }), "{error:?}");

    let store = root.store();
    for (path, to) in [("field", ""), ("field", "field"), ("field", "field/x"), ("", "copy")] {
        let source = open_node(store, path, None).unwrap();
        assert!(copy_to_store(&source, store, to, &CopyOptions::default()).is_err(), "{path} to {to}");
    }
    let source = open_node(store, "field", None).unwrap();
    copy_to_store(&source, store, "beside", &CopyOptions::default()).unwrap();
    let error = copy_to_store(&source, store, "beside", &CopyOptions::default()).unwrap_err();
    assert!(matches!(error, Error::Zarr(ZarrError::Exists { .. })), "{error:?}");
    assert_eq!(names(directory.path()), ["a.zarr"]);
    assert_eq!(names(&directory.path().join("a.zarr")), ["beside", "field", "zarr.json"]);
}

/// Counts the writes of each key, and all calls.
#[derive(Debug, Default)]
struct Counting {
    inner: MemoryStore,
    writes: Mutex<BTreeMap<String, usize>>,
    asked: AtomicUsize,
}

impl Counting {
    fn ask(&self) {
        self.asked.fetch_add(1, Ordering::Relaxed);
    }
}

impl Store for Counting {
    fn read_ranges(
        &self,
        key: Key<'_>,
        size: Option<u64>,
        ranges: &mut [RangeRead<'_>],
    ) -> store::Result<bool> {
        self.ask();
        self.inner.read_ranges(key, size, ranges)
    }

    fn open<'s>(&'s self, key: Key<'_>, size: Option<u64>) -> store::Result<Option<Box<dyn Opened + 's>>> {
        self.ask();
        self.inner.open(key, size)
    }

    fn read_all(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> store::Result<bool> {
        self.ask();
        self.inner.read_all(key, buf, limit)
    }

    fn size(&self, key: Key<'_>) -> store::Result<Option<u64>> {
        self.ask();
        self.inner.size(key)
    }

    fn write(&self, key: Key<'_>, parts: &[&[u8]]) -> store::Result<()> {
        self.ask();
        *self.writes.lock().unwrap().entry(key.as_str().to_owned()).or_default() += 1;
        self.inner.write(key, parts)
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

#[test]
fn every_chunk_is_written_once() {
    let mut spec = small(Format::ZarrV3);
    spec.compressors = Choice::Set(Vec::new());
    let source = Node::Array(filled(&memory(), "a", spec, 8));
    for max_memory in [1, 300, 1000, 1 << 20] {
        let counting = Arc::new(Counting::default());
        let store: Arc<dyn Store> = counting.clone();
        let options =
            CopyOptions { chunks: Some(vec![Some(4), Some(7)]), max_memory, ..CopyOptions::default() };
        copy_to_store(&source, &store, "", &options).unwrap();
        let writes = counting.writes.lock().unwrap();
        assert_eq!(writes.len(), 1 + 3 * 2);
        assert!(writes.values().all(|n| *n == 1), "{writes:?}");
    }
}

/// The copy made the groups above a node itself, so it does not look at them again for each node.
#[test]
fn deep_groups_cost_what_they_are_deep() {
    let asked = |depth: usize| {
        let from = memory();
        let path = vec!["g"; depth].join("/");
        zarr::Group::create(from.clone(), &path, zarr::Format::V3, Json::object(), false).unwrap();
        let source = open_node(&from, "", None).unwrap();
        let counting = Arc::new(Counting::default());
        let store: Arc<dyn Store> = counting.clone();
        let report = copy_to_store(&source, &store, "copy", &CopyOptions::default()).unwrap();
        assert_eq!(report.groups, depth as u64 + 1);
        assert!(open_node(&store, &format!("copy/{path}"), None).is_ok());
        counting.asked.load(Ordering::Relaxed)
    };
    let (few, more, many) = (asked(50), asked(100), asked(200));
    assert_eq!(many - more, 2 * (more - few), "{few}, {more}, {many}");
}

#[test]
fn only_what_is_stored_takes_time() {
    let mut spec = spec(Format::ZarrV3, &[1 << 45, 100], &[10, 100], "<u2");
    spec.fill = Some(vec![7, 0]);
    let array = created(&memory(), "a", spec);
    array.write_slice(&[Index::At(1 << 44)], &[5u16; 100]).unwrap();
    let target = memory();
    let meter = Meddler::default();
    let options = CopyOptions {
        chunks: Some(vec![Some(7), Some(30)]),
        verify: true,
        progress: Some(&meter),
        ..CopyOptions::default()
    };
    copy_to_store(&Node::Array(array), &target, "", &options).unwrap();
    let copied = opened(&target, "");
    assert_eq!(copied.read_vec::<u16>(&[Index::At(1 << 44)]).unwrap(), [5; 100]);
    assert_eq!(copied.read_vec::<u16>(&[Index::At((1 << 44) + 1)]).unwrap(), [7; 100]);
    assert_eq!(copied.info(None).unwrap().chunks_stored, Some(4));
    assert_eq!(meter.done.get(), 2 * (100 << 46));
}

#[test]
fn verification_finds_values_where_the_source_has_none() {
    let source = Node::Array(filled(&memory(), "a", small(Format::ZarrV3), 3));
    let store = memory();
    let add = || {
        let copied = opened(&store, "");
        copied.write_slice(&[Index::At(9), Index::At(11)], &[1f32]).unwrap();
    };
    let meddler = Meddler { on_verify: Some(&add), ..Meddler::default() };
    let options =
        CopyOptions { verify: true, max_memory: 100, progress: Some(&meddler), ..CopyOptions::default() };
    match copy_to_store(&source, &store, "", &options) {
        Err(Error::Mismatch { index, .. }) => assert_eq!(index, [9, 11]),
        other => panic!("{other:?}"),
    }
}
