//! Managed objects of a fractal heap: objects in the heap space, which grows by blocks.
//!
//! 1. The space is a table of blocks, `width` in a row. Blocks in the first two rows have the
//!    starting size. In each further row the size doubles.
//! 2. Blocks in rows up to the maximum direct block size are *direct*: they hold objects.
//! 3. Blocks in later rows are *indirect*: each is a table like this one, with fewer rows.
//!
//! Finding the block of an offset therefore takes only arithmetic. Each block on the way is checked
//! once and cached.

use super::{FractalHeap, OBJECT, decode};
use crate::checksum::lookup3;
use crate::{Bytes, Cursor, ParseError, Parsed, Result, Source};
use hyperslab_store::fork::MutexGuard;
use std::collections::HashMap;

const DIRECT: &str = "fractal heap direct block";
const INDIRECT: &str = "fractal heap indirect block";

/// Entries of blocks that are looked at without an index.
const MOST_SCANNED: usize = 1 << 16;

/// Bytes of blocks that are looked at without an index, in small files.
const MOST_BYTES: u64 = 64 << 20;

/// Bytes of cached blocks per heap.
const KEPT: usize = 8 << 20;

/// A block of the table: its place and its kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeapBlock {
    pub(super) address: u64,
    /// Start of the block in the heap's space.
    pub(super) offset: u64,
    pub(super) kind: BlockKind,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum BlockKind {
    Indirect {
        rows: u32,
    },
    Direct {
        /// Bytes in the heap's space.
        size: u64,
        /// Stored size in bytes, and the mask of skipped filters.
        filtered: Option<(u64, u32)>,
    },
}

impl FractalHeap {
    /// Returns the object at an offset in the heap's space.
    pub(super) fn managed_object(&self, source: &Source, offset: u64, len: u64) -> Result<Bytes> {
        let corrupt = |why: String| {
            source.corrupt(
                OBJECT,
                self.address,
                format!("object of {len} bytes at offset {offset} of the heap: {why}"),
            )
        };
        let mut block = self.root.ok_or_else(|| corrupt("the heap has no root block".into()))?;
        loop {
            let bytes = self.block(source, block)?;
            match block.kind {
                // This ends: each level of blocks has fewer rows.
                BlockKind::Indirect { rows } => {
                    let entry = self.entry(&bytes, block, rows, offset);
                    block = entry.ok_or_else(|| corrupt("no block holds this offset".into()))?;
                }
                BlockKind::Direct { size, .. } => {
                    let start = offset.saturating_sub(block.offset);
                    let end = start.checked_add(len).filter(|end| *end <= size);
                    let head = self.block_head() as u64 + if self.summed { 4 } else { 0 };
                    let end = end.filter(|_| start >= head);
                    let index = |at: u64| usize::try_from(at).ok();
                    let range = index(start).zip(end.and_then(index));
                    let (start, end) = range.ok_or_else(|| {
                        corrupt(format!("it is not inside its direct block of {size} bytes"))
                    })?;
                    return Ok(bytes.slice(start..end));
                }
            }
        }
    }

    /// Reads the root block and up to `most` entries of blocks below it, which will be needed soon.
    pub(crate) fn visit(&self, source: &Source, most: usize) {
        if let Some(root) = self.root {
            self.visit_block(source, root, &mut { most });
        }
    }

    fn visit_block(&self, source: &Source, block: HeapBlock, left: &mut usize) {
        let (Ok(bytes), BlockKind::Indirect { rows }) = (self.block(source, block), block.kind) else {
            return;
        };
        let mut start = 0u64;
        // This ends: each level of blocks has fewer rows.
        while let Some(size) =
            self.table.place(start).and_then(|(row, ..)| self.table.size(row).filter(|_| row < rows))
        {
            let Some(fewer) = left.checked_sub(1) else { return };
            *left = fewer;
            if let Some(child) = self.entry(&bytes, block, rows, block.offset.saturating_add(start)) {
                self.visit_block(source, child, left);
            }
            let Some(next) = start.checked_add(size) else { return };
            start = next;
        }
    }

    /// The contents of all direct blocks that can be read, for readers that have lost the index.
    pub(crate) fn contents(&self, source: &Source) -> Vec<Bytes> {
        let mut found = Vec::new();
        if let Some(root) = self.root {
            // Blocks of whole heaps do not overlap. Blocks with filters are larger in memory.
            let mut left = (MOST_SCANNED, source.end().max(MOST_BYTES));
            self.add_contents(source, root, &mut left, &mut found);
        }
        found
    }

    /// `left`: entries and bytes that may still be looked at.
    fn add_contents(
        &self,
        source: &Source,
        block: HeapBlock,
        left: &mut (usize, u64),
        found: &mut Vec<Bytes>,
    ) {
        let Ok(bytes) = self.block(source, block) else { return };
        let Some(fewer) = left.1.checked_sub(bytes.len() as u64) else { return };
        left.1 = fewer;
        let BlockKind::Indirect { rows } = block.kind else {
            let head = self.block_head() + if self.summed { 4 } else { 0 };
            found.push(bytes.slice(head..bytes.len()));
            return;
        };
        let mut start = 0u64;
        // This ends: each level of blocks has fewer rows.
        while let Some(size) =
            self.table.place(start).and_then(|(row, ..)| self.table.size(row).filter(|_| row < rows))
        {
            let Some(fewer) = left.0.checked_sub(1) else { return };
            left.0 = fewer;
            if let Some(child) = self.entry(&bytes, block, rows, block.offset.saturating_add(start)) {
                self.add_contents(source, child, left, found);
            }
            let Some(next) = start.checked_add(size) else { return };
            start = next;
        }
    }

    /// Bytes of signature, version, heap address and block offset.
    fn block_head(&self) -> usize {
        5 + usize::from(self.sizes.offset) + self.offset_len
    }

    /// Bytes of an entry for a direct block.
    fn direct_entry(&self) -> usize {
        let filtered = if self.filters.is_some() { usize::from(self.sizes.length) + 4 } else { 0 };
        usize::from(self.sizes.offset) + filtered
    }

    /// Returns the block at an offset within an indirect block. `None`: there is no block.
    fn entry(&self, bytes: &[u8], block: HeapBlock, rows: u32, offset: u64) -> Option<HeapBlock> {
        let (row, column, start) = self.table.place(offset.checked_sub(block.offset)?)?;
        if row >= rows {
            return None;
        }
        let offset = block.offset.checked_add(start)?;
        let (direct, indirect) = (self.direct_entry() as u64, u64::from(self.sizes.offset));
        let index = |row: u32| u64::from(row).checked_mul(self.table.width)?.checked_add(column);
        let at = match row.checked_sub(self.table.direct_rows) {
            None => index(row)?.checked_mul(direct)?,
            Some(above) => {
                let before = u64::from(self.table.direct_rows).checked_mul(self.table.width * direct)?;
                index(above)?.checked_mul(indirect)?.checked_add(before)?
            }
        };
        let at = usize::try_from(at).ok()?.checked_add(self.block_head())?;
        let mut cursor = Cursor::whole(bytes.get(at..)?, block.address, self.sizes);
        let address = cursor.offset().ok()??;
        let kind = if row < self.table.direct_rows {
            let filtered = match self.filters {
                Some(_) => Some((cursor.length().ok()?, cursor.u32().ok()?)),
                None => None,
            };
            BlockKind::Direct { size: self.table.size(row)?, filtered }
        } else {
            BlockKind::Indirect { rows: self.table.rows_within(row)? }
        };
        Some(HeapBlock { address, offset, kind })
    }

    /// Returns the bytes of a block, checked, and decoded if the heap has filters.
    fn block(&self, source: &Source, block: HeapBlock) -> Result<Bytes> {
        if let Some(bytes) = self.cached_blocks().get(&block.address) {
            return Ok(bytes.clone());
        }
        let bytes = match block.kind {
            BlockKind::Indirect { rows } => self.read_indirect(source, block, rows)?,
            BlockKind::Direct { size, filtered } => self.read_direct(source, block, size, filtered)?,
        };
        source.note_structure(block.address);
        let mut cached = self.cached_blocks();
        if cached.values().map(|bytes| bytes.len()).sum::<usize>().saturating_add(bytes.len()) > KEPT {
            cached.clear();
        }
        cached.insert(block.address, bytes.clone());
        Ok(bytes)
    }

    fn cached_blocks(&self) -> MutexGuard<'_, HashMap<u64, Bytes>> {
        self.blocks.lock()
    }

    fn read_indirect(&self, source: &Source, block: HeapBlock, rows: u32) -> Result<Bytes> {
        let blocks = |rows: u32| u64::from(rows).saturating_mul(self.table.width);
        let direct = blocks(rows.min(self.table.direct_rows)).saturating_mul(self.direct_entry() as u64);
        let rows_below = rows.saturating_sub(self.table.direct_rows);
        let indirect = blocks(rows_below).saturating_mul(self.sizes.offset.into());
        let len = direct.saturating_add(indirect).saturating_add(self.block_head() as u64 + 4);
        let bytes = source.read(INDIRECT, block.address, len)?;
        let mut cursor = source.cursor(&bytes, block.address);
        let checked = self.check_head(&mut cursor, b"FHIB", block).and_then(|()| {
            cursor.skip(cursor.remaining_len().saturating_sub(4))?;
            cursor.checksum(0)
        });
        checked.map_err(|why| source.structure_error(INDIRECT, block.address, why))?;
        Ok(bytes)
    }

    fn read_direct(
        &self,
        source: &Source,
        block: HeapBlock,
        size: u64,
        filtered: Option<(u64, u32)>,
    ) -> Result<Bytes> {
        let bytes = match (filtered, &self.filters) {
            (Some((stored, skipped)), Some(filters)) => {
                let stored = source.read(DIRECT, block.address, stored)?;
                decode(source, filters, skipped, &stored, size)?
            }
            _ => source.read(DIRECT, block.address, size)?,
        };
        let mut cursor = source.cursor(&bytes, block.address);
        let checked = self.check_head(&mut cursor, b"FHDB", block).and_then(|()| {
            if !self.summed || !source.verify() {
                return Ok(());
            }
            // The checksum covers all bytes of the block, with zeros in place of the checksum
            // itself.
            let at = cursor.address();
            let start = cursor.position();
            let found = cursor.u32()?;
            let mut whole = bytes.to_vec();
            whole.iter_mut().skip(start).take(4).for_each(|byte| *byte = 0);
            let expected = lookup3(&whole);
            if found == expected { Ok(()) } else { Err(ParseError::Checksum { at, expected, found }) }
        });
        checked.map_err(|why| source.structure_error(DIRECT, block.address, why))?;
        Ok(bytes)
    }

    /// Checks the heap address and the offset that a block stores.
    fn check_head(&self, cursor: &mut Cursor<'_>, signature: &[u8; 4], block: HeapBlock) -> Parsed<()> {
        cursor.signature(signature)?;
        cursor.version("fractal heap block", &[0])?;
        let at = cursor.clone();
        let (heap, offset) = (cursor.defined_address("the heap")?, cursor.uint(self.offset_len)?);
        if (heap, offset) != (self.address, block.offset) {
            return Err(at.corrupt(format!(
                "expected the block at offset {} of the heap at {}, found the block at offset {offset} of \
                 the heap at {heap}",
                block.offset, self.address
            )));
        }
        Ok(())
    }
}
