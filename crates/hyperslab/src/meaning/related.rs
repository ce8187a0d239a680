//! Variables that describe other variables: their coordinates, bounds, grid mappings.

use super::Variable;
use crate::{Error, Json, Result};
use std::collections::{BTreeMap, BTreeSet};

/// CF attributes that name other variables. xarray follows the same ones.
const NAMING: [&str; 12] = [
    "coordinates",
    "bounds",
    "climatology",
    "grid_mapping",
    "cell_measures",
    "formula_terms",
    "ancillary_variables",
    "geometry",
    "node_coordinates",
    "node_count",
    "part_node_count",
    "interior_ring",
];

/// The paths of the wanted variables, and of the variables that describe their axes and values.
/// `all`: path and variable of everything that there is.
///
/// Fails with [`Error::Options`] for a name that no variable has.
pub(crate) fn needed_variables<'v>(
    all: impl Iterator<Item = (&'v str, &'v Variable)>,
    wanted: &[String],
) -> Result<BTreeSet<String>> {
    let all: BTreeMap<&str, &Variable> = all.collect();
    let mut needed = BTreeSet::new();
    let mut waiting: Vec<&str> = Vec::new();
    for name in wanted {
        match all.get_key_value(name.trim_matches('/')) {
            Some((path, _)) => waiting.push(path),
            None => {
                let names = all.keys().copied().collect::<Vec<_>>().join(", ");
                return Err(Error::Options(format!(
                    "variables: there is no {name:?}; there are {}",
                    if names.is_empty() { "none" } else { &names }
                )));
            }
        }
    }
    while let Some(path) = waiting.pop() {
        if !needed.insert(path.to_owned()) {
            continue;
        }
        let Some(variable) = all.get(path) else { continue };
        let axes = variable.dimension_names.iter().flatten().flatten().map(String::as_str);
        let named = NAMING.iter().filter_map(|name| variable.attributes.get(name).and_then(Json::as_str));
        // `area: cells volume: depths` has keys that name nothing.
        let named = named.flat_map(str::split_whitespace).filter(|name| !name.ends_with(':'));
        waiting.extend(axes.chain(named).filter_map(|name| in_scope(&all, path, name)));
    }
    Ok(needed)
}

/// CF attributes whose names must be variables of the same file. (Cell measures and ancillary variables
/// may be in other files.)
const REQUIRED: [&str; 5] = ["coordinates", "bounds", "climatology", "grid_mapping", "formula_terms"];

/// The names in attributes of the variable at `path` that no variable has, with their attribute.
pub(crate) fn names_without_variable(
    all: &BTreeMap<&str, &Variable>,
    path: &str,
) -> Vec<(&'static str, String)> {
    let Some(variable) = all.get(path) else { return Vec::new() };
    let mut found = Vec::new();
    for attribute in REQUIRED {
        let text = variable.attributes.get(attribute).and_then(Json::as_str).unwrap_or_default();
        // `crs: x y` has the name of a variable before the colon, `area: cells` a keyword.
        let names = text.split_whitespace().filter_map(|name| match attribute {
            "grid_mapping" => Some(name.trim_end_matches(':')),
            _ => Some(name).filter(|name| !name.ends_with(':')),
        });
        let missing = names.filter(|name| in_scope(all, path, name).is_none());
        found.extend(missing.map(|name| (attribute, name.to_owned())));
    }
    found
}

/// The variable that a name means in the group of another: in that group, or the nearest one above.
fn in_scope<'v>(all: &BTreeMap<&'v str, &Variable>, path: &str, name: &str) -> Option<&'v str> {
    if let Some(absolute) = name.strip_prefix('/') {
        return all.get_key_value(absolute).map(|(path, _)| *path);
    }
    let mut group = path;
    loop {
        group = group.rsplit_once('/').map_or("", |(above, _)| above);
        let place = if group.is_empty() { name.to_owned() } else { format!("{group}/{name}") };
        if let Some((found, _)) = all.get_key_value(place.as_str()) {
            return Some(found);
        }
        if group.is_empty() {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meaning::MissingValue;

    fn variable(dims: &[&str], attributes: &str) -> Variable {
        Variable {
            is_variable: true,
            dimension_names: Some(dims.iter().map(|name| Some((*name).to_owned())).collect()),
            shape: dims.iter().map(|_| 1).collect(),
            attributes: Json::parse(attributes.as_bytes()).unwrap(),
            missing: MissingValue::None,
            unreadable: Vec::new(),
        }
    }

    #[test]
    fn what_a_variable_needs() {
        let all = [
            ("time", variable(&["time"], r#"{"bounds": "time_bnds"}"#)),
            ("time_bnds", variable(&["time", "nv"], "{}")),
            ("lon", variable(&["y", "x"], "{}")),
            ("crs", variable(&[], "{}")),
            ("area", variable(&["y", "x"], "{}")),
            (
                "sst",
                variable(
                    &["time", "y", "x"],
                    r#"{"coordinates": "lon lat", "grid_mapping": "crs", "cell_measures": "area: area"}"#,
                ),
            ),
            ("ice", variable(&["time"], "{}")),
            ("deep/y", variable(&["y"], "{}")),
            ("deep/salt", variable(&["time", "y"], r#"{"coordinates": "lon"}"#)),
        ];
        let needed = |names: &[&str]| {
            let wanted: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let found = needed_variables(all.iter().map(|(path, variable)| (*path, variable)), &wanted);
            found.map(|found| found.into_iter().collect::<Vec<_>>().join(" "))
        };
        assert_eq!(needed(&["sst"]).unwrap(), "area crs lon sst time time_bnds");
        assert_eq!(needed(&["ice"]).unwrap(), "ice time time_bnds");
        assert_eq!(needed(&["/deep/salt"]).unwrap(), "deep/salt deep/y lon time time_bnds");
        let error = needed(&["sss"]).unwrap_err().to_string();
        assert!(error.contains("there is no \"sss\"; there are area, crs, deep/salt"), "{error}");
    }
}
