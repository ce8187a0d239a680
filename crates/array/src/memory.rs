//! Memory for results and scratch.

use crate::{process, recycler};
use memmap2::MmapMut;

/// Bytes owned by one holder: a result that becomes a NumPy array without a copy, or a decoded chunk.
///
/// Aligned for every element type. Always initialised: fresh from the system it is zero; recycled, it holds stale bytes that
/// its new owner overwrites. Dropping it returns the pages to the recycler.
pub struct Memory {
    block: Block,
    len: usize,
}

enum Block {
    /// Below the size where whole pages pay. `u128` for its alignment.
    Small(Vec<u128>),
    /// `None` only while being dropped.
    Pages(Option<MmapMut>),
}

/// From here on memory comes in pages from the recycler: allocators hand pages of that size back to the system when they are freed.
const PAGES_FROM: usize = 64 << 10;

/// From here on fresh pages are asked for in huge units, which cuts the number of page faults by 512.
const HUGE_FROM: usize = 4 << 20;

impl Memory {
    /// Memory with unspecified (but initialised) contents: for callers who overwrite every byte. `None` if there is none.
    pub fn dirty(len: usize) -> Option<Self> {
        if len < PAGES_FROM {
            return Some(Memory { block: small(len), len });
        }
        let class = recycler::class_of(len)?;
        let pages = match process::current().recycler.take(class) {
            Some(pages) => pages,
            None => fresh(class, true)?,
        };
        Some(Memory { block: Block::Pages(Some(pages)), len })
    }

    /// Memory of zeros. Large ones cost nothing until they are touched: the system zeroes pages on first use. `None` if there is none.
    pub fn zeroed(len: usize) -> Option<Self> {
        if len < PAGES_FROM {
            return Some(Memory { block: small(len), len });
        }
        let pages = fresh(recycler::class_of(len)?, false)?;
        Some(Memory { block: Block::Pages(Some(pages)), len })
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        let all: &[u8] = match &self.block {
            Block::Small(words) => bytemuck::cast_slice(words),
            Block::Pages(pages) => pages.as_deref().unwrap_or(&[]),
        };
        &all[..self.len]
    }

    /// The bytes, to be written.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        let all: &mut [u8] = match &mut self.block {
            Block::Small(words) => bytemuck::cast_slice_mut(words),
            Block::Pages(pages) => pages.as_deref_mut().unwrap_or(&mut []),
        };
        &mut all[..self.len]
    }
}

fn small(len: usize) -> Block {
    Block::Small(vec![0u128; len.div_ceil(size_of::<u128>())])
}

fn fresh(class: usize, whole: bool) -> Option<MmapMut> {
    let pages = MmapMut::map_anon(class).ok()?;
    #[cfg(target_os = "linux")]
    if whole && class >= HUGE_FROM {
        // Advice only: where the system has no huge pages, nothing changes.
        let _ = pages.advise(memmap2::Advice::HugePage);
    }
    Some(pages)
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Block::Pages(pages) = &mut self.block
            && let Some(pages) = pages.take()
        {
            process::current().recycler.give(pages);
        }
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Memory({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeroed_is_zero_even_after_recycling() {
        for len in [0, 1, 1000, 65_535, 65_536, 300_000, 5 << 20] {
            for _ in 0..3 {
                let mut memory = Memory::dirty(len).unwrap();
                memory.as_mut_slice().fill(0xAB);
                drop(memory);
                let zero = Memory::zeroed(len).unwrap();
                assert_eq!(zero.len(), len);
                assert_eq!(zero.as_slice().as_ptr() as usize % 16, 0);
                assert!(zero.as_slice().iter().all(|b| *b == 0));
            }
        }
    }

    #[test]
    fn too_much_is_none_not_an_abort() {
        assert!(Memory::dirty(usize::MAX).is_none());
        assert!(Memory::zeroed(isize::MAX as usize).is_none());
    }
}
