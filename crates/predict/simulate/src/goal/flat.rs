//! The operations of a schedule, in the form that the engine reads.

use super::clocks::{self, Clocks};
use super::crowd::NONE;
use super::engine::{Engine, Failure};
use super::layout::Layout;
use super::outcome::{GoalError, Outcome};
use super::parameters::Parameters;
use super::prefetch::prefetch;
use super::schedule::{AT_START, Kind, Schedule, Task, dependents_of};
use super::unfinished::{self, Unfinished, Waiting};
use super::work::{Stop, When, Work};
use idlewave_noise::{CpuTime, Quiet};
use std::convert::Infallible;

/// Dependents are mostly among the next operations: this many states are one cache line.
const AROUND: usize = 8;

/// Plays a schedule. The same schedule and parameters give the same times on every machine.
pub fn simulate(schedule: &Schedule, parameters: &Parameters) -> Result<Outcome, GoalError> {
    simulate_with(schedule, parameters, Quiet)
}

/// Plays a schedule on CPUs that noise disturbs.
pub fn simulate_with(
    schedule: &Schedule,
    parameters: &Parameters,
    cpu_time: impl CpuTime,
) -> Result<Outcome, GoalError> {
    let many = schedule.records.iter().any(|r| r.cpu > 0 || r.nic > 0);
    let layout = Layout::of(schedule);
    let finish_ns = match many {
        true => {
            let largest = clocks::largest(schedule.ranks(), &schedule.records);
            let clocks = Clocks::several(largest);
            play::<true>(schedule, &layout, clocks, parameters, cpu_time)?
        }
        false => {
            let clocks = Clocks::single(schedule.ranks());
            play::<false>(schedule, &layout, clocks, parameters, cpu_time)?
        }
    };
    let sends = schedule.records.iter().filter(|r| r.kind == Kind::Send);
    Ok(Outcome {
        finish_ns,
        operations: schedule.operations(),
        messages: sends.clone().count() as u64,
        bytes: sends.map(|r| r.size).try_fold(0_u64, u64::checked_add),
    })
}

/// Finish time of each rank in nanoseconds.
fn play<const MANY: bool>(
    schedule: &Schedule,
    layout: &Layout,
    clocks: Clocks<MANY>,
    parameters: &Parameters,
    cpu_time: impl CpuTime,
) -> Result<Vec<u64>, GoalError> {
    let mut flat = Flat::<MANY>::new(schedule, layout);
    let mut engine = Engine::new(&mut flat, clocks, parameters, cpu_time);
    match engine.run() {
        Ok(()) => {}
        Err(Failure::Stop(Stop::TooLong(index))) => {
            let record = &layout.records[index as usize];
            return Err(GoalError::TooLong {
                rank: record.rank,
                place: unfinished::place(schedule, layout.originals[index as usize] as usize),
            });
        }
        Err(Failure::Stop(Stop::Work(never))) => match *never {},
        Err(Failure::Unfinished { posted, unexpected }) => {
            return Err(flat.unfinished(&posted, &unexpected).into());
        }
    }
    Ok(engine.finish())
}

/// The mutable state of an operation.
#[derive(Clone, Copy)]
struct State {
    /// Number of operations that it still waits for.
    missing: u32,
    /// The next operation in the same list: of a posted receive, or of a send whose message has no
    /// receive yet.
    next: u32,
}

struct Flat<'a, const MANY: bool> {
    schedule: &'a Schedule,
    layout: &'a Layout,
    states: Vec<State>,
    /// With several CPUs, in nanoseconds: when the last operation waited for was done; for a send
    /// that has started, the end of its own overhead.
    ready: Vec<u64>,
    /// With several CPUs, in nanoseconds: when the message of a send was taken from the network.
    arrived: Vec<u64>,
}

impl<'a, const MANY: bool> Flat<'a, MANY> {
    fn new(schedule: &'a Schedule, layout: &'a Layout) -> Self {
        let count = layout.records.len();
        let mut states = vec![
            State {
                missing: 0,
                next: NONE
            };
            count
        ];
        for &later in &layout.dependents {
            states[(later & !AT_START) as usize].missing += 1;
        }
        let several = if MANY { count } else { 0 };
        Flat {
            schedule,
            layout,
            states,
            ready: vec![0; several],
            arrived: vec![0; several],
        }
    }

    /// What is left when nothing more can happen.
    fn unfinished(&self, posted: &[u32], unexpected: &[u32]) -> Unfinished {
        let waiting = self.states.iter().filter(|s| s.missing > 0).count() as u64;
        let stuck = |&index: &u32| {
            let original = self.layout.originals[index as usize];
            unfinished::stuck(self.schedule, original as usize)
        };
        let waiting = Waiting::Operations(waiting);
        Unfinished::new(posted, unexpected, waiting, stuck)
    }
}

impl<const MANY: bool> Work<MANY> for Flat<'_, MANY> {
    type Error = Infallible;

    fn ranks(&self) -> u32 {
        self.schedule.ranks()
    }

    #[inline]
    fn task(&self, index: u32) -> &Task {
        &self.layout.records[index as usize].task
    }

    #[inline]
    fn next(&self, index: u32) -> u32 {
        self.states[index as usize].next
    }

    #[inline]
    fn set_next(&mut self, index: u32, next: u32) {
        self.states[index as usize].next = next;
    }

    fn begin(&mut self, rank: u32, freed: &mut Vec<u32>) -> Result<(), Stop<Infallible>> {
        let own = &self.layout.places[self.schedule.span(rank)];
        let free = own.iter().copied();
        freed.extend(free.filter(|&index| self.states[index as usize].missing == 0));
        Ok(())
    }

    #[inline]
    fn fulfil(
        &mut self,
        index: u32,
        when: When,
        start: u64,
        end: u64,
        freed: &mut Vec<u32>,
    ) -> Result<(), Stop<Infallible>> {
        let Layout {
            records,
            dependents,
            ..
        } = self.layout;
        for &later in dependents_of(records, dependents, index as usize) {
            let at_start = later & AT_START != 0;
            if when != When::Both && at_start != (when == When::Start) {
                continue;
            }
            let later = later & !AT_START;
            if MANY {
                let ready = &mut self.ready[later as usize];
                *ready = (*ready).max(if at_start { start } else { end });
            }
            let state = &mut self.states[later as usize];
            state.missing -= 1;
            if state.missing == 0 {
                freed.push(later);
            }
        }
        Ok(())
    }

    #[inline]
    fn forget(&mut self, _index: u32) {}

    fn all_done(&self) -> bool {
        self.states.iter().all(|state| state.missing == 0)
    }

    #[inline]
    fn ready(&self, index: u32) -> u64 {
        self.ready[index as usize]
    }

    #[inline]
    fn set_sent(&mut self, index: u32, time: u64) {
        self.ready[index as usize] = time;
    }

    #[inline]
    fn sent(&self, index: u32) -> u64 {
        self.ready[index as usize]
    }

    #[inline]
    fn set_arrived(&mut self, index: u32, time: u64) {
        self.arrived[index as usize] = time;
    }

    #[inline]
    fn arrived(&self, index: u32) -> u64 {
        self.arrived[index as usize]
    }

    #[inline]
    fn fetch(&self, index: u32) {
        prefetch(&self.layout.records, index as usize);
        prefetch(&self.states, index as usize);
    }

    #[inline]
    fn fetch_next(&self, index: u32) {
        let index = index as usize;
        let record = &self.layout.records[index];
        prefetch(&self.layout.dependents, record.dependents as usize);
        prefetch(&self.states, index + AROUND);
        prefetch(&self.layout.records, index + 2);
    }

    #[inline]
    fn fetch_rank(&self, _rank: u32) {}
}
