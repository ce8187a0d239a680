//! Groups of HDF5: what is below them.

use crate::{Array, Error, Node, NodeKind, error::check, hdf5_array::Hdf5Array};
use hyperslab_hdf5::{self as hdf5, Link, LinkTarget};
use hyperslab_store::Ask;
use std::collections::HashMap;

/// The kinds of what is below a group, as [`crate::Group::walk`]: paths are relative to it. Links
/// by path are not followed; nor is a second hard link to a group, which is shown as a link to the
/// first: so there are no circles.
pub(crate) fn walk(
    group: &hdf5::Group,
    max_depth: Option<usize>,
    ask: Option<Ask<'_>>,
) -> Result<Vec<(String, NodeKind)>, Error> {
    let found = walk_addresses(group, max_depth, ask)?;
    Ok(found.into_iter().map(|(path, kind, _)| (path, kind)).collect())
}

/// What is at an address of the file; its path is relative to `group`.
pub(crate) fn node_at(group: &hdf5::Group, address: u64, path: &str) -> Result<Node, Error> {
    node(group.file(), group.file().object_at(address, &full(group, path))?)
}

fn full(group: &hdf5::Group, path: &str) -> String {
    match group.path() {
        "" => path.to_owned(),
        base => format!("{base}/{path}"),
    }
}

/// As [`walk`], with the addresses of objects.
pub(crate) fn walk_addresses(
    group: &hdf5::Group,
    max_depth: Option<usize>,
    ask: Option<Ask<'_>>,
) -> Result<Vec<(String, NodeKind, Option<u64>)>, Error> {
    let mut found = Vec::new();
    let mut seen = HashMap::from([(group.address(), group.path().to_owned())]);
    // Groups under way, from the outermost: a path may be deeper than the stack.
    let mut open = vec![(String::new(), group.links()?.into_iter())];
    while let Some((base, links)) = open.last_mut() {
        let Some(link) = links.next() else {
            open.pop();
            continue;
        };
        check(ask)?;
        let path = if base.is_empty() { link.name.clone() } else { format!("{base}/{}", link.name) };
        let (mut kind, child) = kind(group, &path, &link)?;
        if let Some(child) = child {
            let full = child.path().to_owned();
            match seen.get(&child.address()) {
                Some(first) => kind = NodeKind::Link(format!("/{first}")),
                None => {
                    seen.insert(child.address(), full);
                    if max_depth.is_none_or(|most| open.len() < most) {
                        open.push((path.clone(), child.links()?.into_iter()));
                    }
                }
            }
        }
        let address = match link.target {
            LinkTarget::Hard(address) => Some(address),
            _ => None,
        };
        found.push((path, kind, address));
    }
    Ok(found)
}

/// What a link of `group` (or of one below, then with a longer path) leads to; the group, if it is
/// one.
fn kind(group: &hdf5::Group, path: &str, link: &Link) -> Result<(NodeKind, Option<hdf5::Group>), Error> {
    let address = match &link.target {
        LinkTarget::Hard(address) => *address,
        LinkTarget::Soft(target) => return Ok((NodeKind::Link(target.clone()), None)),
        LinkTarget::External { file, path } => {
            return Ok((NodeKind::Link(format!("{file}:{path}")), None));
        }
        LinkTarget::UserDefined(kind) => {
            return Ok((NodeKind::Link(format!("user-defined, of kind {kind}")), None));
        }
    };
    Ok(match group.file().object_at(address, &full(group, path)) {
        Err(error @ hdf5::Hdf5Error::Interrupted { .. }) => return Err(error.into()),
        Ok(hdf5::Node::Group(child)) => (NodeKind::Group, Some(child)),
        Ok(hdf5::Node::Datatype(_)) => (NodeKind::Datatype, None),
        // What cannot be opened says so when that is tried.
        Ok(hdf5::Node::Dataset(_)) | Err(_) => (NodeKind::Array, None),
    })
}

/// What `file` has, for users.
pub(crate) fn node(file: &hdf5::File, node: hdf5::Node) -> Result<Node, Error> {
    match node {
        hdf5::Node::Group(group) => Ok(Node::Group(group.into())),
        hdf5::Node::Dataset(dataset) => Ok(Node::Array(Array::of_hdf5(Hdf5Array::new(dataset)?))),
        hdf5::Node::Datatype(datatype) => Err(Error::NodeKind {
            name: format!("/{}", datatype.path),
            url: crate::DataFile::from(file.clone()).url(),
            found: "a committed datatype",
            wanted: "an array or group",
        }),
    }
}
