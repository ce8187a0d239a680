//! Write-behind stores the same as direct writes, in order.
//!
//! Memory is bounded, and no error is lost.

use super::model::{Foreign, Model, Spec, get, happens, numbers, select};
use crate::error::ArrayError;
use crate::error::LocateError;
use crate::layout::locate::{ChunkList, ChunkLocator, Found, Location};
use crate::select::view::Source;
use crate::select::{Index, Selection};
use crate::write::write_behind::{Writer, WriterOptions};
use hyperslab_store::{MemoryStore, Store};
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

fn options(buffer: Option<u64>, threads: usize) -> WriterOptions {
    WriterOptions { buffer, threads: Some(threads), write_empty_chunks: None }
}

fn index() -> impl Strategy<Value = Index<'static>> {
    let step = prop_oneof![3 => Just(1i64), 1 => Just(2), 1 => Just(-1), 1 => Just(-3)];
    let bound = prop::option::of(-14i64..14);
    let slice =
        (bound.clone(), bound, step).prop_map(|(start, stop, step)| Index::Slice { start, stop, step });
    prop_oneof![2 => slice, 1 => Just(Index::ALL), 2 => (0i64..12).prop_map(Index::At)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_same_is_stored_as_by_direct_writes(
        chunk in prop::collection::vec(1u64..9, 2),
        codecs in 0u8..8,
        writes in prop::collection::vec((index(), index(), any::<u8>(), 0u8..4), 0..30),
        buffer in prop::option::of(prop_oneof![Just(0u64), 1u64..3000]),
        threads in 1usize..5,
        flush in any::<bool>(),
    ) {
        let spec = Spec { codecs, ..Spec::plain(&[12, 12], &chunk, "<i4") };
        let store = MemoryStore::new();
        let layout = Arc::new(spec.layout(&store));
        let mut model = Model::full(&spec.shape, &spec.fill);
        let writer = Writer::new(layout.clone(), options(buffer, threads));
        for (number, (first, second, seed, kind)) in writes.iter().enumerate() {
            let selection = select(&spec.shape, &[*first, *second]);
            let shape = selection.shape();
            let count = shape.iter().product::<u64>() as usize;
            let mut values: Vec<u8> = (0..count * 4).map(|i| (i as u8).wrapping_mul(31).wrapping_add(*seed)).collect();
            match kind {
                // One element everywhere.
                0 => {
                    let one = [*seed, 2, 3, 4];
                    model.write(&selection, &one.repeat(count));
                    writer.write(&selection, &Source::repeat(&one, &shape), None).unwrap();
                }
                // One row for all rows, with strides that run backwards.
                1 if shape.len() == 2 && count > 0 => {
                    let row = shape[1] as usize;
                    let mirrored: Vec<u8> =
                        values[..row * 4].chunks(4).rev().flatten().copied().collect::<Vec<u8>>().repeat(shape[0] as usize);
                    model.write(&selection, &mirrored);
                    let base = values[(row - 1) * 4..].as_ptr();
                    // SAFETY: one row of the values, from its end to its start.
                    let source = unsafe { Source::from_raw(base, &shape, &[0, -4]) };
                    writer.write(&selection, &source, None).unwrap();
                }
                _ => {
                    model.write(&selection, &values);
                    writer.write(&selection, &Source::dense(&values, &shape, 4).unwrap(), None).unwrap();
                }
            }
            // The caller may change its memory now.
            values.fill(0xEE);
            if flush && number % 7 == 3 {
                writer.flush(None).unwrap();
                let found = get(&layout, &spec.all());
                prop_assert_eq!(found.as_slice(), model.bytes.as_slice());
            }
        }
        drop(writer);
        let found = get(&layout, &spec.all());
        prop_assert_eq!(found.as_slice(), model.bytes.as_slice());
    }
}

#[test]
fn writes_to_one_chunk_keep_their_order_under_stress() {
    let spec = Spec { codecs: 1, ..Spec::plain(&[16, 8], &[4, 8], "<i4") };
    let store = MemoryStore::new();
    let layout = Arc::new(spec.layout(&store));
    let writer = Writer::new(layout.clone(), options(Some(4000), 5));
    for round in 0..3000i32 {
        let row = select(&spec.shape, &[Index::At((round * 7 % 16).into())]);
        writer.write(&row, &Source::repeat(&round.to_le_bytes(), &[8]), None).unwrap();
        if round % 10 == 0 {
            let all = spec.all();
            writer.write(&all, &Source::repeat(&round.to_le_bytes(), &spec.shape), None).unwrap();
        }
    }
    writer.flush(None).unwrap();
    let found = get(&layout, &spec.all());
    let found = numbers(&found);
    for row in 0..16 {
        // The last round that wrote this row, or the last one that wrote all rows.
        let last = (0..3000).rev().find(|round| round * 7 % 16 == row).unwrap().max(2990);
        assert!(found[row as usize * 8..][..8].iter().all(|n| *n == last as u32), "row {row}: {found:?}");
    }
}

#[test]
fn bounded_and_behind() {
    let spec = Spec { codecs: 1, ..Spec::plain(&[200, 25_000], &[1, 25_000], "<i4") };
    let store = MemoryStore::new();
    let active = Arc::new(AtomicUsize::new(0));
    let count = active.clone();
    let layout = spec.watched(&store, move |_| {
        count.fetch_add(1, Relaxed);
        std::thread::sleep(Duration::from_millis(1));
    });
    for (buffer, bound) in [(Some(1_000_000), 1_000_000), (Some(100_000), 100_000), (Some(1), 100_000)] {
        let writer = Writer::new(layout.clone(), options(buffer, 3));
        // A writer locates the first chunk to identify its array.
        assert_eq!(active.swap(0, Relaxed), 1);
        for row in 0..200i32 {
            let values = row.to_le_bytes().repeat(25_000);
            let source = Source::dense(&values, &[25_000], 4).unwrap();
            writer.write(&select(&spec.shape, &[Index::At(row.into())]), &source, None).unwrap();
        }
        writer.flush(None).unwrap();
        assert!(writer.most_bytes() <= bound, "{} bytes of {bound}", writer.most_bytes());
        assert!(buffer != Some(1_000_000) || writer.most_bytes() > 100_000);
        assert_eq!(active.swap(0, Relaxed), 200);
    }
}

#[test]
fn errors_are_raised_once_and_stop_nothing_else() {
    let spec = Spec { codecs: 1, ..Spec::plain(&[20, 10], &[1, 10], "<i4") };
    let store = MemoryStore::new();
    let damaged = |chunk: &[u64]| chunk[0] == 3 || chunk[0] == 12;
    let broken = Arc::new(AtomicBool::new(true));
    let on = broken.clone();
    // A chunk whose key leaves the store is refused when it is written.
    #[derive(Debug)]
    struct Broken(Arc<AtomicBool>, fn(&[u64]) -> bool);
    impl ChunkLocator for Broken {
        fn locate(&self, wanted: ChunkList<'_>, found: &mut Found) -> Result<(), LocateError> {
            for chunk in wanted.iter() {
                std::thread::sleep(Duration::from_millis(1));
                let damaged = self.0.load(Relaxed) && (self.1)(chunk);
                found.object(|key| {
                    key.push_str(if damaged { "../" } else { "a/" });
                    key.push_str(&chunk[0].to_string());
                });
                found.chunk(Location::Object);
            }
            Ok(())
        }
    }
    let layout = Arc::new(spec.layout_with(Arc::new(store.clone()), Arc::new(Broken(on, damaged))));
    let writer = Writer::new(layout.clone(), options(None, 3));
    let mut raised = Vec::new();
    for row in 0..20i32 {
        let at = select(&spec.shape, &[Index::At(row.into())]);
        let write = || writer.write(&at, &Source::repeat(&(row + 1).to_le_bytes(), &[10]), None);
        if let Err(error) = write() {
            raised.push(error.to_string());
            write().unwrap();
        }
    }
    raised.extend(writer.flush(None).err().map(|error| error.to_string()));
    // Two errors. If both happened between two calls, the earlier one is reported.
    let count = |chunk: &str| raised.iter().filter(|error| error.contains(chunk)).count();
    assert_eq!((count("chunk [3, 0]"), count("chunk [12, 0]")), (1, raised.len() - 1), "{raised:?}");
    writer.flush(None).unwrap();
    broken.store(false, Relaxed);
    let found = get(&layout, &spec.all());
    for row in 0..20i32 {
        let expected = if damaged(&[row as u64]) { 0 } else { row + 1 };
        assert_eq!(
            found.as_slice()[row as usize * 40..][..40],
            expected.to_le_bytes().repeat(10),
            "row {row}"
        );
    }
    assert_eq!(store.list(None).unwrap().len(), 18);
}

#[test]
fn requests_that_do_not_fit_are_refused_at_once() {
    let spec = Spec::plain(&[4, 6], &[2, 3], "<f4");
    let layout = Arc::new(spec.layout(&MemoryStore::new()));
    let writer = Writer::new(layout, options(None, 2));
    let all = spec.all();
    let outcome = writer.write(&all, &Source::repeat(&[0; 4], &[6, 4]), None);
    assert!(matches!(outcome, Err(ArrayError::Shape { .. })));
    let other = Selection::all(&[9, 9]);
    let outcome = writer.write(&other, &Source::repeat(&[0; 4], &[9, 9]), None);
    assert!(matches!(outcome, Err(ArrayError::Index { .. })));
    writer.flush(None).unwrap();
}

#[test]
fn rows_of_one_chunk_are_joined() {
    let spec = Spec { codecs: 1, ..Spec::plain(&[2, 100, 1000], &[1, 10, 600], "<i4") };
    let store = MemoryStore::new();
    let begun = Arc::new(AtomicUsize::new(0));
    let count = begun.clone();
    let layout = spec.watched(&store, move |_| {
        count.fetch_add(1, Relaxed);
        std::thread::sleep(Duration::from_millis(5));
    });
    let writer = Writer::new(layout.clone(), options(None, 2));
    let mut model = Model::full(&spec.shape, &spec.fill);
    for plane in 0..2i64 {
        for row in 0..100i64 {
            // Columns run backwards. Every third row repeats one element.
            let columns = Index::Slice { start: None, stop: None, step: -1 };
            let at = select(&spec.shape, &[Index::At(plane), Index::At(row), columns]);
            let mut values: Vec<u8> = (0..4000).map(|i| (i / 4 + row * 3 + plane) as u8).collect();
            if row % 3 == 0 {
                values = values[..4].repeat(1000);
                writer.write(&at, &Source::repeat(&values[..4], &[1000]), None).unwrap();
            } else {
                writer.write(&at, &Source::dense(&values, &[1000], 4).unwrap(), None).unwrap();
            }
            model.write(&at, &values);
        }
    }
    writer.flush(None).unwrap();
    // 40 chunks, each written in a few goes instead of 10.
    let begun = begun.load(Relaxed);
    assert!((40..200).contains(&begun), "{begun}");
    let found = get(&layout, &spec.all());
    assert!(found.as_slice() == model.bytes);
}

#[test]
fn an_array_that_grows() {
    let spec = Spec { codecs: 1, ..Spec::plain(&[0, 5], &[2, 5], "<i4") };
    let store = MemoryStore::new();
    let mut layout = Arc::new(spec.layout(&store));
    let writer = Writer::new(layout.clone(), options(None, 3));
    for row in 0..50u64 {
        layout = Arc::new(layout.with_shape([row + 1, 5].as_slice().into()).unwrap());
        let at = select(layout.shape(), &[Index::At(row as i64)]);
        writer.write_resized(&layout, &at, &Source::repeat(&(row as i32).to_le_bytes(), &[5]), None).unwrap();
    }
    writer.flush(None).unwrap();
    let found = get(&layout, &Selection::all(layout.shape()));
    let expected: Vec<u8> = (0..50i32).flat_map(|row| row.to_le_bytes().repeat(5)).collect();
    assert_eq!(found.as_slice(), expected);
}

#[test]
fn many_threads_with_one_writer() {
    let spec = Spec { codecs: 1, ..Spec::plain(&[64], &[16], "<i4") };
    let layout = Arc::new(spec.layout(&MemoryStore::new()));
    let writer = Writer::new(layout.clone(), options(Some(100), 3));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (writer, spec) = (&writer, &spec);
            scope.spawn(move || {
                for i in (thread..64).step_by(4).cycle().take(400) {
                    let value = (i as i32 * 3).to_le_bytes();
                    writer
                        .write(&select(&spec.shape, &[Index::At(i)]), &Source::repeat(&value, &[]), None)
                        .unwrap();
                    if i == 17 {
                        writer.flush(None).unwrap();
                    }
                }
            });
        }
    });
    writer.flush(None).unwrap();
    let found = get(&layout, &spec.all());
    assert_eq!(found.as_slice(), (0..64i32).flat_map(|i| (i * 3).to_le_bytes()).collect::<Vec<u8>>());
}

#[test]
fn a_panic_is_the_callers_and_interruption_gives_up() {
    let spec = Spec { codecs: 1, ..Spec::plain(&[8, 10], &[1, 10], "<i4") };
    let layout = spec.watched(&MemoryStore::new(), |chunk| assert!(chunk[0] != 5, "boom"));
    let writer = Writer::new(layout, options(None, 2));
    let write = |row: i64, stop: bool| {
        writer.write(
            &select(&spec.shape, &[Index::At(row)]),
            &Source::repeat(&[1; 4], &[10]),
            Some(&move || stop),
        )
    };
    write(5, false).unwrap();
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| writer.flush(None)));
    assert!(outcome.is_err());
    write(6, false).unwrap();
    writer.flush(None).unwrap();
    write(7, false).unwrap();
    // It is interrupted or already done, but never stuck.
    assert!(matches!(writer.flush(Some(&|| true)), Ok(()) | Err(ArrayError::Interrupted { .. })));
    writer.flush(None).unwrap();
}

#[test]
fn the_failure_that_is_not_kept_is_dropped_without_the_lock() {
    let spec = Spec { codecs: 1, ..Spec::plain(&[8, 10], &[1, 10], "<i4") };
    let stage = Arc::new(AtomicUsize::new(0));
    let seen = stage.clone();
    let layout = spec.watched(&MemoryStore::new(), move |chunk| match chunk[0] {
        1 => {
            assert!(happens(|| seen.load(Relaxed) == 1));
            panic!("the first");
        }
        2 => std::panic::panic_any(Foreign(seen.clone())),
        _ => {}
    });
    let writer = Writer::new(layout, options(None, 2));
    for row in [1, 2] {
        let at = select(&spec.shape, &[Index::At(row)]);
        writer.write(&at, &Source::repeat(&[1; 4], &[10]), None).unwrap();
    }
    stage.store(1, Relaxed);
    assert!(Foreign::is_dropped_beside(&stage, || assert!(writer.most_bytes() > 0)));
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| writer.flush(None)));
    assert_eq!(*outcome.unwrap_err().downcast::<&str>().unwrap(), "the first");
}

#[test]
fn a_child_writes_at_once() {
    let spec = Spec { codecs: 1, ..Spec::plain(&[8], &[2], "|u1") };
    let layout = Arc::new(spec.layout(&MemoryStore::new()));
    let mut writer = Writer::new(layout.clone(), options(None, 2));
    writer.as_in_a_child();
    writer.write(&select(&spec.shape, &[Index::At(3)]), &Source::repeat(&[9], &[]), None).unwrap();
    assert_eq!(get(&layout, &spec.all()).as_slice(), [0, 0, 0, 9, 0, 0, 0, 0]);
    writer.flush(None).unwrap();
}
