//! What a read costs, by its counts: seconds.
//!
//! They are estimates, and only compared: twice the time of everything changes no advice.

/// How a store answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reach {
    /// Seconds until a request is answered.
    pub latency: f64,
    /// Requests that wait together.
    pub at_once: f64,
    /// Bytes per second.
    pub bandwidth: f64,
    /// Bytes that may as well be read between two ranges.
    pub gap: f64,
}

/// A directory on a local disk: an NVMe disk whose pages are not in memory.
pub const DISK: Reach = Reach { latency: 1e-4, at_once: 4.0, bandwidth: 2e9, gap: 4096.0 };

/// An object store in the same region, over 1 Gbit/s.
pub const OBJECTS: Reach = Reach { latency: 0.03, at_once: 64.0, bandwidth: 125e6, gap: 256e3 };

/// Bytes of elements that are decoded per second: zstd, on four threads.
pub const DECODED: f64 = 4e9;

/// What a read is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Chunks that are read.
    pub chunks: f64,
    /// Objects that are opened.
    pub objects: f64,
    /// Requests, with those for indexes of shards.
    pub requests: f64,
    /// Bytes that are read, with indexes.
    pub bytes_read: f64,
    /// Bytes that come out of decoders.
    pub bytes_decoded: f64,
}

impl Reach {
    /// Seconds that a read takes.
    pub fn seconds(&self, counts: &Counts) -> f64 {
        // Requests go together, but none is answered sooner than after one latency. What is decoded
        // meanwhile is not waited for.
        let waiting = self.latency * (counts.requests / self.at_once).max(1.0);
        let moving = counts.bytes_read / self.bandwidth;
        waiting + moving.max(counts.bytes_decoded / DECODED)
    }
}
