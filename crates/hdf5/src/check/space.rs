//! The owners of the bytes of a file: finds ranges that overlap, and bytes without an owner.
//!
//! The source of the file notes each structure that is read, so that all structures are known that the
//! check has come by. Chunks and runs of elements come from the indexes.
//!
//! Values of variable length are in heaps that only elements lead to. Elements are not read here, so
//! heaps are found by their signature.

use super::{Check, Fault, FaultKind};
use crate::compact::survey::FILE_SPACE;
use crate::edit::free_space;
use crate::source::Structure;
use crate::{File, Hdf5Error, Result};
use hyperslab_array::Dims;
use std::collections::HashMap;
use std::ops::Range;

/// Overlaps that are named for each pair of objects.
const MOST_OVERLAPS: u64 = 10;

/// Space that nothing refers to is worth a note if it is a quarter of the file, and this long. The HDF5
/// library leaves some kilobytes unused in each file.
const SHARE: u64 = 4;
const LEAST: u64 = 64 << 10;

/// Shorter gaps are left between structures by every writer.
const SHORT: u64 = 256;

/// Longest of the gaps that are named.
const NAMED: usize = 5;

/// The first bytes of a heap of values of variable length: signature, version, reserved bytes.
const HEAP: &[u8] = b"GCOL\x01\0\0\0";

/// Bytes behind a structure where a heap is looked for.
const LOOK: u64 = 4096;

/// A range of bytes of the file.
#[derive(Clone, Debug)]
struct Extent {
    start: u64,
    end: u64,
    /// The end of the bytes that are reserved, if nothing else begins before.
    room: u64,
    /// Number of the object in [`Checked::objects`](super::Checked::objects).
    object: usize,
    /// The name of a structure. `None`: elements.
    structure: Option<&'static str>,
    chunk: Option<Dims>,
}

/// The ranges that are known.
#[derive(Debug, Default)]
pub(super) struct Space {
    elements: Vec<Extent>,
    /// By address and name: the longest of the reads of a structure, and who came first.
    structures: HashMap<(u64, &'static str), (Structure, usize)>,
}

/// Opens a file again, so that it notes all structures. `None`: it is being changed, or in several parts.
pub(super) fn recording(file: &File) -> Result<Option<File>> {
    let (source, superblock) = (file.source(), &file.inner.superblock);
    let is_calm = file.editing().is_none() && !superblock.writing && !superblock.swmr;
    if !is_calm || superblock.driver.is_some() {
        return Ok(None);
    }
    match File::open_with(source.store().clone(), source.key(), file.options().clone(), true) {
        Ok(file) if file.source().is_recording() => Ok(Some(file)),
        Ok(_) => Ok(None),
        Err(error @ Hdf5Error::Interrupted { .. }) => Err(error),
        Err(_) => Ok(None),
    }
}

impl Space {
    /// Notes a chunk, or a run of elements.
    pub(super) fn elements(&mut self, range: Range<u64>, object: usize, chunk: Option<Dims>) {
        let Range { start, end } = range;
        if start < end {
            self.elements.push(Extent { start, end, room: end, object, structure: None, chunk });
        }
    }

    /// Notes structures that were read for an object.
    pub(super) fn note(&mut self, structures: Vec<Structure>, object: usize) {
        for new in structures.into_iter().filter(|new| new.len > 0) {
            let (known, _) = self.structures.entry((new.address, new.name)).or_insert((new, object));
            known.len = new.len.max(known.len);
            known.room = new.room.max(known.room);
        }
    }

    /// All ranges in the order of the file.
    fn sorted(&mut self) -> &[Extent] {
        let structures = std::mem::take(&mut self.structures).into_iter().map(|(_, (found, object))| {
            let end = |len: u64| found.address.saturating_add(len);
            let (start, structure, chunk) = (found.address, Some(found.name), None);
            Extent { start, end: end(found.len), room: end(found.room), object, structure, chunk }
        });
        self.elements.extend(structures);
        self.elements.sort_by_key(|extent| (extent.start, extent.end, extent.structure));
        &self.elements
    }
}

impl Check<'_> {
    /// Finds ranges that share bytes with other ranges.
    pub(super) fn overlaps(&mut self) {
        // The range so far that ends last. A later range that begins before shares bytes with it.
        let mut furthest: Option<&Extent> = None;
        let mut found = Vec::new();
        let mut named: HashMap<(usize, usize), u64> = HashMap::new();
        for extent in self.space.sorted() {
            if let Some(other) = furthest
                && extent.start < other.end
            {
                // One of many chunks that overlap tells enough about a pair of objects.
                let times = named.entry((other.object, extent.object)).or_default();
                *times += 1;
                if *times <= MOST_OVERLAPS {
                    let is_first = extent.structure.is_none() || other.structure.is_some();
                    found.push(if is_first {
                        (extent.clone(), other.clone())
                    } else {
                        (other.clone(), extent.clone())
                    });
                }
            }
            if furthest.is_none_or(|other| extent.end > other.end) {
                furthest = Some(extent);
            }
        }
        let faults: Vec<Fault> = found.iter().map(|(of, with)| self.overlap(of, with)).collect();
        self.found.faults.extend(faults);
    }

    fn overlap(&self, of: &Extent, with: &Extent) -> Fault {
        let path = |extent: &Extent| {
            self.found.objects.get(extent.object).map(|object| object.path.clone()).unwrap_or_default()
        };
        let what = match (&with.chunk, with.structure) {
            (Some(chunk), _) => format!("chunk {:?} of '/{}'", chunk.as_slice(), path(with)),
            (None, None) => format!("elements of '/{}'", path(with)),
            (None, Some(name)) => format!("the {name} of '/{}'", path(with)),
        };
        let own = of.structure.map(|name| format!("{name}: ")).unwrap_or_default();
        Fault {
            kind: FaultKind::Overlap,
            path: path(of),
            chunk: of.chunk.as_ref().map(|chunk| chunk.to_vec()),
            address: Some(of.start),
            why: format!(
                "{own}bytes {}..{} are partly those of {what} ({}..{})",
                of.start, of.end, with.start, with.end
            ),
        }
    }

    /// Notes space that nothing refers to, if it is much.
    pub(super) fn unreferenced(&mut self) -> Result<()> {
        let source = self.file.source();
        let end = self.file.inner.superblock.end_from(source.base());
        let end = end.map_or(source.end(), |end| end.saturating_sub(source.base())).min(source.end());
        let mut gaps = gaps(&self.space.elements, end);
        let sum =
            |gaps: &[Range<u64>]| gaps.iter().fold(0_u64, |sum, gap| sum.saturating_add(gap.end - gap.start));
        let worth = LEAST.max(end / SHARE);
        if sum(&gaps) < worth {
            return Ok(());
        }
        // Only now: this reads bytes that nobody else needs.
        let listed = free_space::listed(source, end)?;
        gaps = without(&gaps, &listed);
        gaps = self.without_heaps(&gaps)?;
        let known = self.free_bytes()?;
        let left = sum(&gaps).saturating_sub(known);
        if left < worth {
            return Ok(());
        }
        let count = gaps.len();
        gaps.sort_by_key(|gap| std::cmp::Reverse(gap.end - gap.start));
        let ranges: Vec<String> =
            gaps.iter().take(NAMED).map(|gap| format!("{}..{}", gap.start, gap.end)).collect();
        let why = format!(
            "{left} of {end} bytes are referred to by nothing, in {count} ranges; the longest: {}",
            ranges.join(", ")
        );
        self.note(FaultKind::Unreferenced, "", gaps.first().map(|gap| gap.start), why);
        Ok(())
    }

    /// The rest of the gaps, without heaps of values of variable length.
    fn without_heaps(&self, gaps: &[Range<u64>]) -> Result<Vec<Range<u64>>> {
        let source = self.file.source();
        let mut left = Vec::new();
        for gap in gaps {
            let mut at = gap.start;
            while at < gap.end {
                source.go_on()?;
                let bytes = source.bytes("gap", at, LOOK.min(gap.end - at))?;
                let place = bytes.windows(HEAP.len()).position(|bytes| bytes == HEAP);
                let Some(place) = place else { break };
                let heap = at.saturating_add(place as u64);
                let len = source.parse("global heap collection", heap, 16, |cursor| {
                    cursor.skip(8)?;
                    cursor.length()
                });
                // The last collection of a gap may have been overwritten.
                let Some(len) = len.ok().filter(|len| *len >= 16 && *len <= gap.end - heap) else { break };
                if place as u64 >= SHORT {
                    left.push(at..heap);
                }
                at = heap.saturating_add(len);
            }
            if gap.end - at >= SHORT {
                left.push(at..gap.end);
            }
        }
        Ok(left)
    }

    /// Bytes in the free-space lists of the HDF5 library.
    fn free_bytes(&self) -> Result<u64> {
        let Some(extension) = self.file.inner.superblock.extension else { return Ok(0) };
        let Ok(header) = self.file.header(extension) else { return Ok(0) };
        let mut sum = 0_u64;
        for message in header.messages(FILE_SPACE) {
            // Version, strategy, whether lists are kept, two lengths, two bytes, and the end of the file
            // before the lists. Then come the addresses of the lists.
            let lists = match &*message.data {
                [1, _, 1, rest @ ..] => rest.get(8 + 8 + 2 + 8..).unwrap_or_default(),
                _ => continue,
            };
            for address in lists.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)) {
                if address == u64::MAX {
                    continue;
                }
                let read = self.file.source().parse("free-space manager header", address, 64, |cursor| {
                    cursor.signature(b"FSHD")?;
                    cursor.skip(2)?;
                    cursor.u64()
                });
                sum = sum.saturating_add(read.unwrap_or(0));
            }
        }
        Ok(sum)
    }
}

/// The ranges that nothing owns, without short ones. `all` is sorted.
fn gaps(all: &[Extent], end: u64) -> Vec<Range<u64>> {
    // Both ends of the owned bytes so far: for sure, and with reserved bytes.
    let (mut gaps, mut sure, mut room) = (Vec::new(), 0_u64, 0_u64);
    let mut add = |from: u64, to: u64| {
        if to > from && to - from >= SHORT {
            gaps.push(from..to);
        }
    };
    for extent in all {
        add(sure.max(room.min(extent.start)), extent.start);
        sure = sure.max(extent.end);
        room = room.max(extent.room);
    }
    add(sure.max(room.min(end)), end);
    gaps
}

/// Removes ranges (address, length) from gaps.
fn without(gaps: &[Range<u64>], known: &[(u64, u64)]) -> Vec<Range<u64>> {
    let mut known = known.to_vec();
    known.sort_unstable();
    let mut left = Vec::new();
    for gap in gaps {
        let mut at = gap.start;
        let first = known.partition_point(|(start, len)| start.saturating_add(*len) <= gap.start);
        for (start, len) in known.iter().skip(first).take_while(|(start, _)| *start < gap.end) {
            if *start > at && start - at >= SHORT {
                left.push(at..*start);
            }
            at = at.max(start.saturating_add(*len));
        }
        if gap.end > at && gap.end - at >= SHORT {
            left.push(at..gap.end);
        }
    }
    left
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "lists of ranges are compared")]
mod tests {
    use super::*;

    fn extent(start: u64, end: u64, room: u64) -> Extent {
        Extent { start, end, room, object: 0, structure: Some("x"), chunk: None }
    }

    #[test]
    fn gaps_are_what_nothing_owns() {
        let all = [extent(0, 1000, 2000), extent(1500, 1600, 1600), extent(3000, 3100, 9000)];
        assert_eq!(gaps(&all, 20_000), [2000..3000, 9000..20_000]);
        // Reserved bytes end where something else begins, and a long range hides others.
        let all = [extent(0, 5000, 5000), extent(100, 200, 200), extent(5100, 5200, 5200)];
        assert_eq!(gaps(&all, 5300), Vec::<Range<u64>>::new());
        assert_eq!(gaps(&[], 300), [0..300]);
    }

    #[test]
    fn listed_ranges_are_no_gaps() {
        let gaps = [1000..2000, 3000..9000];
        assert_eq!(without(&gaps, &[]), gaps);
        let known = [(5000, 1000), (900, 400), (8500, 5000)];
        assert_eq!(without(&gaps, &known), [1300..2000, 3000..5000, 6000..8500]);
        assert_eq!(without(&gaps, &[(0, u64::MAX)]), Vec::<Range<u64>>::new());
    }
}
