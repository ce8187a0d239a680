//! Write-from: a whole chunk without codecs that is one row of bytes in the caller's memory. The
//! bytes are written as they are.

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
