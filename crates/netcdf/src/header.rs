//! The header of a classic file, parsed by a pure function of the file's first bytes.
//!
//! Sources: "The NetCDF Classic Format Specification", and PnetCDF's specification of `CDF\x05`.
//!
//! ```text
//! header   = 'CDF' version  numrecs  dim_list  att_list  var_list
//! …_list   = ABSENT | tag  nelems  [item …]
//! dim      = name  length                                     length 0: the unlimited one
//! att      = name  nc_type  nelems  [value …] padding
//! var      = name  nelems [dimid …]  att_list  nc_type  vsize  begin
//! ```
//!
//! Counts have 4 bytes (8 in `CDF\x05`), places of variables 4 (8 in `CDF\x02` and `CDF\x05`).
//! `vsize` is ignored: it says no more than the dimensions do, and is wrong by design for large
//! variables.

use crate::cursor::Cursor;
use crate::{External, HeaderError};
use hyperslab_hdf5::lossless;
use std::collections::HashSet;

/// One of the three formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `CDF\x01`: the classic format.
    Classic,
    /// `CDF\x02`: variables may begin beyond 2 GiB.
    Offset64,
    /// `CDF\x05`: lengths may be that large too, and there are unsigned and 64-bit integers.
    Data64,
}

/// A dimension of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// Its name.
    pub name: String,
    /// Its length; for the unlimited dimension, the number of records.
    pub len: u64,
    /// `true` for the unlimited dimension. A file has at most one.
    pub unlimited: bool,
}

/// An attribute of a file or of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub external: External,
    /// Its elements as stored, one after the other.
    pub bytes: Vec<u8>,
}

/// A variable as the header declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Declared {
    pub(crate) name: String,
    /// Indices of its dimensions, which exist.
    pub(crate) dimensions: Vec<usize>,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) external: External,
    /// The offset of its first element in the file.
    pub(crate) begin: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) version: Version,
    /// Number of records; `None`: as many as the file has room for.
    pub(crate) records: Option<u64>,
    /// The unlimited dimension has length 0.
    pub(crate) dimensions: Vec<Dimension>,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) variables: Vec<Declared>,
}

pub(crate) const DIMENSION: u32 = 10;
pub(crate) const VARIABLE: u32 = 11;
pub(crate) const ATTRIBUTE: u32 = 12;

impl Attribute {
    /// Its text, if it is text. Bytes that are not UTF-8 become U+FFFD, as in netCDF4-python.
    pub fn text(&self) -> Option<String> {
        (self.external == External::Char).then(|| String::from_utf8_lossy(&self.bytes).into_owned())
    }
}

impl Version {
    /// The version that a file's first bytes name; `None` if it is no classic file.
    pub(crate) fn of(bytes: &[u8]) -> Option<Version> {
        match bytes {
            [b'C', b'D', b'F', 1, ..] => Some(Version::Classic),
            [b'C', b'D', b'F', 2, ..] => Some(Version::Offset64),
            [b'C', b'D', b'F', 5, ..] => Some(Version::Data64),
            _ => None,
        }
    }
}

impl Header {
    /// Parses a header. Fails with [`HeaderError::Need`] if it is longer than `bytes`.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Header, HeaderError> {
        let mut cursor = Cursor::new(bytes);
        let magic = cursor.clone();
        let version = Version::of(cursor.take(4)?).ok_or_else(|| {
            magic.corrupt("expected 'CDF' and version 1, 2 or 5 in its first 4 bytes, found other bytes")
        })?;
        cursor.wide = version == Version::Data64;
        let records = cursor.count()?;
        let streaming = if cursor.wide { u64::MAX } else { u32::MAX.into() };
        let dimensions = list(&mut cursor, DIMENSION, dimension, |dimension| &dimension.name)?;
        if dimensions.iter().filter(|dimension| dimension.unlimited).count() > 1 {
            return Err(cursor.corrupt("expected at most one unlimited dimension (length 0), found more"));
        }
        let attributes = list(&mut cursor, ATTRIBUTE, attribute, |attribute| &attribute.name)?;
        let variable = |cursor: &mut Cursor<'_>| declared(cursor, version, &dimensions);
        let variables = list(&mut cursor, VARIABLE, variable, |variable| &variable.name)?;
        let records = (records != streaming).then_some(records);
        Ok(Header { version, records, dimensions, attributes, variables })
    }
}

/// A list of items that `item` parses, each with another name.
fn list<T>(
    cursor: &mut Cursor<'_>,
    tag: u32,
    item: impl Fn(&mut Cursor<'_>) -> Result<T, HeaderError>,
    name: impl Fn(&T) -> &String,
) -> Result<Vec<T>, HeaderError> {
    let start = cursor.clone();
    let found = cursor.u32()?;
    let count = cursor.count()?;
    if found != tag && (found, count) != (0, 0) {
        return Err(
            start.corrupt(format!("expected a list with tag {tag}, found tag {found} and {count} items"))
        );
    }
    // Do not allocate for the claimed count. Each item takes bytes that must exist.
    let mut items = Vec::new();
    for _ in 0..count {
        items.push(item(cursor)?);
    }
    let mut names = HashSet::new();
    match items.iter().map(name).find(|name| !names.insert(*name)) {
        Some(twice) => Err(start.corrupt(format!("two items have the name '{twice}'"))),
        None => Ok(items),
    }
}

fn dimension(cursor: &mut Cursor<'_>) -> Result<Dimension, HeaderError> {
    let name = name(cursor)?;
    let len = cursor.count()?;
    Ok(Dimension { name, len, unlimited: len == 0 })
}

fn attribute(cursor: &mut Cursor<'_>) -> Result<Attribute, HeaderError> {
    let name = name(cursor)?;
    let external = external_type(cursor)?;
    let count = cursor.clone();
    let bytes = cursor.count()?.checked_mul(external.dtype().size() as u64);
    let bytes = bytes.ok_or_else(|| count.corrupt(format!("attribute '{name}' has more than 2⁶⁴ bytes")))?;
    Ok(Attribute { name, external, bytes: cursor.take_padded(bytes)?.to_vec() })
}

fn declared(
    cursor: &mut Cursor<'_>,
    version: Version,
    dimensions: &[Dimension],
) -> Result<Declared, HeaderError> {
    let name = name(cursor)?;
    let mut ids = Vec::new();
    for axis in 0..cursor.count()? {
        let at = cursor.clone();
        let id = cursor.count()?;
        let found = usize::try_from(id).ok().and_then(|id| Some((id, dimensions.get(id)?)));
        match found {
            Some((_, dimension)) if dimension.unlimited && axis > 0 => {
                let why = format!(
                    "variable '{name}': expected the unlimited dimension as axis 0, found it as axis {axis}"
                );
                return Err(at.corrupt(why));
            }
            Some((id, _)) => ids.push(id),
            None => {
                let count = dimensions.len();
                return Err(at.corrupt(format!(
                    "variable '{name}' has dimension {id}, but the file has {count} dimensions"
                )));
            }
        }
    }
    let attributes = list(cursor, ATTRIBUTE, attribute, |attribute| &attribute.name)?;
    let external = external_type(cursor)?;
    let _vsize = cursor.count()?;
    let begin = cursor.uint(if version == Version::Classic { 4 } else { 8 })?;
    Ok(Declared { name, dimensions: ids, attributes, external, begin })
}

fn external_type(cursor: &mut Cursor<'_>) -> Result<External, HeaderError> {
    let at = cursor.clone();
    let number = cursor.u32()?;
    External::of(number, cursor.wide).ok_or_else(|| {
        at.corrupt(format!(
            "expected an external type of 1 to {}, found {number}",
            if cursor.wide { 11 } else { 6 }
        ))
    })
}

fn name(cursor: &mut Cursor<'_>) -> Result<String, HeaderError> {
    let len = cursor.count()?;
    Ok(lossless(cursor.take_padded(len)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Classic;

    fn example(version: u8) -> Vec<u8> {
        Classic::new(version)
            .records(3)
            .dimension("time", 0)
            .dimension("x", 5)
            .attribute("title", 2, b"a caf\xe9!")
            .attribute("empty", 6, b"")
            .variable("t", &[0], 6, &[("units", 2, b"days"), ("n", 3, &[1, 2, 3, 4, 5, 6])], 1000)
            .variable("v", &[0, 1], 5, &[], 1008)
            .header()
    }

    #[test]
    fn three_versions() {
        for (version, expected) in [(1, Version::Classic), (2, Version::Offset64), (5, Version::Data64)] {
            let bytes = example(version);
            let header = Header::parse(&bytes).unwrap();
            assert_eq!((header.version, header.records), (expected, Some(3)));
            let time = Dimension { name: "time".into(), len: 0, unlimited: true };
            let x = Dimension { name: "x".into(), len: 5, unlimited: false };
            assert_eq!(header.dimensions, [time, x]);
            assert_eq!(header.attributes[0].text().unwrap(), "a caf\u{fffd}!");
            assert_eq!((header.attributes[1].text(), header.attributes[1].bytes.len()), (None, 0));
            let [t, v] = &header.variables[..] else { panic!("two variables") };
            assert_eq!(
                (&*t.name, &*t.dimensions, t.external, t.begin),
                ("t", &[0][..], External::Double, 1000)
            );
            assert_eq!(
                (t.attributes[1].external, &*t.attributes[1].bytes),
                (External::Short, &[1, 2, 3, 4, 5, 6][..])
            );
            assert_eq!(
                (&*v.name, &*v.dimensions, v.external, v.begin),
                ("v", &[0, 1][..], External::Float, 1008)
            );
            // Every shorter beginning needs more bytes, but no more than the header has.
            for len in 0..bytes.len() {
                match Header::parse(&bytes[..len]) {
                    Err(HeaderError::Need(needed)) => {
                        assert!(needed > len as u64 && needed <= bytes.len() as u64)
                    }
                    other => panic!("{len}: {other:?}"),
                }
            }
        }
        let empty = Classic::new(1).records(u32::MAX.into()).header();
        assert_eq!(empty.len(), 32);
        assert_eq!(Header::parse(&empty).unwrap().records, None);
    }

    #[test]
    fn what_cannot_be_right() {
        let refused = |bytes: &[u8], part: &str| {
            let error = Header::parse(bytes).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        refused(b"CDF\x03", "version 1, 2 or 5");
        refused(b"\x89HDF", "version 1, 2 or 5");
        refused(&Classic::new(1).dimension("a", 0).dimension("b", 0).header(), "unlimited");
        refused(&Classic::new(1).dimension("a", 1).dimension("a", 2).header(), "two items have the name 'a'");
        refused(
            &Classic::new(1).attribute("a", 7, b"").header(),
            "expected an external type of 1 to 6, found 7",
        );
        refused(
            &Classic::new(1).variable("v", &[0], 1, &[], 0).header(),
            "has dimension 0, but the file has 0 dimensions",
        );
        let swapped = Classic::new(5).dimension("a", 2).dimension("b", 0).variable("v", &[0, 1], 1, &[], 0);
        refused(&swapped.header(), "as axis 0, found it as axis 1");
        let mut bytes = example(1);
        bytes[11] = 12;
        refused(&bytes, "expected a list with tag 10");
        // The header claims 2³² dimensions, but has two.
        let mut bytes = example(1);
        bytes[12] = 0xff;
        assert!(Header::parse(&bytes).is_err());
    }

    #[test]
    fn any_byte_changed() {
        for version in [1, 2, 5] {
            let bytes = example(version);
            for at in 0..bytes.len() {
                for value in [0, 1, 0x7f, 0x80, 0xff, bytes[at] ^ 1, bytes[at].wrapping_add(1)] {
                    let mut bytes = bytes.clone();
                    bytes[at] = value;
                    let _ = Header::parse(&bytes);
                }
            }
        }
    }
}
