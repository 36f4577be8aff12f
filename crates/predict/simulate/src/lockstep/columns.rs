//! The state of all ranks, in columns that are split into parts for the tiles.

use super::kernel::{LATEST, NEVER, ORIGIN};
use idlewave_noise::philox::LANES;
use idlewave_noise::{LoneStream, Noise, Timeline};
use rayon::prelude::*;

/// The next event of a rank whose CPU has a single stream of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pending {
    /// Number of the following event.
    pub after: u64,
    /// Its length, in nanoseconds.
    pub length: u64,
}

/// The coming noise on the CPUs of all ranks.
#[derive(Clone, Debug)]
pub(super) enum Disturbances {
    /// None.
    Silent,
    /// Poisson events of a single stream. The next one begins at the end of the rank's quiet time.
    Lone {
        /// Distinguishes the random draws of a CPU from those of others.
        places: Vec<u32>,
        pending: Vec<Pending>,
    },
    /// Any noise.
    Any(Vec<Timeline>),
}

/// All ranks. Columns hold times counted from [`ORIGIN`].
#[derive(Clone, Debug)]
pub(super) struct Columns {
    /// Ends of the computations of the last step done, and space for those of the next.
    pub ends: [Vec<i64>; 2],
    /// Until when no noise strikes each rank.
    pub quiet: Vec<i64>,
    /// Work of each rank, if it differs between ranks.
    pub work: Vec<i64>,
    pub disturbances: Disturbances,
}

/// The part of [`Disturbances`] of some ranks.
pub(super) enum DisturbancesOf<'a> {
    Silent,
    Lone {
        places: &'a [u32],
        pending: &'a mut [Pending],
    },
    Any(&'a mut [Timeline]),
}

/// The columns of a range of ranks.
pub(super) struct Part<'a> {
    /// Number of the first rank.
    pub first: usize,
    pub ends: [&'a mut [i64]; 2],
    pub quiet: &'a mut [i64],
    /// Empty if all ranks have the same work.
    pub work: &'a [i64],
    pub disturbances: DisturbancesOf<'a>,
}

/// A time in nanoseconds, as stored in the columns.
pub(super) fn to_column(moment: u64) -> i64 {
    // The latest time is far below the range of the type.
    ORIGIN + moment.min(LATEST) as i64
}

/// The time stored in a column, in nanoseconds.
pub(super) fn from_column(held: i64) -> u64 {
    (held - ORIGIN) as u64
}

/// Until when no noise strikes a rank, as stored in the columns.
pub(super) fn quiet_column(until: u64) -> i64 {
    match until < LATEST {
        true => to_column(until),
        false => NEVER,
    }
}

impl Disturbances {
    /// The state at the start, with the time until which no noise strikes each rank; `cpu` returns
    /// the CPU of a rank.
    pub fn new(
        noise: &Noise,
        ranks: usize,
        cpu: impl Fn(usize) -> u32 + Sync,
    ) -> (Disturbances, Vec<i64>) {
        if noise.is_silent() {
            return (Disturbances::Silent, vec![NEVER; ranks]);
        }
        let place = |rank| noise.place(cpu(rank));
        if let Some(lone) = noise.lone_stream() {
            let places = (0..ranks).into_par_iter().map(|r| lone.key_place(place(r)));
            return Disturbances::lone(lone, places.collect());
        }
        let lines: Vec<Timeline> = (0..ranks)
            .into_par_iter()
            .map(|rank| Timeline::new(noise, place(rank)))
            .collect();
        let quiet = lines
            .iter()
            .map(|t| quiet_column(t.quiet_until()))
            .collect();
        (Disturbances::Any(lines), quiet)
    }

    fn lone(lone: LoneStream<'_>, places: Vec<u32>) -> (Disturbances, Vec<i64>) {
        let mut quiet = vec![0; places.len()];
        let mut pending = vec![Pending::default(); places.len()];
        let columns = quiet
            .par_chunks_mut(LANES)
            .zip(pending.par_chunks_mut(LANES));
        columns
            .zip(places.par_chunks(LANES))
            .for_each(|((quiet, pending), places)| {
                let mut lanes = [0; LANES];
                lanes[..places.len()].copy_from_slice(places);
                let struck = lone.draw(&lanes, &[0; LANES]);
                for (lane, (quiet, pending)) in quiet.iter_mut().zip(pending).enumerate() {
                    *quiet = quiet_column(struck.gap_ns[lane]);
                    *pending = Pending {
                        after: 1,
                        length: struck.length_ns[lane],
                    };
                }
            });
        (Disturbances::Lone { places, pending }, quiet)
    }

    fn part(&mut self) -> DisturbancesOf<'_> {
        match self {
            Disturbances::Silent => DisturbancesOf::Silent,
            Disturbances::Lone { places, pending } => DisturbancesOf::Lone { places, pending },
            Disturbances::Any(lines) => DisturbancesOf::Any(lines),
        }
    }
}

impl<'a> DisturbancesOf<'a> {
    fn split_at(self, at: usize) -> (DisturbancesOf<'a>, DisturbancesOf<'a>) {
        match self {
            DisturbancesOf::Silent => (DisturbancesOf::Silent, DisturbancesOf::Silent),
            DisturbancesOf::Lone { places, pending } => {
                let (places, more_places) = places.split_at(at);
                let (pending, more) = pending.split_at_mut(at);
                let rest = DisturbancesOf::Lone {
                    places: more_places,
                    pending: more,
                };
                (DisturbancesOf::Lone { places, pending }, rest)
            }
            DisturbancesOf::Any(lines) => {
                let (lines, rest) = lines.split_at_mut(at);
                (DisturbancesOf::Any(lines), DisturbancesOf::Any(rest))
            }
        }
    }

    /// Takes the state out of two parts; what is left is unusable until
    /// [`DisturbancesOf::put_back`].
    fn take_joined(&mut self, other: &mut DisturbancesOf<'_>) -> Disturbances {
        use DisturbancesOf::{Any, Lone};
        match (self, other) {
            (
                Lone { places, pending },
                Lone {
                    places: more_places,
                    pending: more,
                },
            ) => Disturbances::Lone {
                places: [*places, *more_places].concat(),
                pending: [&**pending, &**more].concat(),
            },
            (Any(lines), Any(more)) => {
                let lines = lines.iter_mut().chain(more.iter_mut());
                Disturbances::Any(lines.map(std::mem::take).collect())
            }
            _ => Disturbances::Silent,
        }
    }

    fn put_back(&mut self, other: &mut DisturbancesOf<'_>, joined: Disturbances) {
        use DisturbancesOf::{Any, Lone};
        match (self, other, joined) {
            (
                Lone { pending, .. },
                Lone { pending: more, .. },
                Disturbances::Lone {
                    pending: joined, ..
                },
            ) => {
                let (a, b) = joined.split_at(pending.len());
                pending.copy_from_slice(a);
                more.copy_from_slice(b);
            }
            (Any(lines), Any(more), Disturbances::Any(joined)) => {
                let slots = lines.iter_mut().chain(more.iter_mut());
                slots.zip(joined).for_each(|(slot, line)| *slot = line);
            }
            _ => {}
        }
    }
}

impl Columns {
    /// A part with all ranks.
    pub fn part(&mut self) -> Part<'_> {
        let [now, next] = &mut self.ends;
        Part {
            first: 0,
            ends: [now, next],
            quiet: &mut self.quiet,
            work: &self.work,
            disturbances: self.disturbances.part(),
        }
    }
}

impl<'a> Part<'a> {
    /// The same part, borrowed for a while.
    pub fn reborrow(&mut self) -> Part<'_> {
        let [now, next] = &mut self.ends;
        Part {
            first: self.first,
            ends: [now, next],
            quiet: self.quiet,
            work: self.work,
            disturbances: match &mut self.disturbances {
                DisturbancesOf::Silent => DisturbancesOf::Silent,
                DisturbancesOf::Lone { places, pending } => {
                    DisturbancesOf::Lone { places, pending }
                }
                DisturbancesOf::Any(lines) => DisturbancesOf::Any(lines),
            },
        }
    }

    /// Number of ranks.
    pub fn ranks(&self) -> usize {
        self.quiet.len()
    }

    /// Splits into the first `at` ranks and the others.
    pub fn split_at(self, at: usize) -> (Part<'a>, Part<'a>) {
        let [now, next] = self.ends;
        let (now, now_rest) = now.split_at_mut(at);
        let (next, next_rest) = next.split_at_mut(at);
        let (quiet, quiet_rest) = self.quiet.split_at_mut(at);
        let (work, work_rest) = self.work.split_at(at.min(self.work.len()));
        let (disturbances, rest) = self.disturbances.split_at(at);
        let first = Part {
            first: self.first,
            ends: [now, next],
            quiet,
            work,
            disturbances,
        };
        let rest = Part {
            first: self.first + at,
            ends: [now_rest, next_rest],
            quiet: quiet_rest,
            work: work_rest,
            disturbances: rest,
        };
        (first, rest)
    }

    /// Splits into parts that start at the given positions, the first of which is 0.
    pub fn split_at_all(self, begins: &[usize]) -> Vec<Part<'a>> {
        let mut rest = self;
        let mut parts = Vec::with_capacity(begins.len());
        for pair in begins.windows(2) {
            let (part, more) = rest.split_at(pair[1] - pair[0]);
            parts.push(part);
            rest = more;
        }
        parts.push(rest);
        parts
    }

    /// Lets `visit` work on this part and `other` as if the ranks of `other` followed directly.
    pub fn with_joined<R>(&mut self, other: &mut Part<'_>, visit: impl FnOnce(Part<'_>) -> R) -> R {
        let both = |a: &[i64], b: &[i64]| [a, b].concat();
        let mut joined = Columns {
            ends: [
                both(self.ends[0], other.ends[0]),
                both(self.ends[1], other.ends[1]),
            ],
            quiet: both(self.quiet, other.quiet),
            work: both(self.work, other.work),
            disturbances: self.disturbances.take_joined(&mut other.disturbances),
        };
        let mut part = joined.part();
        part.first = self.first;
        let result = visit(part);
        let ranks = self.ranks();
        for (parity, ends) in joined.ends.iter().enumerate() {
            self.ends[parity].copy_from_slice(&ends[..ranks]);
            other.ends[parity].copy_from_slice(&ends[ranks..]);
        }
        self.quiet.copy_from_slice(&joined.quiet[..ranks]);
        other.quiet.copy_from_slice(&joined.quiet[ranks..]);
        self.disturbances
            .put_back(&mut other.disturbances, joined.disturbances);
        result
    }
}
