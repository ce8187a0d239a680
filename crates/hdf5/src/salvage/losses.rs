//! The losses of a damaged file, as a lenient reader notes them.
//!
//! Parsers of trees, arrays and headers give a fault to [`Source::lose`]. It is the error of a usual
//! reader. A lenient reader notes the fault, and goes on without the bytes at fault.

use crate::index::place;
use crate::{Hdf5Error, Result, Source};
use hyperslab_store::fork::Mutex;
use std::collections::HashSet;
use std::sync::Arc;

/// Losses that are kept. More are only counted.
const MOST: usize = 10_000;

/// Something that a damaged file has lost.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Loss {
    /// Path of the object, without the leading `/`.
    pub path: String,
    /// Index of the chunk, if a chunk is lost.
    pub chunk: Option<Vec<u64>>,
    /// Address of the bytes at fault, if it is known.
    pub address: Option<u64>,
    /// The loss and its reason, in words.
    pub why: String,
}

/// Collects losses, each once, with the path of the object that is read at the time.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// The file is known to be torn: structures may be missing without a trace.
    is_torn: bool,
    /// Gated.
    noted: Mutex<Noted>,
}

#[derive(Debug, Default)]
struct Noted {
    object: String,
    found: Vec<Loss>,
    seen: HashSet<Loss>,
    more: u64,
    /// `true` while bytes are only tried.
    muted: bool,
    /// Addresses of structures that were read.
    structures: HashSet<u64>,
    /// `true` if a structure inside the file was never written.
    unwritten: bool,
}

/// Structures whose addresses are kept: 32 MiB of memory.
const MOST_STRUCTURES: usize = 1 << 20;

impl Losses {
    /// Losses of a file that is known to be torn.
    pub fn of_torn() -> Losses {
        Losses { is_torn: true, ..Losses::default() }
    }

    /// Returns `true` if the file is known to be torn.
    pub fn is_torn(&self) -> bool {
        self.is_torn
    }

    /// Later losses are losses of this object.
    pub fn enter(&self, path: &str) {
        self.noted.lock().object = path.trim_matches('/').to_owned();
    }

    /// Notes a loss of the current object.
    pub fn note(&self, address: Option<u64>, why: impl Into<String>) {
        self.put(None, address, why.into());
    }

    /// Notes the loss of a chunk. `counts`: chunks per axis.
    pub fn chunk(&self, number: u64, counts: &[u64], address: u64, why: impl Into<String>) {
        self.put(Some(place(number, counts)), Some(address), why.into());
    }

    fn put(&self, chunk: Option<Vec<u64>>, address: Option<u64>, why: String) {
        let mut noted = self.noted.lock();
        if noted.muted {
            return;
        }
        let loss = Loss { path: noted.object.clone(), chunk, address, why };
        if noted.found.len() >= MOST {
            noted.more = noted.more.saturating_add(1);
        } else if noted.seen.insert(loss.clone()) {
            noted.found.push(loss);
        }
    }

    /// Number of losses so far.
    pub fn count(&self) -> u64 {
        let noted = self.noted.lock();
        (noted.found.len() as u64).saturating_add(noted.more)
    }

    /// Notes nothing during a call, in which bytes are only tried.
    pub fn muted<T>(&self, call: impl FnOnce() -> T) -> T {
        let before = std::mem::replace(&mut self.noted.lock().muted, true);
        let result = call();
        self.noted.lock().muted = before;
        result
    }

    /// Returns `true` if nothing was lost so far.
    pub fn is_empty(&self) -> bool {
        self.noted.lock().found.is_empty()
    }

    /// All losses so far, and the number of further losses, which were only counted.
    pub fn all(&self) -> (Vec<Loss>, u64) {
        let noted = self.noted.lock();
        (noted.found.clone(), noted.more)
    }

    /// Notes that there is a structure at this address.
    fn structure(&self, address: u64) {
        let mut noted = self.noted.lock();
        if !noted.muted && noted.structures.len() < MOST_STRUCTURES {
            noted.structures.insert(address);
        }
    }

    /// Returns `true` if a structure inside the file was never written: writes are missing.
    pub fn lacks_writes(&self) -> bool {
        self.noted.lock().unwritten
    }

    /// The addresses of structures that were read.
    pub fn structures(&self) -> Vec<u64> {
        self.noted.lock().structures.iter().copied().collect()
    }
}

impl Source {
    /// Makes the source of a lenient reader.
    pub(crate) fn with_losses(mut self, losses: Arc<Losses>) -> Self {
        self.losses = Some(losses);
        self
    }

    /// The losses of a lenient reader. `None`: faults are errors.
    pub(crate) fn losses(&self) -> Option<&Arc<Losses>> {
        self.losses.as_ref()
    }

    /// Returns `true` for a lenient reader.
    pub(crate) fn is_lenient(&self) -> bool {
        self.losses.is_some()
    }

    /// Notes a fault, so that the caller goes on without the bytes at fault. Fails with the error if the
    /// reader is not lenient, and if the fault is not one of the file.
    pub(crate) fn lose(&self, error: Hdf5Error) -> Result<()> {
        let Some(losses) = &self.losses else { return Err(error) };
        let address = match &error {
            Hdf5Error::Interrupted { .. } | Hdf5Error::Store(_) => return Err(error),
            Hdf5Error::Parse { address, .. } | Hdf5Error::Incomplete { address, .. } => Some(*address),
            _ => None,
        };
        if matches!(error, Hdf5Error::Incomplete { .. }) {
            let mut noted = losses.noted.lock();
            let is_muted = noted.muted;
            noted.unwritten |= !is_muted;
        }
        losses.note(address, without_file(&error));
        Ok(())
    }

    /// Notes for a lenient reader that there is a structure at this address.
    pub(crate) fn note_structure(&self, address: u64) {
        if let Some(losses) = &self.losses {
            losses.structure(address);
        }
    }
}

/// The message of an error, without the file's name: every loss is of one file.
fn without_file(error: &Hdf5Error) -> String {
    let of = |object: &Option<String>| {
        // The path is that of the loss. Attributes are named here.
        let name = object.as_deref().filter(|object| object.starts_with("attribute"));
        name.map_or(String::new(), |name| format!("{name}: "))
    };
    match error {
        Hdf5Error::Incomplete { structure, address, object, .. } => {
            format!("{}the {structure} at address {address} was never written", of(object))
        }
        Hdf5Error::Parse { structure, address, why, object, .. } => {
            format!("{}the {structure} at address {address} is damaged: {why}", of(object))
        }
        Hdf5Error::Invalid { why, object, .. } => format!("{}{why}", of(object)),
        Hdf5Error::Unsupported { what, object, .. } => format!("{}{what} is not supported", of(object)),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::source;

    #[test]
    fn a_lenient_reader_notes_each_loss_once() {
        let strict = source(&[0; 8]);
        assert!(strict.lose(strict.invalid("x")).is_err());
        let losses = Arc::new(Losses::default());
        let lenient = source(&[0; 8]).with_losses(losses.clone());
        losses.enter("/a");
        lenient.lose(lenient.invalid("x")).unwrap();
        lenient.lose(lenient.invalid("x")).unwrap();
        losses.chunk(5, &[2, 3], 64, "torn");
        let loss = |chunk, address, why: &str| Loss { path: "a".into(), chunk, address, why: why.into() };
        let expected = vec![loss(None, None, "x"), loss(Some(vec![1, 2]), Some(64), "torn")];
        assert_eq!(losses.all(), (expected, 0));
        assert!(lenient.lose(Hdf5Error::Interrupted { file: "f".into() }).is_err());
    }
}
