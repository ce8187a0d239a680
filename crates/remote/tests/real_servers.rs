//! Runs the contract of stores on real servers: moto (S3), azurite (Azure), fake-gcs-server
//! (Google), nginx (HTTP).
//!
//! `scripts/test-servers.sh` installs the servers, and `tests/lib/servers.py` starts them. A test of a
//! missing server reports that and passes. If `HYPERSLAB_NEED_SERVERS` is set, it fails.

use hyperslab_remote::RemoteStore;
use hyperslab_store::contract;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// A running server. Dropping this stops it.
struct Server {
    process: Child,
    url: String,
    options: Vec<(String, String)>,
    /// The folder that nginx serves.
    folder: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server runs until its standard input ends.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// Starts a server. `None` if it is not installed.
fn start(name: &str) -> Option<Server> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/lib/servers.py");
    let needed = std::env::var_os("HYPERSLAB_NEED_SERVERS").is_some();
    let missing = || -> Option<Server> {
        assert!(!needed, "{name} is not installed: scripts/test-servers.sh");
        eprintln!("skipped: {name} is not installed: scripts/test-servers.sh");
        None
    };
    if !program.exists() {
        return missing();
    }
    let python = std::env::var("PYO3_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let mut command = Command::new(python);
    command.arg(program).arg(name).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let found: Value = serde_json::from_str(&line).expect("the server starts");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let Some(options) = found["options"].as_object() else {
        process.wait().unwrap();
        return missing();
    };
    let options = options.iter().map(|(name, value)| (name.clone(), text(value))).collect();
    Some(Server { process, url: text(&found["url"]), options, folder: text(&found["folder"]).into() })
}

/// Checks the whole contract in a bucket.
fn check(name: &str, scheme: &str) {
    let Some(server) = start(name) else { return };
    let count = AtomicUsize::new(0);
    contract::check_flat(|| {
        let url = format!("{scheme}://bucket/{}", count.fetch_add(1, SeqCst));
        Box::new(RemoteStore::open(&url, &server.options).unwrap())
    });
}

#[test]
fn s3() {
    check("moto", "s3");
}

#[test]
fn azure() {
    check("azurite", "az");
}

#[test]
fn google() {
    check("fake-gcs-server", "gs");
}

/// Checks the reading half of the contract on files of a web server.
#[test]
fn http() {
    let Some(server) = start("nginx") else { return };
    let count = AtomicUsize::new(0);
    contract::check_reads(|name, bytes| {
        let root = count.fetch_add(1, SeqCst).to_string();
        let file = server.folder.join(&root).join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, bytes).unwrap();
        Box::new(RemoteStore::open(&format!("{}/{root}", server.url), &server.options).unwrap())
    });
}
