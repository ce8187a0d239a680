//! Heaps: storage of names, large attributes, and elements of variable length.

mod directory;
mod fractal;
mod global;
mod heap_writer;
mod local;
mod numbers;
mod object_error;

pub use fractal::FractalHeap;
pub(crate) use fractal::build as build_fractal_heap;
pub(crate) use fractal::{ALL_BLOCKS, FEW_BLOCKS, HeapKind};
pub use global::{Collection, Object};
pub(crate) use global::{LINE, Open, SMALLEST, WHOLE};
pub(crate) use heap_writer::{HEAD, HeapPlace, HeapWriter, add_object, collection, object_len};
pub use local::LocalHeap;
pub(crate) use local::build as build_local_heap;
pub(crate) use numbers::{Numbers, Ranked};
pub(crate) use object_error::{ObjectError, heap_error};
