//! `hyperslab completions`.

use crate::command::{Command, line_of_all};
use crate::failure::Failure;
use crate::signals::Watch;
use clap_complete::Shell;
use std::io::Write;

/// Print the completion of commands and options for a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hyperslab completions bash > ~/.local/share/bash-completion/completions/hyperslab
  hyperslab completions zsh > ~/.zfunc/_hyperslab      (a folder of fpath)
  hyperslab completions fish > ~/.config/fish/completions/hyperslab.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

impl Command for CompletionsArgs {
    const NAME: &str = "completions";

    fn run(&self, out: &mut dyn Write, _: &Watch) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut line_of_all(), "hyperslab", &mut script);
        Ok(out.write_all(&script)?)
    }
}
