//! Raw data in other files.
//!
//! Specification IV.A.2.h, "The Data Storage - External Data Files Message".

use crate::error::Built;
use crate::output::{Output, fit};
use crate::{Cursor, Parsed};

pub const KIND: u16 = 0x07;

/// The files that together hold a contiguous dataset's bytes, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalFiles {
    /// Address of the local heap with the file names.
    pub heap: u64,
    /// For each file: offset of its name in the heap, first byte, bytes (`None`: up to its end).
    pub slots: Vec<(u64, u64, Option<u64>)>,
}

impl ExternalFiles {
    pub fn parse(cursor: &mut Cursor<'_>) -> Parsed<ExternalFiles> {
        cursor.version("external data files message", &[1])?;
        // Reserved bytes, then the number of allocated slots.
        cursor.skip(3 + 2)?;
        let count = cursor.u16()?;
        let heap = cursor.defined_address("the names of external files")?;
        let unlimited = u64::MAX >> (64 - 8 * u32::from(cursor.sizes().length.clamp(1, 8)));
        let mut slots = Vec::new();
        for _ in 0..count {
            let (name, offset, len) = (cursor.length()?, cursor.length()?, cursor.length()?);
            slots.push((name, offset, (len != unlimited).then_some(len)));
        }
        Ok(ExternalFiles { heap, slots })
    }
}

/// Builds the message. `slots`: for each file the offset of its name in the heap, its first byte, and
/// its bytes.
pub(crate) fn build(heap: u64, slots: &[(u64, u64, Option<u64>)]) -> Built<Vec<u8>> {
    let count: u16 = fit(slots.len() as u64, "external files")?;
    let mut out = Output::new();
    out.u8(1).zeros(3).u16(count).u16(count).u64(heap);
    for (name, offset, len) in slots {
        out.u64(*name).u64(*offset).u64(len.unwrap_or(u64::MAX));
    }
    Ok(out.take())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sizes;
    use crate::testing::{needs_all, structure};

    #[test]
    fn slots() {
        let bytes = structure!([1, 0, 0, 0, 9, 0, 2, 0], 64u32, 8u32, 5u32, 255u32, 16u32, 0u32, u32::MAX);
        let sizes = Sizes { offset: 4, length: 4 };
        let parse = |bytes: &[u8]| ExternalFiles::parse(&mut Cursor::whole(bytes, 0, sizes));
        let files = parse(&bytes[..]).unwrap();
        assert_eq!(files, ExternalFiles { heap: 64, slots: vec![(8, 5, Some(255)), (16, 0, None)] });
        needs_all(&bytes, parse);
        let built = build(64, &files.slots).unwrap();
        let sizes = Sizes { offset: 8, length: 8 };
        let found = ExternalFiles::parse(&mut Cursor::whole(&built, 0, sizes));
        assert_eq!(found, Ok(files));
    }
}
