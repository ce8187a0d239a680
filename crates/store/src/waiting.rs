//! Interrupting waits for a network.
//!
//! A remote store may wait inside any of its methods, and most of them have no [`Ask`] argument.
//! The check for interrupts therefore belongs to the thread: code that starts interruptible work
//! wraps it in [`with_ask`], and the store calls [`is_over`] while it waits. Outside of
//! [`with_ask`], the check of the whole process is used ([`ask_with`]).

use crate::fork::Lazy;
use crate::turns::Ask;
use std::cell::Cell;

/// Interval between calls of [`is_over`] in a wait. A person notices 100 ms.
pub const EVERY: std::time::Duration = std::time::Duration::from_millis(25);

static PROCESS: Lazy<fn() -> bool> = Lazy::new();

thread_local! {
    /// The check of the work that this thread is doing.
    static THREAD: Cell<Option<&'static dyn Fn() -> bool>> = const { Cell::new(None) };
}

/// Sets the interrupt check of threads outside of [`with_ask`]. It may run foreign code.
///
/// Only the first call counts.
pub fn ask_with(ask: fn() -> bool) {
    PROCESS.put(ask);
}

/// Restores the previous check, even if the work panics.
struct Former(Option<&'static dyn Fn() -> bool>);

impl Drop for Former {
    fn drop(&mut self) {
        let _ = THREAD.try_with(|thread| thread.set(self.0));
    }
}

/// Runs `work`. Waits inside it, on this thread, give up once `ask` returns `true`.
pub fn with_ask<T>(ask: Ask<'_>, work: impl FnOnce() -> T) -> T {
    // SAFETY: only the lifetime is changed. The reference is taken out of the thread's cell before
    // this function returns or unwinds, and nothing copies it for longer than one call.
    let ask: &'static dyn Fn() -> bool = unsafe { std::mem::transmute::<Ask<'_>, Ask<'static>>(ask) };
    let _former = Former(THREAD.try_with(|thread| thread.replace(Some(ask))).unwrap_or_default());
    work()
}

/// Returns whether a wait of this thread should give up.
///
/// The check may run foreign code, which may wait too. An inner wait uses the check of the process.
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
        // While a check runs, waits inside it do not call it again.
        with_ask(&|| !is_over(), || assert!(is_over() && is_over()));
    }
}
