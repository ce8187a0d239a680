//! HDF5's filters as codecs of Zarr: v2 has the codecs of numcodecs, v3 a few of them.

use crate::formats::hdf5_array::filter_name;
use crate::{Array, Json};
use hyperslab_codec::Kind;
use hyperslab_hdf5::Dataset;
use hyperslab_hdf5::element::ElementKind;
use hyperslab_hdf5::filter::Filter;

/// The codec of Zarr v2 that decodes a filter's output. `element`: bytes of an element.
pub(crate) fn to_v2(filter: &Filter, element: usize) -> Result<Json, String> {
    let (id, settings) = codec(filter, element)
        .ok_or_else(|| format!("filter {} ({}) has no equal in numcodecs", filter.id, filter_name(filter)))?;
    Ok(Json::Object([("id".to_owned(), id.into())].into_iter().chain(owned(settings)).collect()))
}

/// The codec of Zarr v3 that decodes a filter's output. `None`: chunks with this filter are decoded.
fn to_v3(filter: &Filter, element: usize) -> Option<Json> {
    let (id, mut settings) = codec(filter, element)?;
    let name = match id {
        "zlib" => "numcodecs.zlib",
        "shuffle" => "numcodecs.shuffle",
        "zstd" => {
            settings.push(("checksum", false.into()));
            "zstd"
        }
        _ => return None,
    };
    let configuration = Json::Object(owned(settings).collect());
    Some(Json::from([("name", name.into()), ("configuration", configuration)]))
}

/// The codecs of Zarr v3, if stored chunks of an array are chunks of Zarr; in the order of encoding.
pub(super) fn all_to_v3(array: &Array) -> Option<Vec<Json>> {
    let is_number =
        matches!(array.dtype().kind(), Kind::Bool | Kind::Int | Kind::UInt | Kind::Float | Kind::Complex);
    match array.as_hdf5() {
        _ if !is_number || array.vlen().is_some() => None,
        None => Some(Vec::new()),
        Some(dataset) if !is_stored_as_numpy(dataset) => None,
        Some(dataset) => dataset.filters().iter().map(|filter| to_v3(filter, array.dtype().size())).collect(),
    }
}

/// Returns `true` for a codec that all readers of Zarr v3 have.
pub(super) fn is_standard(codec: &Json) -> bool {
    codec.get("name").and_then(Json::as_str).is_none_or(|name| !name.starts_with("numcodecs."))
}

/// The codec for chunks that are encoded when they are read: decoding and sending take longer.
pub(super) fn quick_codec() -> Json {
    Json::named("zstd", [("level", 1u32.into()), ("checksum", false.into())])
}

/// Returns `true` if stored elements have the form that NumPy's memory has.
pub(crate) fn is_stored_as_numpy(dataset: &Dataset) -> bool {
    let element = dataset.element();
    // A single character is always its own byte; longer text may end in different ways.
    let is_character = element.size == 1 && matches!(element.kind, ElementKind::FixedString { .. });
    is_character || element.conversion(dataset.datatype()).is_none()
}

/// Settings of a codec, by name.
type Settings = Vec<(&'static str, Json)>;

/// The codec of numcodecs that decodes a filter's output: its name, and its settings.
fn codec(filter: &Filter, element: usize) -> Option<(&'static str, Settings)> {
    let number = |at: usize, absent: u32| Json::from(filter.client_data.get(at).copied().unwrap_or(absent));
    Some(match filter.id {
        1 => ("zlib", vec![("level", number(0, 6))]),
        2 => ("shuffle", vec![("elementsize", number(0, u32::try_from(element).unwrap_or(1)))]),
        3 => ("fletcher32", Vec::new()),
        307 => ("bz2", vec![("level", number(0, 9))]),
        32001 => ("blosc", blosc(filter)),
        32015 => ("zstd", vec![("level", number(0, 3))]),
        _ => return None,
    })
}

/// Chunks of Blosc describe themselves; these are the settings for new chunks.
fn blosc(filter: &Filter) -> Settings {
    let number = |at: usize, absent: u32| filter.client_data.get(at).copied().unwrap_or(absent);
    let name = match number(6, 0) {
        1 => "lz4",
        2 => "lz4hc",
        3 => "snappy",
        4 => "zlib",
        5 => "zstd",
        _ => "blosclz",
    };
    vec![
        ("cname", name.into()),
        ("clevel", number(4, 5).into()),
        ("shuffle", number(5, 1).into()),
        ("blocksize", 0u32.into()),
    ]
}

fn owned(settings: Settings) -> impl Iterator<Item = (String, Json)> {
    settings.into_iter().map(|(name, value)| (name.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_in_both_formats() {
        let filter = |id, client_data: &[u32]| Filter { id, client_data: client_data.to_vec(), ..FILTER };
        const FILTER: Filter = Filter { id: 0, name: None, optional: false, client_data: Vec::new() };
        let v2 = |filter: &Filter| to_v2(filter, 8).map(|codec| codec.to_text(None));
        let v3 = |filter: &Filter| to_v3(filter, 8).map(|codec| codec.to_text(None));
        let shuffle = filter(2, &[4]);
        assert_eq!(v2(&shuffle).unwrap(), r#"{"id": "shuffle", "elementsize": 4}"#);
        let named = r#"{"name": "numcodecs.shuffle", "configuration": {"elementsize": 4}}"#;
        assert_eq!(v3(&shuffle).unwrap(), named);
        assert!(v2(&filter(2, &[])).unwrap().contains("\"elementsize\": 8"));
        let zlib = r#"{"name": "numcodecs.zlib", "configuration": {"level": 7}}"#;
        assert_eq!(v3(&filter(1, &[7])).unwrap(), zlib);
        let zstd = r#"{"name": "zstd", "configuration": {"level": 3, "checksum": false}}"#;
        assert_eq!(v3(&filter(32015, &[])).unwrap(), zstd);
        // Zarr v2 has these, v3 does not.
        for id in [3, 307, 32001] {
            assert!(v2(&filter(id, &[])).is_ok() && v3(&filter(id, &[])).is_none(), "{id}");
        }
        assert_eq!(v2(&filter(32000, &[])).unwrap_err(), "filter 32000 (lzf) has no equal in numcodecs");
    }
}
