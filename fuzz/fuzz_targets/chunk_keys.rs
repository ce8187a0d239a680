//! The encoding of chunk keys, and a key that a listing has: a byte 0xff is between them.

#![no_main]

use hyperslab::Json;
use hyperslab::zarr::KeyEncoding;
use hyperslab_fuzz::split;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let (encoding, key) = split(bytes);
    let (Ok(encoding), Ok(key)) = (Json::parse(encoding), std::str::from_utf8(key)) else { return };
    let Ok(encoding) = KeyEncoding::from_json(&encoding) else { return };
    assert_eq!(KeyEncoding::from_json(&encoding.to_json()).as_ref(), Ok(&encoding));
    for rank in 0..4 {
        let Ok(Some(chunk)) = encoding.chunk(key, rank) else { continue };
        assert_eq!(encoding.key(&chunk).as_deref(), Ok(key));
    }
});
