//! Serialised dataspace selections, in mappings of virtual datasets and in region references.
//!
//! They are part of specification III.F, "Global Heap Block for Virtual Datasets", and of its
//! appendix on references.
//!
//! A selection orders its elements. Points keep their listed order. All other elements are in C
//! order of the dataspace, regardless of their blocks.

mod build;

use crate::cursor::join_known;
use crate::{Cursor, ParseError, Parsed};

/// The largest rank of a dataspace (the library's H5S_MAX_RANK).
const MOST_AXES: usize = 32;

/// A selection of elements of a dataspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// No elements.
    None,
    /// Every element of any extent.
    All,
    /// Single elements, in this order.
    Points {
        /// Number of axes.
        rank: usize,
        /// The coordinates of the first point, then of the second, and so on.
        coordinates: Vec<u64>,
    },
    /// A regular hyperslab: along each axis, equal blocks at equal distances.
    Regular(Vec<Slab>),
    /// All elements in any of these blocks.
    Blocks {
        /// Number of axes.
        rank: usize,
        /// For each block its first element, then its last element.
        corners: Vec<u64>,
    },
}

/// One axis of a regular hyperslab: `count` blocks of `block` elements, the first at `start`.
///
/// Blocks begin `stride` elements apart. All values except `start` are at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slab {
    /// The first element.
    pub start: u64,
    /// Distance from one block to the next. At least the length of a block.
    pub stride: u64,
    /// Number of blocks. `None`: as many as fit into the extent.
    pub count: Option<u64>,
    /// Elements of a block. `None`: up to the end of the extent.
    pub block: Option<u64>,
}

impl Slab {
    fn is_unlimited(&self) -> bool {
        self.count.is_none() || self.block.is_none()
    }
}

impl Selection {
    /// Parses a selection. Refuses elements beyond 2⁶⁴ - 1.
    pub fn parse(cursor: &mut Cursor<'_>) -> Parsed<Selection> {
        let at = cursor.clone();
        match cursor.u32()? {
            0 => skip_header(cursor, "no-element selection").map(|()| Selection::None),
            1 => points(cursor),
            2 => hyperslab(cursor),
            3 => skip_header(cursor, "all-element selection").map(|()| Selection::All),
            other => Err(at.corrupt(format!("expected a selection of type 0 to 3, found type {other}"))),
        }
    }

    /// Number of axes of the dataspace. `None`: any number.
    pub fn rank(&self) -> Option<usize> {
        match self {
            Selection::None | Selection::All => None,
            Selection::Points { rank, .. } | Selection::Blocks { rank, .. } => Some(*rank),
            Selection::Regular(slabs) => Some(slabs.len()),
        }
    }

    /// Returns the unlimited axis and its slab.
    pub fn unlimited_axis(&self) -> Option<(usize, Slab)> {
        let Selection::Regular(slabs) = self else { return None };
        slabs.iter().copied().enumerate().find(|(_, slab)| slab.is_unlimited())
    }

    /// Returns the coordinates of each point. Empty for other selections.
    pub fn points(&self) -> impl Iterator<Item = &[u64]> {
        let (rank, coordinates) = match self {
            Selection::Points { rank, coordinates } => (*rank, coordinates.as_slice()),
            _ => (1, [].as_slice()),
        };
        coordinates.chunks_exact(rank.max(1))
    }

    /// Returns first and last element of each block. Empty unless it is [`Selection::Blocks`].
    pub fn blocks(&self) -> impl Iterator<Item = (&[u64], &[u64])> {
        let (rank, corners) = match self {
            Selection::Blocks { rank, corners } => (*rank, corners.as_slice()),
            _ => (1, [].as_slice()),
        };
        let rank = rank.max(1);
        corners.chunks_exact(rank.saturating_mul(2)).filter_map(move |block| block.split_at_checked(rank))
    }

    /// Turns listed blocks into a regular hyperslab if they form one. Old versions list all blocks.
    pub fn regularised(self) -> Selection {
        match self.grid() {
            Some(slabs) => Selection::Regular(slabs),
            None => self,
        }
    }

    /// Returns the regular hyperslab that the listed blocks form, if any.
    fn grid(&self) -> Option<Vec<Slab>> {
        let Selection::Blocks { rank, corners } = self else { return None };
        let mut slabs: Vec<Slab> = Vec::with_capacity(*rank);
        let mut cells = 1usize;
        for axis in 0..*rank {
            let range = |(first, last): (&[u64], &[u64])| Some((*first.get(axis)?, *last.get(axis)?));
            let mut ranges: Vec<(u64, u64)> = self.blocks().filter_map(range).collect();
            ranges.sort_unstable();
            ranges.dedup();
            cells = cells.checked_mul(ranges.len())?;
            let ((start, last), second) = (*ranges.first()?, ranges.get(1));
            let block = last - start + 1;
            let stride = second.map_or(block, |(next, _)| next - start);
            let even = |pair: &[(u64, u64)]| match pair {
                [(a, _), (b, end)] => b - a == stride && end - b + 1 == block,
                _ => true,
            };
            if stride < block || !ranges.windows(2).all(even) {
                return None;
            }
            slabs.push(Slab { start, stride, count: Some(ranges.len() as u64), block: Some(block) });
        }
        // Each block is a cell of that grid. Distinct blocks form the grid if their number is the
        // number of cells.
        let mut blocks: Vec<&[u64]> = corners.chunks_exact((2 * rank).max(1)).collect();
        if blocks.len() != cells {
            return None;
        }
        blocks.sort_unstable();
        blocks.windows(2).all(|pair| pair.first() != pair.last()).then_some(slabs)
    }
}

/// Skips the rest of a selection without elements: version 1, reserved bytes, length.
fn skip_header(cursor: &mut Cursor<'_>, what: &str) -> Parsed<()> {
    version(cursor, what, &[1])?;
    cursor.skip(8)
}

/// Reads the version of a selection, which has four bytes.
fn version(cursor: &mut Cursor<'_>, what: &str, known: &[u32]) -> Parsed<u32> {
    let version = cursor.u32()?;
    match known.contains(&version) {
        true => Ok(version),
        false => Err(ParseError::Unsupported(format!(
            "version {version} of the {what} (known: {})",
            join_known(known)
        ))),
    }
}

fn rank(cursor: &mut Cursor<'_>) -> Parsed<usize> {
    let at = cursor.clone();
    let rank = cursor.u32()?;
    usize::try_from(rank)
        .ok()
        .filter(|rank| (1..=MOST_AXES).contains(rank))
        .ok_or_else(|| at.corrupt(format!("expected a selection of 1 to {MOST_AXES} axes, found {rank}")))
}

/// Reads the size in bytes of the selection's numbers.
fn encoded_size(cursor: &mut Cursor<'_>) -> Parsed<usize> {
    let at = cursor.clone();
    match cursor.u8()? {
        size @ (2 | 4 | 8) => Ok(size.into()),
        size => {
            Err(at
                .corrupt(format!("expected a selection with numbers of 2, 4 or 8 bytes, found {size} bytes")))
        }
    }
}

/// Reads numbers of `size` bytes. Checks that the bytes exist before memory is allocated.
fn numbers(cursor: &mut Cursor<'_>, count: u64, each: usize, size: usize) -> Parsed<Vec<u64>> {
    let bytes = count.saturating_mul(each as u64).saturating_mul(size as u64);
    let mut part = Cursor::whole(cursor.take_u64(bytes)?, 0, cursor.sizes());
    let mut numbers = Vec::with_capacity(part.remaining_len() / size.max(1));
    while !part.is_empty() {
        numbers.push(part.uint(size)?);
    }
    Ok(numbers)
}

fn points(cursor: &mut Cursor<'_>) -> Parsed<Selection> {
    let size = match version(cursor, "point selection", &[1, 2])? {
        1 => {
            cursor.skip(8)?;
            4
        }
        _ => encoded_size(cursor)?,
    };
    let rank = rank(cursor)?;
    let count = cursor.uint(size)?;
    Ok(Selection::Points { rank, coordinates: numbers(cursor, count, rank, size)? })
}

fn hyperslab(cursor: &mut Cursor<'_>) -> Parsed<Selection> {
    const REGULAR: u8 = 1;
    let (flags, size) = match version(cursor, "hyperslab selection", &[1, 2, 3])? {
        1 => {
            cursor.skip(8)?;
            (0, 4)
        }
        2 => {
            let flags = cursor.u8()?;
            cursor.skip(4)?;
            (flags, 8)
        }
        _ => (cursor.u8()?, encoded_size(cursor)?),
    };
    if flags & !REGULAR != 0 {
        return Err(ParseError::Unsupported(format!(
            "flags {flags:#04x} of the hyperslab selection (known: 0x01)"
        )));
    }
    let rank = rank(cursor)?;
    if flags & REGULAR == 0 {
        return blocks(cursor, rank, size);
    }
    let unlimited = u64::MAX >> (64 - 8 * size);
    let mut slabs = Vec::with_capacity(rank);
    for axis in 0..rank {
        let at = cursor.clone();
        let [start, stride, count, block] =
            [cursor.uint(size)?, cursor.uint(size)?, cursor.uint(size)?, cursor.uint(size)?];
        let limited = |number: u64| (number != unlimited).then_some(number);
        let slab = Slab { start, stride, count: limited(count), block: limited(block) };
        check(&slab).map_err(|why| at.corrupt(format!("hyperslab selection, axis {axis}: {why}")))?;
        slabs.push(slab);
    }
    if slabs.iter().filter(|slab| slab.is_unlimited()).count() > 1 {
        return Err(
            cursor.corrupt("expected at most one unlimited axis in a hyperslab selection, found more")
        );
    }
    Ok(Selection::Regular(slabs))
}

/// Checks a slab. The error says what makes it invalid.
fn check(slab: &Slab) -> Result<(), String> {
    let Slab { start, stride, count, block } = *slab;
    let size = |n: Option<u64>| n.map_or("unlimited".to_owned(), |n| n.to_string());
    let extent = format!("start {start}, stride {stride}, count {}, block {}", size(count), size(block));
    match (count, block) {
        (Some(0), _) | (_, Some(0)) => Err(format!("it is empty ({extent})")),
        (None, None) => Err(format!("count and block are both unlimited ({extent})")),
        (Some(1), None) => Ok(()),
        (Some(_), None) => Err(format!("unlimited blocks overlap ({extent})")),
        (count, Some(block)) if stride < block && count != Some(1) => {
            Err(format!("its blocks overlap ({extent})"))
        }
        (count, Some(block)) => {
            let last = count.unwrap_or(1).saturating_sub(1).checked_mul(stride);
            let end = last.and_then(|last| start.checked_add(last)?.checked_add(block));
            end.map(|_| ()).ok_or_else(|| format!("it ends after element 2⁶⁴ - 1 ({extent})"))
        }
    }
}

/// Parses a list of blocks.
fn blocks(cursor: &mut Cursor<'_>, rank: usize, size: usize) -> Parsed<Selection> {
    let count = cursor.uint(size)?;
    let at = cursor.clone();
    let selection = Selection::Blocks { rank, corners: numbers(cursor, count, 2 * rank, size)? };
    for (first, last) in selection.blocks() {
        if first.iter().zip(last).any(|(first, last)| first > last || *last == u64::MAX) {
            return Err(at.corrupt(format!(
                "expected blocks of a hyperslab that end at or after their start and before element 2⁶⁴ - \
                 1, found a block from {first:?} to {last:?}"
            )));
        }
    }
    Ok(selection)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::vectors::bytes as hex;
    use crate::testing::{SIZES, changes, needs_all};

    /// Parses the bytes, which must be used up.
    fn parse(bytes: &[u8]) -> Parsed<Selection> {
        let mut cursor = Cursor::whole(bytes, 0, SIZES);
        let selection = Selection::parse(&mut cursor)?;
        assert!(cursor.is_empty(), "{} bytes are left", cursor.remaining_len());
        Ok(selection)
    }

    fn slab(start: u64, stride: u64, count: u64, block: u64) -> Slab {
        Slab { start, stride, count: Some(count), block: Some(block) }
    }

    /// Little-endian numbers, each with its size in bytes.
    fn encode(numbers: &[(u64, usize)]) -> Vec<u8> {
        numbers.iter().flat_map(|(number, size)| number.to_le_bytes()[..*size].to_vec()).collect()
    }

    const ALL: &str = "03000000 01000000 00000000 00000000";
    /// Rows 0 and 2 of column 5 as two blocks: the library's output for its earliest format.
    const LISTED: &str = "02000000 01000000 00000000 28000000 02000000 02000000
        00000000 05000000 00000000 05000000  02000000 05000000 02000000 05000000";
    /// The same elements in version 3, with numbers of two bytes.
    const SHORT: &str = "02000000 03000000 01 02 02000000 0000 0200 0200 0100 0500 0100 0100 0100";
    /// The same column in version 2, with unlimited rows.
    const UNLIMITED: &str = "02000000 02000000 01 48000000 02000000
        0000000000000000 0200000000000000 ffffffffffffffff 0100000000000000
        0500000000000000 0100000000000000 0100000000000000 0100000000000000";

    #[test]
    fn as_written_by_the_library() {
        assert_eq!(parse(&hex(ALL)).unwrap(), Selection::All);
        assert_eq!(parse(&hex(&ALL.replacen('3', "0", 1))).unwrap(), Selection::None);
        let regular = Selection::Regular(vec![slab(0, 2, 2, 1), slab(5, 1, 1, 1)]);
        let listed = parse(&hex(LISTED)).unwrap();
        assert_eq!(listed, Selection::Blocks { rank: 2, corners: vec![0, 5, 0, 5, 2, 5, 2, 5] });
        assert_eq!(listed.regularised(), regular);
        assert_eq!(parse(&hex(SHORT)).unwrap(), regular);
        let unlimited = parse(&hex(UNLIMITED)).unwrap();
        let rows = Slab { count: None, ..slab(0, 2, 1, 1) };
        assert_eq!(unlimited, Selection::Regular(vec![rows, slab(5, 1, 1, 1)]));
        assert_eq!((unlimited.unlimited_axis(), unlimited.rank()), (Some((0, rows)), Some(2)));
        assert_eq!((regular.unlimited_axis(), Selection::All.rank()), (None, None));
    }

    #[test]
    fn every_width() {
        for (size, version, most) in [(2, 3, 0xffff), (4, 3, 0xffff_ffff), (8, 3, u64::MAX), (8, 2, u64::MAX)]
        {
            let head = match version {
                2 => encode(&[(2, 4), (2, 4), (1, 1), (99, 4), (1, 4)]),
                _ => encode(&[(2, 4), (3, 4), (1, 1), (size as u64, 1), (1, 4)]),
            };
            let axis = |axis: [u64; 4]| [head.clone(), encode(&axis.map(|number| (number, size)))].concat();
            let found = parse(&axis([7, 5, 300, 2])).unwrap();
            assert_eq!(found, Selection::Regular(vec![slab(7, 5, 300, 2)]));
            let found = parse(&axis([7, 1, 1, most])).unwrap();
            assert_eq!(found, Selection::Regular(vec![Slab { block: None, ..slab(7, 1, 1, 1) }]));
            for bad in
                [[0, 0, 2, 1], [0, 1, 0, 1], [0, 1, 1, 0], [0, 3, 2, 4], [0, 1, most, most], [0, 1, 2, most]]
            {
                assert!(matches!(parse(&axis(bad)), Err(ParseError::Corrupt { .. })), "{bad:?} of {size}");
            }
        }
        let head = encode(&[(2, 4), (3, 4), (1, 1), (8, 1), (1, 4)]);
        let beyond = [head, encode(&[(1, 8), (1 << 60, 8), (17, 8), (1, 8)])].concat();
        assert!(parse(&beyond).is_err());
        // An irregular hyperslab, and points, with numbers of each size.
        let version_3 = |size| (size, encode(&[(2, 4), (3, 4), (0, 1), (size as u64, 1), (2, 4)]));
        for (size, head) in [(4, encode(&[(2, 4), (1, 4), (0, 8), (2, 4)])), version_3(2), version_3(8)] {
            let numbers = [2, 0, 1, 5, 6, 7, 8, 7, 8].map(|number| (number, size));
            let corners = vec![0, 1, 5, 6, 7, 8, 7, 8];
            let found = parse(&[head.clone(), encode(&numbers)].concat()).unwrap();
            assert_eq!(found, Selection::Blocks { rank: 2, corners });
            assert_eq!(found.clone().regularised(), found);
            let blocks: Vec<_> = found.blocks().collect();
            assert_eq!(blocks, [(&[0, 1][..], &[5, 6][..]), (&[7, 8], &[7, 8])]);
            let backwards = [1, 3, 1, 2, 6].map(|number| (number, size));
            assert!(parse(&[head, encode(&backwards)].concat()).is_err());
        }
        let version_2 = |size| (size, encode(&[(1, 4), (2, 4), (size as u64, 1), (2, 4)]));
        for (size, head) in [(4, encode(&[(1, 4), (1, 4), (0, 8), (2, 4)])), version_2(2), version_2(8)] {
            let numbers = [3, 9, 8, 0, 0, 9, 8].map(|number| (number, size));
            let found = parse(&[head, encode(&numbers)].concat()).unwrap();
            assert_eq!(found.points().collect::<Vec<_>>(), [&[9, 8][..], &[0, 0], &[9, 8]]);
        }
    }

    #[test]
    fn listed_blocks_that_make_a_grid() {
        let listed =
            |rank, corners: &[u64]| Selection::Blocks { rank, corners: corners.into() }.regularised();
        assert_eq!(listed(1, &[3, 5]), Selection::Regular(vec![slab(3, 3, 1, 3)]));
        // The blocks may come in any order.
        let four = listed(2, &[4, 9, 5, 9, 0, 7, 1, 7, 4, 7, 5, 7, 0, 9, 1, 9]);
        assert_eq!(four, Selection::Regular(vec![slab(0, 4, 2, 2), slab(7, 2, 2, 1)]));
        for none in [
            vec![0, 0, 2, 2, 5, 5],       // unequal distances
            vec![0, 1, 2, 2],             // unequal lengths
            vec![0, 2, 1, 3],             // they overlap
            vec![0, 0, 0, 0, 2, 2, 4, 4], // one twice
        ] {
            assert!(matches!(listed(1, &none), Selection::Blocks { .. }), "{none:?}");
        }
        // Three of four cells, then two cells twice each.
        assert!(matches!(listed(2, &[0, 0, 0, 0, 0, 2, 0, 2, 2, 0, 2, 0]), Selection::Blocks { .. }));
        let twice = [0, 0, 0, 0, 2, 2, 2, 2, 0, 0, 0, 0, 2, 2, 2, 2];
        assert!(matches!(listed(2, &twice), Selection::Blocks { .. }));
        assert_eq!(Selection::Blocks { rank: 1, corners: vec![] }.regularised().rank(), Some(1));
    }

    #[test]
    fn unknown_versions_are_named() {
        for (bytes, what) in [
            (ALL.replacen("01", "02", 1), "version 2 of the all-element selection"),
            (LISTED.replacen("01", "04", 1), "version 4 of the hyperslab selection"),
            (SHORT.replacen("01 02", "03 02", 1), "flags 0x03"),
        ] {
            match parse(&hex(&bytes)) {
                Err(ParseError::Unsupported(found)) => assert!(found.contains(what), "{found}"),
                other => panic!("{other:?}"),
            }
        }
        assert!(matches!(parse(&hex("04000000")), Err(ParseError::Corrupt { .. })));
        assert!(parse(&hex(&SHORT.replacen("01 02", "01 03", 1))).is_err(), "numbers of three bytes");
        assert!(parse(&hex(&SHORT.replacen("01 02 02", "01 02 21", 1))).is_err(), "33 axes");
        // More elements than bytes: must fail before memory is allocated.
        let many = encode(&[(1, 4), (2, 4), (8, 1), (32, 4), (u64::MAX, 8)]);
        assert!(matches!(parse(&many), Err(ParseError::Corrupt { .. })));
        assert!(matches!(
            Selection::parse(&mut Cursor::new(&hex(SHORT)[..20], 0, SIZES)),
            Err(ParseError::Need(_))
        ));
    }

    #[test]
    fn damage_is_an_error_or_a_selection() {
        let points = encode(&[(1, 4), (2, 4), (2, 1), (2, 4), (2, 2), (1, 2), (2, 2), (3, 2), (4, 2)]);
        for bytes in [hex(ALL), hex(LISTED), hex(SHORT), hex(UNLIMITED), points] {
            parse(&bytes).unwrap();
            needs_all(&bytes, parse);
            for (_, damaged) in changes(&bytes, |_| 0..=255) {
                if let Ok(found) = Selection::parse(&mut Cursor::whole(&damaged, 0, SIZES)) {
                    let _ = (found.unlimited_axis(), found.regularised());
                }
            }
        }
    }
}
