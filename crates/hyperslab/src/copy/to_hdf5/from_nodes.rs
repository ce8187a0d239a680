//! Describes a source of any other format: groups, attributes in JSON, arrays with names of axes.

use super::attributes;
use super::described::{Described, Elements, Filters};
use super::filters;
use super::netcdf_attributes;
use super::netcdf4::{Declared, NetcdfVariable, refused};
use super::scales::{self, NamedAxes};
use crate::copy::convert::{Copying, Notes};
use crate::copy::region::Window;
use crate::copy::{CopyOptions, path_text};
use crate::meaning::{FILL_VALUE, Meaning, MissingValue, Variable};
use crate::references::NO_SHAPE;
use crate::{Array, Error, Group, Json, Node, NodeKind, Result};
use hyperslab_codec::{DataType, Kind, VlenKind};
use hyperslab_hdf5::dataspace::Dataspace;
use hyperslab_hdf5::datatype::{Charset, Class, Datatype, Member};
use hyperslab_hdf5::new_file::{NewAttribute, NewKind, NewTarget, ValuePart};
use hyperslab_netcdf::netcdf4::written;
use hyperslab_zarr::{FieldKind, Structure};
use std::collections::HashMap;
use std::sync::Arc;

const AS_TEXT: &str = "attributes stored as JSON text, because HDF5 has no such values";
const UTF8: &str = "text of fixed length became text of variable length, because HDF5 has no UTF-32";
const BYTES: &str = "bytes of variable length became sequences of bytes";
const ONE_SHAPE: &str = "chunks of different shapes became chunks of the largest of these shapes";
const C_ORDER: &str = "elements in chunks are in order C, which HDF5 always has";
const PLUGIN: &str = "compressed as in the source, with filters that are not a part of HDF5: h5py needs hdf5plugin \
                      to read them, unless you choose the compressor gzip";
const NO_ATTRIBUTE: &str = "attributes left out, whose type has no words in JSON";

/// Describes an array, which gets this name in the root group, or a group and everything below it.
pub(super) fn describe<'o>(source: &Node, name: &str, options: &'o CopyOptions<'o>) -> Result<Described<'o>> {
    let mut described = Described::new(options)?;
    let nodes = match source {
        Node::Array(array) => vec![(name.to_owned(), Node::Array(array.clone()))],
        Node::Group(group) => nodes(group, &mut described)?,
    };
    let mut nodes = nodes;
    let arrays = nodes.iter().filter_map(|(_, node)| match node {
        Node::Array(array) => Some(array),
        Node::Group(_) => None,
    });
    let meaning = Meaning::of(source, arrays)?;
    if matches!(source, Node::Group(_)) {
        options.keep_chosen(&meaning, &mut nodes)?;
    }
    let mut named = Vec::new();
    for (path, node) in nodes {
        options.check()?;
        let added = match node {
            Node::Group(group) => self::group(&mut described, &meaning, &path, &group),
            Node::Array(array) => self::array(&mut described, &meaning, &path, array, &mut named),
        };
        match added {
            Err(error) if options.skip_unsupported && error.is_of_one() => {
                described.skipped.push((path_text(&path), error.to_string()));
            }
            Err(error) if matches!(source, Node::Group(_)) => return Err(error.of_one()),
            added => added?,
        }
    }
    if described.is_netcdf4() {
        complete_netcdf4(&mut described, source, named)?;
    } else {
        scales::attach(&mut described, &named);
    }
    Ok(described)
}

/// Adds what NetCDF-4 has beyond HDF5.
fn complete_netcdf4(described: &mut Described<'_>, source: &Node, named: Vec<NamedAxes>) -> Result<()> {
    let mut declared = Vec::new();
    if let Node::Group(group) = source
        && let Some(file) = group.as_netcdf3()
    {
        declared.extend(file.dimensions().iter().map(|dimension| Declared {
            group: 0,
            name: dimension.name.clone(),
            len: dimension.len,
            unlimited: dimension.unlimited,
            stand_in: None,
        }));
    }
    let mut by_object: HashMap<usize, NamedAxes> =
        named.into_iter().map(|axes| (axes.object, axes)).collect();
    let variables = described.arrays.iter().filter_map(|member| {
        let object = described.objects.get(member.object)?;
        let (above, name) = object.path.rsplit_once('/').unwrap_or(("", &object.path));
        let group = described.number(above).unwrap_or(0);
        let names = by_object.remove(&member.object).map(|axes| axes.names);
        let dimensions = match names {
            Some(names) => names.into_iter().map(|name| Some((group, name))).collect(),
            None => vec![None; member.window.shape.len()],
        };
        Some(NetcdfVariable { object: member.object, group, name: name.to_owned(), dimensions })
    });
    let variables = variables.collect();
    super::netcdf4::complete(described, variables, declared)
}

/// The nodes of a hierarchy by path. A group is before its members.
fn nodes(group: &Group, described: &mut Described<'_>) -> Result<Vec<(String, Node)>> {
    let options = described.options;
    let lists = group.store().facts().lists;
    let stored = if lists { group.node().as_stored()? } else { None };
    let group = stored.unwrap_or_else(|| group.clone());
    let mut nodes = vec![(String::new(), Node::Group(group.clone()))];
    let mut left_out: Option<String> = None;
    let mut below = group.below(None, Some(&|| options.stops()))?;
    below.sort_by(|a, b| a.path.cmp(&b.path));
    for below in below {
        options.check()?;
        if left_out.as_ref().is_some_and(|above| below.path.starts_with(above)) {
            continue;
        }
        match group.open_below(&below).and_then(|found| found.into_node()) {
            Ok(node) => nodes.push((below.path, node)),
            Err(error) if options.skip_unsupported && error.is_of_one() => {
                left_out = (below.kind == NodeKind::Group).then(|| format!("{}/", below.path));
                described.skipped.push((path_text(&below.path), error.to_string()));
            }
            Err(error) => return Err(error.of_one()),
        }
    }
    Ok(nodes)
}

fn group(described: &mut Described<'_>, meaning: &Meaning, path: &str, group: &Group) -> Result<()> {
    let number = match path {
        "" => 0,
        _ => described.add_linked(path, NewKind::Group { links: Vec::new(), tracks_links: false }),
    };
    if let Some(file) = group.as_netcdf3().filter(|_| described.is_netcdf4()) {
        if let Some(object) = described.objects.get_mut(number) {
            object.attributes.extend(netcdf_attributes::of_classic(file.attributes()));
        }
        return Ok(());
    }
    let (json, unreadable) = meaning.group_attributes(group)?;
    add_attributes(described, number, path, &json, &unreadable);
    Ok(())
}

fn add_attributes(
    described: &mut Described<'_>,
    number: usize,
    path: &str,
    json: &Json,
    unreadable: &[String],
) {
    for name in unreadable {
        described.note(NO_ATTRIBUTE, format!("{}, {name:?}", path_text(path)));
    }
    let is_netcdf4 = described.is_netcdf4();
    for (name, value) in json.as_object().unwrap_or_default() {
        let (attribute, is_text) = match is_netcdf4 {
            true => netcdf_attributes::of_json(name, value),
            false => attributes::of_json(name, value),
        };
        if is_text {
            described.note(AS_TEXT, format!("{}, {name:?}", path_text(path)));
        }
        if let Some(object) = described.objects.get_mut(number) {
            object.attributes.push(attribute);
        }
    }
}

fn array(
    described: &mut Described<'_>,
    meaning: &Meaning,
    path: &str,
    array: Array,
    named: &mut Vec<NamedAxes>,
) -> Result<()> {
    if array.has_no_shape() {
        described.skipped.push((path_text(path), NO_SHAPE.into()));
        return Ok(());
    }
    let Some(variable) = meaning.variable(&array)? else { return Ok(()) };
    let path = meaning.path(path);
    let (window, _) = Window::of_variable(&array, &variable, described.options.region.as_ref())?;
    let elements = elements(described, &path, &array)?;
    let dataset = described.dataset(&path, &array, &window, &elements, Filters::Codecs)?;
    if described.options.compressors.is_none() && filters::needs_plugin(&dataset.filters) {
        described.note(PLUGIN, path_text(&path));
    }
    let (above, name) = path.rsplit_once('/').unwrap_or(("", &path));
    let group = described.number(above).unwrap_or(0);
    let missing = missing_value(&variable, &elements);
    let shape = window.shape.to_vec();
    let typed = match array.as_netcdf3() {
        Some(variable) if described.is_netcdf4() => {
            Some(netcdf_attributes::of_classic(variable.attributes()))
        }
        _ => None,
    };
    let is_flags = described.is_netcdf4() && array.dtype().kind() == Kind::Bool;
    let number = described.add_array(&path, array, window, elements, dataset);
    described.link(group, name, NewTarget::Object(number));
    if typed.is_none() {
        add_attributes(described, number, &path, &variable.attributes, &variable.unreadable);
    }
    if let Some(object) = described.objects.get_mut(number) {
        match typed {
            Some(typed) => object.attributes.extend(typed),
            None => object.attributes.extend(missing),
        }
        if is_flags {
            // xarray's word for Boolean values, which NetCDF has not.
            object.attributes.push(hyperslab_netcdf::netcdf4::written::text_of("dtype", b"bool"));
        }
    }
    let names: Option<Vec<String>> = variable.dimension_names.and_then(|names| names.into_iter().collect());
    if let Some(names) = names.filter(|names| !names.is_empty()) {
        named.push(NamedAxes { object: number, group, name: name.to_owned(), names, shape });
    }
    Ok(())
}

/// The attribute for the value of missing elements: one element, as netCDF has it.
fn missing_value(variable: &Variable, elements: &Elements) -> Option<NewAttribute> {
    let value = match &variable.missing {
        MissingValue::None => return None,
        MissingValue::Other(json) => return Some(attributes::of_json(FILL_VALUE, json).0),
        MissingValue::Value(bytes) if elements.vlen == Some(VlenKind::Text) => ValuePart::text(bytes),
        MissingValue::Value(_) if elements.vlen.is_some() => return None,
        MissingValue::Value(bytes) => ValuePart::Bytes(bytes.clone()),
    };
    let (datatype, dataspace) = (elements.datatype.clone(), Dataspace::fixed(&[1]));
    Some(NewAttribute { name: FILL_VALUE.into(), datatype, dataspace, value: vec![value] })
}

/// The elements of an array in the copy.
fn elements(described: &mut Described<'_>, path: &str, array: &Array) -> Result<Elements> {
    let name = path_text(path);
    let mut notes = Notes::new();
    let mut copying = Copying { name: &name, options: described.options, notes: &mut notes };
    let facts = array.node().collect_copied(&mut copying)?;
    let refuse = |why: String| Error::Copy { array: name.clone(), why };
    if facts.optional.is_some() {
        return Err(refuse("its elements may be missing, which HDF5 has no word for".into()));
    }
    if facts.rectilinear.is_some() {
        described.note(ONE_SHAPE, name.clone());
    }
    if !array.layout().encoding().is_c_order() {
        described.note(C_ORDER, name.clone());
    }
    let dtype = array.dtype();
    if facts.vlen == Some(VlenKind::Bytes) {
        described.note(BYTES, name.clone());
    }
    let is_text = facts.vlen.is_none() && facts.structure.is_none() && dtype.kind() == Kind::Text;
    if is_text {
        described.note(UTF8, name.clone());
    }
    let is_bool = facts.vlen.is_none() && facts.structure.is_none() && dtype.kind() == Kind::Bool;
    let datatype = match described.is_netcdf4() && is_bool {
        true => of_numpy("|i1"),
        false => datatype(dtype, facts.vlen, facts.structure.as_ref()),
    };
    let datatype = datatype.map_err(refuse)?;
    let vlen = if is_text { Some(VlenKind::Text) } else { facts.vlen };
    let limits = if described.is_netcdf4() { limits(array) } else { None };
    if described.is_netcdf4()
        && let Some(why) = refused(&datatype)
    {
        return Err(refuse(why));
    }
    let chunk = match &limits {
        Some(limits)
            if limits.contains(&None) && (array.template().as_hdf5().is_none() || !array.has_chunks()) =>
        {
            Some(written::default_chunks(limits, dtype.size() as u64))
        }
        _ => array.has_chunks().then(|| array.chunk_shape().to_vec()),
    };
    Ok(Elements {
        datatype,
        dtype: if vlen.is_some() { DataType::CELL } else { dtype },
        vlen,
        fill: match vlen {
            None => facts.fill.map(|_| array.layout().fill().bytes().to_vec()),
            Some(VlenKind::Text) if facts.vlen.is_some() => facts.fill.filter(|text| !text.is_empty()),
            Some(_) => None,
        },
        unfilled: false,
        chunk,
        max_shape: limits,
    })
}

/// The HDF5 type of an array's elements: the type in its file, or the type that a copy to HDF5 has.
///
/// Fails with [`Error::Copy`] if HDF5 has no such type.
pub fn hdf5_type(array: &Array) -> Result<Datatype> {
    if let Some(dataset) = array.as_hdf5() {
        return Ok(dataset.datatype().clone());
    }
    let dtype = array.optional().unwrap_or(array.dtype());
    datatype(dtype, array.vlen(), array.structure().map(|structure| &**structure))
        .map_err(|why| Error::Copy { array: array.name(), why })
}

/// The type of elements that are no HDF5 elements yet. Fails (with text) if HDF5 has no such type.
fn datatype(
    dtype: DataType,
    vlen: Option<VlenKind>,
    structure: Option<&Structure>,
) -> Result<Datatype, String> {
    match (vlen, structure) {
        (Some(VlenKind::Text), _) => Ok(Datatype::vlen_text(Charset::Utf8)),
        (Some(VlenKind::Bytes), _) => Ok(Datatype::vlen(of_numpy("|u1")?)),
        (Some(VlenKind::Array(item)), _) => Ok(Datatype::vlen(Datatype::of_numpy(item)?)),
        (Some(kind), _) => Err(format!("its elements are {kind}, which HDF5 has not")),
        (None, Some(structure)) => compound(structure),
        (None, None) if dtype.kind() == Kind::Text => Ok(Datatype::vlen_text(Charset::Utf8)),
        (None, None) => Datatype::of_numpy(dtype),
    }
}

/// The lengths that a variable of NetCDF can have; `None` for an axis: any.
/// A variable of joined sources grows as the first source's variable does.
fn limits(array: &Array) -> Option<Vec<Option<u64>>> {
    let template = array.template();
    let grows: Vec<bool> = match (template.as_netcdf3(), template.as_hdf5()) {
        (Some(variable), _) => variable.dimensions().map(|dimension| dimension.unlimited).collect(),
        (None, Some(dataset)) => match dataset.dataspace() {
            Dataspace::Simple { max_shape, .. } => max_shape.iter().map(Option::is_none).collect(),
            _ => return None,
        },
        _ => return None,
    };
    Some(grows.into_iter().zip(array.shape()).map(|(grows, len)| (!grows).then_some(*len)).collect())
}

fn of_numpy(name: &str) -> Result<Datatype, String> {
    let dtype: DataType = name.parse().map_err(|_| format!("no element type {name}"))?;
    Datatype::of_numpy(dtype)
}

/// The compound with the fields of a structure.
fn compound(structure: &Structure) -> Result<Datatype, String> {
    let members = structure.fields().iter().map(|field| {
        let of = |why: String| format!("field {:?}: {why}", field.name);
        let base = match &field.kind {
            FieldKind::Plain(dtype) => Datatype::of_numpy(*dtype),
            FieldKind::Structure(inner) => compound(inner),
        };
        let base = base.map_err(of)?;
        let datatype = match &field.shape[..] {
            [] => base,
            shape => Datatype {
                size: u32::try_from(field.size).unwrap_or(u32::MAX),
                class: Class::Array {
                    shape: shape.iter().map(|n| u32::try_from(*n).unwrap_or(u32::MAX)).collect(),
                    base: Arc::new(base),
                },
            },
        };
        let offset = u32::try_from(field.offset).unwrap_or(u32::MAX);
        Ok(Member { name: field.name.clone(), offset, datatype: Arc::new(datatype) })
    });
    let members = members.collect::<Result<Vec<Member>, String>>()?;
    Ok(Datatype {
        size: u32::try_from(structure.size()).unwrap_or(u32::MAX),
        class: Class::Compound(members),
    })
}
