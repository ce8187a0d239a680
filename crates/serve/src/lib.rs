//! An HTTP server for arrays of any format.
//!
//! [`Server::start`] serves paths and URLs until it is stopped. It reads, and never writes.
//!
//! | routes | answers |
//! |---|---|
//! | `/zarr/NAME/…` | each hierarchy as Zarr v3: documents, chunks, listings |
//! | `/api/WHAT/NAME/…` | facts and values as JSON, NumPy's format, CSV, plain bytes or files |
//! | `/`, `/view/…`, `/assets/…` | the page that shows arrays in a browser |
//! | `/dap/NAME/….dds` | OPeNDAP (DAP2): `.dds`, `.das`, `.dods` |
//! | `/tiles/NAME/…` | maps in Web Mercator, and TileJSON |
//! | `/h5grove/WHAT` | h5grove's answers, for H5Web |
//!
//! HTTP is hyper's. This crate finds what a path means, and makes the answers:
//!
//! | file | what it knows |
//! |---|---|
//! | `options` | the options of a server |
//! | `server` | connections, limits, the end of a server |
//! | `patient` | clients that read too slowly |
//! | `access` | who may ask: tokens, host names, methods, origins |
//! | `path` | paths of requests |
//! | `roots`, `hierarchy`, `confined` | what is served, and that nothing outside is |
//! | `answer`, `body` | status, headers, ranges, bodies |
//! | `zarr`, `listing` | the Zarr routes |
//! | `viewer` | the page in `assets`, which `viewer/` builds |
//! | `api`, `values`, `dap`, `h5grove`, `tiles` | the other routes |

#![forbid(unsafe_code)]

mod access;
mod answer;
mod api;
mod body;
mod confined;
mod dap;
mod h5grove;
mod hierarchy;
mod listing;
mod options;
mod path;
mod patient;
mod roots;
mod server;
mod tiles;
mod values;
mod viewer;
mod zarr;

pub use options::{Log, Logged, ServeOptions};
pub use server::Server;
