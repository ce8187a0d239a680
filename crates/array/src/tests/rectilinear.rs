//! Arrays of chunks of different shapes, against an array in plain memory.

use super::counting::Counting;
use super::model::{Model, PerChunk, Spec, elements, get, on, select};
use super::points::{Chosen, chosen};
use super::properties::{index, spec, values};
use super::shards::{self, Level, level};
use crate::*;
use hyperslab_codec::{Codec, DataType};
use hyperslab_store::{Key, MemoryStore, Store};
use proptest::prelude::*;
use proptest::strategy::Strategy as Gen;
use std::sync::Arc;

/// Lengths of chunks and the number of each, per axis.
type Runs = Vec<Vec<(u64, u64)>>;

#[derive(Debug)]
struct Made {
    spec: Spec,
    codecs: Vec<Arc<dyn Codec>>,
}

impl MakeEncoding for Made {
    fn make(&self, shape: &[u64]) -> Result<ChunkEncoding, String> {
        let dtype: DataType = self.spec.dtype.parse().unwrap();
        ChunkEncoding::new(shape, dtype, self.spec.stored, &self.spec.order, self.codecs.clone())
    }
}

fn layout(spec: &Spec, runs: &Runs, store: &MemoryStore) -> ArrayLayout {
    let grid = ChunkGrid::rectilinear(runs).unwrap();
    let make = Made { spec: spec.clone(), codecs: spec.codec_list() };
    let encoding = make.make(grid.chunk_shape()).unwrap();
    let (dtype, fill) = (spec.dtype.parse().unwrap(), FillValue::new(&spec.fill));
    let (shape, locator) = (spec.shape.as_slice().into(), Arc::new(PerChunk("a")));
    let layout = ArrayLayout::new("a", shape, dtype, grid, encoding, fill, locator, Arc::new(store.clone()));
    layout.unwrap().with_shapes(Arc::new(make))
}

/// An array and its chunks. The last chunk of an axis may reach past the end, with others behind
/// it.
fn grid() -> impl Gen<Value = (Spec, Runs)> {
    spec().prop_flat_map(|spec| {
        let axes: Vec<_> = spec
            .shape
            .iter()
            .map(|len| {
                let len = *len;
                prop::collection::vec((1u64..6, 1u64..4), 1..8).prop_map(move |mut runs| {
                    let total: u64 = runs.iter().map(|(size, count)| size * count).sum();
                    if total < len {
                        runs.push((len - total, 1));
                    }
                    runs
                })
            })
            .collect();
        (Just(spec), axes)
    })
}

fn sizes(runs: &[(u64, u64)]) -> Vec<u64> {
    runs.iter().flat_map(|(size, count)| std::iter::repeat_n(*size, *count as usize)).collect()
}

/// Checks that each stored object has the length for its chunk's shape, and is not blank.
fn check_objects(spec: &Spec, runs: &Runs, layout: &ArrayLayout, store: &MemoryStore) {
    let sizes: Vec<Vec<u64>> = runs.iter().map(|axis| sizes(axis)).collect();
    for key in store.list(None).unwrap() {
        let name = key.strip_prefix("a/").unwrap();
        let chunk: Vec<u64> = if spec.shape.is_empty() {
            vec![]
        } else {
            name.split('.').map(|index| index.parse().unwrap()).collect()
        };
        let shape: Vec<u64> = chunk.iter().zip(&sizes).map(|(at, sizes)| sizes[*at as usize]).collect();
        assert_eq!(layout.grid().shape_of(&chunk).as_slice(), shape);
        if spec.codecs == 0 {
            let bytes = shape.iter().product::<u64>() * layout.dtype().size() as u64;
            assert_eq!(store.size(Key::new(&key).unwrap()).unwrap(), Some(bytes), "{key}");
        }
    }
}

fn slices(shape: Vec<u64>) -> impl Gen<Value = Selection> {
    let indices: Vec<_> = shape.iter().map(|len| index(*len)).collect();
    indices.prop_map(move |indices| select(&shape, &indices))
}

proptest! {
    #[test]
    fn slices_of_rectilinear_arrays(
        (spec, runs, writes, reads) in grid().prop_flat_map(|(spec, runs)| {
            let write = (slices(spec.shape.clone()), any::<u8>());
            let writes = prop::collection::vec(write, 0..4);
            let reads = prop::collection::vec(slices(spec.shape.clone()), 1..4);
            (Just(spec), Just(runs), writes, reads)
        }),
        threads in 1usize..4,
    ) {
        let store = MemoryStore::new();
        let layout = layout(&spec, &runs, &store);
        let mut model = Model::full(&spec.shape, &spec.fill);
        for (selection, seed) in &writes {
            let data = values(selection, layout.dtype().size(), *seed, &spec.fill);
            let source = Source::dense(&data, &selection.shape(), layout.dtype().size()).unwrap();
            write(&layout, selection, &source, WriteOptions { threads: Some(threads), ..WriteOptions::default() }).unwrap();
            model.write(selection, &data);
            check_objects(&spec, &runs, &layout, &store);
        }
        let cache = ChunkCache::new(1 << 20);
        for selection in reads.iter().chain([&spec.all()]) {
            let expected = model.read(selection);
            let explained = explain_read(&layout, selection, usize::MAX).unwrap();
            prop_assert_eq!(elements(&explained) * layout.dtype().size() as u64, expected.len() as u64);
            assert_eq!(read(&layout, selection, on(threads)).unwrap().as_slice(), expected.as_slice());
            let cached = ReadOptions { cache: Some(&cache), ..on(threads) };
            assert_eq!(read(&layout, selection, cached).unwrap().as_slice(), expected.as_slice());
        }
    }

    #[test]
    fn points_of_rectilinear_arrays(
        (spec, runs, writes, reads) in grid().prop_flat_map(|(spec, runs)| {
            let write = (chosen(spec.shape.clone()), any::<u8>());
            let writes = prop::collection::vec(write, 0..4);
            let reads = prop::collection::vec(chosen(spec.shape.clone()), 1..4);
            (Just(spec), Just(runs), writes, reads)
        }),
    ) {
        let store = MemoryStore::new();
        let layout = layout(&spec, &runs, &store);
        let mut model = Model::full(&spec.shape, &spec.fill);
        for (Chosen { selection, places, .. }, seed) in &writes {
            let data = values(selection, layout.dtype().size(), *seed, &spec.fill);
            let source = Source::dense(&data, &selection.shape(), layout.dtype().size()).unwrap();
            write(&layout, selection, &source, WriteOptions::default()).unwrap();
            model.write_at(places, &data);
            check_objects(&spec, &runs, &layout, &store);
        }
        for Chosen { selection, places, .. } in &reads {
            let explained = explain_read(&layout, selection, usize::MAX).unwrap();
            prop_assert_eq!(elements(&explained), places.len() as u64);
            assert_eq!(get(&layout, selection).as_slice(), model.read_at(places));
        }
        assert_eq!(get(&layout, &spec.all()).as_slice(), model.bytes);
    }
}

/// An array, levels of shards, and its shards: for each axis, the inner chunks per shard and the
/// number of such shards. The last shard of an axis may reach past the end, with others behind it.
fn sharded() -> impl Gen<Value = (Spec, Vec<Level>, Runs)> {
    (spec(), prop::collection::vec(level(), 1..4)).prop_flat_map(|(spec, levels)| {
        let inner = Level::shape(&levels[..levels.len() - 1], &spec.chunk);
        let axes: Vec<_> = (spec.shape.iter().zip(inner))
            .map(|(len, inner)| {
                let chunks = len.div_ceil(inner);
                prop::collection::vec((1u64..5, 1u64..3), 1..6).prop_map(move |mut runs| {
                    let total: u64 = runs.iter().map(|(size, count)| size * count).sum();
                    if total < chunks {
                        runs.push((chunks - total, 1));
                    }
                    runs
                })
            })
            .collect();
        (Just(spec), Just(levels), axes)
    })
}

/// One of three stores. The second reads shards whole, the third opens several at once.
fn store(which: usize) -> Arc<dyn Store> {
    match which {
        0 => Arc::new(MemoryStore::new()),
        1 => Arc::new(Counting::new(&MemoryStore::new(), false)),
        _ => Arc::new(Counting::far(&MemoryStore::new(), 3)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn shards_of_different_shapes_change_no_value(
        (spec, levels, runs, writes, reads) in sharded().prop_flat_map(|(spec, levels, runs)| {
            let write = (chosen(spec.shape.clone()), any::<u8>());
            let writes = prop::collection::vec(write, 0..4);
            let reads = prop::collection::vec(chosen(spec.shape.clone()), 1..4);
            (Just(spec), Just(levels), Just(runs), writes, reads)
        }),
        slices in any::<prop::sample::Index>(),
        threads in 1usize..4,
        which in 0usize..3,
    ) {
        let store = store(which);
        let layout = shards::rectilinear(&spec, &levels, &runs, store.clone());
        let element = layout.dtype().size();
        let mut model = Model::full(&spec.shape, &spec.fill);
        for (n, (Chosen { selection, places, .. }, seed)) in writes.iter().enumerate() {
            let data = values(selection, element, *seed, &spec.fill);
            let source = Source::dense(&data, &selection.shape(), element).unwrap();
            let options = WriteOptions { threads: Some(threads), ..WriteOptions::default() };
            if n == slices.index(writes.len()) {
                // Write the whole array, once.
                let all = spec.all();
                let data = values(&all, element, *seed, &spec.fill);
                write(&layout, &all, &Source::dense(&data, &spec.shape, element).unwrap(), options).unwrap();
                model.write(&all, &data);
            }
            write(&layout, selection, &source, options).unwrap();
            model.write_at(places, &data);
        }
        let check = || {
            for Chosen { selection, places, .. } in &reads {
                let explained = explain_read(&layout, selection, usize::MAX).unwrap();
                assert_eq!(elements(&explained), places.len() as u64);
                assert_eq!(read(&layout, selection, on(threads)).unwrap().as_slice(), model.read_at(places));
            }
            assert_eq!(read(&layout, &spec.all(), on(threads)).unwrap().as_slice(), model.bytes);
            let cache = ChunkCache::new(1 << 20);
            for _ in 0..2 {
                let options = ReadOptions { cache: Some(&cache), ..on(threads) };
                assert_eq!(read(&layout, &spec.all(), options).unwrap().as_slice(), model.bytes);
            }
        };
        check();
        // The index of a shard has as many inner chunks as fit the shard's shape. Empty shards are
        // not stored.
        let inner = layout.sharding().unwrap().levels()[0].inner().to_vec();
        for key in store.list(None).unwrap() {
            let name = key.strip_prefix("a/").unwrap();
            let place: Vec<u64> = match spec.shape.len() {
                0 => vec![],
                _ => name.split('.').map(|index| index.parse().unwrap()).collect(),
            };
            let shape: Vec<u64> = (place.iter().zip(&runs).zip(&inner))
                .map(|((at, axis), inner)| sizes(axis)[*at as usize] * inner)
                .collect();
            assert_eq!(layout.object_grid().shape_of(&place).as_slice(), shape);
            let dead = compact(&layout, &place, true).unwrap();
            prop_assert_eq!(compact(&layout, &place, false).unwrap(), dead);
            prop_assert_eq!(compact(&layout, &place, false).unwrap(), 0);
        }
        check();
    }

    #[test]
    fn parts_of_elements_in_shards_of_different_shapes(
        (spec, levels, runs) in sharded(), seed in any::<u8>(), start in 0usize..8, len in 1usize..8,
    ) {
        let layout = shards::rectilinear(&spec, &levels, &runs, Arc::new(MemoryStore::new()));
        let all = spec.all();
        let bytes = values(&all, layout.dtype().size(), seed, &spec.fill);
        super::model::put(&layout, &all, &bytes);
        if let Some(part) = layout.part(start..start + len, false) {
            let found = get(part.layout(), &part.of(spec.all()));
            let expected: Vec<u8> =
                bytes.chunks(layout.dtype().size()).flat_map(|element| &element[start..start + len]).copied().collect();
            prop_assert_eq!(found.as_slice(), expected);
        }
    }
}

#[test]
fn shards_that_fit_no_grid_are_refused() {
    let spec = Spec::plain(&[12], &[2], "|u1");
    let sharding = || shards::sharding(&spec, &[Level::simple(&[4])]);
    let in_grid = |runs: &[(u64, u64)]| sharding().in_grid(ChunkGrid::rectilinear(&[runs.to_vec()]).unwrap());
    assert!(in_grid(&[(8, 1), (3, 1), (1, 1)]).unwrap_err().contains("do not divide a shard of 3 evenly"));
    assert!(in_grid(&[(4, 3)]).unwrap_err().contains("whose largest have [4]"));
    let short = in_grid(&[(8, 1), (2, 1)]).unwrap();
    let plain = || spec.layout_with(Arc::new(MemoryStore::new()), Arc::new(PerChunk("a")));
    let error = plain().with_sharding(short).unwrap_err().to_string();
    assert!(error.contains("do not cover the shape [12]"), "{error}");
    let layout = plain().with_sharding(in_grid(&[(8, 1), (4, 1)]).unwrap()).unwrap();
    assert!(layout.with_shape([13].as_slice().into()).is_err());
    assert_eq!(
        layout.with_shape([11].as_slice().into()).unwrap().object_grid().counts(&[11]).as_slice(),
        [2]
    );
}

#[test]
fn a_shape_that_the_codecs_do_not_take_is_named() {
    #[derive(Debug)]
    struct Odd(Made);
    impl MakeEncoding for Odd {
        fn make(&self, shape: &[u64]) -> Result<ChunkEncoding, String> {
            if shape == [2] { Err("no even ones".into()) } else { self.0.make(shape) }
        }
    }
    let spec = Spec::plain(&[5], &[3], "|u1");
    let store = MemoryStore::new();
    let made = Made { spec: spec.clone(), codecs: vec![] };
    let layout = layout(&spec, &vec![vec![(3, 1), (2, 1)]], &store).with_shapes(Arc::new(Odd(made)));
    assert_eq!(get(&layout, &select(&[5], &[Index::range(0, 3)])).as_slice(), [0; 3]);
    let error = read(&layout, &spec.all(), ReadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("chunk [1] of shape [2]: no even ones"), "{error}");
}

#[test]
fn chunks_that_do_not_cover_the_array_are_refused() {
    let grid = ChunkGrid::rectilinear(&[vec![(3, 1), (2, 1)]]).unwrap();
    let spec = Spec::plain(&[6], &[3], "|u1");
    let made = Made { spec, codecs: vec![] };
    let store = Arc::new(MemoryStore::new());
    let layout = ArrayLayout::new(
        "a",
        [6].as_slice().into(),
        "|u1".parse().unwrap(),
        grid,
        made.make(&[3]).unwrap(),
        FillValue::zero(1),
        Arc::new(PerChunk("a")),
        store,
    );
    assert!(layout.unwrap_err().to_string().contains("do not cover"));
}
