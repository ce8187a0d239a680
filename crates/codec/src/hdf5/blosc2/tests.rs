//! Tests frames that cannot be read: unsupported features are named, other frames are corrupt.

use super::chunk::Special;
use super::*;
use crate::hdf5::fixtures::fixtures;
use crate::testing::decode;

const BLOSC2: Blosc2 = Blosc2 { padded: 0 };

/// The stored chunk of a fixture.
fn stored(label: &str) -> Vec<u8> {
    fixtures().into_iter().find(|fixture| fixture.label == label).unwrap().stored
}

/// The error message for a chunk with some bytes changed.
fn message(good: &[u8], changes: &[(usize, u8)], size: usize) -> String {
    let mut bad = good.to_vec();
    changes.iter().for_each(|(at, value)| bad[*at] = *value);
    decode(&BLOSC2, &bad, size).unwrap_err().to_string()
}

#[test]
fn frames() {
    let good = stored("blosc2 of bytes");
    assert_eq!(decode(&BLOSC2, &good, 400).unwrap().len(), 400);
    assert_eq!(
        decode(&BLOSC2, &[&good[..], b"more"].concat(), 400).unwrap().len(),
        400,
        "as the library does"
    );
    let says = |changes: &[(usize, u8)], what: &str| {
        let message = message(&good, changes, 400);
        assert!(message.contains(what), "{changes:?}: {message}");
    };
    says(&[(3, b'B')], "the magic number is missing");
    says(&[(22, 9)], "truncated: expected a frame of");
    says(&[(25, 0x13)], "the flags 0x13 have an unknown version or unknown offsets");
    says(&[(25, 0x02)], "unknown version or unknown offsets");
    says(&[(26, 1)], "expected a contiguous frame, found frame type 1");
    // 400 bytes in chunks of 200; then no bytes at all.
    says(&[(60, 0), (61, 200)], "only frames of one chunk are supported");
    says(&[(36, 0), (37, 0)], "found 0 bytes in chunks of 400 bytes");
    says(&[(37, 0x80)], "expected a chunk of 384 bytes, as its frame says, found 400 bytes");
    says(&[(13, 0), (14, 50)], "bytes, found 50 bytes");
    assert!(decode(&BLOSC2, &good[..60], 400).is_err());
    // Metalayers of other names are ignored.
    let array = stored("blosc2 of an array");
    let renamed = message(&array, &[(95, b'x')], 360);
    assert!(renamed.contains("bytes where 360 are expected"), "the boxes as they come: {renamed}");
}

#[test]
fn chunks() {
    let good = stored("blosc2 of bytes");
    // The header of the frame takes 97 bytes.
    let says = |changes: &[(usize, u8)], what: &str| {
        let changes: Vec<_> = changes.iter().map(|(at, value)| (97 + at, *value)).collect();
        let message = message(&good, &changes, 400);
        assert!(message.contains(what), "{changes:?}: {message}");
    };
    says(&[(0, 2)], "a chunk of version 2");
    says(&[(0, 6)], "a chunk of version 6");
    says(&[(2, 0x20)], "flags 0x20, is not supported");
    says(&[(2, 0xc5)], "compressor 6 is not supported");
    says(&[(2, 0x45)], "compressor 2 is not supported");
    says(&[(3, 0)], "type size 0");
    says(&[(8, 0), (9, 0)], "block size 0");
    says(&[(8, 1), (9, 0)], "bytes for 400 blocks, found");
    says(&[(16, 35)], "filter 35 with parameter 0 is not supported");
    says(&[(16, 1), (24, 2)], "filter 1 with parameter 2 is not supported");
    for flags in [0x01, 0x02, 0x08, 0x80] {
        says(&[(31, flags)], "is not supported");
    }
    says(&[(31, 0x40)], "never initialised");
    says(&[(31, 0x50)], "special value 5 is unknown");
    says(&[(32, 4)], "block 0 starts at byte 4");
    says(&[(32, 255), (33, 255)], "outside the chunk");
}

#[test]
fn repeated_values() {
    let fill = |code, typesize, value: &[u8]| {
        let mut out = [0xA5; 16];
        Special::from_code(code, value)?.fill(typesize, &mut out).map(|()| out)
    };
    assert_eq!(fill(1, 3, &[]).unwrap(), [0; 16]);
    assert_eq!(fill(2, 4, &[]).unwrap()[..4], f32::NAN.to_le_bytes());
    assert_eq!(fill(2, 8, &[]).unwrap()[8..], f64::NAN.to_le_bytes());
    assert_eq!(fill(3, 4, b"abcd").unwrap(), *b"abcdabcdabcdabcd");
    assert!(fill(2, 2, &[]).is_err());
    assert!(fill(3, 4, b"").is_err());
    assert!(fill(3, 3, b"abc").is_err(), "16 is no multiple of 3");
    assert!(fill(4, 4, &[]).is_err());
}

#[test]
fn arrays() {
    let good = stored("blosc2 of an array");
    assert_eq!(decode(&BLOSC2, &good, 360).unwrap().len(), 360);
    // The metalayer starts at byte 112: version, axes, shape (8 bytes each), chunk, block (4 bytes
    // each).
    let says = |changes: &[(usize, u8)], what: &str| {
        let changes: Vec<_> = changes.iter().map(|(at, value)| (112 + at, *value)).collect();
        let message = message(&good, &changes, 360);
        assert!(message.contains(what), "{changes:?}: {message}");
    };
    says(&[(1, 1)], "an array of version 1");
    says(&[(2, 16)], "with 16 axes");
    says(&[(2, 0)], "with 0 axes");
    says(&[(3, 0x93)], "expected 0x92, found 0x93");
    says(&[(12, 8)], "an array that is not one chunk");
    says(&[(12, 5), (27, 5)], "bytes for the blocks of the array, found");
    says(&[(12, 1), (27, 1)], "or has blocks larger than it");
    let message = message(&good, &[(112 + 5, 0xff)], 360);
    assert!(message.contains("is not supported") || message.contains("too large"), "{message}");
}
