//! `pcodec`: the standalone format of pco, which compresses sequences of numbers.
//!
//! * Specification: <https://numcodecs.readthedocs.io/en/stable/compression/pcodec.html>,
//!   <https://github.com/pcodec/pcodec/blob/main/docs/format.md>
//! * v2 id: `pcodec`; v3 name: `numcodecs.pcodec`
//!
//! ```json
//! {"id": "pcodec", "level": 8, "mode_spec": "auto", "delta_spec": "auto", "paging_spec": "equal_pages_up_to",
//!  "delta_encoding_order": null, "equal_pages_up_to": 262144}
//! ```
//!
//! Encodes integers and floats of 2, 4 and 8 bytes, and dates as their counts. Only encoders need
//! the settings: a chunk records how it was made.

use crate::registry::Config;
use crate::{
    ArrayToBytes, ByteOrder, Codec, CodecError, Context, DataType, Kind, Result, Scratch, chain, room,
};
use bytemuck::Pod;
use bytemuck::allocation::pod_collect_to_vec;
use pco::data_types::Number;
use pco::errors::{ErrorKind, PcoError};
use pco::standalone::{DecompressorItem, FileDecompressor, simple_compress};
use pco::{ChunkConfig, DeltaSpec, ModeSpec, PagingSpec};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Overhead of a page, however few its numbers. Generous: a page of one number takes 40 bytes.
const PAGE: usize = 256;

/// The `pcodec` codec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pcodec {
    dtype: DataType,
    fields: Fields,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields, default)]
struct Fields {
    level: usize,
    mode_spec: Mode,
    delta_spec: Delta,
    paging_spec: Paging,
    delta_encoding_order: Option<usize>,
    equal_pages_up_to: usize,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Auto,
    Classic,
}

/// `none` is an old name of `no_op`.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Delta {
    Auto,
    NoOp,
    None,
    TryConsecutive,
    TryLookback,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Paging {
    EqualPagesUpTo,
}

impl Default for Fields {
    fn default() -> Self {
        Fields {
            level: 8,
            mode_spec: Mode::Auto,
            delta_spec: Delta::Auto,
            paging_spec: Paging::EqualPagesUpTo,
            delta_encoding_order: None,
            equal_pages_up_to: 1 << 18,
        }
    }
}

/// Calls a generic function with the number type of the elements.
macro_rules! with_number {
    ($dtype:expr, $function:ident($($argument:expr),*)) => {
        match ($dtype.kind(), $dtype.size()) {
            (Kind::Float, 2) => $function::<half::f16>($($argument),*),
            (Kind::Float, 4) => $function::<f32>($($argument),*),
            (Kind::Float, _) => $function::<f64>($($argument),*),
            (Kind::UInt, 2) => $function::<u16>($($argument),*),
            (Kind::UInt, 4) => $function::<u32>($($argument),*),
            (Kind::UInt, _) => $function::<u64>($($argument),*),
            (_, 2) => $function::<i16>($($argument),*),
            (_, 4) => $function::<i32>($($argument),*),
            _ => $function::<i64>($($argument),*),
        }
    };
}

impl Pcodec {
    /// Reads Zarr metadata, for the elements of `array`.
    pub(crate) fn new(json: Config<'_>, array: &Context<'_>) -> Result<Self> {
        let fields: Fields = json.fields("pcodec")?;
        let dtype = array.dtype;
        let is_number = match dtype.kind() {
            Kind::Int | Kind::UInt | Kind::Float => dtype.size() > 1,
            Kind::DateTime(_) | Kind::TimeDelta(_) => true,
            _ => false,
        };
        if !is_number || array.vlen.is_some() {
            let why = format!(
                "\"pcodec\" encodes integers and floats of 2, 4 and 8 bytes, found elements of type {dtype}"
            );
            return Err(CodecError::Unfit { why });
        }
        if dtype.order() != ByteOrder::NATIVE {
            let why = format!("\"pcodec\" encodes numbers in this machine's byte order, found {dtype}");
            return Err(CodecError::Unfit { why });
        }
        let invalid = |why: String| Err(CodecError::config("pcodec", why));
        match fields {
            Fields { level: 13.., .. } => invalid(format!("level must be 0 to 12, found {}", fields.level)),
            Fields { equal_pages_up_to: 0, .. } => {
                invalid("equal_pages_up_to must be 1 or more, found 0".into())
            }
            Fields { delta_encoding_order: Some(order @ 8..), .. } => {
                invalid(format!("delta_encoding_order must be 0 to 7, found {order}"))
            }
            Fields { delta_spec: Delta::TryConsecutive, delta_encoding_order: None, .. } => {
                invalid("delta_spec \"try_consecutive\" needs a delta_encoding_order".into())
            }
            Fields {
                delta_spec: Delta::NoOp | Delta::None | Delta::TryLookback,
                delta_encoding_order: Some(_),
                ..
            } => invalid("delta_encoding_order is for delta_spec \"try_consecutive\" and \"auto\"".into()),
            _ => Ok(Pcodec { dtype, fields }),
        }
    }

    fn chunk_config(&self) -> ChunkConfig {
        let Fields { level, mode_spec, delta_spec, delta_encoding_order, equal_pages_up_to, .. } =
            self.fields;
        ChunkConfig::default()
            .with_compression_level(level)
            .with_mode_spec(match mode_spec {
                Mode::Auto => ModeSpec::Auto,
                Mode::Classic => ModeSpec::Classic,
            })
            .with_delta_spec(match (delta_spec, delta_encoding_order) {
                (_, Some(order)) => DeltaSpec::TryConsecutive(order),
                (Delta::NoOp | Delta::None, _) => DeltaSpec::NoOp,
                (Delta::TryLookback, _) => DeltaSpec::TryLookback,
                _ => DeltaSpec::Auto,
            })
            .with_paging_spec(PagingSpec::EqualPagesUpTo(equal_pages_up_to))
    }
}

impl Codec for Pcodec {
    fn name(&self) -> &'static str {
        "pcodec"
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch) -> Result<usize> {
        with_number!(self.dtype, decode(src, dst))
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _scratch: &mut Scratch) -> Result<()> {
        let config = self.chunk_config();
        *dst = with_number!(self.dtype, encode(src, &config))?;
        Ok(())
    }

    fn max_encoded(&self, decoded: usize) -> usize {
        let pages = (decoded / self.dtype.size().max(1)).div_ceil(self.fields.equal_pages_up_to);
        chain::generous_bound(decoded).saturating_add(pages.saturating_mul(PAGE))
    }

    fn to_v3(&self) -> Option<Value> {
        Some(json!({"name": "numcodecs.pcodec", "configuration": self.fields}))
    }

    fn to_v2(&self) -> Option<Value> {
        let mut object = json!({"id": "pcodec"});
        object.as_object_mut()?.extend(json!(self.fields).as_object()?.clone());
        Some(object)
    }
}

impl ArrayToBytes for Pcodec {}

fn encode<T: Number + Pod>(src: &[u8], config: &ChunkConfig) -> Result<Vec<u8>> {
    if !src.len().is_multiple_of(size_of::<T>()) {
        let why = format!(
            "expected a whole number of elements of {} bytes, found {} bytes",
            size_of::<T>(),
            src.len()
        );
        return Err(CodecError::encode("pcodec", why));
    }
    // The library aborts the process if it runs out of memory: it needs the numbers, split in two,
    // and the result.
    if !room::for_copies(src.len(), 3) {
        return Err(CodecError::memory("pcodec", src.len()));
    }
    let encoded = match bytemuck::try_cast_slice::<u8, T>(src) {
        Ok(numbers) => simple_compress(numbers, config),
        // Not aligned.
        Err(_) => simple_compress(&pod_collect_to_vec::<u8, T>(src), config),
    };
    encoded.map_err(|error| CodecError::encode("pcodec", error.message))
}

fn decode<T: Number + Pod>(src: &[u8], dst: &mut [u8]) -> Result<usize> {
    let (file, mut rest) = FileDecompressor::new(src).map_err(corrupt)?;
    let (room, mut written) = (dst.len(), 0);
    loop {
        let mut chunk = match file.chunk_decompressor::<T, _>(rest).map_err(corrupt)? {
            DecompressorItem::Chunk(chunk) => chunk,
            DecompressorItem::EndOfData([]) => return Ok(written),
            DecompressorItem::EndOfData(rest) => {
                let why = format!("{} bytes follow the end of the data", rest.len());
                return Err(CodecError::corrupt("pcodec", why));
            }
        };
        let end = chunk.n().saturating_mul(size_of::<T>()).saturating_add(written);
        let Some(place) = dst.get_mut(written..end) else {
            return Err(CodecError::size("pcodec", room, end));
        };
        let progress = match bytemuck::try_cast_slice_mut::<u8, T>(place) {
            Ok(numbers) => chunk.read(numbers),
            Err(_) => {
                let none = || CodecError::memory("pcodec", chunk.n().saturating_mul(size_of::<T>()));
                let mut aligned = room::zeros::<T>(chunk.n()).ok_or_else(none)?;
                let progress = chunk.read(&mut aligned);
                place.copy_from_slice(bytemuck::cast_slice(&aligned));
                progress
            }
        };
        if !progress.map_err(corrupt)?.finished {
            return Err(CodecError::corrupt("pcodec", "a page has fewer numbers than its header says"));
        }
        written = end;
        rest = chunk.into_src();
    }
}

fn corrupt(error: PcoError) -> CodecError {
    match error.kind {
        ErrorKind::InsufficientData => CodecError::corrupt("pcodec", "truncated"),
        _ => CodecError::corrupt("pcodec", error.message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, decode, encode};

    fn codec(dtype: &str, fields: &Value) -> Result<Pcodec> {
        let mut object = json!({"id": "pcodec"});
        object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        Pcodec::new(Config::V2(&object), &Context::of_elements(dtype.parse().unwrap()))
    }

    fn codecs() -> Vec<Pcodec> {
        let types = ["<f2", "<f4", "<f8", "<u2", "<u4", "<u8", "<i2", "<i4", "<i8", "<M8[ns]"];
        let mut codecs: Vec<_> = types.iter().map(|dtype| codec(dtype, &json!({})).unwrap()).collect();
        codecs.extend([
            codec("<i4", &json!({"level": 0, "mode_spec": "classic", "delta_spec": "no_op"})).unwrap(),
            codec("<u8", &json!({"delta_spec": "try_consecutive", "delta_encoding_order": 3})).unwrap(),
            codec("<f4", &json!({"delta_spec": "try_lookback", "equal_pages_up_to": 100})).unwrap(),
            codec("<f8", &json!({"delta_encoding_order": 1, "equal_pages_up_to": 1})).unwrap(),
        ]);
        codecs
    }

    #[test]
    fn round_trips() {
        for codec in codecs() {
            let mut scratch = Scratch::default();
            let size = codec.dtype.size();
            for mut data in testing::samples().into_iter().filter(|data| data.len() < 100_000) {
                data.truncate(data.len() / size * size);
                let mut stored = b"old".to_vec();
                codec.encode(&data, &mut stored, &mut scratch).unwrap();
                assert!(
                    stored.len() <= codec.max_encoded(data.len()),
                    "{codec:?} {} {}",
                    data.len(),
                    stored.len()
                );
                for room in [data.len(), data.len() + 1, data.len() + 1000] {
                    assert!(decode(&codec, &stored, room).unwrap() == data, "{codec:?} {}", data.len());
                }
                // Not aligned.
                let mut memory = vec![0; data.len() + 1];
                assert_eq!(codec.decode(&stored, &mut memory[1..], &mut scratch).unwrap(), data.len());
                assert!(memory[1..] == data[..], "{codec:?}");
                let mut again = Vec::new();
                codec.encode(&memory[1..], &mut again, &mut scratch).unwrap();
                assert!(again == stored);
                if let Some(room) = data.len().checked_sub(1) {
                    let error = decode(&codec, &stored, room).unwrap_err();
                    assert!(matches!(error, CodecError::Size { .. }), "{codec:?}: {error}");
                }
                stored.push(0);
                assert!(
                    decode(&codec, &stored, data.len() + 100).is_err(),
                    "{codec:?}: a byte after the end"
                );
            }
            let object = codec.to_v2().unwrap();
            let context = Context::of_elements(codec.dtype);
            assert_eq!(Pcodec::new(Config::V2(&object), &context).unwrap(), codec);
        }
    }

    #[test]
    fn damage() {
        for codec in codecs() {
            let data: Vec<u8> = (0..600u32).flat_map(|i| (i * i % 97).to_le_bytes()).collect();
            let stored = encode(&codec, &data);
            testing::withstands_damage(&codec, &stored, data.len());
            for end in 0..stored.len() {
                assert!(decode(&codec, &stored[..end], data.len()).is_err(), "{codec:?} cut to {end}");
            }
        }
    }

    #[test]
    fn refused() {
        for bad in [
            json!({"level": 13}),
            json!({"level": -1}),
            json!({"mode_spec": "try_float_mult"}),
            json!({"delta_spec": "try_consecutive"}),
            json!({"delta_spec": "no_op", "delta_encoding_order": 1}),
            json!({"delta_encoding_order": 8}),
            json!({"paging_spec": "exact"}),
            json!({"equal_pages_up_to": 0}),
            json!({"x": 1}),
        ] {
            assert!(matches!(codec("<f4", &bad), Err(CodecError::Config { .. })), "{bad}");
        }
        for dtype in ["|b1", "|i1", "|u1", ">f4", "<c8", "|S4", "<U1", "|V2"] {
            assert!(matches!(codec(dtype, &json!({})), Err(CodecError::Unfit { .. })), "{dtype}");
        }
        // Numbers of another type.
        let stored = encode(&codec("<i4", &json!({})).unwrap(), &[1; 40]);
        assert!(decode(&codec("<f4", &json!({})).unwrap(), &stored, 40).is_err());
        assert!(decode(&codec("<i8", &json!({})).unwrap(), &stored, 40).is_err());
        let odd = codec("<i4", &json!({})).unwrap().encode(&[1; 5], &mut Vec::new(), &mut Scratch::default());
        assert!(odd.is_err());
    }
}
