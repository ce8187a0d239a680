//! Writing text and sequences of any length.
//!
//! Values go to heap collections behind the end of the file. The elements, which lead there, are
//! written like others.

use crate::Result;
use hyperslab_array::{ArrayError, ArrayLayout, Ragged, Selection, Source, WriteOptions, write};
use hyperslab_codec::VlenKind;
use hyperslab_hdf5::edit::Editing;

/// Writes values, broadcast to the shape of the selection.
pub(crate) fn write_ragged(
    editing: &Editing,
    layout: &ArrayLayout,
    kind: Option<VlenKind>,
    selection: &Selection,
    values: &Ragged,
    options: WriteOptions<'_>,
) -> Result<()> {
    let refuse = |why: &str| ArrayError::Values { array: layout.name().to_owned(), why: why.to_owned() };
    let (bytes, kind) = (values.values.as_slice(), kind.unwrap_or(VlenKind::Bytes));
    if kind == VlenKind::Text && bytes.contains(&0) {
        return Err(refuse("a text contains a NUL, at which text of HDF5 ends").into());
    }
    let target = selection.shape();
    let size = layout.dtype().size();
    let item = kind.item_size();
    let place = |at: i64| usize::try_from(at).unwrap_or(usize::MAX).saturating_mul(item);
    let pairs = values.offsets.iter().zip(values.offsets.iter().skip(1));
    let found = pairs.map(|(start, end)| {
        let value = bytes.get(place(*start)..place(*end)).unwrap_or_default();
        ((value.len() / item.max(1)) as u64, value)
    });
    let elements = editing.put_values(found, kind == VlenKind::Text)?;
    let source = Source::broadcast(&elements, &values.shape, &target, size);
    let source = source.ok_or_else(|| ArrayError::Shape {
        array: layout.name().to_owned(),
        expected: target.to_vec(),
        found: values.shape.to_vec(),
    })?;
    Ok(write(layout, selection, &source, options)?)
}
