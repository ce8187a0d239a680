//! Requests to a running server, byte by byte: answers, refusals, hostile clients, the end.

use hyperslab::prelude::*;
use hyperslab::{Choice, Json};
use hyperslab_serve::{Logged, ServeOptions, Server};
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

/// An answer: its status, its head in lower case, its body.
struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    fn json(&self) -> Json {
        Json::parse(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {:?}", String::from_utf8_lossy(&self.body)))
    }

    fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// Sends bytes, and reads until the server closes.
fn send(server: &Server, request: &[u8]) -> Option<Answer> {
    let mut stream = connect(server);
    // The server may refuse before it has read all.
    let _ = stream.write_all(request);
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let at = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8(bytes[..at].to_vec()).unwrap();
    let status = head.split_whitespace().nth(1)?.parse().ok()?;
    Some(Answer { status, head: head.to_lowercase(), body: bytes[at + 4..].to_vec() })
}

fn ask(server: &Server, method: &str, path: &str, headers: &str) -> Answer {
    let request =
        format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n");
    send(server, request.as_bytes()).unwrap_or_else(|| panic!("no answer to {path}"))
}

fn get(server: &Server, path: &str) -> Answer {
    ask(server, "GET", path, "")
}

/// A directory with hierarchies, and a secret beside it.
struct Data {
    dir: TempDir,
}

impl Data {
    fn new() -> Data {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("data/more")).unwrap();
        fs::write(dir.path().join("secret.txt"), b"top secret").unwrap();
        let data = Data { dir };
        data.zarr("three.zarr", Format::ZarrV3);
        data.zarr("two.zarr", Format::ZarrV2);
        data.zarr("more/deep.zarr", Format::ZarrV3);
        data.zarr("file.h5", Format::Hdf5);
        data
    }

    fn path(&self) -> String {
        self.dir.path().join("data").display().to_string()
    }

    fn inside(&self, name: &str) -> String {
        format!("{}/{name}", self.path())
    }

    /// `t`: 10 × 4 of 0, 1, 2, … in chunks of 3 × 4, the third chunk absent.
    fn zarr(&self, name: &str, format: Format) {
        let root = Group::create(&self.inside(name), format).unwrap();
        let mut spec = ArraySpec::new(
            format.zarr().unwrap_or(hyperslab::zarr::Format::V3),
            &[10, 4],
            "<i2".parse().unwrap(),
        );
        spec.chunks = Some([3, 4].as_slice().into());
        spec.compressors = Choice::Set(Vec::new());
        spec.dimension_names = Some(vec![Some("t".into()), Some("x".into())]);
        let array = root.create_array("deep/t", &spec).unwrap();
        for row in (0..10_i64).filter(|row| !(6..9).contains(row)) {
            let values: Vec<i16> = (0..4).map(|column| row as i16 * 4 + column).collect();
            array.write_slice(&[Index::At(row)], &values).unwrap();
        }
        if format == Format::Hdf5 {
            root.finish().unwrap();
        }
    }

    fn serve(&self, options: ServeOptions) -> Server {
        Server::start(&[self.path()], options).unwrap()
    }
}

const NAMES: [&str; 4] = ["three.zarr", "two.zarr", "more/deep.zarr", "file.h5"];

fn chunk(row: i16) -> Vec<u8> {
    (row * 4..row * 4 + 12).flat_map(i16::to_le_bytes).collect()
}

#[test]
fn every_format_is_zarr_v3() {
    let data = Data::new();
    let server = data.serve(ServeOptions::default());
    for name in NAMES {
        let at = |key: &str| format!("/zarr/data/{name}/{key}");
        let root = get(&server, &at("zarr.json")).json();
        assert_eq!(root.get("node_type"), Some(&"group".into()), "{name}");
        let consolidated = root.get("consolidated_metadata").unwrap().get("metadata").unwrap();
        let names: Vec<&str> =
            consolidated.as_object().unwrap().iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["deep", "deep/t"], "{name}");
        let document = get(&server, &at("deep/t/zarr.json")).json();
        assert_eq!(document.get("shape").unwrap().to_text(None), "[10, 4]");
        let key = |n: u32| {
            let is_v2_like = document.get("chunk_key_encoding").unwrap().get("name") == Some(&"v2".into());
            if is_v2_like { format!("deep/t/{n}.0") } else { format!("deep/t/c/{n}/0") }
        };
        assert_eq!(get(&server, &at(&key(1))).body, chunk(3), "{name}");
        let absent = get(&server, &at(&key(2)));
        assert!(absent.status == 404 || absent.body == [0; 24], "{name}");
        assert_eq!(get(&server, &at(&key(4))).status, 404);
        let listed = get(&server, &at("deep/")).text();
        assert!(listed.contains("href=\"./t/\"") && listed.contains("zarr.json"), "{listed}");
    }
}

#[test]
fn parts_and_conditions() {
    let data = Data::new();
    let server = data.serve(ServeOptions::default());
    for name in ["three.zarr", "file.h5"] {
        let path = format!("/zarr/data/{name}/deep/t/c/1/0");
        let whole = get(&server, &path);
        assert_eq!((whole.status, whole.header("content-length")), (200, Some("24")));
        assert_eq!(whole.header("cache-control"), Some("no-cache"));
        let tag = whole.header("etag").unwrap().to_owned();
        let part = ask(&server, "GET", &path, "range: bytes=2-5\r\n");
        assert_eq!((part.status, part.body), (206, chunk(3)[2..6].to_vec()));
        let end = ask(&server, "GET", &path, "range: bytes=-2\r\n");
        assert_eq!(
            (end.header("content-range"), end.body.clone()),
            (Some("bytes 22-23/24"), chunk(3)[22..].to_vec())
        );
        let past = ask(&server, "GET", &path, "range: bytes=99999999999999999999-\r\n");
        assert_eq!((past.status, past.header("content-range")), (416, Some("bytes */24")));
        let same = ask(&server, "GET", &path, &format!("if-none-match: {tag}\r\n"));
        assert_eq!((same.status, same.body.len()), (304, 0));
        let head = ask(&server, "HEAD", &path, "");
        assert_eq!((head.status, head.header("content-length"), head.body.len()), (200, Some("24"), 0));
        assert_eq!(head.header("etag"), Some(tag.as_str()));
    }
    // Other contents have another tag.
    let path = "/zarr/data/three.zarr/deep/t/c/0/0";
    let before = get(&server, path).header("etag").unwrap().to_owned();
    let array = hyperslab::open(&data.inside("three.zarr/deep/t")).unwrap().into_array().unwrap();
    array.write_slice(&[Index::At(0)], &[9_i16; 4]).unwrap();
    let after = ask(&server, "GET", path, &format!("if-none-match: {before}\r\n"));
    assert_eq!((after.status, &after.body[..2]), (200, &[9, 0][..]));
}

#[test]
fn facts_and_values() {
    let data = Data::new();
    let server = data.serve(ServeOptions::default());
    for name in NAMES {
        let at = |what: &str, query: &str| get(&server, &format!("/api/{what}/data/{name}/deep/t?{query}"));
        assert_eq!(at("data", "select=1:3,::2").text(), "[[4, 6], [8, 10]]\n".trim_end());
        assert_eq!(at("data", "select=1&format=csv").text(), "4,5,6,7\r\n");
        let raw = at("data", "select=1,-1&format=raw");
        assert_eq!((raw.body.clone(), raw.header("x-dtype")), (vec![7, 0], Some("<i2")));
        assert!(at("data", "select=1&format=npy").body.starts_with(b"\x93NUMPY"));
        let stats = at("stats", "").json();
        assert_eq!(
            (stats.get("max").unwrap().to_text(None), stats.get("count").unwrap().to_text(None)),
            ("39".into(), "40".into())
        );
        let stats = at("stats", "select=1:3").json();
        assert_eq!(stats.get("sum").unwrap().to_text(None), "60");
        let chunks = at("chunks", "").json();
        assert_eq!(chunks.get("grid").unwrap().to_text(None), "[4, 1]");
        assert_eq!(chunks.get("stored").unwrap().to_text(None), "[[0, 24], [1, 24], [3, 24]]", "{name}");
        let raw = at("chunks", "format=raw").body;
        assert_eq!(raw, [24, 24, u64::MAX, 24].map(u64::to_le_bytes).concat());
        assert_eq!(at("point", "at=2,3").json().get("stored").unwrap().to_text(None), "11");
        assert_eq!(at("series", "select=:3,1").json().get("values").unwrap().to_text(None), "[1, 5, 9]");
        assert_eq!(at("explain", "select=0").json().get("chunks").unwrap().to_text(None), "1");
        let info = at("info", "").json();
        assert_eq!(info.get("url"), Some(&format!("data/{name}/deep/t").as_str().into()));
        for (what, query, status) in [
            ("data", "select=99", 400),
            ("data", "select=x", 400),
            ("data", "format=xml", 400),
            ("point", "at=1", 400),
            ("nothing", "", 404),
        ] {
            let wrong = at(what, query);
            let members: Vec<String> =
                wrong.json().as_object().unwrap().iter().map(|(name, _)| name.clone()).collect();
            assert_eq!(
                (wrong.status, members.join(" ")),
                (status, "status asked found advice".into()),
                "{what} {query}"
            );
        }
    }
    let tree = get(&server, "/api/tree/data").json();
    let members = tree.get("members").unwrap();
    let names: Vec<&str> = members.as_object().unwrap().iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["file.h5", "more", "three.zarr", "two.zarr"]);
    let array =
        members.get("file.h5").unwrap().get("members").unwrap().get("deep").unwrap().get("members").unwrap();
    assert_eq!(array.get("t").unwrap().get("shape").unwrap().to_text(None), "[10, 4]");
    assert!(!get(&server, "/api/tree/data").text().contains(&data.path()), "a local path");
}

/// Asserts that nothing of the secret is in an answer.
fn refused(answer: &Answer, what: &str) {
    assert!(answer.status >= 400, "{what}: {}", answer.status);
    let text = String::from_utf8_lossy(&answer.body);
    assert!(!text.contains("top secret"), "{what}: {text}");
}

#[test]
fn nothing_outside_is_reachable() {
    let data = Data::new();
    let (inside, outside) = (data.path(), data.dir.path());
    let link = |to: &Path, name: &str| symlink(to, Path::new(&inside).join(name)).unwrap();
    link(outside, "up");
    link(&outside.join("secret.txt"), "secret.txt");
    link(&outside.join("secret.txt"), "three.zarr/deep/t/c/2");
    fs::create_dir(outside.join("other")).unwrap();
    let other = Group::create(&outside.join("other/o.zarr").display().to_string(), Format::ZarrV3).unwrap();
    drop(other);
    link(&outside.join("other/o.zarr"), "o.zarr");
    fs::write(Path::new(&inside).join("plain.txt"), b"top secret").unwrap();
    let server = data.serve(ServeOptions::default());
    for path in [
        "/zarr/data/../secret.txt",
        "/zarr/data/%2e%2e/secret.txt",
        "/zarr/data/%2e%2e%2fsecret.txt",
        "/zarr/data/..%5csecret.txt",
        "/zarr/../../../../etc/passwd",
        "/zarr/data//etc/passwd",
        "/zarr//etc/passwd",
        "/zarr/data/three.zarr/%00",
        "/zarr/data/three.zarr/deep/t/../../../../secret.txt",
        "/zarr/data/up/secret.txt",
        "/zarr/data/up/",
        "/zarr/data/secret.txt",
        "/zarr/data/plain.txt",
        "/zarr/data/plain.txt/",
        "/zarr/data/three.zarr/deep/t/c/2/0",
        "/zarr/data/three.zarr/deep/t/c/2",
        "/zarr/data/o.zarr/zarr.json",
        "/api/tree/data/o.zarr",
        "/api/info/data/up/data/three.zarr",
        "/api/data/data/plain.txt",
        "/api/tree/..",
        "/api/data/data/../../secret.txt",
        "*",
        "http://localhost/../secret.txt",
    ] {
        refused(&get(&server, path), path);
    }
    let listed = get(&server, "/zarr/data/").text();
    assert!(
        !listed.contains("up/") && !listed.contains("./o.zarr") && !listed.contains("secret"),
        "{listed}"
    );
    let tree = get(&server, "/api/tree/data").text();
    assert!(!tree.contains("\"o.zarr\""), "{tree}");
    // The chunk beside the link can be read.
    assert_eq!(get(&server, "/zarr/data/three.zarr/deep/t/c/1/0").status, 200);
}

#[test]
fn malformed_requests_are_refused_and_others_are_served() {
    let data = Data::new();
    let server = data.serve(ServeOptions::default());
    let long = format!("GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "a".repeat(100_000));
    let many = format!("GET / HTTP/1.1\r\nhost: localhost\r\n{}\r\n", "x: y\r\n".repeat(20_000));
    for request in [
        b"".as_slice(),
        b"\r\n\r\n\r\n",
        b"GET",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /\x00 HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n",
        b"GET / HTTP/1.1\r\nhost: localhost\r\nhost: evil\r\nx\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        long.as_bytes(),
        many.as_bytes(),
    ] {
        let mut stream = connect(&server);
        let _ = stream.write_all(request);
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(
            answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"),
            "{}",
            String::from_utf8_lossy(&answer)
        );
    }
    for range in [
        "bytes=0-18446744073709551615",
        "bytes=18446744073709551615-",
        "bytes=-18446744073709551615",
        "bytes=,,,",
    ] {
        let answer =
            ask(&server, "GET", "/zarr/data/three.zarr/deep/t/c/0/0", &format!("range: {range}\r\n"));
        assert!(matches!(answer.status, 200 | 206 | 416) && answer.body.len() <= 200, "{range}");
    }
    assert_eq!(get(&server, "/zarr/data/three.zarr/deep/t/c/0/0").body, chunk(0));
}

#[test]
fn only_clients_with_the_token_read() {
    let data = Data::new();
    let options = ServeOptions { token: Some("s3cret".into()), ..ServeOptions::default() };
    let server = data.serve(options);
    let path = "/zarr/data/three.zarr/zarr.json";
    assert_eq!(get(&server, path).status, 401);
    assert_eq!(ask(&server, "GET", path, "authorization: Bearer wrong\r\n").status, 401);
    assert_eq!(ask(&server, "GET", path, "authorization: Bearer s3cret\r\n").status, 200);
    assert_eq!(get(&server, &format!("{path}?token=s3cret")).status, 200);
    assert_eq!(
        ask(&server, "PUT", path, "authorization: Bearer s3cret\r\ncontent-length: 0\r\n").status,
        405
    );
    let other = b"GET / HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n";
    let open = data.serve(ServeOptions::default());
    assert_eq!(send(&open, other).unwrap().status, 403);
}

#[test]
fn prefix_cors_and_log() {
    let data = Data::new();
    let lines: Arc<Mutex<Vec<Logged>>> = Arc::default();
    let noted = lines.clone();
    let options = ServeOptions {
        prefix: "/some/where/".into(),
        cors: Some("https://example.org".into()),
        log: Some(Arc::new(move |line| noted.lock().unwrap().push(line.clone()))),
        ..ServeOptions::default()
    };
    let server = data.serve(options);
    assert!(server.url().ends_with("/some/where"));
    let found = get(&server, "/some/where/zarr/data/three.zarr/deep/t/c/0/0?token=hidden");
    assert_eq!(
        (found.status, found.header("access-control-allow-origin")),
        (200, Some("https://example.org"))
    );
    assert_eq!(get(&server, "/zarr/data/three.zarr/zarr.json").status, 404);
    assert_eq!(ask(&server, "OPTIONS", "/some/where/zarr/x", "").status, 204);
    let index = get(&server, "/some/where/").json();
    assert_eq!(index.get("served").unwrap().as_array().unwrap().len(), 1);
    let lines = lines.lock().unwrap();
    let of = |line: &Logged| (line.status, line.bytes, line.path.clone());
    assert_eq!(of(&lines[0]), (200, 24, "/some/where/zarr/data/three.zarr/deep/t/c/0/0".into()));
    assert_eq!(lines.iter().map(|line| line.status).collect::<Vec<_>>(), [200, 404, 204, 200]);
}

#[test]
fn slow_clients_do_not_hold_others_up() {
    let data = Data::new();
    // 64 MiB: more than the buffers of the system hold.
    let spec = {
        let mut spec = ArraySpec::new(hyperslab::zarr::Format::V3, &[64 << 20], "|u1".parse().unwrap());
        spec.chunks = Some([64 << 20].as_slice().into());
        spec.compressors = Choice::Set(Vec::new());
        spec
    };
    let large = Array::create(&data.inside("large.zarr"), &spec).unwrap();
    large.write_slice(&[], &vec![7_u8; 64 << 20]).unwrap();
    let options =
        ServeOptions { read_timeout: Duration::from_millis(700), requests: 2, ..ServeOptions::default() };
    let server = data.serve(options);
    let request = b"GET /zarr/data/large.zarr/c/0 HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut slow: Vec<TcpStream> = (0..8).map(|_| connect(&server)).collect();
    // Half of them take nothing, the others never finish their request.
    for (number, stream) in slow.iter_mut().enumerate() {
        let sent = if number % 2 == 0 { request.as_slice() } else { b"GET /zarr/data" };
        stream.write_all(sent).unwrap();
    }
    for _ in 0..20 {
        assert_eq!(get(&server, "/zarr/data/three.zarr/deep/t/c/0/0").body, chunk(0));
    }
    let whole = ask(&server, "GET", "/zarr/data/large.zarr/c/0", "");
    assert!(whole.body.len() == 64 << 20 && whole.body.iter().all(|byte| *byte == 7));
    // The server gives them up.
    std::thread::sleep(Duration::from_millis(2500));
    for stream in &mut slow {
        let mut bytes = Vec::new();
        match stream.read_to_end(&mut bytes) {
            Ok(_) => assert!(bytes.len() < 64 << 20),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset),
        }
    }
}

#[test]
fn too_many_connections_are_told_to_come_again() {
    let data = Data::new();
    let server = data.serve(ServeOptions { connections: 2, ..ServeOptions::default() });
    let held: Vec<TcpStream> = (0..2)
        .map(|_| {
            let mut stream = connect(&server);
            stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
            assert_ne!(stream.read(&mut [0; 64]).unwrap(), 0);
            stream
        })
        .collect();
    let mut bytes = Vec::new();
    let _ = connect(&server).read_to_end(&mut bytes);
    assert!(bytes.is_empty() || bytes.starts_with(b"HTTP/1.1 503"), "{}", String::from_utf8_lossy(&bytes));
    drop(held);
}

#[test]
fn the_page_needs_no_token_but_its_data_does() {
    let data = Data::new();
    let options =
        ServeOptions { token: Some("s3cret".into()), prefix: "/data".into(), ..ServeOptions::default() };
    let server = data.serve(options);
    let html = "accept: text/html,application/xhtml+xml\r\n";
    for path in ["/data/", "/data/view/two.zarr/a%2fb"] {
        let page = ask(&server, "GET", path, html);
        assert_eq!(page.status, 200, "{path}");
        assert!(page.text().contains("<base href=\"/data/\" />"), "{}", page.text());
    }
    assert_eq!(get(&server, "/data/assets/viewer.js").status, 200);
    for path in ["/data/", "/data/api/tree", "/data/assets/other.js", "/view/two.zarr"] {
        assert_eq!(get(&server, path).status, 401, "{path}");
    }
    assert_eq!(ask(&server, "POST", "/data/view/two.zarr", html).status, 405);
    let foreign = data.serve(ServeOptions::default());
    let request = format!("GET /view/x HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n{html}\r\n");
    assert_eq!(send(&foreign, request.as_bytes()).unwrap().status, 403);
    assert!(get(&foreign, "/").text().contains("\"served\""), "programs get the names as JSON");
}

#[test]
fn a_stopped_server_frees_its_port() {
    let data = Data::new();
    let server = data.serve(ServeOptions::default());
    let address = server.address();
    let mut idle = connect(&server);
    idle.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    assert_ne!(idle.read(&mut [0; 64]).unwrap(), 0);
    server.stop();
    let mut rest = Vec::new();
    let _ = idle.read_to_end(&mut rest);
    assert!(TcpStream::connect(address).is_err());
    let again = data.serve(ServeOptions { port: address.port(), ..ServeOptions::default() });
    assert_eq!(get(&again, "/").status, 200);
}

#[test]
fn files_alone_and_files_that_change() {
    let data = Data::new();
    let server = Server::start(
        &[data.inside("file.h5"), data.inside("two.zarr"), data.inside("file.h5")],
        ServeOptions::default(),
    )
    .unwrap();
    assert_eq!(server.names(), ["file.h5", "two.zarr", "file.h5-2"]);
    let path = "/api/data/file.h5/deep/t?select=0";
    assert_eq!(get(&server, path).text(), "[0, 1, 2, 3]");
    let root = Group::edit(&data.inside("file.h5")).unwrap();
    root.array("deep/t").unwrap().write_slice(&[Index::At(0)], &[5_i16; 4]).unwrap();
    root.finish().unwrap();
    assert_eq!(get(&server, path).text(), "[5, 5, 5, 5]");
    assert_eq!(get(&server, "/zarr/three.zarr/zarr.json").status, 404);
}

#[test]
fn wrong_options_are_errors() {
    let data = Data::new();
    let wrong = |locations: &[String], options: ServeOptions| {
        Server::start(locations, options).unwrap_err().to_string()
    };
    let plain = ServeOptions::default;
    assert!(wrong(&[], plain()).contains("nothing to serve"));
    assert!(wrong(&[data.inside("missing.h5")], plain()).contains("missing.h5"));
    assert!(wrong(&[data.path()], ServeOptions { prefix: "a/../b".into(), ..plain() }).contains("prefix"));
    assert!(wrong(&[data.path()], ServeOptions { cors: Some("a\nb".into()), ..plain() }).contains("origin"));
    let server = data.serve(plain());
    let taken = ServeOptions { port: server.address().port(), ..plain() };
    assert!(wrong(&[data.path()], taken).contains("choose another port"));
}
