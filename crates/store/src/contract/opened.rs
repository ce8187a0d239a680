//! Open objects and stamps.

use super::{ENOUGH, bytes_of, key, put};
use crate::{RangeRead, Stamp, Store, StoreError};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

/// An open object keeps its contents, whatever happens to the key.
pub(super) fn opened_objects(store: &dyn Store) {
    assert!(store.open(key("o/x"), None).unwrap().is_none(), "missing");
    store.write(key("o/x"), &[b"0123456789"]).unwrap();
    assert!(store.open(key("o"), None).unwrap().is_none(), "a prefix is no object");
    assert!(matches!(
        store.open(key("o/x"), Some(9)),
        Err(StoreError::WrongSize { expected: 9, found: 10, .. })
    ));
    let opened = store.open(key("o/x"), Some(10)).unwrap().unwrap();
    let (size, stamp) = (opened.size(), opened.stamp());
    assert_eq!((size, stamp), (10, store.stamp(key("o/x")).unwrap()));
    let (mut front, mut back) = ([0; 2], [0; 3]);
    let read = |front: &mut [u8], back: &mut [u8]| {
        let ranges =
            &mut [RangeRead { offset: 7, buf: &mut *back }, RangeRead { offset: 0, buf: &mut *front }];
        opened.read_ranges(ranges).unwrap();
        assert_eq!((&*front, &*back), (&b"01"[..], &b"789"[..]));
    };
    read(&mut front, &mut back);
    store.write(key("o/x"), &[b"abcdefghijkl"]).unwrap();
    read(&mut front, &mut back);
    assert_eq!((opened.size(), opened.stamp()), (size, stamp), "asked when it was opened");
    assert!(stamp.is_none() || store.stamp(key("o/x")).unwrap() != stamp);
    assert!(store.delete(key("o/x")).unwrap());
    read(&mut front, &mut back);
    let outside = &mut [RangeRead { offset: 8, buf: &mut back }];
    assert!(matches!(opened.read_ranges(outside), Err(StoreError::OutOfRange { size: 10, .. })));
    assert!(store.open(key("o/x"), None).unwrap().is_none(), "deleted");
}

/// Reads an object in every way that returns a stamp.
fn stamped(store: &dyn Store, name: &str) -> [(Vec<u8>, Option<Stamp>); 3] {
    let mut whole = Vec::new();
    let (found, stamp) = store.read_all_stamped(key(name), &mut whole, usize::MAX).unwrap();
    assert!(found);
    let mut part = vec![0xEE; 1];
    let mut ranges = [RangeRead { offset: 0, buf: &mut part }];
    let (found, of_range) = store.read_ranges_stamped(key(name), None, &mut ranges).unwrap();
    assert!(found);
    let opened = store.open(key(name), None).unwrap().unwrap();
    let all = bytes_of(&*opened);
    let of_opened = opened.vouched();
    assert!(of_opened.is_none() || of_opened == opened.stamp());
    [(whole, stamp), (part, of_range), (all, of_opened)]
}

/// A stamp that came with bytes never identifies other bytes. (A store may return none.)
pub(super) fn stamps(store: &dyn Store, other: &dyn Store) {
    assert_eq!(store.stamp(key("s/x")).unwrap(), None, "missing");
    assert_eq!(store.read_all_stamped(key("s/x"), &mut vec![1], 10).unwrap(), (false, None));
    assert_eq!(store.read_ranges_stamped(key("s/x"), None, &mut []).unwrap(), (false, None));
    put(store, "s/x", b"0");
    assert_eq!(store.stamp(key("s")).unwrap(), None, "a prefix is no object");
    assert!(matches!(
        store.read_all_stamped(key("s/x"), &mut Vec::new(), 0),
        Err(StoreError::TooLarge { .. })
    ));
    let outside = &mut [RangeRead { offset: 1, buf: &mut [0] }];
    let answer = store.read_ranges_stamped(key("s/x"), None, outside);
    assert!(matches!(answer, Err(StoreError::OutOfRange { .. })));

    // Faster than any clock ticks: in one store and in two, equal and different bytes, with
    // deletions.
    let mut given: Vec<(Vec<u8>, Stamp)> = Vec::new();
    let begun = Instant::now();
    for round in (0..400u32).take_while(|_| begun.elapsed() < ENOUGH) {
        let (at, name) =
            (if round % 3 == 0 { other } else { store }, if round % 5 == 0 { "s/y" } else { "s/x" });
        let value = [(round / 2) as u8];
        put(at, name, &value);
        for (bytes, stamp) in stamped(at, name) {
            assert_eq!(bytes, value);
            if let Some(stamp) = stamp {
                assert_eq!(at.stamp(key(name)).unwrap(), Some(stamp), "a stamp stays while nothing changes");
                for (before, earlier) in &given {
                    assert!(stamp != *earlier || value[..] == before[..], "other bytes, the same stamp");
                }
                given.push((value.into(), stamp));
            }
        }
        if round % 7 == 0 {
            assert!(at.delete(key(name)).unwrap());
            assert_eq!(at.stamp(key(name)).unwrap(), None);
        }
    }
}

/// While an object has the stamp under which its bytes were kept, its bytes are the same.
pub(super) fn stamps_during_replacement(store: &dyn Store) {
    put(store, "s/x", &0u32.to_le_bytes());
    let (written, done) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let begun = Instant::now();
            for round in (1..=2000u32).take_while(|_| begun.elapsed() < ENOUGH) {
                put(store, "s/x", &round.to_le_bytes());
                written.store(round.into(), Ordering::SeqCst);
            }
            done.store(true, Ordering::SeqCst);
        });
        for _ in 0..2 {
            scope.spawn(|| {
                let mut kept: Option<(Vec<u8>, Stamp)> = None;
                loop {
                    let last = done.load(Ordering::SeqCst);
                    let least = written.load(Ordering::SeqCst);
                    let now = store.stamp(key("s/x")).unwrap();
                    let bytes = match &kept {
                        Some((bytes, stamp)) if now == Some(*stamp) => bytes.clone(),
                        _ => {
                            let mut bytes = Vec::new();
                            let (found, stamp) =
                                store.read_all_stamped(key("s/x"), &mut bytes, usize::MAX).unwrap();
                            assert!(found);
                            kept = stamp.map(|stamp| (bytes.clone(), stamp));
                            bytes
                        }
                    };
                    let value = u32::from_le_bytes(bytes.try_into().unwrap());
                    assert!(u64::from(value) >= least, "{value}, after {least} was written");
                    if last {
                        break;
                    }
                }
            });
        }
    });
}
