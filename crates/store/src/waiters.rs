//! Threads that wait for a result of another thread, and can be interrupted.

use crate::fork::Mutex;
use crate::waiting;
use std::fmt;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// The threads that wait for one result.
///
/// The result itself is kept elsewhere; the waiting threads look for it with a closure.
#[derive(Default)]
pub struct Waiters(Mutex<Vec<Thread>>);

impl Waiters {
    /// Wakes all waiting threads. Make the result visible before.
    pub fn wake(&self) {
        let waiting = std::mem::take(&mut *self.0.lock());
        waiting.into_iter().for_each(|thread| thread.unpark());
    }

    /// Waits until `find` returns a result. `None`: the thread was asked to stop
    /// ([`waiting::is_over`]).
    pub fn wait<T>(&self, find: impl Fn() -> Option<T>) -> Option<T> {
        let mut asked = Instant::now();
        loop {
            if let Some(found) = find().or_else(|| self.find_or_park(&find, waiting::EVERY)) {
                return Some(found);
            }
            // A thread that others wake all the time must not ask more often.
            if asked.elapsed() >= waiting::EVERY {
                asked = Instant::now();
                if waiting::is_over() {
                    return None;
                }
            }
        }
    }

    /// Waits for about `most` until `find` returns a result. Does not check whether to stop.
    pub fn wait_at_most<T>(&self, most: Duration, find: impl Fn() -> Option<T>) -> Option<T> {
        let end = Instant::now() + most;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match find() {
                None if !left.is_zero() => {
                    if let Some(found) = self.find_or_park(&find, left) {
                        return Some(found);
                    }
                }
                found => return found,
            }
        }
    }

    /// Puts this thread on the list, and sleeps for at most `most`. May wake up early, because
    /// others wake threads too.
    ///
    /// Returns the result instead if it came before the thread was on the list.
    fn find_or_park<T>(&self, find: &impl Fn() -> Option<T>, most: Duration) -> Option<T> {
        {
            let (me, mut waiting) = (thread::current(), self.0.lock());
            if !waiting.iter().any(|other| other.id() == me.id()) {
                waiting.push(me);
            }
        }
        let found = find();
        if found.is_none() {
            thread::park_timeout(most);
        }
        found
    }
}

impl fmt::Debug for Waiters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiters").field("count", &self.0.lock().len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::Waiters;
    use crate::waiting::with_ask;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;

    #[test]
    fn all_threads_get_the_result() {
        let (waiters, result) = (Waiters::default(), AtomicUsize::new(0));
        let find = || Some(result.load(Ordering::Acquire)).filter(|found| *found > 0);
        thread::scope(|scope| {
            let waiting: Vec<_> = (0..4).map(|_| scope.spawn(|| waiters.wait(find))).collect();
            assert_eq!(waiters.wait_at_most(Duration::from_millis(1), find), None);
            result.store(7, Ordering::Release);
            waiters.wake();
            waiting.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), Some(7)));
        });
        assert_eq!(waiters.wait_at_most(Duration::ZERO, find), Some(7));
    }

    #[test]
    fn a_wait_can_be_interrupted() {
        let waiters = Waiters::default();
        assert_eq!(with_ask(&|| true, || waiters.wait(|| None::<()>)), None);
    }
}
