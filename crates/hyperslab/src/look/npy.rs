//! Values as `.npy`, the file format of NumPy.
//!
//! Source: <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>

use super::cells::Reader;
use super::csv::blocks;
use super::window::Window;
use crate::meaning::ValueType;
use crate::{Error, Kind, ReadOptions, Result};
use std::io::{self, Write};

const MAGIC: &[u8] = b"\x93NUMPY\x01\x00";

/// Writes the values of a window. They have the types that xarray gives them; with a raw reader, the stored
/// type in the machine's byte order. `stop`: see [`Reader::read`].
///
/// The inner result fails if `out` does. Fails if NumPy has no type for the elements.
pub fn write_npy(
    reader: &Reader<'_>,
    window: &Window,
    out: &mut dyn Write,
    stop: &dyn Fn() -> bool,
) -> Result<io::Result<()>> {
    let array = reader.array();
    let wrong = |why: &str| Error::Options(format!("array '{}': {why}", array.name()));
    let options = || ReadOptions { interrupt: Some(stop), ..ReadOptions::default() };
    let shape = window.shape();
    let Some(decoding) = reader.decoding() else {
        let dtype = array.dtype();
        let is_small = matches!(dtype.kind(), Kind::Small(_));
        if is_small || array.vlen().is_some() || array.optional().is_some() || !is_plain(reader) {
            return Err(wrong("its elements have no type in a .npy file; write CSV instead"));
        }
        if array.structure().is_some() {
            return Err(wrong("its elements are structures; write CSV instead"));
        }
        let descr = format!("'{}'", dtype.numpy());
        return streamed(&descr, &shape, window, out, &mut |block| {
            Ok(array.read(&block.selection(array)?, options())?.as_slice().to_vec())
        });
    };
    match decoding.values {
        ValueType::Times => {
            // The unit depends on all elements.
            let stored = reader.stored(&window.selection(array)?, options())?;
            let times = decoding
                .times(&stored)?
                .ok_or_else(|| wrong("NumPy does not have its dates; write CSV, or stored numbers (raw)"))?;
            let kind = if decoding.times.as_ref().is_some_and(|times| times.calendar().is_some()) {
                'M'
            } else {
                'm'
            };
            let descr = format!("'<{kind}8[{}]'", times.resolution.name());
            let bytes: Vec<u8> = times.values.iter().flat_map(|time| time.to_le_bytes()).collect();
            let head = npy_header(&descr, &shape);
            Ok(out.write_all(&head).and_then(|()| out.write_all(&bytes)))
        }
        ValueType::Float(float) => {
            let descr = format!("'{}f{}'", if cfg!(target_endian = "big") { '>' } else { '<' }, float.size());
            streamed(&descr, &shape, window, out, &mut |block| {
                let stored = reader.stored(&block.selection(array)?, options())?;
                let count = stored.len() / decoding.number_type().size().max(1);
                let mut values = vec![0; count * float.size()];
                decoding.unpack(&stored, &mut values)?;
                Ok(values)
            })
        }
        values => {
            let descr = match values {
                ValueType::Bool => "'|b1'".to_owned(),
                _ => format!("'{}'", decoding.number_type().numpy()),
            };
            let size = decoding.number_type().size().max(1);
            streamed(&descr, &shape, window, out, &mut |block| {
                let stored = reader.stored(&block.selection(array)?, options())?;
                Ok(match values {
                    ValueType::Bool => {
                        stored.chunks(size).map(|one| u8::from(one.iter().any(|byte| *byte != 0))).collect()
                    }
                    _ => stored,
                })
            })
        }
    }
}

/// Elements have the type that the engine reads.
fn is_plain(reader: &Reader<'_>) -> bool {
    use hyperslab_hdf5::element::ElementKind;
    let kind = reader.array().as_hdf5().map(|dataset| &dataset.element().kind);
    kind.is_none_or(|kind| {
        matches!(kind, ElementKind::Plain(_) | ElementKind::FixedString { .. } | ElementKind::Enum { .. })
    })
}

fn streamed(
    descr: &str,
    shape: &[u64],
    window: &Window,
    out: &mut dyn Write,
    read: &mut dyn FnMut(&Window) -> Result<Vec<u8>>,
) -> Result<io::Result<()>> {
    let mut failure = out.write_all(&npy_header(descr, shape));
    if failure.is_err() || window.count() == 0 {
        return Ok(failure);
    }
    blocks(window, &mut |_, block| {
        failure = out.write_all(&read(block)?);
        Ok(failure.is_ok())
    })?;
    Ok(failure)
}

/// The head of a `.npy` file of version 1, as NumPy writes it. `descr`: the type, in quotes.
pub fn npy_header(descr: &str, shape: &[u64]) -> Vec<u8> {
    let lens: Vec<String> = shape.iter().map(u64::to_string).collect();
    let comma = if lens.len() == 1 { "," } else { "" };
    // Room for a longer first axis.
    let room = lens.first().map_or(0, |len| 21_usize.saturating_sub(len.len()));
    let text = format!(
        "{{'descr': {descr}, 'fortran_order': False, 'shape': ({}{comma}), }}{:room$}",
        lens.join(", "),
        ""
    );
    // Data begin at a multiple of 64.
    let padding = 63 - (MAGIC.len() + 2 + text.len()) % 64;
    let len = u16::try_from(text.len() + padding + 1).unwrap_or(u16::MAX);
    [MAGIC, &len.to_le_bytes(), text.as_bytes(), &vec![b' '; padding], b"\n"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_numpy() {
        let found = npy_header("'<f4'", &[3]);
        assert_eq!(found.len() % 64, 0);
        assert_eq!(&found[..10], b"\x93NUMPY\x01\0v\0");
        assert!(found[10..].starts_with(b"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }  "));
        assert_eq!(found.last(), Some(&b'\n'));
        for axes in 0..20 {
            assert_eq!(npy_header("'<f4'", &vec![1234; axes]).len() % 64, 0, "{axes}");
        }
    }
}
