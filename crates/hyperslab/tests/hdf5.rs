//! Tests HDF5 and NetCDF files through the common types.
//! The files come from other projects; without them the tests check nothing.

mod common;

use common::{corpus, memory};
use hyperslab::copy::{CopyOptions, copy_to_store};
use hyperslab::references::{ReferenceOptions, chunks, references};
use hyperslab::{ArraySpec, Choice, Error, Format, Group, Index, Json, Node, NodeKind, hdf5, open};
use std::path::Path;

fn group(path: &Path) -> Group {
    open(path.to_str().unwrap()).unwrap().into_group().unwrap()
}

#[test]
fn a_chunked_dataset() {
    let Some(path) = corpus("jhdf/chunked_v4_datasets.hdf5") else { return };
    let file = group(&path);
    assert_eq!((file.format(), file.path(), file.name()), (Format::Hdf5, "", "/".into()));
    assert!(file.url().starts_with("file:///") && file.url().ends_with("/chunked_v4_datasets.hdf5"));
    let array = file.array("filtered_fixed_array/int32").unwrap();
    assert_eq!(array.shape(), [5, 3]);
    assert_eq!(array.format(), Format::Hdf5);
    assert!(array.has_chunks() && array.as_zarr().is_none() && array.as_hdf5().is_some());
    let all: Vec<i32> = array.read_vec(&[]).unwrap();
    assert_eq!(array.read_vec::<i32>(&[Index::At(-1), Index::At(1)]).unwrap(), [all[13]]);
    let (number, bytes) = array.chunks_stored(None).unwrap();
    let info = array.info(None).unwrap();
    assert_eq!((info.chunks_stored, info.bytes_stored), (Some(number), Some(bytes)));
    assert!(number > 0 && bytes > 0);
    assert_eq!(info.storage, Some("chunked, found by a fixed array"));
    let explained = array.explain_read(&array.select(&[]).unwrap(), 100).unwrap();
    assert_eq!(explained.objects, 1);
}

#[test]
fn paths_lead_into_files() {
    let Some(path) = corpus("jhdf/chunked_v4_datasets.hdf5") else { return };
    let path = path.to_str().unwrap();
    let at = |rest: &str| open(&format!("{path}{rest}"));
    assert!(matches!(at("/fixed_array"), Ok(Node::Group(_))));
    assert!(matches!(
        open(&format!("file://{}/fixed_array/int8", std::fs::canonicalize(path).unwrap().display())),
        Ok(Node::Array(_))
    ));
    assert!(matches!(at("/none/of/that"), Err(Error::Hdf5(hdf5::Hdf5Error::NotFound { .. }))));
    assert!(matches!(at("/fixed_array/int8/x"), Err(Error::Hdf5(hdf5::Hdf5Error::NotFound { .. }))));
}

#[test]
fn nothing_can_be_changed() {
    let Some(path) = corpus("jhdf/chunked_v4_datasets.hdf5") else { return };
    let mut file = group(&path);
    let mut array = file.array("fixed_array/int8").unwrap();
    let refused = [
        file.set_attributes(Json::object()).unwrap_err(),
        file.create_group("new", Json::object()).unwrap_err(),
        array.set_attributes(Json::object()).unwrap_err(),
        file.delete("fixed_array").unwrap_err(),
    ];
    for error in refused {
        assert!(matches!(error, Error::OnlyRead { format: Format::Hdf5 }), "{error}");
        assert!(error.to_string().contains("Group::edit"), "{error}");
    }
    let closed = [
        array.write_slice(&[], &[0i8; 15]).unwrap_err(),
        array.resize(&[1, 1], None).unwrap_err(),
        array.append(0, &[0i8; 3]).unwrap_err(),
    ];
    for error in closed {
        assert!(matches!(error, Error::Hdf5(hyperslab::hdf5::Hdf5Error::ReadOnly { .. })), "{error}");
        assert!(error.to_string().contains("open it with mode 'r+' to change it"), "{error}");
    }
    assert_eq!(array.compact(false, None).unwrap(), 0);
}

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap()
}

#[test]
fn a_file_is_made_and_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.h5");
    let location = path.to_str().unwrap();
    let mut file = Group::create(location, Format::Hdf5).unwrap();
    file.set_attributes(json(r#"{"title": "an ocean", "levels": [1, 2]}"#)).unwrap();
    let mut spec = ArraySpec::new(Format::ZarrV3.zarr().unwrap(), &[4, 100], "<f4".parse().unwrap());
    spec.chunks = Some([1, 50].as_slice().into());
    spec.compressors = Choice::Set(vec![json(r#"{"name": "gzip", "configuration": {"level": 4}}"#)]);
    spec.fill = Some(1.5_f32.to_le_bytes().to_vec());
    spec.attributes = json(r#"{"units": "K"}"#);
    spec.dimension_names = Some(vec![Some("t".into()), Some("x".into())]);
    let mut sst = file.create_array("ocean/surface/sst", &spec).unwrap();
    assert_eq!((sst.path(), sst.codec_names().len()), ("ocean/surface/sst", 1));
    sst.write_slice(&[Index::At(2)], &[2.5_f32; 100]).unwrap();
    sst.append(0, &[3.5_f32; 100]).unwrap();
    spec.shape = [0, 100].as_slice().into();
    let mut none = file.create_array("ocean/grows", &spec).unwrap();
    assert_eq!((none.shape(), none.chunk_shape()), (&[0, 100][..], &[1, 50][..]));
    none.append(0, &[4.5_f32; 100]).unwrap();
    spec.chunks = Some([0, 50].as_slice().into());
    assert!(file.create_array("none", &spec).is_err());
    let mut plain = ArraySpec::new(Format::ZarrV2.zarr().unwrap(), &[3], "<i8".parse().unwrap());
    let run = file.create_array("plain", &plain).unwrap();
    assert!(!run.has_chunks());
    run.write_slice(&[], &[1_i64, 2, 3]).unwrap();
    let stays = file.create_group("stays/here", json(r#"{"a": null}"#)).unwrap();
    assert_eq!(stays.path(), "stays/here");

    // Refused, and nothing is left of it.
    assert!(!path.exists());
    plain.shards = Some([3].as_slice().into());
    let error = file.create_array("new/array", &plain).unwrap_err().to_string();
    assert!(error.contains("'/new/array'") && error.contains("HDF5 has no shards"), "{error}");
    for name in ["plain", "stays/here", "plain/below", "", "/"] {
        assert!(file.create_group(name, Json::object()).is_err(), "{name}");
    }
    assert!(file.child_kind("new").unwrap().is_none());
    file.finish().unwrap();
    assert!(Group::create(location, Format::Hdf5).is_err());

    let mut file = Group::edit(location).unwrap();
    assert_eq!(file.attributes().unwrap().as_ref(), &json(r#"{"levels": [1, 2], "title": "an ocean"}"#));
    let mut sst = file.array("ocean/surface/sst").unwrap();
    sst.set_attributes(json(r#"{"long_name": "temperature"}"#)).unwrap();
    // Refused as a whole: a header of this file has no attribute of 64 KiB.
    let long = format!(r#"{{"a": 1, "b": [{}]}}"#, vec!["7"; 10_000].join(","));
    let mut stays = file.group("stays/here").unwrap();
    assert!(stays.set_attributes(json(&long)).is_err());
    assert_eq!(stays.attributes().unwrap().as_ref(), &json(r#"{"a": null}"#));
    file.delete("stays/here").unwrap();
    assert!(file.delete("stays/here").is_err() && file.delete("no/such").is_err());
    file.flush().unwrap();

    let read = group(&path);
    let sst = read.array("ocean/surface/sst").unwrap();
    let columns = |at| sst.read_vec::<f32>(&[Index::At(at), Index::At(99)]).unwrap();
    assert_eq!([0, 2, 4].map(columns), [[1.5], [2.5], [3.5]]);
    assert_eq!(sst.dimension_names().unwrap(), Some(vec![Some("t".into()), Some("x".into())]));
    assert_eq!(sst.attributes().unwrap().get("long_name"), Some(&"temperature".into()));
    assert_eq!(sst.attributes().unwrap().get("units"), None);
    assert_eq!(read.array("ocean/grows").unwrap().read_vec::<f32>(&[]).unwrap(), [4.5; 100]);
    assert_eq!(read.array("plain").unwrap().read_vec::<i64>(&[]).unwrap(), [1, 2, 3]);
    assert_eq!(read.group("stays").unwrap().children().unwrap(), []);
    file.finish().unwrap();
    // A Zarr group is changed in the same words.
    let zarr = folder.path().join("z.zarr");
    Group::create(zarr.to_str().unwrap(), Format::ZarrV3).unwrap();
    let mut zarr = Group::edit(zarr.to_str().unwrap()).unwrap();
    zarr.create_group("a", Json::object()).unwrap();
    zarr.delete("a").unwrap();
    assert_eq!(zarr.children().unwrap(), []);
    zarr.finish().unwrap();
}

#[test]
fn links_are_shown_and_not_followed_in_a_walk() {
    let Some(path) = corpus("jhdf/test_file.hdf5") else { return };
    let found = group(&path).walk(None).unwrap();
    let kind = |name: &str| found.iter().find(|(path, _)| path == name).map(|(_, kind)| kind.clone());
    assert_eq!(kind("datasets_group"), Some(NodeKind::Group));
    assert_eq!(kind("datasets_group/float"), Some(NodeKind::Group));
    assert_eq!(kind("datasets_group/float/float32"), Some(NodeKind::Array));
    let link = NodeKind::Link("/datasets_group/int/int8".into());
    assert_eq!(kind("links_group/soft_link_to_int8"), Some(link));
    let soft = group(&path).array("links_group/soft_link_to_int8").unwrap();
    assert_eq!(soft.shape(), group(&path).array("datasets_group/int/int8").unwrap().shape());
    let top = group(&path).children().unwrap();
    assert!(top.iter().all(|(path, _)| !path.contains('/')) && !top.is_empty());
}

/// Each file can be walked, described, indexed and copied, or the error names the missing feature.
#[test]
fn every_file() {
    let Some(root) = corpus("") else { return };
    let (mut opened, mut copied) = (0, 0);
    for project in std::fs::read_dir(root).unwrap() {
        for file in std::fs::read_dir(project.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            let Ok(node) = open(path.to_str().unwrap()) else { continue };
            let Node::Group(group) = &node else { panic!("{}: no group", path.display()) };
            opened += 1;
            let failed = |error: Error| -> ! { panic!("{}: {error}", path.display()) };
            group.info(None).unwrap_or_else(|error| failed(error));
            if group.format() == Format::Hdf5 {
                chunks(&node, None).unwrap_or_else(|error| failed(error));
                let options = ReferenceOptions { skip_unsupported: true, ..ReferenceOptions::default() };
                references(&node, &options, None).unwrap_or_else(|error| failed(error));
            }
            let options = CopyOptions { skip_unsupported: true, verify: true, ..CopyOptions::default() };
            let report = copy_to_store(&node, &memory(), "copy", &options);
            copied += report.unwrap_or_else(|error| failed(error)).arrays;
        }
    }
    assert!(opened > 130 && copied > 3000, "{opened} files, {copied} arrays");
}
