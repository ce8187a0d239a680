//! `zarrs.optional`: elements that may be missing, as a mask and the values that are present.
//!
//! * Specification: <https://codec.zarrs.dev/array_to_bytes/optional>, the element type
//!   <https://github.com/zarr-developers/zarr-extensions/tree/main/data-types/optional>
//! * v3 names: `zarrs.optional`, also `optional`; not in v2
//!
//! ```
//! # let json = r#"
//! {"name": "zarrs.optional", "configuration": {
//!     "mask_codecs": [{"name": "packbits", "configuration": {"padding_encoding": "none"}}, {"name": "crc32c"}],
//!     "data_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}}
//! # "#;
//! # use hyperslab_codec::{Context, registry::CODECS};
//! # let metadata: serde_json::Value = serde_json::from_str(json).unwrap();
//! # let array = Context::of_optional("<i4".parse().unwrap()).unwrap();
//! # let codec = CODECS.from_v3("zarrs.optional", metadata.get("configuration"), &array).unwrap().codec();
//! # assert_eq!(codec.to_v3(), Some(metadata));
//! ```
//!
//! | stored bytes | |
//! |---|---|
//! | 8 | size of the encoded mask (little-endian) |
//! | 8 | size of the encoded values (little-endian) |
//! | | the mask: bools in the chunk's shape, true for present values, encoded by `mask_codecs` |
//! | | the present values, if there are any: an array with one axis, encoded by `data_codecs` |
//!
//! In memory an element is its value and a byte that is 1 if it is present
//! ([`DataType::optional`]).

use crate::registry::{CODECS, Config, MOST_CODECS};
use crate::walk::stage;
use crate::{
    AnyCodec, ArrayToBytes, ByteOrder, Codec, CodecChain, CodecError, Context, DataType, Kind, Result,
    Scratch, front, room,
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;

/// The name used when writing.
pub(crate) const NAME: &str = "zarrs.optional";

/// Compiles work on elements for each usual size, so that copies are single moves.
macro_rules! by_size {
    ($of:expr, $size:ident => $work:expr) => {
        by_size!($of, $size => $work, 1 2 4 8 16)
    };
    ($of:expr, $size:ident => $work:expr, $($usual:literal)+) => {
        match $of {
            $($usual => { let $size = $usual; $work })+
            $size => $work,
        }
    };
}

/// Bytes of the two sizes at the start of a chunk.
const HEADER: usize = 16;

/// The `zarrs.optional` codec.
#[derive(Clone, Debug)]
pub(crate) struct Optional {
    value: DataType,
    /// Elements of a chunk.
    count: usize,
    mask: List,
    /// For chunks without missing elements. The codecs may depend on the number of values.
    values: List,
}

/// A list of codecs, made for one array.
#[derive(Clone, Debug)]
struct List {
    /// The list as in metadata, with every setting spelled out.
    json: Vec<Value>,
    chain: CodecChain,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    mask_codecs: Vec<Value>,
    data_codecs: Vec<Value>,
}

/// One codec in metadata: a name, or an object with a name.
#[derive(Deserialize)]
#[serde(untagged)]
enum Named {
    Name(String),
    Object(Object),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Object {
    name: String,
    configuration: Option<Value>,
    #[serde(rename = "must_understand", default)]
    _must_understand: bool,
}

/// The error for a codec that cannot encode an array of elements that may be missing.
pub(crate) fn unsupported_codec_error(codec: &str) -> CodecError {
    let why = format!(
        "{codec:?} cannot encode elements that may be missing: put it in \"data_codecs\" of \"{NAME}\", \
         which encode the values without the missing ones"
    );
    CodecError::Unfit { why }
}

impl Context<'_> {
    /// Like [`Context::of_elements`], for elements that may be missing with values of type `value`.
    ///
    /// Returns `None` if the elements would be too large.
    pub fn of_optional(value: DataType) -> Option<Self> {
        Some(Context { optional: Some(value), ..Context::of_elements(value.optional()?) })
    }
}

impl List {
    /// `member` is the field of the configuration, for messages.
    fn new(member: &str, list: &[Value], mut array: Context<'_>) -> Result<Self> {
        let invalid = |why: String| CodecError::config(NAME, format!("{member}: {why}"));
        let size = array.decoded_size().ok_or_else(|| invalid("the chunk is too large".into()))?;
        if list.len() > MOST_CODECS {
            return Err(invalid(format!("at most {MOST_CODECS} codecs are supported, found {}", list.len())));
        }
        let (mut json, mut running, mut is_bytes) = (Vec::new(), Vec::new(), false);
        for one in list {
            let named = Named::deserialize(one)
                .map_err(|_| invalid(format!("expected a name or an object with a name, found {one}")))?;
            let (name, configuration) = match named {
                Named::Name(name) => (name, None),
                Named::Object(object) => (object.name, object.configuration),
            };
            let codec: Arc<dyn Codec> = match CODECS.from_v3(&name, configuration.as_ref(), &array)? {
                AnyCodec::ArrayToArray(codec) if !is_bytes => {
                    array = codec.encoded(&array);
                    if !codec.keeps_bytes() {
                        running.push(codec.clone() as Arc<dyn Codec>);
                    }
                    codec
                }
                AnyCodec::ArrayToBytes(codec) if !is_bytes => {
                    if codec.vlen().is_some() {
                        return Err(invalid(format!("\"{name}\" is for elements of variable length")));
                    }
                    is_bytes = true;
                    if codec.byte_order() != Some(array.dtype.order()) {
                        running.push(codec.clone() as Arc<dyn Codec>);
                    }
                    codec
                }
                AnyCodec::BytesToBytes(codec) if is_bytes => {
                    running.push(codec.clone());
                    codec
                }
                AnyCodec::BytesToBytes(_) => {
                    return Err(invalid(format!("\"{name}\" works on bytes; it must come after \"bytes\"")));
                }
                _ => {
                    return Err(invalid(format!(
                        "\"{name}\" works on arrays; it must come before the codec from array to bytes"
                    )));
                }
            };
            let shown = codec.to_v3();
            json.push(shown.ok_or_else(|| invalid(format!("Zarr v3 has no codec \"{name}\"")))?);
        }
        match is_bytes {
            true => Ok(List { json, chain: CodecChain::new(running, size) }),
            false => {
                Err(invalid("expected a codec from array to bytes, such as \"bytes\", found none".into()))
            }
        }
    }
}

impl Optional {
    /// Reads v3 metadata, for chunks of `array`.
    pub(crate) fn new(config: Config<'_>, array: &Context<'_>) -> Result<Self> {
        let fields: Fields = config.fields(NAME)?;
        let unfit = |why: String| CodecError::Unfit { why: format!("{NAME:?}: {why}") };
        let Some(value) = array.optional.filter(|value| value.size() > 0) else {
            return Err(unfit(format!("expected elements that may be missing, found {}", array.dtype)));
        };
        let count = array.shape.iter().try_fold(1usize, |n, len| n.checked_mul(usize::try_from(*len).ok()?));
        let fits = |count: &usize| count.checked_mul(value.size() + 1).is_some();
        let count = count.filter(fits).ok_or_else(|| unfit("the chunk is too large".into()))?;
        let bools = DataType::new(Kind::Bool, 1, ByteOrder::NATIVE).unwrap_or(value);
        let bools = Context { shape: Cow::Borrowed(&*array.shape), ..Context::of_elements(bools) };
        let mask = List::new("mask_codecs", &fields.mask_codecs, bools)?;
        let values = Self::list(&fields.data_codecs, value, count)?;
        Ok(Optional { value, count, mask, values })
    }

    /// The codecs for `count` values.
    fn list(data_codecs: &[Value], value: DataType, count: usize) -> Result<List> {
        let array = Context { shape: vec![count as u64].into(), ..Context::of_elements(value) };
        List::new("data_codecs", data_codecs, array)
    }

    /// The codec chain for `there` present values.
    fn chain(&self, there: usize) -> Result<Cow<'_, CodecChain>> {
        if there == self.count {
            return Ok(Cow::Borrowed(&self.values.chain));
        }
        Ok(Cow::Owned(Self::list(&self.values.json, self.value, there)?.chain))
    }

    /// Splits a chunk into the encoded mask and the encoded values.
    fn split<'a>(&self, src: &'a [u8]) -> Result<(&'a [u8], &'a [u8])> {
        let size = |at: usize| {
            let bytes = src.get(at..at + 8)?.try_into().ok()?;
            Some(u64::from_le_bytes(bytes))
        };
        let (Some(mask), Some(values)) = (size(0), size(8)) else {
            let why = format!("expected at least 16 bytes for two sizes, found {}", src.len());
            return Err(CodecError::corrupt(NAME, why));
        };
        let behind = src.get(HEADER..).unwrap_or_default();
        if mask.checked_add(values) != Some(behind.len() as u64) {
            let why = format!(
                "expected a mask of {mask} bytes and values of {values} bytes, found {} bytes in all",
                behind.len()
            );
            return Err(CodecError::corrupt(NAME, why));
        }
        // Never falls back to the default: `mask` is at most `behind.len()`.
        Ok(behind.split_at_checked(usize::try_from(mask).unwrap_or(usize::MAX)).unwrap_or_default())
    }

    fn decode_with(
        &self,
        [valid, values]: &mut [Vec<u8>; 2],
        src: &[u8],
        dst: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<usize> {
        let len = self.decoded_size();
        let dst = front(NAME, dst, len)?;
        let (mask, encoded) = self.split(src)?;
        let valid = stage(valid, self.count, NAME)?;
        self.mask.chain.decode(mask, valid, scratch, true)?;
        let there = valid.iter().filter(|valid| **valid != 0).count();
        let values = stage(values, there.saturating_mul(self.value.size()), NAME)?;
        match there {
            0 if encoded.is_empty() => {}
            0 => {
                let why =
                    format!("all elements are missing, but there are {} bytes of values", encoded.len());
                return Err(CodecError::corrupt(NAME, why));
            }
            _ => self.chain(there)?.decode(encoded, values, scratch, true)?,
        }
        by_size!(self.value.size(), size => merge(size, valid, values, dst));
        Ok(len)
    }

    fn encode_with(
        &self,
        [raw, encoded]: &mut [Vec<u8>; 2],
        src: &[u8],
        dst: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        if src.len() != self.decoded_size() {
            let why = format!("expected a chunk of {} bytes, found {} bytes", self.decoded_size(), src.len());
            return Err(CodecError::encode(NAME, why));
        }
        let size = self.value.size();
        raw.clear();
        room::reserve(raw, src.len(), NAME)?;
        raw.extend(src.chunks_exact(size + 1).map(is_there));
        let there = raw.iter().filter(|valid| **valid != 0).count();
        self.mask.chain.encode(raw, encoded, scratch)?;
        dst.clear();
        dst.extend_from_slice(&(encoded.len() as u64).to_le_bytes());
        dst.extend_from_slice(&[0; 8]);
        dst.extend_from_slice(encoded);
        if there == 0 {
            return Ok(());
        }
        raw.clear();
        by_size!(size, size => gather(size, src, raw));
        self.chain(there)?.encode(raw, encoded, scratch)?;
        if let Some(place) = dst.get_mut(8..HEADER) {
            place.copy_from_slice(&(encoded.len() as u64).to_le_bytes());
        }
        dst.extend_from_slice(encoded);
        Ok(())
    }

    /// Bytes of a chunk in memory.
    fn decoded_size(&self) -> usize {
        self.count.saturating_mul(self.value.size() + 1)
    }
}

/// 1 if the element has a value, otherwise 0.
fn is_there(element: &[u8]) -> u8 {
    u8::from(element.last().is_some_and(|valid| *valid != 0))
}

/// Appends the values of elements that are not missing.
#[inline(always)]
fn gather(size: usize, src: &[u8], values: &mut Vec<u8>) {
    for element in src.chunks_exact(size + 1).filter(|element| is_there(element) != 0) {
        values.extend_from_slice(element.get(..size).unwrap_or_default());
    }
}

/// Builds the elements: each element that `valid` marks gets the next value.
#[inline(always)]
fn merge(size: usize, valid: &[u8], values: &[u8], dst: &mut [u8]) {
    let mut values = values.chunks_exact(size);
    for (element, valid) in dst.chunks_exact_mut(size + 1).zip(valid) {
        match (element.split_last_mut(), if *valid == 0 { None } else { values.next() }) {
            (Some((there, value)), Some(from)) => {
                value.copy_from_slice(from);
                *there = 1;
            }
            _ => element.fill(0),
        }
    }
}

impl Codec for Optional {
    fn name(&self) -> &'static str {
        NAME
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch) -> Result<usize> {
        // Taken out of the scratch while in use, so that the codecs can use the rest of it.
        let mut buffers = std::mem::take(&mut scratch.optional);
        let done = self.decode_with(&mut buffers, src, dst, scratch);
        scratch.optional = buffers;
        done
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, scratch: &mut Scratch) -> Result<()> {
        let mut buffers = std::mem::take(&mut scratch.optional);
        let done = self.encode_with(&mut buffers, src, dst, scratch);
        scratch.optional = buffers;
        done
    }

    fn max_encoded(&self, _decoded: usize) -> usize {
        let (mask, values) = (self.mask.chain.max_encoded(), self.values.chain.max_encoded());
        HEADER.saturating_add(mask).saturating_add(values)
    }

    fn runs_in(&self) -> Option<&'static str> {
        let codecs = [self.mask.chain.codecs(), self.values.chain.codecs()];
        codecs.into_iter().flatten().find_map(|codec| codec.runs_in())
    }

    fn to_v3(&self) -> Option<Value> {
        let configuration = json!({"mask_codecs": self.mask.json, "data_codecs": self.values.json});
        Some(json!({"name": NAME, "configuration": configuration}))
    }
}

impl ArrayToBytes for Optional {
    fn takes_optional(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, decode, encode, noise};
    use proptest::prelude::*;

    fn made(numpy: &str, shape: &[u64], mask: Value, data: Value) -> Result<Arc<dyn Codec>> {
        let array = Context::of_optional(numpy.parse().unwrap()).unwrap();
        let array = Context { shape: shape.to_vec().into(), ..array };
        let fields = json!({"mask_codecs": mask, "data_codecs": data});
        Ok(CODECS.from_v3(NAME, Some(&fields), &array)?.codec())
    }

    fn little() -> Value {
        json!([{"name": "bytes", "configuration": {"endian": "little"}}])
    }

    /// Elements of `size` bytes, present where `valid` says so.
    fn elements(size: usize, count: usize, valid: impl Fn(usize) -> bool) -> Vec<u8> {
        let values = noise(size * count, 7);
        let element = |(at, value): (usize, &[u8])| match valid(at) {
            true => [value, &[1]].concat(),
            false => vec![0; size + 1],
        };
        values.chunks(size).enumerate().flat_map(element).collect()
    }

    /// zarrs 0.23.13's bytes for `[[1, None, 3], [4, None, 6]]`, and for nothing but `None`.
    #[test]
    fn bytes_of_zarrs() {
        let codec = made("<i4", &[2, 3], json!(["packbits"]), little()).unwrap();
        let stored = b"\x01\0\0\0\0\0\0\0\x10\0\0\0\0\0\0\0\x2d\x01\0\0\0\x03\0\0\0\x04\0\0\0\x06\0\0\0";
        let of = |value: u8| if value == 0 { [0; 5] } else { [value, 0, 0, 0, 1] };
        let chunk = [1, 0, 3, 4, 0, 6].map(of).concat();
        assert_eq!(encode(codec.as_ref(), &chunk), stored);
        assert_eq!(decode(codec.as_ref(), stored, 30).unwrap(), chunk);
        let nothing = b"\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
        assert_eq!(encode(codec.as_ref(), &[0; 30]), nothing);
        assert_eq!(decode(codec.as_ref(), nothing, 30).unwrap(), [0; 30]);
    }

    #[test]
    fn configuration() {
        let array = Context::of_optional("<i4".parse().unwrap()).unwrap();
        let of = |json: &Value| Optional::new(Config::V3(Some(json)), &array);
        testing::refuses(
            r#"{} [] {"mask_codecs": ["packbits"]} {"mask_codecs": ["packbits"], "data_codecs": []} {"codecs": ["packbits"]}
               {"mask_codecs": ["packbits"], "data_codecs": [3]} {"mask_codecs": ["crc32c"], "data_codecs": ["packbits"]}
               {"mask_codecs": ["packbits", "packbits"], "data_codecs": ["packbits"]}
               {"mask_codecs": ["vlen-utf8"], "data_codecs": ["packbits"]}
               {"mask_codecs": ["packbits"], "data_codecs": ["packbits", {"name": "transpose", "configuration": {"order": [0]}}]}
               {"mask_codecs": ["packbits"], "data_codecs": [{"name": "packbits", "x": 1}]}"#,
            of,
        );
        let sharding = of(&json!({"mask_codecs": ["packbits"], "data_codecs": ["sharding_indexed"]}));
        assert!(matches!(sharding, Err(CodecError::Unknown { .. })));
        let itself = json!({"name": NAME, "configuration": {"mask_codecs": ["packbits"], "data_codecs": ["packbits"]}});
        let nested = of(&json!({"mask_codecs": ["packbits"], "data_codecs": [itself]}));
        assert!(nested.unwrap_err().to_string().contains("expected elements that may be missing, found <i4"));
        let many = json!({"mask_codecs": ["packbits"], "data_codecs": vec!["packbits"; MOST_CODECS + 1]});
        assert!(of(&many).unwrap_err().to_string().contains("at most"));
        let plain = Context::of_elements("<i4".parse().unwrap());
        let fields = json!({"mask_codecs": ["packbits"], "data_codecs": ["packbits"]});
        assert!(CODECS.from_v3("optional", Some(&fields), &plain).is_err());
        // Other codecs do not know that elements may be missing.
        for name in ["bytes", "packbits", "numcodecs.delta", "cast_value", "numcodecs.pcodec"] {
            let message = CODECS.from_v3(name, None, &array).unwrap_err().to_string();
            assert!(message.contains("put it in \"data_codecs\""), "{message}");
        }
    }

    #[test]
    fn damage() {
        let codec = made("<i2", &[9], json!(["bytes"]), little()).unwrap();
        let whole = encode(codec.as_ref(), &elements(2, 9, |at| at % 2 == 0));
        assert_eq!(whole.len(), 16 + 9 + 10);
        let with = |at: usize, byte: u8| {
            let mut bytes = whole.clone();
            bytes[at] = byte;
            decode(codec.as_ref(), &bytes, 27)
        };
        assert!(with(16, 1).is_ok());
        // Sizes that overflow, fewer or more values than in the mask, a mask of another size.
        for (at, byte) in [(0, 8), (7, 0xff), (8, 11), (15, 0xff), (16, 0), (17, 1)] {
            assert!(
                matches!(with(at, byte), Err(CodecError::Corrupt { .. } | CodecError::Size { .. })),
                "{at}"
            );
        }
        let both = [&[0xff; 16][..], &whole[16..]].concat();
        let long = [&whole[..], &[0]].concat();
        let shifted = [&[8, 0, 0, 0, 0, 0, 0, 0, 11][..], &whole[9..]].concat();
        let idle = [&[9, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0][..], &[0; 9], &[5; 10]].concat();
        for bad in [&both[..], &long, &shifted, &idle, &whole[..15], &[]] {
            assert!(decode(codec.as_ref(), bad, 27).is_err());
        }
        assert!(matches!(decode(codec.as_ref(), &whole, 26), Err(CodecError::Size { .. })));
        assert!(codec.encode(&[0; 26], &mut Vec::new(), &mut Scratch::default()).is_err());
    }

    /// Bools stored as bytes other than 0 and 1 are true, as in zarrs.
    #[test]
    fn masks_of_other_bytes() {
        let codec = made("|u1", &[2], json!(["bytes"]), json!(["bytes"])).unwrap();
        let stored = [2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 7, 42];
        assert_eq!(decode(codec.as_ref(), &stored, 4).unwrap(), [0, 0, 42, 1]);
        // A missing element has no value, whatever its bytes in memory.
        assert_eq!(encode(codec.as_ref(), &[99, 0, 42, 1])[16..], [0, 1, 42]);
    }

    proptest! {
        #[test]
        fn round_trips(
            numpy in prop::sample::select(vec!["|b1", "<i2", ">i4", "<f8", "<c16", "|S3", "<U2", "<M8[s]"]),
            shape in proptest::collection::vec(1u64..6, 0..4),
            chance in 0usize..5,
            seed in any::<u64>(),
        ) {
            let size = numpy.parse::<DataType>().unwrap().size();
            let count = shape.iter().product::<u64>() as usize;
            let order: Vec<usize> = (0..shape.len()).rev().collect();
            let mask = json!([{"name": "transpose", "configuration": {"order": order}}, "packbits", "crc32c"]);
            let data = json!([{"name": "bytes", "configuration": {"endian": "big"}},
                              {"name": "zstd", "configuration": {"level": 1, "checksum": false}}]);
            let codec = made(numpy, &shape, mask, data).unwrap();
            let picked = noise(count, seed);
            let chunk = elements(size, count, |at| (picked[at] as usize % 4) < chance);
            let stored = encode(codec.as_ref(), &chunk);
            prop_assert!(stored.len() <= codec.max_encoded(chunk.len()));
            prop_assert_eq!(decode(codec.as_ref(), &stored, chunk.len()).unwrap(), chunk);
        }
    }
}
