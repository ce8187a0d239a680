//! Counts the instructions per request, by running this test again under valgrind.
//!
//! Unlike times, the counts are the same in every run, so a bound close to the count detects what
//! made a request slower. Compilers differ by a few percent; a lost fast path costs several times
//! that.
//!
//! The counts are for test builds; optimised builds take fewer. If a change of the engine has
//! a good reason to move them, update them:
//! `cargo test -p hyperslab --test instructions -- --nocapture` shows the counts.
#![cfg(target_os = "linux")]

use hyperslab::array::{WriteOptions, read_into, write};
use hyperslab::prelude::*;
use hyperslab::{Choice, LocalOptions, LocalStore, MemoryStore, ReadOptions, Source, Store, Target, zarr};
use std::hint::black_box;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

const CHILD: &str = "HYPERSLAB_TEST_INSTRUCTIONS_BELOW";

/// Number of times that each request is made.
const TIMES: u64 = 50;

/// Requests, and the number of instructions that one takes.
const COUNTED: [(&str, u64); 10] = [
    ("scalar, files", 7_758),
    ("scalar, memory", 7_524),
    ("10 x 10 block, files", 10_611),
    ("16 x 16 small chunks, memory", 1_765_000),
    ("16 x 16 small chunks, files", 1_670_000),
    ("a small chunk written, memory", 12_449),
    ("a part of a small chunk written, memory", 14_174),
    ("append of 256 KiB, files", 12_394),
    ("open v3, files", 15_458),
    ("open v2, files", 20_154),
];

/// Percent that a request may take beyond its count.
const SLACK: u64 = 8;

/// valgrind writes its counts whenever this function is called.
#[inline(never)]
#[unsafe(no_mangle)]
extern "C" fn hyperslab_mark() {
    black_box(());
}

/// Makes a request many times, between two marks.
fn often(mut request: impl FnMut()) {
    // Warm up, so that everything that is made once exists.
    request();
    request();
    hyperslab_mark();
    for _ in 0..TIMES {
        request();
    }
    hyperslab_mark();
}

fn create(store: &Arc<dyn Store>, format: Format, shape: &[u64], chunk: &[u64]) -> zarr::Array {
    let mut spec = zarr::ArraySpec::new(format.zarr().unwrap(), shape, "<f4".parse().unwrap());
    spec.chunks = Some(chunk.into());
    spec.compressors = Choice::Set(Vec::new());
    zarr::Array::create(store.clone(), "", spec, true).unwrap()
}

fn reader<'a>(array: &'a zarr::Array, indices: &'a [Index<'a>]) -> impl FnMut() + 'a {
    let layout = array.layout();
    let shape = Selection::new("", layout.shape(), indices).unwrap().shape();
    let mut memory = vec![0u8; shape.iter().product::<u64>() as usize * 4];
    move || {
        let selection = Selection::new("", layout.shape(), indices).unwrap();
        let mut target = Target::dense(&mut memory, &shape, 4).unwrap();
        let options = ReadOptions { threads: Some(1), ..ReadOptions::default() };
        read_into(layout, &selection, &mut target, options).unwrap();
        black_box(&memory);
    }
}

fn writer<'a>(array: &'a zarr::Array, indices: &'a [Index<'a>]) -> impl FnMut() + 'a {
    let layout = array.layout();
    let shape = Selection::new("", layout.shape(), indices).unwrap().shape();
    let memory = vec![7u8; shape.iter().product::<u64>() as usize * 4];
    move || {
        let selection = Selection::new("", layout.shape(), indices).unwrap();
        let source = Source::dense(&memory, &shape, 4).unwrap();
        let options = WriteOptions { threads: Some(1), ..WriteOptions::default() };
        write(layout, &selection, &source, options).unwrap();
    }
}

/// Makes the requests in the order of [`COUNTED`].
fn counted(root: &Path) {
    let at = |name: &str| -> Arc<dyn Store> {
        Arc::new(LocalStore::open(root.join(name), LocalOptions::default()).unwrap())
    };
    let memory = || -> Arc<dyn Store> { Arc::new(MemoryStore::new()) };
    let filled = |store: &Arc<dyn Store>, chunk: u64| {
        let array = create(store, Format::ZarrV3, &[16 * chunk, 16 * chunk], &[chunk, chunk]);
        writer(&array, &[])();
        array
    };
    let (files, small_files, small) = (filled(&at("a"), 100), filled(&at("b"), 10), filled(&memory(), 10));
    let scalar = [Index::At(5), Index::At(7)];
    let block = |size| [Index::range(0, size), Index::range(0, size)];
    often(reader(&files, &scalar));
    often(reader(&small, &scalar));
    often(reader(&files, &block(10)));
    often(reader(&small, &[]));
    often(reader(&small_files, &[]));
    often(writer(&small, &block(10)));
    often(writer(&small, &block(5)));
    let rows = create(&at("d"), Format::ZarrV3, &[64, 65536], &[1, 65536]);
    often(writer(&rows, &[Index::range(3, 4)]));
    create(&at("c"), Format::ZarrV2, &[1600, 1600], &[100, 100]);
    for name in ["a", "c"] {
        often(|| {
            black_box(zarr::Array::open(&at(name), "", None).unwrap());
        });
    }
}

#[test]
fn per_request() {
    if let Some(root) = std::env::var_os(CHILD) {
        return counted(Path::new(&root));
    }
    let directory = tempfile::tempdir().unwrap();
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--dump-before=hyperslab_mark"])
        .arg(format!("--callgrind-out-file={}/counts", directory.path().display()))
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "per_request", "--test-threads=1"])
        // Long paths cost more: give the path the same length, wherever temporary files are.
        .env(
            CHILD,
            directory.path().join("r".repeat(99usize.saturating_sub(directory.path().as_os_str().len()))),
        )
        .output();
    let output = match run {
        Ok(output) => output,
        Err(error) => {
            // Bypass the test harness, which hides what passing tests print.
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED: without valgrind no instructions are counted ({error})"
            );
            return;
        }
    };
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}\n{}", String::from_utf8_lossy(&output.stdout));
    let mut wrong = Vec::new();
    for (number, (request, counted)) in COUNTED.iter().enumerate() {
        let bound = counted * (100 + SLACK) / 100;
        // The first part is before the first mark. After it, requests and preparations alternate.
        let part = directory.path().join(format!("counts.{}", 2 * number + 2));
        let text = std::fs::read_to_string(part).unwrap();
        let total = text.lines().find_map(|line| line.strip_prefix("totals: ")).expect("a total");
        let count = total.trim().parse::<u64>().unwrap() / TIMES;
        println!("{request}: {count} instructions, at most {bound}");
        if count > bound {
            wrong.push(format!("{request}: {count} instructions, at most {bound}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
