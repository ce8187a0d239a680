//! Mosaics made of mosaics: how far a request goes into them.
//!
//! A circle would have no end, and a few levels that each name the next one several times would
//! take years: both depth and work are bounded.

use crate::error::ArrayError;
use crate::layout::ArrayLayout;
use crate::read::options::ReadOptions;
use crate::select::Selection;
use crate::select::view::Target;
use std::sync::atomic::{AtomicU64, Ordering};

/// Reads a selection of another array. `nesting`: what that is a part of.
pub(crate) type ReadSource = fn(
    &ArrayLayout,
    &Selection,
    &mut Target<'_>,
    ReadOptions<'_>,
    Option<&Nesting<'_>>,
) -> Result<(), ArrayError>;

/// Mosaics may be parts of mosaics, but not deeper than this.
const DEEPEST: usize = 16;

/// A request reads no more parts of mosaics that are parts of others. Unit tests have a small
/// bound, so that they meet it.
const MOST: u64 = if cfg!(test) { 1 << 14 } else { 1 << 20 };

/// Looking at so many pieces takes as long as reading from one.
const LOOKED_AT: usize = 64;

/// Where a request is.
pub(crate) struct Nesting<'a> {
    depth: usize,
    /// How many parts may still be read, by all threads.
    left: &'a AtomicU64,
}

impl<'a> Nesting<'a> {
    pub(crate) fn left() -> AtomicU64 {
        AtomicU64::new(MOST)
    }

    /// A mosaic that is a part of none.
    pub(crate) fn new(left: &'a AtomicU64) -> Self {
        Nesting { depth: 0, left }
    }

    /// The mosaic `layout`, which is a part of that of `self`: so many pieces are looked at, and so
    /// many read.
    pub(crate) fn deeper(
        &self,
        layout: &ArrayLayout,
        pieces: usize,
        parts: usize,
    ) -> Result<Self, ArrayError> {
        let refuse = |why: String| Err(ArrayError::Layout { array: layout.name().into(), why });
        let depth = self.depth + 1;
        if depth >= DEEPEST {
            return refuse(format!(
                "it is a part of arrays that are made of others, more than {DEEPEST} one within the other"
            ));
        }
        let work = 1 + (pieces / LOOKED_AT) as u64 + parts as u64;
        let taken =
            self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(work));
        match taken {
            Ok(_) => Ok(Nesting { depth, left: self.left }),
            Err(_) => refuse(format!(
                "it is a part of arrays that are made of others, of which more than {MOST} parts are wanted"
            )),
        }
    }
}
