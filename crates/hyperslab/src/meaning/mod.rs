//! What stored elements stand for, by the conventions that attributes follow.

mod packed;

pub use packed::{Packing, number_element};
