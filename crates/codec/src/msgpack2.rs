//! `msgpack2` of numcodecs: a chunk of objects as one MessagePack value.
//!
//! * Specification: <https://numcodecs.readthedocs.io/en/stable/other/msgpacks.html>,
//!   <https://github.com/msgpack/msgpack/blob/master/spec.md>
//! * v2 id: `msgpack2`; v3 has no such codec
//!
//! ```
//! # let json = r#"
//! {"id": "msgpack2", "raw": false, "use_single_float": false, "use_bin_type": true}
//! # "#;
//! # use hyperslab_codec::{Context, DataType, VlenKind, registry::CODECS};
//! # let metadata: serde_json::Value = serde_json::from_str(json).unwrap();
//! # let array = Context { vlen: Some(VlenKind::MessagePack), ..Context::of_elements(DataType::CELL) };
//! # assert_eq!(CODECS.from_v2(&metadata, &array).unwrap().codec().to_v2(), Some(metadata));
//! ```
//!
//! The value is an array: the elements, in nested arrays if the chunk has several axes; then the
//! element type, `"|O"` for objects; then the shape of the chunk. As with `json2`, the order of the
//! array has no effect. There is no such chunk without axes: numcodecs neither writes nor reads
//! one.
//!
//! In memory an element is its MessagePack value. The settings are for the code that converts
//! between objects and values.

use crate::low_bits::low32;
use crate::objects::{Each, Objects, element_of, type_name};
use crate::registry::Config;
use crate::scalar::{Scalar, Spelling};
use crate::{CodecError, Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

pub(crate) const NAME: &str = "msgpack2";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    #[serde(default)]
    raw: bool,
    #[serde(default)]
    use_single_float: bool,
    #[serde(default = "yes")]
    use_bin_type: bool,
}

fn yes() -> bool {
    true
}

/// The form in which chunks are stored.
#[derive(Debug)]
pub(crate) struct MsgPack2 {
    /// All settings, as in the metadata.
    metadata: Value,
    /// NumPy's name of the element type.
    dtype: String,
    /// `true` if floats are written with four bytes.
    single: bool,
    shape: Vec<u64>,
}

impl MsgPack2 {
    /// Reads metadata, for chunks like `array`.
    pub(crate) fn new(config: Config<'_>, array: &Context<'_>) -> Result<Self> {
        let Fields { raw, use_single_float, use_bin_type } = config.fields(NAME)?;
        let metadata = json!({
            "id": NAME,
            "raw": raw,
            "use_single_float": use_single_float,
            "use_bin_type": use_bin_type,
        });
        if array.shape.is_empty() {
            let why = format!("{NAME:?} has no chunks without axes; use \"json2\"");
            return Err(CodecError::Unfit { why });
        }
        if array.shape.iter().any(|len| *len >= u64::from(u32::MAX)) {
            let why = format!("{NAME:?} has no lists of 2³² items, found chunks of {:?}", array.shape);
            return Err(CodecError::Unfit { why });
        }
        let (dtype, shape) = (type_name(array), array.shape.to_vec());
        Ok(MsgPack2 { metadata, dtype, single: use_single_float, shape })
    }

    /// How single values are spelled.
    pub(crate) fn spelling(&self) -> Spelling {
        Spelling::MessagePack { single: self.single }
    }

    /// The encoded items after the elements: the type and the shape.
    fn tail(&self) -> Vec<u8> {
        let mut tail = Vec::new();
        put_text(&self.dtype, &mut tail);
        put_array(self.shape.len() as u64, &mut tail);
        self.shape.iter().for_each(|len| put_integer(*len, &mut tail));
        tail
    }

    /// Reads an array at `depth` from the front of `left`. Calls `each` with every element.
    fn read(
        &self,
        left: &mut &[u8],
        depth: usize,
        each: &mut dyn FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        let len = self.shape.get(depth).copied().unwrap_or(0);
        // The outermost array also holds the type and the shape.
        let expected = len + if depth == 0 { 2 } else { 0 };
        match header(left)? {
            (Header::Array(found), rest) if u64::from(found) == expected => *left = rest,
            (Header::Array(found), _) => {
                return Err(format!("an array of {found} items where {expected} are expected"));
            }
            _ => return Err("expected an array".into()),
        }
        for _ in 0..len {
            if depth + 1 < self.shape.len() {
                self.read(left, depth + 1, each)?;
                continue;
            }
            let (value, rest) = value(left)?;
            each(value)?;
            *left = rest;
        }
        Ok(())
    }

    /// Writes an array at `depth` from the next elements.
    fn write(
        &self,
        elements: &mut dyn Iterator<Item = (usize, &[u8])>,
        depth: usize,
        chunk: &mut Vec<u8>,
    ) -> Result<(), String> {
        let len = self.shape.get(depth).copied().unwrap_or(0);
        put_array(len + if depth == 0 { 2 } else { 0 }, chunk);
        for _ in 0..len {
            if depth + 1 < self.shape.len() {
                self.write(elements, depth + 1, chunk)?;
                continue;
            }
            let (number, bytes) = elements.next().ok_or("there are fewer elements than the chunk has")?;
            let (_, rest) = value(bytes).map_err(element_of(number))?;
            if !rest.is_empty() {
                return Err(element_of(number)(format!("{} bytes behind its value", rest.len())));
            }
            chunk.extend_from_slice(bytes);
        }
        Ok(())
    }
}

impl Objects for MsgPack2 {
    fn name(&self) -> &'static str {
        NAME
    }

    fn most_values(&self, stored: usize) -> usize {
        stored
    }

    fn split(&self, chunk: &[u8], values: &mut Vec<u8>, each: &mut Each<'_>) -> Result<(), String> {
        let mut left = chunk;
        self.read(&mut left, 0, &mut |value| {
            let start = values.len();
            values.extend_from_slice(value);
            each(value, start)
        })?;
        // Compare values, because a writer may have used more bytes for a number than it needs.
        let wrong = || {
            let MsgPack2 { dtype, shape, .. } = self;
            format!("expected the type {dtype:?} and the shape {shape:?} behind the elements")
        };
        let mut dtype = Vec::new();
        put_text(&self.dtype, &mut dtype);
        let mut shape = left.strip_prefix(dtype.as_slice()).ok_or_else(wrong)?;
        match header(shape)? {
            (Header::Array(found), rest) if found as usize == self.shape.len() => shape = rest,
            _ => return Err(wrong()),
        }
        for expected in &self.shape {
            match header(shape)? {
                (Header::Integer(found), rest) if found == *expected => shape = rest,
                _ => return Err(wrong()),
            }
        }
        match shape.len() {
            0 => Ok(()),
            more => Err(format!("{more} bytes behind the shape")),
        }
    }

    fn join(&self, elements: &[&[u8]], chunk: &mut Vec<u8>) -> Result<(), String> {
        self.write(&mut elements.iter().copied().enumerate(), 0, chunk)?;
        chunk.extend_from_slice(&self.tail());
        Ok(())
    }

    fn to_v2(&self) -> Value {
        self.metadata.clone()
    }
}

/// The content of a value's first bytes.
enum Header {
    /// An array with this number of items.
    Array(u32),
    /// A map with this number of pairs.
    Map(u32),
    /// An unsigned number.
    Integer(u64),
    /// Anything else; this number of bytes follows.
    Bytes(usize),
}

/// Reads a big-endian number of `N` bytes. Returns it and the rest.
fn big_endian<const N: usize>(bytes: &[u8]) -> Result<(u64, &[u8]), String> {
    let (number, rest) = bytes.split_first_chunk::<N>().ok_or("it ends within a value")?;
    Ok((number.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)), rest))
}

/// Reads the header at the front. Returns it and the rest.
fn header(bytes: &[u8]) -> Result<(Header, &[u8]), String> {
    let (first, rest) = bytes.split_first().ok_or("it ends where a value is expected")?;
    let fixed = |len: usize| Ok((Header::Bytes(len), rest));
    // Reads a length of 1, 2 or 4 bytes; `more` is added to it.
    let sized = |(len, rest): (u64, _), more: usize| {
        Ok((Header::Bytes(usize::try_from(len).unwrap_or(usize::MAX).saturating_add(more)), rest))
    };
    let integer = |(number, rest)| Ok((Header::Integer(number), rest));
    let array = |(len, rest): (u64, _)| Ok((Header::Array(low32(len)), rest));
    let map = |(len, rest): (u64, _)| Ok((Header::Map(low32(len)), rest));
    match first {
        0x00..=0x7f => integer((u64::from(*first), rest)),
        0x80..=0x8f => map((u64::from(first & 0x0f), rest)),
        0x90..=0x9f => array((u64::from(first & 0x0f), rest)),
        0xa0..=0xbf => fixed(usize::from(first & 0x1f)),
        // Nil, false, true, negative one-byte numbers.
        0xc0 | 0xc2 | 0xc3 | 0xe0..=0xff => fixed(0),
        0xc1 => Err("byte 0xc1 begins no value".into()),
        // Bytes, extensions (with a byte for their kind), text.
        0xc4 | 0xd9 => sized(big_endian::<1>(rest)?, 0),
        0xc5 | 0xda => sized(big_endian::<2>(rest)?, 0),
        0xc6 | 0xdb => sized(big_endian::<4>(rest)?, 0),
        0xc7 => sized(big_endian::<1>(rest)?, 1),
        0xc8 => sized(big_endian::<2>(rest)?, 1),
        0xc9 => sized(big_endian::<4>(rest)?, 1),
        // Floats, unsigned and signed numbers.
        0xca => fixed(4),
        0xcb => fixed(8),
        0xcc => integer(big_endian::<1>(rest)?),
        0xcd => integer(big_endian::<2>(rest)?),
        0xce => integer(big_endian::<4>(rest)?),
        0xcf => integer(big_endian::<8>(rest)?),
        0xd0 => fixed(1),
        0xd1 => fixed(2),
        0xd2 => fixed(4),
        0xd3 => fixed(8),
        // Extensions of 1, 2, 4, 8, 16 bytes.
        0xd4..=0xd8 => fixed((1 << (first - 0xd4)) + 1),
        0xdc => array(big_endian::<2>(rest)?),
        0xdd => array(big_endian::<4>(rest)?),
        0xde => map(big_endian::<2>(rest)?),
        0xdf => map(big_endian::<4>(rest)?),
    }
}

/// Splits off the value at the front. Counts the values still to come instead of recursing.
fn value(bytes: &[u8]) -> Result<(&[u8], &[u8]), String> {
    let (mut rest, mut values) = (bytes, 1_u64);
    while values > 0 {
        let (header, behind) = header(rest)?;
        rest = behind;
        values -= 1;
        // Each value takes at least a byte, so the count stays small or the bytes run out.
        match header {
            Header::Array(len) => values = values.saturating_add(u64::from(len)),
            Header::Map(len) => values = values.saturating_add(2 * u64::from(len)),
            Header::Integer(_) => {}
            Header::Bytes(len) => {
                rest = rest
                    .get(len..)
                    .ok_or_else(|| format!("a value has {len} bytes where {} are left", rest.len()))?;
            }
        }
    }
    Ok(bytes.split_at(bytes.len() - rest.len()))
}

/// Writes the shortest header of an array.
fn put_array(len: u64, to: &mut Vec<u8>) {
    let [.., a, b, c, d] = len.to_be_bytes();
    match len {
        0..=15 => to.push(0x90 | d),
        16..=0xffff => to.extend_from_slice(&[0xdc, c, d]),
        _ => to.extend_from_slice(&[0xdd, a, b, c, d]),
    }
}

/// Writes a text with the shortest header.
pub(crate) fn put_text(text: &str, to: &mut Vec<u8>) {
    let [.., a, b, c, d] = (text.len() as u64).to_be_bytes();
    match text.len() {
        0..=31 => to.push(0xa0 | d),
        32..=0xff => to.extend_from_slice(&[0xd9, d]),
        0x100..=0xffff => to.extend_from_slice(&[0xda, c, d]),
        _ => to.extend_from_slice(&[0xdb, a, b, c, d]),
    }
    to.extend_from_slice(text.as_bytes());
}

/// Writes a negative number in the shortest form.
pub(crate) fn put_negative(number: i64, to: &mut Vec<u8>) {
    let bytes = number.to_be_bytes();
    let [.., a, b, c, d] = bytes;
    match number {
        -32.. => to.push(d),
        -0x80..-32 => to.extend_from_slice(&[0xd0, d]),
        -0x8000..-0x80 => to.extend_from_slice(&[0xd1, c, d]),
        -0x8000_0000..-0x8000 => to.extend_from_slice(&[0xd2, a, b, c, d]),
        _ => {
            to.push(0xd3);
            to.extend_from_slice(&bytes);
        }
    }
}

/// Reads a number or text from `bytes`.
pub(crate) fn scalar(bytes: &[u8]) -> Result<Scalar, String> {
    let (whole, rest) = value(bytes)?;
    if !rest.is_empty() {
        return Err(format!("{} bytes behind the value", rest.len()));
    }
    let unfit = || "expected a Boolean, a number or text".to_owned();
    let (first, rest) = whole.split_first().ok_or_else(unfit)?;
    let text = |skipped: usize| {
        let text = std::str::from_utf8(rest.get(skipped..).unwrap_or_default());
        text.map(|text| Scalar::Text(text.into())).map_err(|error| error.to_string())
    };
    match first {
        0xc2 | 0xc3 => Ok(Scalar::Bool(*first == 0xc3)),
        0xca => {
            rest.try_into().map(|bytes| Scalar::Float(f32::from_be_bytes(bytes).into())).map_err(|_| unfit())
        }
        0xcb => rest.try_into().map(|bytes| Scalar::Float(f64::from_be_bytes(bytes))).map_err(|_| unfit()),
        0xd0..=0xd3 => {
            let start = if rest.first().is_some_and(|byte| *byte >= 0x80) { -1 } else { 0 };
            Ok(Scalar::Integer(rest.iter().fold(start, |number, byte| number << 8 | i128::from(*byte))))
        }
        0xe0..=0xff => Ok(Scalar::Integer(i128::from(*first) - 256)),
        0xa0..=0xbf => text(0),
        0xd9 => text(1),
        0xda => text(2),
        0xdb => text(4),
        _ => match header(whole)? {
            (Header::Integer(number), _) => Ok(Scalar::Integer(number.into())),
            _ => Err(unfit()),
        },
    }
}

/// Writes a number in the shortest form.
pub(crate) fn put_integer(number: u64, to: &mut Vec<u8>) {
    let bytes = number.to_be_bytes();
    let [.., a, b, c, d] = bytes;
    match number {
        0..=0x7f => to.push(d),
        0x80..=0xff => to.extend_from_slice(&[0xcc, d]),
        0x100..=0xffff => to.extend_from_slice(&[0xcd, c, d]),
        0x1_0000..=0xffff_ffff => to.extend_from_slice(&[0xce, a, b, c, d]),
        _ => {
            to.push(0xcf);
            to.extend_from_slice(&bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::testing::{decode, encode, vlen, withstands_damage};
    use crate::{Vlen, VlenKind};
    use proptest::prelude::*;

    fn codec(shape: &[u64]) -> Result<Vlen> {
        vlen(VlenKind::MessagePack, NAME, json!({}), shape, b"\xc0")
    }

    /// One value of each kind.
    const VALUES: [&[u8]; 24] = [
        b"\xc0",
        b"\xc3",
        b"\x7f",
        b"\xff",
        b"\xcc\xff",
        b"\xcd\x01\x00",
        b"\xce\x00\x01\x00\x00",
        b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\xd0\x80",
        b"\xd1\x80\x00",
        b"\xd2\x80\x00\x00\x00",
        b"\xd3\x80\x00\x00\x00\x00\x00\x00\x00",
        b"\xca\x3f\x80\x00\x00",
        b"\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00",
        b"\xa2ab",
        b"\xd9\x01a",
        b"\xc4\x02\x00\xff",
        b"\xc5\x00\x01a",
        b"\x92\x01\xa1b",
        b"\x81\xa1k\x93\xc0\xc2\x90",
        b"\xdc\x00\x01\xc0",
        b"\xdf\x00\x00\x00\x01\x01\x02",
        b"\xd5\x07ab",
        b"\xc7\x01\x05a",
    ];

    #[test]
    fn the_bytes_of_numcodecs() {
        // numcodecs.MsgPack().encode(np.array([["a", None], [{"b": 1}, [2.0]]], object))
        let chunk =
            b"\x94\x92\xa1a\xc0\x92\x81\xa1b\x01\x91\xcb\x40\x00\x00\x00\x00\x00\x00\x00\xa2|O\x92\x02\x02";
        let values: [&[u8]; 4] =
            [b"\xa1a", b"\xc0", b"\x81\xa1b\x01", b"\x91\xcb\x40\x00\x00\x00\x00\x00\x00\x00"];
        let pack = codec(&[2, 2]).unwrap();
        assert_eq!(encode(&pack, &values).unwrap(), chunk);
        assert_eq!(decode(&pack, chunk, 4).unwrap(), values);
        withstands_damage(&pack, chunk, 4);
        let many = codec(&[300]).unwrap();
        let chunk = encode(&many, &[&b"\x01"[..]; 300]).unwrap();
        assert!(chunk.starts_with(b"\xdc\x01\x2e\x01") && chunk.ends_with(b"\x01\xa2|O\x91\xcd\x01\x2c"));
        assert_eq!(decode(&many, &chunk, 300).unwrap(), [&b"\x01"[..]; 300]);
    }

    #[test]
    fn all_kinds_of_values() {
        for bytes in VALUES {
            assert_eq!(value(&[bytes, b"more"].concat()).unwrap(), (bytes, &b"more"[..]), "{bytes:x?}");
            assert!((0..bytes.len()).all(|end| value(&bytes[..end]).is_err()), "{bytes:x?}");
        }
        let pack = codec(&[24]).unwrap();
        let chunk = encode(&pack, &VALUES).unwrap();
        assert_eq!(decode(&pack, &chunk, 24).unwrap(), VALUES);
        withstands_damage(&pack, &chunk, 24);
        // Nested deeply; reading it needs no recursion.
        let deep = [vec![0x91; 1 << 20], vec![0xc0]].concat();
        assert_eq!(value(&deep).unwrap().1, b"");
        assert!(value(b"\xdd\xff\xff\xff\xff\xdd\xff\xff\xff\xff").is_err());
    }

    #[test]
    fn chunks_that_are_refused() {
        let pack = codec(&[2]).unwrap();
        for (chunk, why) in [
            (&b""[..], "it ends where a value is expected"),
            (b"\x01", "expected an array"),
            (b"\x93\x01\xa2|O\x91\x02", "an array of 3 items where 4 are expected"),
            (b"\xdd\xff\xff\xff\xff", "an array of 4294967295 items where 4 are expected"),
            (b"\x94\x01\x02\xa3<i4\x91\x02", "expected the type \"|O\" and the shape [2]"),
            (b"\x94\x01\x02\xa2|O\x91\x03", "the shape [2]"),
            (b"\x94\x01\x02\xa2|O\x92\x02\x02", "the shape [2]"),
            (b"\x94\x01\x02\xa2|O\x91\x02\x00", "1 bytes behind the shape"),
            (b"\x94\x01\xd9\xff", "a value has 255 bytes where 0 are left"),
            (b"\x94\xc1", "0xc1 begins no value"),
        ] {
            let error = decode(&pack, chunk, 2).unwrap_err().to_string();
            assert!(error.contains(why), "{chunk:x?}: {error}");
        }
        for element in [&b""[..], b"\x01\x02", b"\x92\x01", b"\xc1"] {
            let error = encode(&pack, &[b"\x01", element]).unwrap_err().to_string();
            assert!(error.contains("element 1 of the chunk"), "{error}");
        }
        assert!(codec(&[]).unwrap_err().to_string().contains("without axes"));
        assert!(codec(&[u64::from(u32::MAX)]).is_err());
        assert!(vlen(VlenKind::MessagePack, NAME, json!({"x": 1}), &[2], b"").is_err());
    }

    proptest! {
        #[test]
        fn round_trips(shape in prop::collection::vec(1..5_u64, 1..4), seed in any::<usize>()) {
            let count = shape.iter().product::<u64>() as usize;
            let values: Vec<&[u8]> = (0..count).map(|at| VALUES[(at * 7 + seed % 24) % 24]).collect();
            let pack = codec(&shape).unwrap();
            let chunk = encode(&pack, &values).unwrap();
            prop_assert_eq!(decode(&pack, &chunk, count).unwrap(), values);
        }
    }
}
