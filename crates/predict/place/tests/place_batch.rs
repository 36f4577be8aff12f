//! The real launchers read the written files, and every rank reports where it runs. The nodes are
//! namespaces of this machine, see tests/nodes/README.md.

#![allow(clippy::unwrap_used)]

#[path = "../../../../tests/nodes/rig.rs"]
mod rig;

use idlewave_place::batch::{
    AssignedNode, Assignment, Slot, SlurmOptions, intel_machine_file, mpich_host_file,
    open_mpi_host_file, open_mpi_rank_file, slurm_host_file, slurm_script,
};
use rig::{root, skip, turn};
use std::process::Command;

/// The nodes of the ranks: in blocks, round robin, with a tail, against the order of names, and
/// without any order.
const PLACEMENTS: [&[u32]; 6] = [
    &[1, 1, 2, 2, 3, 3],
    &[1, 2, 3, 1, 2, 3],
    &[1, 2, 3, 1, 2],
    &[1, 1, 2, 2, 3],
    &[3, 3, 1, 1],
    &[3, 1, 2, 3, 1],
];

/// At most two ranks on each node, the first one on core 1. The nodes' names are placeholders for
/// those that the rig assigns.
fn assignment(of_ranks: &[u32]) -> Assignment {
    let mut nodes: Vec<AssignedNode> = Vec::new();
    let mut ranks: Vec<Slot> = Vec::new();
    for n in of_ranks {
        let name = format!("standin{n}");
        if !nodes.iter().any(|n| n.name == name) {
            nodes.push(AssignedNode {
                name: name.clone(),
                cores: Some(2),
                domains: 1,
            });
        }
        let node = nodes.iter().position(|n| n.name == name).unwrap();
        let before = ranks.iter().filter(|s| s.node == node).count() as u32;
        ranks.push(Slot {
            node,
            core: 1 - before,
            domain: 0,
        });
    }
    Assignment::new(nodes, ranks).unwrap()
}

/// What a rank reports: its number from the variable, its node, its CPUs.
fn says(variable: &str) -> String {
    format!("echo rank ${variable} $(hostname) $(sed -n s/Cpus_allowed_list://p /proc/self/status)")
}

/// Has a launcher start ranks that report where they run, and retries until all have reported.
/// Under load, launchers now and then hang on ranks that exit at once, or lose their output.
fn launched(launcher: &str, variable: &str, assignment: &Assignment) -> String {
    format!(
        "for limit in 20 60 120 240; do timeout -k 1 $limit {launcher} sh -c '{}' >said\n\
         [ \"$(grep -c '^rank ' said)\" = {} ] && break; done; cat said",
        says(variable),
        assignment.ranks().len()
    )
}

/// Runs `script` on three nodes for each placement, with the files of `files` in its directory and
/// the nodes' real names in them. Returns the node and CPUs of each rank; `None` if this machine
/// cannot.
fn places(
    rig: &str,
    files: impl Fn(&Assignment) -> Vec<(&'static str, String)>,
    script: impl Fn(&Assignment) -> String,
) -> Option<Vec<Vec<(u32, String)>>> {
    let _turn = turn();
    // A directory that all nodes see: they do not see /tmp.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut all = "first=${IDLEWAVE_NODES%% *}\nstem=${first%1}\n".to_owned();
    for (i, of_ranks) in PLACEMENTS.iter().enumerate() {
        let placement = dir.path().join(i.to_string());
        std::fs::create_dir(&placement).unwrap();
        let assignment = assignment(of_ranks);
        for (name, content) in files(&assignment) {
            std::fs::write(placement.join(name), content).unwrap();
        }
        all.push_str(&format!(
            "cd \"$DIR/{i}\" && sed -i \"s/standin/$stem/g\" * || exit 1\necho placement\n{}\n",
            script(&assignment)
        ));
    }
    let rig = format!("{rig} 3");
    let out = rig::on_nodes(&rig, &all, &[("DIR", dir.path())])?;
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{:?}", out.status);
    let of_placement = |text: &str| {
        let line = |line: &str| {
            let mut words = line.strip_prefix("rank ")?.split_whitespace();
            let rank: usize = words.next()?.parse().ok()?;
            let node = words.next()?.chars().last()?.to_digit(10)?;
            Some((rank, (node, words.next()?.to_owned())))
        };
        let mut ranks: Vec<_> = text.lines().filter_map(line).collect();
        ranks.sort();
        let numbers: Vec<usize> = ranks.iter().map(|r| r.0).collect();
        assert_eq!(numbers, (0..ranks.len()).collect::<Vec<_>>());
        ranks.into_iter().map(|r| r.1).collect()
    };
    Some(
        said.split("placement\n")
            .skip(1)
            .map(of_placement)
            .collect(),
    )
}

fn check_nodes(found: &[Vec<(u32, String)>]) {
    let nodes = |ranks: &Vec<(u32, String)>| ranks.iter().map(|r| r.0).collect::<Vec<_>>();
    let found: Vec<Vec<u32>> = found.iter().map(nodes).collect();
    assert_eq!(found, PLACEMENTS);
}

/// Whether CPUs 0 and 1 are cores without sibling threads, so that their numbers are core numbers.
fn has_plain_cores() -> bool {
    let siblings = |cpu: u32| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        std::fs::read_to_string(path).ok()
    };
    [0, 1]
        .iter()
        .all(|&cpu| siblings(cpu).is_some_and(|s| s.trim() == cpu.to_string()))
}

/// `launcher` gets the host file "hosts" and the rank file "ranks".
fn open_mpi(launcher: &str) {
    if !has_plain_cores() {
        // A property of the machine: installing something would not help.
        println!("skipped: ranks are bound to the cores of two CPUs that share none with others");
        return;
    }
    let files = |a: &Assignment| {
        vec![
            ("hosts", open_mpi_host_file(a)),
            ("ranks", open_mpi_rank_file(a)),
        ]
    };
    let script = |a: &Assignment| {
        let launched = launched(launcher, "OMPI_COMM_WORLD_RANK", a);
        // The rig tells both versions not to bind.
        format!("unset PRTE_MCA_hwloc_default_binding_policy\n{launched}")
    };
    let Some(found) = places("with_nodes --free", files, script) else {
        return;
    };
    check_nodes(&found);
    for (ranks, of_ranks) in found.iter().zip(PLACEMENTS) {
        let cores: Vec<String> = ranks.iter().map(|r| r.1.clone()).collect();
        let asked = assignment(of_ranks);
        let asked: Vec<String> = asked.ranks().iter().map(|s| s.core.to_string()).collect();
        assert_eq!(cores, asked, "{of_ranks:?}");
    }
}

fn installed(launcher: &str) -> bool {
    let there = Command::new(launcher).arg("--version").output();
    let there = there.is_ok_and(|out| out.status.success());
    if !there {
        skip(&format!("{launcher} is not there"));
    }
    there
}

/// Open MPI 5 and MPICH 5, which tests/mpi/install puts there.
fn beside(name: &str) -> String {
    root()
        .join("target/test-mpi")
        .join(name)
        .join("bin/mpirun")
        .display()
        .to_string()
}

#[test]
fn open_mpi_4_binds_each_rank_to_the_core_of_the_rank_file() {
    if installed("mpirun.openmpi") {
        open_mpi("mpirun.openmpi --hostfile hosts --rankfile ranks");
    }
}

#[test]
fn open_mpi_5_binds_each_rank_to_the_core_of_the_rank_file() {
    let launcher = beside("openmpi5");
    if installed(&launcher) {
        open_mpi(&format!(
            "{launcher} --hostfile hosts --map-by rankfile:FILE=ranks"
        ));
    }
}

/// The host file of MPICH, and the machine file of Intel MPI, whose launcher has the same origin.
fn mpich(launcher: &str) {
    if !installed(launcher) {
        return;
    }
    for file in ["hosts", "machines"] {
        let files = |a: &Assignment| {
            vec![
                ("hosts", mpich_host_file(a)),
                ("machines", intel_machine_file(a)),
            ]
        };
        let script = |a: &Assignment| {
            let ranks = a.ranks().len();
            launched(&format!("{launcher} -f {file} -n {ranks}"), "PMI_RANK", a)
        };
        let Some(found) = places("with_nodes", files, script) else {
            return;
        };
        check_nodes(&found);
    }
}

#[test]
fn mpich_4_puts_each_rank_where_the_host_file_says() {
    mpich("mpirun.mpich");
}

#[test]
fn mpich_5_puts_each_rank_where_the_host_file_says() {
    mpich(&beside("mpich5"));
}

#[test]
fn slurm_puts_each_rank_where_the_script_and_its_host_file_say() {
    let files = |a: &Assignment| {
        let options = SlurmOptions {
            switches: None,
            exclusive: true,
            host_file: "hosts".to_owned(),
            command: vec!["sh".to_owned(), "-c".to_owned(), says("SLURM_PROCID")],
        };
        vec![
            ("hosts", slurm_host_file(a)),
            ("script", slurm_script(a, &options)),
        ]
    };
    let script = |a: &Assignment| {
        // `sbatch --wait` polls only every few seconds. A controller that does not answer in time
        // says nothing of its jobs.
        format!(
            "for attempt in 1 2 3; do sbatch --quiet -o out script || exit 1\n\
             while ! jobs=$(squeue -h) || [ -n \"$jobs\" ]; do sleep 0.1; done\n\
             [ \"$(grep -c '^rank ' out)\" = {} ] && break; done; cat out",
            a.ranks().len()
        )
    };
    if let Some(found) = places("with_slurm", files, script) {
        check_nodes(&found);
    }
}
