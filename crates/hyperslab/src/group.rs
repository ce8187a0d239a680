//! Groups: nodes that hold arrays and other groups.

use crate::{
    Array, DataFile, Error, Format, GroupInfo, Json, Node, NodeKind, hdf5_group, hdf5_json,
    location::new_store_at, netcdf_array,
};
use hyperslab_hdf5 as hdf5;
use hyperslab_netcdf as netcdf;
use hyperslab_store::{Ask, Store};
use hyperslab_zarr::{self as zarr, ArraySpec};
use std::borrow::Cow;
use std::sync::Arc;

/// A group.
#[derive(Clone, Debug)]
pub struct Group(Inner);

/// The group as its format sees it.
#[derive(Clone, Debug)]
enum Inner {
    Zarr(zarr::Group),
    Hdf5(hdf5::Group),
    /// All of a NetCDF-3 file, which has no other groups.
    NetCdf3(netcdf::File),
}

impl From<zarr::Group> for Group {
    fn from(group: zarr::Group) -> Self {
        Group(Inner::Zarr(group))
    }
}

impl From<hdf5::Group> for Group {
    fn from(group: hdf5::Group) -> Self {
        Group(Inner::Hdf5(group))
    }
}

impl From<netcdf::File> for Group {
    fn from(file: netcdf::File) -> Self {
        Group(Inner::NetCdf3(file))
    }
}

impl Group {
    /// Opens the group at a path or `file://` URL.
    pub fn open(location: &str) -> Result<Group, Error> {
        crate::open(location)?.into_group()
    }

    /// Creates a group at a path or `file://` URL. An array or group that is there is an error.
    pub fn create(location: &str, format: Format) -> Result<Group, Error> {
        let (store, format) = (new_store_at(location)?, format.zarr()?);
        Ok(zarr::Group::create(store, "", format, Json::object(), false)?.into())
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        match &self.0 {
            Inner::Zarr(group) => group.store(),
            Inner::Hdf5(group) => group.file().source().store(),
            Inner::NetCdf3(file) => file.store(),
        }
    }

    /// Where the store is, or the file.
    pub fn url(&self) -> String {
        self.file().map_or_else(|| self.store().url(), |file| file.url())
    }

    /// The file that it is in; `None`: it is of Zarr.
    pub fn file(&self) -> Option<DataFile> {
        match &self.0 {
            Inner::Zarr(_) => None,
            Inner::Hdf5(group) => Some(group.file().clone().into()),
            Inner::NetCdf3(file) => Some(file.clone().into()),
        }
    }

    /// The path in the store, or in the file; `""` for the root.
    pub fn path(&self) -> &str {
        match &self.0 {
            Inner::Zarr(group) => group.path(),
            Inner::Hdf5(group) => group.path(),
            Inner::NetCdf3(_) => "",
        }
    }

    /// `/` and the path.
    pub fn name(&self) -> String {
        format!("/{}", self.path())
    }

    /// The format.
    pub fn format(&self) -> Format {
        match &self.0 {
            Inner::Zarr(group) => group.format().into(),
            Inner::Hdf5(_) => Format::Hdf5,
            Inner::NetCdf3(_) => Format::NetCdf3,
        }
    }

    /// The user's attributes, an object. (HDF5's are read now; references are paths.)
    pub fn attributes(&self) -> Result<Cow<'_, Json>, Error> {
        match &self.0 {
            Inner::Zarr(group) => Ok(Cow::Borrowed(group.attributes())),
            Inner::Hdf5(group) => Ok(Cow::Owned(hdf5_json::attributes(&group.attributes()?)?)),
            Inner::NetCdf3(file) => Ok(Cow::Owned(netcdf_array::attributes(file.attributes()))),
        }
    }

    /// Replaces the attributes, atomically. (To change some of them as they are stored now:
    /// [`Group::as_zarr_mut`].)
    pub fn set_attributes(&mut self, attributes: Json) -> Result<(), Error> {
        Ok(self.as_zarr_mut()?.set_attributes(attributes)?)
    }

    /// The names of what is directly below (of Zarr, sorted), and what it is.
    pub fn children(&self) -> Result<Vec<(String, NodeKind)>, Error> {
        self.walk(Some(1))
    }

    /// The paths (relative to this group) of all that is below, down to `max_depth` levels, and
    /// what it is. A group is followed by what is in it.
    ///
    /// Links by path are not followed, and neither is a second hard link to a group.
    pub fn walk(&self, max_depth: Option<usize>) -> Result<Vec<(String, NodeKind)>, Error> {
        self.walk_asking(max_depth, None)
    }

    /// As [`Group::walk`]; `ask` is asked between nodes, `true` gives up with
    /// [`Error::Interrupted`].
    pub fn walk_asking(
        &self,
        max_depth: Option<usize>,
        ask: Option<Ask<'_>>,
    ) -> Result<Vec<(String, NodeKind)>, Error> {
        match &self.0 {
            Inner::Zarr(group) => {
                let nodes = group.walk_asking(max_depth, ask)?;
                Ok(nodes.into_iter().map(|(path, kind)| (path, kind.into())).collect())
            }
            Inner::Hdf5(group) => hdf5_group::walk(group, max_depth, ask),
            Inner::NetCdf3(_) if max_depth == Some(0) => Ok(Vec::new()),
            Inner::NetCdf3(file) => {
                Ok(netcdf_array::names(file).into_iter().map(|name| (name, NodeKind::Array)).collect())
            }
        }
    }

    /// The node of this name or relative path. Links are followed.
    pub fn child(&self, name: &str) -> Result<Node, Error> {
        match &self.0 {
            Inner::Zarr(group) => Ok(group.child(name)?.into()),
            Inner::Hdf5(group) => hdf5_group::node(group.file(), group.child(name)?),
            Inner::NetCdf3(file) => match file.variable(name.trim_start_matches('/')) {
                Some(variable) => Ok(Node::Array(variable.try_into()?)),
                None => Err(Error::NoVariable { file: self.url(), name: name.to_owned() }),
            },
        }
    }

    /// The array of this name or relative path.
    pub fn array(&self, name: &str) -> Result<Array, Error> {
        self.child(name)?.into_array()
    }

    /// The group of this name or relative path.
    pub fn group(&self, name: &str) -> Result<Group, Error> {
        self.child(name)?.into_group()
    }

    /// Creates a group below this one, of the same format. An array or group of that name is an
    /// error.
    pub fn create_group(&self, name: &str, attributes: Json) -> Result<Group, Error> {
        let (path, format) = (self.below(name)?, self.format().zarr()?);
        let made = zarr::Group::create(self.store().clone(), &path, format, attributes, false)?;
        match self.as_zarr().filter(|group| group.is_consolidated()) {
            None => Ok(made.into()),
            Some(group) => {
                group.notice(name)?;
                self.group(name)
            }
        }
    }

    /// Creates an array below this group. An array or group of that name is an error.
    pub fn create_array(&self, name: &str, spec: &ArraySpec) -> Result<Array, Error> {
        self.format().zarr()?;
        let path = self.below(name)?;
        self.adopt(zarr::Array::create(self.store().clone(), &path, spec.clone(), false)?)
    }

    /// Creates an array below this group in the place of whatever has that name; see
    /// [`Array::replace`].
    pub fn replace_array(
        &self,
        name: &str,
        spec: &ArraySpec,
        fill: impl FnOnce(&Array) -> Result<(), Error>,
    ) -> Result<Array, Error> {
        self.format().zarr()?;
        self.adopt(Array::replaced(self.store().clone(), &self.below(name)?, spec, fill)?)
    }

    fn adopt(&self, mut made: zarr::Array) -> Result<Array, Error> {
        if let Some(group) = self.as_zarr() {
            group.adopt(&mut made)?;
        }
        Ok(made.into())
    }

    /// All facts about the group. Visits all nodes below it and counts their chunks, which lists
    /// the store.
    pub fn info(&self) -> Result<GroupInfo, Error> {
        GroupInfo::new(self, None)
    }

    /// As [`Group::info`]; `ask` is asked between nodes, `true` gives up with
    /// [`Error::Interrupted`].
    pub fn info_asking(&self, ask: Option<Ask<'_>>) -> Result<GroupInfo, Error> {
        GroupInfo::new(self, ask)
    }

    /// The group as Zarr sees it; `None`: it is of another format.
    pub fn as_zarr(&self) -> Option<&zarr::Group> {
        match &self.0 {
            Inner::Zarr(group) => Some(group),
            _ => None,
        }
    }

    /// The group as Zarr sees it, to be changed. Errors with [`Error::OnlyRead`] for other formats.
    pub fn as_zarr_mut(&mut self) -> Result<&mut zarr::Group, Error> {
        match &mut self.0 {
            Inner::Zarr(group) => Ok(group),
            Inner::Hdf5(_) => Err(Error::OnlyRead { format: Format::Hdf5 }),
            Inner::NetCdf3(_) => Err(Error::OnlyRead { format: Format::NetCdf3 }),
        }
    }

    /// The group as HDF5 sees it; `None`: it is of another format.
    pub fn as_hdf5(&self) -> Option<&hdf5::Group> {
        match &self.0 {
            Inner::Hdf5(group) => Some(group),
            _ => None,
        }
    }

    /// The file of NetCDF-3 that the group is; `None`: it is of another format.
    pub fn as_netcdf3(&self) -> Option<&netcdf::File> {
        match &self.0 {
            Inner::NetCdf3(file) => Some(file),
            _ => None,
        }
    }

    fn below(&self, name: &str) -> Result<String, Error> {
        let relative = zarr::normalize_path(name)?;
        Ok(if self.path().is_empty() { relative } else { format!("{}/{relative}", self.path()) })
    }
}
