use proptest::prelude::*;
use serde_json::json;

use super::*;

fn codec(
    compressor: BloscCompressor,
    level: u8,
    shuffle: BloscShuffle,
    typesize: usize,
    blocksize: usize,
) -> Blosc {
    Blosc::new(compressor, level, shuffle, typesize, blocksize).unwrap()
}

use BloscCompressor::{BloscLz, Lz4, Lz4hc, Zlib, Zstd};

const WRITABLE: [BloscCompressor; 5] = [BloscLz, Lz4, Lz4hc, Zlib, Zstd];

fn any_codec() -> impl Strategy<Value = Blosc> {
    (
        prop::sample::select(&WRITABLE),
        0u8..=9,
        prop::sample::select(&[
            BloscShuffle::None,
            BloscShuffle::Byte,
            BloscShuffle::Bit,
            BloscShuffle::Auto,
        ]),
        prop_oneof![1usize..=17, Just(200usize), Just(255), Just(256), Just(1000)],
        prop_oneof![2 => Just(0usize), 1 => 1usize..3000, 1 => 3000usize..200_000],
    )
        .prop_map(|(compressor, level, shuffle, typesize, blocksize)| {
            // The thorough levels of zstd and lz4hc are slow, and the difference does not matter
            // here.
            let level = if level == 9 && compressor == Zstd { 1 } else { level };
            codec(compressor, level, shuffle, typesize, blocksize)
        })
}

/// Numbers that rise slowly, with noise in the lowest `noise` bits.
fn data(len: usize, noise: u32, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut out = Vec::with_capacity(len + 4);
    while out.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let value = (out.len() as u32 * 3).wrapping_add(state as u32 & ((1_u64 << noise) - 1) as u32);
        out.extend_from_slice(&value.to_le_bytes());
    }
    out.truncate(len);
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn round_trips(
        codecs in prop::collection::vec(any_codec(), 1..3),
        len in prop_oneof![2 => 0usize..2000, 1 => 0usize..300_000],
        noise in 0u32..=32,
        seed in any::<u64>(),
    ) {
        let src = data(len, noise, seed);
        let mut scratch = Scratch::default();
        let mut encoded = vec![1, 2, 3];
        for codec in codecs {
            codec.encode(&src, &mut encoded, &mut scratch).unwrap();
            prop_assert!(encoded.len() <= src.len() + 16);
            prop_assert!(encoded.len() <= codec.max_encoded(src.len()));
            let mut out = vec![0xa5; len + 3];
            prop_assert_eq!(codec.decode(&encoded, &mut out, &mut scratch).unwrap(), len, "{:?}", codec);
            prop_assert!(out[..len] == src[..], "{:?}", codec);
            prop_assert_eq!(&out[len..], &[0xa5; 3]);
            if len > 0 {
                let error = codec.decode(&encoded, &mut out[..len - 1], &mut scratch).unwrap_err();
                let right = matches!(error, CodecError::Size { expected, found, .. } if expected + 1 == found && found == len as u64);
                prop_assert!(right, "{}", error);
            }
        }
    }

    #[test]
    fn damage_is_an_error_or_stays_inside(
        codec in any_codec(),
        len in 0usize..40_000,
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        in_front in any::<bool>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let src = data(len, 4, 7);
        let mut scratch = Scratch::default();
        let mut encoded = Vec::new();
        codec.encode(&src, &mut encoded, &mut scratch).unwrap();

        let mut out = vec![0xa5; len + 1];
        let cut = cut.index(encoded.len());
        codec.decode(&encoded[..cut], &mut out, &mut scratch).unwrap_err();
        encoded.push(0);
        codec.decode(&encoded, &mut out, &mut scratch).unwrap_err();
        encoded.pop();

        let reach = if in_front { encoded.len().min(64) } else { encoded.len() };
        for (at, value) in flips {
            encoded[at.index(reach)] ^= value;
        }
        let mut out = vec![0xa5; len + 1];
        if let Ok(n) = codec.decode(&encoded, &mut out[..len], &mut scratch) {
            prop_assert!(n <= len);
        }
        prop_assert_eq!(out[len], 0xa5);
    }
}

/// 520 little-endian 16-bit numbers, forty each of 0 to 12, as c-blosc 1.21 wrote them.
#[test]
fn reads_what_c_blosc_wrote() {
    let src: Vec<u8> = (0..520_u16).flat_map(|i| (i / 40).to_le_bytes()).collect();
    let mut scratch = Scratch::default();
    for (cname, buffer) in [
        (
            "blosclz",
            "0201010210040000100400007d00000014000000540000002300000000e01a03010001e01d00010102e01d00010203e01d0001\
             0304e01d00010405e01d00010506e01d00010607e01d00010708e01d00010809e01d0001090ae01d00010a0be01d00010b0ce0\
             1b00020c0c0c0d0000002300000000e0fff90302000000",
        ),
        (
            "lz4",
            "02012402100400001004000076000000140000004e0000001000010010ff0100000900100009000f0a001b060200013c000102\
             000f14001f0b02000146000b02000b2300010200012300010a000f020010012d000f0200010f3c00100f0200c9500000000000\
             0c0000001f000100fff0500000000000",
        ),
        (
            "lz4hc",
            "0201210210040000100400006f00000014000000470000001f000100141f010100141f020100141f030100141f040100141f05\
             0100141f060100141f070100141f080100141f090100141f0a0100141f0b0100141f0c01000f500c0c0c0c0c0c0000001f0001\
             00fff0500000000000",
        ),
        (
            "zlib",
            "020161021004000010040000520000001400000027000000785e8dc1070100200c00a079e7eb9fd70a408429a8a2863a1a68a2\
             440b6d74d0450f7df7c90c310f000000785e63601805a38081010002080001",
        ),
        (
            "zstd",
            "02019402100400001004000048000000140000003000000028b52ffd601003350100500000000000ffffff00ff0ca030b93950\
             039107fa2a1d028196eb52923a5fbcf4867d5da70c",
        ),
    ] {
        let buffer = crate::hdf5::tests::hex(buffer);
        let codec = Blosc::from_v2(&json!({"id": "blosc", "cname": cname}), 2).unwrap();
        let mut out = vec![0; src.len()];
        assert_eq!(codec.decode(&buffer, &mut out, &mut scratch).unwrap(), src.len(), "{cname}");
        assert_eq!(out, src, "{cname}");
    }
}

#[test]
fn choices_of_the_encoder() {
    let mut scratch = Scratch::default();
    let mut encoded = Vec::new();
    let src = data(8 << 20, 3, 1);
    // Flags, type size, decoded size, block size: as c-blosc 1.21 writes them.
    let mut head = |codec: Blosc, len: usize| {
        codec.encode(&src[..len], &mut encoded, &mut scratch).unwrap();
        let header = header::Header::parse(&encoded).unwrap();
        (encoded[2], header.typesize, header.blocksize)
    };
    use BloscShuffle::*;
    assert_eq!(head(codec(Lz4, 5, Byte, 4, 0), 8 << 20), (0x21, 4, 512 << 10));
    assert_eq!(head(codec(Lz4, 5, Byte, 1, 0), 8 << 20), (0x23, 1, 128 << 10));
    assert_eq!(head(codec(Lz4, 9, Bit, 8, 0), 8 << 20), (0x24, 8, 1 << 20));
    assert_eq!(head(codec(Zstd, 5, Bit, 4, 0), 8 << 20), (0x94, 4, 256 << 10));
    assert_eq!(head(codec(Zstd, 1, None, 17, 0), 100_000), (0x90, 17, 32759));
    assert_eq!(head(codec(Zlib, 1, Byte, 2, 0), 100_000), (0x61, 2, 64 << 10));
    assert_eq!(head(codec(BloscLz, 9, Auto, 1, 0), 1000), (0x04, 1, 1000));
    assert_eq!(head(codec(Lz4, 5, Byte, 300, 0), 1000), (0x23, 1, 1000));
    assert_eq!(head(codec(Lz4, 5, Byte, 4, 1000), 10_000), (0x21, 4, 10_000));
    assert_eq!(head(codec(Lz4, 0, Byte, 4, 0), 10_000), (0x23, 4, 10_000));
    assert_eq!(head(codec(Lz4, 5, Byte, 4, 0), 127).0 & 2, 2);
    assert_eq!(head(codec(Lz4, 5, Byte, 4, 0), 0), (0x33, 4, 1));
}

#[test]
fn parts_are_parts_of_the_whole() {
    for (compressor, shuffle, typesize, blocksize) in [
        (Lz4, BloscShuffle::Byte, 4, 0),
        (Zstd, BloscShuffle::Bit, 8, 10_000),
        (BloscLz, BloscShuffle::None, 1, 70_000),
        (Zlib, BloscShuffle::Byte, 3, 1000),
    ] {
        crate::testing::check_parts(&codec(compressor, 3, shuffle, typesize, blocksize));
    }
}

#[test]
fn only_the_blocks_of_a_part_are_decoded() {
    let part = |encoded: &[u8], wanted, size| {
        let blosc = Blosc::from_v3(None, 4).unwrap();
        crate::testing::decode_part(&blosc, encoded, wanted, size, &mut Scratch::default())
    };
    let (src, mut encoded) = (data(100_000, 3, 1), Vec::new());
    for shuffle in [BloscShuffle::None, BloscShuffle::Byte, BloscShuffle::Bit] {
        let codec = codec(Zstd, 3, shuffle, 4, 10_000);
        codec.encode(&src, &mut encoded, &mut Scratch::default()).unwrap();
        let header = header::Header::parse(&encoded).unwrap();
        let starts: Vec<usize> = encoded[16..]
            .as_chunks::<4>()
            .0
            .iter()
            .take(src.len().div_ceil(header.blocksize))
            .map(|start| u32::from_le_bytes(*start) as usize)
            .collect();
        assert_eq!(starts.len(), 10 + usize::from(header.blocksize < 10_000));
        // All blocks but the fourth and the fifth are broken.
        encoded[starts[0]..starts[3]].fill(0xee);
        encoded[starts[5]..].fill(0xee);
        let (first, end) = (3 * header.blocksize, 5 * header.blocksize);
        for wanted in [first..end, first + 1..first + 2, end - 1..end] {
            assert!(part(&encoded, wanted.clone(), src.len()).unwrap() == src[wanted]);
        }
        for wanted in [first - 1..end, first..end + 1, 0..1, 99_999..100_000, 0..100_000] {
            assert!(part(&encoded, wanted, src.len()).is_err());
        }
        assert!(part(&encoded, 7..7, src.len()).unwrap().is_empty());
        // Block starts are checked nevertheless.
        encoded[16..20].fill(0xff);
        let message = part(&encoded, first..end, src.len()).unwrap_err().to_string();
        assert!(message.contains("block 0 starts at byte"), "{message}");
        for other in [99_999, 100_001] {
            assert!(part(&encoded, first..end, other).is_err());
        }
    }
    // Stored uncompressed.
    codec(Lz4, 0, BloscShuffle::None, 1, 0)
        .encode(&src[..100], &mut encoded, &mut Scratch::default())
        .unwrap();
    assert!(part(&encoded, 50..60, 100).unwrap() == src[50..60]);
    assert!(matches!(part(&encoded, 50..60, 101), Err(CodecError::Size { .. })));
}

#[test]
fn hostile_sizes() {
    let decode = |bytes: &[u8], len: usize| {
        Blosc::from_v3(None, 4).unwrap().decode(bytes, &mut vec![0; len], &mut Scratch::default())
    };
    let buffer = |flags: u8, typesize: u8, nbytes: u32, blocksize: u32, rest: &[u8]| {
        let mut out = vec![2, 1, flags, typesize];
        for field in [nbytes, blocksize, 16 + rest.len() as u32] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        out.extend_from_slice(rest);
        out
    };
    let message = |bytes: Vec<u8>, len: usize| decode(&bytes, len).unwrap_err().to_string();
    // A stored stream is valid wherever its block starts.
    let good = [20, 0, 0, 0, 3, 0, 0, 0, 7, 8, 9];
    let mut out = [0; 3];
    let blosc = Blosc::from_v3(None, 1).unwrap();
    assert_eq!(blosc.decode(&buffer(0x20, 1, 3, 3, &good), &mut out, &mut Scratch::default()).unwrap(), 3);
    assert_eq!(out, [7, 8, 9]);
    // A block size larger than the buffer allocates nothing of that size.
    assert_eq!(decode(&buffer(0x21, 2, 3, u32::MAX, &good), 3).unwrap(), 3);
    assert!(message(buffer(0x20, 1, 3, 3, &[21, 0, 0, 0]), 3).contains("outside"));
    assert!(message(buffer(0x20, 1, 3, 3, &[19, 0, 0, 0]), 3).contains("outside"));
    assert!(message(buffer(0x20, 1, 3, 3, &good[..4]), 3).contains("truncated before its length"));
    assert!(message(buffer(0x20, 1, 3, 3, &good[..7]), 3).contains("truncated before its length"));
    assert!(message(buffer(0x20, 1, 3, 3, &good[..10]), 3).contains("expected at most 2 bytes, found 3"));
    assert!(message(buffer(0x20, 1, 4, 4, &good), 4).contains("lz4"));
    assert!(message(buffer(0x20, 1, 6, 3, &good), 6).contains("block 0 starts at byte 20"));
    assert!(message(buffer(0x20, 1, 0, 3, &good), 6).contains("0 blocks"));
    assert!(message(buffer(0x21, 3, 1000, 1000, &[20; 600]), 1000).contains("starts at byte 336860180"));
    assert!(message(buffer(0x21, 3, 1000, 1000, &[20, 0, 0, 0, 0]), 1000).contains("cannot be split into 3"));
    let shared = [24, 0, 0, 0, 24, 0, 0, 0, 3, 0, 0, 0, 7, 8, 9];
    assert!(message(buffer(0x20, 1, 6, 3, &shared), 6).contains("block 1 at byte 24, stream 0: it shares"));
    assert_eq!(decode(&buffer(0x20, 1, 0, 1, &[]), 5).unwrap(), 0);
    assert!(matches!(
        decode(&buffer(0x20, 1, u32::MAX / 4, 1 << 30, &good), 5),
        Err(CodecError::Size { expected: 5, found: 0x3fff_ffff, .. })
    ));
}

#[test]
fn snappy_is_read_only() {
    let codec = Blosc::from_v2(&json!({"id": "blosc", "cname": "snappy"}), 1).unwrap();
    let mut scratch = Scratch::default();
    let error = codec.encode(&[0; 500], &mut Vec::new(), &mut scratch).unwrap_err();
    assert!(error.to_string().contains("snappy"), "{error}");

    let src = data(1000, 0, 1);
    let stream = snap::raw::Encoder::new().compress_vec(&src).unwrap();
    let mut buffer = vec![2, 1, 0x40, 4, 232, 3, 0, 0, 232, 3, 0, 0];
    buffer.extend_from_slice(&(24 + stream.len() as u32).to_le_bytes());
    buffer.extend_from_slice(&20_u32.to_le_bytes());
    buffer.extend_from_slice(&(stream.len() as u32).to_le_bytes());
    buffer.extend_from_slice(&stream);
    buffer[2] |= 0x10;
    let mut out = vec![0; 1000];
    assert_eq!(codec.decode(&buffer, &mut out, &mut scratch).unwrap(), 1000);
    assert_eq!(out, src);
}

#[test]
fn nothing_is_allocated_twice() {
    let src = data(200_000, 3, 1);
    let mut scratch = Scratch::default();
    for compressor in WRITABLE {
        let codec = codec(compressor, 5, BloscShuffle::Byte, 4, 0);
        let mut encoded = Vec::new();
        codec.encode(&src, &mut encoded, &mut scratch).unwrap();
        let before = (encoded.as_ptr(), scratch.blosc.block.as_ptr(), scratch.blosc.stream.as_ptr());
        codec.encode(&src, &mut encoded, &mut scratch).unwrap();
        let mut out = vec![0; src.len()];
        codec.decode(&encoded, &mut out, &mut scratch).unwrap();
        assert_eq!(before, (encoded.as_ptr(), scratch.blosc.block.as_ptr(), scratch.blosc.stream.as_ptr()));
    }
}

#[test]
fn configurations() {
    let v3 = json!({"typesize": 4, "cname": "zstd", "clevel": 3, "shuffle": "bitshuffle", "blocksize": 7});
    let codec = Blosc::from_v3(Some(&v3), 4).unwrap();
    assert_eq!(codec, Blosc::new(Zstd, 3, BloscShuffle::Bit, 4, 7).unwrap());
    assert_eq!(codec.to_v3().unwrap(), json!({"name": "blosc", "configuration": v3}));
    assert_eq!(
        codec.to_v2().unwrap(),
        json!({"id": "blosc", "cname": "zstd", "clevel": 3, "shuffle": 2, "blocksize": 7})
    );
    let v2 = json!({"id": "blosc", "cname": "lz4hc", "clevel": 9, "shuffle": -1, "blocksize": 0});
    let codec = Blosc::from_v2(&v2, 1).unwrap();
    assert_eq!(codec.to_v2().unwrap(), v2);
    assert_eq!(codec.to_v3().unwrap()["configuration"]["shuffle"], "bitshuffle");
    assert_eq!(Blosc::from_v2(&v2, 2).unwrap().to_v3().unwrap()["configuration"]["shuffle"], "shuffle");
    assert_eq!(Blosc::from_v2(&v2, 2).unwrap().to_v3().unwrap()["configuration"]["typesize"], 2);
    assert_eq!(
        Blosc::from_v2(&json!({"id": "blosc", "typesize": 8}), 2).unwrap(),
        Blosc::new(Lz4, 5, BloscShuffle::Byte, 8, 0).unwrap()
    );
    assert_eq!(Blosc::from_v3(None, 1).unwrap(), Blosc::new(Zstd, 5, BloscShuffle::Bit, 1, 0).unwrap());

    let refused = |value: serde_json::Value, part: &str| {
        let error = Blosc::from_v3(Some(&value), 4).unwrap_err().to_string();
        assert!(
            error.starts_with("codec \"blosc\": invalid configuration") && error.contains(part),
            "{error}"
        );
    };
    refused(json!({"clevel": "5"}), "5");
    refused(json!({"cname": "zst"}), "zst");
    refused(json!({"shuffle": "auto"}), "auto");
    refused(json!({"shuffle": 1}), "1");
    refused(json!({"typesize": 0}), "typesize must be 1 or more, found 0");
    refused(json!({"blocksize": 4_294_967_296_u64}), "blocksize");
    refused(json!({"nthreads": 2}), "nthreads");
    refused(json!([]), "invalid");
    let error = Blosc::from_v2(&json!({"id": "blosc", "shuffle": 3}), 4).unwrap_err().to_string();
    assert!(error.contains("shuffle must be 0, 1, 2 or -1, found 3"), "{error}");
    assert!(Blosc::from_v2(&json!({"id": "blosc", "level": 3}), 4).is_err());
    let stored = crate::testing::encode(&codec, &[7; 400]);
    for level in [-1, 10, 77] {
        let v2 = Blosc::from_v2(&json!({"id": "blosc", "clevel": level}), 4).unwrap();
        let v3 = Blosc::from_v3(Some(&json!({"clevel": level})), 4).unwrap();
        for edited in [v2, v3] {
            crate::testing::only_decodes(
                &edited,
                &stored,
                &[7; 400],
                &format!("clevel must be 0 to 9, found {level}"),
            );
        }
    }
}
