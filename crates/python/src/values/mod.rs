//! Values in NumPy, Arrow and Python, and the engine's elements.

pub(crate) mod arrow;
pub(crate) mod arrow_input;
pub(crate) mod cells;
pub(crate) mod elements;
pub(crate) mod frozen;
pub(crate) mod input;
pub(crate) mod json;
pub(crate) mod lists;
pub(crate) mod masked;
pub(crate) mod masked_arrays;
pub(crate) mod msgpack;
pub(crate) mod npy_string;
pub(crate) mod objects;
pub(crate) mod optional;
pub(crate) mod output;
pub(crate) mod ragged;
pub(crate) mod text_input;
pub(crate) mod vlen;
pub(crate) mod vlen_input;
