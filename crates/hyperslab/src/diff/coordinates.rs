//! The coordinates of elements: the values of the arrays that have the names of axes.

use super::blocks::Region;
use super::report::ArrayDifference;
use super::side::Side;
use super::tree::Tree;
use crate::meaning::MissingValue;
use crate::{Array, Json, Result, Variable};
use std::collections::HashMap;

/// Adds coordinates to all elements of the report.
pub(super) fn add(found: &mut ArrayDifference, trees: [&Tree; 2]) -> Result<()> {
    let mut known: HashMap<(usize, u64), Json> = HashMap::new();
    for (axis, name) in found.dimensions.clone().iter().enumerate() {
        let Some(name) = name else { continue };
        let coordinate = trees.iter().find_map(|tree| tree.coordinate(&found.path, name));
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
    let variable = Variable {
        is_variable: false,
        dimension_names: None,
        shape: array.shape().into(),
        attributes: Json::object(),
        missing: MissingValue::None,
        unreadable: Vec::new(),
    };
    // Attributes without a meaning are no reason to hide the number.
    let side = match Side::new(array, variable.clone(), false) {
        Ok(side) => side,
        Err(_) => Side::new(array, variable, true)?,
    };
    let region: Region = std::iter::once(at..at + 1).collect();
    let mut memory = Vec::new();
    let block = side.read(&region, &mut memory, Some(1), &|| false)?;
    side.element(&block, 0)
}
