//! Local heaps: the names of a group with a symbol table (specification III.D).

use crate::output::Output;
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

/// Builds a heap of names, at `address`. Its data segment follows. Returns its bytes, and the offset
/// of each name. Offset 0 is the empty name.
pub(crate) fn build(address: u64, names: &[&[u8]]) -> (Vec<u8>, Vec<u64>) {
    /// The offset of the first free block, if no block is free.
    const NONE_FREE: u64 = 1;
    let mut data = Output::new();
    data.zeros(8);
    let mut places = Vec::new();
    for name in names {
        places.push(data.len() as u64);
        data.bytes(name).zeros(1).align(8);
    }
    let mut out = build_prefix(address, data.len() as u64, NONE_FREE);
    (out.bytes(&data.take()).take(), places)
}

/// Builds the prefix of a heap whose data segment of `len` bytes follows. `free`: the offset of the
/// first free block.
fn build_prefix(address: u64, len: u64, free: u64) -> Output {
    const PREFIX: u64 = 32;
    let mut out = Output::new();
    out.bytes(b"HEAP").zeros(4).u64(len).u64(free).u64(address.saturating_add(PREFIX));
    out
}

impl LocalHeap {
    /// A heap without names.
    pub(crate) fn empty() -> LocalHeap {
        LocalHeap { address: 0, data: Vec::new().into() }
    }

    pub fn read(source: &Source, address: u64) -> Result<LocalHeap> {
        let (len, address) = source.parse("local heap", address, 32, prefix)?;
        let data = match len {
            0 => Vec::new().into(),
            _ => source.read("data segment of a local heap", address, len)?,
        };
        source.note_structure(address);
        Ok(LocalHeap { address, data })
    }

    /// Builds the same heap at another address. Its data segment follows, with the same offsets.
    pub(crate) fn moved(source: &Source, heap: u64, address: u64) -> Result<Vec<u8>> {
        let free = source.parse("local heap", heap, 32, |cursor| {
            prefix(&mut cursor.clone())?;
            cursor.skip(8)?;
            cursor.length()?;
            cursor.length()
        })?;
        let data = LocalHeap::read(source, heap)?.data;
        Ok(build_prefix(address, data.len() as u64, free).bytes(&data).take())
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
    use proptest::prelude::*;

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

    proptest! {
        #[test]
        fn what_is_built_is_parsed(names in proptest::collection::vec("[a-zé]{0,20}", 0..20)) {
            let bytes: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
            let (built, places) = build(8, &bytes);
            let source = source(&[&[0; 8][..], &built].concat());
            let heap = LocalHeap::read(&source, 8).unwrap();
            let found: Vec<String> = places.iter().map(|place| heap.name(*place).unwrap()).collect();
            prop_assert_eq!(found, names);
            prop_assert_eq!(heap.name(0), Ok(String::new()));
        }
    }
}
