//! Chunk index in an extensible array, if one axis grows without a limit (specification VII.D).
//!
//! Elements are in blocks of growing size: *super block* u stands for 2^(u/2) data blocks of
//! 2^((u+1)/2) × the smallest number of elements.
//!
//! 1. The header has the parameters of this scheme, and the address of the index block.
//! 2. The index block has the first elements and the addresses of the data blocks of the first
//!    super blocks. For each later super block it has the address of a *secondary block*.
//! 3. A secondary block has the addresses of its data blocks. Large data blocks have pages, and the
//!    secondary block has a bitmap of the pages that were written.
//! 4. A data block has elements, or is followed by pages of elements.

mod build;

pub(crate) use build::build;

use super::IndexRequest;
use super::elements::{Elements, Page, Slots, is_written, take};
use super::records::Records;
use crate::trees::Visited;
use crate::{Cursor, Parsed, Result};

const HEADER: &str = "extensible array header";
const INDEX: &str = "extensible array index block";
const SECONDARY: &str = "extensible array secondary block";
const BLOCK: &str = "extensible array data block";
const PAGE: &str = "extensible array data block page";

struct Header {
    /// Class of the elements, and bytes of each element.
    element: (u8, u8),
    /// Number of bits of an element's index.
    max_bits: u8,
    /// Elements in the index block.
    inside: u8,
    /// Elements in the smallest data block: a power of two.
    smallest: u8,
    /// Data blocks of the first super block that has a secondary block: a power of two.
    pointers: u8,
    page_bits: u8,
    index: Option<u64>,
}

struct SuperBlock {
    /// Slot of the first element.
    first: u64,
    blocks: u64,
    /// Elements per data block.
    elements: u64,
    /// Pages per data block. 0: it has no pages.
    pages: u64,
}

/// A data block to read. With 0 elements it is the head of a data block that has pages.
struct DataBlock {
    first: u64,
    count: u64,
}

impl Header {
    fn parse(cursor: &mut Cursor<'_>) -> Parsed<Header> {
        let start = cursor.position();
        cursor.signature(b"EAHD")?;
        cursor.version(HEADER, &[0])?;
        let element = (cursor.u8()?, cursor.u8()?);
        let at = cursor.clone();
        let (max_bits, inside, smallest) = (cursor.u8()?, cursor.u8()?, cursor.u8()?);
        let (pointers, page_bits) = (cursor.u8()?, cursor.u8()?);
        // Statistics: numbers and sizes of blocks and elements.
        (0..6).try_for_each(|_| cursor.length().map(|_| ()))?;
        let index = cursor.offset()?;
        cursor.checksum(start)?;
        let powers = smallest.is_power_of_two() && pointers.is_power_of_two();
        if !powers || max_bits > 64 || u32::from(max_bits) < smallest.ilog2() {
            return Err(at.corrupt(format!(
                "expected powers of two for the smallest block and the pointers, and enough but at most 64 \
                 bits for the number of elements, found blocks of {smallest} elements, {pointers} pointers \
                 and {max_bits} bits"
            )));
        }
        Ok(Header { element, max_bits, inside, smallest, pointers, page_bits, index })
    }

    /// Returns all super blocks, and how many of them have their data blocks in the index block.
    fn super_blocks(&self) -> (Vec<SuperBlock>, usize) {
        let page = 1u64.checked_shl(self.page_bits.into()).unwrap_or(u64::MAX);
        let mut first = u64::from(self.inside);
        let all = (0..=u32::from(self.max_bits) - self.smallest.ilog2()).map(|number| {
            let blocks = 1u64 << (number / 2);
            let elements = u64::from(self.smallest).saturating_mul(1 << number.div_ceil(2));
            let pages = if elements > page { elements / page } else { 0 };
            let block = SuperBlock { first, blocks, elements, pages };
            // Saturates: there are no chunks beyond 64 bits.
            first = first.saturating_add(blocks.saturating_mul(elements));
            block
        });
        (all.collect(), 2 * usize::try_from(self.pointers.ilog2()).unwrap_or_default())
    }

    /// Bytes of the offset at the start of a block.
    fn offset_len(&self) -> usize {
        usize::from(self.max_bits).div_ceil(8)
    }
}

/// Blocks that were found but not yet read.
struct Pending {
    blocks: Vec<DataBlock>,
    /// Address and length of each block.
    places: Vec<(u64, u64)>,
    pages: Vec<Page>,
    /// Refuses overlapping blocks. Without overlaps the file size limits their number.
    visited: Visited,
}

pub(super) fn read(request: &IndexRequest<'_>, address: u64, records: &mut Records) -> Result<()> {
    let (source, sizes) = (request.source, request.source.sizes());
    let header = source.parse(HEADER, address, 96, Header::parse)?;
    let corrupt = |why: String| source.corrupt(HEADER, address, why);
    let unlimited = request.max_shape.iter().position(Option::is_none);
    let unlimited =
        unlimited.ok_or_else(|| corrupt("expected a dataset with an unlimited axis, found none".into()))?;
    let slots = Slots::new(request, &records.grid, Some(unlimited))?;
    let mut elements = Elements::new(request, slots, records, header.element).map_err(corrupt)?;
    let Some(index) = header.index else { return Ok(()) };

    let (all, direct) = header.super_blocks();
    let (direct, later) = all.split_at(direct.min(all.len()));
    let head_len = 6 + u64::from(sizes.offset) + header.offset_len() as u64;
    let mut found =
        Pending { blocks: Vec::new(), places: Vec::new(), pages: Vec::new(), visited: Visited::new(source) };
    let mut secondary = Vec::new();
    source.parse(INDEX, index, 1024, |cursor| {
        let start = cursor.position();
        elements.check_head(cursor, b"EAIB", INDEX)?;
        let inside = take(cursor, elements.len(header.inside.into()))?;
        let count = direct.iter().map(|block| block.blocks).sum::<u64>();
        let mut blocks = take(cursor, count.saturating_mul(sizes.offset.into()))?;
        let mut pointers = take(cursor, (later.len() as u64).saturating_mul(sizes.offset.into()))?;
        cursor.checksum(start)?;
        elements.decode(inside, 0)?;
        for block in direct {
            if block.pages > 0 {
                return Err(blocks.corrupt(
                    "expected data blocks without pages in the index block, found a data block with pages",
                ));
            }
            found.add(block, &mut blocks, &[], &elements, head_len)?;
        }
        for block in later {
            if let Some(at) = pointers.offset()?
                && elements.are_wanted(block.first, block.blocks.saturating_mul(block.elements))
            {
                let bitmap = block.blocks.saturating_mul(block.pages.div_ceil(8));
                let pointers = block.blocks.saturating_mul(sizes.offset.into());
                let len = head_len.saturating_add(bitmap).saturating_add(pointers).saturating_add(4);
                secondary.push((block, bitmap, pointers, (at, len)));
            }
        }
        Ok(())
    })?;

    let places: Vec<(u64, u64)> = secondary.iter().map(|(.., place)| *place).collect();
    source.announce(&[&places[..], &found.places].concat())?;
    source.parse_many(SECONDARY, &places, |number, cursor| {
        let Some((block, bitmap, pointers, (at, len))) = secondary.get(number) else { return Ok(()) };
        let start = cursor.position();
        elements.check_head(cursor, b"EASB", SECONDARY)?;
        let here = cursor.clone();
        let expected = block.first.saturating_sub(header.inside.into());
        let offset = cursor.uint(header.offset_len())?;
        if offset != expected {
            return Err(here.corrupt(format!(
                "expected a block from element {expected} on, found one from element {offset} on"
            )));
        }
        let bitmap = cursor.take_u64(*bitmap)?;
        let mut pointers = take(cursor, *pointers)?;
        cursor.checksum(start)?;
        found.visited.meet(*at, *len)?;
        found.add(block, &mut pointers, bitmap, &elements, head_len)
    })?;

    let Pending { blocks, places, pages, .. } = found;
    source.parse_many(BLOCK, &places, |number, cursor| {
        let Some(block) = blocks.get(number) else { return Ok(()) };
        let start = cursor.position();
        elements.check_head(cursor, b"EADB", BLOCK)?;
        // Skip the block's offset unchecked. The HDF5 library writes wrong offsets.
        cursor.skip(header.offset_len())?;
        let inside = take(cursor, elements.len(block.count))?;
        cursor.checksum(start)?;
        elements.decode(inside, block.first)
    })?;
    elements.read_pages(source, PAGE, &pages)
}

impl Pending {
    /// Adds the data blocks of a super block. `pointers` holds their addresses.
    fn add(
        &mut self,
        block: &SuperBlock,
        pointers: &mut Cursor<'_>,
        bitmap: &[u8],
        elements: &Elements<'_>,
        head_len: u64,
    ) -> Parsed<()> {
        for number in 0..block.blocks {
            let Some(address) = pointers.offset()? else { continue };
            let before = number.saturating_mul(block.elements);
            let first = block.first.saturating_add(before);
            if !elements.are_wanted(first, block.elements) {
                continue;
            }
            let count = if block.pages > 0 { 0 } else { block.elements };
            let len = head_len.saturating_add(elements.len(count)).saturating_add(4);
            self.visited.meet(address, len)?;
            self.blocks.push(DataBlock { first, count });
            self.places.push((address, len));
            let page_count = block.elements.checked_div(block.pages).unwrap_or_default();
            let page_len = elements.len(page_count).saturating_add(4);
            for page in 0..block.pages {
                let first = first.saturating_add(page.saturating_mul(page_count));
                let bit = number.saturating_mul(block.pages).saturating_add(page);
                if elements.are_wanted(first, page_count) && is_written(bitmap, bit) {
                    let at = address.saturating_add(len).saturating_add(page.saturating_mul(page_len));
                    self.visited.meet(at, page_len)?;
                    self.pages.push(Page { address: at, first, count: page_count });
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_layout::ChunkIndexKind;
    use crate::index::testing::{Dataset, head};
    use crate::testing::{SIZES, append_checksum, fails, mutations, says, source, structure};

    const NONE: [u8; 8] = [0xff; 8];

    /// An array of up to 2^10 elements. Empty blocks and pages are left out.
    ///
    /// It has 3 elements in the index block, 2 in a data block, 2 pointers in a secondary block,
    /// and at least 8 elements in a page.
    fn array(dataset: &Dataset, len: u64) -> Vec<u8> {
        let mut elements = dataset.elements(len);
        let nothing = structure!(NONE, vec![0; elements[0].len() - 8]);
        let class = dataset.class();
        let header_len = 12 + 6 * 8 + 8 + 4;
        let bytes =
            append_checksum(structure!(b"EAHD\0", class, [10, 3, 2, 2, 3], [0; 48], header_len as u64));
        assert_eq!(bytes.len(), header_len);

        // The index block has super blocks 0 (one block of 2) and 1 (one block of 4).
        let plan = Header::parse(&mut Cursor::whole(&bytes, 0, SIZES)).unwrap();
        let (all, direct) = plan.super_blocks();
        let total = all.last().map(|block| block.first + block.blocks * block.elements).unwrap();
        assert!(elements.len() as u64 <= total);
        elements.resize(total as usize, nothing.clone());
        let is_empty = |elements: &[Vec<u8>]| elements.iter().all(|element| *element == nothing);

        let mut index = structure!(head(b"EAIB", class[0]), elements[..3].concat());
        let index_len = index.len() + 8 * (direct + all.len() - direct) + 4;
        let mut at = (header_len + index_len) as u64;
        let mut later: Vec<u8> = Vec::new();
        let mut append = |part: Vec<u8>| {
            later.extend_from_slice(&part);
            at += part.len() as u64;
            at - part.len() as u64
        };
        for (number, block) in all.iter().enumerate() {
            let within =
                &elements[block.first as usize..(block.first + block.blocks * block.elements) as usize];
            let (mut pointers, mut bitmap) =
                (Vec::new(), vec![0u8; (block.blocks * block.pages.div_ceil(8)) as usize]);
            for (number, elements) in within.chunks(block.elements as usize).enumerate() {
                if is_empty(elements) {
                    pointers.extend(NONE);
                    continue;
                }
                let mut data = structure!(head(b"EADB", class[0]), [9, 9]);
                if block.pages == 0 {
                    data.extend(elements.concat());
                }
                let mut data = append_checksum(data);
                if block.pages > 0 {
                    for (page, elements) in elements.chunks(8).enumerate() {
                        let bit = number * block.pages as usize + page;
                        let written = !is_empty(elements);
                        bitmap[bit / 8] |= u8::from(written) << (7 - bit % 8);
                        let page = elements.concat();
                        data.extend(if written { append_checksum(page) } else { vec![0x77; page.len() + 4] });
                    }
                }
                pointers.extend(append(data).to_le_bytes());
            }
            if number < direct {
                index.extend(pointers);
            } else if is_empty(within) {
                index.extend(NONE);
            } else {
                let first = (block.first - 3) as u16;
                let secondary = structure!(head(b"EASB", class[0]), first, bitmap, pointers);
                index.extend(append(append_checksum(secondary)).to_le_bytes());
            }
        }
        let index = append_checksum(index);
        assert_eq!(index.len(), index_len);
        [bytes, index, later].concat()
    }

    fn dataset(shape: &[u64], max_shape: &[Option<u64>], filtered: bool) -> Dataset {
        let kind = ChunkIndexKind::ExtensibleArray {
            max_bits: 0,
            index_elements: 0,
            min_pointers: 0,
            min_elements: 0,
            page_bits: 0,
        };
        Dataset::new(kind, shape, max_shape, filtered)
    }

    #[test]
    fn every_chunk() {
        for filtered in [false, true] {
            for (shape, max, len) in [
                (&[3][..], &[None][..], 2),
                (&[40], &[None], 20),
                (&[1500], &[None], 760),
                (&[40, 20], &[None, Some(20)], 25),
                (&[40, 10], &[None, Some(20)], 25),
                (&[10, 40], &[Some(10), None], 30),
                (&[10, 40], &[Some(16), None], 30),
                (&[3, 30, 5], &[Some(6), None, Some(5)], 20),
                (&[3, 4, 30], &[Some(6), Some(4), None], 20),
                (&[0, 4], &[None, Some(4)], 3),
            ] {
                let dataset = dataset(shape, max, filtered);
                let source = source(&array(&dataset, len));
                let index = dataset.read(&source).unwrap();
                assert_eq!(index.records, dataset.expected(), "{shape:?} {max:?}");
                assert_eq!(dataset.find_each(&source), dataset.expected(), "{shape:?} {max:?}");
            }
        }
    }

    /// Super blocks of arrays as the HDF5 library makes them.
    ///
    /// 4 elements in the index block, 16 in the smallest block, 4 pointers, pages of 1024.
    #[test]
    fn super_blocks_of_the_library() {
        let header = Header {
            element: (0, 8),
            max_bits: 32,
            inside: 4,
            smallest: 16,
            pointers: 4,
            page_bits: 10,
            index: None,
        };
        let (all, direct) = header.super_blocks();
        assert_eq!((all.len(), direct), (29, 4));
        let facts = |block: &SuperBlock| (block.first, block.blocks, block.elements, block.pages);
        assert_eq!(
            all[..4].iter().map(facts).collect::<Vec<_>>(),
            [(4, 1, 16, 0), (20, 1, 32, 0), (52, 2, 32, 0), (116, 2, 64, 0)]
        );
        assert_eq!(facts(&all[13]), (131_060, 64, 2048, 2));
        let widest = Header { max_bits: 64, smallest: 128, pointers: 1, ..header };
        assert_eq!(widest.super_blocks().0.len(), 58);
    }

    #[test]
    fn damage_is_named() {
        let wrong = |change: &dyn Fn(&mut Vec<u8>), verify| {
            let dataset = dataset(&[1500], &[None], false);
            let mut bytes = array(&dataset, 760);
            change(&mut bytes);
            dataset.read(&source(&bytes).with_format(SIZES, verify)).unwrap_err()
        };
        for at in (0..5000).step_by(9).filter(|at| *at > 4) {
            let error = wrong(&|bytes| bytes[at] ^= 0x40, true).to_string();
            assert!(error.contains("extensible array"), "{at}: {error}");
        }
        says(wrong(&|bytes| bytes[10] = 3, false), "3 pointers");
        // The second data block is the first one again.
        let at = 72 + 14 + 24;
        says(wrong(&|bytes| bytes.copy_within(at..at + 8, at + 8), false), "a second time");
        says(
            wrong(&|bytes| bytes[11] = 0, false),
            "expected data blocks without pages in the index block, found a data block with pages",
        );
        let fixed = dataset(&[40], &[Some(40)], false);
        let source = source(&array(&dataset(&[40], &[None], false), 20)).with_format(SIZES, false);
        fails(fixed.read(&source), "expected a dataset with an unlimited axis, found none");
    }

    #[test]
    fn any_bytes() {
        for filtered in [false, true] {
            let dataset = dataset(&[10, 24], &[Some(16), None], filtered);
            mutations(&array(&dataset, 12), |source| {
                drop(dataset.read(source));
                drop(dataset.find(source, &[4, 9]));
            });
        }
    }
}
