//! Tests Zarr elements of variable length: reads what zarr-python writes, and writes the same.

mod common;

use common::{created, memory, opened, spec as fixed};
use hyperslab::prelude::*;
use hyperslab::zarr::{self, Consolidation};
use hyperslab::{
    Choice, Error, Json, Key, Ragged, ReadOptions, Source, Store, StreamOptions, VlenKind, WriteOptions,
};
use proptest::prelude::*;
use std::sync::Arc;

fn of(shape: &[u64], rows: &[&str]) -> Arc<Ragged> {
    Arc::new(Ragged::of(shape, rows.iter().map(|row| row.as_bytes())).unwrap())
}

/// The elements of a selection, one by one.
fn rows(array: &Array, indices: &[Index<'_>]) -> Vec<Vec<u8>> {
    let found = array.read_ragged(&array.select(indices).unwrap(), ReadOptions::default()).unwrap();
    assert!(found.validity.is_none());
    let item = array.vlen().unwrap().item_size();
    let cells = found.offsets.windows(2);
    cells.map(|at| found.values.as_slice()[at[0] as usize * item..at[1] as usize * item].to_vec()).collect()
}

fn texts(array: &Array, indices: &[Index<'_>]) -> Vec<String> {
    rows(array, indices).into_iter().map(|row| String::from_utf8(row).unwrap()).collect()
}

fn write(array: &Array, indices: &[Index<'_>], values: &Arc<Ragged>) {
    array.write_ragged(&array.select(indices).unwrap(), values, WriteOptions::default()).unwrap();
}

fn object(store: &Arc<dyn Store>, key: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    store.read_all(Key::new(key).unwrap(), &mut bytes, 1 << 20).unwrap().then_some(bytes)
}

const ROWS: [&str; 9] = ["a", "", "čapek", "žžž", "none", "b", "x", "y", "none"];

/// Describes an array of elements of variable length in these chunks, without compressor.
fn ragged(format: zarr::Format, shape: &[u64], chunks: &[u64], kind: VlenKind) -> ArraySpec {
    let mut spec = ArraySpec::of_vlen(format, shape, kind);
    spec.chunks = Some(chunks.into());
    spec.compressors = Choice::Set(Vec::new());
    spec
}

/// Stored objects of `ROWS` in an array of 3 × 3, as zarr-python 3.4 writes them uncompressed.
type Stored = &'static [(&'static str, &'static [u8])];

const F_ORDER: [&[u8]; 3] = [
    b"\x04\0\0\0\x01\0\0\0a\x06\0\0\0\xc5\xbe\xc5\xbe\xc5\xbe\0\0\0\0\x04\0\0\0none",
    b"\x04\0\0\0\x06\0\0\0\xc4\x8dapek\x01\0\0\0b\x04\0\0\0none\x04\0\0\0none",
    b"\x04\0\0\0\x01\0\0\0x\x04\0\0\0none\x01\0\0\0y\x04\0\0\0none",
];

fn by_zarr_python() -> Vec<(ArraySpec, Stored)> {
    let spec = |format: Format, kind| {
        let mut spec = ragged(format.zarr().unwrap(), &[3, 3], &[2, 2], kind);
        spec.fill = Some(b"none".to_vec());
        spec
    };
    let mut transposed = spec(Format::ZarrV3, VlenKind::Text);
    transposed.fortran_order = true;
    let mut sharded = spec(Format::ZarrV3, VlenKind::Text);
    sharded.fill = None;
    sharded.chunks = Some([1, 2].as_slice().into());
    sharded.shards = Some([2, 4].as_slice().into());
    let mut v2 = spec(Format::ZarrV2, VlenKind::Text);
    v2.fortran_order = true;
    vec![
        (transposed, &[("c/0/0", F_ORDER[0]), ("c/0/1", F_ORDER[1]), ("c/1/0", F_ORDER[2])]),
        (
            sharded,
            &[
                (
                    "c/0/0",
                    b"\x02\0\0\0\x01\0\0\0a\0\0\0\0\x02\0\0\0\x06\0\0\0\xc5\xbe\xc5\xbe\xc5\xbe\x04\0\0\0none\
                    \x02\0\0\0\x06\0\0\0\xc4\x8dapek\0\0\0\0\x02\0\0\0\x01\0\0\0b\0\0\0\0\
                    \0\0\0\0\0\0\0\0\r\0\0\0\0\0\0\0#\0\0\0\0\0\0\0\x12\0\0\0\0\0\0\0\
                    \r\0\0\0\0\0\0\0\x16\0\0\0\0\0\0\x005\0\0\0\0\0\0\0\r\0\0\0\0\0\0\0\xea\xc0\t\xeb",
                ),
                (
                    "c/1/0",
                    b"\x02\0\0\0\x01\0\0\0x\x01\0\0\0y\x02\0\0\0\x04\0\0\0none\0\0\0\0\
                    \0\0\0\0\0\0\0\0\x0e\0\0\0\0\0\0\0\x0e\0\0\0\0\0\0\0\x10\0\0\0\0\0\0\0\
                    \xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\
                    \xff\xff\xff\xff\xff\xff\xff\xff\xbc\xfb\x1d\r",
                ),
            ],
        ),
        (v2, &[("0.0", F_ORDER[0]), ("0.1", F_ORDER[1]), ("1.0", F_ORDER[2])]),
        (
            spec(Format::ZarrV3, VlenKind::Bytes),
            &[
                ("c/0/0", b"\x04\0\0\0\x01\0\0\0a\0\0\0\0\x06\0\0\0\xc5\xbe\xc5\xbe\xc5\xbe\x04\0\0\0none"),
                ("c/0/1", b"\x04\0\0\0\x06\0\0\0\xc4\x8dapek\x04\0\0\0none\x01\0\0\0b\x04\0\0\0none"),
                ("c/1/0", b"\x04\0\0\0\x01\0\0\0x\x01\0\0\0y\x04\0\0\0none\x04\0\0\0none"),
            ],
        ),
    ]
}

#[test]
fn what_zarr_python_stores_is_read_and_stored_alike() {
    for (spec, stored) in by_zarr_python() {
        let store = memory();
        let array = created(&store, "a", spec.clone());
        for (key, bytes) in stored {
            store.write(Key::new(&format!("a/{key}")).unwrap(), &[bytes]).unwrap();
        }
        let expected: Vec<Vec<u8>> = ROWS.map(|row| row.as_bytes().to_vec()).to_vec();
        assert_eq!(rows(&array, &[]), expected);
        assert_eq!(
            rows(&array, &[Index::At(1), Index::List(&[2, 0])]),
            [expected[5].clone(), expected[3].clone()]
        );
        assert_eq!(array.chunks_stored(None).unwrap().0, stored.len() as u64);

        // Write row by row, which changes parts of chunks.
        let store = memory();
        let array = created(&store, "a", spec);
        for row in 0..3 {
            write(&array, &[Index::At(row)], &of(&[3], &ROWS[row as usize * 3..][..3]));
        }
        assert_eq!(rows(&array, &[]), expected);
        if array.shard_shape().is_none() {
            for (key, bytes) in stored {
                assert_eq!(object(&store, &format!("a/{key}")).as_deref(), Some(*bytes), "{key}");
            }
        }
        assert_eq!(array.chunks_stored(None).unwrap().0, stored.len() as u64);
    }
}

#[test]
fn arrays_as_elements() {
    let store = memory();
    let kind = VlenKind::Array("<i4".parse().unwrap());
    let array = created(&store, "a", ragged(zarr::Format::V2, &[3], &[2], kind));
    assert_eq!(array.vlen(), Some(kind));
    let mut values = Ragged::of(&[2], [&[0, 0, 0, 0, 1, 0, 0, 0][..], &[]].into_iter()).unwrap();
    // Offsets count items.
    values.offsets = vec![0, 2, 2];
    write(&array, &[Index::range(0, 2)], &Arc::new(values));
    // As numcodecs' VLenArray encodes it.
    assert_eq!(object(&store, "a/0").unwrap(), b"\x02\0\0\0\x08\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0");
    assert_eq!(rows(&array, &[]), [vec![0, 0, 0, 0, 1, 0, 0, 0], vec![], vec![]]);
}

#[test]
fn one_size_and_variable_length_are_not_mixed_up() {
    let store = memory();
    let mut text = created(&store, "a", ArraySpec::of_vlen(zarr::Format::V3, &[4], VlenKind::Text));
    let all = text.select(&[]).unwrap();
    let source = [0; 64];
    let source = Source::dense(&source, &[4], 16).unwrap();
    let refused: Vec<Error> = vec![
        text.read(&all, ReadOptions::default()).unwrap_err(),
        text.write(&all, &source, WriteOptions::default()).unwrap_err(),
        text.stream(0, StreamOptions::default()).unwrap_err(),
        text.read_vec::<f64>(&[]).unwrap_err(),
        text.write_slice(&[], &[0u8; 4]).unwrap_err(),
        text.append(0, &[0u8; 4]).unwrap_err(),
    ];
    for error in refused {
        assert!(matches!(error, Error::VariableLength { found: VlenKind::Text, .. }), "{error}");
        assert!(error.to_string().contains("read_ragged"), "{error}");
    }
    let writer = text.writer(Default::default());
    let written = writer.write(&all, &source, None).and_then(|()| writer.flush(None));
    assert!(written.unwrap_err().to_string().contains("write_ragged"));
    assert_eq!(text.shape(), [4]);

    let numbers = created(&store, "n", fixed(Format::ZarrV3, &[4], &[4], "<i4"));
    let error = numbers.read_ragged(&all, ReadOptions::default()).unwrap_err();
    assert!(matches!(error, Error::ElementType { .. }), "{error}");
    assert_eq!(numbers.vlen(), None);
}

#[test]
fn growing_shrinking_and_appending() {
    for format in [zarr::Format::V2, zarr::Format::V3] {
        let store = memory();
        let mut spec = ArraySpec::of_vlen(format, &[2, 2], VlenKind::Text);
        spec.chunks = Some([2, 2].as_slice().into());
        spec.fill = Some("–".into());
        let mut array = created(&store, "a", spec);
        write(&array, &[], &of(&[2, 2], &["a", "b", "c", "d"]));
        array.append_ragged(0, &of(&[1, 2], &["ee", "ff"])).unwrap();
        array.resize(&[3, 3], None).unwrap();
        assert_eq!(texts(&array, &[]), ["a", "b", "–", "c", "d", "–", "ee", "ff", "–"]);
        array.resize(&[1, 2], None).unwrap();
        assert_eq!(texts(&array, &[]), ["a", "b"]);
        assert_eq!(array.chunks_stored(None).unwrap().0, 1);
        for (axis, values) in [(0, of(&[1, 3], &["", "", ""])), (2, of(&[1], &[""])), (0, of(&[1], &[""]))] {
            assert!(array.append_ragged(axis, &values).is_err());
        }
        // Values that cannot be written leave the array unchanged.
        let wrong = Arc::new(Ragged::of(&[1, 2], [&b"\xff"[..], b""].into_iter()).unwrap());
        assert!(array.append_ragged(0, &wrong).unwrap_err().to_string().contains("UTF-8"));
        assert_eq!(array.shape(), [1, 2]);
        // One value for all elements. Chunks with nothing but fill value are not stored. Elements
        // that were cut off stay in the chunk until the array grows, and are never seen.
        write(&array, &[], &of(&[1], &["–"]));
        assert_eq!(array.chunks_stored(None).unwrap().0, 1);
        array.resize(&[2, 2], None).unwrap();
        assert_eq!(texts(&array, &[]), ["–"; 4]);
        write(&array, &[], &of(&[1], &["–"]));
        assert_eq!(array.chunks_stored(None).unwrap().0, 0);
        opened(&store, "a").delete().unwrap();
        assert!(store.list(None).unwrap().iter().all(|key| !key.starts_with("a/")));
    }
}

#[test]
fn consolidated_metadata_and_facts() {
    for (format, kind, name) in [
        (zarr::Format::V2, VlenKind::Array(">f8".parse().unwrap()), "array of >f8"),
        (zarr::Format::V2, VlenKind::Bytes, "bytes"),
        (zarr::Format::V3, VlenKind::Text, "string"),
    ] {
        let store = memory();
        let mut group = zarr::Group::create(store.clone(), "", format, Json::object(), false).unwrap();
        let mut spec = ArraySpec::of_vlen(format, &[5], kind);
        spec.dimension_names = Some(vec![Some("x".into())]);
        spec.attributes = Json::parse(br#"{"long_name": "n"}"#).unwrap();
        created(&store, "a", spec);
        group.consolidate(None).unwrap();
        let group = zarr::Group::open(&store, "", None, Consolidation::Require).unwrap();
        let zarr::Node::Array(array) = group.child("a").unwrap() else { panic!("no array") };
        assert!(array.is_consolidated());
        let array: Array = array.into();
        assert_eq!(array.vlen(), Some(kind));
        let info = array.info(None).unwrap();
        assert_eq!((info.type_name().as_str(), info.vlen, info.ratio()), (name, Some(kind), None));
        assert_eq!(info.to_json().get("dtype"), Some(&name.into()));
        assert_eq!(info.dimension_names, Some(vec![Some("x".into())]));
        assert_eq!(info.attributes.get("long_name"), Some(&"n".into()));
        assert!(array.codec_names()[0].starts_with("vlen-"), "{:?}", array.codec_names());
        let explained = array.explain_read(&array.select(&[]).unwrap(), 10).unwrap();
        assert_eq!(explained.chunks, 1);
    }
}

#[test]
fn chunks_that_are_not_right_are_refused() {
    let store = memory();
    let array = created(&store, "a", ragged(zarr::Format::V3, &[2], &[2], VlenKind::Text));
    for bytes in [
        &b""[..],
        b"\x02\0\0",
        b"\x01\0\0\0\x01\0\0\0a",
        b"\x02\0\0\0\x01\0\0\0a",
        b"\x02\0\0\0\x01\0\0\0a\xff\xff\xff\xffb",
        b"\x02\0\0\0\x01\0\0\0a\x01\0\0\0bc",
        // One character split over two elements.
        b"\x02\0\0\0\x01\0\0\0\xc5\x01\0\0\0\xbe",
    ] {
        store.write(Key::new("a/c/0").unwrap(), &[bytes]).unwrap();
        let error = array.read_ragged(&array.select(&[]).unwrap(), ReadOptions::default()).unwrap_err();
        assert!(error.to_string().contains("/a") && error.to_string().contains("vlen-utf8"), "{error}");
    }
}

#[derive(Clone, Debug)]
struct Case {
    format: zarr::Format,
    kind: VlenKind,
    axes: Vec<(u64, u64)>,
    shards: bool,
    fortran: bool,
    compressors: &'static str,
    fill: &'static str,
    writes: Vec<Written>,
}

/// A box, by first index and length along each axis, and the texts to write there, repeatedly.
type Written = (Vec<(u64, u64)>, Vec<String>);

fn cases() -> impl Strategy<Value = Case> {
    let axes = prop::collection::vec((1..7u64, 1..4u64), 1..3);
    axes.prop_flat_map(|axes| {
        let ranges: Vec<_> = axes.iter().map(|(n, _)| (0..*n, 1..=*n)).collect();
        let texts = prop::collection::vec("[a-zé]{0,9}|none", 1..8);
        let writes = prop::collection::vec((ranges, texts), 1..5);
        (
            prop_oneof![Just(zarr::Format::V2), Just(zarr::Format::V3)],
            prop_oneof![Just(VlenKind::Text), Just(VlenKind::Bytes)],
            Just(axes),
            any::<(bool, bool)>(),
            prop_oneof![Just("[]"), Just(r#"[{"id": "zlib", "level": 1}]"#)],
            prop_oneof![Just(""), Just("none")],
            writes,
        )
    })
    .prop_map(|(format, kind, axes, (shards, fortran), compressors, fill, writes)| Case {
        format,
        kind,
        axes,
        shards: shards && format == zarr::Format::V3,
        fortran,
        compressors,
        fill,
        writes,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// All written boxes can be read afterwards, even after opening the array again.
    #[test]
    fn written_boxes_are_read(case in cases()) {
        let shape: Vec<u64> = case.axes.iter().map(|(n, _)| *n).collect();
        let chunks: Vec<u64> = case.axes.iter().map(|(_, chunk)| *chunk).collect();
        let mut spec = ArraySpec::of_vlen(case.format, &shape, case.kind);
        spec.chunks = Some(chunks.as_slice().into());
        spec.shards = case.shards.then(|| chunks.iter().map(|n| n * 2).collect());
        spec.fortran_order = case.fortran;
        spec.fill = Some(case.fill.into());
        if case.format == zarr::Format::V2 {
            spec.compressors = Choice::Set(Json::parse(case.compressors.as_bytes()).unwrap().as_array().unwrap().to_vec());
        }
        let store = memory();
        let array = created(&store, "a", spec);
        let count = shape.iter().product::<u64>() as usize;
        let mut model = vec![case.fill.to_owned(); count];
        for (ranges, texts) in &case.writes {
            let ends: Vec<u64> = ranges.iter().zip(&shape).map(|((at, len), n)| (at + len).min(*n)).collect();
            let indices: Vec<Index<'_>> =
                ranges.iter().zip(&ends).map(|((at, _), end)| Index::range(*at as i64, *end as i64)).collect();
            let inner: Vec<u64> = ranges.iter().zip(&ends).map(|((at, _), end)| end - at).collect();
            let mut next = texts.iter().cycle();
            let mut values = Vec::new();
            for (number, element) in model.iter_mut().enumerate() {
                let mut rest = number as u64;
                let inside = (0..shape.len()).rev().all(|axis| {
                    let index = rest % shape[axis];
                    rest /= shape[axis];
                    (ranges[axis].0..ends[axis]).contains(&index)
                });
                if inside {
                    *element = next.next().unwrap().clone();
                    values.push(element.clone());
                }
            }
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            write(&array, &indices, &of(&inner, &values));
        }
        prop_assert_eq!(texts(&opened(&store, "a"), &[]), model.clone());
        let last = array.shape().len() - 1;
        let mut indices = vec![Index::ALL; last + 1];
        indices[last] = Index::At(-1);
        let n = shape[last] as usize;
        let ends: Vec<String> = model.chunks(n).map(|row| row[n - 1].clone()).collect();
        prop_assert_eq!(texts(&array, &indices), ends);
    }
}
