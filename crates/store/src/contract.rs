//! What every store must do, as a test suite.
//!
//! A test of a store is one call:
//!
//! ```
//! hyperslab_store::contract::check(|| Box::new(hyperslab_store::MemoryStore::new()));
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation
)]

use crate::{Entry, Key, RangeRead, Stamp, Store, StoreError};
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// Checks that a store keeps every promise of [`Store`]. `make` returns a new, empty store each time.
///
/// # Panics
///
/// If it does not; the message and the line say which promise was broken.
pub fn check(make: impl Fn() -> Box<dyn Store>) {
    missing_objects(&*make());
    exact_reads(&*make());
    whole_reads(&*make());
    range_reads(&*make());
    range_errors(&*make());
    many_ranges(&*make());
    writes_of_many_parts(&*make());
    names(&*make());
    objects_and_prefixes_exclude_each_other(&*make());
    deletions(&*make());
    prefix_deletions(&*make());
    listings(&*make());
    locks(&*make(), &*make());
    stamps(&*make(), &*make());
    opened_objects(&*make());
    stamps_during_replacement(&*make());
    concurrent_replacement(&*make());
    concurrent_writers(&*make());
    concurrent_creation_and_deletion(&*make());
}

fn key(name: &str) -> Key<'_> {
    Key::new(name).unwrap()
}

fn put(store: &dyn Store, name: &str, value: &[u8]) {
    store.write(key(name), &[value]).unwrap();
}

fn get(store: &dyn Store, name: &str) -> Option<Vec<u8>> {
    let mut buf = Vec::new();
    store.read_all(key(name), &mut buf, usize::MAX).unwrap().then_some(buf)
}

fn keys(store: &dyn Store) -> Vec<String> {
    store.list(None).unwrap()
}

/// Reads one range into memory that held something else.
fn range(
    store: &dyn Store,
    name: &str,
    size: Option<u64>,
    offset: u64,
    len: usize,
) -> Result<Option<Vec<u8>>, StoreError> {
    let mut buf = vec![0xEE; len];
    let found = store.read_ranges(key(name), size, &mut [RangeRead { offset, buf: &mut buf }])?;
    Ok(found.then_some(buf))
}

/// Bytes in which every position is recognisable.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i.wrapping_mul(0x9E37_79B1) >> 13) as u8).collect()
}

fn assert_missing(store: &dyn Store, name: &str) {
    let mut buf = vec![7; 3];
    assert!(!store.read_exact(key(name), &mut buf).unwrap(), "read_exact of missing {name}");
    assert!(!store.read_exact(key(name), &mut []).unwrap(), "read_exact of missing {name}, no bytes");
    assert!(!store.read_all(key(name), &mut buf, 10).unwrap(), "read_all of missing {name}");
    assert!(buf.is_empty(), "read_all clears the buffer also for missing {name}");
    assert!(!store.read_all(key(name), &mut Vec::new(), 0).unwrap());
    assert_eq!(range(store, name, None, 0, 1).unwrap(), None);
    assert_eq!(range(store, name, Some(1), 0, 1).unwrap(), None);
    assert_eq!(range(store, name, None, u64::MAX, 9).unwrap(), None);
    assert_eq!(range(store, name, None, 0, 0).unwrap(), None);
    assert!(!store.read_ranges(key(name), None, &mut []).unwrap());
    assert!(!store.read_ranges(key(name), Some(0), &mut []).unwrap());
    assert_eq!(store.size(key(name)).unwrap(), None);
    assert!(!store.exists(key(name)).unwrap());
    assert!(!store.delete(key(name)).unwrap(), "delete of missing {name}");
}

fn missing_objects(store: &dyn Store) {
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

fn exact_reads(store: &dyn Store) {
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

fn whole_reads(store: &dyn Store) {
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

fn range_reads(store: &dyn Store) {
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

fn range_errors(store: &dyn Store) {
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
fn many_ranges(store: &dyn Store) {
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

fn writes_of_many_parts(store: &dyn Store) {
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

fn names(store: &dyn Store) {
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
        // Like temporary files of this and of other software.
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

fn objects_and_prefixes_exclude_each_other(store: &dyn Store) {
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

    // What has been deleted is not in the way.
    assert!(store.delete(key("a/b")).unwrap());
    put(store, "a", b"1");
    assert!(store.delete(key("a")).unwrap());
    put(store, "a/b/c", b"2");
    store.delete_prefix(Some(key("a/b"))).unwrap();
    put(store, "a", b"3");
    assert_eq!(keys(store), ["a"]);
}

fn deletions(store: &dyn Store) {
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
}

fn prefix_deletions(store: &dyn Store) {
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

fn listings(store: &dyn Store) {
    for name in ["zarr.json", "t/zarr.json", "t/c/0/0", "t/c/0/1", "t/c/10/0", "t/c/2/0", "t!", "t0", "é/x"]
    {
        put(store, name, b"");
    }
    let entries = |prefix: Option<&str>| -> Vec<(String, bool)> {
        let listed = store.list_dir(prefix.map(key)).unwrap();
        listed.into_iter().map(|Entry { name, is_prefix }| (name, is_prefix)).collect()
    };
    let expected = |entries: &[(&str, bool)]| -> Vec<(String, bool)> {
        entries.iter().map(|&(name, is_prefix)| (name.to_owned(), is_prefix)).collect()
    };
    let root = [("t", true), ("t!", false), ("t0", false), ("zarr.json", false), ("é", true)];
    assert_eq!(entries(None), expected(&root));
    assert_eq!(entries(Some("t")), expected(&[("c", true), ("zarr.json", false)]));
    assert_eq!(entries(Some("t/c")), expected(&[("0", true), ("10", true), ("2", true)]));
    assert_eq!(entries(Some("t/c/0")), expected(&[("0", false), ("1", false)]));
    assert_eq!(entries(Some("t/c/0/0")), []);
    assert_eq!(entries(Some("zarr.json")), []);
    assert_eq!(entries(Some("zarr.json/x")), []);
    assert_eq!(store.list(Some(key("t/c"))).unwrap(), ["t/c/0/0", "t/c/0/1", "t/c/10/0", "t/c/2/0"]);
    assert_eq!(store.list(Some(key("zarr.json"))).unwrap(), [""; 0]);
    let mut sorted = keys(store);
    sorted.sort();
    assert_eq!(keys(store), sorted);
    assert_eq!(sorted.len(), 9);
}

fn locks(store: &dyn Store, other: &dyn Store) {
    let numbers: Vec<u64> = (0..1000).map(|i| store.lock_id(key(&format!("a/c/{i}")))).collect();
    let again: Vec<u64> = (0..1000).map(|i| store.lock_id(key(&format!("a/c/{i}")))).collect();
    assert_eq!(numbers, again);
    let before = store.lock_id(key("a/c/0"));
    put(store, "a/c/0", b"1");
    assert_eq!(store.lock_id(key("a/c/0")), before, "writing does not change the number");
    let spread = |numbers: &mut Vec<u64>| {
        numbers.sort_unstable();
        numbers.dedup();
        numbers.len()
    };
    // May share numbers, but a lock for everything serialises everything; also where only the low bits
    // choose.
    assert!(spread(&mut numbers.iter().map(|number| number % 64).collect()) > 32);
    assert!(spread(&mut numbers.clone()) > 900);
    assert_ne!(store.lock_id(key("a")), other.lock_id(key("a")), "two stores");
    assert!(store.url().contains("://") && store.url() != other.url());
}

/// What is open keeps its contents, whatever happens to the key.
fn opened_objects(store: &dyn Store) {
    assert!(store.open(key("o/x"), None).unwrap().is_none(), "missing");
    store.write(key("o/x"), &[b"0123456789"]).unwrap();
    assert!(store.open(key("o"), None).unwrap().is_none(), "a prefix is no object");
    assert!(matches!(
        store.open(key("o/x"), Some(9)),
        Err(StoreError::WrongSize { expected: 9, found: 10, .. })
    ));
    let opened = store.open(key("o/x"), Some(10)).unwrap().unwrap();
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
    assert!(store.delete(key("o/x")).unwrap());
    read(&mut front, &mut back);
    let outside = &mut [RangeRead { offset: 8, buf: &mut back }];
    assert!(matches!(opened.read_ranges(outside), Err(StoreError::OutOfRange { size: 10, .. })));
    assert!(store.open(key("o/x"), None).unwrap().is_none(), "deleted");
}

/// Reads an object in both ways that give stamps.
fn stamped(store: &dyn Store, name: &str) -> [(Vec<u8>, Option<Stamp>); 2] {
    let mut whole = Vec::new();
    let (found, stamp) = store.read_all_stamped(key(name), &mut whole, usize::MAX).unwrap();
    assert!(found);
    let mut part = vec![0xEE; 1];
    let mut ranges = [RangeRead { offset: 0, buf: &mut part }];
    let (found, of_range) = store.read_ranges_stamped(key(name), None, &mut ranges).unwrap();
    assert!(found);
    [(whole, stamp), (part, of_range)]
}

/// A stamp that came with bytes is never that of other bytes. (A store may never give one.)
fn stamps(store: &dyn Store, other: &dyn Store) {
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

    // Faster than any clock ticks, in one store and in two, the same bytes and others, with deletions.
    let mut given: Vec<(Vec<u8>, Stamp)> = Vec::new();
    for round in 0..400u32 {
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

/// Bytes that were kept under a stamp are those of every later moment at which the object has that stamp.
fn stamps_during_replacement(store: &dyn Store) {
    put(store, "s/x", &0u32.to_le_bytes());
    let written = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=2000u32 {
                put(store, "s/x", &round.to_le_bytes());
                written.store(round.into(), Ordering::SeqCst);
            }
        });
        for _ in 0..2 {
            scope.spawn(|| {
                let mut kept: Option<(Vec<u8>, Stamp)> = None;
                loop {
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
                    if least == 2000 {
                        break;
                    }
                }
            });
        }
    });
}

/// A value that shows if it is whole: its length follows from its first byte, and all bytes are equal.
fn uniform(byte: u8) -> Vec<u8> {
    vec![byte; uniform_len(byte)]
}

fn uniform_len(byte: u8) -> usize {
    1 + usize::from(byte) * 997
}

fn assert_uniform(value: &[u8]) {
    assert!(!value.is_empty(), "an object without bytes was never written");
    assert_eq!(value.len(), uniform_len(value[0]), "a value of another length");
    assert!(value.iter().all(|&byte| byte == value[0]), "a mixture of values");
}

/// Every read sees a whole value, whatever is written meanwhile.
fn concurrent_replacement(store: &dyn Store) {
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
fn concurrent_writers(store: &dyn Store) {
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
fn concurrent_creation_and_deletion(store: &dyn Store) {
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
