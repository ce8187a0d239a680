//! One file of the cache: a range of one version of an object.
//!
//! ```text
//! magic, 8 bytes │ length of the head, u32 │ CRC-32C of the head, u32 │ head │ payload
//! head: number of the object, 32 bytes │ size, modified, start, end of the range, 8 bytes each
//!       │ entity tag │ version │ marks │ CRC-32C of each 64 KiB of the payload, 4 bytes each
//! ```
//!
//! Numbers are little-endian. A text is its length (u16) and its bytes; `u16::MAX` means no text. A
//! file that is too short or too long, or has a wrong checksum, is never used as data.

use super::Id;
use crate::client::Contents;
use crate::marks::Marks;
use bytes::Bytes;
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Changes with the format.
pub(crate) const MAGIC: [u8; 8] = *b"hslab 2\n";

/// Bytes before the head.
const FRAME: u64 = 16;

/// Bytes per checksum. Reading part of an entry reads up to this much more on each side.
const BLOCK: u64 = 64 << 10;

/// Longest tag and version to keep, in bytes. Servers send about 40. Marks have the same limit.
const LONGEST_TEXT: usize = 1 << 10;

/// Self-description of an entry.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) contents: Contents,
    pub(super) range: Range<u64>,
    sums: Vec<u32>,
    /// Offset of the payload in the file.
    payload: u64,
}

/// Writes an entry. `pieces` are the bytes of `range`, in order.
pub(super) fn write(
    to: &mut impl Write,
    id: &Id,
    contents: &Contents,
    range: &Range<u64>,
    pieces: &[Bytes],
) -> io::Result<()> {
    let mut head = Vec::new();
    head.extend_from_slice(id);
    for number in [contents.size, range.start, range.end] {
        head.extend_from_slice(&number.to_le_bytes());
    }
    head.extend_from_slice(&contents.modified.to_le_bytes());
    let marks = contents.marks.as_ref().map(Marks::as_str);
    for text in [contents.tag.as_deref(), contents.number.as_deref(), marks] {
        let len = match text {
            None => u16::MAX,
            Some(text) if text.len() <= LONGEST_TEXT => u16::try_from(text.len()).unwrap_or(u16::MAX),
            Some(_) => return Err(io::ErrorKind::InvalidInput.into()),
        };
        head.extend_from_slice(&len.to_le_bytes());
        head.extend_from_slice(text.unwrap_or_default().as_bytes());
    }
    for sum in sums(pieces) {
        head.extend_from_slice(&sum.to_le_bytes());
    }
    let len = u32::try_from(head.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    to.write_all(&MAGIC)?;
    to.write_all(&len.to_le_bytes())?;
    to.write_all(&crc_fast::crc32_iscsi(&head).to_le_bytes())?;
    to.write_all(&head)?;
    pieces.iter().try_for_each(|piece| to.write_all(piece))
}

/// The checksum of each block of consecutive pieces.
fn sums(pieces: &[Bytes]) -> Vec<u32> {
    let mut sums = Vec::new();
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    let mut left = BLOCK;
    for piece in pieces {
        let mut rest = &**piece;
        while !rest.is_empty() {
            let len = rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let (now, later) = rest.split_at_checked(len).unwrap_or((rest, &[]));
            digest.update(now);
            left -= now.len() as u64;
            rest = later;
            if left == 0 {
                sums.push(sum_of(&digest));
                digest.reset();
                left = BLOCK;
            }
        }
    }
    if left < BLOCK {
        sums.push(sum_of(&digest));
    }
    sums
}

/// The 32 bits of a checksum stored in 64 bits.
fn sum_of(digest: &crc_fast::Digest) -> u32 {
    u32::try_from(digest.finalize()).unwrap_or_default()
}

/// Reads from the front of a head.
struct Cursor<'b>(&'b [u8]);

impl<'b> Cursor<'b> {
    fn take(&mut self, len: usize) -> Option<&'b [u8]> {
        let (now, later) = self.0.split_at_checked(len)?;
        self.0 = later;
        Some(now)
    }

    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn number(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Option<Option<String>> {
        match u16::from_le_bytes(self.bytes()?) {
            u16::MAX => Some(None),
            len => String::from_utf8(self.take(len.into())?.to_vec()).ok().map(Some),
        }
    }
}

/// The head of a file. `None` if the file is not a complete entry of this object.
pub(super) fn head(file: &File, id: &Id) -> Option<Head> {
    let mut frame = [0; 16];
    file.read_exact_at(&mut frame, 0).ok()?;
    let mut cursor = Cursor(&frame);
    if cursor.bytes()? != MAGIC {
        return None;
    }
    let len = u64::from(u32::from_le_bytes(cursor.bytes()?));
    let sum = u32::from_le_bytes(cursor.bytes()?);
    let size = file.metadata().ok()?.len();
    // Allocates no more than the size of the file.
    let payload = FRAME.checked_add(len).filter(|payload| *payload <= size)?;
    let mut head = vec![0; usize::try_from(len).ok()?];
    file.read_exact_at(&mut head, FRAME).ok()?;
    if crc_fast::crc32_iscsi(&head) != sum {
        return None;
    }
    let mut cursor = Cursor(&head);
    if cursor.bytes::<32>()? != *id {
        return None;
    }
    let (object, start, end) = (cursor.number()?, cursor.number()?, cursor.number()?);
    let modified = i64::from_le_bytes(cursor.bytes()?);
    let (tag, number, marks) = (cursor.text()?, cursor.text()?, cursor.text()?);
    let marks = marks.map(|marks| Marks::parse(&marks));
    if marks == Some(None) {
        return None;
    }
    let (sums, rest) = cursor.0.as_chunks::<4>();
    let sums: Vec<u32> = sums.iter().copied().map(u32::from_le_bytes).collect();
    let len = end.checked_sub(start)?;
    let whole = rest.is_empty()
        && end <= object
        && len.div_ceil(BLOCK) == sums.len() as u64
        && payload.checked_add(len) == Some(size);
    let contents = Contents { size: object, tag, number, modified, marks: marks.flatten() };
    whole.then_some(Head { contents, range: start..end, sums, payload })
}

/// Reads bytes of the object from the entry. `None` if they are damaged.
///
/// `wanted` must be within the entry.
pub(super) fn read(file: &File, head: &Head, wanted: &Range<u64>) -> Option<Bytes> {
    let len = head.range.end - head.range.start;
    let from = wanted.start.checked_sub(head.range.start)?;
    let to = wanted.end.checked_sub(head.range.start).filter(|to| *to <= len && from < *to)?;
    let (first, last) = (from / BLOCK, (to - 1) / BLOCK);
    let start = first * BLOCK;
    let end = ((last + 1) * BLOCK).min(len);
    let mut bytes = vec![0; usize::try_from(end - start).ok()?];
    file.read_exact_at(&mut bytes, head.payload + start).ok()?;
    let sums = head.sums.get(usize::try_from(first).ok()?..=usize::try_from(last).ok()?)?;
    let blocks = bytes.chunks(usize::try_from(BLOCK).ok()?);
    if !blocks.zip(sums).all(|(block, sum)| crc_fast::crc32_iscsi(block) == *sum) {
        return None;
    }
    let within = |at: u64| usize::try_from(at - start).ok();
    Some(Bytes::from(bytes).slice(within(from)?..within(to)?))
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, head, read, write};
    use crate::client::Contents;
    use crate::marks::Marks;
    use bytes::Bytes;
    use std::fs::{self, File};

    #[test]
    fn entries_come_back_and_damaged_ones_do_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        let bytes: Vec<u8> =
            (0..BLOCK * 2 + 777).map(|n| (n.wrapping_mul(0x9E37_79B1) >> 13) as u8).collect();
        let pieces: Vec<Bytes> = bytes.chunks(50_001).map(Bytes::copy_from_slice).collect();
        let range = 1000..1000 + bytes.len() as u64;
        for (tag, number) in [(Some("\"tag\""), None), (None, Some("7")), (Some(""), Some("v"))] {
            let owned = |text: Option<&str>| text.map(str::to_owned);
            let marks = tag.and_then(|_| Marks::parse(&"abcdefgh".repeat(128)));
            let contents =
                Contents { size: 1 << 40, tag: owned(tag), number: owned(number), modified: -5, marks };
            let mut file = Vec::new();
            write(&mut file, &[7; 32], &contents, &range, &pieces).unwrap();
            fs::write(&path, &file).unwrap();
            let open = File::open(&path).unwrap();
            let found = head(&open, &[7; 32]).unwrap();
            assert_eq!((&found.contents, &found.range), (&contents, &range));
            assert!(head(&open, &[8; 32]).is_none());
            for (from, to) in
                [(0, bytes.len()), (5, 6), (BLOCK as usize - 1, BLOCK as usize + 1), (131_800, 131_801)]
            {
                let wanted = range.start + from as u64..range.start + to as u64;
                assert_eq!(read(&open, &found, &wanted).unwrap(), bytes[from..to]);
            }
            for wanted in [999..1001, range.end - 1..range.end + 1, 2000..2000] {
                assert!(read(&open, &found, &wanted).is_none());
            }
        }
        let good = fs::read(&path).unwrap();
        let all = |file: &[u8]| {
            fs::write(&path, file).unwrap();
            let open = File::open(&path).unwrap();
            head(&open, &[7; 32]).and_then(|head| read(&open, &head, &range))
        };
        assert_eq!(all(&good).unwrap(), bytes);
        // Damage every byte of the head and some of the payload, one at a time.
        for at in (0..200).chain((200..good.len()).step_by(997)) {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            assert!(all(&bad).is_none(), "byte {at}");
        }
        for len in (0..300).chain([good.len() - 1]) {
            assert!(all(&good[..len]).is_none(), "{len} bytes");
        }
        assert!(all(&[good.as_slice(), b"x"].concat()).is_none());
    }
}
