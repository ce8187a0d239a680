//! The nodes below one of the two, as programs see them.

use crate::error::check;
use crate::meaning::{Meaning, coordinate};
use crate::{Array, Format, Json, Node, NodeKind, Object, Result, Variable};
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

    /// The array with coordinates along a dimension, for the array at a path.
    pub(super) fn coordinate(&self, path: &str, dimension: &str) -> Result<Option<Array>> {
        let array = match (&self.root, self.members.get(path)) {
            (Node::Array(array), _) => array,
            (_, Some(Member::Array(member))) => &member.0,
            _ => return Ok(None),
        };
        // The two arrays may have different lengths.
        let found = coordinate(array, dimension, 0)?;
        Ok(found.filter(|found| found.path() != array.path()))
    }
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
