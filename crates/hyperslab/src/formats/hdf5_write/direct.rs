//! Chunks as they are stored: written and read without their filters.

use super::held::{Held, read_stored};
use super::{fault, filters::Filters};
use crate::{Error, Result};
use hyperslab_array::{ArrayError, ArrayLayout, LocateError};
use hyperslab_hdf5::edit::{ChunkPlace, Editing};
use hyperslab_hdf5::{Dataset, Hdf5Error};

/// Turns an error of a sink into one of all layers.
pub(super) fn error_of(error: LocateError) -> Error {
    let error = match error.downcast::<Hdf5Error>() {
        Ok(error) => return Error::Hdf5(*error),
        Err(error) => error,
    };
    let error = match error.downcast::<ArrayError>() {
        Ok(error) => return Error::Array(*error),
        Err(error) => error,
    };
    match error.downcast() {
        Ok(error) => Error::Store(*error),
        Err(source) => Error::Array(ArrayError::Sink { array: String::new(), source }),
    }
}

/// Checks the place of a chunk.
fn check_place(dataset: &Dataset, layout: &ArrayLayout, place: &[u64]) -> Result<()> {
    let counts = layout.grid().counts(dataset.dataspace().shape());
    if dataset.chunk_shape().is_none() {
        let error = dataset.file().source().invalid("it has no chunks");
        return Err(error.with_object_path(&format!("/{}", dataset.path())).into());
    }
    if place.len() == counts.len() && place.iter().zip(&counts).all(|(at, count)| at < count) {
        return Ok(());
    }
    let why = format!("chunk {place:?} is outside the chunk grid of shape {:?}", counts.as_slice());
    Err(dataset.file().source().invalid(why).with_object_path(&format!("/{}", dataset.path())).into())
}

/// Stores the bytes of an encoded chunk.
pub(crate) fn write_chunk(
    dataset: &Dataset,
    editing: &Editing,
    layout: &ArrayLayout,
    (place, skipped): (&[u64], u32),
    bytes: &[u8],
) -> Result<()> {
    check_place(dataset, layout, place)?;
    let filters = Filters::new(dataset, layout.encoding());
    if bytes.len() > filters.max_encoded() {
        let (found, most) = (bytes.len(), filters.max_encoded());
        let why = format!("a chunk of {found} bytes, expected at most {most} bytes");
        return Err(dataset
            .file()
            .source()
            .invalid(why)
            .with_object_path(&format!("/{}", dataset.path()))
            .into());
    }
    let table = editing.chunk_table(dataset.address())?;
    let make = || (layout.name().to_owned(), filters, layout.fill().bytes().to_vec());
    let held = Held::attach(editing, dataset.address(), make);
    let held = held.ok_or_else(|| dataset.file().source().invalid("another kind of state is attached"))?;
    let address = editing.allocate(bytes.len() as u64)?;
    editing.write(address, &[bytes])?;
    let new = ChunkPlace { address, size: bytes.len() as u64, skipped, is_flushed: false };
    held.replace(editing, &table, place, new);
    Ok(())
}

/// Returns the bytes of a stored chunk, and the mask of skipped filters. `None`: it is not stored.
pub(crate) fn read_chunk(
    dataset: &Dataset,
    layout: &ArrayLayout,
    place: &[u64],
) -> Result<Option<(Vec<u8>, u32)>> {
    check_place(dataset, layout, place)?;
    let Some(index) = dataset.chunk_index()? else { return Ok(None) };
    let number = place
        .iter()
        .zip(&index.counts)
        .fold(0_u64, |number, (at, count)| number.saturating_mul(*count).saturating_add(*at));
    let Some(stored) = index.get(number) else { return Ok(None) };
    let filters = Filters::new(dataset, layout.encoding());
    let bytes = read_stored(dataset.file(), &filters, (stored.address, stored.size)).map_err(error_of)?;
    Ok(Some((bytes, stored.skipped)))
}

/// The error of a store inside an error of the file.
pub(super) fn of_file(error: Hdf5Error) -> Error {
    error_of(fault(error))
}
