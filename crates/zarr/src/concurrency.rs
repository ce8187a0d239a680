//! Waits for two server requests at the same time.

use hyperslab_store::{Ask, waiting};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

/// Runs `one` on its own thread and `other` on this one.
///
/// `ask` is called while this waits. If it returns `true`, or `other` fails, both give up.
pub(crate) fn run_concurrently<A: Send, B, E>(
    one: impl Fn(Ask<'_>) -> A + Sync,
    other: impl FnOnce() -> Result<B, E>,
    ask: Option<Ask<'_>>,
) -> (A, Result<B, E>) {
    let stop = AtomicBool::new(false);
    let stopped = || stop.load(Relaxed);
    let caller = thread::current();
    let work = || {
        let done = waiting::with_ask(&stopped, || one(&stopped));
        caller.unpark();
        done
    };
    thread::scope(|scope| {
        let Ok(running) = thread::Builder::new().spawn_scoped(scope, work) else {
            // No more threads are available: run one after the other.
            let never = || false;
            return (one(ask.unwrap_or(&never)), other());
        };
        let other = other();
        if other.is_err() {
            stop.store(true, Relaxed);
        }
        while !running.is_finished() {
            thread::park_timeout(waiting::EVERY);
            if ask.is_some_and(|ask| ask()) || waiting::is_over() {
                stop.store(true, Relaxed);
            }
        }
        (running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), other)
    })
}

#[cfg(test)]
mod tests {
    use super::run_concurrently;
    use hyperslab_store::Ask;
    use std::sync::Barrier;
    use std::thread::sleep;
    use std::time::{Duration, Instant};

    /// Waits until told to stop.
    fn wait(ask: Ask<'_>) -> &'static str {
        while !ask() {
            sleep(Duration::from_millis(1));
        }
        "stopped"
    }

    #[test]
    fn both_run_at_the_same_time() {
        let meet = Barrier::new(2);
        let one = |_: Ask<'_>| meet.wait().is_leader();
        let other = || Ok::<_, ()>(meet.wait().is_leader());
        let (one, other) = run_concurrently(one, other, None);
        assert_ne!(one, other.unwrap());
    }

    #[test]
    fn an_error_and_a_question_stop_the_other() {
        assert_eq!(run_concurrently(wait, || Err::<(), _>(5), None), ("stopped", Err(5)));
        let begin = Instant::now();
        let late = || begin.elapsed() > Duration::from_millis(30);
        assert_eq!(run_concurrently(wait, || Ok::<_, ()>(5), Some(&late)), ("stopped", Ok(5)));
    }
}
