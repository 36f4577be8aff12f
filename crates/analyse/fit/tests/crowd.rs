//! Models of runs whose ranks shared CPUs.

#![allow(clippy::unwrap_used)]

#[path = "../../explain/tests/made/mod.rs"]
mod made;

use idlewave_fit::{Fitted, NoiseOf, fit_run};
use made::Made;
use std::sync::atomic::AtomicBool;

const US: u64 = 1_000;

/// Four ranks for 100 ms; a task strikes ranks 0 and 1 for 100 us every 2 ms.
fn fitted(places: Vec<(u32, u32)>, of: NoiseOf) -> Fitted {
    let mut made = Made::new(4);
    made.turns = Some(500 * US);
    for rank in 0..4 {
        made.call("MPI_Waitall", rank, (100_000 * US, 100_001 * US));
    }
    for (rank, at) in (0..50).flat_map(|i| [(0, 2_000 * i), (1, 2_000 * i + 700)]) {
        made.strike(rank, (at * US, (at + 100) * US), 0);
    }
    made.places = places;
    let run = made.write();
    fit_run(
        &run.open(),
        of,
        "a run".to_owned(),
        1,
        &AtomicBool::new(false),
    )
    .unwrap()
}

#[test]
fn ranks_that_take_turns_on_a_cpu_are_no_noise_and_no_cpus() {
    for of in [NoiseOf::Machine, NoiseOf::Phase(0)] {
        let shared = fitted(vec![(0, 0), (0, 1), (0, 0), (0, 1)], of);
        let names: Vec<&str> = shared.model.sources.iter().map(|s| &s.name[..]).collect();
        assert!(
            !names.is_empty() && names.iter().all(|n| *n == "alpha"),
            "{names:?}"
        );
        assert_eq!(shared.model.cpus_per_node, 2);
        assert!(
            shared.report.warnings[0].contains("4 ranks of node 0 shared 2 CPUs"),
            "{:?}",
            shared.report.warnings
        );
        assert!(
            shared.report.text().starts_with("  WARNING: 4 ranks"),
            "{}",
            shared.report.text()
        );
    }
    let alone = fitted((0..4).map(|cpu| (0, cpu)).collect(), NoiseOf::Machine);
    assert_eq!(
        (alone.model.cpus_per_node, alone.report.warnings.len()),
        (4, 0)
    );
}
