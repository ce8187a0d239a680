//! `packbits`: elements in only the bits that their type has, or in some of these bits.
//!
//! * Specification: <https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/packbits>
//! * v3 name: `packbits`; not in v2 (`packbits` there is [another codec](crate::numcodecs::packbools))
//!
//! ```
//! # let json = r#"
//! {"name": "packbits", "configuration": {"padding_encoding": "first_byte", "first_bit": 0, "last_bit": 11}}
//! # "#;
//! # use hyperslab_codec::{Context, registry::CODECS};
//! # let metadata: serde_json::Value = serde_json::from_str(json).unwrap();
//! # let array = Context::of_elements("<u2".parse().unwrap());
//! # let codec = CODECS.from_v3("packbits", metadata.get("configuration"), &array).unwrap().codec();
//! # assert_eq!(codec.to_v3(), Some(metadata));
//! ```
//!
//! As in zarrs, the first element has the lowest bits of the first byte. (numcodecs' codec starts
//! with the highest bits.)

#![expect(clippy::cast_possible_truncation, reason = "the low bits are what is asked for")]

use crate::numbers::low_bits::low8;
use crate::registry::Config;
use crate::scratch::resize_buffer;
use crate::{
    ArrayToBytes, ByteOrder, Codec, CodecError, Context, DataType, Kind, Racing, Result, Scratch, SmallBits,
    front,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The `packbits` codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PackBits {
    fields: Fields,
    dtype: DataType,
    /// Numbers in a chunk: one for each element, two for each complex element.
    count: usize,
    /// The lowest bit of each number that is stored.
    first: u32,
    /// How many bits of each number are stored.
    bits: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    #[serde(default)]
    padding_encoding: Padding,
    first_bit: Option<u32>,
    last_bit: Option<u32>,
}

/// The place of the number of padding bits. Earlier drafts had other names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Padding {
    #[default]
    None,
    #[serde(alias = "start_byte")]
    FirstByte,
    #[serde(alias = "end_byte")]
    LastByte,
}

/// The bits of one number, or `None` if the type cannot be packed.
fn width(dtype: DataType) -> Option<u32> {
    let bytes = u32::try_from(dtype.number_size()).ok()?;
    match dtype.kind() {
        Kind::Bool => Some(1),
        Kind::Int | Kind::UInt | Kind::Float | Kind::Complex => Some(8 * bytes),
        Kind::Small(number) => match number.bits {
            SmallBits::Int(bits) | SmallBits::UInt(bits) => Some(bits),
            // Float types of one byte whose name gives no width: float4 and float6.
            SmallBits::Float(exponent, mantissa, ..) if bytes == 1 => Some((exponent + mantissa + 1).min(8)),
            SmallBits::Float(..) => Some(8 * bytes),
        },
        _ => None,
    }
}

impl PackBits {
    /// Reads v3 metadata, for chunks of `array`.
    pub(crate) fn new(config: Config<'_>, array: &Context<'_>) -> Result<Self> {
        let fields: Fields = config.fields("packbits")?;
        let dtype = array.dtype;
        let unfit = |why: String| CodecError::Unfit { why: format!("\"packbits\": {why}") };
        let Some(width) = width(dtype).filter(|_| array.vlen.is_none()) else {
            return Err(unfit(format!("expected bool, integers, floats or complex numbers, found {dtype}")));
        };
        let (first, last) = (fields.first_bit.unwrap_or(0), fields.last_bit.unwrap_or(width - 1));
        if first > last || last >= width {
            let why = format!(
                "first_bit and last_bit: expected an ascending range in the {width} bits of {dtype}, found \
                 bits {first} to {last}"
            );
            return Err(unfit(why));
        }
        let count = array.decoded_size().unwrap_or(usize::MAX) / dtype.number_size();
        Ok(PackBits { fields, dtype, count, first, bits: last - first + 1 })
    }

    /// The packed size of a chunk in bytes, and the number of padding bits in the last byte.
    fn packed_size(&self) -> (usize, u8) {
        let bits = self.count as u128 * u128::from(self.bits);
        let bytes = usize::try_from(bits.div_ceil(8)).unwrap_or(usize::MAX);
        (bytes, low8(bits.div_ceil(8) as u64 * 8 - bits as u64))
    }

    /// Returns `true` if the highest bit of the number is a sign.
    fn is_signed(&self) -> bool {
        match self.dtype.kind() {
            Kind::Int => true,
            Kind::Small(number) => matches!(number.bits, SmallBits::Int(_)),
            _ => false,
        }
    }

    fn check(&self, size: usize) -> Result<()> {
        match self.count.saturating_mul(self.dtype.number_size()) {
            expected if expected == size => Ok(()),
            expected => Err(CodecError::size("packbits", expected, size)),
        }
    }

    /// The packed bits, without the byte that holds the number of padding bits.
    fn payload<'a>(&self, src: &'a [u8]) -> Result<&'a [u8]> {
        let (size, padding) = self.packed_size();
        let (found, payload) = match (self.fields.padding_encoding, src) {
            (Padding::None, _) => (Some(padding), src),
            (Padding::FirstByte, [found, payload @ ..]) | (Padding::LastByte, [payload @ .., found]) => {
                (Some(*found), payload)
            }
            (_, []) => (None, src),
        };
        match found {
            Some(found) if payload.len() == size && found == padding => Ok(payload),
            Some(found) if payload.len() == size => {
                let why = format!("expected {padding} padding bits, found {found}");
                Err(CodecError::corrupt("packbits", why))
            }
            _ => {
                let why = format!("expected {size} bytes of packed bits, found {}", payload.len());
                Err(CodecError::corrupt("packbits", why))
            }
        }
    }
}

/// Packs eight bools, the first in the lowest byte, into bits, the first in the lowest bit.
fn pack(bools: [u8; 8]) -> u8 {
    let bytes = u64::from_le_bytes(bools);
    let low = (bytes & 0x7f7f_7f7f_7f7f_7f7f) + 0x7f7f_7f7f_7f7f_7f7f;
    let ones = ((low | bytes) >> 7) & 0x0101_0101_0101_0101;
    low8(ones.wrapping_mul(0x0102_0408_1020_4080) >> 56)
}

/// The inverse of [`pack`].
fn unpack(bits: u8) -> [u8; 8] {
    let bytes = (u64::from(bits) * 0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
    let low = (bytes & 0x7f7f_7f7f_7f7f_7f7f) + 0x7f7f_7f7f_7f7f_7f7f;
    (((low | bytes) >> 7) & 0x0101_0101_0101_0101).to_le_bytes()
}

impl Codec for PackBits {
    fn name(&self) -> &'static str {
        "packbits"
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _: &mut Scratch) -> Result<usize> {
        let payload = self.payload(src)?;
        let size = self.dtype.number_size();
        let len = self.count.saturating_mul(size);
        let dst = front("packbits", dst, len)?;
        if self.dtype.kind() == Kind::Bool {
            for (to, from) in dst.chunks_mut(8).zip(payload) {
                to.iter_mut().zip(unpack(*from)).for_each(|(to, bool)| *to = bool);
            }
            return Ok(len);
        }
        let signed = self.is_signed();
        let (mut bytes, mut waiting, mut filled) = (payload.iter(), 0u128, 0);
        for number in dst.chunks_exact_mut(size) {
            while filled < self.bits {
                waiting |= u128::from(bytes.next().copied().unwrap_or(0)) << filled;
                filled += 8;
            }
            // Shifting to the top and back copies the sign bit down.
            let top = (waiting as u64) << (64 - self.bits);
            let value = if signed {
                (top.cast_signed() >> (64 - self.bits)).cast_unsigned()
            } else {
                top >> (64 - self.bits)
            };
            waiting >>= self.bits;
            filled -= self.bits;
            let value = (value << self.first).to_le_bytes();
            number.iter_mut().zip(value).for_each(|(to, from)| *to = from);
            if self.dtype.order() == ByteOrder::Big {
                number.reverse();
            }
        }
        Ok(len)
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _: &mut Scratch) -> Result<()> {
        self.check(src.len())?;
        let (size, padding) = self.packed_size();
        let stored = self.max_encoded(src.len());
        dst.truncate(stored);
        let whole = resize_buffer(dst, stored, "packbits")?;
        let packed = match (self.fields.padding_encoding, whole) {
            (Padding::FirstByte, [at, packed @ ..]) | (Padding::LastByte, [packed @ .., at]) => {
                *at = padding;
                packed
            }
            (_, whole) => whole,
        };
        debug_assert_eq!(packed.len(), size);
        if self.dtype.kind() == Kind::Bool {
            for (to, from) in packed.iter_mut().zip(src.chunks(8)) {
                let mut bools = [0; 8];
                bools.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
                *to = pack(bools);
            }
            return Ok(());
        }
        let (mut packed, mut waiting, mut filled) = (packed.iter_mut(), 0u128, 0);
        for number in src.chunks_exact(self.dtype.number_size()) {
            let mut value = [0; 8];
            match self.dtype.order() {
                ByteOrder::Little => value.iter_mut().zip(number).for_each(|(to, from)| *to = *from),
                ByteOrder::Big => {
                    value.iter_mut().zip(number.iter().rev()).for_each(|(to, from)| *to = *from)
                }
            }
            let value = u64::from_le_bytes(value) >> self.first & u64::MAX >> (64 - self.bits);
            waiting |= u128::from(value) << filled;
            filled += self.bits;
            while filled >= 8 {
                if let Some(to) = packed.next() {
                    *to = low8(waiting as u64);
                }
                waiting >>= 8;
                filled -= 8;
            }
        }
        if let Some(to) = packed.next() {
            *to = low8(waiting as u64);
        }
        Ok(())
    }

    fn racing(&self) -> Racing {
        Racing::Mixes
    }

    fn max_encoded(&self, _: usize) -> usize {
        self.packed_size().0.saturating_add(usize::from(self.fields.padding_encoding != Padding::None))
    }

    fn to_v3(&self) -> Option<Value> {
        let mut configuration = Map::new();
        configuration.insert("padding_encoding".into(), json!(self.fields.padding_encoding));
        for (name, bit) in [("first_bit", self.fields.first_bit), ("last_bit", self.fields.last_bit)] {
            if let Some(bit) = bit {
                configuration.insert(name.into(), bit.into());
            }
        }
        Some(json!({"name": "packbits", "configuration": configuration}))
    }
}

impl ArrayToBytes for PackBits {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{decode, encode, noise};

    fn codec(configuration: Value, numpy: &str, count: u64) -> Result<PackBits> {
        let array = Context { shape: vec![count].into(), ..Context::of_elements(numpy.parse().unwrap()) };
        PackBits::new(Config::V3(Some(&configuration)), &array)
    }

    /// Stored by zarrs.
    #[test]
    fn known_bytes() {
        let bools = [1, 0, 0, 0, 0, 0, 0, 0, 1, 1];
        for (padding, stored) in [
            ("none", &[1, 3][..]),
            ("first_byte", &[6, 1, 3]),
            ("start_byte", &[6, 1, 3]),
            ("last_byte", &[1, 3, 6]),
        ] {
            let codec = codec(json!({"padding_encoding": padding}), "|b1", 10).unwrap();
            assert_eq!(encode(&codec, &bools), stored);
            assert_eq!(decode(&codec, stored, 10).unwrap(), bools);
            for bad in [&stored[1..], &stored[..stored.len() - 1], &[], &[stored, &[0]].concat()] {
                assert!(decode(&codec, bad, 10).is_err());
            }
            if padding != "none" {
                let flipped: Vec<u8> = stored.iter().map(|byte| byte ^ 4).collect();
                assert!(decode(&codec, &flipped, 10).is_err());
            }
        }
        let some = json!({"first_bit": 4, "last_bit": 9});
        let numbers: Vec<u8> = [0x123i16, 0x456, -1].iter().flat_map(|n| n.to_le_bytes()).collect();
        for (numpy, decoded) in [("<u2", [288u16, 80, 1008]), ("<i2", [288, 80, 65520])] {
            let codec = codec(some.clone(), numpy, 3).unwrap();
            assert_eq!(encode(&codec, &numbers), b"R\xf1\x03");
            let decoded: Vec<u8> = decoded.iter().flat_map(|n| n.to_le_bytes()).collect();
            assert_eq!(decode(&codec, b"R\xf1\x03", 6).unwrap(), decoded);
        }
    }

    #[test]
    fn round_trips() {
        for numpy in
            ["|b1", "|i1", "<u2", ">i2", "<i4", ">f4", "<u8", "<f8", ">c8", "<c16", "bfloat16", "int4"]
        {
            let dtype: DataType = numpy.parse().unwrap();
            for count in [0, 1, 3, 8, 100] {
                let codec = codec(json!({}), numpy, count).unwrap();
                let mut data = noise(dtype.size() * count as usize, count);
                match numpy {
                    "|b1" => data.iter_mut().for_each(|byte| *byte &= 1),
                    "int4" => data
                        .iter_mut()
                        .for_each(|byte| *byte = ((*byte << 4).cast_signed() >> 4).cast_unsigned()),
                    _ => {}
                }
                let stored = encode(&codec, &data);
                assert_eq!(stored.len(), codec.max_encoded(data.len()));
                assert_eq!(decode(&codec, &stored, data.len()).unwrap(), data, "{numpy}");
                let dtype = dtype.with_order(ByteOrder::Little);
                if dtype.number_size() > 1 && numpy.starts_with('<') {
                    assert_eq!(stored, data);
                }
                assert!(
                    codec
                        .encode(&[&data[..], &[0]].concat(), &mut Vec::new(), &mut Scratch::default())
                        .is_err()
                );
            }
        }
    }

    #[test]
    fn what_does_not_fit() {
        for (configuration, numpy, why) in [
            (json!({"first_bit": 9, "last_bit": 4}), "<u2", "bits 9 to 4"),
            (
                json!({"last_bit": 16}),
                "<u2",
                "expected an ascending range in the 16 bits of <u2, found bits 0 to 16",
            ),
            (json!({"first_bit": 4}), "int4", "bits 4 to 3"),
            (json!({}), "|S3", "found |S3"),
        ] {
            let message = codec(configuration, numpy, 3).unwrap_err().to_string();
            assert!(message.contains(why), "{message}");
        }
        for bad in [json!({"padding_encoding": "middle"}), json!({"first_bit": -1}), json!({"x": 1})] {
            assert!(matches!(codec(bad, "<u2", 3), Err(CodecError::Config { .. })));
        }
    }
}
