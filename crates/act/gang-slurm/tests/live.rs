//! Jobs of a real Slurm, on nodes that are namespaces of this machine (tests/nodes/README.md).

#![allow(clippy::unwrap_used)]

mod common;

use common::on_cluster;
use common::rig::{skip, turn};
use idlewave_gang_slurm::conf::Setup;
use idlewave_gang_slurm::{Job, JobId, ListPids, Moment, find};
use idlewave_sys::Uid;
use idlewave_units::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

/// Waits until a command's output matches a pattern, and leaves that output in `seen`: the next
/// output may differ.
const WAIT: &str = r#"
await() {
    for _ in $(seq 900); do
        seen=$($2 || true)
        case "$seen" in $1) return ;; esac
        sleep 0.2
    done
    echo "no $1 of $2, but $seen" >&2
    exit 1
}
"#;

/// A directory that all nodes see, unlike /tmp.
fn shared() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// What other tests run on a node, selected by the variable DO.
#[test]
#[ignore = "a part of the others"]
fn acts_on_a_node() {
    let variable = |name: &str| env::var(name).unwrap();
    match variable("DO").as_str() {
        "find" => tell(variable("JOB").parse().unwrap(), &variable("AT")),
        "install" => {
            let setup = Setup::beside(Path::new(&variable("SLURM_CONF"))).unwrap();
            let idlewave = Path::new(&variable("DIR")).join("idlewave");
            for change in setup.install(&idlewave, 2, []).unwrap().plan.changes {
                println!("change {change}");
            }
        }
        "uninstall" => {
            let setup = Setup::beside(Path::new(&variable("SLURM_CONF"))).unwrap();
            assert!(setup.uninstall().unwrap());
        }
        "remove" => {
            let setup = Setup::beside(Path::new(&variable("SLURM_CONF"))).unwrap();
            setup.remove_scripts().unwrap();
        }
        other => panic!("{other} is nothing to do"),
    }
}

/// Prints what is found of a job, what scontrol lists on this node, and what of that was not found.
fn tell(job: JobId, node: &str) {
    // Slurm knows nothing of a node where no step runs.
    let list = ListPids::ask(OsStr::new("scontrol"), job, Some(node)).unwrap_or_else(|e| {
        println!("unlisted {e}");
        ListPids::default()
    });
    let mut found = find(Path::new("/proc"), job, Uid::ROOT).unwrap();
    // Clusters of other tests have a job of this number as well.
    let mark = format!(
        "IDLEWAVE_TEST_NODES={}",
        env::var("IDLEWAVE_TEST_NODES").unwrap()
    );
    let ours = |pid: &Pid| {
        let block = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        block
            .split(|byte| *byte == 0)
            .any(|one| one == mark.as_bytes())
    };
    found.processes.retain(|pid, _| ours(pid));
    found.launchers.retain(|pid, _| ours(pid));
    let name = |pid| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.trim().to_owned()
    };
    for (pid, process) in &found.processes {
        let on = process.node.as_deref().unwrap_or("-");
        let step = process.step.map_or("-".to_owned(), |s| s.to_string());
        let task = process.task.map_or("-".to_owned(), |t| t.to_string());
        println!(
            "process {} {} {step} {task} {on} {:?}",
            name(*pid),
            pid,
            process.how
        );
    }
    for (pid, launcher) in &found.launchers {
        println!("launcher {} {pid}", launcher.name);
    }
    for (pid, listed) in &list.processes {
        let step = listed.step.map_or("-".to_owned(), |s| s.to_string());
        let task = listed.task.map_or("-".to_owned(), |t| t.to_string());
        println!("listed {} {pid} {step} {task} {node}", name(*pid));
    }
    for pid in list.missing_from(&found) {
        println!("missing {} {pid}", name(pid));
    }
}

/// The remaining words of the lines whose first word is `first`.
fn lines<'a>(said: &'a str, first: &str) -> BTreeSet<Vec<&'a str>> {
    let words = said.lines().map(|l| l.split(' ').collect::<Vec<_>>());
    words
        .filter(|w| w.first() == Some(&first))
        .map(|w| w[1..].to_vec())
        .collect()
}

#[test]
fn the_processes_of_a_job_are_found_on_both_nodes_and_no_others() {
    let _turn = turn();
    let dir = shared();
    // Each task has a child whose only variable is the rig's mark. A second job must not be found.
    // Only this rig has sleeps of these durations.
    let script = format!(
        r#"{WAIT}
cat >"$DIR/task" <<END
#!/bin/sh
env -i IDLEWAVE_TEST_NODES=$IDLEWAVE_TEST_NODES sleep 7$$1 &
sleep 7$$2
END
chmod +x "$DIR/task"
sbatch -Q -N 2 -n 2 -o "$DIR/1.out" --wrap "srun $DIR/task"
sbatch -Q -N 2 -n 2 -o "$DIR/2.out" --wrap "srun sleep 7$$3"
tasks() {{ pgrep -c -x -f "([^ ]*/)?sleep 7$$[123]"; }}
await 6 tasks
for node in $IDLEWAVE_NODES; do
    DO=find JOB=1 AT=$node $NODE "$node" $ACT
done
scancel 1 2"#
    );
    let Some(said) = on_cluster("2", &script, dir.path()) else {
        return;
    };
    assert_eq!(lines(&said, "missing"), BTreeSet::new());
    let processes = lines(&said, "process");
    // On each node the task's shell and both of its children; the script of the job on the first.
    let mut told: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    let mut nodes = BTreeSet::new();
    for process in &processes {
        let [name, _, step, task, node, how] = process[..] else {
            panic!("{process:?}");
        };
        if step == "0" {
            told.entry((task, how)).or_default().push(name);
            nodes.insert(node);
        } else {
            assert_eq!((name, task), ("slurm_script", "0"));
        }
    }
    assert_eq!(nodes.len(), 2);
    for task in ["0", "1"] {
        assert_eq!(told[&(task, "Environment")], ["sleep", "task"]);
        assert_eq!(told[&(task, "Parent")], ["sleep"]);
    }
    assert_eq!((told.len(), processes.len()), (4, 7));
    let launchers = lines(&said, "launcher");
    assert!(launchers.iter().all(|l| l[0] == "srun") && !launchers.is_empty());
    // Slurm says the same of the tasks, each node of its own tasks.
    let listed = lines(&said, "listed");
    for process in &processes {
        let [_, pid, step, task, node, _] = process[..] else {
            panic!("{process:?}");
        };
        let of_it = listed.iter().find(|l| l[1] == pid).unwrap();
        // The script of sbatch is not told that it is a step.
        assert_eq!(of_it[2], if step == "-" { "batch" } else { step });
        assert!(of_it[3] == task || of_it[3] == "-", "{of_it:?}");
        if step == "0" {
            assert_eq!(of_it[4], node);
        }
    }
}

#[test]
fn ranks_below_mpirun_are_found_and_its_daemons_are_not_stopped() {
    let _turn = turn();
    if !std::process::Command::new("mpirun.openmpi")
        .arg("--version")
        .output()
        .is_ok_and(|o| o.status.success())
    {
        return skip("mpirun.openmpi is not there");
    }
    let dir = shared();
    let script = format!(
        r#"{WAIT}
salloc -Q -N 2 -n 2 mpirun.openmpi --map-by node sleep 7$$4 >"$DIR/out" 2>&1 &
tasks() {{ pgrep -c -x -f "([^ ]*/)?sleep 7$$4"; }}
await 2 tasks
for node in $IDLEWAVE_NODES; do
    DO=find JOB=1 AT=$node $NODE "$node" $ACT
done
scancel 1
wait || true"#
    );
    let Some(said) = on_cluster("--slots 1 2", &script, dir.path()) else {
        return;
    };
    assert_eq!(lines(&said, "missing"), BTreeSet::new());
    let processes = lines(&said, "process");
    let names: Vec<&str> = processes.iter().map(|p| p[0]).collect();
    assert_eq!(names, ["sleep", "sleep"]);
    let launchers: BTreeSet<&str> = lines(&said, "launcher").iter().map(|l| l[0]).collect();
    assert!(
        launchers.contains("orted") && launchers.contains("srun"),
        "{launchers:?}"
    );
    assert!(
        launchers
            .iter()
            .any(|l| l.starts_with("mpirun") || *l == "orterun")
    );
}

#[test]
fn slurm_s_slices_go_its_prologs_tell_of_jobs_and_all_of_it_is_put_back() {
    let _turn = turn();
    let dir = shared();
    let script = format!(
        r#"{WAIT}
cp "$SLURM_CONF" "$DIR/before"
cat >"$DIR/idlewave" <<'END'
#!/bin/sh
to=${{0%/*}}/$3.$SLURM_JOB_ID
env | grep ^SLURM_ >"$to.part"
mv "$to.part" "$to"
END
chmod +x "$DIR/idlewave"
states() {{
    all=$(squeue -h -o %t) || {{ echo unknown; return; }}
    echo "$all" | sort | tr -d '\n'
}}
two() {{ for _ in 1 2; do sbatch -Q -N 2 -n 2 -o /dev/null --wrap "srun sleep 600"; done; }}
over() {{ scancel -u root; await "" states; }}
idle() {{ sinfo -h -t idle -o %D 2>/dev/null; }}
restart() {{
    pid=$(cat "${{SLURM_CONF%/*}}/ctld.pid")
    scontrol shutdown slurmctld
    while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
    slurmctld -D </dev/null >/dev/null 2>&1 &
    await 2 idle
}}
two
await RS states
echo "before $seen"
over
DO=install $ACT
restart
two
await RR states
echo "with $seen"
over
ended() {{ ls "$DIR" | grep -c "^epilog\.[0-9]*$"; }}
await 2 ended
DO=uninstall $ACT
cmp "$SLURM_CONF" "$DIR/before" && echo same
restart
DO=remove $ACT
two
await RS states
echo "after $seen"
over
echo "calls $(ls "$DIR" | grep -c "log\.")""#
    );
    let Some(said) = on_cluster("--gang 5 --slots 1 --login 2", &script, dir.path()) else {
        return;
    };
    for line in ["before RS", "with RR", "same", "after RS", "calls 4"] {
        assert!(said.lines().any(|l| l == line), "no {line:?}");
    }
    let changed: BTreeSet<_> = lines(&said, "change").iter().map(|c| c.join(" ")).collect();
    assert!(
        changed
            .iter()
            .any(|c| c.ends_with("PreemptMode=OFF, was GANG")),
        "{changed:?}"
    );
    for id in ["3", "4"] {
        for (word, moment) in [
            ("prolog", Moment::PrologController),
            ("epilog", Moment::EpilogController),
        ] {
            let text = fs::read_to_string(dir.path().join(format!("{word}.{id}"))).unwrap();
            let job = Job::from_environment(|name| {
                let mut pairs = text.lines().filter_map(|l| l.split_once('='));
                pairs.find(|(n, _)| *n == name).map(|(_, v)| v.to_owned())
            })
            .unwrap();
            assert_eq!(job.id, id.parse().unwrap());
            assert_eq!(job.user, Uid::ROOT);
            assert_eq!(job.partition.as_deref(), Some("nodes"));
            assert_eq!(job.moment, Some(moment));
            let nodes = job.nodes.unwrap();
            let ends: Vec<&str> = nodes.iter().map(|n| &n[n.len() - 2..]).collect();
            assert_eq!(ends, ["n1", "n2"]);
        }
    }
}
