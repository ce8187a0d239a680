//! Starting again because somebody else changed the same directory meanwhile.

use std::time::Duration;

/// How often a step starts again before it gives up.
const MOST: u32 = 64;

/// After this many attempts in a row there are pauses. A directory that is being removed keeps its
/// name until its remover is done, and the remover may be waiting for a processor.
const WITHOUT_PAUSE: u32 = 4;

/// The longest pause. All pauses together take about half a second.
const LONGEST: Duration = Duration::from_millis(10);

/// Counts how often a step has failed.
#[derive(Debug, Default)]
pub(super) struct Attempts(u32);

impl Attempts {
    /// Whether to try the step again. It pauses first if it has failed several times.
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
