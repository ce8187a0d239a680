//! Groups: nodes that hold arrays and other groups.

use crate::formats::hdf5_write;
use crate::joined::{Joined, JoinedGroup};
use crate::nodes::interface::{Below, GroupNode, Inner, Object, node_methods};
use crate::stores::{Reached, reach_new};
use crate::{Array, DataFile, Error, Format, GroupInfo, Json, Node, NodeKind, Result};
use hyperslab_hdf5 as hdf5;
use hyperslab_netcdf as netcdf;
use hyperslab_store::{Ask, Store};
use hyperslab_zarr::{self as zarr, ArraySpec};
use std::borrow::Cow;
use std::sync::Arc;

/// A group.
#[derive(Clone, Debug)]
pub struct Group(Inner<zarr::Group, Arc<dyn GroupNode>>);

node_methods!(Group: zarr::Group, GroupNode);

impl From<hdf5::Group> for Group {
    fn from(group: hdf5::Group) -> Self {
        Group(Inner::Read(Arc::new(group)))
    }
}

impl From<netcdf::File> for Group {
    fn from(file: netcdf::File) -> Self {
        Group(Inner::Read(Arc::new(file)))
    }
}

impl Group {
    /// Opens the group at a path or `file://` URL.
    pub fn open(location: &str) -> Result<Group> {
        crate::open(location)?.into_group()
    }

    /// Creates a group at a path or `file://` URL. Fails if an array or group exists there.
    ///
    /// In HDF5 it is the root group of a new file on the local disk: see [`Group::finish`].
    pub fn create(location: &str, format: Format) -> Result<Group> {
        if format == Format::Hdf5 {
            return DataFile::create_hdf5_at(location)?.open("")?.into_group();
        }
        let (Reached { store, path, .. }, format) = (reach_new(location)?, format.zarr()?);
        Ok(zarr::Group::create(store, &path, format, Json::object(), false)?.into())
    }

    /// Opens the group at a path or `file://` URL to change it: for Zarr like [`Group::open`], for HDF5
    /// the root group of a local file. See [`Group::finish`].
    pub fn edit(location: &str) -> Result<Group> {
        match DataFile::edit_hdf5_at(location)? {
            Some(file) => file.open("")?.into_group(),
            None => Group::open(location),
        }
    }

    /// Makes changes of an HDF5 file permanent, and visible to other programs. Other formats are
    /// written at once.
    pub fn flush(&self) -> Result<()> {
        self.file().map_or(Ok(()), |file| file.flush())
    }

    /// Flushes and closes the file that the group is in. Changes since the last flush are lost
    /// otherwise. For groups of other formats there is nothing to do.
    pub fn finish(self) -> Result<()> {
        self.file().map_or(Ok(()), |file| file.finish())
    }

    /// The names and kinds of the nodes directly below; sorted for Zarr.
    pub fn children(&self) -> Result<Vec<(String, NodeKind)>> {
        self.walk(Some(1))
    }

    /// The paths (relative to this group) and kinds of all nodes below, down to `max_depth` levels.
    /// The members of a group come right after the group.
    ///
    /// Does not follow links by path, nor a second hard link to a group.
    pub fn walk(&self, max_depth: Option<usize>) -> Result<Vec<(String, NodeKind)>> {
        let found = self.below(max_depth, None)?;
        Ok(found.into_iter().map(|below| (below.path, below.kind)).collect())
    }

    /// Like [`Group::walk`], with the information that [`Group::open_below`] needs.
    /// `ask` is called between nodes; if it returns `true`, this fails with [`Error::Interrupted`].
    pub fn below(&self, max_depth: Option<usize>, ask: Option<Ask<'_>>) -> Result<Vec<Below>> {
        self.node().walk(max_depth, ask)
    }

    /// Opens a node that [`Group::below`] found.
    pub fn open_below(&self, below: &Below) -> Result<Object> {
        match (below.id, &below.listed) {
            (Some(id), _) => self.object_by_id(id, &below.path),
            (None, Some(listed)) => self.node().open_listed(listed),
            (None, None) => self.object(&below.path),
        }
    }

    /// The object with this [`Below::id`]; `path` is its path relative to this group.
    pub fn object_by_id(&self, id: u64, path: &str) -> Result<Object> {
        self.node().object_by_id(id, path)
    }

    /// The targets of the names directly below, in a file that has links.
    /// Variables of NetCDF-3 count as hard links.
    pub fn links(&self) -> Result<Vec<(String, hdf5::LinkTarget)>> {
        self.node().links()
    }

    /// The target of a name directly below; see [`Group::links`].
    pub fn link(&self, name: &str) -> Result<Option<hdf5::LinkTarget>> {
        self.node().link(name)
    }

    /// The kind of the node with this name or relative path; `None`: there is none.
    pub fn child_kind(&self, name: &str) -> Result<Option<NodeKind>> {
        self.node().child_kind(name)
    }

    /// Returns `true` if nodes below are found through consolidated metadata.
    pub fn is_consolidated(&self) -> bool {
        self.node().is_consolidated()
    }

    /// Reads the metadata again, to see changes by others.
    pub fn refresh(&mut self) -> Result<()> {
        match self.file() {
            None => self.as_zarr_mut()?.refresh()?,
            Some(file) => *self = file.refreshed()?.open(self.path())?.into_group()?,
        }
        Ok(())
    }

    /// The node with this name or relative path. Follows links.
    pub fn child(&self, name: &str) -> Result<Node> {
        self.object(name)?.into_node()
    }

    /// Like [`Group::child`], but also finds committed datatypes.
    pub fn object(&self, name: &str) -> Result<Object> {
        self.node().object(name)
    }

    /// The array with this name or relative path.
    pub fn array(&self, name: &str) -> Result<Array> {
        self.child(name)?.into_array()
    }

    /// The group with this name or relative path.
    pub fn group(&self, name: &str) -> Result<Group> {
        self.child(name)?.into_group()
    }

    /// Creates a group of the same format below this one. Fails if an array or group has that name.
    pub fn create_group(&self, name: &str, attributes: Json) -> Result<Group> {
        if let Inner::Read(group) = &self.0 {
            return group.create_group(name, &attributes);
        }
        let (path, format) = (self.path_of(name)?, self.format().zarr()?);
        let made = zarr::Group::create(self.store().clone(), &path, format, attributes, false)?;
        match self.as_zarr().filter(|group| group.is_consolidated()) {
            None => Ok(made.into()),
            Some(group) => {
                group.notice(name)?;
                self.group(name)
            }
        }
    }

    /// Creates an array below this group. Fails if an array or group has that name.
    ///
    /// In HDF5, `spec` is of either version of Zarr. The elements are in one run of bytes unless it
    /// has chunks, filters or compressors; they are not compressed unless it says so.
    pub fn create_array(&self, name: &str, spec: &ArraySpec) -> Result<Array> {
        if let Inner::Read(group) = &self.0 {
            return group.create_array(name, spec);
        }
        let path = self.path_of(name)?;
        self.adopt(zarr::Array::create(self.store().clone(), &path, spec.clone(), false)?)
    }

    /// Deletes the array or group of this name or relative path, and everything below it.
    pub fn delete(&mut self, name: &str) -> Result<()> {
        match &mut self.0 {
            Inner::Read(group) => group.delete(name),
            Inner::Zarr(group) => Ok(group.delete_child(name, None)?),
        }
    }

    /// Creates an array below this group, replacing what has that name; see [`Array::replace`].
    pub fn replace_array(
        &self,
        name: &str,
        spec: &ArraySpec,
        fill: impl FnOnce(&Array) -> Result<()>,
    ) -> Result<Array> {
        self.format().zarr()?;
        self.adopt(Array::replaced(self.store().clone(), &self.path_of(name)?, spec, fill)?)
    }

    fn adopt(&self, mut made: zarr::Array) -> Result<Array> {
        if let Some(group) = self.as_zarr() {
            group.adopt(&mut made)?;
        }
        Ok(made.into())
    }

    /// All facts about the group.
    /// Visits all nodes below and counts their chunks by listing the store. `ask` is called between
    /// nodes; if it returns `true`, this fails with [`Error::Interrupted`].
    pub fn info(&self, ask: Option<Ask<'_>>) -> Result<GroupInfo> {
        GroupInfo::new(self, ask)
    }

    /// The group as HDF5 sees it; `None` for other formats.
    pub fn as_hdf5(&self) -> Option<&hdf5::Group> {
        self.downcast()
    }

    /// The sources that were joined to this group, if it is a joined one.
    pub(crate) fn as_joined(&self) -> Option<&Arc<Joined>> {
        self.downcast().map(JoinedGroup::joined)
    }

    /// The group as its format describes it.
    pub(crate) fn of_format(node: Arc<dyn GroupNode>) -> Group {
        Group(Inner::Read(node))
    }

    /// The NetCDF-3 file whose root this is; `None` for other formats.
    pub fn as_netcdf3(&self) -> Option<&netcdf::File> {
        self.downcast()
    }

    /// Makes a dataset of few plain elements in a group of an HDF5 file, in one step. Returns its
    /// address.
    ///
    /// `elements`: as they are stored. `None`: the general way has to make it, or to say why it cannot be
    /// made.
    pub fn create_run(
        &self,
        name: &str,
        datatype: hdf5::datatype::Datatype,
        shape: &[u64],
        elements: &[u8],
    ) -> Result<Option<u64>> {
        match self.as_hdf5() {
            Some(group) => hdf5_write::create_run(group, name, datatype, shape, elements),
            None => Ok(None),
        }
    }

    fn path_of(&self, name: &str) -> Result<String> {
        Ok(zarr::join(self.path(), &zarr::normalize_path(name)?))
    }
}
