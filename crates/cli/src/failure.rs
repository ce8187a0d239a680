//! Errors as shown to users: one line and an exit code.

use crate::storage;
use crate::words::in_options;
use hyperslab::open::{Location, Mode, Opened, Opening};
use hyperslab::stores::StoreOptions;
use hyperslab::{Error, Node, stores, with_causes};
use std::io;
use std::path::{Path, PathBuf};

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The library's error.
    Library(Error),
    /// A wrong argument that the command line parser does not detect.
    Usage(String),
    /// Stopped by a signal. Describes the resulting state, or is empty.
    Stopped(&'static str),
    /// Nothing is stored at the given path. Holds the path and the nodes below it.
    NotFound(String, Vec<String>),
    /// `diff` found differences, `validate` found something or could not look. They have said so. Holds
    /// the exit code.
    Found(i32),
    /// `hash --check` found another hash.
    Differs(String),
    /// `hash` could not read what it should hash.
    Unseen(String),
    /// Standard output is closed or full.
    Output(io::Error),
    /// A task of a copy failed. Says which one, and how often.
    InTask(Box<Failure>, String),
    /// `diff` could not compare everything. `None`: it has said why.
    Trouble(Option<Box<Failure>>),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Library(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Output(error)
    }
}

/// Opens the user's location.
pub(crate) fn open(location: &str) -> Result<Node, Failure> {
    open_as(location, Mode::Read)
}

/// Opens the user's location for changes.
pub(crate) fn open_to_change(location: &str) -> Result<Node, Failure> {
    open_as(location, Mode::Change)
}

fn open_as(location: &str, mode: Mode) -> Result<Node, Failure> {
    let storage = storage::of(location);
    let store = StoreOptions { storage: &storage, ..StoreOptions::default() };
    let opening = Opening { mode: Some(mode), store, ..Opening::default() };
    let opened = hyperslab::open::open(Location::Text(location), &opening).and_then(Opened::into_node);
    let missing = |path: PathBuf, below| Failure::NotFound(path.display().to_string(), below);
    opened.map_err(|error| match (stores::local_path(location), error) {
        (Ok(Some(path)), Error::Missing { below, .. }) => missing(path, below),
        (Ok(Some(path)), Error::Store(_)) if path.is_file() && !stores::is_archive(&path) => {
            missing(path, Vec::new())
        }
        (_, error) => error.into(),
    })
}

impl Failure {
    /// Returns whether a signal is the reason.
    pub(crate) fn is_interruption(&self) -> bool {
        match self {
            Failure::Stopped(_) => true,
            Failure::Library(error) => error.is_interruption(),
            _ => false,
        }
    }

    pub(crate) fn exit_code(&self) -> i32 {
        match self {
            Failure::Usage(_) | Failure::Library(Error::Options(_)) => 2,
            Failure::Trouble(_) | Failure::Unseen(_) => 2,
            Failure::Library(Error::Mismatch { .. } | Error::Differs(_)) => 3,
            Failure::InTask(failure, _) => failure.exit_code(),
            Failure::Stopped(_) => 130,
            Failure::Found(code) => *code,
            Failure::Library(error) if error.is_interruption() => 130,
            Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            _ => 1,
        }
    }

    /// The message without the word "error".
    pub(crate) fn reason(&self) -> String {
        let message = self.message().unwrap_or_default();
        message.strip_prefix("error: ").unwrap_or(&message).to_owned()
    }

    /// The message. `None` if the reader of our output is gone, as with `head`.
    pub(crate) fn message(&self) -> Option<String> {
        let text = match self {
            Failure::Found(_) => return None,
            Failure::Stopped("") => return Some("interrupted".into()),
            Failure::Library(error) if error.is_interruption() => return Some("interrupted".into()),
            Failure::Stopped(state) => return Some(format!("interrupted; {state}")),
            Failure::Library(error) => in_options(&with_causes(error)),
            Failure::Usage(why) | Failure::Differs(why) | Failure::Unseen(why) => why.clone(),
            Failure::NotFound(path, below) => {
                let what = match std::fs::exists(path) {
                    Ok(false) => format!("there is no '{path}'"),
                    _ if stores::is_archive(Path::new(path)) => {
                        format!(
                            "'{path}' is no array or group: there is no Zarr metadata at the root of the archive"
                        )
                    }
                    _ if Path::new(path).is_file() => {
                        format!("'{path}' is a file, but not of HDF5; it is no array or group")
                    }
                    _ => format!("'{path}' is no array or group: there is no Zarr metadata in it"),
                };
                match below.as_slice() {
                    [] => what,
                    below => format!("{what}; try '{}'", below.join("' or '")),
                }
            }
            Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => return None,
            Failure::Trouble(failure) => return failure.as_ref()?.message(),
            Failure::InTask(failure, note) => return Some(format!("{} {note}", failure.message()?)),
            Failure::Output(error) => format!("cannot write to standard output: {error}"),
        };
        // Untrusted names may contain anything; a message stays on one line.
        let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        Some(format!("error: {line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_one_line_and_name_each_cause_once() {
        let source = io::Error::other("no space\nleft");
        let error = Error::Io { what: "make", path: "/a\nb".into(), source };
        let failure = Failure::from(error);
        assert_eq!(failure.message().unwrap(), "error: cannot make '/a b': no space left");
        assert_eq!(failure.exit_code(), 1);
    }

    #[test]
    fn exit_codes() {
        assert_eq!(Failure::from(Error::Interrupted).exit_code(), 130);
        assert_eq!(Failure::Usage(String::new()).exit_code(), 2);
        let gone = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!((gone.exit_code(), gone.message()), (0, None));
        let full = Failure::from(io::Error::from(io::ErrorKind::StorageFull));
        assert_eq!(full.exit_code(), 1);
    }
}
