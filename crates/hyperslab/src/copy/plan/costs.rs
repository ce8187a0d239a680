//! The costs of all steps of a copy, in nanoseconds of one thread if threads share the work.
//!
//! These are estimates for a core of 2020 and a local disk behind the system's cache. A plan is
//! chosen by comparing costs: doubling the cost of decoding changes a plan only if two plans are
//! nearly equal.

use hyperslab_store::Cost;

/// Decoding one byte of elements: zstd decodes about 1 GB/s.
pub(super) const DECODE: f64 = 1.0;

/// Encoding one byte of elements: zstd at its default level encodes about 250 MB/s.
pub(super) const ENCODE: f64 = 4.0;

/// Moving one byte of elements without codecs: about 5 GB/s with strides.
pub(super) const MOVE: f64 = 0.2;

/// The costs of accessing a store.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reach {
    /// Reading one byte.
    pub(super) read: f64,
    /// Writing one byte.
    pub(super) write: f64,
    /// Opening an object, or reading one more range of it.
    pub(super) open: f64,
    /// Creating an object.
    pub(super) create: f64,
    /// Largest gap in bytes between two ranges that is cheaper to read than to skip.
    pub(super) gap: u64,
    /// `true`: on a server, where requests have a price.
    pub(super) far: bool,
}

impl Reach {
    /// A directory. Half of the reads come from the cache; all written bytes must reach the disk.
    pub(crate) const NEAR: Reach =
        Reach { read: 0.3, write: 1.0, open: 2e4, create: 1e5, gap: 4096, far: false };

    /// One byte from or to a server, if all connections share 1 Gbit/s.
    const FAR: f64 = 8.0;

    /// The costs of a store.
    pub(crate) fn of(cost: Cost) -> Reach {
        if !cost.is_far() {
            return Reach { gap: cost.range, ..Reach::NEAR };
        }
        // Requests run in parallel.
        let open = cost.request as f64 * Self::FAR / cost.at_once as f64;
        Reach { read: Self::FAR, write: Self::FAR, open, create: 2.0 * open, gap: cost.range, far: true }
    }
}
