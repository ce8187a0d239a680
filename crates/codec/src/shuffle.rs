//! `shuffle`, filter 2 of HDF5: the first bytes of all elements, then the second bytes, and so on.
//!
//! Bytes after the last whole element are copied unchanged.
//!
//! * Specification: HDF5 file format, IV.A.2.l, filter 2; client data: bytes per element
//! * v2 id: `shuffle`; v3 name: `numcodecs.shuffle`
//!
//! The kernels are blosc's, whose byte shuffle is the same.

use crate::blosc::shuffle::{shuffle, unshuffle};
use crate::registry::Config;
use crate::scratch::resize_buffer;
use crate::{Codec, CodecError, Context, Racing, Result, Scratch, front};
use serde::Deserialize;
use serde_json::{Value, json};

/// The `shuffle` filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shuffle {
    /// 0 if the file gives none. The library writes 0 for elements of variable length, and skips
    /// the filter for every chunk.
    element_size: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    #[serde(default = "default_element_size")]
    elementsize: usize,
}

fn default_element_size() -> usize {
    4
}

impl Shuffle {
    /// Reads Zarr metadata. Without an element size it is 4, as in numcodecs; 0 means 1: nothing is
    /// shuffled. Chunks whose size is not a multiple of it are refused, because numcodecs refuses
    /// them too and could not read them.
    pub(crate) fn from_config(json: Config<'_>, array: &Context<'_>) -> Result<Self> {
        let Fields { elementsize } = json.fields("shuffle")?;
        let element_size = elementsize.max(1);
        match array.decoded_size() {
            Some(size) if array.vlen.is_none() && !size.is_multiple_of(element_size) => {
                Err(CodecError::Unfit {
                    why: format!(
                        "\"shuffle\": expected chunks of a multiple of elementsize {element_size}, found \
                         {size} bytes"
                    ),
                })
            }
            _ => Ok(Shuffle { element_size }),
        }
    }

    pub(crate) fn new(client_data: &[u32]) -> Self {
        Shuffle { element_size: client_data.first().copied().unwrap_or(0) as usize }
    }

    fn check(self) -> Result<()> {
        if self.element_size == 0 {
            Err(CodecError::config("shuffle", "elementsize must be 1 or more, found 0"))
        } else {
            Ok(())
        }
    }
}

impl Codec for Shuffle {
    fn name(&self) -> &'static str {
        "shuffle"
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch) -> Result<usize> {
        self.check()?;
        unshuffle(self.element_size, src, front("shuffle", dst, src.len())?);
        Ok(src.len())
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _scratch: &mut Scratch) -> Result<()> {
        self.check()?;
        dst.truncate(src.len());
        shuffle(self.element_size, src, resize_buffer(dst, src.len(), "shuffle")?);
        Ok(())
    }

    fn racing(&self) -> Racing {
        Racing::Mixes
    }

    fn max_encoded(&self, decoded: usize) -> usize {
        decoded
    }

    fn to_v3(&self) -> Option<Value> {
        let json = json!({"name": "numcodecs.shuffle", "configuration": {"elementsize": self.element_size}});
        self.check().is_ok().then_some(json)
    }

    fn to_v2(&self) -> Option<Value> {
        self.check().is_ok().then(|| json!({"id": "shuffle", "elementsize": self.element_size}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{decode, encode, samples};

    #[test]
    fn known_bytes() {
        let shuffle = Shuffle::new(&[4]);
        // Two elements, and three bytes that belong to no element.
        assert_eq!(encode(&shuffle, b"abcdABCDxyz"), b"aAbBcCdDxyz");
        assert_eq!(decode(&shuffle, b"aAbBcCdDxyz", 11).unwrap(), b"abcdABCDxyz");
        assert!(matches!(decode(&shuffle, b"aAbBcCdDxyz", 10), Err(CodecError::Size { .. })));
    }

    #[test]
    fn round_trips() {
        for element_size in [1, 2, 3, 4, 6, 8, 12, 16, 100, 1 << 20, u32::MAX] {
            let shuffle = Shuffle::new(&[element_size]);
            for data in samples() {
                assert!(decode(&shuffle, &encode(&shuffle, &data), data.len()).unwrap() == data);
            }
        }
    }

    #[test]
    fn parameters() {
        for none in [&[][..], &[0]] {
            let shuffle = Shuffle::new(none);
            assert!(matches!(decode(&shuffle, b"abc", 3), Err(CodecError::Config { .. })));
            assert_eq!((shuffle.to_v2(), shuffle.to_v3()), (None, None));
        }
        assert_eq!(Shuffle::new(&[8]).to_v2(), Some(json!({"id": "shuffle", "elementsize": 8})));
    }
}
