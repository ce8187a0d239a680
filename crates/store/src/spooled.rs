//! A file that is written on the local disk, and then goes elsewhere as a whole.

use crate::fork;
use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// The place of a new object, which is made of the bytes of a local file when they are complete.
pub trait Destination: Debug + Send + Sync {
    /// The URL of the store.
    fn url(&self) -> String;

    /// The key of the object.
    fn key(&self) -> &str;

    /// Bytes of the file were written or cut off. The destination may send the others already.
    fn note(&self, file: &Arc<File>, changed: Range<u64>);

    /// Makes the object, in one step, of the first `len` bytes of the file.
    ///
    /// After an error there is no new object, and this may be called again.
    fn complete(&self, file: &Arc<File>, len: u64) -> crate::Result<()>;
}

/// A file without a name.
#[derive(Debug)]
pub(crate) struct Spooled {
    file: Arc<File>,
    destination: Option<Arc<dyn Destination>>,
    /// `true`: the destination gets other bytes, which are made of these.
    is_draft: bool,
    generation: u64,
}

impl Spooled {
    pub(crate) fn new(file: File, destination: Option<Arc<dyn Destination>>, is_draft: bool) -> Spooled {
        Spooled { file: Arc::new(file), destination, is_draft, generation: fork::generation() }
    }

    pub(crate) fn destination(&self) -> Option<&Arc<dyn Destination>> {
        self.destination.as_ref()
    }

    pub(crate) fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    pub(crate) fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buf, offset)
    }

    pub(crate) fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        fork::check_writer(self.generation)?;
        self.file.write_all_at(bytes, offset)?;
        self.note(offset..offset.saturating_add(bytes.len() as u64));
        Ok(())
    }

    pub(crate) fn set_len(&self, len: u64) -> io::Result<()> {
        fork::check_writer(self.generation)?;
        let before = self.len()?;
        self.file.set_len(len)?;
        // Bytes that a longer file gains are zero, as they are at the destination.
        if len < before {
            self.note(len..before);
        }
        Ok(())
    }

    fn note(&self, changed: Range<u64>) {
        if let Some(destination) = self.destination.as_ref().filter(|_| !self.is_draft) {
            destination.note(&self.file, changed);
        }
    }

    /// Makes the object at the destination. Does nothing without one, and for a draft.
    pub(crate) fn deliver(&self) -> crate::Result<()> {
        let Some(destination) = self.destination.as_ref().filter(|_| !self.is_draft) else { return Ok(()) };
        let failed = |source| crate::StoreError::Io {
            operation: crate::Operation::Write,
            key: destination.key().to_owned(),
            url: destination.url(),
            source,
        };
        fork::check_writer(self.generation).map_err(failed)?;
        let len = self.len().map_err(failed)?;
        destination.complete(&self.file, len)
    }
}
