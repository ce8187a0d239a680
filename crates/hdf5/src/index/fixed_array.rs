//! Chunk index in a fixed array, for datasets whose axes all have a limit (specification VII.C).
//!
//! 1. The header has the number of elements and the address of the data block.
//! 2. A small data block has the elements. A large one has a bitmap of pages, and the pages follow
//!    it. Pages that were never written hold garbage.

use super::IndexRequest;
use super::elements::{Elements, Page, Slots, is_written, take};
use super::records::Records;
use crate::cursor::to_usize;
use crate::error::Built;
use crate::output::{Output, fit};
use crate::{Cursor, Parsed, Result};

const HEADER: &str = "fixed array header";
const BLOCK: &str = "fixed array data block";
const PAGE: &str = "fixed array data block page";

struct Header {
    /// Class of the elements, and bytes of each element.
    element: (u8, u8),
    page_bits: u8,
    count: u64,
    block: Option<u64>,
}

impl Header {
    fn parse(cursor: &mut Cursor<'_>) -> Parsed<Header> {
        let start = cursor.position();
        cursor.signature(b"FAHD")?;
        cursor.version(HEADER, &[0])?;
        let element = (cursor.u8()?, cursor.u8()?);
        let header =
            Header { element, page_bits: cursor.u8()?, count: cursor.length()?, block: cursor.offset()? };
        cursor.checksum(start)?;
        Ok(header)
    }
}

/// A page has 2^10 elements: the HDF5 library's number.
pub(crate) const PAGE_BITS: u8 = 10;

/// Builds an array at `address` from the elements of all slots, in order. `filtered`: elements have
/// the size and the filter mask of a chunk.
pub(crate) fn build(address: u64, filtered: bool, elements: &[Vec<u8>]) -> Built<Vec<u8>> {
    /// Bytes of the header.
    const LEN: u64 = 28;
    let class = u8::from(filtered);
    let len: u8 = fit(elements.first().map_or(8, Vec::len) as u64, "bytes of an element")?;
    let mut out = Output::new();
    out.bytes(b"FAHD").u8(0).u8(class).u8(len).u8(PAGE_BITS).u64(elements.len() as u64);
    out.u64(address.saturating_add(LEN)).checksum();
    let mut block = Output::new();
    block.bytes(b"FADB").u8(0).u8(class).u64(address);
    let page = 1_usize << PAGE_BITS;
    if elements.len() <= page {
        out.bytes(&block.bytes(&elements.concat()).checksum().take());
        return Ok(out.take());
    }
    // All pages are written.
    let pages = elements.len().div_ceil(page);
    let bits = (0..pages.div_ceil(8)).map(|byte| match pages - 8 * byte {
        left @ 0..8 => !(0xff_u8 >> left),
        _ => 0xff,
    });
    out.bytes(&block.bytes(&bits.collect::<Vec<u8>>()).checksum().take());
    for elements in elements.chunks(page) {
        out.bytes(&Output::new().bytes(&elements.concat()).checksum().take());
    }
    Ok(out.take())
}

pub(super) fn read(request: &IndexRequest<'_>, address: u64, records: &mut Records) -> Result<()> {
    let source = request.source;
    let header = source.parse(HEADER, address, 64, Header::parse)?;
    let corrupt = |why: String| source.corrupt(HEADER, address, why);
    let slots = Slots::new(request, &records.grid, None)?;
    if slots.total != Some(header.count) {
        let slots = slots.total.unwrap_or_default();
        return Err(corrupt(format!(
            "expected {slots} elements for the maximum shape, found {}",
            header.count
        )));
    }
    let mut elements = Elements::new(request, slots, records, header.element).map_err(corrupt)?;
    let Some(block) = header.block else { return Ok(()) };

    let page = 1u64.checked_shl(header.page_bits.into()).unwrap_or(u64::MAX);
    let count = header.count;
    let pages = if count > page { count.div_ceil(page) } else { 0 };
    let head = 6 + u64::from(source.sizes().offset) + pages.div_ceil(8) + 4;
    let inside = if pages > 0 { 0 } else { count };
    let guess = to_usize(head.saturating_add(elements.len(inside)));
    let bitmap = source.parse(BLOCK, block, guess, |cursor| {
        let start = cursor.position();
        elements.check_head(cursor, b"FADB", BLOCK)?;
        let bitmap = cursor.take_u64(pages.div_ceil(8))?.to_vec();
        let inside = take(cursor, elements.len(inside))?;
        cursor.checksum(start)?;
        elements.decode(inside, 0)?;
        Ok(bitmap)
    })?;
    let mut written = Vec::new();
    for number in (0..pages).filter(|page| is_written(&bitmap, *page)) {
        let first = number.saturating_mul(page);
        if !elements.are_wanted(first, page) {
            continue;
        }
        let before = number.saturating_mul(elements.len(page).saturating_add(4));
        let address = block.saturating_add(head).saturating_add(before);
        // Fail at the first page beyond the end of the file, since there may be very many.
        if address >= source.end() {
            return Err(corrupt(format!("page {number} of {pages} begins after the end of the file")));
        }
        written.push(Page { address, first, count: page.min(count - first) });
    }
    elements.read_pages(source, PAGE, &written)
}

#[cfg(test)]
mod tests {
    use super::{PAGE_BITS, build};
    use crate::data_layout::ChunkIndexKind;
    use crate::index::testing::{Dataset, head};
    use crate::testing::{SIZES, append_checksum, mutations, says, source, structure};

    /// An array with pages of 2^`page_bits` elements. Pages without a chunk hold garbage.
    fn array(dataset: &Dataset, page_bits: u8) -> Vec<u8> {
        let elements = dataset.elements(0);
        let header = structure!(b"FAHD\0", dataset.class(), page_bits, elements.len() as u64, 28u64);
        let bytes = append_checksum(header);
        let block = head(b"FADB", dataset.class()[0]);
        let page = 1 << page_bits;
        if elements.len() <= page {
            return structure!(bytes, append_checksum(structure!(block, elements.concat())));
        }
        let pages: Vec<_> = elements.chunks(page).collect();
        let is_empty = |page: &&[Vec<u8>]| page.iter().all(|element| element[..8] == [0xff; 8]);
        let mut bitmap = vec![0; pages.len().div_ceil(8)];
        let mut data = Vec::new();
        for (number, page) in pages.iter().enumerate() {
            let written = !is_empty(page);
            bitmap[number / 8] |= u8::from(written) << (7 - number % 8);
            let concat = page.concat();
            data.extend(if written { append_checksum(concat) } else { vec![0x77; concat.len() + 4] });
        }
        assert!(pages.iter().any(is_empty));
        structure!(bytes, append_checksum(structure!(block, bitmap)), data)
    }

    fn dataset(shape: &[u64], max_shape: &[u64], filtered: bool) -> Dataset {
        let max_shape: Vec<_> = max_shape.iter().map(|max| Some(*max)).collect();
        Dataset::new(ChunkIndexKind::FixedArray { page_bits: 0 }, shape, &max_shape, filtered)
    }

    #[test]
    fn every_chunk() {
        for filtered in [false, true] {
            for (shape, max, page_bits) in [
                (&[40][..], &[40][..], 10),
                (&[40], &[55], 10),
                (&[9, 14], &[9, 14], 10),
                (&[9, 14], &[12, 20], 10),
                (&[3, 4, 5], &[3, 8, 7], 10),
                (&[0, 4], &[3, 8], 10),
                // With pages.
                (&[400], &[400], 0),
                (&[30, 14], &[44, 20], 0),
            ] {
                let dataset = dataset(shape, max, filtered);
                let source = source(&array(&dataset, page_bits));
                let index = dataset.read(&source).unwrap();
                assert_eq!(index.records, dataset.expected(), "{shape:?} {max:?}");
                assert_eq!(dataset.find_each(&source), dataset.expected(), "{shape:?} {max:?}");
            }
        }
    }

    #[test]
    fn damage_is_named() {
        let wrong = |page_bits, at: usize, with: u8, verify| {
            let dataset = dataset(&[9, 14], &[9, 14], false);
            let mut bytes = array(&dataset, page_bits);
            bytes[at] ^= with;
            dataset.read(&source(&bytes).with_format(SIZES, verify)).unwrap_err()
        };
        let pages = 28 + 14 + 5 + 4;
        for at in [9, 28 + 15, pages + 3, pages + 12 + 8] {
            says(wrong(0, at, 1, true), "the checksum is");
        }
        says(wrong(10, 8, 1, false), "expected 35 elements for the maximum shape, found 34");
        says(
            wrong(10, 5, 1, false),
            "expected client ID 0 (0: chunks without filters, 1: with filters), found 1",
        );
        says(wrong(10, 6, 1, false), "expected elements of 8 bytes, found 9 bytes");
        says(wrong(10, 28 + 6, 9, false), "the header at address 9");
    }

    #[test]
    fn any_bytes() {
        for filtered in [false, true] {
            for page_bits in [0, 10] {
                let dataset = dataset(&[9, 14], &[9, 14], filtered);
                mutations(&array(&dataset, page_bits), |source| {
                    drop(dataset.read(source));
                    drop(dataset.find(source, &[2, 1]));
                });
            }
        }
    }

    #[test]
    fn what_is_built_is_read() {
        let index = ChunkIndexKind::FixedArray { page_bits: PAGE_BITS };
        for (shape, filtered) in [
            (vec![9], false),
            (vec![7, 6], true),
            (vec![4095], true),
            (vec![201, 200], false),
            (vec![1], true),
        ] {
            let max_shape: Vec<Option<u64>> = shape.iter().map(|n| Some(n + 3)).collect();
            let dataset = Dataset::new(index.clone(), &shape, &max_shape, filtered);
            let elements = dataset.elements(0);
            let bytes = build(0, filtered, &elements).unwrap();
            let found = dataset.read(&source(&[bytes, vec![0; 99]].concat())).unwrap();
            assert_eq!(found.records, dataset.expected());
        }
    }
}
