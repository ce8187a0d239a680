use super::*;
use crate::testing::{cases, json, memory, put};
use crate::{Array, ArraySpec, Choice};
use hyperslab_codec::Cell;

fn int() -> VlenKind {
    VlenKind::Array("<i4".parse().unwrap())
}

#[test]
fn v3_names() {
    for (text, kind) in [
        (r#""string""#, Some(VlenKind::Text)),
        (r#"{"name": "string", "configuration": {}}"#, Some(VlenKind::Text)),
        (r#"{"name": "string"}"#, Some(VlenKind::Text)),
        (r#""variable_length_bytes""#, Some(VlenKind::Bytes)),
        (r#""bytes""#, Some(VlenKind::Bytes)),
        (r#""int8""#, None),
    ] {
        assert_eq!(from_v3(&json(text)).unwrap(), kind, "{text}");
    }
    assert!(from_v3(&json(r#"{"name": "string", "configuration": {"x": 1}}"#)).is_err());
    assert_eq!(to_v3(VlenKind::Bytes).unwrap().to_text(None), r#""variable_length_bytes""#);
    assert!(to_v3(int()).unwrap_err().text().contains("use Zarr v2"));
}

#[test]
fn v2_filters_say_what_objects_are() {
    let object = json(r#""|O""#);
    let crc = r#"{"id": "crc32c"}"#;
    for (filter, kind) in [
        (r#"{"id": "vlen-utf8"}"#, VlenKind::Text),
        (r#"{"id": "vlen-bytes"}"#, VlenKind::Bytes),
        (r#"{"id": "vlen-array", "dtype": "<i4"}"#, int()),
        (r#"{"id": "json2"}"#, VlenKind::Json),
        (r#"{"id": "msgpack2"}"#, VlenKind::MessagePack),
    ] {
        assert_eq!(v2_filter(kind).to_text(None), filter);
        let filters = [json(filter), json(crc)];
        let (element, behind) = from_v2(&object, &filters).unwrap();
        assert_eq!((element, behind), (Element::Vlen(kind), &filters[1..]));
    }
    for [dtype, filters, want] in cases(
        r#"
        "|O" | [] | "|O" needs a first filter that makes bytes of objects (vlen-utf8
        "|O" | [{"id": "pickle", "protocol": 5}] | reading a pickle runs code
        "|O" | [{"id": "vlen-utf8"}, {"id": "json2"}] | "json2" makes bytes of objects
        "|O" | [{"id": "crc32c"}, {"id": "vlen-utf8"}] | "vlen-utf8" makes bytes of objects
        "|O" | [{"id": "crc32c"}] | expected a first filter that makes bytes of objects
        "|O" | [3] | found 3
        "|O" | [{"id": "vlen-array"}] | "vlen-array": dtype is missing
        "|O" | [{"id": "vlen-array", "dtype": "|O"}] | "vlen-array": object
        "<i4" | [{"id": "vlen-utf8"}] | of dtype "|O", found dtype "<i4"
    "#,
    ) {
        let filters = json(filters).as_array().unwrap().to_vec();
        let error = from_v2(&json(dtype), &filters).unwrap_err().text();
        assert!(error.contains(want), "{filters:?}: {error}");
    }
    // numcodecs also makes JSON and MessagePack from numbers.
    for filter in [r#"{"id": "json2"}"#, r#"{"id": "json"}"#, r#"{"id": "msgpack2"}"#] {
        let filters = [json(filter)];
        let found = from_v2(&json(r#""<i4""#), &filters).unwrap();
        assert_eq!(found, (Element::Fixed("<i4".parse().unwrap()), &filters[..]));
    }
}

#[test]
fn fill_values() {
    let (text, bytes) = (VlenKind::Text, VlenKind::Bytes);
    for (kind, format, json_text, value) in [
        (text, Format::V3, r#""""#, Some(&b""[..])),
        (text, Format::V3, r#""é""#, Some("é".as_bytes())),
        (text, Format::V3, "0", None),
        (text, Format::V3, "null", None),
        // Read like zarr-python.
        (text, Format::V2, "0", Some(b"0")),
        (text, Format::V2, "0.5", None),
        (bytes, Format::V3, r#""YWI=""#, Some(b"ab")),
        (bytes, Format::V3, "[97, 98]", Some(b"ab")),
        (bytes, Format::V3, "[97, 256]", None),
        (bytes, Format::V3, r#""x""#, None),
        (bytes, Format::V3, "0", None),
        (bytes, Format::V2, "0", Some(b"")),
        (int(), Format::V2, "0", Some(b"")),
        (int(), Format::V2, r#""""#, Some(b"")),
        (int(), Format::V2, "1", None),
    ] {
        let found = parse_fill(kind, &json(json_text), format);
        match value {
            Some(value) => assert_eq!(found.unwrap(), value, "{json_text}"),
            None => assert!(found.unwrap_err().text().contains("found"), "{json_text}"),
        }
    }
    let (json_kind, pack) = (VlenKind::Json, VlenKind::MessagePack);
    for (kind, json_text, value) in [
        (json_kind, "null", Some(&b"null"[..])),
        (json_kind, "0", Some(b"0")),
        (json_kind, r#""""#, Some(b"\"\"")),
        (json_kind, r#"{"a": [NaN, 1.0]}"#, Some(br#"{"a":[NaN,1.0]}"#)),
        (pack, "null", Some(b"\xc0")),
        (pack, "0", Some(b"\0")),
        (pack, "[]", None),
    ] {
        let found = parse_fill(kind, &json(json_text), Format::V2);
        match value {
            Some(value) => {
                assert_eq!(found.unwrap(), value, "{json_text}");
                assert_eq!(write_fill(kind, value).unwrap().to_text(None), json_text);
            }
            None => assert!(found.unwrap_err().text().contains("found"), "{json_text}"),
        }
    }
    assert!(write_fill(json_kind, b"{").unwrap_err().text().contains("expected JSON"));
    assert!(
        write_fill(pack, b"\x90").unwrap_err().text().contains("expected null, a Boolean, a number or text")
    );
    let written = |kind, bytes: &[u8]| write_fill(kind, bytes).map(|json| json.to_text(None));
    assert_eq!(written(text, "é".as_bytes()).unwrap(), r#""\u00e9""#);
    assert_eq!(written(bytes, b"ab").unwrap(), r#""YWI=""#);
    assert_eq!(written(int(), b"").unwrap(), "0");
    assert!(written(text, b"a\xff").unwrap_err().text().contains("at 1"));
    assert!(written(int(), b"abcd").is_err());
}

/// Written by zarr-python 3.4.
const SHARDED: &str = r#"{"shape": [5, 6], "data_type": "string", "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 6]}}, "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "fill_value": "\u00e9\"x", "codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 3], "codecs": [{"name": "vlen-utf8", "configuration": {}}, {"name": "zstd", "configuration": {"level": 0, "checksum": false}}], "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}], "index_location": "end"}}], "attributes": {}, "dimension_names": ["x", "y"], "zarr_format": 3, "node_type": "array", "storage_transformers": []}"#;
const BYTES: &str = r#"{"shape": [5, 6], "data_type": "variable_length_bytes", "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 3]}}, "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "fill_value": "YWI=", "codecs": [{"name": "vlen-bytes", "configuration": {}}, {"name": "blosc", "configuration": {"typesize": 1, "cname": "zstd", "clevel": 5, "shuffle": "bitshuffle", "blocksize": 0}}], "attributes": {}, "zarr_format": 3, "node_type": "array", "storage_transformers": []}"#;
const TRANSPOSED: &str = r#"{"shape": [5, 6], "data_type": "string", "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 3]}}, "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "fill_value": "", "codecs": [{"name": "transpose", "configuration": {"order": [1, 0]}}, {"name": "vlen-utf8", "configuration": {}}], "attributes": {}, "zarr_format": 3, "node_type": "array", "storage_transformers": []}"#;
const V2: &str = r#"{"shape": [5, 6], "chunks": [2, 3], "dtype": "|O", "fill_value": "a", "order": "F", "filters": [{"id": "vlen-utf8"}], "dimension_separator": ".", "compressor": {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}, "zarr_format": 2}"#;

/// A spec of 5 × 6 elements, the array made from it, and the array's document as text.
fn created(format: Format, kind: VlenKind, change: impl FnOnce(&mut ArraySpec)) -> (Array, String) {
    let mut spec = ArraySpec::of_vlen(format, &[5, 6], kind);
    spec.chunks = Some([2, 3].as_slice().into());
    change(&mut spec);
    let array = Array::create(memory(), "a", spec, false).unwrap();
    let text = array.to_json().to_text(None);
    (array, text)
}

#[test]
fn documents_are_those_of_zarr_python() {
    let blosc = |text: &str| Choice::Set(vec![json(text)]);
    let (sharded, text) = created(Format::V3, VlenKind::Text, |spec| {
        spec.shards = Some([4, 6].as_slice().into());
        spec.fill = Some("é\"x".into());
        spec.dimension_names = Some(vec![Some("x".into()), Some("y".into())]);
    });
    assert_eq!(text, SHARDED);
    assert_eq!(sharded.fill(), Some("é\"x".as_bytes()));
    assert_eq!(sharded.shards(), Some(&[4, 6][..]));
    assert_eq!(sharded.serializer().unwrap().to_text(None), r#"{"name": "vlen-utf8", "configuration": {}}"#);
    let (_, text) = created(Format::V3, VlenKind::Bytes, |spec| {
        spec.fill = Some(b"ab".to_vec());
        spec.compressors = blosc(
            r#"{"name": "blosc", "configuration": {"typesize": 1, "cname": "zstd", "clevel": 5, "shuffle": "bitshuffle", "blocksize": 0}}"#,
        );
    });
    assert_eq!(text, BYTES);
    let (transposed, text) = created(Format::V3, VlenKind::Text, |spec| {
        spec.fortran_order = true;
        spec.compressors = Choice::Set(Vec::new());
    });
    assert_eq!(text, TRANSPOSED);
    assert!(transposed.fortran_order());
    let (v2, text) = created(Format::V2, VlenKind::Text, |spec| {
        spec.fill = Some(b"a".to_vec());
        spec.fortran_order = true;
        spec.compressors =
            blosc(r#"{"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}"#);
    });
    assert_eq!(text, V2);
    assert_eq!(v2.layout().encoding().order(), [1, 0]);
    let (ragged, text) = created(Format::V2, int(), |spec| {
        spec.filters = Choice::Set(vec![json(r#"{"id": "crc32c"}"#)]);
    });
    assert!(text.contains(r#""dtype": "|O", "fill_value": null"#), "{text}");
    assert!(text.contains(r#""filters": [{"id": "vlen-array", "dtype": "<i4"}, {"id": "crc32c""#), "{text}");
    assert_eq!((ragged.vlen(), ragged.fill()), (Some(int()), None));
}

#[test]
fn the_engine_gets_cells() {
    let (array, _) = created(Format::V3, VlenKind::Text, |spec| spec.fill = Some(b"none".to_vec()));
    let layout = array.layout();
    assert_eq!(layout.dtype(), DataType::CELL);
    let fill = Cell { buffer: 0, len: 4, offset: 0 };
    assert_eq!(layout.fill().bytes(), fill.write());
    let names: Vec<_> = layout.encoding().chain().codecs().iter().map(|codec| codec.name()).collect();
    assert_eq!(names, ["vlen-utf8", "zstd"]);
    // An empty fill value is all zero.
    let (array, _) = created(Format::V3, VlenKind::Bytes, |_| {});
    assert!(array.layout().fill().is_zero());
}

#[test]
fn chunks_are_those_of_zarr_python_where_that_is_sane() {
    let chunks = |n: u64, shards: Option<u64>| {
        let mut spec = ArraySpec::of_vlen(Format::V3, &[n], VlenKind::Text);
        spec.shards = shards.map(|n| [n].as_slice().into());
        Array::create(memory(), "a", spec, false).unwrap().chunks().to_vec()
    };
    assert_eq!(chunks(100, None), [100]);
    assert_eq!(chunks(1_000_000, None), [250_000]);
    assert_eq!(chunks(1_000_000_000, None), [1_953_125]);
    assert!(chunks(1_000_000_000_000, None)[0] <= 4 << 20);
    assert_eq!(chunks(10_000_000, Some(1_000_000)), [31_250]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |text: &str, from: &str, to: &str| {
        let documents = [("TRANSPOSED", TRANSPOSED), ("SHARDED", SHARDED), ("BYTES", BYTES), ("V2", V2)];
        let text = documents.into_iter().find(|(name, _)| *name == text).unwrap().1;
        assert!(text.contains(from), "{from}");
        let store = memory();
        let key = if text.contains("node_type") { "zarr.json" } else { ".zarray" };
        put(&store, key, &text.replace(from, to));
        Array::open(&store, "", None).map(|_| ()).map_err(|error| error.to_string())
    };
    for [text, from, to, want] in cases(
        r#"
        TRANSPOSED | vlen-utf8 | vlen-bytes | expected "vlen-utf8" for elements of type string, found "vlen-bytes"
        TRANSPOSED | "vlen-utf8", "configuration": {} | "bytes" | expected "vlen-utf8" for elements of type string, found "bytes"
        TRANSPOSED | "string" | {"name": "null_terminated_bytes", "configuration": {"length_bytes": 5}} | expected "bytes" for elements of type |S5, found "vlen-utf8"
        TRANSPOSED | , {"name": "vlen-utf8", "configuration": {}} |  | ("vlen-utf8", "sharding_indexed"), found none
        TRANSPOSED | {"name": "vlen-utf8", "configuration": {}} | "vlen-utf8", "vlen-utf8" | expected one codec from array to bytes, found "vlen-utf8" and "vlen-utf8"
        TRANSPOSED | "vlen-utf8", "configuration": {} | "vlen-utf8", "configuration": {"x": 1} | unknown member "x"
        TRANSPOSED | "fill_value": "" | "fill_value": 0 | fill_value: expected text, found 0
        SHARDED | vlen-utf8 | vlen-bytes | "sharding_indexed": codecs: expected "vlen-utf8"
        SHARDED | {"name": "bytes", "configuration": {"endian": "little"}} | "vlen-utf8" | "vlen-utf8" has no fixed size
        BYTES | YWI= | YWI | fill_value: expected base 64 text, found "YWI"
        V2 | "vlen-utf8" | "vlen-utf8", "x": 1 | unknown member "x"
        V2 | "vlen-utf8" | "json2", "x": 1 | unknown field `x`
        V2 | "vlen-utf8" | "json2", "encoding": "utf-16" | encoding: expected "utf-8" or "ascii", found "utf-16"
        V2 | "vlen-utf8" | "pickle" | reading a pickle runs code
        V2 | "vlen-utf8" | "categorize", "labels": ["b"], "dtype": "<U1" | expected dtype "|O" as in the array
        V2 | {"id": "vlen-utf8"} | {"id": "categorize", "labels": ["b"], "dtype": "|O"}, {"id": "delta", "dtype": "|u1"} | cannot come after "categorize"
        V2 | [{"id": "vlen-utf8"}] | null | needs a first filter
        V2 | "|O" | "<i4" | found dtype "<i4"
    "#,
    ) {
        let error = refused(text, from, to).unwrap_err();
        assert!(error.contains(want), "{to}: {error}");
    }
    for [text, from, to] in cases(
        r#"
        TRANSPOSED | "string" | {"name": "string", "configuration": {}}
        TRANSPOSED | {"name": "vlen-utf8", "configuration": {}} | "vlen-utf8"
        BYTES | "variable_length_bytes" | "bytes"
        V2 | "fill_value": "a" | "fill_value": null
        V2 | "vlen-utf8" | "categorize", "labels": ["b"], "dtype": "|O"
        V2 | "vlen-utf8" | "json2", "indent": null
        V2 | "vlen-utf8" | "msgpack2"
    "#,
    ) {
        assert_eq!(refused(text, from, to), Ok(()));
    }
    let spec = ArraySpec::of_vlen(Format::V3, &[5], int());
    let error = Array::create(memory(), "", spec, false).unwrap_err().to_string();
    assert!(error.contains("use Zarr v2"), "{error}");
}

#[test]
fn resizing_keeps_the_elements_type() {
    for format in [Format::V2, Format::V3] {
        let (mut array, _) = created(format, VlenKind::Text, |_| {});
        array.resize(&[7, 2], None).unwrap();
        let open = Array::open(array.store(), "a", None).unwrap();
        assert_eq!((open.layout().shape(), open.vlen()), (&[7, 2][..], Some(VlenKind::Text)));
    }
}

#[test]
fn objects() {
    let (json2, text) = created(Format::V2, VlenKind::Json, |spec| spec.fortran_order = true);
    assert!(
        text.contains(
            r#""filters": [{"id": "json2", "encoding": "utf-8", "skipkeys": false, "ensure_ascii": true, "check_circular": true, "allow_nan": true, "indent": null, "separators": [",", ":"], "sort_keys": true, "strict": true}]"#
        ),
        "{text}"
    );
    // The last axis is the fastest in both orders.
    assert!(json2.fortran_order() && text.contains(r#""order": "F""#));
    assert_eq!((json2.layout().encoding().order(), json2.vlen()), (&[0, 1][..], Some(VlenKind::Json)));
    assert_eq!((json2.fill(), json2.layout().fill().is_zero()), (None, false));
    let (pack, text) = created(Format::V2, VlenKind::MessagePack, |spec| {
        spec.object_codec = Some(json(r#"{"id": "msgpack2", "raw": true}"#));
        spec.fill = Some(b"\x2a".to_vec());
    });
    assert!(
        text.contains(r#"{"id": "msgpack2", "raw": true, "use_single_float": false, "use_bin_type": true}"#)
    );
    assert!(text.contains(r#""fill_value": 42"#), "{text}");
    assert_eq!(pack.fill(), Some(&b"\x2a"[..]));
    let labels = r#"{"id": "categorize", "labels": ["a"], "dtype": "|O", "astype": "|u1"}"#;
    let (labelled, text) = created(Format::V2, VlenKind::Text, |spec| {
        spec.object_codec = Some(json(labels));
        spec.fortran_order = true;
    });
    assert!(text.contains(labels), "{text}");
    assert_eq!((labelled.layout().encoding().order(), labelled.vlen()), (&[1, 0][..], Some(VlenKind::Text)));
    for (format, kind, object_codec, want) in [
        (Format::V3, Some(VlenKind::Json), None, "Zarr v3 has no objects"),
        (
            Format::V2,
            Some(VlenKind::Text),
            Some(r#"{"id": "json2"}"#),
            "expected a first filter for elements of type string",
        ),
        (Format::V2, Some(VlenKind::Json), Some(r#"{"id": "json2", "indent": "x"}"#), "indent"),
        (Format::V2, None, Some(r#"{"id": "json2"}"#), "is for objects"),
    ] {
        let mut spec = ArraySpec::of_vlen(format, &[5], VlenKind::Text);
        (spec.vlen, spec.object_codec) = (kind, object_codec.map(json));
        spec.dtype = "<i4".parse().unwrap();
        let error = Array::create(memory(), "", spec, false).unwrap_err().to_string();
        assert!(error.contains(want), "{error}");
    }
    let spec = ArraySpec::of_vlen(Format::V2, &[], VlenKind::MessagePack);
    assert!(Array::create(memory(), "", spec, false).unwrap_err().to_string().contains("without axes"));
}
