//! `hyperslab serve`.

use crate::command::Command;
use crate::failure::Failure;
use crate::signals::Watch;
use crate::text;
use hyperslab_serve::{Log, Logged, ServeOptions, Server};
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs};

/// The variable with the token.
const TOKEN: &str = "HYPERSLAB_TOKEN";

/// The time between two looks for a signal.
const LOOK: Duration = Duration::from_millis(50);

/// Serve arrays over HTTP: as Zarr v3, JSON, NumPy's format and CSV.
///
/// PATH is a directory, a file, or a URL, of any format. Each is served under its own name: programs
/// that read Zarr open http://127.0.0.1:8000/zarr/NAME. Nothing outside the given paths can be read,
/// and nothing is written.
///
/// Only programs of this machine can connect, unless --host names another address. Clients then need
/// a token, which is printed, or --public lets in everybody. Ctrl-C and SIGTERM stop the server: it
/// finishes answers for up to 3 s, and the exit code is 0.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hyperslab serve ocean.nc                       one file, for this machine
  hyperslab serve data/ s3://bucket/ocean.zarr   all below a directory, and a store on a server
  hyperslab serve data/ --host 0.0.0.0           for the network, with a token
  hyperslab serve data/ --prefix /data --public  behind a proxy, which lets in whom it wants")]
pub(crate) struct ServeArgs {
    /// Paths and URLs to serve.
    #[arg(required = true)]
    paths: Vec<String>,
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    host: IpAddr,
    /// Port to listen on. 0: a free one.
    #[arg(long, default_value_t = 8000)]
    port: u16,
    /// Token that clients must send: Authorization: Bearer TOKEN, or ?token=TOKEN. Other users of this
    /// machine see it in the list of processes; a file, or the variable HYPERSLAB_TOKEN, hides it.
    #[arg(long)]
    token: Option<String>,
    /// File with the token, in its first line.
    #[arg(long, value_name = "FILE", conflicts_with = "token")]
    token_file: Option<PathBuf>,
    /// Need no token on other addresses, and answer to every host name.
    #[arg(long, conflicts_with_all = ["token", "token_file"])]
    public: bool,
    /// Let pages of this origin read: https://example.org, or * for all.
    #[arg(long, value_name = "ORIGIN")]
    cors: Option<String>,
    /// Longest wait for a client, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0)]
    read_timeout: f64,
    /// Path before all routes, behind a proxy.
    #[arg(long, default_value = "")]
    prefix: String,
    /// Log no requests.
    #[arg(long, short)]
    quiet: bool,
}

impl Command for ServeArgs {
    const NAME: &str = "serve";

    fn run(&self, out: &mut dyn Write, watch: &Watch) -> Result<(), Failure> {
        let timeout = Duration::try_from_secs_f64(self.read_timeout).map_err(|_| {
            Failure::Usage(format!("--read-timeout: expected seconds, found {}", self.read_timeout))
        })?;
        let log: Log = Arc::new(log);
        let options = ServeOptions {
            host: self.host,
            port: self.port,
            token: self.token()?,
            public: self.public,
            cors: self.cors.clone(),
            read_timeout: timeout,
            prefix: self.prefix.clone(),
            storage: crate::storage::options(),
            log: (!self.quiet).then_some(log),
            ..ServeOptions::default()
        };
        let server = Server::start(&self.paths, options)?;
        for name in server.names() {
            writeln!(out, "{}", server.zarr_url(&name))?;
        }
        if let Some(token) = server.token() {
            writeln!(out, "token: {}", text::sanitize(token))?;
        }
        writeln!(
            out,
            "in a browser: {}/{}",
            server.url(),
            server.token().map_or_else(String::new, page_token)
        )?;
        out.flush()?;
        while !watch.is_interrupted() {
            std::thread::sleep(LOOK);
        }
        server.stop();
        Ok(())
    }
}

impl ServeArgs {
    /// The token: the argument, the first line of the file, or the variable.
    fn token(&self) -> Result<Option<String>, Failure> {
        if let Some(path) = &self.token_file {
            let shown = path.display();
            let text = fs::read_to_string(path)
                .map_err(|error| Failure::Usage(format!("--token-file: cannot read '{shown}': {error}")))?;
            let token = text.lines().next().unwrap_or_default().trim().to_owned();
            return match token.is_empty() {
                true => Err(Failure::Usage(format!("--token-file: '{shown}' has an empty first line"))),
                false => Ok(Some(token)),
            };
        }
        let of_environment = || env::var(TOKEN).ok().filter(|token| !token.is_empty() && !self.public);
        Ok(self.token.clone().or_else(of_environment))
    }
}

/// Prints a request to standard error.
fn log(request: &Logged) {
    // Standard error may be closed. There is no other place for the line.
    let _ = writeln!(io::stderr(), "{request}");
}

/// The token as a part of the page's address. Tokens that people choose may need to be encoded: they are
/// left to them.
fn page_token(token: &str) -> String {
    let is_plain = token.chars().all(|c| c.is_ascii_alphanumeric() || "-_.~".contains(c));
    if is_plain { format!("?token={token}") } else { "?token=…".to_owned() }
}
