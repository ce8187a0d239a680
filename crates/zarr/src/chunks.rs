//! A chunk shape where none is given.

use hyperslab_array::Dims;

/// Chunk sizes grow with the array by this step: 256 KiB for an array of 1 MiB, doubled with every factor of ten.
const STEP: f64 = 256.0 * 1024.0;
const SMALLEST: f64 = 128.0 * 1024.0;
const LARGEST: f64 = 64.0 * 1024.0 * 1024.0;

/// The chunk shape that zarr-python 3 guesses (h5py's and PyTables' rule): all of the array, halved axis by axis in turn until
/// the size is within half of the target. An axis without elements gets chunks of one.
pub(crate) fn guess(shape: &[u64], element: usize) -> Dims {
    let mut chunk: Vec<f64> = shape.iter().map(|n| (*n).max(1) as f64).collect();
    let size = |chunk: &[f64]| chunk.iter().product::<f64>() * element as f64;
    let target = (STEP * (size(&chunk) / (1024.0 * 1024.0)).log10().exp2()).clamp(SMALLEST, LARGEST);
    let rank = chunk.len();
    // 64 halvings bring any axis to one.
    for axis in (0..rank).cycle().take(64 * rank) {
        let bytes = size(&chunk);
        let near = bytes < target || (bytes - target).abs() / target < 0.5;
        if (near && bytes < LARGEST) || chunk.iter().all(|n| *n == 1.0) {
            break;
        }
        if let Some(n) = chunk.get_mut(axis) {
            *n = (*n / 2.0).ceil();
        }
    }
    chunk.iter().map(|n| *n as u64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What zarr-python 3.4 chooses.
    #[test]
    fn as_zarr_python() {
        for (shape, element, chunk) in CASES {
            assert_eq!(guess(shape, *element).as_slice(), *chunk, "{shape:?} {element}");
        }
        let huge = guess(&[i64::MAX as u64; 64], 16);
        assert!(huge.iter().all(|n| *n >= 1) && huge.iter().product::<u64>() <= 4 << 20);
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
