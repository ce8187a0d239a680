//! Reads of several objects find those of one array, also where another array takes its place
//! meanwhile.
//!
//! Whole arrays are replaced in one step, but a read that takes longer than that step finds objects
//! of the old one first and of the new one then. So it looks when it is done whether the place has
//! changed, and reads again if it has. A read of one object needs none of this: an object is never
//! a mixture.

use crate::error::LocateError;
use std::fmt::Debug;

/// Where an array came from, as the format knows it.
pub trait Origin: Debug + Send + Sync {
    /// Whether [`Origin::look`] knows what it has to compare with. The first look finds that out.
    fn is_known(&self) -> bool;

    /// Looks at the place from which the array was opened.
    fn look(&self) -> Result<Seen, LocateError>;
}

/// What is there now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The array that was there at the last look; or it cannot be told.
    Same,
    /// Another one, whose chunks are stored in the same way. It is the array from here on.
    Alike,
    /// Nothing, or an array whose chunks mean something else.
    Other,
}
