use super::*;
use crate::ArraySpec;
use crate::testing::{json, memory, put};
use hyperslab_store::Key;

fn stored(store: &Arc<dyn Store>, key: &str) -> Json {
    node::read_document(store, key).unwrap().unwrap()
}

fn spec(format: Format) -> ArraySpec {
    let mut spec = ArraySpec::new(format, &[4], "|u1".parse().unwrap());
    spec.attributes = json(r#"{"u": "m"}"#);
    spec
}

/// Creates `x/y/arr`, `x-z` and `b`.
fn hierarchy(format: Format) -> Arc<dyn Store> {
    let store = memory();
    Group::create(store.clone(), "", format, json(r#"{"t": 1}"#), false).unwrap();
    Array::create(store.clone(), "x/y/arr", spec(format), false).unwrap();
    Array::create(store.clone(), "x-z", spec(format), false).unwrap();
    Group::create(store.clone(), "b", format, Json::object(), false).unwrap();
    put(&store, "README", "no node");
    put(&store, "folder/file", "no node");
    put(&store, "x/y/arr/c/0", "1234");
    put(&store, "x/y/arr/0", "1234");
    store
}

fn root(store: &Arc<dyn Store>) -> Group {
    Group::open(store, "", None, Consolidation::Auto).unwrap()
}

fn array_in(group: &Group, name: &str) -> Array {
    let Node::Array(array) = group.child(name).unwrap() else { panic!("{name} is no array") };
    array
}

const NODES: [(&str, NodeKind); 5] = [
    ("b", NodeKind::Group),
    ("x", NodeKind::Group),
    ("x/y", NodeKind::Group),
    ("x/y/arr", NodeKind::Array),
    ("x-z", NodeKind::Array),
];

fn owned(nodes: &[(&str, NodeKind)]) -> Vec<(String, NodeKind)> {
    nodes.iter().map(|(path, kind)| ((*path).to_owned(), *kind)).collect()
}

#[test]
fn hierarchies_are_walked() {
    for format in [Format::V2, Format::V3] {
        let store = hierarchy(format);
        let mut group = Group::open(&store, "/", None, Consolidation::Auto).unwrap();
        assert_eq!(group.name(), "/");
        assert_eq!(group.attributes().to_text(None), r#"{"t": 1}"#);
        for consolidated in [false, true] {
            if consolidated {
                group.consolidate(None).unwrap();
            }
            assert_eq!(group.is_consolidated(), consolidated);
            assert_eq!(group.walk(None, None).unwrap(), owned(&NODES));
            let two: Vec<_> = NODES.into_iter().filter(|(path, _)| path.matches('/').count() < 2).collect();
            assert_eq!(group.walk(Some(2), None).unwrap(), owned(&two));
            assert_eq!(
                group.children().unwrap(),
                owned(&[("b", NodeKind::Group), ("x", NodeKind::Group), ("x-z", NodeKind::Array)])
            );
            let Node::Group(x) = group.child("x").unwrap() else { panic!("a group") };
            assert_eq!(x.path(), "x");
            assert_eq!(x.is_consolidated(), consolidated);
            assert_eq!(x.children().unwrap(), owned(&[("y", NodeKind::Group)]));
            assert_eq!(
                x.walk(None, None).unwrap(),
                owned(&[("y", NodeKind::Group), ("y/arr", NodeKind::Array)])
            );
            let array = array_in(&x, "y/arr");
            assert_eq!(array.path(), "x/y/arr");
            assert_eq!(array.is_consolidated(), consolidated);
            assert_eq!(array.attributes().to_text(None), r#"{"u": "m"}"#);
            assert_eq!(array.layout().shape(), [4]);
            assert_eq!(group.child_kind("x/y").unwrap(), Some(NodeKind::Group));
            assert_eq!(group.child_kind("folder").unwrap(), None);
            assert!(matches!(group.child("nothing"), Err(ZarrError::NotFound { .. })));
            assert!(matches!(group.child("../x"), Err(ZarrError::Path { .. })));
            assert!(matches!(group.child(""), Ok(Node::Group(_))));
        }
    }
}

#[test]
fn consolidated_metadata_is_zarr_pythons() {
    let store = hierarchy(Format::V2);
    root(&store).consolidate(None).unwrap();
    let document = stored(&store, ".zmetadata");
    assert_eq!(document.get("zarr_consolidated_format"), Some(&1u32.into()));
    let metadata = document.get("metadata").unwrap();
    let names: Vec<&str> = metadata.as_object().unwrap().iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names.join(" "),
        ".zgroup .zattrs b/.zgroup b/.zattrs x/.zgroup x/.zattrs x-z/.zarray x-z/.zattrs x/y/.zgroup x/y/.zattrs \
         x/y/arr/.zarray x/y/arr/.zattrs"
    );
    assert_eq!(metadata.get(".zattrs").unwrap().to_text(None), r#"{"t": 1}"#);
    assert_eq!(metadata.get("x-z/.zarray"), Some(&stored(&store, "x-z/.zarray")));

    let store = hierarchy(Format::V3);
    root(&store).consolidate(None).unwrap();
    let document = stored(&store, "zarr.json");
    let consolidated = document.get("consolidated_metadata").unwrap();
    assert_eq!(consolidated.get("kind"), Some(&"inline".into()));
    assert_eq!(consolidated.get("must_understand"), Some(&false.into()));
    let metadata = consolidated.get("metadata").unwrap();
    let names: Vec<&str> = metadata.as_object().unwrap().iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["b", "x", "x-z", "x/y", "x/y/arr"]);
    assert_eq!(
        metadata.get("b").unwrap().to_text(None),
        r#"{"attributes": {}, "zarr_format": 3, "node_type": "group", "consolidated_metadata": {"kind": "inline", "must_understand": false, "metadata": {}}}"#
    );
    assert_eq!(metadata.get("x/y/arr"), Some(&stored(&store, "x/y/arr/zarr.json")));
}

#[test]
fn consolidated_metadata_goes_stale_and_is_renewed() {
    for format in [Format::V2, Format::V3] {
        let store = hierarchy(format);
        let mut group = root(&store);
        let missing = Group::open(&store, "", None, Consolidation::Require);
        assert!(matches!(missing, Err(ZarrError::NotFound { what: "consolidated metadata", .. })));
        group.consolidate(None).unwrap();
        // A node that another handle created later is not listed and not found.
        Array::create(store.clone(), "new", spec(format), false).unwrap();
        assert_eq!(group.children().unwrap().len(), 3);
        assert!(matches!(group.child("new"), Err(ZarrError::NotFound { .. })));
        assert_eq!(group.child_kind("new").unwrap(), None);
        let plain = Group::open(&store, "", None, Consolidation::Ignore).unwrap();
        assert_eq!(plain.children().unwrap().len(), 4);
        // A changed node is listed in its old state.
        let mut array = array_in(&plain, "x-z");
        array.resize(&[9], None).unwrap();
        let mut old = array_in(&group, "x-z");
        assert_eq!(old.layout().shape(), [4]);
        // A change through the stale handle builds on the stored metadata.
        old.set_attributes(json(r#"{"k": 2}"#)).unwrap();
        assert_eq!(old.layout().shape(), [9]);
        assert!(!old.is_consolidated());
        // The change is visible in the group.
        let again = array_in(&group, "x-z");
        assert_eq!((again.layout().shape(), again.attributes()), (&[9][..], old.attributes()));
        group.consolidate(None).unwrap();
        assert_eq!(group.children().unwrap().len(), 4);
        let renewed = array_in(&group, "x-z");
        assert_eq!(renewed.layout().shape(), [9]);
        assert!(renewed.is_consolidated());
    }
}

#[test]
fn attributes_of_groups() {
    for format in [Format::V2, Format::V3] {
        let store = hierarchy(format);
        let mut group = root(&store);
        group.consolidate(None).unwrap();
        group.set_attributes(json(r#"{"big": 1e999, "n": NaN}"#)).unwrap();
        assert_eq!(group.attributes().to_text(None), r#"{"big": 1e999, "n": NaN}"#);
        let mut reopened = Group::open(&store, "", None, Consolidation::Require).unwrap();
        assert_eq!(reopened.attributes(), group.attributes());
        assert_eq!(reopened.walk(None, None).unwrap().len(), 5);
        if format == Format::V2 {
            let copy = stored(&store, ".zmetadata");
            assert_eq!(copy.get("metadata").unwrap().get(".zattrs"), Some(group.attributes()));
        }
        assert!(matches!(group.set_attributes(json("[]")), Err(ZarrError::Invalid { .. })));
        reopened.refresh().unwrap();
        assert!(reopened.is_consolidated());
    }
}

#[test]
fn deleted_children_are_gone_from_copies_too() {
    for format in [Format::V2, Format::V3] {
        let store = hierarchy(format);
        let mut group = root(&store);
        group.consolidate(None).unwrap();
        group.delete_child("x", None).unwrap();
        for group in [group.clone(), Group::open(&store, "", None, Consolidation::Require).unwrap()] {
            assert_eq!(
                group.walk(None, None).unwrap(),
                owned(&[("b", NodeKind::Group), ("x-z", NodeKind::Array)])
            );
        }
        assert!(store.list(Some(Key::new("x").unwrap())).unwrap().is_empty());
        assert!(matches!(group.delete_child("x", None), Err(ZarrError::NotFound { .. })));
        assert!(matches!(group.delete_child("folder", None), Err(ZarrError::NotFound { .. })));
        assert!(matches!(group.delete_child("", None), Err(ZarrError::NotFound { .. })));
        let Node::Group(b) = group.child("b").unwrap() else { panic!("a group") };
        b.delete().unwrap();
        let deleted = Group::open(&store, "b", None, Consolidation::Auto);
        assert!(matches!(deleted, Err(ZarrError::NotFound { .. })));
    }
}

#[test]
fn groups_are_made_with_their_parents() {
    for format in [Format::V2, Format::V3] {
        let store = memory();
        let open = |path: &str| Group::open(&store, path, Some(format), Consolidation::Auto);
        let attributes = |path: &str| open(path).unwrap().attributes().clone();
        Group::create(store.clone(), "a/b/c", format, json(r#"{"k": 1}"#), false).unwrap();
        for path in ["", "a", "a/b"] {
            assert_eq!(attributes(path), Json::object());
        }
        assert_eq!(attributes("a/b/c"), json(r#"{"k": 1}"#));
        let error = Group::create(store.clone(), "a", format, Json::object(), false).unwrap_err();
        assert!(matches!(error, ZarrError::Exists { what: "group", .. }), "{error}");
        Group::create(store.clone(), "a", format, Json::object(), true).unwrap();
        assert!(Group::open(&store, "a/b", None, Consolidation::Auto).is_err());
        let refused = Group::create(store.clone(), "x", format, Json::Null, false);
        assert!(matches!(refused, Err(ZarrError::Invalid { .. })));
        // Attributes left behind by a deleted group do not come back.
        put(&store, "old/.zattrs", r#"{"stale": 1}"#);
        Group::create(store.clone(), "old", format, Json::object(), false).unwrap();
        assert_eq!(attributes("old"), Json::object());
    }
}

#[test]
fn unreadable_arrays_do_not_stop_a_listing() {
    for (format, key, text) in [
        (Format::V2, "odd/.zarray", r#"{"zarr_format": 2, "dtype": "|O"}"#),
        (
            Format::V3,
            "odd/zarr.json",
            r#"{"zarr_format": 3, "node_type": "array", "codecs": ["sharding_indexed"]}"#,
        ),
    ] {
        let store = hierarchy(format);
        put(&store, key, text);
        let mut group = root(&store);
        assert_eq!(group.children().unwrap().len(), 4);
        group.consolidate(None).unwrap();
        assert_eq!(group.children().unwrap().len(), 4);
        let error = group.child("odd").unwrap_err();
        assert!(error.to_string().contains("odd"), "{error}");
        // Not even JSON.
        put(&store, key, "{");
        let mut group = Group::open(&store, "", None, Consolidation::Ignore).unwrap();
        assert_eq!(group.children().unwrap().len(), 4);
        assert_eq!(group.child_kind("odd").unwrap(), Some(NodeKind::Array));
        group.delete_child("odd", None).unwrap();
        assert_eq!(group.child_kind("odd").unwrap(), None);
    }
}

#[test]
fn what_is_changed_through_a_consolidated_group_shows_in_it() {
    for format in [Format::V2, Format::V3] {
        let store = hierarchy(format);
        let mut group = root(&store);
        group.consolidate(None).unwrap();
        let Node::Group(mut x) = group.child("x").unwrap() else { panic!("a group") };
        x.set_attributes(json(r#"{"k": 1}"#)).unwrap();
        let Node::Group(again) = group.child("x").unwrap() else { panic!("a group") };
        assert_eq!(again.attributes().to_text(None), r#"{"k": 1}"#);
        let mut array = array_in(&x, "y/arr");
        array.change_attributes(None, |all| all.set("v", 2u32.into())).unwrap();
        array.change_attributes(None, |all| all.set("w", 3u32.into())).unwrap();
        let again = array_in(&group, "x/y/arr");
        assert_eq!(again.attributes().to_text(None), r#"{"u": "m", "v": 2, "w": 3}"#);
        // New nodes, and groups created on the way.
        let mut new = Array::create(store.clone(), "x/p/q/new", spec(format), false).unwrap();
        x.adopt(&mut new).unwrap();
        new.resize(&[9], None).unwrap();
        assert_eq!(group.child_kind("x/p").unwrap(), Some(NodeKind::Group));
        assert_eq!(x.children().unwrap(), owned(&[("p", NodeKind::Group), ("y", NodeKind::Group)]));
        let again = array_in(&group, "x/p/q/new");
        assert_eq!(again.layout().shape(), [9]);
        // A deleted node is also removed from the stored copy.
        x.delete_child("y", None).unwrap();
        assert!(matches!(group.child("x/y/arr"), Err(ZarrError::NotFound { .. })));
        let stored = Group::open(&store, "", None, Consolidation::Require).unwrap();
        assert_eq!(stored.child_kind("x/y").unwrap(), None);
        // After consolidating again, older handles still update the copy.
        group.consolidate(None).unwrap();
        new.resize(&[11], None).unwrap();
        let again = array_in(&group, "x/p/q/new");
        assert_eq!(again.layout().shape(), [11]);
    }
}
