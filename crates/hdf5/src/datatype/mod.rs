//! Datatypes: what the bytes of one stored element mean (specification IV.A.2.d, "The Datatype
//! Message", versions 1 to 5).

mod parse;
#[cfg(test)]
pub(crate) mod vectors;

use crate::{Cursor, Parsed};
use std::sync::Arc;

/// The number of the message.
pub const KIND: u16 = 0x03;

/// Types within types are followed to this depth; deeper ones are refused.
pub const MAX_DEPTH: usize = 32;

/// A type is made of no more types than these.
pub const MAX_TYPES: usize = 1 << 16;

/// The type of a stored element.
#[derive(Clone, Debug, PartialEq)]
pub struct Datatype {
    /// Bytes of one element in the file.
    pub size: u32,
    /// What they mean.
    pub class: Class,
}

/// The order of the bytes of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Least significant first.
    Little,
    /// Most significant first.
    Big,
    /// Pairs of little-endian bytes, most significant pair first (VAX floats).
    Vax,
}

/// How a fixed string ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// At the first NUL.
    NullTerminated,
    /// NULs at its end do not count.
    NullPadded,
    /// Spaces at its end do not count.
    SpacePadded,
}

/// The encoding of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charset {
    /// ASCII (in practice: any bytes).
    Ascii,
    /// UTF-8.
    Utf8,
}

impl Charset {
    /// Whether it is UTF-8.
    pub fn is_utf8(self) -> bool {
        self == Charset::Utf8
    }
}

/// The layout of a floating-point number, in bits from the least significant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FloatLayout {
    /// Of its bytes.
    pub order: Order,
    /// First bit that counts.
    pub offset: u16,
    /// Bits that count.
    pub precision: u16,
    /// The sign bit.
    pub sign: u8,
    /// First bit of the exponent.
    pub exponent_at: u8,
    /// Bits of the exponent.
    pub exponent_bits: u8,
    /// First bit of the mantissa.
    pub mantissa_at: u8,
    /// Bits of the mantissa.
    pub mantissa_bits: u8,
    /// What is added to the exponent.
    pub bias: u32,
    /// 0: not normalised; 1: the first bit is stored and always set; 2: it is implied (IEEE).
    pub normalization: u8,
}

/// A member of a compound.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Bytes from the start of the compound.
    pub offset: u32,
    /// Its type.
    pub datatype: Arc<Datatype>,
}

/// What a reference refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceKind {
    /// An object: its address (old).
    Object,
    /// A region of a dataset: a global heap id (old).
    Region,
    /// An object (HDF5 1.12, `H5R_ref_t`).
    Object2,
    /// A region (HDF5 1.12).
    Region2,
    /// An attribute (HDF5 1.12).
    Attribute,
}

/// What the bytes mean.
#[derive(Clone, Debug, PartialEq)]
pub enum Class {
    /// Class 0.
    Integer {
        /// Of its bytes.
        order: Order,
        /// Two's complement.
        signed: bool,
        /// First bit that counts, from the least significant.
        offset: u16,
        /// Bits that count.
        precision: u16,
    },
    /// Class 1.
    Float(FloatLayout),
    /// Class 2.
    Time {
        /// Of its bytes.
        order: Order,
        /// Bits that count.
        precision: u16,
    },
    /// Class 3, of fixed length.
    String {
        /// How it ends.
        padding: Padding,
        /// Its encoding.
        charset: Charset,
    },
    /// Class 4.
    Bitfield {
        /// Of its bytes.
        order: Order,
        /// First bit that counts.
        offset: u16,
        /// Bits that count.
        precision: u16,
    },
    /// Class 5.
    Opaque {
        /// What the writer says it is; h5py writes `NUMPY:<M8[s]` for dates.
        tag: String,
    },
    /// Class 6.
    Compound(Vec<Member>),
    /// Class 7.
    Reference(ReferenceKind),
    /// Class 8. Values have the base type's bytes.
    Enum {
        /// An integer type.
        base: Arc<Datatype>,
        /// Names, and values as stored.
        members: Vec<(String, Vec<u8>)>,
    },
    /// Class 9, a string: 4 bytes length, then a global heap id.
    VlenString {
        /// How it ends.
        padding: Padding,
        /// Its encoding.
        charset: Charset,
    },
    /// Class 9, a sequence: 4 bytes number of elements, then a global heap id.
    Vlen(Arc<Datatype>),
    /// Class 10.
    Array {
        /// Elements per axis.
        shape: Vec<u32>,
        /// Its elements.
        base: Arc<Datatype>,
    },
    /// Class 11: two floats.
    Complex(Arc<Datatype>),
}

impl Datatype {
    /// Parses a datatype message. It may be followed by other bytes (in an attribute it is).
    pub fn parse(cursor: &mut Cursor<'_>) -> Parsed<Datatype> {
        parse::datatype(cursor)
    }

    /// Whether elements, or parts of them, refer to values elsewhere in the file.
    pub fn refers(&self) -> bool {
        match &self.class {
            Class::Reference(_) | Class::VlenString { .. } | Class::Vlen(_) => true,
            Class::Compound(members) => members.iter().any(|member| member.datatype.refers()),
            Class::Array { base, .. } => base.refers(),
            _ => false,
        }
    }
}
