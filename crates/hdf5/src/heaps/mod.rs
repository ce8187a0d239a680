//! Heaps: where names, large attributes, and elements of variable length are.

mod fractal;
mod global;
mod local;

pub use fractal::FractalHeap;
pub use global::Collection;
pub use local::LocalHeap;
