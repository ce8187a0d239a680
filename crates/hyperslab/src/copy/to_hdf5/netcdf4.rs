//! Completes the description of a NetCDF-4 file: dimensions, scales, and the order of all objects.
//!
//! Copies and live files have the attributes of [`written`]. A copy decides where they go:
//!
//! * A dimension is in the group of the arrays that use it. A NetCDF-4 source says where it is.
//! * An array with the name of its first dimension is the scale of that dimension. If there is none,
//!   an empty dataset is the scale. The copy keeps the empty datasets of a NetCDF-4 source.
//! * A dimension is unlimited if all arrays can grow along it, or if it has no length, as in netCDF.
//! * Axes without a name share dimensions with axes of their length, as netCDF-C reads such files.
//! * User types have names: they are committed.

use super::described::Described;
use crate::{Error, Result};
use hyperslab_hdf5::dataspace::Dataspace;
use hyperslab_hdf5::datatype::{Class, Datatype};
use hyperslab_hdf5::new_file::{NewAttribute, NewKind, NewObject, NewStorage};
use hyperslab_netcdf::netcdf4::{NOT_COORDINATES, is_reserved, written};
use std::collections::{BTreeMap, HashMap};

const RESERVED: &str = "attributes left out, whose names belong to dimension scales";
const TYPES: &str = "types of elements got a name, which NetCDF wants";

/// An array and its dimensions.
pub(super) struct NetcdfVariable {
    /// The number of its dataset, and of its group.
    pub(super) object: usize,
    pub(super) group: usize,
    /// Its name in NetCDF.
    pub(super) name: String,
    /// The group and the name of the dimension of each axis. `None`: the axis has no name.
    pub(super) dimensions: Vec<Option<(usize, String)>>,
}

/// A dimension of the source.
pub(super) struct Declared {
    pub(super) group: usize,
    pub(super) name: String,
    pub(super) len: u64,
    pub(super) unlimited: bool,
    /// The dataset that stands for the dimension, if the source has one.
    pub(super) stand_in: Option<usize>,
}

/// A dimension of the copy.
struct Dimension {
    group: usize,
    name: String,
    len: u64,
    unlimited: bool,
    is_used: bool,
    /// The dataset that is its scale, and whether it has coordinates.
    scale: Option<(usize, bool)>,
    users: Vec<(usize, u32)>,
}

/// The dimensions of a file, in the order of their numbers.
#[derive(Default)]
struct Dimensions {
    all: Vec<Dimension>,
    numbers: HashMap<(usize, String), usize>,
}

impl Dimensions {
    /// The number of a dimension, which is made if it is new.
    fn number(&mut self, group: usize, name: &str) -> usize {
        *self.numbers.entry((group, name.to_owned())).or_insert_with(|| {
            self.all.push(Dimension {
                group,
                name: name.to_owned(),
                len: 0,
                unlimited: false,
                is_used: false,
                scale: None,
                users: Vec::new(),
            });
            self.all.len() - 1
        })
    }
}

/// Completes a description: `variables` are all arrays, `declared` the dimensions of the source in their
/// order.
pub(super) fn complete(
    described: &mut Described<'_>,
    variables: Vec<NetcdfVariable>,
    declared: Vec<Declared>,
) -> Result<()> {
    for object in &mut described.objects {
        object.tracks_attributes = true;
        if let NewKind::Group { tracks_links, .. } = &mut object.kind {
            *tracks_links = true;
        }
    }
    if let Some(root) = described.objects.first_mut() {
        root.attributes.retain(|attribute| !is_reserved(&attribute.name));
        root.attributes.insert(0, written::properties());
    }
    let mut dimensions = Dimensions::default();
    for one in &declared {
        let number = dimensions.number(one.group, &one.name);
        if let Some(dimension) = dimensions.all.get_mut(number) {
            (dimension.len, dimension.unlimited) = (one.len, one.unlimited);
            dimension.scale = one.stand_in.map(|object| (object, false));
        }
        if let Some(object) = one.stand_in {
            drop_reserved(described, object, false);
        }
    }
    let mut axes = Vec::new();
    let mut nameless = Nameless::default();
    for variable in &variables {
        drop_reserved(described, variable.object, true);
        let extent = extent(described, variable.object);
        let found = nameless.numbers(&mut dimensions, variable, &extent);
        measure(described, &mut dimensions, variable, &found, &extent)?;
        axes.push(found);
    }
    find_scales(described, &mut dimensions, &variables, &axes)?;
    for (variable, axes) in variables.iter().zip(&axes) {
        limit(described, &dimensions, variable.object, axes);
        attach(described, &mut dimensions, variable.object, axes);
    }
    for (id, dimension) in (0..).zip(&dimensions.all) {
        let Some((scale, has_coordinates)) = dimension.scale else { continue };
        let variable = has_coordinates.then_some(dimension.name.as_str());
        let len = if dimension.unlimited { 0 } else { dimension.len };
        let mut attributes = written::scale(variable, len, Some(id));
        if !dimension.users.is_empty() {
            attributes.push(written::reference_list(&dimension.users));
        }
        put(described, scale, attributes);
    }
    commit_types(described);
    Ok(())
}

/// Dimensions of axes without names, by group: their length, whether they are unlimited, their numbers.
#[derive(Default)]
struct Nameless {
    known: BTreeMap<usize, Vec<(u64, bool, usize)>>,
    next: usize,
}

impl Nameless {
    /// The numbers of the dimensions of a variable.
    fn numbers(
        &mut self,
        dimensions: &mut Dimensions,
        variable: &NetcdfVariable,
        extent: &[(u64, bool)],
    ) -> Vec<usize> {
        let mut found: Vec<usize> = Vec::new();
        for (named, (len, unlimited)) in variable.dimensions.iter().zip(extent) {
            if let Some((group, name)) = named {
                found.push(dimensions.number(*group, name));
                continue;
            }
            let known = self.known.entry(variable.group).or_default();
            let same = known
                .iter()
                .find(|(other, grows, number)| (other, grows) == (len, unlimited) && !found.contains(number));
            let number = same.map(|(.., number)| *number);
            found.push(number.unwrap_or_else(|| {
                loop {
                    let name = format!("phony_dim_{}", self.next);
                    self.next += 1;
                    if !dimensions.numbers.contains_key(&(variable.group, name.clone())) {
                        let number = dimensions.number(variable.group, &name);
                        known.push((*len, *unlimited, number));
                        return number;
                    }
                }
            }));
        }
        found
    }
}

/// The length of each axis of a dataset, and whether it may grow.
fn extent(described: &Described<'_>, object: usize) -> Vec<(u64, bool)> {
    let Some(NewKind::Dataset(dataset)) = described.objects.get(object).map(|object| &object.kind) else {
        return Vec::new();
    };
    let can_grow = matches!(dataset.storage, NewStorage::Chunked { .. });
    match &dataset.dataspace {
        Dataspace::Simple { shape, max_shape } => {
            let axes = shape.iter().zip(max_shape);
            axes.map(|(len, most)| (*len, *len == 0 || (can_grow && most.is_none()))).collect()
        }
        _ => Vec::new(),
    }
}

/// Gives dimensions the lengths of a variable. Fails if they have others.
fn measure(
    described: &Described<'_>,
    dimensions: &mut Dimensions,
    variable: &NetcdfVariable,
    axes: &[usize],
    extent: &[(u64, bool)],
) -> Result<()> {
    for (number, (len, unlimited)) in axes.iter().zip(extent) {
        let Some(dimension) = dimensions.all.get_mut(*number) else { continue };
        if !dimension.is_used {
            (dimension.len, dimension.unlimited, dimension.is_used) = (*len, *unlimited, true);
        } else if dimension.len == *len || (dimension.unlimited && *unlimited) {
            dimension.len = dimension.len.max(*len);
            dimension.unlimited &= *unlimited;
        } else {
            let (name, other) = (&dimension.name, dimension.len);
            let array = described.objects.get(variable.object).map(|object| object.path.as_str());
            return Err(Error::Copy {
                array: format!("/{}", array.unwrap_or_default()),
                why: format!(
                    "its dimension {name:?} has {len} elements, and {other} in another array of the group; a \
                     dimension of NetCDF has one length: rename one of them, or copy to HDF5 (a name that ends in \
                     .h5)"
                ),
            });
        }
    }
    Ok(())
}

/// Finds or makes the scale of each dimension.
fn find_scales(
    described: &mut Described<'_>,
    dimensions: &mut Dimensions,
    variables: &[NetcdfVariable],
    axes: &[Vec<usize>],
) -> Result<()> {
    for (variable, axes) in variables.iter().zip(axes) {
        let first = axes.first().and_then(|number| dimensions.all.get_mut(*number));
        if let Some(dimension) = first
            && (dimension.group, &dimension.name) == (variable.group, &variable.name)
        {
            dimension.scale = Some((variable.object, true));
        }
    }
    for dimension in dimensions.all.iter_mut().filter(|dimension| dimension.scale.is_none()) {
        let above = described.objects.get(dimension.group).map_or("", |object| object.path.as_str());
        let path = join(above, &dimension.name);
        let refuse = |why: &str| Error::Copy {
            array: format!("/{path}"),
            why: format!("{why}, and a dimension has this name; rename one of them"),
        };
        if !written::is_name(&dimension.name) {
            return Err(refuse("NetCDF allows no such name"));
        }
        if let Some(taken) = described.number(&path) {
            if !variables.iter().any(|variable| variable.object == taken) {
                return Err(refuse("a group or a type is there"));
            }
            described.rename(
                dimension.group,
                &dimension.name,
                &format!("{NOT_COORDINATES}{}", dimension.name),
            );
        }
        let kind = NewKind::Dataset(written::empty_scale(dimension.len, dimension.unlimited));
        let made = described.add_linked(&path, kind);
        if let Some(object) = described.objects.get_mut(made) {
            object.tracks_attributes = true;
        }
        dimension.scale = Some((made, false));
    }
    Ok(())
}

/// Makes a dataset as long as its dimensions can be.
fn limit(described: &mut Described<'_>, dimensions: &Dimensions, object: usize, axes: &[usize]) {
    let limits: Vec<Option<u64>> = axes
        .iter()
        .filter_map(|number| dimensions.all.get(*number))
        .map(|dimension| (!dimension.unlimited).then_some(dimension.len))
        .collect();
    let Some(NewKind::Dataset(dataset)) = described.objects.get_mut(object).map(|object| &mut object.kind)
    else {
        return;
    };
    let Dataspace::Simple { max_shape, .. } = &mut dataset.dataspace else { return };
    if limits.contains(&None) && !matches!(dataset.storage, NewStorage::Chunked { .. }) {
        // Only a dataset without elements.
        let chunk = written::default_chunks(&limits, dataset.datatype.size.into());
        dataset.storage = NewStorage::Chunked { chunk, chunks: Vec::new() };
    }
    // No chunk is longer than its axis can be. Its filters may depend on its length, which stays.
    let fitted = |(axis, most): (usize, Option<u64>)| match &dataset.storage {
        NewStorage::Chunked { chunk, .. } => most.map(|most| most.max(chunk.get(axis).copied().unwrap_or(0))),
        _ => most,
    };
    *max_shape = limits.into_iter().enumerate().map(fitted).collect();
}

/// Adds the attributes of a variable, and the variable to its dimensions.
fn attach(described: &mut Described<'_>, dimensions: &mut Dimensions, object: usize, axes: &[usize]) {
    if axes.is_empty() {
        return;
    }
    let found: Vec<Option<usize>> = axes
        .iter()
        .map(|number| dimensions.all.get(*number)?.scale)
        .map(|scale| scale.map(|(object, _)| object))
        .collect();
    let id = |number: &usize| i32::try_from(*number).unwrap_or(i32::MAX);
    let mut attributes = vec![written::coordinates(&axes.iter().map(id).collect::<Vec<i32>>())];
    // A scale has no scales.
    if found.first() != Some(&Some(object)) {
        attributes.push(written::dimension_list(&found));
        for (axis, number) in (0..).zip(axes) {
            if let Some(dimension) = dimensions.all.get_mut(*number) {
                dimension.users.push((object, axis));
            }
        }
    }
    put(described, object, attributes);
}

/// Gives names to types that NetCDF has with names only.
fn commit_types(described: &mut Described<'_>) {
    let is_type = |object: &NewObject| match &object.kind {
        NewKind::Datatype(datatype) => Some(datatype.clone()),
        _ => None,
    };
    let mut known: Vec<Datatype> = described.objects.iter().filter_map(is_type).collect();
    for member in 0..described.arrays.len() {
        let Some(object) = described.arrays.get(member).map(|member| member.object) else { continue };
        let Some(found) = described.objects.get(object) else { continue };
        let NewKind::Dataset(dataset) = &found.kind else { continue };
        let is_user_type = matches!(
            dataset.datatype.class,
            Class::Compound(_) | Class::Enum { .. } | Class::Vlen(_) | Class::Opaque { .. }
        );
        if !is_user_type || known.contains(&dataset.datatype) {
            continue;
        }
        let (path, datatype) = (found.path.clone(), dataset.datatype.clone());
        let mut name = format!("{path}_t");
        while described.number(&name).is_some() {
            name.push('_');
        }
        let made = described.add_type_first(&name, datatype.clone());
        if let Some(object) = described.objects.get_mut(made) {
            object.tracks_attributes = true;
        }
        known.push(datatype);
        described.note(TYPES, format!("/{name}"));
    }
}

/// Removes attributes that this file writes itself.
fn drop_reserved(described: &mut Described<'_>, object: usize, notes: bool) {
    let is_of_hdf5 = described.is_hdf5;
    let Some(found) = described.objects.get_mut(object) else { return };
    let (own, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut found.attributes)
        .into_iter()
        .partition(|attribute| is_reserved(&attribute.name) || attribute.name == super::scales::AXIS_LABELS);
    found.attributes = kept;
    let path = found.path.clone();
    // An HDF5 file has them for the same reason.
    if notes && !is_of_hdf5 {
        for attribute in own {
            described.note(RESERVED, format!("/{path}, {:?}", attribute.name));
        }
    }
}

fn put(described: &mut Described<'_>, object: usize, attributes: Vec<NewAttribute>) {
    if let Some(found) = described.objects.get_mut(object) {
        found.attributes.extend(attributes);
    }
}

fn join(group: &str, name: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{group}/{name}") }
}

/// Returns why NetCDF has no elements of a type.
pub(super) fn refused(datatype: &Datatype) -> Option<String> {
    let is_known = match &datatype.class {
        Class::Integer { .. } => matches!(datatype.size, 1 | 2 | 4 | 8),
        Class::Float(_) => matches!(datatype.size, 4 | 8),
        Class::String { .. } | Class::VlenString { .. } | Class::Opaque { .. } | Class::Enum { .. } => true,
        Class::Vlen(base) => return refused(base),
        Class::Array { base, .. } => return refused(base),
        Class::Compound(members) => return members.iter().find_map(|member| refused(&member.datatype)),
        _ => false,
    };
    (!is_known).then(|| {
        "NetCDF has no elements of its type (it has integers, floats of 4 and 8 bytes, text, and types made of \
         them); convert the array first, or copy to HDF5 (a name that ends in .h5)"
            .to_owned()
    })
}
