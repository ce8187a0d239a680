//! `coordinates`, `table`: values of any type, in words.

use super::{Asked, Place};
use crate::answer::Answer;
use hyperslab::array::ArrayError;
use hyperslab::look::{Coordinates, Table, WindowAxis};
use hyperslab::meaning::Pyramid;
use hyperslab::{Error, Json, Result};

/// The most coordinates of an answer.
const MOST_COORDINATES: u64 = 1 << 20;

/// The coordinates of an axis.
pub(super) fn coordinates(place: &Place<'_>, asked: &Asked<'_>) -> Result<Answer> {
    let array = &place.array()?;
    let number: usize = asked
        .number("axis")?
        .ok_or_else(|| Error::Options("axis: expected the number of an axis, such as axis=0".into()))?;
    let part = WindowAxis::parse(array, number, &asked.value("select").unwrap_or_default())?;
    if part.len > MOST_COORDINATES {
        let bytes = part.len.saturating_mul(64);
        return Err(ArrayError::Memory { array: array.name(), what: "coordinates", bytes }.into());
    }
    let axis = place.axes(array, Pyramid::of(array)?.as_ref())?.swap_remove(number);
    let found = Coordinates::of(&axis, &part, asked.ask)?;
    let text = |text: Option<&str>| text.map_or(Json::Null, Json::from);
    Ok(Answer::json(&Json::from([
        ("name", if found.array.is_some() { text(axis.name.as_deref()) } else { Json::Null }),
        ("units", text(found.units.as_deref())),
        ("kind", text(found.kind.map(|kind| kind.name()))),
        ("values", Json::Array(found.values)),
    ])))
}

/// Rows of text, compounds or numbers.
pub(super) fn table(place: &Place<'_>, asked: &Asked<'_>) -> Result<Answer> {
    let array = &place.array()?;
    Ok(Answer::json(&Table::of(array, &asked.window(array)?, asked.ask)?.to_json()))
}
