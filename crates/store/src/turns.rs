//! Turns: long-held locks within one process, identified by number.
//!
//! A thread that reads something, changes it and puts it back (a chunk, a shard, a metadata
//! document) takes its turn first. A turn is held during I/O and encoding, so it is not a plain
//! mutex:
//!
//! * It knows its holder. A thread that already has the turn gets [`Refused::Own`] instead of
//!   waiting for itself forever. Python causes this: it runs signal handlers and finalizers in the
//!   middle of the work.
//! * Waiting can be stopped: the waiter regularly calls [`Ask`].
//! * A forked child starts with no turn taken (`forget`), because the holders are threads of its
//!   parent.
//!
//! Turns exclude threads of one process. [`Store::lock`](crate::Store::lock) excludes other
//! processes. Take the turn first.

use crate::ending::Wait;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

/// Called now and then; `true` means to give up. May run foreign code (Python's signal handlers).
pub type Ask<'a> = &'a dyn Fn() -> bool;

/// How often a waiter calls [`Ask`].
pub(crate) const EVERY: Duration = Duration::from_millis(20);

/// Why a turn was not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// This thread already has it, so waiting would never end.
    Own,
    /// [`Ask`] returned `true`.
    Stopped,
    /// The program is ending and the holder may have been stopped: see [`ending`](crate::ending).
    Abandoned,
}

/// Number of lists that turns are spread over, so that threads with different turns seldom collide.
const STRIPES: usize = 256;

/// The turns taken in one process.
struct Table([Stripe; STRIPES]);

/// Per process: a child gets its own table, so it never finds this lock held. Aligned to its own
/// cache line.
#[repr(align(64))]
struct Stripe(Mutex<Vec<Holder>>);

struct Holder {
    number: u64,
    /// See [`me`].
    thread: usize,
    /// In order of arrival.
    waiting: Vec<Thread>,
}

/// The table of this process. Null before its first turn. Tables are never freed.
static TABLE: AtomicPtr<Table> = AtomicPtr::new(std::ptr::null_mut());

fn table() -> &'static Table {
    let found = TABLE.load(Ordering::Acquire);
    // SAFETY: null, or leaked below.
    if let Some(table) = unsafe { found.as_ref() } {
        return table;
    }
    let new = Box::leak(Box::new(Table(std::array::from_fn(|_| Stripe(Mutex::new(Vec::new()))))));
    match TABLE.compare_exchange(std::ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => new,
        // SAFETY: another thread was faster; its table was leaked too.
        Err(other) => unsafe { &*other },
    }
}

impl Table {
    fn stripe(&self, number: u64) -> MutexGuard<'_, Vec<Holder>> {
        // Mix the bits: stores may number objects consecutively or in strides.
        let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let at = usize::try_from(mixed).unwrap_or(0) % STRIPES;
        let [first, ..] = &self.0;
        let stripe = self.0.get(at).unwrap_or(first);
        // Nothing panics between changes that belong together.
        stripe.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Identifies a live thread, by the address of a thread-local.
fn me() -> usize {
    thread_local!(static PLACE: u8 = const { 0 });
    PLACE.with(|place| std::ptr::from_ref(place).addr())
}

/// A number that no other caller gets, for turns on things that live only in this process.
pub fn number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // Object numbers are hashes. This spreads the new numbers among them.
    NEXT.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Holds a turn until it is dropped.
#[derive(Debug)]
#[must_use = "the turn is over at once"]
pub struct Turn {
    number: u64,
    generation: u64,
}

/// Returns whether this thread has the turn with this number and another thread is waiting for it.
pub fn is_waited_for(number: u64) -> bool {
    let thread = me();
    let taken = table().stripe(number);
    taken
        .iter()
        .any(|holder| holder.number == number && holder.thread == thread && !holder.waiting.is_empty())
}

/// Waits for the turn with this number. Calls `ask` about every 20 ms meanwhile.
pub fn take(number: u64, ask: Option<Ask<'_>>) -> Result<Turn, Refused> {
    let generation = crate::fork::generation();
    let thread = me();
    let mut wait = Wait::default();
    loop {
        {
            let mut taken = table().stripe(number);
            match taken.iter_mut().find(|holder| holder.number == number) {
                None => {
                    taken.push(Holder { number, thread, waiting: Vec::new() });
                    return Ok(Turn { number, generation });
                }
                Some(holder) if holder.thread == thread => return Err(Refused::Own),
                Some(holder) => {
                    let me = thread::current();
                    if !holder.waiting.iter().any(|other| other.id() == me.id()) {
                        holder.waiting.push(me);
                    }
                }
            }
        }
        thread::park_timeout(EVERY);
        let refused = match ask {
            Some(ask) if ask() => Refused::Stopped,
            _ if wait.is_vain() => Refused::Abandoned,
            _ => continue,
        };
        leave(number);
        return Err(refused);
    }
}

/// Removes this thread from the waiters.
fn leave(number: u64) {
    let me = thread::current().id();
    for holder in table().stripe(number).iter_mut().filter(|holder| holder.number == number) {
        holder.waiting.retain(|other| other.id() != me);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // A child has a copy of its parent's turns. It must not end somebody else's turn with the
        // same number.
        if self.generation != crate::fork::generation() {
            return;
        }
        let ended = {
            let mut taken = table().stripe(self.number);
            let at = taken.iter().position(|holder| holder.number == self.number);
            at.map(|at| taken.swap_remove(at))
        };
        // Wake all of them: the first may have given up meanwhile.
        for waiting in ended.into_iter().flat_map(|holder| holder.waiting) {
            waiting.unpark();
        }
    }
}

/// Forgets all turns, in a child that was just forked.
///
/// Leaves the parent's table alone: another thread may have been inside it.
pub(crate) fn forget() {
    TABLE.store(std::ptr::null_mut(), Ordering::Release);
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
