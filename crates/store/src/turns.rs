//! Turns: long locks of one process, by number.
//!
//! Who reads something, changes it and puts it back (a chunk, a shard, a metadata document) takes its turn first. A turn is held during I/O
//! and encoding, so it is not a plain mutex:
//!
//! * It knows its holder. A thread that asks for a turn that it has already (a signal handler or a finalizer, which Python runs in the
//!   middle of the work) gets [`Refused::Own`] instead of waiting for itself for ever.
//! * Waiting can be stopped: the waiter asks again and again whether to go on.
//! * A forked child starts with no turn taken ([`forget`]): holders are threads of its parent.
//!
//! Turns exclude threads of one process. [`Store::lock`](crate::Store::lock) excludes other processes; take the turn first.

use crate::fork::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, Thread, ThreadId};
use std::time::Duration;

/// Asked now and then whether to give up. It may run foreign code (Python's signal handlers).
pub type Ask<'a> = &'a dyn Fn() -> bool;

/// How often a waiter asks.
pub(crate) const EVERY: Duration = Duration::from_millis(20);

/// Why there is no turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// This very thread has it: waiting would never end.
    Own,
    /// The answer to [`Ask`] was to give up.
    Stopped,
}

/// Turns that are taken, by number.
static TAKEN: Mutex<Option<HashMap<u64, Holder>>> = Mutex::new(None);

#[derive(Debug)]
struct Holder {
    thread: ThreadId,
    /// In the order in which they came.
    waiting: Vec<Thread>,
}

/// A number that no other caller gets, for turns on something that lives in this process only.
pub fn number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // Numbers of objects are hashes; these are spread among them.
    NEXT.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Holds a turn until it is dropped.
#[derive(Debug)]
#[must_use = "the turn is over at once"]
pub struct Turn {
    number: u64,
    generation: u64,
}

/// Waits for the turn of this number. `ask` is asked about every 20 ms while it waits.
pub fn take(number: u64, ask: Option<Ask<'_>>) -> Result<Turn, Refused> {
    let generation = crate::fork::generation();
    let me = thread::current();
    loop {
        {
            let mut taken = TAKEN.lock();
            match taken.get_or_insert_default().get_mut(&number) {
                None => {
                    let holder = Holder { thread: me.id(), waiting: Vec::new() };
                    taken.get_or_insert_default().insert(number, holder);
                    return Ok(Turn { number, generation });
                }
                Some(holder) if holder.thread == me.id() => return Err(Refused::Own),
                Some(holder) => {
                    if !holder.waiting.iter().any(|other| other.id() == me.id()) {
                        holder.waiting.push(me.clone());
                    }
                }
            }
        }
        thread::park_timeout(EVERY);
        if ask.is_some_and(|ask| ask()) {
            return Err(Refused::Stopped);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // A child has a copy of what its parent held, and must not end somebody else's turn of the same number.
        if self.generation != crate::fork::generation() {
            return;
        }
        let next = TAKEN.lock().as_mut().and_then(|taken| taken.remove(&self.number));
        // All of them: the first may have given up meanwhile.
        for waiting in next.into_iter().flat_map(|holder| holder.waiting) {
            waiting.unpark();
        }
    }
}

/// Forgets all turns: this process is a child that has just been forked.
pub(crate) fn forget() {
    if let Some(taken) = TAKEN.lock().as_mut() {
        taken.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::{Refused, number, take};
    use std::cell::Cell;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn one_at_a_time() {
        let (number, inside, done) = (number(), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let turn = take(number, None).unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(turn);
                        done.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(done.into_inner(), 1600);
    }

    #[test]
    fn own_turns_are_refused_and_waiting_can_be_stopped() {
        let (one, other) = (number(), number());
        let held = take(one, None).unwrap();
        let _other = take(other, None).unwrap();
        assert_eq!(take(one, None).unwrap_err(), Refused::Own);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let asked = Cell::new(0);
                let ask = || {
                    asked.set(asked.get() + 1);
                    asked.get() == 3
                };
                assert_eq!(take(one, Some(&ask)).unwrap_err(), Refused::Stopped);
                assert_eq!(asked.get(), 3);
            });
        });
        drop(held);
        drop(take(one, None).unwrap());
    }
}
