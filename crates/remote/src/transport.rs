//! The HTTP client below `object_store`, and its notes on each request for error messages.
//!
//! `object_store` keeps the status and the body of a refusal. It drops the headers that name the
//! request or the region, and the number of attempts. The transport sees all of them, and notes
//! them in the task of the request ([`Trace`]).

use crate::pace::{Host, Refusal, Turn};
use crate::settings::default_interval;
use async_trait::async_trait;
use futures_util::StreamExt;
use http::StatusCode;
use http::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, IF_NONE_MATCH, RANGE, RETRY_AFTER,
};
use hyperslab_store::fork::{self, Mutex};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody,
    HttpService,
};
use object_store::{ClientOptions, HeaderMap};
use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::time::{Duration, Instant};

/// Notes of the transport on one request of a store, including retries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    /// Number of requests sent.
    pub(crate) sent: usize,
    /// Status of the last response.
    pub(crate) status: Option<u16>,
    /// Body of the last response, if it is a refusal.
    pub(crate) body: Option<String>,
    /// The server's name for the request.
    pub(crate) request: Option<String>,
    /// The bucket's region according to the server.
    pub(crate) region: Option<String>,
    /// True if the last request went to a metadata host of a cloud and was not answered.
    ///
    /// That service gives cloud machines their credentials.
    pub(crate) no_metadata: bool,
    /// Time that requests have waited for the tokens of their host.
    in_line: Duration,
    /// Since when a request has been waiting for a token.
    in_line_since: Option<Instant>,
}

impl Trace {
    /// Time that does not count towards the deadline: the user has limited the requests per second.
    fn excused(&self) -> Duration {
        self.in_line.saturating_add(self.in_line_since.map_or(Duration::ZERO, |since| since.elapsed()))
    }
}

tokio::task_local! {
    static TRACE: RefCell<Trace>;
    /// Set while parts become an object, on condition that there is none.
    static CREATING: ();
}

/// Runs a request that makes an object of parts, on condition that there is none. The layer above
/// has no way to say so. S3 takes the header without a signature.
pub(crate) async fn creating<T>(work: impl Future<Output = T>) -> T {
    CREATING.scope((), work).await
}

/// Adds the condition of [`creating`] to a request that completes an upload.
fn condition(request: &mut HttpRequest) {
    let completes = request.method() == http::Method::POST
        && request.uri().query().is_some_and(|query| query.contains("uploadId="));
    if completes && CREATING.try_with(|()| ()).is_ok() {
        request.headers_mut().insert(IF_NONE_MATCH, http::HeaderValue::from_static("*"));
    }
}

/// Runs a request for at most `limit`, and returns its result, if it has ended, and the transport's
/// notes.
pub(crate) async fn run_traced<T>(limit: Duration, work: impl Future<Output = T>) -> (Option<T>, Trace) {
    TRACE
        .scope(RefCell::default(), async {
            let (mut work, begun) = (pin!(work), Instant::now());
            let notes = || TRACE.with(|trace| trace.borrow().clone());
            let mut left = limit;
            loop {
                if let Ok(result) = tokio::time::timeout(left, &mut work).await {
                    return (Some(result), notes());
                }
                left = limit.saturating_add(notes().excused()).saturating_sub(begun.elapsed());
                if left.is_zero() {
                    return (None, notes());
                }
            }
        })
        .await
}

fn note(change: impl FnOnce(&mut Trace)) {
    let _ = TRACE.try_with(|trace| change(&mut trace.borrow_mut()));
}

/// Headers with a server's name for a request.
const REQUEST_IDS: [&str; 4] =
    ["x-amz-request-id", "x-ms-request-id", "x-guploader-uploadid", "x-request-id"];

/// The text of a header, if it is safe for a message.
fn safe_header(headers: &HeaderMap, name: &str) -> Option<String> {
    let text = headers.get(name)?.to_str().ok()?;
    let short = text.len() <= 128 && text.bytes().all(|b| b.is_ascii_graphic());
    (short && !text.is_empty()).then(|| text.to_owned())
}

/// Returns whether a host gives cloud machines their credentials.
///
/// Outside of a cloud these hosts do not exist, and connection attempts would take long.
fn is_metadata_host(host: &str) -> bool {
    matches!(
        host,
        "169.254.169.254" | "169.254.170.2" | "metadata.google.internal" | "metadata" | "[fd00:ec2::254]"
    )
}

/// Time limit for connecting. Cloud machines get an answer from metadata hosts at once.
const CONNECT: Duration = Duration::from_secs(10);
const CONNECT_METADATA: Duration = Duration::from_secs(1);

/// Settings of connections.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Transport {
    /// Time until a response begins, and between two pieces of it.
    pub(crate) attempt: Duration,
    /// Names and values sent with each request. Secret.
    pub(crate) headers: Vec<(String, String)>,
    /// True if any server certificate is accepted.
    pub(crate) insecure: bool,
    /// True if redirects are followed.
    pub(crate) redirects: bool,
    /// The proxy. Secret, because it may contain a password.
    pub(crate) proxy: Option<String>,
    /// Time between two requests to a host. `None`: the process's setting.
    pub(crate) interval: Option<Duration>,
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").field("attempt", &self.attempt).finish_non_exhaustive()
    }
}

/// Connections with the most common settings, shared by all stores of a process. Gated.
static SHARED: Mutex<Option<(u64, Transport, Service)>> = Mutex::new(None);

impl Transport {
    /// Creates a client. Reads the system's certificates, which takes a few milliseconds.
    pub(crate) fn client(&self) -> Result<Service, String> {
        let generation = fork::generation();
        if let Some((of, transport, service)) = &*SHARED.lock()
            && *of == generation
            && transport == self
        {
            return Ok(service.clone());
        }
        let service = Service {
            data: self.build(CONNECT, For::Data)?,
            uploads: self.build(CONNECT, For::Uploads)?,
            metadata: Transport { headers: Vec::new(), proxy: None, ..self.clone() }
                .build(CONNECT_METADATA, For::Metadata)?,
            attempt: self.attempt,
            interval: self.interval,
        };
        if self.headers.is_empty() {
            let former = SHARED.lock().replace((generation, self.clone(), service.clone()));
            match former {
                // The parent's service: ending it could take locks of the parent's threads.
                Some(former) if former.0 != generation => std::mem::forget(former),
                former => drop(former),
            }
        }
        Ok(service)
    }

    fn build(&self, connect: Duration, what: For) -> Result<reqwest::Client, String> {
        // The first provider in the process stays: another library of the program may have chosen
        // one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut headers = HeaderMap::new();
        // Ranges refer to stored bytes.
        headers.insert(ACCEPT_ENCODING, http::HeaderValue::from_static("identity"));
        for (name, value) in &self.headers {
            let name = http::HeaderName::try_from(name.as_str());
            let value = http::HeaderValue::try_from(value.as_str());
            let (Ok(name), Ok(mut value)) = (name, value) else {
                return Err("a header has a character that headers cannot have".into());
            };
            value.set_sensitive(true);
            headers.append(name, value);
        }
        let redirects = match self.redirects {
            true => reqwest::redirect::Policy::limited(10),
            false => reqwest::redirect::Policy::none(),
        };
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("hyperslab/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(connect)
            .redirect(redirects)
            .default_headers(headers)
            // Several connections transfer more bytes than one with several streams.
            .http1_only()
            .tcp_nodelay(true)
            .no_gzip()
            .tls_danger_accept_invalid_certs(self.insecure);
        builder = match what {
            For::Data => builder.read_timeout(self.attempt),
            // The response begins only when everything is sent. Waiting for it has a separate
            // limit.
            For::Uploads => builder,
            For::Metadata => builder.read_timeout(self.attempt).no_proxy(),
        };
        if let Some(proxy) = &self.proxy {
            let proxy = reqwest::Proxy::all(proxy).map_err(|_| "the proxy has no valid URL".to_owned())?;
            builder = builder.proxy(proxy);
        }
        builder.build().map_err(|error| format!("no HTTPS client: {}", crate::failure::leaf(&error)))
    }
}

/// Error documents have a few hundred bytes.
const REFUSAL: usize = 16 << 10;

/// The beginning of a body as text, up to any error.
async fn refusal(body: HttpResponseBody) -> String {
    let (mut stream, mut text) = (body.bytes_stream(), Vec::new());
    while let Some(Ok(piece)) = stream.next().await {
        text.extend_from_slice(piece.get(..REFUSAL.saturating_sub(text.len())).unwrap_or(&piece));
        if text.len() >= REFUSAL {
            break;
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Parses `Content-Range`: first byte, last byte, size of the object.
fn content_range(headers: &HeaderMap) -> Option<(u64, u64, u64)> {
    let text = headers.get(CONTENT_RANGE)?.to_str().ok()?.trim().strip_prefix("bytes ")?;
    let (range, size) = text.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?, size.parse().ok()?))
}

/// Finds a contradiction in the head of a read response, whose body would pass for other bytes.
///
/// `ranged` means that a range was requested.
fn contradiction(status: u16, headers: &HeaderMap, ranged: bool) -> Option<String> {
    match status {
        206 if !ranged => {
            Some("the server was asked for all of an object, and sent a part of it (HTTP status 206)".into())
        }
        206 => {
            // Without these numbers, the layer above refuses the response.
            let (first, last, size) = content_range(headers)?;
            // Some servers return this for a range after the last byte.
            let is_behind = first == size && last.checked_add(1) == Some(size);
            if (first > last && !is_behind) || last >= size {
                return Some(format!("the server sent bytes {first} to {last} of an object of {size} bytes"));
            }
            let sent: u64 = headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()?;
            let encoding = match safe_header(headers, CONTENT_ENCODING.as_str()) {
                Some(name) => format!(" (Content-Encoding: {name})"),
                None => String::new(),
            };
            (sent != last + 1 - first).then(|| {
                format!("the server sent {sent} bytes{encoding} and called them bytes {first} to {last}")
            })
        }
        // 203: through a proxy that says so. 207: for many objects.
        200 | 203 | 207 => None,
        201..=299 => Some(format!("HTTP status {status} is no answer to a read")),
        _ => None,
    }
}

/// Purpose of a client.
#[derive(Clone, Copy)]
enum For {
    Data,
    Uploads,
    Metadata,
}

/// Requests with more bytes than this are uploads.
const UPLOAD: usize = 64 << 10;

/// Lowest acceptable upload speed in bytes per second.
const SLOW: u64 = 256 << 10;

/// Sends requests and notes the responses.
#[derive(Clone)]
pub(crate) struct Service {
    data: reqwest::Client,
    /// For requests that send many bytes.
    uploads: reqwest::Client,
    metadata: reqwest::Client,
    attempt: Duration,
    interval: Option<Duration>,
}

impl Service {
    /// Waits until a request to this host may be sent.
    async fn turn<'h>(&self, host: &'h Host) -> Result<Turn<'h>, Refusal> {
        let interval = self.interval.or_else(default_interval);
        if interval.is_some() && !host.is_overloaded() {
            note(|trace| trace.in_line_since = Some(Instant::now()));
        }
        let turn = host.turn(interval).await;
        note(|trace| {
            trace.in_line = trace.excused();
            trace.in_line_since = None;
        });
        turn
    }
}

/// The name and port of the host of a request.
fn authority(request: &HttpRequest) -> String {
    let (host, port) = (request.uri().host().unwrap_or_default(), request.uri().port_u16());
    match port {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// How long the server asks to wait.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// The response for a request that was not sent, because the host refused another one.
fn refused(refusal: Refusal) -> HttpResponse {
    note(|trace| {
        trace.status = Some(refusal.status);
        trace.body = Some(refusal.body.clone());
    });
    let mut response = HttpResponse::new(refusal.body.into());
    *response.status_mut() = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    response
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").finish_non_exhaustive()
    }
}

impl HttpConnector for Service {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let metadata = request.uri().host().is_some_and(is_metadata_host);
        let host = (!metadata).then(|| Host::of(&authority(&request)));
        let turn = match &host {
            None => None,
            Some(host) => match self.turn(host).await {
                Ok(turn) => Some(turn),
                Err(refusal) => return Ok(refused(refusal)),
            },
        };
        note(|trace| {
            let (sent, in_line) = (trace.sent + 1, trace.in_line);
            *trace = Trace { sent, in_line, no_metadata: metadata, ..Trace::default() };
        });
        condition(&mut request);
        let bytes = request.body().content_length();
        let is_read = request.method() == http::Method::GET;
        let ranged = request.headers().contains_key(RANGE);
        let client = match (metadata, bytes > UPLOAD) {
            (true, _) => &self.metadata,
            (false, true) => &self.uploads,
            (false, false) => &self.data,
        };
        let patience = self.attempt.saturating_add(Duration::from_secs(bytes as u64 / SLOW));
        let late = |_| HttpError::new(HttpErrorKind::Timeout, io::Error::from(io::ErrorKind::TimedOut));
        let answer = tokio::time::timeout(patience, HttpService::call(client, request)).await;
        match answer.map_err(late).flatten() {
            Ok(response) => {
                note(|trace| {
                    trace.no_metadata = false;
                    trace.status = Some(response.status().as_u16());
                    trace.request = REQUEST_IDS.iter().find_map(|name| safe_header(response.headers(), name));
                    trace.region = safe_header(response.headers(), "x-amz-bucket-region");
                });
                let code = response.status();
                let (turn, overloaded) = match code.as_u16() {
                    429 | 503 => (None, turn),
                    _ => (turn, None),
                };
                turn.into_iter().for_each(Turn::succeed);
                if is_read && let Some(why) = contradiction(code.as_u16(), response.headers(), ranged) {
                    let cut = io::Error::new(io::ErrorKind::UnexpectedEof, why);
                    return Err(HttpError::new(HttpErrorKind::Decode, cut));
                }
                if code.is_client_error() || code.is_server_error() {
                    let (parts, body) = response.into_parts();
                    let body = refusal(body).await;
                    note(|trace| trace.body = Some(body.clone()));
                    if let Some(turn) = overloaded {
                        let (status, advice) = (code.as_u16(), retry_after(&parts.headers));
                        turn.refuse(Refusal { status, body: body.clone(), advice });
                    }
                    return Ok(HttpResponse::from_parts(parts, body.into()));
                }
                Ok(response)
            }
            // If the host does not exist, retrying is useless.
            Err(error) if metadata => Err(HttpError::new(HttpErrorKind::Unknown, error)),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::contradiction;
    use http::{HeaderMap, HeaderName};

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, text)| (HeaderName::from_static(name), text.parse().unwrap())).collect()
    }

    #[test]
    fn answers_that_contradict_themselves() {
        let wrong = |status, pairs: &[_], ranged| contradiction(status, &headers(pairs), ranged);
        let range = ("content-range", "bytes 10-19/100");
        let good: [(u16, &[_], bool); 8] = [
            (206, &[range, ("content-length", "10")], true),
            (206, &[range], true),
            (206, &[("content-range", "bytes 0--1/0"), ("content-length", "0")], true),
            (206, &[("content-range", "bytes 7-6/7"), ("content-length", "0")], true),
            (206, &[("content-length", "3")], true),
            (200, &[("content-length", "10"), ("content-encoding", "gzip")], true),
            (404, &[range, ("content-length", "11")], true),
            (304, &[], false),
        ];
        for (status, pairs, ranged) in good {
            assert_eq!(wrong(status, pairs, ranged), None, "{status} {pairs:?}");
        }
        let bad: [(u16, &[_], bool, &str); 8] = [
            (206, &[range, ("content-length", "10")], false, "asked for all"),
            (206, &[range, ("content-length", "9")], true, "sent 9 bytes and called them bytes 10 to 19"),
            (206, &[range, ("content-length", "30"), ("content-encoding", "gzip")], true, "gzip"),
            (206, &[("content-range", "bytes 10-100/100")], true, "bytes 10 to 100 of an object of 100"),
            (206, &[("content-range", "bytes 5-4/100")], true, "bytes 5 to 4"),
            (206, &[("content-range", "bytes 7-6/7"), ("content-length", "1")], true, "sent 1 bytes"),
            (
                206,
                &[("content-range", "bytes 0-18446744073709551615/18446744073709551615")],
                true,
                "object of",
            ),
            (202, &[], false, "202"),
        ];
        for (status, pairs, ranged, why) in bad {
            let found = wrong(status, pairs, ranged).unwrap();
            assert!(found.contains(why), "{found}");
        }
    }
}
