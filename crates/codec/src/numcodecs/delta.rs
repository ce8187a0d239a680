//! `delta` of numcodecs: the difference of each element from the one before it.
//!
//! * Specification: <https://numcodecs.readthedocs.io/en/stable/filter/delta.html>
//! * v2 id: `delta`; v3 name: `numcodecs.delta`
//!
//! ```
//! # let json = r#"
//! {"id": "delta", "dtype": "<i4", "astype": "<i2"}
//! # "#;
//! # use hyperslab_codec::{Context, registry::CODECS};
//! # let metadata: serde_json::Value = serde_json::from_str(json).unwrap();
//! # let array = Context::of_elements("<i4".parse().unwrap());
//! # assert_eq!(CODECS.from_v2(&metadata, &array).unwrap().codec().to_v2(), Some(metadata));
//! ```
//!
//! Elements are taken in the order in which they are stored. Differences are computed in `dtype`,
//! where integers wrap, and stored as `astype`, where they may lose bits. Differences of bools are
//! exclusive ors, as numcodecs writes them. (numcodecs reads them as ors, and so returns other
//! values.)

use crate::numbers::half::Half;
use crate::numbers::number::{Bool, Number, NumberType, with_number};
use crate::numbers::prefix_sums::prefix_sums;
use crate::numcodecs::elements::{Elements, dtype};
use crate::registry::{Config, numcodecs_v3};
use crate::{ArrayToArray, ByteOrder, Codec, Context, Racing, Result, Scratch, front};
use serde::Deserialize;
use serde_json::{Value, json};

/// The `delta` filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delta {
    elements: Elements,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    dtype: Option<String>,
    astype: Option<String>,
}

impl Delta {
    /// Reads metadata. Without `dtype`, elements have the array's type; without `astype`,
    /// differences have the elements' type.
    pub(crate) fn new(config: Config<'_>, array: &Context<'_>) -> Result<Self> {
        let fields: Fields = config.fields("delta")?;
        let decoded = dtype("delta", "dtype", fields.dtype.as_deref(), array)?;
        let encoded = match fields.astype {
            Some(name) => dtype("delta", "astype", Some(&name), array)?,
            None => decoded,
        };
        Ok(Delta { elements: Elements::new("delta", decoded, encoded, array)? })
    }

    /// Returns `true` if differences are stored as they are computed, without conversion.
    fn is_plain(&self) -> bool {
        self.elements.from == self.elements.to && self.elements.from.order == ByteOrder::NATIVE
    }
}

/// The type that sums are computed in. For floats it is NumPy's type for the sum of both types.
/// Integers may use any type: the low bits are the same.
fn sum_type(elements: &Elements) -> NumberType {
    use NumberType::{F16, F32, F64};
    let (decoded, encoded) = (elements.from(), elements.to());
    match (decoded, encoded.is_float(), encoded.size()) {
        (F16, true, 2) | (F16, false, 1) => F16,
        (F16 | F32, true, 2 | 4) | (F16 | F32, false, 1 | 2) => F32,
        (F16 | F32 | F64, ..) => F64,
        _ => decoded,
    }
}

/// Numbers whose differences and sums are numbers again.
trait Summed: Number {
    /// The number that the first element's difference is taken from.
    const NOTHING: Self;
    /// The start value of sums.
    const START: Self;
    fn subtract(self, last: Self) -> Self;
    fn plus(self, difference: Self) -> Self;
}

macro_rules! summed {
    ($($type:ident: $nothing:expr, $start:expr, $less:expr, $plus:expr;)*) => {$(
        impl Summed for $type {
            const NOTHING: Self = $nothing;
            const START: Self = $start;

            #[inline(always)]
            fn subtract(self, last: Self) -> Self {
                $less(self, last)
            }

            #[inline(always)]
            fn plus(self, difference: Self) -> Self {
                $plus(self, difference)
            }
        }
    )*};
}

// -0.0 plus any number is that number.
summed! {
    Bool: Bool(0), Bool(0), xor, xor;
    i8: 0, 0, i8::wrapping_sub, i8::wrapping_add;
    u8: 0, 0, u8::wrapping_sub, u8::wrapping_add;
    i16: 0, 0, i16::wrapping_sub, i16::wrapping_add;
    u16: 0, 0, u16::wrapping_sub, u16::wrapping_add;
    i32: 0, 0, i32::wrapping_sub, i32::wrapping_add;
    u32: 0, 0, u32::wrapping_sub, u32::wrapping_add;
    i64: 0, 0, i64::wrapping_sub, i64::wrapping_add;
    u64: 0, 0, u64::wrapping_sub, u64::wrapping_add;
    f32: 0.0, -0.0, |a: f32, b: f32| a - b, |a: f32, b: f32| a + b;
    f64: 0.0, -0.0, |a: f64, b: f64| a - b, |a: f64, b: f64| a + b;
    Half: Half(0), Half(0x8000), |a: Half, b: Half| Half::from_f32(a.to_f32() - b.to_f32()),
        |a: Half, b: Half| Half::from_f32(a.to_f32() + b.to_f32());
}

fn xor(a: Bool, b: Bool) -> Bool {
    Bool(u8::from((a.0 != 0) != (b.0 != 0)))
}

/// Replaces the numbers of the next block by their differences. `last` holds the numbers of the
/// element before it.
#[inline(always)]
fn differences<T: Summed, const PARTS: usize>(block: &mut [u8], last: &mut [T; PARTS]) {
    for element in T::split_mut(block).as_chunks_mut::<PARTS>().0 {
        for (bytes, last) in element.iter_mut().zip(&mut *last) {
            let value = T::read(*bytes);
            *bytes = value.subtract(*last).bytes();
            *last = value;
        }
    }
}

/// The inverse of [`differences`].
#[inline(always)]
fn sums<T: Summed, const PARTS: usize>(block: &mut [u8], last: &mut [T; PARTS]) {
    for element in T::split_mut(block).as_chunks_mut::<PARTS>().0 {
        for (bytes, last) in element.iter_mut().zip(&mut *last) {
            *last = last.plus(T::read(*bytes));
            *bytes = last.bytes();
        }
    }
}

/// Computes the differences of numbers that are stored as computed. Each number is read once, into
/// a block that fits in the L1 cache: if another thread changes a number meanwhile, the other
/// numbers stay right.
fn plain_differences<T: Summed, const PARTS: usize>(src: &[u8], dst: &mut [u8]) {
    const BLOCK: usize = 4096;
    let (mut block, mut last) = ([0; BLOCK], [T::NOTHING; PARTS]);
    for (src, dst) in src.chunks(BLOCK).zip(dst.chunks_mut(BLOCK)) {
        let Some(block) = block.get_mut(..src.len()) else { return };
        block.copy_from_slice(src);
        let (numbers, dst) = (T::split(block), T::split_mut(dst));
        let Some((first, rest)) = dst.split_at_mut_checked(PARTS) else { return };
        for ((dst, value), last) in first.iter_mut().zip(numbers).zip(last) {
            *dst = T::read(*value).subtract(last).bytes();
        }
        let next = numbers.iter().skip(PARTS);
        for ((dst, value), before) in rest.iter_mut().zip(next).zip(numbers) {
            *dst = T::read(*value).subtract(T::read(*before)).bytes();
        }
        for (last, value) in last.iter_mut().rev().zip(numbers.iter().rev()) {
            *last = T::read(*value);
        }
    }
}

/// Computes the sums of integers that are stored as computed.
fn plain_sums<T: Summed, const SIZE: usize>(src: &[u8], dst: &mut [u8]) {
    let (mut last, done) = ([T::START], prefix_sums::<SIZE>(src, dst));
    let (_, src) = src.split_at(done);
    let (sums_so_far, dst) = dst.split_at_mut(done);
    if let Some(bytes) = T::split(sums_so_far).last() {
        last = [T::read(*bytes)];
    }
    dst.copy_from_slice(src);
    sums(dst, &mut last);
}

impl Codec for Delta {
    fn name(&self) -> &'static str {
        "delta"
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _: &mut Scratch) -> Result<usize> {
        let (elements, within) = (self.elements, sum_type(&self.elements));
        if self.is_plain() && elements.parts() == 1 {
            use NumberType::{I8, I16, I32, I64, U8, U16, U32, U64};
            let plain = match within {
                I8 | U8 => Some(plain_sums::<u8, 1> as fn(&[u8], &mut [u8])),
                I16 | U16 => Some(plain_sums::<u16, 2> as _),
                I32 | U32 => Some(plain_sums::<u32, 4> as _),
                I64 | U64 => Some(plain_sums::<u64, 8> as _),
                _ => None,
            };
            if let Some(plain) = plain {
                let size = elements.decoded_size("delta", src.len())?;
                plain(src, front("delta", dst, size)?);
                return Ok(size);
            }
        }
        macro_rules! decode {
            ($type:ident) => {
                if elements.parts() == 1 {
                    let mut last = [$type::START];
                    elements.decode("delta", src, dst, within, |block| sums(block, &mut last))
                } else {
                    let mut last = [$type::START; 2];
                    elements.decode("delta", src, dst, within, |block| sums(block, &mut last))
                }
            };
        }
        with_number!(within, decode)
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _: &mut Scratch) -> Result<()> {
        let (elements, within) = (self.elements, self.elements.from());
        if self.is_plain() {
            let dst = elements.room("delta", src, dst)?;
            macro_rules! plain {
                ($type:ident) => {
                    match elements.parts() {
                        1 => plain_differences::<$type, 1>(src, dst),
                        _ => plain_differences::<$type, 2>(src, dst),
                    }
                };
            }
            with_number!(within, plain);
            return Ok(());
        }
        macro_rules! encode {
            ($type:ident) => {
                if elements.parts() == 1 {
                    let mut last = [$type::NOTHING];
                    elements.encode("delta", src, dst, within, |block| differences(block, &mut last))
                } else {
                    let mut last = [$type::NOTHING; 2];
                    elements.encode("delta", src, dst, within, |block| differences(block, &mut last))
                }
            };
        }
        with_number!(within, encode)
    }

    fn racing(&self) -> Racing {
        Racing::Mixes
    }

    fn max_encoded(&self, decoded: usize) -> usize {
        self.elements.max_encoded(decoded)
    }

    fn to_v3(&self) -> Option<Value> {
        numcodecs_v3(self.to_v2()?)
    }

    fn to_v2(&self) -> Option<Value> {
        let Elements { decoded, encoded, .. } = self.elements;
        Some(json!({"id": "delta", "dtype": decoded.numpy(), "astype": encoded.numpy()}))
    }
}

impl ArrayToArray for Delta {
    fn encoded<'a>(&self, array: &Context<'a>) -> Context<'a> {
        self.elements.context(self, array)
    }
}
