//! Chunks by B-trees of version 1 (specification III.A.1, node type 1) and of version 2 (III.A.2, record types 10 and 11).

use super::IndexRequest;
use super::records::Records;
use crate::cursor::address as address_of;
use crate::cursor::number;
use crate::trees::btree1::Tree;
use crate::trees::btree2;
use crate::{Hdf5Error, ParseError, Source};

/// The key of a chunk is its stored size, its filter mask, and the place of its first element, which has a pseudo-axis for the bytes of an element; numbers of
/// 8 bytes, whatever lengths have in the file.
pub(super) fn version1(
    source: &Source,
    request: &IndexRequest<'_>,
    address: u64,
    records: &mut Records,
) -> Result<(), Hdf5Error> {
    let chunk = &request.layout.chunk;
    let places = 8 * (chunk.len() + 1);
    let tree = Tree { kind: 1, key: 8 + places };
    let width = tree.entry(request.sizes);
    tree.walk(source, address, request.sizes, &mut |entries| {
        let mut at = entries.address();
        for entry in entries.rest().chunks_exact(width) {
            let corrupt = |why: String| ParseError::Corrupt { at, why };
            let parts = entry.split_at_checked(8).and_then(|(head, rest)| {
                let (size, mask) = head.split_at_checked(4)?;
                let (places, child) = rest.split_at_checked(places)?;
                let mask = u32::try_from(number(mask)?).ok()?;
                Some((number(size)?, mask, places.as_chunks().0, address_of(child)??))
            });
            let Some((size, skipped, places, child)) = parts else {
                return Err(corrupt("a chunk without an address".into()));
            };
            let axes = chunk.iter().zip(&records.grid.counts).zip(&records.grid.strides);
            let mut found = Some(0);
            for (place, ((chunk, count), stride)) in places.iter().zip(axes) {
                let place = u64::from_le_bytes(*place);
                if place % chunk != 0 {
                    return Err(corrupt(format!("a chunk begins at element {place}, chunks have {chunk}")));
                }
                found = found.filter(|_| place / chunk < *count).map(|found| found + place / chunk * stride);
            }
            if places.last() != Some(&[0; 8]) {
                return Err(corrupt("a chunk begins within an element".into()));
            }
            if let Some(found) = found {
                records.add(at, found, child, size, skipped)?;
            }
            at = at.saturating_add(width as u64);
        }
        Ok(())
    })
}

/// A record has the address, with filters also the stored size and the filter mask, and the place of the chunk in the grid.
pub(super) fn version2(
    source: &Source,
    request: &IndexRequest<'_>,
    address: u64,
    records: &mut Records,
) -> Result<(), Hdf5Error> {
    let kind = if request.filtered { 11 } else { 10 };
    let places_len = 8 * request.layout.chunk.len();
    let offset_len = usize::from(request.sizes.offset);
    btree2::records(source, address, kind, request.sizes, request.verify, &mut |record| {
        let at = record.address();
        let corrupt = |why: &str| ParseError::Corrupt { at, why: why.into() };
        let bytes = record.rest();
        let parts = bytes.split_at_checked(offset_len).and_then(|(child, rest)| {
            let (filtered, places) = rest.split_at_checked(rest.len().checked_sub(places_len)?)?;
            Some((child, filtered, places.as_chunks().0))
        });
        let (child, filtered, places) =
            parts.ok_or_else(|| corrupt("records are too short for the rank of the dataset"))?;
        let (size, skipped) = match request.filtered {
            true => sized(filtered).ok_or_else(|| corrupt("the size of a chunk has no width"))?,
            false if filtered.is_empty() => (records.chunk_bytes, 0),
            false => return Err(corrupt("records are too long for the rank of the dataset")),
        };
        // Removed chunks may leave a record.
        let child = address_of(child).ok_or_else(|| corrupt("an address that does not fit into 64 bits"))?;
        let Some(child) = child else { return Ok(()) };
        let axes = records.grid.counts.iter().zip(&records.grid.strides);
        let mut found = 0;
        for (place, (count, stride)) in places.iter().zip(axes) {
            let place = u64::from_le_bytes(*place);
            if place >= *count {
                return Ok(());
            }
            found += place * stride;
        }
        records.add(at, found, child, size, skipped)
    })
}

/// A stored size, of whatever width, and the filter mask behind it; `None`: there is no room for both.
///
/// The width depends on the bytes of a chunk and on the version of the layout: it is what is left of an entry, of which the index says how long it is.
pub(super) fn sized(bytes: &[u8]) -> Option<(u64, u32)> {
    let (size, mask) = bytes.split_last_chunk()?;
    (1..=8).contains(&size.len()).then_some((number(size)?, u32::from_le_bytes(*mask)))
}
