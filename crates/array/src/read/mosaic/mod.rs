//! Reads of mosaics: arrays made of parts of other arrays (HDF5's virtual datasets).
//!
//! A [`Mosaic`] is a list of pieces. A piece maps a pattern of the array to a pattern of another
//! one: the k-th element of the one is the k-th element of the other. Elements outside all pieces
//! are fill value, and so are pieces of a missing array. If pieces overlap, the later one counts.

pub(crate) mod convert;
pub(crate) mod nesting;
pub(crate) mod part;
pub(crate) mod points;
pub(crate) mod read;
