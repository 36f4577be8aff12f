//! The map of the slowest rank: how often each rank arrived last, over the run.

use idlewave_run::findings::Findings;
use idlewave_run::tables::{RegionKind, Regions};
use idlewave_run::{RunError, RunReader};
use serde::Serialize;

/// Most bins along the steps and along the ranks: what a screen can show.
const MAX_COLUMNS: usize = 512;
const MAX_ROWS: usize = 256;
/// Most steps of one lockstep run to look at; bounds the memory (12 bytes each) for any run.
const MAX_STEPS: u64 = 1 << 24;

/// The map of one lockstep run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Slowest {
    /// Index of the phase in the manifest.
    pub phase: u32,
    /// Ranks of the run.
    pub ranks: u32,
    /// Steps in the map.
    pub steps: u64,
    /// Bins along the steps; their sizes differ by at most one step.
    pub columns: usize,
    /// Bins along the ranks.
    pub rows: usize,
    /// Steps in which a rank of the row arrived last, row by row.
    pub counts: Vec<u32>,
}

/// For one iteration: the latest end of computation so far, and its rank.
#[derive(Clone, Copy, Default)]
struct Last {
    end: u64,
    rank: u32,
}

/// The maps of all lockstep runs with more than one rank; reads the table of regions once.
pub(super) fn collect(run: &RunReader, findings: &Findings) -> Result<Vec<Slowest>, RunError> {
    let mut runs: Vec<(u32, u32, u64, Vec<Last>)> = findings
        .lockstep
        .iter()
        .filter(|l| l.ranks > 1 && !run.manifest().is_later_turn(l.phase))
        .map(|l| (l.phase, l.ranks, l.iterations.min(MAX_STEPS), Vec::new()))
        .collect();
    if runs.is_empty() {
        return Ok(Vec::new());
    }
    run.for_each::<Regions>(|r| {
        if r.kind != RegionKind::Compute {
            return;
        }
        let Some((_, _, limit, last)) = runs.iter_mut().find(|l| l.0 == r.phase) else {
            return;
        };
        if r.iteration >= *limit {
            return;
        }
        let at = r.iteration as usize;
        if last.len() <= at {
            last.resize(at + 1, Last::default());
        }
        let found = Last {
            end: r.end_ns,
            rank: r.rank.get(),
        };
        let known = &mut last[at];
        // Of equal arrivals the lowest rank counts as last, as in the analysis.
        if found.end > known.end || (found.end == known.end && found.rank < known.rank) {
            *known = found;
        }
    })?;
    Ok(runs
        .into_iter()
        .map(|(phase, ranks, _, last)| map(phase, ranks, &last))
        .collect())
}

fn map(phase: u32, ranks: u32, last: &[Last]) -> Slowest {
    let columns = last.len().min(MAX_COLUMNS);
    let rows = (ranks as usize).min(MAX_ROWS);
    let mut counts = vec![0; columns * rows];
    for (i, l) in last.iter().enumerate().filter(|(_, l)| l.rank < ranks) {
        let row = l.rank as usize * rows / ranks as usize;
        counts[row * columns + i * columns / last.len()] += 1;
    }
    Slowest {
        phase,
        ranks,
        steps: last.len() as u64,
        columns,
        rows,
        counts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_counted_once_and_in_its_place() {
        let last: Vec<Last> = (0..2_000)
            .map(|i| Last {
                end: 1,
                rank: u32::from(i >= 1_000) * 299,
            })
            .collect();
        let map = map(0, 300, &last);
        assert_eq!((map.columns, map.rows, map.steps), (512, 256, 2_000));
        assert_eq!(map.counts.iter().sum::<u32>(), 2_000);
        assert_eq!(map.counts[..256].iter().sum::<u32>(), 1_000);
        assert_eq!(map.counts[255 * 512 + 256..].iter().sum::<u32>(), 1_000);
    }

    #[test]
    fn a_small_run_has_one_bin_per_step_and_rank() {
        let last = [
            Last { end: 5, rank: 1 },
            Last { end: 9, rank: 0 },
            Last { end: 12, rank: 1 },
        ];
        let map = map(3, 2, &last);
        assert_eq!(map.counts, [0, 1, 0, 1, 0, 1]);
    }
}
