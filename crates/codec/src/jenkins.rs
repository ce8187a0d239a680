//! `jenkins_lookup3`: Bob Jenkins' lookup3 (`hashlittle`) after the bytes.
//!
//! HDF5 uses this checksum for its metadata.
//!
//! * Specification: <https://numcodecs.readthedocs.io/en/stable/checksum32.html#jenkinslookup3>,
//!   <https://burtleburtle.net/bob/c/lookup3.c>
//! * v2 id: `jenkins_lookup3`; v3 name: `numcodecs.jenkins_lookup3`
//!
//! ```json
//! {"id": "jenkins_lookup3", "initval": 0, "prefix": [80, 81]}
//! ```
//!
//! The checksum covers the `prefix`, which is not stored, and the bytes. In numcodecs the prefix is
//! an array of bytes, which it cannot write to metadata; here it is a list of numbers.

use crate::numcodecs::checksum::{Location, append_checksum, max_framed, verify_payload};
use crate::registry::Config;
use crate::{Codec, Racing, Result, Scratch, copy_front};
use serde::Deserialize;
use serde_json::{Value, json};

/// The `jenkins_lookup3` codec.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct JenkinsLookup3 {
    #[serde(default)]
    initval: u32,
    prefix: Option<Vec<u8>>,
}

impl JenkinsLookup3 {
    /// Reads Zarr metadata.
    pub(crate) fn from_config(json: Config<'_>) -> Result<Self> {
        json.fields("jenkins_lookup3")
    }

    fn sum(&self, bytes: &[u8]) -> u32 {
        match &self.prefix {
            None => lookup3(bytes, self.initval),
            Some(prefix) => lookup3(&[prefix, bytes].concat(), self.initval),
        }
    }

    fn verify_payload<'a>(&self, src: &'a [u8], verify: bool) -> Result<&'a [u8]> {
        verify_payload("jenkins_lookup3", Location::End, src, verify, |bytes| self.sum(bytes))
    }

    fn configuration(&self) -> Value {
        json!({"initval": self.initval, "prefix": self.prefix})
    }
}

impl Codec for JenkinsLookup3 {
    fn name(&self) -> &'static str {
        "jenkins_lookup3"
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch) -> Result<usize> {
        copy_front("jenkins_lookup3", self.verify_payload(src, true)?, dst)
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _scratch: &mut Scratch) -> Result<()> {
        append_checksum("jenkins_lookup3", Location::End, src, dst, |bytes| self.sum(bytes))
    }

    fn racing(&self) -> Racing {
        Racing::Mixes
    }

    fn max_encoded(&self, decoded: usize) -> usize {
        max_framed(decoded)
    }

    fn unframe<'a>(&self, src: &'a [u8], verify: bool) -> Option<Result<&'a [u8]>> {
        Some(self.verify_payload(src, verify))
    }

    fn to_v3(&self) -> Option<Value> {
        Some(json!({"name": "numcodecs.jenkins_lookup3", "configuration": self.configuration()}))
    }

    fn to_v2(&self) -> Option<Value> {
        Some(json!({"id": "jenkins_lookup3", "initval": self.initval, "prefix": self.prefix}))
    }
}

/// Bob Jenkins' lookup3 (`hashlittle`).
pub fn lookup3(bytes: &[u8], initval: u32) -> u32 {
    // The length counts modulo 2³².
    let len = u32::try_from(bytes.len() & 0xffff_ffff).unwrap_or_default();
    let mut state = [0xdead_beef_u32.wrapping_add(len).wrapping_add(initval); 3];
    let mut rest = bytes;
    while rest.len() > 12 {
        let (block, later) = rest.split_at(12);
        state = mix(add(state, block));
        rest = later;
    }
    if rest.is_empty() { state[2] } else { final_mix(add(state, rest))[2] }
}

/// Adds up to 12 bytes; absent bytes count as zero.
fn add([a, b, c]: [u32; 3], block: &[u8]) -> [u32; 3] {
    let mut padded = [0; 12];
    for (to, from) in padded.iter_mut().zip(block) {
        *to = *from;
    }
    let [p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11] = padded;
    [
        a.wrapping_add(u32::from_le_bytes([p0, p1, p2, p3])),
        b.wrapping_add(u32::from_le_bytes([p4, p5, p6, p7])),
        c.wrapping_add(u32::from_le_bytes([p8, p9, p10, p11])),
    ]
}

fn mix([mut a, mut b, mut c]: [u32; 3]) -> [u32; 3] {
    let step = |x: &mut u32, y: u32, turn: u32| *x = x.wrapping_sub(y) ^ y.rotate_left(turn);
    for [first, second, third] in [[4, 6, 8], [16, 19, 4]] {
        step(&mut a, c, first);
        c = c.wrapping_add(b);
        step(&mut b, a, second);
        a = a.wrapping_add(c);
        step(&mut c, b, third);
        b = b.wrapping_add(a);
    }
    [a, b, c]
}

fn final_mix([mut a, mut b, mut c]: [u32; 3]) -> [u32; 3] {
    let step = |x: &mut u32, y: u32, turn: u32| *x = (*x ^ y).wrapping_sub(y.rotate_left(turn));
    step(&mut c, b, 14);
    step(&mut a, c, 11);
    step(&mut b, a, 25);
    step(&mut c, b, 16);
    step(&mut a, c, 4);
    step(&mut b, a, 14);
    step(&mut c, b, 24);
    [a, b, c]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, decode, encode};
    use crate::{CodecError, hdf5::tests::hex};

    fn codec(object: &Value) -> Result<JenkinsLookup3> {
        JenkinsLookup3::from_config(Config::V2(object))
    }

    #[test]
    fn published_values() {
        // Output of Jenkins' own `driver5`.
        assert_eq!(lookup3(b"", 0), 0xdead_beef);
        assert_eq!(lookup3(b"Four score and seven years ago", 0), 0x1777_0551);
        assert_eq!(lookup3(b"Four score and seven years ago", 1), 0xcd62_8161);
        // Stored by numcodecs.
        let prefixed =
            codec(&json!({"id": "jenkins_lookup3", "initval": 5, "prefix": [97, 98, 99]})).unwrap();
        assert_eq!(encode(&prefixed, b"Four score")[10..], hex("2c95db7e"));
    }

    #[test]
    fn round_trips_and_damage() {
        for object in [
            json!({"id": "jenkins_lookup3"}),
            json!({"id": "jenkins_lookup3", "initval": 4_294_967_295u32, "prefix": [0, 255]}),
        ] {
            let codec = codec(&object).unwrap();
            testing::check(&codec);
            testing::refuses_truncation(&codec);
            assert_eq!(self::codec(&codec.to_v2().unwrap()).unwrap(), codec);
            let mut bad = encode(&codec, b"some bytes");
            bad[3] ^= 1;
            assert!(matches!(decode(&codec, &bad, 10), Err(CodecError::Checksum { .. })), "{object}");
            assert_eq!(codec.unframe(&bad, false).unwrap().unwrap().len(), 10);
        }
        for bad in [
            json!({"id": "jenkins_lookup3", "initval": -1}),
            json!({"id": "jenkins_lookup3", "prefix": "ab"}),
            json!({"id": "jenkins_lookup3", "prefix": [256]}),
            json!({"id": "jenkins_lookup3", "location": "end"}),
        ] {
            assert!(codec(&bad).is_err(), "{bad}");
        }
    }
}
