//! Chunks by a fixed array: no axis grows without a limit (specification VII.C).
//!
//! 1. The header says how many elements there are, and where the data block is.
//! 2. A small data block has the elements; a large one has a bitmap of pages, and behind itself those pages. Pages that were never written hold anything.

use super::IndexRequest;
use super::elements::{Elements, Page, Slots, is_written, take};
use super::records::Records;
use crate::{Cursor, Hdf5Error, ParseError, Source};

/// What the parts are called in messages.
const HEADER: &str = "fixed array header";
const BLOCK: &str = "fixed array data block";
const PAGE: &str = "fixed array data block page";

/// What the header says.
struct Header {
    /// What elements are, and bytes of each.
    element: (u8, u8),
    page_bits: u8,
    count: u64,
    block: Option<u64>,
}

impl Header {
    fn parse(cursor: &mut Cursor<'_>, verify: bool) -> Result<Header, ParseError> {
        let start = cursor.position();
        cursor.signature(b"FAHD")?;
        cursor.version(HEADER, &[0])?;
        let element = (cursor.u8()?, cursor.u8()?);
        let header =
            Header { element, page_bits: cursor.u8()?, count: cursor.length()?, block: cursor.offset()? };
        cursor.checksum(start, verify)?;
        Ok(header)
    }
}

/// Reads the array.
pub(super) fn read(
    source: &Source,
    request: &IndexRequest<'_>,
    address: u64,
    records: &mut Records,
) -> Result<(), Hdf5Error> {
    let (sizes, verify) = (request.sizes, request.verify);
    let header = source.parse(HEADER, address, 64, sizes, |cursor| Header::parse(cursor, verify))?;
    let corrupt = |why: String| source.wrong(HEADER, address, ParseError::Corrupt { at: address, why });
    let slots = Slots::new(source, request, &records.grid, None)?;
    if slots.total != Some(header.count) {
        let slots = slots.total.unwrap_or_default();
        return Err(corrupt(format!("{} elements, the maximum shape takes {slots}", header.count)));
    }
    let mut elements = Elements::new(request, slots, records, header.element).map_err(corrupt)?;
    let Some(block) = header.block else { return Ok(()) };

    let page = 1u64.checked_shl(header.page_bits.into()).unwrap_or(u64::MAX);
    let count = header.count;
    let pages = if count > page { count.div_ceil(page) } else { 0 };
    let head = 6 + u64::from(sizes.offset) + pages.div_ceil(8) + 4;
    let inside = if pages > 0 { 0 } else { count };
    let guess = usize::try_from(head.saturating_add(elements.len(inside))).unwrap_or(usize::MAX);
    let bitmap = source.parse(BLOCK, block, guess, sizes, |cursor| {
        let start = cursor.position();
        cursor.signature(b"FADB")?;
        cursor.version(BLOCK, &[0])?;
        let at = cursor.clone();
        let (client, owner) = (cursor.u8()?, cursor.defined("the header")?);
        if (client, owner) != (header.element.0, address) {
            return Err(at.corrupt(format!("a block of the array at {owner}, of class {client}")));
        }
        let bitmap = cursor.take_u64(pages.div_ceil(8))?.to_vec();
        let inside = take(cursor, elements.len(inside))?;
        cursor.checksum(start, verify)?;
        elements.decode(inside, 0)?;
        Ok(bitmap)
    })?;
    let mut written = Vec::new();
    for number in (0..pages).filter(|page| is_written(&bitmap, *page)) {
        let first = number.saturating_mul(page);
        let before = number.saturating_mul(elements.len(page).saturating_add(4));
        let address = block.saturating_add(head).saturating_add(before);
        // Those behind the end of the file, of which there may be very many, are not collected.
        if address >= source.end() {
            return Err(corrupt(format!("page {number} of {pages} is behind the end of the file")));
        }
        written.push(Page { address, first, count: page.min(count - first) });
    }
    elements.read_pages(source, request, PAGE, &written)
}
