//! The storage layout of a dataset's elements.
//!
//! Specification IV.A.2.i, "The Data Layout Message", versions 1 to 5.

use crate::error::Built;
use crate::output::{Output, fit, width};
use crate::{Cursor, ParseError, Parsed};

/// The message type number.
pub const KIND: u16 = 0x08;

/// Layout classes.
const COMPACT: u8 = 0;
const CONTIGUOUS: u8 = 1;
const CHUNKED: u8 = 2;
const VIRTUAL: u8 = 3;

/// The layout of a dataset.
#[derive(Clone, Debug)]
pub enum DataLayout {
    /// In the object header.
    Compact {
        /// Address of the first byte.
        address: u64,
        /// Size in bytes.
        size: u64,
    },
    /// One run of bytes, or external files.
    Contiguous {
        /// Address of the first byte. `None`: never written.
        address: Option<u64>,
        /// Size in bytes. `None`: not stored (versions 1 and 2).
        size: Option<u64>,
    },
    /// Chunks.
    Chunked(ChunkedLayout),
    /// Parts of other datasets. A global heap object lists them.
    Virtual {
        /// Address of the heap collection. `None`: there is no mapping.
        collection: Option<u64>,
        /// Index of the object in the collection.
        index: u32,
    },
}

/// Chunks, and the kind of index that finds them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkedLayout {
    /// Elements of a chunk per axis (without the pseudo-axis of the element's bytes).
    pub chunk: Vec<u64>,
    /// Bytes of an element in the file (the pseudo-axis).
    pub element_size: u64,
    /// Kind of the index.
    pub index: ChunkIndexKind,
    /// Address of the index, or of the first chunk if there is no index. `None`: nothing was
    /// written.
    pub address: Option<u64>,
    /// `true` if chunks that reach past the extent skip the filters (version 4, flag bit 0).
    pub edges_unfiltered: bool,
}

/// The way to find chunks (specification VII).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChunkIndexKind {
    /// Version 1 B-tree (layout versions 1 to 3).
    BTree1,
    /// One chunk (index type 1).
    Single {
        /// Stored bytes and filter mask of the chunk, if there are filters.
        filtered: Option<(u64, u32)>,
    },
    /// All chunks exist, one after the other (index type 2).
    Implicit,
    /// Index type 3.
    FixedArray {
        /// A page has 2^`page_bits` elements.
        page_bits: u8,
    },
    /// Index type 4.
    ExtensibleArray {
        /// Number of bits of an element's index.
        max_bits: u8,
        /// Elements in the index block.
        index_elements: u8,
        /// Data block pointers in the smallest secondary block.
        min_pointers: u8,
        /// Elements in the smallest data block.
        min_elements: u8,
        /// A page has 2^`page_bits` elements.
        page_bits: u8,
    },
    /// Version 2 B-tree (index type 5).
    BTree2 {
        /// Bytes of a node.
        node_size: u32,
        /// Fill percentage at which a node is split.
        split: u8,
        /// Fill percentage at which nodes are merged.
        merge: u8,
    },
}

impl DataLayout {
    /// Parses the message.
    pub fn parse(cursor: &mut Cursor<'_>) -> Parsed<DataLayout> {
        match cursor.version("data layout message", &[1, 2, 3, 4, 5])? {
            1 | 2 => Self::parse_old(cursor),
            version => Self::parse_new(cursor, version),
        }
    }

    /// Parses versions 1 and 2. The rank comes first in every layout.
    fn parse_old(cursor: &mut Cursor<'_>) -> Parsed<DataLayout> {
        let (rank, class) = (cursor.u8()?, cursor.u8()?);
        cursor.skip(5)?;
        let address = if class == COMPACT { None } else { cursor.offset()? };
        let at = cursor.clone();
        let axes = (0..rank).map(|_| cursor.uint(4)).collect::<Result<Vec<_>, _>>()?;
        match class {
            COMPACT => {
                let len = cursor.u32()?;
                compact(cursor, len.into())
            }
            CONTIGUOUS => Ok(DataLayout::Contiguous { address, size: None }),
            CHUNKED => {
                ChunkedLayout::new(axes, ChunkIndexKind::BTree1, address, &at).map(DataLayout::Chunked)
            }
            _ => Err(unknown_class(class)),
        }
    }

    fn parse_new(cursor: &mut Cursor<'_>, version: u8) -> Parsed<DataLayout> {
        match cursor.u8()? {
            COMPACT => {
                let len = cursor.u16()?;
                compact(cursor, len.into())
            }
            CONTIGUOUS => {
                Ok(DataLayout::Contiguous { address: cursor.offset()?, size: Some(cursor.length()?) })
            }
            CHUNKED if version == 3 => {
                let rank = cursor.u8()?;
                let address = cursor.offset()?;
                let at = cursor.clone();
                let axes = (0..rank).map(|_| cursor.uint(4)).collect::<Result<Vec<_>, _>>()?;
                ChunkedLayout::new(axes, ChunkIndexKind::BTree1, address, &at).map(DataLayout::Chunked)
            }
            CHUNKED => ChunkedLayout::parse(cursor).map(DataLayout::Chunked),
            VIRTUAL if version > 3 => {
                let collection = cursor.offset()?.filter(|address| *address != 0);
                Ok(DataLayout::Virtual { collection, index: cursor.u32()? })
            }
            class => Err(unknown_class(class)),
        }
    }
}

/// Parses the bytes of a compact layout.
fn compact(cursor: &mut Cursor<'_>, size: u64) -> Parsed<DataLayout> {
    let address = cursor.address();
    cursor.take_u64(size)?;
    Ok(DataLayout::Compact { address, size })
}

fn unknown_class(class: u8) -> ParseError {
    ParseError::Unsupported(format!("data layout class {class}"))
}

/// Builds the message of a dataset whose elements are in its header.
pub(crate) fn build_compact(data: &[u8]) -> Built<Vec<u8>> {
    let len: u16 = fit(data.len() as u64, "bytes of a compact dataset")?;
    Ok(Output::new().u8(3).u8(COMPACT).u16(len).bytes(data).take())
}

/// Builds the message of a dataset whose elements are one run of bytes.
pub(crate) fn build_contiguous(address: Option<u64>, size: u64) -> Vec<u8> {
    Output::new().u8(3).u8(CONTIGUOUS).address(address).u64(size).take()
}

/// Builds the message of a dataset that is made of parts of others: the place of the list in the
/// global heap.
pub(crate) fn build_virtual(collection: u64, index: u32) -> Vec<u8> {
    Output::new().u8(4).u8(VIRTUAL).u64(collection).u32(index).take()
}

impl ChunkedLayout {
    /// Builds the message: version 3 for a B-tree of version 1, version 4 for the other indexes.
    pub(crate) fn build(&self) -> Built<Vec<u8>> {
        let mut out = Output::new();
        let rank: u8 = fit(self.chunk.len() as u64 + 1, "axes")?;
        let axes = || self.chunk.iter().chain([&self.element_size]).copied();
        if self.index == ChunkIndexKind::BTree1 {
            out.u8(3).u8(CHUNKED).u8(rank).address(self.address);
            for len in axes() {
                out.u32(fit(len, "elements of a chunk along an axis, or bytes of an element")?);
            }
            return Ok(out.take());
        }
        let is_filtered = matches!(self.index, ChunkIndexKind::Single { filtered: Some(_) });
        let flags = u8::from(self.edges_unfiltered) | u8::from(is_filtered) << 1;
        // HDF5 2.0 refuses more bytes for the lengths than the longest needs.
        let len = axes().map(width).max().unwrap_or(1);
        out.u8(4).u8(CHUNKED).u8(flags).u8(rank).u8(len);
        for axis in axes() {
            out.uint(axis, len.into());
        }
        match self.index {
            ChunkIndexKind::Single { filtered } => {
                out.u8(1);
                if let Some((size, skipped)) = filtered {
                    out.u64(size).u32(skipped);
                }
            }
            ChunkIndexKind::BTree1 | ChunkIndexKind::Implicit => drop(out.u8(2)),
            ChunkIndexKind::FixedArray { page_bits } => drop(out.u8(3).u8(page_bits)),
            ChunkIndexKind::ExtensibleArray {
                max_bits,
                index_elements,
                min_pointers,
                min_elements,
                page_bits,
            } => {
                out.u8(4).u8(max_bits).u8(index_elements).u8(min_pointers).u8(min_elements).u8(page_bits);
            }
            ChunkIndexKind::BTree2 { node_size, split, merge } => {
                out.u8(5).u32(node_size).u8(split).u8(merge);
            }
        }
        Ok(out.address(self.address).take())
    }

    /// Parses the chunked layout of versions 4 and 5.
    fn parse(cursor: &mut Cursor<'_>) -> Parsed<ChunkedLayout> {
        let flags = cursor.u8()?;
        let rank = cursor.u8()?;
        let at = cursor.clone();
        let width = cursor.u8()?;
        if !(1..=8).contains(&width) {
            return Err(at.corrupt(format!("expected chunk lengths of 1 to 8 bytes, found {width} bytes")));
        }
        let at = cursor.clone();
        let axes = (0..rank).map(|_| cursor.uint(width.into())).collect::<Result<Vec<_>, _>>()?;
        let index = match cursor.u8()? {
            1 if flags & 2 != 0 => {
                ChunkIndexKind::Single { filtered: Some((cursor.length()?, cursor.u32()?)) }
            }
            1 => ChunkIndexKind::Single { filtered: None },
            2 => ChunkIndexKind::Implicit,
            3 => ChunkIndexKind::FixedArray { page_bits: cursor.u8()? },
            4 => ChunkIndexKind::ExtensibleArray {
                max_bits: cursor.u8()?,
                index_elements: cursor.u8()?,
                min_pointers: cursor.u8()?,
                min_elements: cursor.u8()?,
                page_bits: cursor.u8()?,
            },
            5 => {
                ChunkIndexKind::BTree2 { node_size: cursor.u32()?, split: cursor.u8()?, merge: cursor.u8()? }
            }
            kind => return Err(ParseError::Unsupported(format!("chunk index type {kind} (known: 1 to 5)"))),
        };
        let address = cursor.offset()?;
        let layout = ChunkedLayout::new(axes, index, address, &at)?;
        Ok(ChunkedLayout { edges_unfiltered: flags & 1 != 0, ..layout })
    }

    /// Builds the layout from `axes`, read `at`. The last axis is the element's bytes.
    fn new(
        mut axes: Vec<u64>,
        index: ChunkIndexKind,
        address: Option<u64>,
        at: &Cursor<'_>,
    ) -> Parsed<ChunkedLayout> {
        if axes.contains(&0) {
            return Err(at.corrupt(format!(
                "expected a chunk shape without zeros, found {axes:?} (the last number is the element size \
                 in bytes)"
            )));
        }
        let element_size = axes.pop().filter(|_| !axes.is_empty() && axes.len() <= 32);
        let Some(element_size) = element_size else {
            return Err(at.corrupt(format!("expected chunks of 1 to 32 axes, found {}", axes.len())));
        };
        Ok(ChunkedLayout { chunk: axes, element_size, index, address, edges_unfiltered: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sizes;
    use crate::testing::needs_all;
    use proptest::prelude::*;

    fn parsed(bytes: &[u8]) -> Parsed<String> {
        let sizes = Sizes { offset: 4, length: 2 };
        DataLayout::parse(&mut Cursor::whole(bytes, 100, sizes)).map(|layout| format!("{layout:?}"))
    }

    const CHUNKS: &str = "Chunked(ChunkedLayout { chunk: [5, 7], element_size: 2";

    #[test]
    fn compact_and_contiguous() {
        assert_eq!(
            parsed(&[1, 1, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 2, 0, 0, 0, 7, 8]).unwrap(),
            "Compact { address: 116, size: 2 }"
        );
        assert_eq!(parsed(&[3, 0, 2, 0, 7, 8]).unwrap(), "Compact { address: 104, size: 2 }");
        assert_eq!(parsed(&[4, 0, 0, 0]).unwrap(), "Compact { address: 104, size: 0 }");
        let contiguous = [2, 1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 9, 0, 0, 0];
        assert_eq!(parsed(&contiguous).unwrap(), "Contiguous { address: Some(256), size: None }");
        let absent = [4, 1, 0xff, 0xff, 0xff, 0xff, 4, 0];
        assert_eq!(parsed(&absent).unwrap(), "Contiguous { address: None, size: Some(4) }");
        assert_eq!(
            parsed(&[5, 3, 0, 1, 0, 0, 6, 0, 0, 0]).unwrap(),
            "Virtual { collection: Some(256), index: 6 }"
        );
    }

    #[test]
    fn chunks_of_old_versions() {
        let tail = ", index: BTree1, address: Some(256), edges_unfiltered: false })";
        let two = [2, 3, 2, 0, 0, 0, 0, 0, 0, 1, 0, 0, 5, 0, 0, 0, 7, 0, 0, 0, 2, 0, 0, 0];
        assert_eq!(parsed(&two).unwrap(), format!("{CHUNKS}{tail}"));
        let three = [3, 2, 3, 0, 1, 0, 0, 5, 0, 0, 0, 7, 0, 0, 0, 2, 0, 0, 0];
        assert_eq!(parsed(&three).unwrap(), format!("{CHUNKS}{tail}"));
        needs_all(&three, parsed);
    }

    #[test]
    fn indexes_of_version_4() {
        for (index, name) in [
            (&[1, 9, 0, 3, 0, 0, 0][..], "Single { filtered: Some((9, 3)) }"),
            (&[2], "Implicit"),
            (&[3, 10], "FixedArray { page_bits: 10 }"),
            (
                &[4, 32, 4, 4, 16, 10],
                "ExtensibleArray { max_bits: 32, index_elements: 4, min_pointers: 4, min_elements: 16, page_bits: 10 }",
            ),
            (&[5, 0, 8, 0, 0, 100, 40], "BTree2 { node_size: 2048, split: 100, merge: 40 }"),
        ] {
            // Chunk lengths of three bytes.
            let mut bytes = vec![4, 2, 3, 3, 3, 5, 0, 0, 7, 0, 0, 2, 0, 0];
            bytes.extend(index);
            bytes.extend([0, 1, 0, 0]);
            let expected = format!("{CHUNKS}, index: {name}, address: Some(256), edges_unfiltered: true }})");
            assert_eq!(parsed(&bytes).unwrap(), expected);
        }
        assert!(parsed(&[4, 2, 0, 2, 1, 5, 2, 6, 0, 1, 0, 0]).is_err(), "an unknown index");
        assert!(parsed(&[4, 2, 0, 2, 9, 5, 2, 2, 0, 1, 0, 0]).is_err(), "lengths of 9 bytes");
        assert!(parsed(&[4, 2, 0, 2, 1, 0, 2, 2, 0, 1, 0, 0]).is_err(), "chunks of no element");
        assert!(parsed(&[4, 2, 0, 1, 1, 2, 2, 0, 1, 0, 0]).is_err(), "chunks without axis");
        assert!(parsed(&[6, 0, 0, 0]).is_err() && parsed(&[4, 4]).is_err() && parsed(&[3, 3]).is_err());
    }

    /// A layout after building and parsing.
    fn rebuilt(built: &[u8]) -> DataLayout {
        let mut cursor = Cursor::whole(built, 100, Sizes { offset: 8, length: 8 });
        let found = DataLayout::parse(&mut cursor).unwrap();
        assert!(cursor.is_empty());
        found
    }

    fn any_index() -> impl Strategy<Value = ChunkIndexKind> {
        prop_oneof![
            Just(ChunkIndexKind::BTree1),
            any::<Option<(u64, u32)>>().prop_map(|filtered| ChunkIndexKind::Single { filtered }),
            Just(ChunkIndexKind::Implicit),
            any::<u8>().prop_map(|page_bits| ChunkIndexKind::FixedArray { page_bits }),
            any::<[u8; 5]>().prop_map(|[max_bits, index_elements, min_pointers, min_elements, page_bits]| {
                ChunkIndexKind::ExtensibleArray {
                    max_bits,
                    index_elements,
                    min_pointers,
                    min_elements,
                    page_bits,
                }
            }),
            any::<(u32, u8, u8)>().prop_map(|(node_size, split, merge)| ChunkIndexKind::BTree2 {
                node_size,
                split,
                merge
            }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_built_is_parsed(
            chunk in proptest::collection::vec(1_u64..1 << 31, 1..=32),
            element_size in 1_u64..70_000,
            index in any_index(),
            address in proptest::option::of(0_u64..1 << 60),
        ) {
            let layout = ChunkedLayout { chunk, element_size, index, address, edges_unfiltered: false };
            let DataLayout::Chunked(found) = rebuilt(&layout.build().unwrap()) else { panic!("not chunked") };
            prop_assert_eq!(found, layout);
        }
    }

    #[test]
    fn runs_of_bytes_are_built() {
        let found = |built: &[u8]| format!("{:?}", rebuilt(built));
        assert_eq!(found(&build_compact(&[1, 2]).unwrap()), "Compact { address: 104, size: 2 }");
        assert!(build_compact(&[0; 65_536]).is_err());
        assert_eq!(found(&build_contiguous(Some(9), 7)), "Contiguous { address: Some(9), size: Some(7) }");
        assert_eq!(found(&build_contiguous(None, 7)), "Contiguous { address: None, size: Some(7) }");
        let chunk = vec![1 << 32];
        let large = ChunkedLayout {
            chunk,
            element_size: 1,
            index: ChunkIndexKind::BTree1,
            address: None,
            edges_unfiltered: false,
        };
        assert!(large.build().is_err());
    }
}
