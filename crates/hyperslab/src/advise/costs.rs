//! Estimates how long a read takes, in seconds, from its counts.
//!
//! The estimates are only compared with each other: if everything took twice as long, the advice
//! would be the same.

/// How fast a store responds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reach {
    /// Seconds until the response to a request starts.
    pub latency: f64,
    /// Requests in flight at once.
    pub at_once: f64,
    /// Bytes per second.
    pub bandwidth: f64,
    /// Largest gap in bytes between two ranges that is cheaper to read than to skip.
    pub gap: f64,
}

/// A directory on a local NVMe disk whose pages are not in memory.
pub const DISK: Reach = Reach { latency: 1e-4, at_once: 4.0, bandwidth: 2e9, gap: 4096.0 };

/// An object store in the same region, over 1 Gbit/s.
pub const OBJECTS: Reach = Reach { latency: 0.03, at_once: 64.0, bandwidth: 125e6, gap: 256e3 };

/// Decoded bytes per second: zstd on four threads.
pub const DECODED: f64 = 4e9;

/// The counts that determine the cost of a read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Chunks that are read.
    pub chunks: f64,
    /// Objects that are opened.
    pub objects: f64,
    /// Requests, including those for shard indexes.
    pub requests: f64,
    /// Bytes that are read, including shard indexes.
    pub bytes_read: f64,
    /// Decoded bytes.
    pub bytes_decoded: f64,
}

impl Reach {
    /// Estimates the seconds that a read takes.
    pub fn seconds(&self, counts: &Counts) -> f64 {
        // Requests run in parallel, but a read takes at least one latency. Decoding overlaps with
        // the transfer.
        let waiting = self.latency * (counts.requests / self.at_once).max(1.0);
        let moving = counts.bytes_read / self.bandwidth;
        waiting + moving.max(counts.bytes_decoded / DECODED)
    }
}
