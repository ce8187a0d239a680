//! The external types of the elements of attributes and variables (`nc_type` of the specification).

use crate::Version;
use hyperslab_codec::{ByteOrder, DataType, Kind};

/// A type of elements. Numbers are big-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum External {
    /// `NC_BYTE`: a signed integer of 1 byte.
    Byte,
    /// `NC_CHAR`: a byte of text.
    Char,
    /// `NC_SHORT`: a signed integer of 2 bytes.
    Short,
    /// `NC_INT`: a signed integer of 4 bytes.
    Int,
    /// `NC_FLOAT`: IEEE 754 of 4 bytes.
    Float,
    /// `NC_DOUBLE`: IEEE 754 of 8 bytes.
    Double,
    /// `NC_UBYTE`: an unsigned integer of 1 byte. Like all types below, only in `CDF\x05`.
    UByte,
    /// `NC_USHORT`: an unsigned integer of 2 bytes.
    UShort,
    /// `NC_UINT`: an unsigned integer of 4 bytes.
    UInt,
    /// `NC_INT64`: a signed integer of 8 bytes.
    Int64,
    /// `NC_UINT64`: an unsigned integer of 8 bytes.
    UInt64,
}

impl External {
    /// All types, in the order of their numbers.
    const ALL: [External; 11] = {
        use External::*;
        [Byte, Char, Short, Int, Float, Double, UByte, UShort, UInt, Int64, UInt64]
    };

    /// The type with this number. `wide` allows the types of `CDF\x05`.
    pub(crate) fn of(number: u32, wide: bool) -> Option<External> {
        let of_this = if wide { &Self::ALL[..] } else { Self::ALL.split_at(6).0 };
        of_this.get(usize::try_from(number).ok()?.checked_sub(1)?).copied()
    }

    /// Its number.
    pub(crate) fn number(self) -> u32 {
        Self::ALL.iter().zip(1..).find(|(external, _)| **external == self).map_or(0, |(_, number)| number)
    }

    /// Its name in CDL, the language of ncdump.
    pub fn name(self) -> &'static str {
        use External::*;
        match self {
            Byte => "byte",
            Char => "char",
            Short => "short",
            Int => "int",
            Float => "float",
            Double => "double",
            UByte => "unsigned byte",
            UShort => "unsigned short",
            UInt => "unsigned int",
            Int64 => "int64",
            UInt64 => "unsigned int64",
        }
    }

    /// The element type in memory: the bytes as they are stored.
    pub fn dtype(self) -> DataType {
        use External::*;
        let (kind, size) = match self {
            Byte => (Kind::Int, 1),
            Char => (Kind::Bytes, 1),
            Short => (Kind::Int, 2),
            Int => (Kind::Int, 4),
            Float => (Kind::Float, 4),
            Double => (Kind::Float, 8),
            UByte => (Kind::UInt, 1),
            UShort => (Kind::UInt, 2),
            UInt => (Kind::UInt, 4),
            Int64 => (Kind::Int, 8),
            UInt64 => (Kind::UInt, 8),
        };
        #[allow(clippy::unwrap_used)] // All of these are types; the test below makes every one.
        DataType::new(kind, size, ByteOrder::Big).unwrap()
    }

    /// The type that stores these elements in a file of a version: the same, or the one that xarray
    /// takes instead. `None`: no type holds them.
    ///
    /// A number that a smaller type does not have cannot be written.
    pub fn for_elements(dtype: DataType, version: Version) -> Option<External> {
        let own = Self::of_elements(dtype).filter(|external| version.has(*external));
        own.or(match (dtype.kind(), dtype.size()) {
            (Kind::Bool, _) | (Kind::UInt, 1) => Some(External::Byte),
            (Kind::UInt, 2) => Some(External::Short),
            (Kind::Int | Kind::UInt, 8) | (Kind::UInt, 4) => Some(External::Int),
            (Kind::Float, 2) => Some(External::Float),
            _ => None,
        })
    }

    /// The type with these elements, in either byte order.
    pub fn of_elements(dtype: DataType) -> Option<External> {
        let big = dtype.with_order(ByteOrder::Big);
        Self::ALL.into_iter().find(|external| external.dtype() == big)
    }

    /// The stored default fill value (`NC_FILL_INT` and so on of netcdf.h).
    pub fn default_fill(self) -> Vec<u8> {
        use External::*;
        match self {
            Byte => (-127i8).to_be_bytes().to_vec(),
            Char => vec![0],
            Short => (-32767i16).to_be_bytes().to_vec(),
            Int => (-2_147_483_647i32).to_be_bytes().to_vec(),
            Float => 9.969_21e36_f32.to_be_bytes().to_vec(),
            Double => 9.969_209_968_386_869e36_f64.to_be_bytes().to_vec(),
            UByte => vec![u8::MAX],
            UShort => (u16::MAX).to_be_bytes().to_vec(),
            UInt => u32::MAX.to_be_bytes().to_vec(),
            Int64 => (-9_223_372_036_854_775_806i64).to_be_bytes().to_vec(),
            UInt64 => (u64::MAX - 1).to_be_bytes().to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_fill_values() {
        let names: Vec<_> =
            (0..=12).filter_map(|number| External::of(number, true)).map(|t| t.dtype().to_string()).collect();
        assert_eq!(names, ["|i1", "|S1", ">i2", ">i4", ">f4", ">f8", "|u1", ">u2", ">u4", ">i8", ">u8"]);
        for number in 1..=11 {
            let external = External::of(number, true).unwrap();
            assert_eq!(External::of(number, false).is_some(), number <= 6);
            assert_eq!(external.number(), number);
            assert_eq!(external.default_fill().len(), external.dtype().size());
        }
        for external in External::ALL {
            let little = external.dtype().with_order(ByteOrder::Little);
            assert_eq!(External::of_elements(little), Some(external));
        }
        assert_eq!(External::of_elements("<f2".parse().unwrap()), None);
        // The bits of netcdf.h's 9.9692099683868690e+36f.
        assert_eq!(External::Float.default_fill(), 0x7cf0_0000_u32.to_be_bytes());
        assert_eq!(External::Double.default_fill(), 0x479e_0000_0000_0000_u64.to_be_bytes());
    }
}
