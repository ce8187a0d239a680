//! The modes of `open`.

use crate::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// Decides whether an existing node is opened or replaced, and whether a missing one is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `r`: read. The node must exist.
    Read,
    /// `r+`: read and change. The node must exist.
    Change,
    /// `a`: read and change. A missing node is created.
    Append,
    /// `w`: create. An existing node is replaced.
    Replace,
    /// `w-`: create. Nothing may be there.
    New,
}

const NAMES: [(&str, Mode); 5] =
    [("r", Mode::Read), ("r+", Mode::Change), ("a", Mode::Append), ("w", Mode::Replace), ("w-", Mode::New)];

impl Mode {
    /// Returns `true` if the mode opens a node that exists.
    pub fn keeps(self) -> bool {
        matches!(self, Mode::Read | Mode::Change | Mode::Append)
    }

    /// Returns `true` if the mode creates a node that is missing.
    pub fn creates(self) -> bool {
        matches!(self, Mode::Append | Mode::Replace | Mode::New)
    }

    /// `r`, `r+`, `a`, `w`, `w-`.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, mode)| *mode == self).map_or("", |(name, _)| name)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'", self.name())
    }
}

impl FromStr for Mode {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = NAMES.iter().find(|(other, _)| *other == name);
        found.map(|(_, mode)| *mode).ok_or_else(|| {
            let names = NAMES.map(|(name, _)| format!("'{name}'")).join(", ");
            Error::Options(format!("Invalid mode: {name}, expected one of ({names})"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (name, mode) in NAMES {
            assert_eq!((name.parse::<Mode>().unwrap(), mode.name()), (mode, name));
            assert!(mode.keeps() || mode.creates());
        }
        let error = "x".parse::<Mode>().unwrap_err().to_string();
        assert_eq!(error, "Invalid mode: x, expected one of ('r', 'r+', 'a', 'w', 'w-')");
    }
}
