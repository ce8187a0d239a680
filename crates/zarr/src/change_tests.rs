use super::*;
use crate::node;
use crate::testing::{get, memory, put, spec_of};
use crate::{ArraySpec, AxisChunks, Choice, KeyEncoding};
use hyperslab_array::{self as engine, ArrayError, Index, ReadOptions, Selection, Source, WriteOptions};
use hyperslab_store::StoreError;
use std::collections::BTreeSet;

fn spec(format: Format, shape: &[u64], chunks: &[u64]) -> ArraySpec {
    spec_of(format, shape, chunks, "<i4")
}

/// A codec that fits only some chunks would make an array that cannot be read.
#[test]
fn codecs_fit_every_chunk() {
    let store = memory();
    let described = |lengths: &[u64], extent: u64| {
        let mut spec = spec(Format::V3, &[extent], &[5]);
        spec.chunks = None;
        spec.rectilinear = Some(vec![AxisChunks::of(lengths.iter().copied())]);
        spec.filters = Choice::Set(vec![Json::named("reshape", [("shape", [5u64].as_slice().into())])]);
        spec
    };
    let said = |error: ZarrError| {
        let error = error.to_string();
        assert!(error.contains("chunks of shape [") && error.contains("reshape"), "{error}");
    };
    said(Array::create(store.clone(), "a", described(&[1, 5, 1], 7), false).unwrap_err());
    // The same for chunks without any element yet.
    said(Array::create(store.clone(), "a", described(&[5, 1], 5), false).unwrap_err());
    assert_eq!(store.list(None).unwrap(), [""; 0]);

    let mut array = Array::create(store.clone(), "a", described(&[5], 5), false).unwrap();
    let before = store.list(None).unwrap();
    said(array.resize(&[7], None).unwrap_err());
    let never = |_: &Array, _| unreachable!("nothing is written");
    said(array.append_with::<ZarrError>(0, 2, &[5], None, never).unwrap_err());
    assert_eq!((array.layout().shape(), store.list(None).unwrap()), (&[5][..], before));
    assert_eq!(Array::open(&store, "a", None).unwrap().layout().shape(), [5]);
    array.resize(&[10], None).unwrap();
    let again = Array::open(&store, "a", None).unwrap();
    let found = engine::read(again.layout(), &Selection::all(&[10]), ReadOptions::default()).unwrap();
    assert_eq!(found.as_slice(), [0; 40]);
}

fn boxed(array: &Array, from: [i64; 2], to: [i64; 2]) -> Selection {
    let indices = [Index::range(from[0], to[0]), Index::range(from[1], to[1])];
    Selection::new("a", array.layout().shape(), &indices).unwrap()
}

/// Sets all elements of a box.
fn set(array: &Array, from: [i64; 2], to: [i64; 2], value: i32) {
    let selection = boxed(array, from, to);
    let value = value.to_ne_bytes();
    let source = Source::repeat(&value, &selection.shape());
    engine::write(array.layout(), &selection, &source, WriteOptions::default()).unwrap();
}

/// The elements of a box.
fn read(array: &Array, from: [i64; 2], to: [i64; 2]) -> Vec<i32> {
    let found = engine::read(array.layout(), &boxed(array, from, to), ReadOptions::default()).unwrap();
    found.as_slice().chunks_exact(4).map(|bytes| i32::from_ne_bytes(bytes.try_into().unwrap())).collect()
}

/// Formats with their chunk names, and the shape of shards, if any.
const ENCODINGS: [(Format, KeyEncoding, Option<[u64; 2]>); 7] = [
    (Format::V3, KeyEncoding::Default { separator: '/' }, None),
    (Format::V3, KeyEncoding::Default { separator: '/' }, Some([2, 3])),
    (Format::V3, KeyEncoding::Default { separator: '.' }, None),
    (Format::V3, KeyEncoding::V2 { separator: '/' }, Some([2, 3])),
    (Format::V3, KeyEncoding::Fanout { max_children: 4 }, None),
    (Format::V2, KeyEncoding::V2 { separator: '.' }, None),
    (Format::V2, KeyEncoding::V2 { separator: '/' }, None),
];

/// An array whose objects have 2 × 3 elements.
fn array_of(encoding: &(Format, KeyEncoding, Option<[u64; 2]>), shape: &[u64; 2]) -> Array {
    let (format, keys, shards) = encoding;
    let mut spec = spec(*format, shape, if shards.is_some() { &[1, 3] } else { &[2, 3] });
    spec.key_encoding = Some(keys.clone());
    spec.shards = shards.map(|shards| shards.as_slice().into());
    spec.fill = Some(7i32.to_ne_bytes().to_vec());
    Array::create(memory(), "g/a", spec, false).unwrap()
}

#[test]
fn resizing_deletes_what_is_outside() {
    for encoding in &ENCODINGS {
        // Looks for chunks by name, then by listing.
        for large in [1, 1 << 40] {
            for new in [[5, 7], [10, 0], [2, 14], [4, 6], [0, 0], [11, 15], [10, 14]] {
                let mut array = array_of(encoding, &[10 * large, 14]);
                let store = array.store().clone();
                set(&array, [0, 0], [10, 14], 3);
                put(&store, "g/a/notes.txt", "");
                put(&store, "g/b/c/4/4", "");
                assert_eq!(array.chunks_stored(None).unwrap().0, 25);
                array.resize(&new, None).unwrap();
                assert_eq!(array.layout().shape(), new);
                let opened = Array::open(&store, "g/a", None).unwrap();
                assert_eq!(opened.layout().shape(), new);
                assert_eq!((opened.chunks(), opened.shards()), (array.chunks(), array.shards()));
                let counts = [new[0].div_ceil(2).min(5), new[1].div_ceil(3).min(5)];
                let expected: BTreeSet<(u64, u64)> =
                    (0..counts[0]).flat_map(|i| (0..counts[1]).map(move |j| (i, j))).collect();
                let found: BTreeSet<(u64, u64)> =
                    array.chunk_keys(None).unwrap().iter().map(|(_, chunk)| (chunk[0], chunk[1])).collect();
                assert_eq!(found, expected, "{encoding:?} {large} {new:?}");
                assert_eq!(array.chunks_stored(None).unwrap().0, expected.len() as u64);
                assert_eq!(get(&store, "g/a/notes.txt").as_deref(), Some(""));
                assert_eq!(get(&store, "g/b/c/4/4").as_deref(), Some(""));
            }
        }
    }
}

/// Elements that a resize, or a killed resize, cut off read as fill value afterwards.
#[test]
fn what_is_cut_off_does_not_come_back() {
    for encoding in &ENCODINGS {
        for (large, small) in
            [([10, 14], [5, 7]), ([10, 14], [5, 14]), ([10, 14], [10, 0]), ([1 << 40, 14], [3, 13])]
        {
            for killed in [false, true] {
                let mut array = array_of(encoding, &large);
                set(&array, [0, 0], [10, 14], 3);
                if killed {
                    // The shape was stored, nothing was deleted.
                    let (shrunk, stored) = array.reshaped(&small).unwrap();
                    node::write_document(array.store(), &stored.key, &stored.document).unwrap();
                    array = shrunk;
                } else {
                    array.resize(&small, None).unwrap();
                }
                array.resize(&[11, 15], None).unwrap();
                let kept = [small[0].min(10), small[1].min(14)];
                let found = read(&array, [0, 0], [11, 15]);
                for (at, value) in found.iter().enumerate() {
                    let inside = (at as u64 / 15) < kept[0] && (at as u64 % 15) < kept[1];
                    assert_eq!(*value, if inside { 3 } else { 7 }, "{encoding:?} {small:?} {killed} {at}");
                }
            }
        }
    }
}

#[test]
fn growing_costs_what_is_stored_at_the_edge() {
    for encoding in &ENCODINGS {
        let mut array = array_of(encoding, &[1 << 60, 1 << 60]);
        set(&array, [0, 0], [10, 14], 3);
        array.resize(&[(1 << 60) + 1, (1 << 61) + 7], None).unwrap();
        array.resize(&[3, 1 << 60], None).unwrap();
        array.resize(&[1 << 62, 1 << 62], None).unwrap();
        assert_eq!(read(&array, [2, 0], [4, 2]), [3, 3, 7, 7]);
        assert_eq!(array.chunks_stored(None).unwrap().0, 10);
    }
}

#[test]
fn a_resize_can_be_stopped() {
    let mut array = array_of(&ENCODINGS[0], &[10, 14]);
    set(&array, [0, 0], [10, 14], 3);
    // When objects are deleted the shape is already new, so remaining objects are not seen.
    let stopped = array.resize(&[5, 7], Some(&|| true));
    assert!(matches!(stopped, Err(ZarrError::Array(ArrayError::Interrupted { .. }))));
    assert_eq!(array.layout().shape(), [5, 7]);
    // Nothing has changed yet when objects that would become visible are removed.
    let stopped = array.resize(&[11, 15], Some(&|| true));
    assert!(matches!(stopped, Err(ZarrError::Array(ArrayError::Interrupted { .. }))));
    assert_eq!(array.layout().shape(), [5, 7]);
    array.resize(&[11, 15], None).unwrap();
    assert_eq!(read(&array, [4, 6], [6, 8]), [3, 7, 7, 7]);
}

fn append(array: &mut Array, rows: u64, value: i32) -> Result<()> {
    let like = array.layout().shape().to_vec();
    array.append_with(0, rows, &like, None, |array, first| {
        let columns = array.layout().shape()[1] as i64;
        set(array, [first as i64, 0], [(first + rows) as i64, columns], value);
        Ok(())
    })
}

#[test]
fn appends_build_on_what_is_stored() {
    for encoding in &ENCODINGS {
        let mut one = array_of(encoding, &[0, 4]);
        let mut other = one.clone();
        for value in [1, 2, 3] {
            append(&mut one, 1, value).unwrap();
        }
        append(&mut other, 2, 9).unwrap();
        assert_eq!(other.layout().shape(), [5, 4]);
        append(&mut one, 1, 4).unwrap();
        let found = read(&Array::open(one.store(), "g/a", None).unwrap(), [0, 0], [6, 1]);
        assert_eq!(found, [1, 2, 3, 9, 9, 4]);
    }
}

#[test]
fn failed_appends_leave_nothing_that_shows() {
    for encoding in &ENCODINGS {
        let mut array = array_of(encoding, &[1, 4]);
        set(&array, [0, 0], [1, 4], 1);
        let failed: Result<()> = array.append_with(0, 5, &[1, 4], None, |array, _| {
            set(array, [1, 0], [6, 4], 8);
            Err(ZarrError::Invalid { path: "g/a".into(), why: "no".into() })
        });
        assert!(matches!(failed, Err(ZarrError::Invalid { why, .. }) if why == "no"));
        assert_eq!(array.layout().shape(), [1, 4]);
        assert_eq!(array.chunks_stored(None).unwrap().0, 2);
        // A killed append leaves everything but the shape.
        let (longer, _) = array.reshaped(&[6, 4]).unwrap();
        set(&longer, [1, 0], [6, 4], 8);
        append(&mut array, 1, 2).unwrap();
        assert_eq!(read(&array, [0, 0], [2, 4]), [1, 1, 1, 1, 2, 2, 2, 2]);
        array.resize(&[6, 4], None).unwrap();
        assert_eq!(read(&array, [2, 0], [6, 4]), [7; 16]);
        let other: Result<()> = array.append_with(0, 1, &[6, 5], None, |_, _| Ok(()));
        assert!(matches!(other, Err(ZarrError::Array(ArrayError::Shape { .. }))));
    }
}

#[test]
fn a_handler_is_told_that_its_thread_changes_the_array() {
    let mut array = array_of(&ENCODINGS[0], &[0, 4]);
    let mut other = array.clone();
    let within: Result<()> =
        array.append_with(0, 1, &[0, 4], None, |_, _| other.set_attributes(Json::object()));
    assert!(matches!(within, Err(ZarrError::Store(StoreError::Busy { .. }))));
    other.set_attributes(Json::object()).unwrap();
}

#[test]
fn attributes_of_all_threads_stay() {
    for format in [Format::V2, Format::V3] {
        let array = Array::create(memory(), "a", spec(format, &[0, 2], &[1, 2]), false).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4u32 {
                let mut array = array.clone();
                scope.spawn(move || {
                    for n in 0..10u32 {
                        let name = format!("{thread} {n}");
                        array.change_attributes(None, |all| all.set(&name, n.into())).unwrap();
                        append(&mut array, 1, 1).unwrap();
                    }
                });
            }
        });
        let found = Array::open(array.store(), "a", None).unwrap();
        assert_eq!(found.attributes().as_object().unwrap().len(), 40);
        assert_eq!(found.layout().shape(), [40, 2]);
        assert_eq!(read(&found, [0, 0], [40, 2]), [1; 80]);
    }
}

#[test]
fn resizing_is_refused_without_a_change() {
    let store = memory();
    let mut array = Array::create(store.clone(), "a", spec(Format::V3, &[4, 4], &[2, 2]), false).unwrap();
    for bad in [&[4][..], &[4, 4, 4], &[4, 1 << 63], &[4, u64::MAX]] {
        assert!(matches!(array.resize(bad, None), Err(ZarrError::Invalid { .. })), "{bad:?}");
        assert_eq!(Array::open(&store, "a", None).unwrap().layout().shape(), [4, 4]);
    }
    array.resize(&[i64::MAX as u64, 0], None).unwrap();
    assert_eq!(array.layout().shape(), [i64::MAX as u64, 0]);
}

#[test]
fn a_chunk_size_of_zero_grows_with_its_axis() {
    let store = memory();
    put(
        &store,
        ".zarray",
        r#"{"shape": [0], "chunks": [0], "dtype": "<f4", "fill_value": 0, "order": "C", "filters": null, "compressor": null, "zarr_format": 2}"#,
    );
    let mut array = Array::open(&store, "", None).unwrap();
    array.resize(&[3], None).unwrap();
    assert_eq!(Array::open(&store, "", None).unwrap().layout().grid().chunk_shape(), [1]);
}
