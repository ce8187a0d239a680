//! One member of an archive: locates and reads its bytes.
//!
//! The directory tells where a member's local header is. The header repeats the name and has its
//! own extra fields before the data, with other lengths than those in the directory. Reading the
//! header first would double the number of requests, so the first read of a member guesses:
//!
//! 1. Assume that the extra fields are longer than those in the directory by the same number of
//!    bytes as for the last member: writers are consistent.
//! 2. Read the header together with the data at the guessed position, in one request.
//! 3. If the header says otherwise, read the data again from the right position.
//!
//! The right position is remembered, and later reads go straight to the data. If members on a
//! server are opened together, their headers and data are announced together. The announcement has
//! some extra bytes on both sides of the data ([`Member::places`]). A wrong guess then takes no
//! further round trip.

use super::archive::{Access, Archive};
use super::bytes::{slice_at, u16_at, u32_at};
use super::directory::Record;
use super::error::ZipError;
use crate::{RangeRead, Stamp};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) const HEADER: usize = 30;
pub(super) const HEADER_NAME: u32 = 0x0403_4b50;

const STORED: u16 = 0;
const DEFLATED: u16 = 8;

/// Flags for encrypted bytes (0, 6, 13) and for patch data (5).
const UNREADABLE: u16 = 1 | 1 << 5 | 1 << 6 | 1 << 13;

/// By how much a local header's extra fields may exceed the guess without another round trip.
/// Writers add about 30 bytes for times and owners, or 20 for zip64.
const SLACK: u64 = 256;

/// Deflate expands a byte to at most 1032 bytes, and a partial byte to at most 258 more.
const MOST_PER_BYTE: u64 = 1032;

/// A member of an archive.
#[derive(Debug)]
pub(super) struct Member {
    /// Offset of its local header in the file.
    pub(super) header: u64,
    /// Offset of its data. 0: not known yet.
    data: AtomicU64,
    /// Stored size in bytes.
    pub(super) stored: u64,
    /// Size of the object in bytes.
    pub(super) size: u64,
    pub(super) crc: u32,
    method: u16,
    flags: u16,
    name_len: u16,
    extra_len: u16,
    /// Set if the member was written but its archive is not complete.
    pub(super) pending: Option<Pending>,
}

/// A member that is not in any directory yet.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    /// The archive under construction.
    pub(super) file: Arc<File>,
    /// Unique among all members ever written by this process.
    pub(super) serial: u64,
}

impl Pending {
    pub(super) fn stamp(&self) -> Stamp {
        Stamp::new([Stamp::IN_ARCHIVE, 0, 0, 0, self.serial, 0, 0])
    }
}

impl Member {
    pub(super) fn of(record: &Record<'_>) -> Self {
        let &Record { flags, method, crc, stored, size, header, name_len, extra_len, .. } = record;
        let data = AtomicU64::new(0);
        Member { header, data, stored, size, crc, method, flags, name_len, extra_len, pending: None }
    }

    /// A stored member that was just written.
    pub(super) fn written(header: u64, data: u64, size: u64, crc: u32, pending: Pending) -> Self {
        Member {
            header,
            data: AtomicU64::new(data),
            stored: size,
            size,
            crc,
            method: STORED,
            flags: 0,
            name_len: 0,
            extra_len: 0,
            pending: Some(pending),
        }
    }

    pub(super) fn is_stored(&self) -> bool {
        self.method == STORED
    }

    /// Fails if the member cannot be read.
    pub(super) fn check(&self) -> Result<(), ZipError> {
        if self.flags & UNREADABLE != 0 {
            return Err(ZipError::Encrypted);
        }
        let damaged = |why| Err(ZipError::Member { offset: self.header, why });
        match self.method {
            STORED if self.stored != self.size => {
                damaged("the directory says two sizes of a member that is not compressed")
            }
            DEFLATED if self.size / MOST_PER_BYTE > self.stored.saturating_add(1) => {
                damaged("its size is more than its compressed bytes can hold")
            }
            STORED | DEFLATED => Ok(()),
            method => Err(ZipError::Method { method }),
        }
    }

    /// Fills ranges of the stored bytes. The caller has checked that they are inside.
    pub(super) fn read_stored(
        &self,
        key: &str,
        access: Option<Access<'_>>,
        ranges: &mut [RangeRead<'_>],
    ) -> Result<(), Failure> {
        if let Some(pending) = &self.pending {
            let data = self.data.load(Ordering::Relaxed);
            for RangeRead { offset, buf } in ranges {
                pending.file.read_exact_at(buf, data.saturating_add(*offset)).map_err(Failure::Io)?;
            }
            return Ok(());
        }
        let Some(access) = access else { return Err(Failure::Zip(ZipError::Changed)) };
        let archive = access.archive;
        let known = self.data.load(Ordering::Relaxed);
        if known != 0 {
            return Ok(access.read(&mut shifted(ranges, known))?);
        }
        let guessed = self.guess(archive);
        let mut header = vec![0; HEADER + usize::from(self.name_len)];
        let mut wanted = vec![RangeRead { offset: self.header, buf: &mut header }];
        if let Some(data) = guessed {
            wanted.append(&mut shifted(ranges, data));
        }
        access.read(&mut wanted)?;
        let right = self.data_behind(key, &header, archive)?;
        self.data.store(right, Ordering::Relaxed);
        archive.learn(self.extra_len, right - self.header - self.front());
        if guessed != Some(right) {
            access.read(&mut shifted(ranges, right))?;
        }
        Ok(())
    }

    /// Length of the local header without its extra fields.
    fn front(&self) -> u64 {
        u64::from(self.name_len) + HEADER as u64
    }

    /// The likely offset of the data. `None` if the data cannot all fit there.
    fn guess(&self, archive: &Archive) -> Option<u64> {
        let data = self.header.saturating_add(self.front() + u64::from(archive.guess(self.extra_len)));
        data.checked_add(self.stored).filter(|end| *end <= archive.end()).map(|_| data)
    }

    /// The ranges of the archive (offset and length) needed to read a range of the member.
    ///
    /// The range must be inside the member. A compressed member is read as a whole.
    pub(super) fn places(&self, archive: &Archive, (offset, len): (u64, u64)) -> Vec<(u64, u64)> {
        let (offset, len) = if self.is_stored() { (offset, len) } else { (0, self.stored) };
        let known = self.data.load(Ordering::Relaxed);
        if known != 0 {
            return vec![(known.saturating_add(offset), len)];
        }
        let mut places = vec![(self.header, self.front())];
        if let Some(data) = self.guess(archive).filter(|_| len > 0) {
            let start = self.header.saturating_add(self.front()).saturating_add(offset);
            let end = data.saturating_add(offset).saturating_add(len).saturating_add(SLACK);
            places.push((start, end.min(archive.end()).saturating_sub(start)));
        }
        places
    }

    /// The offset of the data, from the local header.
    fn data_behind(&self, key: &str, header: &[u8], archive: &Archive) -> Result<u64, ZipError> {
        let fail = |why| ZipError::Member { offset: self.header, why };
        if u32_at(header, 0) != Some(HEADER_NAME) {
            return Err(fail("a local header is expected"));
        }
        let lens = u16_at(header, 26).zip(u16_at(header, 28));
        let (name_len, extra_len) = lens.ok_or_else(|| fail("the local header is cut off"))?;
        // Names in other encodings than the key's have different bytes.
        let same = name_len == self.name_len
            && (usize::from(name_len) != key.len()
                || slice_at(header, HEADER, key.len()) == Some(key.as_bytes()));
        if !same {
            return Err(fail("the local header has another name"));
        }
        let behind = HEADER as u64 + u64::from(name_len) + u64::from(extra_len);
        let data = self.header.checked_add(behind);
        let end = data.and_then(|data| data.checked_add(self.stored));
        match data.zip(end) {
            Some((data, end)) if end <= archive.end() => Ok(data),
            _ => Err(fail("the member reaches into the directory")),
        }
    }

    /// Reads and decodes the whole object, and verifies its checksum.
    ///
    /// The caller has checked the size.
    pub(super) fn read_whole(
        &self,
        key: &str,
        access: Option<Access<'_>>,
        buf: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        buf.clear();
        let size = room(buf, self.size)?;
        if self.is_stored() {
            buf.resize(size, 0);
            self.read_stored(key, access, &mut [RangeRead { offset: 0, buf }])?;
        } else {
            let mut packed = Vec::new();
            let stored = room(&mut packed, self.stored)?;
            packed.resize(stored, 0);
            self.read_stored(key, access, &mut [RangeRead { offset: 0, buf: &mut packed }])?;
            buf.resize(size, 0);
            let written = libdeflater::Decompressor::new().deflate_decompress(&packed, buf);
            if written.ok() != Some(size) {
                let why = "its compressed bytes are invalid, or of another size than the directory says";
                return Err(ZipError::Member { offset: self.header, why }.into());
            }
        }
        let found = libdeflater::crc32(buf);
        if found != self.crc {
            return Err(ZipError::Crc { expected: self.crc, found }.into());
        }
        Ok(())
    }
}

/// Why a member could not be read.
#[derive(Debug)]
pub(super) enum Failure {
    Zip(ZipError),
    Io(io::Error),
    /// An error of the archive's store.
    Store(crate::StoreError),
}

impl From<ZipError> for Failure {
    fn from(error: ZipError) -> Self {
        Failure::Zip(error)
    }
}

impl From<crate::StoreError> for Failure {
    fn from(error: crate::StoreError) -> Self {
        Failure::Store(error)
    }
}

/// Reserves `size` bytes in an empty vector.
fn room(buf: &mut Vec<u8>, size: u64) -> Result<usize, Failure> {
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    buf.try_reserve_exact(size).map_err(|_| Failure::Io(io::ErrorKind::OutOfMemory.into()))?;
    Ok(size)
}

/// The same ranges, with `by` added to the offsets.
fn shifted<'r>(ranges: &'r mut [RangeRead<'_>], by: u64) -> Vec<RangeRead<'r>> {
    let filled = ranges.iter_mut().filter(|range| !range.buf.is_empty());
    // On overflow, past the end of any file: the read reports that.
    filled.map(|range| RangeRead { offset: range.offset.saturating_add(by), buf: &mut *range.buf }).collect()
}
