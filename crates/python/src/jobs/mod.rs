//! Work on whole arrays: copies, comparisons, statistics, hashes, validation, repairs, streams, writers, servers.

pub(crate) mod advise;
pub(crate) mod compact;
pub(crate) mod content_hash;
pub(crate) mod copy;
pub(crate) mod copy_parts;
pub(crate) mod copy_tasks;
pub(crate) mod diff;
pub(crate) mod join;
pub(crate) mod repair;
pub(crate) mod serve;
pub(crate) mod statistics;
pub(crate) mod stream;
pub(crate) mod validate;
pub(crate) mod writer;
