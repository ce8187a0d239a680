//! Writes the files that the targets `codec_*` start from: `codec_seeds FOLDER`.

use hyperslab_codec::Scratch;
use hyperslab_fuzz::decoders::{DECODERS, TARGETS, decoder, vlen_chunk, word};
// The runtime of coverage.
use libfuzzer_sys as _;
use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let folder = PathBuf::from(std::env::args_os().nth(1).expect("a folder"));
    for (target, words) in TARGETS {
        let folder = folder.join(format!("codec_{target}"));
        std::fs::create_dir_all(&folder)?;
        let numbers = (0..DECODERS).filter(|number| words.contains(&word(*number).as_str()));
        for (at, number) in numbers.enumerate() {
            for (kind, stored) in chunks(number).into_iter().enumerate() {
                let input = [&[at as u8], stored.as_slice()].concat();
                std::fs::write(folder.join(format!("seed-{at}-{kind}")), input)?;
            }
        }
    }
    Ok(())
}

/// Chunks of some kinds of elements, encoded.
fn chunks(number: usize) -> Vec<Vec<u8>> {
    if let Some(chunk) = vlen_chunk(number) {
        return vec![chunk];
    }
    let Some((codec, size)) = decoder(number) else { return Vec::new() };
    let kinds: [fn(usize) -> u8; 3] =
        [|_| 0, |at| (at / 16 % 2) as u8, |at| (at * at).wrapping_mul(0x9e37_79b9) as u8 & 1];
    let encoded = |kind: &fn(usize) -> u8| {
        let chunk: Vec<u8> = (0..size).map(kind).collect();
        let mut stored = Vec::new();
        // Bytes that no encoder wrote serve a codec that only decodes.
        match codec.encode(&chunk, &mut stored, &mut Scratch::default()) {
            Ok(()) => stored,
            Err(_) => chunk,
        }
    };
    kinds.iter().map(encoded).collect()
}
