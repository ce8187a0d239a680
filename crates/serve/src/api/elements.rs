//! `data`, `point`, `series`: elements, as they are stored and as they are meant.

use super::{Asked, Place};
use crate::answer::{Answer, Asset};
use crate::values::{self, Form};
use hyperslab::array::ReadOptions;
use hyperslab::meaning::{Decoding, Number};
use hyperslab::statistics::number_type;
use hyperslab::{Array, ByteOrder, Error, Index, Json, Result, Selection, parse_indices};

pub(super) fn data(place: &Place<'_>, asked: &Asked<'_>) -> Result<Answer> {
    let (array, form) = (&place.array()?, Form::parse(asked.value("format").as_deref().unwrap_or("json"))?);
    let selection = asked.selection(array)?;
    let shape = selection.shape();
    let made: Asset = values::read(array, &selection, form, asked.most, asked.ask)?;
    let shape: Vec<String> = shape.iter().map(u64::to_string).collect();
    let answer = Answer::asset(made, asked.headers, asked.head)?;
    let little = array.dtype().with_order(ByteOrder::Little).numpy();
    Ok(answer
        .with("x-shape", &shape.join(","))
        .with("x-dtype", if array.vlen().is_some() { "text" } else { &little }))
}

/// One element, as it is stored and as it is meant, with its coordinates.
pub(super) fn point(place: &Place<'_>, asked: &Asked<'_>) -> Result<Answer> {
    let array = &place.array()?;
    let text = asked.value("at").unwrap_or_default();
    let indices = parse_indices(&text).map_err(Error::Options)?;
    let at: Option<Vec<i64>> =
        indices.iter().map(|index| if let Index::At(at) = index { Some(*at) } else { None }).collect();
    let at = at.filter(|at| at.len() == array.shape().len()).ok_or_else(|| {
        let rank = array.shape().len();
        Error::Options(format!("at: expected {rank} integers, such as at=0,1, found {text:?}"))
    })?;
    let (stored, meant) = both(array, &array.select(&indices)?, asked)?;
    let mut coordinates = Vec::new();
    let axes = at.iter().zip(array.shape());
    for (name, (index, n)) in array.dimension_names()?.unwrap_or_default().iter().zip(axes) {
        // Coordinates may have more elements than this array: count from the beginning.
        let index = if *index < 0 { index.saturating_add_unsigned(*n) } else { *index };
        let Some(name) = name else { continue };
        if let Some(axis) = place.coordinate(array, name, *n)? {
            let (_, meant) = both(&axis, &axis.select(&[Index::At(index)])?, asked)?;
            coordinates.push((name.clone(), meant.into_iter().next().unwrap_or(Json::Null)));
        }
    }
    let first = |values: Vec<Json>| values.into_iter().next().unwrap_or(Json::Null);
    Ok(Answer::json(&Json::from([
        ("stored", first(stored)),
        ("value", first(meant)),
        ("coordinates", Json::Object(coordinates)),
    ])))
}

/// The values along one axis, with its coordinates.
pub(super) fn series(place: &Place<'_>, asked: &Asked<'_>) -> Result<Answer> {
    let array = &place.array()?;
    let selection = asked.selection(array)?;
    let ranges = selection.ranges().unwrap_or_default();
    let along: Vec<usize> = ranges
        .iter()
        .enumerate()
        .filter(|(_, range)| range.end - range.start > 1)
        .map(|(axis, _)| axis)
        .collect();
    let [axis] = along[..] else {
        let text = asked.value("select").unwrap_or_default();
        return Err(Error::Options(format!(
            "select: {text:?} is along {} axes: give one slice of step 1, and integers for the others",
            along.len()
        )));
    };
    let range = ranges.get(axis).cloned().unwrap_or(0..0);
    let name = array.dimension_names()?.and_then(|names| names.get(axis).cloned().flatten());
    let (_, meant) = both(array, &selection, asked)?;
    let len = array.shape().get(axis).copied().unwrap_or(0);
    let found = name.as_deref().map(|name| place.coordinate(array, name, len)).transpose()?.flatten();
    let coordinate = match found {
        Some(values) => {
            let bound = |n: u64| Some(i64::try_from(n).unwrap_or(i64::MAX));
            let slice = Index::Slice { start: bound(range.start), stop: bound(range.end), step: 1 };
            Json::Array(both(&values, &values.select(&[slice])?, asked)?.1)
        }
        None => Json::Null,
    };
    Ok(Answer::json(&Json::from([
        ("axis", u64::try_from(axis).unwrap_or(0).into()),
        ("name", name.as_deref().map_or(Json::Null, Json::from)),
        ("start", range.start.into()),
        ("coordinate", coordinate),
        ("values", Json::Array(meant)),
    ])))
}

/// The elements of a selection as they are stored, and as the conventions mean them: unpacked, dates in
/// words, missing ones as `null`.
fn both(array: &Array, selection: &Selection, asked: &Asked<'_>) -> Result<(Vec<Json>, Vec<Json>)> {
    let options = ReadOptions { interrupt: Some(asked.ask), ..ReadOptions::default() };
    values::bounded(array, selection, asked.most / 8)?;
    values::listable(array, &selection.shape(), asked.most)?;
    let is_number = number_type(array).is_some() && array.optional().is_none();
    // Attributes without a meaning are no reason to hide the numbers.
    let Some(decoding) = is_number.then(|| Decoding::of(array).ok()).flatten() else {
        let stored = values::listed(array, selection, options)?;
        return Ok((stored.clone(), stored));
    };
    let (dtype, little) = values::elements(array, selection, options)?;
    let stored = values::each(array, dtype, &little)?;
    let numbers = decoding.numbers(&values::native(dtype, little));
    let meant = (0..numbers.len()).map(|at| match (numbers.get(at), &decoding.times) {
        (Number::Missing, _) => Json::Null,
        (number, Some(times)) => {
            times.text(number).map_or_else(|| plain(number), |text| text.as_str().into())
        }
        (number, None) => plain(number),
    });
    Ok((stored, meant.collect()))
}

fn plain(number: Number) -> Json {
    match number {
        Number::Missing => Json::Null,
        Number::Int(int) => int.into(),
        Number::Float(float) => Json::float(float),
    }
}
