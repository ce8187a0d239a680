//! Describes an HDF5 source: objects, links and attributes stay as they are.

use super::attributes::{self, Numbers};
use super::described::{Described, Elements, Filters};
use super::netcdf4::{Declared, NetcdfVariable, refused};
use crate::copy::region::Window;
use crate::copy::{CopyOptions, path_text};
use crate::meaning::Meaning;
use crate::{Array, Error, FileMeaning, NodeKind, Result};
use hyperslab_codec::{DataType, VlenKind};
use hyperslab_hdf5::dataspace::Dataspace;
use hyperslab_hdf5::datatype::{Charset, Datatype};
use hyperslab_hdf5::element::{Element, ElementKind};
use hyperslab_hdf5::new_file::{NewDataset, NewKind, NewStorage, NewTarget};
use hyperslab_hdf5::{Attribute, Dataset, Group, Hdf5Error, LinkTarget, Node, vlen};
use hyperslab_netcdf::netcdf4;
use std::collections::{BTreeSet, HashMap};

const NO_LINKS: &str = "links of a user-defined type left out";
const NO_ATTRIBUTES: &str =
    "attributes left out, which refer to attributes, or whose file has short addresses";
const NOWHERE: &str = "references in attributes became null, because a copy has no object there";

/// A source that is being walked.
struct Walk<'d, 'o> {
    described: &'d mut Described<'o>,
    /// Numbers of objects by their addresses in the source.
    numbers: Numbers,
    /// Attributes to convert when all objects are known.
    attributes: Vec<(usize, Vec<Attribute>)>,
    /// The paths of the objects to copy. `None`: all.
    chosen: Option<BTreeSet<String>>,
}

/// Describes a group and everything below it.
pub(super) fn group<'o>(source: &Group, options: &'o CopyOptions<'o>) -> Result<Described<'o>> {
    let mut described = Described::new(options)?;
    described.is_hdf5 = true;
    let chosen = chosen(source, options)?;
    let mut walk =
        Walk { described: &mut described, numbers: Numbers::new(), attributes: Vec::new(), chosen };
    walk.group(source, 0)?;
    let mut waiting = vec![(source.clone(), 0, String::new())];
    while let Some((group, number, path)) = waiting.pop() {
        let mut below = walk.links(&group, number, &path)?;
        below.reverse();
        waiting.append(&mut below);
    }
    walk.finish()?;
    Ok(described)
}

/// Describes a dataset, which gets this name in the root group.
pub(super) fn dataset<'o>(
    source: &Dataset,
    name: &str,
    options: &'o CopyOptions<'o>,
) -> Result<Described<'o>> {
    let mut described = Described::new(options)?;
    described.is_hdf5 = true;
    let (numbers, attributes) = (Numbers::new(), Vec::new());
    let mut walk = Walk { described: &mut described, numbers, attributes, chosen: None };
    let number = walk.dataset(source.clone(), name)?;
    walk.described.link(0, name, NewTarget::Object(number));
    walk.finish()?;
    Ok(described)
}

/// The paths of the objects to copy, relative to the source. `None`: all.
fn chosen(source: &Group, options: &CopyOptions<'_>) -> Result<Option<BTreeSet<String>>> {
    if options.variables.is_none() {
        return Ok(None);
    }
    let group = crate::Group::from(source.clone());
    let mut nodes = vec![(String::new(), crate::Node::Group(group.clone()))];
    for below in group.below(None, None)? {
        if matches!(below.kind, NodeKind::Array | NodeKind::Group) {
            let node = group.open_below(&below)?.into_node()?;
            nodes.push((below.path, node));
        }
    }
    let root = crate::Node::Group(group);
    options.chosen(&Meaning::of(&root, std::iter::empty())?, &nodes)
}

/// Adds what NetCDF-4 has beyond HDF5: the dimensions that the source has, or that netCDF-C sees in it.
pub(super) fn complete_netcdf4(described: &mut Described<'_>, source: &crate::Node) -> Result<()> {
    let Some(file) = source.file() else { return Ok(()) };
    let meaning = FileMeaning::of_variables(&file)?;
    let root = match source {
        crate::Node::Group(group) => group.path().to_owned(),
        crate::Node::Array(array) => array.path().rsplit_once('/').map_or("", |(above, _)| above).to_owned(),
    };
    // Groups above the source are not in the copy: their dimensions go to its root.
    let place = |group: &str, described: &Described<'_>| {
        let below = match root.as_str() {
            "" => Some(group),
            root => group.strip_prefix(root).map(|below| below.trim_start_matches('/')),
        };
        below.and_then(|below| described.number(below)).unwrap_or(0)
    };
    let (mut variables, mut stand_ins) = (Vec::new(), HashMap::new());
    for member in &described.arrays {
        let Some(dataset) = member.array.as_hdf5() else { continue };
        let Some(object) = described.objects.get(member.object) else { continue };
        let (above, name) = object.path.rsplit_once('/').unwrap_or(("", &object.path));
        let group = described.number(above).unwrap_or(0);
        let Some(variable) = meaning.variable(&member.array)? else {
            stand_ins.insert((group, name.to_owned()), member.object);
            continue;
        };
        let dimensions = variable.dimension_names.unwrap_or_default().into_iter().map(|dimension| {
            let Some(dimension) = dimension else { return Ok(None) };
            let found = meaning.dimension_group(dataset.path(), &dimension)?;
            let at = found.map_or(group, |found| place(&found, described));
            Ok(Some((at, dimension)))
        });
        let dimensions = dimensions.collect::<Result<Vec<_>>>()?;
        let name = netcdf4::variable_name(name).to_owned();
        variables.push(NetcdfVariable { object: member.object, group, name, dimensions });
    }
    // Chosen variables need no other dimensions than their own.
    let used: Option<BTreeSet<String>> = described.options.variables.as_ref().map(|_| {
        let names = variables.iter().flat_map(|variable| variable.dimensions.iter().flatten());
        names.map(|(_, name)| name.clone()).collect()
    });
    let mut declared = Vec::new();
    for (number, object) in described.objects.iter().enumerate() {
        let (NewKind::Group { .. }, crate::Node::Group(_)) = (&object.kind, source) else { continue };
        let path = [root.as_str(), &object.path].into_iter().filter(|part| !part.is_empty());
        for dimension in meaning.dimensions_of(&path.collect::<Vec<_>>().join("/"))?.iter() {
            let name = dimension.name.clone();
            let stand_in = stand_ins.get(&(number, name.clone())).copied();
            let (len, unlimited) = (dimension.len, dimension.unlimited);
            if !dimension.is_scalar && used.as_ref().is_none_or(|used| used.contains(&name)) {
                declared.push(Declared { group: number, name, len, unlimited, stand_in });
            }
        }
    }
    super::netcdf4::complete(described, variables, declared)
}

impl Walk<'_, '_> {
    /// Notes the facts of a group.
    fn group(&mut self, group: &Group, number: usize) -> Result<()> {
        self.numbers.insert(group.address(), number);
        let tracks = group.tracks_links()?;
        self.described_attributes(number, group.address(), group.file(), group.attributes()?)?;
        if let Some(NewKind::Group { tracks_links, .. }) =
            self.described.objects.get_mut(number).map(|object| &mut object.kind)
        {
            *tracks_links = tracks;
        }
        Ok(())
    }

    fn described_attributes(
        &mut self,
        number: usize,
        address: u64,
        file: &hyperslab_hdf5::File,
        attributes: Vec<Attribute>,
    ) -> Result<()> {
        if let Some(object) = self.described.objects.get_mut(number) {
            object.tracks_attributes = file.tracks_attributes(address)?;
        }
        self.attributes.push((number, attributes));
        Ok(())
    }

    /// Adds the links of a group, and the objects that they lead to first. Returns the groups below.
    fn links(&mut self, group: &Group, number: usize, path: &str) -> Result<Vec<(Group, usize, String)>> {
        let mut below = Vec::new();
        for link in group.links()? {
            self.described.options.check()?;
            let place = if path.is_empty() { link.name.clone() } else { format!("{path}/{}", link.name) };
            if self.chosen.as_ref().is_some_and(|chosen| !chosen.contains(&place)) {
                continue;
            }
            let target = match link.target {
                LinkTarget::Hard(address) => match self.numbers.get(&address) {
                    Some(known) => Some(NewTarget::Object(*known)),
                    None => self.object(group, &link.name, &place, &mut below)?.map(NewTarget::Object),
                },
                LinkTarget::Soft(path) => Some(NewTarget::Soft(path)),
                LinkTarget::External { file, path } => Some(NewTarget::External { file, path }),
                LinkTarget::UserDefined(_) => {
                    self.described.note(NO_LINKS, path_text(&place));
                    None
                }
            };
            if let Some(target) = target {
                self.described.link(number, &link.name, target);
            }
        }
        Ok(below)
    }

    /// Adds an object that was not met before. `None`: it is left out.
    fn object(
        &mut self,
        group: &Group,
        name: &str,
        path: &str,
        below: &mut Vec<(Group, usize, String)>,
    ) -> Result<Option<usize>> {
        let added = group.child(name).map_err(Error::from).and_then(|node| match node {
            Node::Group(found) => {
                let number =
                    self.described.add(path, NewKind::Group { links: Vec::new(), tracks_links: false });
                self.group(&found, number)?;
                below.push((found, number, path.to_owned()));
                Ok(number)
            }
            Node::Dataset(found) => self.dataset(found, path),
            Node::Datatype(found) => {
                let number = self.described.add(path, NewKind::Datatype((*found.datatype).clone()));
                self.numbers.insert(found.address, number);
                self.described_attributes(number, found.address, group.file(), found.attributes)?;
                Ok(number)
            }
        });
        match added {
            Ok(number) => Ok(Some(number)),
            Err(error) if self.described.options.skip_unsupported && error.is_of_one() => {
                self.described.skipped.push((path_text(path), error.to_string()));
                Ok(None)
            }
            Err(error) => Err(error.of_one()),
        }
    }

    fn dataset(&mut self, dataset: Dataset, path: &str) -> Result<usize> {
        let (address, attributes) = (dataset.address(), dataset.attributes()?);
        let file = dataset.file().clone();
        let number = if *dataset.dataspace() == Dataspace::Null {
            let kind = NewKind::Dataset(NewDataset {
                datatype: renewed(dataset.datatype(), path)?,
                dataspace: Dataspace::Null,
                fill: None,
                unfilled: false,
                filters: Vec::new(),
                storage: NewStorage::Contiguous(None),
            });
            self.described.add(path, kind)
        } else {
            let array = Array::try_from(dataset.clone())?;
            if let Some(problem) = array.hdf5().and_then(|array| array.problem()) {
                return Err(Error::Copy { array: path_text(path), why: problem });
            }
            let elements = elements(&dataset, path)?;
            if self.described.is_netcdf4()
                && let Some(why) = refused(&elements.datatype)
            {
                return Err(Error::Copy { array: path_text(path), why });
            }
            let window = Window::of(&array, self.described.options.region.as_ref())?;
            let filters = Filters::Source(dataset.filters());
            let new = self.described.dataset(path, &array, &window, &elements, filters)?;
            self.described.add_array(path, array, window, elements, new)
        };
        self.numbers.insert(address, number);
        self.described_attributes(number, address, &file, attributes)?;
        Ok(number)
    }

    /// Converts attributes: they may refer to any object.
    fn finish(self) -> Result<()> {
        let Walk { described, numbers, attributes, .. } = self;
        for (number, found) in attributes {
            for attribute in found {
                described.options.check()?;
                let place = || {
                    let path = described.objects.get(number).map(|object| object.path.as_str());
                    format!("{}, {:?}", path_text(path.unwrap_or_default()), attribute.name)
                };
                match attributes::of_hdf5(&attribute, &numbers) {
                    Ok(Some(new)) => {
                        if loses_references(&new.value) {
                            let place = place();
                            described.note(NOWHERE, place);
                        }
                        if let Some(object) = described.objects.get_mut(number) {
                            object.attributes.push(new);
                        }
                    }
                    Ok(None) | Err(Error::Hdf5(Hdf5Error::Unsupported { .. })) => {
                        let place = place();
                        described.note(NO_ATTRIBUTES, place);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}

/// Returns `true` if a value has references to nothing.
fn loses_references(parts: &[hyperslab_hdf5::new_file::ValuePart]) -> bool {
    use hyperslab_hdf5::new_file::ValuePart;
    parts.iter().any(|part| match part {
        ValuePart::Object(None) | ValuePart::Region(None) => true,
        ValuePart::Vlen { items, .. } => loses_references(items),
        _ => false,
    })
}

/// A type for a file with long addresses. Fails if the type has others.
fn renewed(datatype: &Datatype, path: &str) -> Result<Datatype> {
    let sizes = hyperslab_hdf5::Sizes { offset: 8, length: 8 };
    match Element::of(datatype, sizes) {
        Ok(_) => Ok(datatype.clone()),
        Err(why) => Err(Error::Copy { array: path_text(path), why: why.to_string() }),
    }
}

/// The elements of a dataset in the copy.
fn elements(dataset: &Dataset, path: &str) -> Result<Elements> {
    let refuse = |why: String| Error::Copy { array: path_text(path), why };
    let (element, stored) = (dataset.element(), dataset.datatype());
    let (datatype, kind) = match &element.kind {
        // The bytes of a text may be in any encoding.
        ElementKind::VlenString { utf8 } => {
            let charset = if *utf8 { Charset::Utf8 } else { Charset::Ascii };
            (Datatype::vlen_text(charset), Some(VlenKind::Bytes))
        }
        ElementKind::Vlen { stored, element } => {
            let base = in_memory(stored, element).map_err(refuse)?;
            let item = element.engine_type().ok_or_else(|| refuse("its items are too large".into()))?;
            (Datatype::vlen(base), Some(VlenKind::Array(item)))
        }
        _ => (in_memory(stored, element).map_err(refuse)?, None),
    };
    let dtype = element.engine_type().ok_or_else(|| refuse("its elements are too large".into()))?;
    let max_shape = match dataset.dataspace() {
        Dataspace::Simple { max_shape, .. } => Some(max_shape.clone()),
        _ => None,
    };
    Ok(Elements {
        datatype,
        dtype: if kind.is_some() { DataType::CELL } else { dtype },
        vlen: kind,
        fill: match (kind, dataset.fill_value()) {
            (None, Some(fill)) => Some(fill.to_vec()),
            (Some(VlenKind::Bytes), Some(fill)) => {
                let found = vlen::resolve(dataset.file(), element, fill, 0, element.size, 1)?;
                Some(found.values.as_slice().to_vec()).filter(|text| !text.is_empty())
            }
            _ => None,
        },
        unfilled: dataset.is_unfilled(),
        chunk: dataset.chunk_shape().map(<[u64]>::to_vec),
        max_shape,
    })
}

/// The type of elements that are stored as memory has them: the source's own, if it is that.
fn in_memory(stored: &Datatype, element: &Element) -> Result<Datatype, String> {
    if !stored.refers() && element.conversion(stored).is_none() {
        return Ok(stored.clone());
    }
    Datatype::of_memory(element)
}
