//! Fetching: the stored bytes of chunks from the store, and decoding those of a whole chunk.

use crate::error::ArrayError;
use crate::layout::{ArrayLayout, Location};
use crate::plan::{Plan, Task};
use crate::runtime::scratch::{Scratch, sized};
use crate::runtime::tasks;
use crate::runtime::tasks::{codec_error, memory_error, store_error};
use hyperslab_store::{Opened, RangeRead, Stamp, StoreError};

/// The object of a chunk that is read in parts.
pub(crate) type Parts<'s> = Option<Box<dyn Opened + 's>>;

/// Opens the object of a plan whose tasks are parts of one chunk, once for all: parts of an object
/// that is replaced meanwhile would make a chunk that never was. `None`: the plan is not cut.
/// `Some(None)`: the chunk does not exist.
pub(crate) fn open_parts<'l>(layout: &'l ArrayLayout, plan: &Plan) -> Result<Option<Parts<'l>>, ArrayError> {
    if !plan.is_cut() {
        return Ok(None);
    }
    Scratch::with(|scratch| {
        let Scratch { task, key, .. } = scratch;
        plan.task(layout, 0, task);
        let fail = |source| store_error(layout, task, source);
        let size = match layout.locate(&task.chunk, key)? {
            Location::Absent => return Ok(Some(None)),
            Location::Object => Some(layout.encoding().decoded_size() as u64),
            Location::Range { .. } => None,
        };
        layout.store().open(tasks::key(layout, task, key)?, size).map_err(fail).map(Some)
    })
}

/// Reads ranges of a chunk without codecs, from `parts` if that is open. An object of another size
/// than a chunk has is refused: its elements would be the wrong ones.
pub(crate) fn ranges_of(
    layout: &ArrayLayout,
    parts: Option<&Parts<'_>>,
    task: &Task,
    key: &str,
    location: Location,
    ranges: &mut [RangeRead<'_>],
) -> Result<bool, ArrayError> {
    let size = layout.encoding().decoded_size();
    let fail = |source| store_error(layout, task, source);
    let checked = tasks::key(layout, task, key)?;
    match location {
        Location::Absent => Ok(false),
        Location::Object => match (parts, &mut *ranges) {
            (Some(Some(opened)), _) => opened.read_ranges(ranges).map(|()| true),
            (Some(None), _) => Ok(false),
            (None, [RangeRead { offset: 0, buf }]) if buf.len() == size => {
                layout.store().read_exact(checked, buf)
            }
            (None, _) => layout.store().read_ranges(checked, Some(size as u64), ranges),
        }
        .map_err(fail),
        Location::Range { offset, len, .. } => {
            if len != size as u64 {
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
            let found = match parts {
                Some(Some(opened)) => opened.read_ranges(ranges).map(|()| true),
                Some(None) => Ok(false),
                None => layout.store().read_ranges(checked, None, ranges),
            };
            found_or_missing(layout, task, key, found.map_err(fail)?)
        }
    }
}

/// An index that names a range of an object vouches for the object: it is not a chunk of fill
/// value.
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

/// Reads a chunk's stored bytes into `scratch.encoded`. Returns whether it exists.
pub(crate) fn fetch(
    layout: &ArrayLayout,
    scratch: &mut Scratch,
    location: Location,
) -> Result<bool, ArrayError> {
    Ok(fetch_stamped(layout, scratch, location, false)?.0)
}

/// As [`fetch`]; with `stamped`, also the stamp under which the bytes may be kept, if the store
/// vouches for them.
pub(crate) fn fetch_stamped(
    layout: &ArrayLayout,
    scratch: &mut Scratch,
    location: Location,
    stamped: bool,
) -> Result<(bool, Option<Stamp>), ArrayError> {
    let limit = layout.encoding().chain().max_encoded();
    let key = tasks::key(layout, &scratch.task, &scratch.key)?;
    let fail = |source| store_error(layout, &scratch.task, source);
    match location {
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
            let (found, stamp) = if stamped {
                layout.store().read_ranges_stamped(key, None, &mut range).map_err(fail)?
            } else {
                (layout.store().read_ranges(key, None, &mut range).map_err(fail)?, None)
            };
            Ok((found_or_missing(layout, &scratch.task, &scratch.key, found)?, stamp))
        }
    }
}

/// Decodes a chunk's stored bytes: the whole chunk, in stored order and byte order.
pub(crate) fn decoded<'s>(
    layout: &ArrayLayout,
    scratch: &'s mut Scratch,
    encoded: &'s [u8],
    verify: bool,
) -> Result<&'s [u8], ArrayError> {
    let Scratch { decoded, codec, task, key, .. } = scratch;
    let chain = layout.encoding().chain();
    let fail = |source| codec_error(layout, task, key, source);
    if let Some(payload) = chain.payload(encoded, verify) {
        return payload.map_err(fail);
    }
    let len = chain.decoded_size();
    let out = sized(decoded, len).ok_or_else(|| memory_error(layout, "a decoded chunk", len as u64))?;
    chain.decode(encoded, out, codec, verify).map_err(fail)?;
    Ok(out)
}
