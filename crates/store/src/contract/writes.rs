//! Writing and deleting: parts, names, objects above objects.

use super::{assert_missing, get, key, keys, pattern, put};
use crate::{Expected, Mark, Operation, Store, StoreError, WriteNote, WriteNotes};
use std::io::ErrorKind;
use std::sync::Arc;

pub(super) fn writes_of_many_parts(store: &dyn Store) {
    let value = pattern(50_000);
    for len in [1, 3, 49, 1000, 50_000] {
        let mut parts: Vec<&[u8]> = value.chunks(len).collect();
        if parts.len() > 1 {
            parts.insert(1, b"");
        }
        parts.insert(0, b"");
        parts.push(b"");
        store.write(key("a/parts"), &parts).unwrap();
        assert_eq!(get(store, "a/parts").unwrap(), value, "parts of {len}");
    }
    for parts in [&[][..], &[&b""[..]][..], &[&b""[..], b""][..]] {
        store.write(key("a/parts"), parts).unwrap();
        assert_eq!(get(store, "a/parts").unwrap(), b"");
    }
}

/// A writer that others may end checks before it writes.
pub(super) fn guarded_writes(store: &dyn Store) {
    let write = |value: u8, ended: bool| {
        let still = |_| match ended {
            true => Err(StoreError::superseded(store, Operation::Write, "g")),
            false => Ok(()),
        };
        store.write_while(key("g"), &mut vec![value; 3000], Mark::fresh(), &still)
    };
    let superseded = |found| matches!(found, Err(StoreError::Superseded { .. }));
    assert!(superseded(write(1, true)));
    assert_eq!(get(store, "g"), None);
    for value in [2, 3] {
        write(value, false).unwrap();
        assert_eq!(get(store, "g"), Some(vec![value; 3000]));
    }
    assert!(superseded(write(4, true)));
    assert_eq!(get(store, "g"), Some(vec![3; 3000]));
}

/// Writes memory that the store may keep: short and long, over existing objects.
pub(super) fn owned_writes(store: &dyn Store) {
    for (round, len) in [0, 1, 70_000, 3, 200_000, 200_000].into_iter().enumerate() {
        let mut value = pattern(len);
        value.iter_mut().for_each(|byte| *byte ^= round as u8);
        let mut bytes = value.clone();
        assert!(store.swap_owned(key("a/owned"), Expected::Any, &mut bytes, None).unwrap());
        assert_eq!(get(store, "a/owned").unwrap(), value, "{len} bytes");
        bytes.iter_mut().for_each(|byte| *byte = !*byte);
        assert_eq!(get(store, "a/owned").unwrap(), value, "what comes back is not what is stored");
    }
    let old = store.open(key("a/owned"), None).unwrap().unwrap();
    store.write(key("a/owned"), &[b"another"]).unwrap();
    let expected = Expected::Same(&*old);
    let done = store.swap_owned(key("a/owned"), expected, &mut vec![7; 70_000], None).unwrap();
    assert_eq!(done, !store.facts().is_shared);
    assert_eq!(get(store, "a/owned").unwrap() == b"another", store.facts().is_shared);
}

pub(super) fn names(store: &dyn Store, flat: bool) {
    let mut names: Vec<String> = [
        "deep/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s/t/u/v/w/x/y/z/0/1/2/3/4",
        "ünï/çødé/温度/🌊",
        "with space/and\ttab/and\nnewline",
        "..a/b../...",
        ".hidden/.zarray",
        "%41/a%2Fb",
        "-rf/*?[]",
        "c:d",
        "~",
        // Look like temporary files of this and of other software.
        ".tmp",
        "x.tmp",
        "t/.a.hyperslab-tmp.b",
        "t/a.hyperslab-tmp",
        "t/hyperslab-tmp",
        "t/.0.0123456789abcdef",
        "t/zarr.json.__lock",
        "t/zarr.json.0123.partial",
    ]
    .map(str::to_owned)
    .into();
    names.push(format!("long/{}/{}", "d".repeat(200), "é".repeat(100)));
    names.push(format!("long/{}", "x".repeat(255)));
    names.retain(|name| !(flat && name.contains(char::is_control)));
    for (i, name) in names.iter().enumerate() {
        put(store, name, format!("old value of {i}").as_bytes());
    }
    for (i, name) in names.iter().enumerate() {
        put(store, name, format!("value {i}").as_bytes());
    }
    for (i, name) in names.iter().enumerate() {
        assert_eq!(get(store, name), Some(format!("value {i}").into_bytes()), "{name}");
    }
    names.sort();
    assert_eq!(keys(store), names);
    for name in &names {
        assert!(store.delete(key(name)).unwrap(), "{name}");
    }
    assert_eq!(keys(store), [""; 0]);
}

pub(super) fn objects_and_prefixes_exclude_each_other(store: &dyn Store) {
    put(store, "a/b", b"object");
    let refused = |name: &str, kind: ErrorKind| match store.write(key(name), &[b"new"]) {
        Err(error @ StoreError::Io { .. }) => {
            assert_eq!(error.io_kind(), Some(kind), "{name}: {error}");
            let text = error.to_string();
            assert!(text.contains(name) && text.contains(&store.url()), "{text}");
        }
        other => panic!("write of {name}: {other:?}"),
    };
    refused("a/b/c", ErrorKind::NotADirectory);
    refused("a/b/c/d/e", ErrorKind::NotADirectory);
    refused("a", ErrorKind::IsADirectory);
    assert_eq!(keys(store), ["a/b"]);
    assert_eq!(get(store, "a/b").unwrap(), b"object");

    // Deleted objects are not in the way.
    assert!(store.delete(key("a/b")).unwrap());
    put(store, "a", b"1");
    assert!(store.delete(key("a")).unwrap());
    put(store, "a/b/c", b"2");
    store.delete_prefix(Some(key("a/b"))).unwrap();
    put(store, "a", b"3");
    assert_eq!(keys(store), ["a"]);
}

pub(super) fn deletions(store: &dyn Store) {
    put(store, "a/b/c", b"1");
    put(store, "a/b/d", b"2");
    assert!(!store.delete(key("a/b")).unwrap(), "a prefix is no object");
    assert!(!store.delete(key("a/b/c/d")).unwrap());
    assert!(store.delete(key("a/b/c")).unwrap());
    assert!(!store.delete(key("a/b/c")).unwrap());
    assert_missing(store, "a/b/c");
    assert_eq!(keys(store), ["a/b/d"]);
    assert!(store.delete(key("a/b/d")).unwrap());
    assert_eq!(store.list_dir(None).unwrap(), [], "prefixes go with their last object");

    ["a/b", "a/c", "d", "e+f g"].iter().for_each(|name| put(store, name, b"1"));
    store.delete_all(&["a/b", "x", "a/x", "e+f g"].map(key), None).unwrap();
    assert_eq!(keys(store), ["a/c", "d"]);
    store.delete_all(&[], None).unwrap();
    notes(store);
    let stopped = store.delete_all(&[key("d")], Some(&|| true));
    assert!(matches!(stopped, Err(StoreError::Interrupted { .. })), "{stopped:?}");
    store.delete_all(&[key("d"), key("a/c")], Some(&|| false)).unwrap();
}

pub(super) fn prefix_deletions(store: &dyn Store) {
    let all = ["a!/x", "a/b!", "a/b.c", "a/b/c", "a/b/d/e", "a/bc", "a/bc0/d", "b", "c/0/0"];
    let fill = || all.iter().for_each(|name| put(store, name, name.as_bytes()));
    let without =
        |gone: &[&str]| -> Vec<&str> { all.into_iter().filter(|name| !gone.contains(name)).collect() };
    fill();
    assert_eq!(keys(store), all);
    store.delete_prefix(Some(key("a/b"))).unwrap();
    assert_eq!(keys(store), without(&["a/b/c", "a/b/d/e"]));
    assert_eq!(get(store, "a/bc").unwrap(), b"a/bc");
    store.delete_prefix(Some(key("a/b"))).unwrap();
    store.delete_prefix(Some(key("b"))).unwrap();
    store.delete_prefix(Some(key("b/c/d"))).unwrap();
    assert_eq!(get(store, "b").unwrap(), b"b", "an object named like the prefix stays");
    fill();
    store.delete_prefix(Some(key("c/0"))).unwrap();
    assert_eq!(keys(store), without(&["c/0/0"]));
    assert!(store.list_dir(None).unwrap().iter().all(|entry| entry.name != "c"), "'c' is empty now");
    store.delete_prefix(None).unwrap();
    assert_eq!(keys(store), [""; 0]);
    assert_eq!(store.list_dir(None).unwrap(), []);
    fill();
    assert_eq!(keys(store), all);
}

/// Notes tell what the store tells when it is asked.
fn notes(store: &dyn Store) {
    let notes = Arc::new(WriteNotes::default());
    let Some(noting) = store.noting(&notes) else { return };
    let stamp = |name| store.stamp(key(name)).unwrap().unwrap().everywhere();
    noting.write(key("n/a"), &[b"1"]).unwrap();
    assert_eq!(notes.find("n/a"), Some(WriteNote::Written(stamp("n/a"))));
    let first = stamp("n/a");
    noting.swap_owned(key("n/a"), Expected::Any, &mut b"2".to_vec(), None).unwrap();
    assert_ne!(stamp("n/a"), first);
    assert_eq!(notes.find("n/a"), Some(WriteNote::Written(stamp("n/a"))));
    assert!(!noting.write_new(key("n/a"), &[b"3"]).unwrap());
    assert_eq!(notes.find("n/a"), Some(WriteNote::Written(stamp("n/a"))));
    noting.write_while(key("n/b"), &mut b"4".to_vec(), Mark::fresh(), &|_| Ok(())).unwrap();
    assert_eq!(notes.find("n/b"), Some(WriteNote::Written(stamp("n/b"))));
    noting.delete_all(&["n/a", "n/b"].map(key), None).unwrap();
    assert_eq!((notes.find("n/a"), notes.find("n/b")), (Some(WriteNote::Deleted), Some(WriteNote::Deleted)));
    assert_eq!(notes.find("n/c"), None);
}
