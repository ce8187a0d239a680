//! `nbit`, filter 5: stores only the bits of each element that its datatype uses.
//!
//! * Specification: HDF5 file format, IV.A.2.l, filter 5; the stored form is the one in the
//!   library's `H5Znbit.c`
//! * Client data: the count of these numbers; whether elements are stored unpacked (0, 1); elements
//!   per chunk; then the datatype:
//!   * atomic: 1, bytes, byte order (0: little, 1: big), used bits, bits below them;
//!   * array: 2, bytes, the datatype of its elements;
//!   * compound: 3, bytes, number of members, and for each its offset and its datatype;
//!   * anything else: 4, bytes; stored unpacked.
//!
//! A chunk is the used bits of all values, each value's highest bit first. Bits that are not stored
//! (padding) are zero.

use super::bits::Bits;
use super::{byte_order, parameter};
use crate::numbers::low_bits::low8;
use crate::{ByteOrder, Codec, CodecError, Result, Scratch, copy_front, front};

const NAME: &str = "nbit";
/// The deepest nesting of datatypes that is accepted.
const MAX_DEPTH: usize = 32;

/// The `nbit` filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Nbit {
    /// `None` if elements are stored unpacked.
    packed: Option<Packed>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Packed {
    elements: usize,
    size: usize,
    element: Type,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Type {
    Atomic(Atomic),
    Array {
        /// Bytes of one of its elements.
        size: usize,
        element: Box<Type>,
    },
    Compound(Vec<Member>),
    Opaque,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Atomic {
    order: ByteOrder,
    precision: u32,
    offset: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Member {
    offset: usize,
    size: usize,
    member: Type,
}

impl Nbit {
    pub(super) fn new(client_data: &[u32]) -> Result<Self> {
        let mut parameters = Parameters { client_data, at: 0 };
        let expected = parameters.next()?;
        if expected as usize != client_data.len() {
            let why = format!("expected {expected} parameters, found {}", client_data.len());
            return Err(CodecError::config(NAME, why));
        }
        match parameters.next()? {
            0 => {}
            1 => return Ok(Nbit { packed: None }),
            other => {
                return Err(CodecError::config(
                    NAME,
                    format!("expected 0 (packed) or 1 (not packed), found {other}"),
                ));
            }
        }
        let elements = parameters.next()? as usize;
        let (size, element) = parameters.datatype(0)?;
        match parameters.at {
            at if at == client_data.len() => Ok(Nbit { packed: Some(Packed { elements, size, element }) }),
            at => Err(CodecError::config(
                NAME,
                format!("expected {at} parameters, found {}", client_data.len()),
            )),
        }
    }
}

struct Parameters<'a> {
    client_data: &'a [u32],
    at: usize,
}

impl Parameters<'_> {
    fn next(&mut self) -> Result<u32> {
        let value = parameter(NAME, self.client_data, self.at)?;
        self.at += 1;
        Ok(value)
    }

    /// Reads a datatype and its size in bytes, which is not 0. Its components fit inside that size.
    fn datatype(&mut self, depth: usize) -> Result<(usize, Type)> {
        if depth > MAX_DEPTH {
            return Err(CodecError::config(
                NAME,
                format!("datatypes are nested more than {MAX_DEPTH} levels deep"),
            ));
        }
        let class = self.next()?;
        let size = self.next()? as usize;
        if size == 0 {
            return Err(CodecError::config(NAME, "expected a datatype of at least 1 byte, found 0 bytes"));
        }
        let datatype = match class {
            1 => {
                let order = byte_order(NAME, self.next()?)?;
                let (precision, offset) = (self.next()?, self.next()?);
                let used = u64::from(precision) + u64::from(offset);
                if precision == 0 || used > 8 * size as u64 {
                    let why = format!(
                        "expected significant bits inside a datatype of {size} bytes, found {precision} \
                         bits from bit {offset} on"
                    );
                    return Err(CodecError::config(NAME, why));
                }
                Type::Atomic(Atomic { order, precision, offset })
            }
            2 => {
                let (element_size, element) = self.datatype(depth + 1)?;
                if !size.is_multiple_of(element_size) {
                    let why = format!(
                        "expected an array of a whole number of elements of {element_size} bytes, found \
                         {size} bytes"
                    );
                    return Err(CodecError::config(NAME, why));
                }
                Type::Array { size: element_size, element: Box::new(element) }
            }
            3 => {
                // Each member takes at least three parameters, so there are fewer members than
                // parameters. Together they fit in the compound, which bounds the work.
                let (count, mut used) = (self.next()?, 0usize);
                let mut members = Vec::new();
                for _ in 0..count {
                    let offset = self.next()? as usize;
                    let (member_size, member) = self.datatype(depth + 1)?;
                    used = used.saturating_add(member_size);
                    if used > size || offset.saturating_add(member_size) > size {
                        let why = format!(
                            "a member of {member_size} bytes at byte {offset} does not fit a compound of \
                             {size} bytes"
                        );
                        return Err(CodecError::config(NAME, why));
                    }
                    members.push(Member { offset, size: member_size, member });
                }
                Type::Compound(members)
            }
            4 => Type::Opaque,
            other => {
                return Err(CodecError::config(
                    NAME,
                    format!("datatype class {other} is unknown (known: 1 to 4)"),
                ));
            }
        };
        Ok((size, datatype))
    }
}

impl Type {
    /// Unpacks one value into all of `out`, which is zeroed. Returns `None` if there are too few
    /// bits.
    fn unpack(&self, bits: &mut Bits<'_>, out: &mut [u8]) -> Option<()> {
        match self {
            Type::Atomic(atomic) => atomic.unpack(bits, out)?,
            Type::Array { size, element } => {
                for out in out.chunks_exact_mut(*size) {
                    element.unpack(bits, out)?;
                }
            }
            Type::Compound(members) => {
                for Member { offset, size, member } in members {
                    member.unpack(bits, out.get_mut(*offset..offset + size)?)?;
                }
            }
            Type::Opaque => {
                for byte in out {
                    *byte = low8(bits.read(8)?);
                }
            }
        }
        Some(())
    }
}

impl Atomic {
    #[inline]
    fn unpack(&self, bits: &mut Bits<'_>, out: &mut [u8]) -> Option<()> {
        let size = out.len();
        if size <= 8 {
            let value = bits.read_long(self.precision)? << self.offset;
            match self.order {
                ByteOrder::Little => out.copy_from_slice(value.to_le_bytes().get(..size)?),
                ByteOrder::Big => out.copy_from_slice(value.to_be_bytes().get(8 - size..)?),
            }
            return Some(());
        }
        // Byte by byte, starting at the byte with the highest used bit.
        let (low, high) = (self.offset, self.offset + self.precision);
        for byte in (low / 8..high.div_ceil(8)).rev() {
            let (from, to) = (low.max(8 * byte), high.min(8 * byte + 8));
            let value = bits.read(to - from)? << (from - 8 * byte);
            let at = match self.order {
                ByteOrder::Little => byte as usize,
                ByteOrder::Big => size - 1 - byte as usize,
            };
            *out.get_mut(at)? = low8(value);
        }
        Some(())
    }
}

impl Codec for Nbit {
    fn name(&self) -> &'static str {
        NAME
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch) -> Result<usize> {
        let Some(Packed { elements, size, element }) = &self.packed else {
            return copy_front(NAME, src, dst);
        };
        let decoded = elements.saturating_mul(*size);
        let dst = front(NAME, dst, decoded)?;
        let mut bits = Bits::new(src);
        dst.fill(0);
        let unpacked = match element {
            // The common case; the choice of the datatype is outside the loop.
            Type::Atomic(atomic) => {
                dst.chunks_exact_mut(*size).try_for_each(|out| atomic.unpack(&mut bits, out))
            }
            _ => dst.chunks_exact_mut(*size).try_for_each(|out| element.unpack(&mut bits, out)),
        };
        match unpacked {
            Some(()) => Ok(decoded),
            None => Err(CodecError::corrupt(NAME, format!("truncated after {} bytes", src.len()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::decode;

    fn nbit(client_data: &[u32]) -> Result<Nbit> {
        Nbit::new(&[&[client_data.len() as u32 + 1][..], client_data].concat())
    }

    #[test]
    fn values() {
        let values = |client_data: &[u32], stored: &[u8], size| decode(&nbit(client_data)?, stored, size);
        // Two values of 12 bits, above 2 unused bits.
        assert_eq!(values(&[0, 2, 1, 2, 0, 12, 2], b"\x12\x34\x56", 4).unwrap(), [0x8c, 0x04, 0x58, 0x11]);
        assert_eq!(values(&[0, 2, 1, 2, 1, 12, 2], b"\x12\x34\x56", 4).unwrap(), [0x04, 0x8c, 0x11, 0x58]);
        // 4 bits of the ninth byte, all of the eighth, 4 of the seventh.
        let sixteen = values(&[0, 1, 1, 10, 0, 16, 60], b"\xab\xcd", 10).unwrap();
        assert_eq!(sixteen, [0, 0, 0, 0, 0, 0, 0, 0xd0, 0xbc, 0x0a]);
        // A compound of one bit at byte 1 and an array of two opaque bytes at byte 2.
        let compound = [0, 2, 3, 5, 2, 1, 1, 1, 0, 1, 7, 2, 2, 2, 4, 1];
        assert_eq!(
            values(&compound, b"\xb0\xb1\x18\x99\x40", 10).unwrap(),
            [0, 0x80, 0x61, 0x62, 0, 0, 0, 0x62, 0x65, 0]
        );
        assert_eq!(values(&[1, 3], b"abc", 3).unwrap(), b"abc", "as they are");
        let message = values(&[0, 2, 1, 2, 0, 12, 2], b"\x12\x34", 4).unwrap_err().to_string();
        assert_eq!(message, "nbit: truncated after 2 bytes");
        assert!(matches!(
            values(&[0, u32::MAX, 1, 2, 0, 12, 2], b"\x12\x34", 4),
            Err(CodecError::Size { .. })
        ));
    }

    #[test]
    fn parameters() {
        let message = |client_data: &[u32]| nbit(client_data).unwrap_err().to_string();
        assert!(Nbit::new(&[]).is_err() && Nbit::new(&[3, 1]).is_err());
        assert!(message(&[2, 3]).contains("expected 0 (packed) or 1 (not packed), found 2"));
        assert!(message(&[0, 3, 5, 2]).contains("datatype class 5 is unknown"));
        assert!(message(&[0, 3, 1, 0]).contains("expected a datatype of at least 1 byte, found 0 bytes"));
        assert!(message(&[0, 3, 1, 2, 2, 1, 0]).contains("expected byte order 0 or 1, found 2"));
        assert!(message(&[0, 3, 1, 2, 0, 0, 1]).contains("found 0 bits from bit 1 on"));
        assert!(
            message(&[0, 3, 1, 2, 0, 15, 2])
                .contains("inside a datatype of 2 bytes, found 15 bits from bit 2 on")
        );
        assert!(message(&[0, 3, 1, 2, 0, u32::MAX, 2]).contains("bits from bit 2 on"));
        assert!(message(&[0, 3, 2, 5, 4, 2]).contains("whole number of elements of 2 bytes, found 5 bytes"));
        assert!(
            message(&[0, 3, 3, 4, 1, 3, 4, 2])
                .contains("a member of 2 bytes at byte 3 does not fit a compound of 4 bytes")
        );
        assert!(message(&[0, 3, 3, 4, 2, 0, 4, 4, 0, 4, 1]).contains("a member of 1 bytes at byte 0"));
        assert!(message(&[0, 3, 3, 4, u32::MAX]).contains("expected more than"));
        assert!(message(&[0, 3, 4, 2, 9]).contains("expected 5 parameters, found 6"));
        let deep = [&[0, 3][..], &[2, 8].repeat(40), &[4, 8]].concat();
        assert!(message(&deep).contains("nested more than 32 levels deep"));
        assert!(nbit(&[&[0, 3][..], &[2, 8].repeat(32), &[4, 8]].concat()).is_ok());
    }
}
