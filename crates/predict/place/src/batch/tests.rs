//! Independent readers turn the written files back into the same placement.

use super::flux::blocks;
use super::order::places_by_name;
use super::*;
use proptest::prelude::*;

fn node(name: &str, cores: Option<u32>) -> AssignedNode {
    AssignedNode {
        name: name.to_owned(),
        cores,
        domains: 1,
    }
}

/// An assignment from the node of each rank, by name; cores in the order of ranks.
fn assignment(names: &[&str]) -> Assignment {
    let mut nodes: Vec<AssignedNode> = Vec::new();
    let mut used: Vec<u32> = Vec::new();
    let mut ranks = Vec::new();
    for name in names {
        let at = nodes.iter().position(|n| n.name == *name);
        let at = at.unwrap_or_else(|| {
            nodes.push(node(name, Some(64)));
            used.push(0);
            nodes.len() - 1
        });
        ranks.push(Slot {
            node: at,
            core: used[at],
            domain: 0,
        });
        used[at] += 1;
    }
    Assignment::new(nodes, ranks).unwrap()
}

fn names(assignment: &Assignment) -> Vec<String> {
    let name = |s: &Slot| assignment.nodes()[s.node].name.clone();
    assignment.ranks().iter().map(name).collect()
}

/// Expands a folded list as RFC 29 defines it, independently of the code that folds it.
fn unfold(list: &str) -> Vec<String> {
    let (mut out, mut rest) = (Vec::new(), list);
    while !rest.is_empty() {
        let end = rest.find([',', '[']).unwrap_or(rest.len());
        let prefix = &rest[..end];
        rest = &rest[end..];
        if let Some(inside) = rest.strip_prefix('[') {
            let (ranges, after) = inside.split_once(']').unwrap();
            for range in ranges.split(',') {
                let (low, high) = range.split_once('-').unwrap_or((range, range));
                let width = low.len();
                for n in low.parse::<u64>().unwrap()..=high.parse().unwrap() {
                    out.push(format!("{prefix}{n:0width$}"));
                }
            }
            rest = after;
        } else {
            out.push(prefix.to_owned());
        }
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    out
}

#[test]
fn folded_lists_are_as_their_manuals_show_them() {
    let table: [(&[&str], &str); 9] = [
        (&["n1"], "n1"),
        (&["n1", "n2", "n3"], "n[1-3]"),
        (&["n001", "n002", "n003", "n020"], "n[001-003,020]"),
        (&["n8", "n9", "n10", "n11"], "n[8-11]"),
        (&["n08", "n09", "n10"], "n[08-10]"),
        (&["n9", "n010"], "n9,n010"),
        (&["n2", "n1"], "n[2,1]"),
        (&["a1", "a2", "login", "b1", "b2"], "a[1-2],login,b[1-2]"),
        (&["r1-n1", "r1-n2", "r2-n1"], "r1-n[1-2],r2-n1"),
    ];
    for (names, folded) in table {
        assert_eq!(fold_hostlist(names.iter().copied()), folded);
        assert_eq!(unfold(folded), names);
    }
}

/// The test vectors of RFC 34, as the nodes of the ranks in order.
#[test]
fn task_maps_are_those_of_the_test_vectors() {
    let table: [(&[usize], &str); 10] = [
        (&[0], "[[0,1,1,1]]"),
        (&[0, 1], "[[0,2,1,1]]"),
        (&[0, 0], "[[0,1,2,1]]"),
        (&[0, 0, 1, 1], "[[0,2,2,1]]"),
        (&[0, 1, 0, 1], "[[0,2,1,2]]"),
        (&[1, 0], "[[1,1,1,1],[0,1,1,1]]"),
        (
            &[0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3],
            "[[0,4,1,4]]",
        ),
        (
            &[0, 0, 1, 1, 2, 2, 3, 3, 0, 0, 1, 1, 2, 2, 3, 3],
            "[[0,4,2,2]]",
        ),
        (
            &[0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 4, 5, 4, 5],
            "[[0,6,1,2],[4,2,1,2]]",
        ),
        (
            &[0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 6, 6, 5, 5, 7, 7],
            "[[0,5,2,1],[6,1,2,1],[5,1,2,1],[7,1,2,1]]",
        ),
    ];
    for (nodes, map) in table {
        let texts: Vec<String> = blocks(nodes)
            .iter()
            .map(|b| format!("[{},{},{},{}]", b.node, b.nodes, b.ranks, b.repeat))
            .collect();
        assert_eq!(format!("[{}]", texts.join(",")), map);
    }
}

#[test]
fn orders_are_known_by_their_names() {
    use Order::{Arbitrary, Block, Cyclic, Plane};
    let table: [(&[&str], Order); 9] = [
        (&["a"], Block),
        (&["a", "a", "b", "b"], Block),
        (&["a", "b", "c"], Block),
        (&["a", "a", "b"], Block),
        (&["a", "b", "a", "b", "a"], Cyclic),
        (&["a", "a", "b", "b", "a", "a"], Plane(2)),
        (&["a", "a", "b", "b", "c", "c", "a", "b"], Arbitrary),
        (&["a", "b", "b", "a"], Arbitrary),
        (&["a", "b", "a", "c"], Arbitrary),
    ];
    for (names, order) in table {
        assert_eq!(Order::of(&assignment(names)), order, "{names:?}");
    }
}

fn slurm(names: &[&str]) -> String {
    let options = SlurmOptions {
        switches: Some(2),
        exclusive: true,
        host_file: "my hosts".to_owned(),
        command: ["./a.out", "it's"].map(str::to_owned).to_vec(),
    };
    slurm_script(&assignment(names), &options)
}

#[test]
fn a_script_for_slurm_names_the_order_where_it_can() {
    assert_eq!(
        slurm(&["n1", "n1", "n2", "n2"]),
        "#!/bin/sh\n#SBATCH --nodes=2\n#SBATCH --ntasks=4\n#SBATCH --ntasks-per-node=2\n#SBATCH --nodelist=n[1-2]\n\
         #SBATCH --switches=2\n#SBATCH --exclusive\nsrun --ntasks=4 --distribution=block ./a.out 'it'\\''s'\n"
    );
    assert_eq!(
        slurm(&["n1", "n1", "n2"]),
        "#!/bin/sh\n#SBATCH --nodes=2\n#SBATCH --ntasks=3\n#SBATCH --nodelist=n[1-2]\n#SBATCH --switches=2\n#SBATCH --exclusive\n\
         export SLURM_HOSTFILE='my hosts'\nsrun --ntasks=3 --distribution=arbitrary ./a.out 'it'\\''s'\n"
    );
    let distribution = |names: &[&str]| {
        let script = slurm(names);
        let at = script.split_once("--distribution=").unwrap().1;
        at.split_once(' ').unwrap().0.to_owned()
    };
    assert_eq!(distribution(&["n1", "n2", "n1", "n2", "n1"]), "cyclic");
    let plane = ["n1", "n1", "n2", "n2", "n1", "n1", "n2", "n2"];
    assert_eq!(distribution(&plane), "plane=2");
    assert_eq!(distribution(&plane[..6]), "arbitrary");
    // Slurm would sort them.
    assert_eq!(distribution(&["n2", "n2", "n1", "n1"]), "arbitrary");
    assert_eq!(distribution(&["n9", "n9", "n10", "n10"]), "block");
}

fn flux(names: &[&str]) -> String {
    let options = FluxOptions {
        submit: false,
        command: vec!["./a.out".to_owned()],
    };
    flux_command(&assignment(names), &options)
}

#[test]
fn a_command_for_flux_gives_a_map_where_nothing_shorter_means_the_same() {
    assert_eq!(
        flux(&["n1", "n1", "n2", "n2"]),
        "flux run --nodes=2 --tasks-per-node=2 --exclusive '--requires=host:n[1-2]' ./a.out"
    );
    assert_eq!(
        flux(&["n1", "n2", "n1", "n2"]),
        "flux run --nodes=2 --tasks-per-node=2 --exclusive '--requires=host:n[1-2]' --taskmap=cyclic ./a.out"
    );
    assert_eq!(
        flux(&["n1", "n1", "n2"]),
        "flux run --nodes=2 --ntasks=3 --exclusive '--requires=host:n[1-2]' '--taskmap=manual:[[0,1,2,1],[1,1,1,1]]' ./a.out"
    );
    assert!(flux(&["n2", "n2", "n1", "n1"]).contains("manual:[[1,1,2,1],[0,1,2,1]]"));
    let plane = ["a", "a", "b", "b", "a", "a", "b", "b"];
    assert!(flux(&plane).contains("--taskmap=cyclic:2 "));
}

#[test]
fn pbs_gets_a_chunk_for_each_node_and_the_tail() {
    let nodes = vec![node("n1", Some(8)), node("n2", None)];
    let slot = |node, core| Slot {
        node,
        core,
        domain: 0,
    };
    let a = Assignment::new(nodes, vec![slot(0, 0), slot(0, 5), slot(1, 0), slot(1, 1)]).unwrap();
    assert_eq!(
        pbs_select(&a),
        "1:ncpus=8:mpiprocs=2:host=n1+1:ncpus=2:mpiprocs=2:host=n2"
    );
    assert_eq!(pbs_nodes(&a), "n1:ppn=2+n2:ppn=2");
    let words = |w: &[&str]| -> Vec<String> { w.iter().map(|w| (*w).to_owned()).collect() };
    let script = pbs_script(
        &a,
        &words(&["mpirun", "-machinefile", "my file"]),
        &words(&["./a"]),
    );
    assert_eq!(
        script,
        format!(
            "#!/bin/sh\n#PBS -l select={}\n#PBS -l place=scatter:excl\ncd \"$PBS_O_WORKDIR\"\nmpirun -machinefile 'my file' ./a\n",
            pbs_select(&a)
        )
    );
    assert_eq!(
        open_mpi_rank_file(&a).lines().nth(1),
        Some("rank 1=n1 slot=5")
    );
}

#[test]
fn what_cannot_be_carried_out_is_refused() {
    let slot = |node, core, domain| Slot { node, core, domain };
    let check = |names: &[&str], ranks: &[Slot]| {
        let nodes = names.iter().map(|n| node(n, Some(2))).collect();
        Assignment::new(nodes, ranks.to_vec())
            .map(|_| ())
            .unwrap_err()
    };
    let first = slot(0, 0, 0);
    assert_eq!(check(&["a"], &[]), BatchError::NoRanks);
    let missing = BatchError::NoSuchNode {
        rank: 1,
        node: 1,
        nodes: 1,
    };
    assert_eq!(check(&["a"], &[first, slot(1, 0, 0)]), missing);
    let order = |node: &str| BatchError::NotInOrder {
        node: node.to_owned(),
    };
    assert_eq!(check(&["a", "b"], &[slot(1, 0, 0), first]), order("a"));
    assert_eq!(check(&["a", "b"], &[first]), order("b"));
    assert_eq!(
        check(&["a", "a"], &[first]),
        BatchError::SameName("a".to_owned())
    );
    for bad in ["", "-a", "a b", "a;b", "a\n", "a[1]", "$(a)", "a/b"] {
        assert!(
            matches!(check(&[bad], &[first]), BatchError::BadName(_)),
            "{bad}"
        );
    }
    let taken = BatchError::Taken {
        rank: 1,
        core: 0,
        node: "a".to_owned(),
    };
    assert_eq!(check(&["a"], &[first, first]), taken);
    for bad in [slot(0, 2, 0), slot(0, 0, 1)] {
        assert!(matches!(
            check(&["a"], &[bad]),
            BatchError::NoSuchCore { rank: 0, .. }
        ));
    }
}

/// Node and core of each rank in a rank file of Open MPI.
fn read_rank_file(text: &str) -> Vec<(String, u32)> {
    let line = |(i, line): (usize, &str)| {
        let rest = line.strip_prefix(&format!("rank {i}=")).unwrap();
        let (name, core) = rest.split_once(" slot=").unwrap();
        (name.to_owned(), core.parse().unwrap())
    };
    text.lines().enumerate().map(line).collect()
}

/// The node of each rank in a host file with counts, line by line.
fn read_counts(text: &str, between: &str) -> Vec<String> {
    let line = |line: &str| {
        let (name, n) = line.split_once(between).unwrap();
        vec![name.to_owned(); n.parse().unwrap()]
    };
    text.lines().flat_map(line).collect()
}

/// Slurm's interpretation of a script: the nodes sorted, the distribution as in dist_plane.html and
/// srun(1).
fn play_slurm(script: &str, host_file: &str) -> Vec<String> {
    let option = |name: &str| {
        let at = script.split_once(&format!("--{name}="))?.1;
        at.split([' ', '\n']).next().map(str::to_owned)
    };
    let ranks: usize = option("ntasks").unwrap().parse().unwrap();
    let mut nodes = unfold(&option("nodelist").unwrap());
    assert_eq!(option("nodes").unwrap(), nodes.len().to_string());
    nodes.sort_by_key(|n| (n[..1].to_owned(), n[1..].parse::<u64>().unwrap()));
    let distribution = option("distribution").unwrap();
    let size = match distribution.as_str() {
        "arbitrary" => return host_file.lines().map(str::to_owned).collect(),
        "block" => ranks / nodes.len(),
        "cyclic" => 1,
        plane => plane.strip_prefix("plane=").unwrap().parse().unwrap(),
    };
    let name = |r: usize| nodes[r / size % nodes.len()].clone();
    (0..ranks).map(name).collect()
}

/// Flux's interpretation of a command: the nodes sorted, ranks by the task map.
fn play_flux(command: &str) -> Vec<String> {
    let command = command.replace('\'', "");
    let option = |name: &str| {
        let at = command.split_once(&format!("--{name}"))?.1;
        at.split(' ').next().map(str::to_owned)
    };
    let mut nodes = unfold(&option("requires=host:").unwrap());
    nodes.sort_by_key(|n| (n[..1].to_owned(), n[1..].parse::<u64>().unwrap()));
    let per_node: Option<usize> = option("tasks-per-node=").map(|k| k.parse().unwrap());
    if let Some(map) = option("taskmap=manual:") {
        let numbers: Vec<usize> = map
            .split(|c: char| !c.is_ascii_digit())
            .filter(|n| !n.is_empty())
            .map(|n| n.parse().unwrap())
            .collect();
        let mut out = Vec::new();
        for block in numbers.chunks(4) {
            for _ in 0..block[3] {
                for name in &nodes[block[0]..block[0] + block[1]] {
                    out.extend(vec![name.clone(); block[2]]);
                }
            }
        }
        return out;
    }
    let per_node = per_node.unwrap();
    let size = match option("taskmap=cyclic") {
        None => per_node,
        Some(size) => size.strip_prefix(':').map_or(1, |s| s.parse().unwrap()),
    };
    let name = |r: usize| nodes[r / size % nodes.len()].clone();
    (0..nodes.len() * per_node).map(name).collect()
}

/// Random placements, including some with a named order.
fn placements() -> impl Strategy<Value = Assignment> {
    let width = 1..4usize;
    let order = prop_oneof![
        prop::collection::vec(0..12u32, 1..40),
        (1..7usize, 1..5usize, 1..40usize).prop_map(|(nodes, size, ranks)| {
            (0..ranks).map(|r| (r / size % nodes) as u32).collect()
        }),
    ];
    (order, width, 1..200u32, any::<bool>()).prop_map(|(nodes, width, first, down)| {
        let number = |n: u32| if down { first + 12 - n } else { first + n };
        let names: Vec<String> = nodes
            .iter()
            .map(|&n| format!("n{:0width$}", number(n)))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assignment(&names)
    })
}

proptest! {
    #[test]
    fn whatever_is_written_places_the_same_ranks_on_the_same_nodes(a in placements()) {
        let expected = names(&a);
        let places: Vec<(String, u32)> =
            expected.iter().cloned().zip(a.ranks().iter().map(|s| s.core)).collect();
        prop_assert_eq!(read_rank_file(&open_mpi_rank_file(&a)), places);
        prop_assert_eq!(&read_counts(&mpich_host_file(&a), ":"), &expected);
        let machines: Vec<String> = intel_machine_file(&a).lines().map(str::to_owned).collect();
        prop_assert_eq!(&machines, &expected);
        let options = SlurmOptions {
            switches: None,
            exclusive: false,
            host_file: "hosts".to_owned(),
            command: vec!["./a".to_owned()],
        };
        let script = slurm_script(&a, &options);
        prop_assert_eq!(&play_slurm(&script, &slurm_host_file(&a)), &expected, "{}", script);
        let command = flux_command(&a, &FluxOptions { submit: true, command: vec!["./a".to_owned()] });
        prop_assert_eq!(&play_flux(&command), &expected, "{}", command);
        // Counts without order.
        let mut sorted = expected.clone();
        sorted.sort();
        for counts in [
            read_counts(&open_mpi_host_file(&a), " slots="),
            read_counts(&pbs_nodes(&a).replace('+', "\n"), ":ppn="),
        ] {
            let mut counts = counts;
            if Order::of(&a) == Order::Block {
                prop_assert_eq!(&counts, &expected);
            }
            counts.sort();
            prop_assert_eq!(&counts, &sorted);
        }
    }

    #[test]
    fn folded_lists_come_apart_into_the_same_names(
        names in prop::collection::vec("[a-c]{0,2}-?[0-9]{0,4}", 1..30)
    ) {
        let names: Vec<String> = names.into_iter().filter(|n| !n.is_empty()).collect();
        let folded = fold_hostlist(names.iter().map(String::as_str));
        prop_assert_eq!(unfold(&folded), names);
    }

    #[test]
    fn places_by_name_are_a_permutation(a in placements()) {
        let mut places = places_by_name(&a);
        places.sort_unstable();
        prop_assert_eq!(places, (0..a.nodes().len()).collect::<Vec<_>>());
    }
}
