//! Parts of the decoding of an array: some of its blocks, and a stamp of the objects in them.

use super::decode::Decoding;
use crate::{Array, Dims, Error, Result};
use hyperslab_store::{Ask, Key, SharedStamp, Store};
use std::collections::HashMap;
use std::ops::Range;

/// A listing of more objects is not asked for their stamps. 500 MB of memory.
const MOST_LISTED: usize = 4 << 20;

/// Numbers of blocks, in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    pub ranges: Vec<Range<u64>>,
    /// How many numbers there are up to the end of each range.
    ends: Vec<u64>,
}

impl Numbers {
    pub fn range(range: Range<u64>) -> Self {
        Numbers::joined(std::iter::once(range))
    }

    /// Numbers in any order, each once.
    pub fn of(mut numbers: Vec<u64>) -> Self {
        numbers.sort_unstable();
        Numbers::joined(numbers.into_iter().map(|number| number..number.saturating_add(1)))
    }

    /// Ranges in ascending order.
    pub fn joined(all: impl Iterator<Item = Range<u64>>) -> Self {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for range in all.filter(|range| !range.is_empty()) {
            match ranges.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => ranges.push(range),
            }
        }
        let mut count = 0_u64;
        let ends = ranges.iter().map(|range| {
            count = count.saturating_add(range.end - range.start);
            count
        });
        let ends = ends.collect();
        Numbers { ranges, ends }
    }

    pub fn len(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// The n-th number.
    pub fn get(&self, n: u64) -> u64 {
        let at = self.ends.partition_point(|end| *end <= n);
        match (self.ranges.get(at), self.ends.get(at)) {
            (Some(range), Some(end)) => range.end - (end - n),
            _ => 0,
        }
    }

    pub fn contains(&self, number: u64) -> bool {
        let at = self.ranges.partition_point(|range| range.end <= number);
        self.ranges.get(at).is_some_and(|range| range.contains(&number))
    }

    /// The numbers from the n-th on, up to `most` of them.
    fn some(&self, n: u64, most: u64) -> Self {
        let end = n.saturating_add(most);
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        Numbers::joined(self.ranges.iter().zip(starts.zip(&self.ends)).filter_map(
            |(range, (first, last))| {
                let (from, to) = (n.max(first), end.min(*last));
                (from < to).then(|| range.start + (from - first)..range.start + (to - first))
            },
        ))
    }
}

/// Cuts the blocks of an array into parts of about `bytes` bytes of elements, at least one block each.
pub(super) fn cut(decoding: &Decoding<'_>, numbers: &Numbers, bytes: u64) -> Vec<Numbers> {
    if numbers.len() == 0 {
        return Vec::new();
    }
    let each = (bytes / decoding.block_bytes(numbers.get(0)).max(1)).max(1);
    (0..numbers.len().div_ceil(each)).map(|n| numbers.some(n * each, each)).collect()
}

/// Stamps that identify the contents of each part: equal stamps, equal bytes. `None`: nobody knows.
///
/// A stamp depends on the keys, sizes and times (or tags) of all objects with chunks of the part, and on
/// the metadata of the array.
pub(super) fn stamps(
    array: &Array,
    decoding: &Decoding<'_>,
    stored: Option<&[Dims]>,
    parts: &[Numbers],
    ask: Ask<'_>,
) -> Result<Vec<Option<String>>> {
    let store = array.layout().store();
    let mut sums: Vec<Option<[u64; 4]>> = vec![Some([0; 4]); parts.len()];
    let Some(document) = document(array)? else { return Ok(vec![None; parts.len()]) };
    // The stamp of a file tells nothing about elements in other files.
    let is_elsewhere = array.layout().mosaic().is_some()
        || array.as_hdf5().is_some_and(|dataset| !dataset.external_files().is_empty());
    if is_elsewhere {
        return Ok(vec![None; parts.len()]);
    }
    // A file holds the whole array.
    let whole = match array.as_zarr() {
        None => Some(file_stamp(array)?),
        Some(_) if stored.is_none() => return Ok(vec![None; parts.len()]),
        Some(_) => None,
    };
    if whole.is_none() {
        let listed = listed(array, ask)?;
        for (number, place) in stored.unwrap_or_default().iter().enumerate() {
            if number % 256 == 0 && ask() {
                return Err(Error::Interrupted);
            }
            let mut key = String::new();
            array.layout().locate(place, &mut key)?;
            let stamp = match &listed {
                Some(listed) => listed.get(&key).copied(),
                None => stamp(store, &key)?,
            };
            let sum = stamp.map(|stamp| hash(&[key.as_bytes()], &stamp));
            for block in decoding.blocks_of(place) {
                // Parts ascend.
                let at =
                    parts.partition_point(|part| part.ranges.last().is_some_and(|last| last.end <= block));
                let part = parts.get(at).filter(|part| part.contains(block)).and_then(|_| sums.get_mut(at));
                let Some(part) = part else { continue };
                *part = part.zip(sum).map(|(one, other)| {
                    std::array::from_fn(|n| {
                        one.get(n).zip(other.get(n)).map_or(0, |(a, b)| a.wrapping_add(*b))
                    })
                });
            }
        }
    }
    let text = |(part, sum): (&Numbers, Option<[u64; 4]>)| {
        let sum = sum.zip(whole.unwrap_or(Some([0; 4])));
        sum.map(|(sum, whole)| {
            let ranges = format!("{:?}", part.ranges);
            let all = [sum, whole].concat();
            let numbers: Vec<u8> = all.iter().flat_map(|number| number.to_le_bytes()).collect();
            let hashed =
                hash(&[array.path().as_bytes(), document.as_bytes(), ranges.as_bytes(), &numbers], &[0; 4]);
            hashed.iter().map(|number| format!("{number:016x}")).collect()
        })
    };
    Ok(parts.iter().zip(sums).map(text).collect())
}

/// The metadata that decide how chunks are decoded. `None`: nobody knows whether they have changed.
fn document(array: &Array) -> Result<Option<String>> {
    Ok(match array.as_zarr() {
        Some(zarr) => Some(zarr.to_json().to_text(None)),
        // They are in the file.
        None => array.file().map(|file| format!("{:?}", file.format())),
    })
}

fn file_stamp(array: &Array) -> Result<Option<SharedStamp>> {
    let Some(file) = array.file() else { return Ok(None) };
    Ok(stamp(file.store(), file.key())?.map(|stamp| hash(&[file.key().as_bytes()], &stamp)))
}

fn stamp(store: &std::sync::Arc<dyn Store>, key: &str) -> Result<Option<SharedStamp>> {
    Ok(store.stamp(Key::new(key)?)?.map(|stamp| stamp.everywhere()))
}

/// The stamps of an array's objects, if one listing tells all.
fn listed(array: &Array, ask: Ask<'_>) -> Result<Option<HashMap<String, SharedStamp>>> {
    if !array.store().cost().prefers_one_listing() {
        return Ok(None);
    }
    let prefix = Some(array.path()).filter(|path| !path.is_empty()).map(Key::new).transpose()?;
    let found = array.store().list_stamps(prefix, MOST_LISTED, Some(ask))?;
    Ok(found.map(|found| found.into_iter().collect()))
}

fn hash(texts: &[&[u8]], stamp: &SharedStamp) -> [u64; 4] {
    let mut hasher = blake3::Hasher::new();
    for text in texts {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text);
    }
    for number in stamp {
        hasher.update(&number.to_le_bytes());
    }
    let hashed = hasher.finalize();
    let words = hashed.as_bytes().as_chunks::<8>().0;
    std::array::from_fn(|n| words.get(n).map_or(0, |word| u64::from_le_bytes(*word)))
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "lists of ranges are compared")]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_again() {
        let numbers = Numbers::of(vec![7, 3, 4, 5, 9, 10]);
        assert_eq!((numbers.ranges.clone(), numbers.len()), (vec![3..6, 7..8, 9..11], 6));
        let all: Vec<u64> = (0..6).map(|n| numbers.get(n)).collect();
        assert_eq!(all, [3, 4, 5, 7, 9, 10]);
        assert!(numbers.contains(7) && !numbers.contains(6) && !numbers.contains(11));
        let some: Vec<_> = (0..3).map(|n| numbers.some(n * 2, 2).ranges).collect();
        assert_eq!(some, [vec![3..5], vec![5..6, 7..8], vec![9..11]]);
        assert_eq!(numbers.some(5, 100).ranges, [10..11]);
        assert_eq!((Numbers::range(0..0).len(), Numbers::default().get(0)), (0, 0));
    }
}
