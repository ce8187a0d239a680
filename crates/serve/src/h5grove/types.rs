//! Element types as h5grove describes them: numbers of the HDF5 library, and NumPy's names.

use hyperslab::Json;
use hyperslab::hdf5::Sizes;
use hyperslab::hdf5::datatype::{Charset, Class, Datatype, Order, Padding, ReferenceKind};
use hyperslab::hdf5::element::{Element, ElementKind};

/// Bytes of a pointer, of a sequence, and of references in the memory of the HDF5 library.
const TEXT: u64 = 8;
const SEQUENCE: u64 = 16;
const REGION: u64 = 12;
const REFERENCE: u64 = 64;

/// Describes a type. `sizes`: of addresses in its file.
pub(super) fn described(datatype: &Datatype, sizes: Sizes) -> Json {
    let mut members: Vec<(&str, Json)> = Vec::new();
    let class: u64 = match &datatype.class {
        Class::Integer { order, signed, .. } => {
            members.push(("order", order_number(*order)));
            members.push(("sign", u64::from(*signed).into()));
            0
        }
        Class::Float(layout) => {
            members.push(("order", order_number(layout.order)));
            1
        }
        Class::Time { .. } => 2,
        Class::String { padding, charset } => {
            members.extend(text(*padding, *charset, false));
            3
        }
        Class::VlenString { padding, charset } => {
            members.extend(text(*padding, *charset, true));
            3
        }
        Class::Bitfield { order, .. } => {
            members.push(("order", order_number(*order)));
            4
        }
        Class::Opaque { tag } => {
            members.push(("tag", tag.as_str().into()));
            5
        }
        Class::Compound(fields) => {
            let field = |field: &hyperslab::hdf5::datatype::Member| {
                let mut json = described(&field.datatype, sizes);
                json.set("name", field.name.as_str().into());
                json
            };
            members.push(("members", Json::Array(fields.iter().map(field).collect())));
            6
        }
        Class::Reference(_) => 7,
        Class::Enum { base, members: values } => {
            members.push(("members", Json::Object(enumerated(base, values))));
            members.push(("base", described(base, sizes)));
            8
        }
        Class::Vlen(base) => {
            members.push(("base", described(base, sizes)));
            9
        }
        Class::Array { shape, base } => {
            let dims = shape.iter().map(|len| u64::from(*len).into()).collect();
            members.push(("dims", Json::Array(dims)));
            members.push(("base", described(base, sizes)));
            10
        }
        Class::Complex(_) => 11,
    };
    members.push(("class", class.into()));
    members.push(("size", memory_size(datatype).into()));
    let name = match Element::of(datatype, sizes) {
        Ok(element) => numpy_name(&element),
        // NumPy has no such type.
        Err(_) => format!("|V{}", datatype.size).as_str().into(),
    };
    members.push(("dtype", name));
    Json::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn order_number(order: Order) -> Json {
    let number: u64 = match order {
        Order::Little => 0,
        Order::Big => 1,
        Order::Vax => 2,
    };
    number.into()
}

fn text(padding: Padding, charset: Charset, is_vlen: bool) -> [(&'static str, Json); 3] {
    let padding: u64 = match padding {
        Padding::NullTerminated => 0,
        Padding::NullPadded => 1,
        Padding::SpacePadded => 2,
    };
    [("cset", u64::from(charset.is_utf8()).into()), ("strpad", padding.into()), ("vlen", is_vlen.into())]
}

/// Names and values of an enumeration.
fn enumerated(base: &Datatype, values: &[(String, Vec<u8>)]) -> Vec<(String, Json)> {
    let (order, signed) = match &base.class {
        Class::Integer { order, signed, .. } => (*order, *signed),
        _ => (Order::Little, false),
    };
    let number = |bytes: &[u8]| {
        let mut little = bytes.to_vec();
        if order == Order::Big {
            little.reverse();
        }
        let is_negative = signed && little.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut wide = [if is_negative { 0xff } else { 0 }; 16];
        wide.iter_mut().zip(&little).for_each(|(to, from)| *to = *from);
        Json::from(i128::from_le_bytes(wide))
    };
    values.iter().map(|(name, bytes)| (name.clone(), number(bytes))).collect()
}

/// Bytes of an element in the memory of the HDF5 library. Its pointers replace ids of heaps.
fn memory_size(datatype: &Datatype) -> u64 {
    let stored = u64::from(datatype.size);
    match &datatype.class {
        Class::VlenString { .. } => TEXT,
        Class::Vlen(_) => SEQUENCE,
        Class::Reference(ReferenceKind::Object) => stored,
        Class::Reference(ReferenceKind::Region) => REGION,
        Class::Reference(_) => REFERENCE,
        Class::Array { shape, base } => {
            shape.iter().fold(memory_size(base), |bytes, len| bytes.saturating_mul(u64::from(*len)))
        }
        Class::Compound(members) => members.iter().fold(stored, |bytes, member| {
            let own = u64::from(member.datatype.size);
            (bytes + memory_size(&member.datatype)).saturating_sub(own)
        }),
        _ => stored,
    }
}

/// The name of a type in NumPy, as h5py reads it. Fields have a name each.
fn numpy_name(element: &Element) -> Json {
    let name = match &element.kind {
        ElementKind::Plain(dtype) | ElementKind::Enum { base: dtype, .. } => dtype.numpy(),
        ElementKind::Extended { order, complex } => {
            let order = if *order == hyperslab::ByteOrder::Little { '<' } else { '>' };
            format!("{order}{}{}", if *complex { 'c' } else { 'f' }, element.size)
        }
        ElementKind::FixedString { .. } => format!("|S{}", element.size),
        ElementKind::Struct(fields) => {
            let field =
                |field: &hyperslab::hdf5::element::Field| (field.name.clone(), numpy_name(&field.element));
            return Json::Object(fields.iter().map(field).collect());
        }
        ElementKind::Array { .. } | ElementKind::Unsupported(_) => format!("|V{}", element.size),
        ElementKind::VlenString { .. }
        | ElementKind::Vlen { .. }
        | ElementKind::ObjectReference
        | ElementKind::RegionReference
        | ElementKind::AnyReference => "|O".into(),
    };
    name.as_str().into()
}
