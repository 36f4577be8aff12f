//! Which processes of a made-up node belong to a job.

#![allow(clippy::unwrap_used)]

mod common;

use common::Proc;
use idlewave_gang_slurm::{Found, How, JobId, Step, find};
use idlewave_sys::Uid;

const USER: u32 = 1000;
const OTHER: u32 = 1001;
const SCOPE: &str = "/system.slice/slurmstepd.scope";

fn found(proc: &Proc, job: u32) -> Found {
    find(proc.root(), JobId::new(job).unwrap(), Uid::new(USER)).unwrap()
}

fn numbers<'a>(pids: impl IntoIterator<Item = &'a idlewave_units::Pid>) -> Vec<u32> {
    pids.into_iter().map(|p| p.get()).collect()
}

fn processes(found: &Found) -> Vec<u32> {
    numbers(found.processes.keys())
}

/// Two jobs of the user and one of another, on a node of cgroup v2.
fn node() -> Proc {
    let proc = Proc::new();
    let group = |rest: &str| format!("{SCOPE}/{rest}");
    proc.add(9, 1, "slurmd", 0, "/system.slice/slurmd.service", &[]);
    proc.add(
        20,
        1,
        "slurmstepd",
        0,
        &group("job_7/step_batch/slurm"),
        &[],
    );
    proc.add(
        21,
        20,
        "slurm_script",
        USER,
        &group("job_7/step_batch/user/task_0"),
        &["SLURM_JOB_ID=7", "SLURM_PROCID=0", "SLURM_LOCALID=0"],
    );
    proc.add(
        22,
        21,
        "srun",
        USER,
        &group("job_7/step_batch/user/task_0"),
        &["SLURM_JOB_ID=7"],
    );
    proc.add(30, 1, "slurmstepd", 0, &group("job_7/step_0/slurm"), &[]);
    proc.add(
        31,
        30,
        "solver",
        USER,
        &group("job_7/step_0/user/task_4"),
        &[
            "SLURM_JOB_ID=7",
            "SLURM_PROCID=4",
            "SLURM_LOCALID=1",
            "SLURMD_NODENAME=n3",
        ],
    );
    // A helper without variables, whose parent is gone.
    proc.add(
        32,
        1,
        "helper",
        USER,
        &group("job_7/step_0/user/task_4"),
        &[],
    );
    proc.add(
        40,
        1,
        "solver",
        USER,
        &group("job_8/step_0/user/task_0"),
        &["SLURM_JOB_ID=8", "SLURM_PROCID=0"],
    );
    proc.add(
        50,
        1,
        "solver",
        OTHER,
        &group("job_9/step_0/user/task_0"),
        &["SLURM_JOB_ID=9", "SLURM_PROCID=0"],
    );
    proc.add(
        60,
        1,
        "bash",
        USER,
        "/user.slice/session-1.scope",
        &["HOME=/home/u"],
    );
    proc
}

#[test]
fn a_job_has_what_is_in_its_groups_and_launchers_go_on() {
    let found = found(&node(), 7);
    assert_eq!(processes(&found), [21, 31, 32]);
    let launchers: Vec<_> = found
        .launchers
        .iter()
        .map(|(pid, launcher)| (pid.get(), launcher.name.as_str()))
        .collect();
    assert_eq!(launchers, [(22, "srun")]);
    assert_eq!(numbers(&found.others), [20, 30]);
    assert_eq!(numbers(&found.unknown), []);
    let solver = &found.processes[&idlewave_units::Pid::new(31)];
    assert_eq!(solver.step, Some(Step::Number(0)));
    assert_eq!(solver.task.map(|t| t.get()), Some(4));
    assert_eq!(solver.local, Some(1));
    assert_eq!(solver.node.as_deref(), Some("n3"));
    assert_eq!((solver.how, solver.start), (How::Group, 1031));
    let helper = &found.processes[&idlewave_units::Pid::new(32)];
    assert_eq!(
        (helper.task.map(|t| t.get()), helper.local),
        (Some(4), None)
    );
    assert_eq!(helper.how, How::Group);
    let groups: Vec<&str> = found.step_groups.iter().map(String::as_str).collect();
    assert_eq!(
        groups,
        [
            format!("{SCOPE}/job_7/step_0/user"),
            format!("{SCOPE}/job_7/step_batch/user")
        ]
    );
}

#[test]
fn a_job_of_another_user_is_left_alone_whatever_it_is_called() {
    let proc = node();
    assert_eq!(processes(&found(&proc, 8)), [40]);
    let others = found(&proc, 9);
    assert_eq!(processes(&others), []);
    assert_eq!(numbers(&others.others), [50]);
    // A process whose variables claim job 7 counts only if it is the user's.
    proc.add(70, 1, "thief", OTHER, "/", &["SLURM_JOB_ID=7"]);
    proc.add_with_users(71, 1, "sudo", [USER, 0, 0], "/", &["SLURM_JOB_ID=7"]);
    proc.add_with_users(72, 31, "sudo", [USER, USER, 0], "/", &[]);
    proc.add(73, 72, "below", USER, "/", &[]);
    assert_eq!(processes(&found(&proc, 7)), [21, 31, 32]);
}

#[test]
fn without_groups_variables_and_parents_tell() {
    let proc = Proc::new();
    proc.add(20, 1, "slurmstepd", 0, "/", &[]);
    proc.add(
        21,
        20,
        "solver",
        USER,
        "/",
        &[
            "SLURM_JOBID=7",
            "SLURM_STEPID=2",
            "SLURM_PROCID=1",
            "SLURM_LOCALID=0",
        ],
    );
    proc.add(22, 21, "clean", USER, "/", &[]);
    proc.add(23, 22, "cleaner", USER, "/", &["HOME=/"]);
    proc.add(24, 23, "elsewhere", USER, "/", &["SLURM_JOB_ID=8"]);
    proc.add(25, 24, "below", USER, "/", &[]);
    // Within a salloc: mpirun beside all steps, and what it starts.
    proc.add(30, 1, "mpirun.openmpi", USER, "/", &["SLURM_JOB_ID=7"]);
    proc.add(
        31,
        30,
        "solver",
        USER,
        "/",
        &["SLURM_JOB_ID=7", "OMPI_COMM_WORLD_RANK=0"],
    );
    assert_eq!(processes(&found(&proc, 8)), [24, 25]);
    let found = found(&proc, 7);
    let told: Vec<_> = found
        .processes
        .iter()
        .map(|(pid, p)| (pid.get(), p.step, p.task.map(|t| t.get()), p.how))
        .collect();
    let step = Some(Step::Number(2));
    assert_eq!(
        told,
        [
            (21, step, Some(1), How::Environment),
            (22, step, Some(1), How::Parent),
            (23, step, Some(1), How::Parent),
            (31, None, None, How::Environment),
        ]
    );
    assert_eq!(numbers(found.launchers.keys()), [30]);
}

#[test]
fn every_launcher_is_exempt_and_its_children_are_not() {
    for file in idlewave_gang_slurm::LAUNCHERS {
        // What a process calls itself, truncated by the kernel.
        let name = file.get(..15).unwrap_or(file);
        let proc = Proc::new();
        proc.add(30, 1, name, USER, "/", &["SLURM_JOB_ID=7"]);
        proc.add(31, 30, "rank", USER, "/", &[]);
        let found = found(&proc, 7);
        assert_eq!(numbers(found.launchers.keys()), [30], "{name}");
        assert_eq!(processes(&found), [31], "{name}");
    }
}

#[test]
fn a_group_tells_more_than_variables() {
    let proc = Proc::new();
    let group = format!("{SCOPE}/job_7/step_0/user/task_0");
    let liar = [
        "SLURM_JOB_ID=8",
        "SLURM_PROCID=5",
        "SLURM_LOCALID=6",
        "SLURM_STEP_ID=3",
    ];
    proc.add(21, 1, "liar", USER, &group, &liar);
    assert_eq!(processes(&found(&proc, 8)), []);
    let seven = found(&proc, 7);
    let process = &seven.processes[&idlewave_units::Pid::new(21)];
    assert_eq!(
        (process.task.map(|t| t.get()), process.local),
        (Some(0), None)
    );
    assert_eq!(process.step, Some(Step::Number(0)));
}

#[test]
fn slurm_s_own_part_of_a_step_is_never_stopped() {
    let proc = Proc::new();
    let group = format!("{SCOPE}/job_7/step_0/slurm");
    proc.add(21, 1, "renamed", USER, &group, &["SLURM_JOB_ID=7"]);
    let found = found(&proc, 7);
    assert_eq!(processes(&found), []);
    assert_eq!(numbers(found.launchers.keys()), [21]);
}

#[test]
fn what_cannot_be_read_is_unknown_unless_its_parent_tells() {
    let proc = Proc::new();
    proc.add(20, 1, "solver", USER, "/", &["SLURM_JOB_ID=7"]);
    proc.add(21, 20, "child", USER, "/", &[]);
    proc.add(22, 1, "orphan", USER, "/", &[]);
    proc.hide_variables(21);
    proc.hide_variables(22);
    let found = found(&proc, 7);
    assert_eq!(processes(&found), [20, 21]);
    assert_eq!(numbers(&found.unknown), [22]);
}

#[test]
fn parents_in_a_circle_end() {
    let proc = Proc::new();
    proc.add(20, 21, "a", USER, "/", &[]);
    proc.add(21, 20, "b", USER, "/", &[]);
    proc.add(22, 22, "c", USER, "/", &[]);
    assert_eq!(found(&proc, 7), Found::default());
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let job = JobId::new(7).unwrap();
    let error = find(std::path::Path::new("/nonexistent/proc"), job, Uid::new(1)).unwrap_err();
    assert!(
        error.to_string().contains("read /nonexistent/proc"),
        "{error}"
    );
}
