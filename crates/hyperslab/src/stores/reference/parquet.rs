//! One Parquet file of references: so many rows, each for the chunk with that number.
//!
//! | column | what |
//! |---|---|
//! | `path` | the URL of the object; null: see `raw` |
//! | `offset`, `size` | bytes of it; both 0: all of it |
//! | `raw` | the bytes themselves; null: see `path` |
//!
//! A row with neither is of a chunk that is absent. The crate that reads Parquet trusts what a file
//! says of itself: sizes are checked before, and a panic there is an error here.

use bytes::Bytes;
use parquet::basic::Type;
use parquet::column::reader::ColumnReader;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The most bytes that the columns of a file may be. 10 000 references, the usual number, are some
/// MB even where each has a URL of its own.
const LARGEST: i64 = 256 << 20;

/// What a file holds, row by row. A column that is not there has no rows.
#[derive(Debug, Default)]
pub(super) struct Columns {
    pub(super) path: Vec<Option<ByteArray>>,
    pub(super) offset: Vec<i64>,
    pub(super) size: Vec<i64>,
    pub(super) raw: Vec<Option<ByteArray>>,
}

/// Reads a file of at most `most` rows.
pub(super) fn read(file: Bytes, most: usize) -> Result<Columns, String> {
    match catch_unwind(AssertUnwindSafe(|| columns(file, most))) {
        Ok(Ok(columns)) => columns,
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("it is damaged".into()),
    }
}

fn columns(file: Bytes, most: usize) -> Result<Result<Columns, String>, ParquetError> {
    let reader = SerializedFileReader::new(file)?;
    let mut columns = Columns::default();
    let mut left = most;
    for number in 0..reader.num_row_groups() {
        let group = reader.get_row_group(number)?;
        let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(usize::MAX);
        let Some(rest) = left.checked_sub(rows) else {
            return Ok(Err(format!("it has more than the {most} rows that '.zmetadata' says")));
        };
        left = rest;
        let bytes = |column: &parquet::file::metadata::ColumnChunkMetaData| column.uncompressed_size();
        let total = group.metadata().columns().iter().map(bytes).fold(0, i64::saturating_add);
        if !(0..=LARGEST).contains(&total) {
            return Ok(Err(format!("its columns are more than {LARGEST} bytes")));
        }
        for (n, column) in group.metadata().columns().iter().enumerate() {
            let description = column.column_descr();
            let name = description.path().string();
            if !matches!(name.as_str(), "path" | "offset" | "size" | "raw") {
                continue;
            }
            if description.max_rep_level() > 0 || description.max_def_level() > 1 {
                return Ok(Err(format!("its column '{name}' has lists or members")));
            }
            let found = values(group.get_column_reader(n)?, rows, description.max_def_level() == 0)?;
            let found = match found {
                Ok(found) if found.len() == rows => found,
                Ok(found) => return Ok(Err(format!("'{name}' has {} of {rows} values", found.len()))),
                Err(kind) => return Ok(Err(format!("its column '{name}' is of type {kind}"))),
            };
            match name.as_str() {
                "path" | "raw" => {
                    let texts: Option<Vec<_>> = found.into_iter().map(Value::text).collect();
                    let Some(texts) = texts else {
                        return Ok(Err(format!("its column '{name}' holds numbers")));
                    };
                    if name == "path" { &mut columns.path } else { &mut columns.raw }.extend(texts);
                }
                _ => {
                    let numbers: Option<Vec<_>> = found.into_iter().map(Value::number).collect();
                    let Some(numbers) = numbers else {
                        return Ok(Err(format!("its column '{name}' holds text")));
                    };
                    if name == "offset" { &mut columns.offset } else { &mut columns.size }.extend(numbers);
                }
            }
        }
    }
    Ok(Ok(columns))
}

enum Value {
    Null,
    Number(i64),
    Text(ByteArray),
}

impl Value {
    fn text(self) -> Option<Option<ByteArray>> {
        match self {
            Value::Null => Some(None),
            Value::Text(text) => Some(Some(text)),
            Value::Number(_) => None,
        }
    }

    /// What is missing is 0, as it is where bytes are written in the file.
    fn number(self) -> Option<i64> {
        match self {
            Value::Null => Some(0),
            Value::Number(number) => Some(number),
            Value::Text(_) => None,
        }
    }
}

/// All values of a column. `Err`: the type, if it is none of those that are written.
fn values(
    column: ColumnReader,
    rows: usize,
    required: bool,
) -> Result<Result<Vec<Value>, Type>, ParquetError> {
    let (mut levels, mut found) = (Vec::new(), Vec::new());
    macro_rules! all {
        ($reader:expr, $value:expr) => {{
            let mut reader = $reader;
            let mut values = Vec::new();
            let mut records = 0;
            while records < rows {
                let levels = (!required).then_some(&mut levels);
                let (more, _, _) = reader.read_records(rows - records, levels, None, &mut values)?;
                if more == 0 {
                    break;
                }
                records += more;
            }
            found.extend(values.into_iter().map($value));
        }};
    }
    match column {
        ColumnReader::ByteArrayColumnReader(reader) => all!(reader, Value::Text),
        ColumnReader::Int64ColumnReader(reader) => all!(reader, Value::Number),
        ColumnReader::Int32ColumnReader(reader) => all!(reader, |number: i32| Value::Number(number.into())),
        // pandas writes a column of nothing but NaN so.
        ColumnReader::DoubleColumnReader(reader) => {
            all!(reader, |number: f64| if number.is_nan() {
                Value::Null
            } else {
                Value::Number(number as i64)
            })
        }
        ColumnReader::BoolColumnReader(_) => return Ok(Err(Type::BOOLEAN)),
        ColumnReader::Int96ColumnReader(_) => return Ok(Err(Type::INT96)),
        ColumnReader::FloatColumnReader(_) => return Ok(Err(Type::FLOAT)),
        ColumnReader::FixedLenByteArrayColumnReader(_) => return Ok(Err(Type::FIXED_LEN_BYTE_ARRAY)),
    }
    if required {
        return Ok(Ok(found));
    }
    let mut found = found.into_iter();
    let next = |level: &i16| if *level == 0 { Some(Value::Null) } else { found.next() };
    Ok(Ok(levels.iter().map_while(next).collect()))
}
