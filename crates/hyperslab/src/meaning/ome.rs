//! OME-Zarr: image metadata in group attributes, versions 0.4 (Zarr v2) and 0.5 (Zarr v3).
//!
//! Version 0.4 keeps its parts among all other attributes, and each part states the version.
//! Version 0.5 has the same parts in one attribute, `ome`, which states the version once. In
//! version 0.5 the axis names are also the dimension names of the arrays.
//!
//! Other versions are not converted: 0.1 to 0.3 lack what 0.5 requires, and 0.4 cannot express
//! later ones.

use crate::{Format, Json};
use std::collections::HashSet;

/// The attribute that holds the parts in version 0.5.
const OME: &str = "ome";
const VERSION: &str = "version";
const V2_VERSION: &str = "0.4";
const V3_VERSION: &str = "0.5";

const MULTISCALES: &str = "multiscales";
const OMERO: &str = "omero";
const LABELS: &str = "labels";
const IMAGE_LABEL: &str = "image-label";
const PLATE: &str = "plate";
const WELL: &str = "well";
const LAYOUT: &str = "bioformats2raw.layout";
const SERIES: &str = "series";

/// The names of all parts.
const PARTS: [&str; 8] = [MULTISCALES, OMERO, LABELS, IMAGE_LABEL, PLATE, WELL, LAYOUT, SERIES];

/// The maximum number of axes of an image.
const MOST_AXES: usize = 5;

/// Converts OME-Zarr metadata between the Zarr formats, in all groups of a hierarchy.
///
/// `groups` are paths, relative to one place, with attributes. All groups are needed at once: an
/// attribute named `labels` belongs to OME-Zarr only beside or above an image. Nothing changes if
/// the formats are equal, or if one of them is not Zarr.
pub(crate) fn convert_groups(groups: &mut [(String, Json)], from: Format, to: Format) {
    match (from, to) {
        (Format::ZarrV2, Format::ZarrV3) => to_v3(groups),
        (Format::ZarrV3, Format::ZarrV2) => {
            groups.iter_mut().for_each(|(_, attributes)| unwrap(attributes));
        }
        _ => {}
    }
}

/// The arrays of an image and their axis names, from group attributes of either version.
/// Paths are relative to the group.
pub(crate) fn dataset_axes(attributes: &Json) -> Vec<(String, Vec<String>)> {
    let image = match attributes.get(OME) {
        Some(ome) if stated(ome) == Some(V3_VERSION) => ome.get(MULTISCALES),
        _ => attributes.get(MULTISCALES).filter(|multiscales| is_image(multiscales)),
    };
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    for multiscale in image.and_then(Json::as_array).unwrap_or_default() {
        let Some(axes) = axes(multiscale) else { continue };
        for dataset in datasets(multiscale) {
            let Some(path) = dataset.get("path").and_then(Json::as_str).and_then(normal) else { continue };
            if seen.insert(path.clone()) {
                found.push((path, axes.clone()));
            }
        }
    }
    found
}

/// A path below a group, without empty parts. `None`: it leaves the group, or is the group itself.
fn normal(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    (!parts.is_empty() && !parts.contains(&"..")).then(|| parts.join("/"))
}

/// The axis names of an image. `None`: names are missing or equal, or there are too many axes.
fn axes(multiscale: &Json) -> Option<Vec<String>> {
    let axes = multiscale.get("axes")?.as_array()?;
    if axes.is_empty() || axes.len() > MOST_AXES {
        return None;
    }
    let names: Option<Vec<&str>> = axes.iter().map(|axis| axis.get("name")?.as_str()).collect();
    let names = names?;
    let distinct = names.iter().collect::<HashSet<_>>().len() == names.len();
    distinct.then(|| names.into_iter().map(str::to_owned).collect())
}

fn datasets(multiscale: &Json) -> &[Json] {
    multiscale.get("datasets").and_then(Json::as_array).unwrap_or_default()
}

fn stated(part: &Json) -> Option<&str> {
    part.get(VERSION)?.as_str()
}

/// Returns `true` if the part has version 0.4, or states no version.
fn is_v2(part: &Json) -> bool {
    part.as_object().is_some() && part.get(VERSION).is_none_or(|version| version.as_str() == Some(V2_VERSION))
}

/// Returns `true` if `multiscales` has version 0.4.
/// Returns `false` for earlier versions and for other conventions with this name.
fn is_image(multiscales: &Json) -> bool {
    let is_one = |multiscale: &Json| {
        let datasets = datasets(multiscale);
        let named = datasets.iter().all(|dataset| dataset.get("path").and_then(Json::as_str).is_some());
        let certain = || {
            axes(multiscale).is_some()
                && datasets.iter().all(|dataset| dataset.get("coordinateTransformations").is_some())
        };
        !datasets.is_empty() && named && is_v2(multiscale) && (stated(multiscale).is_some() || certain())
    };
    multiscales.as_array().is_some_and(|all| !all.is_empty() && all.iter().all(is_one))
}

/// Returns `true` for attributes of an image of version 0.4.
fn has_image(attributes: &Json) -> bool {
    attributes.get(MULTISCALES).is_some_and(is_image)
}

fn has_layout(attributes: &Json) -> bool {
    attributes.get(LAYOUT).and_then(Json::as_integer) == Some(3)
}

fn is_array(part: &Json, member: &str) -> bool {
    part.get(member).is_some_and(|value| value.as_array().is_some())
}

/// The texts of a list; `None`: it is not a list of texts.
fn texts(list: &Json) -> Option<Vec<&str>> {
    list.as_array()?.iter().map(Json::as_str).collect()
}

/// Splits a group's path into the path of its parent and its name. `None`: the root.
fn split(path: &str) -> Option<(&str, &str)> {
    match path.rsplit_once('/') {
        Some(split) => Some(split),
        None => (!path.is_empty()).then_some(("", path)),
    }
}

fn to_v3(groups: &mut [(String, Json)]) {
    let of = |holds: fn(&Json) -> bool| -> HashSet<String> {
        groups.iter().filter(|(_, attributes)| holds(attributes)).map(|(path, _)| path.clone()).collect()
    };
    let (images, collections) = (of(has_image), of(has_layout));
    for (path, attributes) in groups {
        let around = split(path);
        let is_labels = |list: &Json| {
            let inside = around.is_some_and(|(above, name)| name == LABELS && images.contains(above));
            let above = |label: &&str| match (path.as_str(), normal(label)) {
                (_, None) => false,
                ("", Some(label)) => images.contains(&label),
                (path, Some(label)) => images.contains(&format!("{path}/{label}")),
            };
            texts(list).is_some_and(|labels| inside || labels.iter().any(above))
        };
        let is_series = |list: &Json| {
            around.is_some_and(|(above, name)| name == "OME" && collections.contains(above))
                && texts(list).is_some()
        };
        let (is_image, is_collection) = (images.contains(path), collections.contains(path));
        wrap(attributes, |name, part| match name {
            MULTISCALES => is_image,
            OMERO => is_image && is_v2(part),
            IMAGE_LABEL => is_v2(part),
            LABELS => is_labels(part),
            PLATE => is_v2(part) && ["columns", "rows", "wells"].iter().all(|member| is_array(part, member)),
            WELL => is_v2(part) && is_array(part, "images"),
            LAYOUT => is_collection,
            SERIES => is_series(part),
            _ => false,
        });
    }
}

/// Moves the parts of version 0.4 into the attribute of version 0.5.
fn wrap(attributes: &mut Json, is_part: impl Fn(&str, &Json) -> bool) {
    let Json::Object(members) = attributes else { return };
    let Some(first) = members.iter().position(|(name, value)| is_part(name, value)) else { return };
    // Keep an existing attribute with this name: it may hold what `unwrap` left there.
    let rest = match members.iter().find(|(name, _)| name == OME) {
        None => Vec::new(),
        Some((_, Json::Object(rest))) if !rest.iter().any(|(name, _)| is_known(name)) => rest.clone(),
        Some(_) => return,
    };
    let mut ome = vec![(VERSION.to_owned(), Json::from(V3_VERSION))];
    let mut kept = Vec::with_capacity(members.len());
    let mut place = 0;
    for (at, (name, mut value)) in std::mem::take(members).into_iter().enumerate() {
        if at == first {
            place = kept.len();
        }
        if is_part(&name, &value) {
            match (name.as_str(), &mut value) {
                (MULTISCALES, Json::Array(images)) => images.iter_mut().for_each(|image| {
                    image.remove(VERSION);
                }),
                // The only part that must also state the version in 0.5.
                (PLATE, plate) => plate.set(VERSION, V3_VERSION.into()),
                (_, part) if stated(part).is_some() => part.set(VERSION, V3_VERSION.into()),
                _ => {}
            }
            ome.push((name, value));
        } else if name != OME {
            kept.push((name, value));
        }
    }
    ome.extend(rest);
    kept.insert(place, (OME.to_owned(), Json::Object(ome)));
    *members = kept;
}

/// Moves the parts of version 0.5 among the other attributes, as in version 0.4.
fn unwrap(attributes: &mut Json) {
    let Json::Object(members) = attributes else { return };
    let Some(place) = members.iter().position(|(name, _)| name == OME) else { return };
    let Some((_, Json::Object(ome))) = members.get(place) else { return };
    let is_v3 = ome.iter().any(|(name, value)| name == VERSION && value.as_str() == Some(V3_VERSION));
    let (parts, rest): (Vec<_>, Vec<_>) =
        ome.iter().cloned().partition(|(name, _)| PARTS.contains(&name.as_str()));
    let clashes = |(name, _): &(String, Json)| members.iter().any(|(other, _)| other == name);
    // If another convention uses the same name, both stay where they are.
    if !is_v3 || parts.is_empty() || parts.iter().any(clashes) {
        return;
    }
    let mut moved = Vec::with_capacity(parts.len() + 1);
    for (name, mut part) in parts {
        match (name.as_str(), &mut part) {
            (MULTISCALES, Json::Array(images)) => {
                images.iter_mut().for_each(|image| image.set(VERSION, V2_VERSION.into()));
            }
            (PLATE, plate) => plate.set(VERSION, V2_VERSION.into()),
            (_, part) if stated(part).is_some() => part.set(VERSION, V2_VERSION.into()),
            _ => {}
        }
        moved.push((name, part));
    }
    // Version 0.4 has no place for other members.
    let rest: Vec<_> = rest.into_iter().filter(|(name, _)| name != VERSION).collect();
    if !rest.is_empty() {
        moved.push((OME.to_owned(), Json::Object(rest)));
    }
    members.splice(place..=place, moved);
}

/// Returns `true` if an `ome` attribute with this member holds OME-Zarr metadata.
fn is_known(name: &str) -> bool {
    name == VERSION || PARTS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    const AXES: &str =
        r#""axes": [{"name": "c", "type": "channel"}, {"name": "y"}, {"name": "x", "unit": "meter"}]"#;
    const LEVELS: &str = r#""datasets": [
        {"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [1, 0.5, 0.5]}]},
        {"path": "low/1", "coordinateTransformations": [{"type": "scale", "scale": [1, 1.0, 1.0]}]}]"#;

    /// Group attributes in version 0.4 and in version 0.5.
    fn both() -> Vec<(&'static str, String, String)> {
        let image = |version: &str| format!(r#"[{{"name": "a", {AXES}, {LEVELS}{version}}}]"#);
        let (old, new) = (image(r#", "version": "0.4""#), image(""));
        let plate = r#""columns": [{"name": "1"}], "rows": [{"name": "A"}], "wells": [{"path": "A/1"}]"#;
        vec![
            (
                "",
                r#"{"bioformats2raw.layout": 3, "mine": 1}"#.into(),
                r#"{"ome": {"version": "0.5", "bioformats2raw.layout": 3}, "mine": 1}"#.into(),
            ),
            (
                "OME",
                r#"{"series": ["0", "1"]}"#.into(),
                r#"{"ome": {"version": "0.5", "series": ["0", "1"]}}"#.into(),
            ),
            (
                "0",
                format!(r#"{{"mine": 1, "multiscales": {old}, "omero": {{"id": 1, "version": "0.4"}}}}"#),
                format!(
                    r#"{{"mine": 1, "ome": {{"version": "0.5", "multiscales": {new},
                    "omero": {{"id": 1, "version": "0.5"}}}}}}"#
                ),
            ),
            (
                "0/labels",
                r#"{"labels": ["cells"]}"#.into(),
                r#"{"ome": {"version": "0.5", "labels": ["cells"]}}"#.into(),
            ),
            (
                "0/labels/cells",
                format!(
                    r#"{{"multiscales": {old}, "image-label": {{"version": "0.4", "source": {{"image": "../../"}}}}}}"#
                ),
                format!(
                    r#"{{"ome": {{"version": "0.5", "multiscales": {new},
                    "image-label": {{"version": "0.5", "source": {{"image": "../../"}}}}}}}}"#
                ),
            ),
            (
                "p",
                format!(r#"{{"plate": {{{plate}, "version": "0.4"}}}}"#),
                format!(r#"{{"ome": {{"version": "0.5", "plate": {{{plate}, "version": "0.5"}}}}}}"#),
            ),
            (
                "p/A/1",
                r#"{"well": {"images": [{"path": "0"}]}}"#.into(),
                r#"{"ome": {"version": "0.5", "well": {"images": [{"path": "0"}]}}}"#.into(),
            ),
            // Not OME-Zarr, despite the names.
            ("other", r#"{"labels": ["cat", "dog"], "well": "done", "plate": 1}"#.into(), String::new()),
            ("other/OME", r#"{"series": ["a"]}"#.into(), String::new()),
            ("other/geo", r#"{"multiscales": {"layout": []}, "omero": {}}"#.into(), String::new()),
            (
                "other/pyramid",
                r#"{"multiscales": [{"datasets": [{"path": "0"}], "type": "reduce"}]}"#.into(),
                String::new(),
            ),
            (
                "other/older",
                r#"{"multiscales": [{"version": "0.3", "axes": ["y", "x"], "datasets": [{"path": "0"}]}]}"#
                    .into(),
                String::new(),
            ),
        ]
    }

    fn converted(groups: &[(String, Json)], from: Format, to: Format) -> Vec<(String, Json)> {
        let mut groups = groups.to_vec();
        convert_groups(&mut groups, from, to);
        groups
    }

    #[test]
    fn parts_move_and_come_back() {
        let old: Vec<_> = both().iter().map(|(path, old, _)| ((*path).to_owned(), parse(old))).collect();
        let new: Vec<_> = both()
            .iter()
            .map(|(path, old, new)| ((*path).to_owned(), parse(if new.is_empty() { old } else { new })))
            .collect();
        let there = converted(&old, Format::ZarrV2, Format::ZarrV3);
        for (found, expected) in there.iter().zip(&new) {
            assert_eq!(found.1.to_text(None), expected.1.to_text(None), "{}", found.0);
        }
        let back = converted(&there, Format::ZarrV3, Format::ZarrV2);
        for (found, expected) in back.iter().zip(&old) {
            assert_eq!(found.1.to_text(None), expected.1.to_text(None), "{}", found.0);
        }
        for format in [Format::ZarrV2, Format::ZarrV3] {
            assert_eq!(converted(&old, format, format), old);
            assert_eq!(converted(&old, Format::Hdf5, format), old);
        }
    }

    #[test]
    fn nothing_is_lost_where_names_clash() {
        let v3 = |text: &str| {
            let groups = vec![(String::new(), parse(text))];
            let v2 = converted(&groups, Format::ZarrV3, Format::ZarrV2);
            (v2[0].1.to_text(None), converted(&v2, Format::ZarrV2, Format::ZarrV3)[0].1.to_text(None))
        };
        // An attribute of another convention is in the way.
        let text = r#"{"multiscales": {"layout": []}, "ome": {"version": "0.5", "multiscales": []}}"#;
        assert_eq!(v3(text), (text.to_owned(), text.to_owned()));
        // Another version, no version, and no parts.
        for text in [
            r#"{"ome": {"version": "0.6", "well": {"images": []}}}"#,
            r#"{"ome": {"well": {"images": []}}}"#,
            r#"{"ome": {"version": "0.5"}}"#,
            r#"{"ome": "nothing"}"#,
        ] {
            assert_eq!(v3(text), (text.to_owned(), text.to_owned()));
        }
        // Members that 0.4 has no place for stay in their attribute.
        let text = r#"{"ome": {"version": "0.5", "well": {"images": []}, "mine": 1}, "z": 2}"#;
        let (v2, back) = v3(text);
        assert_eq!(v2, r#"{"well": {"images": []}, "ome": {"mine": 1}, "z": 2}"#);
        assert_eq!(back, text);
    }

    #[test]
    fn labels_without_the_image_around_them() {
        let cells = both().into_iter().find(|(path, ..)| *path == "0/labels/cells").unwrap();
        let groups = [
            (String::new(), parse(r#"{"labels": ["deep/cells", "gone"]}"#)),
            ("deep".to_owned(), Json::object()),
            ("deep/cells".to_owned(), parse(&cells.1)),
        ];
        let v3 = converted(&groups, Format::ZarrV2, Format::ZarrV3);
        assert_eq!(v3[0].1.to_text(None), r#"{"ome": {"version": "0.5", "labels": ["deep/cells", "gone"]}}"#);
    }

    #[test]
    fn axes_of_arrays() {
        let names = ["c", "y", "x"].map(str::to_owned).to_vec();
        let expected = vec![("0".to_owned(), names.clone()), ("low/1".to_owned(), names)];
        for (path, old, new) in both() {
            let expected =
                if path == "0" || path == "0/labels/cells" { expected.clone() } else { Vec::new() };
            assert_eq!(dataset_axes(&parse(&old)), expected, "{path}");
            if !new.is_empty() {
                assert_eq!(dataset_axes(&parse(&new)), expected, "{path}");
            }
        }
    }

    #[test]
    fn axes_that_cannot_be_names() {
        let with = |axes: &str, path: &str| {
            let text = format!(
                r#"{{"ome": {{"version": "0.5", "multiscales": [{{"axes": {axes},
                "datasets": [{{"path": "{path}"}}, {{}}, 1]}}, 7]}}}}"#
            );
            dataset_axes(&parse(&text))
        };
        assert_eq!(with(r#"[{"name": "x"}]"#, "./a//b/"), [("a/b".to_owned(), vec!["x".to_owned()])]);
        for path in ["../a", "", ".", "/"] {
            assert_eq!(with(r#"[{"name": "x"}]"#, path), []);
        }
        for axes in [r#"[{"name": "x"}, {"name": "x"}]"#, r#"["x"]"#, "[]", "{}", r#"[{"name": 1}]"#] {
            assert_eq!(with(axes, "0"), []);
        }
        let many: Vec<_> = (0..6).map(|axis| format!(r#"{{"name": "{axis}"}}"#)).collect();
        assert_eq!(with(&format!("[{}]", many.join(",")), "0"), []);
    }
}
