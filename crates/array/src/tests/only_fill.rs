//! Writes of nothing but fill value visit only stored objects.

use super::counting::Counting;
use super::model::{Model, PerChunk, Spec, filled, get, put, select};
use super::properties::{index, spec, values};
use super::shards::{self, Level, level};
use crate::*;
use hyperslab_store::{Key, MemoryStore, Store};
use proptest::prelude::*;
use proptest::strategy::Strategy as Gen;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Writes fill value, repeated or as dense memory.
fn clear(layout: &ArrayLayout, selection: &Selection, dense: bool) {
    let fill = layout.fill().bytes().to_vec();
    let shape = selection.shape();
    let all = fill.repeat(if dense { shape.iter().product::<u64>() as usize } else { 1 });
    let source = match dense {
        true => Source::dense(&all, &shape, fill.len()).unwrap(),
        false => Source::repeated(&all, &shape),
    };
    write(layout, selection, &source, WriteOptions::default()).unwrap();
}

/// Compares writes of fill value after other writes with an array in plain memory.
fn compare(layout: &ArrayLayout, store: &dyn Store, steps: &[(Selection, u8)], dense: bool) {
    let fill = layout.fill().bytes();
    let empty = Model::full(layout.shape(), fill);
    let (mut model, all) = (empty.clone(), Selection::all(layout.shape()));
    for (selection, seed) in steps {
        let values = values(selection, fill.len(), *seed, fill);
        model.write(selection, &values);
        match seed % 4 {
            0 => clear(layout, selection, dense),
            _ => put(layout, selection, &values),
        }
        assert_eq!(get(layout, &all).as_slice(), &model.bytes);
    }
    clear(layout, &all, dense);
    assert_eq!(get(layout, &all).as_slice(), &empty.bytes);
    let reaches_past = (layout.shape().iter().zip(layout.object_grid().chunk_shape()))
        .any(|(len, chunk)| !len.is_multiple_of(*chunk));
    assert!(reaches_past || store.list(None).unwrap().is_empty());
}

fn case() -> impl Gen<Value = (Spec, Vec<(Selection, u8)>)> {
    spec().prop_flat_map(|spec| {
        let indices: Vec<_> = spec.shape.iter().map(|len| index(*len)).collect();
        let shape = spec.shape.clone();
        let selection = indices.prop_map(move |indices| select(&shape, &indices));
        let step = (selection, any::<u8>());
        (Just(spec), prop::collection::vec(step, 1..5))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn as_any_other_write((spec, steps) in case(), dense in any::<bool>(), sharded in any::<bool>(), level in level()) {
        let memory = MemoryStore::new();
        let far = Arc::new(Counting::far(&memory, 3));
        let stores: [Arc<dyn Store>; 2] = [Arc::new(memory.clone()), far];
        for store in stores {
            for key in memory.list(None).unwrap() {
                memory.delete(Key::new(&key).unwrap()).unwrap();
            }
            let layout = match sharded {
                true => shards::layout(&spec, std::slice::from_ref(&level), store),
                false => spec.layout_with(store, Arc::new(PerChunk("a"))),
            };
            compare(&layout, &memory, &steps, dense);
        }
    }
}

/// Ten million chunks, ten thousand in a row.
const MANY: [u64; 2] = [1000, 100_000];

#[test]
fn absent_chunks_are_not_visited() {
    let spec = Spec::plain(&MANY, &[1, 10], "<i4");
    let (store, seen) = (MemoryStore::new(), Arc::new(AtomicUsize::new(0)));
    let counter = seen.clone();
    let layout = spec.watched(&store, move |_| {
        counter.fetch_add(1, Relaxed);
    });
    let fill = |row: i64, column: i64| {
        let one = select(&MANY, &[Index::At(row), Index::At(column)]);
        put(&layout, &one, &[1, 2, 3, 4]);
    };
    (0..10).for_each(|n| fill(100 * n, 9_999 * n));
    assert_eq!(store.list(None).unwrap().len(), 10);
    // All but the first row and the last two columns: the chunk of the last columns is changed.
    fill(500, 99_999);
    fill(500, 99_990);
    let visited = |indices: &[Index<'_>]| {
        seen.store(0, Relaxed);
        clear(&layout, &select(&MANY, indices), false);
        seen.load(Relaxed)
    };
    assert!(visited(&[Index::range(1, 1000), Index::range(0, 99_998)]) <= 2 * 11);
    let mut left = store.list(None).unwrap();
    left.sort();
    assert_eq!(left, ["a/0.0", "a/500.9999"]);
    let some = get(&layout, &select(&MANY, &[Index::At(500), Index::range(99_990, 100_000)]));
    assert_eq!(some.as_slice()[..36], [0; 36]);
    assert_eq!(some.as_slice()[36..], [1, 2, 3, 4]);
    assert!(visited(&[]) <= 2 * 2);
    assert!(store.list(None).unwrap().is_empty());
    assert_eq!(visited(&[]), 0);
}

#[test]
fn whole_shards_are_deleted_unseen() {
    let spec = Spec::plain(&[40, 100], &[1, 1], "|u1");
    let store = MemoryStore::new();
    let layout = shards::layout(&spec, &[Level::simple(&[4, 50])], Arc::new(store.clone()));
    filled(&layout);
    assert_eq!(store.list(None).unwrap().len(), 20);
    clear(&layout, &select(&[40, 100], &[Index::range(0, 39)]), false);
    assert_eq!(store.list(None).unwrap().len(), 2);
    let left = get(&layout, &spec.all());
    assert!(
        left.as_slice()[..3900].iter().all(|n| *n == 0) && left.as_slice()[3900..].iter().any(|n| *n != 0)
    );
}

/// Objects are deleted 1000 at a time.
#[test]
fn each_of_thousands_of_objects_is_deleted() {
    for shape in [[1, 2500], [3, 1001]] {
        let spec = Spec::plain(&shape, &[1, 1], "<i4");
        let memory = MemoryStore::new();
        let layout = spec.layout_with(Arc::new(Counting::far(&memory, 3)), Arc::new(PerChunk("a")));
        let all = Selection::all(&shape);
        put(&layout, &all, &vec![7; 4 * (shape[0] * shape[1]) as usize]);
        assert_eq!(memory.list(None).unwrap().len() as u64, shape[0] * shape[1]);
        clear(&layout, &all, false);
        assert!(memory.list(None).unwrap().is_empty());
        assert!(get(&layout, &all).as_slice().iter().all(|byte| *byte == 0));
    }
}
