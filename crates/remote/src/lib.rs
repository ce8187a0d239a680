//! Object stores: S3, Google Cloud Storage, Azure Blob Storage, and plain HTTP.
//!
//! [`RemoteStore`] implements [`Store`](hyperslab_store::Store) for callers that know nothing about
//! networks: its methods block. Inside, requests are tasks on a private runtime, many at a time.
//!
//! | file | concept |
//! |---|---|
//! | `store` | the methods of `Store`, reading |
//! | `opened` | an open object, and the bytes received of it |
//! | `held` | an object that stays open, in blocks |
//! | `write`, `list` | the methods that change and list |
//! | `marks` | which replacements led to the current contents |
//! | `refusals` | replacements that a server refuses again and again |
//! | `pages` | listings, page by page |
//! | `ranges` | which requests bring which ranges |
//! | `cache` | bytes that were read, kept in memory or on disk |
//! | `client` | one server: permits, deadlines, retries of bodies |
//! | `transport` | HTTP, and its notes for error messages |
//! | `connect` | from a URL and options to clients |
//! | `location`, `options`, `environment`, `profile` | URLs, storage options, credentials |
//! | `credentials` | AWS credentials that have to be requested and that expire |
//! | `failure` | failures, in a form for users |
//! | `runtime` | tasks, and waiting for them |
//! | `pace` | when requests may be sent to a host |
//! | `meter` | costs of requests |

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::cast_possible_truncation))]

mod block_reader;
mod cache;
mod client;
mod connect;
mod credentials;
mod environment;
mod extra;
mod failure;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod list;
mod location;
mod marks;
mod meter;
mod opened;
mod options;
mod pace;
mod pages;
mod profile;
mod ranges;
mod read;
mod refusals;
mod runtime;
mod settings;
mod staged;
mod store;
mod take_back;
#[cfg(test)]
mod testing;
mod transport;
mod upload;
mod write;
mod write_while;

pub use cache::{Check, Keep, on_cache_failure};
pub use location::{Provider, SCHEMES, has_secret, shown, with_secret_of};
pub use options::{OptionsError, is_secret};
pub use settings::{Settings, Unconditional, set_requests_per_second};
pub use store::RemoteStore;
pub use write::on_unconditional;
