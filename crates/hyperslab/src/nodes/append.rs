//! Appending to arrays.

use crate::{Array, DataFile, Element, Error, Result};
use hyperslab_array::{ArrayError, Index};
use hyperslab_hdf5::edit::Editing;
use hyperslab_store::{Ask, StoreError, waiting};
use hyperslab_zarr::ZarrError;
use std::time::{Duration, Instant};

/// How long an append waits for another process that has appended and not flushed.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(5);

/// The indices of `more` steps of an axis.
fn new_steps(rank: usize, axis: usize, first: u64, more: u64) -> Vec<Index<'static>> {
    let mut indices = vec![Index::ALL; rank];
    if let Some(index) = indices.get_mut(axis) {
        let stop = first.saturating_add(more);
        *index = Index::Slice { start: Some(first as i64), stop: Some(stop as i64), step: 1 };
    }
    indices
}

impl Array {
    /// Appends `elements`, given in C order, along an axis.
    /// Concurrent appends by other handles, threads and processes each get their own steps. If
    /// writing fails or is killed, the axis keeps its old length.
    pub fn append<T: Element>(&mut self, axis: usize, elements: &[T]) -> Result<()> {
        self.check_element::<T>()?;
        let refuse = |why: String| Error::Zarr(ZarrError::Invalid { path: self.path().to_owned(), why });
        let others = self.shape().iter().enumerate().filter(|(k, _)| *k != axis).map(|(_, n)| *n);
        let step = others.fold(1u64, u64::saturating_mul);
        let len = elements.len() as u64;
        if axis < self.shape().len() && len.checked_rem(step) != Some(0) {
            return Err(refuse(format!(
                "append: {len} elements are no multiple of the {step} that one step of axis {axis} has"
            )));
        }
        let like = self.shape().to_vec();
        let more = len.checked_div(step).unwrap_or(0);
        self.append_with(axis, more, &like, None, |array, rows| array.write_slice(rows, elements))
    }

    /// Makes an axis longer by `more` steps, which `write` fills.
    /// `write` gets the longer array and the indices of the new elements. Nobody sees the new steps
    /// before all are written. `like` is the shape that the caller expects; axes other than `axis`
    /// must still match it. `ask` is called while waiting for others; `true` gives up.
    pub fn append_with<E: From<Error>>(
        &mut self,
        axis: usize,
        more: u64,
        like: &[u64],
        ask: Option<Ask<'_>>,
        write: impl FnOnce(&Array, &[Index<'_>]) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.hdf5().is_some() {
            return self.append_hdf5(axis, more, like, write);
        }
        // An error of the caller's type is passed around the format's error type.
        let mut failed = None;
        let appended = self.as_zarr_mut()?.append_with(axis, more, like, ask, |longer, first| {
            write(&longer.clone().into(), &new_steps(longer.layout().shape().len(), axis, first, more))
                .map_err(|error| {
                    failed = Some(error);
                    ZarrError::Interrupted
                })
        });
        match failed {
            Some(error) => Err(error),
            None => Ok(appended.map_err(Error::from)?),
        }
    }

    /// Appends to an HDF5 dataset. If another process has the file open, too, the new steps are
    /// flushed at once: it must not append at the same place.
    fn append_hdf5<E: From<Error>>(
        &mut self,
        axis: usize,
        more: u64,
        like: &[u64],
        write: impl FnOnce(&Array, &[Index<'_>]) -> Result<(), E>,
    ) -> Result<(), E> {
        let editing = self.editing()?.clone();
        let mut write = Some(write);
        let begun = Instant::now();
        loop {
            // `None`: another process has appended to the file and not flushed.
            let done: Option<()> = editing
                .exclusively(|| {
                    if editing.bytes().others_appended() {
                        return Ok(None);
                    }
                    match write.take() {
                        Some(write) => self.append_now(&editing, axis, more, like, write).map(Some),
                        None => Ok(Some(())),
                    }
                })
                .map_err(|error: AppendError<E>| error.0)?;
            if done.is_some() {
                return Ok(());
            }
            let store = editing.bytes();
            let (key, url) = (store.key().to_owned(), DataFile::from(editing.file().clone()).store().url());
            if waiting::is_over() {
                return Err(Error::from(StoreError::Interrupted { key, url }).into());
            }
            if begun.elapsed() > PATIENCE {
                let source = std::io::Error::new(
                    std::io::ErrorKind::WouldBlock,
                    "another process has appended to the file and not flushed: flush or close the file there",
                );
                let operation = hyperslab_store::Operation::Lock;
                return Err(Error::from(StoreError::Io { operation, key, url, source }).into());
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn append_now<E: From<Error>>(
        &mut self,
        editing: &Editing,
        axis: usize,
        more: u64,
        like: &[u64],
        write: impl FnOnce(&Array, &[Index<'_>]) -> Result<(), E>,
    ) -> Result<(), AppendError<E>> {
        let failed = |error: Error| AppendError(E::from(error));
        self.renew().map_err(failed)?;
        let old = self.shape().to_vec();
        let fits = old.len() == like.len()
            && axis < old.len()
            && old.iter().zip(like).enumerate().all(|(at, (n, expected))| at == axis || n == expected);
        if !fits {
            let (array, found) = (self.layout().name().to_owned(), like.to_vec());
            return Err(failed(ArrayError::Shape { array, expected: old, found }.into()));
        }
        let mut longer = old.clone();
        let first = old.get(axis).copied().unwrap_or_default();
        if let Some(n) = longer.get_mut(axis) {
            *n = first.checked_add(more).ok_or_else(|| {
                failed(Error::Hdf5(editing.file().source().invalid("an axis has more than 2⁶⁴ - 1 steps")))
            })?;
        }
        self.resize(&longer, None).map_err(failed)?;
        if let Err(error) = write(self, &new_steps(old.len(), axis, first, more)) {
            self.resize(&old, None).map_err(failed)?;
            return Err(AppendError(error));
        }
        if editing.has_others() {
            editing.flush().map_err(|error| failed(error.into()))
        } else {
            editing.note_appended().map_err(|error| failed(error.into()))
        }
    }
}

/// An error of the caller's type, also for errors of HDF5 files.
struct AppendError<E>(E);

impl<E: From<Error>> From<hyperslab_hdf5::Hdf5Error> for AppendError<E> {
    fn from(error: hyperslab_hdf5::Hdf5Error) -> Self {
        AppendError(Error::from(error).into())
    }
}
