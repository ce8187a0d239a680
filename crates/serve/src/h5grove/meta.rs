//! Facts about nodes: kinds, shapes, types, attributes, nodes below.

use super::entity::{self, Entity, Resolve, join};
use super::{Answered, Halt, json, types};
use hyperslab::copy::{attributes_of_json, hdf5_type};
use hyperslab::hdf5::dataspace::Dataspace;
use hyperslab::hdf5::datatype::Class;
use hyperslab::hdf5::filter::Filter;
use hyperslab::hdf5::{Attribute, Sizes};
use hyperslab::{Array, Error, Group, Json};
use std::borrow::Cow;

/// The most nodes in a group's description. Each takes about 1 KiB, and H5Web shows all in its tree.
const MOST_CHILDREN: usize = 50_000;

/// Sizes of addresses for nodes that are in no HDF5 file.
const SIZES: Sizes = Sizes { offset: 8, length: 8 };

/// Describes what a path leads to. `depth`: levels of nodes below groups.
pub(super) fn described(
    path: &str,
    entity: &Entity,
    depth: usize,
    resolve: Resolve,
    ask: &dyn Fn() -> bool,
) -> Answered<Json> {
    let mut members: Vec<(&str, Json)> = Vec::new();
    let kind = match entity {
        Entity::Array(array) => {
            members.extend(array_members(array)?);
            "dataset"
        }
        Entity::Group(group) => {
            if depth > 0 {
                members.push(("children", children(path, group, depth - 1, resolve, ask)?));
            }
            "group"
        }
        Entity::Datatype(datatype) => {
            members.push(("type", types::described(&datatype.datatype, SIZES)));
            "datatype"
        }
        Entity::Soft(target) => {
            members.push(("target_path", target.as_str().into()));
            "soft_link"
        }
        Entity::External { file, path } => {
            members.push(("target_file", file.as_str().into()));
            members.push(("target_path", path.as_str().into()));
            "external_link"
        }
        Entity::Other => "other",
    };
    if let Some(attributes) = Attributes::of(entity)? {
        members.push(("attributes", attributes.described()?));
    }
    members.push(("name", path.rsplit('/').next().unwrap_or_default().into()));
    members.push(("kind", kind.into()));
    members.sort_by_key(|(name, _)| *name);
    Ok(Json::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()))
}

fn children(
    path: &str,
    group: &Group,
    depth: usize,
    resolve: Resolve,
    ask: &dyn Fn() -> bool,
) -> Answered<Json> {
    let names = entity::names(group)?;
    if names.len() > MOST_CHILDREN {
        let message =
            format!("{path} has {} members, more than the {MOST_CHILDREN} of an answer", names.len());
        return Err(Halt::Refused(413, message));
    }
    let mut nodes = Vec::new();
    for name in names {
        if ask() {
            return Err(Error::Interrupted.into());
        }
        let place = join(path, &name);
        let node = match Entity::below(group, &name, resolve) {
            Ok(Some(entity)) => described(&place, &entity, depth, resolve, ask),
            Ok(None) => continue,
            Err(halt) => Err(halt),
        };
        nodes.push(match node {
            Ok(node) => node,
            Err(Halt::Refused(status, words)) => {
                return Err(Halt::Refused(status, format!("Cannot resolve {words} at {place}")));
            }
            Err(Halt::Failed(Error::Interrupted)) => return Err(Error::Interrupted.into()),
            // One that cannot be read hides no others. Its own page says why.
            Err(Halt::Failed(_)) => Json::from([("kind", "other".into()), ("name", name.as_str().into())]),
        });
    }
    Ok(Json::Array(nodes))
}

fn array_members(array: &Array) -> Answered<[(&'static str, Json); 4]> {
    let dataset = array.as_hdf5();
    let shape = match dataset.map(|dataset| dataset.dataspace()) {
        Some(Dataspace::Null) => Json::Null,
        _ => array.shape().into(),
    };
    let chunks = match dataset {
        Some(dataset) => dataset.chunk_shape().map(Json::from),
        None => array.has_chunks().then(|| array.chunk_shape().into()),
    };
    let filters: Vec<Json> = match dataset {
        Some(dataset) => dataset.filters().iter().map(filter).collect(),
        None => array.codec_names().iter().map(|name| codec(name)).collect(),
    };
    let sizes = dataset.map_or(SIZES, |dataset| dataset.file().sizes());
    let kind = match hdf5_type(array) {
        Ok(datatype) => types::described(&datatype, sizes),
        // A class that the HDF5 library does not have: shown, but without values.
        Err(_) => Json::from([
            ("class", Json::from(-1_i64)),
            ("dtype", array.dtype().numpy().as_str().into()),
            ("size", (array.dtype().size() as u64).into()),
        ]),
    };
    Ok([
        ("shape", shape),
        ("chunks", chunks.unwrap_or(Json::Null)),
        ("filters", if filters.is_empty() { Json::Null } else { Json::Array(filters) }),
        ("type", kind),
    ])
}

/// A filter of HDF5. Filters of the library need no name in the file.
fn filter(filter: &Filter) -> Json {
    const OWN: [&str; 7] = ["", "deflate", "shuffle", "fletcher32", "szip", "nbit", "scaleoffset"];
    let own = OWN.get(usize::from(filter.id)).copied().unwrap_or_default();
    let name = filter.name.as_deref().filter(|name| !name.is_empty()).unwrap_or(own);
    Json::from([("id", u64::from(filter.id).into()), ("name", name.into())])
}

/// A codec of Zarr, with the number of HDF5's filter for it. 0: there is no such filter.
fn codec(name: &str) -> Json {
    let id: u64 = match name {
        "gzip" | "zlib" => 1,
        "shuffle" => 2,
        "fletcher32" => 3,
        "bz2" => 307,
        "blosc" => 32001,
        "lz4" => 32004,
        "zstd" => 32015,
        _ => 0,
    };
    Json::from([("id", id.into()), ("name", name.into())])
}

/// The attributes of an entity.
enum Attributes<'e> {
    Hdf5(Cow<'e, [Attribute]>),
    Json(Json),
}

impl Attributes<'_> {
    /// `None`: the entity is no object.
    fn of(entity: &Entity) -> Answered<Option<Attributes<'_>>> {
        Ok(Some(match entity {
            Entity::Array(array) => match array.as_hdf5() {
                Some(dataset) => Attributes::Hdf5(dataset.attributes()?.into()),
                None => Attributes::Json(array.attributes()?.into_owned()),
            },
            Entity::Group(group) => match group.as_hdf5() {
                Some(own) => Attributes::Hdf5(own.attributes()?.into()),
                None => Attributes::Json(group.attributes()?.into_owned()),
            },
            Entity::Datatype(datatype) => Attributes::Hdf5(datatype.attributes.as_slice().into()),
            Entity::Soft(_) | Entity::External { .. } | Entity::Other => return Ok(None),
        }))
    }

    /// Names, shapes and types, sorted by name.
    fn described(&self) -> Answered<Json> {
        let one = |name: &str, dataspace: &Dataspace, kind: Json| {
            let shape = match dataspace {
                Dataspace::Null => Json::Null,
                Dataspace::Scalar => Json::Array(Vec::new()),
                Dataspace::Simple { shape, .. } => shape.as_slice().into(),
            };
            (name.to_owned(), Json::from([("name", name.into()), ("shape", shape), ("type", kind)]))
        };
        let mut found: Vec<(String, Json)> = match self {
            Attributes::Hdf5(attributes) => attributes
                .iter()
                .map(|own| one(&own.name, &own.dataspace, types::described(&own.datatype, own.file.sizes())))
                .collect(),
            Attributes::Json(json) => attributes_of_json(json)?
                .iter()
                .map(|own| one(&own.name, &own.dataspace, types::described(&own.datatype, SIZES)))
                .collect(),
        };
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(Json::Array(found.into_iter().map(|(_, json)| json).collect()))
    }

    /// Names and values.
    fn values(&self) -> Answered<Vec<(String, Json)>> {
        Ok(match self {
            Attributes::Hdf5(attributes) => {
                let mut values = Vec::new();
                for attribute in attributes.iter() {
                    // One that cannot be read hides no others.
                    let value = match (attribute.value(), attribute.element()) {
                        (Ok(value), Ok(element)) => json::of_value(value, json::is_short(&element)),
                        _ => Json::Null,
                    };
                    values.push((attribute.name.clone(), value));
                }
                values
            }
            Attributes::Json(json) => {
                let described = attributes_of_json(json)?;
                let members = json.as_object().unwrap_or_default().iter().zip(described);
                let value = |((name, value), own): (&(String, Json), _)| {
                    let own: hyperslab::hdf5::new_file::NewAttribute = own;
                    let is_text = matches!(own.datatype.class, Class::VlenString { .. });
                    let has_text = match value {
                        Json::Array(_) => !matches!(own.dataspace, Dataspace::Scalar),
                        value => value.as_str().is_some(),
                    };
                    // Objects, and lists of several types, are text in HDF5.
                    let value = match is_text && !has_text {
                        true => value.to_text(None).as_str().into(),
                        false => json::finite(value.clone()),
                    };
                    (name.clone(), value)
                };
                members.map(value).collect()
            }
        })
    }
}

/// The values of attributes. `keys`: of these only, if there are any.
pub(super) fn attribute_values(path: &str, entity: &Entity, keys: &[String]) -> Answered<Json> {
    let Some(attributes) = Attributes::of(entity)? else {
        return Err(Halt::Refused(422, format!("{path} is not a resolved entity")));
    };
    let mut values = attributes.values()?;
    if let Some(missing) = keys.iter().find(|key| !values.iter().any(|(name, _)| name == *key)) {
        return Err(Halt::Refused(404, format!("{path} has no attribute {missing:?}")));
    }
    values.retain(|(name, _)| keys.is_empty() || keys.contains(name));
    Ok(Json::Object(values))
}
