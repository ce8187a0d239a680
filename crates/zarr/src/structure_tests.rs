use super::*;
use crate::testing::{cases, json, memory};
use crate::{Array, ArraySpec, Choice};
use proptest::prelude::*;

fn v2(text: &str) -> Result<Structure, String> {
    Structure::from_v2(json(text).as_array().unwrap()).map_err(Problem::text)
}

fn v3(fields: &str) -> Result<Structure, String> {
    let text = format!(r#"{{"name": "struct", "configuration": {{"fields": {fields}}}}}"#);
    let found = Structure::from_v3(&json(&text), ByteOrder::Little).map_err(Problem::text)?;
    Ok(found.expect("a structure"))
}

#[test]
fn fields_follow_each_other() {
    let found = v2(r#"[["a", "|i1"], ["b", ">f8", [2, 3]], ["", [["x", "<U2"]]]]"#).unwrap();
    let places: Vec<_> = found.fields().iter().map(|f| (f.name.as_str(), f.offset, f.size)).collect();
    assert_eq!(places, [("a", 0, 1), ("b", 1, 48), ("f2", 49, 8)]);
    assert_eq!((found.size(), found.engine_type().numpy().as_str()), (57, "|V57"));
    assert!(found.has_order() && !v2(r#"[["a", "|i1"], ["b", "|S5"]]"#).unwrap().has_order());
    let little = found.with_order(ByteOrder::Little).to_v2().to_text(None);
    assert_eq!(little, r#"[["a", "|i1"], ["b", "<f8", [2, 3]], ["f2", [["x", "<U2"]]]]"#);
}

#[test]
fn both_names_and_forms_of_v3() {
    let text = r#"[{"name": "a", "data_type": "int32"}, {"name": "b", "data_type": {"name": "struct", "configuration": {"fields": [{"name": "c", "data_type": "bfloat16"}]}}}]"#;
    let found = v3(text).unwrap();
    assert_eq!(found.to_v3().unwrap().get("configuration").unwrap().get("fields").unwrap(), &json(text));
    let older = r#"{"name": "structured", "configuration": {"fields": [["a", "int32"], ["b", {"name": "structured", "configuration": {"fields": [["c", "bfloat16"]]}}]]}}"#;
    assert_eq!(Structure::from_v3(&json(older), ByteOrder::Little).unwrap().unwrap(), found);
    assert_eq!(Structure::from_v3(&json("\"int8\""), ByteOrder::Little).unwrap(), None);
}

#[test]
fn refusals() {
    for [text, want] in cases(
        r#"
        [] | at least one field
        [["a", "<i4"], ["a", "<f4"]] | two fields have the name "a"
        [["a", "<i4", [0]]] | at least one byte
        [["a", "|u1", [4294967296, 4294967296]]] | more than 16777216 bytes
        [["a", "|V16777216"], ["b", "|u1"]] | more than 16777216 bytes
        [["a", "|u1", [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]]] | at most 32 axes
        [["a", "<i4", 2]] | list of integers, found 2
        [["a", "<i4", [-1]]] | list of integers
        [["a", "|O"]] | object data type
        [["a", "i4"]] | byte order
        [["a", "bfloat16"]] | does not exist in Zarr v2
        [["a", []]] | at least one field
        [[["title", "a"], "<i4"]] | titles are not supported
        [["a"]] | [name, type]
        ["a", "<i4"] | [name, type]
        [[1, "<i4"]] | [name, type]
        [["a", "<i4", [1], 2]] | [name, type]
    "#,
    ) {
        let why = v2(text).unwrap_err();
        assert!(why.contains(want), "{text}: {why}");
    }
    for [fields, want] in cases(
        r#"
        [] | at least one field
        3 | a list, found 3
        [{"name": "", "data_type": "int8"}] | has no name
        [{"name": "a"}] | "name" and "data_type"
        [{"name": "a", "data_type": "int8", "shape": [2]}] | "name" and "data_type"
        [["a", "int8", [2]]] | "name" and "data_type"
        [{"name": "a", "data_type": "string"}] | "string" is not supported
        [{"name": "a", "data_type": "int8"}, {"name": "a", "data_type": "int8"}] | two fields have the name "a"
    "#,
    ) {
        let why = v3(fields).unwrap_err();
        assert!(why.contains(want), "{fields}: {why}");
    }
    let subarray = v2(r#"[["a", "<i4", [2]]]"#).unwrap().to_v3().unwrap_err().text();
    assert!(subarray.contains("\"a\" is an array"), "{subarray}");
}

#[test]
fn fill_values() {
    let found = v2(r#"[["a", ">i2"], ["b", [["c", "<M8[s]"], ["d", "|S3"]]]]"#).unwrap();
    let nat = [0, 0, 0, 0, 0, 0, 0, 0x80];
    let parse = |text, format| found.parse_fill(&json(text), format).map_err(Problem::text);
    let bytes = [&[1, 2][..], &[9, 0, 0, 0, 0, 0, 0, 0], b"xy\0"].concat();
    assert_eq!(parse(r#"{"a": 258, "b": {"d": "eHk=", "c": 9}}"#, Format::V3).unwrap(), bytes);
    assert_eq!(parse(r#"{"b": {"d": "eHk="}}"#, Format::V3).unwrap(), [&[0, 0][..], &nat, b"xy\0"].concat());
    assert_eq!(parse("{}", Format::V2).unwrap(), [0; 13]);
    assert_eq!(parse("0", Format::V2).unwrap(), [0; 13]);
    let base64 = format!("\"{}\"", base64::encode(&bytes));
    assert_eq!(parse(&base64, Format::V2).unwrap(), bytes);
    // In v3 the bytes are little-endian.
    assert_eq!(parse(&base64, Format::V3).unwrap(), [&[2, 1][..], &bytes[2..]].concat());
    for (text, format) in [
        ("0", Format::V3),
        ("null", Format::V3),
        ("\"AAAA\"", Format::V2),
        ("\"\"", Format::V3),
        (r#"{"x": 0}"#, Format::V3),
        (r#"{"a": "x"}"#, Format::V3),
        ("[1]", Format::V2),
    ] {
        let why = parse(text, format).unwrap_err();
        assert!(why.starts_with("fill_value: "), "{why}");
    }
    assert_eq!(found.write_fill(&bytes, Format::V2).unwrap().as_str(), Some(base64.trim_matches('"')));
    let object = r#"{"a": 258, "b": {"c": 9, "d": "eHk="}}"#;
    assert_eq!(found.write_fill(&bytes, Format::V3).unwrap().to_text(None), object);
    assert!(found.write_fill(&bytes[1..], Format::V3).is_err());
}

#[test]
fn the_byte_order_is_that_of_the_innermost_bytes_codec() {
    let order = |text| stored_order(&json(text));
    assert_eq!(order(r#"["bytes"]"#), ByteOrder::Little);
    assert_eq!(order(r#"[{"name": "bytes", "configuration": {"endian": "big"}}, "crc32c"]"#), ByteOrder::Big);
    let inner = r#"[{"name": "sharding_indexed", "configuration": {"codecs": [{"name": "bytes", "configuration": {"endian": "big"}}], "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}}]"#;
    assert_eq!(order(inner), ByteOrder::Big);
    assert_eq!(order("3"), ByteOrder::Little);
}

#[test]
fn created_and_opened_again() {
    for format in [Format::V2, Format::V3] {
        let structure = v2(r#"[["a", ">i2"], ["b", [["c", "<f4"]]]]"#).unwrap();
        let mut spec = ArraySpec::of_structure(format, &[5], structure.clone());
        spec.fill = Some([&[1, 2][..], &1.5f32.to_le_bytes()].concat());
        let store = memory();
        let made = Array::create(store.clone(), "a", spec.clone(), false).unwrap();
        let opened = Array::open(&store, "a", None).unwrap();
        for array in [made, opened] {
            assert_eq!(array.layout().dtype().numpy(), "|V6");
            let found = array.structure().unwrap();
            let (order, first) = match format {
                Format::V2 => (structure.clone(), [1, 2]),
                Format::V3 => (structure.with_order(ByteOrder::Little), [2, 1]),
            };
            assert_eq!(**found, order);
            assert_eq!(array.fill().unwrap()[..2], first);
        }
        if format == Format::V3 {
            spec.serializer = Choice::Set(json(r#"{"name": "bytes", "configuration": {"endian": "big"}}"#));
            let big = Array::create(memory(), "a", spec, false).unwrap();
            assert_eq!(**big.structure().unwrap(), structure.with_order(ByteOrder::Big));
            assert_eq!(big.fill().unwrap(), [&[1, 2][..], &1.5f32.to_be_bytes()].concat());
        }
    }
}

fn any_kind() -> impl Strategy<Value = Structure> {
    let plain =
        prop::sample::select("|b1 >i2 <u8 >f4 <c8 |S3 <U2 |V5 <M8[ms]".split(' ').collect::<Vec<_>>());
    let plain = plain.prop_map(|name| FieldKind::Plain(name.parse().unwrap()));
    let structure = |kinds: Vec<FieldKind>| {
        let fields = kinds.into_iter().enumerate().map(|(n, kind)| (format!("f{n}"), Vec::new(), kind));
        Structure::new(fields).unwrap()
    };
    let kind = plain.prop_recursive(3, 12, 4, move |inner| {
        prop::collection::vec(inner, 1..4).prop_map(move |kinds| FieldKind::Structure(structure(kinds)))
    });
    prop::collection::vec(kind, 1..4).prop_map(structure)
}

proptest! {
    #[test]
    fn metadata_round_trips(structure in any_kind(), big in any::<bool>()) {
        let again = Structure::from_v2(structure.to_v2().as_array().unwrap()).unwrap();
        prop_assert_eq!(&again, &structure);
        let order = if big { ByteOrder::Big } else { ByteOrder::Little };
        let ordered = structure.with_order(order);
        let again = Structure::from_v3(&structure.to_v3().unwrap(), order).unwrap().unwrap();
        prop_assert_eq!(&again, &ordered);
        let zeros = vec![0; structure.size()];
        for format in [Format::V2, Format::V3] {
            let written = structure.write_fill(&zeros, format).unwrap();
            prop_assert_eq!(structure.parse_fill(&written, format).unwrap(), zeros.clone());
        }
    }
}
