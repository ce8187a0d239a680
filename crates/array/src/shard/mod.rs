//! Shards: objects that hold many chunks, and an index of where each lies.
#![allow(dead_code, reason = "under construction")]

mod compact;
mod index;
mod level;

pub use compact::compact;
pub use index::IndexEncoding;
pub use level::{ShardLevel, Sharding};
