//! Limits the number of threads that compute to the number of cores.
//!
//! A write to a store far away has many threads, each waiting for its own request. If all of them
//! encoded at once, cores would switch between chunks, and no chunk would stay in a cache.
//! Measured: 16 threads on 2 cores took 1.5 times the processor time of 2.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The gate of one request. Local: only threads of this request know it.
#[derive(Debug)]
pub(crate) struct Gate {
    state: Mutex<State>,
    place_freed: Condvar,
}

#[derive(Debug)]
struct State {
    /// Number of threads that may still enter.
    free: usize,
    /// Number of waiting threads. A notification takes a system call, so it is sent only if one
    /// waits.
    waiting: usize,
}

/// The place of a thread inside the gate.
#[derive(Debug)]
pub(crate) struct Inside<'g>(&'g Gate);

impl Gate {
    /// A gate for at most `most` threads at a time, at least one.
    pub(crate) fn new(most: usize) -> Self {
        Gate { state: Mutex::new(State { free: most.max(1), waiting: 0 }), place_freed: Condvar::new() }
    }

    /// Waits for a free place. Threads inside wait for nothing, so the wait is short.
    pub(crate) fn enter(&self) -> Inside<'_> {
        let mut state = self.lock();
        while state.free == 0 {
            state.waiting += 1;
            state = self.place_freed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
        state.free -= 1;
        Inside(self)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.free += 1;
        if state.waiting > 0 {
            self.0.place_freed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Gate;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    #[test]
    fn only_so_many_are_inside() {
        let (gate, inside, most) = (Gate::new(3), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..12 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let _inside = gate.enter();
                        most.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
                        std::thread::yield_now();
                        inside.fetch_sub(1, SeqCst);
                    }
                });
            }
        });
        assert!((1..=3).contains(&most.load(SeqCst)));
        let left = gate.lock();
        assert_eq!((left.free, left.waiting), (3, 0));
    }
}
