//! Tests filters by their numbers, and on chunks that other software stored.

use super::fixtures::{Fixture, fixtures};
use super::*;
use crate::{CodecChain, testing};

/// Parses hexadecimal digits.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}

fn chain(fixture: &Fixture, size: usize) -> CodecChain {
    // Only encoders use the size of elements.
    let codec = |(id, client_data): &(u16, Vec<u32>)| filter(*id, client_data, 4, size).unwrap();
    CodecChain::new(fixture.filters.iter().map(codec).collect(), size)
}

#[test]
fn stored_by_others() {
    let mut scratch = Scratch::default();
    for fixture in fixtures() {
        let Fixture { label, stored, decoded: expected, .. } = &fixture;
        let size = expected.len();
        let chain = chain(&fixture, size);
        assert!(stored.len() <= chain.max_encoded(), "{label}");
        let mut out = vec![0xA5; size];
        chain.decode(stored, &mut out, &mut scratch, true).unwrap_or_else(|error| panic!("{label}: {error}"));
        assert_eq!(out, *expected, "{label}");
        for start in (0..size).step_by(7) {
            for end in (start..=size).step_by(11) {
                let mut out = vec![0xA5; size];
                chain.decode_part(stored, start..end, &mut out, &mut scratch, true).unwrap();
                assert_eq!(out[start..end], expected[start..end], "{label}, {start}..{end}");
            }
        }
        for other in [size - 1, size + 1, 0, 2 * size] {
            let error = super::tests::chain(&fixture, other)
                .decode(stored, &mut vec![0; other], &mut scratch, true)
                .unwrap_err();
            assert!(matches!(error, CodecError::Size { .. }), "{label} as {other} bytes: {error}");
        }
    }
}

#[test]
fn damage_to_what_others_stored() {
    for Fixture { filters, stored, decoded, .. } in fixtures() {
        if let [(id, client_data)] = &filters[..] {
            let codec = filter(*id, client_data, 4, decoded.len()).unwrap();
            testing::withstands_damage(codec.as_ref(), &stored, decoded.len());
        }
    }
}

/// Changes each number of every fixture's client data, and cuts the data at each length.
///
/// Each change gives a codec or an error, and neither panics.
#[test]
fn client_data_that_no_library_writes() {
    let mut scratch = Scratch::default();
    for Fixture { filters, stored, decoded, .. } in fixtures() {
        let size = decoded.len();
        let mut out = vec![0; size];
        for (id, client_data) in &filters {
            let mut try_one = |client_data: &[u32]| {
                if let Ok(codec) = filter(*id, client_data, 4, size) {
                    let _ = codec.decode(&stored, &mut out, &mut scratch);
                    let _ = codec.max_encoded(size);
                }
            };
            for at in 0..client_data.len() {
                try_one(&client_data[..at]);
                for value in [0, 1, 2, 3, 7, 8, 9, 64, 100, 1 << 16, 1 << 31, u32::MAX - 1, u32::MAX] {
                    let mut changed = client_data.to_vec();
                    changed[at] = value;
                    try_one(&changed);
                }
            }
            try_one(&[&client_data[..], &[1, 2, 3]].concat());
        }
    }
}

#[test]
fn refused_by_name() {
    let message = |id| filter(id, &[], 4, 100).unwrap_err().to_string();
    let sz3 = message(32024);
    assert!(
        sz3.starts_with("codec \"sz3 (HDF5 filter 32024)\" is not supported (supported: deflate, sh"),
        "{sz3}"
    );
    assert!(message(40_000).starts_with("codec \"HDF5 filter 40000\" is not supported"));
    for (id, name) in OTHERS {
        assert!(matches!(filter(*id, &[], 4, 100), Err(CodecError::Unknown { .. })), "{name}");
    }
    for (id, name, _) in SUPPORTED {
        assert!(!matches!(filter(*id, &[], 4, 100), Err(CodecError::Unknown { .. })), "{name}");
    }
    assert_eq!(
        (name(2), name(32026), name(32017), name(9)),
        (Some("shuffle"), Some("blosc2"), Some("sz"), None)
    );
}

#[test]
fn what_is_stored_as_it_is() {
    for id in [32022, 32023] {
        let codec = filter(id, &[3, 4, 0, 0, 0], 4, 8).unwrap();
        assert_eq!(testing::decode(codec.as_ref(), b"abcdefgh", 8).unwrap(), b"abcdefgh");
        assert_eq!(codec.unframe(b"abcdefgh", true).unwrap().unwrap(), b"abcdefgh");
        assert!(testing::decode(codec.as_ref(), b"abcdefgh", 7).is_err());
    }
}

#[test]
fn most_cannot_be_written() {
    let codec = filter(32026, &[], 4, 8).unwrap();
    let message = codec.encode(b"abcd", &mut Vec::new(), &mut Scratch::default()).unwrap_err().to_string();
    assert_eq!(message, "blosc2: cannot encode: this HDF5 filter cannot be written");
}

#[test]
fn levels_are_no_reason_to_refuse() {
    let printed = |id, client_data: &[u32]| format!("{:?}", filter(id, client_data, 4, 8).unwrap());
    assert_eq!(printed(1, &[9]), "Zlib { level: 9 }");
    assert_eq!(printed(1, &[]), "Zlib { level: 6 }");
    assert_eq!(printed(1, &[77]), "Zlib { level: 6 }");
    assert_eq!(printed(32015, &[-5i32 as u32]), "Zstd { level: -5, checksum: false }");
    assert_eq!(printed(32015, &[0]), "Zstd { level: 0, checksum: false }");
    assert_eq!(printed(307, &[3]), "Bzip2 { level: 3 }");
}

#[test]
fn filters_that_encode() {
    let data = testing::noise(4000, 3);
    for (id, name, make) in SUPPORTED {
        // Shuffle takes the size of elements, szip exactly four numbers.
        let client_data: &[u32] = match *id {
            2 => &[4],
            4 => &[141, 8, 32, 100],
            _ => &[0, 4, 4, 0, 0, 0],
        };
        let Ok(codec) = make(client_data, 4, data.len()) else { continue };
        let (mut stored, mut scratch) = (Vec::new(), Scratch::default());
        let encoded = codec.encode(&data, &mut stored, &mut scratch);
        assert_eq!(encoded.is_ok(), encodes(*id), "{name}");
        if encoded.is_ok() {
            let mut out = vec![0; data.len()];
            assert_eq!(codec.decode(&stored, &mut out, &mut scratch).unwrap(), data.len(), "{name}");
            assert_eq!(out, data, "{name}");
        }
    }
    assert!(!encodes(5) && !encodes(32013));
}

#[test]
fn bitshuffle_round_trips() {
    for (compressor, element, block) in [(0, 4, 0), (2, 4, 0), (3, 4, 64), (2, 1, 8), (2, 3, 16), (0, 8, 8)] {
        let codec = filter(32008, &[0, 4, element, block, compressor, 3], 4, 4000).unwrap();
        for count in [0, 1, 7, 8, 9, 1000, 5003] {
            let data = testing::noise(count * element as usize, 5);
            let (mut stored, mut scratch) = (vec![1], Scratch::default());
            codec.encode(&data, &mut stored, &mut scratch).unwrap();
            let mut out = vec![0; data.len()];
            assert_eq!(codec.decode(&stored, &mut out, &mut scratch).unwrap(), data.len());
            assert_eq!(out, data, "{compressor} {element} {count}");
        }
    }
}

#[test]
fn blosc_settings_of_files() {
    let codec = |data: &[u32]| format!("{:?}", blosc(data, 8).unwrap());
    assert!(
        codec(&[2, 2, 8, 100, 7, 2, 5]).contains("compressor: Zstd, level: 7, shuffle: Bit, typesize: 8")
    );
    assert!(codec(&[]).contains("compressor: BloscLz, level: 5, shuffle: Byte"));
}
