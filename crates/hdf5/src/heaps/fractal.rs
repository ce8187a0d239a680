//! Fractal heaps (specification III.G).
use crate::{Bytes, Hdf5Error, Sizes, Source};
/// A fractal heap.
#[derive(Debug)]
pub struct FractalHeap;
impl FractalHeap {
    /// Reads the heap's header.
    pub fn read(source: &Source, address: u64, sizes: Sizes, verify: bool) -> Result<FractalHeap, Hdf5Error> {
        let _ = (address, sizes, verify);
        Err(source.invalid("no heap"))
    }
    /// The object of an id.
    pub fn get(&self, source: &Source, id: &[u8]) -> Result<Bytes, Hdf5Error> {
        let _ = id;
        Err(source.invalid("no heap"))
    }
}
