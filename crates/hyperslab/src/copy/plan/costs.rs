//! What the steps of a copy cost, all in one place: nanoseconds, of one thread where threads share
//! the work.
//!
//! They are estimates for a core of 2020 and a local disk behind the system's cache. A plan is chosen
//! by how they compare: twice the cost of decoding changes a plan only where two are nearly equal.

use hyperslab_store::Cost;

/// Decoding one byte of elements: zstd decodes some 1 GB/s.
pub(super) const DECODE: f64 = 1.0;

/// Encoding one byte of elements: zstd at its usual level encodes some 250 MB/s.
pub(super) const ENCODE: f64 = 4.0;

/// Moving one byte of elements that no codec changes: with strides, some 5 GB/s.
pub(super) const MOVE: f64 = 0.2;

/// How a store is reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reach {
    /// Reading one byte.
    pub(super) read: f64,
    /// Writing one byte.
    pub(super) write: f64,
    /// Opening an object, or reading another range of it.
    pub(super) open: f64,
    /// Making an object.
    pub(super) create: f64,
    /// Bytes that may as well be read between two ranges.
    pub(super) gap: u64,
}

impl Reach {
    /// A directory. Reading is half from the cache; what is written has to reach the disk.
    pub(crate) const NEAR: Reach = Reach { read: 0.3, write: 1.0, open: 2e4, create: 1e5, gap: 4096 };

    /// One byte from or to a server, over connections that share 1 Gbit/s.
    const FAR: f64 = 8.0;

    /// That of a store.
    pub(crate) fn of(cost: Cost) -> Reach {
        if !cost.is_far() {
            return Reach { gap: cost.range, ..Reach::NEAR };
        }
        // Requests wait together.
        let open = cost.request as f64 * Self::FAR / cost.at_once as f64;
        Reach { read: Self::FAR, write: Self::FAR, open, create: 2.0 * open, gap: cost.range }
    }
}
