//! The engine against the definition: element by element, on generated arrays.

mod barrier;
mod cached;
mod counting;
mod counts;
mod explained;
mod failures;
mod far_ranges;
mod flight;
pub(crate) mod model;
mod mosaics;
mod only_fill;
mod origin;
mod parts;
pub(crate) mod points;
pub(crate) mod properties;
mod ragged;
mod rectilinear;
mod shards;
mod sharing;
mod small_chunks;
mod stale;
mod streams;
mod writers;
