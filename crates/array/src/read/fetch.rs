//! Fetches the stored bytes of chunks from the store, and decodes whole chunks.

use crate::error::ArrayError;
use crate::execute::scratch::{Scratch, resize_slot};
use crate::execute::tasks;
use crate::execute::tasks::{codec_error, memory_error, store_error};
use crate::layout::ArrayLayout;
use crate::layout::locate::Location;
use crate::plan::task::{Task, reach};
use hyperslab_codec::CodecError;
use hyperslab_store::{Lent, Opened, RangeRead, Stamp, StoreError};

/// The stored bytes of a chunk, before they are read.
#[derive(Clone, Copy)]
pub(crate) struct Stored<'s> {
    pub(crate) location: Location,
    /// Its object, if it is open.
    pub(crate) opened: Option<&'s dyn Opened>,
}

/// Opens the object of a chunk, for several reads of the same contents.
///
/// `None`: the chunk does not exist.
pub(crate) fn open<'l>(
    layout: &'l ArrayLayout,
    task: &Task,
    key: &str,
    location: Location,
) -> Result<Option<Box<dyn Opened + 'l>>, ArrayError> {
    let size = match location {
        Location::Absent => return Ok(None),
        Location::Object if layout.encoding().chain().stores_decoded() => {
            Some(layout.encoding().decoded_size() as u64)
        }
        _ => None,
    };
    let checked = tasks::key(layout, task, key)?;
    let opened = layout.store().open(checked, size).map_err(|source| store_error(layout, task, source))?;
    if let Location::Range { .. } = location {
        found_or_missing(layout, task, key, opened.is_some())?;
    }
    Ok(opened)
}

/// Fails if an open object has another size than its chunk.
///
/// Without codecs, all chunks have one size.
pub(crate) fn check_size(
    layout: &ArrayLayout,
    task: &Task,
    key: &str,
    location: Location,
    opened: &dyn Opened,
) -> Result<(), ArrayError> {
    let (expected, found) = (layout.encoding().decoded_size() as u64, opened.size());
    if location != Location::Object || !layout.encoding().chain().stores_decoded() || found == expected {
        return Ok(());
    }
    let (key, url) = (key.to_owned(), layout.store().url());
    Err(store_error(layout, task, StoreError::WrongSize { key, url, expected, found }))
}

/// Reads ranges of a chunk without codecs. Returns `true` if the chunk exists.
///
/// Offsets count from the start of the chunk. Fails if the object has another size than a chunk,
/// because its elements would be the wrong ones.
pub(crate) fn ranges_of(
    layout: &ArrayLayout,
    stored: Stored<'_>,
    task: &Task,
    key: &str,
    ranges: &mut [RangeRead<'_>],
) -> Result<bool, ArrayError> {
    let size = layout.encoding().decoded_size();
    let fail = |source| store_error(layout, task, source);
    let checked = tasks::key(layout, task, key)?;
    match stored.location {
        Location::Absent => Ok(false),
        Location::Object => match (stored.opened, &mut *ranges) {
            (Some(opened), _) => opened.read_ranges(ranges).map(|()| true),
            (None, [RangeRead { offset: 0, buf }]) if buf.len() == size => {
                layout.store().read_exact(checked, buf)
            }
            (None, _) => layout.store().read_ranges(checked, Some(size as u64), ranges),
        }
        .map_err(fail),
        Location::Range { offset, len, .. } => {
            let short = layout.encoding().ends_early() && len < size as u64;
            let end = |range: &RangeRead<'_>| range.offset.saturating_add(range.buf.len() as u64);
            if len != size as u64 && !(short && ranges.iter().all(|range| end(range) <= len)) {
                let url = layout.store().url();
                return Err(fail(StoreError::WrongSize {
                    key: key.into(),
                    url,
                    expected: size as u64,
                    found: len,
                }));
            }
            for range in ranges.iter_mut() {
                range.offset = range.offset.saturating_add(offset);
            }
            let found = match stored.opened {
                Some(opened) => opened.read_ranges(ranges).map(|()| true),
                None => layout.store().read_ranges(checked, None, ranges),
            };
            found_or_missing(layout, task, key, found.map_err(fail)?)
        }
    }
}

/// Fails if an object is missing although an index names a range of it.
///
/// The index vouches for the object, so the chunk is not fill value.
fn found_or_missing(layout: &ArrayLayout, task: &Task, key: &str, found: bool) -> Result<bool, ArrayError> {
    if found {
        return Ok(true);
    }
    let source = StoreError::Io {
        operation: hyperslab_store::Operation::Read,
        key: key.into(),
        url: layout.store().url(),
        source: std::io::ErrorKind::NotFound.into(),
    };
    Err(store_error(layout, task, source))
}

/// Reads the stored bytes of a chunk that is a whole object into `scratch.encoded`.
///
/// Returns `true` if the chunk exists.
pub(crate) fn fetch(layout: &ArrayLayout, scratch: &mut Scratch) -> Result<bool, ArrayError> {
    let stored = Stored { location: Location::Object, opened: None };
    Ok(fetch_stamped(layout, scratch, stored, false)?.0)
}

/// Returns a chunk's stored bytes if the store has them in memory. `None`: they must be read.
///
/// With `stamped`, also returns the stamp under which they may be kept.
pub(crate) fn lend_stored(
    layout: &ArrayLayout,
    scratch: &Scratch,
    stored: Stored<'_>,
    stamped: bool,
) -> Result<Option<(Lent, Option<Stamp>)>, ArrayError> {
    let Some(opened) = stored.opened else { return Ok(None) };
    let (offset, len) = match stored.location {
        Location::Absent => return Ok(None),
        Location::Object => (0, opened.size()),
        Location::Range { offset, len, .. } => (offset, len),
    };
    // Chunks that are too long are refused when they are read.
    if len > layout.encoding().chain().max_encoded() as u64 {
        return Ok(None);
    }
    let lent = opened.lend(offset, len).map_err(|source| store_error(layout, &scratch.task, source))?;
    Ok(lent.map(|lent| (lent, if stamped { opened.vouched() } else { None })))
}

/// Reads a chunk's stored bytes into `scratch.encoded`. Returns `true` if the chunk exists.
///
/// With `stamped`, also returns the stamp under which the bytes may be kept, if the store vouches
/// for them.
pub(crate) fn fetch_stamped(
    layout: &ArrayLayout,
    scratch: &mut Scratch,
    stored: Stored<'_>,
    stamped: bool,
) -> Result<(bool, Option<Stamp>), ArrayError> {
    let limit = layout.encoding().chain().max_encoded();
    let key = tasks::key(layout, &scratch.task, &scratch.key)?;
    let fail = |source| store_error(layout, &scratch.task, source);
    let whole = match (stored.location, stored.opened) {
        (Location::Object, Some(opened)) => Location::Range { offset: 0, len: opened.size(), skipped: 0 },
        (location, _) => location,
    };
    match whole {
        Location::Absent => Ok((false, None)),
        Location::Object if stamped => {
            layout.store().read_all_stamped(key, &mut scratch.encoded, limit).map_err(fail)
        }
        Location::Object => {
            let found = layout.store().read_all(key, &mut scratch.encoded, limit).map_err(fail)?;
            Ok((found, None))
        }
        Location::Range { offset, len, .. } => {
            let len = usize::try_from(len).ok().filter(|len| *len <= limit).ok_or_else(|| {
                fail(StoreError::TooLarge {
                    key: scratch.key.clone(),
                    url: layout.store().url(),
                    limit: limit as u64,
                })
            })?;
            scratch.encoded.clear();
            scratch
                .encoded
                .try_reserve(len)
                .map_err(|_| memory_error(layout, "an encoded chunk", len as u64))?;
            scratch.encoded.resize(len, 0);
            let mut range = [RangeRead { offset, buf: &mut scratch.encoded }];
            let (found, stamp) = match stored.opened {
                Some(opened) => {
                    opened.read_ranges(&mut range).map_err(fail)?;
                    (true, if stamped { opened.vouched() } else { None })
                }
                None if stamped => layout.store().read_ranges_stamped(key, None, &mut range).map_err(fail)?,
                None => (layout.store().read_ranges(key, None, &mut range).map_err(fail)?, None),
            };
            Ok((found_or_missing(layout, &scratch.task, &scratch.key, found)?, stamp))
        }
    }
}

/// Decodes the stored bytes of a whole chunk, in stored order and byte order.
///
/// If the chunk [may end early](crate::ChunkEncoding::that_may_end_early), decodes at least the
/// bytes that the task wants.
pub(crate) fn decode_chunk<'s>(
    layout: &ArrayLayout,
    scratch: &'s mut Scratch,
    encoded: &'s [u8],
    verify: bool,
) -> Result<&'s [u8], ArrayError> {
    let Scratch { decoded, codec, task, key, .. } = scratch;
    let chain = layout.encoding().chain();
    let fail = |source| codec_error(layout, task, key, source);
    let payload = match chain.payload(encoded, verify) {
        Some(Ok(payload)) => return Ok(payload),
        Some(Err(error)) if !layout.encoding().ends_early() => return Err(fail(error)),
        payload => payload,
    };
    let len = chain.decoded_size();
    let out = resize_slot(decoded, len).ok_or_else(|| memory_error(layout, "a decoded chunk", len as u64))?;
    let done = match payload {
        Some(payload) => payload.map(|_| ()),
        None => chain.decode(encoded, out, codec, verify),
    };
    match done {
        Err(error) if layout.encoding().ends_early() => {
            match chain.decode_front(encoded, reach(layout, task).end, out, codec, verify) {
                Ok(()) => {}
                // This error says how many bytes there are.
                Err(short @ CodecError::Size { .. }) => return Err(fail(short)),
                Err(_) => return Err(fail(error)),
            }
        }
        done => done.map_err(fail)?,
    }
    Ok(out)
}
