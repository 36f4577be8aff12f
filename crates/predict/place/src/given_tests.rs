use super::*;
use crate::batch::{
    AssignedNode, Assignment, Slot, SlurmOptions, intel_machine_file, mpich_host_file,
    open_mpi_host_file, open_mpi_rank_file, slurm_host_file, slurm_script,
};
use crate::testing::program_of;
use idlewave_network::NetworkParameters;
use idlewave_topology::Routing;

/// The node of each rank, by number.
fn nodes(given: &[GivenRank]) -> Vec<u32> {
    let number = |g: &GivenRank| g.node.strip_prefix('n').unwrap().parse().unwrap();
    given.iter().map(number).collect()
}

fn assignment(of_ranks: &[u32]) -> Assignment {
    let mut names: Vec<u32> = Vec::new();
    let mut ranks = Vec::new();
    for (rank, n) in of_ranks.iter().enumerate() {
        if !names.contains(n) {
            names.push(*n);
        }
        ranks.push(Slot {
            node: names.iter().position(|name| name == n).unwrap(),
            core: of_ranks[..rank].iter().filter(|other| *other == n).count() as u32,
            domain: 0,
        });
    }
    let node = |n: &u32| AssignedNode {
        name: format!("n{n}"),
        cores: Some(4),
        domains: 1,
    };
    Assignment::new(names.iter().map(node).collect(), ranks).unwrap()
}

#[test]
fn files_that_are_written_are_read_as_the_same_mapping() {
    for of_ranks in [
        &[1, 1, 2, 2][..],
        &[1, 2, 1, 2],
        &[1, 2, 3, 1, 2],
        &[3, 1, 2, 3],
        &[1, 1, 2, 2, 1, 1, 2, 2],
        &[1],
    ] {
        let a = assignment(of_ranks);
        let ranks = of_ranks.len() as u32;
        let options = SlurmOptions {
            switches: None,
            exclusive: true,
            host_file: "slurm_hostfile".to_owned(),
            command: vec!["./app".to_owned()],
        };
        let block = of_ranks.windows(2).all(|w| w[0] <= w[1]);
        for (name, text) in [
            ("rankfile", open_mpi_rank_file(&a)),
            ("hostfile", open_mpi_host_file(&a)),
            ("hostfile.mpich", mpich_host_file(&a)),
            ("machines", intel_machine_file(&a)),
            ("slurm_hostfile", slurm_host_file(&a)),
            ("job.sbatch", slurm_script(&a, &options)),
        ] {
            // Open MPI's host file gives rank counts, in blocks, but no order.
            if name == "hostfile" && !block {
                continue;
            }
            match read_given(&format!("# a remark\n{text}"), ranks) {
                Ok(given) => assert_eq!(nodes(&given), of_ranks, "{name}: {text}"),
                Err(GivenError::Elsewhere) => assert!(text.contains("arbitrary"), "{text}"),
                Err(error) => panic!("{name}: {error}: {text}"),
            }
        }
        let cores: Vec<_> = read_given(&open_mpi_rank_file(&a), ranks).unwrap();
        let cores: Vec<u32> = cores.iter().map(|g| g.core.unwrap().1).collect();
        let asked: Vec<u32> = a.ranks().iter().map(|s| s.core).collect();
        assert_eq!(cores, asked);
    }
}

#[test]
fn a_line_names_the_ranks_of_each_node() {
    let given = read_given_line("n1:0-1,4 n2:2-3", 5).unwrap();
    assert_eq!(nodes(&given), [1, 1, 2, 2, 1]);
    assert_eq!(read_given_line("n1:0;n2:1", 2).unwrap().len(), 2);
}

#[test]
fn slots_beyond_the_ranks_stay_empty() {
    let read = |text: &str, ranks| read_given(text, ranks).map(|given| nodes(&given));
    assert_eq!(
        read("n1 slots=2\nn2 slots=4 max_slots=8\n", 3),
        Ok(vec![1, 1, 2])
    );
    assert_eq!(read("n1:2\nn2:1\nn1:9\n", 5), Ok(vec![1, 1, 2, 1, 1]));
    // Open MPI adds up the slots of a repeated node.
    assert_eq!(
        read("n1 slots=1\nn2 slots=1\nn1 slots=1\n", 3),
        Ok(vec![1, 1, 2])
    );
    assert_eq!(read("n1 slots=4294967295\n", 2), Ok(vec![1, 1]));
}

#[test]
fn what_is_no_mapping_of_the_program_is_refused_with_its_line() {
    let file = |text: &str| read_given(text, 4).unwrap_err().to_string();
    let line = |text: &str| read_given_line(text, 4).unwrap_err().to_string();
    for (said, part) in [
        (
            file("n1\nn2\n"),
            "it has places for 2 ranks, but the program has 4",
        ),
        (
            file("rank 0=n1 slot=0\nrank 0=n2 slot=0\n"),
            "line 2, \"rank 0=n2 slot=0\": rank 0 already has a place",
        ),
        (file("rank 4=n1 slot=0\n"), "the program has ranks 0 to 3"),
        (file("rank 0=+n0 slot=0\n"), "nodes must be given by name"),
        (file("rank 0=n1 slot=x\n"), "expected a line like rank"),
        (file("n1 slots=many\n"), "expected a line like n1"),
        (file("n1 slots=2\n"), "it has places for 2 ranks"),
        (file("n[1-2]:2\n"), "not the name of one node"),
        (
            file("#SBATCH --ntasks=4\nsrun --distribution=block ./app\n"),
            "does not say --nodelist=",
        ),
        (
            file("#SBATCH --ntasks=2 --nodelist=n[1-2]\nsrun --distribution=block ./app\n"),
            "places for 2 ranks",
        ),
        (line("n1"), "n1:0-3,8 n2:4-7"),
        (line("n1:0-9"), "ranks are 0 to 3"),
        (line("n1:0-3 n2:3"), "rank 3 already has a place"),
        (line("n1:0"), "places for 1 ranks"),
        (file(""), "places for 0 ranks"),
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

fn network() -> Network {
    let toml = "kind = \"star\"\nnodes = 2\n[[node]]\nname = \"n[1-2]\"\ndomains = [{ cores = 2 }, { cores = 2 }]\n";
    let read = idlewave_topology::read(toml.as_bytes()).unwrap();
    let topology = idlewave_topology::combine(vec![read]).unwrap().topology;
    let parameters = NetworkParameters::assumed("test", 1e9);
    Network::new(topology, parameters, Routing::Deterministic).unwrap()
}

fn placed(text: &str, ranks: u32) -> Result<Candidate, PlaceError> {
    let messages: Vec<_> = (1..ranks).map(|r| (0, r, 1 << 20)).collect();
    let program = program_of(ranks, &messages, 0);
    let given = read_given(text, ranks).unwrap();
    given_candidate(&network(), &program, &Job::default(), &given)
}

#[test]
fn cores_say_the_memory_domain_and_ranks_without_one_take_turns() {
    let domains = |c: &Candidate| c.places.iter().map(|p| p.domain).collect::<Vec<_>>();
    let cores = placed(
        "rank 0=n1 slot=3\nrank 1=n1 slot=0:1\nrank 2=n2 slot=1:0\n",
        3,
    )
    .unwrap();
    assert_eq!(domains(&cores), [1, 0, 1]);
    assert_eq!((cores.ranks_per_node, cores.nodes.len()), (2, 2));
    assert!(cores.bound_seconds > 0.0);
    let turns = placed("n2 slots=4\n", 3).unwrap();
    assert_eq!(domains(&turns), [0, 1, 0]);
    assert_eq!(turns.nodes, [NodeIndex::new(1)]);
}

#[test]
fn places_that_the_network_does_not_have_are_refused() {
    let refused = |text: &str, ranks| placed(text, ranks).unwrap_err().to_string();
    for (said, part) in [
        (refused("n1\nx7\nx8\n", 3), "the network has no node x[7-8]"),
        (refused("n1:5\n", 5), "5 ranks on n1, which has 4 cores"),
        (
            refused("rank 0=n1 slot=4\n", 1),
            "n1 (rank 0): the node has no such core",
        ),
        (
            refused("rank 0=n1 slot=2:0\n", 1),
            "the node has no such core",
        ),
        (
            refused("rank 0=n1 slot=1\nrank 1=n1 slot=0:1\n", 2),
            "core 1 of n1 (rank 1): it is used by another rank",
        ),
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}
