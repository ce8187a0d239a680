//! Counts the system calls per object by running itself under `strace`.

use hyperslab_store::{Expected, Key, LocalOptions, LocalStore, RangeRead, Store};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const CHILD: &str = "HYPERSLAB_TEST_SYSCALLS_BELOW";

/// A system call that marks the trace: the calls after it belong to `name`.
fn mark(name: &str) {
    assert!(std::fs::metadata(format!("/hyperslab-mark/{name}")).is_err());
}

fn traced(root: &Path) {
    let store = LocalStore::open(root, LocalOptions::default()).unwrap();
    let key = Key::new("a/c/0/0").unwrap();
    let other = Key::new("a/c/0/1").unwrap();
    let value = vec![5u8; 100_000];
    let mut exact = value.clone();
    let mut all = Vec::with_capacity(200_000);
    store.write(key, &[&value]).unwrap();

    mark("open_store");
    drop(LocalStore::open(root, LocalOptions::default()).unwrap());
    mark("write");
    store.write(key, &[&value]).unwrap();
    mark("write_parts");
    store.write(other, &[&value, b"x", b"", b"y"]).unwrap();
    mark("read_exact");
    assert!(store.read_exact(key, &mut exact).unwrap());
    mark("read_all");
    assert!(store.read_all(key, &mut all, usize::MAX).unwrap());
    mark("read_all_new");
    assert!(store.read_all(key, &mut Vec::new(), usize::MAX).unwrap());
    mark("read_missing");
    assert!(!store.read_exact(Key::new("a/c/9/9").unwrap(), &mut exact).unwrap());
    let ranges = |size, starts: &[u64]| {
        let mut bufs = vec![[0u8; 1000]; starts.len()];
        let mut ranges: Vec<RangeRead<'_>> =
            starts.iter().zip(&mut bufs).map(|(&offset, buf)| RangeRead { offset, buf }).collect();
        assert!(store.read_ranges(key, size, &mut ranges).unwrap());
    };
    mark("ranges_adjacent");
    ranges(None, &[1000, 2000, 3000]);
    mark("ranges_apart");
    ranges(None, &[1000, 3000, 9000]);
    mark("ranges_sized");
    ranges(Some(100_000), &[1000, 2000, 9000]);
    mark("size");
    assert_eq!(store.size(key).unwrap(), Some(100_000));
    mark("delete");
    assert!(store.delete(other).unwrap());
    mark("open_object");
    let opened = store.open(key, Some(100_000)).unwrap().unwrap();
    assert!(opened.stamp().is_some() && opened.size() == 100_000);
    mark("replace");
    let mut new = store.replace(other).unwrap();
    new.append(&[&value, b"x"]).unwrap();
    new.copy(&*opened, 10, 50_000).unwrap();
    new.overwrite(5, b"y").unwrap();
    new.commit().unwrap();
    mark("abandon");
    drop(store.replace(other).unwrap());
    mark("write_new");
    assert!(store.write_new(Key::new("a/c/0/2").unwrap(), &[&value]).unwrap());
    mark("swap");
    assert!(store.swap(key, Expected::Same(&*opened), &[&value], None).unwrap());
    mark("swap_late");
    assert!(!store.swap(key, Expected::Same(&*opened), &[&value], None).unwrap());
    mark("lock");
    let held = store.lock(other, None).unwrap();
    mark("unlock");
    drop(held);
    mark("end");
}

/// One name per call, for the variants of architectures and C libraries.
fn plain(call: &str) -> &str {
    match call {
        "open" | "openat" | "openat2" => "open",
        "read" | "readv" | "pread64" | "preadv" | "preadv2" => "read",
        "write" | "writev" | "pwrite64" | "pwritev" => "write",
        "rename" | "renameat" | "renameat2" => "rename",
        "unlink" | "unlinkat" | "rmdir" => "unlink",
        "link" | "linkat" => "link",
        "stat" | "fstat" | "newfstatat" | "fstatat64" | "statx" => "stat",
        other => other,
    }
}

/// The calls after each mark, from lines like `1234  openat(AT_FDCWD, "/x", O_RDONLY) = 3`.
fn calls_by_mark(trace: &str) -> BTreeMap<String, Vec<String>> {
    let marked = trace.lines().find(|line| line.contains("/hyperslab-mark/")).expect("a mark in the trace");
    let thread = marked.split_whitespace().next().unwrap();
    let mut calls: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut current = None;
    for line in trace.lines().filter(|line| line.split_whitespace().next() == Some(thread)) {
        let line = line[thread.len()..].trim_start();
        if let Some((_, rest)) = line.split_once("/hyperslab-mark/") {
            current = rest.split('"').next().map(str::to_owned);
        } else if let (Some(mark), Some((call, _))) = (&current, line.split_once('(')) {
            calls.entry(mark.clone()).or_default().push(plain(call).to_owned());
        }
    }
    calls
}

#[test]
fn per_object() {
    if let Some(root) = std::env::var_os(CHILD) {
        return traced(Path::new(&root));
    }
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    let run = Command::new("strace")
        .args(["-f", "-s", "300", "-o"])
        .arg(&trace)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "per_object"])
        .env(CHILD, dir.path().join("root"))
        .output();
    let output = match run {
        Ok(output) => output,
        Err(error) => {
            eprintln!("skipped: no strace ({error})");
            return;
        }
    };
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    if stderr.contains("ptrace") {
        eprintln!("skipped: strace may not trace here: {stderr}");
        return;
    }
    assert!(output.status.success(), "{stderr}\n{}", String::from_utf8_lossy(&output.stdout));

    let calls = calls_by_mark(&std::fs::read_to_string(trace).unwrap());
    let expected: [(&str, &[&str]); 20] = [
        ("open_store", &["stat"]),
        // An unnamed file. It is linked to the object's name if that is free, otherwise to a
        // temporary name that is then renamed.
        ("write", &["open", "write", "link", "link", "rename", "close"]),
        // After a write that replaced an object, the next ones expect an object too.
        ("write_parts", &["open", "write", "link", "rename", "close"]),
        ("read_exact", &["open", "read", "close"]),
        ("read_all", &["open", "read", "close"]),
        ("read_all_new", &["open", "stat", "read", "close"]),
        ("read_missing", &["open"]),
        ("ranges_adjacent", &["open", "read", "close"]),
        ("ranges_apart", &["open", "read", "read", "read", "close"]),
        ("ranges_sized", &["open", "lseek", "read", "read", "close"]),
        ("size", &["stat"]),
        // The last call tries to remove the directory, which stays because it is not empty.
        ("delete", &["stat", "unlink", "unlink"]),
        ("open_object", &["open", "stat"]),
        ("replace", &["open", "write", "copy_file_range", "write", "link", "rename", "close"]),
        ("abandon", &["open", "close"]),
        ("write_new", &["open", "write", "link", "close"]),
        // Locked once the new file is complete, for one check and the rename.
        ("swap", &["open", "write", "flock", "stat", "stat", "link", "rename", "flock", "close"]),
        ("swap_late", &["open", "write", "flock", "stat", "stat", "flock", "close"]),
        ("lock", &["open", "stat", "flock", "stat", "stat"]),
        ("unlock", &["flock", "close"]),
    ];
    for (mark, expected) in expected {
        let memory = ["mmap", "munmap", "brk", "mremap", "mprotect", "madvise"];
        // In debug builds, the standard library checks this way that a descriptor is open before
        // closing it.
        let assertion = if cfg!(debug_assertions) { "fcntl" } else { "" };
        let found: Vec<&str> = calls
            .get(mark)
            .into_iter()
            .flatten()
            .map(String::as_str)
            // Memory calls come from buffers of the test itself.
            .filter(|call| !memory.contains(call) && **call != *assertion)
            .collect();
        assert_eq!(found, expected, "{mark}");
    }
}
