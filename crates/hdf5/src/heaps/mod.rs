//! Heaps: where names, large attributes, and elements of variable length are.

mod doubling_table;
mod fractal;
mod global;
mod ids;
mod local;

pub use fractal::FractalHeap;
pub use global::Collection;
pub(crate) use ids::HeapIds;
pub use local::LocalHeap;
