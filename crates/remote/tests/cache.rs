//! The cache of remote objects: saved requests and bytes, and failures.

mod server;

use hyperslab_remote::{RemoteStore, on_cache_failure};
use hyperslab_store::{Holds, Key, Many, Next, Opening, RangeRead, Store, StoreError};
use server::{Fault, Recorded, Server};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

fn key(name: &str) -> Key<'_> {
    Key::new(name).unwrap()
}

fn open(server: &Server, url: &str, cache: &Path, more: &[(&str, &str)]) -> RemoteStore {
    let cache = cache.to_str().unwrap();
    let mut options = vec![
        ("key", "CANARYKEY"),
        ("secret", "CANARYSECRET"),
        ("endpoint_url", &server.url),
        ("cache", cache),
    ];
    options.push(("coalesce", "1000"));
    options.extend(more);
    let options: Vec<_> =
        options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    RemoteStore::open(url, &options).unwrap()
}

fn read(store: &dyn Store, name: &str, offset: u64, len: usize) -> Result<Vec<u8>, StoreError> {
    let mut buf = vec![0xEE; len];
    assert!(store.read_ranges(key(name), None, &mut [RangeRead { offset, buf: &mut buf }])?);
    Ok(buf)
}

fn get(store: &dyn Store, name: &str) -> Option<Vec<u8>> {
    let mut buf = Vec::new();
    store.read_all(key(name), &mut buf, usize::MAX).unwrap().then_some(buf)
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i.wrapping_mul(0x9E37_79B1) >> 13) as u8).collect()
}

/// The number of requests, and how many of them were conditional.
fn asked(server: &Server) -> (usize, usize) {
    let requests = server.take();
    let conditional = |request: &&Recorded| request.headers.contains_key("if-none-match");
    (requests.len(), requests.iter().filter(conditional).count())
}

/// All files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.path().is_dir() {
            true => found.extend(files(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}

#[test]
fn what_was_read_is_asked_for_and_not_sent_again() {
    let (server, directory) = (Server::start(), tempfile::tempdir().unwrap());
    let bytes = pattern(300_000);
    server.put("/b/p/x", &bytes);
    server.put("/b/p/y", b"small");
    for (n, requests) in [(0, (3, 0)), (1, (3, 3)), (2, (3, 3))] {
        // Like another process: another store, reaching the same bucket in another way.
        let (url, at) = if n == 1 { ("s3://b", "p/") } else { ("s3a://b/p", "") };
        let store = open(&server, url, directory.path(), &[]);
        assert_eq!(get(&store, &format!("{at}y")).unwrap(), b"small");
        let mut two = [vec![0; 1000], vec![0; 200]];
        let [one, other] = &mut two;
        let ranges =
            &mut [RangeRead { offset: 100_000, buf: one }, RangeRead { offset: 299_800, buf: other }];
        assert!(store.read_ranges(key(&format!("{at}x")), Some(300_000), ranges).unwrap());
        assert_eq!(two[0], bytes[100_000..101_000]);
        assert_eq!(two[1], bytes[299_800..]);
        assert_eq!(asked(&server), requests, "{n}");
        // Part of that range.
        assert_eq!(read(&store, &format!("{at}x"), 100_100, 20).unwrap(), bytes[100_100..100_120]);
        assert_eq!(asked(&server), (1, 1));
    }
    // An open object was confirmed when it was opened.
    for n in 0..2 {
        let store = open(&server, "s3://b/p", directory.path(), &[]);
        store.open_all(&[Opening { key: key("x"), next: Next::End(500) }], &mut |_, opened| {
            let opened = opened.unwrap().unwrap();
            let (mut index, mut inner) = (vec![0; 500], vec![0; 5000]);
            opened.read_ranges(&mut [RangeRead { offset: 299_500, buf: &mut index }]).unwrap();
            opened.read_ranges(&mut [RangeRead { offset: 5, buf: &mut inner }]).unwrap();
            assert_eq!(index, bytes[299_500..]);
            assert_eq!(inner, bytes[5..5005]);
        });
        assert_eq!(asked(&server), if n == 0 { (2, 0) } else { (1, 1) });
    }
    // A file that stays open was confirmed then too.
    for n in 0..2 {
        let store = open(&server, "s3://b/p", directory.path(), &[]);
        let (held, name) = store.hold(key("x")).unwrap().unwrap();
        for at in [70_000, 10, 200_000, 299_999] {
            assert_eq!(read(&*held, &name, at, 1).unwrap(), bytes[at as usize..=at as usize]);
        }
        let (requests, conditional) = asked(&server);
        assert!(if n == 0 { requests >= 3 } else { (requests, conditional) == (1, 1) }, "{requests}");
    }
}

#[test]
fn changed_objects_are_read_anew() {
    for cache in ["folder", "1 MiB"] {
        let (server, directory) = (Server::start(), tempfile::tempdir().unwrap());
        let folder = directory.path().join("cache");
        let cache = if cache == "folder" { folder.as_path() } else { Path::new(cache) };
        let store = open(&server, "s3://b", cache, &[]);
        for round in 0..5u8 {
            let bytes = vec![round; 1000];
            server.put("/b/x", &bytes);
            for n in 0..2 {
                assert_eq!(get(&store, "x").unwrap(), bytes);
                assert_eq!(asked(&server), (1, usize::from(round + n > 0)), "{cache:?}");
            }
            assert_eq!(read(&store, "x", 500, 9).unwrap(), [round; 9]);
            server.take();
        }
        // The object changes during a read: never a mixture.
        let mut late = [vec![0; 10], vec![0; 10]];
        server.put("/b/long", &[1; 100_000]);
        read(&store, "long", 0, 10).unwrap();
        server.put("/b/long", &[2; 100_000]);
        let [one, other] = &mut late;
        let ranges = &mut [RangeRead { offset: 0, buf: one }, RangeRead { offset: 90_000, buf: other }];
        store.read_ranges(key("long"), None, ranges).unwrap();
        assert_eq!(late, [vec![2; 10], vec![2; 10]]);
        // Changes by this store itself.
        store.write(key("x"), &[b"new"]).unwrap();
        assert_eq!(get(&store, "x").unwrap(), b"new");
        assert!(store.delete(key("x")).unwrap());
        assert_eq!(get(&store, "x"), None);
        // Without a tag, nothing is kept.
        server.state.no_tags.store(true, std::sync::atomic::Ordering::SeqCst);
        server.put("/b/untold", b"1");
        assert_eq!(get(&store, "untold").unwrap(), b"1");
        server.put("/b/untold", b"2");
        assert_eq!(get(&store, "untold").unwrap(), b"2");
    }
}

#[test]
fn objects_that_do_not_change_need_no_request() {
    let (server, directory) = (Server::start(), tempfile::tempdir().unwrap());
    let bytes = pattern(100_000);
    server.put("/b/x", &bytes);
    let open = || open(&server, "s3://b", directory.path(), &[("cache_check", "never")]);
    assert_eq!(get(&open(), "x").unwrap(), bytes);
    server.take();
    let store = open();
    assert_eq!(get(&store, "x").unwrap(), bytes);
    assert_eq!(read(&store, "x", 99_990, 10).unwrap(), bytes[99_990..]);
    assert_eq!(store.size(key("x")).unwrap(), Some(100_000));
    assert!(store.stamp(key("x")).unwrap().is_some());
    let (held, name) = store.hold(key("x")).unwrap().unwrap();
    assert_eq!(read(&*held, &name, 70_000, 9).unwrap(), bytes[70_000..70_009]);
    assert_eq!(asked(&server), (0, 0));
}

#[test]
fn a_change_that_was_not_expected_is_found() {
    let (server, directory) = (Server::start(), tempfile::tempdir().unwrap());
    server.put("/b/x", &[1; 100_000]);
    let store = open(&server, "s3://b", directory.path(), &[("cache_check", "never")]);
    assert_eq!(read(&store, "x", 0, 10).unwrap(), [1; 10]);
    server.put("/b/x", &[2; 100_000]);
    assert_eq!(read(&store, "x", 0, 10).unwrap(), [1; 10], "nobody is asked");
    let mut two = [vec![0; 10], vec![0; 10]];
    let [one, other] = &mut two;
    let ranges = &mut [RangeRead { offset: 0, buf: one }, RangeRead { offset: 90_000, buf: other }];
    store.read_ranges(key("x"), None, ranges).unwrap();
    assert_eq!(two, [vec![2; 10], vec![2; 10]], "one version");
    // Opened from the cache, then read outside of the kept range.
    server.put("/b/x", &[3; 100_000]);
    let opened = store.open(key("x"), None).unwrap().unwrap();
    let mut buf = [0; 10];
    let changed = opened.read_ranges(&mut [RangeRead { offset: 70_000, buf: &mut buf }]);
    if changed.is_err() {
        assert!(matches!(changed, Err(StoreError::Changed { .. })), "{changed:?}");
        assert_eq!(read(&store, "x", 70_000, 10).unwrap(), [3; 10]);
    } else {
        assert_eq!(buf, [3; 10]);
    }
}

#[test]
fn damaged_and_lost_files_are_read_again() {
    let (server, directory) = (Server::start(), tempfile::tempdir().unwrap());
    let bytes = pattern(200_000);
    server.put("/b/x", &bytes);
    let store = open(&server, "s3://b", directory.path(), &[]);
    assert_eq!(get(&store, "x").unwrap(), bytes);
    let file = files(directory.path()).pop().unwrap();
    let good = fs::read(&file).unwrap();
    let damages: [&dyn Fn(); 5] = [
        &|| fs::write(&file, &good[..good.len() - 1]).unwrap(),
        &|| fs::write(&file, b"").unwrap(),
        &|| {
            let mut bad = good.clone();
            bad[150_000] ^= 1;
            fs::write(&file, bad).unwrap();
        },
        &|| fs::remove_file(&file).unwrap(),
        &|| fs::remove_dir_all(directory.path()).unwrap(),
    ];
    for damage in damages {
        damage();
        server.take();
        assert_eq!(get(&store, "x").unwrap(), bytes);
        assert_eq!(asked(&server), (1, 0));
        assert_eq!(get(&store, "x").unwrap(), bytes);
        assert_eq!(asked(&server), (1, 1));
    }
    // A read that the server refuses fails, even if the bytes are kept.
    server.fail(0, 100, Fault::Status(403));
    assert!(store.read_all(key("x"), &mut Vec::new(), usize::MAX).is_err());
    server.heal();
    // A truncated body is not kept as a complete one.
    server.put("/b/y", &bytes);
    server.fail(0, 1, Fault::Truncate);
    assert_eq!(get(&store, "y").unwrap(), bytes);
    assert_eq!(get(&store, "y").unwrap(), bytes);
}

static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[test]
fn a_cache_that_cannot_be_written_fails_no_read() {
    on_cache_failure(|text| WARNINGS.lock().unwrap().push(text.to_owned()));
    let (server, directory) = (Server::start(), tempfile::tempdir().unwrap());
    server.put("/b/x", b"bytes");
    server.put("/b/y", b"other");
    // There is a file in place of the folder. (Permissions would not stop the administrator.)
    let folder = directory.path().join("no-folder");
    fs::write(&folder, "a file").unwrap();
    let store = open(&server, "s3://b", &folder, &[]);
    for _ in 0..3 {
        assert_eq!(get(&store, "x").unwrap(), b"bytes");
        assert_eq!(get(&store, "y").unwrap(), b"other");
    }
    let warnings: Vec<_> =
        WARNINGS.lock().unwrap().iter().filter(|text| text.contains("no-folder")).cloned().collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].starts_with("s3://b: the cache") && warnings[0].contains("cannot be written"),
        "{warnings:?}"
    );
}

#[test]
fn secrets_are_not_in_the_folder_and_its_size_is_bounded() {
    let (server, directory) = (Server::start(), tempfile::tempdir().unwrap());
    let folder = directory.path().join("new/cache");
    let store = open(&server, "s3://b", &folder, &[("token", "CANARYTOKEN"), ("cache_size", "1 MiB")]);
    for n in 0..40 {
        server.put(&format!("/b/{n}"), &pattern(100_000 + n));
        assert_eq!(get(&store, &n.to_string()).unwrap(), pattern(100_000 + n));
        let sizes: u64 = files(&folder).iter().map(|file| fs::metadata(file).unwrap().len()).sum();
        assert!(sizes <= 1 << 20, "{sizes}");
    }
    // Larger than a quarter of the limit, so it is not kept.
    server.put("/b/large", &pattern(300_000));
    get(&store, "large").unwrap();
    server.take();
    get(&store, "large").unwrap();
    assert_eq!(asked(&server), (1, 0));
    get(&store, "39").unwrap();
    assert_eq!(asked(&server), (1, 1));
    for file in files(&folder) {
        let text = format!("{}{}", file.display(), String::from_utf8_lossy(&fs::read(&file).unwrap()));
        assert!(!text.contains("CANARY"));
    }
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
}
