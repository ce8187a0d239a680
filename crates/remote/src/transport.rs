//! The HTTP client below `object_store`, and what it notes of each request for errors.
//!
//! `object_store` keeps the status and the body of a refusal, but not the headers that name the
//! request or the region, nor how often it tried. The transport sees them all, and notes them in
//! the task of the request ([`Trace`]).

use async_trait::async_trait;
use futures_util::StreamExt;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, RANGE};
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
use std::time::Duration;

/// What the transport saw of one request of a store, retries included.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    /// How often something was sent.
    pub(crate) sent: usize,
    /// The status of the last answer.
    pub(crate) status: Option<u16>,
    /// The body of the last answer, if it is a refusal.
    pub(crate) body: Option<String>,
    /// What the server calls the request.
    pub(crate) request: Option<String>,
    /// The region that the server says the bucket is in.
    pub(crate) region: Option<String>,
    /// Whether the last thing that was asked is the service that gives a cloud machine its
    /// credentials, and it did not answer.
    pub(crate) no_metadata: bool,
}

tokio::task_local! {
    static TRACE: RefCell<Trace>;
}

/// Runs a request, and tells what the transport saw.
pub(crate) async fn traced<T>(work: impl Future<Output = T>) -> (T, Trace) {
    TRACE
        .scope(RefCell::default(), async {
            let result = work.await;
            (result, TRACE.with(|trace| trace.borrow().clone()))
        })
        .await
}

fn note(change: impl FnOnce(&mut Trace)) {
    let _ = TRACE.try_with(|trace| change(&mut trace.borrow_mut()));
}

/// Headers in which servers name a request.
const REQUEST_IDS: [&str; 4] =
    ["x-amz-request-id", "x-ms-request-id", "x-guploader-uploadid", "x-request-id"];

/// Text of a header that is fit for a message.
fn plain(headers: &HeaderMap, name: &str) -> Option<String> {
    let text = headers.get(name)?.to_str().ok()?;
    let short = text.len() <= 128 && text.bytes().all(|b| b.is_ascii_graphic());
    (short && !text.is_empty()).then(|| text.to_owned())
}

/// Hosts that give machines of a cloud their credentials. Elsewhere they do not exist, and a
/// connection to them would be tried for long.
fn is_metadata_host(host: &str) -> bool {
    matches!(
        host,
        "169.254.169.254" | "169.254.170.2" | "metadata.google.internal" | "metadata" | "[fd00:ec2::254]"
    )
}

/// How long a connection may take. A machine of a cloud answers such requests at once.
const CONNECT: Duration = Duration::from_secs(10);
const CONNECT_METADATA: Duration = Duration::from_secs(1);

/// What connections depend on.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Transport {
    /// The time until an answer begins, and between two pieces of it.
    pub(crate) attempt: Duration,
    /// Sent with each request, by name. Secret.
    pub(crate) headers: Vec<(String, String)>,
    /// Whether a server's certificate may be anybody's.
    pub(crate) insecure: bool,
    /// Whether redirects are followed.
    pub(crate) redirects: bool,
    /// The proxy. Secret: it may have a password.
    pub(crate) proxy: Option<String>,
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").field("attempt", &self.attempt).finish_non_exhaustive()
    }
}

/// Connections of the most common kind are shared by all stores of a process. Gated.
static SHARED: Mutex<Option<(u64, Transport, Service)>> = Mutex::new(None);

impl Transport {
    /// A client. Reads the certificates of the system, which takes some milliseconds.
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
        };
        if self.headers.is_empty() {
            let former = SHARED.lock().replace((generation, self.clone(), service.clone()));
            match former {
                // Of the parent: ending it could take locks of its threads.
                Some(former) if former.0 != generation => std::mem::forget(former),
                former => drop(former),
            }
        }
        Ok(service)
    }

    fn build(&self, connect: Duration, what: For) -> Result<reqwest::Client, String> {
        // The first in the process stays: another library of the program may have chosen.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut headers = HeaderMap::new();
        // Ranges count bytes as they are stored.
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
            // Several connections move more bytes than one with several streams.
            .http1_only()
            .tcp_nodelay(true)
            .no_gzip()
            .tls_danger_accept_invalid_certs(self.insecure);
        builder = match what {
            For::Data => builder.read_timeout(self.attempt),
            // The answer begins when all is sent. The wait for it has a bound of its own.
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

/// Documents about errors have some 100 bytes.
const REFUSAL: usize = 16 << 10;

/// The beginning of a body, as text; what came of it before an error.
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

/// The numbers of a header `Content-Range`: the first byte, the last one, all bytes of the object.
fn content_range(headers: &HeaderMap) -> Option<(u64, u64, u64)> {
    let text = headers.get(CONTENT_RANGE)?.to_str().ok()?.trim().strip_prefix("bytes ")?;
    let (range, size) = text.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?, size.parse().ok()?))
}

/// What is wrong with the head of an answer to a read, whose body would be taken for other bytes.
/// `ranged`: a range was asked for.
fn contradiction(status: u16, headers: &HeaderMap, ranged: bool) -> Option<String> {
    match status {
        206 if !ranged => {
            Some("the server was asked for all of an object, and sent a part of it (HTTP status 206)".into())
        }
        206 => {
            // Without these numbers the layer above refuses the answer.
            let (first, last, size) = content_range(headers)?;
            // Some servers say so of the range behind the last byte.
            let is_behind = first == size && last.checked_add(1) == Some(size);
            if (first > last && !is_behind) || last >= size {
                return Some(format!("the server sent bytes {first} to {last} of an object of {size} bytes"));
            }
            let sent: u64 = headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()?;
            let encoding = match plain(headers, CONTENT_ENCODING.as_str()) {
                Some(name) => format!(" (Content-Encoding: {name})"),
                None => String::new(),
            };
            (sent != last + 1 - first).then(|| {
                format!("the server sent {sent} bytes{encoding} and called them bytes {first} to {last}")
            })
        }
        // 203: through a proxy that says so. 207: of many objects.
        200 | 203 | 207 => None,
        201..=299 => Some(format!("HTTP status {status} is no answer to a read")),
        _ => None,
    }
}

/// What a client of its own is for.
#[derive(Clone, Copy)]
enum For {
    Data,
    Uploads,
    Metadata,
}

/// Requests with more bytes than this are uploads.
const UPLOAD: usize = 64 << 10;

/// Bytes per second of an upload that are slow but acceptable.
const SLOW: u64 = 256 << 10;

/// Sends requests, and notes what came back.
#[derive(Clone)]
pub(crate) struct Service {
    data: reqwest::Client,
    /// Requests that send much.
    uploads: reqwest::Client,
    metadata: reqwest::Client,
    attempt: Duration,
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
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let metadata = request.uri().host().is_some_and(is_metadata_host);
        note(|trace| *trace = Trace { sent: trace.sent + 1, no_metadata: metadata, ..Trace::default() });
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
                    trace.request = REQUEST_IDS.iter().find_map(|name| plain(response.headers(), name));
                    trace.region = plain(response.headers(), "x-amz-bucket-region");
                });
                let code = response.status();
                if is_read && let Some(why) = contradiction(code.as_u16(), response.headers(), ranged) {
                    let cut = io::Error::new(io::ErrorKind::UnexpectedEof, why);
                    return Err(HttpError::new(HttpErrorKind::Decode, cut));
                }
                if code.is_client_error() || code.is_server_error() {
                    let (parts, body) = response.into_parts();
                    let body = refusal(body).await;
                    note(|trace| trace.body = Some(body.clone()));
                    return Ok(HttpResponse::from_parts(parts, body.into()));
                }
                Ok(response)
            }
            // Where there is no such host it is no use to try again.
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
