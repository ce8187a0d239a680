//! The mappings of a virtual dataset.
//!
//! Specification III.F, "Global Heap Block for Virtual Datasets", versions 0 and 1. In version 1 an
//! entry has flags. They may say that it takes a name from an earlier entry, or that its source is
//! in the same file.

use crate::error::BuildError;
use crate::output::Output;
use crate::selection::Selection;
use crate::text::lossless;
use crate::virtual_dataset::VirtualSource;
use crate::{Cursor, ParseError, Parsed};
use std::sync::Arc;

/// Maps the elements of `source` in order to the elements of `target` in the virtual dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    /// The file of the source. `.` is the virtual dataset's file.
    pub(crate) file: Name,
    /// Path of the source.
    pub(crate) dataset: Name,
    pub(crate) source: Selection,
    pub(crate) target: Selection,
}

/// A name: `%b` is the number of a block, `%%` is `%`. Shared, because entries repeat names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name(Arc<[String]>);

impl Name {
    /// Parses a name. The error says why it is invalid.
    fn parse(text: &str) -> Result<Name, String> {
        let mut parts = vec![String::new()];
        let mut left = text.chars();
        while let Some(next) = left.next() {
            match (next, parts.last_mut()) {
                ('%', last) => match (left.next(), last) {
                    (Some('b'), _) => parts.push(String::new()),
                    (Some('%'), Some(last)) => last.push('%'),
                    _ => return Err(format!("expected 'b' or '%' after each '%' of the name '{text}'")),
                },
                (_, last) => last.into_iter().for_each(|last| last.push(next)),
            }
        }
        Ok(Name(parts.into()))
    }

    /// Returns the name as stored.
    pub(crate) fn text(&self) -> String {
        let parts: Vec<String> = self.0.iter().map(|part| part.replace('%', "%%")).collect();
        parts.join("%b")
    }

    /// Returns `true` if the name contains block numbers.
    pub(crate) fn is_numbered(&self) -> bool {
        self.0.len() > 1
    }

    /// Returns the name for a block.
    pub(crate) fn of_block(&self, block: u64) -> String {
        self.0.join(&block.to_string())
    }

    /// Returns `true` if the name means the virtual dataset's file.
    pub(crate) fn is_same_file(&self) -> bool {
        matches!(&*self.0, [name] if name == ".")
    }
}

pub(crate) fn parse(cursor: &mut Cursor<'_>) -> Parsed<Vec<Mapping>> {
    const FILE_SHARED: u8 = 1;
    const DATASET_SHARED: u8 = 2;
    const SAME_FILE: u8 = 4;
    let start = cursor.position();
    let version = cursor.version("global heap block for virtual datasets", &[0, 1])?;
    let count = cursor.length()?;
    let mut mappings: Vec<Mapping> = Vec::new();
    for _ in 0..count {
        let flags = if version == 0 { 0 } else { cursor.u8()? };
        if flags & !(FILE_SHARED | DATASET_SHARED | SAME_FILE) != 0 {
            return Err(ParseError::Unsupported(format!(
                "flags {flags:#04x} of a virtual dataset's mapping (known: 0x01, 0x02, 0x04)"
            )));
        }
        let file = match flags {
            flags if flags & SAME_FILE != 0 => Name([".".to_owned()].into()),
            flags if flags & FILE_SHARED != 0 => earlier_entry(cursor, &mappings)?.file.clone(),
            _ => name(cursor)?,
        };
        let dataset = match flags & DATASET_SHARED {
            0 => name(cursor)?,
            _ => earlier_entry(cursor, &mappings)?.dataset.clone(),
        };
        let (source, target) = (Selection::parse(cursor)?, Selection::parse(cursor)?);
        mappings.push(Mapping { file, dataset, source, target });
    }
    cursor.checksum(start)?;
    Ok(mappings)
}

/// Builds the heap object that lists the sources of a virtual dataset, in version 0.
///
/// Names are as stored: `%b` is the number of a block, `%%` is `%`.
pub fn build_mappings(sources: &[VirtualSource]) -> Result<Vec<u8>, BuildError> {
    let mut out = Output::new();
    out.u8(0).u64(sources.len() as u64);
    for VirtualSource { file, dataset, source, target } in sources {
        for text in [file, dataset] {
            let refuse = |why: String| BuildError(format!("a source of the virtual dataset: {why}"));
            if text.contains('\0') {
                return Err(refuse(format!("the name {text:?} contains a NUL")));
            }
            Name::parse(text).map_err(refuse)?;
            out.bytes(text.as_bytes()).u8(0);
        }
        out.bytes(&source.build()?).bytes(&target.build()?);
    }
    Ok(out.checksum().take())
}

/// Returns the earlier entry from which a name is taken.
fn earlier_entry<'m>(cursor: &mut Cursor<'_>, mappings: &'m [Mapping]) -> Parsed<&'m Mapping> {
    let at = cursor.clone();
    let number = cursor.length()?;
    let found = usize::try_from(number).ok().and_then(|number| mappings.get(number));
    found.ok_or_else(|| {
        at.corrupt(format!(
            "mapping {} takes a name from mapping {number}, which does not precede it",
            mappings.len()
        ))
    })
}

/// Reads a name and its trailing NUL.
fn name(cursor: &mut Cursor<'_>) -> Parsed<Name> {
    let at = cursor.clone();
    let end = cursor.clone().take_rest().iter().position(|byte| *byte == 0);
    let bytes =
        cursor.take(end.ok_or_else(|| at.corrupt("expected a NUL at the end of a name, found none"))?)?;
    cursor.skip(1)?;
    Name::parse(&lossless(bytes)).map_err(|why| at.corrupt(why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selection::Slab;
    use crate::testing::{SIZES, append_checksum, changes, fails, needs_all, structure};

    const ALL: [u8; 16] = [3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

    fn slab(start: u64, count: Option<u64>, block: u64) -> Slab {
        Slab { start, stride: block.max(1), count, block: Some(block) }
    }

    /// A selection along one axis, in version 3.
    fn encoded(start: u16, stride: u16, count: u16, block: u16) -> Vec<u8> {
        let numbers = [start, stride, count, block].map(u16::to_le_bytes).concat();
        structure!([2, 0, 0, 0, 3, 0, 0, 0, 1, 2, 1, 0, 0, 0], numbers)
    }

    fn whole(bytes: &[u8]) -> Parsed<Vec<Mapping>> {
        parse(&mut Cursor::whole(bytes, 0, SIZES))
    }

    fn version_0() -> Vec<u8> {
        let (source, target) = (encoded(0, 1, 1, 4), encoded(3, 4, 0xffff, 4));
        append_checksum(structure!([0], 2u64, b"f%b.h5\0d%%\xff\0", source, target, b".\0/x\0", ALL, ALL))
    }

    fn version_1() -> Vec<u8> {
        let first = structure!([0], b"other.h5\0data\0", ALL, encoded(0, 1, 1, 5));
        let second = structure!([3], 0u64, 0u64, ALL, encoded(5, 1, 1, 5));
        let third = structure!([4], b"mine\0", ALL, encoded(10, 1, 1, 5));
        append_checksum(structure!([1], 3u64, first, second, third))
    }

    #[test]
    fn both_versions() {
        let found = whole(&version_0()).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].file.of_block(12), "f12.h5");
        assert_eq!(found[0].dataset.of_block(12), r"d%\xff");
        assert!(found[0].file.is_numbered() && !found[0].dataset.is_numbered());
        assert_eq!(found[0].source, Selection::Regular(vec![Slab { stride: 1, ..slab(0, Some(1), 4) }]));
        assert_eq!(found[0].target, Selection::Regular(vec![slab(3, None, 4)]));
        assert!(found[1].file.is_same_file() && !found[0].file.is_same_file());
        assert_eq!((&found[1].source, &found[1].target), (&Selection::All, &Selection::All));

        let found = whole(&version_1()).unwrap();
        let names: Vec<_> =
            found.iter().map(|entry| (entry.file.of_block(0), entry.dataset.of_block(0))).collect();
        let name = |file: &str, dataset: &str| (file.to_owned(), dataset.to_owned());
        assert_eq!(names, [name("other.h5", "data"), name("other.h5", "data"), name(".", "mine")]);
        assert!(found[2].file.is_same_file());
        assert!(Arc::ptr_eq(&found[0].file.0, &found[1].file.0));
    }

    #[test]
    fn built_mappings_are_read_again() {
        let sources = whole(&version_0()).unwrap().into_iter().map(|mapping| VirtualSource {
            file: mapping.file.text(),
            dataset: mapping.dataset.text(),
            source: mapping.source,
            target: mapping.target,
        });
        let mut sources: Vec<VirtualSource> = sources.collect();
        let found = whole(&build_mappings(&sources).unwrap()).unwrap();
        let expected = whole(&version_0()).unwrap();
        assert_eq!(found.len(), 2);
        // One block has no next one, so its stride means nothing.
        let normal = |selection: Selection| match selection.regularised() {
            Selection::Regular(mut slabs) => {
                slabs.iter_mut().filter(|slab| slab.count == Some(1)).for_each(|slab| slab.stride = 1);
                Selection::Regular(slabs)
            }
            other => other,
        };
        for (found, expected) in found.into_iter().zip(expected) {
            assert_eq!((found.file, found.dataset), (expected.file, expected.dataset));
            assert_eq!(normal(found.source), normal(expected.source));
            assert_eq!(found.target, expected.target);
        }
        sources[0].file = "a%c".into();
        assert!(build_mappings(&sources).unwrap_err().0.contains("expected 'b' or '%'"));
        sources[0].file = "a\0".into();
        assert!(build_mappings(&sources).unwrap_err().0.contains("contains a NUL"));
    }

    #[test]
    fn what_cannot_be() {
        let head = |version: u8, count: u64| [&[version][..], &count.to_le_bytes()].concat();
        let refused = |bytes: Vec<u8>, said: &str| {
            fails(whole(&bytes), said);
        };
        refused(append_checksum(head(2, 0)), "version 2 of the global heap block");
        refused(append_checksum([head(1, 1), vec![8]].concat()), "flags 0x08");
        refused(
            append_checksum([head(1, 1), vec![1], vec![0; 8]].concat()),
            "mapping 0 takes a name from mapping 0",
        );
        refused(
            append_checksum([head(0, u64::MAX), b"x".to_vec()].concat()),
            "expected a NUL at the end of a name, found none",
        );
        refused(
            append_checksum([head(0, 1), b"a%c\0".to_vec()].concat()),
            "expected 'b' or '%' after each '%'",
        );
        refused(
            append_checksum([head(0, 1), b"a%\0".to_vec()].concat()),
            "expected 'b' or '%' after each '%'",
        );
        let mut damaged = version_1();
        damaged[10] ^= 1;
        assert!(matches!(whole(&damaged), Err(ParseError::Checksum { .. })));
        assert!(whole(&append_checksum(head(0, 0))).unwrap().is_empty());
    }

    #[test]
    fn damage_is_an_error_or_mappings() {
        for bytes in [version_0(), version_1()] {
            needs_all(&bytes, whole);
            for (_, damaged) in changes(&bytes, |byte| [0, 1, 2, 4, 0x7f, 0xff, byte ^ 1, byte ^ 0x80]) {
                let _ = parse(&mut Cursor::whole(&damaged, 0, SIZES).verifying(false));
            }
        }
    }
}
