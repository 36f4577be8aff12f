//! What the analysis of a recorded program cannot explain is said, and does no harm.

mod made;

use made::Made;

const US: u64 = 1_000;

#[test]
fn neighbourhood_collectives_are_counted_as_not_explained() {
    let mut made = Made::new(3);
    let members = [
        (0, 10 * US, 52 * US),
        (1, 50 * US, 52 * US),
        (2, 20 * US, 52 * US),
    ];
    made.collective("MPI_Neighbor_allgather", 0, None, &members);
    made.collective(
        "MPI_Barrier",
        0,
        None,
        &[
            (0, 60 * US, 90 * US),
            (1, 80 * US, 90 * US),
            (2, 80 * US, 90 * US),
        ],
    );
    let found = made.explain();
    // The wait in the barrier alone.
    assert_eq!(found.waits(), [(0, 60 * US, 80 * US, 1, 0)]);
    let entries = found.findings.losses.entries();
    let counted = entries
        .iter()
        .find(|l| l.what == "neighbourhood collectives");
    assert_eq!(counted.map(|l| l.count), Some(1));
}

#[test]
fn a_second_recorded_phase_is_left_alone() {
    let mut made = Made::new(2);
    made.strike(1, (10 * US, 90 * US), 0);
    made.message(1, 0, (100 * US, 101 * US), (20 * US, 102 * US));
    let once = made.explain();
    let twice = made
        .write_with(|manifest| manifest.phases.push(manifest.phases[0].clone()))
        .explain();
    assert_eq!(once.findings.program, twice.findings.program);
    assert_eq!(once.tables.wait_parts, twice.tables.wait_parts);
}

#[test]
fn what_a_rank_lost_itself_is_told_from_what_came_back_to_it() {
    // A delay of rank 1 goes round over 2 and 3 to 1 itself, which is struck again before it lets 0 go on.
    let mut made = Made::new(4);
    made.strike(1, (10 * US, 50 * US), 0);
    made.message(1, 2, (60 * US, 61 * US), (20 * US, 62 * US));
    made.message(2, 3, (65 * US, 66 * US), (25 * US, 67 * US));
    made.message(3, 1, (70 * US, 71 * US), (62 * US, 72 * US));
    made.strike(1, (75 * US, 95 * US), 0);
    made.message(1, 0, (100 * US, 101 * US), (30 * US, 102 * US));
    let found = made.explain();
    let waits = found.waits();
    assert_eq!(waits[2], (1, 62 * US, 70 * US, 3, 2));
    assert_eq!(waits[3], (0, 30 * US, 100 * US, 1, 0));
    assert_eq!(found.parts(2), [(1, "alpha", 8 * US)]);
    // Both together are one row: 40 + 20 of its own and 8 that came back.
    assert_eq!(found.parts(3)[0], (1, "alpha", 68 * US));
    assert_eq!(found.parts(3).len(), 2);
    // 40 to rank 3, 8 to rank 1, and the same 8 to rank 0.
    assert_eq!(found.program().propagated.get(), 56 * US);
    let alpha = found.findings.sources.iter().find(|s| s.name == "alpha");
    let (lateness, lost) = alpha.map(|s| (s.lateness.get(), s.lost.get())).unwrap();
    assert_eq!((lateness, lost), (60 * US, (40 + 40 + 8 + 68 + 60) * US));
}
