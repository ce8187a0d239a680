//! Waiting for other threads while the program ends.
//!
//! When an interpreter (Python) ends, it stops all its other threads. A thread stopped in the
//! middle of foreign code keeps its turns ([`turns`](crate::turns)) and its jobs forever. The
//! thread that ends the interpreter may wait for them, because objects that are freed late write
//! what they hold. These waits give up after a while, with an error that names the object.

use crate::fork::Lazy;
use std::time::{Duration, Instant};

/// How long to wait without progress. Engine threads continue as long as they need no interpreter:
/// this is their time to store one chunk.
const PATIENCE: Duration = Duration::from_secs(3);

static IS_ENDING: Lazy<fn() -> bool> = Lazy::new();

/// Sets the check whether the interpreter is ending. Only the first call counts.
pub fn ends_with(is_ending: fn() -> bool) {
    IS_ENDING.put(is_ending);
}

/// A wait for another thread of this process. Start a new one after any progress.
#[derive(Debug, Default)]
pub struct Wait {
    /// When this wait first noticed that the interpreter is ending.
    since: Option<Instant>,
}

impl Wait {
    /// Called now and then while the thread waits. Returns `true` to give up.
    pub fn is_vain(&mut self) -> bool {
        IS_ENDING.get().is_some_and(|is_ending| is_ending()) && self.has_lasted(Instant::now())
    }

    fn has_lasted(&mut self, now: Instant) -> bool {
        now.duration_since(*self.since.get_or_insert(now)) >= PATIENCE
    }
}

#[cfg(test)]
mod tests {
    use super::{PATIENCE, Wait};
    use std::time::{Duration, Instant};

    #[test]
    fn patience_ends() {
        let (mut wait, begun) = (Wait::default(), Instant::now());
        assert!(!wait.is_vain(), "no interpreter is ending");
        for (passed, ends) in [(Duration::ZERO, false), (PATIENCE / 2, false), (PATIENCE, true)] {
            assert_eq!(wait.has_lasted(begun + passed), ends);
        }
    }
}
