//! What the service is asked: list, status, cancel, drain, stop, metrics.

use super::{Place, text};
use crate::exit::{Exit, Failure};
use crate::print;
use clap::Args;
use idlewave_agent::control::{Reply, Request, Status};
use idlewave_recording::Stop;
use idlewave_units::Nanos;
use std::io::IsTerminal as _;

/// How often the live view is drawn again.
const FRAME: Nanos = Nanos::from_millis(500);

#[derive(Debug, Args)]
pub struct ListArgs {
    #[command(flatten)]
    place: Place,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    place: Place,
    /// Draw it again twice a second, until interrupted
    #[arg(long, conflicts_with = "json")]
    watch: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub struct CancelArgs {
    /// Number of the gang, as `idlewave gang list` shows it
    #[arg(value_name = "GANG")]
    gang: u32,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Args)]
pub struct DrainArgs {
    /// Switch again
    #[arg(long)]
    undo: bool,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Args)]
pub struct StopArgs {
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Args)]
pub struct MetricsArgs {
    #[command(flatten)]
    place: Place,
}

/// One question, one answer.
fn ask(place: &Place, request: &Request) -> Result<Reply, Failure> {
    let reply = place.connect()?.ask(request).map_err(|error| {
        Failure::new(Exit::Other, format!("hear from the gang service: {error}"))
            .with_next("see whether it still runs, with `idlewave gang status`")
    })?;
    match reply {
        Reply::Failed(why) => Err(refusal(why)),
        other => Ok(other),
    }
}

/// A request that the service does not carry out says itself what to do.
pub(super) fn refusal(why: String) -> Failure {
    Failure::new(Exit::Usage, why)
}

fn status_of(place: &Place) -> Result<Status, Failure> {
    match ask(place, &Request::Status)? {
        Reply::Status(status) => Ok(*status),
        _ => Err(Failure::new(
            Exit::Other,
            "understand the gang service: it answers something else",
        )),
    }
}

fn json_of(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|e| Failure::new(Exit::Other, format!("write JSON: {e}")))?;
    print(&format!("{text}\n"))
}

pub fn list(args: &ListArgs) -> Result<(), Failure> {
    let status = status_of(&args.place)?;
    if args.json {
        return json_of(&status.gangs);
    }
    print(&text::gangs(&status))
}

pub fn status(args: &StatusArgs, stop: &Stop) -> Result<(), Failure> {
    if args.json {
        return json_of(&status_of(&args.place)?);
    }
    if !args.watch {
        return print(&text::status(&status_of(&args.place)?));
    }
    let clear = std::io::stdout().is_terminal();
    while !stop.is_requested() {
        let drawn = text::status(&status_of(&args.place)?);
        // Home and clear to the end, not the whole screen: no flicker.
        let begin = if clear { "\x1b[H\x1b[J" } else { "" };
        print(&format!("{begin}{drawn}"))?;
        std::thread::sleep(FRAME.to_duration());
    }
    Ok(())
}

pub fn cancel(args: &CancelArgs) -> Result<(), Failure> {
    ask(&args.place, &Request::Cancel { gang: args.gang })?;
    print(&format!(
        "gang {}: its processes are told to end, and killed after 5 s\n",
        args.gang
    ))
}

pub fn drain(args: &DrainArgs) -> Result<(), Failure> {
    let on = !args.undo;
    ask(&args.place, &Request::Drain { on })?;
    print(if on {
        "all gangs run now, unswitched; no new ones are taken. To go on: idlewave gang drain --undo\n"
    } else {
        "gangs are switched again\n"
    })
}

pub fn stop(args: &StopArgs) -> Result<(), Failure> {
    ask(&args.place, &Request::Stop)?;
    print(
        "the service ends; what runs goes on unswitched, but for gangs with network contexts, which fail\n",
    )
}

pub fn metrics(args: &MetricsArgs) -> Result<(), Failure> {
    print(&text::metrics(&status_of(&args.place)?))
}
