//! Stores of one object that only read.

use super::{assert_missing, key, pattern, range};
use crate::{Entry, Operation, RangeRead, Store, StoreError};
use std::io::ErrorKind;

pub(super) type Make<'m> = &'m dyn Fn(&str, &[u8]) -> Box<dyn Store>;

/// As the reads of an object that was written; here it is there already.
pub(super) fn one_object(make: Make<'_>) {
    for (n, len) in [0, 1, 2, 511, 4096, 70_001].into_iter().enumerate() {
        let (name, value) = (format!("object {n}"), pattern(len));
        let store = make(&name, &value);
        let at = key(&name);
        assert_eq!(store.size(at).unwrap(), Some(len as u64));
        assert!(store.exists(at).unwrap());
        for other in ["other", "object", "object 0/x"] {
            assert_missing(&*store, other);
            assert!(store.open(key(other), None).unwrap().is_none());
            assert_eq!(store.stamp(key(other)).unwrap(), None);
        }
        assert_eq!(store.list(None).unwrap(), [name.as_str()]);
        assert_eq!(store.list_dir(None).unwrap(), [Entry { name: name.clone(), is_prefix: false }]);
        assert!(store.list(Some(at)).unwrap().is_empty());

        let mut buf = vec![0xEE; len];
        assert!(store.read_exact(at, &mut buf).unwrap());
        assert_eq!(buf, value);
        for wrong in [len + 1, len.saturating_sub(1)].into_iter().filter(|wrong| *wrong != len) {
            let error = store.read_exact(at, &mut vec![0; wrong]).unwrap_err();
            assert!(matches!(error, StoreError::WrongSize { .. }), "{error}");
            let error = store.open(at, Some(wrong as u64)).unwrap_err();
            assert!(matches!(error, StoreError::WrongSize { .. }), "{error}");
        }
        let mut all = vec![1, 2, 3];
        for limit in [len, len + 1, usize::MAX] {
            let (found, stamp) = store.read_all_stamped(at, &mut all, limit).unwrap();
            assert!(found && all == value);
            assert!(stamp.is_none() || stamp == store.stamp(at).unwrap());
        }
        if len > 0 {
            let error = store.read_all(at, &mut all, len - 1).unwrap_err();
            assert!(matches!(error, StoreError::TooLarge { .. }), "{error}");
        }
        ranges(&*store, &name, &value);
        refusals(&*store, &name);
    }
}

/// Unordered, overlapping and empty ranges, and those beyond the end; through an open object and
/// not.
fn ranges(store: &dyn Store, name: &str, value: &[u8]) {
    let len = value.len();
    let wanted: Vec<(usize, usize)> = [(len / 2, len / 3), (0, len), (len / 3, len / 2), (len, 0), (0, 1)]
        .into_iter()
        .chain((0..len).step_by(97).map(|at| (at, 60)))
        .filter(|(at, n)| at + n <= len)
        .collect();
    for opened in [None, store.open(key(name), Some(len as u64)).unwrap()] {
        let mut bufs: Vec<Vec<u8>> = wanted.iter().map(|(_, n)| vec![0xEE; *n]).collect();
        let mut list: Vec<RangeRead<'_>> = wanted
            .iter()
            .zip(&mut bufs)
            .map(|((at, _), buf)| RangeRead { offset: *at as u64, buf })
            .collect();
        match &opened {
            Some(opened) => {
                assert_eq!((opened.size(), opened.stamp()), (len as u64, store.stamp(key(name)).unwrap()));
                opened.read_ranges(&mut list).unwrap();
            }
            None => assert!(store.read_ranges(key(name), Some(len as u64), &mut list).unwrap()),
        }
        for ((at, n), buf) in wanted.iter().zip(&bufs) {
            assert_eq!(buf, &value[*at..at + n], "{at}+{n}");
        }
    }
    assert!(range(store, name, None, u64::MAX, 0).unwrap().is_some());
    assert!(store.read_ranges(key(name), None, &mut []).unwrap());
    let outside = [(0, len + 1), (len as u64, 1), (1 << 63, 1), (u64::MAX, 1), (i64::MAX as u64 - 1, 5)];
    for (offset, n) in outside {
        match range(store, name, None, offset, n) {
            Err(StoreError::OutOfRange { key, offset: at, len: of, size, .. }) => {
                assert_eq!((key.as_str(), at, of, size), (name, offset, n as u64, len as u64));
            }
            other => panic!("{offset}+{n}: {other:?}"),
        }
    }
}

/// Nothing can be written.
fn refusals(store: &dyn Store, name: &str) {
    let refused = |error: StoreError, on: Operation| {
        let said = error.to_string();
        assert!(said.contains("reading only"), "{said}");
        assert!(matches!(&error, StoreError::Io { operation, source, .. }
            if *operation == on && source.kind() == ErrorKind::PermissionDenied));
    };
    for at in [name, "new"] {
        refused(store.write(key(at), &[b"x"]).unwrap_err(), Operation::Write);
        refused(store.replace(key(at)).unwrap_err(), Operation::Write);
    }
    refused(store.delete(key(name)).unwrap_err(), Operation::Delete);
    refused(store.delete_prefix(None).unwrap_err(), Operation::Delete);
    store.delete_prefix(Some(key(name))).unwrap();
    assert!(store.exists(key(name)).unwrap());
}
