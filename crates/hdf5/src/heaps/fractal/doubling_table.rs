//! The table of a fractal heap's blocks (specification III.G, "doubling table").
//!
//! Blocks in the first two rows have the starting size. In each further row the size doubles, so
//! each row is as large as all rows before it.

/// The sizes of a heap's blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    /// Blocks in a row.
    pub width: u64,
    /// Bytes of a block in the first row.
    pub start: u64,
    /// Largest number of rows with direct blocks.
    pub direct_rows: u32,
}

impl Table {
    pub fn size(self, row: u32) -> Option<u64> {
        let size = self.start.checked_shl(row.saturating_sub(1))?;
        // `None` if bits were shifted out.
        (size >> row.saturating_sub(1) == self.start).then_some(size)
    }

    /// Returns row, column and start of the block that contains an offset.
    pub fn place(self, offset: u64) -> Option<(u32, u64, u64)> {
        let row_len = self.width.checked_mul(self.start)?;
        let row = (offset / row_len).checked_ilog2().map_or(0, |row| row + 1);
        // A row is as large as all rows before it.
        let before = if row == 0 { 0 } else { row_len.checked_shl(row - 1)? };
        let column = (offset - before) / self.size(row)?;
        Some((row, column, before + column * self.size(row)?))
    }

    /// Number of rows within each indirect block of a row.
    pub fn rows_within(self, row: u32) -> Option<u32> {
        let rows = self.size(row)?.ilog2() + 1;
        rows.checked_sub(self.start.ilog2() + self.width.ilog2()).filter(|rows| *rows > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_blocks() {
        let table = Table { width: 4, start: 512, direct_rows: 9 };
        for (offset, place) in [
            (0, (0, 0, 0)),
            (2047, (0, 3, 1536)),
            (2048, (1, 0, 2048)),
            (4095, (1, 3, 3584)),
            (4096, (2, 0, 4096)),
            (8191, (2, 3, 7168)),
            (8192, (3, 0, 8192)),
            ((1 << 40) + 5, (30, 0, 1 << 40)),
        ] {
            assert_eq!(table.place(offset), Some(place), "{offset}");
        }
        assert_eq!([0, 1, 2, 3].map(|row| table.size(row)), [512, 512, 1024, 2048].map(Some));
        assert_eq!(table.size(60), None);
        assert_eq!(table.rows_within(9), Some(7));
        let widest = Table { width: 32768, start: 1 << 31, direct_rows: 2 };
        assert_eq!(widest.rows_within(2), None);
        for bits in 0..64 {
            let _ = widest.place(1 << bits);
        }
        assert!(widest.place(u64::MAX).is_some());
    }
}
