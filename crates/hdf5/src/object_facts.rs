//! Facts about an object of any kind: its links and its times.

use crate::{File, Result};

impl File {
    /// Returns the number of hard links to the object at an address, and its times in seconds since
    /// 1970: of the last access, modification and change, and of its birth.
    pub fn links_and_times(&self, address: u64) -> Result<(u32, [u32; 4])> {
        let links = self.inner.edits.as_ref().and_then(|edits| edits.links_to(address));
        let header = self.header(address)?;
        Ok((links.unwrap_or_else(|| header.links()), header.times()))
    }

    /// Returns `true` if the object at an address has lost its last name: references to it lead
    /// nowhere. Its header stays until the file is compacted.
    pub fn is_deleted(&self, address: u64) -> Result<bool> {
        match self.inner.edits.as_ref().and_then(|edits| edits.is_deleted(address)) {
            Some(is_deleted) => Ok(is_deleted),
            None => Ok(self.header(address)?.links() == 0),
        }
    }
}
