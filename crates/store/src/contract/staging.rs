//! Replacing everything below a prefix.

use super::{get, key, keys, put};
use crate::Store;

pub(super) fn staged_prefixes(store: &dyn Store, flat: bool) {
    for name in ["a/b", "a/x", "ab", "z"] {
        put(store, name, b"old");
    }
    let staged = store.stage(Some(key("a"))).unwrap();
    put(&*staged.store(), "b", b"new");
    put(&*staged.store(), "c/d", b"new");
    assert_eq!(get(store, "a/b").as_deref(), Some(&b"old"[..]), "nobody sees what is staged");
    drop(staged);
    assert_eq!(keys(store), ["a/b", "a/x", "ab", "z"], "what is dropped leaves nothing");

    let staged = store.stage(Some(key("a"))).unwrap();
    put(&*staged.store(), "b", b"new");
    put(&*staged.store(), "c/d", b"new");
    staged.commit(None).unwrap();
    assert_eq!(keys(store), ["a/b", "a/c/d", "ab", "z"]);
    assert_eq!(get(store, "a/b").as_deref(), Some(&b"new"[..]));

    let staged = store.stage(Some(key("a"))).unwrap();
    put(&*staged.store(), "e", b"new");
    assert!(!staged.commit_new().unwrap(), "something is there");
    let staged = store.stage(Some(key("m/n"))).unwrap();
    put(&*staged.store(), "e", b"new");
    assert!(staged.commit_new().unwrap());
    assert_eq!(keys(store), ["a/b", "a/c/d", "ab", "m/n/e", "z"]);

    store.stage(Some(key("a"))).unwrap().commit(None).unwrap();
    assert_eq!(keys(store), ["ab", "m/n/e", "z"], "nothing replaces what was there, too");

    let staged = store.stage(None).unwrap();
    put(&*staged.store(), "q", b"new");
    staged.commit(Some(&|| false)).unwrap();
    assert_eq!(keys(store), ["q"]);
    if flat {
        return;
    }
    let staged = store.stage(Some(key("q"))).unwrap();
    put(&*staged.store(), "r", b"new");
    assert!(staged.commit(None).is_err(), "an object is there");
    assert_eq!(get(store, "q").as_deref(), Some(&b"new"[..]));
}
