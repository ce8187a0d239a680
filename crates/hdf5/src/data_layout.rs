//! Where a dataset's elements are (specification IV.A.2.i, "The Data Layout Message", versions 1 to 5).

use crate::Bytes;

/// The layout of a dataset.
#[derive(Clone, Debug)]
pub enum DataLayout {
    /// In the object header.
    Compact {
        /// Address of the first byte.
        address: u64,
        /// The bytes.
        data: Bytes,
    },
    /// One run of bytes; or in external files.
    Contiguous {
        /// Address of the first byte; `None`: never written.
        address: Option<u64>,
        /// Bytes; `None`: not stored (versions 1 and 2).
        size: Option<u64>,
    },
    /// Chunks.
    Chunked(ChunkedLayout),
    /// Parts of other datasets: a global heap object says which.
    Virtual {
        /// Address of the heap collection; `None`: no mapping.
        collection: Option<u64>,
        /// Index of the object in it.
        index: u32,
    },
}

/// Chunks, and what kind of index finds them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkedLayout {
    /// Elements of a chunk per axis (without the pseudo-axis of the element's bytes).
    pub chunk: Vec<u64>,
    /// Bytes of an element in the file (the pseudo-axis).
    pub element_size: u64,
    /// The index's kind.
    pub index: ChunkIndexKind,
    /// Address of the index (of the chunk itself for a single chunk, of the first for an implicit index); `None`: no chunk was ever written.
    pub address: Option<u64>,
    /// Whether chunks that reach past the extent are stored without going through the filters (version 4, flag bit 0).
    pub edges_unfiltered: bool,
}

/// How chunks are found (specification VII).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChunkIndexKind {
    /// Version 1 B-tree (layout versions 1 to 3).
    BTree1,
    /// One chunk (index type 1).
    Single {
        /// Its stored bytes and filter mask, where there are filters.
        filtered: Option<(u64, u32)>,
    },
    /// All chunks are there, one behind the other (index type 2).
    Implicit,
    /// Index type 3.
    FixedArray {
        /// Bits of the number of elements in a page.
        page_bits: u8,
    },
    /// Index type 4.
    ExtensibleArray {
        /// Bits to count elements with.
        max_bits: u8,
        /// Elements in the index block.
        index_elements: u8,
        /// Data block pointers in the smallest secondary block.
        min_pointers: u8,
        /// Elements in the smallest data block.
        min_elements: u8,
        /// Bits of the number of elements in a page.
        page_bits: u8,
    },
    /// Version 2 B-tree (index type 5).
    BTree2 {
        /// Bytes of a node.
        node_size: u32,
        /// Percent.
        split: u8,
        /// Percent.
        merge: u8,
    },
}
