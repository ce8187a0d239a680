//! Objects written in pieces in a directory: other file systems, shrinking files, killed writers.

mod common;

use common::{child_root, get, key, names, new, open, this_program};
use hyperslab_store::{LocalStore, Opened, RangeRead, Store, StoreError, Writers};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

fn opened<'s>(store: &'s LocalStore, name: &str) -> Box<dyn Opened + 's> {
    store.open(key(name), None).unwrap().unwrap()
}

#[test]
fn an_open_object_shows_its_file() {
    let (dir, store) = new();
    store.write(key("a/x"), &[b"old"]).unwrap();
    let object = opened(&store, "a/x");
    let expected = fs::metadata(dir.path().join("a/x")).unwrap().ino();
    store.write(key("a/x"), &[b"new"]).unwrap();
    let file = fs::File::from(object.file().unwrap().as_fd().try_clone_to_owned().unwrap());
    assert_eq!(file.metadata().unwrap().ino(), expected);
}

/// The kernel does not copy between file systems.
#[test]
fn copies_from_another_file_system() {
    let (Ok(there), dir) = (tempfile::tempdir_in("/dev/shm"), tempfile::tempdir().unwrap()) else { return };
    let (other, store) = (open(there.path()), open(dir.path()));
    let value: Vec<u8> = (0..3_000_000u32).map(|i| (i.wrapping_mul(0x9E37_79B1) >> 13) as u8).collect();
    other.write(key("x"), &[&value]).unwrap();
    let from = opened(&other, "x");
    let mut new = store.replace(key("y")).unwrap();
    assert!(!new.share(&*from).unwrap());
    new.copy(&*from, 1, 2_500_000).unwrap();
    new.copy(&*from, 0, 1).unwrap();
    new.append(&[b"end"]).unwrap();
    new.commit().unwrap();
    assert_eq!(get(&store, "y").unwrap(), [&value[1..2_500_001], &value[..1], b"end"].concat());
}

/// Other software truncates a file in place while it is copied.
#[test]
fn files_that_shrink() {
    let (dir, store) = new();
    store.write(key("x"), &[&[1; 10_000]]).unwrap();
    let from = opened(&store, "x");
    fs::OpenOptions::new().write(true).open(dir.path().join("x")).unwrap().set_len(5_000).unwrap();
    let mut new = store.replace(key("y")).unwrap();
    new.copy(&*from, 0, 5_000).unwrap();
    match new.copy(&*from, 4_000, 3_000) {
        Err(StoreError::OutOfRange { key, size: 5_000, .. }) => assert_eq!(key, "x"),
        other => panic!("{other:?}"),
    }
    assert!(new.commit().is_err());
    let mut new = store.replace(key("y")).unwrap();
    match new.share(&*from) {
        Ok(false) => {}
        Err(StoreError::WrongSize { expected: 10_000, found: 5_000, .. }) => {}
        other => panic!("{other:?}"),
    }
    drop(new);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left");
}

/// The directory of an object under construction is deleted, perhaps only because it was empty.
#[test]
fn the_directory_goes() {
    let (_dir, store) = new();
    let mut new = store.replace(key("a/b/x")).unwrap();
    new.append(&[b"1"]).unwrap();
    store.write(key("a/b/y"), &[b""]).unwrap();
    store.delete(key("a/b/y")).unwrap();
    new.append(&[b"2"]).unwrap();
    new.commit().unwrap();
    assert_eq!(get(&store, "a/b/x").unwrap(), b"12");
}

/// Leftovers of killed writers are removed by the next writer of the same object and by a sweep.
#[test]
fn leftovers_go() {
    let (dir, store) = new();
    store.write(key("a/x"), &[b"1"]).unwrap();
    // A complete file of `x` that was never renamed, another of `y`, and a recent file from a file
    // system without unnamed files.
    let names_of = |name: &str| {
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        format!(".new.{hash:016x}.0.hyperslab-tmp")
    };
    for name in [names_of("x"), names_of("y"), ".5.0.hyperslab-tmp".into()] {
        fs::write(dir.path().join("a").join(name), b"half").unwrap();
    }
    fs::create_dir(dir.path().join("a/.stage.0.0.hyperslab-tmp")).unwrap();
    // Too recent to be dead, so it is left alone.
    store.write(key("a/x"), &[b"2"]).unwrap();
    assert!(dir.path().join("a").join(names_of("x")).exists());
    std::thread::sleep(Duration::from_millis(2_100));
    store.write(key("a/x"), &[b"3"]).unwrap();
    assert!(!dir.path().join("a").join(names_of("x")).exists());
    assert!(store.sweep(None, Some(&|| true)).is_err());
    assert_eq!(store.sweep(Some(key("a")), None).unwrap(), 2);
    assert_eq!(names(&dir.path().join("a")), [".5.0.hyperslab-tmp", "x"]);
    assert_eq!(get(&store, "a/x").unwrap(), b"3");
}

/// A value that shows whether it is complete.
///
/// It begins with a version, which determines the bytes and the number of the following parts.
fn value(version: u32) -> Vec<Vec<u8>> {
    let count = 1 + version % 5;
    let mut parts = vec![version.to_le_bytes().to_vec()];
    parts.extend((0..count).map(|part| vec![(version + part) as u8; 40_000]));
    parts
}

fn assert_whole(bytes: &[u8]) {
    let version = u32::from_le_bytes(bytes[..4].try_into().unwrap());
    assert!(bytes == value(version).concat(), "version {version} is torn, of {} bytes", bytes.len());
}

/// Keeps replacing the object with new versions.
///
/// Parts are written in pieces, or copied from the old version if they are equal.
fn rewrite_for_ever(store: &LocalStore) {
    for round in 0u32.. {
        let _held = store.lock(key("a/x"), None).unwrap();
        let old = store.open(key("a/x"), None).unwrap();
        if round % 7 == 6 {
            store.delete(key("a/x")).unwrap();
            continue;
        }
        let mut head = [0; 4];
        if let Some(old) = &old {
            old.read_ranges(&mut [RangeRead { offset: 0, buf: &mut head }]).unwrap();
        }
        let version = u32::from_le_bytes(head) + 1;
        let mut new = store.replace(key("a/x")).unwrap();
        new.append(&[&[0xFF; 4]]).unwrap();
        for (part, bytes) in value(version)[1..].iter().enumerate() {
            let offset = 4 + (part as u64 + 1) * 40_000;
            match &old {
                // Part `n + 1` of the old version is part `n` of the new one.
                Some(old) if offset + 40_000 <= old.size() => new.copy(&**old, offset, 40_000).unwrap(),
                _ => bytes.chunks(9_999).for_each(|piece| new.append(&[piece]).unwrap()),
            }
        }
        new.overwrite(0, &version.to_le_bytes()).unwrap();
        new.commit().unwrap();
    }
}

#[test]
fn killed_at_any_instant() {
    if let Some(store) = child_root() {
        println!("\nbegun");
        return rewrite_for_ever(&store);
    }
    let (dir, store) = new();
    let (mut random, mut seen) = (0x9E37_79B9_7F4A_7C15u64, std::collections::BTreeSet::new());
    for _ in 0..100 {
        let mut command = this_program("killed_at_any_instant", dir.path());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "begun"));
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let until = Instant::now() + Duration::from_micros(2_000 + (random >> 33) % 20_000);
        while Instant::now() < until {
            if let Some(bytes) = get(&store, "a/x") {
                assert_whole(&bytes);
                seen.insert(bytes[..4].to_vec());
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        if let Some(bytes) = get(&store, "a/x") {
            assert_whole(&bytes);
        }
        let listed = store.list(None).unwrap();
        assert!(listed.iter().all(|name| name == "a/x"), "{listed:?}");
        // Dead processes hold no locks, and their leftovers do not block anybody.
        let _held = store.lock(key("a/x"), None).unwrap();
    }
    assert!(seen.len() > 10, "the children wrote {} versions", seen.len());
    store.sweep(None, None).unwrap();
    // The last child may have deleted the object and its directory.
    let left = names(dir.path());
    assert!(left.iter().all(|name| name == "a"), "{left:?}");
    assert!(
        left.is_empty() || names(&dir.path().join("a")).iter().all(|name| name == "x"),
        "left of the dead"
    );
    store.delete_prefix(None).unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}
