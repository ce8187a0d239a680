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
