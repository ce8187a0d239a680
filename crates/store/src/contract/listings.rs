//! Listings and lock numbers.

use super::{key, keys, put};
use crate::{Entry, Store, StoreError};

pub(super) fn listings(store: &dyn Store) {
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
    put(store, "t/c/2/0", b"abc");
    let sizes = [("t/c/0/0", 0), ("t/c/0/1", 0), ("t/c/10/0", 0), ("t/c/2/0", 3)];
    let sizes = sizes.map(|(name, size)| (name.to_owned(), size));
    assert_eq!(store.list_sizes(Some(key("t/c")), None).unwrap(), sizes);
    for threads in [1, 3] {
        let all = store.list_all(Some(key("t/c")), threads, None).unwrap();
        assert_eq!((all.keys.as_slice(), all.leftovers), (&sizes[..], vec![]));
        assert_eq!(store.list_all(None, threads, None).unwrap().keys.len(), 9);
        let stopped = store.list_all(Some(key("t/c")), threads, Some(&|| true));
        assert!(matches!(stopped, Err(StoreError::Interrupted { .. })), "{stopped:?}");
    }
    let stopped = store.list_sizes(Some(key("t/c")), Some(&|| true));
    assert!(matches!(stopped, Err(StoreError::Interrupted { .. })), "{stopped:?}");
    let some = ["t/c/0/0", "t/c/9/9", "t/c/2/0", "x"].map(key);
    let existing = store.existing(&some, None).unwrap();
    assert_eq!(existing.iter().map(|key| key.as_str()).collect::<Vec<_>>(), ["t/c/0/0", "t/c/2/0"]);
    let many: Vec<String> = (0..100).map(|n| format!("t/c/0/{n}")).collect();
    let many: Vec<_> = many.iter().map(|name| key(name)).collect();
    assert_eq!(store.existing(&many, None).unwrap().len(), 2);
    if let Some(stamps) = store.list_stamps(Some(key("t/c")), 4, None).unwrap() {
        assert_eq!(stamps.len(), 4);
        for (name, stamp) in stamps {
            assert_eq!(store.stamp(key(&name)).unwrap().unwrap().everywhere(), stamp, "{name}");
        }
        assert_eq!(store.list_stamps(Some(key("t/c")), 3, None).unwrap(), None);
    }
    let mut sorted = keys(store);
    sorted.sort();
    assert_eq!(keys(store), sorted);
    assert_eq!(sorted.len(), 9);
}

pub(super) fn locks(store: &dyn Store, other: &dyn Store) {
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
    // Objects may share numbers, but one lock for everything would serialise everything. The low
    // bits must spread too.
    assert!(spread(&mut numbers.iter().map(|number| number % 64).collect()) > 32);
    assert!(spread(&mut numbers.clone()) > 900);
    assert_ne!(store.lock_id(key("a")), other.lock_id(key("a")), "two stores");
    assert!(store.url().contains("://") && store.url() != other.url());
}
