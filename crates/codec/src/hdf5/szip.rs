//! `szip`, filter 4: the extended Rice coding of CCSDS 121.0-B.
//!
//! * Specification: HDF5 file format, IV.A.2.l, filter 4; CCSDS 121.0-B-3; client data: options,
//!   pixels per block, bits per pixel, pixels per scanline
//!
//! A chunk is its decoded size (4 bytes, little-endian) and the coded samples ([`aec`]). The bits
//! per pixel determine what a sample is:
//!
//! * up to 24: the pixel, which takes 1, 2 or (from 17 bits) 4 bytes;
//! * 32 and 64: one byte, after the bytes of all pixels were shuffled.
//!
//! Each scanline is coded separately. If samples are predicted, its first sample is stored
//! unchanged. Its end is padded to whole blocks.

use super::aec::{self, Samples};
use super::bits::BitWriter;
use super::exact_client_data;
use crate::blosc::shuffle::{shuffle, unshuffle};
use crate::scratch::resize_buffer;
use crate::{ByteOrder, Codec, CodecError, Result, Scratch, chain, front};

const NAME: &str = "szip";

/// The two options that a decoder needs: nearest neighbour, which predicts samples, and the byte
/// order of pixels.
const NEAREST_NEIGHBOUR: u32 = 32;
const MOST_SIGNIFICANT_FIRST: u32 = 16;

/// The `szip` filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Szip {
    samples: Samples,
    /// Bytes per pixel if the bytes of all pixels are shuffled, otherwise 1.
    shuffled: usize,
}

impl Szip {
    pub(super) fn new(client_data: &[u32]) -> Result<Self> {
        let &[options, block, bits, scanline] = exact_client_data(NAME, client_data)?;
        if !(2..=aec::MAX_BLOCK).contains(&(block as usize)) || block % 2 != 0 {
            return Err(CodecError::config(
                NAME,
                format!("expected an even number of 2 to {} pixels per block, found {block}", aec::MAX_BLOCK),
            ));
        }
        if scanline == 0 {
            return Err(CodecError::config(NAME, "expected at least 1 pixel per scanline, found 0"));
        }
        let (bits, shuffled) = match bits {
            1..=24 => (bits, 1),
            32 | 64 => (8, bits as usize / 8),
            other => {
                return Err(CodecError::config(
                    NAME,
                    format!("expected 1 to 24, 32 or 64 bits per pixel, found {other}"),
                ));
            }
        };
        let order = if options & MOST_SIGNIFICANT_FIRST == 0 { ByteOrder::Little } else { ByteOrder::Big };
        let samples = Samples {
            bits,
            block: block as usize,
            scanline: scanline as usize,
            predicted: options & NEAREST_NEIGHBOUR != 0,
            order,
        };
        Ok(Szip { samples, shuffled })
    }
}

impl Codec for Szip {
    fn name(&self) -> &'static str {
        NAME
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch) -> Result<usize> {
        let Some((size, coded)) = src.split_first_chunk() else {
            let why = format!("truncated: expected at least 4 bytes for the size, found {}", src.len());
            return Err(CodecError::corrupt(NAME, why));
        };
        let size = u32::from_le_bytes(*size) as usize;
        let dst = front(NAME, dst, size)?;
        if !size.is_multiple_of(self.samples.bytes()) {
            let why = format!(
                "expected a whole number of pixels of {} bytes, found {size} bytes",
                self.samples.bytes()
            );
            return Err(CodecError::corrupt(NAME, why));
        }
        let corrupt = |why| CodecError::corrupt(NAME, why);
        if self.shuffled == 1 {
            self.samples.decode(coded, dst).map_err(corrupt)?;
        } else {
            let bytes = resize_buffer(&mut scratch.blosc.block, size, NAME)?;
            self.samples.decode(coded, bytes).map_err(corrupt)?;
            unshuffle(self.shuffled, bytes, dst);
        }
        Ok(size)
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, scratch: &mut Scratch) -> Result<()> {
        let unstorable = |why| CodecError::config(NAME, why);
        let size = u32::try_from(src.len())
            .map_err(|_| unstorable(format!("expected chunks below 4 GiB, found {} bytes", src.len())))?;
        if !src.len().is_multiple_of(self.samples.bytes() * self.shuffled) {
            return Err(unstorable(format!(
                "expected a whole number of pixels of {} bytes, found {} bytes",
                self.samples.bytes() * self.shuffled,
                src.len()
            )));
        }
        dst.clear();
        dst.extend(size.to_le_bytes());
        let mut bits = BitWriter::new(std::mem::take(dst));
        if self.shuffled == 1 {
            self.samples.encode(src, &mut bits).map_err(unstorable)?;
        } else {
            let bytes = resize_buffer(&mut scratch.blosc.block, src.len(), NAME)?;
            shuffle(self.shuffled, src, bytes);
            self.samples.encode(bytes, &mut bits).map_err(unstorable)?;
        }
        *dst = bits.finish();
        Ok(())
    }

    fn max_encoded(&self, decoded: usize) -> usize {
        // Each scanline is padded to whole blocks.
        let padded = self.samples.scanline.next_multiple_of(self.samples.block);
        let scanlines = decoded.div_ceil(self.samples.scanline * self.samples.bytes());
        let samples = scanlines.saturating_mul(padded).saturating_mul(self.samples.bytes());
        chain::generous_bound(samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, decode, encode};

    #[test]
    fn parameters() {
        let message = |client_data: &[u32]| Szip::new(client_data).unwrap_err().to_string();
        assert!(message(&[169, 8, 32]).contains("expected 4 parameters, found 3"));
        for block in [0, 1, 7, 66, u32::MAX] {
            assert!(message(&[169, block, 32, 10]).contains("pixels per block"), "{block}");
        }
        assert!(message(&[169, 8, 32, 0]).contains("expected at least 1 pixel per scanline, found 0"));
        for bits in [0, 25, 31, 33, 65] {
            assert!(message(&[169, 8, bits, 10]).contains("bits per pixel"), "{bits}");
        }
    }

    #[test]
    fn sizes() {
        let szip = Szip::new(&[169, 8, 16, 10]).unwrap();
        assert!(matches!(decode(&szip, &[255; 10], 10), Err(CodecError::Size { .. })));
        let message = |stored: &[u8]| decode(&szip, stored, 10).unwrap_err().to_string();
        assert_eq!(message(&[1, 0, 0]), "szip: truncated: expected at least 4 bytes for the size, found 3");
        assert_eq!(
            message(&[3, 0, 0, 0]),
            "szip: expected a whole number of pixels of 2 bytes, found 3 bytes"
        );
        assert_eq!(message(&[4, 0, 0, 0]), "szip: scanline 0: truncated");
        // Scanlines of one pixel in blocks of 8: each is stored with 7 pixels of padding.
        let narrow = Szip::new(&[169, 8, 16, 1]).unwrap();
        assert!(narrow.max_encoded(1000) > 8 * 1000);
    }

    #[test]
    fn round_trips() {
        for options in [4 | 8, 32 | 8, 32 | 16, 4 | 16] {
            for (bits, scanline) in [(8, 10), (16, 100), (32, 7), (64, 4096), (64, 33)] {
                let szip = Szip::new(&[options | 128, 8, bits, scanline]).unwrap();
                for mut data in testing::samples() {
                    data.truncate(data.len() / 8 * 8);
                    let stored = encode(&szip, &data);
                    assert!(stored.len() <= szip.max_encoded(data.len()), "{bits} {scanline}");
                    assert_eq!(
                        decode(&szip, &stored, data.len()).unwrap(),
                        data,
                        "{options} {bits} {scanline}"
                    );
                }
            }
        }
        let szip = Szip::new(&[32 | 8, 32, 16, 4096]).unwrap();
        let ramp: Vec<u8> = (0..10_000_u16).flat_map(u16::to_le_bytes).collect();
        assert!(encode(&szip, &ramp).len() < 5000);
    }
}
