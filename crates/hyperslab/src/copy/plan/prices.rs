//! The prices of a copy between servers: requests, temporary arrays, and the time of workers.
//!
//! Plans between disks are compared by their time alone. On a server requests have a price: 1000 PUT
//! cost as much as a worker in 6 minutes.

use super::{Pass, Side};
use crate::{Error, Result};

/// Prices in dollars.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// 1000 requests that write or list.
    pub put: f64,
    /// 1000 requests that read.
    pub get: f64,
    /// 1 GB (10⁹ bytes) in temporary arrays for a month.
    pub storage: f64,
    /// 1 GB that is read from a server.
    pub egress: f64,
    /// One worker for an hour.
    pub worker: f64,
}

impl Default for Prices {
    /// S3 Standard, without storage and egress, and a virtual machine's core.
    fn default() -> Self {
        Prices { put: 0.005, get: 0.0004, storage: 0.0, egress: 0.0, worker: 0.05 }
    }
}

/// Hours of a month.
const MONTH: f64 = 730.0;

/// A longer object is read by several requests. Copies set this (`max_request_size`).
const READ: u64 = 32 << 20;

/// A longer object is written in parts of this size, with two more requests.
const PART: u64 = 32 << 20;

impl Prices {
    /// Fails with [`Error::Options`] if a price is none.
    pub(crate) fn check(&self) -> Result<()> {
        let Prices { put, get, storage, egress, worker } = *self;
        let prices =
            [("put", put), ("get", get), ("storage", storage), ("egress", egress), ("worker", worker)];
        match prices.into_iter().find(|(_, price)| !(0.0..1e9).contains(price)) {
            None => Ok(()),
            Some((name, price)) => {
                Err(Error::Options(format!("prices: {name}: expected dollars, found {price}")))
            }
        }
    }

    /// The price of a pass: its requests, and the temporary arrays that exist while it runs.
    /// `bytes`: the bytes of all elements.
    pub(super) fn pass(&self, pass: &Pass, sides: (&Side, &Side), workers: u64, bytes: f64) -> f64 {
        let requests = pass.puts as f64 * self.put + pass.gets as f64 * self.get;
        let out = if sides.0.reach.far { pass.read as f64 * self.egress } else { 0.0 };
        let held = [sides.0, sides.1].into_iter().filter(|side| side.is_temporary && side.reach.far).count();
        let months = pass.seconds / 3600.0 / MONTH / workers.max(1) as f64;
        requests / 1e3 + (out + held as f64 * bytes * months * self.storage) / 1e9
    }

    /// The price of workers that work this many seconds in all.
    pub(crate) fn work(&self, seconds: f64) -> f64 {
        seconds / 3600.0 * self.worker
    }
}

/// Number of requests to read the source: `opened` objects, which have `object` stored bytes each,
/// in `decoded` visits of chunks that have `chunk` stored bytes each.
pub(super) fn gets(side: &Side, (opened, object): (u64, f64), (decoded, chunk): (u64, f64)) -> u64 {
    if !side.reach.far || !side.chunked {
        return 0;
    }
    let split = |bytes: f64| (bytes / READ as f64).ceil().max(1.0);
    if side.object == side.part {
        return (decoded as f64 * split(chunk)) as u64;
    }
    // The index of a shard, and runs of its chunks. Runs are joined across small gaps.
    let each = decoded as f64 / opened.max(1) as f64;
    let runs = (object / (side.reach.gap as f64 + chunk).max(1.0)).ceil().max(split(object));
    (opened as f64 * (1.0 + runs.min(each * split(chunk)))) as u64
}

/// Number of requests to write `objects` objects with this many stored bytes each.
pub(super) fn puts(side: &Side, objects: u64, bytes: f64) -> u64 {
    if !side.reach.far {
        return 0;
    }
    let each = if bytes <= PART as f64 { 1 } else { (bytes / PART as f64).ceil() as u64 + 2 };
    objects.saturating_mul(each)
}
