//! Connections, limits, and the end of a server.

use crate::access::Access;
use crate::answer::Answer;
use crate::body::Body;
use crate::options::{Logged, ServeOptions};
use crate::patient::Patient;
use crate::roots::Roots;
use crate::viewer::Page;
use crate::{api, dap, h5grove, path, tiles, zarr};
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyperslab::array::ArrayError;
use hyperslab::hdf5::Hdf5Error;
use hyperslab::store::{StoreError, fork, waiting};
use hyperslab::zarr::ZarrError;
use hyperslab::{Error, Json, Result, with_causes};
use std::convert::Infallible;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, watch};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Threads that read requests and send answers. One sends about 1 GB/s.
const THREADS: usize = 2;

/// Threads that read objects while they are sent, beside the threads of requests.
const READERS: usize = 16;

/// Memory of all answers together, in units of 64 KiB: four of the largest.
const ANSWERS: u64 = 4;
const UNIT: u64 = 1 << 16;

/// The longest wait for answers that are being sent when the server stops.
const FAREWELL: Duration = Duration::from_secs(3);

/// The largest head of a request. Paths of chunks and selections have a few hundred bytes.
const HEAD: usize = 32 << 10;

/// Everything that connections share.
struct Shared {
    roots: Roots,
    access: Access,
    options: ServeOptions,
    /// Requests that are worked on.
    requests: Arc<Semaphore>,
    /// Memory of answers.
    memory: Arc<Semaphore>,
    /// Memory of answers that wait for memory.
    waiting: Semaphore,
    stopping: AtomicBool,
}

/// A running server. Dropping it stops it.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    runtime: Option<Runtime>,
    /// The process that has the threads, as a number of forks.
    generation: u64,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Server {
    /// Starts to serve paths and URLs.
    ///
    /// A directory gives access to everything below it, a file to itself. Links that lead out of a
    /// directory are refused, and a single file may refer to no others. References are served with
    /// the data that they name.
    ///
    /// Fails with [`Error::Options`] for options that contradict each other, with the error of the
    /// first location that cannot be opened, and with [`Error::Io`] if the port is taken.
    ///
    /// ```
    /// use hyperslab::prelude::*;
    /// use hyperslab_serve::{ServeOptions, Server};
    ///
    /// # fn main() -> Result<(), hyperslab::Error> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let location = directory.path().join("ocean.zarr").display().to_string();
    /// # Group::create(&location, Format::ZarrV3)?;
    /// let server = Server::start(&[location], ServeOptions::default())?;
    /// assert!(server.url().starts_with("http://127.0.0.1:"));
    /// assert_eq!(server.names(), ["ocean.zarr"]);
    /// server.stop();
    /// # Ok(())
    /// # }
    /// ```
    pub fn start(locations: &[String], mut options: ServeOptions) -> Result<Server> {
        let wrong = |why: String| Error::Options(format!("serve: {why}"));
        let prefix = options.prefix.trim_matches('/').to_owned();
        options.prefix = if prefix.is_empty() { prefix } else { format!("/{prefix}") };
        if path::parts(&format!("{}/", options.prefix)).is_none() {
            return Err(wrong(format!("prefix: {:?} is no path, such as /data", options.prefix)));
        }
        if options.read_timeout.is_zero() {
            return Err(wrong("read_timeout: expected more than 0 seconds".into()));
        }
        let access = Access::new(&options).map_err(wrong)?;
        let roots = Roots::new(locations, &options.storage)?;
        let asked = SocketAddr::new(options.host, options.port);
        let failed = |error: std::io::Error| {
            wrong(format!("cannot listen on {asked}: {error}; choose another port, or 0 for a free one"))
        };
        let listener = TcpListener::bind(asked).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (requests, most) = (options.requests.max(1), options.most_bytes.div_ceil(UNIT).max(1));
        let memory = usize::try_from(most.saturating_mul(ANSWERS)).unwrap_or(usize::MAX);
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .max_blocking_threads(requests + READERS)
            .thread_name("hyperslab-http")
            .enable_all()
            .build()
            .map_err(failed)?;
        let shared = Arc::new(Shared {
            roots,
            access,
            requests: Arc::new(Semaphore::new(requests)),
            memory: Arc::new(Semaphore::new(memory.min(Semaphore::MAX_PERMITS))),
            waiting: Semaphore::new(memory.min(Semaphore::MAX_PERMITS)),
            stopping: AtomicBool::new(false),
            options,
        });
        let (stop, stopped) = watch::channel(false);
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener).map_err(failed)?
        };
        runtime.spawn(accept(listener, shared.clone(), stopped));
        Ok(Server { address, shared, stop, runtime: Some(runtime), generation: fork::generation() })
    }

    /// The address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of the server, with its prefix, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}{}", self.address, self.shared.options.prefix)
    }

    /// The URL at which programs open what has this name as Zarr.
    pub fn zarr_url(&self, name: &str) -> String {
        format!("{}/zarr/{}", self.url(), path::encoded(name))
    }

    /// The token that clients must show. `None`: they need none.
    pub fn token(&self) -> Option<&str> {
        self.shared.access.token()
    }

    /// A name for each location, in their order.
    pub fn names(&self) -> Vec<String> {
        self.shared.roots.names().map(|(name, _)| name.to_owned()).collect()
    }

    /// Stops: takes no more requests, and waits up to 3 s for answers that are being sent.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        if self.generation != fork::generation() {
            // A forked child has no threads of this server: waiting for them would never end. Closing
            // would change what the parent waits for.
            std::mem::forget((runtime, std::mem::replace(&mut self.stop, watch::channel(false).0)));
            return;
        }
        self.shared.stopping.store(true, Relaxed);
        let _ = self.stop.send(true);
        // The tasks have a receiver each. When all are gone, all connections are.
        let closed = async { timeout(FAREWELL, self.stop.closed()).await.is_ok() };
        runtime.block_on(closed);
        runtime.shutdown_timeout(FAREWELL);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

async fn accept(listener: tokio::net::TcpListener, shared: Arc<Shared>, mut stopped: watch::Receiver<bool>) {
    let connections = Arc::new(Semaphore::new(shared.options.connections.max(1)));
    loop {
        let accepted = tokio::select! {
            _ = stopped.changed() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, client)) = accepted else {
            // No descriptors are left. Some become free when others go.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        match connections.clone().try_acquire_owned() {
            Ok(permit) => {
                let (shared, stopped) = (shared.clone(), stopped.clone());
                tokio::spawn(async move {
                    converse(stream, client, shared, stopped).await;
                    drop(permit);
                });
            }
            Err(_) => {
                let busy = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                let _ = stream.try_write(busy);
            }
        }
    }
}

/// Serves one connection until it ends.
async fn converse(
    stream: TcpStream,
    client: SocketAddr,
    shared: Arc<Shared>,
    mut stopped: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    let patience = shared.options.read_timeout;
    let io = TokioIo::new(Patient::new(stream, patience));
    let service = service_fn(move |request| {
        let shared = shared.clone();
        async move { Ok::<_, Infallible>(respond(&shared, client, request).await) }
    });
    let mut http = http1::Builder::new();
    // An idle connection ends as one that sends its request too slowly.
    http.timer(TokioTimer::new()).header_read_timeout(patience).max_buf_size(HEAD);
    let mut connection = pin!(http.serve_connection(io, service));
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = stopped.changed() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

async fn respond(shared: &Arc<Shared>, client: SocketAddr, request: Request<Incoming>) -> Response<Body> {
    let start = Instant::now();
    let (head, _) = request.into_parts();
    let is_head = head.method == Method::HEAD;
    let inside = head.uri.path().strip_prefix(shared.options.prefix.as_str());
    let page = inside.and_then(|inside| Page::at(inside, &head.headers));
    let answer = match shared.access.refusal(&head.method, &head.uri, &head.headers, page.is_none()) {
        Some(refusal) => refusal,
        None if head.method == Method::OPTIONS => Answer::new(204, "text/plain", Body::of("")),
        None if page.is_some() => {
            let made = page.map(|page| page.answer(&shared.options.prefix, &head.headers, is_head));
            made.and_then(Result::ok).unwrap_or_else(|| {
                Answer::problem(500, "the page", "the server failed (a bug)", "please report the request")
            })
        }
        None => {
            let (path, query) = (head.uri.path().to_owned(), head.uri.query().unwrap_or_default().to_owned());
            work(shared, path, query, head.headers, is_head).await
        }
    };
    if let Some(log) = &shared.options.log {
        log(&Logged {
            client: client.to_string(),
            method: head.method.to_string(),
            path: head.uri.path().to_owned(),
            status: answer.status(),
            bytes: if is_head { 0 } else { answer.body_len() },
            took: start.elapsed(),
        });
    }
    answer.into_response(is_head, shared.access.cors())
}

/// Sets a flag when it is dropped: the client is gone, and nobody wants the answer.
struct Gone(Arc<AtomicBool>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Makes the answer on a thread that may block.
async fn work(shared: &Arc<Shared>, path: String, query: String, headers: HeaderMap, head: bool) -> Answer {
    let patience = shared.options.read_timeout;
    let busy = || {
        let found = "too many requests, or too many answers that clients have not taken yet";
        Answer::problem(503, "an answer", found, "ask again in a second").with("retry-after", "1")
    };
    let Ok(Ok(turn)) = timeout(patience, shared.requests.clone().acquire_owned()).await else {
        return busy();
    };
    let gone = Gone(Arc::default());
    let (state, is_gone) = (shared.clone(), gone.0.clone());
    let made = spawn_blocking(move || {
        let ask = || is_gone.load(Relaxed) || state.stopping.load(Relaxed);
        let answer = waiting::with_ask(&ask, || route(&state, &path, &query, &headers, head, &ask));
        drop(turn);
        answer
    });
    let answer = made.await.unwrap_or_else(|_| {
        Answer::problem(500, "an answer", "the server failed (a bug)", "please report the request")
    });
    // An answer that is larger than the memory of all answers waits for all of it.
    let all = shared.options.most_bytes.div_ceil(UNIT).max(1).saturating_mul(ANSWERS);
    let units = answer.in_memory().div_ceil(UNIT).min(all);
    // Small answers cost less memory than the connection.
    if units <= 1 {
        return answer;
    }
    let units = u32::try_from(units).unwrap_or(u32::MAX);
    let permit = match shared.memory.clone().try_acquire_many_owned(units) {
        Ok(permit) => Some(permit),
        Err(_) => {
            // Answers that wait are in memory, too.
            let Ok(_place) = shared.waiting.try_acquire_many(units) else { return busy() };
            let memory = shared.memory.clone().acquire_many_owned(units);
            timeout(patience, memory).await.ok().and_then(std::result::Result::ok)
        }
    };
    match permit {
        Some(permit) => answer.map_body(|body| body.held_by(permit)),
        None => busy(),
    }
}

fn route(
    shared: &Shared,
    path: &str,
    query: &str,
    headers: &HeaderMap<HeaderValue>,
    head: bool,
    ask: &dyn Fn() -> bool,
) -> Answer {
    let missing = |found: &str| {
        Answer::problem(
            404,
            path,
            found,
            "the routes are /zarr/NAME/…, /api/WHAT/NAME/…, /dap/NAME/….dds, /h5grove/WHAT and /tiles/NAME/…; ask / for the names",
        )
    };
    let Some(inside) = path.strip_prefix(shared.options.prefix.as_str()) else {
        return missing("a path outside the prefix");
    };
    let Some((parts, lists)) = path::parts(if inside.is_empty() { "/" } else { inside }) else {
        let found = "parts that are empty, lead upwards, or are no names";
        return Answer::problem(400, path, found, "name each part of the path, encoded as UTF-8");
    };
    let parts: Vec<String> = parts;
    let Some((first, rest)) = parts.split_first() else { return index(shared) };
    let most = shared.options.most_bytes;
    let asked = api::Asked { query, headers, head, most, ask };
    let answered = match first.as_str() {
        "zarr" => zarr::answer(&shared.roots, rest, lists, headers, head),
        "api" => api::answer(&shared.roots, rest, &asked),
        "dap" => dap::answer(&shared.roots, rest, &asked),
        "h5grove" => return h5grove::answer(&shared.roots, rest, &asked),
        "tiles" => tiles::answer(&shared.roots, rest, &asked, &shared.options.prefix, shared.access.token()),
        _ => return missing("no route"),
    };
    answered.unwrap_or_else(|error| problem(shared, path, &error))
}

/// All names, with their routes.
fn index(shared: &Shared) -> Answer {
    let prefix = &shared.options.prefix;
    let one = |(name, _): (&str, &str)| {
        let link = path::encoded(name);
        Json::from([
            ("name", name.into()),
            ("zarr", format!("{prefix}/zarr/{link}").as_str().into()),
            ("tree", format!("{prefix}/api/tree/{link}").as_str().into()),
        ])
    };
    let served = Json::Array(shared.roots.names().map(one).collect());
    let version = env!("CARGO_PKG_VERSION");
    Answer::json(&Json::from([
        ("server", "hyperslab".into()),
        ("version", version.into()),
        ("served", served),
    ]))
}

/// An error of the library as an answer.
fn problem(shared: &Shared, asked: &str, error: &Error) -> Answer {
    let (status, advice) = status(error);
    Answer::problem(status, asked, shared.roots.hidden(&with_causes(error)), advice)
}

/// The status for an error, and what to do.
pub(crate) fn status(error: &Error) -> (u16, &'static str) {
    let refused = (403, "only data inside what is served can be read");
    let missing = (404, "list what is there: /api/tree");
    let of_store = |error: &StoreError| match error {
        StoreError::InvalidKey { .. } => missing,
        error if error.io_kind() == Some(ErrorKind::PermissionDenied) => refused,
        StoreError::Interrupted { .. } => (503, "ask again"),
        _ => (500, "the data cannot be read: try hyperslab validate"),
    };
    let large = (413, "ask for a smaller part: select=…");
    match error {
        Error::Interrupted => (503, "ask again"),
        Error::Store(error) | Error::Hdf5(Hdf5Error::Store(error)) | Error::Zarr(ZarrError::Store(error)) => {
            of_store(error)
        }
        Error::Missing { .. }
        | Error::NoVariable { .. }
        | Error::Zarr(ZarrError::NotFound { .. } | ZarrError::Path { .. })
        | Error::Hdf5(Hdf5Error::NotFound { .. }) => missing,
        Error::Hdf5(Hdf5Error::Refused { .. }) => refused,
        Error::Array(ArrayError::Memory { .. }) => large,
        Error::Array(ArrayError::Index { .. } | ArrayError::Shape { .. }) => {
            (400, "see the array's shape: /api/info")
        }
        Error::Options(_) | Error::ElementType { .. } | Error::NodeKind { .. } => (400, "change the request"),
        Error::Copy { .. } | Error::Unsupported(_) => (422, "ask for another format"),
        Error::VariableLength { .. } => (422, "ask for format=json"),
        _ => (500, "the data cannot be read: try hyperslab validate"),
    }
}
