//! Arrays that are made of parts of other arrays (HDF5's virtual datasets).
//!
//! A [`Mosaic`] is a list of pieces. A piece says: the k-th element of this pattern of the array is
//! the k-th element of that pattern of another one. What no piece has, and what a piece of a
//! missing array has, is fill value. Where pieces overlap, the later one counts.

pub(crate) mod convert;
pub(crate) mod nesting;
pub(crate) mod part;
pub(crate) mod points;
pub(crate) mod read;
