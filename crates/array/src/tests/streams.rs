//! Read-ahead: rows in order, chunks decoded once, memory bounded, errors in their place.

use super::model::{Foreign, Model, Spec, filled, happens, select};
use crate::*;
use hyperslab_store::{Key, MemoryStore, Store};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn options(ahead: Option<u64>, threads: usize) -> StreamOptions {
    StreamOptions { ahead, threads: Some(threads), verify: None }
}

/// An array of known values, and the same values in plain memory.
fn known(spec: &Spec) -> (MemoryStore, Arc<ArrayLayout>, Model) {
    let store = MemoryStore::new();
    let layout = Arc::new(spec.layout(&store));
    let (shape, element) = (spec.shape.clone(), layout.dtype().size());
    let model = Model { shape, element, bytes: filled(&layout) };
    (store, layout, model)
}

fn row_of(spec: &Spec, axis: usize, index: u64) -> Selection {
    let mut indices = vec![Index::ALL; spec.shape.len()];
    indices[axis] = Index::At(index as i64);
    select(&spec.shape, &indices)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn rows_are_what_indexing_gives(
        shape in prop::collection::vec(prop_oneof![8 => 1u64..12, 1 => Just(0u64)], 1..4),
        chunk in prop::collection::vec(1u64..9, 3),
        codecs in 0u8..8,
        axis in 0usize..3,
        bounds in (0u64..13, 0u64..13),
        ahead in prop::option::of(prop_oneof![Just(0u64), 1u64..3000]),
        threads in 1usize..5,
    ) {
        let axis = axis % shape.len();
        let order = (0..shape.len()).rev().collect();
        let spec = Spec { codecs, order, ..Spec::plain(&shape, &chunk[..shape.len()], "<i4") };
        let (_, layout, model) = known(&spec);
        let stop = bounds.0.max(bounds.1).min(shape[axis]);
        let start = bounds.0.min(bounds.1).min(stop);
        let mut stream = Stream::new(layout, axis, start..stop, options(ahead, threads)).unwrap();
        for index in start..stop {
            prop_assert_eq!(stream.remaining(), stop - index);
            let row = stream.next().unwrap().unwrap();
            let selection = row_of(&spec, axis, index);
            prop_assert_eq!(stream.row_shape(), selection.shape());
            prop_assert_eq!(row.index, index);
            prop_assert_eq!(row.memory.as_slice(), model.read(&selection));
        }
        prop_assert_eq!(stream.remaining(), 0);
        prop_assert!(stream.next().is_none());
        prop_assert!(stream.next().is_none());
    }
}

#[test]
fn every_chunk_is_read_once_and_workers_take_part() {
    let spec = Spec { codecs: 1, ..Spec::plain(&[64, 90_000], &[3, 30_000], "<i4") };
    let (store, _, _) = known(&spec);
    let seen: Arc<Mutex<HashMap<Vec<u64>, usize>>> = Arc::default();
    let threads: Arc<Mutex<std::collections::HashSet<std::thread::ThreadId>>> = Arc::default();
    let (chunks, who) = (seen.clone(), threads.clone());
    let layout = spec.watched(&store, move |chunk| {
        *chunks.lock().unwrap().entry(chunk.to_vec()).or_default() += 1;
        who.lock().unwrap().insert(std::thread::current().id());
        std::thread::sleep(Duration::from_millis(1));
    });
    assert_eq!(Stream::new(layout, 0, 0..64, options(None, 3)).unwrap().map(Result::unwrap).count(), 64);
    assert_eq!(seen.lock().unwrap().len(), 22 * 3);
    assert!(seen.lock().unwrap().values().all(|n| *n == 1));
    assert!(threads.lock().unwrap().len() >= 2);
}

#[test]
fn what_is_under_way_is_bounded() {
    // Blocks of at least 512 KiB: several chunks of 40 kB together, and chunks of 1 MB.
    for (shape, chunk) in [([600, 10_000], [1, 10_000]), ([40, 500_000], [2, 125_000])] {
        let spec = Spec { codecs: 1, ..Spec::plain(&shape, &chunk, "<i4") };
        let (_, layout, _) = known(&spec);
        for (ahead, bound) in [(Some(9 << 20), 9 << 20), (Some(0), 4_000_000), (None, 64 << 20)] {
            let mut stream = Stream::new(layout.clone(), 0, 0..shape[0], options(ahead, 4)).unwrap();
            for n in 0..shape[0] {
                // A slow consumer lets workers get as far as they may.
                if n % (shape[0] / 4) == 0 {
                    std::thread::sleep(Duration::from_millis(20));
                }
                assert_eq!(stream.next().unwrap().unwrap().index, n);
            }
            assert!(stream.most_bytes() <= bound, "{} bytes of {bound}", stream.most_bytes());
        }
    }
}

#[test]
fn a_stream_ahead_of_a_slow_consumer_has_read_everything() {
    let spec = Spec { codecs: 1, ..Spec::plain(&[8, 200_000], &[1, 200_000], "<i4") };
    let (store, _, _) = known(&spec);
    let begun = Arc::new(AtomicUsize::new(0));
    let count = begun.clone();
    let layout = spec.watched(&store, move |_| {
        count.fetch_add(1, Relaxed);
    });
    let stream = Stream::new(layout, 0, 0..8, options(None, 2)).unwrap();
    assert!(happens(|| begun.load(Relaxed) == 8));
    assert_eq!(stream.map(|row| row.unwrap().index).collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
    assert_eq!(begun.load(Relaxed), 8);
}

#[test]
fn errors_come_in_their_place_and_end_the_stream() {
    let spec = Spec { codecs: 1, ..Spec::plain(&[30, 150_000], &[2, 150_000], "<i4") };
    let (store, layout, _) = known(&spec);
    for chunk in ["a/9.0", "a/12.0"] {
        store.write(Key::new(chunk).unwrap(), &[b"damaged"]).unwrap();
    }
    for threads in [1, 2, 4] {
        let mut stream = Stream::new(layout.clone(), 0, 0..30, options(None, threads)).unwrap();
        for n in 0..18 {
            assert_eq!(stream.next().unwrap().unwrap().index, n);
        }
        let error = stream.next().unwrap().unwrap_err();
        assert!(matches!(&error, ArrayError::Codec { chunk, .. } if chunk == &[9, 0]), "{error}");
        assert!(stream.next().is_none());
        assert_eq!(stream.remaining(), 0);
    }
}

#[test]
fn dropping_cancels() {
    let spec = Spec { codecs: 1, ..Spec::plain(&[1000, 200_000], &[1, 200_000], "|u1") };
    let store = MemoryStore::new();
    let begun = Arc::new(AtomicUsize::new(0));
    let count = begun.clone();
    let layout = spec.watched(&store, move |_| {
        count.fetch_add(1, Relaxed);
        std::thread::sleep(Duration::from_millis(1));
    });
    let weak = Arc::downgrade(&layout);
    let mut stream = Stream::new(layout, 0, 0..1000, options(None, 3)).unwrap();
    assert_eq!(stream.next().unwrap().unwrap().index, 0);
    drop(stream);
    // A worker inside a block leaves at its next chunk and lets go of everything.
    assert!(happens(|| weak.strong_count() == 0));
    assert!(begun.load(Relaxed) < 300, "{begun:?}");
}

#[test]
fn a_panic_is_the_consumers() {
    let spec = Spec { codecs: 1, ..Spec::plain(&[12, 200_000], &[1, 200_000], "<i4") };
    let layout = spec.watched(&MemoryStore::new(), |chunk| assert!(chunk[0] != 7, "boom"));
    let mut stream = Stream::new(layout, 0, 0..12, options(None, 2)).unwrap();
    for n in 0..7 {
        assert_eq!(stream.next().unwrap().unwrap().index, n);
    }
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| stream.next().is_some()));
    assert!(outcome.is_err());
    // The rows of the block are missing, so no later rows come.
    assert!(stream.next().is_none());
}

#[test]
fn what_nobody_waits_for_is_dropped_without_the_lock() {
    let spec = Spec { codecs: 1, ..Spec::plain(&[12, 200_000], &[1, 200_000], "<i4") };
    let stage = Arc::new(AtomicUsize::new(0));
    let seen = stage.clone();
    let layout = spec.watched(&MemoryStore::new(), move |_| {
        seen.store(1, Relaxed);
        assert!(happens(|| seen.load(Relaxed) == 2));
        std::panic::panic_any(Foreign(seen.clone()));
    });
    let mut stream = Stream::new(layout, 0, 0..12, options(None, 2)).unwrap();
    assert!(happens(|| stage.load(Relaxed) == 1));
    stream.close();
    stage.store(2, Relaxed);
    assert!(Foreign::is_dropped_beside(&stage, || stream.close()));
}

#[test]
fn interruption_ends_it() {
    let spec = Spec { codecs: 1, ..Spec::plain(&[12, 200_000], &[1, 200_000], "<i4") };
    let (_, layout, _) = known(&spec);
    let mut stream = Stream::new(layout, 0, 0..12, options(None, 1)).unwrap();
    assert_eq!(stream.next_row(Some(&|| false)).unwrap().unwrap().index, 0);
    assert!(matches!(stream.next_row(Some(&|| true)), Some(Err(ArrayError::Interrupted { .. }))));
    assert!(stream.next_row(None).is_none());
}

#[test]
fn a_child_goes_on_by_itself() {
    let spec = Spec { codecs: 1, ..Spec::plain(&[40, 150_000], &[3, 150_000], "<i4") };
    let (_, layout, model) = known(&spec);
    // One thread, because workers of this process would wait for the lock for ever.
    for after in [0, 1, 7, 39] {
        let mut stream = Stream::new(layout.clone(), 0, 0..40, options(None, 1)).unwrap();
        assert!(stream.by_ref().take(after).all(|row| row.is_ok()));
        stream.as_in_a_child();
        for index in after as u64..40 {
            let row = stream.next().unwrap().unwrap();
            assert_eq!(
                (row.index, row.memory.as_slice()),
                (index, &model.read(&row_of(&spec, 0, index))[..])
            );
        }
        assert!(stream.next().is_none());
    }
    let mut stream = Stream::new(layout, 0, 0..40, options(None, 1)).unwrap();
    stream.as_in_a_child();
    drop(stream);
}

#[test]
fn absurd_rows() {
    // More bytes than exist: the error of a read, not a panic and not a hang.
    let spec = Spec::plain(&[1 << 40, 1 << 40, 1 << 40], &[1 << 10, 1 << 10, 1], "<f8");
    let layout = Arc::new(spec.layout(&MemoryStore::new()));
    for axis in 0..3 {
        let mut stream = Stream::new(layout.clone(), axis, 5..1 << 40, options(None, 2)).unwrap();
        assert!(matches!(stream.next(), Some(Err(ArrayError::Memory { .. }))));
        assert!(stream.next().is_none());
    }
    // Any number of rows without elements.
    let empty = Spec::plain(&[i64::MAX as u64, 0], &[10, 10], "<f8");
    let layout = Arc::new(empty.layout(&MemoryStore::new()));
    let mut stream = Stream::new(layout.clone(), 0, 3..i64::MAX as u64, options(None, 2)).unwrap();
    assert_eq!((stream.next().unwrap().unwrap().index, stream.next().unwrap().unwrap().memory.len()), (3, 0));
    assert!(Stream::new(layout.clone(), 1, 0..0, options(None, 2)).unwrap().next().is_none());
    for (axis, rows) in [(2, 0..0), (1, 0..1), (1, 1..1)] {
        assert!(matches!(
            Stream::new(layout.clone(), axis, rows, options(None, 2)),
            Err(ArrayError::Index { .. })
        ));
    }
}

#[test]
fn huge_chunks_along_the_axis_are_read_in_parts() {
    // The rows of one chunk would take 1 TiB.
    let spec = Spec::plain(&[1 << 20, 1 << 18], &[1 << 20, 1 << 10], "<f4");
    let layout = Arc::new(spec.layout(&MemoryStore::new()));
    let mut stream = Stream::new(layout, 0, 0..1 << 20, options(None, 2)).unwrap();
    assert_eq!(stream.next().unwrap().unwrap().memory.len(), 1 << 20);
    assert!(stream.most_bytes() <= 512 << 20);
}
