//! The hyperslab command line: `info`, `tree`, `ls`, `dump`, `show`, `head`, `explain`, `stats`, `advise`,
//! `copy`, `diff`, `index`, `hash`, `compact`, `consolidate`, `pyramid`, `validate`, `repair`, `serve`,
//! `completions`.
//!
//! [`program`] is the program `hyperslab`. The Python package runs the same commands in its own
//! process: [`run`] takes the arguments and returns the exit code. It reads no global state except
//! the terminal and `NO_COLOR`, and restores signal handlers.

mod advise;
mod args;
mod command;
mod compact;
mod completions;
mod consolidate;
mod copy;
mod diff;
mod dump;
mod explain;
mod failure;
mod hash;
mod head;
mod index;
mod info;
mod ls;
mod many;
mod meter;
mod new_file;
mod planned_copy;
mod pyramid;
mod python;
mod repair;
mod selection;
mod serve;
mod show;
mod signals;
mod stats;
mod storage;
mod style;
mod task_copy;
mod terminal;
mod text;
mod tree;
mod validate;
mod words;

use command::{COMMANDS, Request};
pub use planned_copy::{PlannedCopy, planned_copy};
pub use pyramid::{PlannedPyramid, planned_pyramid};
use signals::Watch;
use std::ffi::OsString;
use std::io::{self, Write};
pub use words::in_options;

/// Runs the program `hyperslab` with these arguments and returns its exit code.
///
/// For work that only the Python package can do, the process becomes Python and does not return.
pub fn program(args: Vec<OsString>) -> i32 {
    python::allow(&args);
    if python::is_configured() {
        python::continue_in_python();
    }
    hyperslab::store::waiting::ask_with(signals::is_received);
    hyperslab::remote::on_unconditional(warn);
    hyperslab::remote::on_cache_failure(warn);
    run(args)
}

fn warn(text: &str) {
    // Standard error may be closed. There is no other place for the message.
    let _ = writeln!(io::stderr(), "hyperslab: warning: {}", text::sanitize(&in_options(text)));
}

/// Runs the command in these arguments and returns its exit code.
///
/// The first argument is the program's name.
///
/// | code | means |
/// |---|---|
/// | 0 | done |
/// | 1 | an error, reported in one line on standard error; a difference or a finding of the three below |
/// | 2 | wrong usage; errors of `diff`, `validate`, `hash --check` |
/// | 3 | `copy --verify` found a difference |
/// | 130 | interrupted by SIGINT (Ctrl-C) |
/// | 143 | interrupted by SIGTERM |
pub fn run(args: impl IntoIterator<Item = OsString>) -> i32 {
    let request = match Request::parse(&COMMANDS, args) {
        Ok(request) => request,
        Err(error) => {
            // The help and the version arrive here too. Printing may fail.
            let _ = error.print();
            return error.exit_code();
        }
    };
    if let Some(policy) = request.shared.external_files {
        hyperslab::settings::set_external_files(policy);
    }
    storage::set(&request.shared);
    let watch = Watch::start();
    let mut out = io::BufWriter::new(io::stdout().lock());
    let outcome = request.run(&mut out, &watch).and_then(|()| Ok(out.flush()?));
    let Err(failure) = outcome else { return 0 };
    if let Some(message) = failure.message() {
        // Standard error may be closed. There is no other place for the message.
        let _ = writeln!(io::stderr(), "hyperslab: {message}");
    }
    if failure.is_interruption() { watch.exit_code() } else { failure.exit_code() }
}
