//! Tests copies of elements of variable length: between Zarr formats, and from HDF5 files.
//! The HDF5 files come from other projects; without them some tests check nothing.

mod common;

use common::{corpus, created, memory, noise, opened};
use hyperslab::copy::{CopyOptions, Shards, copy_to_store};
use hyperslab::prelude::*;
use hyperslab::zarr;
use hyperslab::{Choice, Error, Json, Key, Ragged, ReadOptions, Store, VlenKind, WriteOptions, open_node};
use proptest::prelude::*;
use std::sync::Arc;

fn read(array: &Array) -> (Vec<i64>, Vec<u8>) {
    let all = Selection::all(array.shape());
    let found = array.read_ragged(&all, ReadOptions::default()).unwrap();
    (found.offsets, found.values.as_slice().to_vec())
}

fn texts(array: &Array) -> Vec<String> {
    let (offsets, values) = read(array);
    let cells = offsets.windows(2).map(|at| values[at[0] as usize..at[1] as usize].to_vec());
    cells.map(|cell| String::from_utf8(cell).unwrap()).collect()
}

/// An array of pseudo-random elements, written up to index `part` of the first axis.
fn filled(store: &Arc<dyn Store>, spec: ArraySpec, part: u64) -> Array {
    let array = created(store, "a", spec);
    let item = array.vlen().unwrap().item_size();
    let others: u64 = array.shape().iter().skip(1).product();
    let mut next = noise();
    let rows: Vec<Vec<u8>> = (0..part * others)
        .map(|_| (0..usize::from(next()) % 40 * item).map(|_| b'a' + next() % 26).collect())
        .collect();
    let shape: Vec<u64> = [part].into_iter().chain(array.shape().iter().skip(1).copied()).collect();
    let mut values = Ragged::of(&shape, rows.iter().map(Vec::as_slice)).unwrap();
    values.offsets.iter_mut().for_each(|at| *at /= item as i64);
    let selection = array.select(&[Index::range(0, part as i64)]).unwrap();
    array.write_ragged(&selection, &Arc::new(values), WriteOptions::default()).unwrap();
    array
}

fn verified(format: Format) -> CopyOptions<'static> {
    CopyOptions { format: Some(format), verify: true, ..CopyOptions::default() }
}

fn formats() -> impl Strategy<Value = Format> {
    prop_oneof![Just(Format::ZarrV2), Just(Format::ZarrV3)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn every_element_arrives(
        (from, to) in (formats(), formats()),
        kind in prop_oneof![Just(VlenKind::Text), Just(VlenKind::Bytes), Just(VlenKind::Array(">i2".parse().unwrap()))],
        shape in prop::collection::vec(1..9u64, 1..3),
        (chunk, other, part) in (1..5u64, 1..5u64, 0..9u64),
        (shards, fortran, fill) in any::<(bool, bool, bool)>(),
        (to_shards, compress) in any::<(bool, bool)>(),
        max_memory in prop_oneof![Just(1u64), Just(2000), Just(256 << 20)],
    ) {
        let is_array = matches!(kind, VlenKind::Array(_));
        let (from, to) = if is_array { (Format::ZarrV2, Format::ZarrV2) } else { (from, to) };
        let mut spec = ArraySpec::of_vlen(from.zarr().unwrap(), &shape, kind);
        spec.chunks = Some(shape.iter().map(|_| chunk).collect());
        spec.shards = (shards && from == Format::ZarrV3).then(|| shape.iter().map(|_| chunk * 2).collect());
        spec.fortran_order = fortran;
        spec.fill = (fill && !is_array).then(|| b"fill".to_vec());
        spec.attributes = Json::parse(br#"{"long_name": "n"}"#).unwrap();
        let store = memory();
        let array = filled(&store, spec, part.min(shape[0]));

        let target = memory();
        let mut options = CopyOptions { max_memory, threads: Some(2), ..verified(to) };
        options.chunks = Some(shape.iter().map(|_| Some(other)).collect());
        if compress {
            options.compressors = Some("gzip:1".parse().unwrap());
        }
        if to_shards && to == Format::ZarrV3 {
            options.shards = Shards::Shape(shape.iter().map(|_| Some(other * 3)).collect());
        }
        let report = copy_to_store(&open_node(&store, "a", None).unwrap(), &target, "b", &options).unwrap();
        let copy = opened(&target, "b");
        prop_assert_eq!(report.arrays, 1);
        prop_assert_eq!(read(&copy), read(&array));
        prop_assert_eq!(copy.vlen(), Some(kind));
        prop_assert_eq!(copy.as_zarr().unwrap().fill().unwrap_or_default(), array.as_zarr().unwrap().fill().unwrap_or_default());
        prop_assert_eq!(copy.attributes().unwrap().to_text(None), r#"{"long_name": "n"}"#);
        prop_assert!(report.bytes >= shape.iter().product::<u64>() * 16);
    }
}

#[test]
fn codecs_are_kept_in_the_words_of_the_other_format() {
    let store = memory();
    let mut spec = ArraySpec::of_vlen(zarr::Format::V2, &[6], VlenKind::Text);
    spec.filters = Choice::Set(vec![Json::parse(br#"{"id": "crc32c"}"#).unwrap()]);
    spec.compressors = Choice::Set(vec![Json::parse(br#"{"id": "gzip", "level": 3}"#).unwrap()]);
    filled(&store, spec, 6);
    let node = open_node(&store, "a", None).unwrap();
    for (format, path) in [(Format::ZarrV2, "v2"), (Format::ZarrV3, "v3")] {
        let target = memory();
        copy_to_store(&node, &target, path, &verified(format)).unwrap();
        assert!(opened(&target, path).codec_names().starts_with(&[
            "vlen-utf8".into(),
            "crc32c".into(),
            "gzip".into()
        ]));
    }
}

#[test]
fn arrays_as_elements_go_to_v2_only() {
    let store = memory();
    filled(&store, ArraySpec::of_vlen(zarr::Format::V2, &[3], VlenKind::Array("<f4".parse().unwrap())), 3);
    let array = open_node(&store, "a", None).unwrap();
    let error = copy_to_store(&array, &memory(), "b", &verified(Format::ZarrV3)).unwrap_err();
    assert!(
        matches!(&error, Error::Copy { why, .. } if why.contains("arrays of <f4") && why.contains("Zarr v2")),
        "{error}"
    );
}

#[test]
fn objects_go_to_v2_only() {
    let store = memory();
    let mut spec = ArraySpec::of_vlen(zarr::Format::V2, &[3], VlenKind::Json);
    spec.object_codec = Some(Json::from([("id", "json2".into()), ("indent", 1u32.into())]));
    let array = created(&store, "a", spec);
    let rows = [&b"null"[..], br#"{"a":[1.5,NaN]}"#, b"\"x\""];
    let write = |array: &Array, rows: [&[u8]; 3]| {
        let values = Arc::new(Ragged::of(&[3], rows.into_iter()).unwrap());
        array.write_ragged(&Selection::all(array.shape()), &values, WriteOptions::default())
    };
    write(&array, rows).unwrap();
    let array = open_node(&store, "a", None).unwrap();
    let error = copy_to_store(&array, &memory(), "b", &verified(Format::ZarrV3)).unwrap_err();
    assert!(
        matches!(&error, Error::Copy { why, .. } if why.contains("are objects") && why.contains("Zarr v2")),
        "{error}"
    );
    copy_to_store(&array, &store, "b", &verified(Format::ZarrV2)).unwrap();
    let copied = opened(&store, "b");
    assert_eq!(copied.vlen().map(|kind| kind.to_string()).as_deref(), Some("object (JSON)"));
    assert_eq!(copied.as_zarr().unwrap().filters()[0].get("indent").and_then(Json::as_integer), Some(1u8));
    assert_eq!(read(&copied).1, rows.concat());
    // Text that is not JSON is refused when its chunk is encoded.
    let error = write(&copied, [b"1", b"[1", b"2"]).unwrap_err().to_string();
    assert!(error.contains("element 1 of the chunk"), "{error}");
    assert_eq!(read(&copied).1, rows.concat());
}

#[test]
fn a_damaged_source_is_refused() {
    let store = memory();
    let mut spec = ArraySpec::of_vlen(zarr::Format::V3, &[2], VlenKind::Text);
    spec.compressors = Choice::Set(Vec::new());
    filled(&store, spec, 2);
    let key = Key::new("a/c/0").unwrap();
    let mut bytes = Vec::new();
    store.read_all(key, &mut bytes, 1 << 20).unwrap();
    bytes.pop();
    store.write(key, &[&bytes]).unwrap();
    let error =
        copy_to_store(&open_node(&store, "a", None).unwrap(), &memory(), "b", &verified(Format::ZarrV3));
    assert!(error.unwrap_err().to_string().contains("vlen-utf8"));
}

fn copied(name: &str, format: Format) -> Option<(Arc<dyn Store>, hyperslab::copy::CopyReport)> {
    let node = open(corpus(name)?.to_str().unwrap()).unwrap();
    let target = memory();
    let options = CopyOptions { skip_unsupported: true, ..verified(format) };
    let report = copy_to_store(&node, &target, "", &options).unwrap();
    Some((target, report))
}

#[test]
fn strings_of_hdf5_become_text() {
    for format in [Format::ZarrV2, Format::ZarrV3] {
        let Some((store, report)) = copied("jhdf/test_string_datasets_latest.hdf5", format) else { return };
        assert!(report.skipped.is_empty(), "{:?}", report.skipped);
        let numbers: Vec<String> = (0..10).map(|n| format!("string number {n}")).collect();
        assert_eq!(texts(&opened(&store, "variable_length_utf8")), numbers);
        let grid = opened(&store, "variable_length_2d");
        assert_eq!((grid.shape(), grid.vlen()), (&[5, 7][..], Some(VlenKind::Text)));
        assert_eq!(texts(&grid)[..9], ["0", "1", "2", "3", "4", "5", "6", "7", "8"]);
    }
}

#[test]
fn sequences_of_hdf5_become_arrays_of_v2() {
    let name = "jhdf/test_vlen_datasets_latest.hdf5";
    let Some((store, report)) = copied(name, Format::ZarrV2) else { return };
    assert!(report.skipped.is_empty(), "{:?}", report.skipped);
    let array = opened(&store, "vlen_int16_data");
    assert_eq!(array.vlen(), Some(VlenKind::Array("<i2".parse().unwrap())));
    let values: Vec<u8> = (0..6i16).flat_map(i16::to_le_bytes).collect();
    assert_eq!(read(&array), (vec![0, 1, 3, 6], values));
    let (_, report) = copied(name, Format::ZarrV3).unwrap();
    assert_eq!((report.arrays, report.skipped.len()), (0, 22));
    assert!(
        report.skipped.iter().all(|(_, why)| why.contains("copy to format Zarr v2")),
        "{:?}",
        report.skipped
    );
}

#[test]
fn references_of_hdf5_become_paths() {
    let Some((store, report)) = copied("pyfive/references.hdf5", Format::ZarrV3) else { return };
    for name in ["ref_dataset", "chunked_ref_dataset"] {
        assert_eq!(texts(&opened(&store, name)), ["/", "/dataset1", "/group1", ""]);
    }
    let skipped: Vec<&str> = report.skipped.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(skipped, ["/chunked_regionref_dataset", "/regionref_dataset"]);
}
