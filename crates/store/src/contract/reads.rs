//! Reading: missing objects, whole objects, ranges, and their errors.

use super::{Make, assert_missing, get, key, keys, pattern, put, range};
use crate::{RangeRead, Result, Store, StoreError};

/// Sizes around the sizes of blocks and pages.
const SIZES: [usize; 7] = [0, 1, 2, 511, 1000, 4096, 70_001];

pub(super) fn missing_objects(store: &dyn Store) {
    assert_eq!(keys(store), [""; 0]);
    assert_eq!(store.list_dir(None).unwrap(), []);
    for name in ["a", "a/b", "a/b/c/d"] {
        assert_missing(store, name);
        assert_eq!(store.list_dir(Some(key(name))).unwrap(), []);
        assert_eq!(store.list(Some(key(name))).unwrap(), [""; 0]);
        store.delete_prefix(Some(key(name))).unwrap();
    }
    store.delete_prefix(None).unwrap();

    put(store, "a/b", b"xyz");
    assert_missing(store, "a");
    assert_missing(store, "a/b/c");
    assert_missing(store, "a/b/c/d");
    assert_missing(store, "a/bc");
    assert_missing(store, "a/c");
    assert_eq!(get(store, "a/b").unwrap(), b"xyz");
}

pub(super) fn exact_reads(make: Make<'_>) {
    for len in SIZES {
        let value = pattern(len);
        let store = make("exact", &value);
        let mut buf = vec![0xEE; len];
        assert!(store.read_exact(key("exact"), &mut buf).unwrap());
        assert_eq!(buf, value);
        assert_eq!(store.size(key("exact")).unwrap(), Some(len as u64));
        assert!(store.exists(key("exact")).unwrap());
        let wrong_sizes = [0, 1, len.saturating_sub(1), len + 1, len * 2];
        for wrong in wrong_sizes.into_iter().filter(|&wrong| wrong != len) {
            match store.read_exact(key("exact"), &mut vec![0; wrong]) {
                Err(StoreError::WrongSize { key, url, expected, found }) => {
                    assert_eq!((key.as_str(), url, expected), ("exact", store.url(), wrong as u64));
                    assert!(if wrong > len { found == len as u64 } else { found > wrong as u64 });
                }
                other => panic!("an object of {len} bytes read as {wrong}: {other:?}"),
            }
            let error = store.open(key("exact"), Some(wrong as u64)).unwrap_err();
            assert!(matches!(error, StoreError::WrongSize { .. }), "{error}");
        }
    }
}

pub(super) fn whole_reads(make: Make<'_>) {
    let mut buf = Vec::new();
    // Long, then short: nothing of the long value may remain.
    for len in [0, 100_000, 3, 0, 4095, 4096, 4097, 1] {
        let value = pattern(len);
        let store = make("all", &value);
        for limit in [len, len + 1, len + 100, usize::MAX - 1, usize::MAX] {
            assert!(store.read_all(key("all"), &mut buf, limit).unwrap());
            assert_eq!(buf, value, "limit {limit}");
            let mut fresh = Vec::new();
            let (found, stamp) = store.read_all_stamped(key("all"), &mut fresh, limit).unwrap();
            assert!(found && (stamp.is_none() || stamp == store.stamp(key("all")).unwrap()));
            assert_eq!(fresh, value, "limit {limit}, new buffer");
            assert!(fresh.capacity() <= limit.saturating_add(1), "{} for limit {limit}", fresh.capacity());
            assert!(fresh.capacity() <= 2 * len + 1024, "{} for {len} bytes", fresh.capacity());
        }
        for limit in [0, 1, len / 2, len.saturating_sub(1)].into_iter().filter(|&limit| limit < len) {
            for mut buf in [Vec::new(), Vec::with_capacity(2 * len)] {
                match store.read_all(key("all"), &mut buf, limit) {
                    Err(StoreError::TooLarge { key, url, limit: named }) => {
                        assert_eq!((key.as_str(), url, named), ("all", store.url(), limit as u64));
                    }
                    other => panic!("{len} bytes, limit {limit}: {other:?}"),
                }
            }
        }
        // Capacities around the size.
        for capacity in [len.saturating_sub(1), len, len + 1] {
            let mut exact = Vec::with_capacity(capacity);
            assert!(store.read_all(key("all"), &mut exact, len).unwrap());
            assert_eq!(exact, value);
        }
    }
    let store = make("all", &pattern(1000));
    assert!(store.read_all(key("all"), &mut buf, 1000).unwrap());
    let (address, capacity) = (buf.as_ptr(), buf.capacity());
    assert!(store.read_all(key("all"), &mut buf, 1000).unwrap());
    assert_eq!((buf.as_ptr(), buf.capacity()), (address, capacity), "a buffer that is large enough is kept");
}

/// Reads and compares ranges `(offset, bytes)`, from the store and from the open object.
fn compare(store: &dyn Store, name: &str, size: Option<u64>, value: &[u8], wanted: &[(usize, usize)]) {
    for opened in [None, store.open(key(name), size).unwrap()] {
        let mut bufs: Vec<Vec<u8>> = wanted.iter().map(|&(_, len)| vec![0xEE; len]).collect();
        let mut ranges: Vec<RangeRead<'_>> = wanted
            .iter()
            .zip(&mut bufs)
            .map(|(&(offset, _), buf)| RangeRead { offset: offset as u64, buf })
            .collect();
        match &opened {
            Some(opened) => {
                let about = (opened.size(), opened.stamp());
                assert_eq!(about, (value.len() as u64, store.stamp(key(name)).unwrap()));
                opened.read_ranges(&mut ranges).unwrap();
            }
            None => assert!(store.read_ranges(key(name), size, &mut ranges).unwrap()),
        }
        for (&(offset, len), buf) in wanted.iter().zip(&bufs).filter(|((_, len), _)| *len > 0) {
            assert_eq!(buf, &value[offset..offset + len], "{offset}+{len} of {}", value.len());
        }
    }
}

pub(super) fn range_reads(make: Make<'_>) {
    for len in SIZES {
        let value = pattern(len);
        let store = make("r", &value);
        for size in [None, Some(len as u64)] {
            for (offset, len) in [(0, len), (0, len.min(1)), (len / 2, 0), (len, 0), (2 * len, 0)] {
                let expected = value.get(offset..offset + len).unwrap_or_default();
                assert_eq!(range(&*store, "r", size, offset as u64, len).unwrap().as_deref(), Some(expected));
            }
            assert!(range(&*store, "r", size, u64::MAX, 0).unwrap().is_some());
            assert!(store.read_ranges(key("r"), size, &mut []).unwrap());

            // Unordered, overlapping, adjacent in both directions, equal, and interspersed with
            // empty ranges.
            let wanted = [(len / 2, len / 3), (0, len), (len / 3, len / 2), (len, 0), (0, 1), (900, 100)]
                .into_iter()
                .chain([(0, 10), (10, 20), (30, 0), (30, 5), (5, 50), (5, 50), (4, 1), (35, 1), (36, 2)])
                .chain((0..len).step_by(97).map(|at| (at, 60)));
            let wanted: Vec<_> = wanted.filter(|(at, n)| at + n <= len).collect();
            compare(&*store, "r", size, &value, &wanted);
        }
    }
    // More ranges than any single system call takes, adjacent and with gaps.
    let value = pattern(30_000);
    let store = make("many", &value);
    for (count, len, stride) in [(3000, 10, 10), (3000, 7, 10), (65, 1, 1), (64, 1, 1), (129, 200, 200)] {
        let wanted: Vec<_> = (0..count).map(|i| (i * stride, len)).collect();
        compare(&*store, "many", None, &value, &wanted);
    }
}

pub(super) fn range_errors(make: Make<'_>) {
    let outside = |answer: Result<bool>, url: &str, (offset, len): (u64, usize), size: usize| match answer {
        Err(StoreError::OutOfRange { key, url: at, offset: from, len: of, size: found }) => {
            assert_eq!((key.as_str(), at.as_str(), from), ("r", url, offset));
            assert_eq!((of, found), (len as u64, size as u64));
        }
        other => panic!("{offset}+{len} of {size}: {other:?}"),
    };
    for size in SIZES {
        let store = make("r", &pattern(size));
        let (url, size64) = (store.url(), size as u64);
        let ranges: [(u64, usize); 9] = [
            (0, size + 1),
            (size64.saturating_sub(1), 2),
            (size64, 1),
            (size64 + 5000, 10),
            (1 << 63, 1),
            ((1 << 63) - 1, 1),
            (i64::MAX as u64 - 1, 5),
            (u64::MAX, 1),
            (u64::MAX - 1, 900),
        ];
        for (offset, len) in ranges {
            for known in [None, Some(size64)] {
                let answer = range(&*store, "r", known, offset, len).map(|read| read.is_some());
                outside(answer, &url, (offset, len), size);
            }
            // After valid ranges; the bad one may directly follow the last of them.
            let (mut first, mut second) = (vec![0; size / 100], vec![0; size - size / 100]);
            let (middle, mut bad) = (first.len() as u64, vec![0; len]);
            let mut ranges = [
                RangeRead { offset: 0, buf: &mut first },
                RangeRead { offset: middle, buf: &mut second },
                RangeRead { offset, buf: &mut bad },
            ];
            outside(store.read_ranges(key("r"), None, &mut ranges), &url, (offset, len), size);
        }
    }
    let store = make("r", &pattern(1000));
    for wrong in [0, 999, 1001, u64::MAX] {
        for len in [0, 10] {
            match range(&*store, "r", Some(wrong), 0, len) {
                Err(StoreError::WrongSize { key, url, expected, found }) => {
                    assert_eq!((key.as_str(), url), ("r", store.url()));
                    assert_eq!((expected, found), (wrong, 1000));
                }
                other => panic!("size {wrong}: {other:?}"),
            }
        }
        let nothing = store.read_ranges(key("r"), Some(wrong), &mut []);
        assert!(matches!(nothing, Err(StoreError::WrongSize { found: 1000, .. })), "{nothing:?}");
    }
}
