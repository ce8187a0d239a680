//! `transpose`: the axes of the stored chunk are those of the array in another order.
//!
//! * Specification: <https://zarr-specs.readthedocs.io/en/latest/v3/codecs/transpose/index.html>
//! * v3 name: `transpose`; v2 has none: there it is `order`, `"C"` or `"F"`
//!
//! ```
//! # let json = r#"
//! {"name": "transpose", "configuration": {"order": [2, 0, 1]}}
//! # "#;
//! # let metadata: serde_json::Value = serde_json::from_str(json).unwrap();
//! # let transpose = hyperslab_codec::Transpose::from_v3(metadata.get("configuration")).unwrap();
//! # assert_eq!(transpose.order, [2, 0, 1]);
//! # assert_eq!(transpose.to_v3(), metadata);
//! ```
//!
//! There is nothing to run: the engine copies elements between strides, and this changes the
//! strides. The strings `"C"` and `"F"` of drafts of the specification are refused, as zarr-python
//! refuses them.

use crate::CodecError;
use crate::registry::configuration;
use serde::Deserialize;
use serde_json::{Value, json};

/// The `transpose` codec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transpose {
    /// Axis `i` of the stored chunk is axis `order[i]` of the array: a permutation of `0, 1, …,
    /// rank - 1`.
    pub order: Vec<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    order: Vec<usize>,
}

impl Transpose {
    /// Checks that `order` is a permutation. That it has one entry for each axis of the array is
    /// for the caller to check.
    pub fn new(order: Vec<usize>) -> Result<Self, CodecError> {
        let mut seen = vec![false; order.len()];
        for &axis in &order {
            let why = match seen.get_mut(axis) {
                Some(seen) if !*seen => {
                    *seen = true;
                    continue;
                }
                Some(_) => format!("axis {axis} occurs twice in order {order:?}"),
                None => format!(
                    "order {order:?} is no permutation of 0 to {}: there is no axis {axis}",
                    seen.len() - 1
                ),
            };
            return Err(CodecError::Config { name: "transpose".into(), why });
        }
        Ok(Transpose { order })
    }

    /// From the `configuration` of v3 metadata.
    pub fn from_v3(metadata: Option<&Value>) -> Result<Self, CodecError> {
        let Fields { order } = configuration("transpose", metadata)?;
        Self::new(order)
    }

    /// The Zarr v3 metadata object.
    pub fn to_v3(&self) -> Value {
        json!({"name": "transpose", "configuration": {"order": self.order}})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permutations_only() {
        for good in [vec![], vec![0], vec![1, 0], vec![3, 1, 0, 2]] {
            assert_eq!(Transpose::new(good.clone()).unwrap().order, good);
        }
        let message = |order: Vec<usize>| Transpose::new(order).unwrap_err().to_string();
        assert!(message(vec![0, 0]).ends_with("axis 0 occurs twice in order [0, 0]"));
        assert!(
            message(vec![0, 2]).ends_with("order [0, 2] is no permutation of 0 to 1: there is no axis 2")
        );
        assert!(message(vec![usize::MAX]).contains("there is no axis"));
    }

    #[test]
    fn configuration() {
        let parse = |metadata: Value| Transpose::from_v3(Some(&metadata));
        assert_eq!(parse(json!({"order": [1, 0]})).unwrap().order, [1, 0]);
        for bad in [
            json!({"order": "F"}),
            json!({"order": [-1, 0]}),
            json!({"order": [0.5]}),
            json!({"order": null}),
            json!({}),
            json!({"order": [0], "x": 1}),
        ] {
            assert!(matches!(parse(bad.clone()), Err(CodecError::Config { .. })), "{bad}");
        }
        assert!(Transpose::from_v3(None).is_err());
    }
}
