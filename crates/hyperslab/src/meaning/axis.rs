//! Kinds of axes: time, latitude, a channel of a picture.
//!
//! | source | of |
//! |---|---|
//! | the axes of an image | OME-Zarr |
//! | `units`, `standard_name` and `axis` of coordinates | the CF conventions |
//! | the name of an axis | habit: `time`, `lat`, `x` |

use super::coordinate::coordinate;
use super::levels::Pyramid;
use super::times::Times;
use crate::{Array, Json, Result};

/// The kind of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AxisKind {
    /// Dates.
    Time,
    /// Degrees north.
    Latitude,
    /// Degrees east.
    Longitude,
    /// To the right.
    X,
    /// Up or down.
    Y,
    /// Height or depth.
    Z,
    /// Channels of a picture, bands of a satellite.
    Channel,
}

/// An axis of an array.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Axis {
    /// Its name, if the array names it.
    pub name: Option<String>,
    /// Elements.
    pub len: u64,
    /// Its kind. `None`: unknown.
    pub kind: Option<AxisKind>,
    /// The array with its coordinates.
    pub coordinate: Option<Array>,
    /// The units of its coordinates.
    pub units: Option<String>,
}

impl AxisKind {
    /// The name in answers of the server.
    pub fn name(self) -> &'static str {
        match self {
            AxisKind::Time => "time",
            AxisKind::Latitude => "latitude",
            AxisKind::Longitude => "longitude",
            AxisKind::X => "x",
            AxisKind::Y => "y",
            AxisKind::Z => "z",
            AxisKind::Channel => "channel",
        }
    }

    /// The kind of an axis whose coordinates have these attributes.
    pub fn of_coordinate(attributes: &Json) -> Option<AxisKind> {
        let text = |name: &str| attributes.get(name).and_then(Json::as_str).unwrap_or_default();
        let by_units = match text("units") {
            "degrees_north" | "degree_north" | "degrees_N" | "degree_N" | "degreesN" | "degreeN" => {
                Some(AxisKind::Latitude)
            }
            "degrees_east" | "degree_east" | "degrees_E" | "degree_E" | "degreesE" | "degreeE" => {
                Some(AxisKind::Longitude)
            }
            _ => None,
        };
        let by_name = || match text("standard_name") {
            "latitude" => Some(AxisKind::Latitude),
            "longitude" => Some(AxisKind::Longitude),
            "time" | "forecast_reference_time" => Some(AxisKind::Time),
            "projection_x_coordinate" | "grid_longitude" | "projection_x_angular_coordinate" => {
                Some(AxisKind::X)
            }
            "projection_y_coordinate" | "grid_latitude" | "projection_y_angular_coordinate" => {
                Some(AxisKind::Y)
            }
            "height" | "depth" | "altitude" | "air_pressure" | "model_level_number" => Some(AxisKind::Z),
            _ => None,
        };
        let is_date = || {
            let times = Times::parse(attributes).ok().flatten();
            times.is_some_and(|times| times.calendar().is_some()).then_some(AxisKind::Time)
        };
        let by_axis = || match text("axis") {
            "X" => Some(AxisKind::X),
            "Y" => Some(AxisKind::Y),
            "Z" => Some(AxisKind::Z),
            "T" => Some(AxisKind::Time),
            _ => None,
        };
        let by_direction = || matches!(text("positive"), "up" | "down").then_some(AxisKind::Z);
        by_units.or_else(by_name).or_else(is_date).or_else(by_axis).or_else(by_direction)
    }

    /// The kind that people mean by a name.
    pub fn of_name(name: &str) -> Option<AxisKind> {
        Some(match name.to_ascii_lowercase().as_str() {
            "time" | "t" | "date" => AxisKind::Time,
            "lat" | "latitude" => AxisKind::Latitude,
            "lon" | "longitude" | "long" => AxisKind::Longitude,
            "x" | "easting" | "projection_x_coordinate" => AxisKind::X,
            "y" | "northing" | "projection_y_coordinate" => AxisKind::Y,
            "z" | "level" | "lev" | "depth" | "height" | "plev" | "altitude" => AxisKind::Z,
            "c" | "channel" | "channels" | "band" | "bands" | "rgb" | "rgba" => AxisKind::Channel,
            _ => return None,
        })
    }
}

/// Returns `true` if larger coordinates with these attributes are further north: the last row of a
/// picture belongs on top.
pub fn points_north(attributes: &Json) -> bool {
    let is_projected = attributes.get("standard_name").and_then(Json::as_str).is_some_and(|name| {
        matches!(name, "projection_y_coordinate" | "grid_latitude" | "projection_y_angular_coordinate")
    });
    is_projected || AxisKind::of_coordinate(attributes) == Some(AxisKind::Latitude)
}

/// The axes of an array. `pyramid`: the image that the array belongs to.
pub fn axes(array: &Array, pyramid: Option<&Pyramid>) -> Result<Vec<Axis>> {
    let names = array.dimension_names()?.unwrap_or_default();
    let mut found = Vec::new();
    for (number, len) in array.shape().iter().enumerate() {
        let of_image = pyramid.and_then(|pyramid| pyramid.axes.get(number));
        let own = names.get(number).cloned().flatten().filter(|name| !name.is_empty());
        let name = own.or_else(|| of_image.map(|axis| axis.name.clone()));
        let coordinate = match &name {
            Some(name) => coordinate(array, name, *len)?,
            None => None,
        };
        // Attributes that cannot be read are no reason to hide the array.
        let attributes = coordinate.as_ref().and_then(|found| found.attributes().ok());
        let by_image = of_image.and_then(|axis| axis.kind);
        let by_coordinate = || AxisKind::of_coordinate(attributes.as_deref()?);
        let kind = by_image.or_else(by_coordinate).or_else(|| name.as_deref().and_then(AxisKind::of_name));
        let units = attributes.as_ref().and_then(|own| own.get("units")?.as_str().map(str::to_owned));
        let units = units.or_else(|| of_image.and_then(|axis| axis.unit.clone()));
        found.push(Axis { name, len: *len, kind, coordinate, units });
    }
    Ok(found)
}

/// The axes of rows and columns of a picture: latitude and longitude, y and x, or the last two.
pub fn plane(axes: &[Axis]) -> Vec<usize> {
    let of = |kind: AxisKind| axes.iter().position(|axis| axis.kind == Some(kind));
    let pairs = [(AxisKind::Latitude, AxisKind::Longitude), (AxisKind::Y, AxisKind::X)];
    for (rows, columns) in pairs {
        if let (Some(rows), Some(columns)) = (of(rows), of(columns)) {
            return vec![rows, columns];
        }
    }
    (axes.len().saturating_sub(2)..axes.len()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(attributes: &str) -> Option<AxisKind> {
        AxisKind::of_coordinate(&Json::parse(attributes.as_bytes()).unwrap())
    }

    #[test]
    fn kinds_of_coordinates() {
        for (attributes, kind) in [
            (r#"{"units": "degrees_north"}"#, Some(AxisKind::Latitude)),
            (r#"{"units": "degree_E"}"#, Some(AxisKind::Longitude)),
            (r#"{"standard_name": "longitude", "units": "degrees"}"#, Some(AxisKind::Longitude)),
            (r#"{"units": "days since 2000-01-01", "axis": "T"}"#, Some(AxisKind::Time)),
            (r#"{"units": "days"}"#, None),
            (r#"{"units": "m", "standard_name": "projection_x_coordinate"}"#, Some(AxisKind::X)),
            (r#"{"units": "m", "axis": "Y"}"#, Some(AxisKind::Y)),
            (r#"{"units": "m", "positive": "down"}"#, Some(AxisKind::Z)),
            (r#"{"units": 3}"#, None),
        ] {
            assert_eq!(of(attributes), kind, "{attributes}");
        }
        let north = |text: &str| points_north(&Json::parse(text.as_bytes()).unwrap());
        assert!(north(r#"{"units": "degreesN"}"#) && north(r#"{"standard_name": "grid_latitude"}"#));
        assert!(!north(r#"{"axis": "Y"}"#) && !north("{}"));
    }

    #[test]
    fn rows_and_columns() {
        let axis = |kind| Axis { name: None, len: 1, kind, coordinate: None, units: None };
        let of =
            |kinds: &[Option<AxisKind>]| plane(&kinds.iter().map(|kind| axis(*kind)).collect::<Vec<_>>());
        let (lat, lon) = (Some(AxisKind::Latitude), Some(AxisKind::Longitude));
        assert_eq!(of(&[lon, lat, None]), [1, 0]);
        assert_eq!(of(&[Some(AxisKind::Y), Some(AxisKind::X), Some(AxisKind::Channel)]), [0, 1]);
        assert_eq!((of(&[None, lat, None]), of(&[None]), of(&[])), (vec![1, 2], vec![0], vec![]));
    }
}
