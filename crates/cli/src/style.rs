//! Bold and dim text, on terminals only.

use std::env;
use std::io::{self, IsTerminal};

/// Controls the use of escape sequences.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style(bool);

impl Style {
    /// The style for standard output. `NO_COLOR`: <https://no-color.org>.
    pub(crate) fn of_stdout() -> Self {
        Style(io::stdout().is_terminal() && wants_colors())
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.wrap_in_code("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.wrap_in_code("2", text)
    }

    fn wrap_in_code(self, code: &str, text: &str) -> String {
        if self.0 && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Returns whether colours are wanted on a terminal.
pub(crate) fn wants_colors() -> bool {
    env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && env::var_os("TERM").is_none_or(|term| term != "dumb")
}

#[cfg(test)]
mod tests {
    use super::Style;

    #[test]
    fn escapes_only_where_wanted() {
        assert_eq!(Style(true).bold("a"), "\x1b[1ma\x1b[0m");
        assert_eq!(Style(true).dim(""), "");
        assert_eq!(Style(false).dim("a"), "a");
    }
}
