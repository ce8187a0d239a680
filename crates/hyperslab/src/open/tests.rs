use super::*;
use crate::stores::{Intent, reach};
use crate::{Array, ArraySpec, Group};
use hyperslab_store::{Key, MemoryStore, Store};
use std::fs;
use std::sync::Arc;

/// Opens the location in a mode, and describes the node or the error.
fn opened(location: &str, mode: &str, path: &str, kind: Option<NodeKind>) -> String {
    let mode = (!mode.is_empty()).then(|| mode.parse().unwrap());
    let opening = Opening { mode, path, kind, ..Opening::default() };
    match open(Location::Text(location), &opening) {
        Err(error) => error.to_string(),
        Ok(Opened { place, node }) => {
            let what = match node {
                None => "nothing",
                Some(Object::Array(_)) => "array",
                Some(Object::Group(_)) => "group",
                Some(Object::Datatype(..)) => "datatype",
            };
            let file = if place.file.is_some() { " in a file" } else { "" };
            let changes = if place.read_only { " to read" } else { "" };
            format!("{what} '{}'{file}{changes}", place.path)
        }
    }
}

fn spec() -> ArraySpec {
    ArraySpec::new(Format::V3, &[3], "|u1".parse().unwrap())
}

/// A group with the array `a`.
fn make_group(location: &str) {
    Group::create(location, crate::Format::ZarrV3).unwrap();
    Array::create(&format!("{location}/a"), &spec()).unwrap();
}

#[test]
fn modes_and_places() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    for root in ["g", "g.zarr", "g.h5", "x.zip"] {
        if root == "g.h5" {
            fs::create_dir(at(root)).unwrap();
        }
        make_group(&at(root));
    }
    reach(&at("x.zip"), StoreOptions::default()).unwrap().store.flush().unwrap();
    for root in ["g", "g.zarr", "g.h5", "x.zip"] {
        let at = &at(root);
        // The place of a node in an archive is in the archive's store.
        let below = if root == "x.zip" { "a" } else { "" };
        for mode in ["r", "r+", "a", ""] {
            let reads = if mode == "r" { " to read" } else { "" };
            assert_eq!(opened(at, mode, "", None), format!("group ''{reads}"), "{root} {mode}");
            assert_eq!(opened(at, mode, "/a/", None), format!("array 'a'{reads}"), "{root} {mode}");
            assert_eq!(
                opened(&format!("{at}/a"), mode, "", Some(NodeKind::Array)),
                format!("array '{below}'{reads}")
            );
        }
        assert_eq!(opened(at, "w", "a", None), "nothing 'a'");
        assert!(opened(at, "w-", "a", None).starts_with("Cannot create 'a' in "));
        assert_eq!(opened(at, "w-", "b", None), "nothing 'b'");
        assert_eq!(opened(at, "a", "b", None), "nothing 'b'");
        assert!(opened(at, "r", "a", Some(NodeKind::Group)).ends_with(" is an array, not a group"));
        assert!(opened(at, "r", "", Some(NodeKind::Array)).ends_with(" is a group, not an array"));
    }
}

#[test]
fn what_is_missing_is_named_with_advice() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    make_group(&at("folder/x.zarr"));
    let missing = opened(&at("folder"), "r", "", Some(NodeKind::Group));
    assert!(missing.starts_with("there is no group at file:///"), "{missing}");
    assert!(missing.ends_with(&format!("; try '{}'", at("folder/x.zarr"))), "{missing}");
    let missing = opened(&at("folder/x.zarr"), "r+", "b", None);
    assert!(missing.starts_with("there is no array or group at 'b' in file:///"), "{missing}");
    assert!(
        missing
            .ends_with("; to create one, pass mode='a' (or 'w-', 'w'), or use create_array or create_group")
    );
    let missing = opened(&at("folder/x.zarr"), "r", "b", Some(NodeKind::Array));
    assert!(missing.starts_with("there is no array at 'b' in ") && missing.ends_with("x.zarr"), "{missing}");
}

#[test]
fn files_in_the_way_and_names_of_files() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    fs::write(at("text"), "some text").unwrap();
    for mode in ["a", "w", "w-"] {
        let refused = opened(&at("text"), mode, "", None);
        assert!(refused.starts_with("cannot create a directory: "), "{refused}");
        let refused = opened(&at("typo.h5"), mode, "", None);
        assert!(refused.contains("no Zarr store is created under a name that ends in '.h5'"), "{refused}");
    }
    assert!(opened(&at("text"), "r", "", None).contains("neither HDF5 nor NetCDF"));
    assert!(!fs::exists(at("typo.h5")).unwrap());
}

#[test]
fn stores_that_cannot_be_changed() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    zarr::Array::create(store.clone(), "a", spec(), false).unwrap();
    let place = Place::in_store(store, "", true);
    for name in ["r+", "a", "w", "w-"] {
        let opening = Opening { mode: Some(name.parse().unwrap()), path: "a", ..Opening::default() };
        let refused = open_in(place.clone(), &opening).unwrap_err().to_string();
        assert_eq!(
            refused,
            format!("Store is read-only but mode is '{name}'. Create a writable store or use 'r' mode.")
        );
    }
    let opened = open_in(place, &Opening { path: "a", ..Opening::default() }).unwrap();
    assert!(opened.place.read_only && opened.node.is_some());
}

/// A node on the local disk is found although its name is usual for an archive.
#[test]
fn directories_with_names_of_archives() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().join("dir.zip");
    fs::create_dir(&at).unwrap();
    make_group(at.to_str().unwrap());
    assert_eq!(opened(at.to_str().unwrap(), "r", "a", None), "array 'a' to read");
    let create = StoreOptions { intent: Intent::Create, ..StoreOptions::default() };
    let store = reach(at.to_str().unwrap(), create).unwrap().store;
    assert!(store.exists(Key::new("a/zarr.json").unwrap()).unwrap());
}
