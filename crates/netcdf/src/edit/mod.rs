//! Classic files that are made or changed.
//!
//! A file that is being changed is a [`File`] like any other. Its elements go to their places in the
//! file at once. The bytes that were written are remembered: the others get the fill value at a flush.
//! A flush writes the number of records last, so other programs never see a record without elements.
//!
//! A new file has no name until the first flush.

pub(crate) mod ranges;
pub(crate) mod sink;
pub(crate) mod strips;

use crate::{File, NetcdfError, NewFile, NewFileError, Variable, Version};
use hyperslab_array::LocateError;
use hyperslab_store::fork::Mutex;
use hyperslab_store::{EditedFile, StoreError, turns};
use ranges::Ranges;
use std::ops::Range;
use std::sync::Arc;
use strips::{Strips, VariablePlace};

/// Bytes of the fill value that are written at once.
const PIECE: usize = 256 << 10;

/// Changes of a file.
#[derive(Debug)]
pub(crate) struct Editing {
    pub(crate) bytes: Arc<EditedFile>,
    version: Version,
    /// Gated. The number of records that the header has, and the number that it will have.
    records: Mutex<(u64, u64)>,
    /// Gated. Records whose padding is written, if this file was made here.
    padded: Option<Mutex<u64>>,
    /// Gated. Bytes of the file at its last flush.
    len: Mutex<u64>,
    changed: Vec<Changed>,
    /// Turn of the thread that flushes.
    turn: u64,
}

/// The changes of a variable.
#[derive(Debug)]
pub(crate) struct Changed {
    place: VariablePlace,
    /// Bytes of all elements, if there are no records.
    fixed: u64,
    /// One stored element of the fill value.
    fill: Vec<u8>,
    /// Gated. The bytes of the variable that are in the file.
    pub(crate) written: Mutex<Ranges>,
    /// The turns of strips are numbered from this.
    turn: u64,
}

impl Changed {
    /// Number of the turn of the strip that begins with this byte.
    pub(crate) fn turn_of(&self, first: u64) -> u64 {
        self.turn.wrapping_add(first.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31))
    }
}

impl Editing {
    /// `is_new`: no element is written yet.
    fn new(bytes: Arc<EditedFile>, file: &File, is_new: bool) -> Result<Editing, StoreError> {
        let records = file.records();
        let changed = |variable: Variable| {
            let (place, size) =
                (VariablePlace::of(&variable), variable.external_type().dtype().size() as u64);
            let all = variable.shape().iter().fold(size, |bytes, n| bytes.saturating_mul(*n));
            let mut written = Ranges::default();
            if !is_new {
                written.insert(0..all);
            }
            let (fill, written, turn) = (variable.stored_fill(), Mutex::new(written), turns::number());
            Changed { place, fixed: all, fill, written, turn }
        };
        Ok(Editing {
            len: Mutex::new(bytes.len()?),
            bytes,
            version: file.version(),
            records: Mutex::new((records, records)),
            padded: is_new.then(|| Mutex::new(0)),
            changed: file.variables().map(changed).collect(),
            turn: turns::number(),
        })
    }

    pub(crate) fn changed(&self, number: usize) -> Result<&Changed, &'static str> {
        self.changed.get(number).ok_or("no such variable in the file that is being changed")
    }

    /// Writes the fill value to the bytes of a variable that are not written.
    pub(crate) fn fill(&self, number: usize, within: &Range<u64>) -> Result<(), StoreError> {
        let Ok(changed) = self.changed(number) else { return Ok(()) };
        let gaps = changed.written.lock().gaps(within);
        if gaps.is_empty() {
            return Ok(());
        }
        if self.padded.is_some() && changed.fill.iter().all(|byte| *byte == 0) {
            // A new file has zeros where nobody wrote, and they take no room on the disk.
            changed.written.lock().insert(within.clone());
            return Ok(());
        }
        let size = changed.fill.len().max(1);
        let most = gaps.iter().map(|gap| gap.end - gap.start).max().unwrap_or(0);
        let piece = usize::try_from(most).unwrap_or(usize::MAX).min(PIECE).div_ceil(size);
        let piece = changed.fill.repeat(piece);
        for gap in gaps {
            let mut at = gap.start;
            while at < gap.end {
                let (offset, room) = changed.place.offset(at);
                let len = (gap.end - at).min(room).min(piece.len() as u64);
                let bytes = usize::try_from(len).ok().and_then(|len| piece.get(..len)).unwrap_or_default();
                self.bytes.write_at(offset, bytes)?;
                at = at.saturating_add(len.max(1));
            }
            changed.written.lock().insert(gap);
        }
        Ok(())
    }

    /// Writes the fill value to all elements of a variable that are not written, strip by strip: others
    /// may write at the same time.
    fn fill_gaps(&self, variable: &Variable) -> Result<(), LocateError> {
        let changed = self.changed(variable.number)?;
        let strips = Strips::new(variable, 0);
        let all = strips.all();
        let gaps = changed.written.lock().gaps(&all);
        for gap in gaps {
            let mut at = gap.start;
            while at < gap.end {
                let strip = strips.around(at);
                let _turn = sink::take_turn(self, changed.turn_of(strip.start))?;
                self.fill(variable.number, &strip)?;
                at = strip.end.max(at.saturating_add(1));
            }
        }
        Ok(())
    }

    /// Writes the bytes between variables, as netCDF-C does: a part of the fill value.
    fn pad(&self, records: u64) -> Result<(), StoreError> {
        let Some(padded) = &self.padded else { return Ok(()) };
        let done = *padded.lock();
        let alone = self.changed.iter().filter(|changed| changed.place.record().is_some()).count() == 1;
        for changed in &self.changed {
            let (len, numbers) = match changed.place.record() {
                // The records of a single variable lie back to back.
                Some(_) if alone => continue,
                Some(record) => (record, done.saturating_sub(1)..records),
                None if done > 0 => continue,
                None => (changed.all(records), 0..1),
            };
            let missing = usize::try_from(len.next_multiple_of(4) - len).unwrap_or(0);
            let bytes: Vec<u8> = changed.fill.iter().copied().cycle().take(missing).collect();
            if bytes.iter().all(|byte| *byte == 0) {
                continue;
            }
            for number in numbers {
                let last = number.saturating_mul(len).saturating_add(len).saturating_sub(1);
                let (offset, _) = changed.place.offset(last);
                self.bytes.write_at(offset.saturating_add(1), &bytes)?;
            }
        }
        *padded.lock() = records.saturating_add(1);
        Ok(())
    }
}

impl Changed {
    /// The bytes of all elements, with this many records.
    fn all(&self, records: u64) -> u64 {
        match self.place.record() {
            Some(record) => record.saturating_mul(records),
            None => self.fixed,
        }
    }
}

impl File {
    /// Makes a new file. It gets its name at its first flush.
    pub fn create(bytes: EditedFile, new: &NewFile) -> Result<File, NetcdfError> {
        let built = new.build()?;
        bytes.write_at(0, &built.header)?;
        bytes.set_len(built.len)?;
        Self::edited(Arc::new(bytes), true)
    }

    /// Opens a file to change it. Fails with [`NetcdfError::NotNetcdf`] if it is no classic file, and if
    /// another program is changing it.
    pub fn edit(bytes: EditedFile) -> Result<File, NetcdfError> {
        let bytes = Arc::new(bytes);
        bytes.refuse_others()?;
        let file = Self::edited(bytes.clone(), false)?;
        bytes.end_opening();
        // Bytes behind the end would read as zero.
        for variable in file.variables() {
            variable.check_inside()?;
        }
        Ok(file)
    }

    fn edited(bytes: Arc<EditedFile>, is_new: bool) -> Result<File, NetcdfError> {
        let key = bytes.key().to_owned();
        let file = File::open(bytes.clone(), &key)?;
        let editing = Arc::new(Editing::new(bytes, &file, is_new)?);
        Ok(file.with_editing(editing))
    }

    /// Returns `true` if the file is being changed.
    pub fn is_edited(&self) -> bool {
        self.inner.editing.is_some()
    }

    /// Returns the file with this many records. New records have the fill value.
    ///
    /// Other programs see the records after the next flush. Fails if there are more records already, if
    /// the file has no unlimited dimension, or if it is not being changed.
    pub fn with_records(&self, records: u64) -> Result<File, NetcdfError> {
        let refuse = |why: String| NetcdfError::New(NewFileError::file(why));
        let editing = self.editing()?;
        let now = editing.records.lock().1;
        if records < now {
            return Err(refuse(format!(
                "it has {now} records, and records are only added, not {records} kept"
            )));
        }
        if !self.dimensions().iter().any(|dimension| dimension.unlimited) {
            return Err(refuse("it has no unlimited dimension, so no records can be added".into()));
        }
        if records > editing.version.longest() {
            let (most, name) = (editing.version.longest(), editing.version.name());
            return Err(refuse(format!("{records} records were asked for, and {name} has at most {most}")));
        }
        let file = self.placed(records)?;
        let mut known = editing.records.lock();
        known.1 = known.1.max(records);
        drop(known);
        Ok(file)
    }

    /// Makes all changes permanent, and gives a new file its name.
    pub fn flush(&self) -> Result<(), NetcdfError> {
        let editing = self.editing()?;
        let stopped = |refused| StoreError::refused(refused, &*editing.bytes, editing.bytes.key());
        let _turn = turns::take(editing.turn, None).map_err(stopped)?;
        let (stored, records) = *editing.records.lock();
        for variable in self.placed(records)?.variables() {
            editing.fill_gaps(&variable).map_err(|error| variable.variable_error(error.to_string()))?;
        }
        editing.pad(records)?;
        let end = editing.changed.iter().filter_map(|changed| changed.end(records)).max().unwrap_or(0);
        if editing.bytes.len()? < end {
            editing.bytes.set_len(end)?;
        }
        if stored != records {
            editing.bytes.sync()?;
            let count = records.to_be_bytes();
            let width = if editing.version == Version::Data64 { 8 } else { 4 };
            editing.bytes.write_at(4, count.get(8 - width..).unwrap_or_default())?;
            editing.records.lock().0 = records;
        }
        editing.bytes.sync()?;
        *editing.len.lock() = editing.bytes.len()?;
        Ok(editing.bytes.publish()?)
    }

    /// Removes the records that were added since the last flush. The file must not be written any more.
    ///
    /// Elements of older records stay as they were written.
    pub fn abandon(&self) -> Result<(), NetcdfError> {
        let editing = self.editing()?;
        let len = *editing.len.lock();
        match editing.bytes.len()? > len {
            true => Ok(editing.bytes.set_len(len)?),
            false => Ok(()),
        }
    }

    /// Flushes, and makes the object of a file that goes to a server.
    pub fn finish(&self) -> Result<(), NetcdfError> {
        self.flush()?;
        Ok(self.editing()?.bytes.deliver()?)
    }

    fn editing(&self) -> Result<&Arc<Editing>, NetcdfError> {
        self.inner.editing.as_ref().ok_or_else(|| {
            let why = "it was opened to be read; open it to be changed".into();
            NetcdfError::New(NewFileError { what: self.name(), variable: None, why })
        })
    }
}

impl Changed {
    /// The end of the last record in the file.
    fn end(&self, records: u64) -> Option<u64> {
        let last = self.all(records).checked_sub(1)?;
        Some(self.place.offset(last).0.saturating_add(1))
    }
}

#[cfg(test)]
mod tests;
