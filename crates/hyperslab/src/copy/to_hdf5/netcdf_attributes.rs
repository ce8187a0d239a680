//! Attributes of a NetCDF-4 copy, in the types that netCDF-C writes: text, or numbers in one dimension.

use super::attributes::{self, number};
use crate::Json;
use hyperslab_hdf5::dataspace::Dataspace;
use hyperslab_hdf5::datatype::{Class, Datatype};
use hyperslab_hdf5::new_file::{NewAttribute, ValuePart};
use hyperslab_netcdf::netcdf4::written;
use hyperslab_netcdf::{Attribute, External};

/// An attribute from JSON. The flag tells whether it became JSON text.
pub(super) fn of_json(name: &str, json: &Json) -> (NewAttribute, bool) {
    let (mut made, is_text) = attributes::of_json(name, json);
    match (&made.datatype.class, &made.value[..]) {
        (Class::VlenString { .. }, [ValuePart::Vlen { items, .. }]) => {
            let bytes = match &items[..] {
                [ValuePart::Bytes(bytes)] => bytes.clone(),
                _ => Vec::new(),
            };
            if bytes.is_ascii() {
                return (written::text_of(name, &bytes), is_text);
            }
        }
        // NetCDF has no Boolean values.
        (Class::Enum { .. }, _) => made.datatype = number("|i1"),
        _ => {}
    }
    if let Some(count) = made.dataspace.count().filter(|_| made.dataspace != Dataspace::Null) {
        made.dataspace = if count == 0 { Dataspace::Null } else { Dataspace::fixed(&[count]) };
    }
    (made, is_text)
}

/// The attributes of a classic file, with their types.
pub(super) fn of_classic(attributes: &[Attribute]) -> Vec<NewAttribute> {
    attributes.iter().map(one_of_classic).collect()
}

fn one_of_classic(attribute: &Attribute) -> NewAttribute {
    let Attribute { name, external, bytes } = attribute;
    if *external == External::Char {
        return written::text_of(name, bytes);
    }
    let size = external.dtype().size().max(1);
    let value: Vec<u8> = bytes.chunks_exact(size).flat_map(|element| element.iter().rev().copied()).collect();
    let dataspace = match (value.len() / size) as u64 {
        0 => Dataspace::Null,
        count => Dataspace::fixed(&[count]),
    };
    let little = external.dtype().with_order(hyperslab_codec::ByteOrder::Little);
    let datatype = Datatype::of_numpy(little).unwrap_or_else(|_| number("|i1"));
    NewAttribute { name: name.clone(), datatype, dataspace, value: vec![ValuePart::Bytes(value)] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> NewAttribute {
        of_json("a", &Json::parse(text.as_bytes()).unwrap()).0
    }

    #[test]
    fn text_and_numbers_in_the_types_of_netcdf() {
        assert_eq!(json("\"K\""), written::text_of("a", b"K"));
        assert_eq!(json("[\"K\"]"), written::text_of("a", b"K"));
        assert_eq!(json("\"é\"").dataspace, Dataspace::fixed(&[1]));
        assert_eq!(json("[\"a\", \"b\"]").dataspace, Dataspace::fixed(&[2]));
        assert_eq!(json("3").dataspace, Dataspace::fixed(&[1]));
        assert_eq!(json("[[1, 2], [3, 4]]").dataspace, Dataspace::fixed(&[4]));
        assert_eq!(json("[]").dataspace, Dataspace::Null);
        assert_eq!(
            (json("true").datatype, json("true").value),
            (number("|i1"), vec![ValuePart::Bytes(vec![1])])
        );
    }

    #[test]
    fn classic_attributes_keep_their_types() {
        let attribute = |external, bytes: &[u8]| {
            one_of_classic(&Attribute { name: "a".into(), external, bytes: bytes.to_vec() })
        };
        assert_eq!(attribute(External::Char, b"m"), written::text_of("a", b"m"));
        let short = attribute(External::Short, &[0, 1, 0, 2]);
        assert_eq!(short.datatype, number("<i2"));
        assert_eq!(
            (short.value, short.dataspace),
            (vec![ValuePart::Bytes(vec![1, 0, 2, 0])], Dataspace::fixed(&[2]))
        );
        assert_eq!(attribute(External::Int, &[]).dataspace, Dataspace::Null);
    }
}
