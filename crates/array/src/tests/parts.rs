//! Shards that are written in parts.
//!
//! For all parts and shards, the array holds the written elements, and each shard was put once.

use super::model::{Model, Spec, get, select};
use super::properties::spec;
use super::shards::{Level, layout, level};
use crate::*;
use hyperslab_store::{Key, MemoryStore, Store};
use proptest::prelude::*;
use std::sync::Arc;

/// All indices below these counts.
fn indices(counts: &[u64]) -> Vec<Dims> {
    counts.iter().fold(vec![Dims::new()], |found, count| {
        let longer = |index: &Dims, n| index.iter().copied().chain([n]).collect();
        found.iter().flat_map(|index| (0..*count).map(move |n| longer(index, n))).collect()
    })
}

/// The part of each inner chunk (of the outermost level) of a shard that lies inside the array.
fn parts_of(layout: &ArrayLayout, shape: &[u64], shard: &[u64]) -> Vec<Selection> {
    let level = &layout.sharding().unwrap().levels()[0];
    let parts = indices(level.counts()).into_iter().filter_map(|part| {
        let axes = part.iter().zip(shard).zip(level.shape().iter().zip(level.inner())).zip(shape);
        let ranges: Option<Vec<Index<'static>>> = axes
            .map(|(((part, shard), (whole, inner)), extent)| {
                let first = shard * whole + part * inner;
                (first < *extent).then(|| Index::range(first as i64, (first + inner).min(*extent) as i64))
            })
            .collect();
        Some(select(shape, &ranges?))
    });
    parts.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn parts_make_the_shard(
        spec in spec(),
        levels in prop::collection::vec(level(), 1..3),
        backwards in any::<bool>(),
    ) {
        let store = MemoryStore::new();
        let layout = layout(&spec, &levels, Arc::new(store.clone()));
        let element = layout.dtype().size();
        let mut model = Model::full(&spec.shape, &spec.fill);
        let bytes: Vec<u8> = (0..model.bytes.len()).map(|n| (n * 7 % 251) as u8).collect();
        model.write(&spec.all(), &bytes);
        for shard in indices(&layout.object_grid().counts(&spec.shape)) {
            let mut parts = parts_of(&layout, &spec.shape, &shard);
            if backwards {
                parts.reverse();
            }
            write_shard_in_parts(&layout, &shard, None, |shard| {
                parts.iter().try_for_each(|part| {
                    let values = model.read(part);
                    let source = Source::dense(&values, &part.shape(), element).unwrap();
                    shard.write(part, &source, WriteOptions::default())
                })
            })
            .map_err(|error: ArrayError| TestCaseError::fail(error.to_string()))?;
        }
        let found = get(&layout, &spec.all());
        prop_assert_eq!(found.as_slice(), model.bytes.as_slice());
    }
}

#[test]
fn what_is_no_part_is_refused_and_nothing_is_written() {
    let spec = Spec::plain(&[8, 6], &[2, 3], "<u4");
    let store = MemoryStore::new();
    let layout = layout(&spec, &[Level::simple(&[2, 2])], Arc::new(store.clone()));
    let part = |rows: [i64; 2], columns: [i64; 2]| {
        select(&spec.shape, &[Index::range(rows[0], rows[1]), Index::range(columns[0], columns[1])])
    };
    let write = |parts: &[Selection]| {
        write_shard_in_parts(&layout, &[0, 0], None, |shard| {
            parts.iter().try_for_each(|part| {
                let values = vec![7; part.shape().iter().product::<u64>() as usize * 4];
                shard.write(part, &Source::dense(&values, &part.shape(), 4).unwrap(), WriteOptions::default())
            })
        })
    };
    let refused = |parts: &[Selection]| {
        let error: ArrayError = write(parts).unwrap_err();
        assert!(store.list(None).unwrap().is_empty());
        error.to_string()
    };
    let twice = refused(&[part([0, 2], [0, 6]), part([0, 4], [3, 6])]);
    assert!(twice.contains("two parts of it hold the same inner chunk, number 1"), "{twice}");
    let beyond = refused(&[part([0, 4], [0, 3]), part([2, 6], [3, 6])]);
    assert!(beyond.contains("a part of it reaches into another shard"), "{beyond}");
    // Inner chunks in no part are absent. A shard without any is not stored.
    write(&[]).unwrap();
    assert!(store.list(None).unwrap().is_empty());
    write(&[part([2, 4], [3, 6])]).unwrap();
    assert!(store.size(Key::new("a/0.0").unwrap()).unwrap().is_some());
    let found = get(&layout, &spec.all());
    let sum: u32 = super::model::numbers(&found).iter().filter(|n| **n == 0x0707_0707).count() as u32;
    assert_eq!(sum, 6);
}
