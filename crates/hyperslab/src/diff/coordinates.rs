//! The coordinates of elements: the values of the arrays that have the names of axes.

use super::report::ArrayDifference;
use super::shown::Shown;
use super::tree::Tree;
use crate::{Array, Index, Json, ReadOptions, Result};
use std::collections::HashMap;

/// Adds coordinates to all elements of the report.
pub(super) fn add(found: &mut ArrayDifference, trees: [&Tree; 2]) -> Result<()> {
    let mut known: HashMap<(usize, u64), Json> = HashMap::new();
    for (axis, name) in found.dimensions.clone().iter().enumerate() {
        let Some(name) = name else { continue };
        let mut coordinate = None;
        for tree in trees {
            coordinate = coordinate.or(tree.coordinate(&found.path, name)?);
        }
        let Some(array) = coordinate else { continue };
        let largest = found.largest_absolute.iter_mut().chain(&mut found.largest_relative);
        for element in largest.map(|most| &mut most.at).chain(&mut found.first) {
            let Some(at) = element.index.get(axis).copied() else { continue };
            let value = match known.get(&(axis, at)) {
                Some(value) => value.clone(),
                None => value_at(&array, at)?,
            };
            known.insert((axis, at), value.clone());
            if value != Json::Null {
                element.coordinates.push((name.clone(), value));
            }
        }
    }
    Ok(())
}

/// An element of an array with one axis. Null if there is none.
fn value_at(array: &Array, at: u64) -> Result<Json> {
    if array.shape().first().is_none_or(|len| at >= *len) {
        return Ok(Json::Null);
    }
    let one = array.select(&[Index::At(at.cast_signed())])?;
    let options = ReadOptions { threads: Some(1), ..ReadOptions::default() };
    Ok(Shown::of(array, false)?.read(&one, options)?.pop().unwrap_or(Json::Null))
}
