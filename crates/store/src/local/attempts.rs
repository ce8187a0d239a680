//! Retries after somebody else changed the same directory at the same time.

use std::time::Duration;

/// How often a step is tried before it fails.
const MOST: u32 = 64;

/// Attempts without a pause in between. A directory that is being removed keeps its name until the
/// removal is done, and the remover may be waiting for a CPU.
const WITHOUT_PAUSE: u32 = 4;

/// The longest pause. All pauses together take about half a second.
const LONGEST: Duration = Duration::from_millis(10);

/// Counts the failures of a step.
#[derive(Debug, Default)]
pub(super) struct Attempts(u32);

impl Attempts {
    /// Returns whether to try the step again. Pauses first if the step has failed several times.
    pub(super) fn again(&mut self) -> bool {
        self.0 += 1;
        if self.0 > WITHOUT_PAUSE {
            let doubled = Duration::from_micros(20).saturating_mul(1 << (self.0 - WITHOUT_PAUSE).min(16));
            std::thread::sleep(doubled.min(LONGEST));
        }
        self.0 < MOST
    }
}

#[cfg(test)]
mod tests {
    use super::Attempts;
    use std::time::{Duration, Instant};

    #[test]
    fn they_end_and_outlast_who_waits_for_a_processor() {
        let begun = Instant::now();
        let mut attempts = Attempts::default();
        let mut times = 1;
        while attempts.again() {
            times += 1;
        }
        assert_eq!(times, 64);
        assert!(begun.elapsed() > Duration::from_millis(400));
    }
}
