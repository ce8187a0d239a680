//! `json2` and `msgpack2` of numcodecs for elements of one size: numbers and text.
//!
//! They are stored as JSON or MessagePack. For objects see [`crate::objects::vlen`].
//!
//! numcodecs encodes any array this way, but only arrays of objects need it. The chunk looks like a
//! chunk of objects, with another element type after the elements.
//!
//! ```
//! # let json = r#"
//! {"id": "msgpack2", "raw": false, "use_single_float": false, "use_bin_type": true}
//! # "#;
//! # use hyperslab_codec::{Context, registry::CODECS};
//! # let metadata: serde_json::Value = serde_json::from_str(json).unwrap();
//! # let array = Context::of_elements("<i4".parse().unwrap());
//! # assert_eq!(CODECS.from_v2(&metadata, &array).unwrap().codec().to_v2(), Some(metadata));
//! ```

use crate::numbers::half::Half;
use crate::numbers::low_bits::{low16, low32};
use crate::objects::json2::{self, Json2};
use crate::objects::msgpack2::MsgPack2;
use crate::objects::{Objects, element_of};
use crate::registry::Config;
use crate::scalar::{Scalar, Spelling};
use crate::{
    ArrayToBytes, ByteOrder, Codec, CodecError, Context, DataType, Kind, Result, Scratch, chain, front,
};
use serde_json::Value;
use std::sync::Arc;

/// More text bytes, with white space, than one byte of an element can need.
const MOST_PER_BYTE: usize = 256;

/// The codec for elements of one size.
#[derive(Clone, Debug)]
pub(crate) struct PlainObjects {
    objects: Arc<dyn Objects>,
    spelling: Spelling,
    dtype: DataType,
}

impl PlainObjects {
    /// Reads Zarr v2 metadata.
    pub(crate) fn new(config: Config<'_>, array: &Context<'_>) -> Result<Self> {
        let Config::V2(object) = config else {
            return Err(CodecError::config(json2::NAME, "this codec exists in Zarr v2 only"));
        };
        let id = object.get("id").and_then(Value::as_str).unwrap_or_default();
        let unfit = |why: String| CodecError::Unfit { why: format!("{id:?}: {why}") };
        let dtype = array.dtype;
        if !matches!(dtype.kind(), Kind::Bool | Kind::Int | Kind::UInt | Kind::Float | Kind::Text) {
            return Err(unfit(format!("expected objects, bool, integers, floats or text, found {dtype}")));
        }
        // In the text the last axis is the fastest, whatever the order of the array.
        if array.fortran && array.shape.iter().filter(|len| **len != 1).count() > 1 {
            return Err(unfit(format!("elements of type {dtype} are supported in \"order\": \"C\" only")));
        }
        let (objects, spelling): (Arc<dyn Objects>, _) = match id {
            json2::NAME | json2::OLD_NAME => {
                let json = Json2::new(config, array)?;
                let spelling = json.spelling();
                (Arc::new(json), spelling)
            }
            _ => {
                let msgpack = MsgPack2::new(config, array)?;
                let spelling = msgpack.spelling();
                (Arc::new(msgpack), spelling)
            }
        };
        Ok(PlainObjects { objects, spelling, dtype })
    }

    /// Writes a value as an element.
    fn put(&self, value: Scalar, to: &mut [u8]) -> Result<(), String> {
        let bytes = |number: i128| number.to_le_bytes();
        let size = to.len();
        let unfit = |value: &Scalar| format!("expected a value of type {}, found {value}", self.dtype);
        match (self.dtype.kind(), value) {
            (Kind::Bool, Scalar::Bool(value)) => to.fill(value.into()),
            (Kind::Int | Kind::UInt, Scalar::Integer(number)) => {
                let bits = 8 * size;
                let least = if self.dtype.kind() == Kind::Int { -(1i128 << (bits - 1)) } else { 0 };
                if number < least || number >= least + (1 << bits) {
                    return Err(unfit(&Scalar::Integer(number)));
                }
                to.copy_from_slice(bytes(number).get(..size).unwrap_or_default());
            }
            (Kind::Float, Scalar::Float(number)) => self.put_float(number, to),
            #[expect(clippy::cast_precision_loss, reason = "as Python does")]
            (Kind::Float, Scalar::Integer(number)) => self.put_float(number as f64, to),
            (Kind::Text, Scalar::Text(text)) => {
                let mut places = to.as_chunks_mut::<4>().0.iter_mut();
                for char in text.chars() {
                    let place = places.next().ok_or_else(|| unfit(&Scalar::Text(text.clone())))?;
                    *place = u32::from(char).to_le_bytes();
                }
                places.for_each(|place| *place = [0; 4]);
            }
            (_, value) => return Err(unfit(&value)),
        }
        self.swap(to);
        Ok(())
    }

    /// Rounds like NumPy if the float type is smaller.
    #[expect(clippy::cast_possible_truncation, reason = "as NumPy does")]
    fn put_float(&self, number: f64, to: &mut [u8]) {
        match to.len() {
            2 => to.copy_from_slice(&Half::from_f64(number).0.to_le_bytes()),
            4 => to.copy_from_slice(&(number as f32).to_le_bytes()),
            _ => to.copy_from_slice(&number.to_le_bytes()),
        }
    }

    /// Reads the value of an element.
    fn take(&self, element: &[u8]) -> Result<Scalar, String> {
        let mut own = [0; 8];
        if self.dtype.kind() == Kind::Text {
            let mut text = String::new();
            for bytes in element.as_chunks::<4>().0 {
                let number = self.char(*bytes);
                text.push(
                    char::from_u32(number)
                        .ok_or_else(|| format!("{number:#x} is not a Unicode character"))?,
                );
            }
            text.truncate(text.trim_end_matches('\0').len());
            return Ok(Scalar::Text(text));
        }
        let own = own.get_mut(..element.len()).ok_or("an element of more than 8 bytes")?;
        own.copy_from_slice(element);
        self.swap(own);
        let bits = own.iter().rev().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
        let unused = 64 - 8 * own.len();
        Ok(match (self.dtype.kind(), own.len()) {
            (Kind::Bool, _) => Scalar::Bool(bits != 0),
            (Kind::Int, _) => Scalar::Integer((((bits << unused) as i64) >> unused).into()),
            (Kind::Float, 2) => Scalar::Float(Half(low16(bits)).to_f32().into()),
            (Kind::Float, 4) => Scalar::Float(f32::from_bits(low32(bits)).into()),
            (Kind::Float, _) => Scalar::Float(f64::from_bits(bits)),
            _ => Scalar::Integer(bits.into()),
        })
    }

    fn char(&self, bytes: [u8; 4]) -> u32 {
        match self.dtype.order() {
            ByteOrder::Little => u32::from_le_bytes(bytes),
            ByteOrder::Big => u32::from_be_bytes(bytes),
        }
    }

    /// Swaps between little-endian and the array's byte order.
    fn swap(&self, element: &mut [u8]) {
        if self.dtype.order() == ByteOrder::Big {
            let size = if self.dtype.kind() == Kind::Text { 4 } else { element.len() };
            element.chunks_exact_mut(size.max(1)).for_each(<[u8]>::reverse);
        }
    }
}

impl Codec for PlainObjects {
    fn name(&self) -> &'static str {
        self.objects.name()
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _: &mut Scratch) -> Result<usize> {
        let corrupt = |why: String| CodecError::corrupt(self.name(), why);
        let most = self.objects.most_values(src.len());
        let mut values = Vec::new();
        values.try_reserve_exact(most).map_err(|_| corrupt(format!("no memory for {most} bytes")))?;
        let (size, mut found) = (self.dtype.size(), 0);
        let room = dst.len() / size.max(1);
        let mut places = dst.chunks_exact_mut(size.max(1));
        self.objects
            .split(src, &mut values, &mut |bytes, _| {
                let place = places.next().ok_or_else(|| format!("expected {room} elements, found more"))?;
                let value = self.spelling.read(bytes).map_err(element_of(found))?;
                self.put(value, place).map_err(element_of(found))?;
                found += 1;
                Ok(())
            })
            .map_err(corrupt)?;
        let len = found.saturating_mul(size);
        front(self.name(), dst, len).map(|_| len)
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _: &mut Scratch) -> Result<()> {
        let failed = |why: String| CodecError::encode(self.name(), why);
        let (mut values, mut ends) = (Vec::new(), Vec::new());
        for (number, element) in src.chunks_exact(self.dtype.size().max(1)).enumerate() {
            let value = self.take(element).map_err(|why| failed(element_of(number)(why)))?;
            self.spelling.write(&value, &mut values);
            ends.push(values.len());
        }
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let elements: Vec<&[u8]> =
            starts.zip(&ends).map(|(start, end)| values.get(start..*end).unwrap_or_default()).collect();
        dst.clear();
        self.objects.join(&elements, dst).map_err(failed)
    }

    fn max_encoded(&self, decoded: usize) -> usize {
        chain::generous_bound(decoded.saturating_mul(MOST_PER_BYTE))
    }

    fn to_v2(&self) -> Option<Value> {
        Some(self.objects.to_v2())
    }
}

impl ArrayToBytes for PlainObjects {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{decode, encode, withstands_damage};
    use serde_json::json;

    fn codec(dtype: &str, settings: Value, shape: &[u64]) -> Result<PlainObjects> {
        let array = Context { shape: shape.into(), ..Context::of_elements(dtype.parse().unwrap()) };
        PlainObjects::new(Config::V2(&settings), &array)
    }

    #[test]
    fn the_bytes_of_numcodecs() {
        let json = || json!({"id": "json2"});
        // numcodecs.JSON().encode(np.array([[1, -2], [3, 4]], "i4"))
        let four = [1i32, -2, 3, 4];
        let little: Vec<u8> = four.iter().flat_map(|n| n.to_le_bytes()).collect();
        let big: Vec<u8> = four.iter().flat_map(|n| n.to_be_bytes()).collect();
        let floats: Vec<u8> = [0.1f32, f32::NAN].iter().flat_map(|n| n.to_le_bytes()).collect();
        let doubles: Vec<u8> =
            [1e16, -1.5e-7, 1.0, f64::NEG_INFINITY].iter().flat_map(|n: &f64| n.to_le_bytes()).collect();
        let halves: Vec<u8> = [0x3c00u16, 0x3555].iter().flat_map(|n| n.to_le_bytes()).collect();
        let text: Vec<u8> = ['é', '\0', '"', '𝄞'].iter().flat_map(|c| u32::from(*c).to_be_bytes()).collect();
        for (dtype, settings, shape, elements, stored) in [
            ("<i4", json(), &[2, 2][..], &little, &br#"[[1,-2],[3,4],"<i4",[2,2]]"#[..]),
            (">i4", json(), &[4], &big, br#"[1,-2,3,4,">i4",[4]]"#),
            ("<i4", json!({"id": "json"}), &[2, 2], &little, br#"[[1,-2],[3,4],"<i4"]"#),
            ("<f4", json(), &[2], &floats, br#"[0.10000000149011612,NaN,"<f4",[2]]"#),
            ("<f8", json(), &[4], &doubles, br#"[1e+16,-1.5e-07,1.0,-Infinity,"<f8",[4]]"#),
            ("<f2", json(), &[2], &halves, br#"[1.0,0.333251953125,"<f2",[2]]"#),
            ("|b1", json(), &[2], &vec![0, 1], br#"[false,true,"|b1",[2]]"#),
            (">U2", json(), &[2], &text, br#"["\u00e9","\"\ud834\udd1e",">U2",[2]]"#),
            // numcodecs.MsgPack().encode(np.array([[1, -2], [3, 4]], "i4"))
            (
                "<i4",
                json!({"id": "msgpack2"}),
                &[2, 2],
                &little,
                b"\x94\x92\x01\xfe\x92\x03\x04\xa3<i4\x92\x02\x02",
            ),
            (
                "<f4",
                json!({"id": "msgpack2"}),
                &[2],
                &floats,
                b"\x94\xcb\x3f\xb9\x99\x99\xa0\x00\x00\x00\xcb\x7f\xf8\0\0\0\0\0\0\xa3<f4\x91\x02",
            ),
            ("|b1", json!({"id": "msgpack2"}), &[2], &vec![0, 1], b"\x94\xc2\xc3\xa3|b1\x91\x02"),
            (
                ">U2",
                json!({"id": "msgpack2"}),
                &[2],
                &text,
                b"\x94\xa2\xc3\xa9\xa5\"\xf0\x9d\x84\x9e\xa3>U2\x91\x02",
            ),
        ] {
            let codec = codec(dtype, settings, shape).unwrap();
            let found = encode(&codec, elements);
            assert_eq!(String::from_utf8_lossy(&found), String::from_utf8_lossy(stored), "{dtype}");
            assert_eq!(&decode(&codec, stored, elements.len()).unwrap(), elements, "{dtype}");
            withstands_damage(&codec, stored, elements.len());
        }
    }

    #[test]
    fn refused() {
        for (dtype, text, why) in [
            ("|u1", r#"[256,"|u1",[1]]"#, "element 0 of the chunk: expected a value of type |u1, found 256"),
            ("|i1", r#"[-129,"|i1",[1]]"#, "expected a value of type |i1"),
            ("|i1", r#"[1.0,"|i1",[1]]"#, "expected a value of type |i1"),
            ("|b1", r#"[1,"|b1",[1]]"#, "expected a value of type |b1"),
            ("<U1", r#"["ab","<U1",[1]]"#, "expected a value of type <U1"),
            ("|i1", r#"[null,"|i1",[1]]"#, "expected a number"),
            ("|i1", r#"[1,"<i2",[1]]"#, "expected the type \"|i1\""),
        ] {
            let codec = codec(dtype, json!({"id": "json2"}), &[1]).unwrap();
            let error = decode(&codec, text.as_bytes(), codec.dtype.size()).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        let json = json!({"id": "json2"});
        assert!(codec("<c8", json.clone(), &[1]).is_err());
        let array = Context {
            fortran: true,
            shape: vec![2, 2].into(),
            ..Context::of_elements("<i4".parse().unwrap())
        };
        assert!(PlainObjects::new(Config::V2(&json), &array).unwrap_err().to_string().contains("order"));
    }
}
