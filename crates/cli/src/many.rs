//! Several sources of a copy, or several copies of one source.

use crate::failure::{self, Failure};
use crate::signals::Watch;
use crate::storage;
use hyperslab::Node;
use hyperslab::copy::{JoinSource, Joining, concatenated};
use std::str::FromStr;

/// The source of a copy: one node, or many that are joined along a dimension.
pub(crate) fn source(
    sources: &[String],
    concat: Option<&str>,
    sort: bool,
    variables: Option<&[String]>,
    threads: Option<usize>,
    watch: &Watch,
) -> Result<Node, Failure> {
    match (sources, concat) {
        ([one], None) => failure::open(one),
        (sources, None) => Err(Failure::Usage(format!(
            "{} sources: name the dimension along which to join them, as --concat time",
            sources.len()
        ))),
        (sources, Some(dimension)) => {
            let joining = Joining { sort, variables, threads, ..Joining::along(dimension) };
            let source = |location: &String| JoinSource::Location(location.clone(), storage::of(location));
            let sources: Vec<JoinSource> = sources.iter().map(source).collect();
            concatenated(&sources, joining, Some(&|| watch.is_interrupted())).map_err(|error| {
                if error.is_interruption() {
                    Failure::Stopped("the destination is as it was")
                } else {
                    error.into()
                }
            })
        }
    }
}

/// `time=365`: the parts of a split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Split {
    pub(crate) dimension: String,
    pub(crate) len: u64,
}

impl FromStr for Split {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = text.split_once('=').and_then(|(name, len)| {
            let len = len.trim().parse().ok().filter(|len| *len > 0 && i64::try_from(*len).is_ok())?;
            Some(Split { dimension: name.trim().to_owned(), len })
        });
        found.ok_or_else(|| "expected a dimension and a number of steps, as time=365".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_split() {
        let split = |text: &str| text.parse::<Split>().ok().map(|split| (split.dimension, split.len));
        assert_eq!(split("time=365"), Some(("time".to_owned(), 365)));
        assert_eq!(split("a = 1"), Some(("a".to_owned(), 1)));
        for wrong in ["time", "time=0", "time=-1", "time=x", "365", ""] {
            assert_eq!(split(wrong), None, "{wrong}");
        }
    }
}
