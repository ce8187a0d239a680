//! Damaged files, built structure by structure.

use super::*;
use crate::File;
use crate::testing::{Builder, contiguous_message, dataset, hard, link_info, open, store, structure};

fn torn(bytes: &[u8]) -> Torn {
    let mut torn = Torn::open(store("f", bytes), "f", FileOptions::default(), false).unwrap();
    for piece in 0..torn.pieces() {
        torn.test(piece).unwrap();
    }
    torn.settle();
    torn
}

/// The copy of what is left, its objects, and the losses as path and reason.
fn salvaged(bytes: &[u8]) -> (File, Vec<String>, Vec<(String, String)>) {
    let mut torn = torn(bytes);
    torn.adopt().unwrap();
    torn.settle();
    let salvage = torn.salvage().unwrap();
    let paths = salvage.paths().map(str::to_owned).collect();
    let into = Arc::new(EditedFile::memory(Vec::new()));
    salvage.write(&into, &mut |_| true).unwrap();
    let key = into.key().to_owned();
    let copy = File::open(into, &key, FileOptions::default()).unwrap();
    (copy, paths, salvage.lost.iter().map(|loss| (loss.path.clone(), loss.why.clone())).collect())
}

/// `/a` and `/b`, each with three numbers.
fn two() -> (Builder, u64, u64) {
    let mut builder = Builder::new();
    let raw = builder.put(&[1, 0, 2, 0, 3, 0, 0, 0]);
    let a = builder.header(&dataset(&[3], contiguous_message(raw, 6)));
    let raw = builder.put(&[4, 0, 5, 0, 6, 0, 0, 0]);
    let b = builder.header(&dataset(&[3], contiguous_message(raw, 6)));
    (builder, a, b)
}

fn values(file: &File, path: &str) -> Vec<u8> {
    let dataset = crate::testing::the_dataset(file, path).unwrap();
    crate::testing::elements(&dataset.layout().unwrap()).unwrap()
}

#[test]
fn a_whole_file_has_no_losses() {
    let (mut builder, a, b) = two();
    let root = builder.header(&[link_info(false), hard("a", a), hard("b", b)]);
    let torn = torn(&builder.finish(root, 2, 0));
    assert_eq!(torn.losses(), (vec![], 0));
    assert!(torn.mend().unwrap().is_empty());
}

#[test]
fn flags_are_put_right_in_place() {
    let (mut builder, a, b) = two();
    let root = builder.header(&[link_info(false), hard("a", a), hard("b", b)]);
    let mut bytes = builder.finish(root, 3, 1);
    assert!(open(&bytes).is_err());
    let mend = torn(&bytes).mend().unwrap();
    let [patch] = mend.patches.as_slice() else { panic!("{mend:?}") };
    let at = patch.offset as usize;
    assert_eq!(bytes[at..at + patch.old.len()], patch.old);
    bytes[at..at + patch.new.len()].copy_from_slice(&patch.new);
    assert_eq!(values(&open(&bytes).unwrap(), "b"), [4, 0, 5, 0, 6, 0]);
}

#[test]
fn a_header_that_nothing_leads_to_is_found() {
    let (mut builder, a, b) = two();
    let no_object = builder.put(b"OHDR\x02xxxxxxxxxxxxxxxxxxxxxxx");
    let root = builder.header(&[link_info(false), hard("a", a), hard("c", no_object)]);
    let (copy, paths, lost) = salvaged(&builder.finish(root, 2, 0));
    assert_eq!(values(&copy, "a"), [1, 0, 2, 0, 3, 0]);
    assert_eq!(values(&copy, &format!("lost+found/{b}")), [4, 0, 5, 0, 6, 0]);
    assert_eq!(paths.len(), 4, "{paths:?}");
    assert!(lost.iter().any(|(path, _)| path == "c"), "{lost:?}");
    assert!(copy.node("c").is_err());
}

#[test]
fn a_file_without_a_root_gets_one() {
    let (mut builder, a, _) = two();
    let root = builder.put(&[0; 64]);
    let (copy, _, lost) = salvaged(&builder.finish(root, 2, 0));
    assert_eq!(values(&copy, &format!("lost+found/{a}")), [1, 0, 2, 0, 3, 0]);
    assert!(!lost.is_empty());
}

#[test]
fn elements_that_share_bytes_are_lost() {
    let mut builder = Builder::new();
    let raw = builder.put(&[1, 0, 2, 0, 3, 0, 0, 0]);
    let a = builder.header(&dataset(&[3], contiguous_message(raw, 6)));
    let b = builder.header(&dataset(&[2], contiguous_message(raw + 4, 4)));
    let raw = builder.put(&[7, 0, 8, 0]);
    let c = builder.header(&dataset(&[2], contiguous_message(raw, 4)));
    let root = builder.header(&[link_info(false), hard("a", a), hard("b", b), hard("c", c)]);
    let (copy, _, lost) = salvaged(&builder.finish(root, 2, 0));
    assert_eq!(values(&copy, "c"), [7, 0, 8, 0]);
    assert!(copy.node("a").is_err() && copy.node("b").is_err());
    assert!(["a", "b"].iter().all(|name| lost.iter().any(|(path, _)| path == name)), "{lost:?}");
}

/// Thousands of headers that lead to one block: reading each of them would take the square of the size.
#[test]
fn forged_headers_are_not_all_tried() {
    let (mut builder, a, b) = two();
    let block = structure!([0, 0, 0xf8, 0xff, 0, 0, 0, 0], [1; 0xfff8]);
    let shared = builder.put(&block);
    for _ in 0..2000 {
        let head = [1, 0, 2, 0, 1, 0, 0, 0, 24, 0, 0, 0, 0, 0, 0, 0];
        builder.put(&structure!(head, [16, 0, 16, 0, 0, 0, 0, 0], shared, block.len() as u64));
    }
    let lost_group = builder.put(&[0; 24]);
    let root = builder.header(&[link_info(false), hard("a", a), hard("b", b), hard("c", lost_group)]);
    let (copy, _, lost) = salvaged(&builder.finish(root, 2, 0));
    assert_eq!(values(&copy, "b"), [4, 0, 5, 0, 6, 0]);
    assert!(lost.iter().any(|(path, why)| path.is_empty() && why.contains("look like headers")), "{lost:?}");
}

#[test]
fn pieces_are_those_of_their_datasets() {
    let (mut builder, a, b) = two();
    let root = builder.header(&[link_info(false), hard("a", a), hard("b", b)]);
    let mut torn = torn(&builder.finish(root, 2, 0));
    (torn.tested, torn.ends) = (0, Vec::new());
    torn.walk.datasets.clear();
    torn.count_pieces();
    assert_eq!(torn.pieces(), 0);
    torn.ends = vec![0, 2, 2, 5];
    let owner = |piece: u64| torn.owner(piece);
    assert_eq!([0, 1, 2, 4, 5].map(owner), [(1, 0), (1, 1), (3, 0), (3, 2), (4, 0)]);
}
