//! Read-into: of a chunk without codecs, one row of bytes that is one in the output too. It is read
//! straight there.

use super::{ReadStrategy, WHOLE};
use crate::copy::swap;
use crate::read::fetch::ranges_of;
use hyperslab_store::RangeRead;

pub(crate) static READ_INTO: ReadStrategy = ReadStrategy {
    name: "read-into",
    fits: |chunk, task| chunk.is_plain() && chunk.one_row(task).is_some(),
    read: |chunk, scratch, stored| {
        let len = chunk.region.contiguous().unwrap_or(0);
        // SAFETY: the target covers the task's elements, which are one row of `len` initialised
        // bytes; other tasks have other elements.
        let out = unsafe { &mut *chunk.row(len) };
        let range = &mut [RangeRead { offset: chunk.offset as u64, buf: out }];
        let found = ranges_of(chunk.layout, stored, &scratch.task, &scratch.key, range)?;
        let swap = chunk.layout.encoding().swap();
        if found && swap > 1 {
            // SAFETY: as above; the borrow for reading has ended.
            swap::in_place(unsafe { &mut *chunk.row(len) }, swap);
        }
        Ok(found)
    },
    ranges: |chunk, _, (start, _)| {
        vec![(start + chunk.offset as u64, chunk.region.contiguous().unwrap_or(0) as u64)]
    },
    decodes: |_, _| 0,
    ..WHOLE
};
