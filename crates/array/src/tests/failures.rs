//! Bad bytes and bad requests give typed errors that name array, chunk and key.
//!
//! Neighbouring chunks stay as they were.

use super::model::{Spec, filled, get, on, put_repeated, select, stored};
use crate::*;
use hyperslab_store::{Key, MemoryStore, Store};
use std::sync::Arc;

fn known(spec: &Spec) -> (MemoryStore, ArrayLayout, Vec<u8>) {
    let store = MemoryStore::new();
    let layout = spec.layout(&store);
    let values = filled(&layout);
    (store, layout, values)
}

#[test]
fn damaged_chunks_are_named() {
    for codecs in 0..8 {
        let spec = Spec { codecs, ..Spec::plain(&[4, 6], &[2, 3], "<f4") };
        let (store, layout, values) = known(&spec);
        let key = Key::new("a/1.0").unwrap();
        let good = stored(&store, "a/1.0");
        let mut long = good.clone();
        long.push(7);
        let bad: Vec<Vec<u8>> =
            vec![vec![], good[..good.len() - 1].to_vec(), long, vec![0xAB; 4096], good[..1].to_vec()];
        for bytes in bad {
            store.write(key, &[&bytes]).unwrap();
            for threads in [1, 3] {
                let error = read(&layout, &spec.all(), on(threads)).unwrap_err().to_string();
                assert!(
                    error.contains("'test'") && error.contains("[1, 0]") && error.contains("a/1.0"),
                    "{error}"
                );
            }
            // A partial write must read the chunk first: it fails and replaces nothing.
            let one = select(&spec.shape, &[Index::At(2), Index::At(0)]);
            let outcome = write(&layout, &one, &Source::repeat(&[1; 4], &[]), WriteOptions::default());
            assert!(outcome.is_err());
            assert_eq!(stored(&store, "a/1.0"), bytes);
            // Other chunks can still be read.
            let rows = select(&spec.shape, &[Index::range(0, 2)]);
            assert_eq!(get(&layout, &rows).as_slice(), &values[..48]);
        }
        // A whole chunk can be written over a damaged one.
        let part = select(&spec.shape, &[Index::range(2, 4), Index::range(0, 3)]);
        put_repeated(&layout, &part, &[3; 4]);
        assert_eq!(get(&layout, &part).as_slice(), [3; 24]);
    }
}

#[test]
fn every_flipped_bit_under_a_checksum_is_found() {
    let spec = Spec { codecs: 4, ..Spec::plain(&[6], &[6], "<i2") };
    let (store, layout, values) = known(&spec);
    let key = Key::new("a/0").unwrap();
    let good = stored(&store, "a/0");
    let all = spec.all();
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        store.write(key, &[&bad]).unwrap();
        assert!(matches!(read(&layout, &all, ReadOptions::default()), Err(ArrayError::Codec { .. })));
        let lax = ReadOptions { verify: Some(false), ..ReadOptions::default() };
        assert_eq!(read(&layout, &all, lax).unwrap().as_slice(), &bad[..12]);
        // Writing a part back under a good checksum would hide the damage.
        let one = select(&spec.shape, &[Index::At(0)]);
        assert!(write(&layout, &one, &Source::repeat(&[1; 2], &[]), WriteOptions::default()).is_err());
    }
    store.write(key, &[&good]).unwrap();
    assert_eq!(get(&layout, &all).as_slice(), values);
}

#[test]
fn shapes_must_fit() {
    let spec = Spec::plain(&[4, 6], &[2, 3], "<f4");
    let (_, layout, _) = known(&spec);
    let all = spec.all();
    let values = vec![0; 96];
    let source = Source::dense(&values, &[6, 4], 4).unwrap();
    let error = write(&layout, &all, &source, WriteOptions::default()).unwrap_err();
    assert!(
        matches!(&error, ArrayError::Shape { expected, found, .. } if expected == &[4, 6] && found == &[6, 4])
    );
    let mut memory = vec![0; 96];
    let mut target = Target::dense(&mut memory, &[24], 4).unwrap();
    assert!(matches!(
        read_into(&layout, &all, &mut target, ReadOptions::default()),
        Err(ArrayError::Shape { .. })
    ));
    // Memory with another element size, whatever its shape: a copy would leave the memory.
    for source in [Source::dense(&values, &[4, 6], 4).unwrap(), Source::repeat(&values[..4], &[4, 6])] {
        let wide = Spec::plain(&[4, 6], &[2, 3], "<f8").layout(&MemoryStore::new());
        let error = write(&wide, &all, &source, WriteOptions::default()).unwrap_err().to_string();
        assert!(error.contains("8 bytes") && error.contains("4"), "{error}");
    }
    // A selection of another array, or of this one before it shrank.
    for shape in [&[4, 7][..], &[5, 6], &[24], &[4, 6, 1], &[]] {
        let other = Selection::all(shape);
        let bytes = vec![0; shape.iter().product::<u64>() as usize * 4];
        let source = Source::dense(&bytes, shape, 4).unwrap();
        let outcomes = [
            read(&layout, &other, ReadOptions::default()).map(|_| ()),
            write(&layout, &other, &source, WriteOptions::default()),
            explain_read(&layout, &other, 0).map(|_| ()),
        ];
        for outcome in outcomes {
            assert!(matches!(outcome, Err(ArrayError::Index { .. })), "{shape:?}");
        }
    }
    let first = select(&[9, 9], &[Index::At(3), Index::range(4, 6)]);
    assert_eq!(get(&layout, &first).len(), 8);
    assert!(Source::dense(&values, &[5, 5], 4).is_none());
    assert!(Target::dense(&mut memory, &[u64::MAX, 2], 4).is_none());
}

#[test]
fn results_too_large_are_refused() {
    let spec = Spec::plain(&[1 << 40, 1 << 40], &[1, 1], "<f8");
    let layout = spec.layout(&MemoryStore::new());
    let outcome = read(&layout, &spec.all(), ReadOptions::default());
    assert!(matches!(outcome, Err(ArrayError::Memory { .. })));
    let corner = [Index::range(-1, i64::MAX), Index::At(-1)];
    let corner = select(&spec.shape, &corner);
    assert_eq!(get(&layout, &corner).as_slice(), [0; 8]);
}

#[test]
fn a_chunk_of_absurd_size_is_an_error_not_an_allocation() {
    // 2⁴⁶ elements in a chunk; the stored bytes decode to next to nothing.
    let spec = Spec { codecs: 1, ..Spec::plain(&[1 << 46], &[1 << 46], "|u1") };
    let store = MemoryStore::new();
    let layout = spec.layout(&store);
    let small = Spec { codecs: 1, ..Spec::plain(&[10], &[10], "|u1") };
    let (other, _, _) = known(&small);
    store.write(Key::new("a/0").unwrap(), &[&stored(&other, "a/0")]).unwrap();
    let first = select(&spec.shape, &[Index::At(0)]);
    let error = read(&layout, &first, ReadOptions::default()).unwrap_err();
    assert!(matches!(error, ArrayError::Codec { .. } | ArrayError::Memory { .. }), "{error}");
}

#[test]
fn interruption_stops_between_chunks() {
    let spec = Spec::plain(&[1000], &[1], "|u1");
    let store = MemoryStore::new();
    let layout = spec.layout(&store);
    let all = spec.all();
    let stop = || true;
    let options = WriteOptions { interrupt: Some(&stop), threads: Some(1), ..WriteOptions::default() };
    let outcome = write(&layout, &all, &Source::repeat(&[1], &[1000]), options);
    assert!(matches!(outcome, Err(ArrayError::Interrupted { .. })));
    assert_eq!(store.list(None).unwrap().len(), 1);
}

#[test]
fn any_number_of_chunks_can_be_planned() {
    let spec = Spec::plain(&[1 << 62], &[1], "|u1");
    let layout = spec.layout(&MemoryStore::new());
    let all = spec.all();
    assert_eq!(Plan::new(&layout, &all).unwrap().len(), 1 << 62);
    let explained = explain_read(&layout, &all, 2).unwrap();
    assert_eq!(
        (explained.chunks, explained.examined, explained.tasks.len()),
        (1 << 62, Explain::MOST_CHUNKS, 2)
    );
    assert!(explained.to_string().contains("the first 100000 in 100000 objects"), "{explained}");
    assert!(matches!(read(&layout, &all, ReadOptions::default()), Err(ArrayError::Memory { .. })));
    let square = Spec::plain(&[1 << 62, 1 << 62], &[1, 1], "|u1");
    let layout = square.layout(&MemoryStore::new());
    assert!(Plan::new(&layout, &square.all()).is_none());
    // More chunks than can be counted: the first ones are described.
    let explained = explain_write(&layout, &square.all(), 2).unwrap();
    assert_eq!(
        (explained.chunks, explained.examined, explained.tasks.len()),
        (usize::MAX, Explain::MOST_CHUNKS, 2)
    );
    let axes = Spec::plain(&[2; 64], &[1; 64], "|u1");
    let explained = explain_read(&axes.layout(&MemoryStore::new()), &axes.all(), 1).unwrap();
    assert_eq!((explained.chunks, explained.examined), (usize::MAX, Explain::MOST_CHUNKS / 8));
    let step = Index::Slice { start: Some(5), stop: None, step: 1 << 61 };
    let few = select(&square.shape, &[step, Index::At(-1)]);
    let plan = Plan::new(&layout, &few).unwrap();
    let mut task = Task::default();
    plan.task(&layout, 1, &mut task);
    assert_eq!((plan.len(), task.chunk[0], task.out[0]), (2, (1 << 61) + 5, 1));
}

/// A format that locates fewer chunks than asked for is refused, so no memory stays unwritten.
#[test]
fn formats_that_tell_too_little_are_refused() {
    #[derive(Debug)]
    struct Silent;
    impl ChunkLocator for Silent {
        fn locate(&self, _: ChunkList<'_>, _: &mut Found) -> Result<(), LocateError> {
            Ok(())
        }

        fn shares_objects(&self) -> bool {
            true
        }
    }
    for chunk in [1, 5000] {
        let spec = Spec::plain(&[10_000], &[chunk], "|u1");
        let layout = spec.layout_with(Arc::new(MemoryStore::new()), Arc::new(Silent));
        let error = read(&layout, &spec.all(), ReadOptions::default()).unwrap_err();
        assert!(matches!(error, ArrayError::Locate { .. }), "{error}");
    }
}
