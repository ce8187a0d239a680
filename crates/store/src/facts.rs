//! Facts about a store that callers must know before they use it.

/// Facts about a store ([`Store::facts`](crate::Store::facts)), for all of its objects.
///
/// The default describes memory: a private place that can do everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The store accepts changes, as far as it knows without trying.
    pub is_writable: bool,
    /// Other processes may change the objects.
    ///
    /// Only then does [`Store::swap`](crate::Store::swap) have a purpose.
    pub is_shared: bool,
    /// The store can list its keys. Plain web servers cannot: listing fails.
    pub lists: bool,
    /// Reading a range can cost less than reading the whole object.
    pub reads_ranges: bool,
    /// [`Store::swap_out`](crate::Store::swap_out) checks and deletes in one step.
    ///
    /// If not, another writer may come between. Callers then write an object that means the same as
    /// no object instead.
    pub swaps_out: bool,
    /// Groups in this store may have consolidated metadata.
    ///
    /// `false` for a store that keeps all metadata in one place itself: its other writers do not
    /// update consolidated metadata.
    pub consolidates: bool,
    /// The store refuses chunks outside the extent in the array's stored metadata.
    ///
    /// If so, an array grows before its chunks are written.
    pub checks_chunks: bool,
    /// More threads than cores are useful.
    ///
    /// Writers mostly wait for a disk or a network, and readers may.
    pub waits: bool,
}

impl Default for Facts {
    fn default() -> Self {
        Facts {
            is_writable: true,
            is_shared: false,
            lists: true,
            reads_ranges: true,
            swaps_out: true,
            consolidates: true,
            checks_chunks: false,
            waits: false,
        }
    }
}
