//! Memory of sizes that files and users choose. Running out of memory is an error, not an abort.

use crate::{CodecError, Result};
use bytemuck::Zeroable;

/// Larger sizes are rare, so it is worth checking whether there is memory for them.
const LARGE: usize = 1 << 20;

/// Copies of an element in memory while its array is opened: several places keep the fill value.
const COPIES: usize = 8;

/// Zeros, or `None` if there is no memory.
///
/// The system maps new pages on first touch, so unused room costs nothing.
pub fn zeros<T: Zeroable>(len: usize) -> Option<Vec<T>> {
    bytemuck::allocation::try_zeroed_slice_box(len).ok().map(Vec::from)
}

/// Returns `true` if memory suffices to open an array with elements of `size` bytes.
pub fn for_elements(size: usize) -> bool {
    for_copies(size, COPIES)
}

/// Returns `true` if memory suffices for several copies of `size` bytes.
///
/// For code whose copies would end the process if memory ran out.
pub fn for_copies(size: usize, copies: usize) -> bool {
    size <= LARGE || Vec::<u8>::new().try_reserve_exact(size.saturating_mul(copies)).is_ok()
}

/// Makes room for `more` bytes at the end of a buffer.
pub(crate) fn reserve(buf: &mut Vec<u8>, more: usize, codec: &'static str) -> Result<()> {
    buf.try_reserve(more).map_err(|_| CodecError::memory(codec, more))
}

/// Replaces the content of a buffer.
pub(crate) fn fill(buf: &mut Vec<u8>, bytes: &[u8], codec: &'static str) -> Result<()> {
    buf.clear();
    reserve(buf, bytes.len(), codec)?;
    buf.extend_from_slice(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_memory_is_an_error() {
        assert_eq!(zeros::<u64>(3).unwrap(), [0; 3]);
        assert!(zeros::<u64>(usize::MAX / 4).is_none() && zeros::<u8>(isize::MAX as usize).is_none());
        let mut buf = b"ab".to_vec();
        let error = reserve(&mut buf, isize::MAX as usize, "gzip").unwrap_err().to_string();
        assert_eq!(error, format!("gzip: no memory for {} bytes", isize::MAX));
        fill(&mut buf, b"xyz", "gzip").unwrap();
        assert_eq!(buf, b"xyz");
        assert!(for_elements(8) && for_elements(LARGE) && !for_elements(isize::MAX as usize));
        assert!(for_copies(8, 100) && !for_copies(isize::MAX as usize / 2, 3));
    }
}
