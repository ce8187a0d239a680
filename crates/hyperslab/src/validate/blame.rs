//! Turns errors of a read into findings.

use super::finding::{Kind, Severity};
use crate::{Error, Result, with_causes};
use hyperslab_array::ArrayError;
use hyperslab_codec::CodecError;
use hyperslab_hdf5::Hdf5Error;
use hyperslab_store::StoreError;
use hyperslab_zarr::ZarrError;

/// The fault of stored data that an error reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blame {
    pub kind: Kind,
    pub severity: Severity,
    pub chunk: Option<Vec<u64>>,
    pub key: Option<String>,
    pub offset: Option<u64>,
    pub why: String,
    /// All chunks of the array fail in this way.
    pub is_of_array: bool,
}

impl Blame {
    /// Reads an error. Fails with [`Error::Interrupted`] if it is an interruption.
    pub fn of(error: &Error) -> Result<Blame> {
        if error.is_interruption() {
            return Err(Error::Interrupted);
        }
        let mut blame = Blame {
            kind: Kind::Unreadable,
            severity: Severity::Error,
            chunk: None,
            key: None,
            offset: None,
            why: with_causes(error),
            is_of_array: false,
        };
        match error {
            Error::Array(error) => blame.of_array(error),
            Error::Store(error) | Error::Zarr(ZarrError::Store(error)) => blame.of_store(error),
            Error::Zarr(ZarrError::Array(error)) => blame.of_array(error),
            Error::Zarr(ZarrError::Metadata { key, .. }) => {
                (blame.kind, blame.key) = (Kind::Metadata, Some(key.clone()));
            }
            Error::Zarr(ZarrError::Unsupported { key, .. }) => {
                (blame.kind, blame.key) = (Kind::Unsupported, Some(key.clone()));
                blame.severity = Severity::Warning;
            }
            Error::Hdf5(error) => blame.of_hdf5(error),
            Error::Netcdf(_) => blame.kind = Kind::Structure,
            Error::References { .. } => blame.kind = Kind::Metadata,
            _ => {}
        }
        Ok(blame)
    }

    fn of_array(&mut self, error: &ArrayError) {
        match error {
            ArrayError::Codec { chunk, key, source, .. } => {
                (self.chunk, self.key) = (Some(chunk.clone()), Some(key.clone()));
                // The stored bytes may be whole.
                self.kind = match **source {
                    CodecError::Memory { .. } | CodecError::Expands { .. } => Kind::Unreadable,
                    _ => Kind::Damaged,
                };
                self.why = with_causes(&**source);
            }
            ArrayError::Shard { key, chunk, why, .. } => {
                (self.chunk, self.key) = (chunk.clone(), Some(key.clone()));
                (self.kind, self.why) = (Kind::ShardIndex, why.clone());
            }
            ArrayError::Store { chunk, source, .. } => {
                self.chunk = Some(chunk.clone());
                self.of_store(source);
            }
            ArrayError::Locate { chunk, source, .. } => {
                (self.kind, self.is_of_array) = (Kind::Structure, true);
                self.chunk = Some(chunk.clone());
                if let Some(error) = source.downcast_ref::<Hdf5Error>() {
                    self.of_hdf5(error);
                }
            }
            ArrayError::Missing { chunk, key, .. } => {
                (self.chunk, self.key) = (Some(chunk.clone()), Some(key.clone()));
                self.kind = Kind::Absent;
            }
            ArrayError::Layout { .. } => (self.kind, self.is_of_array) = (Kind::Metadata, true),
            ArrayError::Part { .. } => (self.kind, self.is_of_array) = (Kind::MissingFile, true),
            _ => {}
        }
    }

    fn of_store(&mut self, error: &StoreError) {
        match error {
            StoreError::WrongSize { key, .. } | StoreError::TooLarge { key, .. } => {
                (self.kind, self.key) = (Kind::WrongSize, Some(key.clone()));
            }
            StoreError::OutOfRange { key, offset, .. } => {
                (self.kind, self.key, self.offset) = (Kind::OutOfFile, Some(key.clone()), Some(*offset));
            }
            StoreError::Zip { key, .. } => (self.kind, self.key) = (Kind::Damaged, Some(key.clone())),
            StoreError::Io { key, .. } => self.key = Some(key.clone()),
            StoreError::Server(refusal) => self.key = Some(refusal.key.clone()),
            StoreError::Reference(broken) => {
                (self.kind, self.key) = (Kind::MissingFile, Some(broken.key.clone()));
            }
            _ => {}
        }
    }

    fn of_hdf5(&mut self, error: &Hdf5Error) {
        self.kind = match error {
            Hdf5Error::Store(error) => return self.of_store(error),
            Hdf5Error::Array(error) => return self.of_array(error),
            Hdf5Error::Unclosed { .. } => Kind::Unclosed,
            Hdf5Error::Unsupported { .. } => {
                self.severity = Severity::Note;
                Kind::Unsupported
            }
            Hdf5Error::NoData { .. } => Kind::MissingFile,
            Hdf5Error::Refused { .. } => {
                self.severity = Severity::Note;
                Kind::NotFollowed
            }
            Hdf5Error::Parse { address, .. } | Hdf5Error::Incomplete { address, .. } => {
                self.offset = Some(*address);
                Kind::Structure
            }
            Hdf5Error::Truncated { .. } => Kind::Truncated,
            _ => Kind::Structure,
        };
    }
}
