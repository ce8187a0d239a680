//! Reading: what is missing, whole objects, ranges, their errors.

use super::{assert_missing, get, key, keys, pattern, put, range};
use crate::{RangeRead, Store, StoreError};

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

pub(super) fn exact_reads(store: &dyn Store) {
    for len in [0, 1, 2, 511, 4096, 70_001] {
        let value = pattern(len);
        put(store, "a/exact", &value);
        let mut buf = vec![0xEE; len];
        assert!(store.read_exact(key("a/exact"), &mut buf).unwrap());
        assert_eq!(buf, value);
        assert_eq!(store.size(key("a/exact")).unwrap(), Some(len as u64));
        assert!(store.exists(key("a/exact")).unwrap());
        let wrong_sizes = [0, 1, len.saturating_sub(1), len + 1, len * 2];
        for wrong in wrong_sizes.into_iter().filter(|&wrong| wrong != len) {
            match store.read_exact(key("a/exact"), &mut vec![0; wrong]) {
                Err(StoreError::WrongSize { key, url, expected, found }) => {
                    assert_eq!((key.as_str(), url, expected), ("a/exact", store.url(), wrong as u64));
                    assert!(if wrong > len { found == len as u64 } else { found > wrong as u64 });
                }
                other => panic!("an object of {len} bytes read as {wrong}: {other:?}"),
            }
        }
    }
}

pub(super) fn whole_reads(store: &dyn Store) {
    let mut buf = Vec::new();
    // Long, then short: nothing of the long one may be left.
    for len in [0, 100_000, 3, 0, 4095, 4096, 4097, 1] {
        let value = pattern(len);
        put(store, "all", &value);
        for limit in [len, len + 1, len + 100, usize::MAX - 1, usize::MAX] {
            assert!(store.read_all(key("all"), &mut buf, limit).unwrap());
            assert_eq!(buf, value, "limit {limit}");
            let mut fresh = Vec::new();
            assert!(store.read_all(key("all"), &mut fresh, limit).unwrap());
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
    put(store, "all", &pattern(1000));
    assert!(store.read_all(key("all"), &mut buf, 1000).unwrap());
    let (address, capacity) = (buf.as_ptr(), buf.capacity());
    assert!(store.read_all(key("all"), &mut buf, 1000).unwrap());
    assert_eq!((buf.as_ptr(), buf.capacity()), (address, capacity), "a buffer that is large enough is kept");
}

pub(super) fn range_reads(store: &dyn Store) {
    let value = pattern(1000);
    put(store, "r", &value);
    for size in [None, Some(1000)] {
        for (offset, len) in [(0, 1000), (0, 1), (999, 1), (1, 998), (500, 0), (1000, 0), (2000, 0)] {
            let expected = value.get(offset..offset + len).unwrap_or_default();
            assert_eq!(range(store, "r", size, offset as u64, len).unwrap().as_deref(), Some(expected));
        }
        assert!(range(store, "r", size, u64::MAX, 0).unwrap().is_some());
        assert!(store.read_ranges(key("r"), size, &mut []).unwrap());

        // Unordered, overlapping, adjacent in both directions, equal, with empty ones between.
        let wanted =
            [(900, 100), (0, 10), (10, 20), (30, 0), (30, 5), (5, 50), (5, 50), (4, 1), (35, 1), (36, 2)];
        let mut bufs: Vec<Vec<u8>> = wanted.iter().map(|&(_, len)| vec![0xEE; len]).collect();
        let mut ranges: Vec<RangeRead<'_>> = wanted
            .iter()
            .zip(&mut bufs)
            .map(|(&(offset, _), buf)| RangeRead { offset: offset as u64, buf })
            .collect();
        assert!(store.read_ranges(key("r"), size, &mut ranges).unwrap());
        for (&(offset, len), buf) in wanted.iter().zip(&bufs) {
            assert_eq!(buf, &value[offset..offset + len], "{offset}+{len}");
        }
    }
    put(store, "empty", b"");
    assert!(store.read_ranges(key("empty"), Some(0), &mut []).unwrap());
    assert_eq!(range(store, "empty", None, 0, 0).unwrap(), Some(vec![]));
}

pub(super) fn range_errors(store: &dyn Store) {
    put(store, "r", &pattern(1000));
    put(store, "empty", b"");
    let outside: [(u64, usize); 9] = [
        (0, 1001),
        (999, 2),
        (1000, 1),
        (5000, 10),
        (1 << 63, 1),
        ((1 << 63) - 1, 1),
        (i64::MAX as u64 - 1, 5),
        (u64::MAX, 1),
        (u64::MAX - 1, 900),
    ];
    for (offset, len) in outside {
        for size in [None, Some(1000)] {
            match range(store, "r", size, offset, len) {
                Err(StoreError::OutOfRange { key, url, offset: at, len: of, size }) => {
                    assert_eq!((key.as_str(), url, at), ("r", store.url(), offset));
                    assert_eq!((of, size), (len as u64, 1000));
                }
                other => panic!("{offset}+{len}: {other:?}"),
            }
        }
        // Behind good ranges, the last of which it may follow directly.
        let (mut first, mut second, mut bad) = ([0; 10], [0; 990], vec![0; len]);
        let mut ranges = [
            RangeRead { offset: 0, buf: &mut first },
            RangeRead { offset: 10, buf: &mut second },
            RangeRead { offset, buf: &mut bad },
        ];
        match store.read_ranges(key("r"), None, &mut ranges) {
            Err(StoreError::OutOfRange { offset: at, len: of, .. }) => {
                assert_eq!((at, of), (offset, len as u64));
            }
            other => panic!("{offset}+{len}: {other:?}"),
        }
    }
    assert!(matches!(range(store, "empty", None, 0, 1), Err(StoreError::OutOfRange { size: 0, .. })));
    for wrong in [0, 999, 1001, u64::MAX] {
        for len in [0, 10] {
            match range(store, "r", Some(wrong), 0, len) {
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

/// More ranges than any one system call takes, adjacent and with gaps.
pub(super) fn many_ranges(store: &dyn Store) {
    let value = pattern(30_000);
    put(store, "many", &value);
    for (count, len, stride) in [(3000, 10, 10), (3000, 7, 10), (65, 1, 1), (64, 1, 1), (129, 200, 200)] {
        let mut output = vec![0xEE; count * len];
        let mut ranges: Vec<RangeRead<'_>> = output
            .chunks_mut(len)
            .enumerate()
            .map(|(i, buf)| RangeRead { offset: (i * stride) as u64, buf })
            .collect();
        assert!(store.read_ranges(key("many"), None, &mut ranges).unwrap());
        let expected: Vec<u8> =
            (0..count).flat_map(|i| &value[i * stride..i * stride + len]).copied().collect();
        assert_eq!(output, expected);
    }
}
