//! Several writers of one file: each has the file open by itself, as other processes have.

use super::tests::{all_bytes, chunked, described, new_file, number, put_chunk};
use super::*;
use crate::new_file::NewAttribute;
use crate::{FileOptions, LinkTarget};
use hyperslab_store::{EditedOptions, FileStore};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;

fn create(path: &Path, libver: Libver) {
    let bytes = EditedFile::create(path, true, EditedOptions::default()).unwrap();
    let new = NewFile { libver, user_block: 0, track_order: false, space: None };
    let file = File::create(Arc::new(bytes), new, FileOptions::default()).unwrap();
    let editing = file.editing().unwrap();
    let root = file.root().unwrap().address();
    let dataset = editing.create_object(&super::tests::chunked(&[8], &[None], &[2], true)).unwrap();
    editing.link(root, "d", LinkTarget::Hard(dataset)).unwrap();
    editing.close().unwrap();
}

fn open(path: &Path) -> Editing {
    let bytes = EditedFile::open(path, EditedOptions::default()).unwrap().unwrap();
    File::edit(Arc::new(bytes), Libver::Earliest, FileOptions::default()).unwrap().editing().unwrap()
}

fn stored(path: &Path) -> Vec<String> {
    described(&crate::testing::open(&std::fs::read(path).unwrap()).unwrap())
}

fn dataset(editing: &Editing) -> u64 {
    match editing.file().node("d").unwrap() {
        crate::Node::Dataset(dataset) => dataset.address(),
        other => panic!("{other:?}"),
    }
}

fn root(editing: &Editing) -> u64 {
    editing.file().root().unwrap().address()
}

/// The work of all writers together. The last flush of a chunk or an attribute counts.
#[derive(Clone, Debug, Default)]
struct Model {
    attributes: BTreeMap<String, Option<u16>>,
    groups: BTreeMap<String, bool>,
    chunks: BTreeMap<u64, Option<[u8; 4]>>,
    len: Option<u64>,
}

impl Model {
    /// A writer has flushed. The longer one of two shapes counts.
    fn add(&mut self, newer: &mut Model) {
        let newer = std::mem::take(newer);
        self.attributes.extend(newer.attributes);
        self.groups.extend(newer.groups);
        self.chunks.extend(newer.chunks);
        self.len = self.len.max(newer.len);
    }

    fn described(&self) -> Vec<String> {
        let mut all = Vec::new();
        for (name, value) in &self.attributes {
            all.extend(value.map(|value| format!("@{name} = {:?}", value.to_le_bytes())));
        }
        all.push(format!("/d [{}]", self.len.unwrap_or(8)));
        for (number, bytes) in &self.chunks {
            all.extend(bytes.map(|bytes| format!("/d#{number} {bytes:?}")));
        }
        all.extend(self.groups.iter().filter(|(_, is_there)| **is_there).map(|(name, _)| format!("/{name}")));
        all.sort();
        all
    }
}

#[derive(Clone, Debug)]
enum Step {
    Attribute(u8, bool),
    Group(u8, bool),
    Chunk(u8, Option<u8>),
    Grow,
    Flush,
    Close,
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let step = prop_oneof![
        (0..6_u8, any::<bool>()).prop_map(|(name, sets)| Step::Attribute(name, sets)),
        (0..6_u8, any::<bool>()).prop_map(|(name, is_new)| Step::Group(name, is_new)),
        (0..4_u8, any::<Option<u8>>()).prop_map(|(number, value)| Step::Chunk(number, value)),
        Just(Step::Grow),
        Just(Step::Flush),
        Just(Step::Flush),
        Just(Step::Close),
    ];
    proptest::collection::vec((0..3_usize, step), 1..60)
}

/// The lines of a description that the model has, too.
fn lines(all: Vec<String>) -> Vec<String> {
    let group = |line: &String| line.strip_suffix(" true").map_or(line.clone(), str::to_owned);
    let mut all: Vec<String> = all.iter().filter(|line| !line.ends_with(" false")).map(group).collect();
    all.sort();
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn nothing_that_a_writer_flushed_is_lost(is_new in any::<bool>(), steps in steps()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.h5");
        create(&path, if is_new { Libver::V110 } else { Libver::Earliest });
        let mut writers: [Option<(Editing, Model)>; 3] = [const { None }; 3];
        let mut model = Model::default();
        let mut count = 0;
        for (writer, step) in steps {
            let (editing, mine) = writers[writer].get_or_insert_with(|| (open(&path), Model::default()));
            // Names of links are the writers' own: a name has one maker.
            let name = |n: u8| format!("{writer}{n}");
            match step {
                Step::Attribute(n, true) => {
                    // A new value: an equal one is no change.
                    count += 1;
                    editing.set_attribute(root(editing), &number(&format!("a{n}"), count)).unwrap();
                    mine.attributes.insert(format!("a{n}"), Some(count));
                }
                Step::Attribute(n, false) => {
                    let name = format!("a{n}");
                    // A new attribute that is deleted again is no change, either.
                    if !mine.attributes.contains_key(&name)
                        && editing.delete_attribute(root(editing), &name).is_ok()
                    {
                        mine.attributes.insert(name, None);
                    }
                }
                Step::Group(n, true) => {
                    let group = editing.create_object(&super::tests::group(false)).unwrap();
                    if editing.link(root(editing), &name(n), LinkTarget::Hard(group)).is_ok() {
                        mine.groups.insert(name(n), true);
                        if editing.has_others() {
                            // The name is in the file at once, with everything before it.
                            model.add(mine);
                        }
                    }
                }
                Step::Group(n, false) => {
                    if editing.unlink(root(editing), &name(n)).is_ok() {
                        mine.groups.insert(name(n), false);
                    }
                }
                Step::Chunk(n, Some(value)) => {
                    super::tests::put_chunk(editing, dataset(editing), &[n.into()], &[value; 4]);
                    mine.chunks.insert(n.into(), Some([value; 4]));
                }
                Step::Chunk(n, None) => {
                    editing.chunk_table(dataset(editing)).unwrap().remove(&[n.into()]);
                    mine.chunks.insert(n.into(), None);
                }
                Step::Grow => {
                    let dataset = dataset(editing);
                    let node = editing.file().object_at(dataset, "d").unwrap();
                    let crate::Node::Dataset(found) = node else { panic!() };
                    let len = found.dataspace().shape()[0] + 1;
                    editing.set_shape(dataset, &[len]).unwrap();
                    mine.len = Some(len);
                }
                Step::Flush => {
                    editing.flush().unwrap();
                    model.add(mine);
                    prop_assert_eq!(lines(stored(&path)), model.described());
                }
                Step::Close => {
                    editing.close().unwrap();
                    model.add(mine);
                    writers[writer] = None;
                    prop_assert_eq!(lines(stored(&path)), model.described());
                }
            }
        }
        for (editing, mut mine) in writers.into_iter().flatten() {
            editing.close().unwrap();
            model.add(&mut mine);
        }
        prop_assert_eq!(lines(stored(&path)), model.described());
        // The last writer leaves a file that ends where its superblock says, and can be changed again.
        let editing = open(&path);
        prop_assert!(editing.bytes().was_alone());
        prop_assert_eq!(editing.state().unwrap().end, std::fs::metadata(&path).unwrap().len());
        editing.set_attribute(root(&editing), &number("last", 7)).unwrap();
        editing.close().unwrap();
        model.attributes.insert("last".into(), Some(7));
        prop_assert_eq!(lines(stored(&path)), model.described());
    }
}

#[test]
fn threads_with_files_of_their_own_lose_nothing() {
    const WRITERS: u16 = 3;
    const ROUNDS: u16 = 25;
    for libver in [Libver::Earliest, Libver::V110] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.h5");
        create(&path, libver);
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let path = &path;
                scope.spawn(move || {
                    let editing = open(path);
                    for round in 0..ROUNDS {
                        let name = format!("{writer}.{round}");
                        editing.set_attribute(root(&editing), &number(&name, round)).unwrap();
                        // All append to one dataset.
                        editing
                            .exclusively(|| -> Result<()> {
                                let dataset = dataset(&editing);
                                let node = editing.file().object_at(dataset, "d")?;
                                let crate::Node::Dataset(found) = node else { panic!() };
                                let len = found.dataspace().shape()[0];
                                editing.set_shape(dataset, &[len + 2])?;
                                let value = [writer as u8, round as u8, 1, 2];
                                super::tests::put_chunk(&editing, dataset, &[len / 2], &value);
                                editing.flush()
                            })
                            .unwrap();
                    }
                    editing.close().unwrap();
                });
            }
        });
        let found = stored(&path);
        for writer in 0..WRITERS {
            for round in 0..ROUNDS {
                let attribute = format!("@{writer}.{round} = {:?}", round.to_le_bytes());
                let chunk = format!("{:?}", [writer as u8, round as u8, 1, 2]);
                assert!(found.contains(&attribute), "{attribute} {found:#?}");
                assert_eq!(
                    found.iter().filter(|line| line.ends_with(&chunk)).count(),
                    1,
                    "{chunk} {found:#?}"
                );
            }
        }
        assert!(found.contains(&format!("/d [{}]", 8 + 2 * WRITERS * ROUNDS)), "{found:#?}");
    }
}

/// A name that two writers have given is refused, and nothing else is lost.
#[test]
fn a_name_of_two_writers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.h5");
    create(&path, Libver::Earliest);
    let first = open(&path);
    let made = |editing: &Editing| {
        let group = editing.create_object(&super::tests::group(false)).unwrap();
        editing.link(root(editing), "g", LinkTarget::Hard(group))
    };
    made(&first).unwrap();
    let second = open(&path);
    // A writer that has company shows new names at once.
    made(&second).unwrap();
    assert!(stored(&path).contains(&"/g true".to_owned()));
    let refused = first.flush().unwrap_err().to_string();
    assert!(refused.contains("'g' was also made by another process"), "{refused}");
    let attribute: NewAttribute = number("a", 5);
    first.set_attribute(root(&first), &attribute).unwrap();
    first.unlink(root(&first), "g").unwrap();
    first.flush().unwrap();
    assert!(matches!(made(&first), Err(Hdf5Error::Exists { .. })));
    first.close().unwrap();
    second.close().unwrap();
    let found = stored(&path);
    assert!(found.contains(&"/g true".to_owned()) && found.contains(&"@a = [5, 0]".to_owned()), "{found:#?}");
}

/// Space that one writer replaces is not used while another one has the file open.
#[test]
fn space_is_used_again_when_all_have_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.h5");
    create(&path, Libver::Earliest);
    let write = |editing: &Editing, value: u8| {
        let dataset = dataset(editing);
        super::tests::put_chunk(editing, dataset, &[1], &[value; 8192]);
    };
    let first = open(&path);
    write(&first, 1);
    first.flush().unwrap();
    let second = open(&path);
    for value in 2..10 {
        write(&second, value);
        second.flush().unwrap();
    }
    second.close().unwrap();
    drop(second);
    let third = open(&path);
    assert!(!third.bytes().was_alone());
    write(&third, 10);
    third.close().unwrap();
    drop(third);
    first.close().unwrap();
    drop(first);
    let len = std::fs::metadata(&path).unwrap().len();
    for value in 11..30 {
        let editing = open(&path);
        write(&editing, value);
        editing.close().unwrap();
        let now = std::fs::metadata(&path).unwrap().len();
        // The list of free space has more entries.
        assert!(now <= len + 4096, "{value}: {now} {len}");
    }
    assert!(stored(&path).contains(&format!("/d#1 {:?}", [29; 8192])));
}

/// Two writers remove the same link, and one of them cannot flush at first. The object has lost one
/// link, not two: HDF5 would free an object with another name.
#[test]
fn links_are_counted_once_also_after_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.h5");
    create(&path, Libver::Earliest);
    let group = |editing: &Editing, above: u64, name: &str| {
        let group = editing.create_object(&super::tests::group(false)).unwrap();
        editing.link(above, name, LinkTarget::Hard(group)).unwrap();
        group
    };
    let first = open(&path);
    let (old, late) = (group(&first, root(&first), "old"), group(&first, root(&first), "late"));
    assert!(old < late);
    first.link(old, "e", LinkTarget::Hard(dataset(&first))).unwrap();
    first.flush().unwrap();
    first.unlink(old, "e").unwrap();
    group(&first, late, "n");
    let second = open(&path);
    second.unlink(old, "e").unwrap();
    group(&second, late, "n");
    second.close().unwrap();
    assert!(first.flush().is_err());
    first.unlink(late, "n").unwrap();
    let address = dataset(&first);
    first.close().unwrap();
    let file = crate::testing::open(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(file.header(address).unwrap().prefix.links, 1);
}

/// Two writers remove all links but one of an object: the number of links is not below 1.
#[test]
fn links_that_both_remove_are_counted_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.h5");
    create(&path, Libver::Earliest);
    let first = open(&path);
    let address = dataset(&first);
    for name in ["e", "f", "g"] {
        first.link(root(&first), name, LinkTarget::Hard(address)).unwrap();
    }
    first.flush().unwrap();
    let second = open(&path);
    for writer in [&first, &second] {
        for name in ["e", "f", "g"] {
            writer.unlink(root(writer), name).unwrap();
        }
    }
    first.close().unwrap();
    second.close().unwrap();
    let file = crate::testing::open(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(file.header(address).unwrap().prefix.links, 1);
}

/// A reader that has the file open while writers come and go sees the state that it opened.
#[test]
fn a_reader_keeps_its_state_while_writers_come_and_go() {
    for is_closed in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.h5");
        create(&path, Libver::Earliest);
        let write = |value: u8, number: u64| {
            let editing = open(&path);
            let dataset = dataset(&editing);
            super::tests::put_chunk(&editing, dataset, &[number], &[value; 8192]);
            editing.close().unwrap();
            usize::try_from(editing.chunk_table(dataset).unwrap().get(&[number]).unwrap().address).unwrap()
        };
        let start = write(1, 1);
        let store = FileStore::open(&path).unwrap().unwrap();
        let key = store.key().to_owned();
        let file = File::open(Arc::new(store), &key, FileOptions::default()).unwrap();
        if is_closed {
            file.close();
        }
        // The second one replaces what the reader sees, and the others would use its space.
        for value in 2..8 {
            write(value, 1);
            write(value, 0);
        }
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.get(start..start + 8192) == Some(&[1; 8192]), !is_closed);
    }
}

/// A superblock without a checksum may say an end before the last structures.
#[test]
fn bytes_behind_a_forged_end_stay() {
    let (bytes, editing) = new_file(Libver::Earliest, false);
    let place = root(&editing);
    let dataset = editing.create_object(&chunked(&[4], &[None], &[4], false)).unwrap();
    editing.link(place, "d", LinkTarget::Hard(dataset)).unwrap();
    put_chunk(&editing, dataset, &[0], &[1, 0, 2, 0, 3, 0, 4, 0]);
    editing.close().unwrap();
    let whole = all_bytes(&bytes);
    let before = described(&crate::testing::open(&whole).unwrap());
    let ends = [place + 64, whole.len() as u64 / 2, whole.len() as u64 - 64, whole.len() as u64 - 1];
    for end in ends {
        let mut forged = whole.clone();
        forged[40..48].copy_from_slice(&end.to_le_bytes());
        let bytes = Arc::new(EditedFile::memory(forged));
        let file = File::edit(bytes.clone(), Libver::Earliest, FileOptions::default()).unwrap();
        let editing = file.editing().unwrap();
        for n in 0..40 {
            let name = format!("a{n}");
            editing.set_attribute(place, &number(&name, n)).unwrap();
        }
        put_chunk(&editing, dataset, &[1], &[5; 8]);
        editing.close().unwrap();
        let all = described(&crate::testing::open(&all_bytes(&bytes)).unwrap());
        assert!(before.iter().all(|one| all.contains(one)), "{end}: {before:?} {all:?}");
        assert_eq!(all.iter().filter(|one| one.contains("@a")).count(), 40, "{end}");
    }
}
