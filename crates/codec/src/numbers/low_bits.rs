//! The low bits of numbers: casts that drop the other bits on purpose, or because they are zero.
//!
//! All such casts are here, so that the lints report any other one as a mistake.

#![expect(clippy::cast_possible_truncation, reason = "the low bits are what is asked for")]

/// The low 8 bits.
#[inline(always)]
pub(crate) const fn low8(number: u64) -> u8 {
    number as u8
}

/// The low 16 bits.
#[inline(always)]
pub(crate) const fn low16(number: u64) -> u16 {
    number as u16
}

/// The low 32 bits.
#[inline(always)]
pub(crate) const fn low32(number: u64) -> u32 {
    number as u32
}
