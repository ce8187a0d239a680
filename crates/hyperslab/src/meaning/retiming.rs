//! Times since one date as times since another: `days since 2001-01-01` as `days since 2000-01-01`.
//!
//! Joined sources may count from different dates. Numbers are changed only if each new one means
//! exactly the same time.

use super::times::{TimeKind, Times};
use super::{MissingValue, Packing, Variable};
use crate::nodes::element::swap_bytes;
use crate::{Array, ByteOrder, DataType, Kind};
use hyperslab_array::ConvertElements;

/// Changes stored numbers of times.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Retiming {
    from: DataType,
    to: DataType,
    /// Nanoseconds of a unit, before and after.
    units: (i128, i128),
    /// Nanoseconds from the new date to the old one.
    shift: i128,
    /// Elements that are missing, in the machine's byte order. They stay as they are.
    missing: Vec<Vec<u8>>,
}

/// Nanoseconds of a unit, and from day 0 of the calendar to the date that a variable's times count from.
/// `None`: they are not dates.
pub(crate) fn time_scale(variable: &Variable) -> Option<(i128, i128)> {
    let times = Times::parse(&variable.attributes).ok().flatten()?;
    match times.kind {
        TimeKind::Dates { reference, .. } => Some((times.unit_nanoseconds().into(), reference)),
        TimeKind::Differences(_) => None,
    }
}

/// A number without rounding.
#[derive(Clone, Copy, Debug)]
enum Exact {
    /// A multiple of a power of two.
    Number(i128, i32),
    /// NaN and infinities.
    Other,
}

impl Retiming {
    /// Returns the change from one variable's times to another's. `None`: they are not dates of one
    /// calendar, or are packed.
    pub(crate) fn between(
        (variable, array): (&Variable, &Array),
        (wanted, template): (&Variable, &Array),
    ) -> Option<Retiming> {
        let times = |variable: &Variable| Times::parse(&variable.attributes).ok().flatten();
        let (own, new) = (times(variable)?, times(wanted)?);
        let (TimeKind::Dates { calendar, reference }, TimeKind::Dates { calendar: other, reference: to }) =
            (own.kind, new.kind)
        else {
            return None;
        };
        if calendar != other {
            return None;
        }
        let units = (i128::from(own.unit_nanoseconds()), i128::from(new.unit_nanoseconds()));
        Retiming { units, shift: reference - to, ..Self::unchanged(variable, array, template)? }.checked()
    }

    /// The same change for a variable without units of its own, such as the bounds of times.
    pub(crate) fn also_of(&self, variable: &Variable, array: &Array, template: &Array) -> Option<Retiming> {
        let (units, shift) = (self.units, self.shift);
        Retiming { units, shift, ..Self::unchanged(variable, array, template)? }.checked()
    }

    fn unchanged(variable: &Variable, array: &Array, template: &Array) -> Option<Retiming> {
        let (from, to) = (array.dtype(), template.dtype());
        let fill = match &variable.missing {
            MissingValue::Value(bytes) => Some(bytes.as_slice()),
            MissingValue::None => None,
            MissingValue::Other(_) => return None,
        };
        let packing = Packing::parse(&variable.attributes, from, fill).ok()?;
        if packing.scales() || packing.unsigned.is_some() || array.vlen().is_some() {
            return None;
        }
        Some(Retiming { from, to, units: (1, 1), shift: 0, missing: packing.missing })
    }

    /// The change, if elements are numbers that can be changed.
    fn checked(self) -> Option<Retiming> {
        let sizes = matches!(
            (self.from.kind(), self.from.size()),
            (Kind::Int | Kind::UInt, 1 | 2 | 4 | 8) | (Kind::Float, 4 | 8)
        );
        (sizes && self.from.kind() == self.to.kind() && self.from.size() == self.to.size()).then_some(self)
    }

    /// The type of changed elements.
    pub(crate) fn target(&self) -> DataType {
        self.to
    }

    /// Returns `true` if the change has no effect but on the order of bytes.
    pub(crate) fn is_none(&self) -> bool {
        self.shift == 0 && self.units.0 == self.units.1
    }

    /// Returns `true` if all these elements have an exact new number.
    pub(crate) fn is_exact(&self, elements: &[u8]) -> bool {
        elements.chunks_exact(self.from.size().max(1)).all(|element| self.changed(element).is_some())
    }

    /// The new element, in the byte order of the joined array. `None`: there is no exact one.
    fn changed(&self, element: &[u8]) -> Option<[u8; 8]> {
        let size = element.len();
        let mut native = [0; 8];
        native.get_mut(..size)?.copy_from_slice(element);
        if self.from.order() != ByteOrder::NATIVE {
            swap_bytes(native.get_mut(..size)?, size);
        }
        let old = native.get(..size)?;
        if !self.missing.iter().any(|missing| missing == old)
            && let Exact::Number(number, power) = decode(self.from.kind(), old)?
        {
            // The time in nanoseconds, exactly.
            let product = number.checked_mul(self.units.0)?;
            let nanoseconds = match power {
                0.. => {
                    product.checked_mul(1_i128.checked_shl(u32::try_from(power).ok()?).filter(|n| *n > 0)?)?
                }
                _ => {
                    let divisor = 1_i128.checked_shl(power.unsigned_abs()).filter(|n| *n > 0)?;
                    (product % divisor == 0).then_some(product / divisor)?
                }
            };
            let new = encode(self.to.kind(), size, nanoseconds.checked_add(self.shift)?, self.units.1)?;
            native = new;
        }
        if self.to.order() != ByteOrder::NATIVE {
            swap_bytes(native.get_mut(..size)?, size);
        }
        Some(native)
    }
}

impl ConvertElements for Retiming {
    /// Elements without an exact new number keep the old one: they were refused before.
    fn convert(&self, src: &[u8], dst: &mut [u8]) {
        let size = self.from.size().max(1);
        for (old, new) in src.chunks_exact(size).zip(dst.chunks_exact_mut(size)) {
            match self.changed(old).as_ref().and_then(|bytes| bytes.get(..size)) {
                Some(bytes) => new.copy_from_slice(bytes),
                None => new.copy_from_slice(old),
            }
        }
    }
}

/// The number in the machine's byte order as a multiple of a power of two.
fn decode(kind: Kind, bytes: &[u8]) -> Option<Exact> {
    Some(match (kind, bytes.len()) {
        (Kind::Int, 1) => Exact::Number(i8::from_ne_bytes(bytes.try_into().ok()?).into(), 0),
        (Kind::Int, 2) => Exact::Number(i16::from_ne_bytes(bytes.try_into().ok()?).into(), 0),
        (Kind::Int, 4) => Exact::Number(i32::from_ne_bytes(bytes.try_into().ok()?).into(), 0),
        (Kind::Int, 8) => Exact::Number(i64::from_ne_bytes(bytes.try_into().ok()?).into(), 0),
        (Kind::UInt, 1) => Exact::Number(u8::from_ne_bytes(bytes.try_into().ok()?).into(), 0),
        (Kind::UInt, 2) => Exact::Number(u16::from_ne_bytes(bytes.try_into().ok()?).into(), 0),
        (Kind::UInt, 4) => Exact::Number(u32::from_ne_bytes(bytes.try_into().ok()?).into(), 0),
        (Kind::UInt, 8) => Exact::Number(u64::from_ne_bytes(bytes.try_into().ok()?).into(), 0),
        (Kind::Float, 4) => exact(f32::from_ne_bytes(bytes.try_into().ok()?).into()),
        (Kind::Float, 8) => exact(f64::from_ne_bytes(bytes.try_into().ok()?)),
        _ => return None,
    })
}

fn exact(value: f64) -> Exact {
    if !value.is_finite() {
        return Exact::Other;
    }
    let bits = value.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i32;
    let fraction = i128::from(bits & ((1 << 52) - 1));
    let (mut number, mut power) = match exponent {
        0 => (fraction, -1074),
        _ => (fraction | 1 << 52, exponent - 1075),
    };
    if number == 0 {
        return Exact::Number(0, 0);
    }
    let zeros = number.trailing_zeros();
    number >>= zeros;
    power += zeros as i32;
    Exact::Number(if value < 0.0 { -number } else { number }, power)
}

/// The element for a time, in the machine's byte order. `None`: no element means exactly this.
fn encode(kind: Kind, size: usize, nanoseconds: i128, unit: i128) -> Option<[u8; 8]> {
    let mut bytes = [0; 8];
    if kind == Kind::Float {
        // Rounded here, and compared below.
        #[expect(clippy::cast_precision_loss, reason = "the result is compared with the exact time")]
        let value = nanoseconds as f64 / unit as f64;
        let value = if size == 4 { f64::from(value as f32) } else { value };
        let Exact::Number(number, power) = exact(value) else { return None };
        let product = number.checked_mul(unit)?;
        let is_same = match power {
            0.. => {
                product.checked_mul(1_i128.checked_shl(power.unsigned_abs()).filter(|n| *n > 0)?)?
                    == nanoseconds
            }
            _ => {
                Some(product)
                    == 1_i128.checked_shl(power.unsigned_abs()).and_then(|n| nanoseconds.checked_mul(n))
            }
        };
        if !is_same {
            return None;
        }
        match size {
            4 => bytes.get_mut(..4)?.copy_from_slice(&(value as f32).to_ne_bytes()),
            _ => bytes = value.to_ne_bytes(),
        }
        return Some(bytes);
    }
    if nanoseconds % unit != 0 {
        return None;
    }
    let value = nanoseconds / unit;
    let place = bytes.get_mut(..size)?;
    match (kind, size) {
        (Kind::Int, 1) => place.copy_from_slice(&i8::try_from(value).ok()?.to_ne_bytes()),
        (Kind::Int, 2) => place.copy_from_slice(&i16::try_from(value).ok()?.to_ne_bytes()),
        (Kind::Int, 4) => place.copy_from_slice(&i32::try_from(value).ok()?.to_ne_bytes()),
        (Kind::Int, 8) => place.copy_from_slice(&i64::try_from(value).ok()?.to_ne_bytes()),
        (Kind::UInt, 1) => place.copy_from_slice(&u8::try_from(value).ok()?.to_ne_bytes()),
        (Kind::UInt, 2) => place.copy_from_slice(&u16::try_from(value).ok()?.to_ne_bytes()),
        (Kind::UInt, 4) => place.copy_from_slice(&u32::try_from(value).ok()?.to_ne_bytes()),
        (Kind::UInt, 8) => place.copy_from_slice(&u64::try_from(value).ok()?.to_ne_bytes()),
        _ => return None,
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i128 = 86_400_000_000_000;
    const HOUR: i128 = 3_600_000_000_000;

    fn retiming(dtype: &str, units: (i128, i128), shift: i128, missing: &[Vec<u8>]) -> Retiming {
        let from: DataType = dtype.parse().unwrap();
        Retiming { from, to: from.with_order(ByteOrder::Little), units, shift, missing: missing.to_vec() }
    }

    #[test]
    fn numbers_of_other_dates() {
        let changed =
            |change: &Retiming, value: f64| change.changed(&value.to_le_bytes()).map(f64::from_le_bytes);
        let days = retiming("<f8", (DAY, DAY), 366 * DAY, &[(-1.0_f64).to_ne_bytes().to_vec()]);
        assert_eq!(changed(&days, 0.5), Some(366.5));
        assert_eq!(changed(&days, -2.0), Some(364.0));
        // Missing elements stay, and a third of a day has no exact number.
        assert_eq!(changed(&days, -1.0), Some(-1.0));
        assert!(changed(&days, f64::NAN).unwrap().is_nan());
        assert_eq!(changed(&days, 1.0 / 3.0), None);
        let hours = retiming("<f8", (DAY, HOUR), 0, &[]);
        assert_eq!(changed(&hours, 1.25), Some(30.0));
        let to_days = retiming("<f8", (HOUR, DAY), 0, &[]);
        assert_eq!((changed(&to_days, 6.0), changed(&to_days, 1.0)), (Some(0.25), None));
        let far = retiming("<f8", (HOUR, HOUR), 876_000 * HOUR, &[]);
        assert_eq!(changed(&far, 219_000.5), Some(1_095_000.5));
    }

    #[test]
    fn whole_numbers_in_both_byte_orders() {
        let change = retiming(">i2", (DAY, DAY), 31 * DAY, &[(-99_i16).to_ne_bytes().to_vec()]);
        let mut new = [0; 6];
        let old: Vec<u8> = [1_i16, -99, 32_736].iter().flat_map(|n| n.to_be_bytes()).collect();
        change.convert(&old, &mut new);
        let new: Vec<i16> = new.chunks(2).map(|n| i16::from_le_bytes(n.try_into().unwrap())).collect();
        assert_eq!(new, [32, -99, 32_767]);
        assert!(change.is_exact(&old) && !change.is_exact(&32_737_i16.to_be_bytes()));
        let hours = retiming("<i4", (HOUR, DAY), 0, &[]);
        assert!(hours.is_exact(&48_i32.to_le_bytes()) && !hours.is_exact(&49_i32.to_le_bytes()));
    }
}
