//! Datatype messages and their meanings, for tests. They are in `vectors.txt`.
//!
//! Most are as HDF5 1.8 to 2.0 write them, with h5py's dtype for each.

/// Returns messages in hexadecimal, one per version, each with its meaning in JSON.
///
/// The JSON is [`Element::to_json`](crate::element::Element::to_json).
pub(crate) fn vectors() -> Vec<(String, &'static str)> {
    let lines = include_str!("vectors.txt").lines().filter(|line| !line.starts_with('#'));
    let parts = lines.map(|line| line.splitn(3, ' ').collect::<Vec<_>>());
    let each = |parts: Vec<&'static str>| {
        let [hex, versions, json] = parts[..] else { panic!("{parts:?}") };
        versions.chars().map(move |version| (hex.replace('v', &version.to_string()), json))
    };
    parts.flat_map(each).collect()
}

/// Types that NumPy cannot represent, and the name of each in the error.
pub(crate) const REFUSED: &[(&str, &str)] = &[
    ("12000000040000002000", "datatype class 'time'"),
    (
        "11207f001000000000008000700f0070ff3f0000",
        "16 bytes with 112 bits of mantissa and 15 bits of exponent",
    ),
    ("100800000900000000004800", "an integer of 72 bits from bit 0 of 9 bytes"),
    ("1901010008000000100000000100000000000800", "8 bytes for strings of variable length (expected 16 bytes"),
    ("1700000004000000", "4 bytes for object references (expected 8 bytes"),
];

/// Returns the bytes of a message.
pub(crate) fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.chars().filter(|digit| !digit.is_whitespace());
    let digits: Vec<u8> = digits.map(|digit| digit.to_digit(16).unwrap() as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}
