//! The result of a comparison.

use crate::Json;

/// The differences between two arrays or groups; made by [`diff`](super::diff).
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Difference {
    /// Differences of members and metadata, in the order of paths.
    pub findings: Vec<Finding>,
    /// Arrays with differing elements, in the order of paths.
    pub arrays: Vec<ArrayDifference>,
    /// Path and reason of what could not be compared.
    pub failures: Vec<(String, String)>,
    /// Number of arrays whose elements were compared, at least in part.
    pub compared: u64,
    /// Number of chunks that were not decoded, because both arrays store the same bytes.
    pub chunks_skipped: u64,
    /// Number of chunks that were decoded, counted in the first array.
    pub chunks_decoded: u64,
    /// `true`: the comparison stopped at the first difference.
    pub stopped: bool,
}

/// What differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Aspect {
    /// One of the two has no such member.
    Member,
    /// An array here, a group or a link there.
    Kind,
    /// The value of an attribute.
    Attribute,
    /// The element type.
    DataType,
    /// Elements per axis.
    Shape,
    /// Names of axes.
    Dimensions,
    /// The value of missing or unwritten elements.
    FillValue,
    /// How the elements are stored.
    Layout,
}

impl Aspect {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Aspect::Member => "member",
            Aspect::Kind => "kind",
            Aspect::Attribute => "attribute",
            Aspect::DataType => "dtype",
            Aspect::Shape => "shape",
            Aspect::Dimensions => "dimensions",
            Aspect::FillValue => "fill_value",
            Aspect::Layout => "layout",
        }
    }
}

/// A difference of members or metadata.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// The path below the compared nodes; `""`: the nodes themselves.
    pub path: String,
    /// What differs.
    pub aspect: Aspect,
    /// The name of the attribute, or of the part of the layout.
    pub name: Option<String>,
    /// The value of the first; `None`: there is no value.
    pub a: Option<Json>,
    /// The value of the second.
    pub b: Option<Json>,
}

/// The differing elements of one array.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ArrayDifference {
    /// The path below the compared nodes; `""`: the nodes themselves.
    pub path: String,
    /// Number of compared elements: the common part, if shapes differ.
    pub compared: u64,
    /// Number of elements that differ.
    pub different: u64,
    /// Number of elements missing in the first array only, and in the second only.
    pub missing: [u64; 2],
    /// The largest absolute difference, and where it is. `None`: elements are no numbers.
    pub largest_absolute: Option<Largest>,
    /// The largest difference relative to the number in the second array.
    pub largest_relative: Option<Largest>,
    /// The root of the mean squared difference of the elements that differ.
    pub rms: Option<f64>,
    /// The unit of differences, if numbers are times.
    pub unit: Option<String>,
    /// The names of the axes, as far as they have names.
    pub dimensions: Vec<Option<String>>,
    /// The first elements that differ, in C order.
    pub first: Vec<Element>,
}

/// A largest difference.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Largest {
    /// The difference.
    pub value: f64,
    /// Its place.
    pub at: Element,
}

/// An element of both arrays.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Element {
    /// The index, per axis.
    pub index: Vec<u64>,
    /// The coordinates there, as dimension and value, for axes that have coordinates.
    pub coordinates: Vec<(String, Json)>,
    /// The element of the first array. Null: it is missing.
    pub a: Json,
    /// The element of the second array.
    pub b: Json,
}

impl Difference {
    /// Returns `true` if nothing differs. (What could not be compared may differ.)
    pub fn is_empty(&self) -> bool {
        self.findings.is_empty() && self.arrays.is_empty()
    }

    /// Converts to a JSON object with the names of the fields.
    pub fn to_json(&self) -> Json {
        let failure = |(path, why): &(String, String)| {
            Json::from([("path", path.as_str().into()), ("error", why.as_str().into())])
        };
        Json::from([
            ("equal", (self.is_empty() && self.failures.is_empty()).into()),
            ("findings", Json::Array(self.findings.iter().map(Finding::to_json).collect())),
            ("arrays", Json::Array(self.arrays.iter().map(ArrayDifference::to_json).collect())),
            ("failures", Json::Array(self.failures.iter().map(failure).collect())),
            ("compared", self.compared.into()),
            ("chunks_skipped", self.chunks_skipped.into()),
            ("chunks_decoded", self.chunks_decoded.into()),
            ("stopped", self.stopped.into()),
        ])
    }
}

fn optional<T>(value: &Option<T>, json: impl FnOnce(&T) -> Json) -> Json {
    value.as_ref().map_or(Json::Null, json)
}

impl Finding {
    fn to_json(&self) -> Json {
        let mut members = vec![
            ("path".to_owned(), self.path.as_str().into()),
            ("what".to_owned(), self.aspect.name().into()),
        ];
        if let Some(name) = &self.name {
            members.push(("name".to_owned(), name.as_str().into()));
        }
        // An absent side is absent in JSON, too: null is the value of some attributes.
        for (side, value) in [("a", &self.a), ("b", &self.b)] {
            members.extend(value.iter().map(|value| (side.to_owned(), value.clone())));
        }
        Json::Object(members)
    }
}

impl ArrayDifference {
    fn to_json(&self) -> Json {
        let name = |name: &Option<String>| optional(name, |name| name.as_str().into());
        Json::from([
            ("path", self.path.as_str().into()),
            ("compared", self.compared.into()),
            ("different", self.different.into()),
            ("missing", self.missing.as_slice().into()),
            ("largest_absolute", optional(&self.largest_absolute, Largest::to_json)),
            ("largest_relative", optional(&self.largest_relative, Largest::to_json)),
            ("rms", optional(&self.rms, |rms| Json::float(*rms))),
            ("unit", name(&self.unit)),
            ("dimensions", Json::Array(self.dimensions.iter().map(name).collect())),
            ("first", Json::Array(self.first.iter().map(Element::to_json).collect())),
        ])
    }
}

impl Largest {
    fn to_json(&self) -> Json {
        Json::from([("value", Json::float(self.value)), ("at", self.at.to_json())])
    }
}

impl Element {
    fn to_json(&self) -> Json {
        Json::from([
            ("index", self.index.as_slice().into()),
            ("coordinates", Json::Object(self.coordinates.clone())),
            ("a", self.a.clone()),
            ("b", self.b.clone()),
        ])
    }
}
