//! Ctrl-C: every command checks now and then for a signal, cleans up, and ends with one line
//! instead of a traceback.
//!
//! While a [`Watch`] exists, the first SIGINT or SIGTERM only sets a flag. A second one ends the
//! process as if there were no [`Watch`]. Dropping the [`Watch`] restores the previous handlers,
//! which inside a Python process are Python's.

use hyperslab::hdf5;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

/// The signal received. 0: none.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// Signals that ask to stop.
const WATCHED: [libc::c_int; 2] = [libc::SIGINT, libc::SIGTERM];

/// Returns whether a signal was received since the last [`Watch`] started.
pub(crate) fn is_received() -> bool {
    SIGNAL.load(Relaxed) != 0
}

/// Catches signals until it is dropped.
pub(crate) struct Watch {
    old_actions: Vec<(libc::c_int, libc::sigaction)>,
}

impl Watch {
    pub(crate) fn start() -> Watch {
        SIGNAL.store(0, Relaxed);
        hdf5::stop(false);
        let mut before = Vec::new();
        for signal in WATCHED {
            if let Some(old) = action(signal, None)
                // Signals that the parent process (nohup) ignores stay ignored.
                && old.sa_sigaction != libc::SIG_IGN
                && action(signal, Some(&signal_action())).is_some()
            {
                before.push((signal, old));
            }
        }
        Watch { old_actions: before }
    }

    /// Returns whether a signal was received.
    pub(crate) fn is_interrupted(&self) -> bool {
        is_received()
    }

    /// The exit code for the signal, as in shells: 130 for SIGINT, 143 for SIGTERM.
    pub(crate) fn exit_code(&self) -> i32 {
        match SIGNAL.load(Relaxed) {
            0 => 128 + libc::SIGINT,
            signal => 128 + signal,
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        for (signal, old) in &self.old_actions {
            let _ = action(*signal, Some(old));
        }
        hdf5::stop(false);
    }
}

extern "C" fn on_signal(signal: libc::c_int) {
    // Reading the index of a large file takes long, and happens below everything that checks for
    // signals.
    hdf5::stop(true);
    if SIGNAL.swap(signal, Relaxed) != 0 {
        // SAFETY: both functions may be called in a signal handler (POSIX, async-signal-safe
        // functions).
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }
}

fn signal_action() -> libc::sigaction {
    // SAFETY: the structure is plain data, for which zeros are valid: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    let handler: extern "C" fn(libc::c_int) = on_signal;
    action.sa_sigaction = handler as libc::sighandler_t;
    // Interrupted system calls continue, so a chunk that is being written is finished.
    action.sa_flags = libc::SA_RESTART;
    action
}

/// Sets the action of a signal, if one is given. Returns the previous action.
fn action(signal: libc::c_int, new: Option<&libc::sigaction>) -> Option<libc::sigaction> {
    let new = new.map_or(ptr::null(), ptr::from_ref);
    let mut old = MaybeUninit::zeroed();
    // SAFETY: both pointers are null or point to structures of this type; the handler being set is
    // the one above or a previous one.
    let done = unsafe { libc::sigaction(signal, new, old.as_mut_ptr()) };
    // SAFETY: zeros are valid for this plain data, and the call has written it.
    (done == 0).then(|| unsafe { old.assume_init() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_signal_is_noted_and_handlers_come_back() {
        let before = action(libc::SIGTERM, None).unwrap().sa_sigaction;
        let watch = Watch::start();
        assert!(!watch.is_interrupted());
        // SAFETY: the handler for this signal is the one above.
        unsafe { libc::raise(libc::SIGTERM) };
        assert!(watch.is_interrupted());
        assert_eq!(watch.exit_code(), 143);
        drop(watch);
        assert_eq!(action(libc::SIGTERM, None).unwrap().sa_sigaction, before);
        assert!(!Watch::start().is_interrupted());
    }
}
