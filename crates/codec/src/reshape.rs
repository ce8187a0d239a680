//! `reshape` and `zarrs.squeeze`: another shape for the same elements, in the same order.
//!
//! * Specification: <https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/reshape>,
//!   <https://codec.zarrs.dev/array_to_array/squeeze>
//! * v3 names: `reshape`; `zarrs.squeeze`, also `squeeze`; not in v2
//!
//! ```
//! # let json = r#"
//! {"name": "reshape", "configuration": {"shape": [[0, 1], -1, 3]}}
//! # "#;
//! # use hyperslab_codec::{Context, registry::CODECS};
//! # let metadata: serde_json::Value = serde_json::from_str(json).unwrap();
//! # let mut array = Context::of_elements("<f4".parse().unwrap());
//! # array.shape = vec![10, 5, 4, 3].into();
//! # let codec = CODECS.from_v3("reshape", metadata.get("configuration"), &array).unwrap().codec();
//! # assert_eq!(codec.to_v3(), Some(metadata));
//! ```
//!
//! These codecs never run: the bytes stay the same. The next codec sees the new shape.

use crate::registry::{Config, NoFields};
use crate::{ArrayToArray, Codec, CodecError, Context, Racing, Result, Scratch, copy_front, room};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The `reshape` or the `squeeze` codec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reshape {
    /// The new shape.
    shape: Vec<u64>,
    /// The lengths as in metadata, or `None` for `squeeze`.
    lengths: Option<Vec<Length>>,
}

/// The length of a new axis.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
enum Length {
    /// This length, or -1 for whatever the other axes leave.
    Fixed(i64),
    /// The product of the lengths of these old axes.
    Axes(Vec<usize>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    shape: Vec<Length>,
}

impl Reshape {
    /// Reads the v3 metadata of `reshape`.
    pub(crate) fn new(config: Config<'_>, array: &Context<'_>) -> Result<Self> {
        let Fields { shape: lengths } = config.fields("reshape")?;
        let shape = new_shape(&lengths, &array.shape)
            .map_err(|why| CodecError::Unfit { why: format!("\"reshape\": {why}") })?;
        Ok(Reshape { shape, lengths: Some(lengths) })
    }

    /// Reads the v3 metadata of `squeeze`, which removes axes of length 1.
    pub(crate) fn squeeze(config: Config<'_>, array: &Context<'_>) -> Result<Self> {
        let NoFields {} = config.fields("zarrs.squeeze")?;
        let shape = array.shape.iter().copied().filter(|length| *length != 1).collect();
        Ok(Reshape { shape, lengths: None })
    }
}

/// The new shape of an array of shape `old`.
fn new_shape(lengths: &[Length], old: &[u64]) -> Result<Vec<u64>, String> {
    let product = |shape: &[u64]| shape.iter().try_fold(1u64, |size, length| size.checked_mul(*length));
    let total = product(old).ok_or("expected fewer than 2⁶⁴ elements in a chunk, found more")?;
    let mut shape = Vec::with_capacity(lengths.len());
    let mut open = None;
    // The first axis that the next list may contain.
    let mut next = 0;
    for (at, length) in lengths.iter().enumerate() {
        shape.push(match length {
            Length::Fixed(-1) => {
                if open.replace(at).is_some() {
                    return Err("-1 occurs twice in shape".into());
                }
                1
            }
            Length::Fixed(length) => match u64::try_from(*length) {
                Ok(length) if length > 0 => length,
                _ => return Err(format!("shape: expected a positive length or -1, found {length}")),
            },
            Length::Axes(axes) => {
                let mut combined = 1u64;
                for axis in axes {
                    let Some(length) = old.get(*axis) else {
                        return Err(format!(
                            "shape: axis {axis} does not exist, the array has {} axes",
                            old.len()
                        ));
                    };
                    if *axis < next {
                        return Err(format!(
                            "shape: expected each axis once and in ascending order, found axis {axis} too \
                             late"
                        ));
                    }
                    next = axis + 1;
                    combined = combined
                        .checked_mul(*length)
                        .ok_or("shape: expected fewer than 2⁶⁴ elements, found more")?;
                }
                combined
            }
        });
    }
    let known = product(&shape)
        .filter(|known| *known > 0)
        .ok_or("shape: expected 1 to 2⁶⁴ - 1 elements, found none or more")?;
    if let Some(length) = open.and_then(|at| shape.get_mut(at)) {
        *length = total / known;
    }
    if product(&shape) != Some(total) {
        return Err(format!(
            "shape: expected {total} elements, as in chunks of shape {old:?}, found another number"
        ));
    }
    // The old axes that are joined must cover the same elements as the new axis.
    for (at, length) in lengths.iter().enumerate() {
        let Length::Axes(axes) = length else { continue };
        if let (Some(first), Some(last)) = (axes.first(), axes.last()) {
            let before = (shape.get(..at).and_then(product), old.get(..*first).and_then(product));
            let after = (shape.get(at + 1..).and_then(product), old.get(last + 1..).and_then(product));
            if before.0 != before.1 || after.0 != after.1 {
                return Err(format!(
                    "shape: axes {axes:?} of shape {old:?} cannot become axis {at} of shape {shape:?}"
                ));
            }
        }
    }
    Ok(shape)
}

impl Codec for Reshape {
    fn name(&self) -> &'static str {
        if self.lengths.is_some() { "reshape" } else { "zarrs.squeeze" }
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _: &mut Scratch) -> Result<usize> {
        copy_front(self.name(), src, dst)
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _: &mut Scratch) -> Result<()> {
        room::fill(dst, src, self.name())
    }

    fn racing(&self) -> Racing {
        Racing::Mixes
    }

    fn max_encoded(&self, decoded: usize) -> usize {
        decoded
    }

    fn to_v3(&self) -> Option<Value> {
        Some(match &self.lengths {
            Some(lengths) => json!({"name": "reshape", "configuration": {"shape": lengths}}),
            None => json!({"name": "zarrs.squeeze"}),
        })
    }
}

impl ArrayToArray for Reshape {
    fn encoded<'a>(&self, array: &Context<'a>) -> Context<'a> {
        Context { shape: self.shape.clone().into(), ..array.clone() }
    }

    fn keeps_bytes(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(shape: &[u64]) -> Context<'static> {
        Context { shape: shape.to_vec().into(), ..Context::of_elements("<i2".parse().unwrap()) }
    }

    fn reshape(shape: Value, old: &[u64]) -> Result<Vec<u64>> {
        let json = json!({"shape": shape});
        let codec = Reshape::new(Config::V3(Some(&json)), &array(old))?;
        assert_eq!(codec.to_v3().unwrap()["configuration"], json);
        Ok(codec.encoded(&array(old)).shape.to_vec())
    }

    #[test]
    fn shapes() {
        for (shape, old, new) in [
            (json!([[0, 1], [2], 3]), &[100, 50, 64, 3][..], &[5000, 64, 3][..]),
            (json!([-1]), &[4, 5], &[20]),
            (json!([2, -1, 5]), &[4, 5], &[2, 2, 5]),
            (json!([[0], 1, [1], []]), &[4, 5], &[4, 1, 5, 1]),
            (json!([]), &[1, 1], &[]),
            (json!([1, -1]), &[], &[1, 1]),
            (json!([4, [1]]), &[4, 5], &[4, 5]),
        ] {
            assert_eq!(reshape(shape, old).unwrap(), new);
        }
    }

    #[test]
    fn shapes_that_are_refused() {
        for (shape, why) in [
            (json!([[1], [0]]), "in ascending order, found axis 0"),
            (json!([[0, 0], 5]), "in ascending order, found axis 0"),
            (json!([[0], [2]]), "axis 2 does not exist, the array has 2 axes"),
            (json!([-1, -1]), "-1 occurs twice"),
            (json!([0, 20]), "found 0"),
            (json!([-2, 10]), "found -2"),
            (json!([3, -1]), "expected 20 elements"),
            (json!([4, 4]), "expected 20 elements"),
            (json!([5, [0]]), "axes [0] of shape [4, 5] cannot become axis 1 of shape [5, 4]"),
            (json!([i64::MAX, i64::MAX]), "elements, found none or more"),
        ] {
            let message = reshape(shape.clone(), &[4, 5]).unwrap_err().to_string();
            assert!(message.starts_with("\"reshape\": ") && message.contains(why), "{shape}: {message}");
        }
        for bad in [json!(["a"]), json!([1.5]), json!([[-1]]), json!(5), json!(null)] {
            assert!(matches!(reshape(bad, &[4, 5]), Err(CodecError::Config { .. })));
        }
        let message = reshape(json!([-1]), &[u64::MAX, 2]).unwrap_err().to_string();
        assert!(message.contains("expected fewer than 2⁶⁴ elements"), "{message}");
    }

    #[test]
    fn squeezed() {
        let squeeze = |old: &[u64]| {
            let codec = Reshape::squeeze(Config::V3(None), &array(old)).unwrap();
            assert_eq!(codec.to_v3().unwrap(), json!({"name": "zarrs.squeeze"}));
            codec.encoded(&array(old)).shape.to_vec()
        };
        assert_eq!(squeeze(&[1, 4, 1, 5]), [4, 5]);
        assert!(squeeze(&[1, 1]).is_empty());
        assert_eq!(squeeze(&[3]), [3]);
        assert!(Reshape::squeeze(Config::V3(Some(&json!({"x": 1}))), &array(&[1])).is_err());
    }
}
