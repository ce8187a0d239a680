//! Every decoder, on a stored chunk.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/codec/tests/hostile/decoders.rs"]
mod decoders;

fuzz_target!(|bytes: &[u8]| decoders::decode_anything(bytes));
