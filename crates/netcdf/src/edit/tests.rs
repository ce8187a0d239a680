use super::*;
use crate::{Attribute, Dimension, External, Form, NewVariable};
use hyperslab_array::{Index, ReadOptions, Selection, Source, WriteOptions, read, write};
use hyperslab_codec::ByteOrder;
use hyperslab_store::{Change, Key, Store};

fn new_file(version: Version) -> NewFile {
    let dimension = |name: &str, len, unlimited| Dimension { name: name.into(), len, unlimited };
    let variable = |name: &str, dimensions: &[usize], external, attributes: &[Attribute]| NewVariable {
        name: name.into(),
        dimensions: dimensions.to_vec(),
        attributes: attributes.to_vec(),
        external,
    };
    let fill = Attribute { name: "_FillValue".into(), external: External::Short, bytes: vec![1, 2] };
    NewFile {
        version,
        dimensions: vec![dimension("t", 2, true), dimension("x", 3, false)],
        attributes: vec![],
        variables: vec![
            variable("fixed", &[1], External::Short, &[fill]),
            variable("bytes", &[0, 1], External::Byte, &[]),
            variable("ints", &[0], External::Int, &[]),
        ],
    }
}

fn put(file: &File, name: &str, indices: &[Index<'_>], bytes: &[u8]) {
    let layout = file.variable(name).unwrap().layout().unwrap();
    let selection = Selection::new(name, layout.shape(), indices).unwrap();
    let source = Source::dense(bytes, &selection.shape(), layout.dtype().size()).unwrap();
    write(&layout, &selection, &source, WriteOptions::default()).unwrap();
}

fn get(file: &File, name: &str) -> Vec<u8> {
    let layout = file.variable(name).unwrap().layout().unwrap();
    let selection = Selection::new(name, layout.shape(), &[]).unwrap();
    read(&layout, &selection, ReadOptions::default()).unwrap().as_slice().to_vec()
}

/// The bytes of the file after the header.
fn data(file: &File) -> Vec<u8> {
    let begin = file.variables().map(|variable| variable.facts.declared.begin).min().unwrap();
    let mut bytes = Vec::new();
    file.store().read_all(Key::new(file.key()).unwrap(), &mut bytes, 1 << 20).unwrap();
    bytes.split_off(begin as usize)
}

#[test]
fn written_and_unwritten_elements() {
    for version in [Version::Classic, Version::Offset64, Version::Data64] {
        let file = File::create(EditedFile::memory(Vec::new()), &new_file(version)).unwrap();
        assert_eq!(get(&file, "fixed"), [1, 2, 1, 2, 1, 2]);
        assert_eq!(get(&file, "ints"), External::Int.default_fill().repeat(2));
        put(&file, "fixed", &[Index::At(1)], &[7, 8]);
        put(&file, "bytes", &[Index::At(1), Index::range(1, 3)], &[5, 6]);
        put(&file, "ints", &[Index::At(0)], &[9, 9, 9, 9]);
        assert_eq!(get(&file, "fixed"), [1, 2, 7, 8, 1, 2]);
        assert_eq!(get(&file, "bytes"), [129, 129, 129, 129, 5, 6]);
        file.flush().unwrap();
        let fill = External::Int.default_fill();
        let expected = [&[1, 2, 7, 8, 1, 2, 1, 2], &[129; 4][..], &[9; 4], &[129, 5, 6, 129], &fill].concat();
        assert_eq!(data(&file), expected, "{version:?}");
        assert_eq!(get(&file, "ints"), [&[9; 4], &fill[..]].concat());
    }
}

#[test]
fn records_are_added_and_counted_last() {
    let file = File::create(EditedFile::recorded(Vec::new()), &new_file(Version::Classic)).unwrap();
    file.flush().unwrap();
    let bytes = file.inner.editing.as_ref().unwrap().bytes.clone();
    let before = bytes.changes().len();
    let more = file.with_records(4).unwrap();
    assert_eq!(more.variable("bytes").unwrap().shape(), [4, 3]);
    put(&more, "ints", &[Index::At(3)], &[4, 4, 4, 4]);
    // The old handle still writes to its own records.
    put(&file, "ints", &[Index::At(0)], &[1, 1, 1, 1]);
    more.flush().unwrap();
    let changes = bytes.changes().split_off(before);
    let counted = changes.iter().position(|change| *change == Change::Write(4, vec![0, 0, 0, 4])).unwrap();
    assert_eq!(changes[counted - 1], Change::Sync);
    assert!(changes[counted + 1..].iter().all(|change| *change == Change::Sync));
    let mut stored = Vec::new();
    bytes.read_all(Key::new(bytes.key()).unwrap(), &mut stored, 1 << 20).unwrap();
    let again = File::open(crate::testing::store(&stored), "f.nc").unwrap();
    assert_eq!(again.records(), 4);
    let fill = External::Int.default_fill();
    assert_eq!(get(&again, "ints"), [&[1; 4], &fill[..], &fill, &[4; 4]].concat());
    assert_eq!(get(&again, "bytes"), [129; 12]);
    assert!(more.with_records(3).unwrap_err().to_string().contains("it has 4 records"));
    assert!(again.with_records(5).unwrap_err().to_string().contains("opened to be read"));
    // Changes of a file that was there before.
    let edited = File::edit(EditedFile::memory(stored.clone())).unwrap();
    let more = edited.with_records(5).unwrap();
    put(&more, "bytes", &[Index::At(4)], &[1, 2, 3]);
    more.flush().unwrap();
    assert_eq!(get(&more, "bytes"), [&[129; 12][..], &[1, 2, 3]].concat());
    assert_eq!(get(&more, "ints"), [&[1; 4], &fill[..], &fill, &[4; 4], &fill].concat());
    let len = |file: &File| file.inner.editing.as_ref().unwrap().bytes.len().unwrap();
    let before = len(&more);
    put(&more.with_records(7).unwrap(), "ints", &[Index::At(6)], &[4; 4]);
    assert!(len(&more) > before);
    more.abandon().unwrap();
    assert_eq!(len(&more), before);
    let short = EditedFile::memory(stored[..stored.len() - 3].to_vec());
    assert!(File::edit(short).unwrap_err().to_string().contains("end after the end of the file"));
}

#[test]
fn a_single_record_variable_has_strips_of_many_records() {
    let mut new = new_file(Version::Data64);
    new.variables.truncate(2);
    new.dimensions[0].len = 100_000;
    let file = File::create(EditedFile::memory(Vec::new()), &new).unwrap();
    let layout = file.variable("bytes").unwrap().layout().unwrap();
    assert_eq!(layout.grid().chunk_shape(), [(256 << 10) / 3, 3]);
    put(&file, "bytes", &[Index::range(99_999, 100_000)], &[1, 2, 3]);
    let more = file.with_records(100_002).unwrap();
    put(&more, "bytes", &[Index::At(100_001)], &[4, 5, 6]);
    let found = get(&more, "bytes");
    assert!(found[..299_997].iter().all(|byte| *byte == 129));
    assert_eq!(found[299_997..], [1, 2, 3, 129, 129, 129, 4, 5, 6]);
    more.flush().unwrap();
    assert_eq!(get(&more, "bytes"), found);
    assert_eq!(data(&more)[8..], found);
}

#[test]
fn text_and_other_byte_orders() {
    let mut new = new_file(Version::Classic);
    new.variables[1].external = External::Char;
    let file = File::create(EditedFile::memory(Vec::new()), &new).unwrap();
    let put = |name: &str, form: Form, bytes: &[u8]| {
        let layout = file.variable(name).unwrap().layout_in(&form).unwrap();
        let selection = Selection::new(name, layout.shape(), &[Index::At(1)]).unwrap();
        let source = Source::dense(bytes, &selection.shape(), layout.dtype().size()).unwrap();
        write(&layout, &selection, &source, WriteOptions::default()).unwrap();
        let all = Selection::new(name, layout.shape(), &[]).unwrap();
        read(&layout, &all, ReadOptions::default()).unwrap().as_slice().to_vec()
    };
    let form = |dtype: &str, joined| Form {
        dtype: dtype.parse().unwrap(),
        order: ByteOrder::Big,
        codecs: vec![],
        joined,
    };
    assert_eq!(put("bytes", form("|S3", 1), b"abc"), b"\0\0\0abc");
    assert_eq!(put("ints", form("<i4", 0), &[4, 3, 2, 1]), [1, 0, 0, 128, 4, 3, 2, 1]);
    assert_eq!(get(&file, "ints"), [128, 0, 0, 1, 1, 2, 3, 4]);
}
