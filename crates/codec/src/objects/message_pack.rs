//! MessagePack: the head of a value, which the crate `rmp` reads and writes.
//!
//! Specification: <https://github.com/msgpack/msgpack/blob/master/spec.md>
//!
//! A number is all in its head. Text, bytes and extensions follow their heads, and so do the items
//! of arrays and maps.

use crate::numbers::low_bits::low32;
use rmp::Marker;
use rmp::decode::{RmpRead, ValueReadError, read_marker};
use rmp::encode::{
    write_array_len, write_bin_len, write_bool, write_ext_meta, write_f32, write_f64, write_map_len,
    write_nil, write_sint, write_str_len, write_uint,
};

/// The head of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Head {
    /// `nil`
    Nil,
    /// `false`, `true`
    Bool(bool),
    /// An integer of an unsigned form.
    Unsigned(u64),
    /// An integer of a signed form. (It may be positive.)
    Signed(i64),
    /// A float of 32 bits.
    Single(f32),
    /// A float of 64 bits.
    Double(f64),
    /// Text; this number of bytes follows.
    Text(u32),
    /// Bytes; this number of bytes follows.
    Bytes(u32),
    /// An extension of this kind; `len` bytes follow.
    Extension {
        /// The number that tells what the bytes mean.
        kind: i8,
        /// Bytes after the head.
        len: u32,
    },
    /// An array; this number of values follows.
    Array(u32),
    /// A map; this number of pairs follows.
    Map(u32),
}

/// Why there is no head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHead {
    /// There are no bytes.
    #[error("expected a value, found the end")]
    Missing,
    /// The bytes end within the head.
    #[error("it ends within a value")]
    Truncated,
    /// The first byte is 0xc1, which has no meaning.
    #[error("a value cannot begin with byte 0xc1")]
    Reserved,
}

impl From<BadHead> for String {
    fn from(bad: BadHead) -> String {
        bad.to_string()
    }
}

impl Head {
    /// Takes the head of the value at the front of `bytes`.
    pub fn read(bytes: &mut &[u8]) -> Result<Self, BadHead> {
        match read_marker(bytes).map_err(|_| BadHead::Missing)? {
            Marker::Reserved => Err(BadHead::Reserved),
            marker => Head::after(marker, bytes).map_err(|_| BadHead::Truncated),
        }
    }

    /// Takes the bytes of a head that follow its first byte.
    fn after(marker: Marker, bytes: &mut &[u8]) -> Result<Self, ValueReadError> {
        let extension = |len: u32, bytes: &mut &[u8]| {
            let kind = bytes.read_data_i8()?;
            Ok(Head::Extension { kind, len })
        };
        Ok(match marker {
            Marker::Null | Marker::Reserved => Head::Nil,
            Marker::False => Head::Bool(false),
            Marker::True => Head::Bool(true),
            Marker::FixPos(number) => Head::Unsigned(number.into()),
            Marker::U8 => Head::Unsigned(bytes.read_data_u8()?.into()),
            Marker::U16 => Head::Unsigned(bytes.read_data_u16()?.into()),
            Marker::U32 => Head::Unsigned(bytes.read_data_u32()?.into()),
            Marker::U64 => Head::Unsigned(bytes.read_data_u64()?),
            Marker::FixNeg(number) => Head::Signed(number.into()),
            Marker::I8 => Head::Signed(bytes.read_data_i8()?.into()),
            Marker::I16 => Head::Signed(bytes.read_data_i16()?.into()),
            Marker::I32 => Head::Signed(bytes.read_data_i32()?.into()),
            Marker::I64 => Head::Signed(bytes.read_data_i64()?),
            Marker::F32 => Head::Single(bytes.read_data_f32()?),
            Marker::F64 => Head::Double(bytes.read_data_f64()?),
            Marker::FixStr(len) => Head::Text(len.into()),
            Marker::Str8 => Head::Text(bytes.read_data_u8()?.into()),
            Marker::Str16 => Head::Text(bytes.read_data_u16()?.into()),
            Marker::Str32 => Head::Text(bytes.read_data_u32()?),
            Marker::Bin8 => Head::Bytes(bytes.read_data_u8()?.into()),
            Marker::Bin16 => Head::Bytes(bytes.read_data_u16()?.into()),
            Marker::Bin32 => Head::Bytes(bytes.read_data_u32()?),
            Marker::FixArray(len) => Head::Array(len.into()),
            Marker::Array16 => Head::Array(bytes.read_data_u16()?.into()),
            Marker::Array32 => Head::Array(bytes.read_data_u32()?),
            Marker::FixMap(len) => Head::Map(len.into()),
            Marker::Map16 => Head::Map(bytes.read_data_u16()?.into()),
            Marker::Map32 => Head::Map(bytes.read_data_u32()?),
            Marker::FixExt1 => return extension(1, bytes),
            Marker::FixExt2 => return extension(2, bytes),
            Marker::FixExt4 => return extension(4, bytes),
            Marker::FixExt8 => return extension(8, bytes),
            Marker::FixExt16 => return extension(16, bytes),
            Marker::Ext8 => return extension(bytes.read_data_u8()?.into(), bytes),
            Marker::Ext16 => return extension(bytes.read_data_u16()?.into(), bytes),
            Marker::Ext32 => return extension(bytes.read_data_u32()?, bytes),
        })
    }

    /// Appends the shortest form of this head.
    pub fn write(self, to: &mut Vec<u8>) {
        let written = match self {
            Head::Nil => write_nil(to).is_ok(),
            Head::Bool(value) => write_bool(to, value).is_ok(),
            Head::Unsigned(number) => write_uint(to, number).is_ok(),
            Head::Signed(number) => write_sint(to, number).is_ok(),
            Head::Single(number) => write_f32(to, number).is_ok(),
            Head::Double(number) => write_f64(to, number).is_ok(),
            Head::Text(len) => write_str_len(to, len).is_ok(),
            Head::Bytes(len) => write_bin_len(to, len).is_ok(),
            Head::Extension { kind, len } => write_ext_meta(to, len, kind).is_ok(),
            Head::Array(len) => write_array_len(to, len).is_ok(),
            Head::Map(len) => write_map_len(to, len).is_ok(),
        };
        debug_assert!(written, "appending to a vector cannot fail");
    }
}

/// Appends a text.
pub(crate) fn write_text(text: &str, to: &mut Vec<u8>) {
    Head::Text(low32(text.len() as u64)).write(to);
    to.extend_from_slice(text.as_bytes());
}

/// Splits off the value at the front. Counts the values still to come instead of recursing.
pub(crate) fn value(bytes: &[u8]) -> Result<(&[u8], &[u8]), String> {
    let (mut rest, mut values) = (bytes, 1_u64);
    while values > 0 {
        values -= 1;
        // Each value takes at least a byte, so the count stays small or the bytes run out.
        match Head::read(&mut rest)? {
            Head::Array(len) => values = values.saturating_add(u64::from(len)),
            Head::Map(len) => values = values.saturating_add(2 * u64::from(len)),
            Head::Text(len) | Head::Bytes(len) | Head::Extension { len, .. } => {
                rest = rest
                    .get(len as usize..)
                    .ok_or_else(|| format!("expected a value of {len} bytes, found {} bytes", rest.len()))?;
            }
            _ => {}
        }
    }
    Ok(bytes.split_at(bytes.len() - rest.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_in_their_shortest_form() {
        for (head, bytes) in [
            (Head::Nil, &b"\xc0"[..]),
            (Head::Bool(true), b"\xc3"),
            (Head::Unsigned(0x7f), b"\x7f"),
            (Head::Unsigned(0xff), b"\xcc\xff"),
            (Head::Unsigned(0x100), b"\xcd\x01\x00"),
            (Head::Unsigned(u64::MAX), b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff"),
            (Head::Signed(-0x20), b"\xe0"),
            (Head::Signed(-0x21), b"\xd0\xdf"),
            (Head::Signed(i64::MIN), b"\xd3\x80\x00\x00\x00\x00\x00\x00\x00"),
            (Head::Single(1.5), b"\xca\x3f\xc0\x00\x00"),
            (Head::Double(1.5), b"\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00"),
            (Head::Text(31), b"\xbf"),
            (Head::Text(32), b"\xd9\x20"),
            (Head::Text(0x1_0000), b"\xdb\x00\x01\x00\x00"),
            (Head::Bytes(0), b"\xc4\x00"),
            (Head::Bytes(0x100), b"\xc5\x01\x00"),
            (Head::Array(15), b"\x9f"),
            (Head::Array(16), b"\xdc\x00\x10"),
            (Head::Map(0x1_0000), b"\xdf\x00\x01\x00\x00"),
            (Head::Extension { kind: -1, len: 4 }, b"\xd6\xff"),
            (Head::Extension { kind: 5, len: 3 }, b"\xc7\x03\x05"),
        ] {
            let mut found = Vec::new();
            head.write(&mut found);
            assert_eq!(found, bytes, "{head:?}");
            let mut left = &[bytes, b"more"].concat()[..];
            assert_eq!((Head::read(&mut left), left), (Ok(head), &b"more"[..]));
            for len in 1..bytes.len() {
                assert_eq!(Head::read(&mut &bytes[..len]), Err(BadHead::Truncated), "{head:?}");
            }
        }
        assert_eq!(Head::read(&mut &b""[..]), Err(BadHead::Missing));
        assert_eq!(Head::read(&mut &b"\xc1"[..]), Err(BadHead::Reserved));
    }
}
