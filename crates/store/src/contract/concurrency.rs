//! Concurrent readers, writers and deleters.

use super::replacements::{begin, open};
use super::{ENOUGH, bytes_of, get, key, keys, put};
use crate::{Store, StoreError};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

/// A value that shows whether it is complete: all bytes are equal, and the first determines the
/// length.
fn uniform(byte: u8) -> Vec<u8> {
    vec![byte; 1 + usize::from(byte) * 997]
}

fn assert_uniform(value: &[u8]) {
    assert!(!value.is_empty(), "an object without bytes was never written");
    assert!(*value == uniform(value[0]), "a mixture of values, of {} bytes", value.len());
}

/// Every read sees a whole value while writers replace it. Two objects under construction do not
/// interfere.
pub(super) fn concurrent_replacement(store: &dyn Store, flat: bool) {
    put(store, "c/x", &uniform(0));
    let (done, reads, begun) = (AtomicBool::new(false), AtomicU64::new(0), Instant::now());
    thread::scope(|scope| {
        for reader in 0..4 {
            let (done, reads) = (&done, &reads);
            scope.spawn(move || {
                let (mut buf, mut exact, mut rounds) = (Vec::new(), uniform(37), 0);
                while !done.load(Ordering::Relaxed) || rounds < 10 {
                    rounds += 1;
                    reads.fetch_add(1, Ordering::Relaxed);
                    if reader < 3 {
                        assert!(store.read_all(key("c/x"), &mut buf, usize::MAX).unwrap());
                        assert_uniform(&buf);
                        if !flat {
                            assert_uniform(&bytes_of(&*open(store, "c/x")));
                        }
                        assert!(store.exists(key("c/x")).unwrap());
                        // A listing may miss a file that is being renamed, but nothing else may
                        // appear.
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
        let writers: [_; 3] = std::array::from_fn(|writer| {
            scope.spawn(move || {
                for i in (0..200).take_while(|_| begun.elapsed() < ENOUGH) {
                    let value = uniform((i * 37 % 256) as u8);
                    if writer == 0 {
                        let (head, tail) = value.split_at(value.len() / 2);
                        store.write(key("c/x"), &[head, tail]).unwrap();
                        continue;
                    }
                    let mut new = begin(store, "c/x");
                    if writer == 1 || flat {
                        value.chunks(20_000).for_each(|piece| new.append(&[piece]).unwrap());
                    } else {
                        let old = open(store, "c/x");
                        let half = old.size() / 2;
                        new.copy(&*old, 0, half).unwrap();
                        new.copy(&*old, half, old.size() - half).unwrap();
                    }
                    new.commit().unwrap();
                }
            })
        });
        let results = writers.map(|writer| writer.join());
        done.store(true, Ordering::Relaxed);
        results.into_iter().for_each(|result| result.unwrap());
    });
    assert!(reads.load(Ordering::Relaxed) >= 10);
    assert_uniform(&get(store, "c/x").unwrap());
    assert_eq!(keys(store), ["c/x"]);
}

/// Many writers to one key: every write succeeds, and one of them wins.
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

/// Prefixes come and go under the writers: no write fails, and none is lost.
pub(super) fn concurrent_creation_and_deletion(store: &dyn Store) {
    let begun = Instant::now();
    let is_early = || begun.elapsed() < ENOUGH;
    thread::scope(|scope| {
        for writer in 0..3 {
            let is_early = &is_early;
            scope.spawn(move || {
                let name = format!("a/b/c/{writer}");
                for round in (0..150u8).take_while(|_| is_early()) {
                    put(store, &name, &[round]);
                    assert_eq!(get(store, &name).unwrap(), [round]);
                    assert!(store.delete(key(&name)).unwrap());
                    assert_eq!(get(store, &name), None);
                }
            });
        }
        scope.spawn(|| {
            for _ in (0..100).take_while(|_| is_early()) {
                put(store, "a/gone/x/y", b"");
                put(store, "a/gone/z", b"");
                store.delete_prefix(Some(key("a/gone"))).unwrap();
            }
        });
    });
    assert_eq!(keys(store), [""; 0]);
}
