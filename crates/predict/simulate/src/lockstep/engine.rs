//! The engine: advances all ranks tile by tile, on all threads of the current pool.

use super::columns::{Columns, Disturbances, Part, from_column};
use super::error::LockstepError;
use super::kernel::{LATEST, NEVER, ORIGIN, Row, Width, sweep};
use super::layout::Layout;
use super::portable::{After, Swept};
use super::settle::{Disturbed, settle};
use super::tiles::{Task, Tiling, phases};
use crate::{Shape, Stencil, Work};
use idlewave_noise::{Clock, LoneStream, Noise};
use rayon::prelude::*;
use std::ops::Range;

/// Longest step without noise, in nanoseconds: 13 days. The steps taken at once then add up within
/// 64 bits.
const LONGEST_STEP: u64 = 1 << 50;

/// Steps after which the range of the clock is checked.
const STEPS_UNWATCHED: u64 = 256;

/// Below this number of ranks, sharing them out among threads takes longer than the computation.
const FEW_RANKS: usize = 1 << 14;

/// A computation that is lengthened once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InjectedDelay {
    /// Step, from 0.
    pub step: u64,
    /// The rank.
    pub rank: u32,
    /// Work added to that of the step, in nanoseconds; noise strikes it like all other work.
    pub work_ns: u64,
}

/// What the ranks do in every step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockstepConfig {
    /// Which ranks wait for which.
    pub stencil: Stencil,
    /// How long the ranks compute.
    pub work: Work,
    /// Time from the end of a computation until the neighbours and the rank itself know of it, in
    /// nanoseconds.
    pub communication_ns: u64,
    /// Delays, in any order. Several for one rank and step add up.
    pub delays: Vec<InjectedDelay>,
    /// The CPU of each rank, numbered across all nodes; `None`: rank i runs on CPU i.
    pub cpus: Option<Vec<u32>>,
}

impl LockstepConfig {
    /// The same work for all ranks, no delays, rank i on CPU i. Times in nanoseconds.
    pub fn new(stencil: Stencil, work_ns: u64, communication_ns: u64) -> Self {
        LockstepConfig {
            stencil,
            work: Work::Same(work_ns),
            communication_ns,
            delays: Vec::new(),
            cpus: None,
        }
    }
}

/// A run in lockstep. A clone is a checkpoint: both continue identically.
#[derive(Clone, Debug)]
pub struct Lockstep<'a> {
    noise: &'a Noise,
    layout: Layout,
    /// Work common to all ranks, and communication.
    work: i64,
    communication: i64,
    /// Sorted by step, then by rank.
    delays: Vec<InjectedDelay>,
    columns: Columns,
    /// Number of steps done.
    step: u64,
    pub(super) width: Width,
    /// Ranks per tile; `None` chooses them for the number of threads.
    pub(super) tile_ranks: Option<usize>,
}

impl<'a> Lockstep<'a> {
    /// All ranks at time 0, on the CPUs of `noise`.
    ///
    /// # Errors
    /// Noise by exposure, no ranks or more than 32 bits can count, a reach of 0, work or CPUs not
    /// given for every rank, a step longer than 13 days, a delay of a rank that does not exist.
    pub fn new(config: LockstepConfig, noise: &'a Noise) -> Result<Self, LockstepError> {
        let Shape { x, y, z } = config.stencil.shape;
        let count = x.checked_mul(y).and_then(|plane| plane.checked_mul(z));
        let Some(ranks) = count.filter(|&n| n > 0 && u32::try_from(n).is_ok()) else {
            return Err(LockstepError::BadShape { x, y, z });
        };
        if noise.clock() == Clock::Work {
            return Err(LockstepError::Exposure);
        }
        if config.stencil.reach == 0 {
            return Err(LockstepError::NoReach);
        }
        let one_each = |what, given| match given == ranks {
            true => Ok(()),
            false => Err(LockstepError::BadLength { what, given, ranks }),
        };
        if let Some(cpus) = &config.cpus {
            one_each("cpus", cpus.len())?;
        }
        let (work, each) = match config.work {
            Work::Same(ns) => (ns, Vec::new()),
            Work::Each(each) => {
                one_each("work", each.len())?;
                (0, each)
            }
        };
        let works = each.iter().copied().chain(each.is_empty().then_some(work));
        for (rank, ns) in (0..).zip(works) {
            let ns = ns.saturating_add(config.communication_ns);
            if ns > LONGEST_STEP {
                return Err(LockstepError::StepTooLong { rank, ns });
            }
        }
        let mut delays = config.delays;
        if let Some(d) = delays.iter().find(|d| d.rank as usize >= ranks) {
            return Err(LockstepError::NoSuchRank {
                rank: d.rank,
                ranks,
            });
        }
        delays.sort_by_key(|d| (d.step, d.rank));
        let cpu = |rank: usize| config.cpus.as_ref().map_or(rank as u32, |cpus| cpus[rank]);
        let (disturbances, quiet) = Disturbances::new(noise, ranks, cpu);
        // Everything fits, because it was compared with the longest step.
        let communication = config.communication_ns as i64;
        Ok(Lockstep {
            noise,
            layout: Layout::of(&config.stencil),
            work: work as i64,
            communication,
            delays,
            columns: Columns {
                // As if a step before the first one had ended in time for all ranks to begin at 0.
                ends: [vec![ORIGIN - communication; ranks], vec![ORIGIN; ranks]],
                quiet,
                work: each.iter().map(|&ns| ns as i64).collect(),
                disturbances,
            },
            step: 0,
            width: Width::widest(),
            tile_ranks: None,
        })
    }

    /// Number of ranks.
    pub fn ranks(&self) -> usize {
        self.columns.quiet.len()
    }

    /// Number of steps done.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// When each rank begins the next step, in nanoseconds.
    pub fn times(&self) -> Vec<u64> {
        let mut times = vec![0; self.ranks()];
        self.times_into(&mut times);
        times
    }

    /// When each computation of the last step ended; `None` before the first step.
    pub fn ends(&self) -> Option<Vec<u64>> {
        let ends = self.columns.ends[0].iter();
        (self.step > 0).then(|| ends.map(|&end| from_column(end)).collect())
    }

    /// Takes this many steps.
    ///
    /// # Errors
    /// Times beyond 36 years.
    pub fn advance(&mut self, steps: u64) -> Result<(), LockstepError> {
        let threads = rayon::current_num_threads();
        let tiling = match self.tile_ranks {
            Some(ranks) => Tiling::new(&self.layout, ranks, 1),
            None => Tiling::of(&self.layout, threads),
        };
        match tiling.begins.len() == 1 || threads == 1 {
            true => self.advance_tiled(&tiling, steps),
            // Everything runs on threads of the pool: handing them each phase from outside would
            // take longer than the phase.
            false => rayon::scope(|_| self.advance_tiled(&tiling, steps)),
        }
    }

    fn advance_tiled(&mut self, tiling: &Tiling, steps: u64) -> Result<(), LockstepError> {
        let end = self.step + steps;
        while self.step < end {
            // The steps between two checks of the clock add up to less than the margin above its
            // limit.
            let pause = end.min(self.step + STEPS_UNWATCHED);
            while self.step < pause {
                let count = (pause - self.step).min(tiling.steps as u64);
                self.advance_together(tiling, count as usize);
            }
            let latest = self.columns.ends[0].iter().max();
            if latest.is_some_and(|&end| from_column(end) > LATEST / 2) {
                return Err(LockstepError::TooLong { step: self.step });
            }
        }
        Ok(())
    }

    /// Takes this many steps and reports when each rank begins the next one, after every `every`
    /// steps and after the last.
    ///
    /// `row(steps done, times)`: times in nanoseconds in the order of ranks; an error that it
    /// returns ends the run.
    ///
    /// # Errors
    /// Times beyond 36 years, and the errors of `row`.
    pub fn run<E: From<LockstepError>>(
        &mut self,
        steps: u64,
        every: u64,
        mut row: impl FnMut(u64, &[u64]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut times = vec![0; self.ranks()];
        let end = self.step + steps;
        while self.step < end {
            self.advance(every.max(1).min(end - self.step))?;
            self.times_into(&mut times);
            row(self.step, &times)?;
        }
        Ok(())
    }

    /// Sum over all ranks of the ends of their last computations, in nanoseconds.
    pub(super) fn sum(&self) -> i128 {
        let ends = self.columns.ends[0].iter();
        ends.map(|&end| i128::from(end - ORIGIN)).sum()
    }

    fn advance_together(&mut self, tiling: &Tiling, steps: usize) {
        let end = self.step + steps as u64;
        let from = self.delays.partition_point(|d| d.step < self.step);
        let to = self.delays.partition_point(|d| d.step < end);
        let rules = Rules {
            noise: self.noise,
            lone: self.noise.lone_stream(),
            layout: self.layout,
            work: self.work,
            communication: self.communication,
            delays: &self.delays[from..to],
            ranks: self.columns.quiet.len(),
            step: self.step,
            width: self.width,
        };
        phases(&self.layout, tiling, self.columns.part(), |tasks| {
            let advance = |mut task| rules.advance(&mut task, steps);
            match tasks.len() == 1 || rayon::current_num_threads() == 1 {
                true => tasks.into_iter().for_each(advance),
                false => tasks.into_par_iter().for_each(advance),
            }
        });
        if steps % 2 == 1 {
            self.columns.ends.swap(0, 1);
        }
        self.step = end;
    }

    fn times_into(&self, times: &mut [u64]) {
        let layout = &self.layout;
        let ends = &self.columns.ends[0];
        // Whole rows of a plane or cuboid; any stretch of a line.
        let size = match layout.unit() {
            1 => 4096,
            unit => unit,
        };
        let buffers = || (vec![0; size], vec![NEVER; size]);
        let fill = |(buffer, quiet): &mut (Vec<i64>, Vec<i64>), chunk: usize, times: &mut [u64]| {
            let begin = chunk * size;
            let units = begin / layout.unit()..(begin + times.len()) / layout.unit();
            let buffer = &mut buffer[..times.len()];
            let mut none = Vec::new();
            rows(layout, layout.units, units, |row, range| {
                let first = row.begin + range.start - begin;
                let places = first..first + range.len();
                let out = Swept {
                    ends: &mut buffer[places.clone()],
                    quiet: &quiet[places],
                    first: 0,
                    disturbed: &mut none,
                };
                let after = After::Same(self.communication);
                sweep(self.width, ends, row, range, after, out);
            });
            for (time, &t) in times.iter_mut().zip(&*buffer) {
                *time = from_column(t);
            }
        };
        if times.len() <= FEW_RANKS {
            let mut buffers = buffers();
            let chunks = times.chunks_mut(size).enumerate();
            chunks.for_each(|(chunk, times)| fill(&mut buffers, chunk, times));
        } else {
            let chunks = times.par_chunks_mut(size).enumerate();
            chunks.for_each_init(buffers, |buffers, (chunk, times)| {
                fill(buffers, chunk, times);
            });
        }
    }
}

/// What all tasks of a group of steps share.
struct Rules<'a> {
    noise: &'a Noise,
    lone: Option<LoneStream<'a>>,
    layout: Layout,
    work: i64,
    communication: i64,
    /// The delays of these steps.
    delays: &'a [InjectedDelay],
    /// Ranks of the whole run.
    ranks: usize,
    /// The first of the steps.
    step: u64,
    width: Width,
}

impl Rules<'_> {
    fn advance(&self, task: &mut Task<'_>, steps: usize) {
        let (mut noted, mut list) = (Vec::new(), Vec::new());
        for step in 0..steps {
            let units = task.units(step);
            let (from, into) = (step % 2, (step + 1) % 2);
            let part = &mut task.part;
            let count = part.ranks() / self.layout.unit();
            noted.clear();
            let [a, b] = &mut part.ends;
            let (ends, out) = match from {
                0 => (&**a, &mut **b),
                _ => (&**b, &mut **a),
            };
            rows(&self.layout, count, units.clone(), |row, range| {
                let places = row.begin + range.start..row.begin + range.end;
                let after = match part.work.is_empty() {
                    true => After::Same(self.communication + self.work),
                    false => After::Each(self.communication, &part.work[places.clone()]),
                };
                let out = Swept {
                    ends: &mut out[places.clone()],
                    quiet: &part.quiet[places.clone()],
                    first: places.start as u32,
                    disturbed: &mut noted,
                };
                sweep(self.width, ends, row, range, after, out);
            });
            list.extend(noted.iter().map(|&rank| self.disturbed(part, into, rank)));
            self.add_delays(part, into, units, self.step + step as u64, &mut list);
            settle(self.noise, self.lone, part, into, &mut list);
        }
    }

    /// The computation of a rank for which a sweep assumed an undisturbed end.
    fn disturbed(&self, part: &Part<'_>, parity: usize, rank: u32) -> Disturbed {
        let work = part.work.get(rank as usize).copied().unwrap_or(self.work);
        let begin = part.ends[parity][rank as usize] - work;
        Disturbed::new(rank, from_column(begin), work as u64)
    }

    fn add_delays(
        &self,
        part: &Part<'_>,
        parity: usize,
        units: Range<usize>,
        step: u64,
        list: &mut Vec<Disturbed>,
    ) {
        let from = self.delays.partition_point(|d| d.step < step);
        let to = self.delays.partition_point(|d| d.step <= step);
        let noted = list.len();
        for delay in &self.delays[from..to] {
            let place = (delay.rank as usize + self.ranks - part.first) % self.ranks;
            if !units.contains(&(place / self.layout.unit())) || place >= part.ranks() {
                continue;
            }
            let place = place as u32;
            // The ranks noted by the sweep are sorted; an earlier delay of the same rank is the
            // last entry.
            let at = match list[..noted].binary_search_by_key(&place, |d| d.rank) {
                Ok(at) => at,
                Err(_) if list.len() > noted && list[list.len() - 1].rank == place => {
                    list.len() - 1
                }
                Err(_) => {
                    list.push(self.disturbed(part, parity, place));
                    list.len() - 1
                }
            };
            list[at].left = list[at].left.saturating_add(delay.work_ns);
        }
    }
}

/// Calls `visit` with every row of `units` and the range of its ranks to compute. `count` is the
/// number of units of the array. If the array is a part of the whole, no neighbours beyond its ends
/// are needed.
fn rows(
    layout: &Layout,
    count: usize,
    units: Range<usize>,
    mut visit: impl FnMut(Row<'_>, Range<usize>),
) {
    let across = layout.line;
    if layout.unit() == 1 {
        let row = Row {
            begin: 0,
            ranks: count,
            line: across,
            others: &[],
        };
        visit(row, units);
        return;
    }
    let mut others = Vec::new();
    for unit in units {
        for row in 0..layout.rows {
            others.clear();
            layout.line.each(row, layout.rows, |other| {
                others.push((unit * layout.rows + other) * layout.row);
            });
            across.each(unit, count, |other| {
                others.push((other * layout.rows + row) * layout.row);
            });
            let own = Row {
                begin: (unit * layout.rows + row) * layout.row,
                ranks: layout.row,
                line: layout.line,
                others: &others,
            };
            visit(own, 0..layout.row);
        }
    }
}
