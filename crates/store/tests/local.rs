//! Properties of directories only: permissions, limits, links, foreign files, killed writers.

mod common;

use common::{CHILD, child_root, get, key, names, new, this_program};
use hyperslab_store::{Entry, Key, LocalOptions, LocalStore, RangeRead, Result, Store, StoreError};
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A user that owns nothing.
const NOBODY: u32 = 65534;

fn kind<T: std::fmt::Debug>(answer: Result<T>) -> ErrorKind {
    answer.unwrap_err().io_kind().expect("an error of the system")
}

fn run(mut command: Command) {
    let output = command.output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(stdout.contains("1 passed"), "{stdout}");
}

#[test]
fn no_permission() {
    if let Some(store) = child_root() {
        let denied = ErrorKind::PermissionDenied;
        let mut buf = Vec::new();
        assert_eq!(kind(store.read_all(key("secret"), &mut buf, 10)), denied);
        assert_eq!(kind(store.read_exact(key("secret"), &mut [0])), denied);
        assert_eq!(kind(store.read_ranges(key("secret"), None, &mut [])), denied);
        assert_eq!(kind(store.read_exact(key("closed/x"), &mut [0])), denied);
        assert_eq!(kind(store.size(key("closed/x"))), denied);
        assert_eq!(kind(store.exists(key("closed/x"))), denied);
        assert_eq!(kind(store.list_dir(Some(key("closed")))), denied);
        assert_eq!(kind(store.list(None)), denied);
        assert_eq!(kind(store.write(key("readonly/x"), &[b"new"])), denied);
        assert_eq!(kind(store.write(key("readonly/new/y"), &[b"new"])), denied);
        assert_eq!(kind(store.replace(key("readonly/x"))), denied);
        // Permission to read suffices for locking.
        assert!(store.lock(key("readonly/x"), None).unwrap().is_held());
        assert!(!store.lock(key("readonly/new/y"), None).unwrap().is_held());
        assert_eq!(kind(store.lock(key("secret"), None)), denied);
        assert_eq!(kind(store.delete(key("readonly/x"))), denied);
        assert_eq!(kind(store.delete_prefix(Some(key("readonly")))), denied);
        assert_eq!(kind(LocalStore::open(store.root().join("closed/x"), LocalOptions::default())), denied);
        assert_eq!(get(&store, "readonly/x").unwrap(), b"old");
        let message = store.write(key("readonly/x"), &[b"new"]).unwrap_err().to_string();
        assert!(message.starts_with("cannot write 'readonly/x' in file:///"), "{message}");
        assert!(message.contains("Permission denied"), "{message}");
        return;
    }
    let (dir, store) = new();
    for name in ["secret", "closed/x", "readonly/x"] {
        store.write(key(name), &[b"old"]).unwrap();
    }
    let permit = |name: &str, mode| {
        fs::set_permissions(dir.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    let mut child = this_program("no_permission", dir.path());
    // The superuser may do everything, so the child runs as somebody else.
    if fs::metadata(dir.path()).unwrap().uid() == 0 {
        for name in ["", "secret", "closed", "closed/x", "readonly", "readonly/x"] {
            chown(dir.path().join(name), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        child.uid(NOBODY).gid(NOBODY).current_dir("/");
        let mut probe = this_program("none", dir.path());
        if let Err(error) = probe.uid(NOBODY).gid(NOBODY).current_dir("/").output() {
            eprintln!("skipped: other users cannot run this program ({error})");
            return;
        }
    }
    permit("secret", 0o000);
    permit("closed", 0o000);
    permit("readonly", 0o555);
    run(child);
    permit("closed", 0o755);
    permit("readonly", 0o755);
    assert_eq!(names(&dir.path().join("readonly")), ["x"]);
}

/// A limit on the file size simulates a full disk: both stop a write in the middle.
#[test]
fn no_room() {
    if let Some(store) = child_root() {
        let big = vec![1u8; 1 << 20];
        for parts in [&[&big[..]][..], &[&big[..1000], &big[..10], &big]] {
            for name in ["a/x", "a/new", "new/prefix/x"] {
                assert_eq!(kind(store.write(key(name), parts)), ErrorKind::FileTooLarge, "{name}");
            }
        }
        store.write(key("a/small"), &[b"fits"]).unwrap();
        for name in ["a/x", "a/new", "new/prefix/x"] {
            let mut new = store.replace(key(name)).unwrap();
            new.append(&[&big[..1000]]).unwrap();
            assert_eq!(kind(new.append(&[&big])), ErrorKind::FileTooLarge, "{name}");
            assert_eq!(kind(new.append(&[b"no more"])), ErrorKind::Other, "{name}");
            assert_eq!(kind(new.commit()), ErrorKind::Other, "{name}");
            // More than fits, copied by the kernel.
            let from = store.open(key("big"), None).unwrap().unwrap();
            let mut new = store.replace(key(name)).unwrap();
            assert_eq!(kind(new.copy(&*from, 0, 1 << 20)), ErrorKind::FileTooLarge, "{name}");
        }
        return;
    }
    let (dir, store) = new();
    store.write(key("a/x"), &[b"old"]).unwrap();
    store.write(key("big"), &[&vec![1; 1 << 20]]).unwrap();
    let mut child = Command::new("sh");
    child.args(["-c", "trap '' XFSZ; ulimit -f 16; exec \"$0\" \"$@\""]);
    let program = this_program("no_room", dir.path());
    child.arg(program.get_program()).args(program.get_args()).env(CHILD, dir.path());
    run(child);
    assert_eq!(get(&store, "a/x").unwrap(), b"old");
    assert_eq!(names(&dir.path().join("a")), ["small", "x"], "no temporary file is left");
    assert_eq!(names(dir.path()), ["a", "big"], "nor a directory made for an object that did not come");
}

#[test]
fn killed_writer() {
    const SIZE: usize = 4 << 20;
    if let Some(store) = child_root() {
        for round in 0u8.. {
            store.write(key("a/x"), &[&vec![round % 251; SIZE]]).unwrap();
        }
    }
    let (dir, store) = new();
    store.write(key("a/x"), &[&vec![255; SIZE]]).unwrap();
    for delay in [30, 41, 57, 73] {
        let mut child = this_program("killed_writer", dir.path()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(delay));
        child.kill().unwrap();
        child.wait().unwrap();
        let value = get(&store, "a/x").unwrap();
        assert_eq!(value.len(), SIZE);
        assert!(value.iter().all(|&byte| byte == value[0]));
    }
    // In case no child was killed at the right moment.
    fs::write(dir.path().join("a/.7.0123456789abcdef.hyperslab-tmp"), b"half").unwrap();
    assert!(names(&dir.path().join("a")).len() > 1);
    assert_eq!(store.list(None).unwrap(), ["a/x"]);
    assert_eq!(store.list_dir(Some(key("a"))).unwrap(), [Entry { name: "x".into(), is_prefix: false }]);
    assert!(matches!(Key::new("a/.7.0123456789abcdef.hyperslab-tmp"), Err(StoreError::InvalidKey { .. })));
    store.delete_prefix(Some(key("a"))).unwrap();
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
fn roots() {
    let (dir, store) = new();
    store.write(key("file"), &[b"x"]).unwrap();
    let open = |root: &str| LocalStore::open(dir.path().join(root), LocalOptions::default());
    assert_eq!(kind(open("file")), ErrorKind::NotADirectory);
    assert_eq!(kind(open("file/below")), ErrorKind::NotADirectory);
    let later = open("not/yet").unwrap();
    assert_eq!(later.list(None).unwrap(), [""; 0]);
    assert!(!later.root().exists(), "looking makes nothing");
    later.write(key("a/b"), &[b"1"]).unwrap();
    assert!(later.delete(key("a/b")).unwrap());
    later.delete_prefix(None).unwrap();
    assert!(later.root().is_dir(), "the root stays");
    assert_eq!(names(later.root()), [""; 0]);

    // A file in place of the root, created after opening.
    let later = open("soon").unwrap();
    store.write(key("soon"), &[b"x"]).unwrap();
    assert_eq!(kind(later.write(key("a"), &[b"1"])), ErrorKind::NotADirectory);
    assert_eq!(get(&later, "a"), None);
    later.delete_prefix(None).unwrap();
    assert_eq!(get(&store, "soon").unwrap(), b"x");

    let nested = open("nested/deeper").unwrap();
    assert_eq!(nested.lock_id(key("a/0")), store.lock_id(key("nested/deeper/a/0")));
    nested.write(key("a/0"), &[b"2"]).unwrap();
    assert_eq!(get(&store, "nested/deeper/a/0").unwrap(), b"2");
}

#[test]
fn keys_do_not_leave_the_root() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("secret"), b"outside").unwrap();
    let absolute = dir.path().join("secret");
    let up =
        ["../secret", "a/../../secret", "..", "a/..", absolute.to_str().unwrap(), "/", "..\\secret", "a\0"];
    for name in up {
        assert!(matches!(Key::new(name), Err(StoreError::InvalidKey { .. })), "{name}");
    }
}

#[test]
fn links_are_honoured_and_not_destroyed() {
    let (outside, other) = new();
    other.write(key("x"), &[b"there"]).unwrap();
    let (dir, store) = new();
    symlink(outside.path(), dir.path().join("link")).unwrap();
    symlink(outside.path().join("x"), dir.path().join("object")).unwrap();
    symlink("nowhere", dir.path().join("dangling")).unwrap();
    symlink("self", dir.path().join("self")).unwrap();

    assert_eq!(get(&store, "link/x").unwrap(), b"there");
    assert_eq!(get(&store, "object").unwrap(), b"there");
    assert_eq!(get(&store, "link"), None);
    assert_eq!(get(&store, "dangling"), None);
    assert_eq!(store.list(None).unwrap(), ["link/x", "object"]);
    let entries = [("link", true), ("object", false)];
    let entries = entries.map(|(name, is_prefix)| Entry { name: name.into(), is_prefix });
    assert_eq!(store.list_dir(None).unwrap(), entries);

    // A write through a link to a directory goes to that directory. A write over a link to an
    // object replaces the link, not the object.
    store.write(key("link/y"), &[b"new"]).unwrap();
    assert_eq!(get(&other, "y").unwrap(), b"new");
    store.write(key("object"), &[b"mine"]).unwrap();
    assert_eq!(
        (get(&store, "object").unwrap(), get(&other, "x").unwrap()),
        (b"mine".into(), b"there".into())
    );
    assert!(store.delete(key("link/y")).unwrap());
    assert_eq!(get(&other, "y"), None);

    assert!(!store.delete(key("link")).unwrap(), "a link to a directory is a prefix");
    store.write(key("deep/z"), &[b"z"]).unwrap();
    symlink(outside.path(), dir.path().join("deep/link")).unwrap();
    store.delete_prefix(Some(key("deep"))).unwrap();
    store.delete_prefix(Some(key("link"))).unwrap();
    assert_eq!(store.list(None).unwrap(), ["object"]);
    assert_eq!(get(&other, "x").unwrap(), b"there");
    symlink(outside.path(), dir.path().join("again")).unwrap();
    store.delete_prefix(None).unwrap();
    assert_eq!(names(dir.path()), [""; 0]);
    assert_eq!(get(&other, "x").unwrap(), b"there");
}

#[test]
fn link_cycles_end() {
    let (dir, store) = new();
    store.write(key("a/b/x"), &[b""]).unwrap();
    symlink("..", dir.path().join("a/b/up")).unwrap();
    symlink(".", dir.path().join("here")).unwrap();
    symlink("a/b", dir.path().join("c")).unwrap();
    // 'c' is 'a/b' under another name. From there 'up' is 'a', whose 'b' is 'c' again.
    assert_eq!(store.list(None).unwrap(), ["a/b/x", "c/x"]);
    store.delete_prefix(Some(key("a"))).unwrap();
    assert_eq!(store.list(None).unwrap(), [""; 0]);

    // Every directory links to every other one: far more paths than anyone could list.
    for from in 0..10 {
        fs::create_dir(dir.path().join(from.to_string())).unwrap();
        for to in 0..10 {
            symlink(format!("../{to}"), dir.path().join(format!("{from}/to{to}"))).unwrap();
        }
    }
    assert!(matches!(store.list(None), Err(StoreError::Io { .. })));
}

/// None of these is an object, and none may block or be read endlessly.
///
/// A directory counts as missing. If the others did too, a chunk would silently read as fill value.
#[test]
fn other_kinds_of_files() {
    let (dir, store) = new();
    fs::create_dir(dir.path().join("directory")).unwrap();
    assert!(Command::new("mkfifo").arg(dir.path().join("pipe")).status().unwrap().success());
    let _listener = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
    for device in ["zero", "null", "full", "tty"] {
        symlink(Path::new("/dev").join(device), dir.path().join(device)).unwrap();
    }
    let (name, what) = ("directory", "");
    let missing = |found: hyperslab_store::Result<bool>| assert!(!found.unwrap(), "{name}{what}");
    missing(store.read_all(key(name), &mut Vec::with_capacity(100), usize::MAX));
    missing(store.read_exact(key(name), &mut [0; 10]));
    missing(store.read_exact(key(name), &mut []));
    missing(store.read_ranges(key(name), None, &mut []));
    missing(store.read_ranges(key(name), Some(5), &mut []));
    missing(store.read_ranges(key(name), None, &mut [RangeRead { offset: 3, buf: &mut [0; 10] }]));
    assert_eq!(store.size(key(name)).unwrap(), None);
    assert!(store.open(key(name), None).unwrap().is_none());
    assert!(!store.delete(key(name)).unwrap());
    let others = [
        ("pipe", "named pipe"),
        ("socket", "socket"),
        ("zero", "device"),
        ("null", "device"),
        ("full", "device"),
    ];
    for (name, what) in others {
        let refused = |found: hyperslab_store::Result<bool>| {
            let error = found.unwrap_err().to_string();
            assert!(error.contains(what) && error.contains("only regular files are read"), "{name}: {error}");
        };
        refused(store.read_all(key(name), &mut Vec::with_capacity(100), usize::MAX));
        refused(store.read_all(key(name), &mut Vec::new(), usize::MAX));
        refused(store.read_exact(key(name), &mut [0; 10]));
        refused(store.read_exact(key(name), &mut []));
        refused(store.read_ranges(key(name), None, &mut []));
        refused(store.read_ranges(key(name), Some(5), &mut []));
        // Endless files are recognised by their size, which is not known here.
        if !matches!(name, "zero" | "full") {
            refused(store.read_ranges(key(name), None, &mut [RangeRead { offset: 3, buf: &mut [0; 10] }]));
        }
        refused(store.size(key(name)).map(|size| size.is_some()));
        refused(store.open(key(name), None).map(|opened| opened.is_some()));
        refused(hyperslab_store::FileStore::open(&dir.path().join(name)).map(|store| store.is_some()));
        assert!(!store.delete(key(name)).unwrap(), "{name}");
    }
    assert_eq!(store.list(None).unwrap(), [""; 0]);
    store.delete_prefix(None).unwrap();
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
fn names_that_are_no_keys() {
    let (dir, store) = new();
    store.write(key("a/x"), &[b"1"]).unwrap();
    fs::write(dir.path().join("a/back\\slash"), b"").unwrap();
    // Some file systems refuse such names.
    let _ = fs::write(dir.path().join("a").join(OsStr::from_bytes(b"not-utf8-\xff")), b"");
    assert_eq!(store.list(None).unwrap(), ["a/x"]);
    store.delete_prefix(Some(key("a"))).unwrap();
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
fn names_that_are_too_long() {
    let (dir, store) = new();
    let name = format!("new/prefix/{}", "x".repeat(300));
    assert_eq!(kind(store.write(key(&name), &[b"1"])), ErrorKind::InvalidFilename);
    assert_eq!(names(dir.path()), [""; 0], "directories made for it are gone");
    let path = ["x"; 5000].join("/");
    assert_eq!(kind(store.read_exact(key(&path), &mut [0])), ErrorKind::InvalidFilename);
    assert_eq!(kind(store.write(key(&path), &[b"1"])), ErrorKind::InvalidFilename);
    assert_eq!(kind(store.size(key(&path))), ErrorKind::InvalidFilename);
}

#[test]
fn failed_writes_leave_nothing() {
    let (dir, store) = new();
    store.write(key("a/b"), &[b"object"]).unwrap();
    fs::create_dir(dir.path().join("empty")).unwrap();
    symlink("nowhere", dir.path().join("dangling")).unwrap();
    assert_eq!(kind(store.write(key("a"), &[b"1"])), ErrorKind::IsADirectory);
    assert_eq!(kind(store.write(key("empty"), &[b"1"])), ErrorKind::IsADirectory);
    assert_eq!(kind(store.write(key("a/b/c"), &[b"1"])), ErrorKind::NotADirectory);
    assert_eq!(kind(store.write(key("dangling/c"), &[b"1"])), ErrorKind::NotFound);
    assert_eq!(names(dir.path()), ["a", "dangling", "empty"]);
    assert_eq!(names(&dir.path().join("a")), ["b"]);
    assert_eq!(get(&store, "a/b").unwrap(), b"object");
}

/// Other users get the same access as for any new file. Temporary files are usually more private.
#[test]
fn modes_follow_the_umask() {
    let (dir, store) = new();
    fs::create_dir(dir.path().join("plain")).unwrap();
    fs::write(dir.path().join("plain/x"), b"").unwrap();
    store.write(key("ours/x"), &[b""]).unwrap();
    let mode = |name: &str| fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
    assert_eq!((mode("ours"), mode("ours/x")), (mode("plain"), mode("plain/x")));
}

/// A sparse file claims any size, but memory is allocated only within the limit.
#[test]
fn huge_sparse_object() {
    let (dir, store) = new();
    let file = fs::File::create(dir.path().join("huge")).unwrap();
    if let Err(error) = file.set_len(1 << 42) {
        eprintln!("skipped: {error}");
        return;
    }
    let mut buf = Vec::new();
    assert!(matches!(store.read_all(key("huge"), &mut buf, 1 << 20), Err(StoreError::TooLarge { .. })));
    assert!(buf.capacity() <= (1 << 20) + 1);
    assert_eq!(store.size(key("huge")).unwrap(), Some(1 << 42));
    match store.read_exact(key("huge"), &mut [0; 100]) {
        Err(StoreError::WrongSize { expected: 100, found, .. }) => assert_eq!(found, 1 << 42),
        other => panic!("{other:?}"),
    }
    let mut last = [1; 10];
    let offset = (1 << 42) - 10;
    assert!(store.read_ranges(key("huge"), None, &mut [RangeRead { offset, buf: &mut last }]).unwrap());
    assert_eq!(last, [0; 10]);
}
