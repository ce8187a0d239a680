//! Stopping waits for a network.
//!
//! A store that is far away waits in the middle of any of its methods, most of which are given no
//! [`Ask`]. So the question whether to stop is one of the thread: whoever starts work that can be
//! stopped says so with [`with_ask`], and the store asks [`is_over`] while it waits. Where nobody
//! said so, the question of the whole process is asked ([`ask_with`]).

use crate::fork::Lazy;
use crate::turns::Ask;
use std::cell::Cell;

/// Waits ask this often. A person notices 100 ms.
pub const EVERY: std::time::Duration = std::time::Duration::from_millis(25);

static PROCESS: Lazy<fn() -> bool> = Lazy::new();

thread_local! {
    /// The question of the work that this thread is in the middle of.
    static THREAD: Cell<Option<&'static dyn Fn() -> bool>> = const { Cell::new(None) };
}

/// Sets the check for interrupts of threads that are in no [`with_ask`]. It may run foreign code.
/// Only the first call counts.
pub fn ask_with(ask: fn() -> bool) {
    PROCESS.put(ask);
}

/// Puts the former question back, also when the work panics.
struct Former(Option<&'static dyn Fn() -> bool>);

impl Drop for Former {
    fn drop(&mut self) {
        let _ = THREAD.try_with(|thread| thread.set(self.0));
    }
}

/// Runs `work`. Waits inside of it, on this thread, are given up once `ask` answers `true`.
pub fn with_ask<T>(ask: Ask<'_>, work: impl FnOnce() -> T) -> T {
    // SAFETY: only the lifetime is changed. The reference is taken out of the thread's cell before
    // this function returns or unwinds, and nothing copies it for longer than one call.
    let ask: &'static dyn Fn() -> bool = unsafe { std::mem::transmute::<Ask<'_>, Ask<'static>>(ask) };
    let _former = Former(THREAD.try_with(|thread| thread.replace(Some(ask))).unwrap_or_default());
    work()
}

/// Whether a wait of this thread is to be given up.
///
/// The question may run foreign code, which may wait in turn. Such an inner wait asks the process.
pub fn is_over() -> bool {
    match THREAD.try_with(Cell::take).unwrap_or_default() {
        Some(ask) => {
            let _same = Former(Some(ask));
            ask()
        }
        None => PROCESS.get().is_some_and(|ask| ask()),
    }
}

#[cfg(test)]
mod tests {
    use super::{is_over, with_ask};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn questions_are_nested_and_end() {
        assert!(!is_over());
        with_ask(&|| true, || {
            assert!(is_over());
            with_ask(&|| false, || assert!(!is_over()));
            assert!(is_over(), "the outer one is back");
            let panicked = catch_unwind(AssertUnwindSafe(|| with_ask(&|| false, || panic!("inside"))));
            assert!(panicked.is_err() && is_over());
            assert!(!std::thread::spawn(is_over).join().unwrap(), "of this thread only");
        });
        assert!(!is_over());
        // While one is asked, waits inside of it do not ask it again.
        with_ask(&|| !is_over(), || assert!(is_over() && is_over()));
    }
}
