//! Elide: a whole chunk of nothing but fill value. Nothing is stored.

use super::WriteStrategy;
use crate::copy::strided;
use crate::write::chunk::Produced;

pub(crate) static ELIDE: WriteStrategy = WriteStrategy {
    name: "elide",
    // Points are looked at once they are gathered.
    fits: |chunk, task, _| {
        // A part of elements is never all of a chunk, unless it is all of each element.
        let fill = chunk.layout.fill().bytes();
        // SAFETY: the source covers the task's elements.
        let blank = || unsafe { strided::all_equal(&task.count, chunk.strides, fill, chunk.src) };
        task.whole && task.picks.is_empty() && !chunk.keep_empty && blank()
    },
    produce: |_, _, _, _, _| Ok(Produced::Nothing),
    reads_old: false,
};
