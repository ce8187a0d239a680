//! Chunks in shards of any kind: generated arrays and generated requests.

use super::counting::Counting;
use super::model::{Model, Spec, elements, filled, get, on, put, put_repeated, select, stored};
use super::properties::{case, values};
use crate::shard::plan::ShardPlan;
use crate::*;
use hyperslab_codec::{ByteOrder, Codec, Crc32c, Zstd};
use hyperslab_store::{Key, LocalOptions, LocalStore, MemoryStore, Store};
use proptest::prelude::*;
use proptest::strategy::Strategy as Gen;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// One level of shards, for any number of axes.
#[derive(Clone, Debug)]
pub(super) struct Level {
    factors: Vec<u64>,
    turn: usize,
    at_start: bool,
    big: bool,
    crc: bool,
    index_turned: bool,
    coded: bool,
}

pub(super) fn level() -> impl Gen<Value = Level> {
    (
        prop::collection::vec(1u64..4, 4),
        0usize..4,
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        prop::bool::weighted(0.15),
    )
        .prop_map(|(factors, turn, at_start, big, crc, index_turned, coded)| Level {
            factors,
            turn,
            at_start,
            big,
            crc,
            index_turned,
            coded,
        })
}

/// Makes the levels from the object inwards.
pub(super) fn sharding(spec: &Spec, levels: &[Level]) -> Sharding {
    let rank = spec.shape.len();
    let mut inner = spec.chunk.clone();
    let mut list = Vec::new();
    for level in levels {
        let shape: Vec<u64> = inner.iter().zip(&level.factors).map(|(n, factor)| n * factor).collect();
        let order: Vec<usize> = (0..rank).map(|k| (k + level.turn) % rank).collect();
        let counts: Vec<u64> = order.iter().map(|k| level.factors[*k]).collect();
        let index_order: Vec<usize> = if level.index_turned { (0..=rank).rev().collect() } else { vec![] };
        let stored = if level.big { ByteOrder::Big } else { ByteOrder::Little };
        let crc: Vec<Arc<dyn Codec>> =
            if level.crc { vec![Arc::new(Crc32c { at_start: false })] } else { vec![] };
        let index = IndexEncoding::new(&counts, &index_order, stored, crc).unwrap();
        let codecs: Vec<Arc<dyn Codec>> =
            if level.coded { vec![Arc::new(Zstd { level: 1, checksum: false })] } else { vec![] };
        list.push(ShardLevel::new(&shape, &inner, &order, index, level.at_start, codecs).unwrap());
        inner = shape;
    }
    list.reverse();
    Sharding::new(list).unwrap()
}

pub(super) fn layout(spec: &Spec, levels: &[Level], store: Arc<dyn Store>) -> ArrayLayout {
    let plain = spec.layout_with(store, Arc::new(super::model::PerChunk("a")));
    plain.with_sharding(sharding(spec, levels)).unwrap()
}

/// The same array with shards of different shapes. Per axis of the array, `runs` has the number of
/// inner chunks of the outermost level and the number of such shards.
pub(super) fn rectilinear(
    spec: &Spec,
    levels: &[Level],
    runs: &[Vec<(u64, u64)>],
    store: Arc<dyn Store>,
) -> ArrayLayout {
    let (mut levels, longest) =
        (levels.to_vec(), |axis: &Vec<(u64, u64)>| axis.iter().map(|(n, _)| *n).max());
    let outermost = levels.last_mut().unwrap();
    outermost.factors = runs.iter().map(|axis| longest(axis).unwrap()).collect();
    let sharding = sharding(spec, &levels);
    let inner = sharding.levels()[0].inner().to_vec();
    let axes: Vec<Vec<(u64, u64)>> = (runs.iter().zip(inner))
        .map(|(axis, inner)| axis.iter().map(|(n, count)| (n * inner, *count)).collect())
        .collect();
    let grid = ChunkGrid::rectilinear(&axes).unwrap();
    let plain = spec.layout_with(store, Arc::new(super::model::PerChunk("a")));
    plain.with_sharding(sharding.in_grid(grid).unwrap()).unwrap()
}

impl Level {
    /// Elements per axis of the largest shard, for these levels of chunks of this shape.
    pub(super) fn shape(levels: &[Level], chunk: &[u64]) -> Vec<u64> {
        let times = |(k, n): (usize, &u64)| levels.iter().fold(*n, |n, level| n * level.factors[k]);
        chunk.iter().enumerate().map(times).collect()
    }

    /// Returns whether shards go through codecs as a whole.
    pub(super) fn is_coded(&self) -> bool {
        self.coded
    }

    /// A level of plain shards.
    pub(super) fn simple(factors: &[u64]) -> Self {
        Level {
            factors: factors.into(),
            turn: 0,
            at_start: false,
            big: false,
            crc: true,
            index_turned: false,
            coded: false,
        }
    }
}

fn stores(dir: &std::path::Path) -> [Arc<dyn Store>; 4] {
    // The first shares the bytes of former shards. The second copies them inside the kernel. The
    // third reads shards whole. The fourth opens several at once.
    [
        Arc::new(MemoryStore::new()),
        Arc::new(LocalStore::open(dir, LocalOptions::default()).unwrap()),
        Arc::new(Counting::new(&MemoryStore::new(), false)),
        Arc::new(Counting::far(&MemoryStore::new(), 3)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn shards_change_no_value(
        (spec, writes, reads) in case(),
        levels in prop::collection::vec(level(), 1..4),
        threads in 1usize..4,
        which in 0usize..4,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let store = stores(dir.path())[which].clone();
        let layout = layout(&spec, &levels, store.clone());
        let element = layout.dtype().size();
        let mut model = Model::full(&spec.shape, &spec.fill);
        for (selection, _, seed) in &writes {
            let shape = selection.shape();
            let options = WriteOptions { threads: Some(threads), ..WriteOptions::default() };
            let values = values(selection, element, *seed, &spec.fill);
            write(&layout, selection, &Source::dense(&values, &shape, element).unwrap(), options).unwrap();
            model.write(selection, &values);
        }
        let check = |layout: &ArrayLayout| {
            for selection in reads.iter().chain([&spec.all()]) {
                let found = read(layout, selection, on(threads)).unwrap();
                assert_eq!(found.as_slice(), model.read(selection), "{selection:?}");
                let explained = explain_read(layout, selection, usize::MAX).unwrap();
                assert_eq!(elements(&explained), selection.shape().iter().product::<u64>());
            }
        };
        check(&layout);
        // A cache changes nothing.
        let cache = ChunkCache::new(1 << 20);
        for _ in 0..2 {
            let options = ReadOptions { cache: Some(&cache), ..ReadOptions::default() };
            let found = read(&layout, &spec.all(), options).unwrap();
            prop_assert_eq!(found.as_slice(), model.bytes.as_slice());
        }
        // Empty shards do not exist. Bytes that no index refers to can be given back, once.
        let shards = layout.object_grid().counts(&spec.shape);
        let all = spec.all();
        let plan = Plan::new(&layout, &all).unwrap();
        let by_shard = ShardPlan::new(&layout, layout.sharding().unwrap(), &plan).unwrap();
        prop_assert_eq!(by_shard.len() as u64, shards.iter().product::<u64>());
        let mut task = Task::default();
        for number in 0..by_shard.len() {
            by_shard.shard(number, &mut task);
            let mut key = String::new();
            layout.locate(&task.chunk, &mut key).unwrap();
            let size = || store.size(Key::new(&key).unwrap()).unwrap();
            let before = size();
            let dead = compact(&layout, &task.chunk, true).unwrap();
            prop_assert_eq!(size(), before);
            prop_assert_eq!(compact(&layout, &task.chunk, false).unwrap(), dead);
            prop_assert_eq!(size(), before.map(|size| size - dead));
            prop_assert_eq!(compact(&layout, &task.chunk, false).unwrap(), 0);
            prop_assert!(dead == 0 || which != 1, "only shared shards keep what was replaced");
        }
        check(&layout);
    }
}

#[test]
fn one_open_and_one_read_for_each_run() {
    for codecs in [0, 1] {
        let spec = Spec { codecs, ..Spec::plain(&[64, 100], &[1, 100], "<f8") };
        let memory = MemoryStore::new();
        let bytes = filled(&layout(&spec, &[Level::simple(&[64, 1])], Arc::new(memory.clone())));
        let counting = Arc::new(Counting::new(&memory, true));
        let layout = layout(&spec, &[Level::simple(&[64, 1])], counting.clone());
        let read_rows = |step: i64| {
            let rows = Index::Slice { start: None, stop: None, step };
            let selection = select(&spec.shape, &[rows]);
            let before = counting.counts();
            let found = read(&layout, &selection, on(1)).unwrap();
            for (n, row) in found.as_slice().chunks(800).enumerate() {
                assert_eq!(row, &bytes[n * step as usize * 800..][..800]);
            }
            let after = counting.counts();
            [after[0] - before[0], after[1] - before[1], after[2] - before[2]]
        };
        // The index, and all rows as one run.
        let [opens, reads, _] = read_rows(1);
        assert_eq!((opens, reads), (1, 2));
        // The index, and every second row.
        let [opens, reads, read] = read_rows(2);
        assert_eq!((opens, reads), (1, 33));
        if codecs == 0 {
            assert_eq!(read, 32 * 800 + 64 * 16 + 4);
        }
    }
}

#[test]
fn chunks_of_many_shards_are_located_in_one_round_for_each_depth() {
    // 40 shards along an axis. The request takes a chunk of every second shard, or of all. An index
    // has 36 bytes. Shards that are decoded as a whole need no further request.
    let together = crate::costs::INDEXES_AT_ONCE / 36;
    for (levels, coded, deeper) in [(1, false, 0), (2, false, 1), (3, false, 2), (1, true, 0), (2, true, 0)] {
        let factor = 2u64.pow(levels);
        let spec = Spec::plain(&[40 * factor, 3], &[1, 3], "<f8");
        let mut all = vec![Level::simple(&[2, 1]); levels as usize];
        all.last_mut().unwrap().coded = coded;
        let memory = MemoryStore::new();
        filled(&layout(&spec, &all, Arc::new(memory.clone())));
        for (step, at_once) in [(factor, 64), (2 * factor, 64), (factor, 16)] {
            let counting = Arc::new(Counting::far(&memory, at_once));
            let layout = layout(&spec, &all, counting.clone());
            let every = Index::Slice { start: None, stop: None, step: step as i64 };
            // Looks the chunks up, but reads none of them.
            let explained = explain_read(&layout, &select(&spec.shape, &[every]), usize::MAX).unwrap();
            let shards = (40 * factor / step) as usize;
            assert_eq!((explained.chunks, explained.objects), (shards, shards));
            let calls = (0..shards).step_by(at_once).map(|first| at_once.min(shards - first));
            let rounds: usize = calls.map(|shards| 1 + deeper * shards.div_ceil(together)).sum();
            let found = counting.rounds.load(Relaxed);
            assert_eq!(found, rounds as u64, "{levels} levels, coded {coded}, {shards} shards");
            assert_eq!(counting.opens.load(Relaxed), shards as u64);
        }
    }
}

#[test]
fn of_plain_chunks_only_the_wanted_bytes_are_read() {
    let spec = Spec::plain(&[4, 4096], &[2, 4096], "<f8");
    let memory = MemoryStore::new();
    let bytes = filled(&layout(&spec, &[Level::simple(&[2, 1])], Arc::new(memory.clone())));
    let counting = Arc::new(Counting::new(&memory, true));
    let layout = layout(&spec, &[Level::simple(&[2, 1])], counting.clone());
    let selection = select(&spec.shape, &[Index::At(3), Index::range(100, 120)]);
    assert_eq!(get(&layout, &selection).as_slice(), &bytes[(3 * 4096 + 100) * 8..][..160]);
    assert_eq!(counting.bytes.load(Relaxed), 160 + 2 * 16 + 4);
}

#[test]
fn what_is_wrong_with_a_shard_is_told() {
    let spec = Spec { codecs: 1, ..Spec::plain(&[8], &[2], "<i4") };
    let memory = MemoryStore::new();
    let store: Arc<dyn Store> = Arc::new(memory.clone());
    let level = Level { crc: false, ..Level::simple(&[4]) };
    let layout = layout(&spec, &[level], store.clone());
    let bytes = filled(&layout);
    let key = Key::new("a/0").unwrap();
    let good = stored(&*store, "a/0");
    let index = good.len() - 64;
    let read_at = |from: i64| {
        let selection = select(&spec.shape, &[Index::range(from, from + 2)]);
        read(&layout, &selection, ReadOptions::default())
    };
    let put_entry = |entry: usize, offset: u64, len: u64| {
        let mut bad = good.clone();
        bad[index + 16 * entry..][..8].copy_from_slice(&offset.to_le_bytes());
        bad[index + 16 * entry + 8..][..8].copy_from_slice(&len.to_le_bytes());
        store.write(key, &[&bad]).unwrap();
    };
    let size = good.len() as u64;
    for (offset, len) in
        [(size, 1), (0, size + 1), (u64::MAX - 3, 8), (3, u64::MAX), (u64::MAX, 3), (index as u64, 5)]
    {
        put_entry(1, offset, len);
        let error = read_at(2).unwrap_err();
        let ArrayError::Shard { key, chunk, .. } = &error else { panic!("{error}") };
        assert_eq!((key.as_str(), chunk.as_deref()), ("a/0", Some(&[1][..])), "{error}");
        // A wrong entry does not keep other chunks from being read.
        assert_eq!(read_at(0).unwrap().as_slice(), &bytes[..8]);
        // But nothing is written with such an index.
        let before = memory.size(Key::new("a/0").unwrap()).unwrap();
        let one = select(&spec.shape, &[Index::At(0)]);
        let error = write(&layout, &one, &Source::repeat(&[9; 4], &[]), WriteOptions::default()).unwrap_err();
        assert!(matches!(error, ArrayError::Shard { .. }), "{error}");
        assert!(compact(&layout, &[0], false).is_err());
        assert_eq!(memory.size(Key::new("a/0").unwrap()).unwrap(), before);
        assert_eq!(read_at(4).unwrap().as_slice(), &bytes[16..24]);
    }
    // Two entries share bytes: both are refused.
    put_entry(1, 0, 5);
    assert!(read_at(0).is_err() && read_at(2).is_err() && read_at(4).is_ok());
    for len in [0, 1, 63] {
        store.write(key, &[&good[..len]]).unwrap();
        let error = read_at(0).unwrap_err();
        assert!(matches!(&error, ArrayError::Shard { chunk: None, .. }), "{error}");
    }
    // The whole shard may be written anew.
    let all = spec.all();
    put(&layout, &all, &bytes);
    assert_eq!(get(&layout, &all).as_slice(), bytes);
}

#[test]
fn writers_of_one_shard_lose_nothing() {
    let spec = Spec { codecs: 1, ..Spec::plain(&[16, 64], &[1, 64], "<i4") };
    let dir = tempfile::tempdir().unwrap();
    for store in stores(dir.path()) {
        let layout = &layout(&spec, &[Level::simple(&[16, 1])], store.clone());
        std::thread::scope(|scope| {
            for row in 0..16i64 {
                scope.spawn(move || {
                    for round in 1..20u8 {
                        let row =
                            select(layout.shape(), &[Index::At(row), Index::range(i64::from(round), 64)]);
                        let value = [round; 4];
                        put_repeated(layout, &row, &value);
                    }
                });
            }
        });
        let found = get(layout, &Selection::all(layout.shape()));
        for (n, value) in found.as_slice().chunks(4).enumerate() {
            assert_eq!(value, [(n % 64).min(19) as u8; 4], "{n} in {store:?}");
        }
    }
}

#[test]
fn the_error_of_a_write_is_the_cause_and_changes_nothing() {
    let spec = Spec { codecs: 5, ..Spec::plain(&[64, 64], &[1, 64], "<i4") };
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let layout = layout(&spec, &[Level::simple(&[64, 1])], store.clone());
    filled(&layout);
    let key = Key::new("a/0.0").unwrap();
    let mut bytes = stored(&*store, "a/0.0");
    // Somewhere among the inner chunks.
    let middle = bytes.len() / 3;
    bytes[middle] ^= 0xFF;
    store.write(key, &[&bytes]).unwrap();
    let part = select(&spec.shape, &[Index::ALL, Index::range(0, 60)]);
    for _ in 0..50 {
        let options = WriteOptions { threads: Some(4), ..WriteOptions::default() };
        let error = write(&layout, &part, &Source::repeat(&[9; 4], &part.shape()), options).unwrap_err();
        assert!(matches!(error, ArrayError::Codec { .. }), "{error}");
        assert!(stored(&*store, "a/0.0") == bytes);
    }
}

#[test]
fn errors_of_the_store_are_told_as_such() {
    let spec = Spec { codecs: 1, ..Spec::plain(&[8], &[2], "<i4") };
    let memory = MemoryStore::new();
    let counting = Arc::new(Counting::new(&memory, true));
    let layout = layout(&spec, &[Level::simple(&[4])], counting.clone());
    filled(&layout);
    counting.broken.store(true, Relaxed);
    let part = select(&spec.shape, &[Index::range(1, 5)]);
    let errors = [
        read(&layout, &part, ReadOptions::default()).unwrap_err(),
        write(&layout, &part, &Source::repeat(&[9; 4], &part.shape()), WriteOptions::default()).unwrap_err(),
        compact(&layout, &[0], false).unwrap_err(),
    ];
    for error in errors {
        assert!(
            matches!(&error, ArrayError::Store { source, .. } if source.to_string().contains("a/0")),
            "{error}"
        );
    }
}

#[test]
fn a_shard_of_nothing_is_given_back_as_a_whole() {
    let spec = Spec { codecs: 1, ..Spec::plain(&[8], &[2], "<i4") };
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let layout = layout(&spec, &[Level { crc: false, ..Level::simple(&[4]) }], store.clone());
    let key = Key::new("a/0").unwrap();
    store.write(key, &[b"dead", &[0xFF; 64]]).unwrap();
    assert_eq!(compact(&layout, &[0], true).unwrap(), 68);
    assert_eq!(compact(&layout, &[0], false).unwrap(), 68);
    assert!(!store.exists(key).unwrap());
    // A chunk without bytes is damage, and must stay visible.
    let mut index = [0xFF; 64];
    index[..16].fill(0);
    store.write(key, &[b"dead", &index]).unwrap();
    assert_eq!(compact(&layout, &[0], false).unwrap(), 4);
    assert_eq!(store.size(key).unwrap(), Some(64));
    assert!(read(&layout, &spec.all(), ReadOptions::default()).is_err());
}
