//! Values of variables as CDL.

use super::cdl::{Halt, Member, Written};
use super::cdl_words::{float, quoted};
use super::cells::{Cell, Reader};
use super::csv::blocks;
use super::window::Window;
use crate::meaning::{Decoding, MissingValue, Number};
use crate::nodes::element::swap_bytes;
use crate::{Array, ByteOrder, Error, Kind, Selection};
use hyperslab_netcdf::netcdf4::written::default_fill;
use std::io::Write;

/// Characters of a line.
const LINE: usize = 80;
/// Most elements of a variable that is shorter than its unlimited dimensions. It is read as a whole.
const LARGEST: u64 = 1 << 26;

/// Writes the values of a variable. `head`: its name and `=`.
pub(super) fn write(
    member: &Member,
    head: &str,
    raw: bool,
    out: &mut dyn Write,
    stop: &dyn Fn() -> bool,
) -> Written<()> {
    let array = &member.array;
    let shape = member.variable.shape.to_vec();
    if shape.contains(&0) {
        return Ok(());
    }
    let is_char = array.dtype().kind() == Kind::Bytes && array.dtype().size() == 1 && array.vlen().is_none();
    let mut rows = Rows {
        out,
        line: 0,
        at: 0,
        total: shape.iter().product(),
        row: shape.last().copied().unwrap_or(1),
        is_char: is_char && !shape.is_empty(),
        text: String::new(),
        is_table: shape.len() > 1,
        failure: None,
    };
    rows.start(head)?;
    let times = Reader::of(array, false)?;
    let is_time = times
        .decoding()
        .is_some_and(|decoding| decoding.times.as_ref().is_some_and(|times| times.calendar().is_some()));
    let reader = if is_time && !raw { times } else { Reader::of(array, true)? };
    let fill = fill_of(array, &member.variable.missing);
    let word = |cell: &Cell, size: usize| word(cell, size, fill.as_ref());
    let all = Window::all(array)?;
    if array.shape() == shape.as_slice() {
        blocks(&all, &mut |_, block| {
            let cells = reader.read(&block.selection(array)?, stop)?;
            for cell in &cells.cells {
                if let Err(halt) = rows.push(&word(cell, cells.float_size), cell) {
                    return match halt {
                        Halt::Failed(error) => Err(error),
                        Halt::Output(error) => {
                            rows.failure = Some(error);
                            Ok(false)
                        }
                    };
                }
            }
            Ok(true)
        })?;
        return rows.failure.take().map_or(Ok(()), |error| Err(Halt::Output(error)));
    }
    if rows.total > LARGEST {
        let why = "it is shorter than its unlimited dimensions; write its values with hyperslab show --csv";
        return Err(Halt::Failed(Error::Options(format!("array '{}': {why}", array.name()))));
    }
    let own = array.shape().to_vec();
    let cells = if own.contains(&0) { None } else { Some(reader.read(&Selection::all(&own), stop)?) };
    for n in 0..rows.total {
        let (mut left, mut place, mut stride, mut inside) = (n, 0, 1, true);
        for (len, all) in own.iter().zip(&shape).rev() {
            inside &= left % all < *len;
            place += left % all * stride;
            stride *= len;
            left /= all;
        }
        let cell = cells.as_ref().filter(|_| inside).and_then(|cells| cells.cells.get(place as usize));
        let size = cells.as_ref().map_or(8, |cells| cells.float_size);
        match cell {
            Some(cell) => rows.push(&word(cell, size), cell)?,
            None => rows.push("_", &Cell::Missing)?,
        }
    }
    Ok(())
}

/// The value that is written as `_`.
fn fill_of(array: &Array, missing: &MissingValue) -> Option<Cell> {
    if array.vlen().is_some() {
        return array.as_hdf5().map(|_| Cell::Text(String::new()));
    }
    if !matches!(array.dtype().kind(), Kind::Int | Kind::UInt | Kind::Float) {
        return None;
    }
    let dtype = array.dtype();
    let mut bytes = match missing {
        MissingValue::Value(bytes) => bytes.clone(),
        // netCDF has no default fill value for bytes. Zarr has none for any type.
        _ if dtype.size() == 1 || array.as_zarr().is_some() => return None,
        _ => default_fill(dtype)?,
    };
    if dtype.order() != ByteOrder::NATIVE {
        swap_bytes(&mut bytes, dtype.number_size());
    }
    match Decoding::stored(dtype).numbers(&bytes).get(0) {
        Number::Int(int) => Some(Cell::Int(int)),
        Number::Float(float) => Some(Cell::Float(float)),
        Number::Missing => Some(Cell::Float(f64::NAN)),
    }
}

fn word(cell: &Cell, float_size: usize, fill: Option<&Cell>) -> String {
    let is_fill = match (cell, fill) {
        (Cell::Float(one), Some(Cell::Float(fill))) => one == fill || one.is_nan() && fill.is_nan(),
        (one, Some(fill)) => one == fill,
        (_, None) => false,
    };
    match cell {
        _ if is_fill => "_".into(),
        Cell::Missing => "_".into(),
        Cell::Bool(on) => u8::from(*on).to_string(),
        Cell::Int(int) => int.to_string(),
        Cell::Float(one) => float(*one, float_size),
        Cell::Complex(real, imaginary) => {
            format!("{{{}, {}}}", float(*real, float_size), float(*imaginary, float_size))
        }
        Cell::Time(text) | Cell::Text(text) => quoted(text),
        Cell::Other(text) => quoted(text),
    }
}

/// Arranges words in rows.
struct Rows<'a> {
    out: &'a mut dyn Write,
    /// Characters of the present line.
    line: usize,
    /// Values that are written.
    at: u64,
    total: u64,
    /// Values of a row.
    row: u64,
    /// A row of characters is one text.
    is_char: bool,
    text: String,
    /// Lines of rows are indented.
    is_table: bool,
    failure: Option<std::io::Error>,
}

impl Rows<'_> {
    fn put(&mut self, text: &str) -> Written<()> {
        self.out.write_all(text.as_bytes()).map_err(Halt::Output)
    }

    fn start(&mut self, head: &str) -> Written<()> {
        self.put(&if self.is_table { format!("\n{head}\n  ") } else { format!("\n{head} ") })?;
        self.line = if self.is_table { 2 } else { head.chars().count() + 1 };
        Ok(())
    }

    fn push(&mut self, word: &str, cell: &Cell) -> Written<()> {
        self.at += 1;
        let ends_row = self.at.is_multiple_of(self.row.max(1));
        if self.is_char {
            match cell {
                Cell::Text(text) if !text.is_empty() => self.text.push_str(text),
                _ => self.text.push('\0'),
            }
            if !ends_row {
                return Ok(());
            }
            let text = std::mem::take(&mut self.text);
            return self.word(&quoted(text.trim_end_matches('\0')), true);
        }
        self.word(word, ends_row)
    }

    fn word(&mut self, word: &str, ends_row: bool) -> Written<()> {
        let end = match (self.at == self.total, ends_row) {
            (true, _) => " ;\n",
            (_, true) if self.is_table => ",\n  ",
            _ => ", ",
        };
        let len = word.chars().count() + 2;
        if self.line + len >= LINE && self.line > 4 {
            self.put("\n    ")?;
            self.line = 4;
        }
        self.put(word)?;
        self.put(end)?;
        self.line = if end.starts_with(",\n") { 2 } else { self.line + len };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(row: u64, is_table: bool, is_char: bool, words: &[&str]) -> String {
        let mut out = Vec::new();
        let mut rows = Rows {
            out: &mut out,
            line: 0,
            at: 0,
            total: words.len() as u64,
            row,
            is_char,
            text: String::new(),
            is_table,
            failure: None,
        };
        assert!(rows.start(" a =").is_ok());
        for word in words {
            assert!(rows.push(word, &Cell::Text((*word).to_owned())).is_ok());
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn values_in_rows() {
        assert_eq!(rows(3, false, false, &["1", "2", "3"]), "\n a = 1, 2, 3 ;\n");
        assert_eq!(rows(2, true, false, &["1", "2", "3", "4"]), "\n a =\n  1, 2,\n  3, 4 ;\n");
        assert_eq!(rows(2, true, true, &["a", "b", "c", ""]), "\n a =\n  \"ab\",\n  \"c\" ;\n");
        let long = rows(5, false, false, &["123456789012345678"; 5]);
        assert_eq!(long.lines().nth(2), Some("    123456789012345678, 123456789012345678 ;"), "{long}");
    }

    #[test]
    fn missing_values() {
        let fill = Cell::Float(f64::NAN);
        assert_eq!(word(&Cell::Float(f64::NAN), 4, Some(&fill)), "_");
        assert_eq!(word(&Cell::Float(f64::NAN), 4, None), "NaNf");
        assert_eq!(word(&Cell::Int(-999), 8, Some(&Cell::Int(-999))), "_");
        assert_eq!(word(&Cell::Time("2000-01-01".into()), 8, None), "\"2000-01-01\"");
    }
}
