//! All ranks of a program, step after step.

use super::collective::{CollectiveError, Pattern};
use super::exchange::{Cost, Partners, Ranks};
use super::path::{Notes, Record};
use super::program::{Phase, Program, Wait};
use crate::Work;
use crate::stencil::{Direction, Stencil};
use idlewave_noise::{Charge, Noise};

/// Why a program was not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BulkError {
    /// Ranks, shapes or works of different numbers.
    #[error("the program has {0} ranks, and a phase of another number")]
    Ranks(u32),
    /// An algorithm that does not do the operation.
    #[error(transparent)]
    Collective(#[from] CollectiveError),
    /// A time beyond 64-bit nanoseconds.
    #[error("a time exceeds 2^64 ns, which are 584 years")]
    TooLong,
}

/// A delay that happens once: the rank stands still after the first computation of the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneOff {
    /// The rank.
    pub rank: u32,
    /// The step, from 0.
    pub step: u64,
    /// For how long, in nanoseconds.
    pub ns: u64,
}

/// A phase with what can be known before.
pub(super) enum Ready {
    Compute(Work),
    Pause(u64),
    Together {
        stencil: Stencil,
        directions: Vec<Direction>,
        cost: Cost,
        meanwhile: Option<Work>,
    },
    OneByOne {
        stencil: Stencil,
        directions: Vec<Direction>,
        cost: Cost,
    },
    Rounds(Vec<(OneRound, Cost)>),
}

/// What has just ended for all ranks, of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A computation.
    Compute,
    /// The one-off delays of the step.
    Delays,
    /// An exchange, a collective or a pause.
    Communication,
}

/// A program on its way.
pub struct Engine<'a> {
    ranks: Ranks<'a>,
    phases: Vec<Ready>,
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
    /// All ranks at time 0. `delays` happen once, each.
    ///
    /// # Errors
    /// Phases of another number of ranks, algorithms that do not fit, costs beyond 64 bits.
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

    /// Takes all ranks one step further.
    ///
    /// # Errors
    /// A time beyond 64-bit nanoseconds.
    pub fn step(&mut self) -> Result<(), BulkError> {
        self.one_step(None, &mut |_, _| {})
    }

    /// [`Engine::step`], written into a record that [`Engine::record`] has begun.
    ///
    /// # Errors
    /// As [`Engine::step`].
    pub fn step_recorded(&mut self, record: &mut Record) -> Result<(), BulkError> {
        self.one_step(Some(record), &mut |_, _| {})
    }

    /// [`Engine::step`]; `see` is shown when each rank had ended each part of it, in nanoseconds.
    ///
    /// # Errors
    /// As [`Engine::step`].
    pub fn step_seen(&mut self, see: &mut dyn FnMut(Ended, &[u64])) -> Result<(), BulkError> {
        self.one_step(None, see)
    }

    /// A record that begins here.
    pub fn record(&self) -> Record {
        Record::new(&self.ranks.times)
    }

    /// When each rank has ended the last step, in nanoseconds.
    pub fn times(&self) -> &[u64] {
        &self.ranks.times
    }

    /// Steps done.
    pub fn steps(&self) -> u64 {
        self.step
    }

    fn one_step(
        &mut self,
        mut record: Option<&mut Record>,
        see: &mut dyn FnMut(Ended, &[u64]),
    ) -> Result<(), BulkError> {
        let mut delayed = false;
        for phase in &self.phases {
            let ranks = &mut self.ranks;
            match phase {
                Ready::Compute(work) => {
                    noted(ranks, &mut record, false, |ranks, notes| {
                        ranks.compute(work, notes);
                    });
                    see(Ended::Compute, &ranks.times);
                    if !delayed {
                        delayed = true;
                        delay(ranks, &self.delays, self.step, &mut record, see);
                    }
                    continue;
                }
                Ready::Pause(ns) => noted(ranks, &mut record, false, |ranks, _| ranks.pause(*ns)),
                Ready::Together {
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
                Ready::OneByOne {
                    stencil,
                    directions,
                    cost,
                } => {
                    for direction in directions {
                        let partners = stencil.partners(std::slice::from_ref(direction));
                        noted(ranks, &mut record, true, |ranks, notes| {
                            ranks.exchange(&partners, *cost, None, notes);
                        });
                    }
                }
                Ready::Rounds(rounds) => {
                    for (round, cost) in rounds {
                        noted(ranks, &mut record, true, |ranks, notes| {
                            ranks.exchange(round, *cost, None, notes);
                        });
                    }
                }
            }
            see(Ended::Communication, &self.ranks.times);
        }
        if !delayed {
            delay(&mut self.ranks, &self.delays, self.step, &mut record, see);
        }
        self.step += 1;
        // Sums saturate and no time goes back: had one been too long, it still would be.
        match self.ranks.times.contains(&u64::MAX) {
            true => Err(BulkError::TooLong),
            false => Ok(()),
        }
    }
}

impl Program {
    /// Parts of a step that a [`Record`] keeps: computations, exchanges, rounds.
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub fn operations(&self) -> Result<u64, BulkError> {
        let count = |phase: &Ready| match phase {
            Ready::OneByOne { directions, .. } => directions.len() as u64,
            Ready::Rounds(rounds) => rounds.len() as u64,
            Ready::Compute(_) | Ready::Pause(_) | Ready::Together { .. } => 1,
        };
        Ok(prepare(self)?.iter().map(count).sum())
    }
}

/// What can be known of the phases before they begin.
pub(super) fn prepare(program: &Program) -> Result<Vec<Ready>, BulkError> {
    if !program.fits() {
        return Err(BulkError::Ranks(program.ranks));
    }
    let cost = |bytes| Cost::of(&program.costs, bytes).ok_or(BulkError::TooLong);
    program
        .phases
        .iter()
        .map(|phase| {
            Ok(match phase {
                Phase::Compute(work) => Ready::Compute(work.clone()),
                Phase::Pause(ns) => Ready::Pause(*ns),
                Phase::Exchange {
                    stencil,
                    bytes,
                    wait,
                } => {
                    let (stencil, directions) = (*stencil, stencil.directions());
                    let cost = cost(*bytes)?;
                    let meanwhile = match wait {
                        Wait::Overlapped(work) => Some(work.clone()),
                        Wait::Blocking | Wait::All => None,
                    };
                    match wait {
                        Wait::Blocking => Ready::OneByOne {
                            stencil,
                            directions,
                            cost,
                        },
                        Wait::All | Wait::Overlapped(_) => Ready::Together {
                            stencil,
                            directions,
                            cost,
                            meanwhile,
                        },
                    }
                }
                Phase::Collective {
                    operation,
                    algorithm,
                    bytes,
                } => {
                    let rounds = operation.rounds(*algorithm, program.ranks, *bytes)?;
                    let priced = rounds
                        .iter()
                        .map(|r| {
                            Ok((
                                OneRound {
                                    pattern: r.pattern,
                                    ranks: program.ranks,
                                },
                                cost(r.bytes)?,
                            ))
                        })
                        .collect::<Result<_, BulkError>>()?;
                    Ready::Rounds(priced)
                }
            })
        })
        .collect()
}

/// A phase, written down if there is a record.
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

/// The delays of a step.
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
