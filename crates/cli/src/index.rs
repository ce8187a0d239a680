//! `hyperslab index`.

use crate::args::IndexArgs;
use crate::failure::{self, Failure};
use crate::text;
use hyperslab::Error;
use hyperslab::references::{ReferenceOptions, chunks, references};
use std::fs::File;
use std::io::{self, BufWriter, Write};

pub(crate) fn run(args: &IndexArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let node = failure::open(&args.path)?;
    let json = if args.json {
        chunks(&node)?
    } else {
        let options = ReferenceOptions {
            url: args.url.clone(),
            inline: args.inline,
            skip_unsupported: args.skip_unsupported,
        };
        let found = references(&node, &options)?;
        for (path, why) in &found.skipped {
            // Standard output has the references. If nobody reads this, nothing is lost.
            let _ = writeln!(io::stderr(), "left out {}: {}", text::plain(path), text::plain(why));
        }
        found.json
    };
    let Some(path) = &args.output else { return Ok(writeln!(out, "{json}")?) };
    let fail = |source| Error::Io { what: "write", path: path.clone(), source };
    let mut file = BufWriter::new(File::create(path).map_err(fail)?);
    writeln!(file, "{json}").and_then(|()| file.flush()).map_err(fail)?;
    Ok(())
}
