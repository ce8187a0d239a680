//! Dataspaces: shapes (specification IV.A.2.b, "The Dataspace Message", versions 1 and 2).

use crate::error::Built;
use crate::output::{Output, fit};
use crate::{Cursor, Libver, Parsed};
use hyperslab_array::element_count;

/// The message type number.
pub const KIND: u16 = 0x01;

/// The HDF5 library's limit.
const MAX_RANK: u8 = 32;

/// The shape of a dataset or attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dataspace {
    /// One element.
    Scalar,
    /// No elements and no shape (h5py's `Empty`).
    Null,
    /// Any number of axes.
    Simple {
        /// Elements per axis.
        shape: Vec<u64>,
        /// Largest number of elements per axis. `None`: no limit.
        max_shape: Vec<Option<u64>>,
    },
}

impl Dataspace {
    /// Makes a shape that cannot grow. Without axes, it has one element.
    pub fn fixed(shape: &[u64]) -> Dataspace {
        match shape {
            [] => Dataspace::Scalar,
            _ => Dataspace::Simple {
                shape: shape.to_vec(),
                max_shape: shape.iter().copied().map(Some).collect(),
            },
        }
    }

    /// Returns the elements per axis. Empty for a scalar and for a null dataspace.
    pub fn shape(&self) -> &[u64] {
        match self {
            Dataspace::Simple { shape, .. } => shape,
            _ => &[],
        }
    }

    /// Parses the message, versions 1 and 2.
    pub fn parse(cursor: &mut Cursor<'_>) -> Parsed<Dataspace> {
        let version = cursor.version("dataspace message", &[1, 2])?;
        let at = cursor.clone();
        let (rank, flags) = (cursor.u8()?, cursor.u8()?);
        if rank > MAX_RANK {
            return Err(at.corrupt(format!("expected at most {MAX_RANK} axes, found {rank}")));
        }
        let kind = if version == 2 {
            cursor.u8()?
        } else {
            cursor.skip(5)?;
            u8::from(rank > 0)
        };
        let shape = (0..rank).map(|_| cursor.length()).collect::<Result<Vec<_>, _>>()?;
        let max_shape = if flags & 1 != 0 {
            (0..rank).map(|_| limit(cursor)).collect::<Result<Vec<_>, _>>()?
        } else {
            shape.iter().map(|n| Some(*n)).collect()
        };
        if let Some((n, most)) =
            shape.iter().zip(&max_shape).find(|(n, most)| most.is_some_and(|most| **n > most))
        {
            let most = most.unwrap_or_default();
            return Err(at.corrupt(format!("an axis has {n} elements, more than its maximum of {most}")));
        }
        match kind {
            0 if rank == 0 => Ok(Dataspace::Scalar),
            1 => Ok(Dataspace::Simple { shape, max_shape }),
            2 if rank == 0 => Ok(Dataspace::Null),
            _ => Err(at.corrupt(format!(
                "expected a dataspace of type 1 (simple), or of type 0 or 2 without axes, found type \
                 {kind} with {rank} axes"
            ))),
        }
    }

    /// Builds the message. Version 1 has no null dataspace.
    pub(crate) fn build(&self, libver: Libver) -> Built<Vec<u8>> {
        let (shape, max_shape, kind): (&[u64], &[Option<u64>], u8) = match self {
            Dataspace::Scalar => (&[], &[], 0),
            Dataspace::Simple { shape, max_shape } => (shape, max_shape, 1),
            Dataspace::Null => (&[], &[], 2),
        };
        let limited = !shape.iter().copied().map(Some).eq(max_shape.iter().copied());
        let mut out = Output::new();
        let new = libver != Libver::Earliest || kind == 2 || (kind == 1 && shape.is_empty());
        out.u8(if new { 2 } else { 1 }).u8(fit(shape.len() as u64, "axes")?).u8(limited.into());
        if new {
            out.u8(kind);
        } else {
            out.zeros(5);
        }
        for len in shape {
            out.u64(*len);
        }
        if limited {
            // All bits set means no limit.
            for most in max_shape {
                out.address(*most);
            }
        }
        Ok(out.take())
    }

    /// Number of elements. `None`: it does not fit into 64 bits.
    pub fn count(&self) -> Option<u64> {
        match self {
            Dataspace::Null => Some(0),
            _ => element_count(self.shape()),
        }
    }
}

/// Reads the largest number of elements of an axis. All bits set means no limit.
fn limit(cursor: &mut Cursor<'_>) -> Parsed<Option<u64>> {
    let len = usize::from(cursor.sizes().length);
    let mut all = cursor.clone();
    if all.take(len)?.iter().all(|byte| *byte == 0xff) {
        *cursor = all;
        return Ok(None);
    }
    cursor.length().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sizes;
    use proptest::prelude::*;

    fn parsed(bytes: &[u8]) -> Parsed<Dataspace> {
        Dataspace::parse(&mut Cursor::whole(bytes, 0, Sizes { offset: 8, length: 2 }))
    }

    #[test]
    fn both_versions() {
        let simple = Dataspace::Simple { shape: vec![3, 0], max_shape: vec![Some(5), None] };
        let fixed = Dataspace::Simple { shape: vec![7], max_shape: vec![Some(7)] };
        assert_eq!(parsed(&[1, 2, 1, 0, 0, 0, 0, 0, 3, 0, 0, 0, 5, 0, 0xff, 0xff]).unwrap(), simple);
        assert_eq!(parsed(&[2, 2, 1, 1, 3, 0, 0, 0, 5, 0, 0xff, 0xff]).unwrap(), simple);
        assert_eq!(parsed(&[1, 1, 0, 0, 0, 0, 0, 0, 7, 0]).unwrap(), fixed);
        assert_eq!(parsed(&[1, 0, 0, 0, 0, 0, 0, 0]).unwrap(), Dataspace::Scalar);
        assert_eq!(parsed(&[2, 0, 0, 0]).unwrap(), Dataspace::Scalar);
        assert_eq!(parsed(&[2, 0, 0, 2]).unwrap(), Dataspace::Null);
        assert_eq!(
            (Dataspace::Null.count(), Dataspace::Scalar.count(), simple.count()),
            (Some(0), Some(1), Some(0))
        );
    }

    #[test]
    fn what_cannot_be() {
        for bytes in [
            &[3, 0, 0, 0][..],
            &[2, 33, 0, 1],
            &[2, 1, 0, 2, 1, 0],
            &[2, 1, 0, 3, 1, 0],
            &[2, 1, 1, 1, 5, 0, 4, 0],
            &[2, 1, 1, 1, 5, 0, 4],
            &[1, 0, 0, 0],
        ] {
            assert!(parsed(bytes).is_err(), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_built_is_parsed(
            axes in proptest::collection::vec((any::<u64>(), any::<Option<u64>>()), 0..=32),
            kind in 0..3,
        ) {
            let shape: Vec<u64> = axes.iter().map(|(len, _)| *len).collect();
            let max_shape = axes.iter().map(|(len, most)| most.map(|most| most.max(*len))).collect();
            let dataspace = match kind {
                0 => Dataspace::Scalar,
                1 => Dataspace::Null,
                _ => Dataspace::Simple { shape, max_shape },
            };
            for libver in [Libver::Earliest, Libver::V110] {
                let built = dataspace.build(libver).unwrap();
                let mut cursor = Cursor::whole(&built, 0, Sizes { offset: 8, length: 8 });
                // All bits set means no limit.
                if !matches!(&dataspace, Dataspace::Simple { max_shape, .. } if max_shape.contains(&Some(u64::MAX))) {
                    prop_assert_eq!(Dataspace::parse(&mut cursor), Ok(dataspace.clone()));
                    prop_assert!(cursor.is_empty());
                }
            }
        }
    }
}
