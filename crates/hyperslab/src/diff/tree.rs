//! The nodes below one of the two, as programs see them.

use crate::error::check;
use crate::meaning::Meaning;
use crate::{Array, Format, Json, Node, NodeKind, Object, Result, Variable, open_node};
use hyperslab_store::Ask;
use std::collections::BTreeMap;

/// A node and everything below it.
pub(super) struct Tree {
    pub(super) root: Node,
    /// By path below the root; `""`: the root.
    pub(super) members: BTreeMap<String, Member>,
    /// Path and reason of nodes that cannot be opened.
    pub(super) failures: Vec<(String, String)>,
}

/// A node below the root.
pub(super) enum Member {
    Array(Box<(Array, Variable)>),
    /// A group, with its attributes.
    Group(Json),
    /// A committed datatype of HDF5, as text.
    Datatype(String),
    /// A link of HDF5, with its target.
    Link(String),
}

impl Member {
    /// "array", "group", …
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Member::Array(_) => "array",
            Member::Group(_) => "group",
            Member::Datatype(_) => "datatype",
            Member::Link(_) => "link",
        }
    }
}

impl Tree {
    /// Opens all nodes below `root`.
    pub(super) fn of(root: &Node, ask: Option<Ask<'_>>) -> Result<Tree> {
        let mut tree = Tree { root: root.clone(), members: BTreeMap::new(), failures: Vec::new() };
        let mut found: Vec<(String, Object)> = vec![(String::new(), root.clone().into())];
        if let Node::Group(group) = root {
            for below in group.below(None, ask)? {
                check(ask)?;
                if let NodeKind::Link(target) = &below.kind {
                    tree.members.insert(below.path, Member::Link(target.clone()));
                    continue;
                }
                match group.open_below(&below) {
                    Ok(node) => found.push((below.path, node)),
                    Err(error) if error.is_interruption() => return Err(error),
                    Err(error) => tree.failures.push((below.path, error.to_string())),
                }
            }
        }
        let arrays = found.iter().filter_map(|(_, node)| match node {
            Object::Array(array) => Some(array),
            _ => None,
        });
        let meaning = Meaning::of(root, arrays)?;
        for (path, node) in found {
            check(ask)?;
            match member(&meaning, node) {
                // A dataset that only stands for a dimension.
                Ok(None) => {}
                Ok(Some(member @ Member::Array(_))) => {
                    tree.members.insert(meaning.path(&path), member);
                }
                Ok(Some(member)) => {
                    tree.members.insert(path, member);
                }
                Err(error) if error.is_interruption() => return Err(error),
                Err(error) => tree.failures.push((path, error.to_string())),
            }
        }
        Ok(tree)
    }

    /// Returns `true` if the format has committed datatypes.
    pub(super) fn has_datatypes(&self) -> bool {
        self.root.format() == Format::Hdf5
    }

    /// The array with coordinates along a dimension, for the array at a path: of its name, with one
    /// axis, in the same group or a group above.
    pub(super) fn coordinate(&self, path: &str, dimension: &str) -> Option<Array> {
        let has_one_axis = |array: &Array| array.shape().len() == 1;
        let mut group = match &self.root {
            Node::Group(_) => path,
            Node::Array(array) => return beside(array, dimension).filter(has_one_axis),
        };
        while !group.is_empty() {
            group = group.rsplit_once('/').map_or("", |(above, _)| above);
            let place = if group.is_empty() { dimension.to_owned() } else { format!("{group}/{dimension}") };
            match self.members.get(&place) {
                Some(Member::Array(found)) if place != path && has_one_axis(&found.0) => {
                    return Some(found.0.clone());
                }
                _ => {}
            }
        }
        None
    }
}

/// The array of this name in the group of an array.
fn beside(array: &Array, name: &str) -> Option<Array> {
    let (group, own) = array.path().rsplit_once('/').unwrap_or(("", array.path()));
    if own.is_empty() || own == name {
        return None;
    }
    let node = match array.file() {
        Some(file) => file.open(group).ok()?,
        None => open_node(array.store(), group, Some(array.format())).ok()?,
    };
    node.into_group().ok()?.array(name).ok()
}

/// `None`: a dataset that only stands for a dimension.
fn member(meaning: &Meaning, node: Object) -> Result<Option<Member>> {
    Ok(Some(match node {
        Object::Array(array) => match meaning.variable(&array)? {
            Some(variable) => Member::Array(Box::new((array, variable))),
            None => return Ok(None),
        },
        Object::Group(group) => Member::Group(meaning.group_attributes(&group)?.0),
        Object::Datatype(_, found) => Member::Datatype(format!("{:?}", found.datatype)),
    }))
}
