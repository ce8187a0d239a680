//! Files that are changed, read while they are open and afterwards.

use super::*;
use crate::FileOptions;
use crate::data_layout::DataLayout;
use crate::dataspace::Dataspace;
use crate::datatype::Datatype;
use crate::filter::Filter;
use crate::new_file::{NewAttribute, NewDataset, NewStorage, ValuePart};
use crate::testing::{open, the_dataset};
use crate::{LinkTarget, Node};

const BOTH: [Libver; 2] = [Libver::Earliest, Libver::V110];

pub(super) fn new_file(libver: Libver, track_order: bool) -> (Arc<EditedFile>, Editing) {
    let bytes = Arc::new(EditedFile::memory(Vec::new()));
    let new = NewFile { libver, user_block: 0, track_order, space: None };
    let file = File::create(bytes.clone(), new, FileOptions::default()).unwrap();
    (bytes, file.editing().unwrap())
}

fn edited(bytes: Vec<u8>) -> (Arc<EditedFile>, Editing) {
    let bytes = Arc::new(EditedFile::memory(bytes));
    let file = File::edit(bytes.clone(), Libver::Earliest, FileOptions::default()).unwrap();
    (bytes, file.editing().unwrap())
}

pub(super) fn all_bytes(bytes: &EditedFile) -> Vec<u8> {
    let mut all = vec![0; bytes.len().unwrap() as usize];
    bytes.read_at(0, &mut all).unwrap();
    all
}

pub(super) fn root(editing: &Editing) -> u64 {
    editing.file().root().unwrap().address()
}

pub(super) fn number(name: &str, value: u16) -> NewAttribute {
    NewAttribute {
        name: name.into(),
        datatype: Datatype::of_numpy("<u2".parse().unwrap()).unwrap(),
        dataspace: Dataspace::Scalar,
        value: vec![ValuePart::Bytes(value.to_le_bytes().to_vec())],
    }
}

fn text(name: &str, value: &str) -> NewAttribute {
    NewAttribute {
        name: name.into(),
        datatype: Datatype::vlen_text(crate::datatype::Charset::Utf8),
        dataspace: Dataspace::Scalar,
        value: vec![ValuePart::text(value.as_bytes())],
    }
}

pub(super) fn group(tracks: bool) -> NewObject {
    let kind = NewKind::Group { links: Vec::new(), tracks_links: tracks };
    NewObject { path: "g".into(), kind, attributes: Vec::new(), tracks_attributes: tracks }
}

pub(super) fn chunked(shape: &[u64], max_shape: &[Option<u64>], chunk: &[u64], filtered: bool) -> NewObject {
    let filter = Filter { id: 1, name: None, optional: false, client_data: vec![1] };
    let kind = NewKind::Dataset(NewDataset {
        datatype: Datatype::of_numpy("<i2".parse().unwrap()).unwrap(),
        dataspace: Dataspace::Simple { shape: shape.into(), max_shape: max_shape.into() },
        fill: None,
        unfilled: false,
        filters: if filtered { vec![filter] } else { Vec::new() },
        storage: NewStorage::Chunked { chunk: chunk.into(), chunks: Vec::new() },
    });
    NewObject { path: "d".into(), kind, attributes: Vec::new(), tracks_attributes: false }
}

pub(super) fn put_chunk(editing: &Editing, dataset: u64, place: &[u64], bytes: &[u8]) {
    let table = editing.chunk_table(dataset).unwrap();
    let address = editing.allocate(bytes.len() as u64).unwrap();
    editing.write(address, &[bytes]).unwrap();
    let new = ChunkPlace { address, size: bytes.len() as u64, skipped: 0, is_flushed: false };
    if let Some(old) = table.put(place, new).filter(|old| !old.is_flushed) {
        editing.free(old.address, old.size);
    }
}

/// All objects below a group: path, links, attributes and chunks, as text.
pub(super) fn described(file: &File) -> Vec<String> {
    fn visit(node: &Node, path: &str, found: &mut Vec<String>) {
        let attributes = match node {
            Node::Group(group) => group.attributes().unwrap(),
            Node::Dataset(dataset) => dataset.attributes().unwrap(),
            Node::Datatype(datatype) => datatype.attributes.clone(),
        };
        for attribute in attributes {
            let value = match &attribute.datatype.class {
                crate::datatype::Class::VlenString { .. } => {
                    let bytes = &attribute.data;
                    let address = u64::from_le_bytes(bytes[4..12].try_into().unwrap());
                    let index = u32::from_le_bytes(bytes[12..].try_into().unwrap());
                    let collection = attribute.file.collection(address).unwrap();
                    let found = collection.object(index).unwrap().read(attribute.file.source()).unwrap();
                    String::from_utf8_lossy(&found).into_owned()
                }
                _ => format!("{:?}", &attribute.data[..]),
            };
            found.push(format!("{path}@{} = {value}", attribute.name));
        }
        if let Node::Dataset(dataset) = node {
            found.push(format!("{path} {:?}", dataset.dataspace().shape()));
            if let Some(index) = dataset.chunk_index().unwrap() {
                for record in &index.records {
                    let mut bytes = vec![0; record.size as usize];
                    dataset.file().source().read_into("chunk", [(record.address, &mut bytes[..])]).unwrap();
                    found.push(format!("{path}#{} {bytes:?}", record.number));
                }
            }
        }
        let Node::Group(group) = node else { return };
        for link in group.links().unwrap() {
            let path = format!("{path}/{}", link.name);
            assert_eq!(group.link(&link.name).unwrap().unwrap(), link);
            match &link.target {
                LinkTarget::Hard(address) => {
                    let node = group.file().object_at(*address, &path).unwrap();
                    found.push(format!("{path} {}", matches!(node, Node::Group(_))));
                    visit(&node, &path, found);
                }
                other => found.push(format!("{path} {other:?}")),
            }
        }
    }
    let mut found = Vec::new();
    visit(&Node::Group(file.root().unwrap()), "", &mut found);
    found
}

/// Flushes, and compares the open file with the file as others see it.
fn check(bytes: &EditedFile, editing: &Editing) -> Vec<String> {
    let before = described(editing.file());
    editing.flush().unwrap();
    assert_eq!(described(editing.file()), before);
    let stored = open(&all_bytes(bytes)).unwrap();
    assert_eq!(described(&stored), before);
    before
}

#[test]
fn an_empty_file() {
    for libver in BOTH {
        for track_order in [false, true] {
            let (bytes, editing) = new_file(libver, track_order);
            assert_eq!(check(&bytes, &editing), [""; 0]);
            editing.close().unwrap();
            assert!(bytes.len().unwrap() < 5000);
            assert_eq!(described(&open(&all_bytes(&bytes)).unwrap()), [""; 0]);
        }
    }
}

#[test]
fn objects_links_and_attributes() {
    for libver in BOTH {
        for tracks in [false, true] {
            let (bytes, editing) = new_file(libver, tracks);
            let root = root(&editing);
            let made = editing.create_object(&group(tracks)).unwrap();
            editing.link(root, "g", LinkTarget::Hard(made)).unwrap();
            editing.link(root, "again", LinkTarget::Hard(made)).unwrap();
            editing.link(root, "soft", LinkTarget::Soft("/g".into())).unwrap();
            for n in 0..30 {
                editing.set_attribute(made, &text(&format!("a{n}"), &"x".repeat(n))).unwrap();
            }
            assert!(matches!(editing.link(root, "g", LinkTarget::Hard(made)), Err(Hdf5Error::Exists { .. })));
            assert!(matches!(editing.unlink(root, "x"), Err(Hdf5Error::NotFound { .. })));
            assert!(editing.link(root, "a/b", LinkTarget::Soft("x".into())).is_err());
            check(&bytes, &editing);
            editing.set_attribute(made, &number("a3", 5)).unwrap();
            editing.delete_attribute(made, "a4").unwrap();
            editing.rename_attribute(made, "a5", "renamed").unwrap();
            assert!(matches!(editing.delete_attribute(made, "a4"), Err(Hdf5Error::NotFound { .. })));
            editing.link(made, "ext", LinkTarget::External { file: "f".into(), path: "/x".into() }).unwrap();
            editing.move_link((root, "again"), (root, "é")).unwrap();
            check(&bytes, &editing);
            editing.unlink(root, "soft").unwrap();
            let other = editing.create_object(&group(false)).unwrap();
            for n in 0..100 {
                editing.link(made, &format!("many {n}"), LinkTarget::Hard(other)).unwrap();
            }
            let found = check(&bytes, &editing);
            assert!(found.contains(&"/g@renamed = xxxxx".to_owned()), "{found:?}");
            editing.close().unwrap();
            let (bytes, editing) = edited(all_bytes(&bytes));
            assert_eq!(described(editing.file()), found);
            editing.set_attribute(made, &text("late", "value")).unwrap();
            editing.unlink(made, "many 50").unwrap();
            check(&bytes, &editing);
            editing.close().unwrap();
        }
    }
}

#[test]
fn the_first_link_of_a_file_that_is_shorter_than_a_page() {
    let (bytes, editing) = new_file(Libver::Earliest, false);
    editing.close().unwrap();
    let (bytes, editing) = edited(all_bytes(&bytes));
    let root = root(&editing);
    // Reads the page with the end of the file.
    assert!(editing.file().root().unwrap().links().unwrap().is_empty());
    let made = editing.create_object(&group(false)).unwrap();
    editing.link(root, "g", LinkTarget::Hard(made)).unwrap();
    assert_eq!(check(&bytes, &editing), ["/g true"]);
}

#[test]
fn chunks_come_and_go() {
    for libver in BOTH {
        for filtered in [false, true] {
            let (bytes, editing) = new_file(libver, false);
            let made = editing.create_object(&chunked(&[3, 4], &[None, Some(9)], &[2, 2], filtered)).unwrap();
            editing.link(root(&editing), "d", LinkTarget::Hard(made)).unwrap();
            let value = |n: u8| vec![n; if filtered { usize::from(n) + 1 } else { 8 }];
            check(&bytes, &editing);
            put_chunk(&editing, made, &[0, 1], &value(1));
            put_chunk(&editing, made, &[1, 0], &value(2));
            put_chunk(&editing, made, &[1, 0], &value(3));
            check(&bytes, &editing);
            editing.set_shape(made, &[5, 9]).unwrap();
            put_chunk(&editing, made, &[2, 4], &value(4));
            put_chunk(&editing, made, &[0, 1], &value(5));
            let found = check(&bytes, &editing);
            assert_eq!(found.len(), 5, "{found:?}");
            assert!(editing.set_shape(made, &[5, 10]).is_err() && editing.set_shape(made, &[5]).is_err());
            editing.set_shape(made, &[2, 3]).unwrap();
            let found = check(&bytes, &editing);
            assert_eq!(found[2], format!("/d#1 {:?}", value(5)));
            assert_eq!(found.len(), 3, "{found:?}");
            editing.close().unwrap();
            let (bytes, editing) = edited(all_bytes(&bytes));
            put_chunk(&editing, made, &[0, 0], &value(6));
            check(&bytes, &editing);
            assert_eq!(editing.version(made), 0);
        }
    }
}

#[test]
fn small_and_contiguous_datasets() {
    for libver in BOTH {
        let (bytes, editing) = new_file(libver, false);
        let root = root(&editing);
        let mut object = chunked(&[4], &[Some(4)], &[4], false);
        let NewKind::Dataset(dataset) = &mut object.kind else { panic!() };
        dataset.storage = NewStorage::Compact(vec![1; 8]);
        let compact = editing.create_object(&object).unwrap();
        let NewKind::Dataset(dataset) = &mut object.kind else { panic!() };
        dataset.storage = NewStorage::Contiguous(None);
        let run = editing.create_object(&object).unwrap();
        editing.link(root, "compact", LinkTarget::Hard(compact)).unwrap();
        editing.link(root, "run", LinkTarget::Hard(run)).unwrap();
        let elements = |file: &File, path: &str| {
            let dataset = the_dataset(file, path).unwrap();
            match dataset.data_layout() {
                DataLayout::Compact { address, size } => {
                    file.source().read("x", *address, *size).unwrap().to_vec()
                }
                DataLayout::Contiguous { address: Some(at), .. } => {
                    file.source().read("x", *at, 8).unwrap().to_vec()
                }
                _ => Vec::new(),
            }
        };
        assert_eq!(elements(editing.file(), "compact"), [1; 8]);
        editing.set_compact(compact, 2, &[5, 6]).unwrap();
        assert!(editing.set_compact(compact, 7, &[5, 6]).is_err());
        assert_eq!(elements(editing.file(), "compact"), [1, 1, 5, 6, 1, 1, 1, 1]);
        let at = editing.allocate(8).unwrap();
        editing.write(at, &[&[7; 5], &[8; 3]]).unwrap();
        editing.set_run(run, at).unwrap();
        check(&bytes, &editing);
        let stored = open(&all_bytes(&bytes)).unwrap();
        for file in [editing.file(), &stored] {
            assert_eq!(elements(file, "compact"), [1, 1, 5, 6, 1, 1, 1, 1]);
            assert_eq!(elements(file, "run"), [7, 7, 7, 7, 7, 8, 8, 8]);
        }
        assert!(editing.set_run(compact, at).is_err() && editing.set_compact(run, 0, &[1]).is_err());
    }
}

#[test]
fn many_values_of_any_length() {
    let (bytes, editing) = new_file(Libver::Earliest, false);
    for (count, is_text) in [(3_usize, false), (3, true), (20_000, false), (20_000, true)] {
        let values: Vec<Vec<u8>> = (0..count).map(|n| vec![n as u8; n % 7]).collect();
        let found = values.iter().map(|value| (value.len() as u64, &value[..]));
        let elements = editing.put_values(found, is_text).unwrap();
        assert_eq!(elements.len(), 16 * count);
        for (element, value) in elements.chunks(16).zip(&values) {
            let address = u64::from_le_bytes(element[4..12].try_into().unwrap());
            if value.is_empty() && !is_text {
                assert_eq!(element, [0; 16]);
                continue;
            }
            let index = u32::from_le_bytes(element[12..].try_into().unwrap());
            let collection = editing.file().collection(address).unwrap();
            let found = collection.object(index).unwrap().read(editing.file().source()).unwrap();
            assert_eq!(&found[..value.len()], &value[..]);
        }
    }
    check(&bytes, &editing);
}

#[test]
fn space_is_used_again_by_the_next_session() {
    let (bytes, editing) = new_file(Libver::Earliest, false);
    let made = editing.create_object(&chunked(&[8], &[None], &[2], true)).unwrap();
    editing.link(root(&editing), "d", LinkTarget::Hard(made)).unwrap();
    (0..4).for_each(|n| put_chunk(&editing, made, &[n], &[1; 5000]));
    editing.close().unwrap();
    let mut image = all_bytes(&bytes);
    let mut sizes = vec![image.len()];
    for session in 0..6_u8 {
        let (bytes, editing) = edited(image);
        (0..4).for_each(|n| put_chunk(&editing, made, &[n], &[session; 5000]));
        check(&bytes, &editing);
        editing.close().unwrap();
        image = all_bytes(&bytes);
        sizes.push(image.len());
    }
    // The list of free space may take some bytes more.
    assert!(sizes[6] < 3 * sizes[0] && sizes[6] <= sizes[1] + 1024, "{sizes:?}");
    // A deleted dataset gives back its chunks.
    let (bytes, editing) = edited(image);
    editing.unlink(root(&editing), "d").unwrap();
    editing.close().unwrap();
    let image = all_bytes(&bytes);
    let (bytes, editing) = edited(image);
    let made = editing.create_object(&chunked(&[16], &[None], &[2], true)).unwrap();
    editing.link(root(&editing), "d", LinkTarget::Hard(made)).unwrap();
    (0..8).for_each(|n| put_chunk(&editing, made, &[n], &[1; 5000]));
    check(&bytes, &editing);
    editing.close().unwrap();
    // Most of the 40 000 bytes fit into freed places.
    let len = bytes.len().unwrap() as usize;
    let most = sizes.iter().max().unwrap();
    assert!(len <= most + 15_000, "{sizes:?} {len}");
}

/// Numbers that depend on a seed.
pub(super) struct Random(pub u64);

impl Random {
    pub fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

pub(super) fn edited_recorded(bytes: Vec<u8>) -> (Arc<EditedFile>, Editing) {
    let bytes = Arc::new(EditedFile::recorded(bytes));
    let file = File::edit(bytes.clone(), Libver::Earliest, FileOptions::default()).unwrap();
    (bytes, file.editing().unwrap())
}

/// A closed file with groups, datasets and attributes.
pub(super) fn example(libver: Libver, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let (bytes, editing) = new_file(libver, random.below(2) == 0);
    let root = root(&editing);
    for n in 0..4 {
        let tracks = random.below(2) == 0;
        let made = editing.create_object(&group(tracks)).unwrap();
        editing.link(root, &format!("g{n}"), LinkTarget::Hard(made)).unwrap();
        for k in 0..random.below(12) {
            editing.set_attribute(made, &text(&format!("t{k}"), "some text")).unwrap();
        }
        let data = chunked(&[3, 4], &[None, Some(9)], &[2, 2], true);
        let data = editing.create_object(&data).unwrap();
        editing.link(made, "d", LinkTarget::Hard(data)).unwrap();
        for k in 0..random.below(3) {
            put_chunk(&editing, data, &[k, 0], &[k as u8 + 1; 10]);
        }
        for k in 0..random.below(12) {
            editing.link(made, &format!("s{k}"), LinkTarget::Soft("/x".into())).unwrap();
        }
    }
    editing.close().unwrap();
    all_bytes(&bytes)
}

/// Changes objects of the example: at least one, so that the file differs.
pub(super) fn changed_objects(editing: &Editing, seed: u64, count: usize) {
    let mut random = Random(seed ^ 0x1234_5678);
    let root = root(editing);
    editing.set_attribute(root, &number("changed", 1)).unwrap();
    for n in 0..count {
        let name = format!("g{}", random.below(4));
        let Ok(Node::Group(group)) = editing.file().node(&name) else { continue };
        let group = group.address();
        let data = editing.file().node(&format!("{name}/d")).map(|node| match node {
            Node::Dataset(dataset) => dataset.address(),
            _ => 0,
        });
        match random.below(9) {
            0 => editing.set_attribute(group, &text("t1", &format!("new {n}"))).unwrap(),
            1 => drop(editing.delete_attribute(group, "t0")),
            2 => editing.link(group, &format!("new{n}"), LinkTarget::Soft("/y".into())).unwrap(),
            3 => drop(editing.unlink(group, "s1")),
            4 => drop(editing.unlink(root, &name)),
            5 => drop(editing.move_link((group, "d"), (root, &format!("moved{n}")))),
            6 => {
                let Ok(data) = data else { continue };
                editing.set_shape(data, &[random.below(9) + 1, random.below(9) + 1]).unwrap();
                put_chunk(editing, data, &[0, 0], &[9; 12]);
            }
            7 => {
                let Ok(data) = data else { continue };
                put_chunk(editing, data, &[random.below(1), random.below(1)], &[n as u8; 5000]);
                editing.set_attribute(data, &number("rows", n as u16)).unwrap();
            }
            _ => {
                let made = chunked(&[3], &[None], &[2], false);
                let made = editing.create_object(&made).unwrap();
                put_chunk(editing, made, &[1], &[5; 4]);
                editing.link(group, &format!("made{n}"), LinkTarget::Hard(made)).unwrap();
            }
        }
    }
}

#[test]
fn objects_are_switched_by_few_calls() {
    let bytes = Arc::new(EditedFile::recorded(Vec::new()));
    let file = File::create(bytes.clone(), NewFile::default(), FileOptions::default()).unwrap();
    let editing = file.editing().unwrap();
    let root = root(&editing);
    let made: Vec<u64> = (0..512)
        .map(|n| {
            let address = editing.create_object(&group(false)).unwrap();
            editing.link(root, &n.to_string(), LinkTarget::Hard(address)).unwrap();
            address
        })
        .collect();
    editing.flush().unwrap();
    // 4 lines come first, then 64 at a time. Structures, superblock and slot follow.
    assert!(bytes.changes().len() < 20, "{} changes", bytes.changes().len());
    let before = bytes.changes().len();
    for (n, address) in made.iter().enumerate() {
        editing.set_attribute(*address, &number("n", n as u16)).unwrap();
        editing.set_attribute(*address, &number("n", n as u16 + 1)).unwrap();
    }
    editing.flush().unwrap();
    // Each object that others refer to is switched by a write of its own.
    let switches = bytes.changes().len() - before;
    assert!((512..530).contains(&switches), "{switches} changes");
    let file = open(&all_bytes(&bytes)).unwrap();
    for n in 0..512 {
        let Node::Group(found) = file.node(&n.to_string()).unwrap() else { panic!("no group") };
        let attributes = found.attributes().unwrap();
        assert_eq!(attributes.len(), 1);
        assert_eq!(&*attributes[0].data, (n as u16 + 1).to_le_bytes());
    }
}

/// The superblock says that the file ends before its root group. New structures would be written there.
#[test]
fn a_file_that_ends_before_its_root_group_is_refused() {
    for libver in BOTH {
        let before = example(libver, 3);
        // The place of the end address in superblocks of versions 0 and 3.
        let at = if before[8] == 0 { 40 } else { 28 };
        for end in [0_u64, 47, 48] {
            let mut damaged = before.clone();
            damaged[at..at + 8].copy_from_slice(&end.to_le_bytes());
            let bytes = Arc::new(EditedFile::memory(damaged.clone()));
            let options = FileOptions { verify: false, ..FileOptions::default() };
            let error = File::edit(bytes.clone(), Libver::Earliest, options).unwrap_err().to_string();
            assert!(error.contains(&format!("ends at byte {end}, before its root group")), "{error}");
            assert!(all_bytes(&bytes) == damaged);
        }
    }
}

#[test]
fn a_refused_attribute_changes_nothing() {
    let (_, editing) = new_file(Libver::Earliest, false);
    let root = root(&editing);
    editing.set_attribute(root, &number("a", 1)).unwrap();
    let large = NewAttribute {
        dataspace: Dataspace::Simple { shape: vec![40_000], max_shape: vec![Some(40_000)] },
        value: vec![ValuePart::Bytes(vec![0; 80_000])],
        ..number("a", 1)
    };
    for _ in 0..2 {
        let error = editing.set_attribute(root, &large).unwrap_err().to_string();
        assert!(error.contains("object header message is too large"), "{error}");
    }
    let found = editing.file().root().unwrap().attributes().unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(&*found[0].data, [1, 0]);
}
