//! `bitround`: floats and integers rounded to some of their bits, so that they compress better.
//!
//! * Specification: <https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/bitround>,
//!   <https://numcodecs.readthedocs.io/en/stable/filter/bitround.html>
//! * v2 id: `bitround`; v3 names: `bitround`, `numcodecs.bitround`
//!
//! ```
//! # let json = r#"
//! {"id": "bitround", "keepbits": 10}
//! # "#;
//! # use hyperslab_codec::{Context, registry::CODECS};
//! # let metadata: serde_json::Value = serde_json::from_str(json).unwrap();
//! # let array = Context::of_elements("<f4".parse().unwrap());
//! # assert_eq!(CODECS.from_v2(&metadata, &array).unwrap().codec().to_v2(), Some(metadata));
//! ```
//!
//! For floats, `keepbits` counts bits of the mantissa. For integers, it counts from the highest set
//! bit. Decoding changes nothing. NaNs stay NaNs (numcodecs turns some into numbers), and no
//! positive integer becomes negative.

use crate::numbers::number::{NumberType, Numbers, each_block, map};
use crate::registry::{Config, numcodecs_v3};
use crate::scratch::resize_buffer;
use crate::{
    ArrayToArray, Codec, CodecError, Context, DataType, Kind, Racing, Result, Scratch, SmallBits, copy_front,
};
use serde::Deserialize;
use serde_json::{Value, json};

/// The `bitround` codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BitRound {
    keepbits: u32,
    /// `true` if metadata uses numcodecs' name for the codec.
    of_numcodecs: bool,
    dtype: DataType,
    bits: Bits,
}

/// Which bits of a number are rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bits {
    /// A mantissa of this many bits.
    Mantissa(u32),
    Unsigned,
    Signed,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    keepbits: u32,
}

impl BitRound {
    /// Reads metadata. numcodecs refuses to keep more bits than there are. For the `bitround` of
    /// zarr-extensions, keeping more bits means that nothing is rounded.
    pub(crate) fn new(config: Config<'_>, array: &Context<'_>) -> Result<Self> {
        let Fields { keepbits } = config.fields("bitround")?;
        let of_numcodecs = matches!(config, Config::V2(_));
        let dtype = array.dtype;
        let unfit = |why: String| CodecError::Unfit { why: format!("\"bitround\": {why}") };
        let bits = match (dtype.kind(), dtype.number_size()) {
            (Kind::Float | Kind::Complex, 2) => Bits::Mantissa(10),
            (Kind::Float | Kind::Complex, 4) => Bits::Mantissa(23),
            (Kind::Float | Kind::Complex, _) => Bits::Mantissa(52),
            (Kind::Small(number), 2) => match number.bits {
                SmallBits::Float(_, mantissa, ..) => Bits::Mantissa(mantissa),
                _ => return Err(unfit(format!("expected integers or floats, found {dtype}"))),
            },
            (Kind::UInt, _) => Bits::Unsigned,
            (Kind::Int | Kind::DateTime(_) | Kind::TimeDelta(_), _) => Bits::Signed,
            _ => return Err(unfit(format!("expected integers or floats, found {dtype}"))),
        };
        match bits {
            Bits::Mantissa(most) if of_numcodecs && keepbits > most => Err(unfit(format!(
                "keepbits: expected at most {most} for elements of type {dtype}, found {keepbits}"
            ))),
            Bits::Signed | Bits::Unsigned if keepbits == 0 => {
                Err(CodecError::config("bitround", "keepbits: expected 1 or more for integers, found 0"))
            }
            _ => Ok(BitRound { keepbits, of_numcodecs, dtype, bits }),
        }
    }
}

/// Rounds numbers as unsigned integers of the same size.
macro_rules! rounds {
    ($name:ident, $type:ident) => {
        /// Rounds each number of a block.
        #[inline(always)]
        fn $name(block: &mut [u8], keepbits: u32, bits: Bits) {
            const SIGN: $type = 1 << ($type::BITS - 1);
            /// The nearest multiple of a power of two; ties go to the even multiple.
            #[inline(always)]
            fn round_to_multiple(value: $type, dropped: u32) -> $type {
                let half = (1 << (dropped - 1)) - 1;
                value.wrapping_add(half + (value >> dropped & 1)) & ($type::MAX << dropped)
            }
            match bits {
                Bits::Mantissa(mantissa) if keepbits < mantissa => {
                    let (dropped, infinity) = (mantissa - keepbits, SIGN - (1 << mantissa));
                    let quiet = 1 << (mantissa - 1);
                    map(block, |value: $type| {
                        let nan = value & ($type::MAX << dropped) | quiet;
                        if value & !SIGN > infinity { nan } else { round_to_multiple(value, dropped) }
                    });
                }
                Bits::Mantissa(_) => {}
                Bits::Unsigned | Bits::Signed => map(block, |value: $type| {
                    let used = $type::BITS - value.leading_zeros();
                    if used <= keepbits {
                        return value;
                    }
                    let (dropped, rounded) = (used - keepbits, round_to_multiple(value, used - keepbits));
                    let fits = match bits {
                        Bits::Signed => rounded & SIGN == value & SIGN,
                        _ => rounded >= value >> dropped << dropped,
                    };
                    if fits { rounded } else { value >> dropped << dropped }
                }),
            }
        }
    };
}

rounds!(round8, u8);
rounds!(round16, u16);
rounds!(round32, u32);
rounds!(round64, u64);

impl Codec for BitRound {
    fn name(&self) -> &'static str {
        "bitround"
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _: &mut Scratch) -> Result<usize> {
        copy_front("bitround", src, dst)
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _: &mut Scratch) -> Result<()> {
        dst.truncate(src.len());
        let dst = resize_buffer(dst, src.len(), "bitround")?;
        let of = |kind| Numbers { kind, order: self.dtype.order(), parts: 1 };
        let (keepbits, bits) = (self.keepbits, self.bits);
        match self.dtype.number_size() {
            1 => {
                let bytes = of(NumberType::U8);
                each_block((src, bytes), (dst, bytes), bytes.kind, |block| round8(block, keepbits, bits));
            }
            2 => {
                let halves = of(NumberType::U16);
                each_block((src, halves), (dst, halves), halves.kind, |block| round16(block, keepbits, bits));
            }
            4 => {
                let words = of(NumberType::U32);
                each_block((src, words), (dst, words), words.kind, |block| round32(block, keepbits, bits));
            }
            _ => {
                let words = of(NumberType::U64);
                each_block((src, words), (dst, words), words.kind, |block| round64(block, keepbits, bits));
            }
        }
        Ok(())
    }

    fn racing(&self) -> Racing {
        Racing::Mixes
    }

    fn max_encoded(&self, decoded: usize) -> usize {
        decoded
    }

    fn only_rounds(&self) -> bool {
        true
    }

    /// The stored bytes are the elements.
    fn unframe<'a>(&self, src: &'a [u8], _: bool) -> Option<Result<&'a [u8]>> {
        Some(Ok(src))
    }

    fn to_v3(&self) -> Option<Value> {
        if self.of_numcodecs {
            return numcodecs_v3(self.to_v2()?);
        }
        Some(json!({"name": "bitround", "configuration": {"keepbits": self.keepbits}}))
    }

    fn to_v2(&self) -> Option<Value> {
        Some(json!({"id": "bitround", "keepbits": self.keepbits}))
    }
}

impl ArrayToArray for BitRound {}
