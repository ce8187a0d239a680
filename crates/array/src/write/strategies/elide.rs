//! Elide: a whole chunk of nothing but fill value.

use crate::copy::strided::{self, Region};
use crate::error::ArrayError;
use crate::execute::scratch::Scratch;
use crate::plan::task::Task;
use crate::write::chunk::{ChunkWriter, Old, Produced};
use crate::write::strategies::WriteStrategy;

/// Stores nothing.
pub(crate) struct Elide;

impl WriteStrategy for Elide {
    fn name(&self) -> &'static str {
        "elide"
    }

    /// Points are looked at once they are gathered.
    fn fits(&self, chunk: &ChunkWriter<'_>, task: &Task, _region: &Region) -> bool {
        let fill = chunk.layout.fill().bytes();
        // SAFETY: the source covers the task's elements.
        let blank = || unsafe { strided::all_equal(&task.count, chunk.strides, fill, chunk.src) };
        task.whole && task.picks.is_empty() && !chunk.keep_empty && blank()
    }

    fn produce(
        &self,
        _: &ChunkWriter<'_>,
        _: &mut Scratch,
        _: &Region,
        _: usize,
        _: Old<'_>,
    ) -> Result<Produced, ArrayError> {
        Ok(Produced::Nothing)
    }
}
