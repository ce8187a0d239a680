//! Elements as a table: rows and columns of any type.

use super::cells::Reader;
use super::labels::to_json;
use super::window::Window;
use crate::{Array, Error, Json, Result};
use hyperslab_array::{ArrayError, element_count};

/// Most cells of a table. Nobody reads more at once.
const MOST_CELLS: u64 = 100_000;

/// A table.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Table {
    /// The names of fields, or the indices of the second axis; `value` if there is one column.
    pub columns: Vec<String>,
    /// The indices of rows along the first axis.
    pub index: Vec<u64>,
    /// The cells of each row.
    pub rows: Vec<Vec<Json>>,
}

impl Table {
    /// Reads a window of at most two axes: rows along the first one. A compound has a column for each
    /// field if the window has one axis.
    ///
    /// Fails with [`Error::Options`] if there are more axes.
    pub fn of(array: &Array, window: &Window, stop: &dyn Fn() -> bool) -> Result<Table> {
        let shape = window.shape();
        if shape.len() > 2 {
            return Err(Error::Options(format!(
                "array '{}': a table has two axes, and the selection has {}; give integers for the others",
                array.name(),
                shape.len()
            )));
        }
        let count = element_count(&shape).unwrap_or(u64::MAX);
        if count > MOST_CELLS {
            let bytes = count.saturating_mul(64);
            return Err(ArrayError::Memory { array: array.name(), what: "a table", bytes }.into());
        }
        let cells = Reader::of(array, false)?.read(&window.selection(array)?, stop)?;
        let values = to_json(&cells);
        let mut kept = window.kept();
        let index = kept.next().map_or_else(|| vec![0], |axis| (0..axis.len).map(|n| axis.at(n)).collect());
        if let Some(axis) = kept.next() {
            let columns = (0..axis.len).map(|n| axis.at(n).to_string()).collect();
            let width = usize::try_from(axis.len).unwrap_or(usize::MAX).max(1);
            return Ok(Table { columns, index, rows: values.chunks(width).map(<[Json]>::to_vec).collect() });
        }
        let fields: Option<Vec<String>> = values
            .first()
            .and_then(Json::as_object)
            .map(|members| members.iter().map(|(name, _)| name.clone()).collect());
        let Some(columns) = fields.filter(|fields| !fields.is_empty()) else {
            let rows = values.into_iter().map(|value| vec![value]).collect();
            return Ok(Table { columns: vec!["value".into()], index, rows });
        };
        let row = |value: Json| match value {
            Json::Object(members) => members.into_iter().map(|(_, value)| value).collect(),
            other => vec![other],
        };
        Ok(Table { columns, index, rows: values.into_iter().map(row).collect() })
    }

    /// The table as JSON.
    pub fn to_json(self) -> Json {
        Json::from([
            ("columns", Json::Array(self.columns.iter().map(|name| name.as_str().into()).collect())),
            ("index", self.index.as_slice().into()),
            ("rows", Json::Array(self.rows.into_iter().map(Json::Array).collect())),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArraySpec, MemoryStore, Ragged, VlenKind, WriteOptions, zarr};
    use std::sync::Arc;

    fn of(array: &Array, text: &str) -> Result<String> {
        let window = Window::parse(array, text).unwrap().unwrap();
        Ok(Table::of(array, &window, &|| false)?.to_json().to_text(None))
    }

    #[test]
    fn text_and_numbers() {
        let spec = ArraySpec::of_vlen(zarr::Format::V3, &[3], VlenKind::Text);
        let names: Array = zarr::Array::create(Arc::new(MemoryStore::new()), "", spec, false).unwrap().into();
        let values = Ragged::of(&[3], ["Ada", "", "Bo"].map(str::as_bytes).into_iter()).unwrap();
        names.write_ragged(&names.select(&[]).unwrap(), &values.into(), WriteOptions::default()).unwrap();
        let expected = r#"{"columns": ["value"], "index": [0, 2], "rows": [["Ada"], ["Bo"]]}"#;
        assert_eq!(of(&names, "::2").unwrap(), expected);
        let spec = ArraySpec::new(zarr::Format::V2, &[2, 2, 2], "<f4".parse().unwrap());
        let cube: Array = zarr::Array::create(Arc::new(MemoryStore::new()), "", spec, false).unwrap().into();
        cube.write_slice(&[], &[0.1_f32, 1., 2., 3., 4., 5., 6., f32::NAN]).unwrap();
        let expected = r#"{"columns": ["1", "0"], "index": [0, 1], "rows": [[1, 0.1], [3, 2]]}"#;
        assert_eq!(of(&cube, "0, :, ::-1").unwrap(), expected);
        assert_eq!(
            of(&cube, "1, 1, 1").unwrap(),
            r#"{"columns": ["value"], "index": [0], "rows": [["NaN"]]}"#
        );
        assert!(of(&cube, "").unwrap_err().to_string().contains("give integers"));
    }
}
