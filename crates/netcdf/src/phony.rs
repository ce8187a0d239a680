//! Phony dimensions: the names that netCDF-C gives to axes without a dimension.
//!
//! With them, any HDF5 file can be read as NetCDF. They are found in two passes:
//!
//! 1. Visit each group, then the groups in it. A scale is a dimension with the number that it
//!    states, or else with the next number of the file.
//! 2. Visit the groups in a group, then the group itself. If the first axis of a dataset has no
//!    scale, each of its axes takes a dimension of the group. The dimension must have the axis's
//!    length, and be limited or unlimited as the axis is. No two axes of a dataset take the same
//!    dimension. If none is left, the group gets a new one: `phony_dim_` and the next number of the
//!    file.
//!
//! Datasets of types that NetCDF does not have (references, bitfields, times, arrays) take none.

use crate::netcdf4::{Axes, Scale, datasets, groups_in};
use hyperslab_hdf5::dataspace::Dataspace;
use hyperslab_hdf5::datatype::{Class, Datatype};
use hyperslab_hdf5::{Dataset, File, Group, Hdf5Error};
use std::collections::{BTreeMap, HashSet};

/// An axis: its length, and `true` if it may grow.
type Axis = (u64, bool);

/// A dimension of a group, for axes of its length and kind.
struct Known {
    axis: Axis,
    name: String,
}

/// A group, and the work on it that comes after the groups in it.
struct Visited {
    dimensions: Vec<Known>,
    /// The datasets without scales, by path, and their axes.
    without: Vec<(String, Vec<Axis>)>,
    /// Indices of the groups in it.
    inner: Vec<usize>,
}

/// The names of axes without dimensions, as in netCDF-C, by the dataset's path (no leading `/`).
pub fn phony_dimension_names(file: &File) -> Result<BTreeMap<String, Vec<String>>, Hdf5Error> {
    let root = file.root()?;
    let mut seen = HashSet::from([root.address()]);
    let mut visited: Vec<Visited> = Vec::new();
    let mut next_id = 0;
    // Groups to visit, the next one last; and the index of the group that each is in.
    let mut waiting = vec![(root, None)];
    while let Some((group, outer)) = waiting.pop() {
        let index = visited.len();
        if let Some(outer) = outer.and_then(|outer: usize| visited.get_mut(outer)) {
            outer.inner.push(index);
        }
        visited.push(visit(&group, &mut next_id)?);
        let inner = groups_in(&group, &mut seen)?;
        waiting.extend(inner.into_iter().rev().map(|group| (group, Some(index))));
    }
    let mut names = BTreeMap::new();
    for index in inner_first(&visited) {
        let Some(group) = visited.get_mut(index) else { continue };
        for (path, axes) in std::mem::take(&mut group.without) {
            names.insert(path, take(&mut group.dimensions, &mut next_id, &axes));
        }
    }
    Ok(names)
}

fn visit(group: &Group, next_id: &mut i128) -> Result<Visited, Hdf5Error> {
    let mut visited = Visited { dimensions: Vec::new(), without: Vec::new(), inner: Vec::new() };
    for dataset in datasets(group)? {
        let axes = axes(&dataset);
        if let Some(scale) = Scale::of(&dataset.attributes()?)? {
            *next_id = scale.id.unwrap_or(*next_id).saturating_add(1).max(*next_id);
            let name = dataset.path().rsplit('/').next().unwrap_or_default().to_owned();
            visited.dimensions.extend(axes.first().map(|axis| Known { axis: *axis, name }));
        } else if !Axes::of(&dataset)?.first_is_known() && is_netcdf(dataset.datatype()) && !axes.is_empty() {
            visited.without.push((dataset.path().to_owned(), axes));
        }
    }
    Ok(visited)
}

fn axes(dataset: &Dataset) -> Vec<Axis> {
    match dataset.dataspace() {
        Dataspace::Simple { shape, max_shape } => {
            shape.iter().zip(max_shape).map(|(len, max)| (*len, max.is_none())).collect()
        }
        _ => Vec::new(),
    }
}

/// The order in which every group comes after the groups in it.
fn inner_first(visited: &[Visited]) -> Vec<usize> {
    let mut order = Vec::new();
    let mut stack = vec![(0, false)];
    while let Some((index, inner_done)) = stack.pop() {
        let Some(group) = visited.get(index) else { continue };
        if inner_done {
            order.push(index);
        } else {
            stack.push((index, true));
            stack.extend(group.inner.iter().rev().map(|index| (*index, false)));
        }
    }
    order
}

/// The names of the dimensions that a dataset's axes take.
fn take(dimensions: &mut Vec<Known>, next_id: &mut i128, axes: &[Axis]) -> Vec<String> {
    let mut taken = HashSet::new();
    let mut names = Vec::new();
    for axis in axes {
        let mut known = dimensions.iter().enumerate();
        let found = known.find(|(index, known)| known.axis == *axis && !taken.contains(index));
        let index = found.map_or(dimensions.len(), |(index, _)| index);
        if index == dimensions.len() {
            dimensions.push(Known { axis: *axis, name: format!("phony_dim_{next_id}") });
            *next_id = next_id.saturating_add(1);
        }
        taken.insert(index);
        names.extend(dimensions.get(index).map(|known| known.name.clone()));
    }
    names
}

/// Returns whether NetCDF has this type for variables. Also `true` for a plain float of 16 bits.
fn is_netcdf(datatype: &Datatype) -> bool {
    match &datatype.class {
        Class::Reference(_) | Class::Bitfield { .. } | Class::Time { .. } | Class::Array { .. } => false,
        Class::Vlen(base) => is_atomic(base),
        Class::Compound(members) => members.iter().all(|member| {
            let datatype = match &member.datatype.class {
                Class::Array { base, .. } => base,
                _ => &member.datatype,
            };
            let is_user_type = matches!(
                datatype.class,
                Class::Compound(_) | Class::Vlen(_) | Class::Enum { .. } | Class::Opaque { .. }
            );
            is_atomic(datatype) || is_user_type && is_netcdf(datatype)
        }),
        _ => true,
    }
}

fn is_atomic(datatype: &Datatype) -> bool {
    match datatype.class {
        Class::Integer { .. } => matches!(datatype.size, 1 | 2 | 4 | 8),
        Class::Float(_) => matches!(datatype.size, 4 | 8),
        Class::String { .. } | Class::VlenString { .. } => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_takes_a_dimension_of_its_kind_once() {
        let mut dimensions = vec![Known { axis: (4, true), name: "time".into() }];
        let mut next_id = 7;
        let mut names = |axes: &[Axis]| take(&mut dimensions, &mut next_id, axes).join(" ");
        assert_eq!(names(&[(4, false), (4, true), (3, false)]), "phony_dim_7 time phony_dim_8");
        assert_eq!(names(&[(3, false), (3, false), (4, false)]), "phony_dim_8 phony_dim_9 phony_dim_7");
        assert_eq!(names(&[]), "");
        assert_eq!(names(&[(4, true), (4, true), (4, true)]), "time phony_dim_10 phony_dim_11");
    }

    #[test]
    fn groups_come_after_those_in_them() {
        let visited = [vec![1, 3], vec![2], vec![], vec![]].map(|inner| Visited {
            dimensions: Vec::new(),
            without: Vec::new(),
            inner,
        });
        assert_eq!(inner_first(&visited), [2, 1, 3, 0]);
    }
}
