//! Builds fractal heaps: the mirror of [`FractalHeap`](super::FractalHeap).
//!
//! All managed objects are in one direct block, which is as large as they need. Larger objects are
//! *huge*: each has its own place, and a B-tree has the places.

use crate::error::Built;
use crate::output::{Output, fit};
use crate::trees::btree2;

/// Larger objects are huge. The HDF5 library's number for links and attributes.
const LARGEST_MANAGED: u32 = 4096;

/// Bytes of the header.
const HEADER: u64 = 146;

/// The smallest direct block, and the smallest limit for larger ones: the HDF5 library's numbers.
const FIRST_BLOCK: u64 = 512;
const LARGEST_BLOCK: u64 = 64 << 10;

/// Bytes of a length in an object id.
const LENGTH: usize = 2;

/// Record type of the B-tree of huge objects, and bytes of its nodes.
const HUGE_RECORD: u8 = 1;
const NODE: u32 = 512;

/// The kinds of heaps, by the bits of heap space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeapKind {
    /// Links: ids of 7 bytes.
    Links,
    /// Attributes: ids of 8 bytes.
    Attributes,
}

impl HeapKind {
    /// Bytes of an offset in an object id.
    fn offset_len(self) -> usize {
        match self {
            HeapKind::Links => 4,
            HeapKind::Attributes => 5,
        }
    }

    /// Bytes of an object id.
    pub fn id_len(self) -> usize {
        1 + self.offset_len() + LENGTH
    }
}

/// A heap. Its header is at the given address.
pub(crate) struct NewHeap {
    /// The id of each object.
    pub ids: Vec<Vec<u8>>,
    pub bytes: Vec<u8>,
}

fn is_managed(object: &[u8]) -> bool {
    object.len() <= LARGEST_MANAGED as usize
}

/// Builds a heap of objects at `address`.
pub(crate) fn build(address: u64, objects: &[Vec<u8>], kind: HeapKind) -> Built<NewHeap> {
    let (offset_len, id_len) = (kind.offset_len(), kind.id_len());
    // Signature, version, address of the header, offset, checksum.
    let head = 4 + 1 + 8 + offset_len + 4;
    let managed = || objects.iter().filter(|object| is_managed(object));
    let huge = || objects.iter().filter(|object| !is_managed(object));
    let used = head as u64 + managed().map(|object| object.len() as u64).sum::<u64>();
    let is_empty = managed().next().is_none();
    let block_len = used.next_power_of_two().max(FIRST_BLOCK);
    let block = address.saturating_add(HEADER);
    let mut at = block.saturating_add(if is_empty { 0 } else { block_len });

    let (mut ids, mut data, mut huge_data, mut records) =
        (Vec::new(), Output::new(), Output::new(), Output::new());
    let mut count_huge = 0_u64;
    for object in objects {
        let mut id = Output::new();
        if is_managed(object) {
            id.u8(0).uint((head + data.len()) as u64, offset_len).uint(object.len() as u64, LENGTH);
            data.bytes(object);
        } else {
            count_huge += 1;
            id.u8(0x10).uint(count_huge, id_len - 1);
            records.u64(at).u64(object.len() as u64).u64(count_huge);
            huge_data.bytes(object);
            at = at.saturating_add(object.len() as u64);
        }
        ids.push(id.take());
    }
    let tree_at = at;
    let records = records.take();
    let tree = match count_huge {
        0 => Vec::new(),
        _ => btree2::build(tree_at, HUGE_RECORD, NODE, 24, &records)?,
    };

    let mut out = Output::new();
    out.bytes(b"FRHP").u8(0).u16(fit(id_len as u64, "bytes of a heap id")?).u16(0);
    // Direct blocks have checksums.
    out.u8(2).u32(LARGEST_MANAGED);
    out.u64(count_huge).address((count_huge > 0).then_some(tree_at));
    let space = if is_empty { 0 } else { block_len };
    // Free space without a manager, space, allocated space, end of the allocated space.
    out.u64(if is_empty { 0 } else { block_len - used }).address(None).u64(space).u64(space).u64(space);
    out.u64(managed().count() as u64);
    out.u64(huge().map(|object| object.len() as u64).sum()).u64(count_huge);
    // Tiny objects.
    out.u64(0).u64(0);
    out.u16(4)
        .u64(block_len)
        .u64(block_len.max(LARGEST_BLOCK))
        .u16(fit(8 * offset_len as u64, "bits of heap space")?);
    out.u16(1).address((!is_empty).then_some(block)).u16(0).checksum();
    if !is_empty {
        let mut direct = Output::new();
        direct.bytes(b"FHDB").u8(0).u64(address).zeros(offset_len + 4).bytes(&data.take());
        direct.fill(usize::try_from(block_len).unwrap_or(usize::MAX));
        // The checksum is of the whole block, with zeros in its own place.
        let bytes = direct.take();
        let checksum = crate::checksum::lookup3(&bytes);
        let (front, rest) = bytes.split_at_checked(head - 4).unwrap_or_default();
        out.bytes(front).u32(checksum).bytes(rest.get(4..).unwrap_or_default());
    }
    out.bytes(&huge_data.take()).bytes(&tree);
    Ok(NewHeap { ids, bytes: out.take() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heaps::FractalHeap;
    use crate::testing::source;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_built_is_parsed(
            objects in proptest::collection::vec(
                prop_oneof![
                    proptest::collection::vec(any::<u8>(), 1..60),
                    (4000_usize..9000, any::<u8>()).prop_map(|(len, byte)| vec![byte; len]),
                ],
                0..60,
            ),
            start in 0_u64..50,
        ) {
            for kind in [HeapKind::Links, HeapKind::Attributes] {
                let built = build(start, &objects, kind).unwrap();
                let source = source(&[vec![0; start as usize], built.bytes].concat());
                let heap = FractalHeap::read(&source, start).unwrap();
                for (id, object) in built.ids.iter().zip(&objects) {
                    prop_assert_eq!(id.len(), kind.id_len());
                    prop_assert_eq!(&heap.get(&source, id).unwrap()[..], &object[..]);
                }
            }
        }
    }
}
