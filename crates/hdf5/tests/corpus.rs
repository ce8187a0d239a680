//! Tests with files from other projects.
//!
//! All files open, list and read, or are refused for a known reason. After changes to their bytes,
//! nothing panics.
//!
//! The files are in a folder beside the project. If it is missing, these tests print a message and
//! pass. The Python tests compare the values with h5py's.

use hyperslab_array::{ReadOptions, Selection, read};
use hyperslab_hdf5::dataspace::Dataspace;
use hyperslab_hdf5::{File, FileOptions, FoundFile, Hdf5Error, Node, OtherFiles, Purpose, Value};
use hyperslab_store::{Key, LocalOptions, LocalStore, MemoryStore, Store};
use proptest::prelude::*;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Larger datasets are not read whole.
const LARGE: u64 = 64 << 20;

/// Files that are not read in full, and a part of each error.
const REFUSED: &[(&str, &str)] = &[
    // NetCDF-3, a different format.
    ("netcdf-c/ref_nccopy3_subset.nc", "not an HDF5 file"),
    ("netcdf-c/ref_null_byte_padding_test.nc", "not an HDF5 file"),
    ("netcdf-c/ref_test_360_day_1900.nc", "not an HDF5 file"),
    ("netcdf-c/ref_test_365_day_1900.nc", "not an HDF5 file"),
    ("netcdf-c/ref_test_366_day_1900.nc", "not an HDF5 file"),
    // Not closed by its writer. h5py refuses it too.
    ("jhdf/test_byteshuffle_compressed_datasets_latest.hdf5", "open for writing"),
    // Links that lead nowhere on purpose.
    ("jhdf/test_file.hdf5", "the file 'missing_file.hdf5', which does not exist"),
    ("jhdf/test_file.hdf5", "has no link 'missing_dataset'"),
    ("jhdf/external_link.hdf5", "the file 'missing_file.hdf5', which does not exist"),
    ("jhdf/external_link.hdf5", "has no link 'missing_dataset'"),
    ("jhdf/test_file2.hdf5", "the file 'missing_file.hdf5', which does not exist"),
    ("jhdf/test_file2.hdf5", "has no link 'missing_dataset'"),
    // Filters.
    ("plugins/h5ex_d_jpeg.h5", "the filter jpeg"),
    ("plugins/h5ex_d_mafisc.h5", "the filter mafisc"),
    ("plugins/h5ex_d_sz.h5", "the filter sz"),
    // Claims to be written by a zfp version that does not exist yet. The HDF5 library refuses it
    // too.
    ("plugins/test_zfp_110xxx.h5", "the filter zfp of version 7"),
];

fn corpora() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpora/hdf5")
}

/// Returns the folders of files. Empty if they are missing.
fn folders() -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(corpora()) else {
        eprintln!("skipped: there is no {}", corpora().display());
        return Vec::new();
    };
    entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect()
}

/// Returns the files of a folder.
fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let mut names: Vec<String> = entries
        .filter(|entry| entry.file_type().unwrap().is_file())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Finds files in the same store.
#[derive(Debug)]
struct Beside(Arc<dyn Store>);

impl OtherFiles for Beside {
    fn find(&self, name: &str, _: Purpose) -> Result<Option<FoundFile>, Hdf5Error> {
        let name = name.rsplit('/').next().unwrap_or(name);
        Ok(self.0.size(Key::new(name)?)?.map(|_| (self.0.clone(), name.to_owned())))
    }
}

fn open(store: &Arc<dyn Store>, name: &str) -> Result<File, Hdf5Error> {
    let others: Arc<dyn OtherFiles> = Arc::new(Beside(store.clone()));
    File::open(store.clone(), name, FileOptions { verify: true, others: Some(others) })
}

/// Reads every object once. Returns all errors, and the number of attributes with a value.
fn walk(file: &File) -> (Vec<String>, usize) {
    let (mut failed, mut values) = (Vec::new(), 0);
    let mut seen = HashSet::new();
    let mut waiting: Vec<Result<Node, Hdf5Error>> = vec![file.root().map(Node::Group)];
    while let Some(node) = waiting.pop() {
        let attributes = match node {
            Err(error) => {
                failed.push(error.to_string());
                continue;
            }
            Ok(Node::Group(group)) => {
                if !seen.insert((group.file().source().name(), group.address())) {
                    continue;
                }
                match group.links() {
                    Err(error) => failed.push(error.to_string()),
                    Ok(links) => {
                        for link in links {
                            match group.link(&link.name) {
                                Ok(Some(found)) if found == link => {}
                                Ok(found) => {
                                    failed.push(format!("{link:?} is not found by name, but {found:?}"))
                                }
                                Err(error) => failed.push(error.to_string()),
                            }
                            waiting.push(group.child(&link.name));
                        }
                    }
                }
                group.attributes()
            }
            Ok(Node::Datatype(datatype)) => Ok(datatype.attributes),
            Ok(Node::Dataset(dataset)) => {
                let bytes = dataset.dataspace().count().unwrap_or(u64::MAX);
                let bytes = bytes.saturating_mul(dataset.element().size as u64);
                let result = dataset.layout().map_err(|error| error.to_string());
                if let (Ok(layout), true) = (&result, bytes <= LARGE)
                    && let Err(error) = read(layout, &Selection::all(layout.shape()), ReadOptions::default())
                {
                    failed.push(chain(&error));
                }
                if let Err(error) = result
                    && *dataset.dataspace() != Dataspace::Null
                {
                    failed.push(error);
                }
                if let Err(error) = dataset.chunk_index() {
                    failed.push(error.to_string());
                }
                dataset.attributes()
            }
        };
        match attributes {
            Err(error) => failed.push(error.to_string()),
            Ok(attributes) => {
                let wrong = attributes.iter().filter_map(|attribute| attribute.value().err());
                let before = failed.len();
                failed.extend(wrong.map(|error| error.to_string()));
                values += attributes.len() - (failed.len() - before);
            }
        }
    }
    (failed, values)
}

/// Formats an error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[test]
fn every_file_reads_or_is_refused_for_a_known_reason() {
    let (mut wrong, mut values) = (Vec::new(), 0);
    for folder in folders() {
        let store: Arc<dyn Store> = Arc::new(LocalStore::open(&folder, LocalOptions::default()).unwrap());
        for name in files(&folder) {
            let (failed, found) = match open(&store, &name) {
                Ok(file) => walk(&file),
                Err(error) => (vec![error.to_string()], 0),
            };
            values += found;
            let path = format!("{}/{name}", folder.file_name().unwrap().to_string_lossy());
            let reasons: Vec<&str> =
                REFUSED.iter().filter(|(file, _)| *file == path).map(|(_, reason)| *reason).collect();
            let expected = |why: &&String| !reasons.iter().any(|reason| why.contains(reason));
            wrong.extend(failed.iter().filter(expected).map(|why| format!("{path}: {why}")));
            let missed = |reason: &&&str| !failed.iter().any(|why| why.contains(**reason));
            wrong.extend(
                reasons.iter().filter(missed).map(|reason| format!("{path}: nothing says '{reason}'")),
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(values > 2000 || folders().is_empty(), "{values} values of attributes");
}

#[test]
fn values_of_attributes_are_those_that_h5py_reads() {
    if folders().is_empty() {
        return;
    }
    let store: Arc<dyn Store> = Arc::new(LocalStore::open(corpora(), LocalOptions::default()).unwrap());
    let file = open(&store, "pyfive/attr_datatypes.hdf5").unwrap();
    let attributes = file.root().unwrap().attributes().unwrap();
    let ints = |list: &[i128]| Value::List(list.iter().map(|value| Value::Int(*value)).collect());
    for (name, expected) in [
        ("complex128_big", Value::Complex(123.0, 456.0)),
        ("float32_big", Value::Float(123.0)),
        ("int64_big", Value::Int(-123)),
        ("uint64_little", Value::Int(9_223_372_036_854_775_810)),
        ("uint64_array", ints(&[12, 34])),
        ("vlen_int32", Value::List(vec![ints(&[-1, 2]), ints(&[3, 4, 5])])),
        // h5py returns these in the wrong byte order.
        ("vlen_uint64", Value::List(vec![ints(&[1, 2]), ints(&[3, 4, 5]), ints(&[42])])),
        ("vlen_unicode", Value::Text("Hello§".into())),
        ("string_two", Value::Text("Hi".into())),
    ] {
        let found = attributes.iter().find(|found| found.name == name).unwrap();
        assert_eq!(found.value().unwrap(), expected, "{name}");
    }
}

/// Only files of at most this many bytes are mutated.
const SMALL: u64 = 12 << 10;

/// Returns the small files.
fn small() -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for folder in folders() {
        for name in files(&folder) {
            let path = folder.join(&name);
            if std::fs::metadata(&path).unwrap().len() <= SMALL {
                found.push((name, std::fs::read(&path).unwrap()));
            }
        }
    }
    found
}

/// Reads a file in memory, with and without checksums. Without them, the damage reaches the
/// parsers.
fn walk_bytes(bytes: &[u8]) {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    store.write(Key::new("f").unwrap(), &[bytes]).unwrap();
    for verify in [true, false] {
        if let Ok(file) = File::open(store.clone(), "f", FileOptions { verify, others: None }) {
            walk(&file);
        }
    }
}

#[test]
fn changed_files_are_errors_or_values() {
    let files = small();
    if files.is_empty() {
        return;
    }
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6);
    let config = ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(which in any::<prop::sample::Index>(), changes in changes, cut in 0_u8..20, len in any::<prop::sample::Index>())| {
        let (_, bytes) = which.get(&files);
        let mut bytes = bytes.clone();
        for (at, value) in changes {
            *at.get_mut(&mut bytes) = value;
        }
        if cut == 0 {
            bytes.truncate(len.index(bytes.len()));
        }
        walk_bytes(&bytes);
    });
}
