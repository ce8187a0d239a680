//! The options of a server.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

/// A request that was answered.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Logged {
    /// The address of the client.
    pub client: String,
    /// `GET`, `HEAD`.
    pub method: String,
    /// The path as it was sent, without the query, which may hold a token.
    pub path: String,
    /// The status of the answer.
    pub status: u16,
    /// Bytes of the body that is sent.
    pub bytes: u64,
    /// The time until the answer began.
    pub took: Duration,
}

impl std::fmt::Display for Logged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Logged { client, method, path, status, bytes, took } = self;
        // Terminals obey control characters.
        let path = path.replace(char::is_control, "\u{fffd}");
        write!(f, "{client} {method} {path} {status} {bytes} {:.1} ms", took.as_secs_f64() * 1000.0)
    }
}

/// Receives each request that was answered.
pub type Log = Arc<dyn Fn(&Logged) + Send + Sync>;

/// The options of a [`Server`](crate::Server).
#[derive(Clone)]
pub struct ServeOptions {
    /// The address to listen on.
    pub host: IpAddr,
    /// The port. 0: a free one.
    pub port: u16,
    /// Clients must show this token. `None`: none is needed on the loopback address, and one is made
    /// for other addresses unless [`ServeOptions::public`].
    pub token: Option<String>,
    /// Everybody who reaches the address may read.
    pub public: bool,
    /// The origin whose pages may read, or `*`.
    pub cors: Option<String>,
    /// The longest wait for a client: for its request, and for it to take more of an answer.
    pub read_timeout: Duration,
    /// The path before all routes, for a server behind a proxy: `/data`.
    pub prefix: String,
    /// The largest answer that is made in memory, in bytes. Stored chunks may be larger.
    pub most_bytes: u64,
    /// The most connections. Others are told to come again.
    pub connections: usize,
    /// The most requests that are worked on at the same time. Others wait.
    pub requests: usize,
    /// Credentials and settings of the servers that URLs lead to, by the names of fsspec or obstore.
    pub storage: Vec<(String, String)>,
    /// Receives each request.
    pub log: Option<Log>,
}

impl Default for ServeOptions {
    fn default() -> Self {
        ServeOptions {
            host: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 0,
            token: None,
            public: false,
            cors: None,
            read_timeout: Duration::from_secs(30),
            prefix: String::new(),
            most_bytes: 256 << 20,
            connections: 1024,
            requests: 16,
            storage: Vec::new(),
            log: None,
        }
    }
}
