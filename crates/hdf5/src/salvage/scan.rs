//! Finds object headers by their bytes, for objects that nothing leads to any more.

use super::losses::Losses;
use super::walk::{Spent, Walk, check_kind, is_dataset, joined};
use crate::compact::survey;
use crate::object_header::ObjectHeader;
use crate::{File, Result, Source};
use std::collections::HashSet;

/// Bytes that are looked at together.
const PIECE: u64 = 1 << 20;

/// Bytes of the shortest header: prefix and one message.
const SHORTEST: usize = 24;

/// Bounds of a header of version 1, which has no signature and no checksum.
const MOST_MESSAGES: u16 = 4096;
const MOST_LINKS: u32 = 1 << 16;
const MOST_BYTES: u32 = 1 << 20;

/// Most orphans that are kept. A file of forged headers could have more than its size in paths.
const MOST: usize = 1 << 16;

/// The largest sum of the lengths of tried headers, in lengths of the file. Only forged headers lead to the
/// same blocks again and again.
const TRIES: u64 = 8;

/// Returns the addresses of objects that are not in `walk`. Objects that no other one leads to come
/// first.
pub(super) fn orphans(file: &File, losses: &Losses, walk: &Walk) -> Result<Vec<u64>> {
    let taken = joined(walk, &losses.structures());
    let mut left = file.source().end().saturating_mul(TRIES);
    let found = losses.muted(|| try_all(file, walk, &taken, &mut left));
    // The walk parses these objects again, and notes their losses.
    file.forget_metadata();
    if left == 0 {
        losses.enter("");
        losses.note(
            None,
            "more bytes than the file has look like headers: not all lost objects were looked for",
        );
    }
    found
}

/// `left`: bytes of headers that may be read; 0 if they were not enough.
fn try_all(file: &File, walk: &Walk, taken: &[(u64, u64)], left: &mut u64) -> Result<Vec<u64>> {
    let mut found = Vec::new();
    for address in candidates(file.source(), taken)? {
        file.source().go_on()?;
        if walk.seen.contains(&address) || found.len() == MOST {
            continue;
        }
        let Ok(header) = ObjectHeader::read_within(file.source(), address, left) else {
            if *left == 0 { break } else { continue }
        };
        // An object without links was deleted.
        if header.links() > 0 && is_object(file, &header) {
            found.push((address, header));
        }
    }
    let (mut below, mut spent) = (HashSet::new(), Spent::default());
    for (address, header) in &found {
        if !spent.has_links(file.source().end()) {
            break;
        }
        let children = survey::below(file, header)?;
        spent.add_links(children.len());
        below.extend(children.into_iter().map(|(child, _)| child).filter(|child| child != address));
    }
    let tops = found.iter().map(|(address, _)| *address).filter(|address| !below.contains(address));
    let (mut tops, all): (Vec<u64>, Vec<u64>) =
        (tops.collect(), found.iter().map(|(address, _)| *address).collect());
    // Circles have no top. The walk leaves out objects that it has met.
    tops.extend(all);
    Ok(tops)
}

/// Returns `true` if a header is one of a group or a dataset. Types alone are too short to be sure.
fn is_object(file: &File, header: &ObjectHeader) -> bool {
    (header.is_group() || is_dataset(header)) && check_kind(file, header, "").is_ok()
}

/// Returns the addresses at which a header may begin.
fn candidates(source: &Source, taken: &[(u64, u64)]) -> Result<Vec<u64>> {
    let mut found = Vec::new();
    let (mut at, end) = (0, source.end());
    let mut taken = taken.iter().copied().peekable();
    while at < end {
        source.go_on()?;
        // Jump over bytes that belong to something.
        while taken.peek().is_some_and(|(_, last)| *last <= at) {
            taken.next();
        }
        if let Some((first, last)) = taken.peek()
            && *first <= at
        {
            at = *last;
            continue;
        }
        let next = taken.peek().map_or(end, |(first, _)| *first);
        let len = PIECE.min(next - at).min(end - at);
        // A header may reach beyond the piece.
        let with_head = len.saturating_add(SHORTEST as u64).min(end - at);
        let mut bytes = vec![0; usize::try_from(with_head).unwrap_or_default()];
        source.read_into("unused space", [(at, &mut bytes[..])])?;
        let starts = bytes.windows(SHORTEST).take(usize::try_from(len).unwrap_or_default());
        let address = at;
        found.extend(
            starts.enumerate().filter(|(_, head)| is_head(head)).map(|(place, _)| address + place as u64),
        );
        at += len;
    }
    Ok(found)
}

/// Returns `true` if a header may begin with these bytes.
fn is_head(head: &[u8]) -> bool {
    match head {
        [b'O', b'H', b'D', b'R', 2, ..] => true,
        [1, 0, rest @ ..] => {
            let Some((counts, rest)) = rest.split_first_chunk::<14>() else { return false };
            let [m0, m1, l0, l1, l2, l3, b0, b1, b2, b3, 0, 0, 0, 0] = *counts else { return false };
            let (messages, links) = (u16::from_le_bytes([m0, m1]), u32::from_le_bytes([l0, l1, l2, l3]));
            let bytes = u32::from_le_bytes([b0, b1, b2, b3]);
            let Some([k0, k1, s0, s1, flags, 0, 0, 0]) = rest.first_chunk::<8>() else { return false };
            let (kind, size) = (u16::from_le_bytes([*k0, *k1]), u16::from_le_bytes([*s0, *s1]));
            (1..=MOST_MESSAGES).contains(&messages)
                && (1..=MOST_LINKS).contains(&links)
                && bytes.is_multiple_of(8)
                && (16..=MOST_BYTES).contains(&bytes)
                && kind <= 0x18
                && size.is_multiple_of(8)
                && u32::from(size) + 8 <= bytes
                && *flags < 0x80
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads() {
        let mut old = vec![1, 0, 2, 0, 1, 0, 0, 0, 48, 0, 0, 0, 0, 0, 0, 0, 1, 0, 24, 0, 0, 0, 0, 0];
        assert!(is_head(&old));
        for (at, value) in [(1, 1), (2, 0), (4, 0), (8, 47), (12, 1), (16, 0x19), (18, 23), (20, 0x80)] {
            let before = std::mem::replace(&mut old[at], value);
            assert!(!is_head(&old), "byte {at}");
            old[at] = before;
        }
        assert!(is_head(b"OHDR\x02xxxxxxxxxxxxxxxxxxx"));
        assert!(!is_head(b"OHDR\x01xxxxxxxxxxxxxxxxxxx"));
    }
}
