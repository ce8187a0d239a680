//! Values of attributes in files that other software wrote. Skipped where the files are not there.

use hyperslab_hdf5::{Attribute, File, FileOptions, Group, LinkTarget, Node, Value};
use hyperslab_store::FileStore;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn corpus() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpora/hdf5");
    if !path.exists() {
        eprintln!("skipped: {} is not there", path.display());
        return None;
    }
    Some(path)
}

fn open(path: &Path) -> Option<File> {
    let store = FileStore::open(path).unwrap().unwrap();
    let key = store.key().to_owned();
    File::open(Arc::new(store), &key, FileOptions::default()).ok()
}

#[test]
fn values_are_those_that_h5py_reads() {
    let Some(corpus) = corpus() else { return };
    let root = open(&corpus.join("pyfive/attr_datatypes.hdf5")).unwrap().root().unwrap();
    let attributes = root.attributes().unwrap();
    let value = |name: &str| attributes.iter().find(|found| found.name == name).unwrap().value().unwrap();
    let ints = |list: &[i128]| Value::List(list.iter().map(|value| Value::Int(*value)).collect());
    assert_eq!(value("complex128_big"), Value::Complex(123.0, 456.0));
    assert_eq!(value("float32_big"), Value::Float(123.0));
    assert_eq!(value("int64_big"), Value::Int(-123));
    assert_eq!(value("uint64_little"), Value::Int(9_223_372_036_854_775_810));
    assert_eq!(value("uint64_array"), ints(&[12, 34]));
    assert_eq!(value("vlen_int32"), Value::List(vec![ints(&[-1, 2]), ints(&[3, 4, 5])]));
    // h5py gives these in the wrong byte order.
    assert_eq!(value("vlen_uint64"), Value::List(vec![ints(&[1, 2]), ints(&[3, 4, 5]), ints(&[42])]));
    assert_eq!(value("vlen_unicode"), Value::Text("Hello§".into()));
    assert_eq!(value("string_two"), Value::Text("Hi".into()));
}

#[test]
fn every_attribute_has_a_value() {
    let Some(corpus) = corpus() else { return };
    let (mut values, mut seen) = (0, HashSet::new());
    for folder in ["jhdf", "netcdf-c", "plugins", "pyfive"] {
        for entry in corpus.join(folder).read_dir().unwrap() {
            let path = entry.unwrap().path();
            let Some(file) = open(&path) else { continue };
            seen.clear();
            let Ok(root) = file.root() else { continue };
            values += all(&root, &mut seen);
        }
    }
    assert!(values > 2000, "{values}");
}

/// How many attributes there are in a group and below.
fn all(group: &Group, seen: &mut HashSet<u64>) -> usize {
    if !seen.insert(group.address()) {
        return 0;
    }
    let count = |attributes: Vec<Attribute>| {
        for attribute in &attributes {
            attribute.value().unwrap_or_else(|error| panic!("{}: {error}", attribute.name));
        }
        attributes.len()
    };
    let mut values = group.attributes().map(count).unwrap_or_default();
    for link in group.links().unwrap_or_default() {
        if !matches!(link.target, LinkTarget::Hard(_)) {
            continue;
        }
        values += match group.child(&link.name) {
            Ok(Node::Group(group)) => all(&group, seen),
            Ok(Node::Dataset(dataset)) => dataset.attributes().map(count).unwrap_or_default(),
            Ok(Node::Datatype(named)) => count(named.attributes),
            Err(_) => 0,
        };
    }
    values
}
