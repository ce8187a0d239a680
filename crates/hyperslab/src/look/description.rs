//! The facts about an array that a viewer needs.

use crate::formats::hdf5_json;
use crate::meaning::{Axis, AxisKind, Decoding, Pyramid, ValueType, axes, plane};
use crate::{Array, Json, Kind, Result, VlenKind};
use hyperslab_hdf5::element::ElementKind;
use hyperslab_hdf5::value::Value;
use hyperslab_zarr::fill_to_json;

/// The meaning of elements for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementsKind {
    /// Integers, floats, time differences.
    Number,
    /// Complex numbers.
    Complex,
    /// Booleans.
    Bool,
    /// Text, or bytes of text.
    Text,
    /// Structures.
    Compound,
    /// Dates.
    Time,
    /// Anything else.
    Object,
}

/// The facts about an array that a viewer needs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Description {
    /// The array.
    pub array: Array,
    /// The kind of its elements.
    pub kind: ElementsKind,
    /// Its axes.
    pub axes: Vec<Axis>,
    /// The axes of rows and columns of the first picture. Fewer than two if there are fewer axes.
    pub plane: Vec<usize>,
    /// The axis of red, green and blue.
    pub rgb: Option<usize>,
    /// The levels of its pyramid, the finest first. Empty: it belongs to none.
    pub levels: Vec<Array>,
}

impl ElementsKind {
    /// The name in answers of the server.
    pub fn name(self) -> &'static str {
        match self {
            ElementsKind::Number => "number",
            ElementsKind::Complex => "complex",
            ElementsKind::Bool => "bool",
            ElementsKind::Text => "text",
            ElementsKind::Compound => "compound",
            ElementsKind::Time => "time",
            ElementsKind::Object => "object",
        }
    }

    /// The kind of the elements of an array.
    pub fn of(array: &Array) -> ElementsKind {
        match array.vlen() {
            Some(VlenKind::Text) => return ElementsKind::Text,
            Some(_) => return ElementsKind::Object,
            None => {}
        }
        let of_hdf5 = array.as_hdf5().map(|dataset| &dataset.element().kind);
        match of_hdf5 {
            Some(ElementKind::Struct(_)) => return ElementsKind::Compound,
            Some(ElementKind::VlenString { .. } | ElementKind::FixedString { .. }) => {
                return ElementsKind::Text;
            }
            _ if array.structure().is_some() => return ElementsKind::Compound,
            _ => {}
        }
        match array.optional().unwrap_or(array.dtype()).kind() {
            Kind::Bool => ElementsKind::Bool,
            Kind::Int | Kind::UInt | Kind::Float => match Decoding::of(array) {
                Ok(found) if found.times.as_ref().is_some_and(|times| times.calendar().is_some()) => {
                    ElementsKind::Time
                }
                Ok(found) if found.values == ValueType::Bool => ElementsKind::Bool,
                _ => ElementsKind::Number,
            },
            Kind::Small(_) | Kind::TimeDelta(_) => ElementsKind::Number,
            Kind::Complex => ElementsKind::Complex,
            Kind::Bytes | Kind::Text => ElementsKind::Text,
            Kind::DateTime(_) => ElementsKind::Time,
            Kind::Raw => ElementsKind::Object,
        }
    }
}

impl Description {
    /// Describes an array, with the arrays around it. No elements are read.
    pub fn of(array: &Array) -> Result<Description> {
        let pyramid = Pyramid::of(array)?;
        let axes = axes(array, pyramid.as_ref())?;
        let is_rgb = |axis: &Axis| axis.kind == Some(AxisKind::Channel) && axis.len == 3;
        let rgb = match pyramid.as_ref().is_some_and(|pyramid| pyramid.is_rgb) {
            true => axes.iter().position(is_rgb),
            false => None,
        };
        let levels = pyramid.map_or_else(Vec::new, |pyramid| pyramid.levels(array));
        let kind = ElementsKind::of(array);
        Ok(Description { array: array.clone(), kind, plane: plane(&axes), axes, rgb, levels })
    }

    /// The description as JSON. `path`: how the reader of the answer names an array; `None`: not at all.
    pub fn to_json(&self, path: &dyn Fn(&Array) -> Option<String>) -> Result<Json> {
        let array = &self.array;
        let attributes = array.attributes()?;
        let text = |text: Option<&str>| text.map_or(Json::Null, Json::from);
        let attribute = |name: &str| text(attributes.get(name).and_then(Json::as_str));
        let place = |array: &Array| text(path(array).as_deref());
        let chunks = if array.has_chunks() { array.chunk_shape().into() } else { Json::Null };
        let axis = |(number, axis): (usize, &Axis)| {
            let chunk = array.chunk_shape().get(number).copied().filter(|_| array.has_chunks());
            Json::from([
                ("name", text(axis.name.as_deref())),
                ("size", axis.len.into()),
                ("chunk", chunk.unwrap_or(axis.len).into()),
                ("kind", text(axis.kind.map(AxisKind::name))),
                ("coordinate", axis.coordinate.as_ref().map_or(Json::Null, place)),
                ("units", text(axis.units.as_deref())),
            ])
        };
        let level = |level: &Array| Json::from([("path", place(level)), ("shape", level.shape().into())]);
        let numbers = |all: &[usize]| Json::Array(all.iter().map(|axis| (*axis as u64).into()).collect());
        Ok(Json::from([
            ("format", array.format().to_string().as_str().into()),
            ("shape", array.shape().into()),
            ("dtype", array.type_words().as_str().into()),
            ("chunks", chunks),
            ("shards", array.shard_shape().map_or(Json::Null, Json::from)),
            ("kind", self.kind.name().into()),
            ("fill_value", fill(array, &attributes)),
            ("units", attribute("units")),
            ("long_name", attribute("long_name")),
            ("axes", Json::Array(self.axes.iter().enumerate().map(axis).collect())),
            ("plane", numbers(&self.plane)),
            ("rgb", self.rgb.map_or(Json::Null, |axis| (axis as u64).into())),
            ("levels", Json::Array(self.levels.iter().map(level).collect())),
        ]))
    }
}

/// The attribute `_FillValue`, or the value of elements that were never written.
fn fill(array: &Array, attributes: &Json) -> Json {
    if let Some(given) = attributes.get("_FillValue") {
        return given.clone();
    }
    let Some(bytes) = array.fill() else { return Json::Null };
    if let Some(dataset) = array.as_hdf5() {
        let value = Value::of(dataset.file(), dataset.element(), bytes);
        return value.map_or(Json::Null, hdf5_json::value);
    }
    let dtype = array.optional().unwrap_or(array.dtype());
    if array.vlen().is_some() || array.structure().is_some() || bytes.len() != dtype.size() {
        return Json::Null;
    }
    fill_to_json(dtype, bytes).unwrap_or(Json::Null)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArraySpec, MemoryStore, Store, zarr};
    use std::sync::Arc;

    #[test]
    fn an_ocean() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let make = |path: &str, shape: &[u64], names: &[&str], attributes: &str| -> Array {
            let mut spec = ArraySpec::new(zarr::Format::V3, shape, "<i2".parse().unwrap());
            spec.dimension_names = Some(names.iter().map(|name| Some((*name).to_owned())).collect());
            spec.attributes = Json::parse(attributes.as_bytes()).unwrap();
            zarr::Array::create(store.clone(), path, spec, false).unwrap().into()
        };
        zarr::Group::create(store.clone(), "", zarr::Format::V3, Json::object(), false).unwrap();
        make("time", &[4], &["time"], r#"{"units": "days since 2000-01-01"}"#);
        make("north", &[3], &["north"], r#"{"units": "degrees_north"}"#);
        make("east", &[5], &["east"], r#"{"units": "degrees_east"}"#);
        let sst =
            make("sst", &[3, 5, 4], &["north", "east", "time"], r#"{"units": "K", "long_name": "heat"}"#);
        let found = Description::of(&sst).unwrap();
        let json = found.to_json(&|array| Some(format!("x/{}", array.path()))).unwrap();
        let text = |name: &str| json.get(name).map(|value| value.to_text(None)).unwrap_or_default();
        assert_eq!(
            (text("kind"), text("units"), text("long_name")),
            ("\"number\"".into(), "\"K\"".into(), "\"heat\"".into())
        );
        assert_eq!(
            (text("plane"), text("rgb"), text("levels")),
            ("[0, 1]".into(), "null".into(), "[]".into())
        );
        let axis = json.get("axes").unwrap().as_array().unwrap()[2].to_text(None);
        assert_eq!(
            axis,
            r#"{"name": "time", "size": 4, "chunk": 4, "kind": "time", "coordinate": "x/time", "units": "days since 2000-01-01"}"#
        );
        let time = crate::open_node(&store, "time", None).unwrap().into_array().unwrap();
        assert_eq!(ElementsKind::of(&time), ElementsKind::Time);
    }
}
