//! Filters by their numbers, and chunks that other software stored.

use super::*;
use crate::testing;

/// Bytes of a text of hexadecimal digits.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}

/// A chunk that decodes to `size` bytes, with each byte changed and at each length: an error, or bytes that fit.
pub(crate) fn withstands_damage(codec: &dyn Codec, stored: &[u8], size: usize) {
    let good = testing::decode(codec, stored, size).unwrap();
    assert_eq!(good.len(), size);
    let mut scratch = Scratch::default();
    let mut try_all = |stored: &[u8]| {
        for room in [size, size / 2, size * 2] {
            let _ = testing::decode_with(codec, stored, room, &mut scratch);
        }
        let _ = testing::decode_part(codec, stored, size / 3..size / 2, size, &mut scratch);
    };
    // Of long chunks every so many bytes, and all of what is likely to be a header.
    let step = stored.len() / 500 + 1;
    for at in (0..stored.len()).filter(|at| *at < 200 || at % step == 0) {
        let mut bad = stored.to_vec();
        for flip in [0x01, 0x10, 0x80, 0xff] {
            bad[at] = stored[at] ^ flip;
            try_all(&bad);
        }
        try_all(&stored[..at]);
    }
    assert!(testing::decode(codec, stored, size).unwrap() == good);
}
