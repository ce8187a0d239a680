//! Compares metadata: attributes, types, shapes, names of axes, fill values, layouts.

use super::report::{Aspect, Finding};
use super::side::{Elements, Side, is_close};
use super::tally::Rules;
use crate::meaning::MissingValue;
use crate::{Dims, Format, Json, Result};

/// Metadata must be equal: NaN is NaN, and the order of members has no meaning.
const EQUAL: Rules = Rules { rtol: 0.0, atol: 0.0, ulp: 0, equal_nan: true, most: 0 };

/// Collects the differences of one node.
pub(super) struct Collector<'f> {
    pub(super) path: &'f str,
    pub(super) findings: &'f mut Vec<Finding>,
}

impl Collector<'_> {
    pub(super) fn add(&mut self, aspect: Aspect, name: Option<&str>, a: Option<Json>, b: Option<Json>) {
        let (path, name) = (self.path.to_owned(), name.map(str::to_owned));
        self.findings.push(Finding { path, aspect, name, a, b });
    }

    /// Adds a difference if two values differ.
    fn compare(&mut self, aspect: Aspect, name: Option<&str>, a: Json, b: Json) {
        if !is_close(&a, &b, &EQUAL) {
            self.add(aspect, name, Some(a), Some(b));
        }
    }

    /// Compares attributes, whatever their order.
    pub(super) fn attributes(&mut self, a: &Json, b: &Json) {
        let (own, its) = (a.as_object().unwrap_or_default(), b.as_object().unwrap_or_default());
        for (name, value) in own {
            match b.get(name) {
                Some(other) if is_close(value, other, &EQUAL) => {}
                other => self.add(Aspect::Attribute, Some(name), Some(value.clone()), other.cloned()),
            }
        }
        for (name, value) in its.iter().filter(|(name, _)| a.get(name).is_none()) {
            self.add(Aspect::Attribute, Some(name), None, Some(value.clone()));
        }
    }

    /// Compares the metadata of two arrays. `layout`: also how they are stored.
    pub(super) fn arrays(&mut self, a: &Side<'_>, b: &Side<'_>, layout: bool) -> Result<()> {
        self.compare(Aspect::DataType, None, a.type_words().as_str().into(), b.type_words().as_str().into());
        let shape = |shape: &Dims| Json::from(shape.as_slice());
        self.compare(Aspect::Shape, None, shape(&a.variable.shape), shape(&b.variable.shape));
        self.compare(Aspect::Dimensions, None, dimensions(a), dimensions(b));
        self.fill_values(a, b)?;
        self.attributes(&a.variable.attributes, &b.variable.attributes);
        if layout { self.layouts(a, b) } else { Ok(()) }
    }

    /// In variables, compares the value that marks missing elements; otherwise the value of
    /// unwritten ones.
    fn fill_values(&mut self, a: &Side<'_>, b: &Side<'_>) -> Result<()> {
        match (a.variable.is_variable, b.variable.is_variable) {
            (true, true) => {
                // Zarr v3 has no place for some of these values.
                let is_kept = |side: &Side<'_>, other: &Side<'_>| {
                    other.array.format() != Format::ZarrV3
                        || side.variable.missing.to_v3(side.array).is_some()
                };
                let shown = |side: &Side<'_>| match side.variable.missing {
                    MissingValue::None => Json::Null,
                    _ => side.variable.missing.describe(side.array).as_str().into(),
                };
                let (own, its) = (shown(a), shown(b));
                if own != its && (own == Json::Null || is_kept(a, b)) && (its == Json::Null || is_kept(b, a))
                {
                    self.add(Aspect::FillValue, None, Some(own), Some(its));
                }
            }
            (false, false) => self.compare(Aspect::FillValue, None, a.fill()?, b.fill()?),
            // The names of axes differ, which was said.
            _ => {}
        }
        Ok(())
    }

    fn layouts(&mut self, a: &Side<'_>, b: &Side<'_>) -> Result<()> {
        let format = |side: &Side<'_>| Json::from(side.array.format().to_string().as_str());
        let chunks = |side: &Side<'_>| match side.array.has_chunks() {
            true => side.array.chunk_shape().into(),
            false => Json::Null,
        };
        let shards = |side: &Side<'_>| side.array.shard_shape().map_or(Json::Null, Json::from);
        let codecs = |side: &Side<'_>| Json::Array(side.array.node().codecs());
        let order = |side: &Side<'_>| {
            let order = side.array.layout().encoding().order();
            Json::from(order.iter().map(|axis| u64::from(*axis)).collect::<Vec<_>>().as_slice())
        };
        self.compare(Aspect::Layout, Some("format"), format(a), format(b));
        self.compare(Aspect::Layout, Some("chunks"), chunks(a), chunks(b));
        self.compare(Aspect::Layout, Some("shards"), shards(a), shards(b));
        self.compare(Aspect::Layout, Some("codecs"), codecs(a), codecs(b));
        self.compare(Aspect::Layout, Some("order of axes"), order(a), order(b));
        if a.array.format() == b.array.format() {
            let dtype = |side: &Side<'_>| Json::from(side.array.dtype().to_string().as_str());
            self.compare(Aspect::Layout, Some("stored type"), dtype(a), dtype(b));
        }
        if a.variable.is_variable && b.variable.is_variable {
            self.compare(Aspect::Layout, Some("value of unwritten elements"), a.fill()?, b.fill()?);
        }
        Ok(())
    }
}

/// The names of the axes; null if no axis has a name.
fn dimensions(side: &Side<'_>) -> Json {
    let names = side.variable.dimension_names.as_deref().unwrap_or_default();
    if names.iter().all(Option::is_none) {
        return Json::Null;
    }
    Json::Array(names.iter().map(|name| name.as_deref().map_or(Json::Null, Json::from)).collect())
}

impl Side<'_> {
    /// The value of unwritten elements.
    fn fill(&self) -> Result<Json> {
        let array = self.array;
        if let Elements::Ragged(_) = self.elements {
            let text = array.node().absent_text()?.unwrap_or_default();
            return Ok(String::from_utf8_lossy(&text).as_ref().into());
        }
        let mut bytes = array.layout().fill().bytes().to_vec();
        if let Elements::Numbers(_) = self.elements
            && array.optional().is_none()
            && array.dtype().order() != crate::ByteOrder::NATIVE
        {
            bytes.reverse();
        }
        self.fixed(&bytes)
    }
}
