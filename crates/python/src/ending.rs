//! Daemon threads that are in our code while the interpreter ends.
//!
//! Nothing may take the GIL then but the thread that ends the interpreter. CPython 3.14 lets every
//! other thread that wants it sleep for ever. Before, CPython calls `pthread_exit`. glibc then
//! unwinds the thread's stack by force, and Rust aborts the process: its functions must not be
//! unwound by anybody else. PyO3 catches that in the two functions that only take the GIL. Any other
//! function of Python and NumPy may end so, too: it may run Python code, which gives the GIL up now
//! and then and takes it back.
//!
//! Here a thread sleeps for ever, whatever it called:
//!
//! 1. The unwinder goes from the innermost function outwards. For each function of Rust that has
//!    something to clean up, it asks `rust_eh_personality` what to do there.
//! 2. The linker (`--wrap`, see `build.rs`) puts [`__wrap_rust_eh_personality`] in the place of that
//!    function. If the unwinding is forced, it never returns. Until then the unwinder has only read
//!    the stack: nothing of ours was dropped, and what other threads borrow stays.
//! 3. The process ends when the interpreter has, whatever its threads do.
//!
//! Panics are not forced, and go on to Rust's own function.

use std::ffi::{c_int, c_void};
use std::time::Duration;

/// `_UA_FORCE_UNWIND` of the [Itanium C++ ABI](https://itanium-cxx-abi.github.io/cxx-abi/abi-eh.html).
const FORCED: c_int = 8;

unsafe extern "C" {
    /// The standard library's `rust_eh_personality`.
    fn __real_rust_eh_personality(
        version: c_int,
        actions: c_int,
        class: u64,
        exception: *mut c_void,
        context: *mut c_void,
    ) -> c_int;
}

/// Called by the unwinder, with what the ABI says.
#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_rust_eh_personality(
    version: c_int,
    actions: c_int,
    class: u64,
    exception: *mut c_void,
    context: *mut c_void,
) -> c_int {
    // No stack is unwound by force for another reason: Python cancels no threads.
    if actions & FORCED != 0 {
        loop {
            std::thread::sleep(Duration::from_secs(3600));
        }
    }
    // SAFETY: the arguments are the unwinder's own.
    unsafe { __real_rust_eh_personality(version, actions, class, exception, context) }
}
