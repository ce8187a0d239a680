//! Datatypes: the meaning of the bytes of one stored element.
//!
//! Specification IV.A.2.d, "The Datatype Message", versions 1 to 5.

mod build;
mod memory;
mod parse;
#[cfg(test)]
pub(crate) mod vectors;

use crate::error::BuildError;
use crate::{Cursor, Libver, Parsed};
use std::sync::Arc;

/// The message type number.
pub const KIND: u16 = 0x03;

/// Deepest nesting of types. Deeper types are refused.
pub const MAX_DEPTH: usize = 32;

/// Largest number of types within a type.
pub const MAX_TYPES: usize = 1 << 16;

/// The type of a stored element.
#[derive(Clone, Debug, PartialEq)]
pub struct Datatype {
    /// Bytes of one element in the file.
    pub size: u32,
    /// The meaning of the bytes.
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

/// The end of a fixed-length string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// It ends at the first NUL.
    NullTerminated,
    /// Trailing NULs do not count.
    NullPadded,
    /// Trailing spaces do not count.
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
    /// Returns `true` for UTF-8.
    pub fn is_utf8(self) -> bool {
        self == Charset::Utf8
    }
}

/// The layout of a floating-point number. Bits are numbered from the least significant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FloatLayout {
    /// Byte order.
    pub order: Order,
    /// First significant bit.
    pub offset: u16,
    /// Number of significant bits.
    pub precision: u16,
    /// The sign bit.
    pub sign: u8,
    /// First bit of the exponent.
    pub exponent_at: u8,
    /// Number of bits of the exponent.
    pub exponent_bits: u8,
    /// First bit of the mantissa.
    pub mantissa_at: u8,
    /// Number of bits of the mantissa.
    pub mantissa_bits: u8,
    /// Exponent bias.
    pub bias: u32,
    /// 0: not normalised; 1: first bit stored and always set; 2: first bit implied (IEEE).
    pub normalization: u8,
}

/// A member of a compound.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Name of the member.
    pub name: String,
    /// Offset in bytes from the start of the compound.
    pub offset: u32,
    /// Type of the member.
    pub datatype: Arc<Datatype>,
}

/// The target of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceKind {
    /// An object, by its address (old).
    Object,
    /// A region of a dataset, by a global heap id (old).
    Region,
    /// An object (HDF5 1.12, `H5R_ref_t`).
    Object2,
    /// A region (HDF5 1.12).
    Region2,
    /// An attribute (HDF5 1.12).
    Attribute,
}

/// The meaning of an element's bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Class {
    /// Class 0.
    Integer {
        /// Byte order.
        order: Order,
        /// `true` for two's complement.
        signed: bool,
        /// First significant bit, counted from the least significant.
        offset: u16,
        /// Number of significant bits.
        precision: u16,
    },
    /// Class 1.
    Float(FloatLayout),
    /// Class 2.
    Time {
        /// Byte order.
        order: Order,
        /// Number of significant bits.
        precision: u16,
    },
    /// Class 3, of fixed length.
    String {
        /// How the string ends.
        padding: Padding,
        /// The encoding.
        charset: Charset,
    },
    /// Class 4.
    Bitfield {
        /// Byte order.
        order: Order,
        /// First significant bit.
        offset: u16,
        /// Number of significant bits.
        precision: u16,
    },
    /// Class 5.
    Opaque {
        /// The writer's description. h5py writes `NUMPY:<M8[s]` for dates.
        tag: String,
    },
    /// Class 6.
    Compound(Vec<Member>),
    /// Class 7.
    Reference(ReferenceKind),
    /// Class 8. Values are stored as the base type.
    Enum {
        /// An integer type.
        base: Arc<Datatype>,
        /// Names, and values as stored.
        members: Vec<(String, Vec<u8>)>,
    },
    /// Class 9, a string: a length (4 bytes), then a global heap id.
    VlenString {
        /// How the string ends.
        padding: Padding,
        /// The encoding.
        charset: Charset,
    },
    /// Class 9, a sequence: a number of elements (4 bytes), then a global heap id.
    Vlen(Arc<Datatype>),
    /// Class 10.
    Array {
        /// Elements per axis.
        shape: Vec<u32>,
        /// The type of its elements.
        base: Arc<Datatype>,
    },
    /// Class 11: two floats.
    Complex(Arc<Datatype>),
}

impl Datatype {
    /// Parses a datatype message. Other bytes may follow it (in an attribute they do).
    pub fn parse(cursor: &mut Cursor<'_>) -> Parsed<Datatype> {
        parse::datatype(cursor)
    }

    /// Builds a datatype message.
    pub fn build(&self, libver: Libver) -> Result<Vec<u8>, BuildError> {
        build::datatype(self, libver)
    }

    /// Returns `true` if elements, or parts of them, refer to values elsewhere in the file.
    pub fn refers(&self) -> bool {
        match &self.class {
            Class::Reference(_) | Class::VlenString { .. } | Class::Vlen(_) => true,
            Class::Compound(members) => members.iter().any(|member| member.datatype.refers()),
            Class::Array { base, .. } => base.refers(),
            _ => false,
        }
    }
}
