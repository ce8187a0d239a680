//! Repairs of files.

use super::*;
use crate::{Array, ArraySpec, Format, Group, Index};
use std::fs;

fn file(directory: &Path) -> String {
    let location = directory.join("run.h5").display().to_string();
    let root = Group::create(&location, Format::Hdf5).unwrap();
    let mut spec = ArraySpec::new(Format::ZarrV3.zarr().unwrap(), &[8], "<i4".parse().unwrap());
    spec.chunks = Some([4].as_slice().into());
    let array = root.create_array("x", &spec).unwrap();
    array.write_slice(&[], &[1_i32, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    root.finish().unwrap();
    location
}

fn values(location: &str) -> Vec<i32> {
    let array = crate::open(&format!("{location}/x")).unwrap().into_array().unwrap();
    array.read_vec(&[Index::ALL]).unwrap()
}

fn none() -> RepairOptions<'static> {
    RepairOptions::default()
}

#[test]
fn a_whole_file_needs_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let location = file(directory.path());
    let plan = plan(&location, &none()).unwrap();
    assert_eq!((plan.actions, plan.lost), (vec![], vec![]));
    assert!(!undo(&location).unwrap());
}

#[test]
fn a_length_is_put_right_and_undone() {
    let directory = tempfile::tempdir().unwrap();
    let location = file(directory.path());
    let whole = fs::read(&location).unwrap();
    // The superblock of version 0 has the end of the file at byte 40.
    let mut torn = whole.clone();
    let end = u64::from_le_bytes(torn[40..48].try_into().unwrap()) + 100;
    torn[40..48].copy_from_slice(&end.to_le_bytes());
    fs::write(&location, &torn).unwrap();
    let plan = plan(&location, &none()).unwrap();
    assert_eq!(plan.actions.iter().map(|action| action.kind).collect::<Vec<_>>(), [ActionKind::Length]);
    let refused = repair(&location, "000000000000", &none()).unwrap_err().to_string();
    assert!(refused.contains("--dry-run"), "{refused}");
    assert_eq!(fs::read(&location).unwrap(), torn);
    repair(&location, &plan.hash(), &none()).unwrap();
    assert_eq!(fs::read(&location).unwrap().len() as u64, end);
    assert_eq!(values(&location), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert!(undo(&location).unwrap());
    assert_eq!(fs::read(&location).unwrap(), torn);
    assert!(!quarantine::folder(Path::new(&location)).exists());
}

#[test]
fn an_interrupted_repair_is_undone() {
    let directory = tempfile::tempdir().unwrap();
    let location = file(directory.path());
    let old = fs::read(&location).unwrap();
    let bytes = |offset: usize, new: &[u8]| quarantine::Change::Bytes {
        offset: offset as u64,
        old: old[offset..offset + new.len()].to_vec(),
        new: new.to_vec(),
    };
    let changes = vec![
        quarantine::Change::Length { old: old.len() as u64, new: old.len() as u64 + 8 },
        bytes(9, b"xyz"),
        bytes(100, b"abc"),
    ];
    Quarantine::create(Path::new(&location)).unwrap().write("0", &changes).unwrap();
    // Killed in the middle of the second change.
    let mut now = old.clone();
    now.resize(old.len() + 8, 0);
    now[9] = b'x';
    fs::write(&location, &now).unwrap();
    assert!(undo(&location).unwrap());
    assert_eq!(fs::read(&location).unwrap(), old);
    // Somebody else changed the bytes.
    Quarantine::create(Path::new(&location)).unwrap().write("0", &changes).unwrap();
    now[10] = b'?';
    fs::write(&location, &now).unwrap();
    let refused = undo(&location).unwrap_err().to_string();
    assert!(refused.contains("undo would lose"), "{refused}");
    assert_eq!(fs::read(&location).unwrap(), now);
}

#[test]
fn what_is_left_is_copied() {
    let directory = tempfile::tempdir().unwrap();
    let location = file(directory.path());
    let mut torn = fs::read(&location).unwrap();
    // The second chunk is behind the end of the file.
    let chunk: Vec<u8> = [5_i32, 6, 7, 8].iter().flat_map(|value| value.to_le_bytes()).collect();
    let at = torn.windows(16).position(|bytes| bytes == chunk).unwrap();
    let table = torn.windows(4).position(|bytes| bytes == b"TREE").unwrap();
    // The address of the chunk in the index leads out of the file.
    let address = (at as u64).to_le_bytes();
    let place = (table..torn.len() - 8).find(|place| torn[*place..place + 8] == address);
    let Some(place) = place else { panic!("no index") };
    torn[place..place + 8].copy_from_slice(&(1_u64 << 40).to_le_bytes());
    fs::write(&location, &torn).unwrap();
    let plan = plan(&location, &none()).unwrap();
    assert!(plan.needs_target);
    let [lost] = plan.lost.as_slice() else { panic!("{:?}", plan.lost) };
    assert_eq!((lost.path.as_str(), lost.chunk.as_deref()), ("/x", Some(&[1][..])));
    let refused = repair(&location, &plan.hash(), &none()).unwrap_err().to_string();
    assert!(refused.contains("--to NEW"), "{refused}");
    let new = directory.path().join("new.h5");
    let options = RepairOptions { to: Some(new.clone()), ..none() };
    repair(&location, &plan.hash(), &options).unwrap();
    assert_eq!(values(&new.display().to_string()), [1, 2, 3, 4, 0, 0, 0, 0]);
    assert_eq!(fs::read(&location).unwrap(), torn);
    // A file that exists is not replaced.
    assert!(repair(&location, &plan.hash(), &options).is_err());
    let _: Array = crate::open(&format!("{}/x", new.display())).unwrap().into_array().unwrap();
}

/// An array of 8 × 8 numbers, 1 and up, in one shard of four shards of four chunks. The chunks have
/// checksums.
fn nested(directory: &Path) -> String {
    let location = directory.join("n.zarr").display().to_string();
    let crc = r#"{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}"#;
    let shard = |chunk: &str, codecs: &str| {
        format!(
            r#"{{"name": "sharding_indexed", "configuration": {{"chunk_shape": {chunk}, "codecs": [{codecs}],
            "index_codecs": [{crc}], "index_location": "end"}}}}"#
        )
    };
    let document = format!(
        r#"{{"zarr_format": 3, "node_type": "array", "shape": [8, 8], "data_type": "int32", "fill_value": 0,
        "chunk_grid": {{"name": "regular", "configuration": {{"chunk_shape": [8, 8]}}}},
        "chunk_key_encoding": {{"name": "default"}}, "codecs": [{}]}}"#,
        shard("[4, 4]", &shard("[2, 2]", crc))
    );
    fs::create_dir(&location).unwrap();
    fs::write(format!("{location}/zarr.json"), document).unwrap();
    let opening = crate::open::Opening { mode: Some(crate::open::Mode::Change), ..Default::default() };
    let place = stored::reach(Path::new(&location)).unwrap();
    let node = crate::open::open_in(place, &opening).unwrap().node.unwrap().into_node().unwrap();
    node.into_array().unwrap().write_slice(&[], &numbers()).unwrap();
    location
}

fn numbers() -> Vec<i32> {
    (1..=64).collect()
}

fn kinds(plan: &Plan) -> Vec<ActionKind> {
    plan.actions.iter().map(|action| action.kind).collect()
}

#[test]
fn shards_within_shards_keep_their_other_chunks() {
    let directory = tempfile::tempdir().unwrap();
    let location = nested(directory.path());
    let shard = format!("{location}/c/0/0");
    let whole = fs::read(&shard).unwrap();
    // The first chunk has the elements 1, 2, 9, 10. An inner shard has four chunks of 20 bytes, and an index of
    // 68 bytes.
    let chunk: Vec<u8> = [1_i32, 2, 9, 10].iter().flat_map(|value| value.to_le_bytes()).collect();
    let first = whole.windows(16).position(|bytes| bytes == chunk).unwrap();
    let read = || {
        let array = crate::open(&location).unwrap().into_array().unwrap();
        array.read_vec::<i32>(&[Index::ALL, Index::ALL]).unwrap()
    };
    assert_eq!(read(), numbers());
    let in_first = |rows: std::ops::Range<i32>| -> Vec<i32> {
        let is_lost = |n: i32| rows.contains(&((n - 1) / 8)) && rows.contains(&((n - 1) % 8));
        numbers().into_iter().map(|n| if is_lost(n) { 0 } else { n }).collect()
    };
    for (at, lost, left) in [(first, 1, in_first(0..2)), (first + 4 * 20 + 3, 4, in_first(0..4))] {
        let mut torn = whole.clone();
        torn[at] ^= 1;
        fs::write(&shard, &torn).unwrap();
        let plan = plan(&location, &none()).unwrap();
        assert_eq!((kinds(&plan), plan.lost.len()), (vec![ActionKind::Shard], lost), "{plan:?}");
        assert!(plan.left.is_empty() && plan.lost[0].chunk == Some(vec![0, 0]), "{plan:?}");
        repair(&location, &plan.hash(), &none()).unwrap();
        assert_eq!(read(), left);
        assert!(undo(&location).unwrap());
        assert_eq!(fs::read(&shard).unwrap(), torn);
    }
}

#[test]
fn the_folder_of_a_killed_writer_is_moved() {
    let directory = tempfile::tempdir().unwrap();
    let location = nested(directory.path());
    let stage = Path::new(&location).join(".stage.00ff.0.hyperslab-tmp");
    fs::create_dir_all(stage.join("c")).unwrap();
    fs::write(stage.join("c/0"), b"new").unwrap();
    let plan = plan(&location, &none()).unwrap();
    assert_eq!(kinds(&plan), [ActionKind::Leftover], "{plan:?}");
    repair(&location, &plan.hash(), &none()).unwrap();
    assert!(!stage.exists());
    assert!(undo(&location).unwrap());
    assert_eq!(fs::read(stage.join("c/0")).unwrap(), b"new");
}

#[test]
fn a_group_below_a_store_and_other_writers() {
    let directory = tempfile::tempdir().unwrap();
    let location = directory.path().join("s.zarr").display().to_string();
    let root = Group::create(&location, Format::ZarrV3).unwrap();
    let mut spec = ArraySpec::new(Format::ZarrV3.zarr().unwrap(), &[4], "<i4".parse().unwrap());
    spec.chunks = Some([2].as_slice().into());
    let array = root.create_array("g/a", &spec).unwrap();
    array.write_slice(&[], &[1_i32, 2, 3, 4]).unwrap();
    let group = format!("{location}/g");
    let chunk = format!("{group}/a/c/0");
    fs::write(&chunk, b"torn").unwrap();
    let plan = plan(&group, &none()).unwrap();
    assert_eq!(kinds(&plan), [ActionKind::Absent], "{plan:?}");
    repair(&group, &plan.hash(), &none()).unwrap();
    assert!(!Path::new(&chunk).exists());
    assert!(directory.path().join("s.zarr.quarantine/%2Fg/1/journal.json").is_file());
    assert!(!undo(&location).unwrap());
    // Somebody writes the chunk again.
    array.write_slice(&[], &[5_i32, 6, 7, 8]).unwrap();
    let refused = undo(&group).unwrap_err().to_string();
    assert!(refused.contains("undo would lose"), "{refused}");
    fs::remove_file(&chunk).unwrap();
    assert!(undo(&group).unwrap());
    assert_eq!(fs::read(&chunk).unwrap(), b"torn");
    assert!(!directory.path().join("s.zarr.quarantine").exists());
}
