//! URLs, storage options, and profiles of credentials. Nothing is connected or read.

#![no_main]

use hyperslab_fuzz::split;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let (location, options) = split(bytes);
    let (Ok(location), Ok(options)) = (std::str::from_utf8(location), std::str::from_utf8(options)) else {
        return;
    };
    let shown = hyperslab_remote::shown(location);
    assert!(!hyperslab_remote::has_secret(&shown), "'{shown}' shows a secret");
    let _ = hyperslab_remote::with_secret_of(&shown, location);
    hyperslab_remote::fuzzing::options(location, options);
    hyperslab_remote::fuzzing::profile(options);
});
