//! The hash behind lock numbers.

/// The hash of an empty input.
pub(crate) const EMPTY: u64 = 0xcbf2_9ce4_8422_2325;

/// Continues a 64-bit FNV-1a hash.
///
/// Hashing two pieces one after the other equals hashing them joined. Lock numbers need that: a
/// root and a key must hash like a longer root and a shorter key. The standard hashers do not
/// promise it.
pub(crate) fn fnv1a(state: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(state, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::{EMPTY, fnv1a};

    /// Values from the FNV reference vectors (draft-eastlake-fnv).
    #[test]
    fn reference_vectors() {
        assert_eq!(fnv1a(EMPTY, b""), 0xcbf29ce484222325);
        assert_eq!(fnv1a(EMPTY, b"a"), 0xaf63dc4c8601ec8c);
        assert_eq!(fnv1a(EMPTY, b"foobar"), 0x85944171f73967e8);
        assert_eq!(fnv1a(fnv1a(EMPTY, b"foo"), b"bar"), 0x85944171f73967e8);
    }
}
