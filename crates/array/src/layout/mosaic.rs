//! What an array is made of that takes its elements from others (HDF5's virtual datasets).
//!
//! A piece says: the k-th element of this pattern of the array is the k-th element of that pattern
//! of another one. What no piece has, and what a piece of a missing array has, is fill value. Where
//! pieces overlap, the later one counts.

#![expect(clippy::indexing_slicing, reason = "the place comes from the list itself")]

use crate::error::LocateError;
use crate::layout::ArrayLayout;
use crate::layout::pattern::Pattern;
use std::fmt::Debug;
use std::sync::Arc;

/// The array behind a [`MosaicSource`].
#[derive(Clone, Debug)]
pub struct SourceArray {
    /// The array as it is stored.
    pub layout: Arc<ArrayLayout>,
    /// Makes elements of the mosaic from those of the array. `None`: they are the same, or numbers
    /// that the engine converts.
    pub convert: Option<Arc<dyn ConvertElements>>,
}

impl From<Arc<ArrayLayout>> for SourceArray {
    fn from(layout: Arc<ArrayLayout>) -> Self {
        SourceArray { layout, convert: None }
    }
}

/// A conversion between elements whose types the engine does not know.
pub trait ConvertElements: Debug + Send + Sync {
    /// Converts all elements of `src`. `dst` has room for exactly as many.
    fn convert(&self, src: &[u8], dst: &mut [u8]);
}

/// An array that others take elements from. Opened when it is first needed.
pub trait MosaicSource: Debug + Send + Sync {
    /// The array; `None`: there is none, its elements read as fill value. Called for every request
    /// that needs it, from many threads: implementations keep what they have opened.
    fn open(&self) -> Result<Option<SourceArray>, LocateError>;
}

/// A part of an array whose elements are those of another array.
#[derive(Clone, Debug)]
pub struct Piece {
    pub(crate) target: Pattern,
    pub(crate) source: Pattern,
    pub(crate) array: Arc<dyn MosaicSource>,
}

impl Piece {
    /// The elements of `target`, in their order, are those of `source` in `array`. Errors (as text)
    /// where the patterns are known to have other numbers of elements.
    pub fn new(target: Pattern, source: Pattern, array: Arc<dyn MosaicSource>) -> Result<Self, String> {
        match (target.count(), source.count()) {
            (Some(target), Some(source)) if target != source => {
                Err(format!("{source} elements are to be the {target} of a part"))
            }
            _ => Ok(Piece { target, source, array }),
        }
    }

    /// Per axis of the array where the piece begins and ends; `None`: it is all of it.
    pub fn bounds(&self) -> Option<Vec<(u64, u64)>> {
        self.target.bounds()
    }
}

/// What an array is made of.
#[derive(Debug)]
pub struct Mosaic {
    pub(crate) pieces: Vec<Piece>,
    /// No two pieces have an element in common: they may be read in any order, by several threads.
    pub(crate) disjoint: bool,
}

impl Mosaic {
    /// An array of these pieces.
    pub fn new(pieces: Vec<Piece>) -> Self {
        Mosaic { disjoint: are_disjoint(&pieces), pieces }
    }

    /// The pieces, in their order.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }
}

/// Whether the boxes around the pieces are apart from each other. Pieces that lie between each
/// other's elements are not found to be.
///
/// Sorted along the first axis, each is compared only with those that begin before it ends; where
/// that takes too many comparisons, the answer is no.
fn are_disjoint(pieces: &[Piece]) -> bool {
    const MOST_FOR_EACH: usize = 256;
    if pieces.len() < 2 {
        return true;
    }
    let bounds: Option<Vec<Vec<(u64, u64)>>> = pieces.iter().map(|piece| piece.target.bounds()).collect();
    let Some(mut bounds) = bounds else { return false };
    bounds.sort_unstable();
    let mut left = bounds.len().saturating_mul(MOST_FOR_EACH);
    for (n, piece) in bounds.iter().enumerate() {
        let Some((_, end)) = piece.first() else { return false };
        for other in
            bounds[n + 1..].iter().take_while(|other| other.first().is_some_and(|(start, _)| start < end))
        {
            left = left.saturating_sub(1);
            let meets = piece.iter().zip(other).all(|(a, b)| a.0 < b.1 && b.0 < a.1);
            if left == 0 || meets {
                return false;
            }
        }
    }
    true
}
