//! When disturbed computations end: for the ranks that a sweep noted, many at a time.

use super::columns::{DisturbancesOf, Part, Pending, from_column, quiet_column, to_column};
use super::kernel::LATEST;
use idlewave_noise::philox::LANES;
use idlewave_noise::{LoneStream, Noise};

/// A computation in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Disturbed {
    /// Position of the rank within its part.
    pub rank: u32,
    /// When it began, then the time it has reached, in nanoseconds.
    pub at: u64,
    /// Remaining work, in nanoseconds.
    pub left: u64,
    /// When the CPU is free of the events taken so far.
    free: u64,
    /// When the next event begins.
    begin: u64,
    /// Its length, and the number of the event after it.
    pending: Pending,
}

impl Disturbed {
    pub fn new(rank: u32, at: u64, left: u64) -> Self {
        Disturbed {
            rank,
            at,
            left,
            free: 0,
            begin: 0,
            pending: Pending::default(),
        }
    }

    fn end(&self) -> u64 {
        self.at.saturating_add(self.left).min(LATEST)
    }

    /// Whether the next event delays the computation.
    fn meets_event(&self) -> bool {
        self.begin < self.end() && self.left > 0
    }

    /// Takes the next event: work runs until it begins and resumes when the CPU is free again.
    fn serve(&mut self) {
        if self.begin > self.at {
            self.left -= self.begin - self.at;
            self.at = self.begin;
        }
        self.free = self
            .free
            .max(self.begin)
            .saturating_add(self.pending.length);
        self.at = self.at.max(self.free);
    }
}

/// Writes the ends of the computations into column `parity` of the part, and until when no noise
/// strikes their ranks afterwards. Empties `list`.
pub(super) fn settle(
    noise: &Noise,
    lone: Option<LoneStream<'_>>,
    part: &mut Part<'_>,
    parity: usize,
    list: &mut Vec<Disturbed>,
) {
    let ends = &mut *part.ends[parity];
    match (&mut part.disturbances, lone) {
        (DisturbancesOf::Lone { places, pending }, Some(lone)) => {
            for d in &mut *list {
                let rank = d.rank as usize;
                // For an event beyond the latest time it is enough to know that it is beyond.
                d.begin = from_column(part.quiet[rank]);
                d.pending = pending[rank];
            }
            let finish = |d: &Disturbed| {
                let rank = d.rank as usize;
                ends[rank] = to_column(d.end());
                part.quiet[rank] = quiet_column(d.begin);
                pending[rank] = d.pending;
            };
            settle_lone(lone, places, list, finish);
        }
        (DisturbancesOf::Any(lines), _) => {
            for d in list.drain(..) {
                let rank = d.rank as usize;
                let line = &mut lines[rank];
                ends[rank] = to_column(line.end(noise, d.at, d.left, |_| {}));
                part.quiet[rank] = quiet_column(line.quiet_until());
            }
        }
        _ => {
            for d in list.drain(..) {
                ends[d.rank as usize] = to_column(d.end());
            }
        }
    }
}

/// Works in rounds: each takes one event for every unfinished computation, then draws the next
/// events together.
fn settle_lone(
    lone: LoneStream<'_>,
    places: &[u32],
    list: &mut Vec<Disturbed>,
    mut finish: impl FnMut(&Disturbed),
) {
    let mut keep = |d: &Disturbed| {
        let goes_on = d.meets_event();
        if !goes_on {
            finish(d);
        }
        goes_on
    };
    list.retain(&mut keep);
    while !list.is_empty() {
        for group in list.chunks_mut(LANES) {
            let mut lanes = [0; LANES];
            let mut numbers = [0; LANES];
            for (lane, d) in group.iter_mut().enumerate() {
                d.serve();
                lanes[lane] = places[d.rank as usize];
                numbers[lane] = d.pending.after;
            }
            let struck = lone.draw(&lanes, &numbers);
            for (lane, d) in group.iter_mut().enumerate() {
                d.begin = d.begin.saturating_add(struck.gap_ns[lane]);
                d.pending = Pending {
                    after: d.pending.after + 1,
                    length: struck.length_ns[lane],
                };
            }
        }
        list.retain(&mut keep);
    }
}
