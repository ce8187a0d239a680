//! HDF5 groups and their members.

use crate::formats::hdf5_json;
use crate::formats::hdf5_write::hierarchy;
use crate::nodes::interface::{Below, FileNode, GroupNode, Object, StoredNode, stored_in_file};
use crate::{Array, DataFile, Error, Format, Group, Json, NodeKind, Result, error::check};
use hyperslab_hdf5::{self as hdf5, Hdf5Error, Link, LinkTarget};
use hyperslab_store::{Ask, Store};
use hyperslab_zarr::{ArraySpec, join};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

stored_in_file!(hdf5::Group, |group|
    file: group.file(),
    path: group.path(),
    attributes: hdf5_json::attributes(&group.attributes()?)?,
    changed: (group.file(), group.address()));

impl GroupNode for hdf5::Group {
    fn walk(&self, max_depth: Option<usize>, ask: Option<Ask<'_>>) -> Result<Vec<Below>> {
        walk(self, max_depth, ask)
    }

    fn object(&self, path: &str) -> Result<Object> {
        DataFile::from(self.file().clone()).check_open()?;
        Object::of_hdf5(self.file(), self.child(path)?)
    }

    fn object_by_id(&self, id: u64, path: &str) -> Result<Object> {
        DataFile::from(self.file().clone()).check_open()?;
        Object::of_hdf5(self.file(), self.file().object_at(id, &join(self.path(), path))?)
    }

    fn child_kind(&self, path: &str) -> Result<Option<NodeKind>> {
        match self.object(path) {
            Ok(Object::Array(_)) => Ok(Some(NodeKind::Array)),
            Ok(Object::Group(_)) => Ok(Some(NodeKind::Group)),
            Ok(Object::Datatype(..)) => Ok(Some(NodeKind::Datatype)),
            Err(Error::Hdf5(Hdf5Error::NotFound { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn links(&self) -> Result<Vec<(String, LinkTarget)>> {
        Ok(self.links()?.into_iter().map(|link| (link.name, link.target)).collect())
    }

    fn link(&self, name: &str) -> Result<Option<LinkTarget>> {
        Ok(self.link(name)?.map(|link| link.target))
    }

    fn create_group(&self, name: &str, attributes: &Json) -> Result<Group> {
        Ok(hierarchy::create_group(self, name, attributes)?.into())
    }

    fn create_array(&self, name: &str, spec: &ArraySpec) -> Result<Array> {
        hierarchy::create_array(self, name, spec)
    }

    fn delete(&self, name: &str) -> Result<()> {
        hierarchy::delete(self, name)
    }
}

/// Lists everything below a group.
/// Links by path are not followed. A second hard link to a group is listed as a link to the first,
/// so there are no cycles.
fn walk(group: &hdf5::Group, max_depth: Option<usize>, ask: Option<Ask<'_>>) -> Result<Vec<Below>> {
    let mut found = Vec::new();
    let mut seen = HashMap::from([(group.address(), group.path().to_owned())]);
    // The groups being walked, outermost first: a path may be too deep for recursion.
    let mut open = vec![(String::new(), group.links()?.into_iter())];
    while let Some((base, links)) = open.last_mut() {
        let Some(link) = links.next() else {
            open.pop();
            continue;
        };
        check(ask)?;
        let path = join(base, &link.name);
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
        let id = match link.target {
            LinkTarget::Hard(address) => Some(address),
            _ => None,
        };
        found.push(Below { path, kind, id, listed: None });
    }
    Ok(found)
}

/// The kind of a link's target, and the target if it is a group.
/// `path`: the link's path relative to `group`; longer than a name for links of groups below.
fn kind(group: &hdf5::Group, path: &str, link: &Link) -> Result<(NodeKind, Option<hdf5::Group>)> {
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
    Ok(match group.file().object_at(address, &join(group.path(), path)) {
        Err(error @ hdf5::Hdf5Error::Interrupted { .. }) => return Err(error.into()),
        Ok(hdf5::Node::Group(child)) => (NodeKind::Group, Some(child)),
        Ok(hdf5::Node::Datatype(_)) => (NodeKind::Datatype, None),
        // If the object cannot be opened, opening the array reports the error.
        Ok(hdf5::Node::Dataset(_)) | Err(_) => (NodeKind::Array, None),
    })
}
