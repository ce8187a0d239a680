//! `stats`, `plane`, `histogram`: numbers of many elements.

use super::chunks::Stop;
use super::{Asked, Place};
use crate::answer::Answer;
use crate::body::Body;
use crate::path;
use hyperslab::look::{Histogram, HistogramOptions, Part, Plane, PlaneOptions, Window, WindowAxis};
use hyperslab::statistics::{NumberTypes, StatisticsOptions, statistics};
use hyperslab::{Error, Json, Result};
use std::time::Instant;

pub(super) fn stats(place: &Place<'_>, asked: &Asked<'_>) -> Result<Answer> {
    let array = &place.array()?;
    let region = match asked.value("select") {
        None => None,
        Some(text) => Some(asked.selection(array)?.ranges().ok_or_else(|| {
            Error::Options(format!(
                "select: {text:?} has steps: statistics are of integers and slices of step 1"
            ))
        })?),
    };
    let raw = asked.value("raw").is_some();
    let stop = Stop(asked.ask);
    let options = StatisticsOptions { region, raw, progress: Some(&stop), ..StatisticsOptions::default() };
    let part = statistics(array, &options)?;
    let is_float = NumberTypes::of(array, raw)?.is_some_and(|types| types.is_float());
    let number = |float: f64, int: i128| match (part.count, is_float) {
        (0, _) => Json::Null,
        (_, true) => Json::float(float),
        _ => int.into(),
    };
    let float = |n: Option<f64>| n.map_or(Json::Null, Json::float);
    Ok(Answer::json(&Json::from([
        ("count", part.count.into()),
        ("missing", part.missing.into()),
        ("min", number(part.min, part.min_int)),
        ("max", number(part.max, part.max_int)),
        ("sum", number(part.sum.value(), part.sum_int)),
        ("mean", float(part.mean())),
        ("std", float(part.std())),
    ])))
}

/// The numbers of two axes: 32-bit floats, little-endian, in C order.
pub(super) fn plane(place: &Place<'_>, asked: &Asked<'_>) -> Result<Answer> {
    let array = &place.array()?;
    let start = Instant::now();
    let options = PlaneOptions {
        height: asked.number("height")?,
        width: asked.number("width")?,
        part: part(asked)?,
        levels: place.is_whole(),
        most_bytes: asked.most,
    };
    let found = Plane::of(array, &asked.window(array)?, &options, asked.ask)?;
    let shape: Vec<String> = found.shape.iter().map(u64::to_string).collect();
    let level = found.level.as_ref().and_then(|level| place.path_of(level));
    let answer = Answer::new(200, "application/octet-stream", Body::of(found.to_bytes()))
        .with("x-shape", &shape.join(","))
        .with("x-dtype", "<f4")
        .with("x-select", &selected(&found.window, array.shape()))
        .with("x-missing", &found.missing.to_string())
        .with("server-timing", &format!("read;dur={:.1}", start.elapsed().as_secs_f64() * 1000.0));
    Ok(match level {
        Some(level) => answer.with("x-level", &path::encoded(&level)),
        None => answer,
    })
}

/// The distribution of the numbers of a selection.
pub(super) fn histogram(place: &Place<'_>, asked: &Asked<'_>) -> Result<Answer> {
    let array = &place.array()?;
    let options = HistogramOptions {
        bins: asked.number("bins")?.unwrap_or(64),
        low: asked.number("low")?,
        high: asked.number("high")?,
        part: part(asked)?,
    };
    Ok(Answer::json(&Histogram::of(array, &asked.window(array)?, &options, asked.ask)?.to_json()))
}

fn part(asked: &Asked<'_>) -> Result<Part> {
    asked.value("part").map_or(Ok(Part::Abs), |text| text.parse().map_err(Error::Options))
}

/// A window as a selection, with a start, a stop and a step for each axis.
fn selected(window: &Window, shape: &[u64]) -> String {
    let one = |(axis, len): (&WindowAxis, &u64)| {
        if axis.dropped {
            return axis.first.to_string();
        }
        let end = axis.at(axis.len);
        // A negative stop would count from the end.
        let is_before = axis.step < 0 && axis.first.cast_signed() + axis.step * axis.len.cast_signed() < 0;
        let end = if is_before { String::new() } else { end.min(*len).to_string() };
        let step = if axis.step == 1 { String::new() } else { format!(":{}", axis.step) };
        format!("{}:{end}{step}", axis.first)
    };
    window.axes.iter().zip(shape).map(one).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_as_selections() {
        let axis = |first, step, len, dropped| WindowAxis { name: None, first, step, len, dropped };
        let window = Window { axes: vec![axis(3, 1, 1, true), axis(0, 4, 3, false), axis(8, -5, 2, false)] };
        assert_eq!(selected(&window, &[5, 10, 9]), "3,0:10:4,8::-5");
        let window = Window { axes: vec![axis(2, 1, 3, false), axis(6, -2, 2, false)] };
        assert_eq!(selected(&window, &[5, 9]), "2:5,6:2:-2");
    }
}
