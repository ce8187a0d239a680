//! Heaps: where names, large attributes, and elements of variable length are.

mod fractal;
mod global;
mod ids;
mod local;
mod numbers;

pub use fractal::FractalHeap;
pub use global::{Collection, Object};
pub(crate) use global::{SMALLEST, WHOLE};
pub(crate) use ids::{Fetch, HeapIds, ObjectError, named};
pub use local::LocalHeap;
pub(crate) use numbers::{Numbers, Ranked};
