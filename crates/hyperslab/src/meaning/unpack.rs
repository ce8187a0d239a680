//! Unpacks stored numbers in memory, and packs numbers.

use super::packed::{FactorType, Packing};
use super::times::Number;
use crate::{DataType, Kind};
use bytemuck::Pod;
use half::f16;

/// A type of float that values have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Float {
    /// 16 bits.
    Half,
    /// 32 bits.
    Single,
    /// 64 bits.
    Double,
}

impl Float {
    /// Bytes of an element.
    pub fn size(self) -> usize {
        match self {
            Float::Half => 2,
            Float::Single => 4,
            Float::Double => 8,
        }
    }

    pub(super) fn of_size(size: usize) -> Option<Float> {
        [Float::Half, Float::Single, Float::Double].into_iter().find(|float| float.size() == size)
    }
}

/// A stored number.
trait Stored: Pod + PartialEq {
    const IS_INT: bool;
    fn is_nan(self) -> bool;
    fn half(self) -> f16;
    fn single(self) -> f32;
    fn double(self) -> f64;
    fn int(self) -> i128;
    fn of_int(int: i128) -> Option<Self>;
    fn of_float(float: f64) -> Option<Self>;
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Stored for $type {
            const IS_INT: bool = true;
            fn is_nan(self) -> bool {
                false
            }
            fn half(self) -> f16 {
                f16::from_f64(self as f64)
            }
            fn single(self) -> f32 {
                self as f32
            }
            fn double(self) -> f64 {
                self as f64
            }
            fn int(self) -> i128 {
                self.into()
            }
            fn of_int(int: i128) -> Option<Self> {
                int.try_into().ok()
            }
            fn of_float(float: f64) -> Option<Self> {
                let near = float.round_ties_even();
                // All numbers between are below 2^65, so the conversion is exact.
                (near.abs() < 4e19).then_some(near as i128).and_then(Self::of_int)
            }
        }
    )*};
}
integers!(i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! floats {
    ($($type:ty: $half:expr, $single:expr, $double:expr, $of:expr;)*) => {$(
        impl Stored for $type {
            const IS_INT: bool = false;
            fn is_nan(self) -> bool {
                <$type>::is_nan(self)
            }
            fn half(self) -> f16 {
                $half(self)
            }
            fn single(self) -> f32 {
                $single(self)
            }
            fn double(self) -> f64 {
                $double(self)
            }
            fn int(self) -> i128 {
                $double(self) as i128
            }
            fn of_int(int: i128) -> Option<Self> {
                Self::of_float(int as f64)
            }
            fn of_float(float: f64) -> Option<Self> {
                let found = $of(float);
                // A number may not become infinite.
                ($double(found).is_finite() || !float.is_finite()).then_some(found)
            }
        }
    )*};
}
floats! {
    f16: std::convert::identity::<f16>, f16::to_f32, f16::to_f64, f16::from_f64;
    f32: f16::from_f32, std::convert::identity::<f32>, f64::from, |float: f64| float as f32;
    f64: f16::from_f64, |float: f64| float as f32, std::convert::identity::<f64>, std::convert::identity::<f64>;
}

/// A float that values have.
trait Value: Pod {
    fn of<T: Stored>(stored: T) -> Self;
    fn rounded(double: f64) -> Self;
    fn double(self) -> f64;
}

macro_rules! values {
    ($($type:ty: $of:ident, $rounded:expr, $double:expr;)*) => {$(
        impl Value for $type {
            #[inline(always)]
            fn of<T: Stored>(stored: T) -> Self {
                stored.$of()
            }
            #[inline(always)]
            fn rounded(double: f64) -> Self {
                $rounded(double)
            }
            #[inline(always)]
            fn double(self) -> f64 {
                $double(self)
            }
        }
    )*};
}
values! {
    f16: half, f16::from_f64, f16::to_f64;
    f32: single, |double: f64| double as f32, f64::from;
    f64: double, std::convert::identity::<f64>, std::convert::identity::<f64>;
}

/// Calls a generic function with the Rust type of stored numbers. `$none`: they are no numbers.
macro_rules! with_stored {
    ($dtype:expr, $none:expr, $function:ident[$($more:ty),*]($($argument:expr),* $(,)?)) => {
        match ($dtype.kind(), $dtype.size()) {
            (Kind::Int, 1) => $function::<i8, $($more),*>($($argument),*),
            (Kind::Int, 2) => $function::<i16, $($more),*>($($argument),*),
            (Kind::Int, 4) => $function::<i32, $($more),*>($($argument),*),
            (Kind::Int, 8) => $function::<i64, $($more),*>($($argument),*),
            (Kind::UInt, 1) => $function::<u8, $($more),*>($($argument),*),
            (Kind::UInt, 2) => $function::<u16, $($more),*>($($argument),*),
            (Kind::UInt, 4) => $function::<u32, $($more),*>($($argument),*),
            (Kind::UInt, 8) => $function::<u64, $($more),*>($($argument),*),
            (Kind::Float, 2) => $function::<f16, $($more),*>($($argument),*),
            (Kind::Float, 4) => $function::<f32, $($more),*>($($argument),*),
            (Kind::Float, 8) => $function::<f64, $($more),*>($($argument),*),
            _ => $none,
        }
    };
}

fn elements<T: Stored>(bytes: &[u8]) -> impl Iterator<Item = T> + '_ {
    bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned)
}

fn missing_of<T: Stored>(missing: &[Vec<u8>]) -> Vec<T> {
    missing
        .iter()
        .filter(|one| one.len() == size_of::<T>())
        .map(|one| bytemuck::pod_read_unaligned(one))
        .collect()
}

/// Unpacks numbers of type `dtype` to floats. `false`: there is no room, or these are no numbers.
pub(super) fn unpack(
    stored: &[u8],
    dtype: DataType,
    packing: &Packing,
    float: Float,
    values: &mut [u8],
) -> bool {
    if stored.len() / dtype.size() != values.len() / float.size() {
        return false;
    }
    match float {
        Float::Half => with_stored!(dtype, return false, fill[f16](stored, packing, values)),
        Float::Single => with_stored!(dtype, return false, fill[f32](stored, packing, values)),
        Float::Double => with_stored!(dtype, return false, fill[f64](stored, packing, values)),
    }
    true
}

fn fill<T: Stored, V: Value>(stored: &[u8], packing: &Packing, values: &mut [u8]) {
    // Few comparisons let the compiler use vector instructions.
    match missing_of::<T>(&packing.missing).as_slice() {
        [] => fill_known::<T, V>(stored, packing, values, |_| false),
        [missing] => fill_known::<T, V>(stored, packing, values, |one| one == *missing),
        all => fill_known::<T, V>(stored, packing, values, |one| all.contains(&one)),
    }
}

#[inline(always)]
fn fill_known<T: Stored, V: Value>(
    stored: &[u8],
    packing: &Packing,
    values: &mut [u8],
    is_missing: impl Fn(T) -> bool,
) {
    // As in NumPy, a number of Python is rounded to the type of the array before it is used.
    let factor = |value: Option<f64>, kind: FactorType| match kind {
        FactorType::Json => value.map(|value| V::rounded(value).double()),
        _ => value,
    };
    let scale = factor(packing.scale, packing.scale_type);
    let offset = factor(packing.offset, packing.offset_type);
    let nan = V::rounded(f64::NAN);
    // NumPy rounds after each step.
    let scaled = |value: V, scale: f64| V::rounded(value.double() * scale);
    let moved = |value: V, offset: f64| V::rounded(value.double() + offset);
    match (scale, offset) {
        (None, None) => each::<T, V>(stored, values, is_missing, nan, |value| value),
        (Some(scale), None) => each::<T, V>(stored, values, is_missing, nan, |value| scaled(value, scale)),
        (None, Some(offset)) => each::<T, V>(stored, values, is_missing, nan, |value| moved(value, offset)),
        (Some(scale), Some(offset)) => {
            each::<T, V>(stored, values, is_missing, nan, |value| moved(scaled(value, scale), offset));
        }
    }
}

#[inline(always)]
fn each<T: Stored, V: Value>(
    stored: &[u8],
    values: &mut [u8],
    is_missing: impl Fn(T) -> bool,
    nan: V,
    unpacked: impl Fn(V) -> V,
) {
    for (one, place) in elements::<T>(stored).zip(values.chunks_exact_mut(size_of::<V>())) {
        let value = unpacked(V::of(one));
        let value = if is_missing(one) { nan } else { value };
        place.copy_from_slice(bytemuck::bytes_of(&value));
    }
}

/// Sets `marks` to 1 where elements are missing: equal to a value of `missing`, or NaN.
pub(super) fn mark_missing(stored: &[u8], dtype: DataType, missing: &[Vec<u8>], marks: &mut [u8]) {
    fn of<T: Stored>(stored: &[u8], missing: &[Vec<u8>], marks: &mut [u8]) {
        let missing = missing_of::<T>(missing);
        let has_nan = missing.iter().any(|one| one.is_nan());
        for (one, mark) in elements::<T>(stored).zip(marks) {
            *mark |= u8::from(missing.contains(&one) || (has_nan && one.is_nan()));
        }
    }
    with_stored!(dtype, (), of[](stored, missing, marks));
}

/// Sets `marks` to 1 where elements are below `least` or above `most`.
pub(super) fn mark_outside(
    stored: &[u8],
    dtype: DataType,
    (least, most): (Option<&[u8]>, Option<&[u8]>),
    marks: &mut [u8],
) {
    fn of<T: Stored + PartialOrd>(
        stored: &[u8],
        least: Option<&[u8]>,
        most: Option<&[u8]>,
        marks: &mut [u8],
    ) {
        let read = |bytes: Option<&[u8]>| {
            bytes.filter(|bytes| bytes.len() == size_of::<T>()).map(bytemuck::pod_read_unaligned::<T>)
        };
        let (least, most) = (read(least), read(most));
        for (one, mark) in elements::<T>(stored).zip(marks) {
            let is_outside = least.is_some_and(|least| one < least) || most.is_some_and(|most| one > most);
            *mark |= u8::from(is_outside);
        }
    }
    with_stored!(dtype, (), of[](stored, least, most, marks));
}

/// Integers; `None` is missing.
pub(super) fn to_ints(stored: &[u8], dtype: DataType, missing: &[Vec<u8>]) -> Vec<Option<i128>> {
    fn of<T: Stored>(stored: &[u8], missing: &[Vec<u8>]) -> Vec<Option<i128>> {
        let missing = missing_of::<T>(missing);
        elements::<T>(stored).map(|one| (!missing.contains(&one)).then(|| one.int())).collect()
    }
    with_stored!(dtype, Vec::new(), of[](stored, missing))
}

/// The same floats, rounded to 32 bits.
pub(super) fn to_singles(values: &[u8], float: Float) -> Vec<f32> {
    match float {
        Float::Half => elements::<f16>(values).map(f16::to_f32).collect(),
        Float::Single => elements::<f32>(values).collect(),
        Float::Double => elements::<f64>(values).map(|value| value as f32).collect(),
    }
}

/// The same floats in 64 bits.
pub(super) fn to_doubles(values: &[u8], float: Float) -> Vec<f64> {
    match float {
        Float::Half => elements::<f16>(values).map(f16::to_f64).collect(),
        Float::Single => elements::<f32>(values).map(f64::from).collect(),
        Float::Double => elements::<f64>(values).collect(),
    }
}

/// Packs numbers to elements of type `dtype`.
pub(super) fn pack(
    count: usize,
    number: &dyn Fn(usize) -> Number,
    dtype: DataType,
    packing: &Packing,
    stored: &mut [u8],
) -> Result<(), (usize, String)> {
    fn of<T: Stored>(
        count: usize,
        number: &dyn Fn(usize) -> Number,
        dtype: DataType,
        packing: &Packing,
        stored: &mut [u8],
    ) -> Result<(), (usize, String)> {
        let missing = missing_of::<T>(&packing.missing);
        let nan = if T::IS_INT { None } else { T::of_float(f64::NAN) };
        let (scale, offset) = (packing.scale.unwrap_or(1.0), packing.offset.unwrap_or(0.0));
        for (at, place) in (0..count).zip(stored.chunks_exact_mut(size_of::<T>())) {
            let given = match number(at) {
                Number::Float(float) if float.is_nan() => Number::Missing,
                Number::Float(float) if packing.scales() => Number::Float((float - offset) / scale),
                Number::Int(int) if packing.scales() => Number::Float((int as f64 - offset) / scale),
                given => given,
            };
            let element = match given {
                Number::Missing => missing.first().copied().or(nan).ok_or_else(|| {
                    "it is missing, and the array has no _FillValue and no missing_value".to_owned()
                }),
                Number::Int(int) => {
                    T::of_int(int).ok_or_else(|| format!("{} does not have it", dtype.numpy()))
                }
                Number::Float(float) => T::of_float(float)
                    .ok_or_else(|| format!("its stored number {float} is not one of {}", dtype.numpy())),
            };
            let element = element.map_err(|why| (at, why))?;
            if packing.scales() && given != Number::Missing && missing.contains(&element) {
                return Err((at, "its stored number is the one that marks missing elements".into()));
            }
            place.copy_from_slice(bytemuck::bytes_of(&element));
        }
        Ok(())
    }
    let none = Err((0, format!("elements of type {} are no numbers", dtype.numpy())));
    with_stored!(dtype, none, of[](count, number, dtype, packing, stored))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<T: Pod>(values: &[T]) -> Vec<u8> {
        bytemuck::cast_slice(values).to_vec()
    }

    fn dtype(name: &str) -> DataType {
        name.parse().unwrap()
    }

    #[test]
    fn numbers_are_unpacked() {
        let packing = Packing {
            missing: vec![bytes(&[-1_i16])],
            scale: Some(0.1),
            offset: Some(10.0),
            scale_type: FactorType::Double,
            ..Packing::default()
        };
        let mut values = vec![0; 24];
        assert!(unpack(&bytes(&[3_i16, -1, 0]), dtype("i2"), &packing, Float::Double, &mut values));
        let found = to_doubles(&values, Float::Double);
        assert_eq!((found[0], found[1].is_nan(), found[2]), (3.0 * 0.1 + 10.0, true, 10.0));
        let mut values = vec![0; 8];
        assert!(unpack(&bytes(&[3_i16, -1]), dtype("i2"), &packing, Float::Single, &mut values));
        let found: Vec<f32> = elements(&values).collect();
        assert_eq!((found[0], found[1].is_nan()), ((3.0 * 0.1) as f32 + 10.0, true));
        assert!(!unpack(&bytes(&[3_i16]), dtype("i2"), &packing, Float::Double, &mut values[..4]));
        assert!(!unpack(&[1, 2], dtype("S2"), &packing, Float::Single, &mut values[..4]));
    }

    #[test]
    fn missing_elements_are_marked() {
        let mut marks = [0; 3];
        mark_missing(&bytes(&[1.0_f32, f32::NAN, 7.0]), dtype("f4"), &[bytes(&[7.0_f32])], &mut marks);
        assert_eq!(marks, [0, 0, 1]);
        mark_missing(&bytes(&[1.0_f32, f32::NAN, 8.0]), dtype("f4"), &[bytes(&[f32::NAN])], &mut marks);
        assert_eq!(marks, [0, 1, 1]);
        let mut marks = [0; 4];
        let (least, most) = (bytes(&[2_u8]), bytes(&[3_u8]));
        mark_outside(&[1, 2, 3, 4], dtype("u1"), (Some(&least), Some(&most)), &mut marks);
        assert_eq!(marks, [1, 0, 0, 1]);
        assert_eq!(to_ints(&[1, 255], dtype("i1"), &[vec![1]]), [None, Some(-1)]);
    }

    #[test]
    fn numbers_are_packed() {
        let of = |numbers: &[Number], name: &str, packing: &Packing| {
            let mut stored = vec![0; numbers.len() * dtype(name).size()];
            pack(numbers.len(), &|at| numbers[at], dtype(name), packing, &mut stored).map(|()| stored)
        };
        let half = Packing { missing: vec![bytes(&[-1_i16])], scale: Some(0.5), ..Packing::default() };
        let numbers = [Number::Float(1.25), Number::Float(1.75), Number::Missing, Number::Float(f64::NAN)];
        // Ties go to the even number.
        assert_eq!(of(&numbers, "i2", &half), Ok(bytes(&[2_i16, 4, -1, -1])));
        assert_eq!(of(&[Number::Int(3)], "i2", &half), Ok(bytes(&[6_i16])));
        for (number, words) in [(-0.5, "marks missing"), (1e6, "2000000 is not"), (f64::INFINITY, "inf")] {
            let (at, why) = of(&[Number::Int(0), Number::Float(number)], "i2", &half).unwrap_err();
            assert!(at == 1 && why.contains(words), "{why}");
        }
        let none = Packing::default();
        assert!(of(&[Number::Missing], "u1", &none).unwrap_err().1.contains("_FillValue"));
        assert!(of(&[Number::Int(256)], "u1", &none).is_err());
        assert_eq!(of(&[Number::Int(i128::from(u64::MAX))], "u8", &none), Ok(bytes(&[u64::MAX])));
        assert!(of(&[Number::Float(1e39)], "f4", &none).is_err());
        assert_eq!(of(&[Number::Float(f64::INFINITY)], "f4", &none), Ok(bytes(&[f32::INFINITY])));
        assert_eq!(of(&[Number::Float(-0.0)], "f8", &none), Ok(bytes(&[-0.0_f64])));
    }
}
