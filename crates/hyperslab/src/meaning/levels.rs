//! Pyramids: the same array at several resolutions, as OME-Zarr and GeoZarr describe them.

use super::axis::AxisKind;
use super::coordinate::{above, around};
use crate::{Array, Json, Node, Result};

/// How far above a level its group may be. A level of OME-Zarr may have a path such as `low/1`.
const MOST_ABOVE: usize = 3;
/// The most levels. Each is opened to know its shape, and 64 halvings reduce any axis to one element.
const MOST_LEVELS: usize = 64;

/// An image at several resolutions.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Pyramid {
    /// The axes of OME-Zarr. Empty if the metadata names no axes.
    pub axes: Vec<ImageAxis>,
    /// The paths of all levels in their store, the finest first.
    pub paths: Vec<String>,
    /// The channels are red, green and blue.
    pub is_rgb: bool,
}

/// An axis of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageAxis {
    /// Its name.
    pub name: String,
    /// Its kind, if the name or the type tells it.
    pub kind: Option<AxisKind>,
    /// The unit of its coordinates.
    pub unit: Option<String>,
}

/// A coarser level of an array.
#[derive(Clone, Debug)]
pub struct Level {
    /// Its elements.
    pub array: Array,
    /// For each axis: the elements of the array that became one.
    pub factors: Vec<u64>,
}

impl Pyramid {
    /// Finds the pyramid that has an array as one of its levels, in the metadata of the groups above.
    pub fn of(array: &Array) -> Result<Option<Pyramid>> {
        let path = array.path().trim_matches('/');
        for group in above(path).take(MOST_ABOVE) {
            let Some(Node::Group(found)) = around(array, group) else { continue };
            let Ok(attributes) = found.attributes() else { continue };
            let below =
                |name: &str| if group.is_empty() { name.to_owned() } else { format!("{group}/{name}") };
            let pyramids = parse(&attributes).into_iter().map(|mut pyramid| {
                pyramid.paths = pyramid.paths.iter().map(|name| below(name)).collect();
                pyramid
            });
            if let Some(own) = pyramids.into_iter().find(|one| one.paths.iter().any(|own| own == path)) {
                return Ok(Some(own));
            }
        }
        Ok(None)
    }

    /// Opens the levels that can be opened.
    pub fn levels(&self, array: &Array) -> Vec<Array> {
        let own = array.path().trim_matches('/');
        let open = |path: &String| match path == own {
            true => Some(array.clone()),
            false => around(array, path).and_then(|node| node.into_array().ok()),
        };
        self.paths.iter().filter_map(open).collect()
    }

    /// The levels that are coarser than an array by whole numbers.
    pub fn coarser(&self, array: &Array) -> Vec<Level> {
        let levels = self.levels(array).into_iter();
        levels
            .filter_map(|level| {
                let factors = factors(array.shape(), level.shape())?;
                let is_coarser = factors.iter().any(|factor| *factor > 1);
                (is_coarser && level.dtype() == array.dtype()).then_some(Level { array: level, factors })
            })
            .collect()
    }
}

/// The elements that became one, for each axis. `None`: they are not whole numbers.
fn factors(fine: &[u64], coarse: &[u64]) -> Option<Vec<u64>> {
    let factor = |(fine, coarse): (&u64, &u64)| {
        let (fine, coarse) = (*fine, *coarse);
        if fine == coarse {
            return Some(1);
        }
        if coarse == 0 || coarse > fine {
            return None;
        }
        // The rest at the end may have become an element, or been left out.
        let fits = |by: &u64| *by > 0 && (fine.div_ceil(*by) == coarse || fine / by == coarse);
        let near = fine / coarse;
        let candidates = [near, near + 1];
        // Powers of two are the habit: 5 elements became 3 by 2.
        candidates.iter().copied().filter(fits).min_by_key(|by| !by.is_power_of_two())
    };
    if fine.len() != coarse.len() {
        return None;
    }
    fine.iter().zip(coarse).map(factor).collect()
}

/// The pyramids that the attributes of a group describe. Paths are relative to the group.
fn parse(attributes: &Json) -> Vec<Pyramid> {
    let ome = attributes.get("ome").unwrap_or(attributes);
    let mut found = Vec::new();
    for image in ome.get("multiscales").and_then(Json::as_array).unwrap_or_default() {
        let path = |dataset: &Json| normal(dataset.get("path")?.as_str()?);
        let datasets = image.get("datasets").and_then(Json::as_array).unwrap_or_default();
        let paths = datasets.iter().take(MOST_LEVELS).filter_map(path).collect();
        let axes = image.get("axes").and_then(Json::as_array).unwrap_or_default();
        let axes: Option<Vec<ImageAxis>> = axes.iter().map(image_axis).collect();
        let is_rgb = ome.get("omero").is_some_and(is_rgb);
        found.push(Pyramid { axes: axes.unwrap_or_default(), paths, is_rgb });
    }
    let layout = attributes.get("multiscales").and_then(|scales| scales.get("layout")?.as_array());
    if let Some(layout) = layout {
        let path = |level: &Json| normal(level.get("asset")?.as_str()?);
        let paths = layout.iter().take(MOST_LEVELS).filter_map(path).collect();
        found.push(Pyramid { paths, ..Pyramid::default() });
    }
    found
}

/// A path below a group. `None`: it leads out of the group.
fn normal(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    (!parts.is_empty() && !parts.contains(&"..")).then(|| parts.join("/"))
}

fn image_axis(axis: &Json) -> Option<ImageAxis> {
    // Before version 0.4 an axis was its name.
    let name = axis.as_str().or_else(|| axis.get("name")?.as_str())?;
    let kind = match axis.get("type").and_then(Json::as_str) {
        Some("time") => Some(AxisKind::Time),
        Some("channel") => Some(AxisKind::Channel),
        _ => AxisKind::of_name(name),
    };
    let unit = axis.get("unit").and_then(Json::as_str).map(str::to_owned);
    Some(ImageAxis { name: name.to_owned(), kind, unit })
}

/// Returns `true` if OMERO's settings show three channels in red, green and blue.
fn is_rgb(omero: &Json) -> bool {
    let channels = omero.get("channels").and_then(Json::as_array).unwrap_or_default();
    let all = |name: &str, wanted: [&str; 3]| {
        channels.len() == 3
            && channels.iter().zip(wanted).all(|(channel, wanted)| {
                let own = channel.get(name).and_then(Json::as_str).unwrap_or_default();
                own.trim_start_matches('#').eq_ignore_ascii_case(wanted)
            })
    };
    all("color", ["FF0000", "00FF00", "0000FF"]) || all("label", ["red", "green", "blue"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_whole_numbers() {
        for (fine, coarse, expected) in [
            (&[3, 100, 101][..], &[3, 50, 51][..], Some(vec![1, 2, 2])),
            (&[101], &[50], Some(vec![2])),
            (&[5], &[3], Some(vec![2])),
            (&[10], &[1], Some(vec![10])),
            (&[10], &[4], Some(vec![3])),
            (&[10], &[7], None),
            (&[10], &[20], None),
            (&[10], &[0], None),
            (&[10, 1], &[10], None),
        ] {
            let found = factors(fine, coarse);
            if let Some(found) = &found {
                for ((fine, coarse), by) in fine.iter().zip(coarse).zip(found) {
                    assert!(fine.div_ceil(*by) == *coarse || fine / by == *coarse);
                }
            }
            assert_eq!(found.is_some(), expected.is_some(), "{fine:?} {coarse:?} {found:?}");
            if let Some(expected) = expected {
                assert_eq!(found, Some(expected), "{fine:?} {coarse:?}");
            }
        }
    }

    #[test]
    fn images_of_every_version() {
        let axes = r#"[{"name": "c", "type": "channel"}, {"name": "y", "unit": "meter"}, {"name": "x"}]"#;
        let image = format!(r#"[{{"axes": {axes}, "datasets": [{{"path": "0"}}, {{"path": "low/1/"}}]}}]"#);
        let omero = r##"{"channels": [{"color": "ff0000"}, {"color": "00FF00"}, {"color": "#0000FF"}]}"##;
        for text in [
            format!(r#"{{"multiscales": {image}, "omero": {omero}}}"#),
            format!(r#"{{"ome": {{"version": "0.5", "multiscales": {image}, "omero": {omero}}}}}"#),
        ] {
            let found = parse(&Json::parse(text.as_bytes()).unwrap());
            let [one] = found.as_slice() else { panic!("{found:?}") };
            assert_eq!((one.paths.as_slice(), one.is_rgb), (&["0".to_owned(), "low/1".into()][..], true));
            let kinds: Vec<_> = one.axes.iter().map(|axis| axis.kind).collect();
            assert_eq!(kinds, [Some(AxisKind::Channel), Some(AxisKind::Y), Some(AxisKind::X)]);
            assert_eq!(one.axes[1].unit.as_deref(), Some("meter"));
        }
        let geo = r#"{"multiscales": {"layout": [{"asset": "0"}, {"asset": "../x"}, {"asset": "1"}]}}"#;
        let found = parse(&Json::parse(geo.as_bytes()).unwrap());
        assert_eq!(found[0].paths, ["0", "1"]);
        let old = r#"{"multiscales": [{"axes": ["y", "x"], "datasets": [{"path": "0"}]}]}"#;
        assert_eq!(parse(&Json::parse(old.as_bytes()).unwrap())[0].axes[0].kind, Some(AxisKind::Y));
        assert!(parse(&Json::object()).is_empty());
    }
}
