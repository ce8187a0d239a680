//! Every decoder, as one function of some bytes: the first says which, the rest is the stored chunk.
//! Anything but a chunk of the right size or an error is a find. Used by a test and by a fuzz target.

use hyperslab_codec::{AnyCodec, Codec, CodecChain, Context, Scratch, hdf5, registry};
use serde_json::Value;
use std::sync::Arc;

/// Codecs of Zarr, as v2 has them (`id`) or v3 (`name`), each for elements of a type.
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

/// Filters of HDF5: numbers, and their client data.
const HDF5: &[(u16, &[u32])] = &[
    (1, &[1]),
    (2, &[4]),
    (3, &[]),
    (4, &[141, 8, 32, 64]),
    (6, &[2, 0, 64, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    (307, &[9]),
    (32000, &[4, 0x105, 256]),
    (32001, &[2, 2, 4, 256, 5, 1, 1]),
    (32004, &[0]),
    (32008, &[0, 4, 4, 0, 2]),
    (32015, &[1]),
    (32026, &[1, 0, 4, 256, 5, 1, 0]),
];

/// Rows and columns of a chunk.
const SHAPE: [u64; 2] = [8, 8];

/// How many decoders there are.
pub const DECODERS: usize = ZARR.len() + HDF5.len();

/// A decoder, and bytes of a chunk; `None`: this build does not have it.
pub fn decoder(number: usize) -> Option<(Arc<dyn Codec>, usize)> {
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
    let (id, data) = HDF5.get(number - ZARR.len())?;
    Some((hdf5::filter(*id, data, 4, 256).ok()?, 256))
}

/// Decodes a chunk by the decoder that the first byte names, whole and in part, also behind zlib: a
/// decoder whose result is another's input has no exact size.
pub fn decode_anything(bytes: &[u8]) {
    let Some((first, stored)) = bytes.split_first() else { return };
    let Some((codec, size)) = decoder(usize::from(*first) % DECODERS) else { return };
    let mut scratch = Scratch::default();
    // What is written beside the chunk is seen.
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
