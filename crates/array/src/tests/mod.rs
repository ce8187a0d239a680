//! The engine against the definition: element by element, on generated arrays.

mod counts;
mod failures;
mod generated;
mod model;
mod sharing;
mod streams;
mod writers;
