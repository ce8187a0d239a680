//! Chunks that may have the values of another one.
//!
//! A compressed chunk that is written again may get another place, and its old place may go to another
//! chunk. If the program is killed before the index is written, the index leads to the wrong chunk. A
//! chunk of another length is found out ([`chunks`](super::chunks)), one of the same length is not. Streams that
//! no index knows tell that chunks were being written.

use super::walk::{Walk, joined};
use crate::{Result, Source};

/// Bytes that are looked at together.
const PIECE: u64 = 1 << 20;

/// Filters whose chunks have the length of the data: shuffle, fletcher32.
const OF_EQUAL_LENGTH: [u16; 2] = [2, 3];

/// The filters gzip and zstd, whose streams are known by their first bytes.
const GZIP: u16 = 1;
const ZSTD: u16 = 32015;

/// Returns the paths of datasets whose chunks may have been exchanged. `is_known`: chunks were being
/// written.
pub(super) fn doubts(
    source: &Source,
    walk: &Walk,
    structures: &[u64],
    is_known: bool,
) -> Result<Vec<String>> {
    let changing = |filters: &[u16]| filters.iter().any(|id| !OF_EQUAL_LENGTH.contains(id));
    let datasets = walk.datasets.iter().filter(|dataset| !dataset.index.records.is_empty());
    let doubtful: Vec<_> =
        datasets.map(|dataset| (dataset.filter_ids(), dataset)).filter(|(ids, _)| changing(ids)).collect();
    if doubtful.is_empty() || is_known {
        return Ok(doubtful.into_iter().map(|(_, dataset)| dataset.path.clone()).collect());
    }
    let known = doubtful.iter().all(|(ids, _)| ids.contains(&GZIP) || ids.contains(&ZSTD));
    let mut at = 0;
    let end = source.end();
    let taken = joined(walk, structures).into_iter().chain([(end, end)]);
    for (start, next) in taken {
        while at < start.min(end) {
            source.go_on()?;
            let len = PIECE.min(start.min(end) - at);
            let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
            source.read_into("unused space", [(at, &mut bytes[..])])?;
            let is_stream = match known {
                true => bytes.windows(4).any(begins),
                false => bytes.iter().any(|byte| *byte != 0),
            };
            if is_stream {
                return Ok(doubtful.into_iter().map(|(_, dataset)| dataset.path.clone()).collect());
            }
            at += len;
        }
        at = at.max(next);
    }
    Ok(Vec::new())
}

/// Returns `true` if a stream of gzip or zstd may begin with these bytes.
fn begins(bytes: &[u8]) -> bool {
    match bytes {
        [0x28, 0xb5, 0x2f, 0xfd] => true,
        // A window of 32 KiB, and a check of the first two bytes.
        [0x78, second, ..] => (0x7800 + u16::from(*second)).is_multiple_of(31) && second & 0x20 == 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::begins;

    #[test]
    fn streams_are_known_by_their_first_bytes() {
        for level in [0x01, 0x5e, 0x9c, 0xda] {
            assert!(begins(&[0x78, level, 0, 0]));
        }
        assert!(begins(&[0x28, 0xb5, 0x2f, 0xfd]));
        assert!(!begins(&[0x78, 0, 0, 0]) && !begins(b"TREE") && !begins(&[0; 4]));
    }
}
