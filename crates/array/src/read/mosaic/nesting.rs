//! Mosaics made of mosaics: limits how far a request goes into them.
//!
//! A circle would have no end. A few levels that each name the next one several times would take
//! years. Both depth and work are therefore bounded.

use crate::error::ArrayError;
use crate::layout::ArrayLayout;
use crate::read::options::ReadOptions;
use crate::select::Selection;
use crate::select::view::Target;
use std::sync::atomic::{AtomicU64, Ordering};

/// Reads a selection of another array. `nesting`: the mosaic that this array is a part of.
pub(crate) type ReadSource = fn(
    &ArrayLayout,
    &Selection,
    &mut Target<'_>,
    ReadOptions<'_>,
    Option<&Nesting<'_>>,
) -> Result<(), ArrayError>;

/// The deepest nesting of mosaics within mosaics.
const DEEPEST: usize = 16;

/// The most parts that a request reads from mosaics that are parts of others.
///
/// The limit is small in unit tests, so that they reach it.
const MOST: u64 = if cfg!(test) { 1 << 14 } else { 1 << 20 };

/// Looking at this many pieces takes as long as reading from one.
const LOOKED_AT: usize = 64;

/// The position of a request in nested mosaics.
pub(crate) struct Nesting<'a> {
    depth: usize,
    /// Number of parts that all threads together may still read.
    left: &'a AtomicU64,
}

impl<'a> Nesting<'a> {
    pub(crate) fn parts_budget() -> AtomicU64 {
        AtomicU64::new(MOST)
    }

    /// A mosaic that is not a part of another.
    pub(crate) fn new(left: &'a AtomicU64) -> Self {
        Nesting { depth: 0, left }
    }

    /// The mosaic `layout`, which is a part of the mosaic of `self`.
    ///
    /// The request looks at `pieces` pieces of it and reads `parts` of them.
    pub(crate) fn descend(
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
