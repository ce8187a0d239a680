//! Pictures of numbers as TIFF, without compression.
//!
//! Source: <https://www.itu.int/itudoc/itu-t/com16/tiff-fx/docs/tiff6.pdf>

use hyperslab::{DataType, Kind};

/// Bytes before the elements: the header, and a directory of 11 entries.
const HEAD: u32 = 8 + 2 + 11 * 12 + 4;

/// Encodes little-endian numbers in rows. `None`: TIFF has no such type of numbers, or the file would be too large.
pub(super) fn encode(dtype: DataType, height: u64, width: u64, elements: &[u8]) -> Option<Vec<u8>> {
    let format = match dtype.kind() {
        Kind::UInt | Kind::Bool => 1,
        Kind::Int => 2,
        Kind::Float => 3,
        _ => return None,
    };
    let (height, width) = (u32::try_from(height).ok()?, u32::try_from(width).ok()?);
    let (bits, len) = (u32::try_from(dtype.size() * 8).ok()?, u32::try_from(elements.len()).ok()?);
    // The number of an entry, its type (3: 16 bits, 4: 32 bits), its value.
    let entries: [(u16, u16, u32); 11] = [
        (256, 4, width),
        (257, 4, height),
        (258, 3, bits),
        // No compression.
        (259, 3, 1),
        // 0 is black.
        (262, 3, 1),
        (273, 4, HEAD),
        (277, 3, 1),
        (278, 4, height),
        (279, 4, len),
        (284, 3, 1),
        (339, 3, format),
    ];
    let mut file = b"II*\0\x08\0\0\0".to_vec();
    file.extend(11_u16.to_le_bytes());
    for (number, kind, value) in entries {
        file.extend(number.to_le_bytes());
        file.extend(kind.to_le_bytes());
        file.extend(1_u32.to_le_bytes());
        file.extend(value.to_le_bytes());
    }
    // No other directory.
    file.extend([0; 4]);
    file.extend(elements);
    Some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_elements_follow_the_directory() {
        let file = encode("<u2".parse().unwrap(), 1, 2, &[1, 0, 2, 0]).unwrap();
        assert_eq!(file.len(), HEAD as usize + 4);
        assert_eq!(&file[HEAD as usize..], [1, 0, 2, 0]);
        assert!(encode("<c8".parse().unwrap(), 1, 1, &[0; 8]).is_none());
    }
}
