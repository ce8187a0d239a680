//! `zfp`, filter 32013: H5Z-ZFP.
//!
//! * Specification: <https://h5z-zfp.readthedocs.io/en/latest/interfaces.html>
//! * Client data: the versions of the filter and of the library; then a zfp header, which gives the
//!   encoder's mode, the element type, and the shape of a chunk without axes of length 1
//!
//! A chunk is a [stream](crate::zfp) of any number of bytes, without a header. If the header is
//! only readable with its numbers' bytes swapped, the file was written on a machine with the other
//! byte order. HDF5 then expects the elements in that order too.

use crate::zfp::{decode_field, max_stream, words};
use crate::{Codec, CodecError, Result, Scratch, chain};
use zfp_rs::{ZfpBitStreamRef, ZfpConfig, ZfpFieldMetadata, ZfpHeaderMask};

/// The `zfp` filter.
#[derive(Clone, Debug)]
pub(super) struct Zfp {
    config: ZfpConfig,
    field: ZfpFieldMetadata,
    /// The size of an element whose bytes are reversed, or 1 if none are.
    unit: usize,
}

/// The newest version of streams.
const CODEC: u32 = 5;
/// The most numbers of client data that the filter writes.
const MOST: usize = 10;

impl Zfp {
    pub(super) fn new(client_data: &[u32]) -> Result<Self> {
        let header = client_data.get(1..).unwrap_or_default();
        if header.is_empty() || client_data.len() > MOST {
            let why = format!("expected 2 to {MOST} parameters, found {}", client_data.len());
            return Err(CodecError::config("zfp", why));
        }
        // Since zfp 1.0 the first number holds the version of the streams. Older streams are
        // version 5 at most.
        if let Some(versions) = client_data.first().filter(|versions| **versions >= 0x1000_0000) {
            let codec = versions >> 12 & 15;
            if codec > CODEC {
                let name = format!("zfp of version {codec} (HDF5 filter 32013)");
                return Err(CodecError::Unknown { name, supported: format!("up to version {CODEC}") });
            }
        }
        let swapped: Vec<u32> = header.iter().map(|word| word.swap_bytes()).collect();
        if let Some((config, field)) = read(header) {
            return Ok(Zfp { config, field, unit: 1 });
        }
        match read(&swapped) {
            Some((config, field)) => Ok(Zfp { config, field, unit: field.scalar_type.size() }),
            None => Err(CodecError::config(
                "zfp",
                format!("expected a zfp header of version {CODEC} in the parameters, found other numbers"),
            )),
        }
    }
}

/// The header in client data.
fn read(client_data: &[u32]) -> Option<(ZfpConfig, ZfpFieldMetadata)> {
    let bytes: Vec<u8> = client_data.iter().flat_map(|word| word.to_le_bytes()).collect();
    let header =
        ZfpBitStreamRef::from_words(&words("zfp", &bytes).ok()?).read_header(ZfpHeaderMask::FULL).ok()?;
    (header.bits_read <= bytes.len() * 8).then_some((header.config?, header.metadata?))
}

impl Codec for Zfp {
    fn name(&self) -> &'static str {
        "zfp"
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch) -> Result<usize> {
        let words = words("zfp", src)?;
        let mut stream = ZfpBitStreamRef::from_words(&words);
        let written = decode_field("zfp", &mut stream, src.len(), &self.config, &self.field, dst)?;
        if self.unit > 1 {
            dst.chunks_exact_mut(self.unit).take(written / self.unit).for_each(<[u8]>::reverse);
        }
        Ok(written)
    }

    fn max_encoded(&self, decoded: usize) -> usize {
        let lengths = self.field.dims.iter().map(|length| *length.max(&1));
        let total = lengths.fold(self.field.scalar_type.size(), usize::saturating_mul);
        // If the header describes other chunks, no chunk decodes.
        if total == decoded {
            max_stream(&self.config, &self.field, decoded)
        } else {
            chain::generous_bound(decoded)
        }
    }
}
