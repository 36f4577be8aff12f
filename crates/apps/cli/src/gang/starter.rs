//! `submit --ranks`: starts the ranks of a gang with network contexts on this node, where no MPI
//! launcher does.

use crate::exit::{Exit, Failure, report_failure};
use crate::signals::for_program;
use clap::Args;
use idlewave_fabric::netctx::device::Attachment;
use idlewave_record::{exit_code, send};
use idlewave_sys::process::{Signal, ends_with_parent};
use std::ffi::OsString;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// The time between two looks at the ranks.
const LOOK: Duration = Duration::from_millis(5);
/// After one rank has failed, the others get SIGTERM after this time, and are killed after this
/// time again.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
pub struct StarterArgs {
    /// Number of ranks
    ranks: u32,
    /// The program with its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Runs the ranks; returns the exit code of the first one that failed.
pub fn run_ranks(args: &StarterArgs) -> ExitCode {
    match started(args) {
        // Exit codes are bytes.
        Ok(code) => ExitCode::from(code as u8),
        Err(failure) => report_failure(&failure),
    }
}

fn started(args: &StarterArgs) -> Result<i32, Failure> {
    let mut signals = for_program()?;
    let mut ranks = Vec::new();
    for rank in 0..args.ranks {
        match start(args, rank) {
            Ok(child) => ranks.push(child),
            Err(error) => {
                tell(&ranks, Signal::KILL);
                let name = args.command[0].to_string_lossy().into_owned();
                return Err(
                    Failure::new(Exit::NotFound, format!("start {name}: {error}"))
                        .with_next("check the command's name and PATH"),
                );
            }
        }
    }
    let mut failed: Option<(i32, Instant)> = None;
    let mut told = 0;
    while !ranks.is_empty() {
        std::thread::sleep(LOOK);
        ranks.retain_mut(|child| match child.try_wait() {
            Ok(None) => true,
            Ok(Some(status)) => {
                if !status.success() && failed.is_none() {
                    failed = Some((exit_code(status), Instant::now()));
                }
                false
            }
            // Somebody else waited for it.
            Err(_) => false,
        });
        for signal in signals.take_due() {
            tell(&ranks, signal);
        }
        let since = failed.map_or(Duration::ZERO, |(_, since)| since.elapsed());
        if since > PATIENCE * (told + 1) {
            tell(
                &ranks,
                if told == 0 {
                    Signal::TERM
                } else {
                    Signal::KILL
                },
            );
            told += 1;
        }
    }
    Ok(failed.map_or(0, |(code, _)| code))
}

fn start(args: &StarterArgs, rank: u32) -> std::io::Result<Child> {
    let mut command = Command::new(&args.command[0]);
    command
        .args(&args.command[1..])
        .env(Attachment::RANK, rank.to_string())
        .env(Attachment::SIZE, args.ranks.to_string());
    if rank > 0 {
        command.stdin(Stdio::null());
    }
    ends_with_parent(&mut command, Signal::TERM).spawn()
}

fn tell(ranks: &[Child], signal: Signal) {
    for child in ranks {
        send(child.id(), signal);
    }
}
