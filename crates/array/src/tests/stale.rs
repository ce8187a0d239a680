//! Handles that do not know the present length of the array.
//!
//! Elements that others have written past the end they know must stay.

use super::counting::Counting;
use super::model::{Model, Spec, get, put, select};
use super::properties::values;
use super::shards::{Level, layout, level};
use crate::select::{Index, Selection};
use hyperslab_store::{Key, LocalOptions, LocalStore, MemoryStore, Store};
use proptest::prelude::*;
use std::sync::Arc;

/// A part of an axis or, just as often, all of it.
fn index() -> impl Strategy<Value = Index<'static>> {
    let slice = (0i64..14, 0i64..14, prop_oneof![3 => Just(1i64), 1 => Just(2), 1 => Just(-1)]);
    let slice =
        slice.prop_map(|(start, stop, step)| Index::Slice { start: Some(start), stop: Some(stop), step });
    prop_oneof![2 => Just(Index::ALL), 2 => slice]
}

fn stores(dir: &std::path::Path) -> [Arc<dyn Store>; 3] {
    [
        Arc::new(MemoryStore::new()),
        Arc::new(LocalStore::open(dir, LocalOptions::default()).unwrap()),
        Arc::new(Counting::far(&MemoryStore::new(), 3)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn nothing_is_lost(
        chunk in prop::collection::vec(1u64..6, 2),
        levels in prop::collection::vec(level(), 0..3),
        codecs in 0u8..8,
        shapes in prop::collection::vec((1u64..13, 1u64..13), 1..4),
        writes in prop::collection::vec((0usize..4, index(), index(), any::<u8>()), 1..20),
    ) {
        let dir = tempfile::tempdir().unwrap();
        for store in stores(dir.path()) {
            let whole = Spec { codecs, ..Spec::plain(&[13, 13], &chunk, "<i4") };
            let shapes = shapes.iter().map(|(rows, columns)| vec![*rows, *columns]).chain([whole.shape.clone()]);
            let handles: Vec<_> = shapes.map(|shape| {
                let spec = Spec { shape, ..whole.clone() };
                match levels.as_slice() {
                    [] => spec.layout_with(store.clone(), Arc::new(super::model::PerChunk("a"))),
                    levels => layout(&spec, levels, store.clone()),
                }
            }).collect();
            let mut model = Model::full(&whole.shape, &whole.fill);
            for (handle, rows, columns, seed) in &writes {
                let handle = &handles[handle % handles.len()];
                let own = select(handle.shape(), &[*rows, *columns]);
                // The same elements of the longest array.
                let slice = |axis: &crate::select::axis::AxisSelection| {
                    let end = axis.first as i64 + axis.step * axis.len as i64;
                    Index::Slice { start: Some(axis.first as i64), stop: (end >= 0).then_some(end), step: axis.step }
                };
                let indices: Vec<Index<'_>> = own.axes().iter().map(slice).collect();
                if own.is_empty() {
                    continue;
                }
                let same: Selection = select(&whole.shape, &indices);
                prop_assert_eq!(same.shape(), own.shape());
                let values = values(&own, 4, *seed, &whole.fill);
                put(handle, &own, &values);
                model.write(&same, &values);
                let all = get(handles.last().unwrap(), &whole.all());
                prop_assert_eq!(all.as_slice(), model.bytes.as_slice());
            }
        }
    }
}

/// A damaged chunk is replaced by a writer that writes all of the chunk it knows of.
#[test]
fn damaged_chunks_at_the_edge_are_written_anew() {
    for (codecs, levels) in [(0, vec![]), (5, vec![]), (4, vec![Level::simple(&[2])])] {
        let spec = Spec { codecs, ..Spec::plain(&[7], &[4], "<i4") };
        let store = Arc::new(MemoryStore::new());
        let layout = match levels.as_slice() {
            [] => spec.layout(&store),
            levels => layout(&spec, levels, store.clone()),
        };
        let values: Vec<u8> = (1..=28).collect();
        put(&layout, &spec.all(), &values);
        for key in store.list(None).unwrap() {
            store.write(Key::new(&key).unwrap(), &[b"damaged, and of another size"]).unwrap();
        }
        let part = select(&spec.shape, &[Index::At(5)]);
        let refused = crate::write(
            &layout,
            &part,
            &crate::Source::repeat(&[1; 4], &[]),
            crate::WriteOptions::default(),
        );
        assert!(refused.is_err(), "{codecs}");
        put(&layout, &spec.all(), &values);
        assert_eq!(get(&layout, &spec.all()).as_slice(), values);
    }
}
