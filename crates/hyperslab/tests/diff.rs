//! Tests of comparisons: which chunks are decoded, and what counts as different.

use hyperslab::copy::{CopyOptions, copy};
use hyperslab::diff::{Aspect, DiffOptions, Difference, diff};
use hyperslab::prelude::*;
use hyperslab::{Json, Ragged, VlenKind, WriteOptions};
use hyperslab_zarr::Choice;
use std::path::Path;

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap()
}

/// Shape, chunks and shards of an array.
fn spec(dtype: &str, shape: &[u64], chunks: &[u64], shards: Option<&[u64]>) -> ArraySpec {
    let mut spec = ArraySpec::new(Format::ZarrV3.zarr().unwrap(), shape, dtype.parse().unwrap());
    spec.chunks = Some(chunks.into());
    spec.shards = shards.map(|shards| shards.into());
    spec.compressors = Choice::Set(vec![json(r#"{"name": "gzip", "configuration": {"level": 1}}"#)]);
    spec
}

fn create(root: &Path, name: &str, spec: &ArraySpec) -> Array {
    Array::create(&root.join(name).display().to_string(), spec).unwrap()
}

fn found(a: &Array, b: &Array, options: &DiffOptions<'_>) -> Difference {
    let found = diff(&Node::Array(a.clone()), &Node::Array(b.clone()), options).unwrap();
    assert_eq!(found.failures, []);
    found
}

/// Different elements, skipped chunks, decoded chunks.
fn counts(found: &Difference) -> (u64, u64, u64) {
    let different = found.arrays.iter().map(|array| array.different).sum();
    (different, found.chunks_skipped, found.chunks_decoded)
}

#[test]
fn chunks_with_equal_bytes_are_not_decoded() {
    let root = tempfile::tempdir().unwrap();
    let values: Vec<i32> = (0..48 * 10).collect();
    for (name, shards) in [("plain", None), ("sharded", Some(&[8_u64, 10][..]))] {
        let spec = spec("<i4", &[48, 10], &[4, 5], shards);
        let a = create(root.path(), &format!("{name}-a"), &spec);
        let b = create(root.path(), &format!("{name}-b"), &spec);
        for array in [&a, &b] {
            array.write_slice(&[], &values).unwrap();
        }
        let one = DiffOptions { threads: Some(1), ..DiffOptions::default() };
        assert_eq!(counts(&found(&a, &b, &one)), (0, 24, 0), "{name}");
        b.write_slice(&[Index::At(17), Index::At(3)], &[-1_i32]).unwrap();
        // A shard whose bytes differ is decoded as a whole.
        let decoded = if shards.is_some() { 4 } else { 1 };
        // With few shards for each thread, threads share the decoding of shards.
        for threads in if shards.is_some() { vec![1] } else { vec![1, 3] } {
            let options = DiffOptions { threads: Some(threads), ..DiffOptions::default() };
            let found = found(&a, &b, &options);
            assert_eq!(counts(&found), (1, 24 - decoded, decoded), "{name}");
            let first = &found.arrays[0].first[0];
            assert_eq!(
                (first.index.as_slice(), &first.a, &first.b),
                (&[17, 3][..], &json("173"), &json("-1"))
            );
        }
        // NaN would differ from itself, but integers have none.
        assert_eq!(counts(&found(&a, &b, &DiffOptions { equal_nan: false, ..one })).1, 24 - decoded);
    }
}

#[test]
fn chunks_of_hdf5_with_equal_bytes_are_not_decoded() {
    let root = tempfile::tempdir().unwrap();
    let open = |name: &str, changed: bool| {
        let location = root.path().join(name).display().to_string();
        let file = Group::create(&location, Format::Hdf5).unwrap();
        let array = file.create_array("a", &spec("<f8", &[20], &[5], None)).unwrap();
        array.write_slice(&[], &(0..20).map(f64::from).collect::<Vec<_>>()).unwrap();
        if changed {
            array.write_slice(&[Index::At(7)], &[f64::NAN]).unwrap();
        }
        file.finish().unwrap();
        hyperslab::open(&format!("{location}/a")).unwrap().into_array().unwrap()
    };
    let (a, b, c) = (open("a.h5", false), open("b.h5", false), open("c.h5", true));
    let options = DiffOptions::default();
    assert_eq!(counts(&found(&a, &b, &options)), (0, 4, 0));
    assert_eq!(counts(&found(&a, &c, &options)), (1, 3, 1));
    assert_eq!(found(&a, &c, &options).arrays[0].largest_absolute, None);
    // NaN may be in any chunk.
    let strict = DiffOptions { equal_nan: false, ..options };
    assert_eq!(counts(&found(&c, &c, &strict)), (1, 0, 4));
}

#[test]
fn other_codecs_chunks_and_formats_are_decoded() {
    let root = tempfile::tempdir().unwrap();
    let a = create(root.path(), "a", &spec("<i2", &[30, 7], &[4, 3], None));
    let values: Vec<i16> = (0..210).collect();
    a.write_slice(&[], &values).unwrap();
    let options = DiffOptions::default();
    for (name, chunks, format) in
        [("b", [5, 7], Format::ZarrV3), ("c", [4, 3], Format::ZarrV2), ("d.h5", [30, 2], Format::Hdf5)]
    {
        let location = root.path().join(name).display().to_string();
        let copied = CopyOptions {
            chunks: Some(chunks.map(Some).to_vec()),
            format: (format != Format::Hdf5).then_some(format),
            compressors: Some("zstd:1".parse().unwrap()),
            ..CopyOptions::default()
        };
        let copied =
            if format == Format::Hdf5 { CopyOptions { compressors: None, ..copied } } else { copied };
        if format == Format::Hdf5 {
            let file = Group::create(&location, format).unwrap();
            let array = file.create_array("x", &spec("<i2", &[30, 7], &chunks, None)).unwrap();
            array.write_slice(&[], &values).unwrap();
            file.finish().unwrap();
        } else {
            copy(&Node::Array(a.clone()), &location, &copied).unwrap();
        }
        let path = if format == Format::Hdf5 { format!("{location}/x") } else { location };
        let b = hyperslab::open(&path).unwrap().into_array().unwrap();
        let equal = found(&a, &b, &options);
        assert!(equal.is_empty(), "{:?}", equal.lines(["a", "b"]));
        assert_eq!(counts(&equal).1, 0);
        let layout = found(&a, &b, &DiffOptions { layout: true, ..options.clone() });
        assert!(layout.findings.iter().all(|finding| finding.aspect == Aspect::Layout), "{layout:?}");
        assert!(!layout.findings.is_empty() && layout.arrays.is_empty());
    }
}

#[test]
fn missing_and_packed_numbers_are_compared_by_meaning() {
    let root = tempfile::tempdir().unwrap();
    let made = |name: &str, dtype: &str, attributes: &str| {
        let mut spec = spec(dtype, &[4], &[2], None);
        spec.dimension_names = Some(vec![Some("x".into())]);
        spec.attributes = json(attributes);
        create(root.path(), name, &spec)
    };
    let a = made("a", "<i2", r#"{"_FillValue": -9, "scale_factor": 0.5}"#);
    a.write_slice(&[], &[2_i16, -9, 5, 7]).unwrap();
    let b = made("b", "<f8", r#"{"_FillValue": "AAAAAAAA+H8="}"#);
    b.write_slice(&[], &[1.0, f64::NAN, 2.25, f64::NAN]).unwrap();
    let different = found(&a, &b, &DiffOptions::default());
    let array = &different.arrays[0];
    assert_eq!((array.different, array.missing), (2, [0, 1]));
    assert_eq!(array.largest_absolute.as_ref().unwrap().value, 0.25);
    assert_eq!(array.rms, Some(0.25));
    let aspects: Vec<Aspect> = different.findings.iter().map(|finding| finding.aspect).collect();
    assert_eq!(aspects, [Aspect::DataType, Aspect::FillValue, Aspect::Attribute]);
    let raw = found(&a, &b, &DiffOptions { raw: true, ..DiffOptions::default() });
    assert_eq!(raw.arrays[0].different, 4);
    let loose = DiffOptions { atol: 0.25, ..DiffOptions::default() };
    assert_eq!(found(&a, &b, &loose).arrays[0].different, 1);
}

#[test]
fn dates_in_other_units_are_the_same_dates() {
    let root = tempfile::tempdir().unwrap();
    let group = |name: &str, units: &str, times: &[f64]| {
        let location = root.path().join(name).display().to_string();
        let group = Group::create(&location, Format::ZarrV3).unwrap();
        let mut spec = spec("<f8", &[3], &[3], None);
        spec.dimension_names = Some(vec![Some("time".into())]);
        let data = group.create_array("t2m", &spec).unwrap();
        data.write_slice(&[], &[1.0, 2.0, times[2]]).unwrap();
        spec.attributes = Json::from([("units", units.into())]);
        group.create_array("time", &spec).unwrap().write_slice(&[], times).unwrap();
        Node::Group(group)
    };
    let days = group("a", "days since 2000-01-01", &[0.0, 1.0, 2.0]);
    let hours = group("b", "hours since 2000-01-02", &[-24.0, 0.0, 36.0]);
    let found = diff(&days, &hours, &DiffOptions::default()).unwrap();
    let [data, time] = found.arrays.as_slice() else { panic!("{found:?}") };
    assert_eq!((time.path.as_str(), time.different, time.unit.as_deref()), ("time", 1, Some("days")));
    assert_eq!(
        (&time.first[0].a, &time.first[0].b),
        (&json(r#""2000-01-03""#), &json(r#""2000-01-03T12:00:00""#))
    );
    assert_eq!(time.largest_absolute.as_ref().unwrap().value, 0.5);
    assert_eq!(data.first[0].coordinates, [("time".to_owned(), json(r#""2000-01-03""#))]);
}

#[test]
fn members_attributes_and_shapes() {
    let root = tempfile::tempdir().unwrap();
    let group = |name: &str, attributes: &str| {
        let location = root.path().join(name).display().to_string();
        let mut group = Group::create(&location, Format::ZarrV3).unwrap();
        group.set_attributes(json(attributes)).unwrap();
        group
    };
    let a = group("a", r#"{"title": "x", "n": [1, {"p": 1, "q": 2.0}]}"#);
    let b = group("b", r#"{"n": [1, {"q": 2, "p": 1}], "title": "y", "more": null}"#);
    for (group, len) in [(&a, 3), (&b, 5)] {
        let array = group.create_array("both", &spec("|u1", &[len, 2], &[2, 2], None)).unwrap();
        array.write_slice(&[], &vec![len as u8; 2 * len as usize]).unwrap();
    }
    a.create_array("only", &spec("|u1", &[1], &[1], None)).unwrap();
    a.create_array("kind", &spec("|u1", &[1], &[1], None)).unwrap();
    b.create_group("kind", Json::object()).unwrap();
    let (a, b) = (Node::Group(a), Node::Group(b));
    let found = diff(&a, &b, &DiffOptions::default()).unwrap();
    assert_eq!(
        found.lines(["a", "b"]),
        [
            "/: attribute title: \"x\" | \"y\"",
            "/: attribute more: none | null",
            "both: shape: [3, 2] | [5, 2]",
            "both: 6 of 6 elements differ (100.00 %)",
            "  largest difference  2 at (0, 0): 3 | 5",
            "  largest relative    0.4 at (0, 0): 3 | 5",
            "  RMS                 2",
            "  (0, 0): 3 | 5",
            "  (0, 1): 3 | 5",
            "  (1, 0): 3 | 5",
            "  (1, 1): 3 | 5",
            "  (2, 0): 3 | 5",
            "  and 1 more",
            "kind: kind: \"array\" | \"group\"",
            "only: only in a (array)",
        ]
    );
    let brief = diff(&a, &b, &DiffOptions { brief: true, ..DiffOptions::default() }).unwrap();
    assert!(brief.stopped && brief.arrays.is_empty());
    assert!(
        diff(&a, &a, &DiffOptions { brief: true, layout: true, ..DiffOptions::default() })
            .unwrap()
            .is_empty()
    );
}

#[test]
fn text_of_any_length() {
    let root = tempfile::tempdir().unwrap();
    let made = |name: &str, texts: [&str; 3]| {
        let array = create(
            root.path(),
            name,
            &ArraySpec::of_vlen(Format::ZarrV3.zarr().unwrap(), &[3], VlenKind::Text),
        );
        let values = Ragged::of(&[3], texts.map(str::as_bytes).into_iter()).unwrap();
        array.write_ragged(&array.select(&[]).unwrap(), &values.into(), WriteOptions::default()).unwrap();
        array
    };
    let (a, b) = (made("a", ["x", "", "Čapek"]), made("b", ["x", "y", "Čapek"]));
    let different = found(&a, &b, &DiffOptions::default());
    let array = &different.arrays[0];
    assert_eq!((array.compared, array.different, array.first[0].index.as_slice()), (3, 1, &[1][..]));
    assert_eq!(
        (&array.first[0].a, &array.first[0].b, &array.largest_absolute),
        (&json("\"\""), &json("\"y\""), &None)
    );
    // Text of one length is the same text.
    let fixed = create(root.path(), "c", &spec("<U5", &[3], &[3], None));
    let units: Vec<u8> = ["x", "", "Čapek"]
        .iter()
        .flat_map(|text| text.chars().map(u32::from).chain(std::iter::repeat(0)).take(5).collect::<Vec<_>>())
        .flat_map(u32::to_le_bytes)
        .collect();
    let source = hyperslab::Source::dense(&units, &[3], 20).unwrap();
    fixed.write(&fixed.select(&[]).unwrap(), &source, WriteOptions::default()).unwrap();
    let types = found(&a, &fixed, &DiffOptions::default());
    assert_eq!((types.findings[0].aspect, types.arrays.len()), (Aspect::DataType, 0), "{types:?}");
}

#[test]
fn what_cannot_be_read_is_said_and_the_rest_is_compared() {
    let root = tempfile::tempdir().unwrap();
    let group = |name: &str| {
        let location = root.path().join(name).display().to_string();
        let group = Group::create(&location, Format::ZarrV3).unwrap();
        for (name, value) in [("bad", 1), ("good", 2)] {
            let array = group.create_array(name, &spec("<i4", &[4], &[4], None)).unwrap();
            array.write_slice(&[], &[value; 4]).unwrap();
        }
        group
    };
    let (a, b) = (group("a"), group("b"));
    b.array("good").unwrap().write_slice(&[Index::At(3)], &[9_i32]).unwrap();
    std::fs::write(root.path().join("b/bad/c/0"), b"no gzip").unwrap();
    let found = diff(&Node::Group(a), &Node::Group(b), &DiffOptions::default()).unwrap();
    assert_eq!(found.arrays.iter().map(|array| array.path.as_str()).collect::<Vec<_>>(), ["good"]);
    let [(path, why)] = found.failures.as_slice() else { panic!("{found:?}") };
    assert!(path == "bad" && why.contains("gzip"), "{why}");
}
