//! Builds extensible arrays: the mirror of [`read`](super::read).
//!
//! Only blocks with chunks are built, as in the HDF5 library.

use super::{Header, SuperBlock};
use crate::data_layout::ChunkIndexKind;
use crate::index::elements::Slots;
use crate::index::records::Records;
use crate::index::{ChunkRecord, IndexRequest};
use crate::output::Output;
use crate::{Hdf5Error, Result};

/// Bytes of the header.
const HEADER_LEN: u64 = 72;

/// The array under construction.
struct NewArray<'r> {
    /// Address of the header.
    at: u64,
    header: Header,
    /// Bytes of the size of a chunk, if chunks have filters.
    size_width: Option<usize>,
    /// The chunks by their slots.
    records: Vec<(u64, &'r ChunkRecord)>,
    /// The blocks behind the index block, and the address of the first one.
    blocks: Output,
    blocks_at: u64,
    /// Number and bytes of secondary blocks and of data blocks, and elements in all blocks.
    secondary: (u64, u64),
    data: (u64, u64),
    elements: u64,
}

/// Builds the array of a dataset at `at`. `width`: the bytes of a chunk's size, if chunks have
/// filters. Only blocks with chunks are built.
pub(crate) fn build(
    request: &IndexRequest<'_>,
    at: u64,
    width: Option<usize>,
    records: &[ChunkRecord],
) -> Result<Vec<u8>> {
    let source = request.source;
    let wrong = || source.invalid("its extensible array has impossible settings");
    let ChunkIndexKind::ExtensibleArray { max_bits, index_elements, min_pointers, min_elements, page_bits } =
        request.layout.index
    else {
        return Err(wrong());
    };
    let powers = min_elements.is_power_of_two() && min_pointers.is_power_of_two();
    if !powers || max_bits > 64 || u32::from(max_bits) < min_elements.ilog2() {
        return Err(wrong());
    }
    let unlimited = request.max_shape.iter().position(Option::is_none).ok_or_else(wrong)?;
    let slots = Slots::new(request, &Records::new(request, None)?.grid, Some(unlimited))?;
    let mut by_slot: Vec<(u64, &ChunkRecord)> =
        records.iter().map(|record| (slots.slot(record.number), record)).collect();
    by_slot.sort_unstable_by_key(|(slot, _)| *slot);
    let len = 8 + width.map_or(0, |width| width + 4);
    let element = (u8::from(width.is_some()), u8::try_from(len).unwrap_or(u8::MAX));
    let (inside, smallest, pointers) = (index_elements, min_elements, min_pointers);
    let header = Header { element, max_bits, inside, smallest, pointers, page_bits, index: None };
    let (all, direct) = header.super_blocks();
    let (direct, later) = all.split_at(direct.min(all.len()));
    let in_index = direct.iter().map(|block| block.blocks).sum::<u64>().saturating_add(later.len() as u64);
    let index_len = 14 + u64::from(inside) * len as u64 + 8 * in_index + 4;
    let blocks_at = at.saturating_add(HEADER_LEN + index_len);
    let mut array = NewArray {
        at,
        header,
        size_width: width,
        records: by_slot,
        blocks: Output::new(),
        blocks_at,
        secondary: (0, 0),
        data: (0, 0),
        elements: inside.into(),
    };
    let mut index = array.head(b"EAIB");
    index.bytes(&array.elements(0, inside.into()));
    for block in direct {
        array.data_blocks(block, source.end())?.0.into_iter().for_each(|place| _ = index.address(place));
    }
    for block in later {
        index.address(array.secondary_block(block, source.end())?);
    }
    let index = index.checksum().take();
    let mut out = Output::new();
    out.bytes(b"EAHD").u8(0).u8(element.0).u8(element.1);
    out.u8(max_bits).u8(inside).u8(smallest).u8(pointers).u8(page_bits);
    out.u64(array.secondary.0).u64(array.secondary.1).u64(array.data.0).u64(array.data.1);
    // Readers take slots from this one on for absent.
    out.u64(array.records.last().map_or(0, |(slot, _)| slot.saturating_add(1))).u64(array.elements);
    out.u64(at.saturating_add(HEADER_LEN)).checksum();
    Ok(out.bytes(&index).bytes(&array.blocks.take()).take())
}

impl NewArray<'_> {
    /// The first fields of a block.
    fn head(&self, signature: &[u8; 4]) -> Output {
        let mut out = Output::new();
        out.bytes(signature).u8(0).u8(self.header.element.0).u64(self.at);
        out
    }

    /// The chunks in `count` slots from `first` on.
    fn chunks(&self, first: u64, count: u64) -> &[(u64, &ChunkRecord)] {
        let start = self.records.partition_point(|(slot, _)| *slot < first);
        let end = self.records.partition_point(|(slot, _)| *slot < first.saturating_add(count));
        self.records.get(start..end).unwrap_or_default()
    }

    /// The elements of `count` slots from `first` on.
    fn elements(&self, first: u64, count: u64) -> Vec<u8> {
        let mut out = Output::new();
        let mut put = |address: Option<u64>, size: u64, skipped: u32| {
            out.address(address);
            if let Some(width) = self.size_width {
                out.uint(size, width).u32(skipped);
            }
        };
        let mut chunks = self.chunks(first, count).iter().peekable();
        for slot in first..first.saturating_add(count) {
            match chunks.next_if(|(next, _)| *next == slot) {
                Some((_, record)) => put(Some(record.address), record.size, record.skipped),
                None => put(None, 0, 0),
            }
        }
        out.take()
    }

    /// Appends a block. Returns its address.
    fn put(&mut self, bytes: &[u8]) -> u64 {
        let address = self.blocks_at.saturating_add(self.blocks.len() as u64);
        self.blocks.bytes(bytes);
        address
    }

    /// Appends a data block. Returns its address.
    fn put_data(&mut self, bytes: &[u8], block: &SuperBlock) -> u64 {
        self.data = (self.data.0 + 1, self.data.1 + bytes.len() as u64);
        self.elements = self.elements.saturating_add(block.elements);
        self.put(bytes)
    }

    /// Builds the data blocks of a super block. Returns their addresses, and the bitmap of pages.
    ///
    /// The blocks of a file are in the file: `most` bytes. A file that claims more is refused.
    fn data_blocks(&mut self, block: &SuperBlock, most: u64) -> Result<(Vec<Option<u64>>, Vec<u8>)> {
        let width = u64::from(self.header.element.1);
        let bits = block.blocks.saturating_mul(block.pages.div_ceil(8));
        let mut bitmap = vec![0_u8; usize::try_from(bits.min(most)).unwrap_or_default()];
        let mut places = Vec::new();
        for number in 0..block.blocks {
            let first = block.first.saturating_add(number.saturating_mul(block.elements));
            if self.chunks(first, block.elements).is_empty() {
                places.push(None);
                continue;
            }
            let len = block.elements.saturating_mul(width).saturating_add(self.blocks.len() as u64);
            if len > most.saturating_mul(2) {
                let why = "its extensible array would be larger than the file".to_owned();
                return Err(Hdf5Error::Unstorable { object: "chunk index".into(), why });
            }
            let mut out = self.head(b"EADB");
            out.uint(first.saturating_sub(self.header.inside.into()), self.header.offset_len());
            let Some(count) = block.elements.checked_div(block.pages) else {
                // No pages.
                let bytes = out.bytes(&self.elements(first, block.elements)).checksum().take();
                places.push(Some(self.put_data(&bytes, block)));
                continue;
            };
            out.checksum();
            for page in 0..block.pages {
                let first = first.saturating_add(page.saturating_mul(count));
                out.bytes(&Output::new().bytes(&self.elements(first, count)).checksum().take());
                let bit = number.saturating_mul(block.pages).saturating_add(page);
                let byte = usize::try_from(bit / 8).ok().and_then(|byte| bitmap.get_mut(byte));
                if let Some(byte) = byte {
                    *byte |= 0x80 >> (bit % 8);
                }
            }
            places.push(Some(self.put_data(&out.take(), block)));
        }
        Ok((places, bitmap))
    }

    /// Builds a secondary block and its data blocks. `None`: no chunk is in them.
    fn secondary_block(&mut self, block: &SuperBlock, most: u64) -> Result<Option<u64>> {
        if self.chunks(block.first, block.blocks.saturating_mul(block.elements)).is_empty() {
            return Ok(None);
        }
        let (places, bitmap) = self.data_blocks(block, most)?;
        let mut out = self.head(b"EASB");
        out.uint(block.first.saturating_sub(self.header.inside.into()), self.header.offset_len());
        out.bytes(&bitmap);
        places.into_iter().for_each(|place| _ = out.address(place));
        let bytes = out.checksum().take();
        self.secondary = (self.secondary.0 + 1, self.secondary.1 + bytes.len() as u64);
        Ok(Some(self.put(&bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::testing::Dataset;
    use crate::testing::source;

    #[test]
    fn what_is_built_is_parsed() {
        let kind = |page_bits| ChunkIndexKind::ExtensibleArray {
            max_bits: 32,
            index_elements: 4,
            min_pointers: 4,
            min_elements: 16,
            page_bits,
        };
        for filtered in [false, true] {
            for (shape, max, page_bits) in [
                (&[9_u64][..], &[None][..], 10),
                (&[900], &[None], 10),
                (&[9000], &[None], 6),
                (&[20_000], &[None], 7),
                (&[40, 9], &[None, Some(12)], 10),
                (&[9, 40], &[Some(12), None], 6),
            ] {
                let mut dataset = Dataset::new(kind(page_bits), shape, max, filtered);
                let expected = dataset.expected();
                let blank = source(&[0; 100_000]);
                let width = filtered.then_some(2);
                let at = 200;
                dataset.layout.address = Some(at);
                let bytes = build(&dataset.request(&blank), at, width, &expected).unwrap();
                let source = source(&[vec![0; 200], bytes].concat());
                assert_eq!(dataset.read(&source).unwrap().records, expected, "{shape:?} {max:?}");
                let few: Vec<_> = expected.iter().step_by(37).copied().collect();
                let bytes = build(&dataset.request(&blank), at, width, &few).unwrap();
                let source = crate::testing::source(&[vec![0; 200], bytes].concat());
                assert_eq!(dataset.read(&source).unwrap().records, few, "{shape:?} {max:?}");
            }
        }
    }
}
