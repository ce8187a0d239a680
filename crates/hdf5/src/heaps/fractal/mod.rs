//! Fractal heaps (specification III.G).
//!
//! They hold the links and attributes of large groups and objects, and shared messages. An object's
//! id tells its kind:
//!
//! * *Tiny* objects are in the id itself.
//! * *Huge* objects have their own place in the file. The id or a B-tree gives it.
//! * *Managed* objects are at an offset in a space that grows by [blocks](managed).

mod build;
mod doubling_table;
mod managed;

pub(crate) use build::{HeapKind, build};

use crate::cursor::to_usize;
use crate::filter::{self, Filter};
use crate::trees::btree2;
use crate::{Bytes, Cursor, ParseError, Parsed, Result, Sizes, Source};
use doubling_table::Table;
use hyperslab_codec::{Scratch, decode_bounded, hdf5};
use hyperslab_store::fork::Mutex;
use managed::{BlockKind, HeapBlock};
use std::collections::HashMap;

const HEADER: &str = "fractal heap header";
const OBJECT: &str = "fractal heap object";

/// Blocks of a heap that are fetched together, to read all objects or only one.
pub(crate) const ALL_BLOCKS: usize = 1024;
pub(crate) const FEW_BLOCKS: usize = 16;

/// Largest decoded size in bytes of an object with filters.
const LARGEST: u64 = 1 << 30;

#[derive(Debug)]
pub struct FractalHeap {
    address: u64,
    sizes: Sizes,
    /// Bytes of an object id.
    id: u16,
    table: Table,
    /// Bytes of an offset, and of a length, in object ids.
    offset_len: usize,
    length_len: usize,
    /// `true` if direct blocks have checksums.
    summed: bool,
    root: Option<HeapBlock>,
    /// Filters of direct blocks and huge objects.
    filters: Option<Vec<Filter>>,
    /// The B-tree of huge objects whose ids do not contain their place.
    huge: Option<u64>,
    /// Checked blocks by address. Gated.
    blocks: Mutex<HashMap<u64, Bytes>>,
}

impl FractalHeap {
    /// Reads the heap's header. Blocks are read when an object is needed.
    pub fn read(source: &Source, address: u64) -> Result<FractalHeap> {
        source.parse(HEADER, address, 256, |cursor| Self::parse(cursor, address))
    }

    fn parse(cursor: &mut Cursor<'_>, address: u64) -> Parsed<FractalHeap> {
        let start = cursor.position();
        cursor.signature(b"FRHP")?;
        cursor.version("fractal heap", &[0])?;
        let (id, filters_len, flags) = (cursor.u16()?, cursor.u16()?, cursor.u8()?);
        let largest_managed = cursor.u32()?;
        cursor.length()?;
        let huge = cursor.offset()?;
        cursor.length()?;
        cursor.offset()?;
        // Space and number of objects of each kind.
        (0..8).try_for_each(|_| cursor.length().map(|_| ()))?;
        let at = cursor.clone();
        let width = u64::from(cursor.u16()?);
        let (first, largest_direct) = (cursor.length()?, cursor.length()?);
        let bits = cursor.u16()?;
        cursor.u16()?;
        let root = cursor.offset()?;
        let rows = u32::from(cursor.u16()?);
        let (mut filters, mut root_filtered) = (None, None);
        if filters_len > 0 {
            root_filtered = Some((cursor.length()?, cursor.u32()?));
            filters = Some(filter::parse(&mut cursor.part(filters_len.into())?)?);
        }
        cursor.checksum(start)?;

        let powers = [width, first, largest_direct].iter().all(|number| number.is_power_of_two());
        if !powers || first > largest_direct || largest_direct > u64::from(u32::MAX) || bits > 64 {
            return Err(at.corrupt(format!(
                "expected a table width and block sizes that are powers of two, blocks below 4 GiB and at \
                 most 64 bits of heap space, found a table width of {width}, blocks of {first} to \
                 {largest_direct} bytes and {bits} bits"
            )));
        }
        let table = Table { width, start: first, direct_rows: largest_direct.ilog2() - first.ilog2() + 2 };
        let kind = match rows {
            0 => BlockKind::Direct { size: first, filtered: root_filtered },
            rows => BlockKind::Indirect { rows },
        };
        let bytes_of = |bits: u32| to_usize(bits.div_ceil(8));
        // An object is at most as long as the largest direct block, and as the largest managed
        // object.
        let length_bits = [largest_direct.ilog2(), largest_managed.checked_ilog2().unwrap_or(0) + 1];
        Ok(FractalHeap {
            address,
            sizes: cursor.sizes(),
            id,
            table,
            offset_len: bytes_of(bits.into()),
            length_len: length_bits.map(bytes_of).into_iter().min().unwrap_or_default(),
            summed: flags & 2 != 0,
            root: root.map(|address| HeapBlock { address, offset: 0, kind }),
            filters,
            huge,
            blocks: Mutex::default(),
        })
    }

    pub fn get(&self, source: &Source, id: &[u8]) -> Result<Bytes> {
        let wrong = |why| source.structure_error(OBJECT, self.address, why);
        let corrupt = |why: String| source.corrupt(OBJECT, self.address, why);
        if id.len() != usize::from(self.id) {
            return Err(corrupt(format!(
                "expected a heap id of {} bytes, found {} bytes",
                self.id,
                id.len()
            )));
        }
        let mut cursor = source.cursor(id, self.address);
        let flags = cursor.u8().map_err(wrong)?;
        match (flags >> 6, flags >> 4 & 3) {
            (0, 0) => {
                let offset = cursor.uint(self.offset_len).map_err(wrong)?;
                let len = cursor.uint(self.length_len).map_err(wrong)?;
                self.managed_object(source, offset, len)
            }
            (0, 1) => self.huge_object(source, &mut cursor),
            (0, 2) => tiny_object(flags, &mut cursor).map(|object| object.to_vec().into()).map_err(wrong),
            (0, kind) => Err(corrupt(format!("expected a heap id of type 0, 1 or 2, found type {kind}"))),
            (version, _) => {
                Err(wrong(ParseError::Unsupported(format!("heap id version {version} (known: 0)"))))
            }
        }
    }

    /// Reads a huge object.
    fn huge_object(&self, source: &Source, id: &mut Cursor<'_>) -> Result<Bytes> {
        let wrong = |why| source.structure_error(OBJECT, self.address, why);
        let (offset, length) = (usize::from(self.sizes.offset), usize::from(self.sizes.length));
        let place = if self.filters.is_some() { offset + 2 * length + 4 } else { offset + length };
        let parse = |cursor: &mut Cursor<'_>| {
            let (address, stored) = (cursor.defined_address(OBJECT)?, cursor.length()?);
            let filtered = match self.filters {
                Some(_) => Some((cursor.u32()?, cursor.length()?)),
                None => None,
            };
            Ok((address, stored, filtered))
        };
        // A long id contains the place. A shorter id contains a number, and a B-tree has the place.
        let (address, stored, filtered) = if place <= id.remaining_len() {
            parse(id).map_err(wrong)?
        } else {
            let number = id.uint(id.remaining_len().min(8)).map_err(wrong)?;
            let tree = self.huge.ok_or_else(|| {
                wrong(id.corrupt(format!("the heap has no B-tree to find huge object {number}")))
            })?;
            let kind = if self.filters.is_some() { 2 } else { 1 };
            let mut found = None;
            let compare = &mut |record: &mut Cursor<'_>| {
                record.skip(place)?;
                Ok(record.length()?.cmp(&number))
            };
            btree2::find(source, tree, kind, compare, &mut |record| {
                found = Some(parse(record)?);
                Ok(())
            })?;
            found
                .ok_or_else(|| wrong(id.corrupt(format!("the heap's B-tree has no huge object {number}"))))?
        };
        let bytes = source.read(OBJECT, address, stored)?;
        match (filtered, &self.filters) {
            (Some((skipped, size)), Some(filters)) => decode(source, filters, skipped, &bytes, size),
            _ => Ok(bytes),
        }
    }
}

/// Reads an object in its id. If an id has room for more than 16 bytes, the length takes two bytes.
fn tiny_object<'a>(flags: u8, id: &mut Cursor<'a>) -> Parsed<&'a [u8]> {
    let mut len = usize::from(flags & 0xf);
    if id.remaining_len() > 17 {
        len = len << 8 | usize::from(id.u8()?);
    }
    id.take(len + 1)
}

/// Undoes all filters that were not skipped. The result must have `size` bytes.
fn decode(source: &Source, filters: &[Filter], skipped: u32, stored: &[u8], size: u64) -> Result<Bytes> {
    let invalid =
        |why: String| source.invalid(format!("filtered object of {size} bytes in a fractal heap: {why}"));
    let room = to_usize(size.min(LARGEST));
    let ran = filters.iter().zip(0..32).filter(|(_, number)| skipped >> number & 1 == 0);
    let codecs = ran.map(|(filter, _)| hdf5::filter(filter.id, &filter.client_data, 1, room));
    let codecs = codecs.collect::<Result<Vec<_>, _>>();
    let mut decoded = Vec::new();
    codecs
        .and_then(|codecs| decode_bounded(&codecs, stored, room, &mut decoded, &mut Scratch::default(), true))
        .map_err(|why| invalid(why.to_string()))?;
    if decoded.len() as u64 != size {
        return Err(invalid(format!("expected {size} bytes after decoding, found {} bytes", decoded.len())));
    }
    Ok(decoded.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::lookup3;
    use crate::testing::{SIZES, append_checksum, fails, mutations, says, source, structure};

    /// Address of the heap. The test's structures are far enough apart not to overlap.
    const HEAP: u64 = 64;

    /// The header of a heap with two blocks of 64 bytes in a row.
    ///
    /// Direct blocks have up to 128 bytes, ids have `id` bytes, and the space has 16 bits. `rows`
    /// and `root` are stored as given.
    fn header(id: u16, rows: u16, root: u64, huge: u64) -> Vec<u8> {
        let head = structure!(b"FRHP\0", id, [0, 0, 2], 100u32, [0; 8], huge, [0; 80]);
        append_checksum(structure!(head, 2u16, 64u64, 128u64, 16u16, [1, 0], root, rows))
    }

    fn head(signature: &[u8; 4], offset: u16) -> Vec<u8> {
        structure!(signature, [0], HEAP, offset)
    }

    /// A direct block with `object` at offset 20.
    fn direct(offset: u16, size: usize, object: &[u8]) -> Vec<u8> {
        let mut bytes = structure!(head(b"FHDB", offset), [0; 5], object);
        bytes.resize(size, 0);
        let sum = lookup3(&bytes);
        bytes[15..19].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn indirect(offset: u16, blocks: &[u64]) -> Vec<u8> {
        let mut bytes = head(b"FHIB", offset);
        blocks.iter().for_each(|block| bytes.extend(block.to_le_bytes()));
        append_checksum(bytes)
    }

    fn file(parts: &[(u64, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (at, part) in parts {
            assert!(bytes.len() as u64 <= *at);
            bytes.resize(*at as usize, 0);
            bytes.extend(part);
        }
        bytes
    }

    fn id(offset: u16, len: u8) -> [u8; 4] {
        let [low, high] = offset.to_le_bytes();
        [0, low, high, len]
    }

    /// Rows 0 and 1 have blocks of 64 bytes, row 2 of 128. Row 3 has indirect blocks of 256 bytes
    /// with two rows.
    fn nested() -> Vec<u8> {
        let none = u64::MAX;
        file(&[
            (HEAP, header(4, 4, 512, none)),
            (512, indirect(0, &[1024, none, none, 1152, none, 1280, none, 1536])),
            (1024, direct(0, 64, b"first")),
            (1152, direct(192, 64, b"second row")),
            (1280, direct(384, 128, &[7; 108])),
            (1536, indirect(768, &[none, 1664, none, none])),
            (1664, direct(832, 64, b"deep")),
        ])
    }

    #[test]
    fn managed_objects() {
        let source = source(&nested());
        let heap = FractalHeap::read(&source, HEAP).unwrap();
        for (offset, object) in [(20, &b"first"[..]), (212, b"second row"), (404, &[7; 108]), (852, b"deep")]
        {
            for _ in 0..2 {
                let len = object.len() as u8;
                assert_eq!(&*heap.get(&source, &id(offset, len)).unwrap(), object);
            }
        }
        for (offset, len, why) in [
            (70, 4, "no block holds this offset"),
            (512, 4, "no block holds this offset"),
            (60, 10, "not inside its direct block of 64 bytes"),
            (18, 4, "not inside its direct block"),
            (5000, 4, "no block holds this offset"),
        ] {
            says(format!("{offset}: {}", heap.get(&source, &id(offset, len)).unwrap_err()), why);
        }
        assert!(heap.get(&source, &[0; 3]).is_err());
        assert!(heap.get(&source, &[0x30, 0, 0, 0]).is_err());
        fails(heap.get(&source, &[0x40, 0, 0, 0]), "heap id version 1 (known: 0) is not supported");
    }

    #[test]
    fn visits_as_many_blocks_as_told() {
        let source = source(&nested());
        let visited = |most| {
            let heap = FractalHeap::read(&source, HEAP).unwrap();
            heap.visit(&source, most);
            heap.blocks.lock().len()
        };
        // The root has eight entries, five of them with a block. The other indirect block has four
        // entries.
        assert_eq!([0, 1, 4, 8, 10, ALL_BLOCKS].map(visited), [1, 2, 3, 5, 6, 6]);
    }

    #[test]
    fn a_root_that_is_direct() {
        let source = source(&file(&[(HEAP, header(4, 0, 300, 0)), (300, direct(0, 64, b"only"))]));
        let heap = FractalHeap::read(&source, HEAP).unwrap();
        assert_eq!(&*heap.get(&source, &id(20, 4)).unwrap(), b"only");
        assert!(heap.get(&source, &id(100, 4)).is_err());
    }

    #[test]
    fn tiny_objects() {
        let source = source(&file(&[(HEAP, header(18, 0, u64::MAX, 0)), (300, vec![0])]));
        let heap = FractalHeap::read(&source, HEAP).unwrap();
        let object = |id: &[u8]| heap.get(&source, id).map(|object| object.to_vec());
        let mut id = vec![0x20 | 15];
        id.extend(b"sixteen bytes ok!");
        assert_eq!(object(&id).unwrap(), b"sixteen bytes ok");
        fails(object(&[0; 18]), "no root block");
        // Long ids have a length of two bytes.
        let mut long = Cursor::whole(&[1; 300], 0, SIZES);
        assert_eq!(tiny_object(0x21, &mut long).unwrap().len(), 0x101 + 1);
    }

    #[test]
    fn huge_objects() {
        let place = structure!([0x10], 300u64, 6u64);
        let tree = btree2::tests::tree(1, 512, &[structure!(300u64, 6u64, 77u64)], 400);
        let rest = [(300, b"object".to_vec()), (400, tree)];
        let source_of = |id| source(&file(&[&[(HEAP, header(id, 0, u64::MAX, 400))], &rest[..]].concat()));
        let by_place = source_of(17);
        let heap = FractalHeap::read(&by_place, HEAP).unwrap();
        assert_eq!(&*heap.get(&by_place, &place).unwrap(), b"object");
        let by_number = source_of(4);
        let heap = FractalHeap::read(&by_number, HEAP).unwrap();
        assert_eq!(&*heap.get(&by_number, &[0x10, 77, 0, 0]).unwrap(), b"object");
        fails(heap.get(&by_number, &[0x10, 78, 0, 0]), "no huge object 78");
    }

    /// A deflated root block, a deflated huge object, and a huge object that skips the filter.
    #[test]
    fn filters() {
        let deflate = hdf5::filter(1, &[4], 1, 64).unwrap();
        let encoded = |bytes: &[u8]| {
            let mut encoded = Vec::new();
            deflate.encode(bytes, &mut encoded, &mut Scratch::default()).unwrap();
            encoded
        };
        let (block, huge) = (encoded(&direct(0, 64, b"only")), encoded(b"a huge object"));
        let mut bytes = header(33, 0, 300, 0);
        bytes.truncate(bytes.len() - 4);
        bytes[7] = 12;
        let deflated = [2, 1, 1, 0, 0, 0, 1, 0, 4, 0, 0, 0];
        let bytes = append_checksum(structure!(bytes, block.len() as u64, [0; 4], deflated));
        let parts = [(HEAP, bytes), (300, block), (400, huge.clone()), (500, b"as it is".to_vec())];
        let source = source(&file(&parts));
        let heap = FractalHeap::read(&source, HEAP).unwrap();
        let id = |head: &[u8]| [head, &vec![0; 33 - head.len()]].concat();
        // Here offsets have two bytes and lengths one.
        assert_eq!(&*heap.get(&source, &id(&[0, 20, 0, 4])).unwrap(), b"only");
        let place = |address: u64, stored: usize, skipped: u32, size: u64| {
            id(&structure!([0x10], address, stored as u64, skipped, size))
        };
        assert_eq!(&*heap.get(&source, &place(400, huge.len(), 0, 13)).unwrap(), b"a huge object");
        assert_eq!(&*heap.get(&source, &place(500, 8, 1, 8)).unwrap(), b"as it is");
        for size in [12, 14, u64::MAX] {
            fails(
                heap.get(&source, &place(400, huge.len(), 0, size)),
                &format!("{size} bytes in a fractal heap"),
            );
        }
    }

    #[test]
    fn damage_is_found() {
        let read = |change: &dyn Fn(&mut Vec<u8>), verify| {
            let mut bytes = nested();
            change(&mut bytes);
            let source = source(&bytes).with_format(SIZES, verify);
            FractalHeap::read(&source, HEAP)?.get(&source, &id(852, 4))
        };
        for at in [70, 513, 530, 1540, 1700, 1725] {
            assert!(read(&|bytes| bytes[at] ^= 1, true).is_err(), "{at}");
        }
        assert_eq!(&*read(&|bytes| bytes[1700] ^= 1, false).unwrap(), b"deep");
        fails(
            read(&|bytes| bytes[1664 + 13] = 9, false),
            "expected the block at offset 832 of the heap at 64, found the block at offset 777",
        );
    }

    #[test]
    fn any_bytes() {
        mutations(&nested(), |source| {
            if let Ok(heap) = FractalHeap::read(source, HEAP) {
                for id in [id(852, 4), id(20, 5), [0x20, 1, 2, 3], [0x10, 1, 2, 3]] {
                    let _ = heap.get(source, &id);
                }
                heap.visit(source, ALL_BLOCKS);
            }
        });
    }
}
