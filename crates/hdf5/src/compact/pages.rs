//! Pages: where structures lie in a copy.
//!
//! A program that reads a file with pages (`page_buf_size` in h5py) reads whole pages, and keeps
//! them. It expects that no structure crosses the border of a page, unless the structure is longer
//! than a page. Structures that are full of addresses (an index of chunks, a symbol table) consist of
//! several parts, so a page has room for each of them as a whole.

use super::survey::FILE_SPACE;
use crate::error::Built;
use crate::messages::Message;
use crate::object_header::{Prefix, rebuild};
use crate::output::Output;
use crate::{BuildError, Bytes};

/// Bytes that the HDF5 library reads at first, when it does not know the length of a structure.
const LOOK: u64 = 512;

/// The largest page that is chosen for a file, unless one structure needs more. Larger pages cost a
/// reader more memory for each page than they save requests.
const LARGEST_CHOSEN: u64 = 8 << 20;

/// Limits of the HDF5 library.
pub const SMALLEST: u64 = 512;
pub const LARGEST: u64 = 1 << 30;

/// The size of pages in h5py, where the user chooses none.
const USUAL: u64 = 4096;

/// The strategy of files with pages, in a file space info message.
pub(crate) const STRATEGY: u8 = 1;

/// Bits of the flags of a file space info message: it is not shared, and programs that do not know it
/// mark it when they change the file.
const FLAGS: u8 = 0x14;

/// The pages of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Pages {
    /// As in the file: pages of the same size, or none.
    #[default]
    Keep,
    /// All structures are in the first page, up to 8 MiB.
    Chosen,
    /// Pages of this many bytes. A structure that is longer makes them larger.
    AtLeast(u64),
}

impl Pages {
    /// Returns the bytes of a page: at least as many as each structure has. `all`: the bytes of all
    /// structures.
    pub(super) fn size(self, longest: u64, all: u64) -> Built<u64> {
        // A structure begins at a multiple of 8.
        let needed = longest.saturating_add(8).max(LOOK);
        let size = match self {
            Pages::AtLeast(size) if size >= needed => size,
            Pages::AtLeast(size) => needed.next_power_of_two().max(size),
            _ => needed.max(all.min(LARGEST_CHOSEN)).max(USUAL).next_power_of_two(),
        };
        if size > LARGEST {
            let why = format!("an index of {longest} bytes does not fit into a page of at most 1 GiB");
            return Err(BuildError(why));
        }
        Ok(size)
    }
}

/// Returns the address of a structure of `len` bytes that comes behind `end`.
pub(super) fn place(end: u64, len: u64, page: Option<u64>) -> u64 {
    let at = end.next_multiple_of(8);
    match page {
        Some(page) if at % page + len.max(LOOK).min(page) > page => at.next_multiple_of(page),
        _ => at,
    }
}

/// Returns the size of the pages of a file, from its file space info message. `None`: no pages.
pub(crate) fn of_message(message: &Message) -> Option<u64> {
    let [1, STRATEGY, _, rest @ ..] = &*message.data else { return None };
    // The threshold comes first.
    let size = rest.get(8..)?.first_chunk::<8>()?;
    Some(u64::from_le_bytes(*size)).filter(|size| (SMALLEST..=LARGEST).contains(size))
}

/// Builds the superblock's extension of a file with this strategy and pages of this size. `version`: of
/// its header. `threshold`: shorter free ranges are not remembered.
pub(crate) fn extension(version: u8, strategy: u8, threshold: u64, page: u64) -> Built<Vec<u8>> {
    let mut out = Output::new();
    // Version, strategy; whether free space is listed in the file.
    out.u8(1).u8(strategy).u8(0).u64(threshold).u64(page);
    // Metadata up to this distance from the end of a page; the end of the file before the lists.
    out.u16(0).address(None);
    let data = Bytes::from(out.take());
    let message = Message { kind: FILE_SPACE, flags: FLAGS, creation: None, address: 0, data };
    let prefix = Prefix { version, flags: 0, block: 0, links: 1, extra: Vec::new() };
    rebuild(&prefix, &[message])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_do_not_cross_borders() {
        let page = Some(4096);
        assert_eq!(place(49, 40, page), 56);
        // The library reads 512 bytes at first.
        assert_eq!((place(3584, 40, page), place(3585, 40, page)), (3584, 4096));
        assert_eq!((place(3000, 1096, page), place(3001, 1096, page)), (3000, 4096));
        // Longer ones begin at a border.
        assert_eq!((place(8, 5000, page), place(8192, 5000, page)), (4096, 8192));
        assert_eq!(place(4093, 5000, None), 4096);
    }

    #[test]
    fn sizes() {
        let of = |pages: Pages, longest, all| pages.size(longest, all);
        assert_eq!(of(Pages::Chosen, 100, 5000), Ok(8192));
        assert_eq!(of(Pages::Chosen, 100, 1 << 30), Ok(8 << 20));
        assert_eq!(of(Pages::Chosen, 9 << 20, 1 << 30), Ok(16 << 20));
        assert_eq!(of(Pages::AtLeast(1000), 100, 5000), Ok(1000));
        assert_eq!(of(Pages::AtLeast(1000), 5000, 5000), Ok(8192));
        assert!(of(Pages::Chosen, 2 << 30, 5000).is_err());
    }
}
