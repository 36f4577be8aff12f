//! The bytes of every collective match its definition, under every installed MPI library.

#[allow(dead_code)]
mod common;

use common::{Place, Process};
use idlewave_mpi::abi::Family;
use idlewave_mpi::testing::installations;

/// What one rank sends and gets in each call; see programs/collectives.c. Ints have 4 bytes,
/// doubles 8.
fn expected(rank: u64, size: u64, large: bool) -> Vec<(&'static str, Vec<(u64, u64)>)> {
    let root = |at: u64, root: (u64, u64), other: (u64, u64)| if rank == at { root } else { other };
    // Sum over k of 8 * (rank + k + 1) ints.
    let each_way = (0..size).map(|k| 4 * 8 * (rank + k + 1)).sum();
    // Rank k has k + 1 ints.
    let own = 4 * (rank + 1);
    let all = (0..size).map(|k| 4 * (k + 1)).sum();
    let neighbours = 2 - u64::from(rank == 0) - u64::from(rank == size - 1);
    let mut list = vec![
        ("MPI_Barrier", vec![(0, 0)]),
        ("MPI_Bcast", vec![root(1, (40, 0), (0, 40))]),
        ("MPI_Gather", vec![root(1, (12, 12 * size), (12, 0)); 2]),
        ("MPI_Scatter", vec![root(0, (16 * size, 16), (0, 16)); 2]),
        ("MPI_Allgather", vec![(20, 20 * size); 2]),
        ("MPI_Alltoall", vec![(24 * size, 24 * size); 2]),
        ("MPI_Alltoallv", vec![(each_way, each_way)]),
        ("MPI_Alltoallw", vec![(each_way, each_way)]),
        ("MPI_Reduce", vec![root(2 % size, (56, 56), (56, 0))]),
        ("MPI_Allreduce", vec![(64, 64); 2]),
        ("MPI_Scan", vec![(36, 36)]),
        ("MPI_Exscan", vec![root(0, (36, 0), (36, 36))]),
        ("MPI_Reduce_scatter_block", vec![(8 * size, 8)]),
        ("MPI_Reduce_scatter", vec![(all, own)]),
        ("MPI_Gatherv", vec![root(0, (own, all), (own, 0))]),
        ("MPI_Scatterv", vec![root(0, (all, own), (0, own))]),
        ("MPI_Allgatherv", vec![(own, all)]),
        ("MPI_Ibarrier", vec![(0, 0)]),
        ("MPI_Ibcast", vec![root(1, (40, 0), (0, 40))]),
        ("MPI_Iallreduce", vec![(64, 64)]),
        ("MPI_Ialltoall", vec![(24 * size, 24 * size)]),
        ("MPI_Ireduce", vec![root(0, (56, 56), (56, 0))]),
        (
            "MPI_Neighbor_allgather",
            vec![(12 * neighbours, 12 * neighbours)],
        ),
        (
            "MPI_Neighbor_alltoall",
            vec![(16 * neighbours, 16 * neighbours)],
        ),
        ("MPI_Ineighbor_alltoall", vec![(20, 20)]),
    ];
    if large {
        list.push(("MPI_Allreduce_c", vec![(88, 88)]));
    }
    list
}

fn check(name: &str, processes: &[Process], large: bool) {
    let size = processes.len() as u64;
    for (rank, process) in processes.iter().enumerate() {
        let what = format!("{name} rank {rank} of {size}");
        for (function, amounts) in expected(rank as u64, size, large) {
            assert_eq!(process.amounts(function), amounts, "{what} {function}");
        }
        assert_eq!(process.losses().len(), 0, "{what}: {:?}", process.losses());
        // Roots are world ranks.
        let roots =
            |function| -> Vec<_> { process.calls(function).iter().map(|call| call.3).collect() };
        assert_eq!(roots("MPI_Bcast"), [Some(1)], "{what}");
        assert_eq!(roots("MPI_Reduce"), [Some(2 % size as u32)], "{what}");
        assert_eq!(roots("MPI_Allreduce"), [None, None], "{what}");
        // Collectives of one communicator are counted, whatever they are.
        let world = process.calls("MPI_Barrier")[0].2;
        assert_eq!(process.calls("MPI_Barrier")[0].4, 0);
        assert_eq!(process.calls("MPI_Bcast")[0].4, 1);
        assert_eq!(process.calls("MPI_Scan")[0].4, 15);
        assert_eq!(process.calls("MPI_Scan")[0].2, world);
        // Grids are communicators of their own.
        let grid = process.calls("MPI_Neighbor_allgather")[0];
        assert_ne!(grid.2, world);
        assert_eq!(grid.4, 0);
        // Every request was completed.
        let waits = process.calls("MPI_Wait").len();
        assert_eq!(waits, 6, "{what}");
    }
    // All members agree on the number of each communicator.
    let first = processes[0].members();
    assert_eq!(first.len(), 3);
    assert!(processes.iter().all(|process| process.members() == first));
}

#[test]
fn bytes_of_collectives_are_those_of_their_definitions_in_c() {
    let place = Place::new();
    for mpi in installations() {
        let Some(program) = place.compile_c(&mpi, "collectives.c") else {
            continue;
        };
        for ranks in [2, 5] {
            let processes = place.run_well(&mpi, ranks, &[&program]);
            check(mpi.name, &processes, mpi.family == Family::Mpich);
        }
    }
}
