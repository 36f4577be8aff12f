use super::*;
use crate::testing::Synthetic;
use idlewave_run::testing::quiet_lockstep;
use idlewave_units::Nanos;
use proptest::prelude::*;

fn lockstep(ranks: u32) -> LockstepFindings {
    LockstepFindings {
        ranks,
        step: Nanos::from_nanos(100),
        total: Nanos::from_nanos(1_000),
        ..quiet_lockstep()
    }
}

fn levels(text: &str) -> Vec<u8> {
    text.bytes().map(|b| b - NO_LEVEL).collect()
}

#[test]
fn levels_grow_with_the_root_of_the_share() {
    let shares = [0.0, 1e-9, 1.0 / 961.0, 0.25, 0.25001, 1.0, 1.1];
    assert_eq!(shares.map(level), [0, 1, 1, 16, 16, 31, 31]);
}

#[test]
fn the_ranks_near_one_are_as_many_as_have_rows() {
    assert_eq!(near(5, 100), 0..100);
    assert_eq!(near(5, 1_000), 0..256);
    assert_eq!(near(500, 1_000), 372..628);
    assert_eq!(near(999, 1_000), 744..1_000);
}

#[test]
fn a_cell_holds_the_share_that_its_ranks_waited_and_who_took_most() {
    let mut grid = Grid::new((0, &lockstep(2)), None, 0..2, (1_000, 2_000), 1_000);
    assert_eq!((grid.rows, grid.columns, grid.column), (2, 1_000, 1));
    grid = Grid::new(
        (0, &lockstep(1_512)),
        Some(3),
        1_000..1_512,
        (1_000, 1_000 + 10_240),
        1_500,
    );
    assert_eq!(
        (grid.rows, grid.columns, grid.column, grid.zero),
        (256, 1_024, 10, 500)
    );
    assert!(grid.shows(1_000) && grid.shows(1_511) && !grid.shows(999) && !grid.shows(1_512));
    // Rank 1511 waits across the border of the first two cells of its row.
    for (cell, ns) in grid.cells(1_511, 990, 1_015) {
        grid.waiting[cell as usize] += ns;
    }
    for (who, begin, end) in [
        (1, 1_000, 1_004),
        (OTHERS, 1_004, 1_007),
        (OTHERS, 1_007, 1_009),
    ] {
        for (cell, ns) in grid.cells(1_510, begin, end) {
            *grid.taken.entry((cell, who)).or_default() += ns;
        }
    }
    let map = grid.finish(&[4], None, false);
    let (waiting, who, taken) = (levels(&map.waiting), levels(&map.who), levels(&map.taken));
    // Two ranks of 10 ns each: one waits for all of it, then for half.
    let row = 255 * 1_024;
    assert_eq!(waiting[row..row + 3], [level(0.5), level(0.25), 0]);
    assert_eq!(waiting.iter().filter(|w| **w > 0).count(), 2);
    // Five nanoseconds against four: the others win, because they count together.
    assert_eq!((who[row], taken[row]), (OTHERS, level(0.45)));
    assert_eq!(who.iter().filter(|w| **w != NOBODY).count(), 1);
}

#[test]
fn a_wave_runs_as_far_as_messages_reach_in_a_step() {
    let kind = |coupling, sides: &[u32], reach, one_sided| PhaseKind::Lockstep {
        coupling,
        work_steps: 0,
        work_target: Nanos::ZERO,
        message_bytes: 0,
        sides: sides.to_vec(),
        neighbourhood: idlewave_run::Neighbourhood {
            reach,
            periodic: true,
            one_sided,
        },
        variant: Default::default(),
        ranks: None,
        iterations: 1,
        threshold: Nanos::ZERO,
        turn: None,
    };
    use idlewave_run::Coupling::{Barrier, Neighbours};
    assert_eq!(
        wave(&kind(Neighbours, &[8], 3, true), 100),
        (Some(0.03), true)
    );
    assert_eq!(
        wave(&kind(Neighbours, &[], 1, false), 100),
        (Some(0.01), false)
    );
    assert_eq!(
        wave(&kind(Neighbours, &[4, 2], 1, false), 100),
        (None, false)
    );
    assert_eq!(wave(&kind(Barrier, &[], 1, false), 100), (None, false));
}

#[test]
fn the_maps_of_a_run_hold_all_its_waiting_and_name_who_struck() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let (run, findings) = Synthetic {
        ranks: 8,
        iterations: 600,
        ..Synthetic::default()
    }
    .write(&path)
    .unwrap();
    let maps = collect(&run, &findings).unwrap();
    assert_eq!(
        maps.iter().filter(|m| m.late.is_none()).count(),
        findings.lockstep.len()
    );
    for (i, found) in findings.lockstep.iter().enumerate() {
        let map = maps
            .iter()
            .find(|m| m.run == i && m.late.is_none())
            .unwrap();
        let mut waited = 0;
        run.for_each::<Regions>(|r| {
            if r.phase == found.phase && r.kind != RegionKind::Compute {
                waited += r.end_ns - r.begin_ns;
            }
        })
        .unwrap();
        // A cell's share lies above the level below its own, and not above its own.
        let bound = |down: u8| -> f64 {
            let share = |&l: &u8| (f64::from(l.saturating_sub(down)) / f64::from(LEVELS)).powi(2);
            let all: f64 = levels(&map.waiting).iter().map(share).sum();
            all * map.column as f64
        };
        let waited = waited as f64;
        assert!(
            bound(1) < waited && waited <= bound(0) * 1.000_001,
            "{waited}"
        );
        assert!(
            levels(&map.who).iter().any(|w| (1..OTHERS).contains(w)),
            "somebody is named"
        );
        assert!(
            levels(&map.who).contains(&NOBODY),
            "ranks do not strike themselves"
        );
    }
    // Maps around late steps show disjoint intervals of a run.
    let mut stretches: Vec<(usize, u64, u64)> = Vec::new();
    for map in &maps {
        if let Some(late) = map.late {
            let begin = findings.latest[late].begin_ns - map.zero;
            // The last column may extend past the end.
            let end = begin + u64::from(map.columns - 1) * map.column;
            stretches.push((map.run, begin, end));
        }
    }
    stretches.sort_unstable();
    assert!(
        stretches.windows(2).any(|p| p[0].0 == p[1].0),
        "{stretches:?}"
    );
    for pair in stretches.windows(2) {
        assert!(pair[0].0 != pair[1].0 || pair[0].2 <= pair[1].1, "{pair:?}");
    }
    // A repeated step gets no map of its own.
    let mut doubled = findings.clone();
    doubled.latest.insert(0, findings.latest[0].clone());
    let mut begins: Vec<(usize, u64)> = grids(&run, &doubled)
        .iter()
        .filter(|g| g.late.is_some())
        .map(|g| (g.run, g.begin))
        .collect();
    let all = begins.len();
    begins.sort_unstable();
    begins.dedup();
    assert_eq!(begins.len(), all);
    // The map shows the late rank at the zero of its axis.
    for map in maps.iter().filter(|m| m.late.is_some()) {
        let late = &findings.latest[map.late.unwrap()];
        assert_eq!(findings.lockstep[map.run].phase, late.phase);
        assert!(map.zero < u64::from(map.columns) * map.column);
    }
}

proptest! {
    #[test]
    fn no_nanosecond_within_the_map_is_lost(
        ranks in 2u32..700, begin in 0u64..5_000, span in 1u64..9_000, rank in 0u32..700, from in 0u64..20_000, length in 0u64..9_000,
    ) {
        let grid = Grid::new((0, &lockstep(ranks)), None, 0..ranks, (begin, begin + span), begin);
        let (rank, to) = (rank % ranks, from + length);
        let end = begin + u64::from(grid.columns) * grid.column;
        prop_assert!(end >= begin + span && end - begin < span + grid.column);
        let mut sum = 0;
        for (cell, ns) in grid.cells(rank, from, to) {
            prop_assert!((cell as usize) < grid.waiting.len() && ns > 0 && ns <= grid.column);
            sum += ns;
        }
        prop_assert_eq!(sum, to.min(end).saturating_sub(from.max(begin)));
        let all: u64 = (0..grid.rows).map(|r| grid.ranks_of(r)).sum();
        prop_assert_eq!(all, u64::from(ranks));
    }
}
