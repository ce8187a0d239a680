//! Rust types that can be elements of an array.

use crate::{DataType, Kind};
use bytemuck::Pod;

/// A number type for [`crate::Array::read_vec`] and [`crate::Array::write_slice`].
/// For other element types use [`crate::Array::read`] and [`crate::Array::write`], which move
/// bytes.
pub trait Element: Pod + private::Sealed {
    /// The kind of this type.
    const KIND: Kind;

    /// Returns `true` if elements of `dtype` are values of this type, in either byte order.
    fn is_element_of(dtype: DataType) -> bool {
        dtype.kind() == Self::KIND && dtype.size() == size_of::<Self>()
    }
}

mod private {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($type:ty: $kind:ident),*) => {
        $(
            impl private::Sealed for $type {}
            impl Element for $type {
                const KIND: Kind = Kind::$kind;
            }
        )*
    };
}
elements!(u8: UInt, u16: UInt, u32: UInt, u64: UInt, i8: Int, i16: Int, i32: Int, i64: Int, f32: Float, f64: Float);

/// Reverses the bytes of each number of `size` bytes.
pub(crate) fn swap_bytes(bytes: &mut [u8], size: usize) {
    if size > 1 {
        bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_match_their_own_numbers_only() {
        let dtype = |name: &str| name.parse::<DataType>().unwrap();
        assert!(f32::is_element_of(dtype("<f4")));
        assert!(f32::is_element_of(dtype(">f4")));
        assert!(u8::is_element_of(dtype("|u1")));
        for other in ["|b1", "|i1", "<u2", "|S1", "|V1"] {
            assert!(!u8::is_element_of(dtype(other)), "{other}");
        }
        for other in ["<f8", "<i4", "<c8", "<U1"] {
            assert!(!f32::is_element_of(dtype(other)), "{other}");
        }
    }

    #[test]
    fn bytes_are_reversed_number_by_number() {
        let mut bytes = [1, 2, 3, 4];
        swap_bytes(&mut bytes, 2);
        assert_eq!(bytes, [2, 1, 4, 3]);
        swap_bytes(&mut bytes, 1);
        assert_eq!(bytes, [2, 1, 4, 3]);
    }
}
