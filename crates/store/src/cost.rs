//! The costs of reading, and the decisions that follow from them.

/// Costs of reading ([`Store::cost`](crate::Store::cost)), in bytes that could be read in the same
/// time.
///
/// Callers ask the methods, which say what pays off with this store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// One more request. Ranges of an object with a smaller gap are read as one.
    pub request: u64,
    /// One more range in the same request.
    pub range: u64,
    /// Useful number of concurrent requests per thread. One call of `open_all` opens this many
    /// objects.
    ///
    /// 1 if the store answers at once, or makes its caller wait for each request.
    pub at_once: usize,
    /// Requests cost this computer's own time: none is made on the chance that it saves a round.
    pub frugal: bool,
}

impl Cost {
    /// The default: a store that answers at once, and lends or copies exactly the wanted bytes.
    pub const NEAR: Cost = Cost { request: 0, range: 4096, at_once: 1, frugal: false };

    /// Returns whether the store is on a server: concurrent requests pay off.
    ///
    /// For the few callers that mean the place. For decisions, ask the other methods.
    pub fn is_far(self) -> bool {
        self.at_once > 1
    }

    /// Returns whether a reader should first name all objects or ranges that it needs, and then
    /// wait for all of them together.
    ///
    /// On a server a round of requests takes as long as one request. A near store answers each
    /// call at once: collecting the names first would only cost time and memory.
    pub fn prefers_rounds(self) -> bool {
        self.is_far()
    }

    /// Returns whether to make a request that may turn out to be needless, if it may save others
    /// or a round.
    ///
    /// For example: asking for all documents that a node may have, or for a sample of chunks.
    pub fn worth_guessing(self) -> bool {
        !self.frugal
    }

    /// Returns whether requests for this many objects are one round, and take as long as a request
    /// for one.
    ///
    /// Then a sample is not cheaper than asking for everything.
    pub fn fits_one_round(self, requests: usize) -> bool {
        self.prefers_rounds() && requests <= self.at_once
    }

    /// Number of requests in a round. At least 1.
    pub fn requests_at_once(self) -> usize {
        self.at_once.max(1)
    }

    /// Returns whether reading a gap of this many bytes costs at most as much as another request.
    pub fn worth_joining(self, gap: u64) -> bool {
        gap <= self.request
    }

    /// Returns whether requests, not computing, take the time of a task.
    ///
    /// Then it pays to share even small tasks among threads, and to give each thread enough work
    /// for many requests. With a near store, threads beyond the cores would only wait for turns.
    pub fn waiting_dominates(self) -> bool {
        self.is_far()
    }

    /// Returns whether to look at an object before changing it.
    ///
    /// On a server each look is a request, and the answer to a conditional write tells the same. In
    /// a near store a look costs less than an encoded chunk that is then refused.
    pub fn looks_are_cheap(self) -> bool {
        !self.is_far()
    }

    /// Returns whether one listing of everything is faster than many lookups or small listings.
    ///
    /// A server lists a thousand keys with one request. A directory would be read entry by entry.
    pub fn prefers_one_listing(self) -> bool {
        self.is_far()
    }
}

#[cfg(test)]
mod tests {
    use super::Cost;

    #[test]
    fn a_near_store_is_asked_piece_by_piece() {
        let near = Cost { request: 100, ..Cost::NEAR };
        assert!(!near.prefers_rounds() && !near.fits_one_round(1) && !near.waiting_dominates());
        assert!(near.looks_are_cheap() && !near.prefers_one_listing());
        assert_eq!([100, 101].map(|gap| near.worth_joining(gap)), [true, false]);
        assert_eq!(Cost { at_once: 0, ..near }.requests_at_once(), 1);
    }

    #[test]
    fn a_far_store_is_asked_in_rounds() {
        let far = Cost { at_once: 8, ..Cost::NEAR };
        assert!(far.prefers_rounds() && far.waiting_dominates() && far.prefers_one_listing());
        assert!(!far.looks_are_cheap());
        assert_eq!([8, 9].map(|requests| far.fits_one_round(requests)), [true, false]);
        assert_eq!(far.requests_at_once(), 8);
        assert!(far.worth_guessing() && !Cost { frugal: true, ..far }.worth_guessing());
    }
}
