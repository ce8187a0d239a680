//! Computes the decoded size of the pages of a Parquet column.
//!
//! The `parquet` crate allocates as many bytes as a page header states, and space for as many
//! values as a dictionary header states. If there is too little memory for a wrong number, the
//! process aborts. Therefore this module checks the headers first. They are structures in Thrift's
//! compact protocol:
//! <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>.

/// Deepest nesting of structures. A page header has three levels.
const DEEPEST: usize = 8;

/// DELTA_LENGTH_BYTE_ARRAY and DELTA_BYTE_ARRAY.
/// Their pages state the number of texts themselves, and one byte can represent a long text.
const DELTA_TEXTS: [i64; 2] = [6, 7];

/// The decoded bytes of all pages.
/// Fails (with text) if a header is damaged, if a dictionary claims more values than bytes, and for
/// texts in an encoding without a bound.
pub(super) fn decoded_len(column: &[u8]) -> Result<u64, &'static str> {
    let (mut bytes, mut total) = (column, 0u64);
    while !bytes.is_empty() {
        let (header, rest) = Header::read(bytes).ok_or("the header of a page is damaged")?;
        if header.encoding.is_some_and(|encoding| DELTA_TEXTS.contains(&encoding)) {
            return Err(
                "texts as differences (DELTA_BYTE_ARRAY) are not supported: write them plain, or with a dictionary",
            );
        }
        total = total.saturating_add(header.decoded);
        bytes = rest;
    }
    Ok(total)
}

/// The header of a page.
struct Header {
    /// Decoded bytes of the page.
    decoded: u64,
    /// The encoding of its values.
    encoding: Option<i64>,
}

impl Header {
    /// Reads a header. Also returns the bytes after its page.
    fn read(bytes: &[u8]) -> Option<(Header, &[u8])> {
        let mut found = Numbers::default();
        let mut reader = Reader { bytes };
        reader.structure(0, 0, &mut found)?;
        let decoded = u64::try_from(found.decoded?).ok()?;
        let values = u64::try_from(found.dictionary.unwrap_or(0)).ok()?;
        let rest = reader.bytes.get(usize::try_from(found.stored?).ok()?..)?;
        (values <= decoded).then_some((Header { decoded, encoding: found.encoding }, rest))
    }
}

/// Numbers in the header of a page.
#[derive(Default)]
struct Numbers {
    decoded: Option<i64>,
    /// Bytes after the header.
    stored: Option<i64>,
    /// Number of values in a dictionary.
    dictionary: Option<i64>,
    encoding: Option<i64>,
}

struct Reader<'a> {
    bytes: &'a [u8],
}

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    fn skip(&mut self, len: u64) -> Option<()> {
        self.bytes = self.bytes.get(usize::try_from(len).ok()?..)?;
        Some(())
    }

    /// Reads a number in groups of seven bits, lowest first.
    fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        let number = self.varint()?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// Reads a structure at this depth, which is the field `parent` of another structure.
    fn structure(&mut self, parent: i64, depth: usize, found: &mut Numbers) -> Option<()> {
        let mut field = 0;
        loop {
            let start = self.byte()?;
            if start == 0 {
                return Some(());
            }
            field = match start >> 4 {
                0 => self.signed()?,
                step => i64::checked_add(field, step.into())?,
            };
            let kind = start & 15;
            let place = match (depth, parent, field) {
                (0, _, 2) => &mut found.decoded,
                (0, _, 3) => &mut found.stored,
                (1, 7, 1) => &mut found.dictionary,
                // The encoding in a page header, a dictionary header, and a page header of version
                // 2.
                (1, 5, 2) | (1, 7, 2) | (1, 8, 4) => &mut found.encoding,
                _ => {
                    self.value(kind, field, depth, found)?;
                    continue;
                }
            };
            if kind != 5 || place.replace(self.signed()?).is_some() {
                return None;
            }
        }
    }

    /// Skips a value, but collects for `found` in structures. A boolean field has no bytes.
    fn value(&mut self, kind: u8, field: i64, depth: usize, found: &mut Numbers) -> Option<()> {
        match kind {
            1 | 2 => Some(()),
            3 => self.skip(1),
            4..=6 => self.varint().map(|_| ()),
            7 => self.skip(8),
            8 => {
                let len = self.varint()?;
                self.skip(len)
            }
            12 if depth < DEEPEST => self.structure(field, depth + 1, found),
            9 | 10 if depth < DEEPEST => {
                let start = self.byte()?;
                let count = if start >> 4 == 15 { self.varint()? } else { u64::from(start >> 4) };
                for _ in 0..count {
                    match start & 15 {
                        1 | 2 => self.skip(1)?,
                        kind => self.value(kind, -1, depth + 1, found)?,
                    }
                }
                Some(())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::decoded_len;

    /// A data page: a header that claims 300 bytes, and `stored` bytes.
    fn page(stored: u8) -> Vec<u8> {
        let mut page = vec![0x15, 0, 0x15, 0xd8, 0x04, 0x15, stored * 2];
        // A nested header with statistics: a text, a boolean, a list of numbers, and one of
        // booleans.
        page.extend([
            0x2c, 0x15, 20, 0x15, 16, 0x3c, 0x18, 2, b'a', b'b', 0x11, 0x19, 0x25, 2, 4, 0x19, 0x21, 1, 2, 0,
            0, 0,
        ]);
        page.resize(page.len() + usize::from(stored), 7);
        page
    }

    /// A dictionary page with `values` values in 40 bytes, all stored.
    fn dictionary(values: u8) -> Vec<u8> {
        let mut page = vec![0x15, 4, 0x15, 80, 0x15, 80, 0x4c, 0x15, values * 2, 0x15, 0, 0, 0];
        page.resize(page.len() + 40, 7);
        page
    }

    #[test]
    fn sizes_of_pages() {
        assert_eq!(decoded_len(&[]), Ok(0));
        assert_eq!(decoded_len(&[page(5), page(0)].concat()), Ok(600));
        assert_eq!(decoded_len(&[dictionary(40), page(5)].concat()), Ok(340));
        // A page of 2 GB.
        let large = [0x15, 0, 0x15, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0x15, 0, 0];
        assert_eq!(decoded_len(&large), Ok(i32::MAX as u64));
    }

    #[test]
    fn damaged_headers() {
        assert!(decoded_len(&dictionary(41)).is_err());
        let mut delta = page(5);
        delta[11] = 14;
        assert!(decoded_len(&delta).unwrap_err().contains("DELTA_BYTE_ARRAY"));
        let whole = page(5);
        for end in 1..whole.len() {
            assert!(decoded_len(&whole[..end]).is_err(), "{end}");
        }
        for bad in [
            // A negative size; a repeated size; text as a size; no sizes.
            &[0x15, 0, 0x15, 1, 0x15, 0, 0][..],
            &[0x15, 0, 0x15, 2, 0x15, 0, 0x05, 6, 0, 0],
            &[0x15, 0, 0x18, 0, 0x15, 0, 0],
            &[0],
            // Endless structures; an endless number.
            &[0x9c; 60],
            &[0xff; 60],
        ] {
            assert!(decoded_len(bad).is_err(), "{bad:?}");
        }
    }
}
