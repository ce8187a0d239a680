//! All structures of a file, as `validate` checks them.

#![no_main]

use hyperslab_fuzz::hdf5_file;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for verify in [true, false] {
        if let Some(file) = hdf5_file(bytes, verify) {
            let _ = hyperslab::hdf5::check::check(&file);
        }
    }
});
