//! Tests that a copy stays within its memory limit, whatever the size of the array.
//! Runs in its own process, because it measures the process.
#![cfg(target_os = "linux")]

mod common;

use hyperslab::copy::{CopyOptions, copy};
use hyperslab::prelude::*;

const MIB: u64 = 1 << 20;

/// The peak memory of the process since `reset`.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().trim().parse::<u64>().unwrap() * 1024
}

fn reset() {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
}

#[test]
fn memory_is_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    let spec = common::spec(Format::ZarrV3, &[192, 512, 512], &[1, 512, 512], "<f4");
    let array = Array::create(&at("a.zarr"), &spec).unwrap();
    let mut map = vec![0f32; 512 * 512];
    for step in 0..192 {
        for (number, value) in map.iter_mut().enumerate() {
            *value = (number as f32 / 100.0).floor() + step as f32;
        }
        array.write_slice(&[Index::At(step)], &map).unwrap();
    }
    drop(map);

    reset();
    let before = peak();
    let options = CopyOptions {
        chunks: Some(vec![None, Some(32), Some(32)]),
        max_memory: 32 * MIB,
        threads: Some(2),
        ..CopyOptions::default()
    };
    let report = copy(&Node::Array(array.clone()), &at("b.zarr"), &options).unwrap();
    let taken = peak() - before;
    assert_eq!(report.bytes, 192 * MIB);
    assert!(report.block_bytes <= 32 * MIB, "{}", report.block_bytes);
    // Codec contexts and the allocator need some memory, too.
    assert!(taken <= 56 * MIB, "{} MiB", taken / MIB);

    let series: Vec<f32> =
        Array::open(&at("b.zarr")).unwrap().read_vec(&[Index::ALL, Index::At(3), Index::At(7)]).unwrap();
    let expected: Vec<f32> = (0..192).map(|step| 15.0 + step as f32).collect();
    assert_eq!(series, expected);
}
