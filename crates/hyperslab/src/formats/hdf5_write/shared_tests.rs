//! Elements that several writers of one file change.

use super::tests::{dataset, filters, opened, read, write};
use crate::{Array, Index};
use hyperslab_hdf5::edit::{Editing, NewFile};
use hyperslab_hdf5::new_file::{NewKind, NewObject, NewStorage};
use hyperslab_hdf5::{File, FileOptions, Libver, LinkTarget};
use hyperslab_store::{EditedFile, EditedOptions, LocalStore};
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;

const WRITERS: usize = 3;

fn create(path: &Path, libver: Libver, shape: u64, storage: NewStorage, kind: usize) {
    let bytes = EditedFile::create(path, true, EditedOptions::default()).unwrap();
    let new = NewFile { libver, user_block: 0, track_order: false, space: None };
    let file = File::create(Arc::new(bytes), new, FileOptions::default()).unwrap();
    let editing = file.editing().unwrap();
    let is_chunked = matches!(storage, NewStorage::Chunked { .. });
    let most = if is_chunked { None } else { Some(shape) };
    let kind =
        NewKind::Dataset(dataset(&[shape], &[most], storage, filters(if is_chunked { kind } else { 0 })));
    let object = NewObject { path: "d".into(), kind, attributes: Vec::new(), tracks_attributes: false };
    let made = editing.create_object(&object).unwrap();
    editing.link(file.root().unwrap().address(), "d", LinkTarget::Hard(made)).unwrap();
    editing.close().unwrap();
}

fn open(path: &Path) -> Editing {
    let bytes = EditedFile::open(path, EditedOptions::default()).unwrap().unwrap();
    File::edit(Arc::new(bytes), Libver::Earliest, FileOptions::default()).unwrap().editing().unwrap()
}

/// The elements as another program finds them.
fn stored(path: &Path) -> Vec<i16> {
    let store = LocalStore::unseen(path.parent().unwrap(), hyperslab_store::LocalOptions::default()).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap();
    let file = File::open(Arc::new(store), name, FileOptions::default()).unwrap();
    numbers(&read(&opened(&file, "d")))
}

fn numbers(bytes: &[u8]) -> Vec<i16> {
    bytes.chunks(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect()
}

fn storage(kind: usize) -> NewStorage {
    match kind {
        0..=4 => NewStorage::Chunked { chunk: vec![10], chunks: Vec::new() },
        5 => NewStorage::Contiguous(None),
        _ => NewStorage::Compact(vec![0; 96]),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Each writer changes every third element. Chunks and runs have elements of all of them.
    #[test]
    fn elements_of_several_writers(
        is_new in any::<bool>(),
        kind in 0..8_usize,
        steps in proptest::collection::vec((0..WRITERS, 0..5_u8, 0..16_u64, 0..16_u64), 1..50),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.h5");
        let libver = if is_new { Libver::V110 } else { Libver::Earliest };
        // A long run is overwritten in place.
        let (shape, kind) = if kind == 7 { (40_000, 5) } else { (48, kind) };
        create(&path, libver, shape, storage(kind), kind);
        let mut model = vec![0_i16; shape as usize];
        let mut writers: [Option<(Editing, Array)>; WRITERS] = [const { None }; WRITERS];
        for (count, (writer, step, start, len)) in steps.into_iter().enumerate() {
            let (editing, array) = writers[writer].get_or_insert_with(|| {
                let editing = open(&path);
                let array = opened(editing.file(), "d");
                (editing, array)
            });
            match step {
                0 => editing.flush().unwrap(),
                1 => {
                    editing.close().unwrap();
                    writers[writer] = None;
                }
                _ => {
                    array.renew().unwrap();
                    let first = (3 * start + writer as u64).min(shape - 1) / 3 * 3 + writer as u64;
                    let stop = (first + 3 * len + 1).min(shape);
                    if first < stop {
                        let slice = Index::Slice { start: Some(first as i64), stop: Some(stop as i64), step: 3 };
                        let selection = array.select(&[slice]).unwrap();
                        let value = count as i16 + 1;
                        let bytes = value.to_le_bytes().repeat(selection.shape()[0] as usize);
                        write(array, &selection, &bytes).unwrap();
                        (first..stop).step_by(3).for_each(|at| model[at as usize] = value);
                        let own = |all: &[i16]| all.iter().copied().skip(writer).step_by(3).collect::<Vec<_>>();
                        prop_assert_eq!(own(&numbers(&read(array))), own(&model));
                    }
                }
            }
        }
        writers.iter().flatten().for_each(|(editing, _)| editing.close().unwrap());
        drop(writers);
        prop_assert_eq!(stored(&path), model);
    }
}

#[test]
fn appends_of_several_writers() {
    const APPENDS: i16 = 30;
    const ROWS: usize = 7;
    for kind in [0, 1, 3] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.h5");
        create(&path, Libver::Earliest, 0, storage(kind), kind);
        std::thread::scope(|scope| {
            for writer in 0..WRITERS as i16 {
                let path = &path;
                scope.spawn(move || {
                    let editing = open(path);
                    let mut array = opened(editing.file(), "d");
                    for number in 0..APPENDS {
                        array.append(0, &[100 * writer + number; ROWS]).unwrap();
                    }
                    editing.close().unwrap();
                });
            }
        });
        let found = stored(&path);
        assert_eq!(found.len(), ROWS * WRITERS * APPENDS as usize);
        // The rows of an append stay together, and appends of a writer are in order.
        let mut next = [0; WRITERS];
        for rows in found.chunks(ROWS) {
            assert!(rows.iter().all(|row| *row == rows[0]), "{rows:?}");
            let writer = rows[0] as usize / 100;
            assert_eq!(rows[0] as usize % 100, next[writer], "{found:?}");
            next[writer] += 1;
        }
        assert_eq!(next, [APPENDS as usize; WRITERS]);
    }
}

/// Rows that were appended while nobody else was there keep their place: others wait for the flush.
#[test]
fn an_append_waits_for_a_flush() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.h5");
    create(&path, Libver::V110, 0, storage(1), 1);
    let first = open(&path);
    opened(first.file(), "d").append(0, &[1_i16, 2]).unwrap();
    let second = open(&path);
    std::thread::scope(|scope| {
        let appended = scope.spawn(|| opened(second.file(), "d").append(0, &[3_i16]));
        std::thread::sleep(std::time::Duration::from_millis(50));
        first.flush().unwrap();
        appended.join().unwrap().unwrap();
    });
    second.close().unwrap();
    first.close().unwrap();
    assert_eq!(stored(&path), [1, 2, 3]);
}

/// Threads of two writers change elements of the same chunks, and flush after each change. A chunk in
/// memory may come from a place that a merge gives back meanwhile.
#[test]
fn threads_of_two_writers() {
    const THREADS: usize = 3;
    const ROUNDS: usize = 60;
    // The last is a run that is overwritten in place.
    for (kind, shape) in [(0, 600), (1, 600), (3, 600), (5, 600), (5, 36_000)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.h5");
        create(&path, Libver::Earliest, shape, storage(kind), kind);
        let writers = [open(&path), open(&path)];
        std::thread::scope(|scope| {
            for (number, editing) in (0..).zip(&writers) {
                for first in number * THREADS..(number + 1) * THREADS {
                    scope.spawn(move || {
                        let array = opened(editing.file(), "d");
                        let step = 2 * THREADS as i64;
                        let slice = Index::Slice { start: Some(first as i64), stop: None, step };
                        let selection = array.select(&[slice]).unwrap();
                        let count = selection.shape()[0] as usize;
                        for round in 0..ROUNDS {
                            let value = (100 * first + round) as i16;
                            write(&array, &selection, &value.to_le_bytes().repeat(count)).unwrap();
                            editing.flush().unwrap();
                            editing.refresh().unwrap();
                            let found = numbers(&read(&opened(editing.file(), "d")));
                            let own = (first..)
                                .step_by(2 * THREADS)
                                .zip(found.into_iter().skip(first).step_by(2 * THREADS));
                            let lost: Vec<(usize, i16)> = own.filter(|(_, found)| *found != value).collect();
                            assert_eq!(lost, [], "kind {kind}, round {round}, value {value}");
                        }
                    });
                }
            }
        });
        writers.iter().for_each(|editing| editing.close().unwrap());
        let last = |at: usize| (100 * (at % (2 * THREADS)) + ROUNDS - 1) as i16;
        let expected: Vec<i16> = (0..shape as usize).map(last).collect();
        assert_eq!(stored(&path), expected, "kind {kind}");
    }
}
