//! The command trait, and the table of all commands.

use crate::args::Args;
use crate::failure::Failure;
use crate::signals::Watch;
use crate::{
    advise, compact, completions, consolidate, copy, diff, dump, explain, hash, head, index, info, ls,
    pyramid, repair, serve, show, stats, tree, validate,
};
use clap::{ArgMatches, CommandFactory, FromArgMatches};
use std::ffi::OsString;
use std::io::Write;

/// All commands, in the order of the help.
pub(crate) const COMMANDS: [Registered; 20] = [
    registered::<info::InfoArgs>(),
    registered::<tree::TreeArgs>(),
    registered::<ls::LsArgs>(),
    registered::<dump::DumpArgs>(),
    registered::<show::ShowArgs>(),
    registered::<head::HeadArgs>(),
    registered::<explain::ExplainArgs>(),
    registered::<stats::StatsArgs>(),
    registered::<advise::AdviseArgs>(),
    registered::<copy::CopyArgs>(),
    registered::<diff::DiffArgs>(),
    registered::<index::IndexArgs>(),
    registered::<hash::HashArgs>(),
    registered::<compact::CompactArgs>(),
    registered::<consolidate::ConsolidateArgs>(),
    registered::<pyramid::PyramidArgs>(),
    registered::<validate::ValidateArgs>(),
    registered::<repair::RepairArgs>(),
    registered::<serve::ServeArgs>(),
    registered::<completions::CompletionsArgs>(),
];

/// A command: its arguments with their help, and its action.
pub(crate) trait Command: clap::Args {
    const NAME: &str;
    /// Other names, which people try.
    const ALIASES: &[&str] = &[];

    fn run(&self, out: &mut dyn Write, watch: &Watch) -> Result<(), Failure>;
}

/// A command in a table.
#[derive(Clone, Copy)]
pub(crate) struct Registered {
    name: &'static str,
    aliases: &'static [&'static str],
    describe: fn(clap::Command) -> clap::Command,
    run: fn(&ArgMatches, &mut dyn Write, &Watch) -> Result<(), Failure>,
}

/// The table entry of a command.
pub(crate) const fn registered<C: Command>() -> Registered {
    Registered {
        name: C::NAME,
        aliases: C::ALIASES,
        describe: C::augment_args,
        run: |found, out, watch| {
            let command = C::from_arg_matches(found).map_err(|error| Failure::Usage(error.to_string()))?;
            command.run(out, watch)
        },
    }
}

/// The user's request: a command with its arguments.
pub(crate) struct Request {
    pub(crate) shared: Args,
    run: fn(&ArgMatches, &mut dyn Write, &Watch) -> Result<(), Failure>,
    found: ArgMatches,
}

impl Request {
    /// Parses arguments. Fails with the help, the version, or a problem with the arguments.
    pub(crate) fn parse(
        commands: &[Registered],
        args: impl IntoIterator<Item = OsString>,
    ) -> Result<Request, clap::Error> {
        let mut found = line(commands).try_get_matches_from(args)?;
        let shared = Args::from_arg_matches(&found)?;
        let (name, found) = found.remove_subcommand().unwrap_or_default();
        match commands.iter().find(|command| command.name == name) {
            Some(command) => Ok(Request { shared, run: command.run, found }),
            None => Err(clap::Error::new(clap::error::ErrorKind::MissingSubcommand)),
        }
    }

    pub(crate) fn run(&self, out: &mut dyn Write, watch: &Watch) -> Result<(), Failure> {
        (self.run)(&self.found, out, watch)
    }
}

/// The arguments of all commands, the command's name, and its own arguments, if they are valid.
pub(crate) fn matches_of(args: impl IntoIterator<Item = OsString>) -> Option<(Args, String, ArgMatches)> {
    let mut found = line(&COMMANDS).try_get_matches_from(args).ok()?;
    let shared = Args::from_arg_matches(&found).ok()?;
    let (name, found) = found.remove_subcommand()?;
    Some((shared, name, found))
}

/// The command line of all commands.
pub(crate) fn line_of_all() -> clap::Command {
    line(&COMMANDS)
}

/// The whole command line.
fn line(commands: &[Registered]) -> clap::Command {
    let described = |command: &Registered| {
        let named = clap::Command::new(command.name).visible_aliases(command.aliases.iter().copied());
        (command.describe)(named)
    };
    Args::command().subcommand_required(true).subcommands(commands.iter().map(described))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_consistent() {
        line(&COMMANDS).debug_assert();
    }

    mod toy {
        use super::*;

        /// Greet somebody.
        #[derive(Debug, clap::Args)]
        pub(crate) struct GreetArgs {
            whom: String,
        }

        impl Command for GreetArgs {
            const NAME: &str = "greet";

            fn run(&self, out: &mut dyn Write, _: &Watch) -> Result<(), Failure> {
                Ok(writeln!(out, "hello, {}", self.whom)?)
            }
        }
    }

    #[test]
    fn a_command_is_a_file_and_a_line() {
        let commands = [COMMANDS.as_slice(), &[registered::<toy::GreetArgs>()]].concat();
        let given = |args: &[&str]| {
            let args = [&["hyperslab"], args].concat();
            Request::parse(&commands, args.into_iter().map(OsString::from))
        };
        let mut out = Vec::new();
        given(&["greet", "you"]).unwrap().run(&mut out, &Watch::start()).unwrap();
        assert_eq!(out, b"hello, you\n");
        let help = given(&["--help"]).err().unwrap().to_string();
        assert!(
            help.contains("greet") && help.contains("Greet somebody") && help.contains("compact"),
            "{help}"
        );
        assert!(given(&["greet"]).is_err() && given(&["no"]).is_err() && given(&[]).is_err());
    }
}
