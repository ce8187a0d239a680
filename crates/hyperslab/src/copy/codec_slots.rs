//! Sorts codecs into the places of another format: filters, serializer, compressors.
//!
//! Zarr v3 has filters before the array-to-bytes codec, and compressors after it. Zarr v2 has
//! filters of both kinds, and one compressor.

use crate::{Format, Json};
use hyperslab_codec::{ByteOrder, BytesCodec, Codec, DataType, registry};
use hyperslab_zarr::{ArraySpec, Choice};
use std::sync::Arc;

/// Codecs by place.
#[derive(Debug, Default)]
pub(super) struct CodecSlots {
    filters: Vec<Json>,
    /// The array-to-bytes codec, if it is not `bytes`.
    serializer: Option<Json>,
    compressors: Vec<Json>,
}

impl CodecSlots {
    /// Places codecs, given in encoding order. Fails with the first codec that the format cannot
    /// name.
    pub(super) fn new(codecs: &[Arc<dyn Codec>], format: Format) -> Result<Self, &Arc<dyn Codec>> {
        let mut slots = CodecSlots::default();
        let (filters, rest) = codecs.split_at(count_filters(codecs));
        for codec in filters {
            slots.filters.push(in_format(codec, format).ok_or(codec)?);
        }
        for codec in rest.iter().filter(|codec| codec.name() != "bytes") {
            let json = in_format(codec, format).ok_or(codec)?;
            let is_first = slots.serializer.is_none() && slots.compressors.is_empty();
            match name(&json).is_some_and(|name| format == Format::ZarrV3 && registry::makes_bytes(name)) {
                true if is_first => slots.serializer = Some(json),
                _ => slots.compressors.push(json),
            }
        }
        Ok(slots)
    }

    /// Returns `true` if each filter gets and returns elements of the types that it names.
    /// Other filters reinterpret bytes as other elements, which readers of Zarr v3 do differently.
    pub(super) fn are_of_elements(&self, mut dtype: DataType) -> bool {
        self.filters.iter().all(|json| {
            let name = name(json).unwrap_or_default();
            let typed = |fields: [&str; 2]| {
                let json = json.get("configuration")?;
                let text = fields.iter().find_map(|field| json.get(field))?.as_str()?;
                text.parse::<DataType>().ok()
            };
            let (from, to) = (typed(["decode_dtype", "dtype"]), typed(["encode_dtype", "astype"]));
            let gets_its_own = from.is_none_or(|from| from == dtype);
            dtype = to.or(from).unwrap_or(dtype);
            // zarr-python creates no arrays with `packbits`. It reads the output of `quantize` as
            // elements of the input type.
            let is_read = match name {
                "numcodecs.packbits" => false,
                "numcodecs.quantize" => from == to,
                _ => true,
            };
            gets_its_own && is_read
        })
    }

    pub(super) fn without_filters(self) -> Self {
        CodecSlots { filters: Vec::new(), ..self }
    }

    /// Sets the codecs of an array to create. `order`: the stored byte order of its elements.
    pub(super) fn put(self, spec: &mut ArraySpec, format: Format, order: ByteOrder) {
        let CodecSlots { mut filters, serializer, mut compressors } = self;
        if format == Format::ZarrV2 {
            // The last codec is the compressor.
            let compressor = compressors.pop();
            filters.extend(compressors);
            spec.filters = Choice::Set(filters);
            spec.compressors = Choice::Set(compressor.into_iter().collect());
            return;
        }
        if let Some(serializer) = serializer {
            spec.serializer = Choice::Set(serializer);
        } else if !filters.is_empty() {
            // Filters may turn numbers of one byte into numbers of several bytes.
            spec.serializer = Choice::Set(Json::from(&BytesCodec::metadata(Some(order))));
        }
        if let Choice::Set(before) = &mut spec.filters {
            before.extend(filters);
        } else if !filters.is_empty() {
            spec.filters = Choice::Set(filters);
        }
        spec.compressors = Choice::Set(compressors);
    }
}

/// Number of leading codecs that work on elements. The codec that makes bytes follows them.
fn count_filters(codecs: &[Arc<dyn Codec>]) -> usize {
    if let Some(at) = codecs.iter().position(|codec| codec.name() == "bytes") {
        return at;
    }
    let is_filter = |codec: &Arc<dyn Codec>| {
        let json = codec.to_v3().as_ref().map(Json::from);
        json.as_ref().and_then(name).and_then(registry::is_filter) == Some(true)
    };
    codecs.iter().rposition(is_filter).map_or(0, |last| last + 1)
}

/// The name of a codec in v3 metadata.
fn name(json: &Json) -> Option<&str> {
    json.get("name")?.as_str()
}

fn in_format(codec: &Arc<dyn Codec>, format: Format) -> Option<Json> {
    let value = match format {
        Format::ZarrV2 => codec.to_v2(),
        _ => codec.to_v3(),
    };
    value.as_ref().map(Json::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyperslab_codec::{Context, registry::CODECS};

    fn codecs(dtype: &str, list: &str) -> Vec<Arc<dyn Codec>> {
        let array = Context::of_elements(dtype.parse().unwrap());
        let list = Json::parse(list.as_bytes()).unwrap();
        let codec = |json: &Json| CODECS.from_v2(&json.to_serde().unwrap(), &array).unwrap().codec();
        list.as_array().unwrap().iter().map(codec).collect()
    }

    fn names(list: &[Json]) -> Vec<&str> {
        list.iter().filter_map(|json| json.get("name").or(json.get("id"))?.as_str()).collect()
    }

    #[test]
    fn codecs_find_their_places() {
        let delta = r#"{"id": "delta", "dtype": "<i4"}"#;
        for (list, filters, serializer, compressors) in [
            (format!("[{delta}]"), &["numcodecs.delta"][..], None, &[][..]),
            (
                format!(r#"[{delta}, {{"id": "crc32c"}}, {{"id": "zlib"}}]"#),
                &["numcodecs.delta"],
                None,
                &["crc32c", "numcodecs.zlib"],
            ),
            (r#"[{"id": "pcodec"}, {"id": "zstd"}]"#.into(), &[], Some("numcodecs.pcodec"), &["zstd"]),
            (r#"[{"id": "zstd"}]"#.into(), &[], None, &["zstd"]),
        ] {
            let slots = CodecSlots::new(&codecs("<i4", &list), Format::ZarrV3).unwrap();
            assert_eq!(names(&slots.filters), filters, "{list}");
            assert_eq!(names(slots.serializer.as_slice()), Vec::from_iter(serializer));
            assert_eq!(names(&slots.compressors), compressors);
        }
        let mut spec = ArraySpec::new(hyperslab_zarr::Format::V2, &[4], "<i4".parse().unwrap());
        let list = codecs("<i4", &format!(r#"[{delta}, {{"id": "crc32c"}}, {{"id": "zlib"}}]"#));
        CodecSlots::new(&list, Format::ZarrV2).unwrap().put(&mut spec, Format::ZarrV2, ByteOrder::Little);
        let (Choice::Set(filters), Choice::Set(compressors)) = (&spec.filters, &spec.compressors) else {
            panic!()
        };
        assert_eq!((names(filters), names(compressors)), (vec!["delta", "crc32c"], vec!["zlib"]));
        // A filter is not a compressor, even if there is no other codec.
        let only = codecs("<i4", &format!("[{delta}]"));
        CodecSlots::new(&only, Format::ZarrV2).unwrap().put(&mut spec, Format::ZarrV2, ByteOrder::Little);
        let (Choice::Set(filters), Choice::Set(compressors)) = (&spec.filters, &spec.compressors) else {
            panic!()
        };
        assert_eq!((names(filters), compressors.len()), (vec!["delta"], 0));
    }

    #[test]
    fn filters_that_take_bytes_for_other_elements() {
        for (dtype, list, fits) in [
            ("<i4", r#"[{"id": "delta", "dtype": "<i4", "astype": ">i2"}]"#, true),
            (">i4", r#"[{"id": "delta", "dtype": ">i4"}]"#, true),
            (">i4", r#"[{"id": "delta", "dtype": "<i4"}]"#, false),
            ("<f4", r#"[{"id": "delta", "dtype": "<i4"}]"#, false),
            (
                "<i4",
                r#"[{"id": "astype", "encode_dtype": ">i2", "decode_dtype": "<i4"}, {"id": "delta", "dtype": ">i2"}]"#,
                true,
            ),
            (
                "<i4",
                r#"[{"id": "astype", "encode_dtype": ">i2", "decode_dtype": "<i4"}, {"id": "delta", "dtype": "<i2"}]"#,
                false,
            ),
            ("<f8", r#"[{"id": "quantize", "digits": 1, "dtype": "<f8"}]"#, true),
            ("<f8", r#"[{"id": "quantize", "digits": 1, "dtype": "<f8", "astype": "<f4"}]"#, false),
            ("<f8", r#"[{"id": "bitround", "keepbits": 3}]"#, true),
        ] {
            let slots = CodecSlots::new(&codecs(dtype, list), Format::ZarrV3).unwrap();
            assert_eq!(slots.are_of_elements(dtype.parse().unwrap()), fits, "{dtype} {list}");
        }
    }
}
