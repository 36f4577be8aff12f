//! Commands that query or control the service: list, status, cancel, drain, stop, metrics.

use super::socket::Place;
use super::text;
use crate::exit::{Exit, Failure};
use crate::json::{self, Begun};
use crate::output::{print, printed};
use clap::Args;
use idlewave_gang_agent::control::{Reply, Request, Status};
use idlewave_gang_agent::prometheus;
use idlewave_run::Header;
use idlewave_session::Stop;
use idlewave_sys::terminal::Stream;
use idlewave_units::Nanos;

/// The time between two updates of the live view.
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
    /// Refresh twice a second until interrupted
    #[arg(long, conflicts_with = "json")]
    watch: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub struct CancelArgs {
    /// Number of the gang, as shown by `idlewave gang list`
    #[arg(value_name = "GANG")]
    gang: u32,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Args)]
pub struct DrainArgs {
    /// Resume switching
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

/// Sends one request and returns the reply.
fn ask(place: &Place, request: &Request) -> Result<Reply, Failure> {
    let reply = place.connect()?.ask(request).map_err(|error| {
        Failure::new(
            Exit::Other,
            format!("get an answer from the gang service: {error}"),
        )
        .with_next("check with `idlewave gang status` whether it still runs")
    })?;
    match reply {
        Reply::Failed(why) => Err(refusal(why)),
        other => Ok(other),
    }
}

/// The service's refusal of a request; its text already says what to do.
pub(super) fn refusal(why: String) -> Failure {
    Failure::new(Exit::Usage, why)
}

fn status_of(place: &Place) -> Result<Status, Failure> {
    match ask(place, &Request::Status)? {
        Reply::Status(status) => Ok(*status),
        _ => Err(Failure::new(
            Exit::Other,
            "understand the gang service: it sent an unexpected answer",
        )),
    }
}

/// The JSON header for a snapshot of the service's nodes.
fn header(status: &Status) -> Header {
    let hosts = status.nodes.iter().map(|node| node.host.clone());
    Begun::now().header(hosts.collect(), false, &[])
}

pub fn list(args: &ListArgs) -> Result<(), Failure> {
    let status = status_of(&args.place)?;
    if args.json {
        return json::print_below(
            header(&status),
            serde_json::json!({ "gangs": status.gangs }),
        );
    }
    print(&text::gangs(&status))
}

pub fn status(args: &StatusArgs, stop: &Stop) -> Result<(), Failure> {
    if args.json {
        let status = status_of(&args.place)?;
        return json::print_below(header(&status), status);
    }
    if !args.watch {
        return print(&text::status(&status_of(&args.place)?));
    }
    while !stop.is_requested() {
        let drawn = text::status(&status_of(&args.place)?);
        printed(Stream::Output.redraw(&drawn))?;
        std::thread::sleep(FRAME.to_duration());
    }
    Ok(())
}

pub fn cancel(args: &CancelArgs) -> Result<(), Failure> {
    ask(&args.place, &Request::Cancel { gang: args.gang })?;
    print(&format!(
        "gang {}: terminating its processes; they are killed after 5 s\n",
        args.gang
    ))
}

pub fn drain(args: &DrainArgs) -> Result<(), Failure> {
    let on = !args.undo;
    ask(&args.place, &Request::Drain { on })?;
    print(if on {
        "all gangs now run unswitched; no new ones are accepted. To resume: idlewave gang drain --undo\n"
    } else {
        "gangs are switched again\n"
    })
}

pub fn stop(args: &StopArgs) -> Result<(), Failure> {
    ask(&args.place, &Request::Stop)?;
    print(
        "the service stops; gangs run on unswitched, except those with network contexts, which fail\n",
    )
}

pub fn metrics(args: &MetricsArgs) -> Result<(), Failure> {
    print(&prometheus::metrics(&status_of(&args.place)?))
}
