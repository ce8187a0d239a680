//! The program from outside: its output, its files, its exit codes.

use assert_cmd::Command;
use hyperslab::prelude::*;
use hyperslab::{Choice, Json, Ragged, VlenKind};
use std::fs;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_hyperslab");

/// An ocean: a group, a half-written field, a coordinate, and an array in a subgroup.
fn ocean() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let location = directory.path().join("ocean.zarr").display().to_string();
    let mut root = Group::create(&location, Format::ZarrV2).unwrap();
    root.set_attributes(Json::from([("title", "an ocean".into()), ("depth", Json::float(f64::NAN))]))
        .unwrap();
    let mut sst = spec(Format::ZarrV2, &[4, 20, 30], &[1, 20, 30], "<f4");
    sst.dimension_names = Some(["time", "lat", "lon"].map(|name| Some(name.to_owned())).to_vec());
    sst.attributes = Json::from([("units", "°C".into())]);
    sst.fill = Some(f32::NAN.to_le_bytes().to_vec());
    let field = root.create_array("sst", &sst).unwrap();
    let values: Vec<f32> = (0..1200).map(|n| n as f32 / 7.0).collect();
    field.write_slice(&[Index::range(0, 2)], &values).unwrap();
    let mut lon = spec(Format::ZarrV2, &[30], &[30], ">f8");
    lon.compressors = Choice::Set(vec![Json::from([("id", "zlib".into()), ("level", 1u32.into())])]);
    let lon = root.create_array("grid/lon", &lon).unwrap();
    lon.write_slice(&[], &[1.5f64; 30]).unwrap();
    directory
}

/// Specification of an array without a compressor.
fn spec(format: Format, shape: &[u64], chunks: &[u64], dtype: &str) -> ArraySpec {
    let mut spec = ArraySpec::new(format.zarr().unwrap(), shape, dtype.parse().unwrap());
    spec.chunks = Some(chunks.into());
    spec.compressors = Choice::Set(Vec::new());
    spec
}

fn hyperslab(directory: &TempDir, args: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.current_dir(directory.path()).args(args).timeout(Duration::from_secs(120));
    command
}

/// Standard output of a command that succeeds without any message.
fn output(directory: &TempDir, args: &[&str]) -> String {
    let done = hyperslab(directory, args).assert().success().stderr("");
    let text = String::from_utf8(done.get_output().stdout.clone()).unwrap();
    assert!(!text.contains('\x1b'), "escape sequences without a terminal: {text:?}");
    text
}

/// The output of `info --json`.
fn info(directory: &TempDir, path: &str) -> serde_json::Value {
    serde_json::from_str(&output(directory, &["info", "--json", path])).unwrap()
}

/// The one line on standard error of a command that fails with `code`.
fn complaint(directory: &TempDir, args: &[&str], code: i32) -> String {
    let done = hyperslab(directory, args).assert().code(code).stdout("");
    let text = String::from_utf8(done.get_output().stderr.clone()).unwrap();
    let line = text.strip_suffix('\n').unwrap();
    assert!(!line.contains('\n'), "{text}");
    line.strip_prefix("hyperslab: error: ").unwrap_or_else(|| panic!("{text}")).to_owned()
}

fn names(directory: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<String> = fs::read_dir(directory).unwrap().map(name).collect();
    names.sort();
    names
}

#[test]
fn info_of_an_array() {
    let directory = ocean();
    assert_eq!(
        output(&directory, &["info", "ocean.zarr/sst"]),
        "\
ocean.zarr/sst
  kind         array, Zarr v2
  shape        (4, 20, 30)
  dimensions   time, lat, lon
  data type    float32 (<f4)
  chunks       (1, 20, 30), 2.3 KiB each
  grid         (4, 1, 1), 4 chunks
  order        C
  codecs       none
  fill value   \"NaN\"
  in memory    9.4 KiB
  stored       2 of 4 chunks, 4.7 KiB, ratio 1.00
  attributes
    units              \"°C\"
    _ARRAY_DIMENSIONS  [\"time\", \"lat\", \"lon\"]
"
    );
}

#[test]
fn elements_of_variable_length() {
    let directory = tempfile::tempdir().unwrap();
    let location = directory.path().join("names.zarr").display().to_string();
    let mut spec = ArraySpec::of_vlen(Format::ZarrV3.zarr().unwrap(), &[5], VlenKind::Text);
    spec.chunks = Some([2].as_slice().into());
    spec.fill = Some("none".into());
    spec.compressors = Choice::Set(Vec::new());
    let array = Array::create(&location, &spec).unwrap();
    let values = Ragged::of(&[2], ["Ada", ""].map(str::as_bytes).into_iter()).unwrap();
    let first = array.select(&[Index::range(0, 2)]).unwrap();
    array.write_ragged(&first, &values.into(), Default::default()).unwrap();
    assert_eq!(
        output(&directory, &["info", "names.zarr"]),
        "\
names.zarr
  kind         array, Zarr v3
  shape        (5,)
  data type    string
  chunks       (2,)
  grid         (3,), 3 chunks
  order        C
  codecs       vlen-utf8
  fill value   \"none\"
  stored       1 of 3 chunks, 15 bytes
"
    );
    let tree = output(&directory, &["tree", "names.zarr"]);
    assert!(tree.contains("string") && tree.contains("vlen-utf8"), "{tree}");
    let stdout = output(&directory, &["explain", "names.zarr[:3]"]);
    assert!(stdout.contains("2 in 2 objects") && stdout.contains("1 fill"), "{stdout}");
    let copied = output(&directory, &["copy", "--format", "v2", "--verify", "names.zarr", "v2.zarr"]);
    assert!(copied.contains("copied 1 array") && copied.contains("verified"), "{copied}");
    let json = info(&directory, "v2.zarr");
    assert_eq!((&json["dtype"], &json["fill_value"]), (&"string".into(), &"none".into()));
    assert_eq!(json["codecs"], serde_json::json!([{"id": "vlen-utf8"}]));
}

#[test]
fn info_as_json() {
    let directory = ocean();
    let json = info(&directory, "ocean.zarr/grid/lon");
    assert_eq!(json["kind"], "array");
    assert_eq!(json["format"], "Zarr v2");
    assert_eq!(json["shape"], serde_json::json!([30]));
    assert_eq!(json["dtype"], ">f8");
    assert_eq!(json["codecs"][0]["id"], "zlib");
    assert_eq!(json["chunks_stored"], 1);
    let text = output(&directory, &["info", "--json", "ocean.zarr"]);
    // As Python's json writes and reads it.
    let json = Json::parse(text.as_bytes()).unwrap();
    assert_eq!(json.get("arrays").and_then(Json::as_integer), Some(2u64));
    assert_eq!(json.get("attributes").unwrap().to_text(None), r#"{"title": "an ocean", "depth": NaN}"#);
}

#[test]
fn info_of_a_group_with_a_broken_array() {
    let directory = ocean();
    fs::write(directory.path().join("ocean.zarr/grid/lon/.zarray"), "{").unwrap();
    let text = output(&directory, &["info", "ocean.zarr"]);
    assert!(text.contains("  below it     1 array, 1 group\n"), "{text}");
    assert!(text.contains("  unreadable   grid/lon: 'grid/lon/.zarray' in file://"), "{text}");
    let text = output(&directory, &["tree", "ocean.zarr"]);
    assert!(
        text.contains("    └── lon  unreadable: ") || text.contains("│   └── lon  unreadable: "),
        "{text}"
    );
}

/// An array in nested shards and one in plain shards, with nothing written.
fn sharded() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let location = directory.path().join("s.zarr").display().to_string();
    let root = Group::create(&location, Format::ZarrV3).unwrap();
    let mut spec = ArraySpec::new(Format::ZarrV3.zarr().unwrap(), &[20, 30], "<f4".parse().unwrap());
    spec.chunks = Some([2, 5].as_slice().into());
    spec.shards = Some([10, 15].as_slice().into());
    root.create_array("plain", &spec).unwrap();
    let inner = r#"{"name": "sharding_indexed", "configuration": {"chunk_shape": [1, 5], "index_location": "start"}}"#;
    spec.serializer = Choice::Set(Json::parse(inner.as_bytes()).unwrap());
    spec.compressors = Choice::Set(vec!["crc32c".into()]);
    root.create_array("nested", &spec).unwrap();
    directory
}

#[test]
fn shards_are_shown() {
    let directory = sharded();
    let text = output(&directory, &["info", "s.zarr/plain"]);
    for line in [
        "  chunks       (2, 5), 40 bytes each\n",
        "  grid         (10, 6), 60 chunks\n",
        "  shards       (10, 15), 15 chunks each, index at the end\n",
        "  stored       0 of 4 shards, 0 bytes\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
    let text = output(&directory, &["info", "s.zarr/nested"]);
    for line in [
        "  chunks       (1, 5), 20 bytes each\n",
        "  shards       (10, 15), 30 chunks each, index at the end\n               in these, (2, 5), index at the start, as a whole through crc32c\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
    let json = info(&directory, "s.zarr/plain");
    assert_eq!(
        json["shards"],
        serde_json::json!({"shape": [10, 15], "several_shapes": false, "chunks": 15, "grid": [2, 2], "total": 4, "stored": 0,
            "levels": [{"shape": [10, 15], "index_location": "end", "codecs": []}]})
    );
    assert!(output(&directory, &["tree", "s.zarr"]).contains("(2, 5) in (10, 15)"));
}

#[test]
fn shards_are_chosen_for_a_copy() {
    let directory = sharded();
    let copied = |name: &str, options: &[&str]| {
        output(&directory, &[&["copy", "-q", "s.zarr/nested", name], options].concat());
        output(&directory, &["tree", name])
    };
    assert!(copied("a.zarr", &[]).contains("(1, 5) in (10, 15)"));
    assert!(copied("b.zarr", &["--chunks", "4,5", "--shards", "8,-1"]).contains("(4, 5) in (8, 30)"));
    assert!(copied("c.zarr", &["--shards", "auto"]).contains("(1, 5) in (32, 40)"));
    assert!(!copied("d.zarr", &["--shards", "none"]).contains(" in "));
    let line = complaint(&directory, &["copy", "s.zarr/nested", "e.zarr", "--shards", "3,7"], 1);
    assert!(line.contains("shards of [3, 7] are no multiples of its chunks [1, 5]"), "{line}");
    assert!(!directory.path().join("e.zarr").exists());
}

#[test]
fn compact_tells_of_each_array() {
    let directory = sharded();
    assert_eq!(
        output(&directory, &["compact", "s.zarr"]),
        "nested  0 bytes → 0 bytes, 0 bytes given back\nplain  0 bytes → 0 bytes, 0 bytes given back\n"
    );
    assert_eq!(
        output(&directory, &["compact", "-n", "s.zarr/plain"]),
        "s.zarr/plain  0 bytes → 0 bytes, 0 bytes to give back\n"
    );
    let ocean = ocean();
    assert_eq!(output(&ocean, &["compact", "ocean.zarr"]), "nothing to do: there are no shards\n");
}

#[test]
fn tree() {
    let directory = ocean();
    let bytes = fs::metadata(directory.path().join("ocean.zarr/grid/lon/0")).unwrap().len();
    assert_eq!(
        output(&directory, &["tree", "ocean.zarr"]),
        format!(
            "\
ocean.zarr  group, Zarr v2
             shape        type     chunks       codecs    stored
├── grid
│   └── lon  (30,)        >f8      (30,)        zlib    {bytes} bytes
└── sst      (4, 20, 30)  float32  (1, 20, 30)  -        4.7 KiB
"
        )
    );
    let shallow = output(&directory, &["tree", "--depth", "1", "ocean.zarr"]);
    assert!(shallow.contains("grid") && !shallow.contains("lon"), "{shallow}");
    assert!(
        output(&directory, &["tree", "ocean.zarr/sst"]).starts_with("ocean.zarr/sst  (4, 20, 30)  float32")
    );
}

#[test]
fn explain() {
    let directory = ocean();
    let text = output(&directory, &["explain", "ocean.zarr/sst", "1:, 5"]);
    for part in ["[3, 30]", "3 in 3 objects", "1 read-into", "2 fill", "1.0.0"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(output(&directory, &["explain", "ocean.zarr/sst[1:, 5]"]), text);
    let text = output(&directory, &["explain", "ocean.zarr/sst", "-1, ..., ::-2", "--list", "0", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["shape"], serde_json::json!([20, 15]));
    assert_eq!(json["strategies"]["fill"], 1);
    assert_eq!(json["tasks"], serde_json::json!([]));
    assert!(output(&directory, &["explain", "--write", "ocean.zarr/sst", "0"]).contains("write-from"));
}

#[test]
fn copy_converts_and_says_so_in_one_line() {
    let directory = ocean();
    let line = "copy ocean.zarr new/ocean.zarr --chunks -1,10,10 --compressor zstd:5 --order f \
        --zarr-format 3 --verify --threads 2";
    let text = output(&directory, &line.split_whitespace().collect::<Vec<_>>());
    let lines: Vec<&str> = text.lines().collect();
    let (text, notes) = lines.split_last().unwrap();
    let said = [
        "chunks as in the source, because another number of sizes was given",
        "fill value null in the source",
    ];
    assert_eq!(notes.len(), said.len(), "{notes:?}");
    for (note, why) in notes.iter().zip(said) {
        assert!(note.starts_with(&format!("note: {why}")) && note.ends_with(": /grid/lon"), "{note}");
    }
    assert!(text.starts_with("copied 2 arrays in 2 groups: 9.6 KiB, "), "{text}");
    assert!(text.contains(" stored ") && text.contains("; verified in "), "{text}");

    let at = |name: &str| directory.path().join(name).display().to_string();
    let (old, new) =
        (Array::open(&at("ocean.zarr/sst")).unwrap(), Array::open(&at("new/ocean.zarr/sst")).unwrap());
    assert_eq!((new.format(), new.chunk_shape()), (Format::ZarrV3, [4, 10, 10].as_slice()));
    assert!(new.as_zarr().unwrap().fortran_order());
    let bits =
        |array: &Array| array.read_vec::<f32>(&[]).unwrap().into_iter().map(f32::to_bits).collect::<Vec<_>>();
    assert_eq!(bits(&new), bits(&old));

    let text = output(&directory, &["copy", "--explain", "ocean.zarr", "plan.zarr", "--chunks", "-1,10,10"]);
    assert!(
        text.contains("/sst: copy ") && text.contains(" in one pass\n") && text.contains("  why "),
        "{text}"
    );
    assert!(!directory.path().join("plan.zarr").exists());

    assert_eq!(output(&directory, &["copy", "-q", "new/ocean.zarr", "back.zarr", "--format", "v2"]), "");
    assert_eq!(bits(&Array::open(&at("back.zarr/sst")).unwrap()), bits(&old));
    assert_eq!(names(directory.path()), ["back.zarr", "new", "ocean.zarr"]);
}

#[test]
fn complaints_are_one_line_and_leave_nothing() {
    let directory = ocean();
    fs::write(directory.path().join("file"), "").unwrap();
    fs::create_dir(directory.path().join("empty")).unwrap();
    for (args, code, why) in [
        (&["info", "nope"][..], 1, "there is no 'nope'"),
        (&["info", "file"], 1, "'file' is a file, but neither HDF5 nor NetCDF"),
        (&["tree", "empty"], 1, "'empty' is no array or group"),
        (&["info", "ftp://host/a"], 1, "'ftp://' is not supported"),
        (&["explain", "ocean.zarr"], 1, "is a group, not an array"),
        (&["explain", "ocean.zarr/sst", "9"], 1, "index 9 is out of bounds for axis 0 with size 4"),
        (&["explain", "ocean.zarr/sst", "a"], 2, "\"a\" is neither an integer, a slice nor '...'"),
        (&["explain", "ocean.zarr/sst[9]x"], 1, "there is no"),
        (&["copy", "ocean.zarr", "ocean.zarr", "--overwrite"], 1, "it is the source"),
        (&["copy", "ocean.zarr", "ocean.zarr/sst/x"], 1, "inside the source"),
        (&["copy", "ocean.zarr", "empty"], 1, "it exists already; pass --overwrite to replace it"),
        (&["copy", "ocean.zarr", "file", "--overwrite"], 1, "it exists and is no array or group"),
        (&["copy", "ocean.zarr", "file/x"], 1, "cannot make"),
        (
            &["copy", "ocean.zarr", "b", "--chunks", "1,2"],
            2,
            "2 sizes are given, but the source has arrays of 1, 3 axes",
        ),
        (&["copy", "nope", "b"], 1, "there is no 'nope'"),
    ] {
        let line = complaint(&directory, args, code);
        assert!(line.contains(why), "{args:?}: {line}");
    }
    assert_eq!(names(directory.path()), ["empty", "file", "ocean.zarr"]);
    assert!(names(&directory.path().join("empty")).is_empty());
}

#[test]
fn wrong_usage_and_help() {
    let directory = ocean();
    for args in [
        &["copy", "a"][..],
        &["copy", "a", "b", "--codec", "zip"],
        &["copy", "a", "b", "--chunks", "0"],
        &["copy", "a", "b", "--max-memory", "lots"],
        &["copy", "a", "b", "--format", "v9"],
        &["tree", "a", "--depth", "0"],
        &["frobnicate"],
        &[],
    ] {
        hyperslab(&directory, args).assert().code(2).stdout("");
    }
    assert_eq!(output(&directory, &["--version"]), concat!("hyperslab ", env!("CARGO_PKG_VERSION"), "\n"));
    for (args, part) in [
        (&["--help"][..], "Exit codes: 0 done"),
        (&["copy", "--help"], "blosc[:NAME[:LEVEL[:SHUFFLE]]]"),
        (&["explain", "--help"], "Examples:"),
    ] {
        assert!(output(&directory, args).contains(part), "{args:?}");
    }
}

#[test]
fn a_corrupt_chunk_is_named_and_no_copy_is_left() {
    let directory = ocean();
    fs::write(directory.path().join("ocean.zarr/sst/1.0.0"), "short").unwrap();
    let line = complaint(&directory, &["copy", "ocean.zarr", "b.zarr"], 1);
    assert!(line.starts_with("array '/sst', chunk [1, 0, 0]: 'sst/1.0.0' in file://"), "{line}");
    assert!(line.contains("has 5 bytes where 2400 are expected"), "{line}");
    assert_eq!(names(directory.path()), ["ocean.zarr"]);
}

#[test]
fn a_reader_that_has_gone_is_no_error() {
    let directory = ocean();
    let mut child = std::process::Command::new(PROGRAM)
        .args(["tree", "ocean.zarr"])
        .current_dir(directory.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let done = child.wait_with_output().unwrap();
    assert_eq!((done.status.code(), done.stderr.as_slice()), (Some(0), &[][..]));
}

/// A source that takes seconds to compress.
fn slow_source(directory: &TempDir) {
    let spec = spec(Format::ZarrV3, &[64, 1 << 18], &[1, 1 << 18], "<f4");
    let array = Array::create(&directory.path().join("slow.zarr").display().to_string(), &spec).unwrap();
    let values: Vec<f32> = (0..1 << 18).map(|n| (n as f32 * 0.37).sin() * (n as f32 * 0.001).cos()).collect();
    for step in 0..64 {
        array.write_slice(&[Index::At(step)], &values).unwrap();
    }
}

/// Starts a slow copy and waits until it has written something.
fn started(directory: &TempDir, args: &[&str]) -> Child {
    let mut command = std::process::Command::new(PROGRAM);
    let line = "copy slow.zarr b.zarr --codec gzip:9 --threads 1 --max-memory 8MiB";
    command
        .args(line.split(' '))
        .args(args)
        .current_dir(directory.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // SAFETY: signal() may be called between fork and exec. A test run in the background would
    // otherwise ignore the signal.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            Ok(())
        });
    }
    let mut child = command.spawn().unwrap();
    let start = Instant::now();
    let writing = || {
        names(directory.path())
            .iter()
            .any(|name| name.starts_with(".stage.") && directory.path().join(name).join("new/c").exists())
    };
    while !writing() {
        assert!(
            child.try_wait().unwrap().is_none() && start.elapsed() < Duration::from_secs(60),
            "no copy began"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
    child
}

fn signal(child: &Child, signal: i32) {
    // SAFETY: the child has not been waited for, so the number still belongs to it.
    unsafe { libc::kill(child.id() as i32, signal) };
}

#[test]
fn ctrl_c_leaves_no_copy() {
    let directory = tempfile::tempdir().unwrap();
    slow_source(&directory);
    for (number, code) in [(libc::SIGINT, 130), (libc::SIGTERM, 143)] {
        let mut child = started(&directory, &[]);
        signal(&child, number);
        let mut complaint = String::new();
        child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(code), "{status:?} {complaint}");
        assert_eq!(complaint, "hyperslab: interrupted; the destination is as it was\n");
        assert_eq!(names(directory.path()), ["slow.zarr"]);
    }
}

#[test]
fn ctrl_c_keeps_what_was_to_be_replaced() {
    let directory = tempfile::tempdir().unwrap();
    slow_source(&directory);
    let old = Group::create(&directory.path().join("b.zarr").display().to_string(), Format::ZarrV3).unwrap();
    let mut child = started(&directory, &["--overwrite"]);
    signal(&child, libc::SIGINT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(names(directory.path()), ["b.zarr", "slow.zarr"]);
    assert_eq!(old.store().list(None).unwrap(), ["zarr.json"]);
}

#[test]
fn a_second_ctrl_c_ends_at_once() {
    let directory = tempfile::tempdir().unwrap();
    slow_source(&directory);
    let mut child = started(&directory, &[]);
    signal(&child, libc::SIGINT);
    signal(&child, libc::SIGTERM);
    let status = child.wait().unwrap();
    // Two pending signals arrive in any order. The second may also arrive when everything is
    // cleaned up already.
    let ended = status.signal().is_some_and(|number| [libc::SIGINT, libc::SIGTERM].contains(&number));
    assert!(ended || status.code() == Some(130), "{status:?}");
    assert!(!directory.path().join("b.zarr").exists());
}

#[test]
fn in_process() {
    let directory = ocean();
    let at = |name: &str| directory.path().join(name).into_os_string();
    let line = ["hyperslab".into(), "copy".into(), "-q".into(), at("ocean.zarr"), at("b.zarr")];
    assert_eq!(hyperslab_cli::run(line.clone()), 0);
    assert_eq!(names(directory.path()), ["b.zarr", "ocean.zarr"]);
    assert_eq!(hyperslab_cli::run(line), 1);
}
