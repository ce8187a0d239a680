//! `zfp`: lossy or lossless compression of numbers in blocks of 4 to the power of the rank.
//!
//! * Specification: <https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/zfp>,
//!   <https://zfp.readthedocs.io/en/latest/>
//! * v3 name: `zfp`; v2 only has [`zfpy`](crate::zfpy)
//!
//! ```json
//! {"name": "zfp", "configuration": {"mode": "fixed_accuracy", "tolerance": 0.05}}
//! ```
//!
//! A chunk is one stream without a header. zfp has signed integers and floats of 4 and 8 bytes.
//! Smaller integers are stored in the upper bits of 32. Unsigned integers of 4 and 8 bytes are
//! stored as signed ones, so they must fit.
//!
//! A stream consists of 64-bit words, or of bytes, depending on how the library was built. Its
//! length is a whole number of these.

use crate::registry::Config;
use crate::{
    ArrayToBytes, ByteOrder, Codec, CodecError, Context, DataType, Kind, Result, Scratch, chain, room,
};
use bytemuck::{Pod, Zeroable};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use zfp_rs::codec::block::decode_block;
use zfp_rs::{
    ZfpBitStream, ZfpBitStreamRef, ZfpConfig, ZfpDimensionality, ZfpField, ZfpFieldMetadata, ZfpHeaderMask,
    ZfpScalar, ZfpScalarType, ZfpStreamAlignment,
};

/// A compression mode with its parameters.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "mode", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Mode {
    Reversible {},
    FixedAccuracy { tolerance: f64 },
    FixedRate { rate: f64 },
    FixedPrecision { precision: u32 },
    Expert { minbits: u32, maxbits: u32, maxprec: u32, minexp: i32 },
}

impl Mode {
    /// The library's parameters, or `None` if they are not valid.
    pub(crate) fn config(self, field: &ZfpFieldMetadata) -> Option<ZfpConfig> {
        match self {
            Mode::Reversible {} => Some(ZfpConfig::reversible()),
            Mode::FixedAccuracy { tolerance } => {
                (tolerance >= 0.0).then(|| ZfpConfig::fixed_accuracy(tolerance))
            }
            Mode::FixedRate { rate } => {
                let rank = rank(field.dims);
                ZfpConfig::fixed_rate(rate, field.scalar_type, rank, ZfpStreamAlignment::Unaligned).ok()
            }
            Mode::FixedPrecision { precision } => Some(ZfpConfig::fixed_precision(precision)),
            Mode::Expert { minbits, maxbits, maxprec, minexp } => {
                ZfpConfig::expert(minbits, maxbits, maxprec, minexp).ok()
            }
        }
    }
}

/// The number of axes of a field; unused lengths are 0.
fn rank(dims: [usize; 4]) -> ZfpDimensionality {
    match dims {
        [.., w] if w > 0 => ZfpDimensionality::D4,
        [_, _, z, _] if z > 0 => ZfpDimensionality::D3,
        [_, y, ..] if y > 0 => ZfpDimensionality::D2,
        _ => ZfpDimensionality::D1,
    }
}

/// The lengths of a chunk's axes as in zfp, fastest first, or `None` for more than four axes.
pub(crate) fn dims(shape: &[u64]) -> Option<[usize; 4]> {
    let mut dims = [0; 4];
    for (at, length) in shape.iter().rev().enumerate() {
        *dims.get_mut(at)? = usize::try_from(*length).ok()?;
    }
    if shape.is_empty() {
        dims = [1, 0, 0, 0];
    }
    Some(dims)
}

/// The element type and shape of a field for chunks like `array`.
///
/// Returns `None` if zfp has no such type or shape.
pub(crate) fn field(array: &Context<'_>) -> Option<ZfpFieldMetadata> {
    let scalar_type = match (array.dtype.kind(), array.dtype.size()) {
        (Kind::Float, 4) => ZfpScalarType::F32,
        (Kind::Float, 8) => ZfpScalarType::F64,
        (Kind::Int | Kind::UInt, 1..=4) => ZfpScalarType::I32,
        (Kind::Int | Kind::UInt | Kind::DateTime(_) | Kind::TimeDelta(_), 8) => ZfpScalarType::I64,
        _ => return None,
    };
    let native = array.dtype.order() == ByteOrder::NATIVE && array.vlen.is_none();
    native.then_some(ZfpFieldMetadata { scalar_type, dims: dims(&array.shape)? })
}

/// The words of a stream. The last one is padded with zeros.
pub(crate) fn words(codec: &'static str, src: &[u8]) -> Result<Vec<u64>> {
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        u64::from_le_bytes(word)
    };
    let mut words = memory(codec, src.len().div_ceil(8))?;
    words.iter_mut().zip(src.chunks(8)).for_each(|(to, bytes)| *to = word(bytes));
    Ok(words)
}

/// Zeros, or an error if there is no memory.
fn memory<T: Zeroable>(codec: &'static str, len: usize) -> Result<Vec<T>> {
    room::zeros(len).ok_or_else(|| CodecError::memory(codec, len.saturating_mul(size_of::<T>())))
}

/// Decodes the rest of a stream of `len` bytes into the front of `dst`.
///
/// Returns the number of decoded bytes.
pub(crate) fn decode_field(
    codec: &'static str,
    stream: &mut ZfpBitStreamRef<'_>,
    len: usize,
    config: &ZfpConfig,
    field: &ZfpFieldMetadata,
    dst: &mut [u8],
) -> Result<usize> {
    let (room, size) = (dst.len(), field.scalar_type.size());
    let lengths = field.dims.map(|length| length.max(1));
    let total = lengths.iter().try_fold(size, |total, length| total.checked_mul(*length));
    let total = total.unwrap_or(usize::MAX);
    let Some(dst) = dst.get_mut(..total) else { return Err(CodecError::size(codec, room, total)) };
    let decoded = match field.scalar_type {
        ZfpScalarType::I32 => decode_blocks::<i32>(stream, len, config, field.dims, dst),
        ZfpScalarType::I64 => decode_blocks::<i64>(stream, len, config, field.dims, dst),
        ZfpScalarType::F32 => decode_blocks::<f32>(stream, len, config, field.dims, dst),
        ZfpScalarType::F64 => decode_blocks::<f64>(stream, len, config, field.dims, dst),
    };
    if !decoded {
        return Err(CodecError::corrupt(codec, format!("truncated after {len} bytes")));
    }
    let end = stream.read_pos().div_ceil(64).saturating_mul(8);
    if len as u64 > end {
        let why = format!("{} bytes follow the end of the stream at byte {end}", len as u64 - end);
        return Err(CodecError::corrupt(codec, why));
    }
    Ok(total)
}

/// Decodes blocks to their places in a field that is exactly `dst`. Returns `false` if the stream
/// ends too early.
fn decode_blocks<T: ZfpScalar + Pod>(
    stream: &mut ZfpBitStreamRef<'_>,
    len: usize,
    config: &ZfpConfig,
    dims: [usize; 4],
    dst: &mut [u8],
) -> bool {
    let rank = rank(dims);
    let mut block = [T::zeroed(); 256];
    let Some(block) = block.get_mut(..rank.block_size()) else { return false };
    let [nx, ny, nz, nw] = dims.map(|length| length.max(1));
    let starts = |length: usize| (0..length).step_by(4);
    for w in starts(nw) {
        for (z, y, x) in
            starts(nz).flat_map(|z| starts(ny).flat_map(move |y| starts(nx).map(move |x| (z, y, x))))
        {
            let decoded = decode_block(stream, config, block, rank);
            if decoded.is_err() || stream.read_pos().div_ceil(8) > len as u64 {
                return false;
            }
            // Blocks at the edges reach past the field. `row` counts w, z and y in base 4.
            for (row, values) in block.chunks_exact(4).enumerate() {
                let (w, z, y) = (w + row / 16, z + row / 4 % 4, y + row % 4);
                if w >= nw || z >= nz || y >= ny {
                    continue;
                }
                let at = (((w * nz + z) * ny + y) * nx + x) * size_of::<T>();
                let values: &[u8] = bytemuck::cast_slice(values);
                let count = values.len().min((nx - x) * size_of::<T>());
                let (Some(to), Some(from)) = (dst.get_mut(at..at + count), values.get(..count)) else {
                    return false;
                };
                to.copy_from_slice(from);
            }
        }
    }
    true
}

/// Encodes the elements of a field, with or without a header.
pub(crate) fn encode_field(
    codec: &'static str,
    src: &[u8],
    config: &ZfpConfig,
    field: &ZfpFieldMetadata,
    header: bool,
) -> Result<Vec<u8>> {
    match field.scalar_type {
        ZfpScalarType::I32 => encode::<i32>(codec, src, config, field, header),
        ZfpScalarType::I64 => encode::<i64>(codec, src, config, field, header),
        ZfpScalarType::F32 => encode::<f32>(codec, src, config, field, header),
        ZfpScalarType::F64 => encode::<f64>(codec, src, config, field, header),
    }
}

fn encode<T: ZfpScalar + Pod>(
    codec: &'static str,
    src: &[u8],
    config: &ZfpConfig,
    field: &ZfpFieldMetadata,
    header: bool,
) -> Result<Vec<u8>> {
    let refuse = |why: String| CodecError::encode(codec, why);
    let mut copy;
    let elements = match bytemuck::try_cast_slice::<u8, T>(src) {
        Ok(elements) => elements,
        // Not aligned. A size that is no whole number of elements does not fit the field either.
        Err(_) => {
            copy = memory::<T>(codec, src.len().div_ceil(size_of::<T>()))?;
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut copy);
            bytes.iter_mut().zip(src).for_each(|(to, from)| *to = *from);
            &copy
        }
    };
    let array = ZfpField::new(elements, field.dims).map_err(|error| refuse(error.to_string()))?;
    if array.size_bytes() != src.len() {
        return Err(refuse(format!(
            "expected a chunk of {} bytes, found {} bytes",
            array.size_bytes(),
            src.len()
        )));
    }
    let room = config.maximum_size(field.scalar_type, field.dims);
    let room = room.ok_or_else(|| refuse("the chunk is too large".into()))?;
    let mut stream = ZfpBitStream::new(room).map_err(|_| CodecError::memory(codec, room))?;
    if header {
        let written = stream.write_header(config, field, ZfpHeaderMask::FULL);
        written.map_err(|error| refuse(error.to_string()))?;
    }
    stream.compress(config, &array).map_err(|error| refuse(error.to_string()))?;
    let words = stream.into_words();
    let mut stored = Vec::new();
    room::reserve(&mut stored, words.len().saturating_mul(8), codec)?;
    stored.extend(words.into_iter().flat_map(u64::to_le_bytes));
    Ok(stored)
}

/// The most bytes of a field's stream.
pub(crate) fn max_stream(config: &ZfpConfig, field: &ZfpFieldMetadata, decoded: usize) -> usize {
    config
        .maximum_size(field.scalar_type, field.dims)
        .unwrap_or(usize::MAX)
        .max(chain::generous_bound(decoded))
}

/// The `zfp` codec.
#[derive(Clone, Debug)]
pub(crate) struct Zfp {
    dtype: DataType,
    field: ZfpFieldMetadata,
    mode: Mode,
    config: ZfpConfig,
}

impl Zfp {
    /// Reads v3 metadata, for the elements of `array`.
    pub(crate) fn new(json: Config<'_>, array: &Context<'_>) -> Result<Self> {
        let mode: Mode = json.fields("zfp")?;
        let dtype = array.dtype;
        let Some(field) = field(array) else {
            let why = format!(
                "\"zfp\" encodes integers, and floats of 4 and 8 bytes, in chunks of up to four axes; found {dtype} in chunks of shape {:?}",
                array.shape
            );
            return Err(CodecError::Unfit { why });
        };
        let Some(config) = mode.config(&field) else {
            return Err(CodecError::config(
                "zfp",
                format!("mode {} does not exist for elements of type {dtype}", json!(mode)),
            ));
        };
        Ok(Zfp { dtype, field, mode, config })
    }

    /// Returns `true` if elements are stored unchanged.
    fn is_plain(&self) -> bool {
        !matches!(self.dtype.kind(), Kind::UInt) && self.dtype.size() >= 4
    }

    /// The elements as zfp stores them.
    fn promote(&self, src: &[u8]) -> Result<Vec<u8>> {
        let signed = self.dtype.kind() == Kind::Int;
        let mut promoted = Vec::new();
        let size = self.dtype.size();
        if size < 4 {
            promoted = memory("zfp", (src.len() / size).saturating_mul(4))?;
        }
        let to = promoted.as_mut_slice();
        match size {
            1 if signed => convert_each::<i8, i32>(src, to, |value| i32::from(value) << 23),
            1 => convert_each::<u8, i32>(src, to, |value| (i32::from(value) - 0x80) << 23),
            2 if signed => convert_each::<i16, i32>(src, to, |value| i32::from(value) << 15),
            2 => convert_each::<u16, i32>(src, to, |value| (i32::from(value) - 0x8000) << 15),
            _ => {
                // The byte with each number's sign bit.
                let top = if cfg!(target_endian = "big") { 0 } else { size - 1 };
                if src.chunks_exact(size).any(|value| value.get(top).is_some_and(|byte| *byte >= 0x80)) {
                    let why = format!(
                        "zfp stores {} as signed integers, found a value that is too large for them",
                        self.dtype
                    );
                    return Err(CodecError::encode("zfp", why));
                }
                room::fill(&mut promoted, src, "zfp")?;
            }
        }
        Ok(promoted)
    }

    /// Undoes [`Zfp::promoted`]. Values that lossy compression moved out of range become the
    /// nearest value in range.
    #[expect(clippy::cast_possible_truncation, reason = "clamped before")]
    fn demote(&self, values: &[u8], to: &mut [u8]) {
        let signed = self.dtype.kind() == Kind::Int;
        match self.dtype.size() {
            1 if signed => {
                convert_each::<i32, i8>(values, to, |value| (value >> 23).clamp(-0x80, 0x7f) as i8)
            }
            1 => convert_each::<i32, u8>(values, to, |value| ((value >> 23) + 0x80).clamp(0, 0xff) as u8),
            2 if signed => {
                convert_each::<i32, i16>(values, to, |value| (value >> 15).clamp(-0x8000, 0x7fff) as i16)
            }
            2 => {
                convert_each::<i32, u16>(values, to, |value| ((value >> 15) + 0x8000).clamp(0, 0xffff) as u16)
            }
            4 => convert_each::<i32, i32>(values, to, |value| value.max(0)),
            _ => convert_each::<i64, i64>(values, to, |value| value.max(0)),
        }
    }
}

/// Converts each element of `src`. `to` has room for all results.
fn convert_each<T: Pod, U: Pod>(src: &[u8], to: &mut [u8], convert: impl Fn(T) -> U) {
    for (from, to) in src.chunks_exact(size_of::<T>()).zip(to.chunks_exact_mut(size_of::<U>())) {
        to.copy_from_slice(bytemuck::bytes_of(&convert(bytemuck::pod_read_unaligned(from))));
    }
}

impl Codec for Zfp {
    fn name(&self) -> &'static str {
        "zfp"
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch) -> Result<usize> {
        if !src.len().is_multiple_of(8) {
            return Err(CodecError::corrupt(
                "zfp",
                format!("expected a whole number of words of 8 bytes, found {} bytes", src.len()),
            ));
        }
        let words = words("zfp", src)?;
        let mut stream = ZfpBitStreamRef::from_words(&words);
        if self.is_plain() {
            return decode_field("zfp", &mut stream, src.len(), &self.config, &self.field, dst);
        }
        let size = self.dtype.size();
        let elements = self.field.dims.iter().map(|length| length.max(&1)).product::<usize>();
        let total = elements.saturating_mul(size);
        let to = crate::front("zfp", dst, total)?;
        let bytes = elements.saturating_mul(self.field.scalar_type.size());
        let mut values = memory("zfp", bytes)?;
        decode_field("zfp", &mut stream, src.len(), &self.config, &self.field, &mut values)?;
        self.demote(&values, to);
        Ok(total)
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _scratch: &mut Scratch) -> Result<()> {
        let promoted = if self.is_plain() { None } else { Some(self.promote(src)?) };
        *dst = encode_field("zfp", promoted.as_deref().unwrap_or(src), &self.config, &self.field, false)?;
        Ok(())
    }

    fn max_encoded(&self, decoded: usize) -> usize {
        max_stream(&self.config, &self.field, decoded)
    }

    fn to_v3(&self) -> Option<Value> {
        Some(json!({"name": "zfp", "configuration": self.mode}))
    }
}

impl ArrayToBytes for Zfp {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, decode, encode};
    use std::borrow::Cow;

    pub(super) fn context(dtype: &str, shape: &[u64]) -> Context<'static> {
        let dtype: DataType = dtype.parse().unwrap();
        Context { shape: Cow::Owned(shape.to_vec()), ..Context::of_elements(dtype) }
    }

    fn codec(dtype: &str, shape: &[u64], mode: &Value) -> Result<Zfp> {
        Zfp::new(Config::V3(Some(mode)), &context(dtype, shape))
    }

    const SHAPES: [&[u64]; 9] =
        [&[], &[1], &[4], &[103], &[5, 3], &[8, 8], &[9, 1, 6], &[1, 1, 1, 1], &[5, 2, 6, 3]];
    const TYPES: [&str; 12] =
        ["<f4", "<f8", "<i4", "<i8", "|i1", "|u1", "<i2", "<u2", "<u4", "<u8", "<M8[s]", "<m8[ns]"];

    /// Small and large numbers of a type; unsigned ones also fit the signed type.
    fn elements(dtype: &str, shape: &[u64]) -> Vec<u8> {
        let count = shape.iter().product::<u64>();
        let element = |i: u64| {
            let i = i as i64;
            match dtype {
                "<f4" => ((i * i) as f32 / 7.0 - 30.0).to_le_bytes().to_vec(),
                "<f8" => ((i * i) as f64 * 1e-3 - 1.0).to_le_bytes().to_vec(),
                "|i1" | "|u1" => vec![(i * 37) as u8],
                "<i2" | "<u2" => ((i * 7919) as u16).to_le_bytes().to_vec(),
                "<i4" => ((i - 5) * 1_000_003).to_le_bytes()[..4].to_vec(),
                "<u4" => ((i as u32).wrapping_mul(1_000_003) & 0x7fff_ffff).to_le_bytes().to_vec(),
                "<u8" => (i * i * 1_000_003).to_le_bytes().to_vec(),
                _ => ((i - 5) * 10_000_000_019).to_le_bytes().to_vec(),
            }
        };
        (0..count).flat_map(element).collect()
    }

    #[test]
    fn reversible() {
        for dtype in TYPES {
            for shape in SHAPES {
                let codec = codec(dtype, shape, &json!({"mode": "reversible"})).unwrap();
                let data = elements(dtype, shape);
                let stored = encode(&codec, &data);
                assert!(stored.len() <= codec.max_encoded(data.len()));
                assert_eq!(decode(&codec, &stored, data.len()).unwrap(), data, "{dtype} {shape:?}");
                assert_eq!(decode(&codec, &stored, data.len() + 9).unwrap(), data);
                assert!(matches!(decode(&codec, &stored, data.len() - 1), Err(CodecError::Size { .. })));
                for end in 0..stored.len() {
                    assert!(decode(&codec, &stored[..end], data.len()).is_err(), "{dtype} {shape:?} {end}");
                }
                let longer = [&stored[..], &[0; 8]].concat();
                assert!(decode(&codec, &longer, data.len()).is_err());
                // Not aligned.
                let mut memory = vec![0; data.len() + 1];
                let written = codec.decode(&stored, &mut memory[1..], &mut Scratch::default());
                assert_eq!((written.unwrap(), &memory[1..]), (data.len(), &data[..]));
                assert_eq!(encode(&codec, &memory[1..]), stored);
            }
        }
    }

    #[test]
    fn lossy() {
        let shape = [9, 10, 5];
        let data = elements("<f8", &shape);
        let number = |bytes: &[u8]| f64::from_le_bytes(bytes.try_into().unwrap());
        for (mode, error, most) in [
            (json!({"mode": "fixed_accuracy", "tolerance": 0.05}), 0.05, 2000),
            (json!({"mode": "fixed_accuracy", "tolerance": 0.0}), 1e-12, 4000),
            (json!({"mode": "fixed_rate", "rate": 16.0}), 0.1, 2304),
            (json!({"mode": "fixed_precision", "precision": 24}), 1e-2, 2000),
            (
                json!({"mode": "expert", "minbits": 64, "maxbits": 1024, "maxprec": 40, "minexp": -20}),
                0.1,
                2304,
            ),
        ] {
            let codec = codec("<f8", &shape, &mode).unwrap();
            assert_eq!(codec.to_v3().unwrap(), json!({"name": "zfp", "configuration": mode}));
            let stored = encode(&codec, &data);
            assert!(stored.len() <= most, "{mode}: {}", stored.len());
            let decoded = decode(&codec, &stored, data.len()).unwrap();
            for (found, expected) in decoded.chunks(8).zip(data.chunks(8)) {
                assert!((number(found) - number(expected)).abs() <= error, "{mode}");
            }
            testing::withstands_damage(&codec, &stored, data.len());
        }
        let bytes = codec("|u1", &[100], &json!({"mode": "fixed_rate", "rate": 8.0})).unwrap();
        let extremes: Vec<u8> = (0..100).map(|i| if i % 3 == 0 { 255 } else { 0 }).collect();
        let decoded = decode(&bytes, &encode(&bytes, &extremes), 100).unwrap();
        assert!(
            decoded.iter().zip(&extremes).all(|(found, expected)| found.abs_diff(*expected) < 40),
            "{decoded:?}"
        );
    }

    #[test]
    fn damage() {
        for dtype in TYPES {
            let codec = codec(dtype, &[7, 6], &json!({"mode": "reversible"})).unwrap();
            let data = elements(dtype, &[7, 6]);
            testing::withstands_damage(&codec, &encode(&codec, &data), data.len());
        }
    }

    #[test]
    fn refused() {
        for bad in [
            json!({}),
            json!({"mode": "lossless"}),
            json!({"mode": "fixed_rate"}),
            json!({"mode": "fixed_rate", "rate": -1.0}),
            json!({"mode": "fixed_rate", "rate": 1e9}),
            json!({"mode": "fixed_accuracy", "tolerance": -0.5}),
            json!({"mode": "fixed_precision", "precision": -1}),
            json!({"mode": "expert", "minbits": 9, "maxbits": 8, "maxprec": 1, "minexp": 0}),
            json!({"mode": "reversible", "rate": 1}),
        ] {
            assert!(matches!(codec("<f4", &[9], &bad), Err(CodecError::Config { .. })), "{bad}");
        }
        let reversible = json!({"mode": "reversible"});
        for dtype in ["|b1", "<f2", "<c8", ">f4", "|S4", "<U1"] {
            assert!(matches!(codec(dtype, &[9], &reversible), Err(CodecError::Unfit { .. })), "{dtype}");
        }
        assert!(matches!(codec("<f4", &[1; 5], &reversible), Err(CodecError::Unfit { .. })));
        for (dtype, value) in [("<u4", &[0, 0, 0, 0x80][..]), ("<u8", &[0, 0, 0, 0, 0, 0, 0, 0x80])] {
            let codec = codec(dtype, &[1], &reversible).unwrap();
            let message =
                codec.encode(value, &mut Vec::new(), &mut Scratch::default()).unwrap_err().to_string();
            assert!(message.contains("too large"), "{message}");
        }
    }
}
