//! A small server of the S3 protocol that records its requests and fails on demand.
//!
//! One thread per connection. Supports GET with ranges and conditions, HEAD, PUT with conditions,
//! DELETE, listings, multipart uploads, and deletion of many objects.

#![allow(dead_code)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How a response fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection ends without a response.
    Reset,
    /// An error status.
    Status(u16),
    /// The body ends in the middle.
    Truncate,
    /// The response is delayed by this time.
    Slow(Duration),
    /// The object is replaced before the response is made.
    Change,
    /// The object is replaced by one of twice the length before the response is made.
    Grow,
    /// The request is done, but the connection ends before the response.
    Lost,
    /// The request is done, but the response is an error status.
    Late(u16),
    /// The body is compressed and longer than the range. `true` if the head states its length.
    Compressed(bool),
    /// A range request returns the whole object, as if it were the range.
    Whole,
}

/// One recorded request.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub method: String,
    pub path: String,
    pub range: Option<String>,
    /// Number of concurrent requests when it arrived, including itself.
    pub at_once: usize,
    pub headers: BTreeMap<String, String>,
}

pub type Meanwhile = Box<dyn FnOnce() + Send>;

/// Status, body, headers.
pub type Refusal = (u16, String, Vec<(String, String)>);

#[derive(Default)]
pub struct State {
    /// The metadata of objects that have some.
    pub marks: Mutex<BTreeMap<String, String>>,
    /// True if metadata is not kept.
    pub no_marks: AtomicBool,
    /// True if every condition fails.
    pub refuses: AtomicBool,
    /// True if listings repeat the same token forever.
    pub repeats: AtomicBool,
    /// Called once, after a request has failed and before the client learns of it.
    pub meanwhile: Mutex<Option<Meanwhile>>,
    pub objects: Mutex<BTreeMap<String, (Vec<u8>, u64)>>,
    uploads: Mutex<BTreeMap<String, BTreeMap<u64, Vec<u8>>>>,
    version: AtomicU64,
    pub requests: Mutex<Vec<Recorded>>,
    under_way: AtomicUsize,
    /// Index of the first failing request, number of failures, and the fault.
    faults: Mutex<Option<(usize, usize, Fault)>>,
    count: AtomicUsize,
    /// Delay of each request.
    pub latency: Mutex<Duration>,
    /// True if conditions are refused with 501.
    pub unconditional: AtomicBool,
    /// True if ranges are ignored.
    pub no_ranges: AtomicBool,
    /// True if responses have no entity tag.
    pub no_tags: AtomicBool,
    /// Sent in place of a response.
    pub refusal: Mutex<Option<Refusal>>,
}

pub struct Server {
    pub url: String,
    pub state: Arc<State>,
}

impl Server {
    pub fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(State::default());
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = shared.clone();
                std::thread::spawn(move || serve(&state, stream));
            }
        });
        Server { url, state }
    }

    pub fn put(&self, path: &str, bytes: &[u8]) {
        self.state.put(path, bytes.to_vec());
    }

    pub fn get(&self, path: &str) -> Option<Vec<u8>> {
        self.state.objects.lock().unwrap().get(path).map(|(bytes, _)| bytes.clone())
    }

    /// The requests since the last call.
    pub fn take(&self) -> Vec<Recorded> {
        std::mem::take(&mut *self.state.requests.lock().unwrap())
    }

    /// Makes `times` requests fail with `fault`, after the next `after` requests.
    pub fn fail(&self, after: usize, times: usize, fault: Fault) {
        self.state.count.store(0, SeqCst);
        *self.state.faults.lock().unwrap() = Some((after, times, fault));
    }

    pub fn heal(&self) {
        *self.state.faults.lock().unwrap() = None;
    }

    pub fn uploads(&self) -> usize {
        self.state.uploads.lock().unwrap().len()
    }
}

impl State {
    fn put(&self, path: &str, bytes: Vec<u8>) -> u64 {
        let version = self.version.fetch_add(1, SeqCst);
        self.marks.lock().unwrap().remove(path);
        self.objects.lock().unwrap().insert(path.to_owned(), (bytes, version));
        version
    }
}

fn decode(text: &str) -> String {
    let (bytes, mut out, mut n) = (text.as_bytes(), Vec::new(), 0);
    while n < bytes.len() {
        if bytes[n] == b'%' && n + 2 < bytes.len() {
            out.push(u8::from_str_radix(&text[n + 1..n + 3], 16).unwrap());
            n += 3;
        } else {
            out.push(bytes[n]);
            n += 1;
        }
    }
    String::from_utf8(out).unwrap()
}

fn serve(state: &State, stream: TcpStream) {
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let mut words = line.split_whitespace();
        let (Some(method), Some(target)) = (words.next(), words.next()) else { return };
        let (method, target) = (method.to_owned(), target.to_owned());
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            match line.trim_end().split_once(':') {
                Some((name, value)) => headers.insert(name.to_ascii_lowercase(), value.trim().to_owned()),
                None => break,
            };
        }
        let len = headers.get("content-length").map_or(0, |len| len.parse().unwrap());
        let mut body = vec![0; len];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let at_once = state.under_way.fetch_add(1, SeqCst) + 1;
        let request = Recorded {
            method: method.clone(),
            path: target.clone(),
            range: headers.get("range").cloned(),
            at_once,
            headers: headers.clone(),
        };
        state.requests.lock().unwrap().push(request);
        let latency = *state.latency.lock().unwrap();
        std::thread::sleep(latency);
        let open = answer(state, &stream, &method, &target, &headers, body);
        state.under_way.fetch_sub(1, SeqCst);
        if !open {
            let _ = stream.shutdown(Shutdown::Both);
            return;
        }
    }
}

struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

fn plain(status: u16) -> Answer {
    Answer { status, headers: Vec::new(), body: Vec::new() }
}

fn answer(
    state: &State,
    mut stream: &TcpStream,
    method: &str,
    target: &str,
    headers: &BTreeMap<String, String>,
    body: Vec<u8>,
) -> bool {
    let number = state.count.fetch_add(1, SeqCst);
    let fault = state
        .faults
        .lock()
        .unwrap()
        .and_then(|(after, times, fault)| (number >= after && number - after < times).then_some(fault));
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let path = decode(path);
    let happen = || {
        let meanwhile = fault.and_then(|_| state.meanwhile.lock().unwrap().take());
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
    };
    match fault {
        Some(Fault::Reset) => {
            happen();
            return false;
        }
        Some(Fault::Status(status)) => {
            happen();
            let error = "<Error><Code>InternalError</Code><Message>told to fail</Message></Error>";
            let text = format!(
                "HTTP/1.1 {status} x\r\ncontent-length: {}\r\nx-amz-request-id: REQ1\r\n\r\n{error}",
                error.len()
            );
            return stream
                .write_all(if method == "HEAD" {
                    text.trim_end_matches(error).as_bytes()
                } else {
                    text.as_bytes()
                })
                .is_ok();
        }
        Some(Fault::Slow(time)) => std::thread::sleep(time),
        Some(Fault::Change) => {
            let old = state.objects.lock().unwrap().get(&path).map(|(bytes, _)| bytes.clone());
            if let Some(mut bytes) = old {
                bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
                state.put(&path, bytes);
            }
        }
        Some(Fault::Grow) => {
            let old = state.objects.lock().unwrap().get(&path).map(|(bytes, _)| bytes.repeat(2));
            if let Some(bytes) = old {
                state.put(&path, bytes);
            }
        }
        _ => {}
    }
    let refusal = state.refusal.lock().unwrap().clone();
    let mut answer = match refusal {
        Some((status, body, headers)) => Answer { status, headers, body: body.into_bytes() },
        None => respond(state, method, &path, query, headers, body),
    };
    match fault {
        Some(Fault::Lost) => {
            happen();
            return false;
        }
        Some(Fault::Late(status)) => {
            happen();
            answer = Answer { body: b"<Error><Code>InternalError</Code></Error>".to_vec(), ..plain(status) };
        }
        Some(Fault::Compressed(_)) if answer.status < 300 => {
            answer.headers.push(("content-encoding".into(), "gzip".into()));
            answer.body.extend_from_slice(&[7; 30]);
        }
        Some(Fault::Whole) if answer.status == 206 => {
            answer.body = state.objects.lock().unwrap().get(&path).unwrap().0.clone();
        }
        _ => {}
    }
    let ends = fault == Some(Fault::Compressed(false));
    let mut text = format!("HTTP/1.1 {} x\r\nx-amz-request-id: REQ1\r\n", answer.status);
    for (name, value) in &answer.headers {
        text += &format!("{name}: {value}\r\n");
    }
    if ends {
        text += "connection: close\r\n";
    } else if answer.status != 204 && !answer.headers.iter().any(|(name, _)| name == "content-length") {
        text += &format!("content-length: {}\r\n", answer.body.len());
    }
    text += "\r\n";
    let mut bytes = text.into_bytes();
    if method != "HEAD" {
        bytes.extend_from_slice(&answer.body);
        if fault == Some(Fault::Truncate) && !answer.body.is_empty() {
            bytes.truncate(bytes.len() - answer.body.len().div_ceil(2));
            let _ = stream.write_all(&bytes);
            return false;
        }
    }
    stream.write_all(&bytes).is_ok() && !ends
}

/// The header for kept metadata.
const MARKS: &str = "x-amz-meta-hyperslab";

fn tag(version: u64) -> String {
    format!("\"v{version}\"")
}

fn parameter(query: &str, name: &str) -> Option<String> {
    query
        .split('&')
        .filter_map(|pair| pair.split_once('=').or(Some((pair, ""))))
        .find(|(n, _)| *n == name)
        .map(|(_, value)| decode(value))
}

fn respond(
    state: &State,
    method: &str,
    path: &str,
    query: &str,
    headers: &BTreeMap<String, String>,
    body: Vec<u8>,
) -> Answer {
    match method {
        "GET" if parameter(query, "list-type").is_some() => list(state, path, query),
        "GET" | "HEAD" => get(state, method, path, headers),
        "PUT" if parameter(query, "uploadId").is_some() => {
            let (id, part) = (parameter(query, "uploadId").unwrap(), parameter(query, "partNumber").unwrap());
            let mut uploads = state.uploads.lock().unwrap();
            let Some(upload) = uploads.get_mut(&id) else { return plain(404) };
            upload.insert(part.parse().unwrap(), body);
            Answer { headers: vec![("etag".into(), format!("\"p{part}\""))], ..plain(200) }
        }
        "PUT" => put(state, path, headers, body),
        "POST" if parameter(query, "uploads").is_some() => {
            let id = format!("u{}", state.version.fetch_add(1, SeqCst));
            if let Some(marks) = headers.get(MARKS) {
                state.marks.lock().unwrap().insert(id.clone(), marks.clone());
            }
            state.uploads.lock().unwrap().insert(id.clone(), BTreeMap::new());
            let body = format!(
                "<InitiateMultipartUploadResult><Bucket>b</Bucket><Key>k</Key><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"
            );
            Answer { body: body.into_bytes(), ..plain(200) }
        }
        "POST" if parameter(query, "uploadId").is_some() => {
            let id = parameter(query, "uploadId").unwrap();
            let Some(parts) = state.uploads.lock().unwrap().remove(&id) else { return plain(404) };
            let version = state.put(path, parts.into_values().flatten().collect());
            let mut kept = state.marks.lock().unwrap();
            if let Some(marks) = kept.remove(&id).filter(|_| !state.no_marks.load(SeqCst)) {
                kept.insert(path.to_owned(), marks);
            }
            let body = format!(
                "<CompleteMultipartUploadResult><ETag>{}</ETag></CompleteMultipartUploadResult>",
                tag(version)
            );
            Answer { body: body.into_bytes(), ..plain(200) }
        }
        "POST" => {
            let text = String::from_utf8(body).unwrap();
            let mut objects = state.objects.lock().unwrap();
            let mut done = String::from("<DeleteResult>");
            for key in text.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next()) {
                let name = key
                    .replace("&lt;", "<")
                    .replace("&gt;", ">")
                    .replace("&quot;", "\"")
                    .replace("&apos;", "'");
                objects.remove(&format!("{}/{}", path.trim_end_matches('/'), name.replace("&amp;", "&")));
                done += &format!("<Deleted><Key>{key}</Key></Deleted>");
            }
            done += "</DeleteResult>";
            Answer { body: done.into_bytes(), ..plain(200) }
        }
        "DELETE" => {
            if let Some(id) = parameter(query, "uploadId") {
                state.uploads.lock().unwrap().remove(&id);
            } else {
                state.objects.lock().unwrap().remove(path);
            }
            plain(204)
        }
        _ => plain(405),
    }
}

fn get(state: &State, method: &str, path: &str, headers: &BTreeMap<String, String>) -> Answer {
    let found = state.objects.lock().unwrap().get(path).cloned();
    let Some((bytes, version)) = found else {
        return Answer { body: b"<Error><Code>NoSuchKey</Code></Error>".to_vec(), ..plain(404) };
    };
    let tag = tag(version);
    if headers.get("if-match").is_some_and(|wanted| *wanted != tag) {
        return plain(412);
    }
    if headers.get("if-none-match").is_some_and(|known| *known == tag) {
        return Answer { headers: vec![("etag".into(), tag)], ..plain(304) };
    }
    let size = bytes.len();
    let mut answer = plain(200);
    if !state.no_tags.load(SeqCst) {
        answer.headers.push(("etag".into(), tag));
    }
    if let Some(marks) = state.marks.lock().unwrap().get(path) {
        answer.headers.push((MARKS.into(), marks.clone()));
    }
    answer.headers.push(("last-modified".into(), "Wed, 01 Jan 2020 00:00:00 GMT".into()));
    let range = headers.get("range").filter(|_| !state.no_ranges.load(SeqCst));
    match range.and_then(|range| range.strip_prefix("bytes=")) {
        Some(range) => {
            let (start, end) = range.split_once('-').unwrap();
            let (start, end) = match (start, end) {
                ("", len) => (size.saturating_sub(len.parse().unwrap()), size),
                (start, "") => (start.parse().unwrap(), size),
                (start, end) => {
                    (start.parse().unwrap(), (end.parse::<usize>().unwrap().saturating_add(1)).min(size))
                }
            };
            if start >= size {
                return plain(416);
            }
            answer.status = 206;
            answer.headers.push(("content-range".into(), format!("bytes {start}-{}/{size}", end - 1)));
            answer.body = bytes[start..end].to_vec();
        }
        None => answer.body = bytes,
    }
    if method == "HEAD" {
        answer.headers.push(("content-length".into(), answer.body.len().to_string()));
    }
    answer
}

fn put(state: &State, path: &str, headers: &BTreeMap<String, String>, body: Vec<u8>) -> Answer {
    let (if_match, if_none_match) = (headers.get("if-match"), headers.get("if-none-match"));
    if state.unconditional.load(SeqCst) && (if_match.is_some() || if_none_match.is_some()) {
        return Answer { body: b"<Error><Code>NotImplemented</Code></Error>".to_vec(), ..plain(501) };
    }
    let version = state.version.fetch_add(1, SeqCst);
    let mut objects = state.objects.lock().unwrap();
    let now = objects.get(path).map(|(_, version)| tag(*version));
    if if_none_match.is_some() && now.is_some() || if_match.is_some_and(|wanted| Some(wanted) != now.as_ref())
    {
        return plain(412);
    }
    if state.refuses.load(SeqCst) && (if_match.is_some() || if_none_match.is_some()) {
        return plain(412);
    }
    let mut marks = state.marks.lock().unwrap();
    match headers.get(MARKS).filter(|_| !state.no_marks.load(SeqCst)) {
        Some(new) => marks.insert(path.to_owned(), new.clone()),
        None => marks.remove(path),
    };
    objects.insert(path.to_owned(), (body, version));
    Answer { headers: vec![("etag".into(), tag(version))], ..plain(200) }
}

fn list(state: &State, path: &str, query: &str) -> Answer {
    const PAGE: usize = 5;
    let (prefix, delimiter) = (parameter(query, "prefix").unwrap_or_default(), parameter(query, "delimiter"));
    let after = parameter(query, "continuation-token").unwrap_or_default();
    let bucket = format!("{}/", path.trim_end_matches('/'));
    let objects = state.objects.lock().unwrap();
    let mut items: BTreeMap<String, Option<(usize, u64)>> = BTreeMap::new();
    for (name, (bytes, version)) in objects.iter() {
        let Some(key) = name.strip_prefix(&bucket).filter(|key| key.starts_with(&prefix)) else { continue };
        let rest = &key[prefix.len()..];
        match delimiter.as_ref().and_then(|delimiter| rest.find(delimiter.as_str())) {
            Some(end) => items.insert(format!("{prefix}{}", &rest[..=end]), None),
            None => items.insert(key.to_owned(), Some((bytes.len(), *version))),
        };
    }
    let after = if state.repeats.load(SeqCst) { String::new() } else { after };
    let left: Vec<_> = items.into_iter().filter(|(name, _)| *name > after).collect();
    let escape = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let mut body = String::from("<ListBucketResult><Name>b</Name>");
    for (name, item) in left.iter().take(PAGE) {
        body += &match item {
            None => format!("<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>", escape(name)),
            Some((size, version)) => format!(
                "<Contents><Key>{}</Key><LastModified>2020-01-01T00:00:00.000Z</LastModified><Size>{size}</Size><ETag>&quot;v{version}&quot;</ETag></Contents>",
                escape(name)
            ),
        };
    }
    if state.repeats.load(SeqCst) {
        body += "<IsTruncated>true</IsTruncated><NextContinuationToken>again</NextContinuationToken>";
    } else if left.len() > PAGE {
        body += &format!(
            "<IsTruncated>true</IsTruncated><NextContinuationToken>{}</NextContinuationToken>",
            escape(&left[PAGE - 1].0)
        );
    }
    body += "</ListBucketResult>";
    Answer { body: body.into_bytes(), ..plain(200) }
}

/// Waits until `what` returns `true`.
pub fn until(mut what: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + Duration::from_secs(5);
    while Instant::now() < end {
        if what() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}
