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

use crate::numbers::low_bits::low32;
use crate::objects::message_pack::{Head, value, write_text};
use crate::objects::{Each, Objects, element_of, type_name};
use crate::registry::Config;
use crate::scalar::Spelling;
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
            let why = format!("{NAME:?} cannot encode arrays without axes: use \"json2\"");
            return Err(CodecError::Unfit { why });
        }
        if array.shape.iter().any(|len| *len >= u64::from(u32::MAX)) {
            let why = format!(
                "{NAME:?} cannot encode chunks with axes of 2³² - 1 elements or more, found chunk shape \
                 {:?}: use smaller chunks",
                array.shape
            );
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
        write_text(&self.dtype, &mut tail);
        Head::Array(low32(self.shape.len() as u64)).write(&mut tail);
        self.shape.iter().for_each(|len| Head::Unsigned(*len).write(&mut tail));
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
        match Head::read(left)? {
            Head::Array(found) if u64::from(found) == expected => {}
            Head::Array(found) => {
                return Err(format!("expected an array of {expected} items, found {found} items"));
            }
            _ => return Err("expected an array, found another value".into()),
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
        Head::Array(low32(len + if depth == 0 { 2 } else { 0 })).write(chunk);
        for _ in 0..len {
            if depth + 1 < self.shape.len() {
                self.write(elements, depth + 1, chunk)?;
                continue;
            }
            let (number, bytes) = elements.next().ok_or("there are fewer elements than the chunk has")?;
            let (_, rest) = value(bytes).map_err(element_of(number))?;
            if !rest.is_empty() {
                return Err(element_of(number)(format!("{} bytes follow its value", rest.len())));
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
            format!(
                "expected the type {dtype:?} and the shape {shape:?} after the elements, found other values"
            )
        };
        let mut dtype = Vec::new();
        write_text(&self.dtype, &mut dtype);
        let mut shape = left.strip_prefix(dtype.as_slice()).ok_or_else(wrong)?;
        match Head::read(&mut shape)? {
            Head::Array(found) if found as usize == self.shape.len() => {}
            _ => return Err(wrong()),
        }
        for expected in &self.shape {
            match Head::read(&mut shape)? {
                Head::Unsigned(found) if found == *expected => {}
                _ => return Err(wrong()),
            }
        }
        match shape.len() {
            0 => Ok(()),
            more => Err(format!("{more} bytes follow the shape")),
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
            (&b""[..], "expected a value, found the end"),
            (b"\x01", "expected an array"),
            (b"\x93\x01\xa2|O\x91\x02", "expected an array of 4 items, found 3 items"),
            (b"\xdd\xff\xff\xff\xff", "expected an array of 4 items, found 4294967295 items"),
            (b"\x94\x01\x02\xa3<i4\x91\x02", "expected the type \"|O\" and the shape [2]"),
            (b"\x94\x01\x02\xa2|O\x91\x03", "the shape [2]"),
            (b"\x94\x01\x02\xa2|O\x92\x02\x02", "the shape [2]"),
            (b"\x94\x01\x02\xa2|O\x91\x02\x00", "1 bytes follow the shape"),
            (b"\x94\x01\xd9\xff", "expected a value of 255 bytes, found 0 bytes"),
            (b"\x94\xc1", "a value cannot begin with byte 0xc1"),
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
