//! Every decoder as one function of bytes: the first selects the decoder, the rest is the chunk.
//!
//! Anything but an error or a chunk of the right size is a bug. Used by a test and by a fuzz
//! target.

use hyperslab_codec::{
    AnyCodec, Cell, Codec, CodecChain, Context, DataType, Scratch, Vlen, VlenKind, hdf5, registry,
};
use serde_json::Value;
use std::sync::{Arc, OnceLock};

/// Codecs of Zarr, in v2 (`id`) or v3 (`name`) metadata, each with an element type.
const ZARR: &[(&str, &str)] = &[
    ("<i4", r#"{"id": "zlib", "level": 1}"#),
    ("<i4", r#"{"id": "gzip", "level": 1}"#),
    ("<i4", r#"{"id": "zstd", "level": 1}"#),
    ("<i4", r#"{"id": "lz4", "acceleration": 1}"#),
    ("<i4", r#"{"id": "bz2", "level": 1}"#),
    ("<i4", r#"{"id": "lzma", "format": 1, "check": -1, "preset": 0, "filters": null}"#),
    ("<i4", r#"{"id": "lzma", "format": 2, "check": -1, "preset": 0, "filters": null}"#),
    ("<i4", r#"{"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}"#),
    ("<i4", r#"{"id": "blosc", "cname": "blosclz", "clevel": 5, "shuffle": 2, "blocksize": 0}"#),
    ("<i4", r#"{"id": "crc32c"}"#),
    ("<i4", r#"{"id": "crc32"}"#),
    ("<i4", r#"{"id": "adler32"}"#),
    ("<i4", r#"{"id": "fletcher32"}"#),
    ("<i4", r#"{"id": "jenkins_lookup3"}"#),
    ("<i4", r#"{"id": "base64"}"#),
    ("<i4", r#"{"id": "shuffle", "elementsize": 4}"#),
    ("<i4", r#"{"id": "pcodec"}"#),
    ("<f8", r#"{"id": "zfpy", "mode": 4, "tolerance": 0.1, "rate": -1, "precision": -1}"#),
    ("<i4", r#"{"id": "delta", "dtype": "<i4", "astype": "<i2"}"#),
    ("<f4", r#"{"id": "fixedscaleoffset", "scale": 10, "offset": 1, "dtype": "<f4", "astype": "|u1"}"#),
    ("<f8", r#"{"id": "quantize", "digits": 2, "dtype": "<f8", "astype": "<f4"}"#),
    ("<f8", r#"{"id": "astype", "encode_dtype": "<i2", "decode_dtype": "<f8"}"#),
    ("<f4", r#"{"id": "bitround", "keepbits": 5}"#),
    ("|b1", r#"{"id": "packbits"}"#),
    ("<f4", r#"{"name": "zfp", "configuration": {"mode": "fixed_accuracy", "tolerance": 0.1}}"#),
    ("<i2", r#"{"name": "packbits", "configuration": {"padding_encoding": "first_byte"}}"#),
    ("<i2", r#"{"name": "scale_offset", "configuration": {"offset": 5, "scale": 2}}"#),
    (
        "<i4",
        r#"{"name": "cast_value", "configuration": {"data_type": "uint8", "rounding": "nearest-even", "out_of_range": "clamp"}}"#,
    ),
    ("<i4", r#"{"id": "json2"}"#),
    ("<f4", r#"{"id": "json"}"#),
    ("<i4", r#"{"id": "msgpack2"}"#),
    ("<i2", r#"{"name": "transpose", "configuration": {"order": [1, 0]}}"#),
    (
        "optional <i2",
        r#"{"name": "zarrs.optional", "configuration": {"mask_codecs": ["packbits"], "data_codecs": [{"name": "bytes", "configuration": {"endian": "big"}}]}}"#,
    ),
    (
        "optional <i4",
        r#"{"name": "zarrs.optional", "configuration": {"mask_codecs": ["bytes", "gzip"], "data_codecs": ["packbits", "numcodecs.lz4"]}}"#,
    ),
];

/// Codecs of elements of variable length, each with two valid values.
const VLEN: &[(VlenKind, &str, [&[u8]; 2])] = &[
    (VlenKind::Text, r#"{"id": "vlen-utf8"}"#, [b"ab", b"\xc3\xa9"]),
    (VlenKind::Bytes, r#"{"id": "vlen-bytes"}"#, [b"ab", b"\xff"]),
    (VlenKind::Json, r#"{"id": "json2"}"#, [br#"{"a":[1.5,"\u00e9"]}"#, b"null"]),
    (VlenKind::Json, r#"{"id": "json2", "indent": 2, "strict": false}"#, [b"[[],{}]", b"NaN"]),
    (VlenKind::MessagePack, r#"{"id": "msgpack2"}"#, [b"\x81\xa1a\x92\xc0\xcd\x01\x00", b"\xd4\x05a"]),
    (VlenKind::Text, r#"{"id": "categorize", "labels": ["a", "b"], "dtype": "|O"}"#, [b"a", b"b"]),
];

/// Filters of HDF5: their numbers and client data.
const HDF5: &[(u16, &[u32])] = &[
    (1, &[1]),
    (2, &[4]),
    (3, &[]),
    (4, &[141, 8, 32, 64]),
    (5, &[8, 0, 64, 1, 4, 0, 17, 3]),
    (6, &[2, 0, 64, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    (307, &[9]),
    (32000, &[4, 0x105, 256]),
    (32001, &[2, 2, 4, 256, 5, 1, 1]),
    (32004, &[0]),
    (32008, &[0, 4, 4, 0, 2]),
    (32015, &[1]),
    (32026, &[1, 0, 4, 256, 5, 1, 0]),
];

/// The decoders of each fuzz target `codec_NAME`: words of Zarr's metadata, and numbers of HDF5's
/// filters. `vlen` stands for all codecs of elements of variable length.
pub const TARGETS: &[(&str, &[&str])] = &[
    ("blosc", &["blosc", "32001", "32026"]),
    ("bz2", &["bz2", "307"]),
    ("deflate", &["zlib", "gzip", "1"]),
    ("filters", &["2", "3", "4", "5", "6", "32008"]),
    ("lz4", &["lz4", "32000", "32004"]),
    ("lzma", &["lzma"]),
    (
        "numbers",
        &[
            "crc32c",
            "crc32",
            "adler32",
            "fletcher32",
            "jenkins_lookup3",
            "base64",
            "shuffle",
            "delta",
            "fixedscaleoffset",
            "quantize",
            "astype",
            "bitround",
            "packbits",
            "scale_offset",
            "cast_value",
            "transpose",
        ],
    ),
    ("optional", &["zarrs.optional"]),
    ("pcodec", &["pcodec"]),
    ("text", &["json2", "json", "msgpack2"]),
    ("vlen", &["vlen"]),
    ("zfp", &["zfpy", "zfp"]),
    ("zstd", &["zstd", "32015"]),
];

/// Rows and columns of a chunk.
const SHAPE: [u64; 2] = [8, 8];

/// The number of decoders.
pub const DECODERS: usize = ZARR.len() + HDF5.len() + VLEN.len();

/// A codec of elements of variable length, not bound to a heap.
fn vlen(kind: VlenKind, json: &str) -> Option<Vlen> {
    let shape = SHAPE.to_vec().into();
    let array = Context { shape, vlen: Some(kind), ..Context::of_elements(DataType::CELL) };
    let json: Value = serde_json::from_str(json).ok()?;
    if json.get("id")?.as_str() == Some("categorize") {
        return Vlen::of_objects(registry::Config::V2(&json), &array).ok();
    }
    match registry::CODECS.from_v2(&json, &array).ok()? {
        AnyCodec::ArrayToBytes(codec) => codec.vlen().cloned(),
        _ => None,
    }
}

/// A chunk encoded by a codec of variable-length elements.
///
/// Returns `None` if `number` is another decoder.
#[allow(dead_code, reason = "the fuzz target needs none")]
pub fn vlen_chunk(number: usize) -> Option<Vec<u8>> {
    let (kind, json, values) = VLEN.get(number.checked_sub(ZARR.len() + HDF5.len())?)?;
    let vlen = vlen(*kind, json)?;
    let heap = Arc::new(vlen.heap());
    let buffer = heap.push(Arc::new(values.concat()))?;
    let mut offset = 0;
    let cells = values.map(|value| {
        let cell = Cell { buffer, len: value.len() as u32, offset };
        offset += value.len() as u64;
        cell.write()
    });
    let mut chunk = Vec::new();
    let count = SHAPE.iter().product::<u64>() as usize;
    vlen.bound(&heap).encode(&cells.concat().repeat(count / 2), &mut chunk, &mut Scratch::default()).ok()?;
    Some(chunk)
}

/// A decoder and the size of a chunk.
type Decoder = (Arc<dyn Codec>, usize);

/// A decoder and the size of a chunk, or `None` if this build does not have the decoder.
pub fn decoder(number: usize) -> Option<Decoder> {
    if let Some((dtype, json)) = ZARR.get(number) {
        let array = match dtype.strip_prefix("optional ") {
            Some(value) => Context::of_optional(value.parse().ok()?)?,
            None => Context::of_elements(dtype.parse().ok()?),
        };
        let array = Context { shape: SHAPE.to_vec().into(), ..array };
        let json: Value = serde_json::from_str(json).ok()?;
        let codec: AnyCodec = match json.get("name").and_then(Value::as_str) {
            Some(name) => registry::CODECS.from_v3(name, json.get("configuration"), &array).ok()?,
            None => registry::CODECS.from_v2(&json, &array).ok()?,
        };
        return Some((codec.codec(), array.decoded_size()?));
    }
    let number = number - ZARR.len();
    if let Some((kind, json, _)) = number.checked_sub(HDF5.len()).and_then(|number| VLEN.get(number)) {
        let vlen = vlen(*kind, json)?;
        let heap = Arc::new(vlen.heap());
        let size = SHAPE.iter().product::<u64>() as usize * Cell::SIZE;
        return Some((Arc::new(vlen.bound(&heap)), size));
    }
    let (id, data) = HDF5.get(number)?;
    Some((hdf5::filter(*id, data, 4, 256).ok()?, 256))
}

/// The word in [`TARGETS`] of a decoder.
pub fn word(number: usize) -> String {
    if let Some((_, json)) = ZARR.get(number) {
        let json: Value = serde_json::from_str(json).unwrap_or_default();
        let name = json.get("name").or(json.get("id"));
        return name.and_then(Value::as_str).unwrap_or_default().to_owned();
    }
    HDF5.get(number - ZARR.len()).map_or_else(|| "vlen".to_owned(), |(id, _)| id.to_string())
}

/// Decodes a chunk with the decoder of a fuzz target that the first byte selects.
#[allow(dead_code, reason = "the test needs none")]
pub fn decode_of(target: &str, bytes: &[u8]) {
    static NUMBERS: OnceLock<Vec<usize>> = OnceLock::new();
    let numbers = NUMBERS.get_or_init(|| {
        let words = TARGETS.iter().find(|(name, _)| *name == target).map_or(&[][..], |(_, words)| words);
        (0..DECODERS).filter(|number| words.contains(&word(*number).as_str())).collect()
    });
    if let Some((first, stored)) = bytes.split_first() {
        decode(numbers[usize::from(*first) % numbers.len()], stored);
    }
}

/// Decodes a chunk with the decoder that the first byte selects.
#[allow(dead_code, reason = "fuzz targets need none")]
pub fn decode_anything(bytes: &[u8]) {
    if let Some((first, stored)) = bytes.split_first() {
        decode(usize::from(*first) % DECODERS, stored);
    }
}

/// Decodes a chunk, whole and in part.
///
/// Also decodes it in a chain with `crc32c`, without verifying the checksum.
fn decode(number: usize, stored: &[u8]) {
    static MADE: [OnceLock<Option<Decoder>>; DECODERS] = [const { OnceLock::new() }; DECODERS];
    // Elements of variable length are in the codec's heap, which would grow.
    let found = match number < ZARR.len() + HDF5.len() {
        true => MADE[number].get_or_init(|| decoder(number)).clone(),
        false => decoder(number),
    };
    let Some((codec, size)) = found else { return };
    let mut scratch = Scratch::default();
    // Detects writes outside of the chunk.
    const BESIDE: usize = 64;
    let mut memory = vec![0xA5; size + 2 * BESIDE];
    let chain = CodecChain::new(vec![codec.clone()], size);
    for wanted in [0..size, size / 3..size / 2, 0..1] {
        let chunk = &mut memory[BESIDE..BESIDE + size];
        let _ = chain.decode_part(stored, wanted, chunk, &mut scratch, true);
        let _ = codec.decode(stored, chunk, &mut scratch);
        assert!(memory[..BESIDE].iter().all(|byte| *byte == 0xA5), "{codec:?} writes in front");
        assert!(memory[BESIDE + size..].iter().all(|byte| *byte == 0xA5), "{codec:?} writes behind");
    }
    let behind: Arc<dyn Codec> = Arc::new(hyperslab_codec::Crc32c::default());
    let chain = CodecChain::new(vec![codec, behind], size);
    let _ = chain.decode(stored, &mut memory[..size], &mut scratch, false);
}
