//! Marks: which replacement stored the contents of an object.
//!
//! Two writers may store equal bytes. A writer whose response was lost can still tell its contents
//! from the other's: they carry a mark that nobody else has.

use std::hash::{BuildHasher, RandomState};
use std::time::SystemTime;

/// The characters of marks, all valid in HTTP headers.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Names one replacement of an object ([`Writers::swap_marked`](crate::Writers::swap_marked)).
///
/// 48 random bits. An object remembers about a hundred marks, so two of them are equal in one of
/// 10¹² objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mark([u8; Mark::LEN]);

impl Mark {
    /// Length of a mark in (ASCII) characters.
    pub const LEN: usize = 8;

    /// A mark that nobody else has, in any process on any machine.
    pub fn fresh() -> Self {
        // The system provides the keys of `RandomState` once per thread. A forked child inherits
        // its parent's keys, but has another process ID and a later time.
        Mark::of(RandomState::new().hash_one((std::process::id(), SystemTime::now())))
    }

    /// The mark with the low 48 bits of a number.
    pub fn of(number: u64) -> Self {
        let mut text = [b'-'; Mark::LEN];
        for (n, letter) in text.iter_mut().enumerate() {
            let index = usize::try_from(number >> (6 * n) & 63).unwrap_or_default();
            *letter = ALPHABET.get(index).copied().unwrap_or(b'-');
        }
        Mark(text)
    }

    /// The mark as text.
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.0).unwrap_or_default()
    }

    /// Returns whether a character may be part of a mark.
    pub fn has_letter(letter: u8) -> bool {
        ALPHABET.contains(&letter)
    }
}

#[cfg(test)]
mod tests {
    use super::Mark;
    use std::collections::HashSet;

    #[test]
    fn marks_are_different_and_fit_for_headers() {
        let marks: HashSet<Mark> = (0..1000).map(|_| Mark::fresh()).collect();
        assert_eq!(marks.len(), 1000);
        assert!(marks.iter().all(|mark| mark.as_str().len() == Mark::LEN));
        assert!(marks.iter().all(|mark| mark.as_str().bytes().all(Mark::has_letter)));
        assert_eq!((Mark::of(0).as_str(), Mark::of(u64::MAX).as_str()), ("AAAAAAAA", "________"));
        assert_eq!(Mark::of(1 << 6 | 2).as_str(), "CBAAAAAA");
    }
}
