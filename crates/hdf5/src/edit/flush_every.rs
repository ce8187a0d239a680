//! Flushes by time: a program that changes a file for days loses at most a settable time of its work.

use super::Editing;
use crate::Result;
use hyperslab_store::fork::Mutex;
use std::time::{Duration, Instant};

/// When changes are flushed without being asked for.
#[derive(Debug, Default)]
pub(super) struct FlushEvery(
    /// Gated. The time between flushes, and the time of the last one. `None`: never.
    Mutex<Option<(Duration, Instant)>>,
);

impl Editing {
    /// Flushes with the first finished change that comes this long after the last such flush. `None`:
    /// only when it is asked for, as at the beginning.
    pub fn set_flush_every(&self, every: Option<Duration>) {
        *self.edits.flush_every.0.lock() = every.map(|every| (every, Instant::now()));
    }

    /// Flushes if it is time. A change of the file ends with this.
    pub fn flush_if_due(&self) -> Result<()> {
        let is_due = match &mut *self.edits.flush_every.0.lock() {
            Some((every, last)) if last.elapsed() >= *every => {
                *last = Instant::now();
                true
            }
            _ => false,
        };
        // A flush makes changes, too.
        if is_due && !self.is_flushing() { self.flush() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{all_bytes, described, edited_recorded, example};
    use super::*;
    use crate::testing::open;
    use crate::{Libver, LinkTarget};

    #[test]
    fn changes_are_flushed_when_it_is_time() {
        let (bytes, editing) = edited_recorded(example(Libver::Earliest, 3));
        let root = editing.file().root().unwrap().address();
        let link = |name: &str| editing.link(root, name, LinkTarget::Soft("/z".into())).unwrap();
        let has = |name: &str| {
            let lines = described(&open(&all_bytes(&bytes)).unwrap());
            lines.iter().any(|line| line.starts_with(&format!("/{name}")))
        };
        link("a");
        assert!(!has("a"));
        editing.set_flush_every(Some(Duration::from_secs(3600)));
        link("b");
        assert!(!has("a") && !has("b"));
        editing.set_flush_every(Some(Duration::ZERO));
        link("c");
        assert!(has("a") && has("b") && has("c"));
        editing.set_flush_every(None);
        link("d");
        assert!(!has("d"));
    }
}
