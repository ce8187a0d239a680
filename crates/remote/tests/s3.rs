//! The store with a server of the S3 protocol: requests and failures.

mod server;

use hyperslab_remote::{RemoteStore, on_unconditional};
use hyperslab_store::{
    Expected, Holds, Key, Many, Next, Opened, Opening, RangeRead, Store, StoreError, contract, waiting,
};
use server::{Fault, Server, until};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

fn key(name: &str) -> Key<'_> {
    Key::new(name).unwrap()
}

fn open_with(server: &Server, more: &[(&str, &str)]) -> RemoteStore {
    let mut options = vec![
        ("key", "CANARYKEY"),
        ("secret", "CANARYSECRET"),
        ("token", "CANARYTOKEN"),
        ("endpoint_url", server.url.as_str()),
        ("coalesce", "1000"),
    ];
    options.extend(more);
    let options: Vec<_> =
        options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    RemoteStore::open("s3://b/p", &options).unwrap()
}

fn open(server: &Server) -> RemoteStore {
    open_with(server, &[])
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i.wrapping_mul(0x9E37_79B1) >> 13) as u8).collect()
}

fn read(store: &dyn Store, name: &str, offset: u64, len: usize) -> Result<Vec<u8>, StoreError> {
    let mut buf = vec![0xEE; len];
    assert!(store.read_ranges(key(name), None, &mut [RangeRead { offset, buf: &mut buf }])?);
    Ok(buf)
}

fn get(store: &dyn Store, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
    let mut buf = Vec::new();
    Ok(store.read_all(key(name), &mut buf, usize::MAX)?.then_some(buf))
}

#[test]
fn the_contract_holds_over_a_network() {
    let count = AtomicUsize::new(0);
    contract::check_flat(|| {
        let options =
            [("endpoint_url".to_owned(), Server::start().url), ("anon".to_owned(), "True".to_owned())];
        let url = format!("s3://b/{}", count.fetch_add(1, SeqCst));
        Box::new(RemoteStore::open(&url, &options).unwrap())
    });
}

#[test]
fn fifty_objects_are_opened_in_one_round() {
    let server = Server::start();
    let store = open(&server);
    let bytes = pattern(10_000);
    let names: Vec<String> = (0..50).map(|n| format!("shard/{n}")).collect();
    names.iter().for_each(|name| server.put(&format!("/b/p/{name}"), &bytes));
    *server.state.latency.lock().unwrap() = Duration::from_millis(200);
    let wanted: Vec<_> = names.iter().map(|name| Opening { key: key(name), next: Next::End(100) }).collect();
    let start = Instant::now();
    let mut opened: Vec<Box<dyn Opened + '_>> = Vec::new();
    store.open_all(&wanted, &mut |n, object| {
        assert_eq!(n, opened.len());
        opened.push(object.unwrap().unwrap());
    });
    assert!(start.elapsed() < Duration::from_millis(1500), "{:?}", start.elapsed());
    let requests = server.take();
    assert_eq!(requests.len(), 50);
    assert!(
        requests
            .iter()
            .all(|request| request.method == "GET" && request.range.as_deref() == Some("bytes=-100"))
    );
    assert_eq!(requests.iter().map(|request| request.at_once).max(), Some(50), "all under way together");
    // Bytes that have arrived are not requested again.
    for object in &opened {
        let mut buf = [0; 100];
        object.read_ranges(&mut [RangeRead { offset: 9_900, buf: &mut buf }]).unwrap();
        assert_eq!(buf[..], bytes[9_900..]);
        object.announce(&[(0, 10), (100, 10), (5000, 20)], 64);
    }
    for object in &opened {
        let (mut one, mut two, mut three) = ([0; 10], [0; 10], [0; 20]);
        let ranges = &mut [
            RangeRead { offset: 100, buf: &mut two },
            RangeRead { offset: 5000, buf: &mut three },
            RangeRead { offset: 0, buf: &mut one },
        ];
        object.read_ranges(ranges).unwrap();
        assert_eq!((&one[..], &two[..], &three[..]), (&bytes[..10], &bytes[100..110], &bytes[5000..5020]));
    }
    let requests = server.take();
    assert_eq!(requests.len(), 100, "near ranges are joined");
    assert!(requests.iter().map(|request| request.at_once).max() >= Some(40));
    assert!(requests.iter().all(|request| request.headers.contains_key("if-match")));
}

#[test]
fn bodies_are_lent_as_they_came() {
    let server = Server::start();
    let store = open(&server);
    // Long enough for many reads of the socket.
    let bytes = pattern(3 << 20);
    let names = ["a", "b", "none"];
    names[..2].iter().for_each(|name| server.put(&format!("/b/p/{name}"), &bytes));
    let wanted = names.map(|name| Opening { key: key(name), next: Next::All });
    let lent = |opened: &dyn Opened, offset: u64, len: u64| {
        opened.lend(offset, len).unwrap().map(|lent| (*lent).as_ref().to_vec())
    };
    let (size, mut count) = (bytes.len() as u64, 0);
    for begun in store.begin(&wanted) {
        while !begun.wait(Duration::from_millis(1)) {
            assert!(!begun.is_here() || begun.wait(Duration::ZERO));
        }
        assert!(begun.is_here());
        let Some(opened) = begun.finish().unwrap() else { continue };
        count += 1;
        assert!(lent(&*opened, 0, size).unwrap() == bytes);
        assert_eq!(lent(&*opened, 1_000_000, 5).unwrap(), bytes[1_000_000..1_000_005]);
        assert!(
            [(size, 1), (5, size), (u64::MAX, 2)].iter().all(|(at, len)| lent(&*opened, *at, *len).is_none())
        );
    }
    assert_eq!((count, server.take().len()), (2, 3));
    // An announced range is waited for, without another request.
    let opened = store.begin(&[Opening { key: key("a"), next: Next::Start(10) }]).remove(0).finish();
    let opened = opened.unwrap().unwrap();
    assert_eq!(lent(&*opened, 2_000_100, 5), None);
    opened.announce(&[(2_000_000, 500_000)], 1);
    assert!(lent(&*opened, 2_000_100, 400_000).unwrap() == bytes[2_000_100..2_400_100]);
    assert!(lent(&*opened, 2_000_000, 500_000).unwrap() == bytes[2_000_000..2_500_000]);
    assert_eq!(lent(&*opened, 2_000_100, 5), None, "memory goes once all was read");
    assert_eq!(server.take().len(), 2);
    // After a change, nothing is lent, and a read reports the change.
    server.put("/b/p/a", &pattern(4 << 20));
    opened.announce(&[(2_600_000, 500)], 1);
    assert_eq!(lent(&*opened, 2_600_000, 500), None);
    let read = opened.read_ranges(&mut [RangeRead { offset: 2_600_000, buf: &mut [0; 500] }]);
    assert!(matches!(read, Err(StoreError::Changed { .. })), "{read:?}");
}

#[test]
fn what_is_asked() {
    let server = Server::start();
    let store = open_with(&server, &[("max_request_size", "100000")]);
    let bytes = pattern(250_000);
    let count = |method: &str, expected: usize| {
        let requests = server.take();
        assert_eq!(requests.len(), expected, "{requests:?}");
        assert!(requests.iter().all(|request| request.method == method), "{requests:?}");
    };
    store.write(key("a/x"), &[&bytes]).unwrap();
    count("PUT", 1);
    assert_eq!(server.get("/b/p/a/x").unwrap(), bytes);
    assert_eq!(read(&store, "a/x", 0, 250_000).unwrap(), bytes);
    count("GET", 3);
    assert_eq!(read(&store, "a/x", 1000, 5).unwrap(), bytes[1000..1005]);
    count("GET", 1);
    assert_eq!(get(&store, "a/x").unwrap().unwrap(), bytes);
    count("GET", 1);
    assert!(matches!(store.read_all(key("a/x"), &mut Vec::new(), 100), Err(StoreError::TooLarge { .. })));
    count("GET", 1);
    assert!(store.open(key("a/x"), None).unwrap().is_some());
    count("GET", 1);
    assert_eq!(store.size(key("a/x")).unwrap(), Some(250_000));
    assert!(store.exists(key("a/x")).unwrap() && store.stamp(key("a/x")).unwrap().is_some());
    count("HEAD", 3);
    assert!(!store.delete(key("a/y")).unwrap());
    count("HEAD", 1);
    assert!(!store.write_new(key("a/x"), &[b"1"]).unwrap());
    count("PUT", 1);
    for n in 0..12 {
        store.write(key(&format!("l/{n:02}")), &[b"1"]).unwrap();
    }
    server.take();
    assert_eq!(store.list(Some(key("l"))).unwrap().len(), 12);
    count("GET", 3);
    assert_eq!(store.present(Some(key("l")), 100).unwrap().len(), 12);
    assert_eq!(store.present(Some(key("l")), 3), None);
    count("GET", 3);
    store.delete_prefix(Some(key("l"))).unwrap();
    assert!(server.take().len() <= 6, "many at a time");
    assert_eq!(store.list(None).unwrap(), ["a/x"]);
    // A held object: the first bytes arrive with it, and small reads fetch blocks.
    server.take();
    let (held, name) = store.hold(key("a/x")).unwrap().unwrap();
    for n in 0..60 {
        read(&*held, &name, n * 1000, 8).unwrap();
    }
    count("GET", 1);
    for n in 60..240 {
        assert_eq!(read(&*held, &name, n * 1000, 8).unwrap(), bytes[n as usize * 1000..][..8]);
    }
    let requests = server.take();
    assert!(requests.len() <= 3, "{}", requests.len());
}

#[test]
fn parts_of_long_objects() {
    let server = Server::start();
    let store = open_with(&server, &[("part_size", "5242880")]);
    let bytes = pattern(12 << 20);
    store.write(key("x"), &[&bytes[..1000], &bytes[1000..]]).unwrap();
    assert!(server.get("/b/p/x").unwrap() == bytes);
    let requests = server.take();
    let count = |method: &str| requests.iter().filter(|request| request.method == method).count();
    assert_eq!((count("POST"), count("PUT")), (2, 3));
    assert_eq!(server.uploads(), 0);
    // The response to the last step is lost.
    server.fail(4, 1, Fault::Lost);
    store.write(key("y"), &[&bytes]).unwrap();
    assert!(server.get("/b/p/y").unwrap() == bytes);
    // A part fails for good: the upload is aborted, and the old object stays.
    server.fail(2, 1, Fault::Status(400));
    let failed = store.write(key("x"), &[&vec![7; 12 << 20]]);
    assert!(matches!(failed, Err(StoreError::Server(_))), "{failed:?}");
    server.heal();
    assert!(until(|| server.uploads() == 0), "aborted");
    assert!(server.get("/b/p/x").unwrap() == bytes);
    // Interrupted by the user.
    server.fail(2, 3, Fault::Slow(Duration::from_millis(300)));
    let asked = AtomicUsize::new(0);
    let failed = waiting::with_ask(&|| asked.fetch_add(1, SeqCst) > 2, || {
        store.write(key("x"), &[&vec![7; 12 << 20]])
    });
    assert!(matches!(failed, Err(StoreError::Interrupted { .. })), "{failed:?}");
    server.heal();
    assert!(until(|| server.uploads() == 0), "aborted");
    assert!(server.get("/b/p/x").unwrap() == bytes);
}

/// Uses everything in a store, and checks the results.
fn everything(store: &RemoteStore) -> Result<(), StoreError> {
    let bytes = pattern(70_000);
    store.write(key("x"), &[&bytes])?;
    assert_eq!(read(store, "x", 10, 60_000)?, bytes[10..60_010]);
    let (mut one, mut two) = ([0; 10], [0; 10]);
    let ranges = &mut [RangeRead { offset: 60_000, buf: &mut one }, RangeRead { offset: 5, buf: &mut two }];
    assert!(store.read_ranges(key("x"), Some(70_000), ranges)?);
    assert_eq!((&one[..], &two[..]), (&bytes[60_000..60_010], &bytes[5..15]));
    assert_eq!(get(store, "x")?.unwrap(), bytes);
    let opened = store.open(key("x"), None)?.expect("it exists");
    let mut all = vec![0; 70_000];
    opened.read_ranges(&mut [RangeRead { offset: 0, buf: &mut all }])?;
    assert_eq!(all, bytes);
    assert!(store.swap(key("x"), Expected::Same(&*opened), &[b"new"], None)?);
    assert!(!store.swap(key("x"), Expected::Same(&*opened), &[b"newer"], None)?);
    assert!(store.write_new(key("y"), &[b"y"])?);
    assert!(!store.write_new(key("y"), &[b"z"])?);
    assert_eq!(store.size(key("x"))?, Some(3));
    assert_eq!(store.list(None)?, ["x", "y"]);
    assert_eq!(store.list_dir(None)?.len(), 2);
    assert!(store.delete(key("x"))?);
    assert!(!store.exists(key("x"))?);
    assert_eq!(get(store, "y")?.unwrap(), b"y");
    store.delete_prefix(None)?;
    assert_eq!(store.list(None)?, [""; 0]);
    Ok(())
}

#[test]
fn one_fault_at_any_request_does_no_harm() {
    let server = Server::start();
    let store = open(&server);
    everything(&store).unwrap();
    let requests = server.take().len();
    assert!(requests > 15);
    for fault in [
        Fault::Reset,
        Fault::Status(500),
        Fault::Status(503),
        Fault::Status(429),
        Fault::Truncate,
        Fault::Lost,
    ] {
        for after in 0..requests {
            server.fail(after, 1, fault);
            match everything(&store) {
                Ok(()) => {}
                // Retries must hide the fault, even if the request was done twice.
                Err(error) => {
                    panic!("{fault:?} at request {after}: {error}")
                }
            }
            server.heal();
            store.delete_prefix(None).unwrap();
        }
    }
    // If the fault is permanent, the error says so.
    let store = open_with(&server, &[("max_retries", "1"), ("timeout", "2")]);
    server.put("/b/p/x", b"0123456789");
    for (fault, text) in [
        (Fault::Reset, "cannot read 'x' in s3://b/p"),
        (Fault::Status(500), "HTTP status 500"),
        (Fault::Status(503), "overloaded"),
        (Fault::Status(429), "HTTP status 429"),
        (Fault::Slow(Duration::from_secs(5)), "did not answer in time"),
    ] {
        server.fail(0, 1000, fault);
        let start = Instant::now();
        let error = read(&store, "x", 0, 5).unwrap_err().to_string();
        assert!(error.contains(text), "{fault:?}: {error}");
        assert!(start.elapsed() < Duration::from_millis(4500));
        server.heal();
    }
    assert_eq!(read(&store, "x", 0, 5).unwrap(), b"01234");
}

#[test]
fn objects_that_change_while_they_are_read() {
    let server = Server::start();
    let store = open_with(&server, &[("max_request_size", "4096")]);
    let bytes = pattern(20_000);
    server.put("/b/p/x", &bytes);
    // A change between two requests of one read: the read starts again.
    server.fail(2, 1, Fault::Change);
    let found = read(&store, "x", 0, 20_000).unwrap();
    let newer: Vec<u8> = bytes.iter().map(|byte| byte.wrapping_add(1)).collect();
    assert!(found == newer, "no mixture");
    // Endless changes: an error.
    server.fail(0, usize::MAX, Fault::Change);
    assert!(matches!(read(&store, "x", 0, 20_000), Err(StoreError::Changed { .. })));
    server.heal();
    // A change while the object is open: an error.
    let opened = store.open(key("x"), Some(20_000)).unwrap().unwrap();
    server.put("/b/p/x", &bytes);
    let mut buf = vec![0; 10_000];
    let late = opened.read_ranges(&mut [RangeRead { offset: 8000, buf: &mut buf }]);
    assert!(matches!(late, Err(StoreError::Changed { .. })), "{late:?}");
}

/// The object is too short for the range, but has grown when the server is asked for its length.
#[test]
fn objects_that_grow_while_they_are_read() {
    // A new server, because late requests of an abandoned read would be counted.
    let server = Server::start();
    server.put("/b/p/y", b"01234");
    server.fail(1, 1, Fault::Grow);
    assert_eq!(read(&open(&server), "y", 6, 3).unwrap(), b"123");
}

#[test]
fn servers_that_know_no_conditions() {
    static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());
    on_unconditional(|warning| WARNINGS.lock().unwrap().push(warning.to_owned()));
    let server = Server::start();
    server.state.unconditional.store(true, SeqCst);
    let store = open(&server);
    assert!(store.write_new(key("x"), &[b"1"]).unwrap());
    assert!(!store.write_new(key("x"), &[b"2"]).unwrap());
    let opened = store.open(key("x"), None).unwrap().unwrap();
    assert!(store.swap(key("x"), Expected::Same(&*opened), &[b"3"], None).unwrap());
    assert!(!store.swap(key("x"), Expected::Same(&*opened), &[b"4"], None).unwrap());
    assert_eq!(server.get("/b/p/x").unwrap(), b"3");
    let warnings = WARNINGS.lock().unwrap().clone();
    assert!(
        warnings.len() == 1 && warnings[0].starts_with("s3://b/p: the server cannot replace"),
        "{warnings:?}"
    );
    let strict = open_with(&server, &[("unconditional", "refuse")]);
    let error = strict.write_new(key("y"), &[b"1"]).unwrap_err().to_string();
    assert!(error.contains("under the condition"), "{error}");
    assert_eq!(server.get("/b/p/y"), None);
    strict.write(key("y"), &[b"1"]).unwrap();
}

#[test]
fn waits_stop_when_they_are_told() {
    let server = Server::start();
    let store = open(&server);
    server.put("/b/p/x", &pattern(1000));
    read(&store, "x", 0, 10).unwrap();
    server.fail(0, 1000, Fault::Slow(Duration::from_secs(3)));
    type Work<'w> = &'w dyn Fn() -> Result<(), StoreError>;
    let works: [(&str, Work<'_>); 6] = [
        ("read", &|| read(&store, "x", 0, 10).map(drop)),
        ("read_all", &|| get(&store, "x").map(drop)),
        ("open", &|| store.open(key("x"), None).map(drop)),
        ("write", &|| store.write(key("y"), &[b"1"])),
        ("list", &|| store.list(None).map(drop)),
        ("delete", &|| store.delete(key("x")).map(drop)),
    ];
    for (name, work) in works {
        let end = Instant::now() + Duration::from_millis(60);
        let result = waiting::with_ask(&|| Instant::now() >= end, work);
        assert!(matches!(result, Err(StoreError::Interrupted { .. })), "{name}: {result:?}");
        assert!(end.elapsed() < Duration::from_millis(100), "{name}: {:?}", end.elapsed());
    }
    server.heal();
    assert_eq!(get(&store, "x").unwrap().unwrap(), pattern(1000));
}

#[test]
fn errors_say_what_to_do_and_no_secret() {
    let server = Server::start();
    let store = open_with(&server, &[("max_retries", "0")]);
    let header = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
    let echo = "<Error><Code>AccessDenied</Code><Message>you sent CANARYSECRET CANARYTOKEN CANARYKEY</Message><RequestId>R7</RequestId></Error>";
    let region = header("x-amz-bucket-region", "eu-north-1");
    let cases = [
        (403, echo, vec![], vec!["HTTP status 403", "R7", "AccessDenied", "Check the permissions"]),
        (301, "", region.clone(), vec!["eu-north-1", "\"region\""]),
        (400, "<Error><Code>AuthorizationHeaderMalformed</Code></Error>", region, vec!["eu-north-1"]),
        (404, "<Error><Code>NoSuchBucket</Code></Error>", vec![], vec!["no such bucket"]),
        (403, "<Error><Code>SignatureDoesNotMatch</Code></Error>", vec![], vec!["Check the credentials"]),
        (500, "<Error><Code>InternalError</Code></Error>", vec![], vec!["HTTP status 500"]),
        (418, "CANARYSECRET", vec![], vec!["HTTP status 418"]),
    ];
    let clean = |text: &str| assert!(!text.contains("CANARY"), "{text}");
    clean(&format!("{store:?}"));
    for (status, body, headers, expected) in cases {
        *server.state.refusal.lock().unwrap() = Some((status, body.to_owned(), headers));
        let errors = [
            read(&store, "x", 0, 5).unwrap_err(),
            get(&store, "x").unwrap_err(),
            store.write(key("x"), &[b"1"]).unwrap_err(),
            store.write_new(key("x"), &[b"1"]).unwrap_err(),
            store.list(None).unwrap_err(),
        ];
        for error in errors {
            let text = error.to_string();
            assert!(expected.iter().all(|part| text.contains(part)), "{status}: {text}");
            assert!(text.contains("s3://b/p"), "{text}");
            clean(&text);
            clean(&format!("{error:?}"));
        }
    }
    // A server that cannot be reached, and a URL with a signature.
    let dead = Server { url: "http://127.0.0.1:9".into(), state: server.state.clone() };
    let error = read(&open_with(&dead, &[("max_retries", "0")]), "x", 0, 5).unwrap_err();
    assert!(error.to_string().contains("refused"), "{error}");
    clean(&format!("{error} {error:?}"));
    *server.state.refusal.lock().unwrap() =
        Some((403, "<Error><Message>sig=CANARY</Message></Error>".into(), vec![]));
    let options = [("headers.X-Secret".to_owned(), "CANARYHEADER".to_owned())];
    let url = format!("{}/p?sig=CANARY", server.url);
    let web = RemoteStore::open(&url, &options).unwrap();
    clean(&format!("{web:?} {}", web.url()));
    let error = read(&web, "x", 0, 5).unwrap_err();
    clean(&format!("{error} {error:?}"));
    assert!(server.take().last().unwrap().path.contains("sig=CANARY"), "the server gets it");
}

#[test]
fn plain_web_servers() {
    let server = Server::start();
    let bytes = pattern(200_000);
    server.put("/data/a.zarr/c/0", &bytes);
    let store = RemoteStore::open(&format!("{}/data/a.zarr/", server.url), &[]).unwrap();
    for (no_ranges, no_tags) in [(false, false), (true, false), (false, true), (true, true)] {
        server.state.no_ranges.store(no_ranges, SeqCst);
        server.state.no_tags.store(no_tags, SeqCst);
        assert_eq!(read(&store, "c/0", 1000, 5000).unwrap(), bytes[1000..6000]);
        assert_eq!(get(&store, "c/0").unwrap().unwrap(), bytes);
        assert_eq!(get(&store, "c/1").unwrap(), None);
        let opened = store.open(key("c/0"), None).unwrap().unwrap();
        assert_eq!(opened.stamp().is_some(), !no_tags);
        let mut buf = vec![0; 100];
        opened.read_ranges(&mut [RangeRead { offset: 199_900, buf: &mut buf }]).unwrap();
        assert_eq!(buf, bytes[199_900..]);
        for fault in [Fault::Truncate, Fault::Reset, Fault::Status(500)] {
            server.fail(0, 1, fault);
            assert!(get(&store, "c/0").unwrap().unwrap() == bytes, "{fault:?} {no_ranges} {no_tags}");
            server.heal();
        }
    }
    let error = store.list_dir(None).unwrap_err().to_string();
    assert!(error.contains("consolidated"), "{error}");
    assert_eq!(store.present(None, 1000), None);
}

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(status: i32) -> !;
    fn kill(pid: i32, signal: i32) -> i32;
}

#[test]
fn a_forked_child_works() {
    let server = Server::start();
    let store = open(&server);
    let bytes = pattern(300_000);
    server.put("/b/p/x", &bytes);
    assert_eq!(read(&store, "x", 0, 1000).unwrap(), bytes[..1000]);
    let opened = store.open(key("x"), None).unwrap().unwrap();
    *server.state.latency.lock().unwrap() = Duration::from_millis(50);
    // In flight during the fork.
    opened.announce(&[(100_000, 1000)], 64);
    for _ in 0..10 {
        // SAFETY: the child only runs the code below and exits with `_exit`.
        let pid = unsafe { fork() };
        if pid == 0 {
            let mut buf = vec![0; 1000];
            let part = opened.read_ranges(&mut [RangeRead { offset: 100_000, buf: &mut buf }]);
            let whole = get(&store, "x");
            let right = part.is_ok()
                && buf == bytes[100_000..101_000]
                && whole.is_ok_and(|all| all.unwrap() == bytes);
            drop(store.clone());
            // SAFETY: ends this process.
            unsafe { _exit(i32::from(!right)) };
        }
        let mut status = -1;
        // SAFETY: waits for the child that was just made.
        let done = until(|| unsafe { waitpid(pid, &raw mut status, 1) } == pid);
        if !done {
            // SAFETY: as above.
            unsafe { kill(pid, 9) };
        }
        assert!(done && status == 0, "{done} {status}");
        assert_eq!(read(&store, "x", 0, 1000).unwrap(), bytes[..1000]);
    }
}

/// Staged contents. If they are small, the old contents stay until the end.
///
/// If they are large, the old contents are deleted first. Sent objects are removed if there is no
/// commit.
#[test]
fn staged_objects_are_sent_when_they_are_many() {
    let server = Server::start();
    let store = open_with(&server, &[("part_size", "5242880")]);
    let chunk = pattern(3 << 20);
    for (count, commits) in [(1, true), (1, false), (9, true), (9, false)] {
        for name in ["a/zarr.json", "a/c/0", "a/old"] {
            store.write(key(name), &[b"old"]).unwrap();
        }
        let staged = store.stage(Some(key("a"))).unwrap();
        let new = staged.store();
        new.write(key("zarr.json"), &[b"new"]).unwrap();
        for n in 0..count {
            new.write(key(&format!("c/{n}")), &[b"first"]).unwrap();
            new.write(key(&format!("c/{n}")), &[&chunk]).unwrap();
        }
        assert_eq!(get(&*new, "c/0").unwrap().as_deref(), Some(chunk.as_slice()));
        assert_eq!(read(&*new, "c/0", 5, 3).unwrap(), chunk[5..8]);
        assert_eq!(new.list(None).unwrap().len(), count + 1);
        assert_eq!(new.list_dir(Some(key("c"))).unwrap().len(), count);
        assert_eq!(new.size(key("zarr.json")).unwrap(), Some(3));
        let large = count > 6;
        let old = get(&store, "a/zarr.json").unwrap();
        assert_eq!(old.as_deref(), (!large).then_some(b"old".as_slice()), "documents come last");
        if commits {
            staged.commit(None).unwrap();
            assert_eq!(get(&store, "a/zarr.json").unwrap().as_deref(), Some(b"new".as_slice()));
            assert_eq!(get(&store, "a/c/0").unwrap().as_deref(), Some(chunk.as_slice()));
            assert_eq!(store.list(None).unwrap().len(), count + 1);
        } else {
            drop((new, staged));
            let left: &[&str] = if large { &[] } else { &["a/c/0", "a/old", "a/zarr.json"] };
            assert_eq!(store.list(None).unwrap(), left);
        }
        store.delete_prefix(None).unwrap();
    }
    // If the prefix is empty, objects are sent at once, and somebody else may be faster.
    let staged = store.stage(Some(key("b"))).unwrap();
    staged.store().write(key("c/0"), &[b"1"]).unwrap();
    staged.store().write(key("zarr.json"), &[b"mine"]).unwrap();
    assert_eq!(store.list(None).unwrap(), ["b/c/0"]);
    store.write(key("b/zarr.json"), &[b"theirs"]).unwrap();
    assert!(!staged.commit_new().unwrap());
    assert_eq!(store.list(None).unwrap(), ["b/c/0", "b/zarr.json"]);
    assert_eq!(get(&store, "b/zarr.json").unwrap().as_deref(), Some(b"theirs".as_slice()));
}
