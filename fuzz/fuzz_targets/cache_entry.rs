//! A file of the cache: as it is, and with a right frame (magic, length and checksum of the head).
//! The first two bytes are the length of the head.

#![no_main]

use hyperslab_remote::fuzzing::{CACHED, cache_entry, framed};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    cache_entry(bytes);
    let Some((len, rest)) = bytes.split_first_chunk::<2>() else { return };
    let (head, payload) = rest.split_at(usize::from(u16::from_le_bytes(*len)).min(rest.len()));
    cache_entry(&framed(&[&CACHED[..], head].concat(), payload));
});
