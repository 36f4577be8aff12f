//! Reading the command line: what is wrong with it is said like every other failure.

use crate::args::Cli;
use crate::exit::{Exit, Failure};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Error, Parser};

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
        .unwrap_or_else(|| format!("read {} --help", command_path(&rendered)));
    Failure::new(Exit::Usage, format!("read the command line: {text}")).with_next(next)
}

/// What the help says of the option whose value does not fit.
fn option_help(error: &Error) -> Option<String> {
    let Some(ContextValue::String(wanted)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let mut cli = Cli::command();
    cli.build();
    let mut options = cli.get_subcommands().flat_map(|c| c.get_arguments());
    // The text that help prints: `--work <TIME>`.
    let option = options.find(|option| option.to_string() == *wanted)?;
    Some(format!("{wanted}: {}", option.get_help()?))
}

/// A similar option or command, if there is one.
fn tip(rendered: &str) -> Option<String> {
    let line = rendered
        .lines()
        .find_map(|line| line.trim().strip_prefix("tip: "))?;
    Some(line.to_owned())
}

/// `idlewave study` from `Usage: idlewave study [OPTIONS]`.
fn command_path(rendered: &str) -> String {
    let usage = rendered
        .lines()
        .find_map(|line| line.strip_prefix("Usage: "));
    let words: Vec<&str> = usage
        .unwrap_or("idlewave")
        .split_whitespace()
        .take_while(|word| !word.starts_with(['[', '<', '-']))
        .collect();
    words.join(" ")
}
