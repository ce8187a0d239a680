//! Parsers as functions of bytes alone, for the fuzz target `hdf5_parts`.

use crate::datatype::Datatype;
use crate::element::Element;
use crate::messages::attribute::{AttributeInfo, AttributeParts, NameRecord};
use crate::messages::data_layout::DataLayout;
use crate::messages::dataspace::Dataspace;
use crate::messages::external_files::ExternalFiles;
use crate::messages::fill_value::FillValue;
use crate::messages::link::{LinkHead, LinkInfo, SymbolTable};
use crate::messages::shared::{Shared, Table};
use crate::messages::{filter, times};
use crate::output::NEW_SIZES;
use crate::selection::Selection;
use crate::superblock::{DriverInfo, Superblock};
use crate::{Cursor, Link, Sizes, edit, virtual_mapping};

/// Parses bytes as the structure that the first byte selects. The upper bit selects short addresses.
pub fn parse_anything(bytes: &[u8]) {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let sizes = if first & 0x80 == 0 { NEW_SIZES } else { Sizes { offset: 4, length: 4 } };
    let cursor = &mut Cursor::whole(bytes, 0, sizes).verifying(first & 0x40 == 0);
    match first & 0x3f {
        0 => drop(AttributeInfo::parse(cursor)),
        1 => attribute(cursor),
        2 => drop(NameRecord::parse(cursor)),
        3 => drop(DataLayout::parse(cursor)),
        4 => drop(Dataspace::parse(cursor)),
        5 => drop(ExternalFiles::parse(cursor)),
        6 => drop(FillValue::parse(cursor)),
        7 => drop(FillValue::parse_old(cursor)),
        8 => drop(filter::parse(cursor)),
        9 => drop(LinkHead::parse(&mut cursor.clone()).map(|_| Link::parse(cursor))),
        10 => drop(LinkInfo::parse(cursor)),
        11 => drop(SymbolTable::parse(cursor)),
        12 => drop(Shared::parse(cursor)),
        13 => drop(Table::parse(cursor, 4)),
        14 => drop(times::parse(cursor)),
        15 => datatype(cursor),
        16 => drop(Superblock::parse(cursor)),
        17 => drop(DriverInfo::parse_block(cursor)),
        18 => drop(DriverInfo::parse_message(cursor)),
        19 => drop(Selection::parse(cursor)),
        20 => drop(virtual_mapping::parse(cursor)),
        _ => edit::redo::parse_anything(bytes),
    }
}

/// Parses an attribute, its type and its shape.
fn attribute(cursor: &mut Cursor<'_>) {
    let Ok(mut parts) = AttributeParts::parse(cursor) else { return };
    datatype(&mut parts.datatype);
    let _ = Dataspace::parse(&mut parts.dataspace);
}

/// Parses a type, and converts an element of it.
fn datatype(cursor: &mut Cursor<'_>) {
    /// The largest element that is converted.
    const MOST: usize = 1 << 12;
    let sizes = cursor.sizes();
    let Ok(found) = Datatype::parse(cursor) else { return };
    let Ok(element) = Element::of(&found, sizes) else { return };
    let _ = (element.to_json(), element.engine_type(), element.unstorable(&found));
    let Some(stored) = usize::try_from(found.size).ok().filter(|size| *size <= MOST) else { return };
    if let Some(codec) = element.conversion(&found).filter(|_| element.size <= MOST) {
        let mut memory = vec![0; element.size];
        let _ = codec.decode(&vec![0xa5; stored], &mut memory, &mut Default::default());
    }
}
