//! Datasets that are written, resized and flushed, compared with elements in memory.

use crate::{Array, Index, ReadOptions, Selection, WriteOptions};
use hyperslab_array::Source;
use hyperslab_hdf5::dataspace::Dataspace;
use hyperslab_hdf5::datatype::{Charset, Class, Datatype, Padding};
use hyperslab_hdf5::edit::{Editing, NewFile};
use hyperslab_hdf5::filter::Filter;
use hyperslab_hdf5::new_file::{NewDataset, NewKind, NewObject, NewStorage, ValuePart};
use hyperslab_hdf5::{File, FileOptions, Libver, LinkTarget, Node};
use hyperslab_store::{EditedFile, Key, MemoryStore, Store};
use proptest::prelude::*;
use std::sync::Arc;

struct Edited {
    bytes: Arc<EditedFile>,
    editing: Editing,
}

impl Edited {
    fn new(libver: Libver) -> Edited {
        let bytes = Arc::new(EditedFile::memory(Vec::new()));
        let new = NewFile { libver, user_block: 0, track_order: false, space: None };
        let file = File::create(bytes.clone(), new, FileOptions::default()).unwrap();
        Edited { bytes, editing: file.editing().unwrap() }
    }

    fn again(bytes: Vec<u8>) -> Edited {
        let bytes = Arc::new(EditedFile::memory(bytes));
        let file = File::edit(bytes.clone(), Libver::Earliest, FileOptions::default()).unwrap();
        Edited { bytes, editing: file.editing().unwrap() }
    }

    fn create(&self, name: &str, dataset: NewDataset) -> Array {
        let kind = NewKind::Dataset(dataset);
        let object = NewObject { path: name.into(), kind, attributes: Vec::new(), tracks_attributes: false };
        let address = self.editing.create_object(&object).unwrap();
        let root = self.editing.file().root().unwrap().address();
        self.editing.link(root, name, LinkTarget::Hard(address)).unwrap();
        self.open(name)
    }

    fn open(&self, name: &str) -> Array {
        opened(self.editing.file(), name)
    }

    fn all_bytes(&self) -> Vec<u8> {
        let mut all = vec![0; self.bytes.len().unwrap() as usize];
        self.bytes.read_at(0, &mut all).unwrap();
        all
    }

    /// The elements as another program finds them now.
    fn stored(&self, name: &str) -> Vec<u8> {
        let store = MemoryStore::new();
        store.write(Key::new("f").unwrap(), &[&self.all_bytes()]).unwrap();
        let file = File::open(Arc::new(store), "f", FileOptions::default()).unwrap();
        read(&opened(&file, name))
    }
}

pub(super) fn opened(file: &File, name: &str) -> Array {
    let Node::Dataset(dataset) = file.node(name).unwrap() else { panic!("no dataset") };
    Array::try_from(dataset).unwrap()
}

pub(super) fn read(array: &Array) -> Vec<u8> {
    let all = array.select(&[]).unwrap();
    array.read(&all, ReadOptions::default()).unwrap().as_slice().to_vec()
}

pub(super) fn write(array: &Array, selection: &Selection, bytes: &[u8]) -> crate::Result<()> {
    let source = Source::dense(bytes, &selection.shape(), array.dtype().size()).unwrap();
    array.write(selection, &source, WriteOptions::default())
}

fn write_all(array: &Array, bytes: &[u8]) {
    write(array, &array.select(&[]).unwrap(), bytes).unwrap();
}

fn filter(id: u16, client_data: Vec<u32>) -> Filter {
    Filter { id, name: None, optional: true, client_data }
}

pub(super) fn filters(kind: usize) -> Vec<Filter> {
    match kind {
        0 => vec![],
        1 => vec![filter(2, vec![2]), filter(1, vec![4])],
        2 => vec![filter(32000, vec![4, 261, 0])],
        3 => vec![filter(3, vec![])],
        _ => vec![filter(32015, vec![3]), filter(3, vec![])],
    }
}

pub(super) fn dataset(
    shape: &[u64],
    max_shape: &[Option<u64>],
    storage: NewStorage,
    filters: Vec<Filter>,
) -> NewDataset {
    NewDataset {
        datatype: Datatype::of_numpy("<i2".parse().unwrap()).unwrap(),
        dataspace: Dataspace::Simple { shape: shape.into(), max_shape: max_shape.into() },
        fill: None,
        unfilled: false,
        filters,
        storage,
    }
}

fn chunked(shape: &[u64], max_shape: &[Option<u64>], chunk: &[u64], kind: usize) -> NewDataset {
    dataset(shape, max_shape, NewStorage::Chunked { chunk: chunk.into(), chunks: Vec::new() }, filters(kind))
}

/// Elements in memory, in C order.
#[derive(Clone, Debug)]
struct Model {
    shape: [u64; 2],
    values: Vec<i16>,
}

impl Model {
    fn resize(&mut self, shape: [u64; 2]) {
        let value = |at: u64| {
            let (row, column) = (at / shape[1].max(1), at % shape[1].max(1));
            let inside = row < self.shape[0] && column < self.shape[1];
            if inside { self.values[(row * self.shape[1] + column) as usize] } else { 0 }
        };
        self.values = (0..shape[0] * shape[1]).map(value).collect();
        self.shape = shape;
    }

    fn bytes(&self) -> Vec<u8> {
        self.values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    /// Sets a box of elements to numbers from `first` on. Returns the box for the array, and its
    /// bytes.
    fn set(&mut self, array: &Array, rows: [u64; 3], columns: [u64; 3], first: i16) -> (Selection, Vec<u8>) {
        let mut value = first;
        let mut bytes = Vec::new();
        for row in (rows[0]..rows[1]).step_by(rows[2] as usize) {
            for column in (columns[0]..columns[1]).step_by(columns[2] as usize) {
                value = value.wrapping_mul(3).wrapping_add(7);
                self.values[(row * self.shape[1] + column) as usize] = value;
                bytes.extend(value.to_le_bytes());
            }
        }
        let index = |[start, stop, step]: [u64; 3]| Index::Slice {
            start: Some(start as i64),
            stop: Some(stop as i64),
            step: step as i64,
        };
        (array.select(&[index(rows), index(columns)]).unwrap(), bytes)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write { rows: [u64; 3], columns: [u64; 3], first: i16 },
    WriteAll(i16),
    Resize([u64; 2]),
    Flush,
    Reopen,
    Settle,
}

fn step() -> impl Strategy<Value = Step> {
    let part = || (0..20_u64, 1..20_u64, 1..4_u64).prop_map(|(start, len, step)| [start, start + len, step]);
    prop_oneof![
        5 => (part(), part(), any::<i16>()).prop_map(|(rows, columns, first)| Step::Write { rows, columns, first }),
        1 => any::<i16>().prop_map(Step::WriteAll),
        2 => (0..20_u64, 0..20_u64).prop_map(|(rows, columns)| Step::Resize([rows, columns])),
        1 => Just(Step::Flush),
        1 => Just(Step::Reopen),
        1 => Just(Step::Settle),
    ]
}

/// Makes the steps, and compares after each.
fn check(mut edited: Edited, mut array: Array, steps: Vec<Step>, grows: bool) {
    let shape = [array.shape()[0], array.shape()[1]];
    let mut model = Model { shape, values: vec![0; (shape[0] * shape[1]) as usize] };
    for step in steps {
        match step {
            Step::Write { rows, columns, first } => {
                let inside = |part: [u64; 3], n: u64| [part[0].min(n), part[1].min(n), part[2]];
                let (rows, columns) = (inside(rows, model.shape[0]), inside(columns, model.shape[1]));
                let (selection, bytes) = model.set(&array, rows, columns, first);
                write(&array, &selection, &bytes).unwrap();
            }
            Step::WriteAll(first) => {
                let [rows, columns] = model.shape;
                let (selection, bytes) = model.set(&array, [0, rows, 1], [0, columns, 1], first);
                write(&array, &selection, &bytes).unwrap();
            }
            Step::Resize(shape) if grows => {
                // Another handle sees it.
                let mut other = edited.open("d");
                other.resize(&shape, None).unwrap();
                assert!(array.renew().unwrap());
                assert!(!array.renew().unwrap());
                model.resize(shape);
            }
            Step::Resize(shape) => assert!(array.resize(&shape, None).is_err()),
            Step::Flush => {
                edited.editing.flush().unwrap();
                assert_eq!(edited.stored("d"), model.bytes());
            }
            Step::Settle => edited.editing.settle().unwrap(),
            Step::Reopen => {
                edited.editing.close().unwrap();
                edited = Edited::again(edited.all_bytes());
                array = edited.open("d");
            }
        }
        assert_eq!(array.shape(), model.shape);
        assert_eq!(read(&array), model.bytes());
    }
    edited.editing.close().unwrap();
    assert_eq!(edited.stored("d"), model.bytes());
    let count = array.chunks_stored(None).unwrap();
    assert!(count.0 <= 400 && edited.editing.held().load(std::sync::atomic::Ordering::Relaxed) < 1 << 20);
}

proptest! {
    #[test]
    fn chunks_as_in_memory(
        shape in (0..20_u64, 0..20_u64), chunk in (1..9_u64, 1..9_u64), kind in 0..5_usize,
        is_new in any::<bool>(), steps in proptest::collection::vec(step(), 0..12),
    ) {
        let edited = Edited::new(if is_new { Libver::V110 } else { Libver::Earliest });
        let new = chunked(&[shape.0, shape.1], &[None, Some(30)], &[chunk.0, chunk.1], kind);
        let array = edited.create("d", new);
        check(edited, array, steps, true);
    }

    #[test]
    fn fixed_chunks_as_in_memory(
        shape in (1..20_u64, 1..20_u64), chunk in (1..9_u64, 1..9_u64), kind in 0..5_usize,
        steps in proptest::collection::vec(step(), 0..12),
    ) {
        let edited = Edited::new(Libver::V110);
        let max = [Some(shape.0), Some(shape.1)];
        let chunk = [chunk.0.min(shape.0), chunk.1.min(shape.1)];
        let array = edited.create("d", chunked(&[shape.0, shape.1], &max, &chunk, kind));
        let steps = steps.into_iter().filter(|step| !matches!(step, Step::Resize(_))).collect();
        check(edited, array, steps, true);
    }

    #[test]
    fn runs_as_in_memory(
        shape in (1..20_u64, 1..20_u64), is_compact in any::<bool>(), is_large in any::<bool>(),
        steps in proptest::collection::vec(step(), 0..12),
    ) {
        let edited = Edited::new(Libver::V110);
        let columns = if is_large && !is_compact { hyperslab_hdf5::edit::COPIED } else { shape.1 };
        let bytes = (shape.0 * columns * 2) as usize;
        let storage = if is_compact { NewStorage::Compact(vec![0; bytes]) } else { NewStorage::Contiguous(None) };
        let max = [Some(shape.0), Some(columns)];
        let array = edited.create("d", dataset(&[shape.0, columns], &max, storage, Vec::new()));
        check(edited, array, steps, false);
    }
}

/// Rows of `n` numbers that gzip makes smaller.
fn numbers(n: usize) -> Vec<u8> {
    (0..n).flat_map(|n| ((n / 7 % 1000) as i16).to_le_bytes()).collect()
}

#[test]
fn the_bytes_of_a_file_do_not_depend_on_threads() {
    let mut files = Vec::new();
    for threads in [1, 4, 4, 2] {
        let edited = Edited::new(Libver::Earliest);
        for kind in 0..5 {
            let array = edited
                .create(&format!("d{kind}"), chunked(&[1000, 1000], &[None, Some(1000)], &[64, 100], kind));
            let bytes = numbers(1_000_000);
            let source = Source::dense(&bytes, &[1000, 1000], 2).unwrap();
            let options = WriteOptions { threads: Some(threads), ..WriteOptions::default() };
            array.write(&array.select(&[]).unwrap(), &source, options).unwrap();
            let part = array.select(&[Index::range(3, 900), Index::range(50, 777)]).unwrap();
            let source = Source::repeat(&[1, 2], &part.shape());
            array.write(&part, &source, options).unwrap();
        }
        edited.editing.close().unwrap();
        files.push(edited.all_bytes());
    }
    assert!(files.windows(2).all(|pair| pair[0] == pair[1]));
    assert!(files[0].len() < 10_000_000, "{}", files[0].len());
}

#[test]
fn rows_one_by_one_are_compressed_once() {
    let edited = Edited::new(Libver::Earliest);
    let mut array = edited.create("d", chunked(&[0, 10], &[None, Some(10)], &[100, 10], 1));
    for row in 0..250_u64 {
        array.resize(&[row + 1, 10], None).unwrap();
        let one = array.select(&[Index::At(row as i64)]).unwrap();
        write(&array, &one, &numbers(10)).unwrap();
    }
    let table = edited.editing.chunk_table(array.as_hdf5().unwrap().address()).unwrap();
    assert_eq!(table.len(), 0);
    assert_eq!(array.chunks_stored(None).unwrap().0, 3);
    assert_eq!(table.len(), 3);
    assert_eq!(read(&array), numbers(10).repeat(250));
}

#[test]
fn space_of_replaced_chunks_is_used_again() {
    let edited = Edited::new(Libver::Earliest);
    let array = edited.create("d", chunked(&[100, 100], &[Some(100), Some(100)], &[10, 10], 0));
    for _ in 0..20 {
        write_all(&array, &numbers(10_000));
    }
    edited.editing.close().unwrap();
    assert!(edited.all_bytes().len() < 60_000, "{}", edited.all_bytes().len());
}

#[test]
fn a_request_that_fails_leaves_whole_chunks() {
    let edited = Edited::new(Libver::Earliest);
    let array = edited.create("d", chunked(&[4, 4], &[Some(4), Some(4)], &[2, 2], 1));
    write_all(&array, &numbers(16));
    let before = read(&array);
    let mut calls = std::cell::Cell::new(0);
    let interrupt = || {
        calls.set(calls.get() + 1);
        calls.get() > 2
    };
    let source = [9; 32];
    let source = Source::dense(&source, &[4, 4], 2).unwrap();
    let options = WriteOptions { interrupt: Some(&interrupt), threads: Some(1), ..WriteOptions::default() };
    let failed = array.write(&array.select(&[]).unwrap(), &source, options);
    assert!(failed.is_err());
    assert!(*calls.get_mut() > 2);
    assert_eq!(read(&array), before);
    edited.editing.flush().unwrap();
    assert_eq!(edited.stored("d"), before);
}

#[test]
fn threads_lose_nothing() {
    let edited = Edited::new(Libver::Earliest);
    let array = edited.create("d", chunked(&[64, 64], &[Some(64), Some(64)], &[16, 16], 1));
    std::thread::scope(|scope| {
        for thread in 0..8_i64 {
            let (array, editing) = (array.clone(), edited.editing.clone());
            scope.spawn(move || {
                for row in (thread..64).step_by(8) {
                    let one = array.select(&[Index::At(row)]).unwrap();
                    write(&array, &one, &(row as i16).to_le_bytes().repeat(64)).unwrap();
                    if row % 16 == 3 {
                        editing.settle().unwrap();
                    }
                    let found = array.read(&one, ReadOptions::default()).unwrap();
                    assert_eq!(found.as_slice(), (row as i16).to_le_bytes().repeat(64));
                }
            });
        }
    });
    let expected: Vec<u8> = (0..64_i16).flat_map(|row| row.to_le_bytes().repeat(64)).collect();
    assert_eq!(read(&array), expected);
    edited.editing.close().unwrap();
    assert_eq!(edited.stored("d"), expected);
}

#[test]
fn chunks_as_they_are_stored() {
    let edited = Edited::new(Libver::Earliest);
    let array = edited.create("d", chunked(&[5], &[None], &[4], 1));
    write(&array, &array.select(&[Index::range(0, 2)]).unwrap(), &[1, 0, 2, 0]).unwrap();
    // The filters were left out.
    array.write_direct_chunk(&[1], 3, &[7, 0, 8, 0, 9, 0, 10, 0]).unwrap();
    assert_eq!(read(&array), [1, 0, 2, 0, 0, 0, 0, 0, 7, 0]);
    assert_eq!(array.read_direct_chunk(&[1]).unwrap(), Some((vec![7, 0, 8, 0, 9, 0, 10, 0], 3)));
    let (first, skipped) = array.read_direct_chunk(&[0]).unwrap().unwrap();
    array.write_direct_chunk(&[1], skipped, &first).unwrap();
    assert_eq!(read(&array), [1, 0, 2, 0, 0, 0, 0, 0, 1, 0]);
    assert!(array.write_direct_chunk(&[2], 0, &first).is_err());
    assert!(array.write_direct_chunk(&[0], 0, &vec![0; 1 << 20]).is_err());
    edited.editing.close().unwrap();
    assert_eq!(edited.stored("d"), [1, 0, 2, 0, 0, 0, 0, 0, 1, 0]);
}

/// An lzf chunk that does not become smaller is stored without it, as h5py does.
#[test]
fn filters_that_fail_are_left_out() {
    let edited = Edited::new(Libver::Earliest);
    let array = edited.create("d", chunked(&[64], &[Some(64)], &[64], 2));
    let noise: Vec<u8> = (0..128_u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8).collect();
    write_all(&array, &noise);
    let (bytes, skipped) = array.read_direct_chunk(&[0]).unwrap().unwrap();
    assert_eq!((bytes, skipped), (noise.clone(), 1));
    assert_eq!(read(&array), noise);
    write_all(&array, &[5; 128]);
    assert_eq!(array.read_direct_chunk(&[0]).unwrap().unwrap().1, 0);
}

#[test]
fn elements_that_differ_in_memory() {
    for storage in [
        NewStorage::Contiguous(None),
        NewStorage::Compact(b"     ".repeat(3)),
        NewStorage::Chunked { chunk: vec![2], chunks: Vec::new() },
    ] {
        let edited = Edited::new(Libver::V110);
        let mut new = dataset(&[3], &[Some(3)], storage, Vec::new());
        let class = Class::String { padding: Padding::SpacePadded, charset: Charset::Ascii };
        new.datatype = Datatype { size: 5, class };
        let array = edited.create("d", new);
        write_all(&array, b"ab\0\0\0abcdea\0\0\0\0");
        let last = array.select(&[Index::At(2)]).unwrap();
        write(&array, &last, b"xyz\0\0").unwrap();
        assert_eq!(read(&array), b"ab\0\0\0abcdexyz\0\0");
        edited.editing.close().unwrap();
        assert_eq!(edited.stored("d"), b"ab\0\0\0abcdexyz\0\0");
        let all = edited.all_bytes();
        assert!(all.windows(5).any(|bytes| bytes == b"ab   "));
    }
}

#[test]
fn large_runs_keep_their_place_and_fill() {
    let edited = Edited::new(Libver::Earliest);
    let mut new = dataset(&[3, 100_000], &[Some(3), Some(100_000)], NewStorage::Contiguous(None), Vec::new());
    new.fill = Some(vec![ValuePart::Bytes(vec![7, 0])]);
    let array = edited.create("d", new);
    let mut expected = [7, 0].repeat(300_000);
    assert_eq!(read(&array), expected);
    let other = edited.open("d");
    for (rows, columns) in [((1, 2), (5, 99_990)), ((0, 3), (70_000, 70_001)), ((2, 3), (0, 100_000))] {
        let part = array.select(&[Index::range(rows.0, rows.1), Index::range(columns.0, columns.1)]).unwrap();
        let bytes = numbers(part.shape().iter().product::<u64>() as usize);
        write(&array, &part, &bytes).unwrap();
        let mut new = bytes.chunks(2);
        for row in rows.0..rows.1 {
            for column in columns.0..columns.1 {
                let at = ((row * 100_000 + column) * 2) as usize;
                expected[at..at + 2].copy_from_slice(new.next().unwrap());
            }
        }
        assert!(read(&other) == expected);
        edited.editing.flush().unwrap();
        assert!(edited.stored("d") == expected);
    }
    assert_eq!(array.chunks_stored(None).unwrap(), (1, 600_000));
}

#[test]
fn what_cannot_be_written_says_so() {
    let edited = Edited::new(Libver::Earliest);
    let mut new = chunked(&[4], &[Some(4)], &[4], 0);
    new.filters = vec![filter(32015, vec![3]), filter(32022, vec![])];
    let array = edited.create("d", new);
    let failed = write(&array, &array.select(&[]).unwrap(), &[0; 8]).unwrap_err().to_string();
    assert!(failed.contains("writing with the filter bitgroom is not supported"), "{failed}");
    let mut array = edited.create("e", chunked(&[4], &[Some(9)], &[4], 0));
    for (shape, why) in
        [(&[10][..], "longer than in the maximal shape"), (&[1, 2], "expected a shape of 1 axes")]
    {
        let failed = array.resize(shape, None).unwrap_err().to_string();
        assert!(failed.contains(why), "{failed}");
    }
    let stale = array.clone();
    array.resize(&[2], None).unwrap();
    let failed = write(&stale, &stale.select(&[]).unwrap(), &[0; 8]).unwrap_err().to_string();
    assert!(failed.contains("was resized from [4] to [2]"), "{failed}");
    edited.editing.close().unwrap();
    let store = MemoryStore::new();
    store.write(Key::new("f").unwrap(), &[&edited.all_bytes()]).unwrap();
    let file = File::open(Arc::new(store), "f", FileOptions::default()).unwrap();
    let array = opened(&file, "e");
    let failed = write(&array, &array.select(&[]).unwrap(), &[0; 4]).unwrap_err().to_string();
    assert!(failed.contains("open it with mode 'r+'"), "{failed}");
}

#[test]
fn chunks_without_filter_are_written_together() {
    let bytes = Arc::new(EditedFile::recorded(Vec::new()));
    let file = File::create(bytes.clone(), NewFile::default(), FileOptions::default()).unwrap();
    let edited = Edited { bytes, editing: file.editing().unwrap() };
    let chunked = |chunk: [u64; 2]| NewStorage::Chunked { chunk: chunk.to_vec(), chunks: Vec::new() };
    let shape = [4096, 512];
    let elements: Vec<u8> = (0..4096 * 512_u32).flat_map(|n| (n as u16).to_le_bytes()).collect();
    // 4 MiB in 32 chunks that follow each other, and in 64 that do not.
    for (name, chunk, most) in [("a", [128, 512], 1), ("b", [128, 256], 64)] {
        let made = dataset(&shape, &shape.map(Some), chunked(chunk), filters(0));
        let array = edited.create(name, made);
        let before = edited.bytes.changes().len();
        write_all(&array, &elements);
        let writes = edited.bytes.changes().len() - before;
        assert_eq!(writes, most, "{name}");
        assert_eq!(read(&array), elements, "{name}");
    }
    edited.editing.flush().unwrap();
    for name in ["a", "b"] {
        assert_eq!(edited.stored(name), elements, "{name}");
    }
}

/// A dataset that was read before another thread gave its run a place.
#[test]
fn a_dataset_that_is_read_before_another_write_keeps_that_write() {
    let edited = Edited::new(Libver::Earliest);
    let storage = NewStorage::Contiguous(None);
    let array = edited.create("a", dataset(&[4], &[Some(4)], storage, vec![]));
    let Node::Dataset(before) = edited.editing.file().node("a").unwrap() else { panic!("no dataset") };
    write(&array, &array.select(&[Index::range(0, 2)]).unwrap(), &[1, 0, 2, 0]).unwrap();
    let late = Array::try_from(before).unwrap();
    write(&late, &late.select(&[Index::range(2, 4)]).unwrap(), &[3, 0, 4, 0]).unwrap();
    assert_eq!(read(&edited.open("a")), [1, 0, 2, 0, 3, 0, 4, 0]);
}
