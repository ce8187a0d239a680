//! Costs that are exact: the chunks touched.

use super::counting::Counting;
use super::model::{Spec, select};
use crate::*;
use hyperslab_store::{Key, MemoryStore, Store};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

#[test]
fn only_touched_chunks_are_planned() {
    let spec = Spec::plain(&[1000, 1000], &[10, 10], "<f4");
    let layout = spec.layout(&MemoryStore::new());
    let chunks = |indices: &[Index<'_>]| {
        let selection = select(&spec.shape, indices);
        Plan::new(&layout, &selection).unwrap().len()
    };
    let every = |step| Index::Slice { start: None, stop: None, step };
    assert_eq!(chunks(&[]), 10_000);
    assert_eq!(chunks(&[Index::At(5), Index::At(5)]), 1);
    assert_eq!(chunks(&[Index::At(5)]), 100);
    assert_eq!(chunks(&[every(100), every(-250)]), 10 * 4);
    assert_eq!(chunks(&[every(i64::MAX), every(i64::MIN)]), 1);
    assert_eq!(chunks(&[Index::range(9, 11), Index::range(9, 21)]), 2 * 3);
    assert_eq!(chunks(&[Index::range(5, 5)]), 0);
}

#[test]
fn chunks_far_away_are_asked_for_together() {
    for codecs in [0, 1] {
        let spec = Spec { codecs, ..Spec::plain(&[100, 64], &[1, 64], "<f4") };
        let memory = MemoryStore::new();
        let near = spec.layout(&memory);
        let values: Vec<u8> = (0..100 * 64 * 4_u32).map(|n| (n / 7 + 1) as u8).collect();
        let shape = [100, 64];
        let all = select(&spec.shape, &[]);
        let source = Source::dense(&values, &shape, 4).unwrap();
        write(&near, &all, &source, WriteOptions::default()).unwrap();
        let counting = Arc::new(Counting::far(&memory, 64));
        let far = spec.layout_with(counting.clone(), near.locator().clone());
        let options = ReadOptions { threads: Some(1), ..ReadOptions::default() };
        let rounds = || counting.rounds.swap(0, Relaxed);
        assert_eq!(read(&far, &all, options).unwrap().as_slice(), &values[..]);
        assert_eq!(rounds(), 2);
        // A series through all chunks. In plain chunks, only its elements are read.
        let series = select(&spec.shape, &[Index::ALL, Index::At(5)]);
        counting.bytes.store(0, Relaxed);
        let found = read(&far, &series, options).unwrap();
        assert_eq!(found.as_slice(), read(&near, &series, options).unwrap().as_slice());
        assert_eq!(rounds(), 2);
        if codecs == 0 {
            assert_eq!(counting.bytes.load(Relaxed), 400);
        }
        // An absent chunk, and an object that is no chunk.
        let key = |chunk: u64| {
            let mut key = String::new();
            near.locate(&[chunk, 0], &mut key).unwrap();
            key
        };
        memory.delete(Key::new(&key(3)).unwrap()).unwrap();
        let some = select(&spec.shape, &[Index::range(2, 5)]);
        assert_eq!(
            read(&far, &some, options).unwrap().as_slice(),
            read(&near, &some, options).unwrap().as_slice()
        );
        memory.write(Key::new(&key(5)).unwrap(), &[&[0; 1000]]).unwrap();
        let wrong = read(&far, &all, options).unwrap_err().to_string();
        assert!(wrong.contains(&key(5)), "{wrong}");
    }
}

#[test]
fn blank_chunks_far_away_are_deleted_at_the_end() {
    let spec = Spec::plain(&[100, 64], &[1, 64], "<f4");
    let memory = MemoryStore::new();
    let near = spec.layout(&memory);
    let shape = [100, 64];
    let all = select(&spec.shape, &[]);
    let fill = near.fill().bytes().to_vec();
    let blank: Vec<u8> = fill.iter().copied().cycle().take(100 * 64 * 4).collect();
    let mut values: Vec<u8> = blank.iter().map(|byte| byte.wrapping_add(1)).collect();
    let far = spec.layout_with(Arc::new(Counting::far(&memory, 64)), near.locator().clone());
    let write_all = |values: &[u8], options: WriteOptions<'_>| {
        let source = Source::dense(values, &shape, 4).unwrap();
        write(&far, &all, &source, options).unwrap();
        memory.list(None).unwrap().len()
    };
    assert_eq!(write_all(&values, WriteOptions::default()), 100);
    // Every other row.
    for (row, blank) in values.chunks_mut(64 * 4).zip(blank.chunks(64 * 4)).step_by(2) {
        row.copy_from_slice(blank);
    }
    assert_eq!(write_all(&values, WriteOptions::default()), 50);
    assert_eq!(read(&near, &all, ReadOptions::default()).unwrap().as_slice(), &values[..]);
    // A caller that says no object exists gets no deletions.
    assert_eq!(write_all(&blank, WriteOptions { is_new: true, ..WriteOptions::default() }), 50);
    assert_eq!(write_all(&blank, WriteOptions::default()), 0);
}
