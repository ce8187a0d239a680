//! The filters of numcodecs that compute with elements or bytes, and the code that they share.

pub(crate) mod arithmetic;
pub(crate) mod as_type;
pub(crate) mod base64;
pub(crate) mod bitround;
pub(crate) mod categorize;
pub(crate) mod checksum;
pub(crate) mod delta;
pub(crate) mod elements;
pub(crate) mod fixed_scale_offset;
pub(crate) mod packbools;
pub(crate) mod quantize;
