//! Compares consolidated metadata with the documents of its members.

use super::{MEMBER, read};
use crate::json::Json;
use crate::node::{self, NodeKind, StoredNode};
use crate::path::join;
use crate::{Consolidation, Format, Result, Wanted, ZarrError, walk};
use hyperslab_store::{Ask, Store};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A member whose consolidated metadata differs from its own document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outdated {
    /// Path of the member, relative to the group.
    pub path: String,
    /// The difference.
    pub what: OutdatedWhat,
}

/// The difference between consolidated metadata and a member's own documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutdatedWhat {
    /// The member is consolidated, but not stored.
    NotStored,
    /// The member is stored, but not consolidated.
    NotConsolidated,
    /// A field of the document, or the attribute after `attributes.`, with its stored and its
    /// consolidated value. `None`: there is no such field.
    Field {
        /// The name.
        name: String,
        /// The value in the member's document, as JSON.
        stored: Option<String>,
        /// The value in the consolidated metadata, as JSON.
        consolidated: Option<String>,
    },
}

/// Compares the consolidated metadata of the group at `path` with its members.
///
/// `stored`: the members that a listing found, by path relative to the group. Members whose documents
/// cannot be read are left out: opening them reports the fault. `None`: there is no consolidated
/// metadata. Fails with [`ZarrError::Metadata`] if the consolidated metadata is not valid.
pub fn outdated_members(
    store: &Arc<dyn Store>,
    path: &str,
    format: Format,
    stored: &BTreeSet<String>,
    ask: Option<Ask<'_>>,
) -> Result<Option<Vec<Outdated>>> {
    let wanted = |kind| Wanted {
        format: Some(format),
        kind: Some(kind),
        consolidation: Consolidation::Ignore,
        ..Wanted::default()
    };
    let Some(mut group) = node::read(store, path, wanted(NodeKind::Group))? else { return Ok(None) };
    let Some(nodes) = read(store, path, &mut group)? else { return Ok(None) };
    let mut found = Vec::new();
    let mut consolidated = BTreeSet::new();
    for (member, kind) in nodes.below("") {
        walk::check(ask)?;
        consolidated.insert(member.clone());
        if !stored.contains(&member) {
            found.push(Outdated { path: member, what: OutdatedWhat::NotStored });
            continue;
        }
        let place = join(path, &member);
        let own = match node::read(store, &place, wanted(kind)) {
            Ok(Some(own)) => own,
            Ok(None) => {
                found.push(Outdated { path: member, what: OutdatedWhat::NotStored });
                continue;
            }
            Err(ZarrError::Metadata { .. }) => continue,
            Err(error) => return Err(error),
        };
        let Some(copy) = nodes.get(&member) else { continue };
        let copy = copy.parse(&member, &store.url())?;
        let fields = differing_fields(&own, &copy);
        found.extend(fields.into_iter().map(|what| Outdated { path: member.clone(), what }));
    }
    let missing = stored.difference(&consolidated);
    found.extend(missing.map(|path| Outdated { path: path.clone(), what: OutdatedWhat::NotConsolidated }));
    Ok(Some(found))
}

/// The fields that differ. Absent attributes are empty attributes, and absent fields are `null`.
fn differing_fields(own: &StoredNode, copy: &StoredNode) -> Vec<OutdatedWhat> {
    let empty = Json::object();
    let attributes = |node: &StoredNode| match node.format {
        Format::V2 => node.attributes.as_deref().cloned(),
        Format::V3 => node.document.get("attributes").cloned(),
    };
    let (of_own, of_copy) = (attributes(own), attributes(copy));
    let mut found = differing(&own.document, &copy.document, "");
    found.retain(|what| match what {
        OutdatedWhat::Field { name, .. } => {
            name != MEMBER && !(own.format == Format::V3 && name == "attributes")
        }
        _ => true,
    });
    found.extend(differing(
        of_own.as_ref().unwrap_or(&empty),
        of_copy.as_ref().unwrap_or(&empty),
        "attributes.",
    ));
    found
}

fn differing(own: &Json, copy: &Json, prefix: &str) -> Vec<OutdatedWhat> {
    let names = |json: &Json| -> BTreeSet<String> {
        json.as_object().unwrap_or_default().iter().map(|(name, _)| name.clone()).collect()
    };
    let is_null = |value: Option<&Json>| value.is_none_or(|value| *value == Json::Null);
    let all: BTreeSet<String> = names(own).union(&names(copy)).cloned().collect();
    let differs = |name: &String| {
        let (one, other) = (own.get(name), copy.get(name));
        let same = match (one, other) {
            (Some(one), Some(other)) => same_value(one, other),
            _ => is_null(one) && is_null(other),
        };
        let text = |value: Option<&Json>| value.map(Json::brief);
        (!same).then(|| OutdatedWhat::Field {
            name: format!("{prefix}{name}"),
            stored: text(one),
            consolidated: text(other),
        })
    };
    all.iter().filter_map(differs).collect()
}

/// Compares values. The order of members does not count, nor do the digits of a number.
fn same_value(one: &Json, other: &Json) -> bool {
    match (one, other) {
        (Json::Object(members), Json::Object(others)) => {
            members.len() == others.len()
                && members
                    .iter()
                    .all(|(name, value)| other.get(name).is_some_and(|other| same_value(value, other)))
        }
        (Json::Array(items), Json::Array(others)) => {
            items.len() == others.len() && items.iter().zip(others).all(|(one, other)| same_value(one, other))
        }
        (Json::Number(a), Json::Number(b)) => {
            a == b
                || matches!((a.parse::<f64>(), b.parse::<f64>()), (Ok(a), Ok(b)) if a.to_bits() == b.to_bits())
        }
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Array, ArraySpec, Group};
    use hyperslab_store::{Key, MemoryStore};

    fn members(store: &Arc<dyn Store>, format: Format, names: &[&str]) -> Vec<Outdated> {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        outdated_members(store, "", format, &names, None).unwrap().unwrap()
    }

    #[test]
    fn what_differs_is_named() {
        for format in [Format::V2, Format::V3] {
            let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
            let mut group = Group::create(store.clone(), "", format, Json::object(), false).unwrap();
            for name in ["a", "b", "g/c"] {
                let mut spec = ArraySpec::new(format, &[4], "|u1".parse().unwrap());
                spec.attributes = Json::from([("units", "K".into()), ("one", 1u32.into())]);
                Array::create(store.clone(), name, spec, false).unwrap();
            }
            assert_eq!(outdated_members(&store, "", format, &BTreeSet::new(), None).unwrap(), None);
            group.consolidate(None).unwrap();
            let all = ["a", "b", "g", "g/c"];
            assert_eq!(members(&store, format, &all), []);
            // Attributes and a field change behind the group's back.
            let (document, attributes) = match format {
                Format::V2 => ("a/.zarray", "a/.zattrs"),
                Format::V3 => ("a/zarr.json", "a/zarr.json"),
            };
            for (key, from, to) in [(document, "4", "5"), (attributes, "\"K\"", "\"C\"")] {
                let key = Key::new(key).unwrap();
                let mut text = Vec::new();
                store.read_all(key, &mut text, 1 << 20).unwrap();
                let text = String::from_utf8(text).unwrap().replacen(from, to, 1);
                store.write(key, &[text.as_bytes()]).unwrap();
            }
            let found = members(&store, format, &["a", "g", "g/c", "new"]);
            let names: Vec<(String, String)> = found
                .iter()
                .map(|outdated| {
                    let what = match &outdated.what {
                        OutdatedWhat::NotStored => "not stored".into(),
                        OutdatedWhat::NotConsolidated => "not consolidated".into(),
                        OutdatedWhat::Field { name, .. } => name.clone(),
                    };
                    (outdated.path.clone(), what)
                })
                .collect();
            let units = |(path, what): &(String, String)| path == "a" && what == "attributes.units";
            assert!(names.iter().any(units), "{names:?}");
            assert!(names.contains(&("b".into(), "not stored".into())), "{names:?}");
            assert!(names.contains(&("new".into(), "not consolidated".into())), "{names:?}");
            assert_eq!(names.iter().filter(|(path, _)| path.starts_with('g')).count(), 0, "{names:?}");
            assert!(names.iter().filter(|(path, _)| path == "a").count() == 2, "{names:?}");
        }
    }

    #[test]
    fn equal_values_may_look_different() {
        let json = |text: &str| Json::parse(text.as_bytes()).unwrap();
        assert!(same_value(&json(r#"{"a": 1, "b": [1.0]}"#), &json(r#"{"b": [1], "a": 1}"#)));
        assert!(same_value(&json("NaN"), &json("NaN")));
        assert!(!same_value(&json(r#"{"a": 1}"#), &json(r#"{"a": "1"}"#)));
        assert!(!same_value(&json("[1, 2]"), &json("[2, 1]")));
    }
}
