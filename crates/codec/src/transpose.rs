//! `transpose`: the stored chunk has the array's axes in another order.
//!
//! * Specification: <https://zarr-specs.readthedocs.io/en/latest/v3/codecs/transpose/index.html>
//! * v3 name: `transpose`; not in v2, which has `order`, `"C"` or `"F"`
//!
//! ```
//! # let json = r#"
//! {"name": "transpose", "configuration": {"order": [2, 0, 1]}}
//! # "#;
//! # let metadata: serde_json::Value = serde_json::from_str(json).unwrap();
//! # assert_eq!(hyperslab_codec::Transpose::metadata(&[2, 0, 1]), metadata);
//! ```
//!
//! It seldom runs: the engine copies elements between strides, and a transposed chunk only has
//! other strides. It runs after a codec that makes other elements. The strings `"C"` and `"F"` from
//! drafts of the specification are refused, as in zarr-python.

use crate::registry::Config;
use crate::scratch::resize_buffer;
use crate::{ArrayToArray, Codec, CodecError, Context, Racing, Result, Scratch, front};
use serde::Deserialize;
use serde_json::{Value, json};
use std::ops::Range;

/// The `transpose` codec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transpose {
    /// Axis `i` of the stored chunk is axis `order[i]` of the array: a permutation of `0, 1, …,
    /// rank - 1`.
    order: Vec<usize>,
    /// Elements per axis of the array.
    shape: Vec<u64>,
    /// Bytes of an element.
    element: usize,
    /// Bytes of the array, or `None` if memory cannot hold them.
    size: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    order: Vec<usize>,
}

impl Transpose {
    /// Reads v3 metadata. The order must be a permutation of the axes of `array`.
    pub fn new(config: Config<'_>, array: &Context<'_>) -> Result<Self> {
        let Fields { order } = config.fields("transpose")?;
        let refuse = |why: String| Err(CodecError::config("transpose", why));
        let rank = array.shape.len();
        if order.len() != rank {
            let why = format!("\"transpose\": expected an order of {rank} axes, found {order:?}");
            return Err(CodecError::Unfit { why });
        }
        let mut seen = vec![false; rank];
        for &axis in &order {
            match seen.get_mut(axis) {
                Some(seen) if !*seen => *seen = true,
                Some(_) => return refuse(format!("axis {axis} occurs twice in order {order:?}")),
                None => {
                    let last = rank.saturating_sub(1);
                    return refuse(format!(
                        "order {order:?} is not a permutation of 0 to {last}: there is no axis {axis}"
                    ));
                }
            }
        }
        let (element, size) = (array.dtype.size(), array.decoded_size());
        Ok(Transpose { order, shape: array.shape.to_vec(), element, size })
    }

    /// The Zarr v3 metadata object for an order of axes.
    pub fn metadata(order: &[usize]) -> Value {
        json!({"name": "transpose", "configuration": {"order": order}})
    }

    /// Calls `copy` for each element, in stored order.
    ///
    /// Its arguments are the element's places in the array's chunk and in the stored chunk.
    fn for_each_element(&self, len: usize, mut copy: impl FnMut(Range<usize>, Range<usize>)) -> Result<()> {
        if self.size != Some(len) {
            return Err(CodecError::size("transpose", self.size.unwrap_or(usize::MAX), len));
        }
        // Steps of the array's axes, in stored order. They do not overflow, because the size fits.
        let step = |axis: &usize| {
            let inner = self.shape.iter().skip(axis + 1);
            inner.fold(self.element as u64, |step, n| step.saturating_mul(*n))
        };
        let axes: Vec<(u64, u64)> =
            self.order.iter().map(|axis| (self.shape.get(*axis).copied().unwrap_or(1), step(axis))).collect();
        let mut index = vec![0; axes.len()];
        let mut from = 0_u64;
        for to in (0..len).step_by(self.element.max(1)) {
            let at = usize::try_from(from).unwrap_or(usize::MAX);
            copy(at..at.saturating_add(self.element), to..to + self.element);
            for ((n, step), index) in axes.iter().zip(&mut index).rev() {
                *index += 1;
                from += step;
                if *index < *n {
                    break;
                }
                from -= *index * step;
                *index = 0;
            }
        }
        Ok(())
    }
}

impl Codec for Transpose {
    fn name(&self) -> &'static str {
        "transpose"
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _: &mut Scratch) -> Result<usize> {
        let dst = front("transpose", dst, src.len())?;
        self.for_each_element(src.len(), |array, stored| {
            if let (Some(to), Some(from)) = (dst.get_mut(array), src.get(stored)) {
                to.copy_from_slice(from);
            }
        })?;
        Ok(src.len())
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _: &mut Scratch) -> Result<()> {
        dst.truncate(src.len());
        let dst = resize_buffer(dst, src.len(), "transpose")?;
        self.for_each_element(src.len(), |array, stored| {
            if let (Some(to), Some(from)) = (dst.get_mut(stored), src.get(array)) {
                to.copy_from_slice(from);
            }
        })
    }

    fn racing(&self) -> Racing {
        Racing::Mixes
    }

    fn max_encoded(&self, decoded: usize) -> usize {
        decoded
    }

    fn to_v3(&self) -> Option<Value> {
        Some(Self::metadata(&self.order))
    }
}

impl ArrayToArray for Transpose {
    fn encoded<'a>(&self, array: &Context<'a>) -> Context<'a> {
        let shape = self.order.iter().filter_map(|axis| array.shape.get(*axis).copied());
        Context { shape: shape.collect::<Vec<_>>().into(), ..array.clone() }
    }

    fn axes(&self) -> Option<&[usize]> {
        Some(&self.order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, decode, encode};

    fn parse(metadata: Value, shape: &[u64]) -> Result<Transpose> {
        let array = Context::of_elements("<i2".parse().unwrap());
        Transpose::new(Config::V3(Some(&metadata)), &Context { shape: shape.into(), ..array })
    }

    #[test]
    fn permutations_only() {
        let new = |order: Vec<usize>| parse(json!({"order": order}), &vec![1; order.len()]);
        for good in [vec![], vec![0], vec![1, 0], vec![3, 1, 0, 2]] {
            assert_eq!(new(good.clone()).unwrap().order, good);
        }
        let message = |order: Vec<usize>| new(order).unwrap_err().to_string();
        assert!(message(vec![0, 0]).ends_with("axis 0 occurs twice in order [0, 0]"));
        assert!(
            message(vec![0, 2]).ends_with("order [0, 2] is not a permutation of 0 to 1: there is no axis 2")
        );
        assert!(message(vec![usize::MAX]).contains("there is no axis"));
    }

    #[test]
    fn configuration() {
        assert_eq!(parse(json!({"order": [1, 0]}), &[3, 4]).unwrap().order, [1, 0]);
        let bad =
            r#"{"order": "F"} {"order": [-1, 0]} {"order": [0.5]} {"order": null} {} {"order": [0], "x": 1}"#;
        testing::refuses(bad, |bad| parse(bad.clone(), &[1]));
        assert!(matches!(parse(json!({"order": [0, 1]}), &[1]), Err(CodecError::Unfit { .. })));
        let array = Context::of_elements("<i2".parse().unwrap());
        assert!(Transpose::new(Config::V3(None), &array).is_err());
    }

    /// Runs as it does after codecs that make other elements.
    #[test]
    fn elements_change_places() {
        let codec = parse(json!({"order": [1, 0]}), &[2, 3]).unwrap();
        assert_eq!(encode(&codec, b"a0a1a2b0b1b2"), b"a0b0a1b1a2b2");
        assert_eq!(decode(&codec, b"a0b0a1b1a2b2", 12).unwrap(), b"a0a1a2b0b1b2");
        let codec = parse(json!({"order": [2, 0, 1]}), &[2, 1, 3]).unwrap();
        assert_eq!(encode(&codec, b"a0a1a2b0b1b2"), b"a0b0a1b1a2b2");
        let array = Context { shape: vec![2, 1, 3].into(), ..Context::of_elements("<i2".parse().unwrap()) };
        assert_eq!(*codec.encoded(&array).shape, [3, 2, 1]);
        for wrong in [0, 10, 11, 13, 14] {
            assert!(matches!(decode(&codec, &vec![0; wrong], wrong), Err(CodecError::Size { .. })));
        }
        assert!(decode(&codec, b"a0b0a1b1a2b2", 11).is_err());
        assert_eq!(encode(&parse(json!({"order": []}), &[]).unwrap(), b"ab"), b"ab");
        assert_eq!(encode(&parse(json!({"order": [0, 1]}), &[0, 5]).unwrap(), b""), b"");
    }
}
