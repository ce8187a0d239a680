//! Daemon threads that run our code while the interpreter ends.
//!
//! During that time only the ending thread may take the GIL. CPython 3.14 lets every other thread
//! that asks for it sleep forever. Older versions call `pthread_exit`. Then glibc unwinds the
//! thread's stack by force, and Rust aborts the process, because foreign code must not unwind Rust
//! functions. PyO3 handles this in the two functions that only take the GIL. But any other function
//! of Python or NumPy may end this way: it may run Python code, which now and then releases the GIL
//! and takes it again.
//!
//! This module makes such a thread sleep forever, whatever function it called:
//!
//! 1. The unwinder goes from the innermost function outwards. For each Rust function with cleanup
//!    code it calls `rust_eh_personality`.
//! 2. The linker (`--wrap`, see `build.rs`) replaces that function by
//!    [`__wrap_rust_eh_personality`]. If the unwinding is forced, it never returns. Up to this
//!    point the unwinder has only read the stack: nothing was dropped, and data borrowed by other
//!    threads remains valid.
//! 3. The process ends with the interpreter, whatever its threads do.
//!
//! Panics are not forced unwinding. They are passed to Rust's own function.

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

/// Called by the unwinder with the arguments of the ABI.
#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_rust_eh_personality(
    version: c_int,
    actions: c_int,
    class: u64,
    exception: *mut c_void,
    context: *mut c_void,
) -> c_int {
    // There is no other reason for forced unwinding: Python cancels no threads.
    if actions & FORCED != 0 {
        loop {
            std::thread::sleep(Duration::from_secs(3600));
        }
    }
    // SAFETY: the arguments come from the unwinder.
    unsafe { __real_rust_eh_personality(version, actions, class, exception, context) }
}
