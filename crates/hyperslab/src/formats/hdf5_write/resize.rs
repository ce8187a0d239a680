//! Changing the shape of a dataset.
//!
//! Elements that are cut off never come back: a chunk that stays in part gets fill values beyond
//! the new end.

use super::direct::{error_of, of_file};
use super::filters::Filters;
use super::held::Held;
use crate::{Dims, Result};
use hyperslab_array::ArrayLayout;
use hyperslab_codec::Scratch;
use hyperslab_hdf5::dataspace::Dataspace;
use hyperslab_hdf5::edit::Editing;
use hyperslab_hdf5::{Dataset, Hdf5Error, Node};
use std::collections::BTreeSet;

/// Changes the shape. Returns the dataset as it is then.
pub(crate) fn resize(
    dataset: &Dataset,
    editing: &Editing,
    layout: &ArrayLayout,
    shape: &[u64],
) -> Result<Dataset> {
    let address = dataset.address();
    let name = format!("/{}", dataset.path());
    let dataset = opened(editing, address, dataset.path()).map_err(of_file)?;
    let old: Dims = dataset.dataspace().shape().into();
    check(&dataset, shape).map_err(of_file)?;
    let make = || {
        let filters = Filters::new(&dataset, layout.encoding());
        (name.clone(), filters, layout.fill().bytes().to_vec())
    };
    let held = Held::attach(editing, address, make);
    let held = held.ok_or_else(|| dataset.file().source().invalid("another kind of state is attached"))?;
    let grid = layout.grid();
    let (before, after) = (grid.counts(&old), grid.counts(shape));
    let shrinks = old.iter().zip(shape).any(|(old, new)| new < old);
    if shrinks {
        held.filters().check(&dataset).map_err(of_file)?;
        let table = editing.chunk_table(address).map_err(of_file)?;
        let stored = table.places().into_iter().map(|(place, _)| place);
        let all: BTreeSet<Dims> = stored.chain(held.places()).collect();
        let mut scratch = Scratch::default();
        for place in all {
            let stays = place.iter().zip(&after).all(|(at, count)| at < count);
            let is_cut = (0..place.len()).any(|axis| {
                let at = place.get(axis).copied().unwrap_or(0);
                let inside = |shape: &[u64]| grid.len_inside(axis, at, shape.get(axis).copied().unwrap_or(0));
                inside(shape) < inside(&old)
            });
            if stays && is_cut {
                let inside: Dims = place
                    .iter()
                    .zip(shape)
                    .enumerate()
                    .map(|(axis, (at, n))| grid.len_inside(axis, *at, *n))
                    .collect();
                let fill = layout.fill().bytes();
                let mut cut = |chunk: &mut [u8]| fill_outside(chunk, grid.chunk_shape(), &inside, fill);
                let turn = held.take_turn(&place);
                let changed = held.change(editing, &place, &mut scratch, &mut cut);
                drop(turn);
                changed.map_err(error_of)?;
                Held::limit(editing).map_err(of_file)?;
            }
        }
    }
    let crop = || held.retain(editing, |place| place.iter().zip(&after).all(|(at, count)| at < count));
    let drops = before.iter().zip(&after).any(|(before, after)| after < before);
    if drops {
        crop();
    }
    editing.set_shape(address, shape).map_err(of_file)?;
    if drops {
        // Other threads may have written meanwhile.
        crop();
    }
    opened(editing, address, dataset.path()).map_err(of_file)
}

fn opened(editing: &Editing, address: u64, path: &str) -> Result<Dataset, Hdf5Error> {
    match editing.file().object_at(address, path)? {
        Node::Dataset(dataset) => Ok(dataset),
        _ => Err(editing.file().source().invalid(format!("the object at address {address} is no dataset"))),
    }
}

/// Checks a new shape before anything changes.
fn check(dataset: &Dataset, shape: &[u64]) -> Result<(), Hdf5Error> {
    let source = dataset.file().source();
    let refuse = |error: Hdf5Error| Err(error.with_object_path(&format!("/{}", dataset.path())));
    let Dataspace::Simple { shape: old, max_shape } = dataset.dataspace() else {
        return refuse(source.unsupported("resizing a dataset without axes".into()));
    };
    if dataset.chunk_shape().is_none() {
        return refuse(source.unsupported("resizing a dataset that is not in chunks".into()));
    }
    if old.len() != shape.len() {
        let (expected, found) = (old.len(), shape.len());
        return refuse(source.invalid(format!("expected a shape of {expected} axes, found {found}")));
    }
    let is_too_long = |(n, most): (&u64, &Option<u64>)| most.is_some_and(|most| *n > most);
    if let Some(axis) = shape.iter().zip(max_shape).position(is_too_long) {
        let why = format!("shape {shape:?}: axis {axis} is longer than in the maximal shape {max_shape:?}");
        return refuse(source.invalid(why));
    }
    Ok(())
}

/// Sets the elements of a chunk beyond its first `inside` ones per axis to the fill value.
fn fill_outside(chunk: &mut [u8], shape: &[u64], inside: &[u64], fill: &[u8]) {
    let size = fill.len().max(1);
    let row = shape.last().and_then(|n| usize::try_from(*n).ok()).unwrap_or(1).max(1);
    let kept = inside.last().and_then(|n| usize::try_from(*n).ok()).unwrap_or(1);
    let outer = shape.len().saturating_sub(1);
    for (number, row) in chunk.chunks_mut(row.saturating_mul(size)).enumerate() {
        // The index of the row along each axis but the last.
        let mut left = number as u64;
        let axes = shape.iter().zip(inside).take(outer).rev();
        let mut is_inside = true;
        for (n, inside) in axes {
            is_inside &= left.checked_rem(*n).unwrap_or(0) < *inside;
            left = left.checked_div(*n).unwrap_or(0);
        }
        let start = if is_inside { kept.saturating_mul(size) } else { 0 };
        let outside = row.get_mut(start..).unwrap_or_default();
        for element in outside.chunks_exact_mut(size) {
            element.copy_from_slice(fill);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fill_outside;

    #[test]
    fn elements_outside_get_the_fill_value() {
        let filled = |shape: &[u64], inside: &[u64]| {
            let mut chunk = vec![1; shape.iter().product::<u64>() as usize];
            fill_outside(&mut chunk, shape, inside, &[9]);
            chunk
        };
        assert_eq!(filled(&[4], &[3]), [1, 1, 1, 9]);
        assert_eq!(filled(&[2, 3], &[1, 2]), [1, 1, 9, 9, 9, 9]);
        assert_eq!(filled(&[2, 2, 2], &[1, 2, 2]), [1, 1, 1, 1, 9, 9, 9, 9]);
        assert_eq!(filled(&[2, 2, 2], &[2, 1, 2]), [1, 1, 9, 9, 1, 1, 9, 9]);
        let mut chunk = [0; 8];
        fill_outside(&mut chunk, &[4], &[2], &[7, 8]);
        assert_eq!(chunk, [0, 0, 0, 0, 7, 8, 7, 8]);
    }
}
