//! `vlen-utf8`, `vlen-bytes`, `vlen-array`: elements of variable length.

use crate::{DataType, Heap};
use std::sync::Arc;

/// What elements of variable length are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VlenKind {
    /// Text in UTF-8.
    Text,
    /// Bytes.
    Bytes,
    /// One-dimensional arrays of elements of this type.
    Array(DataType),
}

impl VlenKind {
    /// Bytes of one item: 1 but for arrays.
    pub fn item_size(self) -> usize {
        match self {
            VlenKind::Text | VlenKind::Bytes => 1,
            VlenKind::Array(dtype) => dtype.size(),
        }
    }
}

/// The codec: the first of its chain. It decodes and encodes only when it is bound to the heap of a request.
#[derive(Clone, Debug)]
pub struct Vlen {
    /// What the elements are.
    pub kind: VlenKind,
    /// Where their bytes go, or come from.
    pub(crate) heap: Option<Arc<Heap>>,
}

impl Vlen {
    /// A codec that is bound to no heap yet.
    pub fn new(kind: VlenKind) -> Self {
        Vlen { kind, heap: None }
    }
}
