//! How one chunk's share of a request is executed, by name.
//!
//! | reading | when | |
//! |---|---|---|
//! | fill | the chunk is absent | fill value |
//! | cached | a cache holds the chunk, as it is in the store | scatters from the cache |
//! | read-scatter | no codec, and small chunks are read together | scatters from their bytes |
//! | read-into | no codec, and one row of bytes on both sides | reads straight into the output |
//! | read-rows | no codec, otherwise | reads only the byte ranges that are wanted |
//! | decode-into | all of the chunk is wanted, as one row of bytes | decodes straight into the output |
//! | decode-part | a part is wanted, and the codec can do that | to scratch, then scatters |
//! | decode-scatter | otherwise, or if a cache keeps it | decodes to scratch, then scatters |
//!
//! | writing | when | |
//! |---|---|---|
//! | modify | a part of a chunk | reads, overlays, replaces |
//! | elide | a whole chunk of fill value | stores nothing |
//! | write-from | a whole chunk, no codec, and one row of bytes | writes the caller's memory as it is |
//! | encode-from | the same with codecs | encodes straight from the caller's memory |
//! | gather | a whole chunk, otherwise | gathers into scratch, then encodes and writes |
//!
//! Each has a file in [`crate::read::strategies`] or [`crate::write::strategies`], which says when
//! it fits and what it does. A chunk is read or written by the first strategy that fits.
//!
//! Tasks with several stretches of points have no single row of bytes on either side. Without
//! codecs, they read the ranges around the points ([`crate::read::windows`]). The last pass goes
//! from place to place ([`crate::copy::gather`]).

use std::fmt;

/// How a chunk's share of a request is executed: the name of a strategy, as `explain` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Strategy(pub(crate) &'static str);

impl Strategy {
    /// The chunk is absent.
    pub(crate) const FILL: Strategy = Strategy("fill");

    /// Its name: `read-into`, `decode-part`, …
    pub fn name(&self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}
