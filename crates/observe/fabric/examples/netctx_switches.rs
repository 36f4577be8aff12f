//! Gangs of processes on the nodes of `tests/nodes/with_nodes`, switched at random moments: nothing
//! is lost, doubled or taken out of its order. Ranks are killed at random as well; their gang ends,
//! and another one takes its place.
//!
//! ```text
//! cargo build --release -p idlewave-fabric --example netctx_switches
//! tests/nodes/with_nodes 8 target/release/examples/netctx_switches --switches 100000 --nodes 2..8
//! ```
//!
//! One process controls and talks to an agent on each node over a pipe; an agent owns the device of
//! its node and starts its ranks. Every message has a number and a checksum, which its receiver
//! looks at. A line is told of each number of nodes; the exit code is 1 if anything was wrong.

#[path = "netctx_switches/agent.rs"]
mod agent;
#[path = "netctx_switches/control.rs"]
mod control;
#[path = "netctx_switches/traffic.rs"]
mod traffic;

use std::process::ExitCode;

/// Whatever goes wrong here is told and ends the process.
type Failed = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["agent", rest @ ..] => agent::run(rest),
        ["rank"] => traffic::run(),
        _ => control::run(&words),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("netctx_switches: failed to {error}");
            ExitCode::FAILURE
        }
    }
}
