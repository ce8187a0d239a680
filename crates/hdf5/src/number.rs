//! Numbers as HDF5 describes them, bit by bit. This module finds the NumPy number that holds every
//! value of a stored number, and converts the bits.
//!
//! Integers have padding on both sides of the significant bits. Floats have a sign, an exponent and
//! a mantissa at any place. If the exponent is all zeros, the number is denormalised. If it is all
//! ones, the number is infinite or NaN. HDF5 reads layouts without such values (VAX) the same way.

mod extended;
mod put;

pub(crate) use extended::Extended;
pub(crate) use put::stored_integer;

use crate::datatype::{Class, Datatype, FloatLayout, Order};
use crate::{ParseError, Parsed};
use hyperslab_codec::{ByteOrder, DataType, Kind};

/// A stored integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Integer {
    pub size: usize,
    pub order: Order,
    pub signed: bool,
    /// First significant bit.
    pub offset: u16,
    /// Number of significant bits.
    pub precision: u16,
}

impl Integer {
    /// The layout of an integer, or of a bitfield as an unsigned integer. `None`: another class.
    pub fn of(datatype: &Datatype) -> Option<Integer> {
        let size = usize::try_from(datatype.size).ok()?;
        match datatype.class {
            Class::Integer { order, signed, offset, precision } => {
                Some(Integer { size, order, signed, offset, precision })
            }
            Class::Bitfield { order, offset, precision } => {
                Some(Integer { size, order, signed: false, offset, precision })
            }
            _ => None,
        }
    }

    /// Returns the NumPy integer of the same size, or else the smallest one that holds every value.
    pub fn in_memory(&self) -> Parsed<DataType> {
        let size = match self.size {
            1 | 2 | 4 | 8 => Some(self.size),
            _ => [1, 2, 4, 8].into_iter().find(|size| size * 8 >= usize::from(self.precision)),
        };
        let kind = if self.signed { Kind::Int } else { Kind::UInt };
        size.filter(|_| self.offset.saturating_add(self.precision) <= 128)
            .and_then(|size| DataType::new(kind, size, byte_order(self.order)))
            .ok_or_else(|| {
                let (bits, offset, size) = (self.precision, self.offset, self.size);
                ParseError::Unsupported(format!(
                    "an integer of {bits} bits from bit {offset} of {size} bytes"
                ))
            })
    }

    /// Returns `true` if the stored number is a NumPy integer already, apart from its byte order.
    pub fn is_plain(&self) -> bool {
        matches!(self.size, 1 | 2 | 4 | 8) && usize::from(self.precision) == self.size * 8
    }

    pub fn value(&self, stored: &[u8]) -> i128 {
        let (offset, precision) = (u32::from(self.offset), u32::from(self.precision));
        if self.size <= 8 {
            let unused = 64 - precision.clamp(1, 64);
            let bits = load64(stored, self.order) >> offset.min(63) << unused;
            return if self.signed { (bits.cast_signed() >> unused).into() } else { (bits >> unused).into() };
        }
        let unused = 128 - precision.clamp(1, 128);
        let bits = load(stored, self.order) >> offset.min(127) << unused;
        if self.signed { bits.cast_signed() >> unused } else { (bits >> unused).cast_signed() }
    }
}

/// A float in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FloatType {
    pub size: usize,
    /// Number of mantissa bits below the binary point.
    fraction_bits: u8,
    exponent_bits: u8,
    /// `true` if the bit above the binary point is stored.
    leading: bool,
}

pub(crate) const F16: FloatType = FloatType { size: 2, fraction_bits: 10, exponent_bits: 5, leading: false };
pub(crate) const F32: FloatType = FloatType { size: 4, fraction_bits: 23, exponent_bits: 8, leading: false };
pub(crate) const F64: FloatType = FloatType { size: 8, fraction_bits: 52, exponent_bits: 11, leading: false };
/// The 80-bit x87 float in 16 bytes: NumPy's `longdouble` on x86-64.
pub(crate) const F80: FloatType = FloatType { size: 16, fraction_bits: 63, exponent_bits: 15, leading: true };

impl FloatType {
    /// Returns the float of 2, 4 or 8 bytes.
    pub fn of(size: usize) -> FloatType {
        match size {
            2 => F16,
            4 => F32,
            _ => F64,
        }
    }

    fn bias(&self) -> i64 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    /// Number of stored mantissa bits.
    fn mantissa_bits(&self) -> u8 {
        self.fraction_bits + u8::from(self.leading)
    }

    /// Returns `true` if a stored float has exactly these bits. Its size in bytes may differ.
    fn is(&self, layout: &FloatLayout) -> bool {
        let width = self.mantissa_bits();
        let fields = (layout.mantissa_at, layout.mantissa_bits, layout.exponent_at, layout.exponent_bits);
        fields == (0, width, width, self.exponent_bits)
            && (layout.sign, i64::from(layout.bias)) == (width + self.exponent_bits, self.bias())
            && (layout.normalization == 2) != self.leading
    }

    fn layout(&self, order: Order) -> FloatLayout {
        let at = self.mantissa_bits();
        FloatLayout {
            order,
            offset: 0,
            precision: u16::from(at + self.exponent_bits + 1),
            sign: at + self.exponent_bits,
            exponent_at: at,
            exponent_bits: self.exponent_bits,
            mantissa_at: 0,
            mantissa_bits: at,
            bias: u32::try_from(self.bias()).unwrap_or_default(),
            normalization: if self.leading { 0 } else { 2 },
        }
    }

    /// Returns `true` if the type holds every value of a layout.
    fn holds(&self, layout: &FloatLayout) -> bool {
        let (bias, bits) = (i64::from(layout.bias), u32::from(layout.exponent_bits));
        // The largest exponent means infinity in both types.
        let largest = 2_i64.checked_pow(bits).map(|exponents| exponents - 2 - bias);
        layout.mantissa_bits <= self.fraction_bits
            && largest.is_some_and(|largest| largest <= self.bias())
            && bias <= self.bias()
    }

    /// Returns the bits of `mantissa × 2^exponent`. The type must hold the value exactly.
    fn bits(&self, mantissa: u128, exponent: i64) -> u128 {
        let Some(top) = mantissa.checked_ilog2() else { return 0 };
        let (fraction_bits, smallest) = (i64::from(self.fraction_bits), 1 - self.bias());
        let magnitude = exponent + i64::from(top);
        if magnitude < smallest {
            return shift(mantissa, exponent - (smallest - fraction_bits));
        }
        let field = u128::try_from(magnitude + self.bias()).unwrap_or_default();
        let mantissa = shift(mantissa, fraction_bits - i64::from(top));
        field << self.mantissa_bits() | mantissa & mask(self.mantissa_bits())
    }

    /// Returns the bits of infinity (`payload` 0) or of a NaN.
    fn special_bits(&self, payload: u128) -> u128 {
        let leading = u128::from(self.leading) << self.fraction_bits;
        mask(self.exponent_bits) << self.mantissa_bits() | leading | payload
    }
}

/// A stored float of `size` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Float {
    pub size: usize,
    pub layout: FloatLayout,
}

impl Float {
    /// Returns the smallest float that holds every value. It is not smaller than the stored one.
    ///
    /// Stored floats of more than 8 bytes may become 8 bytes.
    pub fn in_memory(&self) -> Parsed<FloatType> {
        let layout = &self.layout;
        let end = |at: u8, len: u8| at.saturating_add(len);
        let end = end(layout.sign, 1)
            .max(end(layout.exponent_at, layout.exponent_bits))
            .max(end(layout.mantissa_at, layout.mantissa_bits));
        let fits = |to: &FloatType| to.is(layout) || to.holds(layout);
        let found = [F16, F32, F64, F80].into_iter().find(|to| fits(to) && to.size >= self.size.min(8));
        found.filter(|_| end <= 128).ok_or_else(|| {
            ParseError::Unsupported(format!(
                "a floating-point number of {} bytes with {} bits of mantissa and {} bits of exponent",
                self.size, layout.mantissa_bits, layout.exponent_bits
            ))
        })
    }

    /// Returns `true` if the bytes in memory are the stored bytes.
    pub fn is_plain(&self, to: FloatType) -> bool {
        self.size == to.size && to.is(&self.layout) && self.layout.order != Order::Vax
    }

    /// Converts a stored float to its bits in memory.
    pub fn convert(&self, stored: &[u8], to: FloatType) -> u128 {
        let layout = &self.layout;
        if self.size > 8 && to.is(layout) {
            return load(stored, layout.order) & mask(to.mantissa_bits() + to.exponent_bits + 1);
        }
        let (sign, exponent, mantissa) = self.fields(stored);
        let sign = u128::from(sign) << (to.mantissa_bits() + to.exponent_bits);
        let (width, implied) = (layout.mantissa_bits, layout.normalization == 2);
        let more = i64::from(to.fraction_bits) - i64::from(width);
        if implied
            && !to.leading
            && to.exponent_bits == layout.exponent_bits
            && to.bias() == i64::from(layout.bias)
        {
            // The types differ only in mantissa bits, so this works for every exponent.
            return sign | u128::from(exponent) << to.fraction_bits | shift(mantissa.into(), more);
        }
        if u128::from(exponent) == mask(layout.exponent_bits) {
            // A stored leading bit does not distinguish infinity from NaN.
            let payload = if implied { mantissa.into() } else { u128::from(mantissa) & mask(width - 1) };
            return sign | to.special_bits(shift(payload, more));
        }
        // A stored leading bit is not below the binary point.
        let scale = i64::try_from(exponent).unwrap_or_default() - i64::from(layout.bias) - i64::from(width);
        sign | match (implied, exponent) {
            (true, 1..) => to.bits(u128::from(mantissa) | 1 << width, scale),
            _ => to.bits(mantissa.into(), scale + 1),
        }
    }

    /// Returns sign, exponent and mantissa. Every layout that is converted has at most 64 bits in
    /// each.
    fn fields(&self, stored: &[u8]) -> (u64, u64, u64) {
        let layout = &self.layout;
        let fields = [
            (layout.sign, 1),
            (layout.exponent_at, layout.exponent_bits),
            (layout.mantissa_at, layout.mantissa_bits),
        ];
        let [sign, exponent, mantissa] = if self.size <= 8 {
            let bits = load64(stored, layout.order);
            fields.map(|(at, len)| bits >> at.min(63) & (u64::MAX >> (64 - len.clamp(1, 64))))
        } else {
            let bits = load(stored, layout.order);
            let low = |bits: u128| u64::try_from(bits).unwrap_or_default();
            fields.map(|(at, len)| low(bits >> at.min(127) & mask(len.min(64))))
        };
        (sign, exponent, mantissa)
    }
}

/// Returns the byte order in memory.
pub(crate) fn byte_order(order: Order) -> ByteOrder {
    match order {
        Order::Little | Order::Vax => ByteOrder::Little,
        Order::Big => ByteOrder::Big,
    }
}

/// Returns the stored order of a number with this byte order in memory.
fn stored_order(order: ByteOrder) -> Order {
    if order == ByteOrder::Little { Order::Little } else { Order::Big }
}

/// Loads the low 128 bits of a stored number.
fn load(stored: &[u8], order: Order) -> u128 {
    let mut bytes = [0; 16];
    match order {
        Order::Little => copy(&mut bytes, stored.iter()),
        Order::Big => copy(&mut bytes, stored.iter().rev()),
        Order::Vax => copy(&mut bytes, stored.rchunks(2).flatten()),
    }
    u128::from_le_bytes(bytes)
}

/// Loads a stored number of up to 8 bytes.
#[inline]
fn load64(stored: &[u8], order: Order) -> u64 {
    let little = match *stored {
        [a] => a.into(),
        [a, b] => u16::from_le_bytes([a, b]).into(),
        [a, b, c] => u32::from_le_bytes([a, b, c, 0]).into(),
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]).into(),
        [a, b, c, d, e, f, g, h] => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => stored.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)),
    };
    let unused = 64_usize.saturating_sub(stored.len() * 8).min(63);
    match order {
        Order::Little => little,
        Order::Big => little.swap_bytes() >> unused,
        Order::Vax => {
            const EVEN: u64 = 0x00ff_00ff_00ff_00ff;
            let big = little.swap_bytes() >> unused;
            (big & EVEN) << 8 | big >> 8 & EVEN
        }
    }
}

/// Writes the low 1, 2, 4, 8 or 16 bytes of a number.
#[inline]
pub(crate) fn store(bits: u128, order: ByteOrder, memory: &mut [u8]) {
    match memory.len() {
        1 => put::<1>(bits, order, memory),
        2 => put::<2>(bits, order, memory),
        4 => put::<4>(bits, order, memory),
        8 => put::<8>(bits, order, memory),
        _ => put::<16>(bits, order, memory),
    }
}

#[inline]
fn put<const N: usize>(bits: u128, order: ByteOrder, memory: &mut [u8]) {
    let bytes = bits.to_le_bytes();
    if let (Ok(memory), Some(low)) = (<&mut [u8; N]>::try_from(memory), bytes.first_chunk()) {
        *memory = *low;
        if order == ByteOrder::Big {
            memory.reverse();
        }
    }
}

fn copy<'a>(to: &mut [u8], from: impl Iterator<Item = &'a u8>) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
}

/// A mask of the `len` lowest bits.
fn mask(len: u8) -> u128 {
    u128::MAX.checked_shr(128 - u32::from(len.min(128))).unwrap_or_default()
}

/// Shifts to the left, or to the right if `by` is negative.
fn shift(bits: u128, by: i64) -> u128 {
    let count = u32::try_from(by.unsigned_abs()).unwrap_or(u32::MAX);
    let shifted = if by < 0 { bits.checked_shr(count) } else { bits.checked_shl(count) };
    shifted.unwrap_or_default()
}

/// Returns the value of a float of 2, 4, 8 or 16 bytes. (16 bytes hold 80 bits, which are rounded.)
pub(crate) fn float_value(memory: &[u8], order: ByteOrder) -> f64 {
    let order = stored_order(order);
    let bits = |bits: u128| f64::from_bits(u64::try_from(bits & mask(64)).unwrap_or_default());
    match memory.len() {
        size @ (2 | 4) => {
            bits(Float { size, layout: FloatType::of(size).layout(order) }.convert(memory, F64))
        }
        8 => bits(load(memory, order)),
        _ => extended_value(load(memory, order)),
    }
}

fn extended_value(bits: u128) -> f64 {
    let (mantissa, exponent) = (u64::try_from(bits & mask(64)).unwrap_or_default(), bits >> 64 & mask(15));
    let exponent = i32::try_from(exponent).unwrap_or_default();
    let magnitude = match (exponent, mantissa << 1) {
        (0x7fff, 0) => f64::INFINITY,
        (0x7fff, _) => f64::NAN,
        // Scale in two steps. The power of two alone may be out of range for a double.
        _ => {
            let exponent = (exponent.max(1) - 16383 - 63).clamp(-3000, 3000);
            mantissa as f64 * 2_f64.powi(exponent / 2) * 2_f64.powi(exponent - exponent / 2)
        }
    };
    if bits >> 79 & 1 == 0 { magnitude } else { -magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(fields: [u8; 5], bias: u32) -> FloatLayout {
        let [sign, exponent_at, exponent_bits, mantissa_at, mantissa_bits] = fields;
        let precision = u16::from(sign) + 1;
        FloatLayout {
            order: Order::Little,
            offset: 0,
            precision,
            sign,
            exponent_at,
            exponent_bits,
            mantissa_at,
            mantissa_bits,
            bias,
            normalization: 2,
        }
    }

    /// Value of a stored float after conversion to its type in memory.
    fn value(size: usize, layout: FloatLayout, stored: &[u8]) -> f64 {
        let float = Float { size, layout };
        let to = float.in_memory().unwrap();
        let mut memory = vec![0; to.size];
        store(float.convert(stored, to), ByteOrder::Little, &mut memory);
        float_value(&memory, ByteOrder::Little)
    }

    fn assert_same(found: f64, expected: f64, bits: u32) {
        let same = expected == found || expected.is_nan() && found.is_nan();
        assert!(same, "{bits:#x}: {expected} {found}");
    }

    #[test]
    fn every_half_is_itself() {
        let half = layout([15, 10, 5, 0, 10], 15);
        // The same bits at other places, in three bytes.
        let wide = layout([20, 12, 5, 1, 10], 15);
        for bits in 0..=u16::MAX {
            let expected = value(2, half, &bits.to_le_bytes());
            let moved =
                u32::from(bits >> 15) << 20 | u32::from(bits >> 10 & 31) << 12 | u32::from(bits & 1023) << 1;
            let found = value(3, wide, &moved.to_le_bytes()[..3]);
            assert_same(found, expected, bits.into());
            assert_eq!(expected.is_sign_negative(), found.is_sign_negative());
        }
        assert_eq!(value(2, half, &[0, 0x3c]), 1.0);
        assert_eq!(value(2, half, &[1, 0]), 2_f64.powi(-24));
        assert_eq!(value(2, half, &[0, 0xfc]), f64::NEG_INFINITY);
    }

    #[test]
    fn bfloat16_is_the_upper_half_of_a_single() {
        let bfloat = layout([15, 7, 8, 0, 7], 127);
        assert_eq!(Float { size: 2, layout: bfloat }.in_memory(), Ok(F32));
        for bits in 0..=u16::MAX {
            let expected = f64::from(f32::from_bits(u32::from(bits) << 16));
            let found = value(2, bfloat, &bits.to_le_bytes());
            assert_same(found, expected, bits.into());
        }
    }

    #[test]
    fn singles_in_other_clothes() {
        let single = layout([31, 23, 8, 0, 23], 127);
        let big = FloatLayout { order: Order::Big, ..single };
        // Mantissa, exponent and sign with gaps between them, in 8 bytes.
        let apart = layout([50, 40, 8, 3, 23], 127);
        for bits in (0..=u32::MAX).step_by(65_521).chain([0, 1, 0x7f80_0000, 0xff7f_ffff, 0x807f_ffff]) {
            let expected = f64::from(f32::from_bits(bits));
            let wide = u64::from(bits >> 31) << 50
                | u64::from(bits >> 23 & 255) << 40
                | u64::from(bits & 0x7f_ffff) << 3;
            let found = [
                value(4, single, &bits.to_le_bytes()),
                value(4, big, &bits.to_be_bytes()),
                value(8, apart, &wide.to_le_bytes()),
            ];
            found.into_iter().for_each(|found| assert_same(found, expected, bits));
        }
    }

    /// Values as HDF5 2.0 converts them.
    #[test]
    fn vax() {
        let vax = FloatLayout { order: Order::Vax, ..layout([31, 23, 8, 0, 23], 129) };
        let cases = [
            ([0x80, 0x40, 0, 0], 1.0),
            ([0, 0, 0, 0], 0.0),
            ([0x80, 0xc0, 0, 0], -1.0),
            ([1, 0, 0, 0], 2.295_887_403_949_780_3e-41),
            ([0x80, 0x7f, 0, 0], f64::INFINITY),
        ];
        for (stored, expected) in cases {
            assert_eq!(value(4, vax, &stored), expected, "{stored:?}");
        }
    }

    #[test]
    fn leading_bits_that_are_stored() {
        let stored = FloatLayout { normalization: 0, ..layout([31, 23, 8, 0, 23], 127) };
        let cases = [
            (0x3fc0_0000_u32, 1.0),
            (0x4040_0000, 2.0),
            (0x3fe0_0000, 1.5),
            (0, 0.0),
            (0x3f80_0000, 0.0),
            (0x7fc0_0000, f64::INFINITY),
            (0x0040_0000, 2_f64.powi(-127)),
        ];
        for (bits, expected) in cases {
            assert_eq!(value(4, stored, &bits.to_le_bytes()), expected, "{bits:#x}");
        }
        assert!(value(4, stored, &0x7fc0_0001_u32.to_le_bytes()).is_nan());
    }

    #[test]
    fn eighty_bits() {
        let x87 = FloatLayout { normalization: 0, ..layout([79, 64, 15, 0, 64], 16383) };
        let float = Float { size: 10, layout: x87 };
        assert_eq!(float.in_memory(), Ok(F80));
        let one = [0, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0x3f];
        assert_eq!(value(10, x87, &one), 1.0);
        assert_eq!(value(10, x87, &[0, 0, 0, 0, 0, 0, 0, 0xc0, 0x00, 0xc0]), -3.0);
        assert_eq!(value(10, x87, &[0, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0x7f]), f64::INFINITY);
        assert!(value(10, x87, &[0, 0, 0, 0, 0, 0, 0, 0xc0, 0xff, 0x7f]).is_nan());
        assert_eq!(value(10, x87, &[0; 10]), 0.0);
        // Below the smallest double.
        assert_eq!(value(10, x87, &[0, 0, 0, 0, 0, 0, 0, 0x80, 1, 0]), 0.0);
        // As large as a double, but with an exponent range that does not fit into one.
        let far = layout([63, 52, 11, 0, 52], 500);
        assert_eq!(Float { size: 8, layout: far }.in_memory(), Ok(F80));
        assert_eq!(value(8, far, &(500_u64 << 52 | 1 << 51).to_le_bytes()), 1.5);
        assert_eq!(value(8, far, &(0xfff_u64 << 52).to_le_bytes()), f64::NEG_INFINITY);
    }

    #[test]
    fn integers() {
        let integer =
            |size, order, signed, offset, precision| Integer { size, order, signed, offset, precision };
        let three = integer(3, Order::Little, true, 0, 24);
        assert_eq!(three.value(&[0xff, 0xff, 0xff]), -1);
        assert_eq!(three.value(&[0, 0, 0x80]), -0x80_0000);
        assert_eq!(three.in_memory().unwrap().numpy(), "<i4");
        let big = integer(5, Order::Big, false, 0, 40);
        assert_eq!(big.value(&[1, 2, 3, 4, 5]), 0x01_0203_0405);
        assert_eq!(big.in_memory().unwrap().numpy(), ">u8");
        let inside = integer(4, Order::Little, true, 5, 17);
        assert_eq!(inside.value(&0xffff_ffff_u32.to_le_bytes()), -1);
        assert_eq!(inside.value(&(1_u32 << 5).to_le_bytes()), 1);
        assert_eq!(inside.value(&(1_u32 << 21).to_le_bytes()), -65_536);
        assert_eq!(inside.value(&0x1f_u32.to_le_bytes()), 0);
        let wide = integer(16, Order::Little, false, 60, 64);
        assert_eq!(wide.value(&(u128::from(u64::MAX) << 60).to_le_bytes()), i128::from(u64::MAX));
        assert!(integer(16, Order::Little, true, 0, 65).in_memory().is_err());
        assert!(integer(20, Order::Little, true, 100, 32).in_memory().is_err());
        assert_eq!(integer(4, Order::Little, true, 0, 7).in_memory().unwrap().numpy(), "<i4");
    }
}
