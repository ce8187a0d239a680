//! Numbers as HDF5 describes them, by their bits: which NumPy number holds every value of a stored one, and how its bits become that number's.
//!
//! Integers have padding on both sides of the bits that count. Floats have a sign, an exponent and a mantissa anywhere; where the exponent is all zeros the
//! number is denormalised, where it is all ones it is no number or infinite, as HDF5 itself takes it also for layouts that know no such values (VAX).

use crate::ParseError;
use crate::datatype::{Class, Datatype, FloatLayout, Order};
use hyperslab_codec::{ByteOrder, DataType, Kind};

/// A stored integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Integer {
    /// Bytes.
    pub size: usize,
    pub order: Order,
    pub signed: bool,
    /// First bit that counts.
    pub offset: u16,
    /// Bits that count.
    pub precision: u16,
}

impl Integer {
    /// That of an integer type, or of a bitfield, whose bits are those of a number without a sign. `None`: of another class.
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

    /// The NumPy integer that it becomes: of the same size where there is one, else the smallest that holds every value.
    pub fn in_memory(&self) -> Result<DataType, ParseError> {
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

    /// Whether it is that already.
    pub fn is_plain(&self) -> bool {
        matches!(self.size, 1 | 2 | 4 | 8) && usize::from(self.precision) == self.size * 8
    }

    /// The value of a stored one.
    pub fn value(&self, stored: &[u8]) -> i128 {
        let unused = 128 - u32::from(self.precision.clamp(1, 128));
        let bits = load(stored, self.order) >> self.offset.min(127) << unused;
        if self.signed { bits.cast_signed() >> unused } else { (bits >> unused).cast_signed() }
    }
}

/// The float in memory that a stored one becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FloatType {
    /// IEEE of 2, 4 or 8 bytes.
    Ieee(Ieee),
    /// The 80 bits of x87 in 16 bytes: NumPy's `longdouble` on x86-64.
    Extended,
}

impl FloatType {
    /// Bytes.
    pub fn size(&self) -> usize {
        match self {
            FloatType::Ieee(ieee) => ieee.size,
            FloatType::Extended => 16,
        }
    }
}

/// An IEEE format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ieee {
    /// Bytes.
    pub size: usize,
    /// Bits of the mantissa as stored.
    mantissa_bits: u8,
    /// Bits of the exponent.
    exponent_bits: u8,
}

pub(crate) const F16: Ieee = Ieee { size: 2, mantissa_bits: 10, exponent_bits: 5 };
pub(crate) const F32: Ieee = Ieee { size: 4, mantissa_bits: 23, exponent_bits: 8 };
pub(crate) const F64: Ieee = Ieee { size: 8, mantissa_bits: 52, exponent_bits: 11 };

impl Ieee {
    fn bias(&self) -> i64 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    /// Whether a stored float is of this very format.
    fn is(&self, layout: &FloatLayout, size: usize) -> bool {
        let at = self.mantissa_bits + self.exponent_bits;
        let fields = (layout.mantissa_at, layout.mantissa_bits, layout.exponent_at, layout.exponent_bits);
        size == self.size
            && layout.order != Order::Vax
            && fields == (0, self.mantissa_bits, self.mantissa_bits, self.exponent_bits)
            && (layout.sign, layout.normalization, i64::from(layout.bias)) == (at, 2, self.bias())
    }

    /// Whether it holds every value of a layout.
    fn holds(&self, layout: &FloatLayout) -> bool {
        let (bias, bits) = (i64::from(layout.bias), u32::from(layout.exponent_bits));
        // The largest exponent stands for infinity, here and there.
        let largest = 2_i64.checked_pow(bits).map(|exponents| exponents - 2 - bias);
        layout.mantissa_bits <= self.mantissa_bits
            && largest.is_some_and(|largest| largest <= self.bias())
            && 1 - bias >= 1 - self.bias()
    }

    /// The bits of `mantissa × 2^exponent`, which this format holds exactly.
    fn bits(&self, mantissa: u128, exponent: i64) -> u128 {
        let Some(top) = mantissa.checked_ilog2() else { return 0 };
        let (width, smallest) = (i64::from(self.mantissa_bits), 1 - self.bias());
        let magnitude = exponent + i64::from(top);
        if magnitude < smallest {
            return shift(mantissa, exponent - (smallest - width));
        }
        let field = u128::try_from(magnitude + self.bias()).unwrap_or_default();
        let fraction = shift(mantissa, width - i64::from(top)) & mask(self.mantissa_bits);
        field << self.mantissa_bits | fraction
    }
}

/// A stored float, of so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Float {
    pub size: usize,
    pub layout: FloatLayout,
}

impl Float {
    /// The float in memory: the smallest that holds every value exactly and is no smaller than the stored one (that of 8 bytes also for larger ones), as in h5py.
    pub fn in_memory(&self) -> Result<FloatType, ParseError> {
        let layout = &self.layout;
        if let Some(found) = [F16, F32, F64].into_iter().find(|ieee| ieee.is(layout, self.size)) {
            return Ok(FloatType::Ieee(found));
        }
        let highest = layout.sign.max(layout.exponent_at.saturating_add(layout.exponent_bits));
        let readable = highest.max(layout.mantissa_at.saturating_add(layout.mantissa_bits)) <= 128;
        let fits = |ieee: &Ieee| ieee.holds(layout) && ieee.size >= self.size.min(8);
        match [F16, F32, F64].into_iter().find(fits) {
            Some(found) if readable => Ok(FloatType::Ieee(found)),
            None if self.is_extended() => Ok(FloatType::Extended),
            _ => Err(ParseError::Unsupported(format!(
                "a floating-point number of {} bytes with {} bits of mantissa and {} bits of exponent",
                self.size, layout.mantissa_bits, layout.exponent_bits
            ))),
        }
    }

    /// Whether its bytes in memory are those stored.
    pub fn is_plain(&self) -> bool {
        match self.in_memory() {
            Ok(FloatType::Ieee(ieee)) => ieee.is(&self.layout, self.size),
            Ok(FloatType::Extended) => self.size == 16 && self.layout.order != Order::Vax,
            Err(_) => false,
        }
    }

    fn is_extended(&self) -> bool {
        let layout = &self.layout;
        (layout.mantissa_at, layout.mantissa_bits, layout.exponent_at, layout.exponent_bits)
            == (0, 64, 64, 15)
            && (layout.sign, layout.bias) == (79, 16383)
            && layout.normalization != 2
    }

    /// The bits in memory of a stored one.
    pub fn convert(&self, stored: &[u8], to: FloatType) -> u128 {
        let bits = load(stored, self.layout.order);
        match to {
            FloatType::Extended => bits & mask(80),
            FloatType::Ieee(ieee) => self.ieee(bits, ieee),
        }
    }

    fn ieee(&self, bits: u128, to: Ieee) -> u128 {
        let layout = &self.layout;
        let field = |at: u8, len: u8| bits.checked_shr(at.into()).unwrap_or_default() & mask(len);
        let sign = field(layout.sign, 1) << (to.mantissa_bits + to.exponent_bits);
        let exponent = field(layout.exponent_at, layout.exponent_bits);
        let mantissa = field(layout.mantissa_at, layout.mantissa_bits);
        let width = layout.mantissa_bits;
        let implied = layout.normalization == 2;
        if exponent == mask(layout.exponent_bits) {
            // A leading bit that is stored says nothing of whether it is infinite.
            let fraction = if implied { mantissa } else { mantissa & mask(width - 1) };
            let payload = shift(fraction, i64::from(to.mantissa_bits) - i64::from(width));
            return sign | mask(to.exponent_bits) << to.mantissa_bits | payload;
        }
        // Below the point are as many bits as the mantissa has, one of which is the leading one where that is stored.
        let scale = i64::try_from(exponent).unwrap_or_default() - i64::from(layout.bias) - i64::from(width);
        sign | match (implied, exponent) {
            (true, 1..) => to.bits(mantissa | 1 << width, scale),
            _ => to.bits(mantissa, scale + 1),
        }
    }
}

/// The byte order in memory.
pub(crate) fn byte_order(order: Order) -> ByteOrder {
    match order {
        Order::Little | Order::Vax => ByteOrder::Little,
        Order::Big => ByteOrder::Big,
    }
}

/// The low 128 bits of a stored number.
fn load(stored: &[u8], order: Order) -> u128 {
    let mut bytes = [0; 16];
    match order {
        Order::Little => copy(&mut bytes, stored.iter()),
        Order::Big => copy(&mut bytes, stored.iter().rev()),
        Order::Vax => copy(&mut bytes, stored.rchunks(2).flatten()),
    }
    u128::from_le_bytes(bytes)
}

/// Writes as many low bytes of a number as there is room for.
pub(crate) fn store(bits: u128, order: ByteOrder, memory: &mut [u8]) {
    let bytes = bits.to_le_bytes();
    match order {
        ByteOrder::Little => copy(memory, bytes.iter()),
        ByteOrder::Big => memory.iter_mut().rev().zip(bytes).for_each(|(to, from)| *to = from),
    }
}

fn copy<'a>(to: &mut [u8], from: impl Iterator<Item = &'a u8>) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
}

/// The `len` lowest bits.
fn mask(len: u8) -> u128 {
    u128::MAX.checked_shr(128 - u32::from(len.min(128))).unwrap_or_default()
}

/// Shifts to the left, or to the right where `by` is negative.
fn shift(bits: u128, by: i64) -> u128 {
    let count = u32::try_from(by.unsigned_abs()).unwrap_or(u32::MAX);
    let shifted = if by < 0 { bits.checked_shr(count) } else { bits.checked_shl(count) };
    shifted.unwrap_or_default()
}
