//! Runs a chunk through its codecs. No other code runs several codecs in a row.
//!
//! Codecs are given in the order of encoding; decoding runs the list backwards. The bytes between
//! two codecs go through one of two buffers of [`Scratch`], which alternate. The first codec of the
//! list decodes straight into the caller's memory.

use crate::decode_bounded::{check_vlen_limit, decode_growing};
use crate::scratch::resize_buffer;
use crate::{Codec, CodecError, Racing, Result, Scratch, room};
use std::ops::Range;
use std::sync::Arc;

/// The largest buffer between two codecs that is allocated at once, because metadata asks for it.
/// Larger buffers grow with the data that is really there: the metadata may be made up.
const TRUSTED: usize = 64 << 20;

/// The most bytes that may pass between two codecs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Between<'a> {
    /// At most `sizes[i]` after the first `i` codecs.
    Sizes(&'a [usize]),
    /// The same, for elements of variable length: the stored size is a limit too.
    Vlen(&'a [usize]),
    /// The encoded form of at most this many decoded bytes.
    Decoded(usize),
}

/// The destination of decoded bytes.
#[derive(Debug)]
pub(crate) enum Output<'a> {
    /// At least the bytes of a range, into their places in memory as long as the decoded chunk.
    Part(&'a mut [u8], Range<usize>),
    /// All bytes, but at most this many, into a buffer that grows.
    Growing(&'a mut Vec<u8>, usize),
}

/// Decodes `src`. `verify: false` skips checksums that are codecs of their own. After an error the
/// content of the output is unspecified.
#[inline]
pub(crate) fn decode(
    codecs: &[Arc<dyn Codec>],
    between: Between<'_>,
    src: &[u8],
    output: Output<'_>,
    scratch: &mut Scratch,
    verify: bool,
) -> Result<()> {
    // Taken out of the scratch while in use, so that the codecs can use the rest of it.
    let mut stages = std::mem::take(&mut scratch.stages);
    let result = decode_staged(&mut stages, codecs, between, src, output, scratch, verify);
    scratch.stages = stages;
    result
}

#[inline]
fn decode_staged(
    [from, to]: &mut [Vec<u8>; 2],
    codecs: &[Arc<dyn Codec>],
    between: Between<'_>,
    src: &[u8],
    output: Output<'_>,
    scratch: &mut Scratch,
    verify: bool,
) -> Result<()> {
    let mut left = codecs;
    // How much of `from` is the input of the next codec. `None` means that `src` is the input.
    let mut staged: Option<usize> = None;
    loop {
        let mut input = match staged {
            None => src,
            Some(len) => from.get(..len).unwrap_or_default(),
        };
        (left, input) = peel(left, input, verify)?;
        match left {
            [] => return output.copy(first_name(codecs), input),
            [codec] => return output.decode(codec.as_ref(), input, scratch),
            [earlier @ .., codec] => {
                let most = match between {
                    Between::Sizes(sizes) | Between::Vlen(sizes) => {
                        sizes.get(earlier.len()).copied().unwrap_or_default()
                    }
                    Between::Decoded(bytes) => {
                        earlier.iter().fold(bytes, |size, codec| codec.max_encoded(size))
                    }
                };
                staged = Some(match between {
                    Between::Sizes(_) if most <= TRUSTED => {
                        codec.decode(input, stage(to, most, codec.name())?, scratch)?
                    }
                    _ => {
                        let vlen = matches!(between, Between::Vlen(_));
                        decode_growing(codec.as_ref(), input, most, vlen, to, scratch)?
                    }
                });
                std::mem::swap(from, to);
                left = earlier;
            }
        }
    }
}

impl Output<'_> {
    /// Receives bytes that are already decoded.
    fn copy(self, codec: &'static str, input: &[u8]) -> Result<()> {
        match self {
            Output::Part(dst, _) if input.len() != dst.len() => {
                Err(CodecError::size(codec, dst.len(), input.len()))
            }
            Output::Part(dst, wanted) => {
                if let (Some(to), Some(from)) = (dst.get_mut(wanted.clone()), input.get(wanted)) {
                    to.copy_from_slice(from);
                }
                Ok(())
            }
            Output::Growing(_, limit) if input.len() > limit => {
                Err(CodecError::size(codec, limit, input.len()))
            }
            Output::Growing(out, _) => {
                stage(out, input.len(), codec)?.copy_from_slice(input);
                out.truncate(input.len());
                Ok(())
            }
        }
    }

    /// Receives the output of the last codec.
    #[inline]
    fn decode(self, codec: &dyn Codec, input: &[u8], scratch: &mut Scratch) -> Result<()> {
        match self {
            Output::Part(dst, wanted) => codec.decode_part(input, wanted, dst, scratch),
            Output::Growing(out, limit) => {
                let written = decode_growing(codec, input, limit, false, out, scratch)?;
                out.truncate(written);
                Ok(())
            }
        }
    }
}

/// The codec that makes the decoded bytes, named in messages about them.
pub(crate) fn first_name(codecs: &[Arc<dyn Codec>]) -> &'static str {
    codecs.first().map_or("bytes", |codec| codec.name())
}

/// Encodes bytes into `dst`, with codecs given in the order of encoding.
///
/// `dst` is cleared first; its capacity is reused. With `vlen`, the first codec is that for
/// elements of variable length; the output of the others is then checked to be readable.
pub(crate) fn encode(
    codecs: &[Arc<dyn Codec>],
    vlen: bool,
    src: &[u8],
    dst: &mut Vec<u8>,
    scratch: &mut Scratch,
) -> Result<()> {
    let Some((last, earlier)) = codecs.split_last() else {
        return room::fill(dst, src, first_name(codecs));
    };
    let [mut from, mut to] = std::mem::take(&mut scratch.stages);
    let mut step = |codec: &dyn Codec, input: Option<&[u8]>, out: &mut Vec<u8>| {
        codec.encode(input.unwrap_or(src), out, scratch)?;
        match input {
            Some(input) if vlen => check_vlen_limit(codec.name(), input.len(), out.len()),
            _ => Ok(()),
        }
    };
    let mut staged = false;
    let result = earlier.iter().try_for_each(|codec| {
        let done = step(codec.as_ref(), staged.then_some(&from), &mut to);
        std::mem::swap(&mut from, &mut to);
        staged = true;
        done
    });
    let result = result.and_then(|()| step(last.as_ref(), staged.then_some(&from), dst));
    scratch.stages = [from, to];
    result
}

/// Like [`encode`], for bytes that other threads may change meanwhile. An encoder that cannot bear
/// that gets a copy. Only the first codec reads the bytes; its output belongs to us.
pub(crate) fn encode_lent(
    codecs: &[Arc<dyn Codec>],
    vlen: bool,
    src: &[u8],
    dst: &mut Vec<u8>,
    scratch: &mut Scratch,
) -> Result<()> {
    let Some(first) = codecs.first().filter(|codec| codec.racing() == Racing::NeedsCopy) else {
        return encode(codecs, vlen, src, dst, scratch);
    };
    // Taken out of the scratch while in use, so that the codecs can use the rest of it.
    let mut own = std::mem::take(&mut scratch.own);
    let result =
        room::fill(&mut own, src, first.name()).and_then(|()| encode(codecs, vlen, &own, dst, scratch));
    scratch.own = own;
    result
}

/// Codecs in the order of encoding, and the bytes that they decode.
type Peeled<'c, 'b> = (&'c [Arc<dyn Codec>], &'b [u8]);

/// Strips the frames that codecs at the end of a list have put around `input`, without copying.
/// Returns the remaining codecs and bytes.
pub(crate) fn peel<'c, 'b>(
    mut codecs: &'c [Arc<dyn Codec>],
    mut input: &'b [u8],
    verify: bool,
) -> Result<Peeled<'c, 'b>> {
    while let Some((codec, earlier)) = codecs.split_last()
        && let Some(payload) = codec.unframe(input, verify)
    {
        (codecs, input) = (earlier, payload?);
    }
    Ok((codecs, input))
}

/// A stage buffer of `len` bytes. The bound comes from metadata, so running out of memory is an
/// error, not an abort.
pub(crate) fn stage<'a>(buf: &'a mut Vec<u8>, len: usize, codec: &'static str) -> Result<&'a mut [u8]> {
    resize_buffer(buf, len, codec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_memory_for_a_stage_is_an_error() {
        let mut buf = Vec::new();
        assert!(stage(&mut buf, usize::MAX, "gzip").is_err());
        assert_eq!(stage(&mut buf, 10, "gzip").unwrap().len(), 10);
        assert_eq!(stage(&mut buf, 5, "gzip").unwrap().len(), 5);
    }
}
