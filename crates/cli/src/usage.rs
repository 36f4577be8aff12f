//! Reading the command line: what is wrong with it is said like every other failure.

use crate::args::Cli;
use crate::exit::{Exit, Failure};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory, Error, Parser};

/// Reads the command line. Ends the process where it asks for help or for the version.
pub fn parse() -> Result<Cli, Failure> {
    Cli::try_parse().map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => error.exit(),
        _ => failure(&error),
    })
}

fn failure(error: &Error) -> Failure {
    let rendered = error.to_string();
    // The first paragraph says what is wrong; tips and usage follow.
    let words: Vec<&str> = rendered
        .lines()
        .take_while(|line| !line.trim().is_empty())
        .flat_map(str::split_whitespace)
        .collect();
    let text = words.join(" ");
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let next = option_help(error)
        .or_else(|| tip(&rendered))
        .unwrap_or_else(|| {
            let mut cli = Cli::command();
            cli.build();
            format!(
                "read {} --help",
                asked(&cli).get_bin_name().unwrap_or("idlewave")
            )
        });
    Failure::new(Exit::Usage, format!("read the command line: {text}")).with_next(next)
}

/// What the help says of the option whose value does not fit.
fn option_help(error: &Error) -> Option<String> {
    let Some(ContextValue::String(wanted)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let mut cli = Cli::command();
    cli.build();
    // The text that help prints: `--work <TIME>`.
    let option = asked(&cli)
        .get_arguments()
        .find(|option| option.to_string() == *wanted)?;
    Some(format!("{wanted}: {}", option.get_help()?))
}

/// The command, of a command, that the arguments name.
fn asked(cli: &Command) -> &Command {
    let mut command = cli;
    for argument in std::env::args().skip(1) {
        match command.find_subcommand(&argument) {
            Some(next) => command = next,
            None => break,
        }
    }
    command
}

/// A similar option or command, if there is one.
fn tip(rendered: &str) -> Option<String> {
    let line = rendered
        .lines()
        .find_map(|line| line.trim().strip_prefix("tip: "))?;
    Some(line.to_owned())
}
