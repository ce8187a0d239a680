//! Numbers: casts, small and half-precision types, sums. Codecs compute with these.

pub(crate) mod half;
pub(crate) mod low_bits;
pub(crate) mod number;
pub(crate) mod prefix_sums;
pub(crate) mod small;
