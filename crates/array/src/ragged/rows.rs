//! Builds values of variable length from rows that are anywhere in memory.

use super::Ragged;
use crate::dims::Dims;

impl Ragged {
    /// Builds text or bytes from `rows` in C order, one for each element of an array of `shape`.
    /// Offsets count bytes. `None` if the number of rows is wrong, or if there is no memory.
    pub fn of<'a>(shape: &[u64], rows: impl ExactSizeIterator<Item = &'a [u8]> + Clone) -> Option<Ragged> {
        if crate::dims::element_count(shape)? != rows.len() as u64 {
            return None;
        }
        let mut ragged = Ragged::growing(rows.len())?;
        for row in rows.clone() {
            ragged.offsets.push(ragged.end().checked_add(i64::try_from(row.len()).ok()?)?);
        }
        ragged.grow(u64::try_from(ragged.end()).ok()?, 1)?;
        let mut left = ragged.values.as_mut_slice();
        for row in rows {
            let (place, rest) = left.split_at_mut_checked(row.len())?;
            place.copy_from_slice(row);
            left = rest;
        }
        Some(Ragged { shape: Dims::from_slice(shape), ..ragged })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_offsets_and_values() {
        let rows: Vec<&[u8]> = vec![b"ab", b"", b"cde", b""];
        let ragged = Ragged::of(&[2, 2], rows.iter().copied()).unwrap();
        assert_eq!(ragged.shape.as_slice(), [2, 2]);
        assert_eq!(ragged.offsets, [0, 2, 2, 5, 5]);
        assert_eq!(ragged.values.as_slice(), b"abcde");
        assert!(Ragged::of(&[3], rows.iter().copied()).is_none());
        assert_eq!(Ragged::of(&[0, 7], [].into_iter()).unwrap().offsets, [0]);
    }
}
