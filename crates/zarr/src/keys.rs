//! Keys of chunks: indices ⇄ the names of objects.
//!
//! | encoding | array `a`, chunk (1, 20) | 0-dimensional |
//! |---|---|---|
//! | v3 default, `/` | `a/c/1/20` | `a/c` |
//! | v3 default, `.` | `a/c.1.20` | `a/c` |
//! | v2, `.` | `a/1.20` | `a/0` |
//! | v2, `/` | `a/1/20` | `a/0` |

use hyperslab_array::{ChunkList, ChunkLocator, Dims, Found, LocateError, Location};

/// How the indices of a chunk become its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyEncoding {
    /// v3's `default`: a `c`, then the indices.
    Default {
        /// `/` or `.`
        separator: char,
    },
    /// `v2`, the one of v2 arrays: the indices only.
    V2 {
        /// `.` or `/`
        separator: char,
    },
}

impl KeyEncoding {
    /// The separator.
    pub fn separator(self) -> char {
        match self {
            KeyEncoding::Default { separator } | KeyEncoding::V2 { separator } => separator,
        }
    }

    /// Appends the key of a chunk, relative to the array. Allocates nothing but room in `key`.
    pub fn write(self, chunk: &[u64], key: &mut String) {
        match self {
            KeyEncoding::Default { separator } => {
                key.push('c');
                for index in chunk {
                    key.push(separator);
                    push_decimal(*index, key);
                }
            }
            KeyEncoding::V2 { .. } if chunk.is_empty() => key.push('0'),
            KeyEncoding::V2 { separator } => {
                for (axis, index) in chunk.iter().enumerate() {
                    if axis > 0 {
                        key.push(separator);
                    }
                    push_decimal(*index, key);
                }
            }
        }
    }

    /// The chunk of a key relative to the array, which has `rank` axes; `None` where it is no
    /// chunk's.
    pub fn parse(self, key: &str, rank: usize) -> Option<Dims> {
        let indices = match self {
            KeyEncoding::Default { .. } if rank == 0 => return (key == "c").then(Dims::new),
            KeyEncoding::V2 { .. } if rank == 0 => return (key == "0").then(Dims::new),
            KeyEncoding::Default { separator } => key.strip_prefix('c')?.strip_prefix(separator)?,
            KeyEncoding::V2 { .. } => key,
        };
        let mut chunk = Dims::new();
        for index in indices.split(self.separator()) {
            // No other spelling of the number is this chunk's key.
            let canonical =
                index == "0" || (!index.starts_with('0') && index.bytes().all(|b| b.is_ascii_digit()));
            if !canonical || chunk.len() == rank {
                return None;
            }
            chunk.push(index.parse().ok()?);
        }
        (chunk.len() == rank).then_some(chunk)
    }
}

fn push_decimal(number: u64, text: &mut String) {
    let mut digits = [0u8; 20];
    let mut rest = number;
    let mut first = digits.len();
    for (at, digit) in digits.iter_mut().enumerate().rev() {
        *digit = b'0' + (rest % 10) as u8;
        first = at;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    let digits = digits.get(first..).and_then(|digits| std::str::from_utf8(digits).ok());
    text.push_str(digits.unwrap_or_default());
}

/// Finds the chunks of a Zarr array: each is an object of its own.
#[derive(Debug)]
pub(crate) struct ChunkKeys {
    /// The array's path and a slash; empty for the root.
    prefix: String,
    /// What all chunks lie below.
    folder: String,
    encoding: KeyEncoding,
}

impl ChunkKeys {
    pub(crate) fn new(path: &str, encoding: KeyEncoding) -> Self {
        let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
        let folder = match encoding {
            KeyEncoding::Default { separator: '/' } => format!("{prefix}c"),
            _ => path.to_owned(),
        };
        ChunkKeys { prefix, folder, encoding }
    }
}

impl ChunkLocator for ChunkKeys {
    fn locate(&self, wanted: ChunkList<'_>, found: &mut Found) -> Result<(), LocateError> {
        for chunk in wanted.iter() {
            found.object(|key| {
                key.push_str(&self.prefix);
                self.encoding.write(chunk, key);
            });
            found.chunk(Location::Object);
        }
        Ok(())
    }

    /// A chunk of an array without axes is no directory, so nothing is found below it; but one
    /// chunk is not looked for that way.
    fn folder(&self) -> Option<&str> {
        Some(&self.folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ENCODINGS: [KeyEncoding; 4] = [
        KeyEncoding::Default { separator: '/' },
        KeyEncoding::Default { separator: '.' },
        KeyEncoding::V2 { separator: '.' },
        KeyEncoding::V2 { separator: '/' },
    ];

    fn key(encoding: KeyEncoding, chunk: &[u64]) -> String {
        let mut key = String::new();
        encoding.write(chunk, &mut key);
        key
    }

    #[test]
    fn known_keys() {
        for (encoding, keys) in ENCODINGS.into_iter().zip([
            ["c", "c/7", "c/1/20", "c/18446744073709551615/0"],
            ["c", "c.7", "c.1.20", "c.18446744073709551615.0"],
            ["0", "7", "1.20", "18446744073709551615.0"],
            ["0", "7", "1/20", "18446744073709551615/0"],
        ]) {
            for (chunk, expected) in [&[][..], &[7], &[1, 20], &[u64::MAX, 0]].into_iter().zip(keys) {
                assert_eq!(key(encoding, chunk), expected);
            }
        }
        let mut found = Found::default();
        ChunkKeys::new("a/b", ENCODINGS[0]).locate(ChunkList::one(&[3]), &mut found).unwrap();
        ChunkKeys::new("", ENCODINGS[2]).locate(ChunkList::one(&[3, 4]), &mut found).unwrap();
        assert_eq!(found.get(0), Some(("a/b/c/3", Location::Object)));
        assert_eq!(found.get(1), Some(("3.4", Location::Object)));
    }

    #[test]
    fn other_objects_are_no_chunks() {
        for encoding in ENCODINGS {
            // The first is empty.
            for other in " zarr.json .zarray c c/ c/1 1 1. 1/ c.01.2 01.2 1.2.3 1/2/3 c/1/2/3 +1.2 1.-2 d/1/2 1.18446744073709551616 c/1.2 c.1/2".split(' ') {
                assert_eq!(encoding.parse(other, 2), None, "{encoding:?} {other}");
            }
        }
    }

    proptest! {
        #[test]
        fn round_trip(chunk in proptest::collection::vec(any::<u64>(), 0..5), which in 0..4usize) {
            let key = key(ENCODINGS[which], &chunk);
            prop_assert_eq!(ENCODINGS[which].parse(&key, chunk.len()).map(|c| c.to_vec()), Some(chunk));
        }
    }
}
