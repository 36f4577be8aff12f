//! Parses the command line; its errors are printed like every other failure.

use crate::args::Cli;
use crate::exit::{Exit, Failure};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory, Error, Parser};

/// Reads the command line. Exits the process if it asks for help or the version.
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
    // The first paragraph is the error; tips and usage follow.
    let words: Vec<&str> = rendered
        .lines()
        .take_while(|line| !line.trim().is_empty())
        .flat_map(str::split_whitespace)
        .collect();
    let text = words.join(" ");
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let next = behind_dashes(error)
        .or_else(|| conflict(error))
        .or_else(|| option_help(error))
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

/// The same command line with the `--` that must precede the command to run, if it is missing.
fn behind_dashes(error: &Error) -> Option<String> {
    let mut cli = Cli::command();
    cli.build();
    let command = asked(&cli);
    let name = command.get_bin_name().unwrap_or("idlewave");
    let runs = command.get_arguments().any(|option| option.is_last_set());
    let given: Vec<String> = std::env::args().collect();
    if !runs || given.iter().any(|word| word == "--") {
        return None;
    }
    let at = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(word)))
            if !word.starts_with('-') =>
        {
            // The last occurrence: the subcommand may have the same name.
            given.iter().rposition(|of| of == word)?
        }
        (ErrorKind::MissingRequiredArgument, Some(ContextValue::Strings(missing)))
            if missing.iter().any(|one| one.starts_with('<')) =>
        {
            return Some(format!("give the command behind --, as in {name} -- ./app"));
        }
        _ => return None,
    };
    let before = given.get(1..at)?.join(" ");
    let behind = given.get(at..)?.join(" ");
    Some(format!(
        "put -- before the command: idlewave {before} -- {behind}"
    ))
}

/// Which of the conflicting options to leave out.
fn conflict(error: &Error) -> Option<String> {
    if error.kind() != ErrorKind::ArgumentConflict {
        return None;
    }
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let others = match error.get(ContextKind::PriorArg) {
        Some(ContextValue::String(other)) => std::slice::from_ref(other),
        Some(ContextValue::Strings(others)) => others.as_slice(),
        _ => &[],
    };
    // Drop the values: `--work <TIME>` becomes `--work`.
    let name = |text: &String| text.split(' ').next().unwrap_or_default().to_owned();
    let given = name(given);
    let others: Vec<String> = others.iter().map(name).filter(|o| *o != given).collect();
    Some(match others.as_slice() {
        [] => format!("give {given} once"),
        [other] => format!("leave out {given} or {other}"),
        _ => format!("leave out {given}, or all of {}", others.join(", ")),
    })
}

/// The help of the option whose value is invalid.
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

/// The subcommand that the arguments name.
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
