//! Element types: what one element is in memory.

use crate::numbers::low_bits::low32;
use crate::numbers::small::{SMALL, SmallNumber};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The order of the bytes within one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl ByteOrder {
    /// The order of this machine.
    pub const NATIVE: ByteOrder =
        if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };
}

/// The unit of a date or a time difference, as in NumPy's `datetime64[10us]`: a count of base
/// units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimeUnit {
    /// NumPy's name: `Y M W D h m s ms us ns ps fs as`, or `generic`.
    pub unit: &'static str,
    /// How many units one step is (≥ 1).
    pub scale: u32,
}

impl TimeUnit {
    /// NumPy's names of all units.
    pub const NAMES: [&'static str; 14] =
        ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", "generic"];

    /// A unit by NumPy's name, or `None` if there is no such unit or the scale is outside `1..2³¹`.
    pub fn new(unit: &str, scale: u32) -> Option<Self> {
        let unit = Self::NAMES.iter().find(|name| **name == unit)?;
        (scale >= 1 && scale <= i32::MAX as u32).then_some(TimeUnit { unit, scale })
    }
}

/// The kind of value of one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One byte, 0 or 1.
    Bool,
    /// Signed integer.
    Int,
    /// Unsigned integer.
    UInt,
    /// IEEE 754 binary floating point.
    Float,
    /// Two floats of half the size: real part, imaginary part.
    Complex,
    /// Fixed-length bytes, padded with NULs (`|S`).
    Bytes,
    /// Fixed-length UTF-32 text, padded with NULs (`<U`).
    Text,
    /// Uninterpreted bytes (`|V`).
    Raw,
    /// 64-bit count of units since 1970-01-01; the smallest value is "not a time".
    DateTime(TimeUnit),
    /// 64-bit count of units; the smallest value is "not a time".
    TimeDelta(TimeUnit),
    /// A number smaller than NumPy's own: `bfloat16`, `int4`, …
    Small(&'static SmallNumber),
}

/// The type of one element in the user's memory: its kind, its size in bytes, its byte order.
///
/// Codecs choose the byte order of the stored elements. If both orders are equal, reading only
/// moves bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DataType {
    kind: Kind,
    size: u32,
    order: ByteOrder,
}

impl DataType {
    /// The largest element that is accepted, in bytes. NumPy's own limit is `i32::MAX`.
    pub const MAX_SIZE: usize = i32::MAX as usize;

    /// Elements of variable length, as the engine moves them: [`Cell`](crate::Cell)s.
    pub const CELL: DataType =
        DataType { kind: Kind::Raw, size: low32(crate::Cell::SIZE as u64), order: ByteOrder::NATIVE };

    /// A type of `size` bytes, or `None` if there is no such type.
    ///
    /// Sizes are 2, 4 and 8 bytes for floats, 8 and 16 for complex numbers, 1, 2, 4 and 8 for
    /// integers, a multiple of 4 for text, 8 for dates, and 1 for bool. The maximum is
    /// [`DataType::MAX_SIZE`]. Only `Bytes`, `Text` and `Raw` may have size zero (NumPy's `S0`).
    /// The order is set to native where it has no meaning (one-byte and uninterpreted types).
    pub fn new(kind: Kind, size: usize, order: ByteOrder) -> Option<Self> {
        let valid = match kind {
            Kind::Bool => size == 1,
            Kind::Int | Kind::UInt => matches!(size, 1 | 2 | 4 | 8),
            Kind::Float => matches!(size, 2 | 4 | 8),
            Kind::Complex => matches!(size, 8 | 16),
            Kind::Bytes | Kind::Raw => true,
            Kind::Text => size.is_multiple_of(4),
            Kind::DateTime(_) | Kind::TimeDelta(_) => size == 8,
            Kind::Small(number) => size == number.size(),
        };
        if !valid || size > Self::MAX_SIZE {
            return None;
        }
        let mut this = DataType { kind, size: low32(size as u64), order };
        if this.number_size() == 1 {
            this.order = ByteOrder::NATIVE;
        }
        Some(this)
    }

    /// Elements of this type that may be missing, as the engine moves them.
    ///
    /// An element is the bytes of the value and one byte that is 1. All bytes of a missing element
    /// are 0. Returns `None` if it would be too large.
    pub fn optional(&self) -> Option<Self> {
        Self::new(Kind::Raw, self.size() + 1, ByteOrder::NATIVE)
    }

    /// The kind of value.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Bytes of one element.
    pub fn size(&self) -> usize {
        self.size as usize
    }

    /// The byte order in memory.
    pub fn order(&self) -> ByteOrder {
        self.order
    }

    /// The same type in another byte order (unchanged where order has no meaning).
    pub fn with_order(&self, order: ByteOrder) -> Self {
        if self.number_size() == 1 { *self } else { DataType { order, ..*self } }
    }

    /// Bytes of each number in an element: a change of byte order reverses these. 1 where order has
    /// no meaning.
    pub fn number_size(&self) -> usize {
        match self.kind {
            Kind::Bool | Kind::Bytes | Kind::Raw => 1,
            Kind::Text => 4,
            Kind::Complex => self.size as usize / 2,
            Kind::Small(number) => number.part_size(),
            _ => self.size as usize,
        }
    }

    /// `true` if byte order has a meaning for this type.
    pub fn has_order(&self) -> bool {
        self.number_size() > 1
    }

    /// NumPy's type string, which Zarr v2 uses too: `<f4`, `|b1`, `>M8[10us]`, `<U3`, `|V16`.
    ///
    /// A [`SmallNumber`], which neither knows, gives its name.
    pub fn numpy(&self) -> String {
        self.to_string()
    }
}

/// NumPy's codes of all kinds but dates, and the bytes per unit of the size that follows a code.
const CODES: [(Kind, char, usize); 8] = [
    (Kind::Bool, 'b', 1),
    (Kind::Int, 'i', 1),
    (Kind::UInt, 'u', 1),
    (Kind::Float, 'f', 1),
    (Kind::Complex, 'c', 1),
    (Kind::Bytes, 'S', 1),
    (Kind::Text, 'U', 4),
    (Kind::Raw, 'V', 1),
];

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = match (self.has_order(), self.order) {
            (false, _) => '|',
            (true, ByteOrder::Little) => '<',
            (true, ByteOrder::Big) => '>',
        };
        // Text has a byte order even if it is empty.
        let time = |f: &mut fmt::Formatter<'_>, code: char, unit: TimeUnit| match (unit.unit, unit.scale) {
            ("generic", _) => write!(f, "{order}{code}8"),
            (name, 1) => write!(f, "{order}{code}8[{name}]"),
            (name, scale) => write!(f, "{order}{code}8[{scale}{name}]"),
        };
        match self.kind {
            Kind::DateTime(unit) => time(f, 'M', unit),
            Kind::TimeDelta(unit) => time(f, 'm', unit),
            Kind::Small(number) => f.write_str(number.name),
            kind => {
                let line = CODES.iter().find(|(other, ..)| *other == kind);
                let (_, code, unit) = line.ok_or(fmt::Error)?;
                write!(f, "{order}{code}{}", self.size() / unit)
            }
        }
    }
}

impl std::str::FromStr for DataType {
    type Err = String;

    /// Parses NumPy's type string or the name of a [`SmallNumber`].
    ///
    /// The string is `[<>|=]` and one of `b1 i u f c S U V M8 m8`. Without an order it is native.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(number) = SMALL.iter().find(|number| number.name == text) {
            return Ok(DataType {
                kind: Kind::Small(number),
                size: low32(number.size() as u64),
                order: ByteOrder::NATIVE,
            });
        }
        let bad = || {
            format!(
                "element type {text:?} is not one of NumPy's b1, i1…i8, u1…u8, f2…f8, c8, c16, S, U, V, M8[unit], m8[unit]"
            )
        };
        let (order, rest) = match text.as_bytes().first() {
            Some(b'<') => (ByteOrder::Little, text.get(1..)),
            Some(b'>') => (ByteOrder::Big, text.get(1..)),
            Some(b'|' | b'=') => (ByteOrder::NATIVE, text.get(1..)),
            _ => (ByteOrder::NATIVE, Some(text)),
        };
        let rest = rest.ok_or_else(bad)?;
        let mut chars = rest.chars();
        let code = chars.next().ok_or_else(bad)?;
        let tail = chars.as_str();
        if let 'M' | 'm' = code {
            let unit = time_unit(tail).ok_or_else(bad)?;
            let kind = if code == 'M' { Kind::DateTime(unit) } else { Kind::TimeDelta(unit) };
            return DataType::new(kind, 8, order).ok_or_else(bad);
        }
        if tail.is_empty() || tail.len() > 10 || !tail.bytes().all(|b| b.is_ascii_digit()) {
            return Err(bad());
        }
        let (kind, _, unit) = CODES.iter().find(|(_, other, _)| *other == code).ok_or_else(bad)?;
        let size = tail.parse().ok().and_then(|size: usize| size.checked_mul(*unit));
        size.and_then(|size| DataType::new(*kind, size, order)).ok_or_else(bad)
    }
}

/// Parses the text after `M` or `m`: `8`, `8[ns]`, `8[10us]`.
fn time_unit(tail: &str) -> Option<TimeUnit> {
    let unit = tail.strip_prefix('8')?;
    if unit.is_empty() {
        return TimeUnit::new("generic", 1);
    }
    let unit = unit.strip_prefix('[')?.strip_suffix(']')?;
    let digits = unit.bytes().take_while(u8::is_ascii_digit).count();
    let (scale, name) = unit.split_at(digits);
    let scale = if scale.is_empty() { 1 } else { scale.parse().ok()? };
    TimeUnit::new(name, scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numpy_names_round_trip() {
        for name in "|b1 |i1 <i2 >i4 <u8 <f2 >f8 <c8 >c16 |S5 <U3 |V7 <M8[ns] >m8[10us] <M8".split(' ') {
            let parsed: DataType = name.parse().unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(parsed.to_string(), name);
        }
        assert_eq!("f4".parse::<DataType>().map(|d| d.order()), Ok(ByteOrder::NATIVE));
        assert_eq!(">u1".parse::<DataType>().map(|d| d.to_string()), Ok("|u1".into()));
        let bad = "< f f3 i16 c4 U9999999999 M8[xx] M8[0s] O f4x <f-4 |S99999999999 é4".split(' ');
        for bad in bad.chain([""]) {
            assert!(bad.parse::<DataType>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn numbers_within_elements() {
        let size = |name: &str| name.parse::<DataType>().map(|d| (d.size(), d.number_size()));
        assert_eq!(size("<c16"), Ok((16, 8)));
        assert_eq!(size("<U3"), Ok((12, 4)));
        assert_eq!(size("|S3"), Ok((3, 1)));
        assert_eq!(size("<f2"), Ok((2, 2)));
    }
}
