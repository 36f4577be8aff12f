//! Expands a program into its schedule.

use super::bind::Bound;
use super::error::{Place, Problem, ProgramError};
use super::machine::Machine;
use crate::goal::{BuildError, OperationId, Schedule, ScheduleBuilder};

impl Bound {
    /// Expands the program into its schedule of at most `most` operations: every operation of a
    /// group requires all of the group before it, in program order. Memory grows with the number of
    /// operations, and with the product of the sizes of two consecutive groups.
    pub fn expand(&self, most: u64) -> Result<Schedule, ProgramError> {
        let code = &self.code;
        let mut machine = Machine::new(code);
        let mut slots = vec![0; code.slots as usize];
        let (mut group, mut before) = (Vec::new(), Vec::<OperationId>::new());
        let mut left = most;
        let refused = |rank, error: BuildError| {
            let place = Place {
                rank,
                ..Place::default()
            };
            place.error(Problem::Schedule(error.to_string()))
        };
        let mut builder = ScheduleBuilder::new(code.ranks).map_err(|e| refused(None, e))?;
        for rank in 0..code.ranks {
            let here = |error| refused(Some(rank), error);
            let mut position = 0;
            before.clear();
            loop {
                group.clear();
                let tell = |task, at: u32, _: &[i64]| {
                    left = left
                        .checked_sub(1)
                        .ok_or(Problem::TooManyOperations(most))?;
                    group.push((task, at));
                    Ok(())
                };
                let more = machine.next_group(rank, &mut position, &mut slots, tell);
                if !more.map_err(|fault| machine.error(rank, fault, &slots))? {
                    break;
                }
                let mut ids = Vec::with_capacity(group.len());
                for &(task, at) in &group {
                    let line = code.lines[at as usize].unwrap_or(0);
                    let operation = task.operation();
                    let id = builder.push_at(operation, line).map_err(here)?;
                    for &earlier in &before {
                        builder.requires(id, earlier).map_err(here)?;
                    }
                    ids.push(id);
                }
                before = ids;
            }
            builder.end_rank().map_err(here)?;
        }
        builder.finish().map_err(|error| refused(None, error))
    }
}
