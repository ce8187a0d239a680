use super::*;
use crate::testing::{cases, json};
use hyperslab_codec::DataType;

const PLAIN: &str = r#"{"shape": [4, 5], "data_type": "float32", "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 2]}}, "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "fill_value": 0.0, "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "zstd", "configuration": {"level": 0, "checksum": false}}], "attributes": {"a": NaN}, "dimension_names": ["x", null], "zarr_format": 3, "node_type": "array", "storage_transformers": []}"#;
const CODECS: &str = r#"[{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "zstd", "configuration": {"level": 0, "checksum": false}}]"#;

fn parse_text(text: &str) -> Result<Metadata, String> {
    parse(&json(text).into()).map_err(Problem::text)
}

fn with(from: &str, to: &str) -> Result<Metadata, String> {
    assert!(PLAIN.contains(from), "{from}");
    parse_text(&PLAIN.replace(from, to))
}

#[test]
fn what_zarr_python_writes() {
    let metadata = parse_text(PLAIN).unwrap();
    assert_eq!(metadata.shape.as_slice(), [4, 5]);
    assert_eq!(metadata.chunk.as_slice(), [2, 2]);
    let float = "<f4".parse::<DataType>().unwrap().with_order(ByteOrder::NATIVE);
    assert_eq!(metadata.element, Element::Fixed(float));
    assert_eq!(metadata.codecs.stored, ByteOrder::Little);
    assert_eq!(metadata.codecs.order, [0, 1]);
    assert_eq!(metadata.fill, Some(vec![0; 4]));
    assert_eq!(metadata.keys.encoding(), &KeyEncoding::Default { separator: '/' });
    assert_eq!(metadata.dimension_names, Some(vec![Some("x".into()), None]));
    assert_eq!(metadata.attributes.json().to_text(None), r#"{"a": NaN}"#);
    assert_eq!(metadata.compressors.len(), 1);
    let bytes = r#"{"name": "bytes", "configuration": {"endian": "little"}}"#;
    assert_eq!(metadata.serializer.unwrap().to_text(None), bytes);
}

#[test]
fn other_valid_forms() {
    let named = with("\"float32\"", "{\"name\": \"float32\", \"configuration\": {}}").unwrap();
    assert_eq!(named.element.engine_type().size(), 4);
    assert!(with(r#", "storage_transformers": []"#, "").is_ok());
    assert!(with(r#""storage_transformers": []"#, r#""x": {"must_understand": false, "y": 1}"#).is_ok());
    assert_eq!(with(r#", "dimension_names": ["x", null]"#, "").unwrap().dimension_names, None);
    assert_eq!(*with(r#"{"a": NaN}"#, "null").unwrap().attributes.json(), Json::object());
    for (text, keys) in [
        (r#""default""#, KeyEncoding::Default { separator: '/' }),
        (r#"{"name": "default"}"#, KeyEncoding::Default { separator: '/' }),
        (r#"{"name": "default", "separator": "."}"#, KeyEncoding::Default { separator: '.' }),
        (r#"{"name": "v2"}"#, KeyEncoding::V2 { separator: '.' }),
        (
            r#"{"name": "v2", "configuration": {"separator": "/"}, "must_understand": true}"#,
            KeyEncoding::V2 { separator: '/' },
        ),
    ] {
        let given = with(r#"{"name": "default", "configuration": {"separator": "/"}}"#, text).unwrap();
        assert_eq!(given.keys.encoding(), &keys, "{text}");
    }
    let zero = PLAIN.replace("[4, 5]", "[0, 5]").replace("[2, 2]", "[0, 2]");
    assert_eq!(parse_text(&zero).unwrap().chunk.as_slice(), [1, 2]);
    let one_byte = PLAIN.replace("float32", "int8").replace(CODECS, "[\"bytes\"]").replace("0.0", "0");
    assert!(parse_text(&one_byte).unwrap().codecs.codecs.is_empty());
}

#[test]
fn transpositions_compose() {
    let text = PLAIN
        .replace("[4, 5]", "[2, 3, 4]")
        .replace("[2, 2]", "[1, 2, 3]")
        .replace(r#", "dimension_names": ["x", null]"#, "");
    let transpose =
        |order: &str| format!(r#"{{"name": "transpose", "configuration": {{"order": {order}}}}}"#);
    let order = |orders: &[&str]| {
        let list: Vec<String> = orders.iter().map(|order| transpose(order)).collect();
        let codecs = CODECS.replacen('[', &format!("[{}, ", list.join(", ")), 1);
        parse_text(&text.replace(CODECS, &codecs)).map(|metadata| metadata.codecs.order)
    };
    assert_eq!(order(&["[1, 2, 0]"]), Ok(vec![1, 2, 0]));
    // The axes (a, b, c) become (b, c, a). The third, second, first of these are (a, c, b).
    assert_eq!(order(&["[1, 2, 0]", "[2, 1, 0]"]), Ok(vec![0, 2, 1]));
    assert_eq!(order(&["[1, 2, 0]", "[1, 2, 0]", "[1, 2, 0]"]), Ok(vec![0, 1, 2]));
    for bad in ["[1, 0]", "[0, 1, 2, 3]", "[0, 0, 1]", "[0, 1, 3]", "[0, 1, -1]", "\"F\""] {
        let error = order(&[bad]).unwrap_err();
        assert!(error.contains("transpose"), "{bad}: {error}");
    }
}

#[test]
fn documents_that_are_refused() {
    let bytes = r#"{"name": "bytes", "configuration": {"endian": "little"}}"#;
    for [from, to, want] in cases(
        r#"
        "zarr_format": 3 | "zarr_format": 2 | zarr_format: expected 3, found 2
        "zarr_format": 3 | "zarr_format": "3" | zarr_format: expected 3, found "3"
        "node_type": "array",  |  | node_type is missing
        "array" | "group" | node_type: expected "array", found "group"
        "array" | "dataset" | node_type: expected "array" or "group", found "dataset"
        "shape": [4, 5],  |  | shape is missing
        "data_type": "float32",  |  | data_type is missing
        "fill_value": 0.0,  |  | fill_value is missing
        "fill_value": 0.0 | "fill_value": null | fill_value: expected a number
        [4, 5] | [4, -5] | shape: axis 1: expected an integer from 0 to 2⁶³ - 1, found -5
        [4, 5] | [4, 18446744073709551616] | found 18446744073709551616
        [4, 5] | [4, "5"] | found "5"
        [4, 5] | [4] | chunk_grid: chunk_shape: expected 1 axes as in shape, found 2
        [2, 2] | [2, 0] | chunk_grid: chunk_shape: axis 1: expected a positive integer, found 0
        [2, 2] | [2, 2.5] | chunk_grid: chunk_shape: axis 1
        "regular" | "hilbert" | chunk grid "hilbert" is not supported
        {"chunk_shape": [2, 2]} | {} | the configuration of "regular" lacks chunk_shape
        {"chunk_shape": [2, 2]} | {"chunk_shape": [2, 2], "offset": [1, 1]} | unknown member "offset"
        {"chunk_shape": [2, 2]} | [2, 2] | chunk_grid: configuration: expected an object, found [2, 2]
        "default" | "hilbert" | chunk key encoding "hilbert" is not supported
        {"separator": "/"} | {"separator": "-"} | separator: expected "/" or ".", found "-"
        {"separator": "/"} | {"width": 3} | unknown member "width"
        "float32" | "float128" | data type "float128" is not supported
        ["x", null] | ["x"] | dimension_names: expected 2 names, one per axis, found 1
        ["x", null] | ["x", 3] | dimension_names: expected text or null, found 3
        ["x", null] | "xy" | dimension_names: expected a list, found "xy"
        {"a": NaN} | [1] | attributes: expected an object, found [1]
        "storage_transformers": [] | "storage_transformers": [{"name": "cow"}] | storage transformer "cow" is not supported
        "storage_transformers": [] | "storage_transformers": 3 | storage_transformers: expected a list
        "storage_transformers": [] | "extra": 1 | field "extra" is unknown
        "storage_transformers": [] | "extra": {"must_understand": true} | field "extra" is unknown
        "storage_transformers": [] | "extra": {"name": "x"} | field "extra" is unknown
        CODECS | {} | codecs: expected a list, found {}
        CODECS | [] | codecs: expected a codec from array to bytes
        CODECS | ["bytes"] | "bytes" needs "endian" for elements of type <f4
        CODECS | [{"name": "bytes", "configuration": {"endian": "middle"}}] | codecs:
        CODECS | [BYTES, BYTES] | expected one codec from array to bytes, found "bytes" and "bytes"
        CODECS | ["crc32c", BYTES] | "crc32c" works on bytes; it must come after "bytes"
        CODECS | [BYTES, {"name": "transpose", "configuration": {"order": [1, 0]}}] | cannot come after "bytes"
        CODECS | [BYTES, {"name": "lzma", "must_understand": false}] | codec "lzma" is not supported
        CODECS | [{"name": "vlen-utf8"}] | expected "bytes" for elements of type <f4, found "vlen-utf8"
        CODECS | [BYTES, {"name": "gzip", "configuration": {"level": NaN}}] | codecs: "gzip"
        CODECS | [BYTES, {"name": "gzip", "configuration": {"level": "9"}}] | codecs:
        CODECS | [BYTES, {"name": "gzip", "config": {}}] | found "config"
        CODECS | [BYTES, {"configuration": {}}] | codecs: the name is missing
        CODECS | [BYTES, {"name": 3}] | codecs: name: expected text, found 3
        CODECS | [BYTES, 3] | codecs: expected a name or an object with a name, found 3
        CODECS | [BYTES, {"name": "gzip", "must_understand": 1}] | must_understand: expected true or false, found 1
    "#,
    ) {
        let error = with(&from.replace("CODECS", CODECS), &to.replace("BYTES", bytes)).unwrap_err();
        assert!(error.contains(want), "{to}: {error}");
    }
    for text in ["null", "[]", "3", "\"x\"", "{}"] {
        assert!(parse_text(text).is_err(), "{text}");
    }
}

#[test]
fn groups() {
    let group =
        |text: &str| parse_group(&json(text).into()).map(|found| found.json().clone()).map_err(Problem::text);
    let attributes = group(r#"{"attributes": {"t": 1}, "zarr_format": 3, "node_type": "group"}"#).unwrap();
    assert_eq!(attributes.to_text(None), r#"{"t": 1}"#);
    assert!(group(r#"{"zarr_format": 3, "consolidated_metadata": null, "node_type": "group"}"#).is_ok());
    for [text, want] in cases(
        r#"
        {"zarr_format": 3, "x": 1, "node_type": "group"} | field "x"
        {"zarr_format": 3, "attributes": 1, "node_type": "group"} | attributes
        {"zarr_format": 3, "node_type": "array"} | expected "group"
    "#,
    ) {
        assert!(group(text).unwrap_err().contains(want), "{text}");
    }
}

#[test]
fn new_documents() {
    let mut spec = ArraySpec::new(Format::V3, &[4, 5], "<f4".parse().unwrap());
    spec.chunks = Some([2, 2].into_iter().collect());
    spec.attributes = json(r#"{"a": NaN}"#);
    spec.dimension_names = Some(vec![Some("x".into()), None]);
    if ByteOrder::NATIVE == ByteOrder::Little {
        assert_eq!(document(&spec).unwrap().0.to_text(None), PLAIN);
    }
    let with = |change: &dyn Fn(&mut ArraySpec)| {
        let mut spec = spec.clone();
        change(&mut spec);
        document(&spec).map(|(document, _)| document).map_err(Problem::text)
    };
    let codecs = |change: &dyn Fn(&mut ArraySpec)| {
        with(change).map(|document| document.get("codecs").unwrap().to_text(None))
    };
    assert_eq!(
        codecs(&|s| {
            s.fortran_order = true;
            s.serializer = Choice::Set(json(r#"{"name": "bytes", "configuration": {"endian": "big"}}"#));
            s.compressors = Choice::Set(vec![
                json(r#"{"name": "gzip", "configuration": {"level": 5}}"#),
                "crc32c".into(),
            ]);
        }),
        Ok(r#"[{"name": "transpose", "configuration": {"order": [1, 0]}}, {"name": "bytes", "configuration": {"endian": "big"}}, {"name": "gzip", "configuration": {"level": 5}}, {"name": "crc32c"}]"#.into())
    );
    assert_eq!(
        codecs(&|s| {
            s.dtype = "|i1".parse().unwrap();
            s.compressors = Choice::Set(Vec::new());
        }),
        Ok(r#"[{"name": "bytes"}]"#.into())
    );
    let explicit = codecs(&|s| {
        s.fortran_order = true;
        s.filters = Choice::Set(Vec::new());
    });
    assert!(explicit.unwrap_err().contains("transpose"));
    let unknown = codecs(&|s| s.compressors = Choice::Set(vec!["bz2".into()]));
    assert!(unknown.unwrap_err().contains("\"bz2\" is not supported"));
    let dates = with(&|s| s.dtype = ">M8[s]".parse().unwrap()).unwrap();
    assert_eq!(dates.get("fill_value"), Some(&i64::MIN.into()));
    let nan = with(&|s| {
        s.dtype = ">f4".parse().unwrap();
        s.fill = Some(vec![0xff, 0xc0, 0, 1]);
    });
    assert_eq!(nan.unwrap().get("fill_value"), Some(&"0xffc00001".into()));
}
