//! `lzma`: LZMA in the containers of Python's `lzma` module.
//!
//! * Specification: <https://numcodecs.readthedocs.io/en/stable/compression/lzma.html>,
//!   <https://docs.python.org/3/library/lzma.html>, <https://tukaani.org/xz/format.html>
//! * v2 id: `lzma`; v3 name: `numcodecs.lzma`
//!
//! ```json
//! {"id": "lzma", "format": 3, "check": -1, "preset": null, "filters": [{"id": 3, "dist": 4}, {"id": 33}]}
//! ```
//!
//! The format is 1 (xz), 2 (alone) or 3 (raw). A raw stream does not record how it was made; the
//! `filters` do. Format 0 reads xz and alone. As in numcodecs, several streams may follow each
//! other.
//!
//! A stream states the size of its decoder's dictionary, up to 4 GiB. The decoder of a raw stream
//! gets no more than the chunk can fill. Other decoders may use [`DICTIONARY`] or twice the chunk.

use crate::registry::Config;
use crate::{Codec, CodecError, Result, Scratch, chain, room};
use liblzma::stream::{Action, Check, Error, Filters, LzmaOptions, MatchFinder, Mode, Status, Stream};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The most memory of a small chunk's decoder. Preset 9 needs 65 MiB.
const DICTIONARY: u64 = 256 << 20;
/// The smallest dictionary that the library accepts.
const LEAST_DICTIONARY: u32 = 4096;
/// The default preset, as in Python.
const PRESET: u32 = 6;
/// The preset bit that selects the slower variant.
const EXTREME: u32 = 1 << 31;

const AUTO: u32 = 0;
const XZ: u32 = 1;
const ALONE: u32 = 2;
const RAW: u32 = 3;

const LZMA1: u64 = 0x4000_0000_0000_0001;
const LZMA2: u64 = 0x21;
const DELTA: u64 = 3;

/// The `lzma` codec, in the numbers of Python's `lzma` module.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lzma {
    #[serde(default = "xz")]
    format: u32,
    /// The checksum of an xz stream; -1 means CRC-64.
    #[serde(default = "no_check")]
    check: i32,
    preset: Option<u32>,
    filters: Option<Vec<Filter>>,
}

/// A filter of a chain, and its options: LZMA's options, `dist` for delta, or `start_offset` for
/// the filters for executable code (BCJ).
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
struct Filter {
    id: u64,
    #[serde(flatten)]
    options: BTreeMap<String, u32>,
}

fn xz() -> u32 {
    XZ
}

fn no_check() -> i32 {
    -1
}

impl Lzma {
    /// Reads Zarr metadata.
    pub(crate) fn from_config(json: Config<'_>) -> Result<Self> {
        let lzma: Lzma = json.fields("lzma")?;
        let invalid = |why: String| Err(CodecError::config("lzma", why));
        if lzma.format > RAW {
            return invalid(format!("format must be 1 (xz), 2 (alone) or 3 (raw), found {}", lzma.format));
        }
        if lzma.format != XZ && lzma.check > 0 {
            return invalid(format!("check needs format 1 (xz), found format {}", lzma.format));
        }
        if lzma.preset.is_some_and(|preset| preset & !EXTREME > 9) {
            return invalid(format!("preset must be 0 to 9, found {}", lzma.preset.unwrap_or_default()));
        }
        match &lzma.filters {
            Some(_) if lzma.preset.is_some() => {
                return invalid("expected preset or filters, found both".into());
            }
            None if lzma.format == RAW => return invalid("format 3 (raw) needs filters".into()),
            _ => {}
        }
        lzma.check()?;
        // The library knows which filters may be combined.
        if lzma.format != AUTO && lzma.filters.is_some() {
            lzma.encoder(LEAST_DICTIONARY)?;
        }
        Ok(lzma)
    }

    fn check(&self) -> Result<Check> {
        match self.check {
            0 => Ok(Check::None),
            1 => Ok(Check::Crc32),
            -1 | 4 => Ok(Check::Crc64),
            10 => Ok(Check::Sha256),
            other => {
                Err(CodecError::config("lzma", format!("check must be -1, 0, 1, 4 or 10, found {other}")))
            }
        }
    }

    /// An encoder with a dictionary of at most `most` bytes.
    fn encoder(&self, most: u32) -> Result<Stream> {
        let preset = self.preset.unwrap_or(PRESET);
        let made = match (self.format, &self.filters) {
            (XZ, None) => Stream::new_easy_encoder(preset, self.check()?),
            (XZ, Some(filters)) => Stream::new_stream_encoder(&chain_of(filters, most)?, self.check()?),
            (ALONE, None) => {
                LzmaOptions::new_preset(preset).and_then(|options| Stream::new_lzma_encoder(&options))
            }
            (ALONE, Some(filters)) => match &filters[..] {
                [filter] if filter.id == LZMA1 => Stream::new_lzma_encoder(&filter.lzma(most)?),
                _ => Err(Error::Options),
            },
            (RAW, Some(filters)) => Stream::new_raw_encoder(&chain_of(filters, most)?),
            _ => {
                return Err(CodecError::encode("lzma", "format 0 can only be read: choose format 1, 2 or 3"));
            }
        };
        made.map_err(|error| codec_error(&error, self))
    }

    /// A decoder for a stream that decodes to at most `room` bytes.
    fn decoder(&self, room: usize) -> Result<Stream> {
        let limit = DICTIONARY.max((room as u64).saturating_mul(2));
        let made = match (self.format, &self.filters) {
            (XZ, _) => Stream::new_stream_decoder(limit, 0),
            (ALONE, _) => Stream::new_lzma_decoder(limit),
            (RAW, Some(filters)) => {
                // A stream can only repeat bytes that it has already decoded.
                let most = u32::try_from(room).unwrap_or(u32::MAX).max(LEAST_DICTIONARY);
                Stream::new_raw_decoder(&chain_of(filters, most)?)
            }
            _ => Stream::new_auto_decoder(limit, 0),
        };
        made.map_err(|error| codec_error(&error, self))
    }
}

impl Filter {
    /// The options of an LZMA1 or LZMA2 filter.
    fn lzma(&self, most: u32) -> Result<LzmaOptions> {
        let preset = self.options.get("preset").copied().unwrap_or(PRESET);
        let mut made = LzmaOptions::new_preset(preset).map_err(|_| self.invalid("preset", preset))?;
        // Dictionary size of each preset, as a power of two.
        const DICTIONARIES: [u32; 10] = [18, 20, 21, 22, 22, 23, 23, 24, 25, 26];
        if let Some(bits) = DICTIONARIES.get((preset & !EXTREME) as usize) {
            made.dict_size(most.min(1 << bits));
        }
        for (name, &value) in &self.options {
            match (name.as_str(), value) {
                ("preset", _) => {}
                ("dict_size", _) => drop(made.dict_size(value.min(most))),
                ("lc", _) => drop(made.literal_context_bits(value)),
                ("lp", _) => drop(made.literal_position_bits(value)),
                ("pb", _) => drop(made.position_bits(value)),
                ("nice_len", _) => drop(made.nice_len(value)),
                ("depth", _) => drop(made.depth(value)),
                ("mode", 1) => drop(made.mode(Mode::Fast)),
                ("mode", 2) => drop(made.mode(Mode::Normal)),
                ("mf", 3) => drop(made.match_finder(MatchFinder::HashChain3)),
                ("mf", 4) => drop(made.match_finder(MatchFinder::HashChain4)),
                ("mf", 0x12) => drop(made.match_finder(MatchFinder::BinaryTree2)),
                ("mf", 0x13) => drop(made.match_finder(MatchFinder::BinaryTree3)),
                ("mf", 0x14) => drop(made.match_finder(MatchFinder::BinaryTree4)),
                (name, value) => return Err(self.invalid(name, value)),
            }
        }
        Ok(made)
    }

    /// The value of option `name`, the only one allowed in a filter other than LZMA.
    fn sole_option(&self, name: &str) -> Result<Option<u32>> {
        if let Some((other, value)) = self.options.iter().find(|(key, _)| *key != name) {
            return Err(self.invalid(other, *value));
        }
        Ok(self.options.get(name).copied())
    }

    fn invalid(&self, name: &str, value: u32) -> CodecError {
        CodecError::config("lzma", format!("a filter with id {} cannot have {name:?}: {value}", self.id))
    }
}

/// The library's form of the filter chain. No dictionary has more than `most` bytes.
fn chain_of(filters: &[Filter], most: u32) -> Result<Filters> {
    let mut chain = Filters::new();
    for filter in filters {
        if matches!(filter.id, LZMA1 | LZMA2) {
            let options = filter.lzma(most)?;
            if filter.id == LZMA1 {
                chain.lzma1(&options)
            } else {
                chain.lzma2(&options)
            };
            continue;
        }
        if filter.id == DELTA {
            let distance = filter.sole_option("dist")?.unwrap_or(1);
            let Some(Ok(stored)) = distance.checked_sub(1).map(u8::try_from) else {
                return Err(filter.invalid("dist", distance));
            };
            chain.delta_properties(&[stored]).map_err(|_| filter.invalid("dist", distance))?;
            continue;
        }
        let offset = filter.sole_option("start_offset")?.unwrap_or_default();
        let properties = offset.to_le_bytes();
        let added = match filter.id {
            4 => chain.x86_properties(&properties),
            5 => chain.powerpc_properties(&properties),
            6 => chain.ia64_properties(&properties),
            7 => chain.arm_properties(&properties),
            8 => chain.arm_thumb_properties(&properties),
            9 => chain.sparc_properties(&properties),
            other => {
                let why = format!(
                    "filter id {other} is unknown (known: LZMA1 {LZMA1}, LZMA2 33, delta 3, BCJ 4 to 9)"
                );
                return Err(CodecError::config("lzma", why));
            }
        };
        added.map_err(|_| filter.invalid("start_offset", offset))?;
    }
    Ok(chain)
}

impl Codec for Lzma {
    fn name(&self) -> &'static str {
        "lzma"
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch) -> Result<usize> {
        let (room, mut rest, mut written) = (dst.len(), src, 0);
        loop {
            let mut stream = self.decoder(room)?;
            let left = dst.get_mut(written..).unwrap_or_default();
            let mut status = run(&mut stream, rest, left)?;
            let decoded = stream.total_out();
            if status != Status::StreamEnd && decoded == left.len() as u64 {
                // `dst` is full: the rest may be the end of the stream, or more data than there is
                // room for.
                let unread = unread_input(rest, &stream);
                status = run(&mut stream, unread, &mut [0])?;
                if stream.total_out() > decoded {
                    return Err(chain::too_large("lzma", room));
                }
            }
            if status != Status::StreamEnd {
                let why = format!("truncated after {} bytes", src.len());
                return Err(CodecError::corrupt("lzma", why));
            }
            written += usize::try_from(decoded).unwrap_or(usize::MAX);
            let is_only = rest.len() == src.len() && unread_input(rest, &stream).is_empty();
            rest = unread_input(rest, &stream);
            // Many empty streams would only cost time. Besides, a raw stream ends with a zero byte.
            if decoded == 0 && !is_only {
                let why =
                    format!("an empty stream is among other streams, {} bytes before the end", rest.len());
                return Err(CodecError::corrupt("lzma", why));
            }
            if rest.is_empty() {
                return Ok(written);
            }
        }
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _scratch: &mut Scratch) -> Result<()> {
        dst.clear();
        let mut stream = self.encoder(u32::MAX)?;
        let mut status = Status::Ok;
        while status != Status::StreamEnd {
            let rest = unread_input(src, &stream);
            room::reserve(dst, rest.len() / 4 + 4096, "lzma")?;
            let done = stream.process_vec(rest, dst, Action::Finish);
            status = done.map_err(|error| CodecError::encode("lzma", error.to_string()))?;
        }
        Ok(())
    }

    fn to_v3(&self) -> Option<Value> {
        Some(json!({"name": "numcodecs.lzma", "configuration": self.configuration()}))
    }

    fn to_v2(&self) -> Option<Value> {
        let mut object = json!({"id": "lzma"});
        object.as_object_mut()?.extend(self.configuration().as_object()?.clone());
        Some(object)
    }
}

impl Lzma {
    fn configuration(&self) -> Value {
        let Lzma { format, check, preset, filters } = self;
        json!({"format": format, "check": check, "preset": preset, "filters": filters})
    }
}

/// The part of `src` that the stream has not read.
fn unread_input<'a>(src: &'a [u8], stream: &Stream) -> &'a [u8] {
    usize::try_from(stream.total_in()).ok().and_then(|read| src.get(read..)).unwrap_or_default()
}

fn run(stream: &mut Stream, src: &[u8], dst: &mut [u8]) -> Result<Status> {
    stream.process(src, dst, Action::Run).map_err(|error| {
        let why = match error {
            Error::Format => "this is not a stream of the configured format".into(),
            Error::MemLimit => format!(
                "the stream asks for more than {} MiB of memory, more than a chunk of this size needs",
                stream.memlimit() >> 20
            ),
            Error::Options => "the stream has options that are not supported".into(),
            Error::Mem => "there is not enough memory".into(),
            _ => "the stream is corrupt".into(),
        };
        CodecError::corrupt("lzma", why)
    })
}

fn codec_error(error: &Error, codec: &Lzma) -> CodecError {
    match error {
        Error::Mem => CodecError::encode("lzma", "there is not enough memory for a dictionary of this size"),
        _ => {
            CodecError::config("lzma", format!("liblzma refuses the configuration {}", codec.configuration()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, decode, encode};

    fn codec(fields: Value) -> Result<Lzma> {
        let mut object = json!({"id": "lzma"});
        object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        Lzma::from_config(Config::V2(&object))
    }

    /// One codec for each format, check and kind of filter.
    fn codecs() -> Vec<Lzma> {
        let delta_lzma2 = json!([{"id": 3, "dist": 4}, {"id": 33, "preset": 0}]);
        let configurations = [
            json!({"preset": 0}),
            json!({"preset": 0, "check": 0}),
            json!({"preset": 1, "check": 10}),
            json!({"check": 1, "filters": delta_lzma2}),
            json!({"format": 2, "preset": 0}),
            json!({"format": 2, "filters": [{"id": LZMA1, "preset": 1, "lc": 1, "lp": 2, "pb": 0}]}),
            json!({"format": 3, "filters": delta_lzma2}),
            json!({"format": 3, "filters": [{"id": 4}, {"id": 33, "preset": 0, "dict_size": 4096}]}),
            json!({"format": 3, "filters": [{"id": LZMA1, "preset": 0, "mf": 4, "nice_len": 10, "depth": 3, "mode": 2}]}),
        ];
        configurations.into_iter().map(|fields| codec(fields).unwrap()).collect()
    }

    #[test]
    fn round_trips() {
        for codec in codecs() {
            let mut scratch = Scratch::default();
            for data in testing::samples().into_iter().filter(|data| data.len() < 100_000) {
                let mut stored = Vec::new();
                codec.encode(&data, &mut stored, &mut scratch).unwrap();
                for room in [data.len(), data.len() + 1, data.len() + 1000] {
                    let decoded = testing::decode_with(&codec, &stored, room, &mut scratch).unwrap();
                    assert!(decoded == data, "{codec:?}, {} bytes into {room}", data.len());
                }
                if let Some(room) = data.len().checked_sub(1) {
                    let error = decode(&codec, &stored, room).unwrap_err();
                    assert!(matches!(error, CodecError::Size { .. }), "{codec:?}: {error}");
                }
                stored.push(0x55);
                assert!(
                    decode(&codec, &stored, data.len() + 100).is_err(),
                    "{codec:?}: a byte after the end"
                );
            }
            let object = codec.to_v2().unwrap();
            assert_eq!(Lzma::from_config(Config::V2(&object)).unwrap(), codec);
        }
    }

    #[test]
    fn damage() {
        for codec in codecs() {
            let stored = encode(&codec, &b"hyperslab ".repeat(20));
            testing::withstands_damage(&codec, &stored, 200);
            for end in 0..stored.len() {
                assert!(decode(&codec, &stored[..end], 200).is_err(), "{codec:?} cut to {end}");
            }
        }
    }

    /// Python: lzma.compress(b"hyperslab " * 20, format=lzma.FORMAT_ALONE, preset=1)
    const KNOWN: &str = "5d00001000ffffffffffffffff00341e4a4405e3c7b55e4e6b7390ff4a43fffff69bc000";

    #[test]
    fn streams_follow_one_another() {
        for codec in codecs() {
            let stored = [encode(&codec, b"first "), encode(&codec, b"second")].concat();
            assert_eq!(decode(&codec, &stored, 12).unwrap(), b"first second", "{codec:?}");
            assert!(matches!(decode(&codec, &stored, 11), Err(CodecError::Size { .. })), "{codec:?}");
            for (first, second) in [("", "second"), ("first", "")] {
                let stored = [encode(&codec, first.as_bytes()), encode(&codec, second.as_bytes())].concat();
                assert!(decode(&codec, &stored, 12).is_err(), "{codec:?}");
            }
        }
    }

    #[test]
    fn either_container() {
        let auto = codec(json!({"format": 0})).unwrap();
        let data = b"hyperslab ".repeat(20);
        let (known, alone) =
            (crate::hdf5::tests::hex(KNOWN), codec(json!({"format": 2, "preset": 1})).unwrap());
        assert_eq!((decode(&auto, &known, 200).unwrap(), encode(&alone, &data)), (data.clone(), known));
        for stored in
            [encode(&codec(json!({})).unwrap(), &data), encode(&codec(json!({"format": 2})).unwrap(), &data)]
        {
            assert_eq!(decode(&auto, &stored, 200).unwrap(), data);
        }
        assert!(auto.encode(b"x", &mut Vec::new(), &mut Scratch::default()).is_err());
    }

    #[test]
    fn a_dictionary_that_no_chunk_fills() {
        let alone = codec(json!({"format": 2, "preset": 0})).unwrap();
        let mut stored = encode(&alone, b"some bytes");
        // The dictionary size follows the first byte.
        stored[1..5].copy_from_slice(&(1u32 << 30).to_le_bytes());
        let message = decode(&alone, &stored, 10).unwrap_err().to_string();
        assert!(message.contains("asks for more than 256 MiB of memory"), "{message}");
        let raw = json!({"format": 3, "filters": [{"id": 33, "dict_size": 1_610_612_736}]});
        let small = codec(json!({"format": 3, "filters": [{"id": 33, "preset": 0}]})).unwrap();
        let stored = encode(&small, b"some bytes");
        assert_eq!(decode(&codec(raw).unwrap(), &stored, 10).unwrap(), b"some bytes");
    }

    #[test]
    fn codec_error() {
        for bad in [
            json!({"format": 4}),
            json!({"format": 2, "check": 4}),
            json!({"check": 2}),
            json!({"preset": 10}),
            json!({"format": 3}),
            json!({"format": 3, "filters": []}),
            json!({"preset": 1, "filters": [{"id": 33}]}),
            json!({"filters": [{"id": 33}, {"id": 3}]}),
            json!({"filters": [{"id": 3}, {"id": 3}, {"id": 3}, {"id": 3}, {"id": 33}]}),
            json!({"filters": [{"id": LZMA1}]}),
            json!({"format": 2, "filters": [{"id": 33}]}),
            json!({"filters": [{"id": 99}]}),
            json!({"filters": [{"id": 3, "dist": 0}, {"id": 33}]}),
            json!({"filters": [{"id": 3, "dist": 257}, {"id": 33}]}),
            json!({"filters": [{"id": 3, "start_offset": 1}, {"id": 33}]}),
            json!({"filters": [{"id": 4, "dist": 1}, {"id": 33}]}),
            json!({"filters": [{"id": 33, "preset": 11}]}),
            json!({"filters": [{"id": 33, "lc": 9}]}),
            json!({"filters": [{"id": 33, "dist": 9}]}),
            json!({"filters": [{"id": 33, "mode": 3}]}),
            json!({"filters": [{"id": 33, "dict_size": "1"}]}),
            json!({"x": 1}),
        ] {
            assert!(matches!(codec(bad.clone()), Err(CodecError::Config { .. })), "{bad}");
        }
        let not_lzma =
            decode(&codec(json!({})).unwrap(), b"hyperslab hyperslab", 10).unwrap_err().to_string();
        assert_eq!(not_lzma, "lzma: this is not a stream of the configured format");
    }
}
