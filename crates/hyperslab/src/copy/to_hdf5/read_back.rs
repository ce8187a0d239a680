//! The file before its commit, as a store: verification reads what will be there.

use crate::{Key, Result, Store};
use hyperslab_hdf5::{File, FileOptions};
use hyperslab_store::{Opened, RangeRead, Replacement, StoreError};
use std::sync::Arc;

/// The name of the file in the store.
const NAME: &str = "copy.h5";

/// Opens the file as HDF5. `None`: it can only be read after the commit.
pub(super) fn open(file: &mut dyn Replacement, url: &str) -> Result<Option<File>> {
    let Some(opened) = file.open()? else { return Ok(None) };
    let store = Arc::new(ReadBack { opened: opened.into(), url: url.to_owned() });
    Ok(Some(File::open(store, NAME, FileOptions::default())?))
}

#[derive(Debug)]
struct ReadBack {
    opened: Arc<dyn Opened>,
    url: String,
}

impl ReadBack {
    fn has(key: Key<'_>) -> bool {
        key.as_str() == NAME
    }
}

impl Store for ReadBack {
    fn url(&self) -> String {
        self.url.clone()
    }

    fn lock_id(&self, _: Key<'_>) -> u64 {
        Arc::as_ptr(&self.opened).addr() as u64
    }

    fn size(&self, key: Key<'_>) -> Result<Option<u64>, StoreError> {
        Ok(Self::has(key).then(|| self.opened.size()))
    }

    fn open<'s>(
        &'s self,
        key: Key<'_>,
        size: Option<u64>,
    ) -> Result<Option<Box<dyn Opened + 's>>, StoreError> {
        self.check(key, size)?;
        Ok(Self::has(key).then(|| Box::new(Shared(&*self.opened)) as Box<dyn Opened + 's>))
    }

    fn read_ranges(
        &self,
        key: Key<'_>,
        size: Option<u64>,
        ranges: &mut [RangeRead<'_>],
    ) -> Result<bool, StoreError> {
        self.check(key, size)?;
        if Self::has(key) {
            self.opened.read_ranges(ranges)?;
        }
        Ok(Self::has(key))
    }

    fn read_all(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> Result<bool, StoreError> {
        buf.clear();
        if !Self::has(key) {
            return Ok(false);
        }
        let size = usize::try_from(self.opened.size()).unwrap_or(usize::MAX);
        if size > limit {
            return Err(StoreError::too_large(self, key.as_str(), limit));
        }
        buf.resize(size, 0);
        self.opened.read_ranges(&mut [RangeRead { offset: 0, buf }])?;
        Ok(true)
    }

    fn only(&self) -> Option<&str> {
        Some(NAME)
    }
}

impl ReadBack {
    fn check(&self, key: Key<'_>, expected: Option<u64>) -> Result<(), StoreError> {
        let found = self.opened.size();
        match expected {
            Some(expected) if expected != found => {
                let (key, url) = (key.as_str().to_owned(), self.url.clone());
                Err(StoreError::WrongSize { key, url, expected, found })
            }
            _ => Ok(()),
        }
    }
}

/// An open object that others share.
#[derive(Debug)]
struct Shared<'s>(&'s dyn Opened);

impl Opened for Shared<'_> {
    fn read_ranges(&self, ranges: &mut [RangeRead<'_>]) -> Result<(), StoreError> {
        self.0.read_ranges(ranges)
    }

    fn size(&self) -> u64 {
        self.0.size()
    }
}
