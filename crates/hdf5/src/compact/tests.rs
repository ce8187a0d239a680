//! Files that are made, changed and compacted, all in memory. (Files of others, and the judgement of
//! h5py, are in the Python tests.)

use super::*;
use crate::dataspace::Dataspace;
use crate::datatype::{Charset, Datatype};
use crate::edit::{ChunkPlace, Editing, NewFile};
use crate::filter::Filter;
use crate::new_file::{NewAttribute, NewDataset, NewKind, NewObject, NewStorage, ValuePart};
use crate::testing::{open, source, store};
use crate::{FileOptions, Libver, LinkTarget, Node};

const BOTH: [Libver; 2] = [Libver::Earliest, Libver::V110];

fn object(kind: NewKind, tracks: bool) -> NewObject {
    NewObject { path: "o".into(), kind, attributes: Vec::new(), tracks_attributes: tracks }
}

fn group(tracks: bool) -> NewObject {
    object(NewKind::Group { links: Vec::new(), tracks_links: tracks }, tracks)
}

fn attribute(name: &str, datatype: Datatype, value: ValuePart) -> NewAttribute {
    NewAttribute { name: name.into(), datatype, dataspace: Dataspace::Scalar, value: vec![value] }
}

fn number(name: &str, value: u16) -> NewAttribute {
    let datatype = Datatype::of_numpy("<u2".parse().unwrap()).unwrap();
    attribute(name, datatype, ValuePart::Bytes(value.to_le_bytes().to_vec()))
}

fn text(name: &str, value: &str) -> NewAttribute {
    attribute(name, Datatype::vlen_text(Charset::Utf8), ValuePart::text(value.as_bytes()))
}

fn chunked(filtered: bool, limit: Option<u64>) -> NewObject {
    let filter = Filter { id: 1, name: None, optional: false, client_data: vec![1] };
    let storage = NewStorage::Chunked { chunk: vec![4], chunks: Vec::new() };
    object(
        NewKind::Dataset(NewDataset {
            datatype: Datatype::of_numpy("<i2".parse().unwrap()).unwrap(),
            dataspace: Dataspace::Simple { shape: vec![40], max_shape: vec![limit] },
            fill: Some(vec![ValuePart::Bytes(vec![7, 0])]),
            unfilled: false,
            filters: if filtered { vec![filter] } else { Vec::new() },
            storage,
        }),
        false,
    )
}

fn put_chunks(editing: &Editing, dataset: u64, numbers: std::ops::Range<u64>) {
    let table = editing.chunk_table(dataset).unwrap();
    for number in numbers {
        let bytes = [number as u8; 8];
        let address = editing.allocate(8).unwrap();
        editing.write(address, &[&bytes]).unwrap();
        // The chunk skips the filter, so its bytes are elements.
        table.put(&[number], ChunkPlace { address, size: 8, skipped: 1, is_flushed: false });
    }
}

/// A file with deleted objects and replaced chunks.
fn example(libver: Libver, user_block: u64) -> Vec<u8> {
    let bytes = Arc::new(EditedFile::memory(Vec::new()));
    let new = NewFile { libver, user_block, track_order: false, space: None };
    let file = File::create(bytes.clone(), new, FileOptions::default()).unwrap();
    let editing = file.editing().unwrap();
    let root = file.root().unwrap().address();
    let many = editing.create_object(&group(true)).unwrap();
    editing.link(root, "many", LinkTarget::Hard(many)).unwrap();
    for n in 0..20_u16 {
        let name = format!("é{}", n * 7 % 20);
        editing.link(many, &name, LinkTarget::Soft(format!("/{n}"))).unwrap();
        editing.set_attribute(many, &number(&name, n)).unwrap();
    }
    for (name, filtered, limit) in
        [("a", false, Some(40)), ("b", true, Some(40)), ("c", true, None), ("gone", false, None)]
    {
        let dataset = editing.create_object(&chunked(filtered, limit)).unwrap();
        editing.link(root, name, LinkTarget::Hard(dataset)).unwrap();
        put_chunks(&editing, dataset, 0..10);
        editing.set_attribute(dataset, &text("text", name)).unwrap();
    }
    let a = file.node("a").unwrap();
    let Node::Dataset(a) = a else { panic!("no dataset") };
    editing.link(many, "a again", LinkTarget::Hard(a.address())).unwrap();
    for (name, target) in [("to a", a.address()), ("to the root", root)] {
        let part = ValuePart::Object(Some(target as usize));
        editing.set_attribute(root, &attribute(name, Datatype::reference(), part)).unwrap();
    }
    editing.flush().unwrap();
    for n in 0..5 {
        put_chunks(&editing, a.address(), n..n + 2);
        editing.set_attribute(a.address(), &text("text", &"x".repeat(500 * n as usize))).unwrap();
        editing.flush().unwrap();
    }
    editing.unlink(root, "gone").unwrap();
    editing.close().unwrap();
    let mut all = vec![0; bytes.len().unwrap() as usize];
    bytes.read_at(0, &mut all).unwrap();
    if let Some(block) = all.get_mut(..user_block as usize) {
        block.fill(9);
    }
    all
}

/// All objects: links, attributes and chunks, as text. References are paths.
fn described(file: &File) -> Vec<String> {
    fn visit(node: &Node, path: &str, found: &mut Vec<String>) {
        let attributes = match node {
            Node::Group(group) => group.attributes().unwrap(),
            Node::Dataset(dataset) => dataset.attributes().unwrap(),
            Node::Datatype(datatype) => datatype.attributes.clone(),
        };
        for attribute in attributes {
            found.push(format!("{path}@{} = {:?}", attribute.name, attribute.value().unwrap()));
        }
        if let Node::Dataset(dataset) = node {
            for record in &dataset.chunk_index().unwrap().unwrap().records {
                let mut bytes = vec![0; record.size as usize];
                dataset.file().source().read_into("chunk", [(record.address, &mut bytes[..])]).unwrap();
                found.push(format!("{path}#{} {bytes:?} {}", record.number, record.skipped));
            }
        }
        let Node::Group(group) = node else { return };
        for link in group.links().unwrap() {
            let path = format!("{path}/{}", link.name);
            match &link.target {
                LinkTarget::Hard(_) => visit(&group.child(&link.name).unwrap(), &path, found),
                target => found.push(format!("{path} -> {target:?} {:?}", link.creation_order)),
            }
        }
    }
    let mut found = Vec::new();
    visit(&Node::Group(file.root().unwrap()), "", &mut found);
    found
}

fn compacted(file: &File) -> Result<(Compacted, Vec<u8>)> {
    let into = Arc::new(EditedFile::memory(Vec::new()));
    let plan = Compaction::of(file)?;
    let mut told = 0;
    let done = plan.write(&into, &mut |bytes| {
        told += bytes;
        true
    })?;
    assert_eq!(plan.expected(), done);
    let mut all = vec![0; into.len().unwrap() as usize];
    into.read_at(0, &mut all).unwrap();
    assert!(told <= all.len() as u64);
    Ok((done, all))
}

#[test]
fn everything_is_kept_but_unused_space() {
    for libver in BOTH {
        for user_block in [0, 512] {
            let bytes = example(libver, user_block);
            let before = open(&bytes).unwrap();
            let (done, copy) = compacted(&before).unwrap();
            assert_eq!((done.before, done.after), (bytes.len() as u64, copy.len() as u64));
            assert!(done.after * 2 < done.before && done.lost_references == 0, "{done:?}");
            assert_eq!(&copy[..user_block as usize], &bytes[..user_block as usize]);
            let after = open(&copy).unwrap();
            assert_eq!(described(&after), described(&before));
            // Another copy is not smaller, and the same bytes.
            assert_eq!(compacted(&after).unwrap().1, copy);
        }
    }
}

#[test]
fn pages() {
    for libver in BOTH {
        for user_block in [0, 512] {
            let before = open(&example(libver, user_block)).unwrap();
            for pages in [Pages::Chosen, Pages::AtLeast(4096), Pages::AtLeast(1 << 16)] {
                let into = Arc::new(EditedFile::memory(Vec::new()));
                let plan = Compaction::paged(&before, pages).unwrap();
                assert_eq!(plan.write(&into, &mut |_| true).unwrap(), plan.expected());
                let copy = File::open(into.clone(), into.key(), FileOptions::default()).unwrap();
                assert_eq!(described(&copy), described(&before));
                let size = survey::pages(&copy).unwrap().unwrap();
                assert!(pages == Pages::Chosen || pages == Pages::AtLeast(size), "{size}");
                // All metadata are in front of all chunks.
                let Node::Dataset(a) = copy.node("a").unwrap() else { panic!("no dataset") };
                let index = a.chunk_index().unwrap().unwrap();
                let first = index.records.first().unwrap().address;
                assert_eq!(first % size, 0);
                let crosses = |at: u64, len: u64| at / size != (at + len.min(size) - 1) / size;
                for found in survey::survey(&copy).unwrap() {
                    assert!(found.address < first);
                    let header = copy.header(found.address).unwrap();
                    assert!(!crosses(found.address, header.bytes), "{}", found.path);
                }
                // It keeps its pages.
                let again = Arc::new(EditedFile::memory(Vec::new()));
                Compaction::of(&copy).unwrap().write(&again, &mut |_| true).unwrap();
                let all = |file: &EditedFile| {
                    let mut all = vec![0; file.len().unwrap() as usize];
                    file.read_at(0, &mut all).unwrap();
                    all
                };
                assert!(all(&again) == all(&into));
            }
        }
    }
}

#[test]
fn the_caller_can_stop() {
    let file = open(&example(Libver::Earliest, 0)).unwrap();
    let into = Arc::new(EditedFile::memory(Vec::new()));
    let stopped = Compaction::of(&file).unwrap().write(&into, &mut |_| false);
    assert!(matches!(stopped, Err(Hdf5Error::Interrupted { .. })));
}

/// A damaged file is an error, or a copy that opens and has the same objects.
#[test]
fn damaged_files() {
    for libver in BOTH {
        let bytes = compacted(&open(&example(libver, 0)).unwrap()).unwrap().1;
        for verify in [true, false] {
            let options = FileOptions { verify, others: None };
            for at in (0..bytes.len()).step_by(7) {
                for value in [0xff, bytes[at] ^ 1] {
                    let mut wrong = bytes.clone();
                    wrong[at] = value;
                    if let Ok(file) = File::open(store("f", &wrong), "f", options.clone()) {
                        let _ = compacted(&file);
                    }
                }
            }
        }
    }
}

#[test]
fn other_sizes_are_refused() {
    let bytes = crate::testing::bare(crate::Sizes { offset: 4, length: 4 }, &[0; 200]);
    let source = source(&bytes);
    let file = File::open(source.store().clone(), "f", FileOptions::default()).unwrap();
    crate::testing::fails(Compaction::of(&file), "addresses of 4 bytes and lengths of 4 bytes");
}
