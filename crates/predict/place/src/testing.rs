//! Small programs for tests and benches.

use idlewave_network::{NetworkError, Program};
use idlewave_simulate::goal::{BuildError, Operation, ScheduleBuilder};
use idlewave_simulate::{Shape, Stencil};

/// A schedule of messages `(from, to, bytes)`: every rank computes for `work_ns`, then sends all of
/// its messages at once.
fn schedule(
    ranks: u32,
    messages: &[(u32, u32, u64)],
    work_ns: u64,
) -> Result<idlewave_simulate::goal::Schedule, BuildError> {
    let mut of: Vec<Vec<Operation>> = vec![Vec::new(); ranks as usize];
    for &(from, to, bytes) in messages {
        of[from as usize].push(Operation::send(bytes, to));
        of[to as usize].push(Operation::recv(bytes, from));
    }
    let mut builder = ScheduleBuilder::new(ranks)?;
    for operations in of {
        let work = builder.push(Operation::calc(work_ns))?;
        for operation in operations {
            let id = builder.push(operation)?;
            builder.requires(id, work)?;
        }
        builder.end_rank()?;
    }
    builder.finish()
}

/// A program of messages `(from, to, bytes)`: every rank computes for `work_ns`, then sends all of
/// its messages at once.
///
/// # Panics
/// Ranks that do not exist.
pub fn program_of(ranks: u32, messages: &[(u32, u32, u64)], work_ns: u64) -> Program {
    let schedule = schedule(ranks, messages, work_ns).unwrap_or_else(|error| panic!("{error}"));
    let program: Result<Program, NetworkError> = Program::new(&schedule);
    program.unwrap_or_else(|error| panic!("{error}"))
}

/// The halo exchange of a cuboid of ranks with its nearest neighbours, not periodic.
///
/// # Panics
/// A shape without ranks.
pub fn halo(shape: Shape, bytes: u64, work_ns: u64) -> Program {
    let stencil = Stencil {
        periodic: false,
        ..Stencil::nearest(shape)
    };
    let ranks = stencil.ranks();
    let messages: Vec<(u32, u32, u64)> = (0..ranks)
        .flat_map(|rank| {
            stencil
                .targets(rank)
                .map(move |to| (rank as u32, to as u32, bytes))
        })
        .collect();
    program_of(ranks as u32, &messages, work_ns)
}
