//! A flush writes a part of a large index: with one writer, and with several.

use super::tests::{Random, all_bytes, chunked, described, edited_recorded, new_file, put_chunk, root};
use super::*;
use crate::testing::{open, the_dataset};
use crate::{FileOptions, LinkTarget};
use hyperslab_store::{Change, EditedOptions};
use std::path::Path;

/// A closed file with a dataset of `count` chunks of one axis, which was flushed before it had them.
fn file(libver: Libver, filtered: bool, max: Option<u64>, count: u64) -> Vec<u8> {
    let (bytes, editing) = new_file(libver, false);
    let made = editing.create_object(&chunked(&[2 * count], &[max], &[2], filtered)).unwrap();
    editing.link(root(&editing), "d", LinkTarget::Hard(made)).unwrap();
    put_chunk(&editing, made, &[0], &[1; 4]);
    editing.flush().unwrap();
    (1..count).for_each(|n| put_chunk(&editing, made, &[n], &(n as u32).to_le_bytes()));
    editing.close().unwrap();
    all_bytes(&bytes)
}

fn dataset(editing: &Editing) -> u64 {
    the_dataset(editing.file(), "d").unwrap().address()
}

/// The bytes of a file without all space that writers count as free.
fn spoiled(mut image: Vec<u8>, editings: &[&Editing]) -> Vec<u8> {
    for editing in editings {
        let mut ranges = editing.edits.space.lock().free_ranges();
        ranges.extend(editing.edits.freed.lock().iter());
        for (start, len) in ranges {
            let end = ((start + len) as usize).min(image.len());
            image[(start as usize).min(end)..end].fill(0xee);
        }
    }
    image
}

/// One chunk more costs the nodes that lead to it, in a file that was just opened, too.
#[test]
fn a_flush_writes_a_few_nodes() {
    const COUNT: u64 = 20_000;
    for (libver, filtered, max) in [
        (Libver::Earliest, true, None),
        (Libver::V110, true, None),
        (Libver::V110, false, None),
        // An array of all possible chunks at first.
        (Libver::V110, true, Some(2 * COUNT + 100)),
    ] {
        let (bytes, editing) = edited_recorded(file(libver, filtered, max, COUNT));
        let made = dataset(&editing);
        let written = || {
            let lens = bytes.changes().into_iter().map(|change| match change {
                Change::Write(_, new) => new.len(),
                _ => 0,
            });
            lens.sum::<usize>()
        };
        let mut before = written();
        for n in 0..5 {
            editing.set_shape(made, &[2 * (COUNT + n + 1)]).unwrap();
            put_chunk(&editing, made, &[COUNT + n], &[7; 4]);
            editing.flush().unwrap();
            let more = written() - before;
            assert!(more < 8192, "{libver:?} {max:?} {n}: {more} bytes");
            before += more;
        }
        let expected = described(editing.file());
        let stored = open(&spoiled(all_bytes(&bytes), &[&editing])).unwrap();
        assert_eq!(described(&stored).len() as u64, COUNT + 7);
        assert_eq!(described(&stored), expected);
        editing.close().unwrap();
    }
}

/// A flush that fails has replaced nothing: the next one keeps the nodes of the flush before.
#[test]
fn nodes_of_a_failed_flush_do_not_count() {
    for libver in [Libver::Earliest, Libver::V110] {
        let start = file(libver, true, None, 500);
        for allowed in 1.. {
            let (bytes, editing) = edited_recorded(start.clone());
            let made = dataset(&editing);
            put_chunk(&editing, made, &[3], &[9; 4]);
            editing.flush().unwrap();
            let mut random = Random(allowed as u64);
            let mut is_done = false;
            for round in 0..3 {
                let before = described(&open(&all_bytes(&bytes)).unwrap());
                (0..3).for_each(|_| put_chunk(&editing, made, &[random.below(500)], &[round; 6]));
                let after = described(editing.file());
                bytes.fail_after(allowed);
                is_done = editing.flush().is_ok();
                bytes.fail_after(0);
                let image = spoiled(all_bytes(&bytes), &[&editing]);
                let found = described(&open(&image).unwrap());
                assert!(found == before || found == after, "{allowed}");
            }
            let expected = described(editing.file());
            editing.flush().unwrap();
            let image = spoiled(all_bytes(&bytes), &[&editing]);
            assert_eq!(described(&open(&image).unwrap()), expected);
            if is_done {
                break;
            }
        }
    }
}

fn writer(path: &Path) -> Editing {
    let bytes = EditedFile::open(path, EditedOptions::default()).unwrap().unwrap();
    File::edit(Arc::new(bytes), Libver::Earliest, FileOptions::default()).unwrap().editing().unwrap()
}

/// Each writer keeps the nodes of the file, also if another writer has flushed them.
#[test]
fn several_writers_share_nodes() {
    for (libver, seed) in [(Libver::Earliest, 1), (Libver::V110, 2), (Libver::V110, 3)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.h5");
        std::fs::write(&path, file(libver, true, None, 300)).unwrap();
        let mut random = Random(seed);
        let mut writers: Vec<Editing> = (0..3).map(|_| writer(&path)).collect();
        let made = dataset(&writers[0]);
        let mut model: BTreeMap<u64, Vec<u8>> =
            (1..300).map(|n| (n, (n as u32).to_le_bytes().into())).collect();
        model.insert(0, vec![1; 4]);
        for step in 0..60_u8 {
            let number = random.below(3) as usize;
            let writer = &writers[number];
            // Writers change chunks of their own.
            for _ in 0..random.below(5) {
                let chunk = 3 * random.below(100) + number as u64;
                if random.below(4) == 0 {
                    writer.chunk_table(made).unwrap().remove(&[chunk]);
                    model.remove(&chunk);
                } else {
                    put_chunk(writer, made, &[chunk], &[step; 5]);
                    model.insert(chunk, vec![step; 5]);
                }
            }
            writer.flush().unwrap();
            let all: Vec<&Editing> = writers.iter().collect();
            let image = spoiled(std::fs::read(&path).unwrap(), &all);
            let expected: Vec<String> = ["/d false".into(), "/d [600]".into()]
                .into_iter()
                .chain(model.iter().map(|(number, bytes)| format!("/d#{number} {bytes:?}")))
                .collect();
            assert_eq!(described(&open(&image).unwrap()), expected, "{step}");
            if random.below(10) == 0 {
                writers[number].close().unwrap();
                writers[number] = self::writer(&path);
            }
        }
        for writer in &writers {
            writer.close().unwrap();
        }
        let stored = described(&open(&std::fs::read(&path).unwrap()).unwrap());
        assert_eq!(stored.len(), model.len() + 2);
    }
}
