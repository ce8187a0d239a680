//! Local heaps: the names of a group with a symbol table (specification III.D).

use crate::text::lossless;
use crate::{Bytes, Cursor, ParseError, Parsed, Result, Source};

/// A local heap. Its free list is irrelevant for reading.
#[derive(Clone, Debug)]
pub struct LocalHeap {
    /// Address of the data segment.
    address: u64,
    data: Bytes,
}

/// Parses the prefix. Returns length and address of the data segment.
fn prefix(cursor: &mut Cursor<'_>) -> Parsed<(u64, u64)> {
    cursor.signature(b"HEAP")?;
    cursor.version("local heap", &[0])?;
    cursor.skip(3)?;
    let len = cursor.length()?;
    cursor.length()?;
    // An empty segment may have no address.
    let address =
        if len == 0 { cursor.offset()?.unwrap_or(0) } else { cursor.defined_address("the data segment")? };
    Ok((len, address))
}

impl LocalHeap {
    pub fn read(source: &Source, address: u64) -> Result<LocalHeap> {
        let (len, address) = source.parse("local heap", address, 32, prefix)?;
        let data = match len {
            0 => Vec::new().into(),
            _ => source.read("data segment of a local heap", address, len)?,
        };
        Ok(LocalHeap { address, data })
    }

    /// Returns the name at an offset in the heap, as text.
    pub fn name(&self, offset: u64) -> Parsed<String> {
        self.bytes(offset).map(lossless)
    }

    /// Returns the name at an offset in the heap, as stored, without the trailing NUL.
    pub(crate) fn bytes(&self, offset: u64) -> Parsed<&[u8]> {
        let tail = usize::try_from(offset).ok().and_then(|offset| self.data.get(offset..));
        let end = tail.and_then(|tail| tail.iter().position(|byte| *byte == 0));
        tail.zip(end).and_then(|(tail, end)| tail.get(..end)).ok_or_else(|| ParseError::Corrupt {
            at: self.address.saturating_add(offset),
            why: format!(
                "expected a NUL after offset {offset} of a local heap of {} bytes, found none",
                self.data.len()
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{mutations, source, structure};

    /// A heap followed directly by its data segment.
    fn heap(data: &[u8]) -> Vec<u8> {
        structure!(b"HEAP\0\0\0\0", data.len() as u64, 1u64, 32u64, data)
    }

    #[test]
    fn names() {
        let heap = LocalHeap::read(&source(&heap(b"\0\0\0\0\0\0\0\0temp\0\0\0\0\xff!\0..")), 0).unwrap();
        assert_eq!(heap.name(0).unwrap(), "");
        assert_eq!(heap.name(8).unwrap(), "temp");
        assert_eq!(heap.name(10).unwrap(), "mp");
        assert_eq!(heap.name(16).unwrap(), r"\xff!");
        for offset in [19, 20, 21, 1000, u64::MAX] {
            assert!(matches!(heap.name(offset), Err(ParseError::Corrupt { .. })), "{offset}");
        }
    }

    #[test]
    fn empty_and_outside() {
        let empty = LocalHeap::read(&source(&heap(b"")), 0).unwrap();
        assert!(empty.name(0).is_err());
        let mut long = heap(b"abc\0");
        long[8] = 5;
        assert!(LocalHeap::read(&source(&long), 0).is_err());
    }

    #[test]
    fn any_bytes() {
        mutations(&heap(b"\0\0\0\0\0\0\0\0temp\0\0\0\0"), |source| {
            if let Ok(heap) = LocalHeap::read(source, 0) {
                let _ = heap.name(8);
            }
        });
    }
}
