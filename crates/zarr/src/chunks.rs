//! Default shapes of chunks and shards.

use hyperslab_array::Dims;

/// Scale of chunk sizes: 256 KiB for an array of 1 MiB, doubled with every factor of ten.
const STEP: f64 = 256.0 * 1024.0;
const SMALLEST: f64 = 128.0 * 1024.0;
/// The most bytes of a chunk that is an object.
pub(crate) const LARGEST: u64 = 64 << 20;
/// The most bytes of a chunk in a shard.
pub(crate) const LARGEST_IN_SHARD: u64 = 1 << 20;
/// The most bytes of a shard, in memory.
const SHARD_BYTES: u64 = 64 << 20;
/// The most chunks of a shard. Reading the first chunk requires reading the index of all.
const SHARD_CHUNKS: u64 = 4096;

/// The chunk shape that zarr-python 3 guesses (h5py's and PyTables' rule).
///
/// It starts with the whole array and halves the axes in turn until the size is within half of the
/// target, and below `largest` bytes. An axis without elements gets chunks of one.
pub(crate) fn guess(shape: &[u64], element: usize, largest: u64) -> Dims {
    let largest = largest as f64;
    let mut chunk: Vec<f64> = shape.iter().map(|n| (*n).max(1) as f64).collect();
    let size = |chunk: &[f64]| chunk.iter().product::<f64>() * element as f64;
    let target = (STEP * (size(&chunk) / (1024.0 * 1024.0)).log10().exp2()).clamp(SMALLEST, largest);
    let rank = chunk.len();
    // 64 halvings reduce any axis to one.
    for axis in (0..rank).cycle().take(64 * rank) {
        let bytes = size(&chunk);
        let near = bytes < target || (bytes - target).abs() / target < 0.5;
        if (near && bytes < largest) || chunk.iter().all(|n| *n == 1.0) {
            break;
        }
        if let Some(n) = chunk.get_mut(axis) {
            *n = (*n / 2.0).ceil();
        }
    }
    #[expect(clippy::cast_possible_truncation, reason = "whole numbers, at most the extents they began as")]
    chunk.iter().map(|n| *n as u64).collect()
}

/// Chunks that divide a shard evenly, about as large as [`guess`] would make them.
pub(crate) fn guess_in_shard(shard: &[u64], element: usize) -> Dims {
    let wanted = guess(shard, element, LARGEST_IN_SHARD);
    shard.iter().zip(&wanted).map(|(shard, wanted)| near_divisor(*shard, *wanted)).collect()
}

/// The divisor of `n` that is nearest to `wanted`, as a factor.
fn near_divisor(n: u64, wanted: u64) -> u64 {
    // Only some divisors of larger numbers are found, but always `n` and one.
    const TRIED: u64 = 1 << 16;
    let (mut below, mut above) = (1, n.max(1));
    for small in (1..=TRIED).take_while(|small| small.checked_mul(*small).is_some_and(|square| square <= n)) {
        if n.is_multiple_of(small) {
            for divisor in [small, n / small] {
                if divisor <= wanted {
                    below = below.max(divisor);
                } else {
                    above = above.min(divisor);
                }
            }
        }
    }
    if above as f64 / (wanted as f64) < wanted as f64 / below as f64 { above } else { below }
}

/// Shards of whole chunks.
///
/// The axis with the fewest chunks in a shard gets twice as many, again and again, until a shard
/// has the whole array or enough bytes.
pub(crate) fn guess_shards(shape: &[u64], chunk: &[u64], element: usize) -> Dims {
    let mut counts: Vec<u64> = vec![1; chunk.len()];
    let chunk_bytes = chunk.iter().fold(element as u64, |bytes, n| bytes.saturating_mul(*n));
    loop {
        let all: u64 = counts.iter().product();
        let twice = all * 2;
        if twice > SHARD_CHUNKS || twice.saturating_mul(chunk_bytes) > SHARD_BYTES {
            break;
        }
        let axes = counts.iter_mut().zip(chunk.iter().zip(shape));
        let open = axes.filter(|(count, (chunk, n))| chunk.saturating_mul(**count) < **n);
        match open.min_by_key(|(count, _)| **count) {
            Some((count, _)) => *count *= 2,
            None => break,
        }
    }
    counts.iter().zip(chunk).map(|(count, chunk)| count.saturating_mul(*chunk)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Choices of zarr-python 3.4.
    #[test]
    fn as_zarr_python() {
        for (shape, element, chunk) in CASES {
            assert_eq!(guess(shape, *element, LARGEST).as_slice(), *chunk, "{shape:?} {element}");
        }
        let huge = guess(&[i64::MAX as u64; 64], 16, LARGEST);
        assert!(huge.iter().all(|n| *n >= 1) && huge.iter().product::<u64>() <= 4 << 20);
    }

    #[test]
    fn chunks_divide_their_shard() {
        for (shard, element, chunk) in [
            (&[256u64, 256, 256][..], 4usize, &[32u64, 64, 64][..]),
            (&[64, 86400], 8, &[8, 10800]),
            (&[86413], 8, &[86413]),
            (&[1 << 40], 8, &[1 << 16]),
            (&[7, 1], 1, &[7, 1]),
            (&[], 8, &[]),
        ] {
            let found = guess_in_shard(shard, element);
            assert!(shard.iter().zip(&found).all(|(shard, chunk)| shard % chunk == 0), "{found:?}");
            assert_eq!(found.as_slice(), chunk, "{shard:?}");
        }
        assert_eq!([near_divisor(100, 9), near_divisor(97, 50), near_divisor(97, 3)], [10, 97, 1]);
    }

    #[test]
    fn shards_of_many_chunks() {
        for (shape, chunk, element, shards) in [
            (&[4u64, 128 * 86400][..], &[1u64, 86400][..], 8usize, &[4u64, 16 * 86400][..]),
            (&[256, 512, 512], &[32, 32, 32], 4, &[256, 256, 256]),
            (&[10, 10], &[10, 10], 8, &[10, 10]),
            (&[1 << 60], &[1], 1, &[4096]),
            (&[0, 5], &[1, 2], 4, &[1, 8]),
            (&[100], &[1 << 40], 8, &[1 << 40]),
            (&[], &[], 8, &[]),
        ] {
            assert_eq!(guess_shards(shape, chunk, element).as_slice(), shards, "{shape:?} {chunk:?}");
        }
    }

    const CASES: &[(&[u64], usize, &[u64])] = &[
        (&[], 4, &[]),
        (&[0, 3], 4, &[1, 3]),
        (&[100], 8, &[100]),
        (&[1000000], 8, &[62500]),
        (&[1000, 1000], 4, &[250, 500]),
        (&[365, 720, 1440], 4, &[46, 90, 180]),
        (&[1000000000], 1, &[1953125]),
        (&[10, 10000000], 2, &[1, 625000]),
        (&[1], 134217728, &[1]),
        (&[5, 5], 33554432, &[1, 1]),
        (&[1000000000000, 7, 3], 16, &[3814698, 1, 1]),
        (&[50, 24, 721, 1440], 4, &[7, 3, 91, 360]),
        (&[3, 100000, 0, 10000], 8, &[1, 3125, 1, 313]),
        (&[1000, 99999], 1, &[63, 12500]),
        (&[1, 365, 99999], 8, &[1, 23, 6250]),
        (&[4096, 365, 99999, 7], 1, &[128, 23, 6250, 1]),
        (&[1, 99999, 365, 365], 16, &[1, 3125, 12, 23]),
        (&[4096], 8, &[4096]),
        (&[4096, 99999, 7], 16, &[128, 3125, 1]),
        (&[100], 1, &[100]),
        (&[1], 12, &[1]),
        (&[1, 365, 4096, 7, 365], 12, &[1, 23, 512, 1, 46]),
        (&[1000], 2, &[1000]),
        (&[365, 1000, 7, 100], 2, &[92, 250, 2, 25]),
        (&[99999, 365], 4, &[6250, 46]),
    ];
}
