//! Arrays of chunks of different shapes, against an array in plain memory.

use super::generated::{index, spec, values};
use super::model::{Model, PerChunk, Spec, elements, get, on, select};
use super::points::{Chosen, chosen};
use crate::*;
use hyperslab_codec::{Codec, DataType};
use hyperslab_store::{Key, MemoryStore, Store};
use proptest::prelude::*;
use proptest::strategy::Strategy as Gen;
use std::sync::Arc;

/// Lengths of chunks and how many of each, per axis.
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

/// An array, and its chunks; the last of an axis may reach past its end, and others lie behind.
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

/// Each stored object has the length that the shape of its chunk says, and something in it.
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
            let told = explain_read(&layout, selection, usize::MAX).unwrap();
            prop_assert_eq!(elements(&told) * layout.dtype().size() as u64, expected.len() as u64);
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
            let told = explain_read(&layout, selection, usize::MAX).unwrap();
            prop_assert_eq!(elements(&told), places.len() as u64);
            assert_eq!(get(&layout, selection).as_slice(), model.read_at(places));
        }
        assert_eq!(get(&layout, &spec.all()).as_slice(), model.bytes);
    }
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
