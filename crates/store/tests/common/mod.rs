//! Helpers shared by the tests of directories.

#![allow(dead_code, reason = "not every test program uses everything")]

use hyperslab_store::{Key, LocalOptions, LocalStore, Store};
use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// Set in a child process, which runs part of a test in this directory.
pub const CHILD: &str = "HYPERSLAB_TEST_BELOW";

pub fn open(root: &Path) -> LocalStore {
    LocalStore::open(root, LocalOptions::default()).unwrap()
}

/// An empty store in a new directory.
pub fn new() -> (TempDir, LocalStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    (dir, store)
}

pub fn key(name: &str) -> Key<'_> {
    Key::new(name).unwrap()
}

pub fn get(store: &LocalStore, name: &str) -> Option<Vec<u8>> {
    let mut buf = Vec::new();
    store.read_all(key(name), &mut buf, usize::MAX).unwrap().then_some(buf)
}

/// All names in a directory, including hidden ones, sorted.
pub fn names(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        names.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The store to use in a child process.
pub fn child_root() -> Option<LocalStore> {
    std::env::var_os(CHILD).map(|root| open(Path::new(&root)))
}

/// A command that runs only `test` of this test program.
pub fn this_program(test: &str, root: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(CHILD, root);
    command
}
