//! `copy --resume`: killed copies go on, without Python.

use assert_cmd::Command;
use hyperslab::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_hyperslab");

/// Chunks of the copy, in two passes: 2 MiB of memory hold neither all maps nor all series.
const CHUNKS: [&str; 3] = ["--chunks=-1,4,4", "--max-memory=640KiB", "--codec=zstd:1"];

/// A group with maps in 256 chunks, and a small array.
fn source() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let group = Group::create(&directory.path().join("a").display().to_string(), Format::ZarrV3).unwrap();
    let mut spec = ArraySpec::new(Format::ZarrV3.zarr().unwrap(), &[256, 128, 128], "<i4".parse().unwrap());
    spec.chunks = Some([1, 128, 128][..].into());
    let maps = group.create_array("maps", &spec).unwrap();
    let values: Vec<i32> = (0..256 * 128 * 128).map(|n: i32| n.wrapping_mul(7919) % 1000).collect();
    maps.write_slice(&[], &values).unwrap();
    let small = ArraySpec::new(Format::ZarrV3.zarr().unwrap(), &[5], "<i2".parse().unwrap());
    group.create_array("small", &small).unwrap().write_slice(&[], &[1i16, 2, 3, 4, 5]).unwrap();
    directory
}

/// A command that finds no Python.
fn process(directory: &Path, args: &[&str]) -> Process {
    let mut process = Process::new(PROGRAM);
    process.current_dir(directory).env("PATH", "").arg("copy").args(args);
    process.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    process
}

fn run(directory: &Path, args: &[&str], code: i32) -> String {
    let mut command = Command::from_std(process(directory, args));
    let done = command.timeout(Duration::from_secs(300)).assert().code(code);
    let output = done.get_output();
    let text = if code == 0 { &output.stdout } else { &output.stderr };
    String::from_utf8(text.clone()).unwrap()
}

/// All files below a directory.
fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut left = vec![root.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => left.push(path),
                false => {
                    found.insert(path.strip_prefix(root).unwrap().to_owned(), fs::read(&path).unwrap());
                }
            }
        }
    }
    found
}

fn names(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Waits until a copy has recorded finished tasks.
fn wait_for_records(directory: &Path, child: &mut Child) {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(120) && child.try_wait().unwrap().is_none() {
        let records = directory.join(".b.hyperslab-copy/journal/done");
        let stages = fs::read_dir(records).into_iter().flatten().flatten();
        if stages.filter_map(|stage| fs::read_dir(stage.path()).ok()).flatten().count() > 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn killed(signal: libc::c_int) {
    let directory = source();
    let at = directory.path();
    let line = [&["a", "b", "--resume", "--threads=1"], &CHUNKS[..]].concat();
    let mut child = process(at, &line).spawn().unwrap();
    wait_for_records(at, &mut child);
    // SAFETY: the child has not been waited for, so the number is still its own.
    assert_eq!(unsafe { libc::kill(libc::pid_t::try_from(child.id()).unwrap(), signal) }, 0);
    let output = child.wait_with_output().unwrap();
    if !output.status.success() {
        // In the middle: there is nothing to open yet.
        assert!(!at.join("b").exists() && at.join(".b.hyperslab-copy").exists());
        let said = String::from_utf8(output.stderr).unwrap();
        match signal {
            libc::SIGKILL => assert_eq!(output.status.signal(), Some(signal)),
            _ => {
                assert_eq!(output.status.code(), Some(143), "{said}");
                assert_eq!(said, "hyperslab: interrupted; what is copied stays: go on with --resume\n");
            }
        }
        // Another copy does not take the journal, and a copy without --resume ignores it.
        assert!(
            run(at, &["a", "b", "--resume"], 1).contains("the journal beside it is that of another copy")
        );
        let said = run(at, &line, 0);
        assert!(said.contains(" done before, "), "{said}");
    }
    let said = run(at, &[&["a", "c"], &CHUNKS[..]].concat(), 0);
    assert!(said.contains("copied 2 arrays in 1 group: 16.0 MiB, "), "{said}");
    assert_eq!(files(&at.join("b")), files(&at.join("c")));
    assert_eq!(names(at), ["a", "b", "c"]);
    // The same line once more: all is compared, and nothing copied.
    let said = run(at, &line, 0);
    assert!(said.contains("in 0 tasks, ") && said.contains("; verified in "), "{said}");
}

#[test]
fn a_killed_copy_goes_on() {
    killed(libc::SIGKILL);
}

#[test]
fn a_stopped_copy_goes_on() {
    killed(libc::SIGTERM);
}

#[test]
fn what_is_there_is_replaced_or_in_the_way() {
    let directory = source();
    let at = directory.path();
    let line = ["a", "b", "--resume", "--verify"];
    let said = run(at, &line, 0);
    assert!(said.starts_with("copied 2 arrays in 1 group: 16.0 MiB in ") && said.contains("; verified in "));
    let before = files(&at.join("b"));
    let small = Array::open(&at.join("b/small").display().to_string()).unwrap();
    small.write_slice(&[Index::At(0)], &[9i16]).unwrap();
    let said = run(at, &line, 1);
    assert!(said.contains("it exists already; pass --overwrite to replace it"), "{said}");
    run(at, &["a", "b", "--resume", "--verify", "--overwrite", "--check-contents"], 0);
    assert_eq!(files(&at.join("b")), before);
    assert_eq!(names(at), ["a", "b"]);
    assert!(
        run(at, &["a", "a/x", "--resume"], 1).contains("source and destination are one inside the other")
    );
}

#[test]
fn regions_and_plans() {
    let directory = source();
    let at = directory.path();
    let said =
        run(at, &["a/maps", "b", "--resume", "--explain", "--chunks=-1,4,4", "--max-memory=640KiB"], 0);
    assert!(said.contains("decodes  256 chunks: each of 256 once"), "{said}");
    assert!(said.starts_with(&format!("copy {0}/a/maps to {0}/b\n", at.display())), "{said}");
    assert_eq!(names(at), ["a"]);
    run(at, &["a/maps", "b", "--resume", "--region", "0:8", "--chunks=4,128,128"], 0);
    let into = ["a/maps", "b", "--resume", "--region", "8:12", "--target-region", "4:8"];
    run(at, &into, 0);
    let array = |name: &str| Array::open(&at.join(name).display().to_string()).unwrap();
    let read = |name: &str, range: std::ops::Range<i64>| {
        array(name).read_vec::<i32>(&[Index::range(range.start, range.end)]).unwrap()
    };
    assert_eq!([read("b", 0..4), read("b", 4..8)], [read("a/maps", 0..4), read("a/maps", 8..12)]);
    assert_eq!(names(at), ["a", "b"]);
    let said = run(at, &["a/maps", "b", "--resume", "--region", "8:12", "--target-region", "3:7"], 2);
    assert!(said.contains("With whole ones it is"), "{said}");
    let said = run(at, &["a", "c", "--resume", "--max-memory=1KiB"], 2);
    assert!(said.contains("--max-memory: 1024 bytes are less than the "), "{said}");
    let said = run(at, &["a", "c", "--scheduler", "tcp://127.0.0.1:1"], 2);
    assert!(said.contains("--scheduler needs the Python package"), "{said}");
}

#[test]
fn damaged_chunks_are_named() {
    let directory = source();
    let at = directory.path();
    fs::write(at.join("a/maps/c/5/0/0"), b"damaged").unwrap();
    let said = run(at, &["a/maps", "b", "--resume", "--chunks=8,128,128"], 1);
    assert!(said.contains("c/5/0/0") && said.trim_end().ends_with("Task 0 failed 3 times."), "{said}");
    assert_eq!(names(at), [".b.hyperslab-copy", "a"]);
}
