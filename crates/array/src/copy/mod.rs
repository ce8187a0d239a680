//! Moving elements between two pieces of memory: strides, byte order, order of axes, points.

pub(crate) mod gather;
pub(crate) mod places;
pub(crate) mod prefetch;
pub(crate) mod row;
pub(crate) mod strided;
pub(crate) mod swap;
pub(crate) mod transpose;
pub(crate) mod unit;
