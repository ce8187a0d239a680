//! Decode-into: a whole chunk that is one row of bytes in the output. It is decoded straight there.

use super::{ReadStrategy, WHOLE};
use crate::copy::swap;
use crate::execute::tasks::codec_error;

pub(crate) static DECODE_INTO: ReadStrategy = ReadStrategy {
    name: "decode-into",
    fits: |chunk, task| {
        let encoding = chunk.layout.encoding();
        !chunk.keep && chunk.one_row(task) == Some(encoding.decoded_size()) && !encoding.chain().only_frames()
    },
    place: |chunk, scratch, encoded, _, _| {
        let encoding = chunk.layout.encoding();
        // SAFETY: the target covers the task's elements, which are one row of a whole chunk of
        // initialised bytes; other tasks have other elements.
        let out = unsafe { &mut *chunk.row(encoding.decoded_size()) };
        let done = encoding.chain().decode(encoded, out, &mut scratch.codec, chunk.request.verify);
        done.map_err(|source| codec_error(chunk.layout, &scratch.task, &scratch.key, source))?;
        swap::in_place(out, encoding.swap());
        Ok(())
    },
    ..WHOLE
};
