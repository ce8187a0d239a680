//! Tests that every codec must pass.

use crate::{Blosc, Cell, Codec, CodecError, Crc32c, Gzip, Lz4, Result, Scratch, Zlib, Zstd};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;
use std::ops::Range;
use std::sync::Arc;

/// Bytes after the destination, which no decoder may touch.
const GUARD: [u8; 64] = [0xA5; 64];

/// Encodes with new contexts.
pub(crate) fn encode(codec: &dyn Codec, data: &[u8]) -> Vec<u8> {
    let mut stored = b"what was there before".to_vec();
    codec.encode(data, &mut stored, &mut Scratch::default()).unwrap();
    stored
}

/// Decodes into `room` bytes with new contexts.
pub(crate) fn decode(codec: &dyn Codec, stored: &[u8], room: usize) -> Result<Vec<u8>> {
    decode_with(codec, stored, room, &mut Scratch::default())
}

pub(crate) fn decode_with(
    codec: &dyn Codec,
    stored: &[u8],
    room: usize,
    scratch: &mut Scratch,
) -> Result<Vec<u8>> {
    let mut memory = vec![0x5A; room];
    memory.extend_from_slice(&GUARD);
    let result = codec.decode(stored, &mut memory[..room], scratch);
    assert_eq!(memory[room..], GUARD, "wrote past the end");
    let written = result?;
    assert!(written <= room, "says it wrote {written} bytes into {room}");
    memory.truncate(written);
    Ok(memory)
}

/// Checks that a codec refuses each of these configurations, JSON values one after another.
pub(crate) fn refuses<C>(configurations: &str, parse: impl Fn(&Value) -> Result<C>) {
    for bad in serde_json::Deserializer::from_str(configurations).into_iter() {
        let bad = bad.unwrap();
        assert!(matches!(parse(&bad), Err(CodecError::Config { .. })), "{bad}");
    }
}

/// Checks that a codec whose encoder lacks its settings decodes, but refuses to encode.
pub(crate) fn only_decodes(codec: &dyn Codec, stored: &[u8], data: &[u8], why: &str) {
    assert_eq!(decode(codec, stored, data.len()).unwrap(), data);
    let encoded = codec.encode(data, &mut Vec::new(), &mut Scratch::default());
    for refused in [encoded, codec.check_encoder(), codec.check_settings()] {
        assert!(
            matches!(&refused, Err(error @ CodecError::Config { .. }) if error.to_string().contains(why))
        );
    }
}

/// The codecs with these names, in the order of encoding.
pub(crate) fn chain(names: &str) -> Vec<Arc<dyn Codec>> {
    let codec = |name: &str| -> Arc<dyn Codec> {
        match name {
            "gzip" => Arc::new(Gzip { level: 1 }),
            "zlib" => Arc::new(Zlib { level: 1 }),
            "zstd" => Arc::new(Zstd { level: 1, checksum: false }),
            "zstd-sum" => Arc::new(Zstd { level: 1, checksum: true }),
            "lz4" => Arc::new(Lz4 { acceleration: 1 }),
            "blosc" => Arc::new(Blosc::from_v3(None, 4).unwrap()),
            "crc32c" => Arc::new(Crc32c { at_start: false }),
            "crc32c-start" => Arc::new(Crc32c { at_start: true }),
            other => panic!("{other}"),
        }
    };
    names.split_whitespace().map(codec).collect()
}

/// The cells of values that are next to each other in a buffer.
pub(crate) fn cells(buffer: u32, values: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut end = 0;
    let cell = |value: &[u8]| {
        end += value.len() as u64;
        Cell { buffer, len: value.len() as u32, offset: end - value.len() as u64 }.write()
    };
    values.iter().map(AsRef::as_ref).flat_map(cell).collect()
}

/// Pseudo-random bytes, always the same.
pub(crate) fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Data of one kind: incompressible, constant, smooth floats, repeating text.
fn data(kind: u8, len: usize, seed: u64) -> Vec<u8> {
    match kind {
        0 => noise(len, seed),
        1 => vec![seed as u8; len],
        2 => {
            let value = |i: usize| ((i as f32 + seed as f32) * 0.01).sin() * 1000.0;
            (0..len / 4 + 1).flat_map(|i| value(i).round().to_le_bytes()).take(len).collect()
        }
        _ => b"hyperslab \xff\x00".iter().copied().cycle().skip(seed as usize % 12).take(len).collect(),
    }
}

/// Every kind in sizes around the limits of formats: nothing, one byte, one block, more.
pub(crate) fn samples() -> Vec<Vec<u8>> {
    let sizes = [0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 100, 1000, 65_535, 65_536, 65_537, 300_000];
    let kinds = 0..4;
    kinds.flat_map(|kind| sizes.map(|len| data(kind, len, 3))).collect()
}

/// Checks round trips of fixed and generated data, exact sizes, and damaged and foreign bytes.
pub(crate) fn check(codec: &dyn Codec) {
    let mut scratch = Scratch::default();
    for data in samples() {
        check_one(codec, &data, &mut scratch);
    }
    let generated = (0u8..4, prop_oneof![0usize..300, 0usize..20_000], any::<u64>());
    run(64, generated, |(kind, len, seed)| check_one(codec, &data(kind, len, seed), &mut Scratch::default()));
    for kind in 0..4 {
        withstands_damage(codec, &encode(codec, &data(kind, 200, 5)), 200);
    }
    withstands_garbage(codec, &mut scratch);
    check_parts(codec);
}

/// Runs a test on generated values.
fn run<S: Strategy>(cases: u32, generated: S, test: impl Fn(S::Value)) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let each = |value| {
        test(value);
        Ok(())
    };
    TestRunner::new(config).run(&generated, each).unwrap();
}

/// Decodes a part of a chunk of `size` bytes and returns only that part.
pub(crate) fn decode_part(
    codec: &dyn Codec,
    stored: &[u8],
    wanted: Range<usize>,
    size: usize,
    scratch: &mut Scratch,
) -> Result<Vec<u8>> {
    let mut memory = vec![0x5A; size];
    memory.extend_from_slice(&GUARD);
    let result = codec.decode_part(stored, wanted.clone(), &mut memory[..size], scratch);
    assert_eq!(memory[size..], GUARD, "wrote past the end");
    result.map(|()| memory[wanted].to_vec())
}

/// Checks that a part has the same bytes as in the whole, even if the stream is cut off or damaged.
///
/// No byte outside of the destination is written.
pub(crate) fn check_parts(codec: &dyn Codec) {
    let scratch = std::cell::RefCell::new(Scratch::default());
    let sizes = prop_oneof![0usize..300, 0usize..20_000, 60_000usize..700_000];
    let fraction = || 0.0f64..=1.0;
    let generated = (0u8..4, sizes, any::<u64>(), (fraction(), fraction()), fraction(), any::<u8>());
    run(48, generated, |(kind, size, seed, (one, other), at, flip)| {
        let scratch = &mut *scratch.borrow_mut();
        let data = data(kind, size, seed);
        let mut stored = encode(codec, &data);
        let place = |fraction: f64, of: usize| (of as f64 * fraction) as usize;
        // Squared, because decoding saves work only for parts near the front.
        let (one, other) = (place(one * one, size), place(other * other, size));
        let wanted = one.min(other)..one.max(other);
        for wanted in [wanted.clone(), 0..wanted.end, wanted.start..size, 0..size, 0..0] {
            let part = decode_part(codec, &stored, wanted.clone(), size, scratch).unwrap();
            assert!(part == data[wanted.clone()], "{wanted:?} of {size}");
        }
        assert!(codec.decode_part(&stored, 0..size + 1, &mut vec![0; size], scratch).is_err());
        for other in [size + 1, size * 2 + 100] {
            let result = decode_part(codec, &stored, 0..other, other, scratch);
            assert!(matches!(result, Err(CodecError::Size { .. })), "{size} as {other}");
        }
        let cut = place(at, stored.len());
        for cut in [cut, cut.min(20), stored.len().saturating_sub(cut.min(20) + 1)] {
            match decode_part(codec, &stored[..cut], wanted.clone(), size, scratch) {
                Ok(part) => assert!(part == data[wanted.clone()], "{wanted:?} of {size}, cut to {cut}"),
                Err(_) => assert!(cut < stored.len()),
            }
        }
        if let Some(byte) = stored.get_mut(cut) {
            *byte ^= flip;
            let _ = decode_part(codec, &stored, wanted.clone(), size, scratch);
            let _ = decode_part(codec, &stored, wanted, size / 2 + 1, scratch);
        }
    });
}

/// Checks that the first quarter decodes if all stored bytes after the first `kept` are garbage.
pub(crate) fn stops_early(codec: &dyn Codec, kept: f64) {
    // Compressible, and the same everywhere.
    let mut data = noise(1 << 20, 1);
    data.iter_mut().enumerate().for_each(|(i, byte)| *byte &= if i % 64 < 16 { 0 } else { 0x1f });
    let mut stored = encode(codec, &data);
    let kept = (stored.len() as f64 * kept) as usize;
    let tail = stored.len() - 8;
    stored[kept..tail].fill(0xA7);
    let (size, mut scratch) = (data.len(), Scratch::default());
    let part = decode_part(codec, &stored, 100..size / 4, size, &mut scratch).unwrap();
    assert!(part == data[100..size / 4]);
    assert!(decode_part(codec, &stored, 100..size, size, &mut scratch).is_err());
    assert!(decode(codec, &stored, size).is_err());
}

fn check_one(codec: &dyn Codec, data: &[u8], scratch: &mut Scratch) {
    let mut stored = b"what was there before".to_vec();
    codec.encode(data, &mut stored, scratch).unwrap();
    assert!(stored.len() <= codec.max_encoded(data.len()), "{} bytes", data.len());
    for room in [data.len(), data.len() + 1, data.len() + 1000] {
        assert!(
            decode_with(codec, &stored, room, scratch).unwrap() == data,
            "{} bytes into {room}",
            data.len()
        );
    }
    if let Some(room) = data.len().checked_sub(1) {
        let error = decode_with(codec, &stored, room, scratch).unwrap_err();
        assert!(matches!(error, CodecError::Size { .. }), "{} bytes into {room}: {error}", data.len());
        assert!(matches!(decode_with(codec, &stored, 0, scratch), Err(CodecError::Size { .. })));
    }
    stored.push(0x55);
    assert!(decode_with(codec, &stored, data.len() + 100, scratch).is_err(), "a byte after the end");
}

/// Changes each byte of a chunk that decodes to `size` bytes, and cuts it at each length.
///
/// Each change gives an error, or bytes that fit. Nothing panics or writes outside of the
/// destination.
pub(crate) fn withstands_damage(codec: &dyn Codec, stored: &[u8], size: usize) {
    let mut scratch = Scratch::default();
    let good = decode_with(codec, stored, size, &mut scratch).unwrap();
    assert_eq!(good.len(), size);
    let mut try_all = |stored: &[u8]| {
        for room in [size, size / 2, size * 2] {
            let _ = decode_with(codec, stored, room, &mut scratch);
        }
        let _ = decode_part(codec, stored, size / 3..size / 2, size, &mut scratch);
    };
    // In long chunks only every `step` bytes, plus all of the likely header.
    let step = stored.len() / 500 + 1;
    for at in (0..stored.len()).filter(|at| *at < 200 || at % step == 0) {
        let mut bad = stored.to_vec();
        for flip in [0x01, 0x02, 0x10, 0x80, 0xff] {
            bad[at] = stored[at] ^ flip;
            try_all(&bad);
        }
        try_all(&stored[..at]);
    }
    assert!(decode_with(codec, stored, size, &mut scratch).unwrap() == good, "contexts survive errors");
}

/// Decodes bytes that were never encoded, alone and after the start of a valid stream.
fn withstands_garbage(codec: &dyn Codec, scratch: &mut Scratch) {
    let start = encode(codec, &noise(50, 1));
    for seed in 0..300 {
        let garbage = noise(seed as usize, seed);
        let _ = decode_with(codec, &garbage, 100, scratch);
        let mut behind = start[..start.len().min(1 + seed as usize % 12)].to_vec();
        behind.extend_from_slice(&garbage);
        let _ = decode_with(codec, &behind, 1000, scratch);
    }
}

/// Checks that no proper prefix of a stream is valid. Not for codecs that are lenient about a
/// stream's end.
pub(crate) fn refuses_truncation(codec: &dyn Codec) {
    let mut scratch = Scratch::default();
    for kind in 0..4 {
        for len in [0, 1, 20, 300] {
            let data = data(kind, len, 5);
            let stored = encode(codec, &data);
            for end in 0..stored.len() {
                assert!(
                    decode_with(codec, &stored[..end], len, &mut scratch).is_err(),
                    "kind {kind}, {end} of {}",
                    stored.len()
                );
            }
        }
    }
}

#[test]
fn no_codec_takes_the_bytes_of_another() {
    let codecs = chain("gzip zlib zstd lz4 crc32c");
    let data = data(2, 5000, 1);
    for (i, writer) in codecs.iter().enumerate() {
        let stored = encode(writer.as_ref(), &data);
        for (j, reader) in codecs.iter().enumerate() {
            let is_read = decode(reader.as_ref(), &stored, data.len()).is_ok();
            assert_eq!(is_read, i == j, "{} read as {}", writer.name(), reader.name());
        }
    }
}

#[test]
fn scratch_moves_between_threads() {
    fn is_send<T: Send>() {}
    is_send::<Scratch>();
}
