//! Writes a part of the copy from its start to its end.

use crate::{Result, Source};
use hyperslab_store::EditedFile;

/// Bytes that are written with one call: as many as a disk takes at full speed.
const PIECE: usize = 4 << 20;

/// The file that gets the copy. `None`: nothing is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Out<'o> {
    pub file: Option<&'o EditedFile>,
    /// Offset of address 0.
    pub base: u64,
}

/// A part of the copy that grows at its end.
#[derive(Debug)]
pub(super) struct OutSection {
    start: u64,
    /// Address of the first pending byte.
    at: u64,
    pending: Vec<u8>,
}

impl OutSection {
    pub fn new(start: u64) -> OutSection {
        OutSection { start, at: start, pending: Vec::new() }
    }

    /// The address behind the last byte.
    pub fn end(&self) -> u64 {
        self.at.saturating_add(self.pending.len() as u64)
    }

    /// Number of bytes.
    pub fn len(&self) -> u64 {
        self.end().saturating_sub(self.start)
    }

    /// Appends bytes. Returns their address.
    pub fn put(&mut self, out: Out<'_>, bytes: &[u8]) -> Result<u64> {
        let address = self.end();
        if out.file.is_none() {
            self.at = address.saturating_add(bytes.len() as u64);
        } else {
            self.pending.extend_from_slice(bytes);
            if self.pending.len() >= PIECE {
                self.finish(out)?;
            }
        }
        Ok(address)
    }

    /// Appends zeros up to an address, and bytes there.
    pub fn put_at(&mut self, out: Out<'_>, address: u64, bytes: &[u8]) -> Result<()> {
        // The gap is at most a page.
        let gap = usize::try_from(address.saturating_sub(self.end())).unwrap_or(0);
        if gap > 0 {
            match out.file {
                None => self.at = address,
                Some(_) if gap < PIECE => drop(self.put(out, &vec![0; gap])?),
                Some(_) => {
                    // Bytes that are not written are zero.
                    self.finish(out)?;
                    self.at = address;
                }
            }
        }
        self.put(out, bytes).map(drop)
    }

    /// Appends zeros up to a multiple of 8.
    pub fn align(&mut self, out: Out<'_>) -> Result<()> {
        let gap = self.end().next_multiple_of(8).saturating_sub(self.end());
        self.put(out, [0; 8].get(..usize::try_from(gap).unwrap_or(0)).unwrap_or_default()).map(drop)
    }

    /// Appends bytes of another file. `advance` is called with the number of bytes of each piece.
    pub fn copy(
        &mut self,
        out: Out<'_>,
        source: &Source,
        (address, len): (u64, u64),
        advance: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<u64> {
        let start = self.end();
        if out.file.is_none() {
            // The range is checked before anything is written.
            if address.checked_add(len).is_none_or(|end| end > source.end()) {
                let end = source.end();
                let why =
                    format!("its {len} bytes at address {address} end after the end of the file, at {end}");
                return Err(source.invalid(why));
            }
            self.at = start.saturating_add(len);
            return Ok(start);
        }
        let mut done = 0;
        while done < len {
            let piece = usize::try_from(len - done).unwrap_or(usize::MAX).min(PIECE);
            let from = self.pending.len();
            self.pending.resize(from.saturating_add(piece), 0);
            if let Some(place) = self.pending.get_mut(from..) {
                source.read_into("elements", [(address.saturating_add(done), place)])?;
            }
            done = done.saturating_add(piece as u64);
            if self.pending.len() >= PIECE {
                self.finish(out)?;
            }
            advance(piece as u64)?;
        }
        Ok(start)
    }

    /// Writes the pending bytes.
    pub fn finish(&mut self, out: Out<'_>) -> Result<()> {
        if let Some(file) = out.file
            && !self.pending.is_empty()
        {
            file.write_at(out.base.saturating_add(self.at), &self.pending)?;
            self.at = self.end();
            self.pending.clear();
        }
        Ok(())
    }
}
