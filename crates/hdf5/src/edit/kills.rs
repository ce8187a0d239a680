//! Writers that are killed: every state of the file between two flushes is a whole file.

use super::tests::{all_bytes, changed_objects, described, edited_recorded, example};
use super::*;
use crate::FileOptions;
use crate::testing::open;
use hyperslab_store::Change;
use proptest::prelude::*;

/// A page, inside which a write is whole.
const PAGE: u64 = 4096;

/// The file after each prefix of its changes. A write may end at the border of a page.
fn prefixes(start: &[u8], changes: &[Change], mut each: impl FnMut(&[u8])) {
    let mut bytes = start.to_vec();
    each(&bytes);
    for change in changes {
        match change {
            Change::Sync => continue,
            Change::Length(len) => bytes.resize(*len as usize, 0),
            Change::Write(offset, new) => {
                let end = offset + new.len() as u64;
                let mut at = *offset;
                while at < end {
                    let next = (at / PAGE + 1) * PAGE;
                    let part = &new[(at - offset) as usize..(next.min(end) - offset) as usize];
                    if bytes.len() < at as usize + part.len() {
                        bytes.resize(at as usize + part.len(), 0);
                    }
                    bytes[at as usize..at as usize + part.len()].copy_from_slice(part);
                    at = next;
                    each(&bytes);
                }
                continue;
            }
        }
        each(&bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn every_prefix_of_a_flush_is_the_file_before_or_after_it(
        seed in any::<u64>(),
        is_new in any::<bool>(),
        count in 1..12_usize,
        closes in any::<bool>(),
    ) {
        let libver = if is_new { Libver::V110 } else { Libver::Earliest };
        let start = example(libver, seed);
        let (bytes, editing) = edited_recorded(start.clone());
        let before = described(editing.file());
        changed_objects(&editing, seed, count);
        let after = described(editing.file());
        if closes {
            editing.close().unwrap();
        } else {
            editing.flush().unwrap();
        }
        let (mut old, mut new) = (0, 0);
        prefixes(&start, &bytes.changes(), |state| {
            let found = described(&open(state).unwrap());
            assert!(found == before || found == after, "{found:#?}\n{before:#?}\n{after:#?}");
            if found == before { old += 1 } else { new += 1 }
            // A writer completes the change, or finds the file as it was.
            let completed = Arc::new(EditedFile::memory(state.to_vec()));
            let file = File::edit(completed.clone(), libver, FileOptions::default()).unwrap();
            assert_eq!(described(&file), found);
            drop(file);
            assert_eq!(described(&open(&all_bytes(&completed)).unwrap()), found);
        });
        prop_assert!(old > 0 && new > 0);
    }
}

/// Headers of other writers may lie across the border of a page, where a kill can cut a write.
#[test]
fn a_header_across_pages_is_completed() {
    use crate::testing::{Builder, link_info, soft};
    for at in [4066_u64, 4080, 4090, 4095] {
        let mut builder = Builder::new();
        let here = builder.put(&[]);
        builder.put(&vec![0; (at - here) as usize]);
        let root = builder.header(&[link_info(false), soft("a", "/x"), soft("b", "/y")]);
        assert_eq!(root, at);
        let start = builder.finish(root, 2, 0);
        let (bytes, editing) = edited_recorded(start.clone());
        let before = described(editing.file());
        editing.link(root, "new", crate::LinkTarget::Soft("/z".into())).unwrap();
        let after = described(editing.file());
        editing.flush().unwrap();
        prefixes(&start, &bytes.changes(), |state| {
            let found = described(&open(state).unwrap());
            assert!(found == before || found == after, "{at}: {found:?}");
        });
    }
}

#[test]
fn a_file_that_nobody_changed_is_not_written() {
    for libver in [Libver::Earliest, Libver::V110] {
        let (bytes, editing) = edited_recorded(example(libver, 3));
        editing.flush().unwrap();
        editing.close().unwrap();
        assert_eq!(bytes.changes(), []);
    }
}

/// After a power failure, writes before a sync are on the disk if any write after it is.
#[test]
fn syncs_stand_between_what_depends_on_order() {
    let (bytes, editing) = edited_recorded(example(Libver::Earliest, 3));
    let root = editing.file().root().unwrap().address();
    editing.link(root, "new", crate::LinkTarget::Soft("/z".into())).unwrap();
    editing.close().unwrap();
    let changes = bytes.changes();
    let position = |wanted: &dyn Fn(&Change) -> bool| changes.iter().rposition(wanted).unwrap();
    let switch = position(&|change| matches!(change, Change::Write(at, _) if *at == root));
    let ends: Vec<usize> =
        (0..changes.len()).filter(|n| matches!(changes[*n], Change::Write(40, _))).collect();
    let cut = position(&|change| matches!(change, Change::Length(_)));
    let has_sync = |from: usize, to: usize| changes[from..to].contains(&Change::Sync);
    let [first, last] = ends[..] else { panic!("{ends:?}") };
    // The structures, the new end, the switch, the old end, the shorter file.
    assert!(has_sync(0, first) && has_sync(first, switch) && has_sync(switch, last) && has_sync(last, cut));
    assert_eq!(changes.last(), Some(&Change::Sync));
}

/// A flush that fails at any of its changes loses nothing: the next flush writes everything.
#[test]
fn a_flush_that_fails_can_be_repeated() {
    for seed in [1, 2, 3] {
        let start = example(Libver::Earliest, seed);
        let mut failures = 0;
        for allowed in 1.. {
            let (bytes, editing) = edited_recorded(start.clone());
            let before = described(editing.file());
            changed_objects(&editing, seed, 8);
            let after = described(editing.file());
            bytes.fail_after(allowed);
            let failed = editing.flush().is_err();
            bytes.fail_after(0);
            let found = described(&open(&all_bytes(&bytes)).unwrap());
            assert!(found == before || found == after, "{seed} {allowed}: {found:#?}");
            assert_eq!(described(editing.file()), after);
            if !failed {
                break;
            }
            failures += 1;
            editing.close().unwrap();
            assert_eq!(described(&open(&all_bytes(&bytes)).unwrap()), after, "{seed} {allowed}");
        }
        assert!(failures > 5, "{failures}");
    }
}
