//! New datasets with few plain elements, in one step.
//!
//! The general way makes the dataset, opens it for the engine, and writes a selection. For a
//! dataset of a few bytes, these steps take several times as long as the dataset itself.

use super::run_sink::RunState;
use crate::Result;
use hyperslab_hdf5::dataspace::Dataspace;
use hyperslab_hdf5::datatype::Datatype;
use hyperslab_hdf5::edit::COPIED;
use hyperslab_hdf5::new_file::{NewDataset, NewKind, NewObject, NewStorage};
use hyperslab_hdf5::{Group, LinkTarget};
use hyperslab_zarr::join;

/// Makes a contiguous dataset in a group, with its stored elements. Returns its address.
///
/// `None`: the general way has to make it, or to say why it cannot be made. The group is not being
/// changed, the name is in use, or there are no elements or many of them.
pub(crate) fn create_run(
    group: &Group,
    name: &str,
    datatype: Datatype,
    shape: &[u64],
    elements: &[u8],
) -> Result<Option<u64>> {
    let Some(editing) = group.file().editing() else { return Ok(None) };
    let is_small = !elements.is_empty() && elements.len() as u64 <= COPIED;
    if !is_small || group.link(name)?.is_some() {
        return Ok(None);
    }
    let (path, dataspace) = (join(group.path(), name), Dataspace::fixed(shape));
    let kind = NewKind::Dataset(NewDataset {
        datatype,
        dataspace,
        fill: None,
        unfilled: false,
        filters: Vec::new(),
        storage: NewStorage::Contiguous(None),
    });
    let object = NewObject { path, kind, attributes: Vec::new(), tracks_attributes: false };
    let address = editing.create_with_elements(&object, elements)?;
    RunState::attach_new(&editing, address);
    editing.link(group.address(), name, LinkTarget::Hard(address))?;
    Ok(Some(address))
}
