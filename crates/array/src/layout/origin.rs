//! Makes a read of several objects see one array, even if another takes its place meanwhile.
//!
//! Whole arrays are replaced in one step. A read that takes longer than this step may first find
//! objects of the old array and later objects of the new one. When it is done, it checks whether
//! the array has changed, and reads again if so. A read of one object needs no check: an object is
//! never a mixture.

use crate::error::LocateError;
use std::fmt::Debug;

/// The place from which an array was opened, as the format knows it.
pub trait Origin: Debug + Send + Sync {
    /// Returns `true` if [`Origin::look`] knows what to compare with. The first look finds out.
    fn is_known(&self) -> bool;

    /// Looks at the place from which the array was opened.
    fn look(&self) -> Result<OriginState, LocateError>;
}

/// Result of [`Origin::look`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginState {
    /// The same array as at the last look, as far as can be told.
    Same,
    /// Another array, whose chunks are stored in the same way. It counts as the array from here on.
    Alike,
    /// Nothing, or an array whose chunks mean something else.
    Other,
}
