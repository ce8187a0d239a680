//! Arrays with elements of variable length.

use crate::{Array, Error, Result};
use hyperslab_array::{self as engine, ArrayError, Packed, Ragged, ReadOptions, Selection, WriteOptions};
use hyperslab_codec::VlenKind;
use std::sync::Arc;

impl Array {
    /// The kind of elements of variable length; `None`: all elements have one size.
    /// In HDF5, text is what the file declares as text. Sequences of anything but plain numbers are
    /// arrays of raw bytes; [`Array::as_hdf5`] tells what the bytes mean.
    pub fn vlen(&self) -> Option<VlenKind> {
        self.node().vlen()
    }

    /// Reads elements of variable length.
    ///
    /// Fails with [`Error::ElementType`] if all elements have one size.
    ///
    /// ```
    /// use hyperslab::prelude::*;
    /// use hyperslab::{Ragged, ReadOptions, VlenKind, WriteOptions};
    ///
    /// # fn main() -> Result<(), hyperslab::Error> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let location = directory.path().join("names").display().to_string();
    /// let names = Array::create(&location, &ArraySpec::of_vlen(Format::ZarrV3.zarr()?, &[3], VlenKind::Text))?;
    /// let values = Ragged::of(&[3], ["Ada", "", "Čapek"].map(str::as_bytes).into_iter()).unwrap();
    /// let all = names.select(&[])?;
    /// names.write_ragged(&all, &values.into(), WriteOptions::default())?;
    ///
    /// let found = names.read_ragged(&all, ReadOptions::default())?;
    /// assert_eq!(found.offsets, [0, 3, 3, 9]);
    /// assert_eq!(found.values.as_slice(), "AdaČapek".as_bytes());
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_ragged(&self, selection: &Selection, options: ReadOptions<'_>) -> Result<Ragged> {
        self.check_vlen()?;
        self.node().read_ragged(selection, options)
    }

    /// Writes elements of variable length, broadcasting `values` to the shape of the selection.
    /// Null elements are written as empty.
    pub fn write_ragged(
        &self,
        selection: &Selection,
        values: &Arc<Ragged>,
        options: WriteOptions<'_>,
    ) -> Result<()> {
        self.check_writable()?;
        self.check_vlen()?;
        self.node().write_ragged(selection, values, options)
    }

    /// Writes values that [`Packed::take`] packed for this array. See [`Array::write_ragged`].
    pub fn write_packed(
        &self,
        selection: &Selection,
        values: &Packed,
        options: WriteOptions<'_>,
    ) -> Result<()> {
        self.check_writable()?;
        self.check_vlen()?;
        Ok(engine::write_packed(self.layout(), selection, values, options)?)
    }

    /// Appends `values` along an axis; on the other axes they must be as long as the array.
    /// If writing fails, the axis keeps its old length.
    pub fn append_ragged(&mut self, axis: usize, values: &Arc<Ragged>) -> Result<()> {
        self.check_vlen()?;
        let mut expected = self.shape().to_vec();
        if let (Some(place), Some(more)) = (expected.get_mut(axis), values.shape.get(axis)) {
            *place = *more;
            if expected != values.shape.as_slice() {
                let array = self.layout().name().to_owned();
                return Err(ArrayError::Shape { array, expected, found: values.shape.to_vec() }.into());
            }
        }
        let more = values.shape.get(axis).copied().unwrap_or(0);
        self.append_with(axis, more, &expected, None, |array, rows| {
            array.write_ragged(&array.select(rows)?, values, WriteOptions::default())
        })
    }

    fn check_vlen(&self) -> Result<()> {
        match self.vlen() {
            Some(_) => Ok(()),
            None => {
                let (array, wanted) = (self.layout().name().to_owned(), "elements of variable length");
                Err(Error::ElementType { array, wanted, found: self.dtype() })
            }
        }
    }
}
