//! Runs all ranks of a program, step by step.

use super::collective::{CollectiveError, Pattern, Round};
use super::exchange::{Cost, Partners, Ranks};
use super::path::{Notes, Record};
use super::program::{Phase, Program, Wait};
use crate::Work;
use crate::stencil::{Direction, Stencil};
use idlewave_noise::{Charge, Noise};

/// Why a program was not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BulkError {
    /// Phases for different rank counts.
    #[error("the program has {0} ranks, and a phase of another number")]
    Ranks(u32),
    /// An algorithm that cannot perform the operation.
    #[error(transparent)]
    Collective(#[from] CollectiveError),
    /// A time beyond 64-bit nanoseconds.
    #[error("a time exceeds 2^64 ns, which are 584 years")]
    TooLong,
}

/// A one-off delay: the rank stands still after the first computation of the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneOff {
    /// The rank.
    pub rank: u32,
    /// The step, from 0.
    pub step: u64,
    /// Length of the delay, in nanoseconds.
    pub ns: u64,
}

/// A part of a step with everything that can be computed in advance. A blocking exchange becomes
/// one exchange per direction.
pub(super) enum Part {
    Compute(Work),
    Pause(u64),
    Exchange {
        stencil: Stencil,
        directions: Vec<Direction>,
        cost: Cost,
        meanwhile: Option<Work>,
    },
    Round(OneRound, Cost),
}

/// The part of a step that has just ended for all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A computation.
    Compute,
    /// The one-off delays of the step.
    Delays,
    /// An exchange, a collective or a pause.
    Communication,
}

/// A running program.
pub struct Engine<'a> {
    ranks: Ranks<'a>,
    /// The parts of each phase.
    phases: Vec<Vec<Part>>,
    delays: Vec<OneOff>,
    step: u64,
}

pub(super) struct Neighbours<'a> {
    stencil: &'a Stencil,
    directions: &'a [Direction],
}

impl Stencil {
    pub(super) fn partners<'a>(&'a self, directions: &'a [Direction]) -> Neighbours<'a> {
        Neighbours {
            stencil: self,
            directions,
        }
    }
}

impl Partners for Neighbours<'_> {
    fn directions(&self) -> usize {
        self.directions.len()
    }

    #[inline]
    fn target(&self, rank: usize, direction: usize) -> Option<usize> {
        self.stencil.target(rank, self.directions[direction])
    }

    #[inline]
    fn source(&self, rank: usize, direction: usize) -> Option<usize> {
        self.stencil.source(rank, self.directions[direction])
    }
}

pub(super) struct OneRound {
    pattern: Pattern,
    ranks: u32,
}

impl Partners for OneRound {
    fn directions(&self) -> usize {
        1
    }

    #[inline]
    fn target(&self, rank: usize, _: usize) -> Option<usize> {
        let to = self.pattern.target(rank as u32, self.ranks)?;
        Some(to as usize)
    }

    #[inline]
    fn source(&self, rank: usize, _: usize) -> Option<usize> {
        let from = self.pattern.source(rank as u32, self.ranks)?;
        Some(from as usize)
    }
}

impl<'a> Engine<'a> {
    /// All ranks at time 0. Each of `delays` happens once.
    ///
    /// # Errors
    /// Phases for different rank counts, algorithms that do not fit, costs beyond 64 bits.
    pub fn new(
        program: &Program,
        noise: &'a Noise,
        delays: &[OneOff],
    ) -> Result<Engine<'a>, BulkError> {
        let phases = prepare(program)?;
        Ok(Engine {
            phases,
            ranks: Ranks::new(noise, program.ranks),
            delays: delays.to_vec(),
            step: 0,
        })
    }

    /// Advances all ranks by one step.
    ///
    /// # Errors
    /// A time beyond 64-bit nanoseconds.
    pub fn step(&mut self) -> Result<(), BulkError> {
        self.one_step(None, &mut |_, _| {})
    }

    /// Like [`Engine::step`], appended to a record obtained from [`Engine::record`].
    ///
    /// # Errors
    /// As [`Engine::step`].
    pub fn step_recorded(&mut self, record: &mut Record) -> Result<(), BulkError> {
        self.one_step(Some(record), &mut |_, _| {})
    }

    /// Like [`Engine::step`]; after each part of the step, `see` gets the time at which each rank
    /// ended it, in nanoseconds.
    ///
    /// # Errors
    /// As [`Engine::step`].
    pub fn step_seen(&mut self, see: &mut dyn FnMut(Ended, &[u64])) -> Result<(), BulkError> {
        self.one_step(None, see)
    }

    /// A record that starts at the current state.
    pub fn record(&self) -> Record {
        Record::new(&self.ranks.times)
    }

    /// When each rank ended the last step, in nanoseconds.
    pub fn times(&self) -> &[u64] {
        &self.ranks.times
    }

    fn one_step(
        &mut self,
        mut record: Option<&mut Record>,
        see: &mut dyn FnMut(Ended, &[u64]),
    ) -> Result<(), BulkError> {
        let mut delayed = false;
        for phase in &self.phases {
            let ranks = &mut self.ranks;
            let mut ended = Ended::Communication;
            for part in phase {
                match part {
                    Part::Compute(work) => {
                        noted(ranks, &mut record, false, |ranks, notes| {
                            ranks.compute(work, notes);
                        });
                        ended = Ended::Compute;
                    }
                    Part::Pause(ns) => {
                        noted(ranks, &mut record, false, |ranks, _| ranks.pause(*ns));
                    }
                    Part::Exchange {
                        stencil,
                        directions,
                        cost,
                        meanwhile,
                    } => {
                        let partners = stencil.partners(directions);
                        noted(ranks, &mut record, true, |ranks, notes| {
                            ranks.exchange(&partners, *cost, meanwhile.as_ref(), notes);
                        });
                    }
                    Part::Round(round, cost) => {
                        noted(ranks, &mut record, true, |ranks, notes| {
                            ranks.exchange(round, *cost, None, notes);
                        });
                    }
                }
            }
            see(ended, &ranks.times);
            if ended == Ended::Compute && !std::mem::replace(&mut delayed, true) {
                delay(ranks, &self.delays, self.step, &mut record, see);
            }
        }
        if !delayed {
            delay(&mut self.ranks, &self.delays, self.step, &mut record, see);
        }
        self.step += 1;
        // Sums saturate and no time decreases: if one ever overflowed, it still shows.
        match self.ranks.times.contains(&u64::MAX) {
            true => Err(BulkError::TooLong),
            false => Ok(()),
        }
    }
}

impl Program {
    /// Number of parts of a step that a [`Record`] keeps: computations, exchanges, rounds.
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub fn operations(&self) -> Result<u64, BulkError> {
        Ok(prepare(self)?.iter().map(|parts| parts.len() as u64).sum())
    }
}

/// Computes everything about the phases that is known before the run.
pub(super) fn prepare(program: &Program) -> Result<Vec<Vec<Part>>, BulkError> {
    if !program.fits() {
        return Err(BulkError::Ranks(program.ranks));
    }
    let cost = |bytes| Cost::of(&program.costs, bytes).ok_or(BulkError::TooLong);
    program
        .phases
        .iter()
        .map(|phase| {
            Ok(match phase {
                Phase::Compute(work) => vec![Part::Compute(work.clone())],
                Phase::Pause(ns) => vec![Part::Pause(*ns)],
                Phase::Exchange {
                    stencil,
                    bytes,
                    wait,
                } => {
                    let cost = cost(*bytes)?;
                    let exchange = |directions, meanwhile| Part::Exchange {
                        stencil: *stencil,
                        directions,
                        cost,
                        meanwhile,
                    };
                    let directions = stencil.directions();
                    match wait {
                        Wait::Blocking => directions
                            .into_iter()
                            .map(|one| exchange(vec![one], None))
                            .collect(),
                        Wait::All => vec![exchange(directions, None)],
                        Wait::Overlapped(work) => vec![exchange(directions, Some(work.clone()))],
                    }
                }
                Phase::Collective {
                    operation,
                    algorithm,
                    bytes,
                } => {
                    let rounds = operation.rounds(*algorithm, program.ranks, *bytes)?;
                    let part = |r: &Round| {
                        let round = OneRound {
                            pattern: r.pattern,
                            ranks: program.ranks,
                        };
                        Ok(Part::Round(round, cost(r.bytes)?))
                    };
                    rounds.iter().map(part).collect::<Result<_, BulkError>>()?
                }
            })
        })
        .collect()
}

/// Runs a phase and records it if there is a record.
fn noted(
    ranks: &mut Ranks<'_>,
    record: &mut Option<&mut Record>,
    exchange: bool,
    phase: impl FnOnce(&mut Ranks<'_>, Option<&mut Notes>),
) {
    match record {
        None => phase(ranks, None),
        Some(record) => {
            phase(ranks, Some(record.phase(exchange)));
            record.end(&ranks.times);
        }
    }
}

/// Applies the delays of a step.
fn delay(
    ranks: &mut Ranks<'_>,
    delays: &[OneOff],
    step: u64,
    record: &mut Option<&mut Record>,
    see: &mut dyn FnMut(Ended, &[u64]),
) {
    if delays.iter().all(|d| d.step != step) {
        return;
    }
    let source = ranks.noise.sources() as u32;
    noted(ranks, record, false, |ranks, mut notes| {
        for d in delays.iter().filter(|d| d.step == step) {
            if let Some(t) = ranks.times.get_mut(d.rank as usize) {
                *t = t.saturating_add(d.ns);
                if let Some(notes) = notes.as_deref_mut() {
                    let charge = Charge { source, ns: d.ns };
                    notes.charge(d.rank as usize, 0, charge);
                }
            }
        }
    });
    see(Ended::Delays, &ranks.times);
}
