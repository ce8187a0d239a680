//! Replacements with a lost response, and servers with contradictory responses.

mod server;

use hyperslab_remote::RemoteStore;
use hyperslab_store::{Expected, Key, Many, Mark, RangeRead, Store, StoreError, Writers};
use server::{Fault, Server};
use std::sync::atomic::Ordering::SeqCst;

fn key(name: &str) -> Key<'_> {
    Key::new(name).unwrap()
}

fn open_url(server: &Server, url: &str, more: &[(&str, &str)]) -> RemoteStore {
    let mut options = vec![("anon", "True"), ("endpoint_url", server.url.as_str())];
    options.extend(more);
    let options: Vec<_> =
        options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    RemoteStore::open(url, &options).unwrap()
}

fn open(server: &Server, more: &[(&str, &str)]) -> RemoteStore {
    open_url(server, "s3://b/p", more)
}

fn get(store: &dyn Store) -> Vec<u8> {
    let mut buf = Vec::new();
    assert!(store.read_all(key("x"), &mut buf, 1 << 20).unwrap());
    buf
}

/// Replaces the current object.
fn swap(store: &dyn Store, bytes: &[u8]) -> Result<bool, StoreError> {
    let was = store.open(key("x"), None)?;
    store.swap(key("x"), was.as_deref().map_or(Expected::Absent, Expected::Same), &[bytes], None)
}

/// The action of another writer in between.
#[derive(Clone, Copy, Debug)]
enum Other {
    Nothing,
    /// Replaces the object with these bytes.
    Swaps(&'static [u8]),
    /// Writes these bytes without a mark.
    Writes(&'static [u8]),
    Deletes,
}

/// Two writers put equal bytes, and one response is lost. Each writer learns what became of its
/// own.
#[test]
fn lost_answers_are_told_apart() {
    const LOST: [Fault; 3] = [Fault::Lost, Fault::Late(500), Fault::Late(503)];
    const UNDONE: [Fault; 3] = [Fault::Reset, Fault::Status(500), Fault::Status(409)];
    // Fields: whether the request is done, the other writer's step, the result, the final object.
    let cases: [(bool, Other, bool, Option<&[u8]>); 9] = [
        (true, Other::Nothing, true, Some(b"1")),
        (true, Other::Swaps(b"1"), true, Some(b"1")),
        (true, Other::Swaps(b"2"), true, Some(b"2")),
        (false, Other::Nothing, true, Some(b"1")),
        (false, Other::Swaps(b"1"), false, Some(b"1")),
        (false, Other::Swaps(b"2"), false, Some(b"2")),
        // Unknown: not taken for one's own, even if the bytes are equal.
        (true, Other::Writes(b"1"), false, Some(b"1")),
        (false, Other::Writes(b"1"), false, Some(b"1")),
        (false, Other::Deletes, false, None),
    ];
    for before in [None, Some(false), Some(true)] {
        for (done, other, expected, left) in cases {
            if before.is_none() && matches!(other, Other::Deletes) {
                continue;
            }
            for fault in if done { LOST } else { UNDONE } {
                let server = Server::start();
                let (mine, theirs) = (open(&server, &[]), open(&server, &[]));
                match before {
                    None => {}
                    Some(false) => server.put("/b/p/x", b"0"),
                    Some(true) => assert!(mine.write_new(key("x"), &[b"0"]).unwrap()),
                }
                *server.state.meanwhile.lock().unwrap() = Some(Box::new(move || match other {
                    Other::Nothing => {}
                    Other::Swaps(bytes) => assert!(swap(&theirs, bytes).unwrap()),
                    Other::Writes(bytes) => theirs.write(key("x"), &[bytes]).unwrap(),
                    Other::Deletes => assert!(theirs.delete(key("x")).unwrap()),
                }));
                // The request that opens the object comes first.
                server.fail(1, 1, fault);
                let case = format!("{before:?} {done} {other:?} {fault:?}");
                assert_eq!(swap(&mine, b"1").unwrap(), expected, "{case}");
                assert_eq!(server.get("/b/p/x").as_deref(), left, "{case}");
            }
        }
    }
}

/// Other writers' requests for the object are in progress.
#[test]
fn busy_servers_are_asked_again() {
    let server = Server::start();
    let store = open(&server, &[]);
    server.fail(0, 3, Fault::Status(409));
    store.write(key("x"), &[b"1"]).unwrap();
    server.fail(1, 3, Fault::Status(409));
    assert!(swap(&store, b"2").unwrap());
    assert_eq!(server.get("/b/p/x").unwrap(), b"2");
    server.fail(0, 50, Fault::Status(409));
    let error = store.write(key("x"), &[b"3"]).unwrap_err().to_string();
    assert!(error.contains("409"), "{error}");
    assert_eq!(server.get("/b/p/x").unwrap(), b"2");
}

/// Applies without retries too.
#[test]
fn errors_say_whether_something_was_written() {
    let server = Server::start();
    let store = open(&server, &[("max_retries", "0")]);
    server.put("/b/p/x", b"0");
    for fault in [Fault::Late(500), Fault::Lost] {
        server.fail(1, 1, fault);
        assert!(swap(&store, b"1").unwrap(), "{fault:?}");
    }
    for fault in [Fault::Status(500), Fault::Reset, Fault::Status(403)] {
        server.fail(1, 1, fault);
        let error = swap(&store, b"2").unwrap_err().to_string();
        assert!(!error.contains("Nobody knows"), "{fault:?}: {error}");
        assert_eq!(server.get("/b/p/x").unwrap(), b"1");
    }
    server.fail(1, 9, Fault::Late(500));
    let error = swap(&store, b"2").unwrap_err().to_string();
    assert!(error.contains("500") && error.contains("Nobody knows whether"), "{error}");
    server.heal();
    // The object carries the marks of all writers; other writers' marks follow the last one.
    let mine = Mark::fresh();
    let was = store.open(key("x"), None).unwrap().unwrap();
    assert!(store.swap_marked(key("x"), Expected::Same(&*was), mine, &[b"3"], None).unwrap());
    let now = store.open(key("x"), None).unwrap().unwrap();
    assert_eq!(now.version().unwrap().is_of(mine), Some(true));
    assert!(swap(&store, b"4").unwrap());
    let later = store.open(key("x"), None).unwrap().unwrap();
    let version = later.version().unwrap();
    assert_eq!((version.is_of(mine), version.follows(mine)), (Some(false), Some(true)));
}

/// On a server without metadata, nothing is taken for one's own.
#[test]
fn servers_without_metadata() {
    let server = Server::start();
    server.state.no_marks.store(true, SeqCst);
    let store = open(&server, &[("part_size", "5242880")]);
    server.put("/b/p/x", b"0");
    server.fail(1, 1, Fault::Lost);
    assert!(!swap(&store, b"1").unwrap());
    assert!(swap(&store, b"2").unwrap());
    assert_eq!(get(&store), b"2");
    // An unconditional write counts as done if its bytes are there.
    let bytes = vec![5; 11 << 20];
    server.fail(4, 1, Fault::Lost);
    store.write(key("y"), &[&bytes]).unwrap();
    assert!(server.get("/b/p/y").unwrap() == bytes);
}

#[test]
fn a_replacement_takes_as_many_requests_as_before() {
    let server = Server::start();
    let store = open(&server, &[]);
    let count = || server.take().len();
    assert!(store.write_new(key("x"), &[b"0"]).unwrap());
    assert_eq!(count(), 1);
    assert!(!store.write_new(key("x"), &[b"0"]).unwrap());
    assert_eq!(count(), 1);
    let was = store.open(key("x"), None).unwrap().unwrap();
    assert!(store.swap(key("x"), Expected::Same(&*was), &[b"1"], None).unwrap());
    assert_eq!(count(), 2);
    assert!(!store.swap(key("x"), Expected::Same(&*was), &[b"2"], None).unwrap());
    assert_eq!(count(), 1);
    // One more request to look at the object, because the response was lost.
    server.fail(1, 1, Fault::Lost);
    assert!(swap(&store, b"3").unwrap());
    assert_eq!(count(), 4);
}

/// The server reports a version, and always refuses to replace it.
#[test]
fn writers_come_to_an_end() {
    let server = Server::start();
    let store = open(&server, &[]);
    server.put("/b/p/x", b"0");
    server.state.refuses.store(true, SeqCst);
    let error = (0..50).find_map(|_| swap(&store, b"1").err()).expect("an end").to_string();
    assert!(error.contains("refuses to replace that version") && error.contains("'x'"), "{error}");
    server.state.refuses.store(false, SeqCst);
    assert!(swap(&store, b"1").unwrap());
}

#[test]
fn listings_come_to_an_end() {
    let server = Server::start();
    let store = open(&server, &[]);
    for n in 0..12 {
        server.put(&format!("/b/p/d/{n:02}"), b"1");
    }
    assert_eq!(store.list(None).unwrap().len(), 12);
    assert_eq!(store.list_dir(Some(key("d"))).unwrap().len(), 12);
    server.state.repeats.store(true, SeqCst);
    server.take();
    let errors = [
        store.list(None).unwrap_err(),
        store.list_dir(Some(key("d"))).unwrap_err(),
        store.list_sizes(None, None).unwrap_err(),
        store.delete_prefix(Some(key("d"))).unwrap_err(),
    ];
    for error in errors {
        let text = error.to_string();
        assert!(text.contains("token 'again' twice") && text.contains("s3://b/p"), "{text}");
    }
    assert_eq!(store.present(None, 1000), None);
    assert!(server.take().len() <= 20);
}

/// Responses whose bytes are not the stated range.
#[test]
fn answers_that_contradict_themselves_are_refused() {
    let server = Server::start();
    let bytes: Vec<u8> = (0..10_000u32).map(|n| (n % 251) as u8).collect();
    server.put("/b/p/x", &bytes);
    let web = format!("{}/b/p", server.url);
    let stores = [
        open(&server, &[("max_retries", "1")]),
        RemoteStore::open(&web, &[("max_retries".to_owned(), "1".to_owned())]).unwrap(),
    ];
    let read = |store: &RemoteStore| {
        let mut buf = vec![0; 500];
        store.read_ranges(key("x"), None, &mut [RangeRead { offset: 1000, buf: &mut buf }]).map(|_| buf)
    };
    for store in &stores {
        for (fault, why) in [
            (Fault::Compressed(true), "gzip"),
            (Fault::Compressed(false), "Content-Length"),
            (Fault::Whole, "called them bytes 1000 to 1499"),
        ] {
            server.fail(0, 100, fault);
            let error = read(store).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("'x'"), "{fault:?}: {error}");
            let opened = store.open(key("x"), Some(10_000));
            assert!(opened.is_err() || fault == Fault::Whole, "{fault:?}: {opened:?}");
            server.heal();
            // One bad response. The next attempt succeeds.
            server.fail(0, 1, fault);
            match read(store) {
                Ok(found) => assert_eq!(found, bytes[1000..1500]),
                Err(error) => assert!(error.to_string().contains(why), "{error}"),
            }
            server.heal();
            assert_eq!(read(store).unwrap(), bytes[1000..1500]);
        }
    }
    // A web server that compresses everything it sends.
    server.fail(0, 100, Fault::Compressed(true));
    let mut buf = Vec::new();
    let error = stores[1].read_all(key("x"), &mut buf, 1 << 20).unwrap_err().to_string();
    assert!(error.contains("gzip") && error.contains("compression"), "{error}");
    assert!(stores[1].size(key("x")).is_err());
}
