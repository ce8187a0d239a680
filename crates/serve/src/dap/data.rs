//! Elements in XDR: big-endian, in units of four bytes.

use super::constraint::Projection;
use super::types::DapType;
use crate::values;
use hyperslab::array::{ArrayError, element_count};
use hyperslab::{Error, Json, Kind, ReadOptions, Result};

/// Appends the elements of a part. Fails if there are then more than `most` bytes.
pub(super) fn append(
    bytes: &mut Vec<u8>,
    part: &Projection<'_>,
    most: usize,
    ask: &dyn Fn() -> bool,
) -> Result<()> {
    let (array, kind, counts) = (&part.member.array, part.member.kind, part.counts());
    let count = element_count(&counts).unwrap_or(u64::MAX);
    let size = if kind == DapType::Float64 { 8 } else { 4 };
    let whole = count.saturating_mul(size).saturating_add(bytes.len() as u64);
    if whole > most as u64 {
        return Err(ArrayError::Memory { array: array.name(), what: "an answer", bytes: whole }.into());
    }
    let short =
        || Error::Options(format!("array '{}': more than 2³² − 1 elements in one answer", array.name()));
    let len = u32::try_from(count).map_err(|_| short())?;
    if !counts.is_empty() {
        bytes.extend_from_slice(&len.to_be_bytes());
        if kind != DapType::String {
            bytes.extend_from_slice(&len.to_be_bytes());
        }
    }
    if count == 0 {
        return Ok(());
    }
    let selection = array.select(&part.indices())?;
    let options = ReadOptions { interrupt: Some(ask), ..ReadOptions::default() };
    if kind == DapType::String {
        values::listable(array, &counts, most as u64)?;
        for value in values::listed(array, &selection, options)? {
            let text = match &value {
                Json::String(text) => text.as_bytes(),
                _ => b"",
            };
            let len = u32::try_from(text.len()).map_err(|_| short())?;
            bytes.extend_from_slice(&len.to_be_bytes());
            bytes.extend_from_slice(text);
            // Units are counted from the elements: the document before them has any length.
            bytes.resize(bytes.len() + text.len().next_multiple_of(4) - text.len(), 0);
            if bytes.len() > most {
                let bytes = bytes.len() as u64;
                return Err(ArrayError::Memory { array: array.name(), what: "an answer", bytes }.into());
            }
        }
        return Ok(());
    }
    let (dtype, little) = values::elements(array, &selection, options)?;
    let start = bytes.len();
    for one in little.chunks_exact(dtype.size().max(1)) {
        let inexact = || {
            let why =
                "an integer of 64 bits is no double, and DAP2 has no larger integers; ask for it as Zarr";
            Error::Options(format!("array '{}': {why}", array.name()))
        };
        match (dtype.kind(), one) {
            (_, [byte]) if kind == DapType::Byte => bytes.push(*byte),
            (Kind::Int, [byte]) => {
                bytes.extend_from_slice(&i32::from(i8::from_le_bytes([*byte])).to_be_bytes())
            }
            (Kind::Int, [a, b]) => {
                bytes.extend_from_slice(&i32::from(i16::from_le_bytes([*a, *b])).to_be_bytes())
            }
            (Kind::UInt, [a, b]) => {
                bytes.extend_from_slice(&u32::from(u16::from_le_bytes([*a, *b])).to_be_bytes())
            }
            (Kind::Float, [a, b]) => {
                bytes.extend_from_slice(&half::f16::from_le_bytes([*a, *b]).to_f32().to_be_bytes());
            }
            (Kind::Int, [a, b, c, d, e, f, g, h]) => {
                let number = i64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
                bytes.extend_from_slice(&double(number.into()).ok_or_else(inexact)?.to_be_bytes());
            }
            (Kind::UInt, [a, b, c, d, e, f, g, h]) => {
                let number = u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
                bytes.extend_from_slice(&double(number.into()).ok_or_else(inexact)?.to_be_bytes());
            }
            // 32-bit numbers and doubles: the other byte order.
            (_, one) => bytes.extend(one.iter().rev()),
        }
    }
    // A single byte is a big-endian integer for the NetCDF library, and others read the first byte.
    if let (DapType::Byte, true, Some(byte)) = (kind, counts.is_empty(), bytes.get(start).copied()) {
        bytes.extend_from_slice(&[0, 0, byte]);
    }
    // Bytes stand side by side; only all of them together are filled up.
    bytes.resize(start + (bytes.len() - start).next_multiple_of(4), 0);
    Ok(())
}

/// An integer as a double. `None`: no double is equal.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "checked by the way back")]
fn double(number: i128) -> Option<f64> {
    Some(number as f64).filter(|double| *double as i128 == number)
}
