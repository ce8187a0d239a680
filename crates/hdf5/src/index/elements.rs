//! Shared code of fixed and extensible arrays (specification VII.C, VII.D).
//!
//! Each chunk has a slot, and the array's element in that slot describes the chunk.

use super::IndexRequest;
use super::btrees::split_size_and_mask;
use super::records::{Grid, Records, strides};
use crate::cursor::address as address_of;
use crate::{Cursor, ParseError, Parsed, Result, Source};

/// Maps slots of an array to chunk numbers.
///
/// Slots are in C order of the maximum shape, with the unlimited axis first. A chunk therefore
/// keeps its slot when the dataset grows.
#[derive(Debug)]
pub(super) struct Slots {
    /// Per axis, in slot order: stride of slots, chunks in the current extent, stride of numbers.
    ///
    /// A stride is the distance to the next chunk along the axis.
    axes: Vec<(u64, u64, u64)>,
    /// `true` if a chunk's slot is its number.
    same: bool,
    /// Number of chunks in the current extent.
    chunks: u64,
    /// Number of slots. `None`: no limit.
    pub total: Option<u64>,
}

impl Slots {
    /// Builds the map. `first` is the axis without a limit.
    pub fn new(request: &IndexRequest<'_>, grid: &Grid, first: Option<usize>) -> Result<Slots> {
        let limits = request.max_shape.iter().zip(&request.layout.chunk);
        let limits: Vec<_> = limits.map(|(max, chunk)| max.map(|max| max.div_ceil(*chunk))).collect();
        let mut order: Vec<usize> = (0..limits.len()).filter(|axis| Some(*axis) != first).collect();
        order.splice(0..0, first);
        // The limit of the slowest axis does not matter.
        let limit = |axis: &usize| match limits.get(*axis) {
            _ if first == Some(*axis) => Some(1),
            limit => limit.copied().flatten(),
        };
        let limits: Option<Vec<u64>> = order.iter().map(limit).collect();
        let Some((between, total)) = limits.and_then(|limits| strides(&limits)) else {
            let max = request.max_shape;
            return Err(request.source.invalid(format!(
                "the chunk index does not fit the maximum shape {max:?}: too many axes are unlimited, or \
                 the shape has 2⁶⁴ chunks or more"
            )));
        };
        let axes = order.iter().zip(&between).filter_map(|(axis, between)| {
            Some(((*between).max(1), *grid.counts.get(*axis)?, *grid.strides.get(*axis)?))
        });
        let axes: Vec<_> = axes.collect();
        let same = order.is_sorted() && axes.iter().all(|(between, _, stride)| between == stride);
        Ok(Slots { axes, same, chunks: grid.total, total: first.is_none().then_some(total) })
    }

    /// Returns the number of the chunk in a slot. `None`: the slot is outside the current extent.
    #[inline]
    pub fn number(&self, slot: u64) -> Option<u64> {
        if self.same {
            return (slot < self.chunks).then_some(slot);
        }
        let (mut rest, mut number) = (slot, 0);
        for (between, count, stride) in &self.axes {
            let place = rest / between;
            rest %= between;
            if place >= *count {
                return None;
            }
            number += place * stride;
        }
        Some(number)
    }

    /// Returns the slot of the chunk with this number in the current extent.
    pub fn slot(&self, number: u64) -> u64 {
        if self.same {
            return number;
        }
        let place = |count: &u64, stride: &u64| (number / (*stride).max(1)) % (*count).max(1);
        self.axes.iter().fold(0u64, |slot, (between, count, stride)| {
            slot.saturating_add(place(count, stride).saturating_mul(*between))
        })
    }
}

/// Parses array elements and adds their chunks to the records.
#[derive(Debug)]
pub(super) struct Elements<'a> {
    pub slots: Slots,
    pub records: &'a mut Records,
    pub width: usize,
    /// The slot of the only wanted chunk. `None`: all chunks are wanted.
    only: Option<u64>,
    filtered: bool,
    array: Option<u64>,
    offset_len: usize,
}

impl<'a> Elements<'a> {
    /// Checks the header's values. `client` is the class of its elements, `width` their size in
    /// bytes.
    pub fn new(
        request: &IndexRequest<'_>,
        slots: Slots,
        records: &'a mut Records,
        (client, width): (u8, u8),
    ) -> Result<Self, String> {
        let (filtered, offset_len) = (request.filtered, usize::from(request.source.sizes().offset));
        if client != u8::from(filtered) {
            return Err(format!(
                "expected client ID {} (0: chunks without filters, 1: with filters), found {client}",
                u8::from(filtered)
            ));
        }
        let width = usize::from(width);
        let fits = match filtered {
            // A chunk size has 1 to 8 bytes, the filter mask 4.
            true => (offset_len + 5..=offset_len + 12).contains(&width),
            false => width == offset_len,
        };
        if !fits {
            return Err(format!(
                "expected elements of {} bytes, found {width} bytes",
                if filtered {
                    format!("{} to {}", offset_len + 5, offset_len + 12)
                } else {
                    offset_len.to_string()
                }
            ));
        }
        let only = records.only.map(|number| slots.slot(number));
        Ok(Elements { slots, records, width, only, filtered, array: request.layout.address, offset_len })
    }

    /// Checks the first fields of each block of the array.
    pub fn check_head(&self, cursor: &mut Cursor<'_>, signature: &[u8; 4], structure: &str) -> Parsed<()> {
        cursor.signature(signature)?;
        cursor.version(structure, &[0])?;
        let at = cursor.clone();
        let (client, owner) = (cursor.u8()?, cursor.defined_address("the header")?);
        match (client, Some(owner)) == (self.filtered.into(), self.array) {
            true => Ok(()),
            false => Err(at.corrupt(format!(
                "expected a block with client ID {} of the header at address {}, found client ID {client} \
                 and the header at address {owner}",
                u8::from(self.filtered),
                self.array.unwrap_or(u64::MAX)
            ))),
        }
    }

    /// Returns the size in bytes of `count` elements.
    pub fn len(&self, count: u64) -> u64 {
        count.saturating_mul(self.width as u64)
    }

    /// Returns `true` if some of `count` slots from `first` on are wanted.
    pub fn are_wanted(&self, first: u64, count: u64) -> bool {
        self.only.is_none_or(|slot| slot.checked_sub(first).is_some_and(|after| after < count))
    }

    /// Parses elements. The first one belongs to slot `first`.
    pub fn decode(&mut self, mut elements: Cursor<'_>, mut first: u64) -> Parsed<()> {
        if let Some(slot) = self.only {
            let (all, width) = (elements.remaining_len(), self.width);
            let skip = slot.checked_sub(first).and_then(|after| usize::try_from(after).ok());
            let skip = skip.and_then(|after| after.checked_mul(width));
            let Some(skip) = skip.filter(|skip| *skip < all) else { return Ok(()) };
            elements.skip(skip)?;
            elements = elements.part(width)?;
            first = slot;
        }
        let mut at = elements.address();
        for (bytes, slot) in elements.take_rest().chunks_exact(self.width).zip(first..) {
            let corrupt = || ParseError::Corrupt {
                at,
                why: "the address or size of a chunk does not fit into 64 bits".into(),
            };
            let (child, filtered) = bytes.split_at_checked(self.offset_len).unwrap_or_default();
            if let Some(child) = address_of(child).ok_or_else(corrupt)?
                && let Some(number) = self.slots.number(slot)
            {
                let (size, skipped) = match self.filtered {
                    true => split_size_and_mask(filtered).ok_or_else(corrupt)?,
                    false => (self.records.chunk_bytes, 0),
                };
                self.records.add(at, number, child, size, skipped)?;
            }
            at = at.saturating_add(self.width as u64);
        }
        Ok(())
    }

    /// Reads pages. A page is elements and their checksum.
    pub fn read_pages(&mut self, source: &Source, structure: &'static str, pages: &[Page]) -> Result<()> {
        let places: Vec<(u64, u64)> =
            pages.iter().map(|page| (page.address, self.len(page.count).saturating_add(4))).collect();
        source.parse_many(structure, &places, |number, cursor| {
            let Some(page) = pages.get(number) else { return Ok(()) };
            let start = cursor.position();
            let elements = take(cursor, self.len(page.count))?;
            cursor.checksum(start)?;
            self.decode(elements, page.first)
        })
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    pub address: u64,
    /// Slot of the page's first element.
    pub first: u64,
    pub count: u64,
}

/// Takes the next `len` bytes. `len` comes from the file.
pub(super) fn take<'a>(cursor: &mut Cursor<'a>, len: u64) -> Parsed<Cursor<'a>> {
    match usize::try_from(len) {
        Ok(len) => cursor.part(len),
        Err(_) => Err(cursor.corrupt(format!("{len} bytes of elements are larger than the address space"))),
    }
}

/// Returns `true` if a page was ever written. Bits start at the most significant bit of the first
/// byte.
pub(super) fn is_written(bitmap: &[u8], page: u64) -> bool {
    let byte = usize::try_from(page / 8).ok().and_then(|byte| bitmap.get(byte));
    byte.is_some_and(|byte| byte << (page % 8) & 0x80 != 0)
}
