//! The description of one source: its groups, arrays and variables.

use super::Joining;
use crate::meaning::{Meaning, Variable, needed_variables};
use crate::{Array, Error, Json, Node, Result};
use std::collections::BTreeSet;

/// The contents of a source.
#[derive(Debug)]
pub(super) struct Facts {
    /// The groups by path, and their attributes; first the source itself.
    pub(super) groups: Vec<(String, Json)>,
    pub(super) arrays: Vec<ArrayFacts>,
}

/// One array of a source.
#[derive(Debug)]
pub(super) struct ArrayFacts {
    /// The path of the variable.
    pub(super) path: String,
    /// The path of the array as it is stored.
    pub(super) stored_path: String,
    pub(super) array: Array,
    pub(super) variable: Variable,
    /// The axis with the dimension.
    pub(super) axis: Option<usize>,
}

impl Facts {
    /// Describes a source.
    pub(super) fn of(root: &Node, joining: Joining<'_>) -> Result<Facts> {
        let (meaning, nodes) = Meaning::of_all(root, None)?;
        let mut facts = Facts { groups: Vec::new(), arrays: Vec::new() };
        for (stored_path, node) in nodes {
            match node {
                Node::Group(group) => {
                    let (attributes, _) = meaning.group_attributes(&group)?;
                    facts.groups.push((stored_path, attributes));
                }
                Node::Array(array) if array.has_no_shape() => {}
                Node::Array(array) => {
                    let Some(variable) = meaning.variable(&array)? else { continue };
                    let axis = axis(&variable, joining.dimension)
                        .map_err(|why| Error::Copy { array: array.name(), why })?;
                    let path = meaning.path(&stored_path);
                    facts.arrays.push(ArrayFacts { path, stored_path, array, variable, axis });
                }
            }
        }
        if let Some(wanted) = joining.variables {
            let all = facts.arrays.iter().map(|array| (array.path.as_str(), &array.variable));
            let needed: BTreeSet<String> = needed_variables(all, wanted)?;
            facts.arrays.retain(|array| needed.contains(&array.path));
        }
        Ok(facts)
    }

    /// The array of a variable.
    pub(super) fn array(&self, path: &str) -> Option<&ArrayFacts> {
        self.arrays.iter().find(|array| array.path == path)
    }

    /// The length along the dimension. Fails with the dimensions that there are, if it is none of them.
    pub(super) fn len(&self, dimension: &str) -> Result<u64> {
        let mut found: Option<(&ArrayFacts, u64)> = None;
        for array in &self.arrays {
            let Some(len) = array.axis.and_then(|axis| array.variable.shape.get(axis)) else { continue };
            match found {
                Some((other, before)) if before != *len => {
                    return Err(Error::Options(format!(
                        "'{dimension}' is {before} long in {:?} and {len} in {:?}",
                        other.path, array.path
                    )));
                }
                _ => found = Some((array, *len)),
            }
        }
        found.map(|(_, len)| len).ok_or_else(|| {
            let names = self.arrays.iter().flat_map(|array| array.variable.dimension_names.iter().flatten());
            let names: BTreeSet<&str> = names.filter_map(Option::as_deref).collect();
            let names = match names.into_iter().collect::<Vec<_>>().join(", ") {
                names if names.is_empty() => "its axes have no names".to_owned(),
                names => format!("its dimensions are {names}"),
            };
            Error::Options(format!("no array has a dimension named '{dimension}'; {names}"))
        })
    }
}

/// The axis with a name.
fn axis(variable: &Variable, dimension: &str) -> Result<Option<usize>, String> {
    let names = variable.dimension_names.as_deref().unwrap_or_default();
    let mut axes = names.iter().enumerate().filter(|(_, name)| name.as_deref() == Some(dimension));
    let first = axes.next().map(|(axis, _)| axis);
    match axes.next() {
        None => Ok(first),
        Some(_) => Err(format!("it has the dimension '{dimension}' twice, and cannot be joined along it")),
    }
}
