//! Units: pieces of memory that a loop moves one by one.

/// A unit of 1, 2, 4, 8 or 16 bytes.
pub(crate) trait Unit: Copy + PartialEq {
    fn reverse_bytes(self) -> Self;

    /// Interleaves the units of two registers: first of the lower halves, then of the upper halves.
    fn interleave(a: [u8; 16], b: [u8; 16]) -> ([u8; 16], [u8; 16]);
}

/// `$low`, `$high`: SSE2 instructions, which every x86-64 processor has. For other processors, the
/// compiler finds its own.
macro_rules! unit {
    ($($t:ty, $low:ident, $high:ident;)*) => { $(impl Unit for $t {
        #[inline(always)]
        fn reverse_bytes(self) -> Self { self.swap_bytes() }

        #[inline(always)]
        fn interleave(a: [u8; 16], b: [u8; 16]) -> ([u8; 16], [u8; 16]) {
            #[cfg(target_arch = "x86_64")]
            {
                use std::arch::x86_64::*;
                let (a, b): (__m128i, __m128i) = (bytemuck::cast(a), bytemuck::cast(b));
                // SAFETY: SSE2 is part of x86-64.
                unsafe { (bytemuck::cast($low(a, b)), bytemuck::cast($high(a, b))) }
            }
            #[cfg(not(target_arch = "x86_64"))]
            {
                const N: usize = 16 / size_of::<$t>();
                let (a, b): ([$t; N], [$t; N]) = (bytemuck::cast(a), bytemuck::cast(b));
                let at = |i: usize| if i % 2 == 0 { a[i / 2] } else { b[i / 2] };
                let low: [$t; N] = std::array::from_fn(at);
                let high: [$t; N] = std::array::from_fn(|i| at(i + N));
                (bytemuck::cast(low), bytemuck::cast(high))
            }
        }
    })* };
}
unit! {
    u8, _mm_unpacklo_epi8, _mm_unpackhi_epi8;
    u16, _mm_unpacklo_epi16, _mm_unpackhi_epi16;
    u32, _mm_unpacklo_epi32, _mm_unpackhi_epi32;
    u64, _mm_unpacklo_epi64, _mm_unpackhi_epi64;
}

impl Unit for u128 {
    #[inline(always)]
    fn reverse_bytes(self) -> Self {
        self.swap_bytes()
    }

    #[inline(always)]
    fn interleave(a: [u8; 16], b: [u8; 16]) -> ([u8; 16], [u8; 16]) {
        (a, b)
    }
}

macro_rules! by_unit {
    ($size:expr, $f:ident :: <_ $(, $swap:literal)?> ( $($arg:expr),* )) => {
        match $size {
            2 => $f::<u16 $(, $swap)?>($($arg),*),
            4 => $f::<u32 $(, $swap)?>($($arg),*),
            8 => $f::<u64 $(, $swap)?>($($arg),*),
            16 => $f::<u128 $(, $swap)?>($($arg),*),
            _ => $f::<u8 $(, $swap)?>($($arg),*),
        }
    };
}
pub(crate) use by_unit;
