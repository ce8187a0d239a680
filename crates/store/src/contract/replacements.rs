//! Objects written in pieces, and locks of objects.

use super::{bytes_of, get, key, keys, pattern, put};
use crate::{Expected, Opened, Replacement, Result, Store, StoreError};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

pub(super) fn open<'s>(store: &'s dyn Store, name: &str) -> Box<dyn Opened + 's> {
    store.open(key(name), None).unwrap().unwrap()
}

pub(super) fn begin<'s>(store: &'s dyn Store, name: &str) -> Box<dyn Replacement + 's> {
    store.replace(key(name)).unwrap()
}

/// Objects written in pieces, and what readers see meanwhile.
pub(super) fn replacements(store: &dyn Store) {
    for (round, before) in [None, Some(pattern(300))].into_iter().enumerate() {
        let name = format!("n/{round}");
        if let Some(before) = &before {
            put(store, &name, before);
        }
        let (listed, opened) = (keys(store), store.open(key(&name), None).unwrap());
        let mut new = begin(store, &name);
        assert!(new.is_empty());
        let value = pattern(50_000);
        new.append(&[]).unwrap();
        new.append(&[b"", b""]).unwrap();
        assert_eq!(new.len(), 0);
        new.append(&[&value[..10_000]]).unwrap();
        let small: Vec<&[u8]> = value[10_000..30_000].chunks(97).collect();
        new.append(&small).unwrap();
        assert_eq!(new.len(), 30_000);
        new.overwrite(9_990, &[7; 20_010]).unwrap();
        new.overwrite(0, b"").unwrap();
        new.overwrite(30_000, b"").unwrap();
        new.append(&[&value[30_000..], b"end"]).unwrap();
        new.overwrite(50_000, b"END").unwrap();
        assert_eq!((new.len(), new.is_empty()), (50_003, false));

        assert_eq!(get(store, &name), before, "nobody sees it before it is complete");
        assert_eq!(keys(store), listed);
        new.commit().unwrap();
        let expected = [&value[..9_990], &[7; 20_010], &value[30_000..], b"END"].concat();
        assert_eq!(get(store, &name).unwrap(), expected);
        if let (Some(before), Some(opened)) = (before, opened) {
            assert_eq!(bytes_of(&*opened), before, "what was open keeps its contents");
        }
    }
    begin(store, "n/empty").commit().unwrap();
    assert_eq!(get(store, "n/empty").unwrap(), b"");
    assert_eq!(keys(store), ["n/0", "n/1", "n/empty"]);
}

/// Unfinished and failed replacements leave nothing behind.
pub(super) fn abandoned_replacements(store: &dyn Store, flat: bool) {
    let mut new = begin(store, "new/prefix/x");
    new.append(&[b"half"]).unwrap();
    drop(new);
    drop(begin(store, "x"));
    assert_eq!(store.list_dir(None).unwrap(), [], "a prefix does not outlive it");

    put(store, "a/b", b"object");
    let mut new = begin(store, "a/b");
    new.append(&[b"half"]).unwrap();
    drop(new);
    for below in ["a", "a/b/c", "a/b/c/d/e"].into_iter().filter(|_| !flat) {
        let refused = store.replace(key(below)).and_then(|mut new| {
            new.append(&[b"new"])?;
            new.commit()
        });
        assert!(matches!(refused, Err(StoreError::Io { .. })), "{below}: {refused:?}");
    }
    // After an error, `commit` fails.
    let source = open(store, "a/b");
    type Step = fn(&mut dyn Replacement, &dyn Opened) -> Result<()>;
    let steps: [(Step, (u64, u64, u64)); 7] = [
        (|new, _| new.overwrite(2, b"xy"), (2, 2, 3)),
        (|new, _| new.overwrite(4, b"x"), (4, 1, 3)),
        (|new, _| new.overwrite(u64::MAX, b"x"), (u64::MAX, 1, 3)),
        (|new, from| new.copy(from, 0, 7), (0, 7, 6)),
        (|new, from| new.copy(from, 7, 1), (7, 1, 6)),
        (|new, from| new.copy(from, u64::MAX, 2), (u64::MAX, 2, 6)),
        (|new, from| new.copy(from, 1, u64::MAX), (1, u64::MAX, 6)),
    ];
    for (step, expected) in steps {
        for name in ["a/b", "b"] {
            let mut new = begin(store, name);
            new.append(&[b"abc"]).unwrap();
            match step(&mut *new, &*source) {
                Err(StoreError::OutOfRange { key, url, offset, len, size }) => {
                    assert_eq!((key.as_str(), url), (name, store.url()));
                    assert_eq!((offset, len, size), expected);
                }
                other => panic!("{expected:?}: {other:?}"),
            }
            assert!(matches!(new.commit(), Err(StoreError::Io { .. })), "committed after an error");
        }
    }
    assert_eq!(get(store, "a/b").unwrap(), b"object");
    assert_eq!(keys(store), ["a/b"]);
}

/// Copies ranges of other objects, from this store and from another.
pub(super) fn copies(store: &dyn Store, other: &dyn Store) {
    let value = pattern(2_500_000);
    put(store, "c/x", &value);
    put(other, "c/x", &value);
    let (here, there) = (open(store, "c/x"), open(other, "c/x"));
    for (from, offset, len) in
        [(&here, 0, value.len()), (&there, 0, value.len()), (&here, 2_000_000, 500_000), (&there, 1, 4096)]
    {
        let mut new = begin(store, "c/y");
        new.append(&[b"head"]).unwrap();
        new.copy(&**from, offset as u64, len as u64).unwrap();
        assert_eq!(new.len(), 4 + len as u64);
        new.copy(&**from, value.len() as u64, 0).unwrap();
        new.append(&[b"tail"]).unwrap();
        new.copy(&**from, 0, 1).unwrap();
        new.overwrite(2, b"ADXX").unwrap();
        new.commit().unwrap();
        let range = &value[offset + 2..offset + len];
        assert_eq!(get(store, "c/y").unwrap(), [b"heADXX", range, b"tail", &value[..1]].concat());
    }
    // From an object that this very copy replaces, and from a deleted one.
    for round in 0..3 {
        let mut new = begin(store, "c/x");
        if round == 1 {
            assert!(store.delete(key("c/x")).unwrap());
        }
        new.copy(&*here, 1000, 2000).unwrap();
        new.copy(&*here, 0, 1000).unwrap();
        new.commit().unwrap();
        assert_eq!(get(store, "c/x").unwrap(), [&value[1000..3000], &value[..1000]].concat());
    }
    assert_eq!(keys(store), ["c/x", "c/y"]);
}

/// An object that shares bytes with another gets its own when it changes. (A store may never
/// share.)
pub(super) fn shares(store: &dyn Store, other: &dyn Store) {
    let value = pattern(100_000);
    for source in [store, other] {
        put(source, "s/x", &value);
        let opened = open(source, "s/x");
        let mut new = begin(store, "s/y");
        if new.share(&*opened).unwrap() {
            assert_eq!(new.len(), 100_000);
            new.append(&[b"tail"]).unwrap();
            new.copy(&*opened, 5, 10).unwrap();
            new.overwrite(50_000, b"changed").unwrap();
            new.commit().unwrap();
            let (front, back) = (&value[..50_000], &value[50_007..]);
            let expected = [front, b"changed", back, b"tail", &value[5..15]].concat();
            assert_eq!(get(store, "s/y").unwrap(), expected);
        } else {
            assert!(new.is_empty(), "nothing has changed");
            new.append(&[b"x"]).unwrap();
            new.commit().unwrap();
            assert_eq!(get(store, "s/y").unwrap(), b"x");
        }
        assert_eq!(get(source, "s/x").unwrap(), value, "the other object does not change");

        let mut new = begin(store, "s/y");
        new.append(&[b"x"]).unwrap();
        assert!(!new.share(&*opened).unwrap(), "not empty");
        new.append(&[b"y"]).unwrap();
        new.commit().unwrap();
        assert_eq!(get(store, "s/y").unwrap(), b"xy");

        put(source, "s/empty", b"");
        let mut new = begin(store, "s/y");
        let shared = new.share(&*open(source, "s/empty")).unwrap();
        assert!(new.is_empty(), "{shared}");
        new.append(&[b"z"]).unwrap();
        new.commit().unwrap();
        assert_eq!(get(store, "s/y").unwrap(), b"z");
    }
}

/// Locks of existing and missing objects are invisible and leave nothing behind.
pub(super) fn object_locks(store: &dyn Store) {
    for _ in 0..3 {
        let lock = store.lock(key("l/new/x"), None).unwrap();
        assert!(!lock.is_held());
        drop(lock);
        assert_eq!(store.list_dir(None).unwrap(), []);
    }
    put(store, "l/x", b"old");
    let names = ["l/x", "l/y", "l/new/x", "z"];
    let held = names.map(|name| store.lock(key(name), None).unwrap());
    assert_eq!(keys(store), ["l/x"]);
    assert_eq!(get(store, "l/new/x"), None);
    for name in names {
        put(store, name, b"new");
        assert_eq!(get(store, name).unwrap(), b"new");
    }
    assert_eq!(store.list_dir(Some(key("l/new"))).unwrap().len(), 1);
    assert!(store.delete(key("l/new/x")).unwrap());
    drop(held);
    assert_eq!(keys(store), ["l/x", "l/y", "z"]);
    assert_eq!(store.list_dir(Some(key("l"))).unwrap().len(), 2);

    let held = store.lock(key("l/x"), None).unwrap();
    let above = store.lock_prefix(Some(key("l")), None).unwrap();
    store.delete_prefix(None).unwrap();
    drop((held, above));
    assert_eq!(store.list_dir(None).unwrap(), []);
    assert_eq!(store.sweep(None, None).unwrap(), 0);
}

/// Conditional replacement if other processes could interfere. Other stores replace
/// unconditionally.
pub(super) fn conditions(store: &dyn Store, flat: bool) {
    let shared = store.facts().is_shared;
    assert!(store.write_new(key("e/x"), &[b"1", b"2"]).unwrap());
    assert!(!store.write_new(key("e/x"), &[b"3"]).unwrap());
    assert_eq!(get(store, "e/x").unwrap(), b"12");
    for below in ["e", "e/x/y"].into_iter().filter(|_| !flat) {
        let refused = store.write_new(key(below), &[b""]);
        assert!(matches!(refused, Err(StoreError::Io { .. })), "{below}: {refused:?}");
    }
    let begin = |value: &[u8]| {
        let mut new = begin(store, "e/x");
        new.append(&[value]).unwrap();
        new
    };

    let first = open(store, "e/x");
    assert!(store.swap(key("e/x"), Expected::Same(&*first), &[b"a"], None).unwrap());
    assert_eq!(get(store, "e/x").unwrap(), b"a");
    // The object has changed since `first` was opened.
    assert_eq!(store.swap(key("e/x"), Expected::Same(&*first), &[b"b"], None).unwrap(), !shared);
    assert_eq!(begin(b"b").commit_over(Expected::Same(&*first), None).unwrap(), !shared);
    assert_eq!(get(store, "e/x").unwrap(), if shared { b"a" } else { b"b" });
    let second = open(store, "e/x");
    assert!(begin(b"c").commit_over(Expected::Same(&*second), None).unwrap());
    let third = open(store, "e/x");
    {
        let _held = store.lock(key("e/x"), None).unwrap();
        assert!(begin(b"d").commit_over(Expected::Locked(&*third), None).unwrap());
    }
    assert_eq!(begin(b"e").commit_over(Expected::Locked(&*third), None).unwrap(), !shared);
    assert!(begin(b"f").commit_over(Expected::Any, None).unwrap());
    assert_eq!(begin(b"g").commit_over(Expected::Absent, None).unwrap(), !shared);

    let fourth = open(store, "e/x");
    put(store, "e/x", b"h");
    if shared {
        assert!(!store.swap_out(key("e/x"), Expected::Same(&*fourth), None).unwrap());
        assert!(!store.swap_out(key("e/x"), Expected::Locked(&*fourth), None).unwrap());
        assert_eq!(get(store, "e/x").unwrap(), b"h");
    }
    let fifth = open(store, "e/x");
    assert!(store.swap_out(key("e/x"), Expected::Same(&*fifth), None).unwrap());
    assert_eq!(get(store, "e/x"), None);
    if shared {
        assert!(!store.swap(key("e/x"), Expected::Same(&*fifth), &[b"i"], None).unwrap());
    }
    assert!(store.swap(key("e/x"), Expected::Absent, &[b"j"], None).unwrap());
    assert_eq!(store.swap(key("e/x"), Expected::Absent, &[b"k"], None).unwrap(), !shared);
    assert!(store.swap_out(key("e/x"), Expected::Any, None).unwrap());
    assert_eq!(store.list_dir(None).unwrap(), []);
}

/// One of many writers that create one object wins. Many writers that count in one object lose no
/// count.
pub(super) fn concurrent_conditions(store: &dyn Store) {
    let wins = AtomicUsize::new(0);
    thread::scope(|scope| {
        for writer in 0..4u8 {
            let wins = &wins;
            scope.spawn(move || {
                for round in 0..50 {
                    let name = format!("n/{round}/x");
                    if store.write_new(key(&name), &[&[writer]]).unwrap() {
                        wins.fetch_add(1, Ordering::Relaxed);
                        assert_eq!(get(store, &name).unwrap(), [writer]);
                    }
                    let mut tries = 0;
                    loop {
                        let _turn = (!store.facts().is_shared)
                            .then(|| crate::turn(store, key("n/count"), None).unwrap());
                        let old = store.open(key("n/count"), None).unwrap();
                        let bytes = old.as_deref().map_or(vec![0; 4], bytes_of);
                        let next = (u32::from_le_bytes(bytes.try_into().unwrap()) + 1).to_le_bytes();
                        let expected = old.as_deref().map_or(Expected::Absent, Expected::Same);
                        if store.swap(key("n/count"), expected, &[&next], None).unwrap() {
                            break;
                        }
                        tries += 1;
                        assert!(tries < 1_000_000);
                    }
                }
            });
        }
    });
    assert_eq!(wins.into_inner(), 50);
    assert_eq!(get(store, "n/count").unwrap(), 200u32.to_le_bytes());
    assert_eq!(keys(store).len(), 51);
}
