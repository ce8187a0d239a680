//! Chunks of less than 1 KB each that the HDF5 library and hdf5plugin's plug-ins stored.
//!
//! They are in `fixtures.txt`.

use super::tests::hex;

/// A stored chunk, and its decoded bytes.
pub(super) struct Fixture {
    pub label: &'static str,
    /// Number and client data of each filter.
    pub filters: Vec<(u16, Vec<u32>)>,
    pub stored: Vec<u8>,
    pub decoded: Vec<u8>,
}

pub(super) fn fixtures() -> Vec<Fixture> {
    include_str!("fixtures.txt").split("\n\n").skip(1).map(Fixture::parse).collect()
}

impl Fixture {
    fn parse(text: &'static str) -> Fixture {
        let mut lines = text.lines();
        let mut line = || lines.next().unwrap();
        let (label, filters, decoded) = (line(), line(), line());
        let filter = |filter: &str| {
            let mut numbers = filter.split_whitespace();
            let id = numbers.next().unwrap().parse().unwrap();
            (id, numbers.map(|number| number.parse().unwrap()).collect())
        };
        Fixture {
            label,
            filters: filters.split(';').map(filter).collect(),
            stored: hex(&lines.collect::<String>()),
            decoded: values(&decoded.split(' ').collect::<Vec<_>>()),
        }
    }
}

/// The decoded bytes of a chunk, given as a NumPy type and the number of elements. If padding is
/// not stored, or values are rounded, the bytes themselves are given.
fn values(words: &[&str]) -> Vec<u8> {
    match *words {
        ["hex", text] => hex(text),
        ["noise", count] => {
            let mut state = 1u32;
            let next = |_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            };
            (0..count.parse::<usize>().unwrap()).map(next).collect()
        }
        [what, dtype, count] => {
            let value = |i: usize| match what {
                "squares" => (i * i % 97) as f64,
                "sparse" if i % 64 == 3 => (i % 100) as f64,
                "sparse" | "zeros" => 0.0,
                "const42" => 42.0,
                "nans" => f64::NAN,
                other => panic!("{other}"),
            };
            (0..count.parse().unwrap()).flat_map(|i| element(dtype, value(i))).collect()
        }
        _ => panic!("{words:?}"),
    }
}

/// A value as an element of a NumPy type.
fn element(dtype: &str, value: f64) -> Vec<u8> {
    let (order, kind) = if dtype.starts_with(['<', '>']) { dtype.split_at(1) } else { ("<", dtype) };
    let mut bytes = match kind {
        "u1" => vec![value as u8],
        "u2" | "i2" => (value as u16).to_le_bytes().to_vec(),
        "u4" | "i4" => (value as u32).to_le_bytes().to_vec(),
        "i8" => (value as u64).to_le_bytes().to_vec(),
        "f4" => (value as f32).to_le_bytes().to_vec(),
        "f8" => value.to_le_bytes().to_vec(),
        other => panic!("{other}"),
    };
    if order == ">" {
        bytes.reverse();
    }
    bytes
}
