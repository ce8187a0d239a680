//! Elide: a whole chunk that holds only fill value. Nothing is stored.

use super::WriteStrategy;
use crate::copy::strided;
use crate::write::chunk::Produced;

pub(crate) static ELIDE: WriteStrategy = WriteStrategy {
    name: "elide",
    // Points are checked after they are gathered.
    fits: |chunk, task, _| {
        // A task for a part of each element is never whole, unless the part is the whole element.
        let fill = chunk.layout.fill().bytes();
        // SAFETY: the source covers the task's elements.
        let blank = || unsafe { strided::all_equal(&task.count, chunk.strides, fill, chunk.src) };
        task.whole && task.picks.is_empty() && !chunk.keep_empty && blank()
    },
    produce: |_, _, _, _, _| Ok(Produced::Nothing),
    reads_old: false,
};
