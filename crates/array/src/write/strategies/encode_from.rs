//! Encode-from: a whole chunk with codecs that is one row of bytes in the caller's memory. It is
//! encoded straight from there.

use super::WriteStrategy;
use crate::write::chunk::Produced;
use hyperslab_codec::CodecChain;

pub(crate) static ENCODE_FROM: WriteStrategy = WriteStrategy {
    name: "encode-from",
    fits: |chunk, task, region| {
        chunk.is_one_row(task, region) && !chunk.layout.encoding().chain().is_identity()
    },
    produce: |chunk, scratch, _, _, _| {
        // SAFETY: this strategy is chosen only if the source is one row of a whole chunk.
        let bytes = unsafe { chunk.source_row() };
        chunk.encode(scratch, bytes, CodecChain::encode_lent)?;
        Ok(Produced::Encoded)
    },
    reads_old: false,
};
