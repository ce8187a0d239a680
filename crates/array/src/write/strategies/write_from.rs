//! Write-from: a whole chunk without codecs, as one row of bytes of the caller's memory. They are
//! written as they are.

use super::WriteStrategy;
use crate::write::chunk::Produced;

pub(crate) static WRITE_FROM: WriteStrategy = WriteStrategy {
    name: "write-from",
    fits: |chunk, task, region| {
        chunk.is_one_row(task, region) && chunk.layout.encoding().chain().is_identity()
    },
    produce: |_, _, _, _, _| Ok(Produced::Source),
    reads_old: false,
};
