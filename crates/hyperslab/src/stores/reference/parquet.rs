//! Reads one Parquet file of references: each row is for the chunk with that number.
//!
//! | column | what |
//! |---|---|
//! | `path` | the URL of the object; null: see `raw` |
//! | `offset`, `size` | a range of its bytes; both 0: the whole object |
//! | `raw` | the bytes themselves; null: see `path` |
//!
//! A row with neither `path` nor `raw` stands for an absent chunk.
//!
//! The `parquet` crate trusts the sizes that a file states, so they are checked first. A panic in
//! the crate becomes an error. A few bytes can represent millions of rows, or a long text in each
//! of them. Rows that share a text in the file share it in memory, and the memory of all rows is
//! bounded.

use super::pages;
use bytes::Bytes;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The most decoded bytes of the columns of a file.
/// The usual 10 000 references take a few MB, even if each has its own URL.
const LARGEST: u64 = 256 << 20;

/// The most bytes of memory for the rows of a file: about five million rows.
pub(super) const MOST_MEMORY: usize = 256 << 20;

/// Bytes of memory per row, here and in [`Record`](super::records).
const ROW: usize = 48;

/// Bytes of memory per text, without its characters, which count with the columns.
const TEXT: usize = 96;

/// Number of rows to read at once.
const BATCH: usize = 8192;

/// The rows of a file. A column that does not exist has no rows.
#[derive(Debug, Default)]
pub(super) struct Columns {
    pub(super) path: Texts,
    pub(super) offset: Vec<i64>,
    pub(super) size: Vec<i64>,
    pub(super) raw: Texts,
}

/// The texts of rows. Rows that share a text in the file share it here.
#[derive(Debug, Default)]
pub(super) struct Texts {
    /// The number of each row's text, or [`NULL`].
    rows: Vec<u32>,
    values: Vec<ByteArray>,
    /// Text numbers by address and length. `values` keeps the bytes at their addresses.
    numbers: HashMap<(usize, usize), u32>,
}

const NULL: u32 = u32::MAX;

impl Texts {
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The number of a row's text.
    pub(super) fn number(&self, row: usize) -> Option<u32> {
        self.rows.get(row).copied().filter(|number| *number != NULL)
    }

    /// The text of a row.
    pub(super) fn get(&self, row: usize) -> Option<&ByteArray> {
        self.values.get(self.number(row)? as usize)
    }

    /// All texts, ordered by number.
    pub(super) fn into_values(self) -> Vec<ByteArray> {
        self.values
    }

    fn push(&mut self, text: ByteArray, memory: &mut Memory) -> Result<(), Fault> {
        let bytes = text.data();
        let address = if bytes.is_empty() { 0 } else { bytes.as_ptr() as usize };
        let next = self.values.len() as u32;
        let number = *self.numbers.entry((address, bytes.len())).or_insert(next);
        if number == next {
            memory.take(TEXT)?;
            self.values.push(text);
        }
        self.rows.push(number);
        Ok(())
    }
}

/// The reason why a file cannot be read.
enum Fault {
    Parquet(ParquetError),
    Other(String),
}

impl From<ParquetError> for Fault {
    fn from(error: ParquetError) -> Self {
        Fault::Parquet(error)
    }
}

impl From<String> for Fault {
    fn from(why: String) -> Self {
        Fault::Other(why)
    }
}

/// Bytes of memory left for rows.
struct Memory(usize);

impl Memory {
    fn take(&mut self, bytes: usize) -> Result<(), Fault> {
        self.0 = self.0.checked_sub(bytes).ok_or_else(too_much)?;
        Ok(())
    }
}

/// The error if rows take too much memory.
pub(super) fn too_much() -> String {
    format!(
        "its rows take more than {MOST_MEMORY} bytes of memory: write files of fewer rows (a smaller record_size)"
    )
}

/// Reads a file of at most `most` rows.
pub(super) fn read(file: Bytes, most: usize) -> Result<Columns, String> {
    match catch_unwind(AssertUnwindSafe(|| columns(file, most))) {
        Ok(Ok(columns)) => Ok(columns),
        Ok(Err(Fault::Parquet(error))) => Err(error.to_string()),
        Ok(Err(Fault::Other(why))) => Err(why),
        Err(_) => Err("it is damaged".into()),
    }
}

fn columns(file: Bytes, most: usize) -> Result<Columns, Fault> {
    let reader = SerializedFileReader::new(file.clone())?;
    let mut columns = Columns::default();
    let (mut before, mut bytes, mut memory) = (0usize, LARGEST, Memory(MOST_MEMORY));
    for number in 0..reader.num_row_groups() {
        let group = reader.get_row_group(number)?;
        let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(usize::MAX);
        if rows > most.saturating_sub(before) {
            return Err(format!("it has more than the {most} rows that '.zmetadata' says").into());
        }
        memory.take(rows.saturating_mul(ROW))?;
        for (n, column) in group.metadata().columns().iter().enumerate() {
            let description = column.column_descr();
            let name = description.path().string();
            let into = match name.as_str() {
                "path" => Column::Texts(&mut columns.path),
                "raw" => Column::Texts(&mut columns.raw),
                "offset" => Column::Numbers(&mut columns.offset),
                "size" => Column::Numbers(&mut columns.size),
                _ => continue,
            };
            if description.max_rep_level() > 0 || description.max_def_level() > 1 {
                return Err(format!("its column '{name}' has lists or members").into());
            }
            bytes = bytes
                .checked_sub(decoded_column_len(&file, column)?)
                .ok_or_else(|| format!("its columns are more than {LARGEST} bytes"))?;
            into.read(
                &name,
                (before, rows),
                group.get_column_reader(n)?,
                description.max_def_level() == 0,
                &mut memory,
            )?;
        }
        before += rows;
    }
    Ok(columns)
}

/// The decoded bytes of a column's pages.
fn decoded_column_len(file: &[u8], column: &ColumnChunkMetaData) -> Result<u64, Fault> {
    // `byte_range` panics if one of these is negative.
    let first = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
    if first < 0 || column.compressed_size() < 0 {
        return Err("the place of a column is negative".to_owned().into());
    }
    let (start, len) = column.byte_range();
    let range = usize::try_from(start).ok().zip(usize::try_from(start.saturating_add(len)).ok());
    let pages = range.and_then(|(start, end)| file.get(start..end));
    let decoded = pages.map_or(Err("it ends before its columns"), pages::decoded_len);
    Ok(decoded.map_err(|why| why.to_owned())?)
}

/// The destination of a column's values.
enum Column<'a> {
    Texts(&'a mut Texts),
    Numbers(&'a mut Vec<i64>),
}

enum Value {
    Null,
    Number(i64),
    Text(ByteArray),
}

impl Column<'_> {
    /// Reads all rows of a group and appends them to the rows before.
    fn read(
        mut self,
        name: &str,
        (before, rows): (usize, usize),
        column: ColumnReader,
        required: bool,
        memory: &mut Memory,
    ) -> Result<(), Fault> {
        let (found, room) = match &mut self {
            Column::Texts(texts) => (texts.len(), texts.rows.try_reserve_exact(rows)),
            Column::Numbers(numbers) => (numbers.len(), numbers.try_reserve_exact(rows)),
        };
        if found != before {
            return Err(format!("it has two columns '{name}'").into());
        }
        room.map_err(|_| format!("there is no memory for {rows} rows"))?;
        let mut push = |value: Value| self.push(name, value, memory);
        let kind = match column {
            ColumnReader::ByteArrayColumnReader(reader) => {
                return for_each_value(reader, name, rows, required, &mut |text| {
                    push(text.map_or(Value::Null, Value::Text))
                });
            }
            ColumnReader::Int64ColumnReader(reader) => {
                return for_each_value(reader, name, rows, required, &mut |number| {
                    push(number.map_or(Value::Null, Value::Number))
                });
            }
            ColumnReader::Int32ColumnReader(reader) => {
                return for_each_value(reader, name, rows, required, &mut |number| {
                    push(number.map_or(Value::Null, |number| Value::Number(number.into())))
                });
            }
            // pandas writes a column of only NaN like this.
            ColumnReader::DoubleColumnReader(reader) => {
                return for_each_value(reader, name, rows, required, &mut |number| {
                    push(number.filter(|n| !n.is_nan()).map_or(Value::Null, |n| Value::Number(n as i64)))
                });
            }
            ColumnReader::BoolColumnReader(_) => "BOOLEAN",
            ColumnReader::Int96ColumnReader(_) => "INT96",
            ColumnReader::FloatColumnReader(_) => "FLOAT",
            ColumnReader::FixedLenByteArrayColumnReader(_) => "FIXED_LEN_BYTE_ARRAY",
        };
        Err(format!("its column '{name}' is of type {kind}").into())
    }

    fn push(&mut self, name: &str, value: Value, memory: &mut Memory) -> Result<(), Fault> {
        match (self, value) {
            (Column::Texts(texts), Value::Null) => texts.rows.push(NULL),
            (Column::Texts(texts), Value::Text(text)) => texts.push(text, memory)?,
            (Column::Texts(_), Value::Number(_)) => {
                return Err(format!("its column '{name}' holds numbers").into());
            }
            // Null counts as 0, which is also the value in rows with their own bytes.
            (Column::Numbers(numbers), Value::Null) => numbers.push(0),
            (Column::Numbers(numbers), Value::Number(number)) => numbers.push(number),
            (Column::Numbers(_), Value::Text(_)) => {
                return Err(format!("its column '{name}' holds text").into());
            }
        }
        Ok(())
    }
}

/// Calls `take` with the value of each row; `None` for null.
fn for_each_value<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    name: &str,
    rows: usize,
    required: bool,
    take: &mut dyn FnMut(Option<T::T>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let (mut levels, mut values) = (Vec::new(), Vec::new());
    let mut read = 0;
    while read < rows {
        levels.clear();
        values.clear();
        let nulls = (!required).then_some(&mut levels);
        let (more, _, _) = reader.read_records((rows - read).min(BATCH), nulls, None, &mut values)?;
        if more == 0 {
            return Err(format!("'{name}' has {read} of {rows} values").into());
        }
        read += more;
        let mut found = values.drain(..);
        if required {
            found.try_for_each(|value| take(Some(value)))?;
            continue;
        }
        for level in &levels {
            let value = if *level == 0 { None } else { found.next() };
            take(value)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::data_type::{ByteArrayType, Int64Type};
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    use std::sync::Arc;

    /// A file of `rows` rows that all have these bytes, or none.
    fn file(rows: usize, raw: Option<&[u8]>) -> Bytes {
        let schema = "message refs { OPTIONAL BYTE_ARRAY raw; REQUIRED INT64 offset; }";
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let mut stored = Vec::new();
        let mut writer = SerializedFileWriter::new(&mut stored, schema, Arc::default()).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let values =
            vec![ByteArray::from(raw.unwrap_or_default().to_vec()); if raw.is_some() { rows } else { 0 }];
        let levels = vec![i16::from(raw.is_some()); rows];
        column.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(&vec![7; rows], None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        writer.close().unwrap();
        stored.into()
    }

    /// Each byte becomes a negative number in turn.
    #[test]
    fn negative_places_are_refused() {
        let whole = file(9, Some(b"ab"));
        let refused = (0..whole.len()).filter(|at| {
            let mut damaged = whole.to_vec();
            damaged[*at] = 1;
            matches!(read(damaged.into(), 9), Err(why) if why == "the place of a column is negative")
        });
        assert!(refused.count() >= 2);
    }

    #[test]
    fn rows_share_texts() {
        let rows = 2 * BATCH + 5;
        let found = read(file(rows, Some(&[b'x'; 1000])), rows).unwrap();
        assert_eq!((found.raw.len(), found.offset.len(), found.path.len()), (rows, rows, 0));
        assert_eq!((found.raw.get(rows - 1).unwrap().data(), found.offset[rows - 1]), (&[b'x'; 1000][..], 7));
        assert_eq!((found.raw.number(3), found.raw.number(rows)), (Some(0), None));
        assert_eq!(found.raw.into_values().len(), 1);
        let empty = read(file(9, None), 9).unwrap();
        assert_eq!((empty.raw.len(), empty.raw.get(0)), (9, None));
        assert_eq!(empty.raw.into_values().len(), 0);
    }

    #[test]
    fn rows_have_a_bound() {
        let most = MOST_MEMORY / ROW;
        assert!(Memory(MOST_MEMORY).take(most * ROW).is_ok());
        let why = read(file(most + 1, None), usize::MAX).unwrap_err();
        assert!(why.contains("more than 268435456 bytes of memory"), "{why}");
        let why = read(file(10, None), 9).unwrap_err();
        assert!(why.contains("more than the 9 rows"), "{why}");
    }
}
