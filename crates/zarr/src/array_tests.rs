use super::*;
use crate::Choice;
use crate::testing::{dtype, get, json, memory, put, spec_of};
use hyperslab_array::Dims;
use hyperslab_codec::ByteOrder;
use hyperslab_store::Key;

fn spec(format: Format, shape: &[u64], chunks: &[u64]) -> ArraySpec {
    spec_of(format, shape, chunks, "<i4")
}

#[test]
fn created_arrays_open_as_they_were_asked_for() {
    for format in [Format::V2, Format::V3] {
        let store = memory();
        let mut spec = spec(format, &[4, 5], &[2, 3]);
        spec.fill = Some(7i32.to_le_bytes().to_vec());
        spec.fortran_order = true;
        spec.attributes = json(r#"{"a": NaN, "n": 123456789012345678901234567890}"#);
        spec.dimension_names = Some(vec![Some("y".into()), Some("x".into())]);
        let created = Array::create(store.clone(), "/g/a/", spec, false).unwrap();
        let array = Array::open(&store, "g/a", None).unwrap();
        for array in [&created, &array] {
            assert_eq!((array.path(), array.name().as_str()), ("g/a", "/g/a"));
            assert_eq!(array.format(), format);
            let layout = array.layout();
            assert_eq!(layout.name(), "/g/a");
            assert_eq!(layout.shape(), [4, 5]);
            assert_eq!(layout.grid().chunk_shape(), [2, 3]);
            assert_eq!(layout.dtype(), dtype("<i4"));
            assert_eq!(layout.encoding().order(), [1, 0]);
            assert_eq!(layout.fill().bytes(), 7i32.to_le_bytes());
            assert_eq!(array.fill(), Some(&7i32.to_le_bytes()[..]));
            assert!(array.fortran_order());
            assert_eq!(array.dimension_names(), Some(&[Some("y".to_owned()), Some("x".to_owned())][..]));
            assert_eq!(array.attributes().get("n").unwrap().to_text(None), "123456789012345678901234567890");
            assert!(!array.is_consolidated());
        }
        assert_eq!(array.to_json(), created.to_json());
        assert_eq!(array.serializer().is_some(), format == Format::V3);
        assert_eq!(array.compressors().len(), 1);
        assert_eq!(array.filters().len(), usize::from(format == Format::V3));
        // The group above was created.
        assert!(matches!(crate::open(&store, "g", Some(format)), Ok(crate::Node::Group(_))));
        assert!(matches!(crate::open(&store, "", None), Ok(crate::Node::Group(_))));
    }
}

#[test]
fn stored_text_is_zarr_pythons() {
    let store = memory();
    let mut v3 = spec(Format::V3, &[4], &[2]);
    v3.serializer = Choice::Set(json(r#"{"name": "bytes", "configuration": {"endian": "little"}}"#));
    Array::create(store.clone(), "", v3, false).unwrap();
    let text = get(&store, "zarr.json").unwrap();
    assert!(text.starts_with("{\n  \"shape\": [\n    4\n  ],\n  \"data_type\": \"int32\",\n"), "{text}");
    let store = memory();
    Array::create(store.clone(), "", spec(Format::V2, &[4], &[2]), false).unwrap();
    assert_eq!(get(&store, ".zattrs").unwrap(), "{}");
    assert_eq!(
        json(&get(&store, ".zarray").unwrap()).to_text(None),
        r#"{"shape": [4], "chunks": [2], "dtype": "<i4", "fill_value": null, "order": "C", "filters": null, "dimension_separator": ".", "compressor": {"id": "zstd", "level": 0}, "zarr_format": 2}"#
    );
}

#[test]
fn byte_orders() {
    let big = |format| ArraySpec::new(format, &[3], dtype(">i4"));
    let swapped = if ByteOrder::NATIVE == ByteOrder::Little { 4 } else { 1 };
    // v2: big-endian in the store and in memory.
    let v2 = Array::create(memory(), "a", big(Format::V2), false).unwrap();
    assert_eq!(v2.layout().dtype(), dtype(">i4"));
    assert_eq!(v2.layout().encoding().swap(), 1);
    // v3: the machine's order in memory; in the store what the codec says.
    let native = Array::create(memory(), "a", big(Format::V3), false).unwrap();
    assert_eq!(native.layout().dtype().order(), ByteOrder::NATIVE);
    assert_eq!(native.layout().encoding().swap(), 1);
    let mut stored = big(Format::V3);
    stored.serializer = Choice::Set(json(r#"{"name": "bytes", "configuration": {"endian": "big"}}"#));
    stored.fill = Some(5i32.to_be_bytes().to_vec());
    let stored = Array::create(memory(), "a", stored, false).unwrap();
    assert_eq!(stored.layout().dtype().order(), ByteOrder::NATIVE);
    assert_eq!(stored.layout().encoding().swap(), swapped);
    assert_eq!(stored.fill(), Some(&5i32.to_ne_bytes()[..]));
}

#[test]
fn nothing_is_overwritten_unasked() {
    for (first, second) in [
        (Format::V2, Format::V2),
        (Format::V3, Format::V3),
        (Format::V2, Format::V3),
        (Format::V3, Format::V2),
    ] {
        let store = memory();
        Array::create(store.clone(), "a", spec(first, &[4], &[2]), false).unwrap();
        let before = store.list(None).unwrap();
        let error = Array::create(store.clone(), "a", spec(second, &[9], &[2]), false).unwrap_err();
        if first == second {
            assert!(matches!(error, ZarrError::Exists { what: "array", .. }), "{error}");
        } else {
            assert!(error.to_string().contains("cannot be in it"), "{error}");
        }
        let error = crate::Group::create(store.clone(), "a", first, Json::object(), false).unwrap_err();
        assert!(matches!(error, ZarrError::Exists { .. }), "{error}");
        let error = Array::create(store.clone(), "a/b", spec(first, &[9], &[2]), true).unwrap_err();
        assert!(matches!(error, ZarrError::WrongNode { found: "an array", .. }), "{error}");
        assert_eq!(store.list(None).unwrap(), before);
        assert_eq!(Array::open(&store, "a", None).unwrap().layout().shape(), [4]);
    }
    // At the root no parent is in the way; both formats are checked.
    let store = memory();
    Array::create(store.clone(), "", spec(Format::V2, &[4], &[2]), false).unwrap();
    let error = Array::create(store.clone(), "", spec(Format::V3, &[4], &[2]), false).unwrap_err();
    assert!(matches!(error, ZarrError::Exists { .. }), "{error}");
}

#[test]
fn overwriting_leaves_nothing_of_the_old_node() {
    for (old, new) in [(Format::V3, Format::V3), (Format::V2, Format::V2)] {
        let store = memory();
        Array::create(store.clone(), "g/a", spec(old, &[4], &[2]), false).unwrap();
        Array::create(store.clone(), "g/ab", spec(old, &[4], &[2]), false).unwrap();
        put(&store, "g/a/c/1", "old");
        put(&store, "g/a/1", "old");
        Array::create(store.clone(), "g/a", spec(new, &[9], &[3]), true).unwrap();
        assert_eq!(get(&store, "g/a/c/1"), None);
        assert_eq!(get(&store, "g/a/1"), None);
        assert_eq!(Array::open(&store, "g/a", None).unwrap().layout().shape(), [9]);
        assert_eq!(Array::open(&store, "g/ab", None).unwrap().layout().shape(), [4]);
    }
    let store = memory();
    Array::create(store.clone(), "x/y", spec(Format::V2, &[4], &[2]), false).unwrap();
    Array::create(store.clone(), "", spec(Format::V3, &[4], &[2]), true).unwrap();
    assert_eq!(store.list(None).unwrap(), ["zarr.json"]);
}

#[test]
fn refused_specs_change_nothing() {
    let store = memory();
    Array::create(store.clone(), "a", spec(Format::V3, &[4], &[2]), false).unwrap();
    let before = store.list(None).unwrap();
    let refuse = |path: &str, change: &dyn Fn(&mut ArraySpec), want: &str| {
        for format in [Format::V2, Format::V3] {
            let mut spec = spec(format, &[4], &[2]);
            change(&mut spec);
            let error = Array::create(store.clone(), path, spec, true).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
            assert_eq!(store.list(None).unwrap(), before, "{want}");
        }
    };
    refuse("a", &|s| s.shape = [u64::MAX].into_iter().collect(), "shape: axis 0");
    refuse("a", &|s| s.chunks = Some([1 << 62].into_iter().collect()), "more bytes than memory");
    refuse("a", &|s| s.chunks = Some([1, 1].into_iter().collect()), "chunks: expected 1 axes");
    refuse("a", &|s| s.chunks = Some([0].into_iter().collect()), "chunks: expected positive");
    refuse("a", &|s| s.shape = Dims::from_elem(1, 65), "at most 64 axes");
    refuse("a", &|s| s.attributes = Json::Null, "attributes: expected an object");
    refuse("a", &|s| s.dtype = dtype("|S0"), "");
    refuse("a", &|s| s.dtype = dtype("|V16777217"), "16777217 bytes are not supported (at most 16777216)");
    // Larger than any memory: nothing of this size is allocated before the check.
    refuse("a", &|s| s.dtype = dtype("|S2147483647"), "are not supported (at most 16777216)");
    for (v2, v3, why) in [
        (
            r#"{"id": "blosc", "cname": "lz4", "clevel": 77, "shuffle": 1, "blocksize": 0}"#,
            r#"{"name": "blosc", "configuration": {"clevel": 77}}"#,
            "clevel must be 0 to 9, found 77",
        ),
        (
            r#"{"id": "blosc", "cname": "snappy", "clevel": 5, "shuffle": 1, "blocksize": 0}"#,
            r#"{"name": "blosc", "configuration": {"cname": "snappy"}}"#,
            "supported for decoding only",
        ),
        (
            r#"{"id": "zlib", "level": 10}"#,
            r#"{"name": "numcodecs.zlib", "configuration": {"level": 10}}"#,
            "level must be -1 to 9, found 10",
        ),
    ] {
        let given = |format| {
            let text = if format == Format::V2 { v2 } else { v3 };
            Choice::Set(vec![Json::parse(text.as_bytes()).unwrap()])
        };
        refuse("a", &|s| s.compressors = given(s.format), why);
        let in_shards = |s: &mut ArraySpec| {
            s.compressors = given(s.format);
            s.shards = s.chunks.clone().filter(|_| s.format == Format::V3);
        };
        refuse("a", &in_shards, why);
    }
    refuse("a", &|s| s.dimension_names = Some(Vec::new()), "dimension_names: expected 1 names");
    refuse("a", &|s| s.key_encoding = Some(KeyEncoding::V2 { separator: 'x' }), "expected \"/\" or \".\"");
    refuse("a", &|s| s.compressors = Choice::Set(vec![Json::Null]), "");
    refuse("a", &|s| s.fill = Some(vec![1]), "expected 4 bytes");
    refuse("a/../b", &|_| {}, "invalid path");
    refuse("a/b", &|_| {}, "");
    let error = Array::create(store.clone(), ".zarray", spec(Format::V3, &[4], &[2]), true).unwrap_err();
    assert!(matches!(error, ZarrError::Path { .. }), "{error}");
    assert_eq!(store.list(None).unwrap(), before);
}

#[test]
fn attributes_keep_everything_else() {
    let store = memory();
    let text = r#"{"zarr_format": 3, "node_type": "array", "shape": [1], "data_type": "uint8", "fill_value": 0, "codecs": ["bytes"],
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}}, "chunk_key_encoding": "default",
        "extra": {"must_understand": false, "n": 1.50}}"#;
    put(&store, "a/zarr.json", text);
    let mut array = Array::open(&store, "a", None).unwrap();
    let mut other = array.clone();
    other.resize(&[7], None).unwrap();
    array.set_attributes(json(r#"{"x": [Infinity, -0]}"#)).unwrap();
    // The other handle's change is kept.
    assert_eq!(array.layout().shape(), [7]);
    let stored = json(&get(&store, "a/zarr.json").unwrap());
    assert_eq!(stored.get("extra").unwrap().to_text(None), r#"{"must_understand": false, "n": 1.50}"#);
    assert_eq!(stored.get("attributes").unwrap().to_text(None), r#"{"x": [Infinity, -0]}"#);
    other.refresh().unwrap();
    assert_eq!(other.attributes(), array.attributes());
    assert!(matches!(array.set_attributes(Json::Null), Err(ZarrError::Invalid { .. })));
    store.delete(Key::new("a/zarr.json").unwrap()).unwrap();
    assert!(matches!(array.set_attributes(Json::object()), Err(ZarrError::NotFound { .. })));

    let mut v2 = Array::create(store.clone(), "b", spec(Format::V2, &[4], &[2]), false).unwrap();
    let zarray = get(&store, "b/.zarray");
    v2.set_attributes(json(r#"{"_ARRAY_DIMENSIONS": ["t"]}"#)).unwrap();
    assert_eq!(get(&store, "b/.zarray"), zarray);
    assert_eq!(v2.dimension_names(), Some(&[Some("t".to_owned())][..]));
    assert_eq!(Array::open(&store, "b", None).unwrap().attributes(), v2.attributes());
}

/// Stores all chunks of an array with `counts` chunks per axis, each an object; and other objects.
fn fill_chunks(array: &Array, counts: [u64; 2]) {
    let mut key = String::new();
    for i in 0..counts[0] {
        for j in 0..counts[1] {
            key.clear();
            array.layout().locate(&[i, j], &mut key).unwrap();
            put(array.store(), &key, "xyz");
        }
    }
}

/// The reader's limits hold for the writer: everything that is stored can be opened.
#[test]
fn what_is_stored_opens_again() {
    let nested = |depth: usize| json(&format!("{}1{}", "[".repeat(depth), "]".repeat(depth)));
    for (format, most) in [(Format::V2, 127), (Format::V3, 126)] {
        let mut array = Array::create(memory(), "a", spec(format, &[4], &[2]), false).unwrap();
        array.set_attributes(Json::from([("x", nested(most))])).unwrap();
        let deeper = Json::from([("x", nested(most + 1))]);
        let refused = array.set_attributes(deeper.clone());
        assert!(matches!(refused, Err(ZarrError::Invalid { why, .. }) if why.contains("more than 128 deep")));
        let opened = Array::open(array.store(), "a", None).unwrap();
        assert_eq!(opened.attributes(), array.attributes());
        let mut spec = spec(format, &[4], &[2]);
        spec.attributes = deeper;
        assert!(matches!(Array::create(memory(), "a", spec, false), Err(ZarrError::Invalid { .. })));
        // A group's copy is nested more deeply.
        let mut group = crate::Group::create(memory(), "", format, Json::object(), false).unwrap();
        let spec = self::spec(format, &[4], &[2]);
        let mut array = Array::create(group.store().clone(), "a", spec, false).unwrap();
        array.set_attributes(Json::from([("x", nested(most))])).unwrap();
        assert!(matches!(group.consolidate(None), Err(ZarrError::Invalid { .. })));
        let opened = crate::Group::open(group.store(), "", None, crate::Consolidation::Auto).unwrap();
        assert!(!opened.is_consolidated());
    }
}

#[test]
fn of_several_creators_one_wins() {
    for format in [Format::V2, Format::V3] {
        for _ in 0..20 {
            let store = memory();
            let won = std::sync::atomic::AtomicUsize::new(0);
            std::thread::scope(|scope| {
                for thread in 0..4u32 {
                    let (store, won) = (store.clone(), &won);
                    scope.spawn(move || {
                        let mut spec = spec(format, &[4], &[2]);
                        spec.attributes = Json::from([("by", thread.into())]);
                        match Array::create(store, "g/h/a", spec, false) {
                            Ok(array) => {
                                won.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                                let stored = Array::open(array.store(), "g/h/a", None).unwrap();
                                assert_eq!(stored.attributes(), array.attributes());
                            }
                            Err(error) => assert!(matches!(error, ZarrError::Exists { .. }), "{error}"),
                        }
                    });
                }
            });
            assert_eq!(won.into_inner(), 1);
        }
    }
}

#[test]
fn zero_dimensional_arrays() {
    for (format, keys, key) in [
        (Format::V3, None, "a/c"),
        (Format::V3, Some(KeyEncoding::V2 { separator: '.' }), "a/0"),
        (Format::V2, None, "a/0"),
    ] {
        let mut spec = spec(format, &[], &[]);
        spec.key_encoding = keys;
        let mut array = Array::create(memory(), "a", spec, false).unwrap();
        let mut found = String::new();
        array.layout().locate(&[], &mut found).unwrap();
        assert_eq!(found, key);
        assert_eq!(array.chunks_stored(None).unwrap(), (0, 0));
        put(array.store(), key, "1234");
        assert_eq!(array.chunks_stored(None).unwrap(), (1, 4));
        array.resize(&[], None).unwrap();
        assert_eq!(array.chunks_stored(None).unwrap(), (1, 4));
    }
}

#[test]
fn deleted_arrays_are_gone() {
    for format in [Format::V2, Format::V3] {
        let store = memory();
        let array = Array::create(store.clone(), "g/a", spec(format, &[4, 4], &[2, 2]), false).unwrap();
        fill_chunks(&array, [2, 2]);
        array.delete().unwrap();
        assert!(matches!(Array::open(&store, "g/a", None), Err(ZarrError::NotFound { what: "array", .. })));
        assert!(store.list(Some(Key::new("g/a").unwrap())).unwrap().is_empty());
    }
    assert!(matches!(Array::open(&memory(), "x", None), Err(ZarrError::NotFound { .. })));
}

#[test]
fn what_is_stored_decides_the_format() {
    let store = memory();
    Array::create(store.clone(), "", spec(Format::V2, &[4], &[2]), false).unwrap();
    assert_eq!(Array::open(&store, "", None).unwrap().format(), Format::V2);
    assert!(matches!(Array::open(&store, "", Some(Format::V3)), Err(ZarrError::NotFound { .. })));
    let other = memory();
    Array::create(other.clone(), "", spec(Format::V3, &[4], &[2]), false).unwrap();
    put(&store, "zarr.json", &get(&other, "zarr.json").unwrap());
    assert_eq!(Array::open(&store, "", None).unwrap().format(), Format::V3);
    assert_eq!(Array::open(&store, "", Some(Format::V2)).unwrap().format(), Format::V2);
}

#[test]
fn errors_name_store_and_object() {
    let store = memory();
    let cases = [
        ("a/zarr.json", "{", "invalid JSON at byte 1"),
        ("a/zarr.json", "", "invalid JSON at byte 0"),
        ("a/zarr.json", "[]", "expected an object, found []"),
        ("a/zarr.json", r#"{"zarr_format": 3, "node_type": "array"}"#, "shape is missing"),
        ("a/.zarray", r#"{"zarr_format": 2}"#, "shape is missing"),
        ("a/.zarray", "null", "expected an object, found null"),
    ];
    for (key, text, want) in cases {
        put(&store, key, text);
        let error = Array::open(&store, "a", None).unwrap_err();
        assert!(matches!(error, ZarrError::Metadata { .. }), "{error}");
        let message = error.to_string();
        assert!(message.starts_with(&format!("'{key}' in {}: ", store.url())), "{message}");
        assert!(message.contains(want), "{message}");
        store.delete(Key::new(key).unwrap()).unwrap();
    }
    Array::create(store.clone(), "b", spec(Format::V2, &[4], &[2]), false).unwrap();
    put(&store, "b/.zattrs", "[1]");
    let message = Array::open(&store, "b", None).unwrap_err().to_string();
    assert!(message.contains("attributes: expected an object, found [1]"), "{message}");
    let deep = format!("{{\"zarr_format\": {}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    put(&store, "d/zarr.json", &deep);
    assert!(Array::open(&store, "d", None).unwrap_err().to_string().contains("nested more than"));
    crate::Group::create(store.clone(), "g", Format::V2, Json::object(), false).unwrap();
    let error = Array::open(&store, "g", None).unwrap_err();
    assert!(matches!(error, ZarrError::WrongNode { expected: "an array", found: "a group", .. }), "{error}");
    let unsupported = get(&store, "b/.zarray").unwrap().replace("zstd", "sz3");
    put(&store, "u/.zarray", &unsupported);
    let error = Array::open(&store, "u", None).unwrap_err();
    assert!(matches!(error, ZarrError::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("codec \"sz3\" is not supported"), "{error}");
}

#[test]
fn shards_are_what_is_stored_and_compacted() {
    let mut spec = spec(Format::V3, &[10, 10], &[2, 2]);
    spec.shards = Some([4, 4].as_slice().into());
    let array = Array::create(memory(), "a", spec, false).unwrap();
    fill_chunks(&array, [3, 4]);
    // 3 × 3 shards are inside the array.
    assert_eq!(array.chunks_stored(None).unwrap(), (9, 27));
    let stop = || true;
    let stopped = array.compact(true, Some(&stop)).unwrap_err();
    assert!(matches!(stopped, ZarrError::Interrupted));
}

#[test]
fn a_document_is_an_array_whatever_is_stored() {
    for format in [Format::V2, Format::V3] {
        let (there, empty) = (memory(), memory());
        let stored = Array::create(there.clone(), "a", spec(format, &[77, 5], &[2, 3]), false).unwrap();
        let name = if format == Format::V2 { "a/.zarray" } else { "a/zarr.json" };
        let document = get(&there, name).unwrap();
        let array = Array::of_document(empty.clone(), "/x/a/", format, document.as_bytes()).unwrap();
        assert_eq!((array.path(), array.name().as_str(), array.format()), ("x/a", "/x/a", format));
        assert_eq!(array.layout().shape(), [77, 5]);
        assert_eq!(array.layout().grid().chunk_shape(), [2, 3]);
        assert_eq!(array.layout().dtype(), stored.layout().dtype());
        // It reads nothing from the store and writes nothing.
        assert_eq!(empty.list(None).unwrap(), Vec::<String>::new());
        // Another document at that path is ignored, also after it changed.
        let other = document.replace("77", "99");
        put(&there, name, &other);
        let array = Array::of_document(there.clone(), "a", format, document.as_bytes()).unwrap();
        assert_eq!(array.layout().shape(), [77, 5]);
        assert_eq!(Array::open(&there, "a", None).unwrap().layout().shape(), [99, 5]);
    }
}

#[test]
fn documents_that_are_no_arrays_are_errors_that_name_the_path() {
    let store = memory();
    Array::create(store.clone(), "a", spec(Format::V3, &[4], &[2]), false).unwrap();
    let v3 = get(&store, "a/zarr.json").unwrap();
    crate::Group::create(store.clone(), "g", Format::V3, Json::object(), false).unwrap();
    let group = get(&store, "g/zarr.json").unwrap();
    let long = v3.replace("\"bytes\"", "\"nobody.knows\"");
    let cases = [
        (Format::V3, &b""[..]),
        (Format::V3, b"{"),
        (Format::V3, b"[]"),
        (Format::V3, b"\xff\xfe"),
        (Format::V3, group.as_bytes()),
        (Format::V3, long.as_bytes()),
        (Format::V2, v3.as_bytes()),
        (Format::V2, b"{}"),
    ];
    for (format, document) in cases {
        let error = Array::of_document(store.clone(), "some/where", format, document).unwrap_err();
        let about = format!("{format:?} {}: {error}", String::from_utf8_lossy(document));
        assert!(error.to_string().contains("some/where"), "{about}");
    }
    assert!(Array::of_document(store.clone(), "a/../b", Format::V3, v3.as_bytes()).is_err());
    // Cutting it anywhere gives an error, not a panic.
    for end in 0..v3.len() {
        let cut = v3.get(..end).unwrap_or_default();
        assert!(Array::of_document(store.clone(), "a", Format::V3, cut.as_bytes()).is_err(), "{cut}");
    }
}
