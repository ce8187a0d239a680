//! Numbers in buffers and NumPy's conversions between them, for codecs that compute with elements.
//!
//! The work is done in blocks that stay in the L1 cache: [`each_block`] puts the bytes of a block
//! in the machine's order, converts, computes, and converts again. A codec is therefore one loop
//! over numbers in memory order, which the compiler vectorises, and reads each stored byte once.

#![expect(clippy::cast_possible_truncation, reason = "NumPy's conversions wrap")]

use crate::numbers::half::Half;
use crate::{ByteOrder, DataType, Kind};

/// The type of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberType {
    Bool,
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F16,
    F32,
    F64,
}

/// The numbers of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub(crate) kind: NumberType,
    pub(crate) order: ByteOrder,
    /// Numbers in one element: 1, or 2 for complex numbers.
    pub(crate) parts: usize,
}

impl Numbers {
    /// The numbers that make up elements of this type, or `None` if elements are something else.
    pub(crate) fn of(dtype: DataType) -> Option<Self> {
        use NumberType::{Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
        let (kind, parts) = match (dtype.kind(), dtype.number_size()) {
            (Kind::Bool, _) => (Bool, 1),
            (Kind::Int, 1) => (I8, 1),
            (Kind::Int, 2) => (I16, 1),
            (Kind::Int, 4) => (I32, 1),
            (Kind::Int, _) => (I64, 1),
            (Kind::UInt, 1) => (U8, 1),
            (Kind::UInt, 2) => (U16, 1),
            (Kind::UInt, 4) => (U32, 1),
            (Kind::UInt, _) => (U64, 1),
            (Kind::Float, 2) => (F16, 1),
            (Kind::Float, 4) => (F32, 1),
            (Kind::Float, _) => (F64, 1),
            (Kind::Complex, 4) => (F32, 2),
            (Kind::Complex, _) => (F64, 2),
            _ => return None,
        };
        Some(Numbers { kind, order: dtype.order(), parts })
    }

    /// Bytes of one number.
    pub(crate) fn size(self) -> usize {
        self.kind.size()
    }

    /// Bytes of one element.
    pub(crate) fn element_size(self) -> usize {
        self.parts * self.size()
    }

    /// Swaps between the buffer's byte order and the machine's.
    fn swap(self, bytes: &mut [u8]) {
        if self.order == ByteOrder::NATIVE {
            return;
        }
        match self.size() {
            2 => bytes.as_chunks_mut().0.iter_mut().for_each(|n| *n = u16::from_be_bytes(*n).to_le_bytes()),
            4 => bytes.as_chunks_mut().0.iter_mut().for_each(|n| *n = u32::from_be_bytes(*n).to_le_bytes()),
            8 => bytes.as_chunks_mut().0.iter_mut().for_each(|n| *n = u64::from_be_bytes(*n).to_le_bytes()),
            _ => {}
        }
    }
}

impl NumberType {
    /// Bytes of one number.
    pub(crate) const fn size(self) -> usize {
        use NumberType::{Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
        match self {
            Bool | I8 | U8 => 1,
            I16 | U16 | F16 => 2,
            I32 | U32 | F32 => 4,
            I64 | U64 | F64 => 8,
        }
    }

    pub(crate) fn is_float(self) -> bool {
        matches!(self, NumberType::F16 | NumberType::F32 | NumberType::F64)
    }

    /// The smallest and the largest integer of this type, or `None` for floats.
    pub(crate) fn range(self) -> Option<(i128, i128)> {
        use NumberType::{Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
        let bits = 8 * self.size();
        match self {
            Bool | F16 | F32 | F64 => None,
            I8 | I16 | I32 | I64 => Some((-(1 << (bits - 1)), (1 << (bits - 1)) - 1)),
            U8 | U16 | U32 | U64 => Some((0, (1 << bits) - 1)),
        }
    }
}

/// A byte of NumPy's bool: 0 is false, anything else true.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bool(pub(crate) u8);

/// A number as a Rust value, its bytes, and its conversions like NumPy's `astype`.
///
/// Integers wrap. Floats lose their fraction, then wrap as on x86-64: NaNs and numbers beyond 32
/// bits (64 bits for the types of 32 and 64) first become the smallest integer.
pub(crate) trait Number: Copy {
    type Bytes: Copy;
    fn split(bytes: &[u8]) -> &[Self::Bytes];
    fn split_mut(bytes: &mut [u8]) -> &mut [Self::Bytes];
    fn read(bytes: Self::Bytes) -> Self;
    fn bytes(self) -> Self::Bytes;
    fn bool(self) -> Bool;
    fn i8(self) -> i8;
    fn u8(self) -> u8;
    fn i16(self) -> i16;
    fn u16(self) -> u16;
    fn i32(self) -> i32;
    fn u32(self) -> u32;
    fn i64(self) -> i64;
    fn u64(self) -> u64;
    fn f16(self) -> Half;
    fn f32(self) -> f32;
    fn f64(self) -> f64;
}

/// The byte methods of [`Number`].
macro_rules! in_bytes {
    ($size:literal, $read:expr, $bytes:expr) => {
        type Bytes = [u8; $size];

        #[inline(always)]
        fn split(bytes: &[u8]) -> &[Self::Bytes] {
            bytes.as_chunks().0
        }

        #[inline(always)]
        fn split_mut(bytes: &mut [u8]) -> &mut [Self::Bytes] {
            bytes.as_chunks_mut().0
        }

        #[inline(always)]
        fn read(bytes: Self::Bytes) -> Self {
            $read(bytes)
        }

        #[inline(always)]
        fn bytes(self) -> Self::Bytes {
            $bytes(self)
        }
    };
}

/// The conversion methods of [`Number`].
macro_rules! converts {
    ($self:ident => $($name:ident -> $to:ty: $value:expr;)*) => {
        $(#[inline(always)]
        fn $name($self) -> $to {
            $value
        })*
    };
}

macro_rules! integers {
    ($($type:ident $size:literal)*) => {$(
        impl Number for $type {
            in_bytes!($size, $type::from_ne_bytes, $type::to_ne_bytes);
            converts! { self =>
                bool -> Bool: Bool(u8::from(self != 0));
                i8 -> i8: self as i8;
                u8 -> u8: self as u8;
                i16 -> i16: self as i16;
                u16 -> u16: self as u16;
                i32 -> i32: self as i32;
                u32 -> u32: self as u32;
                i64 -> i64: self as i64;
                u64 -> u64: self as u64;
                f16 -> Half: Half::from_f32(self as f32);
                f32 -> f32: self as f32;
                f64 -> f64: self as f64;
            }
        }
    )*};
}

integers!(i8 1 u8 1 i16 2 u16 2 i32 4 u32 4 i64 8 u64 8);

macro_rules! floats {
    ($($type:ident $size:literal $half:path;)*) => {$(
        impl Number for $type {
            in_bytes!($size, $type::from_ne_bytes, $type::to_ne_bytes);
            converts! { self =>
                bool -> Bool: Bool(u8::from(self != 0.0));
                i8 -> i8: self.i32() as i8;
                u8 -> u8: self.i32() as u8;
                i16 -> i16: self.i32() as i16;
                u16 -> u16: self.i32() as u16;
                i32 -> i32: {
                    let fits = (-2_147_483_648.0..2_147_483_648.0).contains(&self);
                    // SAFETY: a number within the range, which a NaN is not. (`as`, which
                    // saturates, is not vectorised.)
                    let whole: i32 = unsafe { if fits { self } else { 0.0 }.to_int_unchecked() };
                    if fits { whole } else { i32::MIN }
                };
                u32 -> u32: self.i64() as u32;
                i64 -> i64: if self < 9_223_372_036_854_775_808.0 { self as i64 } else { i64::MIN };
                u64 -> u64: if self >= 9_223_372_036_854_775_808.0 {
                    (self - 9_223_372_036_854_775_808.0).i64() as u64 ^ 1 << 63
                } else {
                    self.i64() as u64
                };
                f16 -> Half: $half(self);
                f32 -> f32: self as f32;
                f64 -> f64: self as f64;
            }
        }
    )*};
}

floats!(f32 4 Half::from_f32; f64 8 Half::from_f64;);

/// Converts through another type that holds all numbers of this type.
macro_rules! as_another {
    ($type:ident $size:literal $read:expr, $bytes:expr, $another:expr) => {
        impl Number for $type {
            in_bytes!($size, $read, $bytes);
            converts! { self =>
                bool -> Bool: $another(self).bool();
                i8 -> i8: $another(self).i8();
                u8 -> u8: $another(self).u8();
                i16 -> i16: $another(self).i16();
                u16 -> u16: $another(self).u16();
                i32 -> i32: $another(self).i32();
                u32 -> u32: $another(self).u32();
                i64 -> i64: $another(self).i64();
                u64 -> u64: $another(self).u64();
                f16 -> Half: $another(self).f16();
                f32 -> f32: $another(self).f32();
                f64 -> f64: $another(self).f64();
            }
        }
    };
}

as_another!(Bool 1 |[byte]: [u8; 1]| Bool(byte), |bool: Bool| [bool.0], |bool: Bool| u8::from(bool.0 != 0));
as_another!(Half 2 |bytes| Half(u16::from_ne_bytes(bytes)), |half: Half| half.0.to_ne_bytes(), Half::to_f32);

/// Expands to `$run!(type)` with the Rust type of a [`NumberType`].
macro_rules! with_number {
    ($kind:expr, $run:ident) => {
        match $kind {
            $crate::numbers::number::NumberType::Bool => $run!(Bool),
            $crate::numbers::number::NumberType::I8 => $run!(i8),
            $crate::numbers::number::NumberType::U8 => $run!(u8),
            $crate::numbers::number::NumberType::I16 => $run!(i16),
            $crate::numbers::number::NumberType::U16 => $run!(u16),
            $crate::numbers::number::NumberType::I32 => $run!(i32),
            $crate::numbers::number::NumberType::U32 => $run!(u32),
            $crate::numbers::number::NumberType::I64 => $run!(i64),
            $crate::numbers::number::NumberType::U64 => $run!(u64),
            $crate::numbers::number::NumberType::F16 => $run!(Half),
            $crate::numbers::number::NumberType::F32 => $run!(f32),
            $crate::numbers::number::NumberType::F64 => $run!(f64),
        }
    };
}
pub(crate) use with_number;

/// Replaces each number of a block by the result of `number`.
#[inline(always)]
pub(crate) fn map<T: Number>(block: &mut [u8], mut number: impl FnMut(T) -> T) {
    T::split_mut(block).iter_mut().for_each(|bytes| *bytes = number(T::read(*bytes)).bytes());
}

/// Converts numbers between types, all in the machine's byte order.
fn convert(from: NumberType, src: &[u8], to: NumberType, dst: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { convert_avx2(from, src, to, dst) };
    }
    convert_any(from, src, to, dst);
}

/// Like [`convert_any`], compiled for AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn convert_avx2(from: NumberType, src: &[u8], to: NumberType, dst: &mut [u8]) {
    convert_any(from, src, to, dst);
}

#[inline(always)]
fn convert_any(from: NumberType, src: &[u8], to: NumberType, dst: &mut [u8]) {
    if from == to {
        return dst.copy_from_slice(src);
    }
    macro_rules! of {
        ($type:ident) => {
            convert_to::<$type>(src, to, dst)
        };
    }
    with_number!(from, of);
}

#[inline(always)]
fn convert_to<A: Number>(src: &[u8], to: NumberType, dst: &mut [u8]) {
    match to {
        NumberType::Bool => convert_each(src, dst, A::bool),
        NumberType::I8 => convert_each(src, dst, A::i8),
        NumberType::U8 => convert_each(src, dst, A::u8),
        NumberType::I16 => convert_each(src, dst, A::i16),
        NumberType::U16 => convert_each(src, dst, A::u16),
        NumberType::I32 => convert_each(src, dst, A::i32),
        NumberType::U32 => convert_each(src, dst, A::u32),
        NumberType::I64 => convert_each(src, dst, A::i64),
        NumberType::U64 => convert_each(src, dst, A::u64),
        NumberType::F16 => convert_each(src, dst, A::f16),
        NumberType::F32 => convert_each(src, dst, A::f32),
        NumberType::F64 => convert_each(src, dst, A::f64),
    }
}

#[inline(always)]
fn convert_each<A: Number, B: Number>(src: &[u8], dst: &mut [u8], one: impl Fn(A) -> B) {
    for (to, from) in B::split_mut(dst).iter_mut().zip(A::split(src)) {
        *to = one(A::read(*from)).bytes();
    }
}

/// Numbers per block: 8 KiB of the largest, so that two blocks and the result stay in the L1 cache.
/// A multiple of the numbers in an element.
const BLOCK: usize = 1024;

/// Passes the numbers of `src` through `compute`, block by block, into `dst`, which has as many.
///
/// `compute` gets the numbers as type `within`, in the machine's byte order, and replaces them. The
/// caller must refuse lengths that are not a whole number of numbers.
#[inline(always)]
pub(crate) fn each_block(
    src: (&[u8], Numbers),
    dst: (&mut [u8], Numbers),
    within: NumberType,
    compute: impl FnMut(&mut [u8]),
) {
    each_block_into(src, dst, within, within, compute);
}

/// Like [`each_block`], but `compute` makes numbers of type `after`, of the same size.
#[inline(always)]
pub(crate) fn each_block_into(
    src: (&[u8], Numbers),
    dst: (&mut [u8], Numbers),
    within: NumberType,
    after: NumberType,
    compute: impl FnMut(&mut [u8]),
) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { blocks_avx2(src, dst, within, after, compute) };
    }
    blocks(src, dst, within, after, compute);
}

/// Like [`blocks`], compiled for AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn blocks_avx2(
    src: (&[u8], Numbers),
    dst: (&mut [u8], Numbers),
    within: NumberType,
    after: NumberType,
    compute: impl FnMut(&mut [u8]),
) {
    blocks(src, dst, within, after, compute);
}

#[inline(always)]
fn blocks(
    (src, from): (&[u8], Numbers),
    (dst, to): (&mut [u8], Numbers),
    within: NumberType,
    after: NumberType,
    mut compute: impl FnMut(&mut [u8]),
) {
    let (mut first, mut second) = ([0u8; 8 * BLOCK], [0u8; 8 * BLOCK]);
    let pairs = dst.chunks_mut(to.size() * BLOCK);
    for (src, dst) in src.chunks(from.size() * BLOCK).zip(pairs) {
        let count = src.len() / from.size();
        let (Some(read), Some(numbers)) =
            (first.get_mut(..src.len()), second.get_mut(..count * within.size()))
        else {
            return;
        };
        let src = if from.order == ByteOrder::NATIVE {
            src
        } else {
            read.copy_from_slice(src);
            from.swap(read);
            read
        };
        if after == to.kind {
            // The results have the stored type: compute them in place in `dst`.
            convert(from.kind, src, within, dst);
            compute(dst);
        } else {
            convert(from.kind, src, within, numbers);
            compute(numbers);
            convert(after, numbers, to.kind, dst);
        }
        to.swap(dst);
    }
}
