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
