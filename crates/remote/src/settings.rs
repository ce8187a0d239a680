//! Settings for requests: sizes, times, numbers.

use crate::cache::{Check, Keep};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Nanoseconds between two requests to a host. 0: no limit.
static INTERVAL: AtomicU64 = AtomicU64::new(0);

/// Limits the requests per second to each host, for stores without a limit of their own.
///
/// Counts at once, for all stores of the process. `None`, and numbers that are not positive: no
/// limit.
pub fn set_requests_per_second(most: Option<f64>) {
    let nanos = most.and_then(interval_of).map_or(0, |interval| interval.as_nanos());
    INTERVAL.store(u64::try_from(nanos).unwrap_or(u64::MAX), Relaxed);
}

/// The average time between two requests, from the number of requests per second.
pub(crate) fn interval_of(most: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(1.0 / most).ok().filter(|interval| !interval.is_zero())
}

/// The time between two requests to a host, of stores without a setting of their own.
pub(crate) fn default_interval() -> Option<Duration> {
    Some(Duration::from_nanos(INTERVAL.load(Relaxed))).filter(|interval| !interval.is_zero())
}

/// Policy for changing part of an object on a server without conditional replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Unconditional {
    /// Make the change after checking that the object is still the same.
    ///
    /// The change of a writer on another machine may be lost. The hook of
    /// [`on_unconditional`](crate::on_unconditional) gets one warning per store.
    #[default]
    Warn,
    /// Fail.
    Refuse,
}

/// Settings for requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Concurrent requests of one call. Their results are in memory before they are decoded.
    pub concurrency: usize,
    /// Concurrent requests of all calls to one store.
    pub in_all: usize,
    /// Time between two requests to a host, on average. Shared by all stores at that host.
    ///
    /// `None`: as [`set_requests_per_second`] says.
    pub interval: Option<Duration>,
    /// Ranges of an object with a gap below this many bytes are one request.
    ///
    /// `None`: as many bytes as arrive in the time of one request, as measured.
    pub gap: Option<u64>,
    /// A longer range is read by several concurrent requests of at most this many bytes each.
    ///
    /// One connection to S3 delivers about 80 MB/s, so 8 MiB keep it busy for 100 ms, several round
    /// trips.
    pub largest: u64,
    /// Larger objects are written in parts of this many bytes, several at a time.
    ///
    /// S3 requires at least 5 MiB per part, and at most 10 000 parts.
    pub part: u64,
    /// Total time for one request with its retries. Longer for long bodies ([`Settings::slow`]).
    pub deadline: Duration,
    /// Time for one attempt until its response begins, and between two pieces of the response.
    pub attempt: Duration,
    /// Retries after the first attempt.
    pub retries: usize,
    /// Lowest acceptable speed in bytes per second. The deadline grows with the body accordingly.
    pub slow: u64,
    /// Policy for servers without conditional requests.
    pub unconditional: Unconditional,
    /// Location of the cache. `None`: no cache.
    pub cache: Option<Keep>,
    /// When to ask the server whether cached contents are still current.
    pub cache_check: Check,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            concurrency: 64,
            // A third of the connections that a process may have by default (1024 open files).
            // Measured: 1000 concurrent reads of one small chunk each, 30 ms away, take 509 ms with
            // 64 and 175 ms with 256.
            in_all: 340,
            interval: None,
            gap: None,
            largest: 8 << 20,
            part: 32 << 20,
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
    /// The deadline of a request with a body of `bytes`.
    pub(crate) fn deadline_of(&self, bytes: u64) -> Duration {
        self.deadline.saturating_add(Duration::from_secs(bytes / self.slow.max(1)))
    }
}
