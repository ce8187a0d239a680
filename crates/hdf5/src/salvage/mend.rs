//! Flags and lengths that a killed writer left wrong: the bytes that put them right.

use super::open::Opened;
use super::walk::Walk;
use crate::checksum::lookup3;
use crate::compact::superblock::FLAGS;
use crate::superblock::{NEW_LEN, Superblock};
use crate::{Result, Source};

/// Bytes of a file to replace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Offset in the file.
    pub offset: u64,
    /// The bytes that are there.
    pub old: Vec<u8>,
    /// The bytes that belong there.
    pub new: Vec<u8>,
    /// The reason, in words.
    pub why: String,
}

/// Changes that put a file right in place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mend {
    /// Bytes to replace.
    pub patches: Vec<Patch>,
    /// The length of the file, before and after, and the reason.
    pub length: Option<(u64, u64, String)>,
}

impl Mend {
    /// Returns `true` if nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.patches.is_empty() && self.length.is_none()
    }
}

pub(super) fn of(opened: &Opened, walk: &Walk) -> Result<Mend> {
    let (source, superblock) = (opened.file.source(), &opened.file.inner.superblock);
    let mut mend = Mend::default();
    if !opened.has_superblock {
        return Ok(mend);
    }
    let mut why = Vec::new();
    if opened.is_marked {
        why.push("the file is marked as open for writing".to_owned());
    }
    let mut end = superblock.end;
    if let Some(expected) = superblock.end_from(source.base()) {
        let size = source.size();
        if expected > size {
            let why = format!("the superblock says {expected} bytes, the file has {size}");
            mend.length = Some((size, expected, why));
        } else if expected < size && !opened.is_ours {
            let expected = expected.saturating_sub(source.base());
            let beyond = furthest(opened, walk);
            if beyond > expected {
                why.push(format!(
                    "its structures reach to address {beyond}, but the superblock ends the file at {expected}"
                ));
                // The end counts from the base that the superblock names.
                end = Some(source.end().saturating_add(superblock.base));
            }
        }
    }
    if !why.is_empty() {
        mend.patches.push(patch(source, superblock, end, why.join("; "))?);
    }
    Ok(mend)
}

/// The end of everything that was found.
fn furthest(opened: &Opened, walk: &Walk) -> u64 {
    let structures = opened.losses.structures();
    walk.all_extents(&structures).iter().map(|extent| extent.end).max().unwrap_or(0)
}

/// The superblock with flags of a closed file, and with this end.
fn patch(source: &Source, superblock: &Superblock, end: Option<u64>, why: String) -> Result<Patch> {
    if (superblock.sizes.offset, superblock.sizes.length) != (8, 8) {
        return Err(source.unsupported("putting a file with short addresses right".into()));
    }
    let mut old = vec![0; NEW_LEN];
    source.read_into("superblock", [(0, &mut old[..])])?;
    let mut new = old.clone();
    let end = end.unwrap_or(u64::MAX).to_le_bytes();
    let mut put = |at: usize, bytes: &[u8]| {
        if let Some(place) = new.get_mut(at..at.saturating_add(bytes.len())) {
            place.copy_from_slice(bytes);
        }
    };
    match old.get(8) {
        Some(0) => put(40, &end),
        Some(1) => put(44, &end),
        _ => {
            put(FLAGS, &[0]);
            put(28, &end);
            let checksum = lookup3(new.get(..NEW_LEN - 4).unwrap_or_default());
            if let Some(place) = new.get_mut(NEW_LEN - 4..) {
                place.copy_from_slice(&checksum.to_le_bytes());
            }
        }
    }
    Ok(Patch { offset: source.base(), old, new, why })
}
