//! JSON of metadata. A parsed value, written and parsed again, is equal.

#![no_main]

use hyperslab::Json;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(json) = Json::parse(bytes) else { return };
    for indent in [None, Some(2)] {
        assert_eq!(Json::parse(json.to_text(indent).as_bytes()).as_ref(), Ok(&json));
    }
    let _ = (json.check_bounds(), json.to_serde(), json.brief());
});
