//! The coordinates of an axis, and elements of any type, as JSON.

use super::cells::{Cell, Cells, Reader};
use super::window::{Window, WindowAxis};
use crate::meaning::{Axis, AxisKind};
use crate::{Array, Error, Json, Result};

/// The coordinates of a part of an axis.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Coordinates {
    /// The array that has them. `None`: indices.
    pub array: Option<Array>,
    /// The units.
    pub units: Option<String>,
    /// The kind of the axis.
    pub kind: Option<AxisKind>,
    /// Numbers, dates as text, or indices.
    pub values: Vec<Json>,
}

impl Coordinates {
    /// Reads the coordinates of a part of an axis, or its indices if it has no coordinates.
    pub fn of(axis: &Axis, part: &WindowAxis, stop: &dyn Fn() -> bool) -> Result<Coordinates> {
        let kind = axis.kind;
        if let Some(own) = &axis.coordinate {
            let window = Window { axes: vec![WindowAxis { name: None, ..part.clone() }] };
            match Reader::of(own, false).and_then(|reader| reader.read(&window.selection(own)?, stop)) {
                Ok(cells) => {
                    let units = axis.units.clone();
                    return Ok(Coordinates {
                        array: Some(own.clone()),
                        units,
                        kind,
                        values: to_json(&cells),
                    });
                }
                Err(error) if error.is_interruption() => return Err(error),
                // Coordinates that cannot be read are no reason to hide the axis.
                Err(_) => {}
            }
        }
        let values = (0..part.len).map(|at| part.at(at).into()).collect();
        Ok(Coordinates { array: None, units: None, kind, values })
    }
}

impl WindowAxis {
    /// Parses a selection along one axis of an array, such as `0:100:10`. Empty: all of it.
    ///
    /// Fails with [`Error::Options`] if there is no such axis, or if the selection is wrong.
    pub fn parse(array: &Array, number: usize, text: &str) -> Result<WindowAxis> {
        let wrong = |why: String| Error::Options(format!("array '{}': {why}", array.name()));
        let rank = array.shape().len();
        if number >= rank {
            return Err(wrong(format!("axis {number} of an array of {rank} axes")));
        }
        let before = ":,".repeat(number);
        let window = Window::parse(array, &format!("{before}{}", if text.is_empty() { ":" } else { text }))?;
        Ok(window.map_err(wrong)?.axes.swap_remove(number))
    }
}

/// Values as JSON: missing ones are `null`, and numbers that JSON does not have are text.
pub fn to_json(cells: &Cells) -> Vec<Json> {
    cells.cells.iter().map(|cell| one(cell, cells.float_size)).collect()
}

fn one(cell: &Cell, float_size: usize) -> Json {
    let float = |number: f64| match float_size {
        // The shortest text that means the same 32-bit float.
        4 => Json::Number((number as f32).to_string().into()),
        _ => Json::float(number),
    };
    match cell {
        Cell::Missing => Json::Null,
        Cell::Bool(on) => (*on).into(),
        Cell::Int(int) => (*int).into(),
        Cell::Float(number) if number.is_finite() => float(*number),
        // JSON does not have these numbers.
        Cell::Float(number) if number.is_nan() => "NaN".into(),
        Cell::Float(number) => if *number > 0.0 { "Infinity" } else { "-Infinity" }.into(),
        Cell::Complex(real, imaginary) => Json::Array(vec![Json::float(*real), Json::float(*imaginary)]),
        Cell::Time(text) | Cell::Text(text) => text.as_str().into(),
        Cell::Other(text) => Json::parse(text.as_bytes()).unwrap_or_else(|_| text.as_str().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArraySpec, MemoryStore, Store, zarr};
    use std::sync::Arc;

    #[test]
    fn coordinates_are_dates_numbers_or_indices() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let make = |path: &str, shape: &[u64], names: &[&str], attributes: &str| -> Array {
            let mut spec = ArraySpec::new(zarr::Format::V3, shape, "<f4".parse().unwrap());
            spec.dimension_names = Some(names.iter().map(|name| Some((*name).to_owned())).collect());
            spec.attributes = Json::parse(attributes.as_bytes()).unwrap();
            zarr::Array::create(store.clone(), path, spec, false).unwrap().into()
        };
        zarr::Group::create(store.clone(), "", zarr::Format::V3, Json::object(), false).unwrap();
        let time = make("time", &[4], &["time"], r#"{"units": "days since 2000-01-01"}"#);
        time.write_slice(&[], &[0_f32, 1.5, 2.0, f32::NAN]).unwrap();
        let lat = make("lat", &[3], &["lat"], r#"{"units": "degrees_north"}"#);
        lat.write_slice(&[], &[-0.1_f32, 0.0, 45.5]).unwrap();
        let array = make("sst", &[4, 3, 5], &["time", "lat", "x"], "{}");
        let of = |axis: usize, text: &str| {
            let part = WindowAxis::parse(&array, axis, text).unwrap();
            let axis = crate::meaning::axes(&array, None).unwrap().swap_remove(axis);
            let found = Coordinates::of(&axis, &part, &|| false).unwrap();
            let name = found.array.map(|own| own.path().to_owned()).unwrap_or_default();
            format!("{name} {:?} {}", found.kind, Json::Array(found.values).to_text(None))
        };
        assert_eq!(of(0, ""), r#"time Some(Time) ["2000-01-01", "2000-01-02T12:00:00", "2000-01-03", null]"#);
        assert_eq!(of(1, "::-2"), "lat Some(Latitude) [45.5, -0.1]");
        assert_eq!(of(2, "1:5:2"), " Some(X) [1, 3]");
        assert!(WindowAxis::parse(&array, 3, "").is_err() && WindowAxis::parse(&array, 0, "9").is_err());
    }
}
