//! Tells the processor which bytes will be read soon.

/// Starts to load the first bytes into the cache, without waiting for them.
///
/// If the places of many small reads are known in advance, the reads then do not wait for memory
/// one by one.
#[inline(always)]
pub fn prefetch(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which reads nothing that the program could see. Any address may be given. The
    // instruction is part of SSE, and SSE is part of x86-64.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}
