//! Locks of objects in a directory: between threads, processes, the living and the dead.

use hyperslab_store::{Key, LocalOptions, LocalStore, Store, StoreError};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Set in a child process that runs a part of one of these tests.
const CHILD: &str = "HYPERSLAB_TEST_LOCKS_BELOW";

fn open(root: &Path) -> LocalStore {
    LocalStore::open(root, LocalOptions::default()).unwrap()
}

fn child_root() -> Option<LocalStore> {
    std::env::var_os(CHILD).map(|root| open(Path::new(&root)))
}

fn key(name: &str) -> Key<'_> {
    Key::new(name).unwrap()
}

fn get(store: &LocalStore, name: &str) -> Option<Vec<u8>> {
    let mut buf = Vec::new();
    store.read_all(key(name), &mut buf, usize::MAX).unwrap().then_some(buf)
}

/// Every name in a directory, hidden ones too.
fn names(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap();
    names.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

/// This test program, running only `test`, with a pipe at each end.
fn child(test: &str, root: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, root)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Says something to the parent, and waits until it closes the pipe.
fn tell_and_wait(what: &str) {
    println!("\n{what}");
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

fn wait_for(child: &mut Child, what: &str) {
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == what), "the child ended without saying '{what}'");
}

/// A counter in an object, which is deleted at times: then another object has what was counted so far.
fn count(store: &LocalStore, rounds: u32) {
    let number =
        |name: &str| get(store, name).map_or(0, |bytes| u32::from_le_bytes(bytes.try_into().unwrap()));
    for round in 0..rounds {
        let _held = store.lock(key("n/c/0"), None).unwrap();
        let next = number("n/c/0") + 1;
        if round % 5 == 4 {
            let saved = number("saved") + next;
            assert_eq!(store.delete(key("n/c/0")).unwrap(), next > 1);
            store.write(key("saved"), &[&saved.to_le_bytes()]).unwrap();
        } else {
            let mut new = store.replace(key("n/c/0")).unwrap();
            new.append(&[&next.to_le_bytes()]).unwrap();
            new.commit().unwrap();
        }
    }
}

fn assert_counted(root: &Path, expected: u32) {
    let store = open(root);
    let total: u32 = ["n/c/0", "saved"]
        .iter()
        .filter_map(|name| get(&store, name))
        .map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap()))
        .sum();
    assert_eq!(total, expected, "updates are lost");
    store.delete(key("n/c/0")).unwrap();
    store.delete(key("saved")).unwrap();
    assert_eq!(names(root), [""; 0], "nothing is left");
}

#[test]
fn threads_lose_no_update() {
    let dir = tempfile::tempdir().unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| count(&open(dir.path()), 200));
        }
    });
    assert_counted(dir.path(), 800);
}

#[test]
fn processes_lose_no_update() {
    if let Some(store) = child_root() {
        return count(&store, 200);
    }
    let dir = tempfile::tempdir().unwrap();
    let children: Vec<Child> = (0..4).map(|_| child("processes_lose_no_update", dir.path())).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    assert_counted(dir.path(), 800);
}

/// Stores whose roots are nested, and ways through links, lead to one lock.
#[test]
fn one_lock_whatever_the_way() {
    let dir = tempfile::tempdir().unwrap();
    let outer = open(dir.path());
    outer.write(key("a/b/x"), &[b"1"]).unwrap();
    std::os::unix::fs::symlink("a", dir.path().join("link")).unwrap();
    let lock_files = || names(&dir.path().join("a/b")).len() - 1;
    for (root, name) in [("a", "b/x"), ("a/b", "x"), ("link/b", "x"), ("", "link/b/x")] {
        let store = open(&dir.path().join(root));
        let held = store.lock(key(name), None).unwrap();
        let mine = names(&dir.path().join("a/b"));
        drop(held);
        assert_eq!(lock_files(), 0);
        let held = outer.lock(key("a/b/x"), None).unwrap();
        assert_eq!(names(&dir.path().join("a/b")), mine);
        drop(held);
    }
}

#[test]
fn waits_for_another_process() {
    if let Some(store) = child_root() {
        let held = store.lock(key("a/x"), None).unwrap();
        tell_and_wait("held");
        store.write(key("a/x"), &[b"written under the lock"]).unwrap();
        return drop(held);
    }
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let mut child = child("waits_for_another_process", dir.path());
    wait_for(&mut child, "held");
    let asked = AtomicBool::new(false);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            asked.store(true, Ordering::SeqCst);
            let _held = store.lock(key("a/x"), None).unwrap();
            get(&store, "a/x")
        });
        while !asked.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        // Other objects of the directory can be had meanwhile.
        drop(store.lock(key("a/y"), None).unwrap());
        assert_eq!(store.list(None).unwrap(), [""; 0]);
        drop(child.stdin.take());
        assert_eq!(waiter.join().unwrap().unwrap(), b"written under the lock");
    });
    assert!(child.wait().unwrap().success());
}

#[test]
fn the_dead_hold_nothing() {
    if let Some(store) = child_root() {
        let _held = store.lock(key("a/x"), None).unwrap();
        return tell_and_wait("held");
    }
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let mut child = child("the_dead_hold_nothing", dir.path());
    wait_for(&mut child, "held");
    child.kill().unwrap();
    child.wait().unwrap();
    let left = names(&dir.path().join("a"));
    assert!(left.len() == 1 && Key::new(&left[0]).is_err(), "{left:?}");
    assert_eq!(store.list(None).unwrap(), [""; 0]);
    assert_eq!(store.list_dir(Some(key("a"))).unwrap(), []);
    drop(store.lock(key("a/x"), None).unwrap());
    assert_eq!(names(dir.path()), [""; 0]);
}

/// Whose lock file was deleted leaves that of the next holder alone.
#[test]
fn deleted_lock_files() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let first = store.lock(key("a/x"), None).unwrap();
    store.delete_prefix(None).unwrap();
    let second = store.lock(key("a/x"), None).unwrap();
    drop(first);
    assert_eq!(names(&dir.path().join("a")).len(), 1);
    drop(second);
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
fn what_cannot_be_locked() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.write(key("a"), &[b"object"]).unwrap();
    let error = store.lock(key("a/b/x"), None).unwrap_err();
    assert!(error.to_string().starts_with("cannot lock 'a/b/x' in file:///"), "{error}");
    assert!(matches!(error, StoreError::Io { .. }));

    // A link in the place of the lock file is not followed.
    let held = store.lock(key("a"), None).unwrap();
    let lock = names(dir.path()).into_iter().find(|name| name != "a").unwrap();
    drop(held);
    std::os::unix::fs::symlink("a", dir.path().join(&lock)).unwrap();
    assert!(store.lock(key("a"), None).is_err());
    fs::remove_file(dir.path().join(&lock)).unwrap();
    drop(store.lock(key("a"), None).unwrap());
    assert_eq!(names(dir.path()), ["a"]);
}
