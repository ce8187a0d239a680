//! Each kind of damage is found, named, and nothing else is blamed.

use super::*;
use crate::copy::{CopyOptions, copy};
use crate::prelude::*;
use crate::{Json, zarr};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A finding as tests compare it.
type Short = (Severity, &'static str, String, Option<Vec<u64>>);

fn run(path: &Path, options: &ValidateOptions<'_>) -> Report {
    validate(&[Subject::Location(path.display().to_string())], options).unwrap()
}

fn all() -> ValidateOptions<'static> {
    ValidateOptions { decode: true, missing: true, ..ValidateOptions::default() }
}

fn short(report: &Report) -> BTreeSet<Short> {
    let short = |finding: &Finding| {
        (finding.severity, finding.kind.name(), finding.path.clone(), finding.chunk.clone())
    };
    report.findings.iter().map(short).collect()
}

fn one(severity: Severity, kind: Kind, path: &str, chunk: Option<&[u64]>) -> BTreeSet<Short> {
    BTreeSet::from([(severity, kind.name(), path.to_owned(), chunk.map(<[u64]>::to_vec))])
}

/// A hierarchy: `/a` with chunks of 4 × 4, `/g/b` with its last chunk absent, `/g/text`.
fn hierarchy(format: Format, shards: bool) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("whole.zarr");
    let location = path.display().to_string();
    let root = Group::create(&location, format).unwrap();
    let format = format.zarr().unwrap();
    let spec = |shape: &[u64], chunks: &[u64]| {
        let mut spec = ArraySpec::new(format, shape, "<i4".parse().unwrap());
        spec.chunks = Some(chunks.into());
        if shards {
            spec.shards = Some(chunks.iter().map(|n| n * 2).collect());
        }
        spec
    };
    let a = root.create_array("a", &spec(&[10, 8], &[4, 4])).unwrap();
    a.write_slice(&[], &(1..81).collect::<Vec<i32>>()).unwrap();
    let b = root.create_array("g/b", &spec(&[6], &[2])).unwrap();
    b.write_slice(&[Index::range(0, 4)], &[7_i32; 4]).unwrap();
    (directory, path)
}

fn key(format: Format, path: &Path, array: &str, chunk: &[u64]) -> PathBuf {
    let names: Vec<String> = chunk.iter().map(u64::to_string).collect();
    match format {
        Format::ZarrV2 => path.join(array).join(names.join(".")),
        _ => path.join(array).join("c").join(names.join("/")),
    }
}

fn document(format: Format) -> &'static str {
    if format == Format::ZarrV2 { ".zarray" } else { "zarr.json" }
}

const FORMATS: [Format; 2] = [Format::ZarrV2, Format::ZarrV3];

#[test]
fn whole_hierarchies_have_no_findings() {
    for (format, shards) in [(Format::ZarrV2, false), (Format::ZarrV3, false), (Format::ZarrV3, true)] {
        let (_kept, path) = hierarchy(format, shards);
        let report = run(&path, &all());
        assert_eq!(report.findings, [], "{format} {shards}");
        let [looked] = report.looked.as_slice() else { panic!("{report:?}") };
        assert_eq!(
            (looked.arrays, looked.groups, looked.format.as_str()),
            (2, 2, format.to_string().as_str())
        );
        assert!(looked.decoded >= 80 * 4, "{}", looked.decoded);
        let missing: Vec<_> =
            looked.missing.iter().map(|found| (found.path.as_str(), found.total, found.absent)).collect();
        assert_eq!(missing, [("/a", 6, 0), ("/g/b", 3, 1)]);
        assert_eq!(looked.missing[1].first, [[2]]);
        assert_eq!(report.exit_code(Severity::Note), 0);
    }
}

#[test]
fn absent_chunks_are_findings_if_they_are_expected() {
    for format in FORMATS {
        let (_kept, path) = hierarchy(format, false);
        fs::remove_file(key(format, &path, "a", &[1, 1])).unwrap();
        let report = run(&path, &ValidateOptions { expect_complete: true, ..Default::default() });
        let mut expected = one(Severity::Error, Kind::Absent, "/a", None);
        expected.extend(one(Severity::Error, Kind::Absent, "/g/b", None));
        assert_eq!(short(&report), expected);
        assert_eq!(report.looked[0].missing[0].first, [[1, 1]]);
        assert_eq!(report.looked[0].decoded, 0);
    }
}

#[test]
fn damaged_chunks_are_named_and_the_others_go_on() {
    for format in FORMATS {
        // The last chunk reaches beyond the end of the array.
        for chunk in [[0, 1], [2, 0]] {
            let (_kept, path) = hierarchy(format, false);
            let file = key(format, &path, "a", &chunk);
            let bytes = fs::read(&file).unwrap();
            fs::write(&file, &bytes[..bytes.len() - 2]).unwrap();
            let report = run(&path, &all());
            assert_eq!(short(&report), one(Severity::Error, Kind::Damaged, "/a", Some(&chunk)), "{format}");
            let key = report.findings[0].key.as_deref().unwrap();
            assert!(file.ends_with(key), "{key}");
            // Five whole chunks of 16 elements are decoded, beside the damaged one.
            assert!(report.looked[0].decoded >= 5 * 64, "{}", report.looked[0].decoded);
            // The structure does not decode.
            assert_eq!(run(&path, &ValidateOptions::default()).findings, []);
        }
    }
}

#[test]
fn sizes_that_cannot_be_right() {
    for format in FORMATS {
        let (_kept, path) = hierarchy(format, false);
        fs::write(key(format, &path, "a", &[1, 0]), b"").unwrap();
        let report = run(&path, &all());
        assert_eq!(short(&report), one(Severity::Error, Kind::Empty, "/a", Some(&[1, 0])), "{format}");
        fs::write(key(format, &path, "a", &[1, 0]), vec![0; 1_000_000]).unwrap();
        let report = run(&path, &all());
        assert_eq!(short(&report), one(Severity::Error, Kind::WrongSize, "/a", Some(&[1, 0])), "{format}");
    }
}

#[test]
fn keys_that_no_array_owns() {
    for format in FORMATS {
        let (_kept, path) = hierarchy(format, false);
        fs::write(path.join("a").join("notes.txt"), b"x").unwrap();
        fs::write(path.join("readme"), b"x").unwrap();
        let outside = key(format, &path, "a", &[7, 0]);
        fs::create_dir_all(outside.parent().unwrap()).unwrap();
        fs::write(outside, b"x").unwrap();
        fs::write(path.join("a").join(".1.2.hyperslab-tmp"), b"x").unwrap();
        let mut expected = one(Severity::Warning, Kind::Unowned, "/a", None);
        expected.extend(one(Severity::Note, Kind::Unowned, "/", None));
        expected.extend(one(Severity::Warning, Kind::OutsideGrid, "/a", None));
        expected.extend(one(Severity::Warning, Kind::Leftover, "/a", None));
        let report = run(&path, &all());
        assert_eq!(short(&report), expected, "{format}");
        assert_eq!([Severity::Error, Severity::Warning].map(|from| report.exit_code(from)), [0, 1]);
    }
}

#[test]
fn documents_that_cannot_be_read() {
    for format in FORMATS {
        let (_kept, path) = hierarchy(format, false);
        fs::write(path.join("a").join(document(format)), b"{\"zarr_format\":").unwrap();
        let report = run(&path, &all());
        assert_eq!(short(&report), one(Severity::Error, Kind::Metadata, "/a", None), "{format}");
        assert_eq!(report.looked[0].arrays, 1);
        // A document that is gone: its chunks belong to nobody.
        fs::remove_file(path.join("a").join(document(format))).unwrap();
        let found = short(&run(&path, &all()));
        assert!(
            found.iter().any(|found| found.1 == "unowned-key" && found.0 == Severity::Warning),
            "{found:?}"
        );
        assert!(found.iter().all(|found| found.0 != Severity::Error), "{found:?}");
    }
}

#[test]
fn groups_and_formats() {
    let (_kept, path) = hierarchy(Format::ZarrV3, false);
    fs::remove_file(path.join("g").join("zarr.json")).unwrap();
    assert_eq!(short(&run(&path, &all())), one(Severity::Warning, Kind::NoGroup, "/g", None));
    let (_kept, path) = hierarchy(Format::ZarrV3, false);
    fs::write(path.join(".zgroup"), b"{\"zarr_format\": 2}").unwrap();
    assert_eq!(short(&run(&path, &all())), one(Severity::Warning, Kind::Mixed, "/", None));
}

#[test]
fn consolidated_metadata_that_is_out_of_date() {
    for format in FORMATS {
        let (_kept, path) = hierarchy(format, false);
        let mut root = Group::open(&path.display().to_string()).unwrap();
        root.as_zarr_mut().unwrap().consolidate(None).unwrap();
        assert_eq!(run(&path, &all()).findings, [], "{format}");
        let file = path.join("a").join(document(format));
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text.replacen("10", "12", 1)).unwrap();
        let report = run(&path, &ValidateOptions::default());
        assert_eq!(short(&report), one(Severity::Error, Kind::Stale, "/a", None), "{format}");
        let finding = &report.findings[0];
        assert!(finding.found.contains("shape") && finding.expected.as_deref().unwrap().contains("12"));
        fs::remove_dir_all(path.join("a")).unwrap();
        let report = run(&path, &all());
        assert_eq!(short(&report), one(Severity::Error, Kind::Stale, "/a", None), "{format}");
    }
}

#[test]
fn shards() {
    let damaged = |change: &dyn Fn(&mut Vec<u8>)| {
        let (kept, path) = hierarchy(Format::ZarrV3, true);
        let file = key(Format::ZarrV3, &path, "a", &[0, 0]);
        let mut bytes = fs::read(&file).unwrap();
        change(&mut bytes);
        fs::write(&file, bytes).unwrap();
        assert!(file.exists());
        (kept, path)
    };
    // A chunk: it is at the start.
    let (_kept, path) = damaged(&|bytes| bytes[..4].fill(0xEE));
    let report = run(&path, &all());
    assert_eq!(short(&report), one(Severity::Error, Kind::Damaged, "/a", Some(&[0, 0])));
    assert_eq!((report.findings[0].offset, report.findings[0].key.as_deref()), (Some(0), Some("a/c/0/0")));
    // The checksum of the index.
    let (_kept, path) = damaged(&|bytes| *bytes.last_mut().unwrap() ^= 1);
    for options in [ValidateOptions::default(), all()] {
        let report = run(&path, &options);
        assert_eq!(short(&report), one(Severity::Error, Kind::ShardIndex, "/a", None));
        assert_eq!(report.findings[0].key.as_deref(), Some("a/c/0/0"));
    }
    // A shard that is shorter than its index.
    let (_kept, path) = damaged(&|bytes| bytes.truncate(9));
    assert_eq!(short(&run(&path, &all())), one(Severity::Error, Kind::WrongSize, "/a", None));
    // Bytes that nothing refers to, in front of the index.
    let (_kept, path) = damaged(&|bytes| {
        let index = bytes.split_off(bytes.len() - 68);
        bytes.extend(vec![0; 4096]);
        bytes.extend(index);
    });
    let report = run(&path, &all());
    assert_eq!(short(&report), one(Severity::Note, Kind::DeadSpace, "/a", None));
    assert!(report.findings[0].found.starts_with("4096 bytes in 1 shards"), "{}", report.findings[0]);
}

#[test]
fn what_does_not_exist_could_not_be_looked_at() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("text.txt"), "hello").unwrap();
    fs::create_dir(directory.path().join("empty")).unwrap();
    for name in ["none.zarr", "text.txt", "empty"] {
        let report = run(&directory.path().join(name), &all());
        assert_eq!(report.findings, [], "{name}");
        assert_eq!((report.unreached.len(), report.exit_code(Severity::Error)), (1, 2), "{name}");
    }
}

/// The hierarchy in a file.
fn file(name: &str) -> (TempDir, PathBuf) {
    let (directory, path) = hierarchy(Format::ZarrV3, false);
    let to = directory.path().join(name);
    let source = crate::open(&path.display().to_string()).unwrap();
    copy(&source, &to.display().to_string(), &CopyOptions::default()).unwrap();
    (directory, to)
}

#[test]
fn hdf5_files() {
    let (_kept, path) = file("whole.h5");
    let report = run(&path, &all());
    assert_eq!(report.findings, []);
    assert_eq!((report.looked[0].arrays, report.looked[0].format.as_str()), (2, "HDF5"));
    let missing = &report.looked[0].missing;
    assert!(missing.iter().any(|found| found.path == "/g/b" && found.total == 3), "{missing:?}");
    let bytes = fs::read(&path).unwrap();
    // A chunk.
    let group = Group::open(&path.display().to_string()).unwrap();
    let index = group.array("a").unwrap().as_hdf5().unwrap().chunk_index().unwrap().unwrap();
    let record = index.records[3];
    let mut damaged = bytes.clone();
    let (start, end) = (record.address as usize, (record.address + record.size) as usize);
    damaged[start..end].fill(0xEE);
    fs::write(&path, &damaged).unwrap();
    let report = run(&path, &all());
    assert_eq!(short(&report), one(Severity::Error, Kind::Damaged, "/a", Some(&[1, 1])));
    assert_eq!(report.findings[0].offset, Some(record.address));
    // The end is gone.
    fs::write(&path, &bytes[..bytes.len() - 5]).unwrap();
    let report = run(&path, &all());
    assert_eq!(short(&report), one(Severity::Error, Kind::Truncated, "/", None));
    assert_eq!(report.exit_code(Severity::Error), 1);
}

#[test]
fn netcdf3_files() {
    // A classic file has no groups: it gets the array alone.
    let (_kept, path) = hierarchy(Format::ZarrV3, false);
    let to = path.with_file_name("whole.nc3");
    let source = Group::open(&path.display().to_string()).unwrap();
    fs::remove_dir_all(path.join("g")).unwrap();
    let options = CopyOptions { file_format: Some("netcdf3".parse().unwrap()), ..CopyOptions::default() };
    copy(&Node::Group(source), &to.display().to_string(), &options).unwrap();
    let report = run(&to, &all());
    assert_eq!(report.findings, []);
    assert_eq!((report.looked[0].arrays, report.looked[0].format.as_str()), (1, "NetCDF-3"));
    assert_eq!(report.looked[0].decoded, 320);
    let bytes = fs::read(&to).unwrap();
    fs::write(&to, &bytes[..bytes.len() - 8]).unwrap();
    assert_eq!(short(&run(&to, &all())), one(Severity::Error, Kind::Truncated, "/a", None));
}

#[test]
fn conventions_of_coordinates() {
    let directory = tempfile::tempdir().unwrap();
    let location = directory.path().join("cf.zarr").display().to_string();
    let root = Group::create(&location, Format::ZarrV3).unwrap();
    let variable = |name: &str, dimension: &str, values: &[f64], attributes: &str| {
        let mut spec = ArraySpec::new(zarr::Format::V3, &[values.len() as u64], "<f8".parse().unwrap());
        spec.dimension_names = Some(vec![Some(dimension.to_owned())]);
        spec.attributes = Json::parse(attributes.as_bytes()).unwrap();
        root.create_array(name, &spec).unwrap().write_slice(&[], values).unwrap();
    };
    let days = r#"{"units": "days since 2000-01-01"}"#;
    let rising: Vec<f64> = (0..20).map(f64::from).collect();
    let mut gap = rising.clone();
    gap[10..].iter_mut().for_each(|day| *day += 3.0);
    variable("good", "good", &rising, days);
    variable("gap", "gap", &gap, days);
    variable("twice", "twice", &[1.0, 2.0, 2.0, 3.0], "{}");
    variable("mixed", "mixed", &[1.0, 3.0, 2.0], "{}");
    variable("holes", "holes", &[1.0, f64::NAN, 2.0], "{}");
    variable("falls", "falls", &[3.0, 2.0, 1.0], "{}");
    variable("unit", "good", &rising, r#"{"units": "fortnights since 2000-01-01", "bounds": "none"}"#);
    variable("long", "good", &[1.0, 2.0], "{}");
    let report = run(Path::new(&location), &ValidateOptions::default());
    let found: BTreeSet<(&str, &str)> =
        report.findings.iter().map(|finding| (finding.path.as_str(), finding.kind.name())).collect();
    let expected = BTreeSet::from([
        ("/gap", "time-gap"),
        ("/twice", "duplicate-coordinate"),
        ("/mixed", "unordered-coordinate"),
        ("/holes", "missing-coordinate"),
        ("/unit", "attribute"),
        ("/unit", "no-variable"),
        ("/long", "dimension-lengths"),
    ]);
    assert_eq!(found.difference(&expected).collect::<Vec<_>>(), Vec::<&(&str, &str)>::new());
    assert!(report.findings.iter().all(|finding| finding.severity == Severity::Warning), "{report:?}");
    assert_eq!(found, expected);
    let gap = report.findings.iter().find(|finding| finding.kind == Kind::TimeGap).unwrap();
    assert!(gap.found.contains("1 of 19 steps") && gap.found.contains("3 times"), "{gap}");
    let quiet = ValidateOptions { no_conventions: true, ..ValidateOptions::default() };
    assert_eq!(run(Path::new(&location), &quiet).findings, []);
}

#[test]
fn costs_are_known_beforehand() {
    let (_kept, path) = hierarchy(Format::ZarrV3, false);
    let subjects = [Subject::Location(path.display().to_string())];
    let [cost] = &explain(&subjects, &all()).unwrap()[..] else { panic!("one subject") };
    assert_eq!((cost.nodes, cost.objects, cost.decode_requests), (4, 8, 8));
    let bytes = fs::metadata(key(Format::ZarrV3, &path, "g/b", &[0])).unwrap().len();
    assert!(cost.decode_bytes > bytes && cost.unknown == 0);
}

#[test]
fn work_can_be_stopped() {
    struct Stop;
    impl Progress for Stop {
        fn cancelled(&self) -> bool {
            true
        }
    }
    let (_kept, path) = hierarchy(Format::ZarrV3, false);
    let subjects = [Subject::Location(path.display().to_string())];
    let stopped = validate(&subjects, &ValidateOptions { progress: Some(&Stop), ..all() });
    assert!(matches!(stopped, Err(Error::Interrupted)));
}

#[test]
fn a_journal_without_decoding_is_refused() {
    let (_kept, path) = hierarchy(Format::ZarrV3, false);
    let journal = path.with_extension("journal");
    let subjects = [Subject::Location(path.display().to_string())];
    let options = ValidateOptions { resume: Some(&journal), ..ValidateOptions::default() };
    let refused = validate(&subjects, &options).unwrap_err().to_string();
    assert!(refused.contains("nothing is decoded"), "{refused}");
    assert!(!journal.exists());
    validate(&subjects, &ValidateOptions { resume: Some(&journal), ..all() }).unwrap();
    assert!(journal.exists());
}
