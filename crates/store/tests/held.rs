//! Files that stay open. In a separate process, because this test counts descriptors.
#![cfg(target_os = "linux")]

use hyperslab_store::{FileStore, Holds, Key, RangeRead, Store, StoreError};
use std::fs;
use std::path::Path;

fn open(path: &Path) -> FileStore {
    FileStore::open(path).unwrap().unwrap()
}

/// The number at the start of a file.
fn number(store: &FileStore) -> hyperslab_store::Result<u32> {
    let mut bytes = [0; 4];
    let range = RangeRead { offset: 0, buf: &mut bytes };
    assert!(store.read_ranges(Key::new(store.key())?, None, &mut [range])?);
    Ok(u32::from_le_bytes(bytes))
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// A single test, because the whole process shares the held files.
#[test]
fn few_files_are_open_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = |n: u32| dir.path().join(format!("{n}"));
    (0..400).for_each(|n| fs::write(path(n), n.to_le_bytes()).unwrap());
    let before = descriptors();
    let stores: Vec<FileStore> = (0..300).map(|n| open(&path(n))).collect();
    assert!(descriptors() <= before + 128);
    // Several threads read all files, and no read loses its descriptor.
    std::thread::scope(|scope| {
        for start in [0, 75, 150, 225] {
            let stores = &stores;
            scope.spawn(move || {
                (0..300).map(|n| (start + n) % 300).for_each(|n| {
                    assert_eq!(number(&stores[n]).unwrap(), n as u32);
                });
            });
        }
    });
    assert!(descriptors() <= before + 128);
    // An open object keeps its descriptor.
    let opened = stores[0].open(Key::new("0").unwrap(), None).unwrap().unwrap();
    stores[1..].iter().for_each(|store| assert!(number(store).is_ok()));
    fs::remove_file(path(0)).unwrap();
    let mut bytes = [1; 4];
    opened.read_ranges(&mut [RangeRead { offset: 0, buf: &mut bytes }]).unwrap();
    assert_eq!(bytes, [0; 4]);
    drop(opened);

    // The first files are closed by now. Other contents in their place are not read.
    let stale = |n: usize| matches!(number(&stores[n]), Err(StoreError::Stale { .. }));
    assert!(stale(0) && !stores[0].is_current(), "removed");
    fs::write(path(1), 7_u32.to_le_bytes()).unwrap();
    assert!(stale(1) && !stores[1].is_current(), "changed");
    fs::rename(path(399), path(2)).unwrap();
    assert!(stale(2) && !stores[2].is_current(), "replaced");
    let error = number(&stores[2]).unwrap_err().to_string();
    assert!(error.contains("'2' in file://") && error.contains("open it again"), "{error}");
    assert_eq!((number(&stores[3]).unwrap(), stores[3].is_current()), (3, true));

    // Files that nothing could reopen stay open.
    let gone: Vec<FileStore> = (300..310).map(|n| open(&path(n))).collect();
    (300..310).for_each(|n| fs::remove_file(path(n)).unwrap());
    (10..290).for_each(|n| assert_eq!(number(&stores[n as usize]).unwrap(), n));
    gone.iter().zip(300..).for_each(|(store, n)| assert_eq!(number(store).unwrap(), n));
    assert!(descriptors() <= before + 128 + gone.len());
    // Closed files do not count, and are not reopened.
    stores.iter().for_each(Holds::close);
    assert!(matches!(number(&stores[5]), Err(StoreError::Closed { .. })));
    assert!(descriptors() <= before + gone.len());
}
