//! Reading with a cache gives what reading without one gives, whatever happens in between.

use super::model::{Packed, Spec, get, put, put_repeated, select, stored};
use crate::*;
use hyperslab_codec::ByteOrder;
use hyperslab_store::{Key, MemoryStore, Store};
use std::sync::Arc;

const SHAPE: [u64; 2] = [40, 60];

fn spec() -> Spec {
    Spec { codecs: 1, ..Spec::plain(&SHAPE, &[20, 30], "<i2") }
}

/// A cache that has room for `chunks` chunks.
fn room_for(chunks: usize) -> ChunkCache {
    ChunkCache::new(chunks * (20 * 30 * 2 + 512))
}

fn window(rows: (i64, i64), columns: (i64, i64)) -> Selection {
    select(&SHAPE, &[Index::range(rows.0, rows.1), Index::range(columns.0, columns.1)])
}

/// Writes ascending numbers that begin with `value`.
fn count_up(layout: &ArrayLayout, selection: &Selection, value: i16) {
    let len = selection.shape().iter().product::<u64>() as i16;
    let bytes: Vec<u8> = (0..len).flat_map(|n| (value + n).to_le_bytes()).collect();
    put(layout, selection, &bytes);
}

/// Reads with the cache. Checks that reading without a cache gives the same.
fn same(layout: &ArrayLayout, selection: &Selection, cache: &ChunkCache) -> Memory {
    let options = ReadOptions { cache: Some(cache), ..ReadOptions::default() };
    let found = read(layout, selection, options).unwrap();
    let expected = get(layout, selection);
    assert_eq!(found.as_slice(), expected.as_slice());
    assert!(cache.bytes() <= cache.limit());
    found
}

#[test]
fn hits_and_misses_are_exact() {
    let layout = spec().layout(&MemoryStore::new());
    count_up(&layout, &Selection::all(&SHAPE), 0);
    let cache = room_for(4);
    for (selection, hits, misses) in [
        (window((0, 5), (0, 5)), 0, 1),
        (window((3, 9), (2, 4)), 1, 1),
        (window((18, 22), (28, 32)), 2, 4),
        (Selection::all(&SHAPE), 6, 4),
        (window((7, 7), (0, 60)), 6, 4),
    ] {
        same(&layout, &selection, &cache);
        assert_eq!(cache.hits_and_misses(), (hits, misses));
    }
    assert_eq!(cache.bytes(), cache.limit());
    // Another layout of the same array finds the same cached chunks.
    let again = layout.with_shape(SHAPE.as_slice().into()).unwrap();
    same(&again, &window((0, 5), (0, 5)), &cache);
    assert_eq!(cache.hits_and_misses(), (7, 4));
    cache.clear();
    assert_eq!((cache.bytes(), cache.hits_and_misses()), (0, (7, 4)));
    same(&layout, &window((0, 5), (0, 5)), &cache);
    assert_eq!(cache.hits_and_misses(), (7, 5));
}

#[test]
fn changes_show_at_once() {
    let store = MemoryStore::new();
    let layout = spec().layout(&store);
    let cache = room_for(4);
    let one = window((2, 6), (1, 3));
    same(&layout, &one, &cache);
    assert_eq!((cache.bytes(), cache.hits_and_misses()), (0, (0, 1)), "absent chunks are not kept");
    let key = Key::new("a/0.0").unwrap();
    for value in 1..100 {
        count_up(&layout, &Selection::all(&SHAPE), value);
        same(&layout, &one, &cache);
        assert_eq!(same(&layout, &one, &cache).as_slice()[..2], (value + 121).to_le_bytes());
    }
    assert_eq!(cache.hits_and_misses(), (99, 100));
    assert!(store.delete(key).unwrap());
    assert!(same(&layout, &one, &cache).as_slice().iter().all(|byte| *byte == 0));
    assert_eq!(cache.bytes(), 0, "what is outdated goes");
    store.write(key, &[b"this is no zstd frame"]).unwrap();
    let options = ReadOptions { cache: Some(&cache), ..ReadOptions::default() };
    assert!(matches!(read(&layout, &one, options), Err(ArrayError::Codec { .. })));
    assert_eq!(cache.bytes(), 0);
}

#[test]
fn other_metadata_is_not_confused() {
    let store = MemoryStore::new();
    let first = spec();
    count_up(&first.layout(&store), &Selection::all(&SHAPE), 5);
    let cache = room_for(8);
    let specs = [
        first.clone(),
        Spec { stored: ByteOrder::Big, ..first.clone() },
        Spec { order: vec![1, 0], ..first.clone() },
        Spec { dtype: "<u2", ..first.clone() },
        Spec { fill: vec![1, 1], ..first.clone() },
        Spec { shape: vec![35, 41], ..first.clone() },
    ];
    for _ in 0..2 {
        for spec in &specs {
            let selection = select(&spec.shape, &[Index::range(1, 33), Index::range(29, 40)]);
            same(&spec.layout(&store), &selection, &cache);
        }
    }
    // The stored bytes stayed the same all the time.
    assert_eq!(cache.hits_and_misses().1, 4);
    // Other codecs refuse these bytes.
    let other = Spec { codecs: 2, ..first };
    let options = ReadOptions { cache: Some(&cache), ..ReadOptions::default() };
    assert!(read(&other.layout(&store), &window((0, 1), (0, 1)), options).is_err());
}

#[test]
fn other_stores_are_not_confused() {
    let cache = room_for(2);
    let stores = [MemoryStore::new(), MemoryStore::new()];
    for (n, store) in stores.iter().enumerate() {
        count_up(&spec().layout(store), &Selection::all(&SHAPE), n as i16 * 1000);
    }
    for _ in 0..3 {
        for (n, store) in stores.iter().enumerate() {
            let found = same(&spec().layout(store), &window((0, 1), (0, 1)), &cache);
            assert_eq!(found.as_slice(), (n as i16 * 1000).to_le_bytes());
        }
    }
    assert_eq!(cache.hits_and_misses(), (4, 2));
}

#[test]
fn unverified_bytes_do_not_pass_for_verified() {
    let store = MemoryStore::new();
    let layout = Spec { codecs: 4, ..spec() }.layout(&store);
    count_up(&layout, &Selection::all(&SHAPE), 5);
    let key = Key::new("a/0.0").unwrap();
    let mut bytes = stored(&store, "a/0.0");
    bytes[0] ^= 1;
    store.write(key, &[&bytes]).unwrap();
    let cache = room_for(8);
    let one = window((0, 1), (0, 1));
    let options =
        |verify| ReadOptions { cache: Some(&cache), verify: Some(verify), ..ReadOptions::default() };
    for _ in 0..2 {
        assert_eq!(read(&layout, &one, options(false)).unwrap().as_slice(), [4, 0]);
        assert!(matches!(read(&layout, &one, options(true)), Err(ArrayError::Codec { .. })));
    }
    assert_eq!(cache.hits_and_misses(), (1, 3));
}

#[test]
fn parts_of_one_object_are_told_apart() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let source = MemoryStore::new();
    count_up(&spec().layout(&source), &Selection::all(&SHAPE), 0);
    let (mut object, mut ranges) = (b"header".to_vec(), Vec::new());
    for name in ["a/0.0", "a/0.1", "a/1.0"] {
        let bytes = stored(&source, name);
        ranges.push(Some((object.len() as u64, bytes.len() as u64, 0)));
        object.extend_from_slice(&bytes);
    }
    ranges.push(None);
    store.write(Key::new("packed").unwrap(), &[&object]).unwrap();
    let layout =
        spec().layout_with(store.clone(), Arc::new(Packed { counts: [2, 2].as_slice().into(), ranges }));
    let cache = room_for(4);
    for round in 1..4 {
        same(&layout, &Selection::all(&SHAPE), &cache);
        // Absent chunks are not looked up in the cache.
        assert_eq!(cache.hits_and_misses(), (3 * (round - 1), 3));
    }
    store.write(Key::new("packed").unwrap(), &[&object]).unwrap();
    same(&layout, &Selection::all(&SHAPE), &cache);
    assert_eq!(cache.hits_and_misses(), (6, 6));
}

#[test]
fn what_is_too_large_keeps_nothing() {
    let layout = spec().layout(&MemoryStore::new());
    count_up(&layout, &Selection::all(&SHAPE), 0);
    let small = room_for(1);
    same(&layout, &window((0, 40), (0, 1)), &small);
    assert_eq!((small.bytes(), small.hits_and_misses()), (0, (0, 2)));
    same(&layout, &window((0, 3), (0, 1)), &small);
    assert_eq!(small.bytes(), small.limit());
    same(&layout, &Selection::all(&SHAPE), &small);
    assert_eq!(small.hits_and_misses(), (1, 6), "but what is there is used");
    for limit in [0, 20 * 30 * 2 + 511] {
        let none = ChunkCache::new(limit);
        same(&layout, &window((0, 1), (0, 1)), &none);
        assert_eq!(none.bytes(), 0);
    }
}

#[test]
fn chunks_without_codecs_are_not_kept() {
    let layout = Spec { codecs: 0, ..spec() }.layout(&MemoryStore::new());
    count_up(&layout, &Selection::all(&SHAPE), 0);
    let cache = room_for(4);
    same(&layout, &window((0, 3), (0, 40)), &cache);
    assert_eq!((cache.bytes(), cache.hits_and_misses()), (0, (0, 0)));
}

#[test]
fn explain_tells() {
    let layout = spec().layout(&MemoryStore::new());
    count_up(&layout, &window((0, 20), (0, 60)), 1);
    let cache = room_for(4);
    same(&layout, &window((0, 1), (0, 1)), &cache);
    let counts = cache.hits_and_misses();
    let explained = explain_read_cached(&layout, &window((0, 40), (0, 31)), 0, Some(&cache)).unwrap();
    let expected = [(Strategy("cached"), 1), (Strategy("decode-scatter"), 1), (Strategy("fill"), 2)];
    assert_eq!(explained.strategies, expected);
    assert_eq!((explained.bytes_decoded, cache.hits_and_misses()), (20 * 30 * 2, counts));
    // Without a cache, only the wanted part is decoded.
    let explained = explain_read(&layout, &window((0, 1), (0, 1)), 0).unwrap();
    assert_eq!(explained.strategies, [(Strategy("decode-part"), 1)]);
    count_up(&layout, &window((0, 1), (0, 1)), 2);
    let explained = explain_read_cached(&layout, &window((0, 1), (0, 1)), 0, Some(&cache)).unwrap();
    assert_eq!(explained.strategies, [(Strategy("decode-scatter"), 1)]);
}

/// Readers with a cache never see a value older than the last one written before they began.
#[test]
fn readers_are_never_behind() {
    use std::sync::atomic::{AtomicI32, Ordering};
    let store = MemoryStore::new();
    let spec = Spec { codecs: 1, ..Spec::plain(&[64], &[16], "<i4") };
    let written: Vec<AtomicI32> = (0..4).map(|_| AtomicI32::new(0)).collect();
    let cache = ChunkCache::new(3 * (64 + 512));
    std::thread::scope(|scope| {
        let (spec, store, written, cache) = (&spec, &store, &written, &cache);
        scope.spawn(move || {
            let layout = spec.layout(store);
            for round in 1..=3000i32 {
                let n = (round % 4) as usize;
                let whole = Index::range(n as i64 * 16, n as i64 * 16 + 16);
                let whole = select(&[64], &[whole]);
                let value = round.to_le_bytes();
                put_repeated(&layout, &whole, &value);
                written[n].store(round, Ordering::SeqCst);
            }
        });
        for reader in 0..3usize {
            scope.spawn(move || {
                let layout = spec.layout(store);
                let options = ReadOptions { cache: Some(cache), ..ReadOptions::default() };
                for k in reader.. {
                    let least = written[k % 4].load(Ordering::SeqCst);
                    let at = select(&[64], &[Index::At((k % 64 / 4 + k % 4 * 16) as i64)]);
                    let found = read(&layout, &at, options).unwrap();
                    let value = i32::from_le_bytes(found.as_slice().try_into().unwrap());
                    assert!(value >= least, "{value}, after {least} was written");
                    if least >= 2997 {
                        break;
                    }
                }
            });
        }
    });
}
