//! Selections as bytes, NumPy's format, JSON and CSV.

use crate::answer::{Asset, Source};
use bytes::Bytes;
use hyperslab::array::{ArrayError, element_count};
use hyperslab::look::npy_header;
use hyperslab::zarr::fill_to_json;
use hyperslab::{Array, ByteOrder, DataType, Error, Json, Kind, ReadOptions, Result, Selection, VlenKind};

/// A form of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Elements in C order, little-endian.
    Raw,
    /// A `.npy` file.
    Npy,
    /// Nested lists.
    Json,
    /// One line for each index of all axes but the last.
    Csv,
}

impl Form {
    pub(crate) fn parse(text: &str) -> Result<Form> {
        Ok(match text {
            "raw" => Form::Raw,
            "npy" => Form::Npy,
            "json" => Form::Json,
            "csv" => Form::Csv,
            _ => {
                return Err(Error::Options(format!(
                    "format: expected raw, npy, json or csv, found {text:?}"
                )));
            }
        })
    }

    pub(crate) fn media(self) -> &'static str {
        match self {
            Form::Raw | Form::Npy => "application/octet-stream",
            Form::Json => "application/json",
            Form::Csv => "text/csv; charset=utf-8",
        }
    }

    /// The largest number of bytes for one byte of elements: `-128,` and `true,` in JSON.
    fn growth(self) -> u64 {
        if matches!(self, Form::Raw | Form::Npy) { 1 } else { 6 }
    }
}

/// Reads a selection. `most`: the most bytes of an answer.
pub(crate) fn read(
    array: &Array,
    selection: &Selection,
    form: Form,
    most: u64,
    ask: &dyn Fn() -> bool,
) -> Result<Asset> {
    let shape = selection.shape();
    bounded(array, selection, most / form.growth())?;
    if matches!(form, Form::Json | Form::Csv) {
        listable(array, &shape, most)?;
    }
    let options = ReadOptions { interrupt: Some(ask), ..ReadOptions::default() };
    let made = match form {
        Form::Raw => elements(array, selection, options)?.1,
        Form::Npy => npy(array, selection, options)?,
        Form::Json => {
            let mut text = String::new();
            nested(&listed(array, selection, options)?, &shape, &mut text);
            text.into_bytes()
        }
        Form::Csv => csv(&listed(array, selection, options)?, &shape).into_bytes(),
    };
    let made = Bytes::from(made);
    Ok(Asset { len: made.len() as u64, tag: None, media: form.media(), source: Source::Memory(made) })
}

/// Fails if a selection has more than `most` bytes.
pub(crate) fn bounded(array: &Array, selection: &Selection, most: u64) -> Result<()> {
    let size = if array.vlen().is_some() { 16 } else { array.dtype().size() as u64 };
    let bytes =
        element_count(&selection.shape()).and_then(|count| count.checked_mul(size)).unwrap_or(u64::MAX);
    if bytes > most {
        return Err(ArrayError::Memory { array: array.name(), what: "an answer", bytes }.into());
    }
    Ok(())
}

/// Memory of one element or list while an answer is text: 24 bytes for the value, up to 40 for its text.
const LISTED: u64 = 64;

/// Fails if the elements and lists of a shape take more than `most` bytes as text. An axis without
/// elements may be in any number of lists.
pub(crate) fn listable(array: &Array, shape: &[u64], most: u64) -> Result<()> {
    let (mut lists, mut all) = (1_u64, 0_u64);
    for len in shape {
        lists = lists.saturating_mul(*len);
        all = all.saturating_add(lists);
    }
    let bytes = all.saturating_mul(LISTED);
    if bytes > most {
        return Err(ArrayError::Memory { array: array.name(), what: "an answer", bytes }.into());
    }
    Ok(())
}

/// Little-endian elements in the machine's byte order.
pub(crate) fn native(dtype: DataType, mut little: Vec<u8>) -> Vec<u8> {
    if ByteOrder::NATIVE != ByteOrder::Little && dtype.has_order() {
        little.chunks_exact_mut(dtype.number_size()).for_each(<[u8]>::reverse);
    }
    little
}

/// Elements in C order, little-endian, and their type.
pub(crate) fn elements(
    array: &Array,
    selection: &Selection,
    options: ReadOptions<'_>,
) -> Result<(DataType, Vec<u8>)> {
    let memory = array.read(selection, options)?;
    let (dtype, mut bytes) = (array.dtype(), memory.as_slice().to_vec());
    if array.structure().is_none() && dtype.order() == ByteOrder::Big && dtype.has_order() {
        bytes.chunks_exact_mut(dtype.number_size()).for_each(<[u8]>::reverse);
    }
    Ok((dtype.with_order(ByteOrder::Little), bytes))
}

/// A `.npy` file of version 1.
fn npy(array: &Array, selection: &Selection, options: ReadOptions<'_>) -> Result<Vec<u8>> {
    if array.structure().is_some()
        || array.optional().is_some()
        || matches!(array.dtype().kind(), Kind::Small(_))
    {
        let why = format!(
            "elements of type {} have no form in a .npy file; ask for format=raw",
            array.type_words()
        );
        return Err(Error::Options(why));
    }
    let (dtype, bytes) = elements(array, selection, options)?;
    Ok([npy_header(&format!("'{}'", dtype.numpy()), &selection.shape()), bytes].concat())
}

/// The elements as JSON, in C order.
pub(crate) fn listed(array: &Array, selection: &Selection, options: ReadOptions<'_>) -> Result<Vec<Json>> {
    let unsaid = || unsaid(array);
    match array.vlen() {
        Some(VlenKind::Text) => {
            let found = array.read_ragged(selection, options)?;
            let at = |offset: i64| usize::try_from(offset).unwrap_or(0);
            let text = |(number, pair): (usize, &[i64])| {
                let is_null = found.validity.as_ref().is_some_and(|valid| valid.get(number) == Some(&false));
                let bytes = found.values.as_slice().get(at(pair[0])..at(pair[1])).unwrap_or_default();
                if is_null { Json::Null } else { String::from_utf8_lossy(bytes).as_ref().into() }
            };
            Ok(found.offsets.windows(2).enumerate().map(text).collect())
        }
        Some(_) => Err(unsaid()),
        None if array.structure().is_some() || array.optional().is_some() => Err(unsaid()),
        None => {
            let (dtype, bytes) = elements(array, selection, options)?;
            each(array, dtype, &bytes)
        }
    }
}

/// Little-endian elements as JSON.
pub(crate) fn each(array: &Array, dtype: DataType, little: &[u8]) -> Result<Vec<Json>> {
    if dtype.size() == 0 {
        return Err(unsaid(array));
    }
    little.chunks_exact(dtype.size()).map(|one| value(dtype, one).ok_or_else(|| unsaid(array))).collect()
}

fn unsaid(array: &Array) -> Error {
    let why = format!("elements of type {} have no form in JSON; ask for format=raw", array.type_words());
    Error::Options(why)
}

/// An element as JSON: numbers that JSON does not have are text.
fn value(dtype: DataType, bytes: &[u8]) -> Option<Json> {
    match dtype.kind() {
        // Text with padding.
        Kind::Bytes => {
            let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            Some(String::from_utf8_lossy(bytes.get(..end)?).as_ref().into())
        }
        // A fill value keeps the bits of a NaN. As elements, all are NaN.
        Kind::Float | Kind::Complex | Kind::Small(_) => fill_to_json(dtype, bytes).map(without_bits),
        _ => fill_to_json(dtype, bytes),
    }
}

/// NaNs of any bits as `"NaN"`.
fn without_bits(json: Json) -> Json {
    match json {
        Json::String(text) if text.starts_with("0x") => "NaN".into(),
        Json::Array(parts) => Json::Array(parts.into_iter().map(without_bits).collect()),
        other => other,
    }
}

/// Appends nested lists.
fn nested(values: &[Json], shape: &[u64], text: &mut String) {
    let Some((len, inner)) = shape.split_first() else {
        text.push_str(&values.first().map_or_else(|| "null".into(), |value| value.to_text(None)));
        return;
    };
    let step = inner.iter().fold(1u64, |n, axis| n.saturating_mul(*axis));
    let step = usize::try_from(step).unwrap_or(usize::MAX);
    text.push('[');
    for at in 0..*len {
        if at > 0 {
            text.push_str(", ");
        }
        let start = usize::try_from(at).unwrap_or(usize::MAX).saturating_mul(step);
        nested(values.get(start..start.saturating_add(step)).unwrap_or_default(), inner, text);
    }
    text.push(']');
}

/// Lines of values, separated by commas.
fn csv(values: &[Json], shape: &[u64]) -> String {
    let width = shape.last().copied().unwrap_or(1);
    let width = usize::try_from(width).unwrap_or(usize::MAX).max(1);
    let cell = |value: &Json| match value {
        Json::String(text) if text.contains([',', '"', '\n', '\r']) => {
            format!("\"{}\"", text.replace('"', "\"\""))
        }
        Json::String(text) => text.clone(),
        Json::Null => String::new(),
        Json::Array(_) => format!("\"{}\"", value.to_text(None).replace('"', "\"\"")),
        other => other.to_text(None),
    };
    let line = |row: &[Json]| row.iter().map(cell).collect::<Vec<_>>().join(",") + "\r\n";
    values.chunks(width).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyperslab::{ArraySpec, Format, Index, MemoryStore, Ragged, WriteOptions};
    use std::sync::Arc;

    fn array(dtype: &str, shape: &[u64], bytes: &[u8]) -> Array {
        let spec = ArraySpec::new(Format::ZarrV2.zarr().unwrap(), shape, dtype.parse().unwrap());
        let array: Array =
            hyperslab::zarr::Array::create(Arc::new(MemoryStore::new()), "", spec, false).unwrap().into();
        let size = array.dtype().size();
        let source = hyperslab::Source::dense(bytes, shape, size).unwrap();
        array.write(&array.select(&[]).unwrap(), &source, WriteOptions::default()).unwrap();
        array
    }

    fn form(array: &Array, form: Form, indices: &[Index<'_>]) -> Result<Vec<u8>> {
        match read(array, &array.select(indices)?, form, 1 << 20, &|| false)?.source {
            Source::Memory(bytes) => Ok(bytes.to_vec()),
            _ => panic!("not in memory"),
        }
    }

    fn text(one: &Array, wanted: Form) -> String {
        String::from_utf8(form(one, wanted, &[]).unwrap()).unwrap()
    }

    #[test]
    fn numbers() {
        let one = array(">i2", &[2, 3], &[0, 1, 0, 2, 0, 3, 1, 0, 255, 255, 0, 6]);
        let little = [1_i16, 2, 3, 256, -1, 6].map(i16::to_le_bytes).concat();
        assert_eq!(form(&one, Form::Raw, &[]).unwrap(), little);
        assert_eq!(text(&one, Form::Json), "[[1, 2, 3], [256, -1, 6]]");
        assert_eq!(text(&one, Form::Csv), "1,2,3\r\n256,-1,6\r\n");
        let npy = form(&one, Form::Npy, &[Index::At(1)]).unwrap();
        assert_eq!(npy.len(), 128 + 6);
        assert!(npy.starts_with(
            b"\x93NUMPY\x01\x00\x76\x00{'descr': '<i2', 'fortran_order': False, 'shape': (3,), }"
        ));
        assert_eq!(npy[127], b'\n');
        assert_eq!(form(&one, Form::Json, &[Index::At(1), Index::At(1)]).unwrap(), b"-1");
    }

    #[test]
    fn floats_that_json_has_not_are_text() {
        let bytes = [1.5_f32, f32::NAN, f32::NEG_INFINITY].map(f32::to_le_bytes).concat();
        assert_eq!(text(&array("<f4", &[3], &bytes), Form::Json), r#"[1.5, "NaN", "-Infinity"]"#);
        let negative = array("<f4", &[1], &0xffc0_0000_u32.to_le_bytes());
        assert_eq!(text(&negative, Form::Json), r#"["NaN"]"#);
    }

    #[test]
    fn text_of_any_length() {
        let spec = ArraySpec::of_vlen(Format::ZarrV3.zarr().unwrap(), &[3], VlenKind::Text);
        let names: Array =
            hyperslab::zarr::Array::create(Arc::new(MemoryStore::new()), "", spec, false).unwrap().into();
        let values = Ragged::of(&[3], ["Ada", "", "Č, \"pek"].map(str::as_bytes).into_iter()).unwrap();
        names.write_ragged(&names.select(&[]).unwrap(), &values.into(), WriteOptions::default()).unwrap();
        assert_eq!(text(&names, Form::Json), r#"["Ada", "", "\u010c, \"pek"]"#);
        assert_eq!(text(&names, Form::Csv), "Ada,,\"Č, \"\"pek\"\r\n");
        assert!(form(&names, Form::Npy, &[]).is_err());
    }

    #[test]
    fn answers_are_bounded() {
        let one = array("|u1", &[200], &[1; 200]);
        let selection = one.select(&[]).unwrap();
        let most = |form, most| read(&one, &selection, form, most, &|| false).is_ok();
        assert!(most(Form::Raw, 200) && !most(Form::Raw, 199) && !most(Form::Json, 300));
        assert!(Form::parse("xml").is_err());
    }
}
