//! Links, and how a group stores them.
//!
//! Specification IV.A.2.g, "The Link Message"; IV.A.2.c, "The Link Info Message"; IV.A.2.r, "The
//! Symbol Table Message".

use crate::error::{BuildError, Built};
use crate::group::{Link, LinkTarget};
use crate::output::{Output, fit, width};
use crate::text::lossless;
use crate::{Cursor, ParseError, Parsed};

pub const INFO_KIND: u16 = 0x02;
pub const KIND: u16 = 0x06;

pub const SYMBOL_TABLE_KIND: u16 = 0x11;

pub const GROUP_INFO_KIND: u16 = 0x0a;

/// The link type of external links.
const EXTERNAL: u8 = 64;

/// The part of a link message before the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkHead<'a> {
    /// The type: 0 hard, 1 soft, 64 external, others user-defined.
    pub kind: u8,
    pub creation_order: Option<i64>,
    /// The name as stored.
    pub name: &'a [u8],
}

impl<'a> LinkHead<'a> {
    /// Parses the head. The cursor is then at the target: of a hard link, an address.
    pub fn parse(cursor: &mut Cursor<'a>) -> Parsed<LinkHead<'a>> {
        cursor.version("link message", &[1])?;
        let flags = cursor.u8()?;
        let kind = if flags & 8 != 0 { cursor.u8()? } else { 0 };
        let creation_order = if flags & 4 != 0 { Some(cursor.u64()?.cast_signed()) } else { None };
        // Skip the character set of the name. Writers store wrong ones.
        cursor.skip(if flags & 0x10 != 0 { 1 } else { 0 })?;
        let len = cursor.uint(1 << (flags & 3))?;
        let name = cursor.take_u64(len)?;
        if name.is_empty() {
            return Err(cursor.corrupt("expected the name of a link, found an empty name"));
        }
        Ok(LinkHead { kind, creation_order, name })
    }
}

impl Link {
    /// Parses a link message, from an object header or from a group's fractal heap.
    pub fn parse(cursor: &mut Cursor<'_>) -> Parsed<Link> {
        let LinkHead { kind, creation_order, name } = LinkHead::parse(cursor)?;
        let name = lossless(name);
        let target = match kind {
            0 => LinkTarget::Hard(cursor.defined_address("the object that a link leads to")?),
            1 => {
                let len = usize::from(cursor.u16()?);
                LinkTarget::Soft(lossless(cursor.take(len)?))
            }
            EXTERNAL => external_target(cursor)?,
            65.. => LinkTarget::UserDefined(kind),
            _ => {
                return Err(ParseError::Unsupported(format!("link type {kind} (known: 0, 1 and 64 to 255)")));
            }
        };
        Ok(Link { name, target, creation_order })
    }
}

impl Link {
    /// Builds the message.
    pub(crate) fn build(&self) -> Built<Vec<u8>> {
        let kind = match &self.target {
            LinkTarget::Hard(_) => 0,
            LinkTarget::Soft(_) => 1,
            LinkTarget::External { .. } => EXTERNAL,
            LinkTarget::UserDefined(kind) => {
                return Err(BuildError(format!("link '{}' of the user-defined type {kind}", self.name)));
            }
        };
        let width = match width(self.name.len() as u64) {
            3 => 4,
            5.. => 8,
            width => width,
        };
        let tracked = if self.creation_order.is_some() { 4 } else { 0 };
        let named_kind = if kind == 0 { 0 } else { 8 };
        let charset = if self.name.is_ascii() { 0 } else { 0x10 };
        let mut out = Output::new();
        out.u8(1)
            .u8(u8::try_from(width.trailing_zeros()).unwrap_or_default() | tracked | named_kind | charset);
        if kind != 0 {
            out.u8(kind);
        }
        if let Some(order) = self.creation_order {
            out.u64(order.cast_unsigned());
        }
        if charset != 0 {
            out.u8(1);
        }
        out.uint(self.name.len() as u64, width.into()).bytes(self.name.as_bytes());
        match &self.target {
            LinkTarget::Hard(address) => drop(out.u64(*address)),
            LinkTarget::Soft(path) => {
                out.u16(fit(path.len() as u64, "bytes of the path of a soft link")?).bytes(path.as_bytes());
            }
            LinkTarget::External { file, path } => {
                let value = [&[0], file.as_bytes(), &[0], path.as_bytes(), &[0]].concat();
                out.u16(fit(value.len() as u64, "bytes of an external link")?).bytes(&value);
            }
            LinkTarget::UserDefined(_) => {}
        }
        Ok(out.take())
    }
}

/// Parses the name of a file and a path in that file. A NUL ends each.
fn external_target(cursor: &mut Cursor<'_>) -> Parsed<LinkTarget> {
    let len = usize::from(cursor.u16()?);
    let mut value = cursor.part(len)?;
    // Version and flags share one byte.
    value.version("external link", &[0])?;
    let at = value.clone();
    match value.take_rest().split(|byte| *byte == 0).collect::<Vec<_>>()[..] {
        [file, path, ..] => Ok(LinkTarget::External { file: lossless(file), path: lossless(path) }),
        _ => Err(at.corrupt("expected a file and a path in an external link, found no path")),
    }
}

/// Storage of links that are not in the group's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkInfo {
    /// `true` if links have a creation order.
    pub tracked: bool,
    /// Address of the fractal heap. `None`: all links are messages in the header.
    pub heap: Option<u64>,
    /// Address of the B-tree of names.
    pub names: Option<u64>,
}

impl LinkInfo {
    pub fn parse(cursor: &mut Cursor<'_>) -> Parsed<LinkInfo> {
        cursor.version("link info message", &[0])?;
        let flags = cursor.u8()?;
        cursor.skip(if flags & 1 != 0 { 8 } else { 0 })?;
        let (heap, names) = (cursor.offset()?, cursor.offset()?);
        Ok(LinkInfo { tracked: flags & 1 != 0, heap, names })
    }
}

/// Addresses of the heap of links, of the index of their names, and of the index of their creation
/// orders. `None`: the links are in the header.
pub(crate) type DenseLinks = [Option<u64>; 3];

/// Builds the link info message of a group. `next`: the number of the next link, if links have a
/// creation order. netCDF changes groups only if that is indexed, too.
pub(crate) fn build_info(next: Option<u64>, [heap, names, orders]: DenseLinks) -> Vec<u8> {
    let mut out = Output::new();
    out.u8(0).u8(if next.is_some() { 3 } else { 0 });
    if let Some(next) = next {
        out.u64(next);
    }
    out.address(heap).address(names);
    if next.is_some() {
        out.address(orders);
    }
    out.take()
}

/// Builds the group info message (IV.A.2.k) with the library's own settings. The HDF5 library adds
/// links only to new groups that have the message.
pub(crate) fn build_group_info() -> Vec<u8> {
    // Version and flags.
    vec![0, 0]
}

/// Storage of links in an old group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SymbolTable {
    pub btree: u64,
    pub heap: u64,
}

impl SymbolTable {
    pub(crate) fn build(&self) -> Vec<u8> {
        Output::new().u64(self.btree).u64(self.heap).take()
    }

    pub fn parse(cursor: &mut Cursor<'_>) -> Parsed<SymbolTable> {
        let btree = cursor.defined_address("the B-tree of links")?;
        Ok(SymbolTable { btree, heap: cursor.defined_address("the heap of names")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sizes;
    use crate::testing::{changes, needs_all};
    use proptest::prelude::*;

    const SIZES: Sizes = Sizes { offset: 4, length: 4 };

    fn link(bytes: &[u8]) -> Parsed<Link> {
        Link::parse(&mut Cursor::whole(bytes, 0, SIZES))
    }

    #[test]
    fn links_of_all_kinds() {
        let made = |name: &str, target, creation_order| Link { name: name.into(), target, creation_order };
        let hard = link(&[1, 0, 1, b'a', 0, 1, 0, 0]).unwrap();
        assert_eq!(hard, made("a", LinkTarget::Hard(256), None));
        // With creation order, a UTF-8 name and a length of two bytes.
        let soft = link(b"\x01\x1d\x01\x05\0\0\0\0\0\0\0\x01\x02\0\xc3\xa9\x02\0/x").unwrap();
        assert_eq!(soft, made("é", LinkTarget::Soft("/x".into()), Some(5)));
        let external = link(b"\x01\x08\x40\x01e\x09\0\0b.h5\0/x\0").unwrap();
        assert_eq!(
            external,
            made("e", LinkTarget::External { file: "b.h5".into(), path: "/x".into() }, None)
        );
        let user = link(b"\x01\x08\x41\x01\xffxyz").unwrap();
        assert_eq!(user, made("\\xff", LinkTarget::UserDefined(65), None));
    }

    #[test]
    fn what_cannot_be() {
        for bytes in [
            &b"\x02\0\x01a\0\x01\0\0"[..],
            b"\x01\0\0\0\x01\0\0",
            b"\x01\0\x01a\xff\xff\xff\xff",
            b"\x01\x08\x02\x01a\0\0\0\0",
            b"\x01\x08\x40\x01e\x05\0\0b.h5",
            b"\x01\x03\xff\xff\xff\xff\xff\xff\xff\xffa",
        ] {
            assert!(link(bytes).is_err(), "{}", bytes.escape_ascii());
        }
        let good = b"\x01\x1d\x40\x05\0\0\0\0\0\0\0\x01\x02\0\xc3\xa9\x09\0\0b.h5\0/x\0";
        assert!(link(good).is_ok());
        needs_all(good, link);
        let wrong = changes(good, |byte| (0..8).map(move |bit| byte ^ 1 << bit));
        wrong.for_each(|(_, wrong)| drop(link(&wrong)));
    }

    #[test]
    fn groups() {
        let info = |bytes: &[u8]| LinkInfo::parse(&mut Cursor::whole(bytes, 0, SIZES));
        let none = [0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(info(&none), Ok(LinkInfo { tracked: false, heap: None, names: None }));
        let all = [0, 3, 9, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0];
        assert_eq!(info(&all), Ok(LinkInfo { tracked: true, heap: Some(1), names: Some(2) }));
        assert!(info(&[1, 0]).is_err());
        let table = SymbolTable::parse(&mut Cursor::whole(&[1, 0, 0, 0, 2, 0, 0, 0], 0, SIZES));
        assert_eq!(table, Ok(SymbolTable { btree: 1, heap: 2 }));
    }

    fn any_link() -> impl Strategy<Value = Link> {
        let target = prop_oneof![
            (0..u64::MAX).prop_map(LinkTarget::Hard),
            "[a-zé/.]{0,300}".prop_map(LinkTarget::Soft),
            ("[a-zé/.]{0,30}", "[a-zé/.]{0,30}").prop_map(|(file, path)| LinkTarget::External { file, path }),
        ];
        ("[a-zé]{1,300}", target, any::<Option<i64>>()).prop_map(|(name, target, creation_order)| Link {
            name,
            target,
            creation_order,
        })
    }

    proptest! {
        #[test]
        fn what_is_built_is_parsed(link in any_link(), next in any::<Option<u64>>()) {
            let sizes = Sizes { offset: 8, length: 8 };
            let built = link.build().unwrap();
            let mut cursor = Cursor::whole(&built, 0, sizes);
            prop_assert_eq!(Link::parse(&mut cursor), Ok(link));
            prop_assert!(cursor.is_empty());
            let info = build_info(next, [None; 3]);
            let expected = LinkInfo { tracked: next.is_some(), heap: None, names: None };
            prop_assert_eq!(LinkInfo::parse(&mut Cursor::whole(&info, 0, sizes)), Ok(expected));
            let info = build_info(next, [Some(1), Some(2), Some(3)]);
            let expected = LinkInfo { tracked: next.is_some(), heap: Some(1), names: Some(2) };
            prop_assert_eq!(LinkInfo::parse(&mut Cursor::whole(&info, 0, sizes)), Ok(expected));
        }
    }
}
