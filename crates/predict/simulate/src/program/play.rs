//! Plays programs under the LogGOPS model without the whole schedule in memory.
//!
//! The rules and the engine are those of [`goal`](crate::goal). For each rank, memory holds its
//! position in the program, its slots, and the operations of its group that have not ended; the
//! next group is created when the last operation has ended. Memory, in bytes:
//!
//! | for each | bytes |
//! |---|---|
//! | rank | 12 for where it is, 16 for what waits on it, 24 for those that wait for its CPU, 24 for its clocks, 8 for its result, 8 |
//! |  | for each slot: a loop takes two, a `let` at most one |
//! | operation or message in flight | 32, and 16 while it is an event |
//! | rank with several CPUs or NICs | 68, 8 for each CPU, 16 for each NIC, 8 for each slot |
//! | operation with several CPUs or NICs | 16 more |
//!
//! Operations and blocks of events grow by a sixteenth at a time. So a pending event takes at most
//! 34 + 17 bytes (with several CPUs 51 + 17), and the blocks being filled and the events being
//! sorted take at most 0.5 MiB. Where thousands wait on a rank, for its CPU or for each other, each
//! takes about 10 more (tests/program_memory.rs).

use super::bind::Bound;
use super::error::{Place, Problem, ProgramError};
use super::machine::Machine;
use super::pool::Pool;
use crate::goal::{
    Clocks, Engine, Failure, GoalError, Kind, Outcome, Parameters, Stop, Stuck, Task, Unfinished,
    Waiting, When, Work, prefetch,
};
use idlewave_noise::{CpuTime, Quiet};

/// Why a program has no finish times.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlayError {
    /// A rank cannot go on: an expression without a value, or a number out of range.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// Operations that can never happen, or times that do not fit.
    #[error(transparent)]
    Goal(#[from] GoalError),
}

/// Plays a program. The times are those of its schedule ([`Bound::expand`]), rank by rank.
pub fn simulate(program: &Bound, parameters: &Parameters) -> Result<Outcome, PlayError> {
    simulate_with(program, parameters, Quiet)
}

/// Plays a program on CPUs that noise disturbs.
pub fn simulate_with(
    program: &Bound,
    parameters: &Parameters,
    cpu_time: impl CpuTime,
) -> Result<Outcome, PlayError> {
    let code = &program.code;
    let (cpus, nics) = (code.cpus, code.nics);
    check_memory(program)?;
    match cpus > 1 || nics > 1 {
        true => {
            // From 1 to 256.
            let largest = [(cpus - 1) as u8, (nics - 1) as u8];
            let ranks = std::iter::repeat_n(largest, code.ranks as usize);
            play::<true>(program, Clocks::several(ranks), parameters, cpu_time)
        }
        false => play::<false>(program, Clocks::single(code.ranks), parameters, cpu_time),
    }
}

fn play<const MANY: bool>(
    program: &Bound,
    clocks: Clocks<MANY>,
    parameters: &Parameters,
    cpu_time: impl CpuTime,
) -> Result<Outcome, PlayError> {
    let mut lazy = Lazy::<MANY>::new(program);
    let mut engine = Engine::new(&mut lazy, clocks, parameters, cpu_time);
    let ended = engine.run();
    let finish_ns = engine.finish();
    match ended {
        Ok(()) => Ok(Outcome {
            finish_ns,
            operations: lazy.operations,
            messages: lazy.messages,
            bytes: lazy.bytes,
        }),
        Err(Failure::Stop(Stop::TooLong(place))) => Err(lazy.too_long(place).into()),
        Err(Failure::Stop(Stop::Work(error))) => Err(PlayError::Program(*error)),
        Err(Failure::Unfinished { posted, unexpected }) => {
            let unfinished = lazy.unfinished(&posted, &unexpected);
            Err(GoalError::Unfinished(unfinished).into())
        }
    }
}

/// Rejects ranks for which there is not enough memory, instead of ending the process halfway. Bytes
/// as in the table above.
fn check_memory(program: &Bound) -> Result<(), ProgramError> {
    let code = &program.code;
    let clocks = 8 * u64::from(code.cpus) + 16 * u64::from(code.nics);
    let own = match code.cpus > 1 || code.nics > 1 {
        true => 68,
        false => 60,
    };
    let bytes = own + clocks + 8 * u64::from(code.slots);
    // At most 2^32 times 2^37.
    let bytes = u128::from(bytes) * u128::from(code.ranks);
    let there =
        usize::try_from(bytes).is_ok_and(|bytes| Vec::<u8>::new().try_reserve_exact(bytes).is_ok());
    match there {
        true => Ok(()),
        false => Err(Place::default().error(Problem::Memory {
            ranks: code.ranks,
            bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
        })),
    }
}

/// The position of a rank.
#[derive(Clone, Copy, Default)]
struct Rank {
    /// The instruction that it continues with.
    position: u32,
    /// Operations of its group that have not ended.
    running: u32,
    /// Number of operations it has had.
    operations: u32,
}

/// With several CPUs: the times that a group waits for, in nanoseconds.
#[derive(Clone, Copy, Default)]
struct Ends {
    /// The latest end of the group before.
    ready: u64,
    /// The latest end of this group so far.
    latest: u64,
}

struct Lazy<'a, const MANY: bool> {
    machine: Machine<'a>,
    ranks: Vec<Rank>,
    /// The slots of all ranks, as many for each as the program has.
    slots: Vec<i64>,
    ends: Vec<Ends>,
    pool: Pool<MANY>,
    operations: u64,
    messages: u64,
    bytes: Option<u64>,
}

impl<'a, const MANY: bool> Lazy<'a, MANY> {
    fn new(program: &'a Bound) -> Self {
        let code = &program.code;
        let ranks = code.ranks as usize;
        Lazy {
            machine: Machine::new(code),
            ranks: vec![Rank::default(); ranks],
            slots: vec![0; ranks * code.slots as usize],
            ends: vec![Ends::default(); if MANY { ranks } else { 0 }],
            pool: Pool::new(),
            operations: 0,
            messages: 0,
            bytes: Some(0),
        }
    }

    /// Frees the next group of a rank.
    fn next_group(&mut self, number: u32, freed: &mut Vec<u32>) -> Result<(), Stop<ProgramError>> {
        let width = self.machine.code.slots as usize;
        let slots = &mut self.slots[number as usize * width..][..width];
        let rank = &mut self.ranks[number as usize];
        let Rank {
            position,
            running,
            operations,
        } = rank;
        let (pool, messages, bytes) = (&mut self.pool, &mut self.messages, &mut self.bytes);
        let before = *operations;
        let tell = |task: Task, _: u32, _: &[i64]| {
            if task.kind == Kind::Send {
                *messages += 1;
                *bytes = bytes.and_then(|bytes| bytes.checked_add(task.size));
            }
            let index = *operations;
            let many = || Problem::TooManyOperations(u32::MAX.into());
            *operations = index.checked_add(1).ok_or_else(many)?;
            freed.push(pool.add(task, index).ok_or_else(many)?);
            Ok(())
        };
        let more = self.machine.next_group(number, position, slots, tell);
        if let Err(fault) = more {
            return Err(Stop::Work(Box::new(
                self.machine.error(number, fault, slots),
            )));
        }
        *running = *operations - before;
        self.operations += u64::from(*running);
        if MANY {
            let ends = &mut self.ends[number as usize];
            *ends = Ends {
                ready: ends.latest,
                latest: 0,
            };
        }
        Ok(())
    }

    fn too_long(&self, place: u32) -> GoalError {
        let flying = self.pool.get(place);
        let rank = flying.task.rank;
        let place = self.locate(rank, flying.index);
        let text = Place {
            rank: None,
            ..place
        };
        GoalError::TooLong {
            rank,
            place: text.to_string().trim_end_matches(": ").to_owned(),
        }
    }

    /// Finds where an operation stands: replays the rank's program up to it.
    fn locate(&self, rank: u32, index: u32) -> Place {
        let mut machine = Machine::new(self.machine.code);
        let mut slots = vec![0; machine.code.slots as usize];
        let (mut position, mut count) = (0, 0);
        let mut found = None;
        loop {
            let tell = |_: Task, at: u32, slots: &[i64]| {
                if count == index {
                    found = Some((at, slots.to_vec()));
                }
                count += 1;
                Ok(())
            };
            // The rank took the same path before.
            let more = machine.next_group(rank, &mut position, &mut slots, tell);
            if let Some((at, slots)) = found {
                return machine.place(rank, at, &slots);
            }
            if more != Ok(true) {
                return Place::default();
            }
        }
    }

    fn unfinished(&self, posted: &[u32], unexpected: &[u32]) -> Unfinished {
        let running = self.ranks.iter().filter(|rank| rank.running > 0).count();
        let stuck = |&place: &u32| {
            let flying = self.pool.get(place);
            let rank = flying.task.rank;
            let place = self.locate(rank, flying.index);
            Stuck {
                rank,
                index: flying.index,
                line: place.line,
                iterations: place.iterations,
                action: flying.task.operation().action,
            }
        };
        Unfinished::new(posted, unexpected, Waiting::Ranks(running as u64), stuck)
    }
}

impl<const MANY: bool> Work<MANY> for Lazy<'_, MANY> {
    type Error = ProgramError;

    fn ranks(&self) -> u32 {
        self.machine.code.ranks
    }

    #[inline]
    fn task(&self, index: u32) -> &Task {
        &self.pool.get(index).task
    }

    #[inline]
    fn next(&self, index: u32) -> u32 {
        self.pool.get(index).next
    }

    #[inline]
    fn set_next(&mut self, index: u32, next: u32) {
        self.pool.get_mut(index).next = next;
    }

    fn begin(&mut self, rank: u32, freed: &mut Vec<u32>) -> Result<(), Stop<ProgramError>> {
        self.next_group(rank, freed)
    }

    #[inline]
    fn fulfil(
        &mut self,
        index: u32,
        when: When,
        _start: u64,
        end: u64,
        freed: &mut Vec<u32>,
    ) -> Result<(), Stop<ProgramError>> {
        if when == When::Start {
            return Ok(());
        }
        let number = self.pool.get(index).task.rank;
        if MANY {
            let ends = &mut self.ends[number as usize];
            ends.latest = ends.latest.max(end);
        }
        let rank = &mut self.ranks[number as usize];
        rank.running -= 1;
        match rank.running {
            0 => self.next_group(number, freed),
            _ => Ok(()),
        }
    }

    #[inline]
    fn forget(&mut self, index: u32) {
        self.pool.remove(index);
    }

    fn all_done(&self) -> bool {
        self.ranks.iter().all(|rank| rank.running == 0)
    }

    #[inline]
    fn ready(&self, index: u32) -> u64 {
        self.ends[self.pool.get(index).task.rank as usize].ready
    }

    #[inline]
    fn set_sent(&mut self, index: u32, time: u64) {
        self.pool.moments(index).sent = time;
    }

    #[inline]
    fn sent(&self, index: u32) -> u64 {
        self.pool.moments_of(index).sent
    }

    #[inline]
    fn set_arrived(&mut self, index: u32, time: u64) {
        self.pool.moments(index).arrived = time;
    }

    #[inline]
    fn arrived(&self, index: u32) -> u64 {
        self.pool.moments_of(index).arrived
    }

    #[inline]
    fn fetch(&self, index: u32) {
        self.pool.fetch(index);
    }

    #[inline]
    fn fetch_next(&self, index: u32) {
        self.fetch_rank(self.pool.get(index).task.rank);
    }

    #[inline]
    fn fetch_rank(&self, rank: u32) {
        prefetch(&self.ranks, rank as usize);
        let width = self.machine.code.slots as usize;
        prefetch(&self.slots, rank as usize * width);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Bindings, Program};

    fn bound(text: &str, ranks: u32) -> Bound {
        let bindings = Bindings {
            ranks: Some(ranks),
            ..Bindings::default()
        };
        text.parse::<Program>().unwrap().bind(&bindings).unwrap()
    }

    #[test]
    fn stamps_that_begin_again_change_nothing() {
        // Many events at the same time, many that wait for a CPU, and messages above the rendezvous
        // limit.
        let text = "program 1
            loop k 6 {
              calc rank % 3
              together {
                loop far ranks - 1 {
                  send 1000 * (far % 5) to (rank + far + 1) % ranks
                  recv 1 from (rank - far - 1) % ranks
                }
              }
              if k % 2 { together { loop far ranks { send far to 0 } } }
              if rank == 0 and k % 2 { together { loop far ranks * ranks { recv 1 from any } } }
            }";
        let program = bound(text, 9);
        let parameters = Parameters {
            rendezvous: idlewave_units::Bytes::new(2_500),
            ..Parameters::default()
        };
        let expected = simulate(&program, &parameters).unwrap();
        for last in [400, 1_000, 3_001] {
            let mut lazy = Lazy::<false>::new(&program);
            let clocks = Clocks::single(program.ranks());
            let mut engine = Engine::new(&mut lazy, clocks, &parameters, Quiet);
            engine.stamps_end_at(last);
            assert!(engine.run().is_ok());
            assert_eq!(engine.finish(), expected.finish_ns);
        }
    }

    #[test]
    fn ranks_for_which_there_is_no_memory_are_refused() {
        let text = "program 1 cpus 256 nics 256 calc 1";
        let error = simulate(&bound(text, u32::MAX - 1), &Parameters::default()).unwrap_err();
        let PlayError::Program(error) = error else {
            panic!("{error}");
        };
        let ranks = u32::MAX - 1;
        let bytes = u64::from(ranks) * (68 + 8 * 768);
        assert_eq!(error.problem, Problem::Memory { ranks, bytes });
    }
}
