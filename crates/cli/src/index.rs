//! `hyperslab index`.

use crate::args::IndexArgs;
use crate::failure::{self, Failure};
use crate::signals::Watch;
use crate::text;
use hyperslab::references::{ReferenceOptions, chunks_asking, references_asking};
use hyperslab::{Error, Json};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

pub(crate) fn run(args: &IndexArgs, out: &mut dyn Write, watch: &Watch) -> Result<(), Failure> {
    let ask = || watch.interrupted();
    let node = failure::open(&args.path)?;
    let json = if args.json {
        chunks_asking(&node, Some(&ask))?
    } else {
        let options = ReferenceOptions {
            url: args.url.clone(),
            inline: args.inline,
            skip_unsupported: args.skip_unsupported,
        };
        let found = references_asking(&node, &options, Some(&ask))?;
        for (path, why) in &found.skipped {
            // Standard output has the references. If nobody reads this, nothing is lost.
            let _ = writeln!(io::stderr(), "left out {}: {}", text::plain(path), text::plain(why));
        }
        found.json
    };
    let Some(path) = &args.output else { return Ok(writeln!(out, "{json}")?) };
    let fail = |source| Error::Io { what: "write", path: path.clone(), source };
    write(path, &json).map_err(fail)?;
    Ok(())
}

/// Writes the file: all of it, or it stays as it was. A pipe or a device is written to as it is.
fn write(path: &Path, json: &Json) -> io::Result<()> {
    let special = fs::metadata(path).is_ok_and(|found| !found.is_file());
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let temporary = match name.filter(|_| !special) {
        Some(name) => path.with_file_name(format!(".{name}.{}.hyperslab-tmp", std::process::id())),
        None => path.to_owned(),
    };
    let mut file = BufWriter::new(File::create(&temporary)?);
    let written = writeln!(file, "{json}").and_then(|()| file.flush());
    if temporary == path {
        return written;
    }
    written.and_then(|()| fs::rename(&temporary, path)).inspect_err(|_| {
        // The first error is the one to tell.
        let _ = fs::remove_file(&temporary);
    })
}
