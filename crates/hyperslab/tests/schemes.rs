//! Tests a user-defined scheme: the module `toy`, and one line that registers it.

mod common;

use common::{corpus, memory, opened};
use hyperslab::prelude::*;
use hyperslab::stores::{self, StoreOptions};
use hyperslab::{Error, Key, Node, Store, copy};
use std::sync::Arc;

mod toy {
    use hyperslab::stores::{Reached, Scheme, StoreOptions};
    use hyperslab::{Error, MemoryStore};
    use std::sync::{Arc, LazyLock};

    /// `toy://PATH`: all locations share one store.
    #[derive(Debug)]
    pub struct Toy;

    pub static STORE: LazyLock<MemoryStore> = LazyLock::new(MemoryStore::new);

    impl Scheme for Toy {
        fn name(&self) -> &'static str {
            "toy"
        }

        fn reach(&self, location: &str, _: StoreOptions<'_>) -> Result<Reached, Error> {
            let path = location.split_once("://").map_or("", |(_, path)| path);
            Ok(Reached::new(Arc::new(STORE.clone()), path))
        }
    }
}

fn register() {
    stores::register(&toy::Toy);
}

/// A NetCDF-3 file with nothing but a variable of two bytes.
const NETCDF3: &[u8] = b"CDF\x01\0\0\0\0\
    \0\0\0\x0a\0\0\0\x01\0\0\0\x01x\0\0\0\0\0\0\x02\
    \0\0\0\0\0\0\0\0\
    \0\0\0\x0b\0\0\0\x01\0\0\0\x01v\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\
    \0\0\0\x01\0\0\0\x04\0\0\0\x50\x07\xf9\0\0";

#[test]
fn a_scheme_is_a_file_and_a_line() {
    register();
    assert!(stores::schemes().ends_with(&["toy"]));
    let spec = ArraySpec::new(Format::ZarrV3.zarr().unwrap(), &[3], "|u1".parse().unwrap());
    Group::create("toy://g", Format::ZarrV3).unwrap();
    Array::create("toy://g/a", &spec).unwrap().write_slice(&[], &[1u8, 2, 3]).unwrap();
    assert_eq!(Array::open("toy://g/a").unwrap().read_vec::<u8>(&[]).unwrap(), [1, 2, 3]);
    copy::copy(&open("toy://g").unwrap(), "TOY://h", &Default::default()).unwrap();
    assert_eq!(Array::open("toy://h/a").unwrap().read_vec::<u8>(&[]).unwrap(), [1, 2, 3]);
    let again = copy::copy(&open("toy://g").unwrap(), "toy://h", &Default::default()).unwrap_err();
    assert!(matches!(again, Error::Zarr(_)), "{again}");
    let options = copy::CopyOptions { overwrite: true, ..Default::default() };
    assert!(matches!(copy::copy(&open("toy://g").unwrap(), "toy://h", &options), Err(Error::Options(_))));
    let unknown = open("toys://g").unwrap_err().to_string();
    assert!(
        unknown.contains("'toys://' is not supported; the schemes are file, memory, ")
            && unknown.contains(", toy"),
        "{unknown}"
    );
}

/// Checks that files in a store can be opened through `url`.
fn check_files(store: &Arc<dyn Store>, url: &str) {
    store.write(Key::new("files/v.nc").unwrap(), &[NETCDF3]).unwrap();
    let found = Array::open(&format!("{url}/files/v.nc/v")).unwrap();
    assert_eq!((found.format(), found.read_vec::<i8>(&[]).unwrap()), (Format::NetCdf3, vec![7, -7]));
    assert!(found.url().ends_with("/files/v.nc"), "{}", found.url());
    assert!(matches!(open(&format!("{url}/files/v.nc")).unwrap(), Node::Group(_)));
    assert!(matches!(open(&format!("{url}/files/v.nc/w")), Err(Error::NoVariable { .. })));
    let mut found = opened(store, "files/v.nc/v");
    // The file is an object like any other: refreshing sees a new one.
    store.write(Key::new("files/v.nc").unwrap(), &[&NETCDF3[..80], b"\x01\x02\0\0"]).unwrap();
    found.refresh().unwrap();
    assert_eq!(found.read_vec::<i8>(&[]).unwrap(), [1, 2]);
    let missing = open(&format!("{url}/files"));
    assert!(matches!(&missing, Err(Error::Missing { kind: None, .. })), "{missing:?}");

    let Some(file) = corpus("jhdf/chunked_v4_datasets.hdf5") else { return };
    store.write(Key::new("a.h5").unwrap(), &[&std::fs::read(file).unwrap()]).unwrap();
    let path = "filtered_fixed_array/int32";
    let found = Array::open(&format!("{url}/a.h5/{path}")).unwrap();
    let file = open(&format!("{url}/a.h5")).unwrap().into_group().unwrap();
    assert_eq!((found.format(), found.shape()), (Format::Hdf5, &[5, 3][..]));
    assert_eq!(found.read_vec::<i32>(&[]).unwrap(), file.array(path).unwrap().read_vec::<i32>(&[]).unwrap());
}

#[test]
fn files_are_objects_of_any_store() {
    register();
    let toy: Arc<dyn Store> = Arc::new(toy::STORE.clone());
    check_files(&toy, "toy:/");
    let memory = memory();
    check_files(&memory, &memory.url());
    let directory = tempfile::tempdir().unwrap();
    let local = stores::reach(directory.path().to_str().unwrap(), StoreOptions::default()).unwrap();
    check_files(&local.store, &local.store.url());
}
