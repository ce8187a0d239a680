//! The report of a copy.

use std::time::Duration;

/// The result of a copy.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CopyReport {
    /// Number of groups.
    pub groups: u64,
    /// Number of arrays.
    pub arrays: u64,
    /// Bytes of all elements in memory.
    /// For elements of variable length, includes the values that were copied.
    pub bytes: u64,
    /// Bytes of the source's chunks; 0 if the store does not list them, as web servers do not.
    pub stored_before: u64,
    /// Bytes of the copy's chunks.
    pub stored_after: u64,
    /// The most memory that elements took at once.
    pub block_bytes: u64,
    /// Duration of copying.
    pub elapsed: Duration,
    /// Duration of verification, if requested.
    pub verified: Option<Duration>,
    /// Differences from the source that the user did not ask for.
    pub notes: Vec<String>,
    /// Arrays and groups that were left out because they cannot be copied: path and reason.
    pub skipped: Vec<(String, String)>,
}
