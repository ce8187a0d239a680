//! Mosaics: arrays that take their elements from other arrays (HDF5's virtual datasets).
//!
//! A piece maps a pattern of the array to a pattern of a source: the k-th element of the one is the
//! k-th element of the other. Elements outside all pieces are fill value, and so are pieces of a
//! missing array. If pieces overlap, the later one counts.

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
    /// Converts elements of the array to elements of the mosaic. `None`: they are equal, or the
    /// engine converts them.
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

/// An array from which mosaics take elements. Opened on first use.
pub trait MosaicSource: Debug + Send + Sync {
    /// Returns the array. `None` if it does not exist: its elements then read as fill value.
    ///
    /// Called for every request that needs the array, from many threads. Implementations keep what
    /// they have opened.
    fn open(&self) -> Result<Option<SourceArray>, LocateError>;
}

/// A part of a mosaic whose elements are stored in another array.
#[derive(Clone, Debug)]
pub struct Piece {
    pub(crate) target: Pattern,
    pub(crate) source: Pattern,
    pub(crate) array: Arc<dyn MosaicSource>,
}

impl Piece {
    /// Takes the elements of `target`, in their order, from the elements of `source` in `array`.
    ///
    /// Fails (with a message) if the patterns are known to differ in their number of elements.
    pub fn new(target: Pattern, source: Pattern, array: Arc<dyn MosaicSource>) -> Result<Self, String> {
        match (target.count(), source.count()) {
            (Some(target), Some(source)) if target != source => {
                Err(format!("{source} elements are to be the {target} of a part"))
            }
            _ => Ok(Piece { target, source, array }),
        }
    }

    /// Start and end of the piece along each axis; `None` if it is the whole array.
    pub fn bounds(&self) -> Option<Vec<(u64, u64)>> {
        self.target.bounds()
    }
}

/// The pieces that make up an array.
#[derive(Debug)]
pub struct Mosaic {
    pub(crate) pieces: Vec<Piece>,
    /// No two pieces share an element, so several threads may read them in any order.
    pub(crate) disjoint: bool,
}

impl Mosaic {
    /// Makes a mosaic of these pieces.
    pub fn new(pieces: Vec<Piece>) -> Self {
        Mosaic { disjoint: are_disjoint(&pieces), pieces }
    }

    /// The pieces, in their order.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }
}

/// Returns `true` if the bounding boxes of the pieces do not overlap.
///
/// Interleaved pieces count as overlapping, even if they share no element. The boxes are sorted
/// along the first axis, and each is compared only with boxes that begin before it ends. The answer
/// is `false` if that takes too many comparisons.
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
