//! Errors, as the user sees them: one line and an exit code.

use hyperslab::zarr::ZarrError;
use hyperslab::{Error, Node, hdf5::Hdf5Error, stores};
use std::error;
use std::io;
use std::path::{Path, PathBuf};

/// Why a command did not do what it was asked for.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The library's error.
    Library(Error),
    /// An argument that is understood only with what is stored.
    Usage(String),
    /// A signal came; how things are now, where there is something to say.
    Stopped(&'static str),
    /// Nothing is stored at the path that the user gave; what lies below it.
    NotFound(String, Vec<String>),
    /// Standard output is closed or full.
    Output(io::Error),
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

/// Opens what the user named.
pub(crate) fn open(location: &str) -> Result<Node, Failure> {
    let missing =
        |path: PathBuf| Failure::NotFound(path.display().to_string(), stores::nodes_below(location));
    hyperslab::open(location).map_err(|error| match (stores::local_path(location), error) {
        (Ok(Some(path)), Error::Zarr(ZarrError::NotFound { .. })) => missing(path),
        (Ok(Some(path)), Error::Store(_)) if path.is_file() && !stores::is_archive(&path) => missing(path),
        (_, error) => error.into(),
    })
}

/// Whether the library stopped because it was asked to: also where the index of a file was being
/// read for a chunk.
pub(crate) fn is_stop(error: &Error) -> bool {
    if matches!(error, Error::Interrupted | Error::Hdf5(Hdf5Error::Interrupted { .. })) {
        return true;
    }
    let mut next = error::Error::source(error);
    while let Some(error) = next {
        if matches!(error.downcast_ref(), Some(Hdf5Error::Interrupted { .. })) {
            return true;
        }
        next = error.source();
    }
    false
}

impl Failure {
    /// Whether a signal is why.
    pub(crate) fn is_interruption(&self) -> bool {
        match self {
            Failure::Stopped(_) => true,
            Failure::Library(error) => is_stop(error),
            _ => false,
        }
    }

    pub(crate) fn exit_code(&self) -> i32 {
        match self {
            Failure::Usage(_) | Failure::Library(Error::Options(_)) => 2,
            Failure::Library(Error::Mismatch { .. }) => 3,
            Failure::Stopped(_) => 130,
            Failure::Library(error) if is_stop(error) => 130,
            Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            _ => 1,
        }
    }

    /// What to tell; nothing where the reader of our output has gone, as `head` does.
    pub(crate) fn message(&self) -> Option<String> {
        let text = match self {
            Failure::Stopped("") => return Some("interrupted".into()),
            Failure::Library(error) if is_stop(error) => return Some("interrupted".into()),
            Failure::Stopped(state) => return Some(format!("interrupted; {state}")),
            Failure::Library(error) => in_options(chain(error)),
            Failure::Usage(why) => why.clone(),
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
            Failure::Output(error) => format!("cannot write to standard output: {error}"),
        };
        // Names from outside may hold anything; a message stays one line.
        let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        Some(format!("error: {line}"))
    }
}

/// A message of the library with the names that its options have here.
fn in_options(text: String) -> String {
    const NAMES: [&str; 5] = ["chunks", "shards", "region", "overwrite", "max_memory"];
    let text = text.replace("set overwrite to", "pass --overwrite to");
    let text = text.replace("pass skip_unsupported=True", "pass --skip-unsupported");
    match text.split_once(": ") {
        Some(("compressor", rest)) => format!("--codec: {rest}"),
        Some((name, rest)) if NAMES.contains(&name) => format!("--{}: {rest}", name.replace('_', "-")),
        _ => text,
    }
}

/// An error and its causes, as far as the error's own message does not name them.
fn chain(error: &dyn error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
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
    fn messages_speak_of_options() {
        let message = |why: &str| Failure::from(Error::Options(why.to_owned())).message().unwrap();
        assert_eq!(message("chunks: 1 size is given"), "error: --chunks: 1 size is given");
        assert_eq!(message("max_memory: too little"), "error: --max-memory: too little");
        assert_eq!(message("compressor: no"), "error: --codec: no");
        assert_eq!(
            message("array 'a': set overwrite to replace"),
            "error: array 'a': pass --overwrite to replace"
        );
        assert_eq!(
            message("array 'a': no; to leave it out, pass skip_unsupported=True"),
            "error: array 'a': no; to leave it out, pass --skip-unsupported"
        );
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
