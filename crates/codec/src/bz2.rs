//! `bz2`, and `bzip2`, filter 307 of HDF5: bzip2 streams. Encoders make only one.
//!
//! * Specification: <https://sourceware.org/bzip2/>; client data: the encoder's block size, which
//!   the stream repeats
//! * v2 id: `bz2`; v3 name: `numcodecs.bz2`
//!
//! The library cannot reuse its memory of up to 4 MiB, so each chunk allocates it.

use crate::registry::Config;
use crate::{Codec, CodecError, Result, Scratch, chain, room};
use bzip2::{Action, Compress, Compression, Decompress, Status};
use serde::Deserialize;
use serde_json::{Value, json};

/// The `bzip2` filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bzip2 {
    /// Hundreds of kilobytes per block, 1 to 9. With any other level, chunks can only be read.
    level: i32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    #[serde(default = "default_level")]
    level: i32,
}

fn default_level() -> i32 {
    1
}

impl Bzip2 {
    /// Reads Zarr metadata. Without a level it is 1, as in numcodecs. Any level can be read.
    pub(crate) fn from_config(json: Config<'_>) -> Result<Self> {
        let Fields { level } = json.fields("bz2")?;
        Ok(Bzip2 { level })
    }

    pub(crate) fn new(client_data: &[u32]) -> Self {
        let level = client_data.first().and_then(|level| i32::try_from(*level).ok());
        Bzip2 { level: level.filter(|level| (1..=9).contains(level)).unwrap_or(9) }
    }

    fn nearest_level(&self) -> i32 {
        self.level.clamp(1, 9)
    }
}

impl Codec for Bzip2 {
    fn name(&self) -> &'static str {
        "bzip2"
    }

    fn check_encoder(&self) -> Result<()> {
        if self.level == self.nearest_level() {
            return Ok(());
        }
        Err(CodecError::config("bz2", format!("level must be 1 to 9, found {}", self.level)))
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch) -> Result<usize> {
        let (room, mut rest, mut written) = (dst.len(), src, 0);
        loop {
            let mut stream = Decompress::new(false);
            let left = dst.get_mut(written..).unwrap_or_default();
            let mut status = run(&mut stream, rest, left)?;
            let decoded = stream.total_out();
            if status != Status::StreamEnd && decoded == left.len() as u64 {
                // `dst` is full: the rest may be the end of the stream, or more data than there is
                // room for.
                let unread = unread_input(rest, &stream);
                status = run(&mut stream, unread, &mut [0])?;
                if stream.total_out() > decoded {
                    return Err(chain::too_large("bzip2", room));
                }
            }
            if status != Status::StreamEnd {
                return Err(CodecError::corrupt("bzip2", format!("truncated after {} bytes", src.len())));
            }
            written += usize::try_from(decoded).unwrap_or(usize::MAX);
            rest = unread_input(rest, &stream);
            if rest.is_empty() {
                return Ok(written);
            }
            // The next stream. Many empty streams would only cost time, so they are refused.
            if decoded == 0 || !rest.starts_with(b"BZh") {
                let end = src.len() - rest.len();
                let why = format!("bytes follow the end of the stream at byte {end}");
                return Err(CodecError::corrupt("bzip2", why));
            }
        }
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _scratch: &mut Scratch) -> Result<()> {
        self.check_encoder()?;
        dst.clear();
        let mut stream = Compress::new(Compression::new(self.level.unsigned_abs()), 30);
        let (mut read, mut status) = (0, Status::Ok);
        while status != Status::StreamEnd {
            // The library's stated maximum: 1 % and 600 bytes more than the input.
            room::reserve(dst, src.len() - read + src.len() / 100 + 600, "bz2")?;
            let rest = src.get(read..).unwrap_or_default();
            let done = stream.compress_vec(rest, dst, Action::Finish);
            status = done.map_err(|error| CodecError::encode("bzip2", error.to_string()))?;
            read = usize::try_from(stream.total_in()).unwrap_or(usize::MAX);
        }
        Ok(())
    }

    fn to_v3(&self) -> Option<Value> {
        Some(json!({"name": "numcodecs.bz2", "configuration": {"level": self.nearest_level()}}))
    }

    fn to_v2(&self) -> Option<Value> {
        Some(json!({"id": "bz2", "level": self.nearest_level()}))
    }
}

/// The part of `src` that the stream has not read.
fn unread_input<'a>(src: &'a [u8], stream: &Decompress) -> &'a [u8] {
    usize::try_from(stream.total_in()).ok().and_then(|read| src.get(read..)).unwrap_or_default()
}

fn run(stream: &mut Decompress, src: &[u8], dst: &mut [u8]) -> Result<Status> {
    stream.decompress(src, dst).map_err(|error| match error {
        bzip2::Error::DataMagic => CodecError::corrupt("bzip2", "not a bzip2 stream"),
        _ => CodecError::corrupt("bzip2", "the stream is corrupt"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, decode};

    const BZIP2: Bzip2 = Bzip2 { level: 9 };

    /// Python: bz2.compress(b"hyperslab " * 20)
    const KNOWN: &str = "425a683931415926535959acff550000319180400032445820200054400c02954189ea764d13c26c9e93e261384c26118bb9229c28482cd67faa80";

    #[test]
    fn round_trips() {
        testing::check(&BZIP2);
        testing::check(&Bzip2 { level: 1 });
        let object = BZIP2.to_v2().unwrap();
        assert_eq!(Bzip2::from_config(Config::V2(&object)).unwrap(), BZIP2);
        for level in [-1, 0, 10, 77] {
            let edited = Bzip2::from_config(Config::V2(&json!({"id": "bz2", "level": level}))).unwrap();
            let stored = testing::encode(&BZIP2, b"abc");
            testing::only_decodes(&edited, &stored, b"abc", "level must be 1 to 9, found");
        }
        for bad in [json!({"id": "bz2", "level": "1"}), json!({"id": "bz2", "x": 1})] {
            assert!(matches!(Bzip2::from_config(Config::V2(&bad)), Err(CodecError::Config { .. })), "{bad}");
        }
    }

    #[test]
    fn known_stream() {
        let stored = crate::hdf5::tests::hex(KNOWN);
        let data = b"hyperslab ".repeat(20);
        assert_eq!(decode(&BZIP2, &stored, 200).unwrap(), data);
        assert_eq!(decode(&BZIP2, &stored, 300).unwrap(), data);
        for room in [0, 1, 199] {
            assert!(matches!(decode(&BZIP2, &stored, room), Err(CodecError::Size { .. })), "{room}");
        }
        let longer = [&stored[..], b"x"].concat();
        let message = decode(&BZIP2, &longer, 200).unwrap_err().to_string();
        assert!(message.starts_with("bzip2: bytes follow the end"), "{message}");
        testing::withstands_damage(&BZIP2, &stored, 200);
        let twice = stored.repeat(2);
        assert_eq!(decode(&BZIP2, &twice, 400).unwrap(), data.repeat(2));
        for room in [200, 399] {
            assert!(matches!(decode(&BZIP2, &twice, room), Err(CodecError::Size { .. })), "{room}");
        }
        let nothing_first = [testing::encode(&BZIP2, b""), stored].concat();
        assert!(decode(&BZIP2, &nothing_first, 200).is_err());
    }
}
