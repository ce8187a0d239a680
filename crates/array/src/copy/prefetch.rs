//! Telling the processor what will be read soon.

/// Asks for the first bytes to be brought into the cache, without waiting for them. Where the
/// places of many small reads are known before, they need not wait for memory one by one.
#[inline(always)]
pub fn prefetch(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint: it reads nothing that the program could see, and any address may be given.
    // SSE, which has it, is part of x86-64.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}
