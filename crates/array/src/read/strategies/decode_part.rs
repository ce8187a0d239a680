//! Decode-part: a part of a chunk whose codec can decode parts.
//!
//! Each byte is decoded to its place in scratch for a whole chunk, and scattered from there.

use super::{ReadStrategy, WHOLE};
use crate::costs;
use crate::execute::scratch::{Scratch, resize_slot};
use crate::execute::tasks::{codec_error, memory_error};
use crate::plan::task::reach;
use crate::read::fetch::decode_chunk;
use crate::runtime::settings;
use hyperslab_codec::Reach;

pub(crate) static DECODE_PART: ReadStrategy = ReadStrategy {
    name: "decode-part",
    // Decoding step by step costs a little more than decoding at once, and checks less. A part has
    // to be worth it.
    fits: |chunk, task| {
        let encoding = chunk.layout.encoding();
        if chunk.keep || encoding.decoded_size() < costs::WORTH_A_PART {
            return false;
        }
        let decoded = match encoding.chain().reach() {
            Reach::Prefix => reach(chunk.layout, task).end,
            Reach::Blocks => reach(chunk.layout, task).len(),
            Reach::Whole | Reach::Bytes => return false,
        };
        encoding.decoded_size() - decoded >= costs::WORTH_A_PART && settings::partial_decode()
    },
    place: |chunk, scratch, encoded, _, _| {
        let (layout, verify) = (chunk.layout, chunk.request.verify);
        let wanted = reach(layout, &scratch.task);
        let Scratch { decoded: buffer, codec, task, key, .. } = scratch;
        let len = layout.encoding().decoded_size();
        let out =
            resize_slot(buffer, len).ok_or_else(|| memory_error(layout, "a decoded chunk", len as u64))?;
        let done = layout.encoding().chain().decode_part(encoded, wanted, out, codec, verify);
        match done {
            Err(_) if layout.encoding().ends_early() => {
                chunk.scatter(decode_chunk(layout, scratch, encoded, verify)?);
            }
            done => {
                done.map_err(|source| codec_error(layout, task, key, source))?;
                chunk.scatter(out);
            }
        }
        Ok(())
    },
    decodes: |chunk, task| {
        let wanted = reach(chunk.layout, task);
        let blocks = chunk.layout.encoding().chain().reach() == Reach::Blocks;
        (if blocks { wanted.len() } else { wanted.end }) as u64
    },
    ..WHOLE
};
