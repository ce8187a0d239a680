//! Tests the facade that wraps the layers below, and its errors.

mod common;

use common::{created, memory, spec};
use hyperslab::prelude::*;
use hyperslab::{Error, Json, open_node, zarr};

fn array(dtype: &str) -> Array {
    created(&memory(), "a", spec(Format::ZarrV2, &[3, 4], &[2, 2], dtype))
}

#[test]
fn numbers_in_and_out_in_either_byte_order() {
    for dtype in ["<i4", ">i4"] {
        let array = array(dtype);
        let all: Vec<i32> = (0..12).collect();
        array.write_slice(&[], &all).unwrap();
        assert_eq!(array.read_vec::<i32>(&[]).unwrap(), all, "{dtype}");
        array.write_slice(&[Index::At(-1), Index::range(1, 3)], &[-5, 1 << 30]).unwrap();
        assert_eq!(array.read_vec::<i32>(&[Index::At(2)]).unwrap(), [8, -5, 1 << 30, 11], "{dtype}");
    }
}

#[test]
fn other_types_and_other_counts_are_refused() {
    let array = array(">f4");
    let error = array.read_vec::<f64>(&[]).unwrap_err().to_string();
    assert_eq!(error, "array '/a' has elements of type >f4, not f64");
    assert!(matches!(array.write_slice(&[], &[1u32; 12]), Err(Error::ElementType { .. })));
    assert!(matches!(array.write_slice(&[], &[1f32; 11]), Err(Error::Array(_))));
    assert!(matches!(array.read_vec::<f32>(&[Index::At(3)]), Err(Error::Array(_))));
}

#[test]
fn a_result_too_large_for_memory_is_an_error() {
    let array = created(&memory(), "", spec(Format::ZarrV3, &[1 << 40, 1 << 22], &[1, 1], "<f8"));
    let error = array.read_vec::<f64>(&[]).unwrap_err();
    assert!(error.to_string().contains("bytes of memory"), "{error}");
}

#[test]
fn appending() {
    let mut array = array("<i4");
    array.append(0, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    assert_eq!(array.shape(), [5, 4]);
    assert_eq!(array.read_vec::<i32>(&[Index::At(4)]).unwrap(), [5, 6, 7, 8]);
    array.append(1, &[9; 5]).unwrap();
    assert_eq!(array.read_vec::<i32>(&[Index::At(3)]).unwrap(), [1, 2, 3, 4, 9]);
    for (axis, why) in [(0, "no multiple of the 5"), (2, "no axis 2")] {
        let error = array.append(axis, &[1i32; 4]).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    assert_eq!(array.shape(), [5, 5]);
}

#[test]
fn groups_and_what_is_in_them() {
    let directory = tempfile::tempdir().unwrap();
    let location = directory.path().join("a.zarr").display().to_string();
    let root = Group::create(&location, Format::ZarrV3).unwrap();
    assert!(Group::create(&location, Format::ZarrV3).is_err());
    let inner = root.create_group("x", Json::object()).unwrap();
    inner.create_array("y", &ArraySpec::new(zarr::Format::V3, &[4], "|u1".parse().unwrap())).unwrap();

    let y = hyperslab::open(&format!("file://{location}/x/y")).unwrap().into_array().unwrap();
    y.write_slice(&[], &[1u8, 2, 3, 4]).unwrap();
    assert_eq!(root.array("x/y").unwrap().read_vec::<u8>(&[]).unwrap(), [1, 2, 3, 4]);
    assert!(matches!(root.group("x/y"), Err(Error::NodeKind { .. })));
    assert!(matches!(root.array("x"), Err(Error::NodeKind { .. })));
    let walked = root.walk(None).unwrap();
    assert!(walked.iter().map(|(path, _)| path).eq(["x", "x/y"]), "{walked:?}");
    assert!(open_node(root.store(), "x", Some(Format::ZarrV2)).is_err());

    let info = root.info(None).unwrap();
    assert_eq!((info.groups, info.arrays, info.bytes, info.chunks_stored), (1, 1, 4, Some(1)));
    std::fs::write(
        directory.path().join("a.zarr/x/y/zarr.json"),
        r#"{"zarr_format": 3, "node_type": "array"}"#,
    )
    .unwrap();
    let info = root.info(None).unwrap();
    assert_eq!((info.arrays, info.failures.len()), (0, 1));
    assert!(info.failures[0].1.contains("shape is missing"), "{:?}", info.failures);
}

#[test]
fn facts() {
    let array = array(">f4");
    array.write_slice(&[Index::At(0)], &[1f32; 4]).unwrap();
    let info = array.info(None).unwrap();
    assert_eq!((info.chunks_stored, info.chunks_total, info.bytes, info.chunk_bytes), (Some(2), 4, 48, 16));
    assert_eq!(info.order_name(), Some("C"));
    let json = info.to_json();
    let of = |name: &str| json.get(name).unwrap().to_text(None);
    assert_eq!(
        [of("kind"), of("shape"), of("grid"), of("dtype"), of("order"), of("fill_value")].join(" "),
        r#""array" [3, 4] [2, 2] ">f4" "C" null"#
    );
    assert!(info.ratio().unwrap() > 0.0);
}
