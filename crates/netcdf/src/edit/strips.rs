//! Cuts the elements of a variable into strips, which the engine writes like chunks.
//!
//! A strip is one range of bytes: whole rows of a variable or of one of its records. If the records of
//! a variable lie back to back, a strip may have several. The number of records does not change
//! strips.
//!
//! Bytes are counted in two ways: by their place in the file, and by their number in the variable,
//! where the bytes of records of other variables do not count.

use crate::Variable;
use hyperslab_array::Dims;
use std::ops::Range;

/// Bytes of a strip, at most. A part of a strip is written by reading all of it.
const STRIP: u64 = 256 << 10;

#[derive(Clone, Debug)]
pub(crate) struct Strips {
    shape: Dims,
    /// Elements of a strip per axis.
    strip: Dims,
    /// Stored bytes of an element.
    size: u64,
    place: VariablePlace,
}

/// The place of the bytes of a variable in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VariablePlace {
    begin: u64,
    /// Bytes of a record, and from one record to the next. `None`: there are no records.
    records: Option<(u64, u64)>,
}

impl VariablePlace {
    pub(crate) fn of(variable: &Variable) -> VariablePlace {
        let facts = &variable.facts;
        let is_record = variable.dimensions().next().is_some_and(|dimension| dimension.unlimited);
        let rest = variable.shape().get(1..).unwrap_or_default();
        let size = variable.external_type().dtype().size() as u64;
        let record = rest.iter().fold(size, |bytes, n| bytes.saturating_mul(*n));
        let step = if facts.step > 0 { facts.step } else { record };
        VariablePlace { begin: facts.declared.begin, records: is_record.then_some((record, step)) }
    }

    /// Bytes of a record, if there are records.
    pub(crate) fn record(&self) -> Option<u64> {
        self.records.map(|(record, _)| record)
    }

    /// The offset in the file of a byte of the variable, and the number of bytes that follow it there,
    /// up to the end of a record.
    pub(crate) fn offset(&self, byte: u64) -> (u64, u64) {
        match self.records {
            Some((record, step)) if record != step => {
                let (number, inside) = (byte / record.max(1), byte % record.max(1));
                let start = number.saturating_mul(step).saturating_add(inside);
                (self.begin.saturating_add(start), record.saturating_sub(inside))
            }
            _ => (self.begin.saturating_add(byte), u64::MAX),
        }
    }
}

impl Strips {
    /// `joined`: the number of last axes that are a part of each element.
    pub(crate) fn new(variable: &Variable, joined: usize) -> Strips {
        let place = VariablePlace::of(variable);
        let rank = variable.shape().len().saturating_sub(joined);
        let (shape, inner) = variable.shape().split_at_checked(rank).unwrap_or_default();
        let size = variable.external_type().dtype().size() as u64;
        let size = inner.iter().fold(size, |size, n| size.saturating_mul(*n));
        let strip = match place.records {
            None => cut(shape, size),
            Some((record, step)) => {
                let rest = shape.get(1..).unwrap_or_default();
                let inner = cut(rest, size);
                let is_whole = inner.iter().zip(rest).all(|(strip, n)| strip >= n);
                let several = is_whole && record == step && record > 0;
                let records = if several { (STRIP / record).max(1) } else { 1 };
                std::iter::once(records).chain(inner).collect()
            }
        };
        Strips { shape: shape.into(), strip, size, place }
    }

    pub(crate) fn shape(&self) -> &Dims {
        &self.shape
    }

    /// Elements of a strip per axis.
    pub(crate) fn strip(&self) -> &Dims {
        &self.strip
    }

    /// Stored bytes of an element.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// The bytes of the variable that a strip has, as far as they are inside its shape.
    pub(crate) fn bytes(&self, at: &[u64]) -> Range<u64> {
        let (mut first, mut len) = (0_u64, self.size);
        for ((at, step), n) in at.iter().zip(&self.strip).zip(&self.shape) {
            let start = at.saturating_mul(*step);
            first = first.saturating_mul(*n).saturating_add(start);
            len = len.saturating_mul((*step).min(n.saturating_sub(start)));
        }
        let first = first.saturating_mul(self.size);
        first..first.saturating_add(len)
    }

    /// The bytes of all strips.
    pub(crate) fn all(&self) -> Range<u64> {
        0..self.shape.iter().fold(self.size, |bytes, n| bytes.saturating_mul(*n))
    }

    /// The bytes of the strip that has a byte.
    pub(crate) fn around(&self, byte: u64) -> Range<u64> {
        let mut left = byte / self.size.max(1);
        let mut at = Dims::from_elem(0, self.shape.len());
        for ((at, step), n) in at.iter_mut().zip(&self.strip).zip(&self.shape).rev() {
            *at = left.checked_rem(*n).unwrap_or(0) / (*step).max(1);
            left = left.checked_div(*n).unwrap_or(0);
        }
        self.bytes(&at)
    }

    /// The offset in the file of the first byte of a strip.
    pub(crate) fn offset(&self, at: &[u64]) -> u64 {
        self.place.offset(self.bytes(at).start).0
    }
}

/// Whole rows, last axes first.
fn cut(shape: &[u64], size: u64) -> Dims {
    let mut left = (STRIP / size.max(1)).max(1);
    let mut strip: Dims = shape.into();
    for len in strip.iter_mut().rev() {
        *len = (*len).min(left).max(1);
        left = (left / *len).max(1);
    }
    strip
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::File;
    use crate::testing::{Classic, store};

    fn variable(classic: &Classic) -> Variable {
        File::open(store(&classic.header()), "f.nc").unwrap().variable("v").unwrap()
    }

    #[test]
    fn strips_follow_each_other() {
        for (records, shape) in
            [(0, &[7, 3, 50_000][..]), (0, &[1_000_000]), (0, &[]), (9, &[3, 50_000]), (7, &[])]
        {
            for others in [false, true] {
                let mut classic = Classic::new(5).records(records).dimension("t", 0);
                for (number, len) in shape.iter().enumerate() {
                    classic = classic.dimension(&format!("d{number}"), *len);
                }
                let first = u64::from(records == 0);
                let ids: Vec<u64> = (first..=shape.len() as u64).collect();
                classic = classic.variable("v", &ids, 4, &[], 1000);
                if others {
                    classic = classic.variable("w", &[0], 4, &[], 996);
                }
                let variable = variable(&classic);
                let strips = Strips::new(&variable, 0);
                let counts: Vec<u64> =
                    strips.shape.iter().zip(&strips.strip).map(|(n, s)| n.div_ceil(*s)).collect();
                let (mut at, count) = (0, counts.iter().product::<u64>());
                for number in 0..count {
                    let mut left = number;
                    let mut place: Vec<u64> = counts
                        .iter()
                        .rev()
                        .map(|n| {
                            let at = left % n;
                            left /= n;
                            at
                        })
                        .collect();
                    place.reverse();
                    let bytes = strips.bytes(&place);
                    assert_eq!(bytes.start, at, "{shape:?} {place:?}");
                    assert_eq!(
                        (strips.around(at), strips.around(bytes.end - 1)),
                        (bytes.clone(), bytes.clone())
                    );
                    at = bytes.end;
                    let record = if records > 0 { shape.iter().product::<u64>() * 4 } else { u64::MAX };
                    let between = if records > 0 && others { bytes.start / record * 4 } else { 0 };
                    assert_eq!(strips.offset(&place), 1000 + bytes.start + between);
                }
                assert_eq!(at, strips.shape.iter().product::<u64>() * 4);
            }
        }
    }

    #[test]
    fn text_is_one_element() {
        let classic = Classic::new(1).dimension("x", 5).dimension("n", 3).variable("v", &[0, 1], 2, &[], 200);
        let strips = Strips::new(&variable(&classic), 1);
        assert_eq!((strips.shape().as_slice(), strips.size(), strips.bytes(&[0])), (&[5][..], 3, 0..15));
    }
}
