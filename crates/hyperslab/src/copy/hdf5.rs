//! Copying datasets of HDF5: what of them a Zarr array can say.

use super::convert::{Facts, Notes};
use super::{Compressors, CopyOptions, ragged};
use crate::hdf5_array::Hdf5Array;
use crate::{DataFile, Error, Group, Json, Node, hdf5_json};
use hyperslab_hdf5::element::ElementKind;
use hyperslab_hdf5::value::Value;
use hyperslab_hdf5::{Attribute, Dataset, Hdf5Error};
use hyperslab_netcdf::netcdf4;

pub(super) const NO_DATATYPES: &str = "committed datatypes left out, which Zarr has not";
pub(super) const NO_LINKS: &str = "links left out, which Zarr has not";
const OTHER_CODECS: &str = "compressed in another way, because HDF5's filters are not Zarr's codecs";
const NO_ATTRIBUTE: &str = "attributes left out, whose type has no words in JSON";
const LONG_MEANINGS: &str = "names of enumeration values left out, because some have spaces";

/// Filters that do not make chunks smaller: shuffle, fletcher32, bitshuffle (which may).
const SHUFFLE: u16 = 2;
const FLETCHER32: u16 = 3;
const BITSHUFFLE: u16 = 32008;

/// What the copy of a dataset takes over. Errors with [`Error::Copy`] where Zarr has no such array.
pub(crate) fn facts(
    array: &Hdf5Array,
    name: &str,
    options: &CopyOptions<'_>,
    is_netcdf: bool,
    notes: &mut Notes,
) -> Result<Facts, Error> {
    let dataset = array.dataset();
    let refuse = |why: &str| Err(Error::Copy { array: name.to_owned(), why: why.to_owned() });
    if let Some(problem) = array.problem() {
        return refuse(&problem);
    }
    let mut attributes = attributes(&dataset.attributes()?, name, options, is_netcdf, notes)?;
    match &dataset.element().kind {
        ElementKind::Plain(_) | ElementKind::FixedString { .. } => {}
        ElementKind::Enum { members, .. } => flags(&mut attributes, members, name, notes),
        ElementKind::VlenString { .. } | ElementKind::ObjectReference => {}
        ElementKind::Vlen { element, .. } if matches!(element.kind, ElementKind::Plain(_)) => {}
        ElementKind::Vlen { .. } => {
            return refuse("sequences of what is no plain number are not supported in Zarr");
        }
        ElementKind::Struct(_) => return refuse("compound elements are not supported in Zarr yet"),
        ElementKind::Array { .. } => return refuse("arrays as elements are not supported in Zarr"),
        ElementKind::Extended { .. } => return refuse("floats of 80 bits are not supported in Zarr"),
        ElementKind::RegionReference | ElementKind::AnyReference => {
            return refuse("references to regions as elements are not supported in Zarr");
        }
        ElementKind::Unsupported(what) => return refuse(&format!("{what} is not supported")),
    }
    let dtype = array.layout().dtype();
    Ok(Facts {
        order: dtype.order(),
        fill: Some(match dataset.element().kind {
            ElementKind::VlenString { .. } => ragged::absent_text(dataset, name)?,
            ElementKind::Vlen { .. } | ElementKind::ObjectReference => Vec::new(),
            _ => dataset.absent_value().map_or_else(|| vec![0; dtype.size()], <[u8]>::to_vec),
        }),
        attributes,
        dimension_names: netcdf4::dimension_names(dataset)?,
        key_encoding: None,
        fortran_order: false,
    })
}

/// Whether a node is in a file of NetCDF-4.
pub(crate) fn is_netcdf(node: &Node) -> Result<bool, Error> {
    let file = match node {
        Node::Array(array) => array.file(),
        Node::Group(group) => group.file(),
    };
    match file {
        Some(DataFile::Hdf5(file)) => Ok(netcdf4::is_netcdf4(&file)?),
        _ => Ok(false),
    }
}

/// The attributes of a group.
pub(crate) fn group_attributes(
    group: &Group,
    name: &str,
    options: &CopyOptions<'_>,
    is_netcdf: bool,
    notes: &mut Notes,
) -> Result<Json, Error> {
    match group.as_hdf5() {
        Some(hdf5) => attributes(&hdf5.attributes()?, name, options, is_netcdf, notes),
        None => Ok(group.attributes()?.into_owned()),
    }
}

/// The attributes, without those that say what dimension names say, or that a file is of NetCDF. In
/// NetCDF a list of one number is that number.
fn attributes(
    found: &[Attribute],
    name: &str,
    options: &CopyOptions<'_>,
    is_netcdf: bool,
    notes: &mut Notes,
) -> Result<Json, Error> {
    let class = found.iter().find(|attribute| attribute.name == "CLASS").map(Attribute::value).transpose()?;
    let is_scale = match class {
        Some(Value::Text(class)) => class == "DIMENSION_SCALE",
        Some(Value::Bytes(class)) => class == b"DIMENSION_SCALE",
        _ => false,
    };
    let mut json = Json::object();
    for attribute in found {
        let ordinary = matches!(attribute.name.as_str(), "CLASS" | "NAME") && !is_scale;
        if netcdf4::is_reserved(&attribute.name) && !ordinary {
            continue;
        }
        match attribute.value() {
            Ok(Value::List(mut list)) if is_netcdf && list.len() == 1 => {
                json.set(&attribute.name, list.pop().map_or(Json::Null, hdf5_json::value));
            }
            Ok(value) => json.set(&attribute.name, hdf5_json::value(value)),
            Err(Hdf5Error::Unsupported { .. }) if options.skip_unsupported => {
                notes.entry(NO_ATTRIBUTE).or_default().push(format!("{name}, {:?}", attribute.name));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(json)
}

/// The names of an enumeration's values, as the CF conventions have them (section 3.5, "Flags").
fn flags(attributes: &mut Json, members: &[(String, i128)], name: &str, notes: &mut Notes) {
    if attributes.get("flag_values").is_some() || attributes.get("flag_meanings").is_some() {
        return;
    }
    if members.iter().any(|(member, _)| member.contains(char::is_whitespace)) {
        notes.entry(LONG_MEANINGS).or_default().push(name.to_owned());
        return;
    }
    let values = members.iter().map(|(_, value)| (*value).into()).collect();
    let meanings: Vec<&str> = members.iter().map(|(member, _)| member.as_str()).collect();
    attributes.set("flag_values", Json::Array(values));
    attributes.set("flag_meanings", meanings.join(" ").as_str().into());
}

/// Compressors in place of the filters: as good or better, and shuffling where they shuffle.
pub(super) fn compressors(dataset: &Dataset, name: &str, notes: &mut Notes) -> Result<Compressors, Error> {
    let ids: Vec<u16> = dataset.filters().iter().map(|filter| filter.id).collect();
    if ids.iter().all(|id| *id == FLETCHER32) {
        return "none".parse();
    }
    notes.entry(OTHER_CODECS).or_default().push(name.to_owned());
    if ids.iter().any(|id| matches!(*id, SHUFFLE | BITSHUFFLE)) { "blosc" } else { "zstd" }.parse()
}
