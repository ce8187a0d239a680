//! Locks of objects in a directory: between threads, between processes, and with dead holders.

mod common;

use common::{child_root, get, key, names, new, open, this_program};
use hyperslab_store::{Expected, LocalOptions, LocalStore, Store, StoreError, Writers};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Starts this test program, running only `test`, with pipes for input and output.
fn child(test: &str, root: &Path) -> Child {
    this_program(test, root).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// Sends a line to the parent, and waits until it closes the pipe.
fn tell_and_wait(what: &str) {
    println!("\n{what}");
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

fn wait_for(child: &mut Child, what: &str) {
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == what), "the child ended without saying '{what}'");
}

/// The number in an object. 0 if there is no object.
fn number(store: &LocalStore, name: &str) -> u32 {
    get(store, name).map_or(0, |bytes| u32::from_le_bytes(bytes.try_into().unwrap()))
}

/// Counts in an object that is sometimes deleted. Its count then moves to the object `saved`.
fn count(store: &LocalStore, rounds: u32) {
    let put = |expected: Expected<'_>, value: u32| {
        let mut new = store.replace(key("n/c/0")).unwrap();
        new.append(&[&value.to_le_bytes()]).unwrap();
        new.commit_over(expected, None).unwrap()
    };
    for round in 0..rounds {
        loop {
            let lock = store.lock(key("n/c/0"), None).unwrap();
            if !lock.is_held() {
                if put(Expected::Absent, 1) {
                    break;
                }
                continue;
            }
            let old = store.open(key("n/c/0"), None).unwrap().unwrap();
            let next = number(store, "n/c/0") + 1;
            if round % 5 == 4 {
                let saved = number(store, "saved") + next;
                store.write(key("saved"), &[&saved.to_le_bytes()]).unwrap();
                assert!(store.swap_out(key("n/c/0"), Expected::Locked(&*old), None).unwrap());
            } else {
                assert!(put(Expected::Locked(&*old), next));
            }
            break;
        }
    }
}

fn assert_counted(root: &Path, expected: u32) {
    let store = open(root);
    assert_eq!(number(&store, "n/c/0") + number(&store, "saved"), expected, "updates are lost");
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

/// A dangling link is not an object, so of many writers that try to be first, one succeeds.
#[test]
fn one_is_first_in_the_place_of_a_dangling_link() {
    let (dir, store) = new();
    for round in 0..100_u32 {
        let name = format!("c/{round}");
        fs::create_dir_all(dir.path().join("c")).unwrap();
        std::os::unix::fs::symlink("nowhere", dir.path().join(&name)).unwrap();
        let first = |number: u32| {
            let mut new = store.replace(key(&name)).unwrap();
            new.append(&[&number.to_le_bytes()]).unwrap();
            new.commit_over(Expected::Absent, None).unwrap().then_some(number)
        };
        let first = &first;
        let winners: Vec<u32> = thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|number| scope.spawn(move || first(number))).collect();
            threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
        });
        let [winner] = winners[..] else { panic!("{winners:?} in round {round}") };
        assert_eq!(get(&store, &name).unwrap(), winner.to_le_bytes());
    }
}

/// Something in the way that is not an object is an error: retrying would never end.
#[test]
fn other_things_in_the_place_of_an_object_are_refused() {
    let (dir, store) = new();
    fs::create_dir(dir.path().join("directory")).unwrap();
    std::os::unix::fs::symlink("directory", dir.path().join("link")).unwrap();
    std::os::unix::fs::symlink("self", dir.path().join("self")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
    for name in ["directory", "link", "self", "socket"] {
        let put = store.swap(key(name), Expected::Absent, &[b"new"], None);
        assert!(matches!(put, Err(StoreError::Io { .. })), "{name}: {put:?}");
    }
    assert_eq!(names(dir.path()), ["directory", "link", "self", "socket"]);
}

/// Nested roots and paths through links lead to the same lock, which is not visible.
#[test]
fn one_lock_whatever_the_way() {
    let dir = tempfile::tempdir().unwrap();
    let outer = open(dir.path());
    outer.write(key("a/b/x"), &[b"1"]).unwrap();
    std::os::unix::fs::symlink("a", dir.path().join("link")).unwrap();
    for (root, name) in [("a", "b/x"), ("a/b", "x"), ("link/b", "x"), ("", "link/b/x")] {
        let store = open(&dir.path().join(root));
        let held = store.lock(key(name), None).unwrap();
        assert!(held.is_held());
        assert_eq!(names(&dir.path().join("a/b")), ["x"]);
        let refused = outer.lock(key("a/b/x"), Some(&|| true));
        assert!(matches!(refused, Err(StoreError::Interrupted { .. })), "{refused:?}");
        drop(held);
        drop(outer.lock(key("a/b/x"), Some(&|| true)).unwrap());
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
    let (dir, store) = new();
    store.write(key("a/x"), &[b"before"]).unwrap();
    store.write(key("a/y"), &[b"other"]).unwrap();
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
        // Waiting can be interrupted, even the short wait for replacing.
        let old = store.open(key("a/x"), None).unwrap().unwrap();
        let refused = store.swap(key("a/x"), Expected::Same(&*old), &[b"late"], Some(&|| true));
        assert!(matches!(refused, Err(StoreError::Interrupted { .. })), "{refused:?}");
        // Other objects in the directory are available meanwhile.
        assert!(store.lock(key("a/y"), None).unwrap().is_held());
        assert_eq!(names(&dir.path().join("a")).len(), 2, "no lock file, no temporary one");
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
    let (dir, store) = new();
    store.write(key("a/x"), &[b"1"]).unwrap();
    let mut child = child("the_dead_hold_nothing", dir.path());
    wait_for(&mut child, "held");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(names(&dir.path().join("a")), ["x"]);
    assert!(store.lock(key("a/x"), None).unwrap().is_held());
}

unsafe extern "C" {
    fn fork() -> i32;
    fn _exit(code: i32) -> !;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn kill(pid: i32, signal: i32) -> i32;
    fn pause() -> i32;
}

/// A child that outlives its parent does not keep the parent's locks, however the parent ends.
#[test]
fn forked_children_keep_no_lock() {
    if let Some(store) = child_root() {
        let _object = store.lock(key("a/x"), None).unwrap();
        let _prefix = store.lock_prefix(Some(key("a")), None).unwrap();
        // SAFETY: the child only waits to be killed.
        let pid = unsafe { fork() };
        if pid == 0 {
            // SAFETY: as above.
            unsafe {
                pause();
                _exit(0)
            };
        }
        return tell_and_wait(&format!("held {pid}"));
    }
    let (dir, store) = new();
    store.write(key("a/x"), &[b"1"]).unwrap();
    let mut child = child("forked_children_keep_no_lock", dir.path());
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    let grandchild: i32 =
        lines.find_map(|line| line.unwrap().strip_prefix("held ").map(|pid| pid.parse().unwrap())).unwrap();
    assert!(matches!(store.lock(key("a/x"), Some(&|| true)), Err(StoreError::Interrupted { .. })));
    child.kill().unwrap();
    child.wait().unwrap();
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    let given_up = || std::time::Instant::now() > end;
    let found = (store.lock(key("a/x"), Some(&given_up)), store.lock_prefix(Some(key("a")), Some(&given_up)));
    // SAFETY: the grandchild has not been waited for, so the number still belongs to it.
    unsafe {
        kill(grandchild, 9);
        waitpid(grandchild, std::ptr::null_mut(), 1);
    }
    assert!(found.0.unwrap().is_held() && found.1.unwrap().is_held());
}

#[test]
fn what_cannot_be_locked() {
    let (dir, store) = new();
    store.write(key("a"), &[b"object"]).unwrap();
    assert!(!store.lock(key("a/b/x"), None).unwrap().is_held());
    assert!(!store.lock_prefix(Some(key("a")), None).unwrap().is_held());
    fs::create_dir(dir.path().join("d")).unwrap();
    assert!(!store.lock(key("d"), None).unwrap().is_held());
    let off =
        LocalStore::open(dir.path(), LocalOptions { file_locks: false, ..LocalOptions::default() }).unwrap();
    let held = store.lock(key("a"), None).unwrap();
    assert!(held.is_held() && !off.lock(key("a"), None).unwrap().is_held() && !off.facts().is_shared);
    let old = off.open(key("a"), None).unwrap().unwrap();
    assert!(off.swap(key("a"), Expected::Same(&*old), &[b"1"], None).unwrap());
    assert!(off.swap(key("a"), Expected::Same(&*old), &[b"2"], None).unwrap());
}
