//! Computes many steps of a range of units while it stays in the cache, and no rank-step twice.
//!
//! Split tiling: the units are cut into tiles. First each tile advances alone; after k steps its
//! outermost k x reach units on either side lack their neighbours' values and stay behind. Then the
//! gaps around the cuts are filled; each grows per step by as much as the tiles shrank. Two columns
//! of ends suffice: where a tile stopped, one holds the last step done there and the other the step
//! before it, and these are the two that the gaps need. Every rank-step is computed once, so each
//! rank meets its events once. Source: the scheme is that of Grosser et al., "Split tiling for
//! GPUs", GPGPU-6 (2013).

use super::columns::Part;
use super::layout::Layout;
use std::ops::Range;

/// Ranks per tile: its columns (24 bytes per rank, used in every step) fit a second-level cache.
const TILE_RANKS: usize = 16 * 1024;
/// Least units per tile, as a multiple of the reach: enough to take several steps at once.
const TILE_UNITS: usize = 12;
/// Most ranks of a tile enlarged to that many units: 6 MB of columns.
const MOST_TILE_RANKS: usize = 256 * 1024;
/// Most steps taken at once.
const MOST_STEPS: usize = 64;

/// How the units of a run are cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tiling {
    /// First unit of each tile; a single tile takes every step as a whole.
    pub begins: Vec<usize>,
    /// Steps that can be taken at once.
    pub steps: usize,
}

impl Tiling {
    /// Tiles of about `ranks` ranks, but enough of them for `threads` threads.
    pub fn new(layout: &Layout, ranks: usize, threads: usize) -> Tiling {
        let reach = layout.reach();
        // After one step something must be left of a tile, and the gaps on its two sides must not
        // meet within it.
        let least = 4 * reach;
        let mut size = ranks / layout.unit();
        if threads > 1 {
            size = size.min(layout.units / (2 * threads));
        }
        let count = layout.units / size.max(least);
        if count < 2 {
            return Tiling {
                begins: vec![0],
                steps: MOST_STEPS,
            };
        }
        let begins = (0..count).map(|i| i * layout.units / count).collect();
        let narrowest = layout.units / count;
        Tiling {
            begins,
            steps: (narrowest / (2 * reach) - 1).min(MOST_STEPS),
        }
    }

    /// The tiling for this machine.
    pub fn of(layout: &Layout, threads: usize) -> Tiling {
        let some_steps = TILE_UNITS * layout.reach() * layout.unit();
        let ranks = TILE_RANKS.max(some_steps.min(MOST_TILE_RANKS));
        Tiling::new(layout, ranks, threads)
    }

    /// Middles of the tiles, starting with the first.
    fn middles(&self, units: usize) -> Vec<usize> {
        let ends = self.begins[1..].iter().copied().chain([units]);
        let tiles = self.begins.iter().zip(ends);
        tiles
            .map(|(begin, end)| begin + (end - begin) / 2)
            .collect()
    }
}

/// A range of units, and how the piece of it that is computed changes from step to step.
pub(super) struct Task<'a> {
    pub part: Part<'a>,
    /// The units computed in the first step, numbered within the part.
    first: Range<usize>,
    /// How far each end moves outwards per step; inwards if negative.
    grows: [isize; 2],
}

impl<'a> Task<'a> {
    /// The gap around a cut.
    fn around(part: Part<'a>, cut: usize, reach: usize) -> Self {
        Task {
            part,
            first: cut - reach..cut + reach,
            grows: [reach as isize; 2],
        }
    }

    /// The units computed in step `step` of the task, counted from 0.
    pub fn units(&self, step: usize) -> Range<usize> {
        let moved = |at: usize, by: isize| at.wrapping_add_signed(by * step as isize);
        moved(self.first.start, -self.grows[0])..moved(self.first.end, self.grows[1])
    }
}

/// Calls `phase` with groups of tasks that may run at the same time, one group after the other; at
/// most the tiling's `steps` steps are taken.
pub(super) fn phases(
    layout: &Layout,
    tiling: &Tiling,
    mut part: Part<'_>,
    mut phase: impl FnMut(Vec<Task<'_>>),
) {
    let (units, unit) = (layout.units, layout.unit());
    if tiling.begins.len() == 1 {
        phase(vec![Task {
            part,
            first: 0..units,
            grows: [0, 0],
        }]);
        return;
    }
    let reach = layout.reach();
    let inwards = -(reach as isize);
    let joined = layout.line.joined;
    let last = tiling.begins.len() - 1;
    let in_ranks = |begins: &[usize]| begins.iter().map(|b| b * unit).collect::<Vec<_>>();
    {
        let tiles = part.reborrow().split_at_all(&in_ranks(&tiling.begins));
        let task = |(index, part): (usize, _)| {
            let part: Part<'_> = part;
            let width = part.ranks() / unit;
            // An open edge lacks nothing.
            let cut = [index > 0 || joined, index < last || joined];
            let lost = cut.map(|cut| if cut { reach } else { 0 });
            Task {
                part,
                first: lost[0]..width - lost[1],
                grows: cut.map(|cut| if cut { inwards } else { 0 }),
            }
        };
        phase(tiles.into_iter().enumerate().map(task).collect());
    }
    let middles = tiling.middles(units);
    let mut begins = vec![0];
    begins.extend(&middles);
    let mut stretches = part.split_at_all(&in_ranks(&begins));
    // The first stretch ends in the middle of the first tile, the last one starts in that of the
    // last tile: where edges are joined, a gap lies across them.
    let mut head = stretches.remove(0);
    let tail = stretches.pop();
    let cuts = tiling.begins[1..].iter().zip(&middles);
    let tasks: Vec<Task<'_>> = stretches
        .into_iter()
        .zip(cuts)
        .map(|(part, (cut, middle))| Task::around(part, cut - middle, reach))
        .collect();
    match tail {
        Some(mut tail) if joined => {
            let cut = tail.ranks() / unit;
            tail.with_joined(&mut head, |part| {
                let mut tasks = tasks;
                tasks.push(Task::around(part, cut, reach));
                phase(tasks);
            });
        }
        _ => phase(tasks),
    }
}
