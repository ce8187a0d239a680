//! Readers, writers and deleters at the same time.

use super::{get, key, keys, put};
use crate::{Store, StoreError};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// A value that shows if it is whole: its length follows from its first byte, and all bytes are
/// equal.
pub(super) fn uniform(byte: u8) -> Vec<u8> {
    vec![byte; uniform_len(byte)]
}

fn uniform_len(byte: u8) -> usize {
    1 + usize::from(byte) * 997
}

pub(super) fn assert_uniform(value: &[u8]) {
    assert!(!value.is_empty(), "an object without bytes was never written");
    assert_eq!(value.len(), uniform_len(value[0]), "a value of another length");
    assert!(value.iter().all(|&byte| byte == value[0]), "a mixture of values");
}

/// Every read sees a whole value, whatever is written meanwhile.
pub(super) fn concurrent_replacement(store: &dyn Store) {
    put(store, "c/x", &uniform(0));
    let (done, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for reader in 0..3 {
            let (done, reads) = (&done, &reads);
            scope.spawn(move || {
                let (mut buf, mut exact) = (Vec::new(), uniform(37));
                while !done.load(Ordering::Relaxed) || reads.load(Ordering::Relaxed) < 10 {
                    reads.fetch_add(1, Ordering::Relaxed);
                    if reader < 2 {
                        assert!(store.read_all(key("c/x"), &mut buf, usize::MAX).unwrap());
                        assert_uniform(&buf);
                        assert!(store.exists(key("c/x")).unwrap());
                        // What is renamed during a listing may be missed; nothing else may appear.
                        assert!(keys(store).iter().all(|name| name == "c/x"));
                    } else {
                        match store.read_exact(key("c/x"), &mut exact) {
                            Ok(found) => {
                                assert!(found);
                                assert_uniform(&exact);
                            }
                            Err(StoreError::WrongSize { found, .. }) => assert!(found > 0),
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            });
        }
        for i in 0..400 {
            let value = uniform((i * 37 % 256) as u8);
            let (head, tail) = value.split_at(value.len() / 2);
            store.write(key("c/x"), &[head, tail]).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(reads.load(Ordering::Relaxed) >= 10);
}

/// Many writers to one key: each write succeeds, and one of them wins.
pub(super) fn concurrent_writers(store: &dyn Store) {
    thread::scope(|scope| {
        for writer in 0..4u8 {
            scope.spawn(move || {
                for round in 0..50 {
                    put(store, "new/prefix/x", &uniform(writer * 50 + round));
                    put(store, &format!("new/other/{writer}"), &[round]);
                    assert_uniform(&get(store, "new/prefix/x").unwrap());
                }
            });
        }
    });
    assert_uniform(&get(store, "new/prefix/x").unwrap());
    let expected = ["new/other/0", "new/other/1", "new/other/2", "new/other/3", "new/prefix/x"];
    assert_eq!(keys(store), expected, "nothing is left over");
    assert_eq!(get(store, "new/other/3").unwrap(), [49]);
}

/// Prefixes that come and go under the writers: no write fails and none is lost.
pub(super) fn concurrent_creation_and_deletion(store: &dyn Store) {
    thread::scope(|scope| {
        for writer in 0..3 {
            scope.spawn(move || {
                let name = format!("a/b/c/{writer}");
                for round in 0..150u8 {
                    put(store, &name, &[round]);
                    assert_eq!(get(store, &name).unwrap(), [round]);
                    assert!(store.delete(key(&name)).unwrap());
                    assert_eq!(get(store, &name), None);
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..100 {
                put(store, "a/gone/x/y", b"");
                put(store, "a/gone/z", b"");
                store.delete_prefix(Some(key("a/gone"))).unwrap();
            }
        });
    });
    assert_eq!(keys(store), [""; 0]);
}
