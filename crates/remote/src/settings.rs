//! How requests are made: sizes, times, how many.

use crate::cache::{Check, Keep};
use std::time::Duration;

/// What happens to a change of a part of an object on a server that cannot replace an object under
/// a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Unconditional {
    /// It is made, after a look whether the object is still the same. A writer on another machine
    /// may be undone. The hook of [`on_unconditional`](crate::on_unconditional) is told once per
    /// store.
    #[default]
    Warn,
    /// It is an error.
    Refuse,
}

/// How requests are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Requests of one call under way at a time: what they bring is in memory before it is decoded.
    pub concurrency: usize,
    /// Requests under way at a time, of all calls to one store.
    pub in_all: usize,
    /// Ranges of an object that lie closer than this, in bytes, are one request. `None`: as far
    /// apart as is read in the time of one request, as measured.
    pub gap: Option<u64>,
    /// A longer range is read by several requests at once, of at most so many bytes each. One
    /// connection to S3 gives some 80 MB/s: 8 MiB keep it busy for 100 ms, several round trips.
    pub largest: u64,
    /// Objects of more bytes are written in parts of so many, several at a time. S3 wants at least
    /// 5 MiB per part, and at most 10 000 parts.
    pub part: u64,
    /// The time for one request in all, with its retries; for long bodies, more ([`Settings::slow`]).
    pub deadline: Duration,
    /// The time for one attempt until its answer begins, and between two pieces of the answer.
    pub attempt: Duration,
    /// Attempts after the first.
    pub retries: usize,
    /// Bytes per second that are slow but acceptable: the deadline grows with the body.
    pub slow: u64,
    /// For servers without conditional requests.
    pub unconditional: Unconditional,
    /// Where what was read is kept. `None`: nowhere.
    pub cache: Option<Keep>,
    /// When the server is asked whether what is kept is still right.
    pub cache_check: Check,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            concurrency: 64,
            // A third of the connections that a process may have by default (1024 open files). 1000 reads
            // of one small chunk each, awaited together, 30 ms away: 509 ms with 64, 175 with 256.
            in_all: 340,
            gap: None,
            largest: 8 << 20,
            part: 16 << 20,
            deadline: Duration::from_secs(60),
            attempt: Duration::from_secs(30),
            retries: 8,
            slow: 1 << 18,
            unconditional: Unconditional::Warn,
            cache: None,
            cache_check: Check::Always,
        }
    }
}

impl Settings {
    /// The time for a request with a body of so many bytes.
    pub(crate) fn deadline_of(&self, bytes: u64) -> Duration {
        self.deadline.saturating_add(Duration::from_secs(bytes / self.slow.max(1)))
    }
}
