//! The native part of `hyperslab.serve`.

use crate::errors::OrRaise;
use crate::stores::store::prepare_files;
use hyperslab::Error;
use hyperslab_serve::{Log, Logged, ServeOptions, Server};
use pyo3::prelude::*;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A running server.
#[pyclass(frozen, module = "hyperslab._native")]
pub(crate) struct ServerHandle {
    server: Mutex<Option<Server>>,
    /// The URL.
    #[pyo3(get)]
    url: String,
    /// The token that clients need. `None`: they need none.
    #[pyo3(get)]
    token: Option<String>,
    /// A name for each location.
    #[pyo3(get)]
    names: Vec<String>,
}

#[pymethods]
impl ServerHandle {
    /// Starts a server. `read_timeout`: in seconds.
    #[new]
    #[pyo3(signature = (locations, host, port, token, public, cors, read_timeout, prefix, log, storage))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        locations: Vec<String>,
        host: &str,
        port: u16,
        token: Option<String>,
        public: bool,
        cors: Option<String>,
        read_timeout: f64,
        prefix: String,
        log: bool,
        storage: Vec<(String, String)>,
    ) -> PyResult<Self> {
        prepare_files();
        let wrong = |why: String| Error::Options(format!("serve: {why}"));
        let parsed = host.parse().map_err(|_| {
            wrong(format!("host: expected an address such as 127.0.0.1 or 0.0.0.0, found {host:?}"))
        });
        let host = parsed.or_raise(py)?;
        let timeout = Duration::try_from_secs_f64(read_timeout)
            .map_err(|_| wrong(format!("read_timeout: expected seconds, found {read_timeout}")));
        let read_timeout = timeout.or_raise(py)?;
        let print: Log = Arc::new(print);
        let log = log.then_some(print);
        let options = ServeOptions {
            host,
            port,
            token,
            public,
            cors,
            read_timeout,
            prefix,
            storage,
            log,
            ..ServeOptions::default()
        };
        let server = py.detach(|| Server::start(&locations, options)).or_raise(py)?;
        Ok(ServerHandle {
            url: server.url(),
            token: server.token().map(str::to_owned),
            names: server.names(),
            server: Mutex::new(Some(server)),
        })
    }

    /// Stops the server. Returns false if it has stopped before.
    fn stop(&self, py: Python<'_>) -> bool {
        py.detach(|| {
            let server = self.server.lock().unwrap_or_else(PoisonError::into_inner).take();
            server.map(Server::stop).is_some()
        })
    }

    /// Returns true until the server is stopped.
    fn is_running(&self) -> bool {
        self.server.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        // Python drops this with its lock held, and an answer may need the lock: a codec in Python.
        let server = self.server.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        Python::attach(|py| py.detach(|| drop(server)));
    }
}

/// Prints a request to standard error.
fn print(request: &Logged) {
    // Standard error may be closed. There is no other place for the line.
    let _ = writeln!(std::io::stderr(), "{request}");
}
