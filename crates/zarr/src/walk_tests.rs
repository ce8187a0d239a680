use super::*;
use crate::testing::{Far, dtype, put};
use crate::{Array, ArraySpec, Consolidation, Format, Json, Node, Wanted};
use hyperslab_store::{LocalOptions, LocalStore, MemoryStore, Store};
use std::cell::Cell;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn group(store: &Arc<dyn Store>, path: &str) -> Group {
    Group::create(store.clone(), path, Format::V3, Json::object(), false).unwrap()
}

fn local() -> (tempfile::TempDir, Arc<dyn Store>, Group) {
    let directory = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> =
        Arc::new(LocalStore::open(directory.path(), LocalOptions::default()).unwrap());
    let root = group(&store, "");
    (directory, store, root)
}

fn paths(group: &Group) -> Vec<String> {
    group.walk(None, None).unwrap().into_iter().map(|(path, _)| path).collect()
}

#[test]
fn circles_of_links_are_listed_once() {
    let (directory, store, root) = local();
    group(&store, "a/b");
    for (target, link) in [(".", "one"), (".", "two"), ("..", "a/up"), ("a", "again")] {
        symlink(target, directory.path().join(link)).unwrap();
    }
    // "again" is no circle: its members are listed there, too.
    assert_eq!(paths(&root), ["a", "a/b", "a/up", "again", "again/b", "again/up", "one", "two"]);
    let mut root = root;
    root.consolidate(None).unwrap();
    assert_eq!(root.walk(None, None).unwrap().len(), 8);
    // A part of a circle.
    let below = Group::open(&store, "a", None, Consolidation::Ignore).unwrap();
    assert_eq!(paths(&below), ["b", "up", "up/a", "up/again", "up/one", "up/two"]);
}

#[test]
fn links_that_double_at_each_level_are_an_error() {
    let (directory, store, root) = local();
    for level in 0..30 {
        group(&store, &format!("level{level}"));
        for link in ["left", "right"] {
            let at = directory.path().join(format!("level{level}/{link}"));
            symlink(format!("../level{}", level + 1), at).unwrap();
        }
    }
    group(&store, "level30");
    let error = root.walk(None, None).unwrap_err().to_string();
    assert!(error.contains("symbolic links"), "{error}");
    assert_eq!(root.walk(Some(2), None).unwrap().len(), 31 + 60);
}

#[test]
fn a_node_that_cannot_be_read_is_listed() {
    let (directory, store, root) = local();
    let spec = ArraySpec::new(Format::V3, &[4], "<i4".parse().unwrap());
    crate::Array::create(store.clone(), "good", spec, false).unwrap();
    for (name, document) in [
        ("broken", "{\"zarr_format\": 3,"),
        ("odd", "{\"zarr_format\": 3, \"node_type\": \"table\"}"),
        ("empty", ""),
    ] {
        std::fs::create_dir(directory.path().join(name)).unwrap();
        std::fs::write(directory.path().join(name).join("zarr.json"), document).unwrap();
    }
    let kinds = root.walk(None, None).unwrap();
    let names: Vec<&str> = kinds.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["broken", "empty", "good", "odd"]);
    assert!(kinds.iter().all(|(_, kind)| *kind == NodeKind::Array));
    assert!(matches!(root.child("broken"), Err(ZarrError::Metadata { .. })));
    assert!(root.child("good").is_ok());
}

#[test]
fn a_walk_can_be_stopped() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let mut root = group(&store, "");
    for number in 0..50 {
        group(&store, &format!("g{number}"));
    }
    let asked = Cell::new(0);
    let after = |most| {
        asked.set(0);
        move |asked: &Cell<u32>| {
            asked.set(asked.get() + 1);
            asked.get() > most
        }
    };
    let stop = after(10);
    assert!(matches!(root.walk(None, Some(&|| stop(&asked))), Err(ZarrError::Interrupted)));
    assert_eq!(asked.get(), 11);
    let stop = after(110);
    assert!(matches!(root.consolidate(Some(&|| stop(&asked))), Err(ZarrError::Interrupted)));
    assert!(!Group::open(&store, "", None, Consolidation::Auto).unwrap().is_consolidated());
    let stop = after(1000);
    assert_eq!(root.walk(None, Some(&|| stop(&asked))).unwrap().len(), 50);
}

#[test]
fn hierarchies_may_be_deep() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let root = group(&store, "");
    let path = vec!["d"; 300].join("/");
    group(&store, &path);
    assert_eq!(root.walk(None, None).unwrap().len(), 300);
    assert_eq!(root.walk(Some(7), None).unwrap().len(), 7);
    assert_eq!(root.walk(Some(0), None).unwrap().len(), 0);
}

/// Counts how often `work` waits, and returns its result too.
fn rounds<T>(far: &Far, work: impl FnOnce() -> T) -> (usize, T) {
    let before = far.rounds.load(Ordering::Relaxed);
    let made = work();
    (far.rounds.load(Ordering::Relaxed) - before, made)
}

#[test]
fn stores_far_away_are_asked_in_rounds() {
    for format in [Format::V2, Format::V3] {
        let far = Arc::new(Far::default());
        let store: Arc<dyn Store> = far.clone();
        let attributes = || Json::from([("n", 1_i64.into())]);
        let root = Group::create(store.clone(), "", format, attributes(), false).unwrap();
        for path in ["a", "a/b", "a-b", "c"] {
            Group::create(store.clone(), path, format, attributes(), false).unwrap();
        }
        for path in ["x", "a/x", "a/b/x", "c/y"] {
            let spec = ArraySpec { attributes: attributes(), ..ArraySpec::new(format, &[4], dtype("<i4")) };
            Array::create(store.clone(), path, spec, false).unwrap();
        }
        put(&store, "no node/here", "");
        put(&store, "c/bad/.zarray", "{");
        put(&store, "c/bad/zarr.json", "{");

        let (count, opened) = rounds(&far, || node::open(&store, "a/x", None).unwrap());
        assert!(matches!(opened, Node::Array(array) if *array.attributes() == attributes()));
        assert_eq!(count, 1, "{format:?}");
        let (count, opened) = rounds(&far, || Group::open(&store, "a", None, Consolidation::Auto).unwrap());
        assert_eq!((count, opened.attributes()), (1, &attributes()));
        // The remembered format is asked for first, then the other one.
        let (count, missing) = rounds(&far, || node::open(&store, "nothing", None));
        assert!(matches!(missing, Err(ZarrError::NotFound { .. })) && count == 2);
        let may_be_missing = Wanted { may_be_missing: true, ..Wanted::default() };
        let (count, missing) = rounds(&far, || node::open_with(&store, "nothing", may_be_missing));
        assert!(matches!(missing, Err(ZarrError::NotFound { .. })) && count == 1);

        // Two requests for each level: list it, and read its documents.
        let (count, found) = rounds(&far, || root.listed(None, None).unwrap());
        let names: Vec<&str> = found.iter().map(|node| node.path.as_str()).collect();
        assert_eq!(names, ["a", "a/b", "a/b/x", "a/x", "a-b", "c", "c/bad", "c/y", "x"]);
        assert_eq!(count, 6, "{format:?}");
        let (count, found) = rounds(&far, || root.listed(Some(1), None).unwrap());
        assert_eq!((count, found.len()), (2, 4));
        assert_eq!(rounds(&far, || root.listed(Some(0), None).unwrap().len()), (0, 0));
        // Every listed node exists.
        for listed in root.listed(None, None).unwrap() {
            let (count, opened) = rounds(&far, || root.open_listed(&listed));
            match (&*listed.path, opened) {
                ("c/bad", opened) => assert!(opened.is_err()),
                (_, Ok(Node::Array(array))) => assert_eq!((count, array.attributes()), (0, &attributes())),
                // The group may have consolidated metadata.
                (_, Ok(Node::Group(group))) => {
                    assert!(
                        count <= usize::from(format == Format::V2) && *group.attributes() == attributes()
                    );
                }
                (path, Err(error)) => panic!("{path}: {error}"),
            }
        }
    }
}

#[test]
fn consolidated_groups_far_away_take_one_round() {
    for format in [Format::V2, Format::V3] {
        let far = Arc::new(Far::default());
        let store: Arc<dyn Store> = far.clone();
        let mut root = Group::create(store.clone(), "", format, Json::object(), false).unwrap();
        for number in 0..100 {
            let spec = ArraySpec::new(format, &[4], dtype("<i4"));
            Array::create(store.clone(), &format!("a{number:02}"), spec, false).unwrap();
        }
        let (count, ()) = rounds(&far, || root.consolidate(None).unwrap());
        // Listing, documents in pages of 64 requests, the group's own documents.
        assert!(count <= 1 + 5 + 2, "{format:?}: {count}");
        let (count, arrays) = rounds(&far, || {
            let root = Group::open(&store, "", None, Consolidation::Require).unwrap();
            let children = root.children().unwrap();
            children.iter().filter(|(name, _)| root.child(name).is_ok()).count()
        });
        assert_eq!((count, arrays), (1, 100), "{format:?}");
    }
}
