//! When work is done that something disturbs: the ranks that a sweep noted, many at a time.

use super::columns::{DisturbancesOf, Part, Pending, from_column, quiet_column, to_column};
use super::kernel::LATEST;
use idlewave_noise::philox::LANES;
use idlewave_noise::{LoneStream, Noise};

/// A computation on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Disturbed {
    /// Place of the rank within its part.
    pub rank: u32,
    /// When it began, then how far it has come, in nanoseconds.
    pub at: u64,
    /// Work that is left, in nanoseconds.
    pub left: u64,
    /// When the CPU is free of the events that were taken.
    free: u64,
    /// The next event: when it begins.
    begin: u64,
    /// How long it lasts, and the number of the one after it.
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

    /// Whether the next event delays it.
    fn meets_event(&self) -> bool {
        self.begin < self.end() && self.left > 0
    }

    /// Takes the next event: work goes on until it begins and is resumed when the CPU is free again.
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

/// Writes when the computations end into column `parity` of the part, and until when their ranks are then left in peace.
/// `list` is empty afterwards.
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
                // Of an event beyond the latest moment only that it is beyond is known, and enough.
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

/// In rounds: each takes one event of every computation that is not done, then draws the next ones all together.
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
