//! A zip archive: its directory and every member.

#![no_main]

use hyperslab_store::{Key, MemoryStore, RangeRead, Store, ZipStore};
use libfuzzer_sys::fuzz_target;
use std::sync::Arc;

fuzz_target!(|bytes: &[u8]| {
    let store = Arc::new(MemoryStore::new());
    let Ok(name) = Key::new("f.zip") else { return };
    if store.write(name, &[bytes]).is_err() {
        return;
    }
    let Ok(archive) = ZipStore::open(store, name) else { return };
    let Ok(keys) = archive.list(None) else { return };
    let (mut buf, mut part) = (Vec::new(), [0; 16]);
    for key in keys {
        let Ok(key) = Key::new(&key) else { continue };
        let _ = archive.read_all(key, &mut buf, 1 << 20);
        let _ = archive.read_ranges(key, None, &mut [RangeRead { offset: 3, buf: &mut part }]);
    }
});
