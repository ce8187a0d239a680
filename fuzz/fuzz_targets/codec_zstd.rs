//! Zstandard.

#![no_main]

use hyperslab_fuzz::decoders::decode_of;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| decode_of("zstd", bytes));
