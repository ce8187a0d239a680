//! Groups, arrays and attributes of an HDF5 file that is being changed, in the words of all formats.

use crate::copy::{AXIS_LABELS, attributes_of_json, describe_new};
use crate::{Array, Error, Json, Result};
use hyperslab_hdf5::edit::Editing;
use hyperslab_hdf5::new_file::{NewKind, NewObject};
use hyperslab_hdf5::{self as hdf5, Hdf5Error, LinkTarget};
use hyperslab_netcdf::netcdf4::is_reserved;
use hyperslab_zarr::{ArraySpec, join};

/// Makes a group below another one, with the missing groups on the way to it.
pub(crate) fn create_group(above: &hdf5::Group, name: &str, attributes: &Json) -> Result<hdf5::Group> {
    let path = join(above.path(), name);
    let attributes = attributes_of_json(attributes)?;
    let new = NewObject { attributes, ..group(&path, above.tracks_links()?) };
    match create(above, name, &new)? {
        hdf5::Node::Group(group) => Ok(group),
        _ => Err(not_found(above, path)),
    }
}

/// Makes an array below a group, with the missing groups on the way to it.
pub(crate) fn create_array(above: &hdf5::Group, name: &str, spec: &ArraySpec) -> Result<Array> {
    let path = join(above.path(), name);
    let new = describe_new(&path, spec)?;
    match create(above, name, &new)? {
        hdf5::Node::Dataset(dataset) => Array::try_from(dataset),
        _ => Err(not_found(above, path)),
    }
}

/// Replaces the attributes of an object. The ones that describe dimensions stay.
pub(crate) fn set_attributes(file: &hdf5::File, address: u64, attributes: &Json) -> Result<()> {
    let new = attributes_of_json(attributes)?;
    let drops = |name: &str| !is_reserved(name) && name != AXIS_LABELS;
    Ok(editing(file)?.replace_attributes(address, &new, drops)?)
}

/// Removes the name of an object below a group. An object without names is gone at the next flush.
pub(crate) fn delete(above: &hdf5::Group, name: &str) -> Result<()> {
    let editing = editing(above.file())?;
    let (group, missing, name) = place(above, name)?;
    if let [first, ..] = &missing[..] {
        let path = join(group.path(), first);
        return Err(not_found(above, path));
    }
    Ok(editing.unlink(group.address(), &name)?)
}

fn not_found(above: &hdf5::Group, path: String) -> Error {
    Hdf5Error::NotFound { file: above.file().source().name(), path, why: None }.into()
}

fn editing(file: &hdf5::File) -> Result<Editing> {
    file.editing().ok_or(Error::OnlyRead { format: crate::Format::Hdf5 })
}

/// A group. `tracks`: it keeps orders, as the group above does: netCDF wants the orders of all groups.
fn group(path: &str, tracks: bool) -> NewObject {
    NewObject {
        path: path.to_owned(),
        kind: NewKind::Group { links: Vec::new(), tracks_links: tracks },
        attributes: Vec::new(),
        tracks_attributes: tracks,
    }
}

/// Makes an object. Its last link makes it visible, with the groups on the way: after an error,
/// nothing is.
fn create(above: &hdf5::Group, name: &str, new: &NewObject) -> Result<hdf5::Node> {
    let editing = editing(above.file())?;
    let (existing, missing, mut name) = place(above, name)?;
    if missing.is_empty() && existing.link(&name)?.is_some() {
        let group = format!("/{}", existing.path());
        return Err(Hdf5Error::Exists { file: above.file().source().name(), group, name }.into());
    }
    let tracks = existing.tracks_links()?;
    let address = editing.create_object(new)?;
    let mut object = address;
    let mut path = new.path.as_str();
    for parent in missing.into_iter().rev() {
        path = path.rsplit_once('/').map_or("", |(above, _)| above);
        let made = editing.create_object(&group(path, tracks))?;
        editing.link(made, &name, LinkTarget::Hard(object))?;
        (object, name) = (made, parent);
    }
    editing.link(existing.address(), &name, LinkTarget::Hard(object))?;
    Ok(above.file().object_at(address, &new.path)?)
}

/// The last group on the way to a name that exists, the names of the missing ones, and the last name.
fn place(above: &hdf5::Group, name: &str) -> Result<(hdf5::Group, Vec<String>, String)> {
    let mut names: Vec<String> = name.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let Some(last) = names.pop() else {
        let why = "expected the name of a new object, found an empty one".to_owned();
        return Err(Error::Location { location: name.to_owned(), why });
    };
    let mut group = above.clone();
    let mut names = names.into_iter();
    while let Some(name) = names.next() {
        if group.link(&name)?.is_none() {
            return Ok((group, std::iter::once(name).chain(names).collect(), last));
        }
        let found = match group.child(&name)? {
            hdf5::Node::Group(found) => {
                group = found;
                continue;
            }
            hdf5::Node::Dataset(_) => "an array",
            hdf5::Node::Datatype(_) => "a committed datatype",
        };
        let (name, url) = (format!("/{}", join(group.path(), &name)), above.file().source().name());
        return Err(Error::NodeKind { name, url, found, wanted: "a group" });
    }
    Ok((group, Vec::new(), last))
}
