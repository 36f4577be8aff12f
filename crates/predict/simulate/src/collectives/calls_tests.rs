use super::super::Library;
use super::*;
use std::collections::BTreeSet;

const KINDS: [Kind; 12] = [
    Kind::Barrier,
    Kind::Allreduce,
    Kind::Broadcast,
    Kind::Reduce,
    Kind::Alltoall,
    Kind::Alltoallv,
    Kind::Alltoallw,
    Kind::Allgather,
    Kind::ReduceScatter,
    Kind::Gather,
    Kind::Scatter,
    Kind::Scan,
];

const LIBRARIES: [Option<Library>; 3] = [None, Some(Library::OpenMpi), Some(Library::Mpich)];

fn algorithms(library: Option<Library>) -> Algorithms {
    library.map_or_else(Algorithms::default, Algorithms::of_library)
}

fn call(kind: Kind, members: u32, root: u32, piece: u64) -> Call {
    Call {
        kind,
        members,
        root,
        piece,
    }
}

/// At the end each member has the data that the operation promises, whatever the root; both ends of
/// each message agree.
#[test]
fn every_member_ends_with_what_the_operation_promises() {
    for members in [1_u32, 2, 3, 4, 5, 7, 8, 13] {
        for (kind, root, piece, library) in KINDS
            .into_iter()
            .flat_map(|k| [0, members / 2, members - 1].map(|r| (k, r)))
            .flat_map(|(k, r)| [8, 300, 100_000].map(|piece| (k, r, piece)))
            .flat_map(|(k, r, p)| LIBRARIES.map(|library| (k, r, p, library)))
        {
            let root = match kind {
                Kind::Broadcast | Kind::Reduce | Kind::Gather | Kind::Scatter => root,
                _ => 0,
            };
            let call = call(kind, members, root, piece);
            let algorithms = algorithms(library);
            let steps: Vec<Vec<Step>> = (0..members).map(|m| call.steps(m, &algorithms)).collect();
            let mut knows: Vec<BTreeSet<u32>> = (0..members).map(|m| [m].into()).collect();
            let mut direct = knows.clone();
            let rounds = steps[0].len();
            let at = |member: u32, round: usize| steps[member as usize][round].clone();
            for round in 0..rounds {
                let before = knows.clone();
                for member in 0..members {
                    let step = at(member, round);
                    for (from, bytes) in step.from {
                        assert!(at(from, round).to.contains(&(member, bytes)), "{call:?}");
                        knows[member as usize].extend(&before[from as usize]);
                        direct[member as usize].insert(from);
                    }
                    for (to, bytes) in step.to {
                        assert_ne!(to, member);
                        assert!(at(to, round).from.contains(&(member, bytes)), "{call:?}");
                    }
                }
            }
            let everyone: BTreeSet<u32> = (0..members).collect();
            for member in 0..members {
                let own = &knows[member as usize];
                let fulfilled = match kind {
                    Kind::Barrier | Kind::Allreduce | Kind::Allgather => *own == everyone,
                    Kind::Broadcast | Kind::Scatter => own.contains(&root),
                    Kind::Reduce | Kind::Gather => member != root || *own == everyone,
                    Kind::Alltoall if direct[member as usize] != everyone => {
                        *own == everyone && rounds == members.next_power_of_two().ilog2() as usize
                    }
                    Kind::Alltoall | Kind::Alltoallv | Kind::Alltoallw | Kind::ReduceScatter => {
                        direct[member as usize] == everyone
                    }
                    Kind::Scan => *own == (0..=member).collect(),
                };
                assert!(fulfilled, "{call:?} member {member}: {own:?}");
            }
        }
    }
}

/// 256 bytes to each of 8 members: Open MPI and MPICH disagree on an all-to-all, and agree once
/// lengths differ.
#[test]
fn pieces_of_different_lengths_go_at_once_where_the_library_sends_them_so() {
    let rounds = |kind, members, library| {
        let algorithms = Algorithms::of_library(library);
        call(kind, members, 0, 256).steps(1, &algorithms).len()
    };
    let by = |kind, members| [Library::OpenMpi, Library::Mpich].map(|l| rounds(kind, members, l));
    assert_eq!(by(Kind::Alltoall, 8), [1, 3]);
    assert_eq!(by(Kind::Alltoallv, 8), [1, 1]);
    assert_eq!(by(Kind::Alltoallv, 64), [63, 1]);
    assert_eq!(by(Kind::Alltoallw, 64), [1, 1]);
}

#[test]
fn pieces_travel_as_often_as_they_must() {
    let received = |kind, members, root, piece, member| -> u64 {
        let steps = call(kind, members, root, piece).steps(member, &Algorithms::default());
        steps.iter().flat_map(|s| &s.from).map(|f| f.1).sum()
    };
    // Every other member's piece exactly once.
    for members in [2, 3, 5, 8] {
        let others = u64::from(members) - 1;
        assert_eq!(received(Kind::Gather, members, 1, 10, 1), 10 * others);
        for member in 0..members {
            assert_eq!(
                received(Kind::Allgather, members, 0, 10, member),
                10 * others
            );
            assert_eq!(
                received(Kind::Allgather, members, 0, 1_000_000, member),
                1_000_000 * others
            );
        }
    }
    // With 5 members, the tree sends 4 to rank 4 directly, 2 and 3 to rank 2, 1 to rank 1, 3 to
    // rank 3.
    let got = [0, 1, 2, 3, 4].map(|m| received(Kind::Scatter, 5, 0, 10, m));
    assert_eq!(got, [0, 10, 20, 10, 10]);
}

#[test]
fn pieces_follow_from_what_was_recorded() {
    assert_eq!(Kind::Barrier.piece(4, 7, 7), 0);
    assert_eq!(Kind::Allreduce.piece(4, 8, 8), 8);
    assert_eq!(Kind::Broadcast.piece(4, 0, 5), 5);
    for kind in [Kind::Alltoall, Kind::Alltoallv, Kind::Alltoallw] {
        assert_eq!(kind.piece(4, 48, 48), 12);
        assert_eq!(kind.in_bulk(), Some(Collective::Alltoall));
    }
    assert_eq!(Kind::Allgather.piece(4, 12, 48), 12);
    assert_eq!(Kind::Gather.piece(4, 12, 48), 12);
    assert_eq!(Kind::Scatter.piece(4, 48, 12), 12);
    assert_eq!(Kind::ReduceScatter.piece(4, 48, 12), 12);
}

#[test]
fn functions_are_known_by_their_names() {
    assert_eq!(Kind::of("MPI_Allreduce"), Some(Kind::Allreduce));
    assert_eq!(Kind::of("MPI_Alltoall"), Some(Kind::Alltoall));
    assert_eq!(Kind::of("MPI_Alltoallv"), Some(Kind::Alltoallv));
    assert_eq!(Kind::of("MPI_Alltoallw_c"), Some(Kind::Alltoallw));
    assert_eq!(Kind::of("MPI_Exscan"), Some(Kind::Scan));
    assert_eq!(Kind::of("MPI_Comm_c"), None);
    assert_eq!(Kind::of("Barrier"), None);
}
