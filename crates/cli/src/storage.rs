//! Options of servers, as given on the command line.

use crate::args::Args;
use std::sync::{Mutex, PoisonError};

/// The options of this command. A process of Python runs one command after the other.
static OPTIONS: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

/// Sets the options for all locations of a command.
pub(crate) fn set(args: &Args) {
    let mut options = args.storage_option.clone();
    if args.anon {
        options.push(("anon".into(), "true".into()));
    }
    options.extend(args.profile.iter().map(|name| ("profile".to_owned(), name.clone())));
    *OPTIONS.lock().unwrap_or_else(PoisonError::into_inner) = options;
}

/// The options for a location. Files on disk have none.
pub(crate) fn of(location: &str) -> Vec<(String, String)> {
    if hyperslab::stores::takes_options(location) { options() } else { Vec::new() }
}

/// The options of the command that runs.
pub(crate) fn options() -> Vec<(String, String)> {
    OPTIONS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
