//! Hierarchies in directories.

use hyperslab_store::{LocalOptions, LocalStore, Store};
use hyperslab_zarr::{Array, ArraySpec, Consolidation, Format, Group, Json, NodeKind, ZarrError};
use std::fs;
use std::path::Path;
use std::sync::Arc;

fn local(path: &Path) -> Arc<dyn Store> {
    Arc::new(LocalStore::open(path, LocalOptions::default()).unwrap())
}

fn spec(format: Format) -> ArraySpec {
    ArraySpec::new(format, &[4], "f4".parse().unwrap())
}

#[test]
fn hierarchies_are_directories() {
    for format in [Format::V2, Format::V3] {
        let dir = tempfile::tempdir().unwrap();
        let store = local(dir.path());
        Array::create(store.clone(), "a/b", spec(format), false).unwrap();
        let file = if format == Format::V2 { "a/b/.zarray" } else { "a/b/zarr.json" };
        assert!(dir.path().join(file).is_file());
        let mut root = Group::open(&store, "", None, Consolidation::Auto).unwrap();
        let nodes = vec![("a".to_owned(), NodeKind::Group), ("a/b".to_owned(), NodeKind::Array)];
        assert_eq!(root.walk(None, None).unwrap(), nodes);
        root.consolidate(None).unwrap();
        assert_eq!(root.walk(None, None).unwrap(), nodes);
        root.delete_child("a", None).unwrap();
        assert!(!dir.path().join("a").exists());
        assert_eq!(root.walk(None, None).unwrap(), []);
    }
}

#[test]
fn files_in_the_way_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let store = local(dir.path());
    fs::write(dir.path().join("file"), "text").unwrap();
    fs::create_dir_all(dir.path().join("folder/zarr.json")).unwrap();
    for path in ["file", "file/a", "folder", "nothing"] {
        let error = Array::open(&store, path, None).unwrap_err();
        assert!(matches!(error, ZarrError::NotFound { .. }), "{path}: {error}");
    }
    let error = Array::create(store.clone(), "file/a", spec(Format::V3), false).unwrap_err();
    assert!(matches!(error, ZarrError::Store(_)), "{error}");
    let error = Group::create(store.clone(), "folder", Format::V3, Json::object(), false).unwrap_err();
    assert!(matches!(error, ZarrError::Store(_)), "{error}");
    assert_eq!(fs::read_to_string(dir.path().join("file")).unwrap(), "text");
}
