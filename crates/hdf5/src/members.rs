//! HDF5 files stored as several files: families, and split or multi files.
//!
//! The drivers are `NCSAfami` and `NCSAmult`. The first member has the superblock and is opened.
//! Its driver information (specification II.B, IV.A.2.u) describes the others. All members become
//! one object of a [`SegmentStore`].
//!
//! * Members of a family follow each other. All have the same size, except the last. The names of
//!   later members have a number in place of the zeros in the first name.
//! * Each member of a multi file has a range of addresses. (In a split file, metadata starts at 0
//!   and raw data at 2⁶³ - 1.) The names of members are stored, with `%s` for their common part.
//!   Bytes between the end of a member and the next address do not exist, and read as zeros.

use crate::superblock::DriverInfo;
use crate::text::lossless;
use crate::{Cursor, FileOptions, FoundFile, Parsed, Purpose, Result, Sizes, Source};
use hyperslab_store::{Key, Segment, SegmentStore};
use std::sync::Arc;

/// Largest number of members of a family.
const MOST: u64 = 1 << 16;

/// Driver information has sizes of 8 bytes in any file.
const SIZES: Sizes = Sizes { offset: 8, length: 8 };

/// Joins all members of the file whose first member is `first`. `None`: it is one file.
pub fn join_members(first: &Source, driver: &DriverInfo, options: &FileOptions) -> Result<Option<Source>> {
    let parts = match driver.id.as_str() {
        "NCSAfami" => family(first, driver, options)?,
        "NCSAmult" => multi(first, driver, options)?,
        _ => return Ok(None),
    };
    let store = Arc::new(SegmentStore::new(first.key(), parts, true));
    let whole = Source::new(store, first.key(), first.base())?;
    Ok(Some(whole.with_format(first.sizes(), first.verify())))
}

fn family(first: &Source, driver: &DriverInfo, options: &FileOptions) -> Result<Vec<Segment>> {
    let parse = |mut cursor: Cursor<'_>| cursor.u64();
    let size = parse(Cursor::whole(&driver.data, 0, SIZES))
        .map_err(|why| first.structure_error("family driver info", 0, why))?;
    if size == 0 {
        return Err(first.invalid("its family driver information says that its members have 0 bytes"));
    }
    let segment = |(store, key): FoundFile, len| Segment { store, key, offset: 0, len };
    let mut members = vec![segment((first.store().clone(), first.key().into()), first.size().min(size))];
    // A full member may have another one after it.
    while members.last().is_some_and(|last| last.len == size) {
        let number = members.len() as u64;
        let name = member_name(last_name(first.key()), number).ok_or_else(|| {
            first.invalid(
                "it is the first member of a family file, but its name has no number 0 (expected a name \
                 such as 'data-00000.h5')",
            )
        })?;
        let Some(found) = options.find(first, &name, Purpose::Member)? else { break };
        if number == MOST {
            return Err(first.invalid(format!("it is a family file of more than {MOST} members")));
        }
        let len = found.0.size(Key::new(&found.1)?)?.unwrap_or_default().min(size);
        members.push(segment(found, len));
    }
    Ok(members)
}

/// Returns the name of a member. The last run of zeros in the first name becomes `number`.
fn member_name(first: &str, number: u64) -> Option<String> {
    let bytes = first.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut end = bytes.len();
    loop {
        end = (1..=end).rev().find(|end| digit(end - 1))?;
        let start = (0..end).rev().find(|at| !digit(*at)).map_or(0, |at| at + 1);
        if bytes.get(start..end)?.iter().all(|byte| *byte == b'0') {
            let width = end - start;
            return Some(format!("{}{number:0width$}{}", first.get(..start)?, first.get(end..)?));
        }
        end = start;
    }
}

/// A member of a multi file: first address, number of bytes, name.
type Member = (u64, u64, String);

/// Parses the members of a multi file. The superblock is in the first.
fn multi_members(cursor: &mut Cursor<'_>) -> Parsed<Vec<Member>> {
    // Each of six kinds of data is in its own member (0), or in the member of the kind with this
    // number.
    let map = cursor.take(6)?.to_vec();
    cursor.skip(2)?;
    let mut kinds: Vec<u8> = Vec::new();
    for (own, kind) in (1..).zip(map) {
        let kind = if kind == 0 { own } else { kind };
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let bounds = kinds.iter().map(|_| Ok((cursor.u64()?, cursor.u64()?))).collect::<Result<Vec<_>, _>>()?;
    let mut members = Vec::new();
    for (start, len) in bounds {
        // The name ends with a NUL and is padded to a multiple of eight bytes.
        let mut name = Vec::new();
        while !name.contains(&0) {
            name.extend(cursor.take(8)?);
        }
        members.push((start, len, lossless(name.split(|byte| *byte == 0).next().unwrap_or_default())));
    }
    Ok(members)
}

/// Returns the members of a split or multi file in the order of their addresses.
fn multi(first: &Source, driver: &DriverInfo, options: &FileOptions) -> Result<Vec<Segment>> {
    let wrong = |why| first.structure_error("multi driver info", 0, why);
    let mut members = multi_members(&mut Cursor::whole(&driver.data, 0, SIZES)).map_err(wrong)?;
    let own = members.first().map(|(_, _, name)| name.clone()).unwrap_or_default();
    let shared = shared_name(last_name(first.key()), &own).ok_or_else(|| {
        first.invalid(format!(
            "it is the first member of a multi file: expected a name like '{own}', with any text in place \
             of '%s'"
        ))
    })?;
    members.sort();
    let nexts = members.iter().skip(1).map(|(start, ..)| Some(*start)).chain([None]).collect::<Vec<_>>();
    let mut segments = Vec::new();
    for ((start, len, name), next) in members.into_iter().zip(nexts) {
        let found = if name == own {
            (first.store().clone(), first.key().to_owned())
        } else {
            let name = name.replacen("%s", shared, 1);
            options
                .find(first, &name, Purpose::Member)?
                .ok_or_else(|| first.invalid(format!("its member file '{name}' does not exist")))?
        };
        if segments.is_empty() && start != 0 {
            return Err(first.invalid(format!(
                "expected its first member file to begin at address 0, found address {start}"
            )));
        }
        let len = next.map_or(len, |next| next.saturating_sub(start));
        segments.push(Segment { store: found.0, key: found.1, offset: 0, len });
    }
    Ok(segments)
}

/// Returns the text that replaces `%s` in `pattern` to make `name`, if any.
fn shared_name<'a>(name: &'a str, pattern: &str) -> Option<&'a str> {
    match pattern.split_once("%s") {
        Some((before, behind)) => name.strip_prefix(before)?.strip_suffix(behind),
        None => Some(name),
    }
}

fn last_name(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{
        Builder, Others, contiguous_message, dataset, elements, fails, hard, link_info, needs_all, structure,
        the_dataset,
    };
    use crate::{File, Hdf5Error, OtherFiles};
    use hyperslab_store::Store;

    /// A file with driver information, and a dataset `d` of six bytes at an address.
    fn example(id: &str, info: &[u8], address: impl FnOnce(&mut Builder) -> u64) -> Vec<u8> {
        let mut builder = Builder::new();
        let driver = structure!([0], id.as_bytes(), info.len() as u16, info);
        builder.extension = builder.header(&[(crate::superblock::DRIVER_INFO_KIND, driver)]);
        let address = address(&mut builder);
        let data = builder.header(&dataset(&[3], contiguous_message(address, 6)));
        let root = builder.header(&[link_info(false), hard("d", data)]);
        builder.finish(root, 2, 0)
    }

    /// Reads the elements of `d` from a file with several members.
    fn values(members: &[(&str, &[u8])], with_others: bool) -> Result<Vec<u8>> {
        let others = Arc::new(Others::default());
        for (name, bytes) in members {
            others.store.write(Key::new(name).unwrap(), &[bytes]).unwrap();
        }
        let store = others.store.clone();
        let others = with_others.then_some(others as Arc<dyn OtherFiles>);
        let file = File::open(store, members[0].0, FileOptions { verify: true, others })?;
        Ok(elements(&*the_dataset(&file, "d")?.layout()?)?)
    }

    #[test]
    fn families() {
        let bytes = example("NCSAfami", &100_u64.to_le_bytes(), |builder| builder.put(&[1, 0, 2, 0, 3, 0]));
        let parts: Vec<(String, &[u8])> =
            bytes.chunks(100).enumerate().map(|(n, part)| (format!("f{n}.h5"), part)).collect();
        let members: Vec<(&str, &[u8])> = parts.iter().map(|(name, part)| (name.as_str(), *part)).collect();
        assert!(members.len() > 2);
        assert_eq!(values(&members, true).unwrap(), [1, 0, 2, 0, 3, 0]);
        assert!(matches!(values(&members, false), Err(Hdf5Error::Refused { .. })));
        fails(values(&members[..members.len() - 1], true), "truncated");
        let renamed = [&[("first.h5", members[0].1)], &members[1..]].concat();
        fails(values(&renamed, true), "its name has no number 0");
        let none = example("NCSAfami", &[0; 8], |_| 0);
        assert!(values(&[("f0", &none)], true).is_err());
    }

    #[test]
    fn split_files() {
        let raw = u64::MAX >> 1;
        let head = structure!([1, 1, 3, 3, 1, 1, 0, 0], 0_u64, 1000_u64, raw, 6_u64);
        let info = structure!(head, b"%s-m.h5\0%s-r.h5\0");
        let bytes = example("NCSAmult", &info, |_| raw);
        let members: [(&str, &[u8]); 2] = [("x-m.h5", &bytes), ("x-r.h5", &[1, 0, 2, 0, 3, 0])];
        assert_eq!(values(&members, true).unwrap(), [1, 0, 2, 0, 3, 0]);
        fails(values(&members[..1], true), "'x-r.h5' does not exist");
        fails(values(&[("x.h5", &bytes), members[1]], true), "expected a name like '%s-m.h5'");
    }

    #[test]
    fn names_of_members() {
        assert_eq!(member_name("fam_00000.h5", 12).unwrap(), "fam_00012.h5");
        assert_eq!(member_name("run00_0.h5", 10).unwrap(), "run00_10.h5");
        assert_eq!(member_name("é0", 1).unwrap(), "é1");
        assert_eq!(member_name("fam_1.h5", 1), None);
        assert_eq!(member_name("100.h5", 1), None);
        assert_eq!(shared_name("x-m.h5", "%s-m.h5"), Some("x"));
        assert_eq!(shared_name("x-r.h5", "%s-m.h5"), None);
        assert_eq!(shared_name("any", "literal"), Some("any"));
    }

    #[test]
    fn split_files_have_two_members() {
        let head = structure!([1, 1, 3, 3, 1, 1, 0, 0], 0_u64, 0x1418_u64, u64::MAX >> 1, 0x7d50_u64);
        let data = structure!(head, b"%s-m.h5\0%s-raw.h5\0\0\0\0\0\0\0");
        let parse = |data: &[u8]| multi_members(&mut Cursor::whole(data, 0, SIZES));
        let members = parse(&data).unwrap();
        let expected = [(0, 0x1418, "%s-m.h5".to_owned()), (u64::MAX >> 1, 0x7d50, "%s-raw.h5".to_owned())];
        assert_eq!(members, expected);
        needs_all(&data, parse);
    }
}
