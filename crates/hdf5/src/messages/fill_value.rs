//! The value of elements that were never written.
//!
//! Specification IV.A.2.e and f: "The Data Storage - Fill Value (Old) Message" and "Fill Value
//! Message", versions 1 to 3.

use crate::error::Built;
use crate::output::{Output, fit};
use crate::{Cursor, Libver, Parsed};

pub const OLD_KIND: u16 = 0x04;
pub const KIND: u16 = 0x05;

/// When the storage of a dataset is made: with the dataset, with its first element, chunk by chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    Early,
    Late,
    Incremental,
}

/// A fill value as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FillValue {
    /// `true` if the fill value is never written to storage. Absent elements then read as zeros,
    /// too.
    pub never: bool,
    /// One element in the dataset's datatype. `None`: it is zero or undefined.
    pub value: Option<Vec<u8>>,
}

impl FillValue {
    pub fn parse(cursor: &mut Cursor<'_>) -> Parsed<FillValue> {
        let version = cursor.version("fill value message", &[1, 2, 3])?;
        let at = cursor.clone();
        let (time, stored) = if version == 3 {
            let flags = cursor.u8()?;
            (flags >> 2 & 3, flags & 0x20 != 0)
        } else {
            cursor.skip(1)?;
            let time = cursor.u8()?;
            (time, cursor.u8()? != 0)
        };
        // 0: when storage is allocated; 1: never; 2: when storage is allocated, if the user has set
        // a value.
        if time > 2 {
            let why = format!("expected fill value write time 0, 1 or 2, found {time}");
            return Err(at.corrupt(why));
        }
        let value = if stored { sized_bytes(cursor)? } else { None };
        Ok(FillValue { never: time == 1, value })
    }

    /// Builds the message. Storage that exists is filled if the user has set a value, as in h5py.
    pub fn build(&self, allocation: Allocation, libver: Libver) -> Built<Vec<u8>> {
        let allocation: u8 = match allocation {
            Allocation::Early => 1,
            Allocation::Late => 2,
            Allocation::Incremental => 3,
        };
        let time: u8 = if self.never { 1 } else { 2 };
        let mut out = Output::new();
        match (libver, &self.value) {
            (Libver::Earliest, _) => out.u8(2).u8(allocation).u8(time).u8(1),
            (_, None) => out.u8(3).u8(allocation | time << 2),
            (_, Some(_)) => out.u8(3).u8(allocation | time << 2 | 0x20),
        };
        match &self.value {
            Some(value) => drop(out.u32(fit(value.len() as u64, "bytes of the fill value")?).bytes(value)),
            // Defined, and zero.
            None if libver == Libver::Earliest => drop(out.u32(0)),
            None => {}
        }
        Ok(out.take())
    }

    pub fn parse_old(cursor: &mut Cursor<'_>) -> Parsed<FillValue> {
        Ok(FillValue { never: false, value: sized_bytes(cursor)? })
    }
}

/// Reads a length and as many bytes.
fn sized_bytes(cursor: &mut Cursor<'_>) -> Parsed<Option<Vec<u8>>> {
    let len = cursor.u32()?;
    // -1 means undefined (HDF5 1.6). 0 means the default, zero.
    if len == 0 || len == u32::MAX {
        return Ok(None);
    }
    cursor.take_u64(len.into()).map(|bytes| Some(bytes.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::SIZES;
    use proptest::prelude::*;

    fn parsed(bytes: &[u8], old: bool) -> Parsed<(bool, Option<Vec<u8>>)> {
        let parse = if old { FillValue::parse_old } else { FillValue::parse };
        let fill = parse(&mut Cursor::whole(bytes, 0, SIZES))?;
        Ok((fill.never, fill.value))
    }

    #[test]
    fn all_versions_and_policies() {
        assert_eq!(parsed(&[2, 0, 0, 0, 7, 8], true), Ok((false, Some(vec![7, 8]))));
        assert_eq!(parsed(&[0, 0, 0, 0], true), Ok((false, None)));
        assert_eq!(parsed(&[1, 1, 0, 1, 1, 0, 0, 0, 9], false), Ok((false, Some(vec![9]))));
        assert_eq!(parsed(&[1, 1, 2, 1, 0xff, 0xff, 0xff, 0xff], false), Ok((false, None)));
        assert_eq!(parsed(&[2, 1, 1, 1, 1, 0, 0, 0, 9], false), Ok((true, Some(vec![9]))));
        assert_eq!(parsed(&[2, 1, 2, 0], false), Ok((false, None)));
        assert_eq!(parsed(&[3, 0b10_0110, 1, 0, 0, 0, 9], false), Ok((true, Some(vec![9]))));
        assert_eq!(parsed(&[3, 0b01_1010], false), Ok((false, None)));
        assert!(parsed(&[3, 0b01_1110], false).is_err());
        assert!(parsed(&[3, 0b10_0000, 9, 0, 0, 0, 1], false).is_err());
        assert!(parsed(&[4, 0], false).is_err());
    }

    proptest! {
        #[test]
        fn what_is_built_is_parsed(
            never in any::<bool>(),
            value in proptest::option::of(proptest::collection::vec(any::<u8>(), 1..40)),
        ) {
            let fill = FillValue { never, value };
            for libver in [Libver::Earliest, Libver::V110] {
                for allocation in [Allocation::Early, Allocation::Late, Allocation::Incremental] {
                    let built = fill.build(allocation, libver).unwrap();
                    let mut cursor = Cursor::whole(&built, 0, SIZES);
                    prop_assert_eq!(FillValue::parse(&mut cursor), Ok(fill.clone()));
                    prop_assert!(cursor.is_empty());
                }
            }
        }
    }
}
