//! Costs of requests to a server, measured while they are made.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Defaults before any measurement: S3 answers a machine in the same region after about 20 ms, and
/// one connection delivers about 50 MB/s.
const LATENCY: u64 = 20_000;
const SPEED: u64 = 50;

/// Shorter bodies arrive together with the head of the response and say nothing about the speed.
const TELLING: u64 = 256 << 10;

/// Bounds for the bytes that are worth a request. Below the lower one, a request to a server on the
/// same machine costs more than reading on. Above the upper one, memory would.
const LEAST: u64 = 16 << 10;
const MOST: u64 = 8 << 20;

/// Latency and speed, as running averages.
#[derive(Debug)]
pub(crate) struct Meter {
    /// Microseconds from request to response.
    latency: AtomicU64,
    /// Bytes per microsecond.
    speed: AtomicU64,
    fixed: Option<u64>,
}

/// The running average after a new value, which has weight 1/8.
fn average(old: u64, new: u64) -> u64 {
    (old.saturating_mul(7).saturating_add(new)) / 8
}

impl Meter {
    pub(crate) fn new(fixed: Option<u64>) -> Self {
        Meter { latency: AtomicU64::new(LATENCY), speed: AtomicU64::new(SPEED), fixed }
    }

    /// Records the time until a response began. (Races lose a value, but this is an estimate.)
    pub(crate) fn record_latency(&self, after: Duration) {
        let new = u64::try_from(after.as_micros()).unwrap_or(u64::MAX).clamp(1, 10_000_000);
        self.latency.store(average(self.latency.load(Relaxed), new), Relaxed);
    }

    /// Records the transfer time of a body of `bytes`.
    pub(crate) fn record_transfer(&self, bytes: u64, time: Duration) {
        if bytes >= TELLING {
            let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1);
            let new = (bytes / micros).clamp(1, 100_000);
            self.speed.store(average(self.speed.load(Relaxed), new), Relaxed);
        }
    }

    /// Bytes that arrive in the time of one request.
    pub(crate) fn request(&self) -> u64 {
        let measured = self.latency.load(Relaxed).saturating_mul(self.speed.load(Relaxed));
        self.fixed.unwrap_or(measured.clamp(LEAST, MOST))
    }
}

#[cfg(test)]
mod tests {
    use super::{LEAST, MOST, Meter};
    use std::time::Duration;

    #[test]
    fn costs_follow_what_is_measured() {
        let meter = Meter::new(None);
        assert_eq!(meter.request(), 1_000_000);
        for _ in 0..100 {
            meter.record_latency(Duration::from_micros(100));
            meter.record_transfer(1 << 20, Duration::from_millis(1));
        }
        assert!(meter.request() < 300_000, "{}", meter.request());
        for _ in 0..100 {
            meter.record_latency(Duration::from_micros(1));
            meter.record_transfer(1 << 20, Duration::from_secs(1));
        }
        assert_eq!(meter.request(), LEAST);
        for _ in 0..100 {
            meter.record_latency(Duration::from_secs(1000));
        }
        assert_eq!(meter.request(), MOST);
        assert_eq!(Meter::new(Some(5)).request(), 5);
    }
}
