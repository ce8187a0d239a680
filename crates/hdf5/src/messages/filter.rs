//! Filter pipelines.
//!
//! Specification IV.A.2.l, "The Data Storage - Filter Pipeline Message", versions 1 and 2.

use crate::error::Built;
use crate::output::{Output, fit};
use crate::text::lossless;
use crate::{Cursor, Libver, Parsed};

/// The message type number.
pub const KIND: u16 = 0x0b;

/// The HDF5 library's limit. Filter masks have 32 bits.
const MOST: u8 = 32;

/// One filter of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Registered number of the filter.
    pub id: u16,
    /// Name of the filter, if stored.
    pub name: Option<String>,
    /// `true` if writers may skip the filter for a chunk.
    pub optional: bool,
    /// Parameters of the filter.
    pub client_data: Vec<u32>,
}

/// Parses the message. Returns filters in the order in which a writer applies them.
pub fn parse(cursor: &mut Cursor<'_>) -> Parsed<Vec<Filter>> {
    let version = cursor.version("filter pipeline message", &[1, 2])?;
    let at = cursor.clone();
    let count = cursor.u8()?;
    if count > MOST {
        return Err(at.corrupt(format!("expected at most {MOST} filters in the pipeline, found {count}")));
    }
    if version == 1 {
        cursor.skip(6)?;
    }
    (0..count).map(|_| Filter::parse(cursor, version)).collect()
}

/// Builds the message.
pub(crate) fn build(filters: &[Filter], libver: Libver) -> Built<Vec<u8>> {
    let is_old = libver == Libver::Earliest;
    let mut out = Output::new();
    out.u8(if is_old { 1 } else { 2 }).u8(fit(filters.len() as u64, "filters")?);
    out.zeros(if is_old { 6 } else { 0 });
    for filter in filters {
        // A name ends with a NUL. Version 2: filters that come with the HDF5 library have no name.
        let name = filter.name.as_deref().filter(|_| is_old || filter.id >= FIRST_OTHER);
        let mut name = name.map_or_else(Vec::new, |name| [name.as_bytes(), &[0]].concat());
        if is_old {
            name.resize(name.len().next_multiple_of(8), 0);
        }
        out.u16(filter.id);
        if is_old || filter.id >= FIRST_OTHER {
            out.u16(fit(name.len() as u64, "bytes of the name of a filter")?);
        }
        out.u16(filter.optional.into());
        out.u16(fit(filter.client_data.len() as u64, "parameters of a filter")?).bytes(&name);
        for number in &filter.client_data {
            out.u32(*number);
        }
        if is_old && filter.client_data.len() % 2 == 1 {
            out.u32(0);
        }
    }
    Ok(out.take())
}

/// Filters with lower numbers come with the HDF5 library.
const FIRST_OTHER: u16 = 256;

impl Filter {
    fn parse(cursor: &mut Cursor<'_>, version: u8) -> Parsed<Filter> {
        let id = cursor.u16()?;
        // Version 2: filters that come with the HDF5 library have no name.
        let name_len = if version == 1 || id >= FIRST_OTHER { usize::from(cursor.u16()?) } else { 0 };
        let optional = cursor.u16()? & 1 != 0;
        let count = cursor.u16()?;
        // Version 1: the name is padded to a multiple of 8. Some writers store the length without
        // the padding.
        let stored = if version == 1 { name_len.next_multiple_of(8) } else { name_len };
        let name = cursor.take(stored)?.split(|byte| *byte == 0).next().unwrap_or_default();
        let name = (!name.is_empty()).then(|| lossless(name));
        let client_data = (0..count).map(|_| cursor.u32()).collect::<Result<_, _>>()?;
        if version == 1 && count % 2 == 1 {
            cursor.skip(4)?;
        }
        Ok(Filter { id, name, optional, client_data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SIZES, needs_all, structure};
    use proptest::prelude::*;

    fn parsed(bytes: &[u8]) -> Parsed<Vec<Filter>> {
        parse(&mut Cursor::whole(bytes, 0, SIZES))
    }

    #[test]
    fn both_versions() {
        let shuffle = Filter { id: 2, name: Some("shuffle".into()), optional: true, client_data: vec![8] };
        let deflate = Filter { id: 1, name: None, optional: false, client_data: vec![4] };
        let lzf = Filter { id: 32000, name: Some("lzf".into()), optional: true, client_data: vec![4, 261] };

        let shuffled = structure!([2, 0, 8, 0, 1, 0, 1, 0], b"shuffle\0\x08\0\0\0\0\0\0\0");
        let lzf_1 = structure!([0, 125, 3, 0, 1, 0, 2, 0], b"lzf\0\0\0\0\0\x04\0\0\0\x05\x01\0\0");
        let one = structure!([1, 2, 0, 0, 0, 0, 0, 0], shuffled, lzf_1);
        assert_eq!(parsed(&one), Ok(vec![shuffle, lzf.clone()]));

        let lzf_2 = structure!([0, 125, 4, 0, 1, 0, 2, 0], b"lzf\0\x04\0\0\0\x05\x01\0\0");
        let two = structure!([2, 2, 1, 0, 0, 0, 1, 0, 4, 0, 0, 0], lzf_2);
        assert_eq!(parsed(&two), Ok(vec![deflate, lzf]));

        for bytes in [one, two] {
            needs_all(&bytes, parsed);
        }
        assert!(parsed(&[2, 33]).is_err());
        assert!(parsed(&[3, 0]).is_err());
    }

    proptest! {
        #[test]
        fn what_is_built_is_parsed(
            filters in proptest::collection::vec(
                (1..60_000_u16, proptest::option::of("[a-z]{1,17}"), any::<bool>(),
                    proptest::collection::vec(any::<u32>(), 0..9)),
                0..=32,
            ),
        ) {
            let filters = filters.into_iter().map(|(id, name, optional, client_data)| Filter { id, name, optional, client_data });
            let filters: Vec<Filter> = filters.collect();
            for libver in [Libver::Earliest, Libver::V110] {
                let built = build(&filters, libver).unwrap();
                let mut cursor = Cursor::whole(&built, 0, SIZES);
                let mut expected = filters.clone();
                if libver == Libver::V110 {
                    // The names of the library's own filters are not stored.
                    expected.iter_mut().filter(|filter| filter.id < 256).for_each(|filter| filter.name = None);
                }
                prop_assert_eq!(parse(&mut cursor), Ok(expected));
                prop_assert!(cursor.is_empty());
            }
        }
    }
}
