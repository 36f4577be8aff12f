//! Gangs of processes on the nodes of `tests/nodes/with_nodes`, switched at random moments: no
//! message may be lost, duplicated or reordered. Ranks are killed at random too; their gang ends,
//! and another takes its place.
//!
//! ```text
//! cargo build --release -p idlewave-fabric --example netctx_switches
//! tests/nodes/with_nodes 8 target/release/examples/netctx_switches --switches 100000 --nodes 2..8
//! ```
//!
//! One process is the controller: it talks over pipes to an agent on each node. An agent owns its
//! node's device and starts its ranks. Every message contains its number, and its receiver compares
//! it with what it should be. One line is printed per node count; the exit code is 1 if anything
//! was wrong.

#[path = "netctx_switches/agent.rs"]
mod agent;
#[path = "netctx_switches/control.rs"]
mod control;
#[path = "netctx_switches/traffic.rs"]
mod traffic;

use std::process::ExitCode;

/// Any error here is printed and ends the process.
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
