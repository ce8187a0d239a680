//! Commands that look at arrays: `show`, `head`, `ls`, `dump`.

use assert_cmd::Command;
use hyperslab::prelude::*;
use hyperslab::{Choice, Json};
use std::fs;
use std::time::Duration;
use tempfile::TempDir;

/// A field of packed numbers with names of axes, coordinates, and elements of all states.
fn ocean() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let location = directory.path().join("ocean.zarr").display().to_string();
    let root = Group::create(&location, Format::ZarrV3).unwrap();
    let create = |name: &str, shape: &[u64], dtype: &str, axes: &[&str], attributes: Json| {
        let mut spec = ArraySpec::new(Format::ZarrV3.zarr().unwrap(), shape, dtype.parse().unwrap());
        spec.compressors = Choice::Set(Vec::new());
        spec.dimension_names = Some(axes.iter().map(|name| Some((*name).to_owned())).collect());
        spec.attributes = attributes;
        root.create_array(name, &spec).unwrap()
    };
    let packed = Json::from([
        ("_FillValue", (-999_i64).into()),
        ("scale_factor", Json::float(0.5)),
        ("units", "degC".into()),
    ]);
    let sst = create("sst", &[3, 2, 4], "<i2", &["time", "lat", "lon"], packed);
    let mut values: Vec<i16> = (0..24).collect();
    values[5] = -999;
    sst.write_slice(&[], &values).unwrap();
    let days = Json::from([("units", "days since 2000-01-01".into())]);
    create("time", &[3], "<f8", &["time"], days).write_slice(&[], &[0.0, 1.0, 2.5]).unwrap();
    let north = Json::from([("units", "degrees_north".into())]);
    create("lat", &[2], "<f4", &["lat"], north).write_slice(&[], &[-10.0_f32, 10.0]).unwrap();
    let wave = create("deep/wave", &[2000], "<f4", &["x"], Json::object());
    let values: Vec<f32> = (0..2000).map(|n| if n == 7 { f32::NAN } else { n as f32 }).collect();
    wave.write_slice(&[], &values).unwrap();
    directory
}

fn hyperslab(directory: &TempDir, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hyperslab"));
    command.current_dir(directory.path()).env("COLUMNS", "80").args(args).timeout(Duration::from_secs(120));
    command
}

/// Standard output of a command that succeeds without any message.
fn output(directory: &TempDir, args: &[&str]) -> String {
    let done = hyperslab(directory, args).assert().success().stderr("");
    String::from_utf8(done.get_output().stdout.clone()).unwrap()
}

fn complaint(directory: &TempDir, args: &[&str], code: i32) -> String {
    let done = hyperslab(directory, args).assert().code(code).stdout("");
    String::from_utf8(done.get_output().stderr.clone()).unwrap()
}

#[test]
fn values_as_numpy_prints_them() {
    let ocean = ocean();
    let show = |args: &[&str]| output(&ocean, &[&["show"], args].concat());
    assert_eq!(show(&["ocean.zarr/sst", "0"]), "[[0.  0.5 1.  1.5]\n [2.   -- 3.  3.5]]\n");
    assert_eq!(show(&["ocean.zarr/sst[0]", "--raw"]), "[[   0    1    2    3]\n [   4 -999    6    7]]\n");
    assert_eq!(show(&["ocean.zarr/sst", "lon=0,time=-1"]), "[ 8. 10.]\n");
    assert_eq!(show(&["ocean.zarr/sst", "1, 1, 2"]), "7.0\n");
    assert_eq!(
        show(&["ocean.zarr/time"]),
        "[         '2000-01-01'          '2000-01-02' '2000-01-03T12:00:00']\n"
    );
    assert_eq!(
        show(&["ocean.zarr/deep/wave"]),
        "[0.000e+00 1.000e+00 2.000e+00 ... 1.997e+03 1.998e+03 1.999e+03]\n"
    );
    assert_eq!(show(&["ocean.zarr/deep/wave", "5:9"]), "[ 5.  6. nan  8.]\n");
    assert_eq!(show(&["ocean.zarr/deep/wave", "--all"]).split_whitespace().count(), 2000);
    // People try this name.
    assert_eq!(output(&ocean, &["view", "ocean.zarr/sst", "0, 0"]), "[0.  0.5 1.  1.5]\n");
    let all = show(&["ocean.zarr"]);
    assert!(all.contains("lat  (lat: 2)  float32\n[-10.  10.]\n\n"), "{all}");
    assert_eq!(
        output(&ocean, &["head", "-n", "1", "ocean.zarr/sst"]),
        "[[[0.  0.5 1.  1.5]\n  [2.   -- 3.  3.5]]]\n"
    );
}

#[test]
fn values_in_files() {
    let ocean = ocean();
    assert_eq!(
        output(&ocean, &["show", "ocean.zarr/sst", "1:, 1, 1:3", "--csv"]),
        "time,lon,sst\n2000-01-02,1,6.5\n2000-01-02,2,7.0\n2000-01-03T12:00:00,1,10.5\n2000-01-03T12:00:00,2,11.0\n"
    );
    assert!(output(&ocean, &["show", "ocean.zarr/sst", "--csv"]).contains("2000-01-01,10.0,1,\n"));
    assert_eq!(output(&ocean, &["show", "ocean.zarr/sst", "0", "--npy", "a.npy"]), "");
    let file = fs::read(ocean.path().join("a.npy")).unwrap();
    assert!(file[10..].starts_with(b"{'descr': '<f8', 'fortran_order': False, 'shape': (2, 4), }"));
    let value = |one: &[u8]| f64::from_le_bytes(one.try_into().unwrap());
    let values: Vec<f64> = file[128..].chunks(8).map(value).collect();
    assert_eq!((values.len(), values[1], values[5].is_nan()), (8, 0.5, true));
    let piped = hyperslab(&ocean, &["show", "ocean.zarr/time", "--npy", "-"]).assert().success();
    let piped = &piped.get_output().stdout;
    assert!(piped[10..].starts_with(b"{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (3,), }"));
    assert_eq!(piped[128 + 8..128 + 16], 946_771_200_000_000_000_i64.to_le_bytes());
    let stats = output(&ocean, &["show", "ocean.zarr/sst", "time=0", "--stats"]);
    assert_eq!(stats, output(&ocean, &["stats", "ocean.zarr/sst", "0"]));
    assert_eq!(stats, output(&ocean, &["show", "ocean.zarr/sst[0]", "--stats"]));
    assert!(stats.contains("int16 packed      7        1    0  3.5"), "{stats}");
}

#[test]
fn pictures() {
    let ocean = ocean();
    let shades = output(&ocean, &["show", "ocean.zarr/sst", "--picture"]);
    // North is on top; the missing element is marked.
    let first: Vec<&str> = shades.lines().collect();
    assert_eq!(first[0], "sst[0] (degC)");
    assert!(
        first[1].starts_with("+++++") && first[1].contains("xxxx") && first[1].ends_with('@'),
        "{shades}"
    );
    assert!(shades.contains("x missing") && shades.contains("lat: 0 .. 1\n") && !shades.contains('\x1b'));
    let blocks = output(&ocean, &["show", "ocean.zarr/sst", "2", "--picture=blocks"]);
    assert!(blocks.contains("\x1b[38;2;68;1;84m") && blocks.contains("\x1b[38;2;253;231;37m"), "{blocks}");
    assert!(output(&ocean, &["show", "ocean.zarr/sst", "--picture=sixel"]).starts_with("\x1bP0;1q"));
    assert!(output(&ocean, &["show", "ocean.zarr/sst", "--picture=kitty"]).starts_with("\x1b_Gf=100,a=T,"));
    output(&ocean, &["show", "ocean.zarr/deep/wave", "--png", "a.png", "--colors", "gray"]);
    assert!(fs::read(ocean.path().join("a.png")).unwrap().starts_with(b"\x89PNG\r\n"));
    let line = output(&ocean, &["show", "ocean.zarr/deep/wave", "--picture"]);
    assert!(line.contains('*') && line.contains("x: 0 .. 1999, every 4th\n"), "{line}");
    let why = complaint(&ocean, &["show", "ocean.zarr/time", "--picture"], 2);
    assert!(why.contains("a picture needs numbers"), "{why}");
    let why = complaint(&ocean, &["show", "ocean.zarr", "--png", "b.png"], 2);
    assert!(why.contains("'ocean.zarr' is a group; name an array of it"), "{why}");
    assert!(
        complaint(&ocean, &["show", "ocean.zarr/sst", "--picture", "--colors", "jet"], 2).contains("viridis")
    );
    assert!(complaint(&ocean, &["show", "ocean.zarr/sst", "y=0"], 2).contains("time, lat, lon"));
}

#[test]
fn lists_and_headers() {
    let ocean = ocean();
    let listed = output(&ocean, &["ls", "ocean.zarr"]);
    assert!(
        listed.contains("deep/\n") && listed.contains("sst   int16    (time: 3, lat: 2, lon: 4)\n"),
        "{listed}"
    );
    assert!(output(&ocean, &["ls", "-r", "ocean.zarr"]).contains("deep/wave  float32  (x: 2000)\n"));
    let several = output(&ocean, &["ls", "ocean.zarr/lat", "ocean.zarr/deep"]);
    assert!(several.contains("ocean.zarr/deep:\nwave"), "{several}");
    let header = output(&ocean, &["dump", "ocean.zarr", "-v", "time,sst"]);
    for words in [
        "netcdf ocean {\n",
        "\tshort sst(time, lat, lon) ;\n\t\tsst:_FillValue = -999s ;\n",
        "\t\tsst:scale_factor = 0.5 ;\n",
        "\n time = \"2000-01-01\", \"2000-01-02\", \"2000-01-03T12:00:00\" ;\n",
        "\n sst =\n  0, 1, 2, 3,\n  4, _, 6, 7,\n",
        "group: deep {\n  dimensions:\n  \tx = 2000 ;\n",
        "  } // group deep\n}\n",
    ] {
        assert!(header.contains(words), "{words:?} in\n{header}");
    }
    assert!(complaint(&ocean, &["dump", "ocean.zarr", "-v", "no"], 2).contains("there is none called no"));
}

#[test]
fn several_paths() {
    let ocean = ocean();
    let both = output(&ocean, &["info", "--json", "ocean.zarr/lat", "ocean.zarr/time"]);
    let both: serde_json::Value = serde_json::from_str(&both).unwrap();
    assert_eq!((both[0]["shape"][0].as_u64(), both[1]["shape"][0].as_u64()), (Some(2), Some(3)));
    let trees: serde_json::Value =
        serde_json::from_str(&output(&ocean, &["tree", "--json", "ocean.zarr"])).unwrap();
    assert_eq!(trees["format"], "Zarr v3");
    let wave = trees["nodes"].as_array().unwrap().iter().find(|node| node["path"] == "deep/wave").unwrap();
    assert_eq!((wave["type"].as_str(), wave["dimensions"][0].as_str()), (Some("float32"), Some("x")));
    assert_eq!(wave["bytes_stored"], 8000);
    let text = output(&ocean, &["tree", "ocean.zarr/lat", "ocean.zarr/time"]);
    assert_eq!(text.matches("ocean.zarr/").count(), 2, "{text}");
    let stats = output(&ocean, &["stats", "ocean.zarr/lat", "ocean.zarr/deep"]);
    assert!(stats.contains("ocean.zarr/lat ") && stats.contains("ocean.zarr/deep/wave "), "{stats}");
}

#[test]
fn commands_that_write_metadata_or_scripts() {
    let ocean = ocean();
    let dry = output(&ocean, &["consolidate", "--dry-run", "ocean.zarr"]);
    assert_eq!(dry, "would write the documents of 6 nodes in one, which is new for 'ocean.zarr'\n");
    assert_eq!(output(&ocean, &["consolidate", "ocean.zarr"]), "wrote the documents of 6 nodes in one\n");
    assert!(output(&ocean, &["info", "ocean.zarr"]).contains("with consolidated metadata"));
    for shell in ["bash", "zsh", "fish"] {
        assert!(output(&ocean, &["completions", shell]).contains("consolidate"), "{shell}");
    }
    let advice = output(&ocean, &["advise", "ocean.zarr/sst", "--access", "map"]);
    assert!(advice.contains("hyperslab copy ocean.zarr/sst NEW.zarr --chunks time="), "{advice}");
    assert!(complaint(&ocean, &["ls", "--storage-option", "secret", "ocean.zarr"], 2).contains("KEY=VALUE"));
    assert!(output(&ocean, &["check", "ocean.zarr"]).len() < 1000);
}
